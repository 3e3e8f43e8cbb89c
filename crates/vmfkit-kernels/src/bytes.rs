//! Numbers as bytes and bytes as numbers, without copies.

use crate::float::Float;

mod sealed {
    /// Types without padding for which any bit pattern is a value.
    pub trait Plain: Copy + Sync + 'static {}
    impl Plain for f32 {}
    impl Plain for f64 {}
    impl Plain for u32 {}
    impl Plain for u64 {}
}

/// Types without padding for which any bit pattern is a value: `f32`, `f64`, `u32`, `u64`.
pub trait Plain: sealed::Plain {}

impl<T: sealed::Plain> Plain for T {}

/// The bytes of the numbers, in native byte order.
#[inline]
pub fn as_bytes<T: Plain>(numbers: &[T]) -> &[u8] {
    // SAFETY: the trait is sealed, and its types have no padding; bytes need no alignment, and there are `size_of_val` of them.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}

/// The bytes as numbers in native byte order; `None` if they are misaligned or end within a number.
#[inline]
pub fn from_bytes<T: Float>(bytes: &[u8]) -> Option<&[T]> {
    // SAFETY: `Float` is sealed; any bytes are an `f32` or `f64`.
    let (before, numbers, behind) = unsafe { bytes.align_to::<T>() };
    (before.is_empty() && behind.is_empty()).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip_if_they_are_aligned_and_whole() {
        let numbers = [1.5f64, -0.0, 3e300];
        let bytes = as_bytes(&numbers);
        assert_eq!(bytes, numbers.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<_>>());
        assert_eq!(from_bytes::<f64>(bytes), Some(&numbers[..]));
        assert_eq!(from_bytes::<f64>(&bytes[1..17]), None);
        assert_eq!(from_bytes::<f64>(&bytes[..23]), None);
        assert_eq!(from_bytes::<f32>(&bytes[4..12]).map(<[f32]>::len), Some(2));
    }
}
