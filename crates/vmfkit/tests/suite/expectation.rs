//! The E step: statistics against one row after the other, in every precision and form, on any
//! number of threads.

use crate::samples::{
    accumulate, assert_agrees, assert_same, assert_sound, draw, naive, on_threads, random_mixture, uniform_rows,
};
use vmfkit::rows::{Bytes, LARGEST_WEIGHT, Rows, Scalar};
use vmfkit::{Assignment, EStep, Error, Fitter, Method, Mixture, RowBatch, SufficientStats, VonMisesFisher};

const CERTAIN: [Assignment; 5] =
    [Assignment::Soft, Assignment::Tempered(3.0), Assignment::Tempered(0.5), Assignment::Hard, Assignment::Nearest];
const EVERY: [Assignment; 5] =
    [Assignment::Soft, Assignment::Tempered(3.0), Assignment::Hard, Assignment::Nearest, Assignment::Sampled { seed: 5 }];

fn check(mixture: &Mixture, block: &RowBatch, rounding: f64, place: &str) {
    let largest = mixture.components().iter().fold(1.0, |k: f64, c| k.max(c.concentration()));
    for assignment in CERTAIN {
        let coldness = if let Assignment::Tempered(temperature) = assignment { 1.0 / temperature } else { 1.0 };
        let scale = rounding * (10.0 + coldness * largest);
        let expected = naive(mixture, block, assignment, 10.0 * scale);
        let found = accumulate(mixture, block, assignment);
        assert_agrees(&found, &expected, scale, 3.0 * scale, &format!("{place}, {assignment:?}"));
    }
}

fn check_every_shape<T: Scalar>(rounding: f64) {
    for components in [1, 7, 8, 9, 16, 17, 33] {
        for dim in [2, 3, 15, 16, 17, 100] {
            let mixture = random_mixture(components, dim, 10.0 + dim as f64, 1);
            let values: Vec<T> = draw(&mixture, 3000, 2);
            for rows in [1, 5, 383, 384, 385, 1537] {
                let block = RowBatch::new(dim, &values[..rows * dim]).unwrap();
                check(&mixture, &block, rounding, &format!("K = {components}, d = {dim}, N = {rows}"));
            }
        }
    }
}

#[test]
fn statistics_in_double_precision_are_those_of_one_row_after_the_other() {
    check_every_shape::<f64>(1e-15);
}

#[test]
fn statistics_in_single_precision_are_those_of_one_row_after_the_other() {
    check_every_shape::<f32>(1.5e-7);
}

/// Rows with a fifth of their coordinates, as CSR and in full.
fn sparse_rows<T: Scalar>(dim: usize, rows: usize) -> (Vec<usize>, Vec<u32>, Vec<T>, Vec<T>) {
    let raw = uniform_rows::<f64>(dim, rows, 3);
    let (mut starts, mut columns, mut values, mut full) = (vec![0], Vec::new(), Vec::new(), vec![T::default(); dim * rows]);
    for (row, raw) in raw.chunks_exact(dim).enumerate() {
        let kept: Vec<usize> = (0..dim).filter(|j| (j * 7 + row) % 5 == 0).collect();
        let length = kept.iter().map(|&j| raw[j] * raw[j]).sum::<f64>().sqrt();
        for j in kept {
            let x = T::from_f64(raw[j] / length);
            full[row * dim + j] = x;
            columns.push(j as u32);
            values.push(x);
        }
        starts.push(values.len());
    }
    (starts, columns, values, full)
}

fn check_sparse<T: Scalar>(rounding: f64) {
    for (components, dim) in [(1, 10), (8, 10), (17, 100)] {
        let (starts, columns, values, full) = sparse_rows::<T>(dim, 1537);
        let (sparse, dense) = (RowBatch::sparse(dim, &starts, &columns, &values).unwrap(), RowBatch::new(dim, &full).unwrap());
        let weights: Vec<f64> = (0..1537).map(|i| f64::from(i % 3)).collect();
        let mixture = random_mixture(components, dim, 20.0, 4).with_background(0.1).unwrap();
        let place = format!("sparse, K = {components}, d = {dim}");
        check(&mixture, &sparse, rounding, &place);
        check(&mixture, &sparse.slice(100, 900).with_weights(&weights[..800]).unwrap(), rounding, &place);
        for assignment in [Assignment::Soft, Assignment::Tempered(2.0), Assignment::Sampled { seed: 1 }] {
            let (x, y) = (accumulate(&mixture, &sparse, assignment), accumulate(&mixture, &dense, assignment));
            // A draw at the edge between two components may fall on either side in single
            // precision.
            let room = if matches!(assignment, Assignment::Sampled { .. }) { 2.0 / 1537.0 } else { 100.0 * rounding };
            assert_same(&x, &y, room, &place);
        }
    }
}

#[test]
fn sparse_rows_have_the_statistics_of_dense_ones() {
    check_sparse::<f64>(1e-15);
    check_sparse::<f32>(1.5e-7);
}

#[test]
fn weights_count_as_repetitions_in_every_assignment() {
    let mixture = random_mixture(6, 9, 30.0, 5);
    let rows: Vec<f64> = draw(&mixture, 700, 6);
    let weights: Vec<f64> = (0..700).map(|i| f64::from(i % 4)).collect();
    let repeated: Vec<f64> = rows.chunks_exact(9).zip(&weights).flat_map(|(row, w)| row.repeat(*w as usize)).collect();
    let weighted = RowBatch::new(9, &rows).unwrap().with_weights(&weights).unwrap();
    for assignment in CERTAIN {
        let (x, y) = (
            accumulate(&mixture, &weighted, assignment),
            accumulate(&mixture, &RowBatch::new(9, &repeated).unwrap(), assignment),
        );
        assert_same(&x, &y, 1e-12, &format!("{assignment:?}"));
    }
}

/// What single precision cannot hold must not come out as infinity or nothing.
#[test]
fn weights_may_be_of_any_size() {
    let mixture = random_mixture(6, 9, 30.0, 5);
    let rows: Vec<f32> = draw(&mixture, 700, 6);
    let block = RowBatch::new(9, &rows).unwrap();
    for assignment in EVERY {
        let plain = accumulate(&mixture, &block, assignment);
        for factor in [1e-300, 1e-42, 1e-20, 1e20, 1e37, 1e39, LARGEST_WEIGHT] {
            let weights = [factor; 700];
            let mut scaled = accumulate(&mixture, &block.clone().with_weights(&weights).unwrap(), assignment);
            scaled.scale(1.0 / factor);
            assert_same(&scaled, &plain, 1e-5, &format!("{assignment:?}, weights of {factor:e}"));
        }
    }
}

/// Concentrations on both sides of the limit, 4096 or 8e4/sqrt(d): f32 rows in the f32 kernel, then
/// in the f64 kernel.
#[test]
fn single_precision_is_left_before_its_errors_matter() {
    for dim in [2, 3, 100, 384, 1600] {
        for concentration in [999.0, 1001.0, 2040.0, 2042.0, 2047.0, 2049.0, 1e6] {
            // The largest of the mixture's concentrations is twice this.
            let mixture = random_mixture(9, dim, concentration, 7);
            let rows: Vec<f32> = draw(&mixture, 2000, 8);
            let widened: Vec<f64> = rows.iter().map(|x| f64::from(*x)).collect();
            let (single, double) = (RowBatch::new(dim, &rows).unwrap(), RowBatch::new(dim, &widened).unwrap());
            for assignment in [Assignment::Soft, Assignment::Hard, Assignment::Tempered(10.0), Assignment::Tempered(0.01)] {
                let (x, y) = (accumulate(&mixture, &single, assignment), accumulate(&mixture, &double, assignment));
                let place = format!("d = {dim}, k = {concentration}, {assignment:?}");
                let apart = (x.objective() - y.objective()).abs() / 2000.0;
                assert!(apart < 1e-3, "{place}: objectives apart by {apart}");
                for k in 0..9 {
                    let (x, y) = (x.mass(k), y.mass(k));
                    assert!((x - y).abs() < 1.0, "{place}: mass {k} is {x}, not {y}");
                }
            }
        }
    }
}

/// What is divided by a temperature below 1 is as large as a concentration above the limit.
#[test]
fn single_precision_is_left_for_cold_assignments_too() {
    let mu = |turn: f64| (0..16).map(|i| (1.0 + f64::from(i)).sin() + turn * f64::from(i % 2)).collect();
    let density = |turn| VonMisesFisher::along(mu(turn), 4000.0).unwrap();
    let mixture = Mixture::new(vec![0.5; 2], vec![density(0.0), density(2e-5)]).unwrap();
    let rows: Vec<f32> = draw(&mixture, 2000, 27);
    let widened: Vec<f64> = rows.iter().map(|x| f64::from(*x)).collect();
    let (single, double) = (RowBatch::new(16, &rows).unwrap(), RowBatch::new(16, &widened).unwrap());
    let mass = |block| accumulate(&mixture, block, Assignment::Tempered(1e-3)).mass(0);
    let (x, y) = (mass(&single), mass(&double));
    assert!((x - y).abs() < 0.5, "{x}, not {y}");
}

/// Far apart, nearly every responsibility is 0 or 1 and rows are added one by one; close together,
/// by a matrix product. A far-off third group in the same tile takes its rows from the one way to
/// the other.
#[test]
fn few_and_many_responsibilities_are_summed_alike() {
    for concentration in [0.1, 3.0, 10.0, 30.0, 100.0, 1000.0] {
        let mixture = random_mixture(17, 16, concentration, 9);
        let rows: Vec<f64> = draw(&mixture, 1000, 10);
        let single: Vec<f32> = rows.iter().map(|x| *x as f32).collect();
        check(&mixture, &RowBatch::new(16, &rows).unwrap(), 1e-15, &format!("k = {concentration}"));
        check(&mixture, &RowBatch::new(16, &single).unwrap(), 1.5e-7, &format!("f32, k = {concentration}"));
    }
}

#[test]
fn a_background_gets_rows_but_never_as_the_nearest() {
    let mixture = random_mixture(3, 5, 40.0, 11).with_background(0.3).unwrap();
    let rows: Vec<f64> = draw(&mixture, 1000, 12);
    let block = RowBatch::new(5, &rows).unwrap();
    check(&mixture, &block, 1e-15, "with background");
    assert_eq!(accumulate(&mixture, &block, Assignment::Nearest).mass(3), 0.0);
    assert!(accumulate(&mixture, &block, Assignment::Hard).mass(3) > 100.0);
}

#[test]
fn the_number_of_threads_does_not_change_one_bit_of_statistics() {
    let mixture = random_mixture(17, 19, 30.0, 13).with_background(0.1).unwrap();
    let rows: Vec<f64> = draw(&mixture, 20_000, 14);
    let single: Vec<f32> = rows.iter().map(|x| *x as f32).collect();
    let weights: Vec<f64> = (0..20_000).map(|i| 0.5 + f64::from(i % 3)).collect();
    let (starts, columns, values, _) = sparse_rows::<f32>(19, 5000);
    let blocks = [
        RowBatch::new(19, &rows).unwrap().with_weights(&weights).unwrap(),
        RowBatch::new(19, &single).unwrap(),
        RowBatch::sparse(19, &starts, &columns, &values).unwrap(),
    ];
    for block in &blocks {
        for assignment in EVERY {
            let of = |threads| on_threads(threads, || accumulate(&mixture, block, assignment));
            let one = of(1);
            for threads in [2, 3, 8] {
                assert_eq!(one, of(threads), "{assignment:?} on {threads} threads");
            }
        }
        let say = |threads| {
            on_threads(threads, || {
                let mut shares = vec![0.0; block.len() * 18];
                mixture.responsibilities_into(block, &mut shares).unwrap();
                (shares, mixture.evaluate(block).unwrap())
            })
        };
        assert_eq!(say(1), say(3));
    }
}

#[test]
fn the_number_of_threads_does_not_change_one_bit_of_a_fit() {
    let mixture = random_mixture(5, 8, 40.0, 15);
    let rows: Vec<f32> = draw(&mixture, 6000, 16);
    let block = RowBatch::new(8, &rows).unwrap();
    for method in Method::all() {
        let fit = |threads| {
            let stop = vmfkit::train::Stop { tolerance: None, passes: 3, ..Default::default() };
            on_threads(threads, || Fitter::new(5).method(method.clone()).seed(3).stop(stop).fit(&block).unwrap().mixture)
        };
        let one = fit(1);
        assert_sound(&one, 1e10, method.name());
        for threads in [2, 3, 8] {
            assert_eq!(one, fit(threads), "{} on {threads} threads", method.name());
        }
    }
}

/// Rows of every type, with weights, some of which need double precision, in batches that cut
/// tiles, chunks and blocks.
#[test]
fn the_sizes_of_batches_do_not_change_one_bit_of_statistics() {
    const ROWS: usize = 21_000;
    let mixture = random_mixture(9, 12, 40.0, 17).with_background(0.1).unwrap();
    let rows: Vec<f64> = draw(&mixture, ROWS, 18);
    let single: Vec<f32> = rows.iter().map(|x| *x as f32).collect();
    let weights: Vec<f64> = (0..ROWS).map(|row| if row / 500 == 7 { 1e35 } else { f64::from(row as u32 / 700 % 3) }).collect();
    let (starts, columns, values, _) = sparse_rows::<f32>(12, 3000);
    let blocks = [
        RowBatch::new(12, &rows).unwrap(),
        RowBatch::new(12, &single).unwrap(),
        RowBatch::new(12, &single).unwrap().with_weights(&weights).unwrap(),
        RowBatch::sparse(12, &starts, &columns, &values).unwrap(),
    ];
    for (kind, block) in blocks.iter().enumerate() {
        for assignment in EVERY {
            let in_batches = |threads: usize, sizes: &[usize]| {
                on_threads(threads, || {
                    let mut e_step = EStep::new(&mixture, assignment).unwrap();
                    let (mut from, mut sizes) = (0, sizes.iter().cycle());
                    while from < block.len() {
                        let to = (from + sizes.next().unwrap()).min(block.len());
                        e_step.add(&block.slice(from, to)).unwrap();
                        from = to;
                    }
                    e_step.finish()
                })
            };
            let whole = in_batches(1, &[ROWS]);
            assert_eq!(whole, accumulate(&mixture, block, assignment));
            for (threads, sizes) in
                [(2, &[384][..]), (3, &[1152]), (2, &[9216]), (1, &[1, 383, 385, 700]), (3, &[10_000, 0, 17]), (2, &[97])]
            {
                assert_eq!(in_batches(threads, sizes), whole, "rows {kind}, {assignment:?}, batches of {sizes:?}");
            }
        }
    }
}

/// Explicit weights of 1 are no weights, whatever batch they are in.
#[test]
fn weights_of_one_do_not_change_one_bit_of_statistics() {
    let mixture = random_mixture(5, 6, 20.0, 1);
    let rows: Vec<f32> = draw(&mixture, 3000, 2);
    let (block, ones) = (RowBatch::new(6, &rows).unwrap(), vec![1.0; 3000]);
    for assignment in EVERY {
        let weighted = accumulate(&mixture, &block.clone().with_weights(&ones).unwrap(), assignment);
        assert_eq!(weighted, accumulate(&mixture, &block, assignment), "{assignment:?}");
    }
}

/// A tile that has rows of several types is multiplied in double precision.
#[test]
fn types_of_rows_may_change_within_a_tile() {
    let mixture = random_mixture(3, 6, 20.0, 1);
    let double: Vec<f64> = draw(&mixture, 1000, 2);
    let single: Vec<f32> = double.iter().map(|x| *x as f32).collect();
    let (starts, columns): (Vec<usize>, Vec<u32>) = ((0..=1000).map(|row| 6 * row).collect(), (0..6000).map(|i| i % 6).collect());
    let blocks = [
        RowBatch::new(6, &single).unwrap(),
        RowBatch::new(6, &double).unwrap(),
        RowBatch::sparse(6, &starts, &columns, &double).unwrap(),
    ];
    let in_pieces = |size: usize| {
        let mut e_step = EStep::new(&mixture, Assignment::Soft).unwrap();
        for (block, from) in blocks.iter().flat_map(|block| (0..1000).step_by(size).map(move |from| (block, from))) {
            e_step.add(&block.slice(from, (from + size).min(1000))).unwrap();
        }
        e_step.finish()
    };
    let found = in_pieces(1000);
    assert_eq!(found, in_pieces(64));
    assert_eq!(found.weight(), 3000.0);
    let mut sum = SufficientStats::zero(3, 6);
    blocks.iter().for_each(|block| sum.merge(&accumulate(&mixture, block, Assignment::Soft)).unwrap());
    assert_same(&found, &sum, 1e-6, "three types");
}

#[test]
fn blocks_are_whole_chunks() {
    let mixture = random_mixture(3, 6, 20.0, 1);
    for rows in [0, 1, 384, 1151, 1153] {
        let refused = EStep::new(&mixture, Assignment::Soft).unwrap().block_rows(rows).unwrap_err();
        assert!(refused.to_string().contains(&format!("must be a multiple of 1152 above 0, found: `{rows}`")), "{refused}");
        assert!(Fitter::new(2).block_rows(rows).fit(&RowBatch::new(6, &uniform_rows::<f64>(6, 50, 1)).unwrap()).is_err());
    }
}

#[test]
fn statistics_of_one_component_are_those_without_a_model() {
    let mixture = random_mixture(1, 6, 300.0, 19);
    let rows: Vec<f64> = draw(&mixture, 5000, 20);
    let block = RowBatch::new(6, &rows).unwrap();
    let plain = SufficientStats::of_batch(&block);
    for assignment in EVERY {
        let found = accumulate(&mixture, &block, assignment);
        assert_eq!(found.mass(0), 5000.0);
        assert!((found.shortfall(0) / plain.shortfall(0) - 1.0).abs() < 1e-11, "{assignment:?}");
    }
}

/// Each row's draw is Bernoulli with its responsibility, so that the mean mass of many draws is
/// that of soft assignments; with other seeds one of the components would fail once in 10^3.
#[test]
fn drawn_assignments_are_soft_ones_on_average() {
    let mixture = random_mixture(6, 3, 3.0, 21);
    let rows: Vec<f64> = draw(&mixture, 1000, 22);
    let single: Vec<f32> = rows.iter().map(|x| *x as f32).collect();
    for block in [RowBatch::new(3, &rows).unwrap(), RowBatch::new(3, &single).unwrap()] {
        let soft = accumulate(&mixture, &block, Assignment::Soft);
        let mut shares = vec![0.0; 6000];
        mixture.responsibilities_into(&block, &mut shares).unwrap();
        let draws = 200;
        let mut sum = SufficientStats::zero(6, 3);
        for seed in 0..draws {
            let drawn = accumulate(&mixture, &block, Assignment::Sampled { seed });
            assert!((0..6).all(|k| drawn.mass(k).fract() == 0.0) && drawn.weight() == 1000.0);
            assert!((drawn.objective() / soft.objective() - 1.0).abs() < 1e-6);
            sum.merge(&drawn).unwrap();
        }
        for k in 0..6 {
            let variance: f64 = shares.chunks_exact(6).map(|q| q[k] * (1.0 - q[k])).sum();
            let z = (sum.mass(k) - draws as f64 * soft.mass(k)) / (draws as f64 * variance).sqrt();
            assert!(z.abs() < 3.8, "component {k}: z = {z}");
        }
        let of = |seed| accumulate(&mixture, &block, Assignment::Sampled { seed });
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}

/// Rows of one tile and of the next must not share their draws.
#[test]
fn equal_rows_are_drawn_apart() {
    let density = VonMisesFisher::new(vec![0.6, 0.8], 3.0).unwrap();
    let mixture = Mixture::new(vec![0.5; 2], vec![density.clone(), density]).unwrap();
    let rows = [0.6, 0.8].repeat(384 * 20);
    let block = RowBatch::new(2, &rows).unwrap();
    let tiles: Vec<f64> = (0..20)
        .map(|tile| accumulate(&mixture, &block.slice(0, (tile + 1) * 384), Assignment::Sampled { seed: 3 }).mass(0))
        .collect();
    let counts: Vec<f64> = (0..20).map(|tile| tiles[tile] - if tile > 0 { tiles[tile - 1] } else { 0.0 }).collect();
    assert!(counts.windows(2).any(|pair| pair[0] != pair[1]), "{counts:?}");
    let z = (tiles[19] - 3840.0) / (7680.0f64 * 0.25).sqrt();
    assert!(z.abs() < 3.9, "z = {z}");
}

#[test]
fn no_concentration_makes_a_nan_of_statistics() {
    for concentration in [0.0, 1e-300, 1e-3, 1.0, 1e8, 1e15] {
        for dim in [2, 3, 50] {
            let mixture = random_mixture(5, dim, concentration, 23);
            let mut rows = uniform_rows::<f64>(dim, 100, 24);
            rows.extend(mixture.components().iter().flat_map(|c| c.mean_direction()));
            let single: Vec<f32> = rows.iter().map(|x| *x as f32).collect();
            for block in [RowBatch::new(dim, &rows).unwrap(), RowBatch::new(dim, &single).unwrap()] {
                for assignment in EVERY {
                    let stats = accumulate(&mixture, &block, assignment);
                    let masses: f64 = (0..5).map(|k| stats.mass(k)).sum();
                    let place = format!("d = {dim}, k = {concentration:e}, {assignment:?}");
                    assert!(stats.objective().is_finite() && (masses - 105.0).abs() < 1e-4, "{place}: {masses}");
                    assert!((0..5).all(|k| stats.shortfall(k) >= 0.0 && stats.resultant_length(k).is_finite()), "{place}");
                }
            }
        }
    }
}

#[test]
fn statistics_of_another_shape_are_refused() {
    let mixture = random_mixture(3, 4, 5.0, 25);
    let rows = uniform_rows::<f64>(4, 5, 26);
    let block = RowBatch::new(4, &rows).unwrap();
    let error = |components, dim, assignment| {
        let mut stats = SufficientStats::zero(components, dim);
        mixture.accumulate(&block, assignment, &mut stats).unwrap_err()
    };
    assert!(matches!(error(2, 4, Assignment::Soft), Error::ComponentMismatch { expected: 3, found: 2, .. }));
    assert_eq!(error(3, 5, Assignment::Soft), Error::DimensionMismatch { expected: 4, found: 5 });
    for temperature in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(error(3, 4, Assignment::Tempered(temperature)), Error::Option { .. }));
    }
}

/// Rows of f32 (4) or f64 (8) in buffers of this many bytes.
fn from_bytes(number: usize, dim: usize, memory: &Bytes, step: usize) -> RowBatch<'static> {
    let buffers = memory.chunks(step.max(1)).map(|part| memory.slice_ref(part));
    match number {
        4 => RowBatch::from_bytes::<f32>(dim, buffers).unwrap(),
        _ => RowBatch::from_bytes::<f64>(dim, buffers).unwrap(),
    }
}

/// In memory of any alignment, in one buffer or many, with concentrations that are multiplied in
/// single precision and in double.
#[test]
fn statistics_of_unvalidated_rows_are_those_of_validated_ones_to_the_last_bit() {
    const DIM: usize = 17;
    for concentration in [20.0, 1e5] {
        for components in [3, 600] {
            let mixture = random_mixture(components, DIM, concentration, 1);
            let (single, double): (Vec<f32>, Vec<f64>) = (draw(&mixture, 3000, 2), draw(&mixture, 3000, 2));
            let single_bytes: Vec<u8> = single.iter().copied().flat_map(f32::to_ne_bytes).collect();
            let double_bytes: Vec<u8> = double.iter().copied().flat_map(f64::to_ne_bytes).collect();
            let single = (RowBatch::new(DIM, &single).unwrap(), single_bytes, 4);
            let double = (RowBatch::new(DIM, &double).unwrap(), double_bytes, 8);
            for ((block, bytes, number), assignment) in [single, double].iter().flat_map(|rows| EVERY.map(|a| (rows, a))) {
                let expected = accumulate(&mixture, block, assignment);
                for (offset, values, threads) in [(0, 3000 * DIM, 2), (1, 3000 * DIM, 1), (0, 5000, 3), (3, 7, 2)] {
                    let memory = Bytes::from([vec![0; offset], bytes.clone()].concat()).slice(offset..);
                    let rows = from_bytes(*number, DIM, &memory, number * values);
                    let found = on_threads(threads, || {
                        let mut e_step = EStep::new(&mixture, assignment).unwrap();
                        e_step.add(&rows).unwrap();
                        e_step.finish()
                    });
                    let case = format!("{number}, {concentration}, {components}, {assignment:?}, {offset}, {values}, {threads}");
                    assert_eq!(found, expected, "{case}");
                }
                let unvalidated = match block.rows() {
                    Rows::F32(values) => RowBatch::unvalidated(DIM, &values[..]).unwrap(),
                    Rows::F64(values) => RowBatch::unvalidated(DIM, &values[..]).unwrap(),
                    _ => unreachable!("dense rows"),
                };
                assert_eq!(accumulate(&mixture, &unvalidated, assignment), expected);
                for (batch, threads) in [(1152, 1), (1000, 3), (7, 2)] {
                    let mut e_step = EStep::new(&mixture, assignment).unwrap();
                    for bytes in bytes.chunks(batch * DIM * number) {
                        let rows = from_bytes(*number, DIM, &Bytes::copy_from_slice(bytes), bytes.len());
                        on_threads(threads, || e_step.add(&rows)).unwrap();
                    }
                    let case = format!("{number}, {concentration}, {components}, {assignment:?}, {batch}, {threads}");
                    assert_eq!(e_step.finish(), expected, "{case}");
                }
            }
        }
    }
}

#[test]
fn the_first_bad_one_of_unvalidated_rows_is_named() {
    let mixture = random_mixture(3, 4, 10.0, 1);
    for wrong in [[1900, 2900], [2999, 7], [100, 101]] {
        let mut values: Vec<f32> = draw(&mixture, 3000, 2);
        wrong.iter().for_each(|row| values[4 * row..][..4].copy_from_slice(&[*row as f32, 0.0, 0.0, 0.0]));
        let bytes: Vec<u8> = values.iter().copied().flat_map(f32::to_ne_bytes).collect();
        let double_bytes: Vec<u8> = values.iter().flat_map(|x| f64::from(*x).to_ne_bytes()).collect();
        let (starts, columns): (Vec<usize>, Vec<u32>) = ((0..=3000).map(|row| 4 * row).collect(), [0, 1, 2, 3].repeat(3000));
        let batches = [
            from_bytes(4, 4, &bytes.into(), 996),
            from_bytes(8, 4, &double_bytes.into(), 1000),
            RowBatch::unvalidated(4, &values).unwrap(),
            RowBatch::unvalidated_sparse(4, &starts, &columns, &values),
        ];
        for rows in batches {
            let error = EStep::new(&mixture, Assignment::Soft).unwrap().add(&rows).unwrap_err();
            assert_eq!(error, RowBatch::new(4, &values).unwrap_err());
            assert!(matches!(error, Error::NotUnit { row, .. } if row == *wrong.iter().min().unwrap()), "{error}");
        }
    }
    let rows = RowBatch::from_bytes::<f32>(5, []).unwrap();
    let error = EStep::new(&mixture, Assignment::Soft).unwrap().add(&rows).unwrap_err();
    assert_eq!(error, Error::DimensionMismatch { expected: 4, found: 5 });
}
