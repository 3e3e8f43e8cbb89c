//! The number of components recommended for families of rows with known components, and for rows of
//! a folder. Prints one JSON line per set; `selection.py` makes the tables of
//! docs/number-of-components.md from them.

use crate::npy::{self, Values};
use clap::Args;
use rand::{RngExt, SeedableRng};
use std::path::{Path, PathBuf};
use std::time::Instant;
use vmfkit::RowBatch;
use vmfkit::fit::select::{Candidate, Criterion, Selection};

#[derive(Args)]
pub struct Options {
    /// The folder of x.npy; without one, the families.
    folder: Option<PathBuf>,
    /// Numbers of components for the rows of a folder.
    #[arg(long, value_delimiter = ',')]
    components: Vec<usize>,
    /// Sets of each family, each with a seed of its own from the first on.
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    first_seed: u64,
    /// Only families with at most this many components.
    #[arg(long, default_value_t = 100)]
    most: usize,
    /// The random seed of the fits.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Rows whose noise, and the differences of whose components, lie in some of the dimensions.
struct Family {
    dim: usize,
    noisy: usize,
    components: usize,
    /// The length of the noise; components are at a distance of 1 from their common direction.
    spread: f64,
    /// How many times larger the first component is than the last; sizes fall geometrically.
    largest: f64,
}

const ROWS_PER_COMPONENT: usize = 100;

/// Numbers of components to compare, as multiples of the true one.
const GRID: [f64; 9] = [0.25, 0.5, 0.7, 0.9, 1.0, 1.1, 1.4, 2.0, 4.0];

#[rustfmt::skip]
const FAMILIES: [Family; 14] = [
    Family { dim: 64, noisy: 8, components: 5, spread: 0.3, largest: 1.0 },
    Family { dim: 128, noisy: 20, components: 5, spread: 0.7, largest: 1.0 },
    Family { dim: 384, noisy: 60, components: 8, spread: 1.0, largest: 5.0 },
    Family { dim: 128, noisy: 20, components: 12, spread: 0.6, largest: 1.0 },
    Family { dim: 128, noisy: 60, components: 12, spread: 0.8, largest: 1.0 },
    Family { dim: 384, noisy: 60, components: 12, spread: 1.0, largest: 1.0 },
    Family { dim: 128, noisy: 30, components: 20, spread: 0.6, largest: 1.0 },
    Family { dim: 384, noisy: 200, components: 20, spread: 1.2, largest: 1.0 },
    Family { dim: 128, noisy: 60, components: 30, spread: 0.8, largest: 1.0 },
    Family { dim: 384, noisy: 60, components: 30, spread: 0.8, largest: 5.0 },
    Family { dim: 128, noisy: 60, components: 50, spread: 0.7, largest: 1.0 },
    Family { dim: 384, noisy: 100, components: 50, spread: 0.9, largest: 1.0 },
    Family { dim: 128, noisy: 60, components: 100, spread: 0.6, largest: 1.0 },
    Family { dim: 384, noisy: 60, components: 100, spread: 0.7, largest: 1.0 },
];

impl Family {
    /// Rows of one set: a direction common to all, a centre per component and noise.
    fn rows(&self, seed: u64) -> Vec<f32> {
        let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut normals = |scale: f64| -> Vec<f64> {
            let scale = scale / (self.noisy as f64).sqrt();
            let pairs = (0..self.noisy.div_ceil(2)).flat_map(|_| {
                let length = (-2.0 * f64::ln(1.0 - rng.random::<f64>())).sqrt();
                let angle = std::f64::consts::TAU * rng.random::<f64>();
                [length * angle.cos(), length * angle.sin()]
            });
            pairs.take(self.noisy).map(|x| scale * x).collect()
        };
        let centres: Vec<Vec<f64>> = (0..self.components).map(|_| normals(1.0)).collect();
        let shares: Vec<f64> =
            (0..self.components).map(|k| self.largest.powf(-(k as f64) / (self.components - 1) as f64)).collect();
        let rows_per_share = (self.components * ROWS_PER_COMPONENT) as f64 / shares.iter().sum::<f64>();
        let mut rows = Vec::new();
        for (centre, share) in centres.iter().zip(&shares) {
            for _ in 0..(share * rows_per_share).round() as usize {
                let mut values = vec![0.0; self.dim];
                values[self.dim - 1] = 1.0;
                values.iter_mut().zip(centre.iter().zip(normals(self.spread))).for_each(|(x, (mean, noise))| *x = mean + noise);
                let length = values.iter().map(|x| x * x).sum::<f64>().sqrt();
                rows.extend(values.iter().map(|x| (x / length) as f32));
            }
        }
        rows
    }
}

/// Prints one JSON line for each set.
pub fn print_curves(options: &Options) -> anyhow::Result<()> {
    if let Some(folder) = &options.folder {
        return print_folder(options, folder);
    }
    for family in FAMILIES.iter().filter(|family| family.components <= options.most) {
        let Family { dim, noisy, components, spread, largest } = family;
        let numbers = GRID.map(|factor| ((factor * *components as f64).round() as usize).max(1));
        for seed in options.first_seed..options.first_seed + options.seeds {
            let rows = family.rows(seed);
            let set = format!(
                "\"dim\": {dim}, \"noisy\": {noisy}, \"true\": {components}, \"spread\": {spread}, \"largest\": {largest}, \"seed\": {seed}"
            );
            print_set(options, &set, &RowBatch::new(*dim, &rows)?, &numbers)?;
        }
    }
    Ok(())
}

fn print_folder(options: &Options, folder: &Path) -> anyhow::Result<()> {
    let array = npy::read(folder, "x")?;
    let Values::F32(values) = array.values else { anyhow::bail!("x.npy must be of f4") };
    let dim = *array.shape.last().expect("rows have a dimension");
    let name = folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    print_set(options, &format!("\"set\": \"{name}\""), &RowBatch::new(dim, &values)?, &options.components)
}

fn print_set(options: &Options, set: &str, rows: &RowBatch, numbers: &[usize]) -> anyhow::Result<()> {
    let clock = Instant::now();
    let table = Selection::new(numbers.iter().copied()).criterion(Criterion::Stability).seed(options.seed).run(rows)?;
    let lines: Vec<String> = table.iter().map(line).collect();
    let seconds = clock.elapsed().as_secs_f64();
    println!("{{{set}, \"rows\": {}, \"seconds\": {seconds:.1}, \"lines\": [{}]}}", rows.len(), lines.join(", "));
    Ok(())
}

fn line(candidate: &Candidate) -> String {
    let number = |x: Option<f64>| x.map_or("null".to_owned(), |x| format!("{x:.6}"));
    let stability = candidate.stability.as_ref();
    let repeats: Vec<String> = stability.iter().flat_map(|s| &s.repeats).map(|x| format!("{x:.6}")).collect();
    format!(
        "{{\"k\": {}, \"stability\": {}, \"error\": {}, \"repeats\": [{}], \"shared\": {}, \"neighbours\": {}, \
         \"neighbours_error\": {}, \"bic\": {:.2}, \"dispersion\": {}}}",
        candidate.components,
        number(stability.map(|s| s.agreement.mean)),
        number(stability.map(|s| s.agreement.standard_error)),
        repeats.join(", "),
        number(stability.map(|s| s.shared_information.mean)),
        number(candidate.neighbours.map(|n| n.mean)),
        number(candidate.neighbours.map(|n| n.standard_error)),
        candidate.bic(),
        number(candidate.dispersion()),
    )
}
