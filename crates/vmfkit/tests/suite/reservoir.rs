//! `Reservoir`: any rows as likely as their weights say, however they come in blocks.

use crate::samples::uniform_rows;
use vmfkit::RowBatch;
use vmfkit::reservoir::Reservoir;
use vmfkit::rows::Rows;

/// Unit vectors of the plane that tell their number.
fn numbered(count: usize) -> Vec<f64> {
    let angle = |row: usize| (row as f64 + 0.5) / count as f64;
    (0..count).flat_map(|row| [angle(row).cos(), angle(row).sin()]).collect()
}

fn number(row: &[f64], count: usize) -> usize {
    (row[1].atan2(row[0]) * count as f64) as usize
}

/// Row numbers and what they count, of a sample that came in blocks of this many rows.
fn sample(rows: &[f64], weights: Option<&[f64]>, room: usize, batch: usize, seed: u64) -> Vec<(usize, f64)> {
    let count = rows.len() / 2;
    let mut reservoir = Reservoir::new(room, seed);
    for from in (0..count).step_by(batch) {
        let to = (from + batch).min(count);
        let block = RowBatch::new(2, &rows[2 * from..2 * to]).unwrap();
        let block = weights.map_or(block.clone(), |w| block.with_weights(&w[from..to]).unwrap());
        reservoir.offer(&block).unwrap();
    }
    assert_eq!(reservoir.seen(), count as u64);
    let block = reservoir.into_sample().unwrap();
    (0..block.len()).map(|row| (number(&block.row(row), count), block.weights().map_or(1.0, |w| w[row]))).collect()
}

#[test]
fn blocks_do_not_change_the_sample() {
    let rows = numbered(1000);
    let weights: Vec<f64> = (0..1000).map(|row| f64::from(row % 7)).collect();
    for weights in [None, Some(&weights[..])] {
        let whole = sample(&rows, weights, 100, 1000, 5);
        assert_eq!(whole.len(), 100);
        assert!(whole.windows(2).all(|pair| pair[0].0 < pair[1].0), "no row twice");
        for batch in [1, 7, 100, 999] {
            assert_eq!(sample(&rows, weights, 100, batch, 5), whole);
        }
        assert_ne!(sample(&rows, weights, 100, 1000, 6), whole);
    }
}

#[test]
fn few_rows_are_all_kept_as_they_are() {
    let rows = numbered(50);
    let weights: Vec<f64> = (0..50).map(|row| f64::from(row % 3)).collect();
    let all: Vec<(usize, f64)> = (0..50).map(|row| (row, weights[row])).collect();
    assert_eq!(sample(&rows, Some(&weights), 50, 8, 1), all);
    assert!(sample(&rows, None, 80, 8, 1).into_iter().eq((0..50).map(|row| (row, 1.0))));
    // More rows than room, but not more rows that count.
    let kept = sample(&rows, Some(&weights), 40, 8, 1);
    assert!(all.iter().filter(|(_, weight)| *weight > 0.0).all(|row| kept.contains(row)));
    assert!(Reservoir::new(5, 1).into_sample().is_err());
}

/// The mean over seeds of what any rows count is their weight; a row that outweighs the rest is
/// always there.
#[test]
fn samples_have_the_weight_of_the_rows() {
    let rows = numbered(400);
    let mut weights: Vec<f64> = (0..400).map(|row| 1.0 + f64::from(row % 4)).collect();
    weights[17] = 1e4;
    let tries = 2000;
    for weights in [None, Some(&weights[..])] {
        let group = |row: usize| if row == 17 { 4 } else { row / 100 };
        let (mut sums, mut squares, mut truth) = ([0.0; 5], [0.0; 5], [0.0; 5]);
        (0..400).for_each(|row| truth[group(row)] += weights.map_or(1.0, |w| w[row]));
        for seed in 0..tries {
            let mut counts = [0.0; 5];
            sample(&rows, weights, 60, 400, seed).into_iter().for_each(|(row, weight)| counts[group(row)] += weight);
            for at in 0..5 {
                sums[at] += counts[at];
                squares[at] += counts[at] * counts[at];
            }
            assert!(weights.is_none() || counts[4] == 1e4);
        }
        for at in 0..5 {
            let mean = sums[at] / tries as f64;
            let error = ((squares[at] / tries as f64 - mean * mean).max(0.0) / tries as f64).sqrt();
            // Nine means at 4.5 standard errors: a false alarm in 15 000.
            assert!((mean - truth[at]).abs() <= 4.5 * error + 1e-9, "group {at}: {mean}, not {}", truth[at]);
        }
    }
}

#[test]
fn rows_keep_their_type_and_bits() {
    let (single, double) = (uniform_rows::<f32>(3, 40, 1), uniform_rows::<f64>(3, 40, 1));
    let (starts, columns): (Vec<usize>, Vec<u32>) = ((0..=40).map(|row| 3 * row).collect(), (0..120).map(|i| i % 3).collect());
    let blocks = [
        RowBatch::new(3, &single).unwrap(),
        RowBatch::new(3, &double).unwrap(),
        RowBatch::sparse(3, &starts, &columns, &single).unwrap(),
        RowBatch::sparse(3, &starts, &columns, &double).unwrap(),
    ];
    let kind = |block: &RowBatch| match block.rows() {
        Rows::F32(_) => 0,
        Rows::F64(_) => 1,
        Rows::SparseF32(_) => 2,
        Rows::SparseF64(_) => 3,
    };
    for block in &blocks {
        for room in [15, 40] {
            let mut reservoir = Reservoir::new(room, 3);
            reservoir.offer(block).unwrap();
            let found = reservoir.into_sample().unwrap();
            assert_eq!((found.len(), kind(&found)), (room, kind(block)));
            let mut from = 0;
            for row in 0..room {
                from += (from..40).position(|at| block.row(at) == found.row(row)).expect("a row of the block, in order") + 1;
            }
        }
    }
    // Files of several types: all of them in the widest.
    let mut reservoir = Reservoir::new(160, 3);
    blocks.iter().for_each(|block| reservoir.offer(block).unwrap());
    let found = reservoir.into_sample().unwrap();
    assert!(found.len() == 160 && matches!(found.rows(), Rows::F64(_)) && found.row(85) == blocks[2].row(5));
    let other = uniform_rows::<f64>(4, 2, 1);
    let mut reservoir = Reservoir::new(5, 3);
    reservoir.offer(&blocks[0]).unwrap();
    assert!(reservoir.offer(&RowBatch::new(4, &other).unwrap()).is_err());
}
