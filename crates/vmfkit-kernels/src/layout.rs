//! The operands of kernel calls, and how components are split into calls.

/// Pointers to runs of `WIDTH` neighbouring values, one run for each term of a sum.
#[derive(Clone, Copy)]
pub struct Runs<T> {
    pub first: *const T,
    /// The distance from one term to the next.
    pub step: usize,
    /// The distance to the second run, if a kernel call computes two.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub beside: usize,
}

/// The number of `f32` coordinates in 128 bits of a register.
pub(crate) const QUAD: usize = 4;

/// The operands of a `small_k` kernel call: a group of directions times `WIDTH` rows.
#[derive(Debug)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub struct Panel<T> {
    pub dim: usize,
    /// `WIDTH` rows of `dim` values.
    pub rows: *const T,
    /// Quad by quad, each component by component.
    pub directions: *const T,
    /// One value per component.
    pub bias: *const T,
    /// The sums of the first component, and the stride between components.
    pub sums: (*mut T, usize),
    /// Memory to prefetch, and the number of its values.
    pub ahead: (*const T, usize),
}

/// The index of the factor of term p for component i. Ungrouped, the terms of a component are
/// contiguous and components are `stride` apart; grouped, the components of a term are contiguous.
#[inline(always)]
pub(crate) fn factor_index<const GROUPED: bool, const HEIGHT: usize>(p: usize, i: usize, stride: usize) -> usize {
    if GROUPED { p * HEIGHT + i } else { i * stride + p }
}

/// Splits components into groups of nearly equal size, one kernel call each: the first component of
/// each group, and its size.
#[inline(always)]
pub(crate) fn groups(components: usize, highest: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = components.div_ceil(highest);
    (0..count).map(move |group| {
        let (from, to) = (group * components / count, (group + 1) * components / count);
        (from, to - from)
    })
}

/// Calls a macro with the height as a literal from 1 to `most`, a compile-time constant.
macro_rules! by_height {
    ($height:expr, $most:expr, $of_height:ident) => {
        match $height {
            1 => $of_height!(1),
            2 => $of_height!(2),
            3 => $of_height!(3),
            4 => $of_height!(4),
            5 => $of_height!(5),
            6 => $of_height!(6),
            7 if $most >= 7 => $of_height!(7),
            8 if $most >= 8 => $of_height!(8),
            9 if $most >= 9 => $of_height!(9),
            10 if $most >= 10 => $of_height!(10),
            11 if $most >= 11 => $of_height!(11),
            12 if $most >= 12 => $of_height!(12),
            _ => unreachable!("groups have 1 to {} members", $most),
        }
    };
}
pub(crate) use by_height;
