//! Where the kernels find their operands, and how many components a call serves.

/// Addresses of runs of neighbours, term by term.
#[derive(Clone, Copy)]
pub struct Runs<T> {
    pub first: *const T,
    /// From a term to the next.
    pub step: usize,
    /// From a run to the one beside it, where a kernel call serves two.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub beside: usize,
}

/// Coordinates in 128 bits of a register, in single precision.
pub(crate) const QUAD: usize = 4;

/// The operands of a kernel call of `small_k`: the products of a group of directions with `WIDTH` rows.
#[derive(Debug)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub struct Panel<T> {
    pub dim: usize,
    /// `WIDTH` rows of `dim` values.
    pub rows: *const T,
    /// Quad by quad, each component by component.
    pub directions: *const T,
    /// One for each component.
    pub bias: *const T,
    /// The sums of the first component, and the distance to those of the next.
    pub sums: (*mut T, usize),
    /// Memory that is prefetched meanwhile, and the number of its values.
    pub ahead: (*const T, usize),
}

/// The index of the factor of term p for component i: either the terms of a component follow one another, `stride` from those of the next
/// component; or, grouped, the components of a term do.
#[inline(always)]
pub(crate) fn factor_index<const GROUPED: bool, const HEIGHT: usize>(p: usize, i: usize, stride: usize) -> usize {
    if GROUPED { p * HEIGHT + i } else { i * stride + p }
}

/// Groups of components for one kernel call each, as equal as can be: the first of a group, and how many there are.
#[inline(always)]
pub(crate) fn groups(components: usize, highest: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = components.div_ceil(highest);
    (0..count).map(move |group| {
        let (from, to) = (group * components / count, (group + 1) * components / count);
        (from, to - from)
    })
}

/// Calls a macro with the height as a literal, from 1 to `most`, which is known when this is compiled.
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
