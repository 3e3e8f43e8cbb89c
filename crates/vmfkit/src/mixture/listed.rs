//! Rows that have a share in a component, one by one: the second product of an E step where most shares are nothing.

use super::log_sum_exp::{combine, runs};
use super::products::{Instructions, Real};

/// The rows of a piece that one component has a share of, and the shares. Both have places to spare behind the last.
#[derive(Debug, Default)]
pub(super) struct Listed<T> {
    pub(super) len: usize,
    pub(super) rows: Vec<u32>,
    pub(super) shares: Vec<T>,
}

impl<T: Real> Listed<T> {
    /// Room for so many rows.
    pub(super) fn new(rows: usize) -> Self {
        let places = rows.next_multiple_of(T::WIDTH) + T::WIDTH;
        Listed { len: 0, rows: vec![0; places], shares: vec![T::ZERO; places] }
    }

    /// Lists the rows whose shares are above 0.
    #[inline(always)]
    pub(super) fn fill<I: Instructions>(&mut self, shares: &[T]) {
        assert!(shares.len().is_multiple_of(T::WIDTH) && shares.len() + T::WIDTH <= self.rows.len().min(self.shares.len()));
        T::list_shares::<I>(shares, self);
    }

    #[inline(always)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, T)> {
        self.rows[..self.len].iter().zip(&self.shares).map(|(&row, &share)| (row as usize, share))
    }
}

/// [`Listed::fill`] for any processor: shares in whole runs.
#[inline(always)]
pub(super) fn list_shares<T: Real, const WIDTH: usize>(shares: &[T], listed: &mut Listed<T>) {
    listed.len = 0;
    for (run, shares) in runs::<T, WIDTH>(shares).enumerate() {
        if combine(*shares, |a, b| if a > b { a } else { b }) > T::ZERO {
            let mut count = 0;
            let rows: &mut [u32; WIDTH] = (&mut listed.rows[listed.len..][..WIDTH]).try_into().expect("a run of this width");
            let places: &mut [T; WIDTH] = (&mut listed.shares[listed.len..][..WIDTH]).try_into().expect("a run of this width");
            // Every lane is written, and those without a share are written over: which lanes have one is not to be guessed.
            for (lane, &share) in shares.iter().enumerate() {
                rows[count % WIDTH] = (run * WIDTH + lane) as u32;
                places[count % WIDTH] = share;
                count += usize::from(share > T::ZERO);
            }
            listed.len += count;
        }
    }
}

/// Adds the sums of `SPAN` runs of columns of the listed rows times their shares to `sums`, run by run, or leaves them there. Rows begin `columns.1` apart; the last run begins `last` columns behind
/// the first one.
///
/// # Safety
/// From `columns.0 + row * columns.1` on, the columns of all runs are readable for each of the rows; `SPAN * WIDTH` values from `sums` on are there to be changed.
#[inline(always)]
pub(super) unsafe fn listed_products<T: Real, I: Instructions, const ADD: bool, const SPAN: usize, const WIDTH: usize>(
    listed: &Listed<T>,
    columns: (*const T, usize),
    last: usize,
    sums: *mut T,
) {
    // SAFETY: the caller's promise.
    let sums = unsafe { &mut *sums.cast::<[[T; WIDTH]; SPAN]>() };
    let mut products = if ADD { *sums } else { [[T::ZERO; WIDTH]; SPAN] };
    for (row, share) in listed.iter() {
        for (run, products) in products.iter_mut().enumerate() {
            let column = if run < SPAN - 1 { run * WIDTH } else { last };
            // SAFETY: the caller's promise.
            let columns = unsafe { *columns.0.add(row * columns.1 + column).cast::<[T; WIDTH]>() };
            for (product, x) in products.iter_mut().zip(columns) {
                *product = share.multiply_add::<I>(x, *product);
            }
        }
    }
    *sums = products;
}

#[cfg(test)]
mod tests {
    use super::super::products::{RowSums, Work, numbers, on_every_processor};
    use super::*;

    /// Sums of the rows that have a share.
    #[derive(Clone, Copy)]
    struct Sums<'a, T> {
        rows: &'a [T],
        dim: usize,
        /// Of each row, in whole runs.
        shares: &'a [T],
    }

    impl<T: Real> Work for Sums<'_, T> {
        /// The listed rows and their shares, and what they add up to.
        type Output = (Vec<(usize, T)>, Vec<f64>);

        #[inline(always)]
        fn run<I: Instructions>(self) -> Self::Output {
            let Sums { rows, dim, shares } = self;
            let (mut listed, mut sums, mut total) = (Listed::new(shares.len()), RowSums::default(), vec![0.0; 2 * dim]);
            for _ in 0..2 {
                listed.fill::<I>(shares);
                sums.add_listed_rows::<I>(rows, dim, &listed, (1, 2));
            }
            sums.flush(&mut total, dim);
            (listed.iter().collect(), total)
        }
    }

    fn check<T: Real + std::fmt::Debug>(rounding: f64) {
        // Every number of runs in a span, several spans, and columns that do not fill the last run.
        for (dim, count, every) in (T::WIDTH..200).map(|dim| (dim, 33, 3)).chain([(130, 96, 1), (130, 96, 50), (130, 5, 7)]) {
            let (rows, mut shares) = (numbers::<T>(count * dim, 1), numbers::<T>(count, 2));
            for (row, share) in shares.iter_mut().enumerate() {
                *share = if row % every == 0 { T::ONE + *share } else { T::ZERO };
            }
            shares.resize(count.next_multiple_of(T::WIDTH), T::ZERO);
            let (listed, sums) = on_every_processor(Sums { rows: &rows, dim, shares: &shares });
            assert_eq!(listed, (0..count).step_by(every).map(|row| (row, shares[row])).collect::<Vec<_>>());
            assert!(sums[..dim].iter().all(|sum| *sum == 0.0), "another component's");
            for (column, found) in sums[dim..].iter().enumerate() {
                let expected: f64 =
                    listed.iter().map(|(row, share)| 2.0 * share.to_f64() * rows[row * dim + column].to_f64()).sum();
                assert!((found - expected).abs() < rounding, "{dim} {count} {column}: {found} {expected}");
            }
        }
    }

    #[test]
    fn listed_rows_are_those_with_a_share_and_add_up_to_the_same_bits_everywhere() {
        check::<f32>(1e-4);
        check::<f64>(1e-13);
    }

    #[test]
    fn no_row_is_listed_where_none_has_a_share() {
        struct Empty;
        impl Work for Empty {
            type Output = usize;
            fn run<I: Instructions>(self) -> usize {
                let mut listed = Listed::new(32);
                listed.fill::<I>(&[1.0f32; 32]);
                listed.fill::<I>(&[0.0f32; 32]);
                listed.len
            }
        }
        assert_eq!(super::super::products::with_best_instructions(Empty), 0);
        assert_eq!(on_every_processor(Sums { rows: &[1.0f64; 40], dim: 20, shares: &[0.0; 8] }).1, vec![0.0; 40]);
    }
}
