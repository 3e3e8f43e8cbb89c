//! [`Logits`]: ln weight + ln density of each component, row by row in double precision.

use super::Mixture;
use super::assignment::Assignment;
use super::logits::{Prepared, TILE, kernel_rows, logits};
use super::tile::Scratch;
use crate::rows::RowBatch;
use vmfkit_kernels::instructions::{Instructions, Work, with_best_instructions};

/// A batch of rows and a mixture, prepared for evaluation on the current thread.
pub(super) struct Logits<'a> {
    prepared: Prepared<f64>,
    batch: &'a RowBatch<'a>,
}

impl<'a> Logits<'a> {
    pub(super) fn new(mixture: &Mixture, batch: &'a RowBatch<'a>) -> Self {
        Logits { prepared: Prepared::new(mixture, Assignment::Soft, batch.is_sparse()), batch }
    }

    /// A good number of rows per call: enough to be worth its overhead.
    pub(super) const ROWS: usize = TILE;

    /// Calls `visit(row, logits)` for each of the rows `from .. to`.
    pub(super) fn visit(&self, from: usize, to: usize, mut visit: impl FnMut(usize, &[f64])) {
        let mut scratch = Scratch::new(&self.prepared, to - from);
        let mut row_logits = vec![0.0; self.prepared.components()];
        for first in (from..to).step_by(scratch.stride) {
            let last = (first + scratch.stride).min(to);
            with_best_instructions(LogitsWork {
                prepared: &self.prepared,
                batch: self.batch,
                from: first,
                to: last,
                scratch: &mut scratch,
            });
            for row in first..last {
                let logits = scratch.logits[row - first..].iter().step_by(scratch.stride);
                row_logits.iter_mut().zip(logits).for_each(|(out, z)| *out = z + self.prepared.shift);
                visit(row, &row_logits);
            }
        }
    }
}

struct LogitsWork<'a> {
    prepared: &'a Prepared<f64>,
    batch: &'a RowBatch<'a>,
    from: usize,
    to: usize,
    scratch: &'a mut Scratch<f64>,
}

impl Work for LogitsWork<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Instructions>(self) {
        let Scratch { logits: out, stride, rows: buffer, packing, .. } = self.scratch;
        let rows =
            kernel_rows(self.batch, self.from, self.to, buffer).expect("densities need validated rows; see RowBatch::validated");
        logits::<f64, I>(rows, self.to - self.from, None, self.prepared, out, *stride, packing);
    }
}
