//! Finds components that have converged to the same density.

use crate::m_step::Note;
use crate::mixture::Mixture;
use vmfkit_kernels::vector::half_squared_distance;

/// Duplicates have directions at most this far apart, and concentrations that differ by at most
/// this fraction.
const SAME: f64 = 1e-6;

/// One note for each component that duplicates an earlier one.
///
/// Equal directions have equal projections on any vector, so only neighbours in the order of one
/// projection are compared. Any vector serves that separates most directions.
pub(super) fn duplicates(mixture: &Mixture) -> impl Iterator<Item = Note> {
    let components = mixture.components();
    let projection = |k: usize| components[k].mean_direction().iter().zip(1..).map(|(x, i)| x * (f64::from(i) * 0.7).sin()).sum();
    let mut order: Vec<(f64, usize)> = (0..components.len()).map(|k| (projection(k), k)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let margin = SAME * (mixture.dim() as f64).sqrt();
    let is_same = |a: usize, b: usize| {
        let (a, b) = (&components[a], &components[b]);
        let apart = (2.0 * half_squared_distance(a.mean_direction(), b.mean_direction())).sqrt();
        apart <= SAME && (a.concentration() - b.concentration()).abs() <= SAME * a.concentration()
    };
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for (position, &(projection, k)) in order.iter().enumerate() {
        let near = order[..position].iter().rev().take_while(|(other, _)| projection - other <= margin);
        let same = near
            .map(|(_, other)| *other)
            .filter(|&other| !mixture.is_background(k) && !mixture.is_background(other) && is_same(k, other));
        pairs.extend(same.min().map(|other| (k.max(other), k.min(other))));
    }
    pairs.sort_unstable();
    pairs.into_iter().map(|(component, of)| Note::Duplicate { component, of })
}
