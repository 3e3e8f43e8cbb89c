//! Fits a mixture to rows from a custom source with its own error type.
//!
//!     cargo run --release -p vmfkit --example custom_source
//!
//! Implement [`Source`] for rows that do not fit into memory, or that come from a database or a
//! service. A fit reads it once per pass.

use std::error::Error as _;
use vmfkit::source::Source;
use vmfkit::{Fitter, Mixture, RowBatch, VonMisesFisher};

/// A mock service that returns pages of rows.
struct Service {
    truth: Mixture,
    pages: u64,
    next: u64,
    broken_page: Option<u64>,
    /// The current page, which the fit borrows.
    page: Vec<f32>,
}

const ROWS_PER_PAGE: usize = 500;

/// The error of the service.
#[derive(Debug)]
struct PageError {
    page: u64,
}

impl std::fmt::Display for PageError {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "page {} did not arrive", self.page)
    }
}

impl std::error::Error for PageError {}

impl Service {
    fn fetch(&mut self, page: u64) -> Result<(), PageError> {
        if self.broken_page == Some(page) {
            return Err(PageError { page });
        }
        self.page.resize(ROWS_PER_PAGE * self.truth.dim(), 0.0);
        let first_row = page * ROWS_PER_PAGE as u64;
        self.truth.fill(11, first_row, &mut self.page, &mut [0; ROWS_PER_PAGE]).expect("a page of whole rows");
        Ok(())
    }
}

impl Source for Service {
    fn dim(&self) -> usize {
        self.truth.dim()
    }

    fn next_batch(&mut self) -> vmfkit::Result<Option<RowBatch<'_>>> {
        if self.next == self.pages {
            return Ok(None);
        }
        self.fetch(self.next).map_err(vmfkit::Error::read)?;
        self.next += 1;
        // `new` checks that rows have unit length; `RowBatch::rescaled` normalises them.
        RowBatch::new(self.truth.dim(), &self.page).map(Some)
    }

    fn rewind(&mut self) -> vmfkit::Result<()> {
        self.next = 0;
        Ok(())
    }

    fn rows(&self) -> Option<u64> {
        Some(self.pages * ROWS_PER_PAGE as u64)
    }
}

fn main() -> vmfkit::Result<()> {
    let along = |x, y, z| VonMisesFisher::along(vec![x, y, z], 80.0);
    let truth = Mixture::new(vec![0.2, 0.8], vec![along(1.0, 0.0, 0.0)?, along(0.0, 1.0, -1.0)?])?;
    let mut service = Service { truth, pages: 20, next: 0, broken_page: None, page: Vec::new() };

    let fit = Fitter::new(2).seed(7).fit_source(&mut service)?;
    println!("{fit:#}");
    assert_eq!(fit.rows, 10_000);
    let heavier = fit.mixture.weights().iter().copied().fold(0.0, f64::max);
    assert!((heavier - 0.8).abs() < 0.02);

    // The error of the service is the source of the error of the fit.
    service.broken_page = Some(13);
    let error = Fitter::new(2).fit_source(&mut service).expect_err("page 13 does not arrive");
    let cause = error.source().and_then(|cause| cause.downcast_ref::<PageError>());
    assert_eq!(cause.map(|cause| cause.page), Some(13));
    println!("as expected, the fit fails if the service does: {error:#}");
    Ok(())
}
