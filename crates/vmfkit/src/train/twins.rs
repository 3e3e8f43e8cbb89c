//! Components that have ended the same.

use crate::m_step::Note;
use crate::mixture::Mixture;
use vmfkit_kernels::vector::half_squared_distance;

/// Components are the same if their directions are no further apart than this, and their concentrations no more than by this share.
const SAME: f64 = 1e-6;

/// Components that are the same as one before them.
pub(super) fn twins(mixture: &Mixture) -> impl Iterator<Item = Note> {
    let components = mixture.components();
    // Equal directions have equal projections on any other; what it is does not matter, if only few of the others do.
    let projection = |k: usize| components[k].mean_direction().iter().zip(1..).map(|(x, i)| x * (f64::from(i) * 0.7).sin()).sum();
    let mut order: Vec<(f64, usize)> = (0..components.len()).map(|k| (projection(k), k)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let room = SAME * (mixture.dim() as f64).sqrt();
    let is_same = |a: usize, b: usize| {
        let (a, b) = (&components[a], &components[b]);
        let apart = (2.0 * half_squared_distance(a.mean_direction(), b.mean_direction())).sqrt();
        apart <= SAME && (a.concentration() - b.concentration()).abs() <= SAME * a.concentration()
    };
    let mut twins: Vec<(usize, usize)> = Vec::new();
    for (place, &(projection, k)) in order.iter().enumerate() {
        let near = order[..place].iter().rev().take_while(|(other, _)| projection - other <= room);
        let of = near
            .map(|(_, other)| *other)
            .filter(|&other| !mixture.is_background(k) && !mixture.is_background(other) && is_same(k, other));
        twins.extend(of.min().map(|other| (k.max(other), k.min(other))));
    }
    twins.sort_unstable();
    twins.into_iter().map(|(component, of)| Note::Twin { component, of })
}
