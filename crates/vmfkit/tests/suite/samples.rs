//! Mixtures and rows for tests, and a reference implementation of the E step.

use proptest::prelude::prop;
use vmfkit::rows::Scalar;
use vmfkit::train::{Fit, Pass};
use vmfkit::{Assignment, Mixture, RowBatch, Sampler, SufficientStats, VonMisesFisher};

/// Uniform draws of unit vectors.
pub fn uniform_rows<T: Scalar>(dim: usize, rows: usize, seed: u64) -> Vec<T> {
    let mut out = vec![T::default(); rows * dim];
    Sampler::new(&VonMisesFisher::uniform(dim).unwrap()).fill(seed, 0, &mut out).unwrap();
    out
}

/// A mixture with random mean directions, unequal weights, and concentrations of 0.5 to 2 times
/// `concentration`.
pub fn random_mixture(components: usize, dim: usize, concentration: f64, seed: u64) -> Mixture {
    let directions = uniform_rows::<f64>(dim, components, seed ^ 0xd1ce);
    let weights: Vec<f64> = (0..components).map(|k| 1.0 + (k % 5) as f64).collect();
    let sum: f64 = weights.iter().sum();
    let densities = directions
        .chunks_exact(dim)
        .enumerate()
        .map(|(k, direction)| VonMisesFisher::along(direction.to_vec(), concentration * [1.0, 2.0, 0.5, 1.3][k % 4]).unwrap());
    Mixture::new(weights.iter().map(|w| w / sum).collect(), densities.collect()).unwrap()
}

/// The mixture of Kim (2021): d = 5, K = 3.
pub fn paper_mixture() -> Mixture {
    let first = vec![0.3, -1.2, 2.3, 0.4, 2.1];
    let opposite = first.iter().map(|x| -x).collect();
    let directions = [first, vec![1.0, 0.0, 0.0, 0.0, 0.0], opposite];
    let densities = directions.into_iter().zip([100.0, 50.0, 100.0]).map(|(mu, k)| VonMisesFisher::along(mu, k).unwrap());
    Mixture::new(vec![0.3, 0.4, 0.3], densities.collect()).unwrap()
}

pub fn draw<T: Scalar>(mixture: &Mixture, rows: usize, seed: u64) -> Vec<T> {
    let mut out = vec![T::default(); rows * mixture.dim()];
    mixture.fill(seed, 0, &mut out, &mut vec![0; rows]).unwrap();
    out
}

pub fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

pub fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

pub fn accumulate(mixture: &Mixture, block: &RowBatch, assignment: Assignment) -> SufficientStats {
    let mut stats = SufficientStats::zero(mixture.components().len(), mixture.dim());
    mixture.accumulate(block, assignment, &mut stats).unwrap();
    stats
}

/// ln weight + ln density of each component for one row.
pub fn logits(mixture: &Mixture, row: &[f64]) -> Vec<f64> {
    let terms = mixture.weights().iter().zip(mixture.components());
    terms.map(|(w, c)| w.ln() + c.ln_peak() - c.concentration() * (1.0 - dot(row, c.mean_direction()))).collect()
}

pub fn ln_sum_exp(logits: &[f64]) -> f64 {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + logits.iter().map(|z| (z - largest).exp()).sum::<f64>().ln()
}

/// The expected result of an E step.
pub struct Naive {
    pub masses: Vec<f64>,
    pub resultants: Vec<f64>,
    pub objective: f64,
    pub weight: f64,
    /// The weight of the rows whose two largest logits differ by less than the tolerance: either
    /// may be chosen.
    pub undecided: f64,
}

/// Computes the statistics of a batch row by row, for any deterministic assignment.
pub fn naive(mixture: &Mixture, block: &RowBatch, assignment: Assignment, tolerance: f64) -> Naive {
    let (components, dim) = (mixture.components().len(), mixture.dim());
    let (masses, resultants) = (vec![0.0; components], vec![0.0; components * dim]);
    let mut sums = Naive { masses, resultants, objective: 0.0, weight: 0.0, undecided: 0.0 };
    let mut lost = 0.0;
    for number in 0..block.len() {
        let row = block.row(number);
        let weight = block.weights().map_or(1.0, |w| w[number]);
        let temperature = if let Assignment::Tempered(temperature) = assignment { temperature } else { 1.0 };
        let mut logits: Vec<f64> = logits(mixture, &row).iter().map(|z| z / temperature).collect();
        if assignment == Assignment::Nearest {
            let product = |k: usize| dot(&row, mixture.components()[k].mean_direction());
            logits = (0..components).map(|k| if mixture.is_background(k) { f64::NEG_INFINITY } else { product(k) }).collect();
        }
        let total = ln_sum_exp(&logits);
        let mut shares: Vec<f64> = logits.iter().map(|z| (z - total).exp()).collect();
        let mut objective = temperature * total;
        if matches!(assignment, Assignment::Hard | Assignment::Nearest) {
            let best = (0..components).fold(0, |best, k| if logits[k] > logits[best] { k } else { best });
            let rivals = (0..components).filter(|&k| k != best && logits[k] > logits[best] - tolerance);
            sums.undecided += if rivals.count() > 0 { weight } else { 0.0 };
            shares = (0..components).map(|k| f64::from(u8::from(k == best))).collect();
            objective = logits[best];
        }
        // Compensated summation: without it, this many terms of one sign would lose more than
        // the E step does.
        let term = weight * objective;
        let sum = sums.objective + term;
        lost += if sums.objective.abs() > term.abs() { (sums.objective - sum) + term } else { (term - sum) + sums.objective };
        sums.objective = sum;
        sums.weight += weight;
        for (k, share) in shares.into_iter().enumerate() {
            sums.masses[k] += weight * share;
            sums.resultants[k * dim..][..dim].iter_mut().zip(&row).for_each(|(sum, x)| *sum += weight * share * x);
        }
    }
    sums.objective += lost;
    sums
}

/// Asserts that statistics agree to `tolerance` times the total weight, and objectives to
/// `objective` times the total weight.
pub fn assert_agrees(found: &SufficientStats, expected: &Naive, tolerance: f64, objective: f64, place: &str) {
    let room = tolerance * expected.weight + 2.0 * expected.undecided;
    let near = |what: &str, x: f64, y: f64, room: f64| assert!((x - y).abs() <= room, "{place}: {what} is {x}, not {y}");
    near("the weight", found.weight(), expected.weight, 1e-13 * expected.weight);
    near("the objective", found.objective(), expected.objective, objective * expected.weight);
    for k in 0..found.components() {
        near(&format!("mass {k}"), found.mass(k), expected.masses[k], room);
        let resultant = &expected.resultants[k * found.dim()..][..found.dim()];
        found.resultant(k).iter().zip(resultant).for_each(|(x, y)| near(&format!("resultant {k}"), *x, *y, room));
        let shortfall = expected.masses[k] - dot(resultant, resultant).sqrt();
        near(&format!("shortfall {k}"), found.shortfall(k), shortfall, 3.0 * room);
    }
}

/// Asserts that statistics agree to `tolerance` times the total weight.
pub fn assert_same(found: &SufficientStats, expected: &SufficientStats, tolerance: f64, place: &str) {
    let room = tolerance * expected.weight();
    let near = |what: &str, x: f64, y: f64| assert!((x - y).abs() <= room, "{place}: {what} is {x}, not {y}");
    near("the weight", found.weight(), expected.weight());
    near("the objective", found.objective(), expected.objective());
    for k in 0..expected.components() {
        near("a mass", found.mass(k), expected.mass(k));
        near("a shortfall", found.shortfall(k), expected.shortfall(k));
        found.resultant(k).iter().zip(expected.resultant(k)).for_each(|(x, y)| near("a resultant", *x, *y));
    }
}

/// Asserts that a mixture is valid: weights sum to 1, concentrations are within bounds, mean
/// directions have unit length, and a background is uniform.
pub fn assert_sound(mixture: &Mixture, largest_concentration: f64, place: &str) {
    let sum: f64 = mixture.weights().iter().sum();
    assert!((sum - 1.0).abs() < 1e-12 && mixture.weights().iter().all(|w| *w >= 0.0), "{place}: weights {:?}", mixture.weights());
    for (k, component) in mixture.components().iter().enumerate() {
        let (mu, concentration) = (component.mean_direction(), component.concentration());
        assert!((dot(mu, mu) - 1.0).abs() < 1e-12, "{place}: direction {k} is {mu:?}");
        assert!((0.0..=largest_concentration).contains(&concentration), "{place}: concentration {k} is {concentration}");
        assert!(!mixture.is_background(k) || concentration == 0.0, "{place}: the background has concentration {concentration}");
    }
}

/// The bits of the trace of a fit, without its durations.
fn trace(fit: &Fit) -> Vec<[u64; 4]> {
    let bits = |x: f64| x.to_bits();
    let pass = |p: &Pass| [bits(p.objective), bits(p.smallest_weight), bits(p.largest_concentration), bits(p.temperature)];
    fit.trace.iter().map(pass).collect()
}

/// Asserts that two fits are equal to the last bit.
pub fn assert_same_fit(one: &Fit, other: &Fit, place: &str) {
    assert_eq!(one.mixture, other.mixture, "{place}");
    assert_eq!((trace(one), &one.notes), (trace(other), &other.notes), "{place}");
    assert_eq!(
        (one.status, one.weight, one.rows, &one.settings),
        (other.status, other.weight, other.rows, &other.settings),
        "{place}"
    );
}

/// Replaces the checksum of a file by that of its bytes, if it has one.
pub fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let entry = b"\"checksum\":\"";
    if let Some(at) = bytes.windows(entry.len() + 16).position(|window| window.starts_with(entry)) {
        let digits = at + entry.len()..at + entry.len() + 16;
        bytes[digits.clone()].fill(b'0');
        let checksum = format!("{:016x}", twox_hash::XxHash3_64::oneshot(&bytes));
        bytes[digits].copy_from_slice(checksum.as_bytes());
    }
    bytes
}

/// A safetensors file with random changes and a valid checksum: numbers of the body are replaced by
/// other numbers, other bytes by any bytes, and the end may be cut off.
pub fn damaged(
    mut bytes: Vec<u8>,
    numbers: Vec<(prop::sample::Index, f64)>,
    changes: Vec<(prop::sample::Index, u8)>,
    end: Option<prop::sample::Index>,
) -> Vec<u8> {
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize + 8;
    for (at, number) in numbers {
        let at = header + 8 * at.index((bytes.len() - header) / 8);
        bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
    for (at, byte) in changes {
        let at = at.index(bytes.len());
        bytes[at] = byte;
    }
    if let Some(end) = end {
        bytes.truncate(end.index(bytes.len()));
    }
    sealed(bytes)
}
