//! Fits a mixture to the rows of an ndarray array, and returns responsibilities as an array.
//!
//!     cargo run --release -p vmfkit --features ndarray --example ndarray

use ndarray::{Array2, Axis};
use vmfkit::metrics::Agreement;
use vmfkit::{Fitter, Mixture, RowBatch, VonMisesFisher};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Embeddings of any length; here, draws that are scaled by 2.5.
    let along = |x, y, z| VonMisesFisher::along(vec![x, y, z], 50.0);
    let truth = Mixture::new(vec![0.3, 0.7], vec![along(1.0, 0.0, 0.0)?, along(0.0, 1.0, 1.0)?])?;
    let (values, labels) = truth.sample_rows::<f32>(2000, 1)?;
    let mut embeddings = Array2::from_shape_vec((2000, 3), values)?;
    embeddings *= 2.5;

    // A vMF is a density of directions, so normalise the rows.
    let lengths = embeddings.map_axis(Axis(1), |row| row.dot(&row).sqrt()).insert_axis(Axis(1));
    let rows = embeddings / lengths;

    // Rows of an array in row-major order are borrowed, not copied.
    let block = RowBatch::try_from(rows.view())?;
    let fit = Fitter::new(2).seed(7).fit(&block)?;
    println!("{fit:#}");

    let responsibilities = Array2::from_shape_vec((block.len(), 2), fit.mixture.responsibilities(&block)?)?;
    assert!(responsibilities.sum_axis(Axis(1)).iter().all(|sum| (sum - 1.0).abs() < 1e-12));
    let agreement = Agreement::new(&labels, &fit.mixture.assign(&block)?)?;
    println!("{agreement}");
    assert!(agreement.matched_fraction() > 0.99);
    Ok(())
}
