//! Euclidean k-means, the baseline of the paper. Centres are means, not directions.

use anyhow::Result;
use rayon::prelude::*;
use vmfkit::{Maximisation, RowBatch, Start};

/// A fit stops when a pass reduces the sum of squared distances by less than this fraction.
const TOLERANCE: f64 = 1e-5;
/// The maximum number of passes.
const PASSES: usize = 300;

/// Rows per task. Sums are added in the order of the tasks, so they do not depend on the number of
/// threads.
const PIECE: usize = 1024;

/// The centres of clusters, and half their squared lengths.
#[derive(Debug, Clone, PartialEq)]
pub struct Centres {
    dim: usize,
    centres: Vec<f32>,
    halves: Vec<f32>,
}

/// The statistics of a pass: for each cluster the sum and the number of its rows, and the sum of
/// squared distances.
#[derive(Clone)]
struct Sums {
    rows: Vec<f64>,
    counts: Vec<u64>,
    distance: f64,
}

impl Centres {
    /// Runs Lloyd's algorithm from greedy k-means++. Returns the centres and the number of passes.
    /// (For unit rows, k-means++ of the sphere equals Euclidean k-means++.)
    pub fn fit(dim: usize, rows: &[f32], clusters: usize, seed: u64) -> Result<(Self, usize)> {
        let start = Start::PlusPlus.mixture(&RowBatch::new(dim, rows)?, clusters, &Maximisation::default(), seed)?;
        let first = start.components().iter().flat_map(|density| density.mean_direction());
        let mut centres = Centres::new(dim, first.map(|&x| x as f32).collect());
        let mut before = f64::INFINITY;
        for pass in 1..=PASSES {
            let sums = centres.sums(rows);
            centres = centres.moved(&sums);
            if !(before - sums.distance > TOLERANCE * sums.distance) {
                return Ok((centres, pass));
            }
            before = sums.distance;
        }
        Ok((centres, PASSES))
    }

    fn new(dim: usize, centres: Vec<f32>) -> Self {
        let halves = centres.chunks_exact(dim).map(|centre| 0.5 * dot(centre, centre)).collect();
        Centres { dim, centres, halves }
    }

    /// The nearest centre of each row.
    pub fn assign(&self, rows: &[f32]) -> Vec<u32> {
        rows.par_chunks_exact(self.dim).map(|row| self.nearest(row).0 as u32).collect()
    }

    /// The nearest centre, and its squared distance to a row of unit length.
    fn nearest(&self, row: &[f32]) -> (usize, f32) {
        let mut best = (0, f32::NEG_INFINITY);
        for (at, (centre, half)) in self.centres.chunks_exact(self.dim).zip(&self.halves).enumerate() {
            let score = dot(row, centre) - half;
            if score > best.1 {
                best = (at, score);
            }
        }
        (best.0, 1.0 - 2.0 * best.1)
    }

    fn sums(&self, rows: &[f32]) -> Sums {
        let empty = Sums { rows: vec![0.0; self.centres.len()], counts: vec![0; self.halves.len()], distance: 0.0 };
        let piece = |rows: &[f32]| {
            let mut sums = empty.clone();
            for row in rows.chunks_exact(self.dim) {
                let (at, distance) = self.nearest(row);
                sums.counts[at] += 1;
                sums.distance += f64::from(distance);
                for (sum, &x) in sums.rows[at * self.dim..][..self.dim].iter_mut().zip(row) {
                    *sum += f64::from(x);
                }
            }
            sums
        };
        let pieces: Vec<Sums> = rows.par_chunks(PIECE * self.dim).map(piece).collect();
        pieces.into_iter().fold(empty.clone(), |mut all, piece| {
            all.distance += piece.distance;
            all.rows.iter_mut().zip(&piece.rows).for_each(|(sum, x)| *sum += x);
            all.counts.iter_mut().zip(&piece.counts).for_each(|(sum, x)| *sum += x);
            all
        })
    }

    /// Moves each centre to the mean of its rows; a centre without rows stays.
    fn moved(&self, sums: &Sums) -> Self {
        let mut centres = self.centres.clone();
        let means = sums.rows.chunks_exact(self.dim).zip(&sums.counts);
        for (centre, (sum, &count)) in centres.chunks_exact_mut(self.dim).zip(means).filter(|(_, (_, count))| **count > 0) {
            centre.iter_mut().zip(sum).for_each(|(x, sum)| *x = (sum / count as f64) as f32);
        }
        Centres::new(self.dim, centres)
    }
}

/// The dot product in eight partial sums, which the compiler vectorises.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (mut sums, a_chunks, b_chunks) = ([0.0; 8], a.chunks_exact(8), b.chunks_exact(8));
    let rest: f32 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(x, y)| x * y).sum();
    for (a, b) in a_chunks.zip(b_chunks) {
        for (sum, (x, y)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += x * y;
        }
    }
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmfkit::metrics::Agreement;
    use vmfkit::{Mixture, VonMisesFisher};

    fn sample() -> (Vec<f32>, Vec<i64>) {
        let axis = |at: usize| (0..11).map(|i| f64::from(i == at)).collect();
        let components = (0..4).map(|at| VonMisesFisher::new(axis(at), 60.0).unwrap()).collect();
        let mixture = Mixture::new(vec![0.1, 0.2, 0.3, 0.4], components).unwrap();
        let (mut rows, mut labels) = (vec![0.0_f32; 11 * 5000], vec![0; 5000]);
        mixture.fill(7, 0, &mut rows, &mut labels).unwrap();
        (rows, labels.into_iter().map(i64::from).collect())
    }

    #[test]
    fn separated_clusters_are_found_and_centres_are_means() {
        let (rows, labels) = sample();
        let (centres, passes) = Centres::fit(11, &rows, 4, 1).unwrap();
        assert!(passes < 50, "{passes}");
        let found = centres.assign(&rows);
        let agreement = Agreement::new(&labels, &found).unwrap();
        assert!(agreement.adjusted_rand_index() > 0.98, "{}", agreement.adjusted_rand_index());
        for (at, centre) in centres.centres.chunks_exact(11).enumerate() {
            let members = rows.chunks_exact(11).zip(&found).filter(|(_, label)| **label as usize == at).map(|(row, _)| row);
            let (mut sum, mut count) = (0.0, 0.0);
            for row in members {
                sum += row[3];
                count += 1.0;
            }
            assert!((sum / count - centre[3]).abs() < 1e-3, "{at}");
        }
    }

    #[test]
    fn passes_never_increase_the_distance() {
        let (rows, _) = sample();
        let mut centres = Centres::new(11, rows[..44].to_vec());
        let mut before = f64::INFINITY;
        for _ in 0..20 {
            let sums = centres.sums(&rows);
            assert!(sums.distance <= before * (1.0 + 1e-7), "{} {before}", sums.distance);
            before = sums.distance;
            centres = centres.moved(&sums);
        }
    }

    #[test]
    fn a_centre_without_rows_stays() {
        let rows = [1.0, 0.0, 0.8, 0.6];
        let centres = Centres::new(2, vec![0.9, 0.1, -5.0, -5.0]);
        let moved = centres.moved(&centres.sums(&rows));
        assert_eq!(moved.centres, [0.9, 0.3, -5.0, -5.0]);
    }
}
