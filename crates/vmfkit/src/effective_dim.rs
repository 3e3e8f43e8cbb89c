//! How many dimensions the rows of components really fill.

use crate::block::Block;
use crate::error::Result;
use crate::mixture::{Assignment, Mixture, projections};
use crate::ordered_rows::OrderedRows;
use crate::relocate::visit_nearest;
use crate::stats::SufficientStats;
use crate::vector::{dot, norm};
use std::ops::ControlFlow;

/// Rows whose deviations are held against those of all others: enough for a few per cent.
const PROBES: usize = 256;
/// Rows whose products with them are in memory together.
const ROWS_AT_ONCE: usize = 8192;

/// Rows of single precision that are equal deviate by no more from their mean.
const ROUNDING: f64 = 1e-6;

/// The effective dimension (tr S)^2 / tr S^2 of the scatter S of rows about the means of the components nearest to them, MATH.md (14.7).
///
/// Rows that scatter alike in every direction have about as many as coordinates; pixels of images, which vary together, far fewer. It is at
/// least 1, and at most the number of rows. tr S^2 is the mean square of the products of two rows' deviations; of these, all rows are held
/// against at most 256.
///
/// ```
/// use vmfkit::{Block, Mixture, VonMisesFisher, effective_dim::effective_dim};
/// let one = VonMisesFisher::new(vec![1.0, 0.0, 0.0, 0.0, 0.0], 100.0)?;
/// let (mut rows, mut labels) = (vec![0f64; 5 * 2000], vec![0; 2000]);
/// let mixture = Mixture::new(vec![1.0], vec![one])?;
/// mixture.fill(1, 0, &mut rows, &mut labels)?;
/// let found = effective_dim(&Block::new(5, &rows)?, &mixture)?;
/// assert!((found - 4.0).abs() < 0.2, "the tangents of a sphere in 5 dimensions have 4: {found}");
/// # Ok::<(), vmfkit::Error>(())
/// ```
pub fn effective_dim(block: &Block, mixture: &Mixture) -> Result<f64> {
    let fitted = mixture.clone().without_background();
    let means = means(block, &fitted)?;
    let mut nearest = vec![0; block.len()];
    // It is never asked to stop.
    let _ = visit_nearest(block, &fitted, &mut || ControlFlow::Continue(()), |row, found| nearest[row] = found.component)?;
    let ordered = OrderedRows::new(block)?;
    let chosen = ordered.spread(PROBES);
    let deviation = |row: &usize| block.row(*row).iter().zip(&means[nearest[*row]]).map(|(x, m)| x - m).collect();
    let probes: Vec<Vec<f64>> = chosen.iter().map(deviation).filter(|probe: &Vec<f64>| norm(probe) > ROUNDING).collect();
    if probes.is_empty() {
        return Ok(1.0);
    }
    let lengths: Vec<f64> = probes.iter().map(|probe| norm(probe)).collect();
    // What a component's mean takes away from the product of a row with each probe, per length of the probe.
    let taken: Vec<Vec<f64>> =
        means.iter().map(|mean| probes.iter().zip(&lengths).map(|(probe, length)| dot(mean, probe) / length).collect()).collect();
    let (mut products, mut square) = (Vec::new(), 0.0);
    for from in (0..block.len()).step_by(ROWS_AT_ONCE) {
        let to = (from + ROWS_AT_ONCE).min(block.len());
        products.resize((to - from) * probes.len(), 0.0);
        projections(&block.slice(from, to), &probes, &mut products)?;
        for (row, products) in products.chunks_exact(probes.len()).enumerate() {
            let row = from + row;
            let products = products.iter().zip(&taken[nearest[row]]).zip(&lengths);
            let squares = products.map(|((product, taken), length)| ((product - taken) * length).powi(2));
            square += ordered.share(row) * squares.sum::<f64>();
        }
    }
    // Rows that do not deviate count too.
    let square = square / chosen.len() as f64;
    let trace = lengths.iter().map(|length| length * length).sum::<f64>() / chosen.len() as f64;
    Ok(if square > 0.0 { (trace * trace / square).max(1.0) } else { 1.0 })
}

/// The mean of the rows nearest to each component; where there are none, its direction.
fn means(block: &Block, mixture: &Mixture) -> Result<Vec<Vec<f64>>> {
    let mut stats = SufficientStats::zero(mixture.components().len(), mixture.dim());
    mixture.accumulate(block, Assignment::Nearest, &mut stats)?;
    let mean = |k: usize| match stats.mass(k) {
        mass if mass > 0.0 => stats.resultant(k).iter().map(|x| x / mass).collect(),
        _ => mixture.components()[k].mean_direction().to_vec(),
    };
    Ok((0..stats.components()).map(mean).collect())
}
