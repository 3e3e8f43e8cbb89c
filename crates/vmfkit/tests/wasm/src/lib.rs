//! Functions that `run.mjs` calls: they draw, fit and test rows with the core compiled for wasm32.

use vmfkit::metrics::ParameterErrors;
use vmfkit::outlier::OutlierTest;
use vmfkit::train::Status;
use vmfkit::{RowBatch, Fitter, Method, Mixture, VonMisesFisher, store::model};

fn truth(dim: usize) -> vmfkit::Result<Mixture> {
    let along = |axis: usize| {
        let mut direction = vec![0.1; dim];
        direction[axis] = 3.0;
        VonMisesFisher::along(direction, 20.0 * dim as f64)
    };
    Mixture::new(vec![0.2, 0.3, 0.5], vec![along(0)?, along(1)?, along(2)?])
}

/// Fits drawn rows by every method. Returns the largest angle in radians between true and fitted
/// mean directions.
fn fit(dim: usize) -> vmfkit::Result<f64> {
    let truth = truth(dim)?;
    let (rows, _) = truth.sample_rows::<f32>(3000, 1)?;
    let block = RowBatch::new(dim, &rows)?;
    let mut largest = 0f64;
    for method in Method::all() {
        let fit = Fitter::new(3).method(method).restarts(2).seed(5).fit(&block)?;
        assert_ne!(fit.status, Status::Stopped);
        assert!(fit.trace.iter().all(|pass| pass.seconds == 0.0), "there is no clock");
        // Write and read a model file.
        let (mixture, _) = model::from_bytes(&model::to_bytes(&fit.mixture, &Default::default()))?;
        let errors = ParameterErrors::between(&truth, &mixture)?;
        largest = errors.angles().iter().copied().fold(largest, f64::max);
    }
    let outliers = OutlierTest::new(&truth, 1)?.p_values(&block)?.iter().filter(|p| **p < 0.05).count();
    assert!((90..220).contains(&outliers), "{outliers} of 3000 rows have a p-value below 0.05");
    Ok(largest)
}

/// The largest angle of [`fit`], NaN if it fails.
#[unsafe(no_mangle)]
pub extern "C" fn largest_angle(dim: u32) -> f64 {
    fit(dim as usize).unwrap_or(f64::NAN)
}

/// The number of bits of an address.
#[unsafe(no_mangle)]
pub extern "C" fn address_bits() -> u32 {
    usize::BITS
}
