//! [`SparseResponsibilities`]: the nonzero responsibilities of one component, for the second product
//! of an E step where most are 0.

use crate::float::Real;
use crate::softmax::{combine, runs};

/// The rows for which one component has a responsibility above 0, in ascending order, with these
/// responsibilities.
///
/// Both vectors have `WIDTH` spare values at the end, so that whole runs can be stored.
#[derive(Debug, Default)]
pub struct SparseResponsibilities<T> {
    pub(crate) len: usize,
    pub(crate) rows: Vec<u32>,
    pub(crate) values: Vec<T>,
}

impl<T: Real> SparseResponsibilities<T> {
    /// An empty list with capacity for `rows` rows.
    pub fn new(rows: usize) -> Self {
        let capacity = rows.next_multiple_of(T::WIDTH) + T::WIDTH;
        SparseResponsibilities { len: 0, rows: vec![0; capacity], values: vec![T::ZERO; capacity] }
    }

    /// The number of rows.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if all responsibilities of the component are 0.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The rows and their responsibilities.
    #[inline(always)]
    pub fn iter(&self) -> impl Iterator<Item = (usize, T)> {
        self.rows[..self.len].iter().zip(&self.values).map(|(&row, &responsibility)| (row as usize, responsibility))
    }

    /// Lists the rows whose responsibility is above 0, without intrinsics.
    #[inline(always)]
    pub(crate) fn list<const WIDTH: usize>(&mut self, responsibilities: &[T]) {
        self.len = 0;
        for (run, responsibilities) in runs::<T, WIDTH>(responsibilities).enumerate() {
            if combine(*responsibilities, |a, b| if a > b { a } else { b }) > T::ZERO {
                let mut count = 0;
                let rows: &mut [u32; WIDTH] = (&mut self.rows[self.len..][..WIDTH]).try_into().expect("a run of this width");
                let values: &mut [T; WIDTH] = (&mut self.values[self.len..][..WIDTH]).try_into().expect("a run of this width");
                // Writes every lane and overwrites zeros: a branch would be mispredicted.
                for (lane, &responsibility) in responsibilities.iter().enumerate() {
                    rows[count % WIDTH] = (run * WIDTH + lane) as u32;
                    values[count % WIDTH] = responsibility;
                    count += usize::from(responsibility > T::ZERO);
                }
                self.len += count;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::Kernels;
    use crate::gemm::{RowSums, list_responsibilities};
    use crate::instructions::{Instructions, Work, on_every_processor, with_best_instructions};
    use crate::test_numbers::numbers;

    /// Sums of the rows whose responsibility is above 0.
    #[derive(Clone, Copy)]
    struct Sums<'a, T> {
        rows: &'a [T],
        dim: usize,
        /// Of each row, in whole runs.
        responsibilities: &'a [T],
    }

    impl<T: Kernels> Work for Sums<'_, T> {
        /// The listed rows and their responsibilities, and what they add up to.
        type Output = (Vec<(usize, T)>, Vec<f64>);

        #[inline(always)]
        fn run<I: Instructions>(self) -> Self::Output {
            let Sums { rows, dim, responsibilities } = self;
            let (mut listed, mut sums, mut total) =
                (SparseResponsibilities::new(responsibilities.len()), RowSums::default(), vec![0.0; 2 * dim]);
            for _ in 0..2 {
                list_responsibilities::<T, I>(responsibilities, &mut listed);
                sums.add_sparse_rows::<I>(rows, dim, &listed, (1, 2));
            }
            sums.flush(&mut total, dim);
            (listed.iter().collect(), total)
        }
    }

    fn check<T: Kernels + std::fmt::Debug>(rounding: f64) {
        // Every number of runs in a span, several spans, and columns that do not fill the last run.
        for (dim, count, every) in (T::WIDTH..200).map(|dim| (dim, 33, 3)).chain([(130, 96, 1), (130, 96, 50), (130, 5, 7)]) {
            let (rows, mut responsibilities) = (numbers::<T>(count * dim, 1), numbers::<T>(count, 2));
            for (row, responsibility) in responsibilities.iter_mut().enumerate() {
                *responsibility = if row % every == 0 { T::ONE + *responsibility } else { T::ZERO };
            }
            responsibilities.resize(count.next_multiple_of(T::WIDTH), T::ZERO);
            let (listed, sums) = on_every_processor(Sums { rows: &rows, dim, responsibilities: &responsibilities });
            assert_eq!(listed, (0..count).step_by(every).map(|row| (row, responsibilities[row])).collect::<Vec<_>>());
            assert!(sums[..dim].iter().all(|sum| *sum == 0.0), "another component's");
            for (column, found) in sums[dim..].iter().enumerate() {
                let expected: f64 = listed
                    .iter()
                    .map(|(row, responsibility)| 2.0 * responsibility.to_f64() * rows[row * dim + column].to_f64())
                    .sum();
                assert!((found - expected).abs() < rounding, "{dim} {count} {column}: {found} {expected}");
            }
        }
    }

    #[test]
    fn lists_nonzero_responsibilities_and_sums_agree_on_avx2_and_avx512() {
        check::<f32>(1e-4);
        check::<f64>(1e-13);
    }

    #[test]
    fn zero_responsibilities_give_an_empty_list() {
        struct Empty;
        impl Work for Empty {
            type Output = usize;
            fn run<I: Instructions>(self) -> usize {
                let mut listed = SparseResponsibilities::new(32);
                list_responsibilities::<f32, I>(&[1.0; 32], &mut listed);
                list_responsibilities::<f32, I>(&[0.0; 32], &mut listed);
                listed.len
            }
        }
        assert_eq!(with_best_instructions(Empty), 0);
        assert_eq!(on_every_processor(Sums { rows: &[1.0f64; 40], dim: 20, responsibilities: &[0.0; 8] }).1, vec![0.0; 40]);
    }
}
