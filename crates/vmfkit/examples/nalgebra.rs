//! Fits one density to nalgebra vectors, and rotates its mean direction to the z axis.
//!
//!     cargo run --release -p vmfkit --example nalgebra

use nalgebra::{Matrix3xX, Rotation3, Unit, Vector3};
use vmfkit::estimate::maximum_likelihood;
use vmfkit::inference::Inference;
use vmfkit::{ConcentrationEstimator, RowBatch, Sampler, SufficientStats, VonMisesFisher};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // nalgebra stores matrices in column-major order, so the columns of a matrix are the rows of a
    // batch.
    let truth = Unit::new_normalize(Vector3::new(1.0, 2.0, 2.0));
    let density = VonMisesFisher::new(truth.as_slice().to_vec(), 200.0)?;
    let directions = Matrix3xX::from_vec(Sampler::new(&density).sample_rows::<f64>(1000, 3)?);
    let block = RowBatch::new(directions.nrows(), directions.as_slice())?;

    let stats = SufficientStats::of_batch(&block);
    let fitted = maximum_likelihood(&stats, ConcentrationEstimator::Exact)?;
    let inference = Inference::new(&stats)?;
    let (low, high) = inference.concentration_interval(0.95)?;
    println!("{fitted}");
    println!("95 % interval of the concentration: {low:.1} to {high:.1}");

    let mean = Unit::new_normalize(Vector3::from_column_slice(fitted.mean_direction()));
    let cone = inference.mean_direction_cone(0.95)?;
    println!(
        "the true mean direction is {:.3} degrees away, the 95 % cone has a half-angle of {:.3}",
        mean.angle(&truth).to_degrees(),
        cone.to_degrees()
    );
    assert!(low < 200.0 && 200.0 < high);
    assert!(mean.angle(&truth) < cone);

    // The rotation that maps the mean direction to the z axis.
    let upright = Rotation3::rotation_between(&mean, &Vector3::z()).ok_or("the mean direction is -z")?;
    let rotated = upright * directions;
    let mean_z = rotated.row(2).mean();
    assert!((mean_z - stats.mean_length(0).0).abs() < 1e-12, "{mean_z}");
    Ok(())
}
