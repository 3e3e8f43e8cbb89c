//! AVX-512 and AVX2 give the same bits.

use super::Mixture;
use super::assignment::Assignment;
use super::logits::{Directions, Prepared, Real, TILE};
use super::tile::{Scratch, TileWork};
use crate::density::VonMisesFisher;
use crate::rows::{RowBatch, Scalar};
use crate::stats::SufficientStats;
use vmfkit_kernels::Real as _;
use vmfkit_kernels::instructions::{group_heights, with_best_instructions, with_narrow_instructions};

/// Unit rows, each more or less near one of the first axes.
fn rows(count: usize, dim: usize, components: usize) -> Vec<f64> {
    let mut rows = vec![0.0; count * dim];
    for (number, row) in rows.chunks_exact_mut(dim).enumerate() {
        row.iter_mut().enumerate().for_each(|(i, x)| *x = ((number * 31 + i * 17) as f64).sin());
        row[number % components % dim] += 0.2 * number as f64 % 7.0;
        let length = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        row.iter_mut().for_each(|x| *x /= length);
    }
    rows
}

fn mixture(dim: usize, components: usize) -> Mixture {
    let densities = rows(components, dim, components);
    let densities = densities.chunks_exact(dim).enumerate();
    let densities = densities.map(|(k, mean)| VonMisesFisher::new(mean.to_vec(), (5 + k) as f64).unwrap()).collect();
    Mixture::new(vec![1.0 / components as f64; components], densities).unwrap()
}

fn check<T: Real + Scalar, const WIDTH: usize>(values: &[T], dim: usize, components: usize, assignment: Assignment) {
    let (mixture, batch) = (mixture(dim, components), RowBatch::new(dim, values).unwrap());
    check_block::<T, WIDTH>(&mixture, &batch, assignment);
    // Rows without weight, and a component without direction.
    let weights: Vec<f64> = (0..batch.len()).map(|row| (row % 3) as f64 + f64::from(batch.len() == 1)).collect();
    check_block::<T, WIDTH>(&mixture.with_background(0.1).unwrap(), &batch.with_weights(&weights).unwrap(), assignment);
}

fn check_block<T: Real, const WIDTH: usize>(mixture: &Mixture, batch: &RowBatch, assignment: Assignment) {
    let (components, dim) = (mixture.components().len(), mixture.dim());
    let of_tile = |prepared: Prepared<T>, run: &dyn Fn(TileWork<T, WIDTH>) -> Option<usize>| {
        let mut stats = SufficientStats::zero(components, dim);
        let (batch, from, to, weights) = (batch, 0, batch.len(), batch.weights());
        let (scratch, prepared) = (&mut Scratch::new(&prepared, to), &prepared);
        let bad_row = run(TileWork { prepared, assignment, batch, from, to, weights, number: 0, scratch, stats: &mut stats });
        assert_eq!(bad_row, None);
        stats.settle();
        stats
    };
    let prepared = || Prepared::<T>::new(mixture, assignment, false);
    let scale = |k: usize| match assignment {
        Assignment::Nearest => 1.0,
        other => mixture.components()[k].concentration() / other.temperature(),
    };
    let direction = |k: usize| (scale(k), mixture.components()[k].mean_direction());
    let narrow = Directions::dense(group_heights()[1], components, dim, direction);
    let fused = of_tile(Prepared { directions: narrow, ..prepared() }, &|work| with_narrow_instructions(work));
    let wide = of_tile(prepared(), &|work| with_best_instructions(work));
    assert!(fused.objective() != 0.0);
    assert_eq!(fused, wide, "{dim}, {components}, {assignment:?}, {} bytes", size_of::<T>());
}

/// Not only the products: also logits, responsibilities, draws, sums and objective.
#[test]
fn a_tile_has_the_same_bits_with_wide_registers_as_with_narrow_ones() {
    if group_heights()[0] == group_heights()[1] {
        return eprintln!("skipped: this processor has no AVX-512");
    }
    let assignments =
        [Assignment::Soft, Assignment::Hard, Assignment::Nearest, Assignment::Tempered(2.0), Assignment::Sampled { seed: 7 }];
    for (dim, components) in [(2, 1), (3, 20), (5, 3), (37, 8), (100, 10), (129, 33), (384, 17), (40, 130)] {
        for count in [1, 95, TILE - 7, TILE] {
            let double = rows(count, dim, components);
            let single: Vec<f32> = double.iter().map(|x| *x as f32).collect();
            for assignment in assignments {
                check::<f32, { f32::WIDTH }>(&single, dim, components, assignment);
                check::<f64, { f64::WIDTH }>(&double, dim, components, assignment);
            }
        }
    }
}
