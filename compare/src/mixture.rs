//! Seconds of an EM pass and of an SGD epoch over the rows of a folder, from the start in it.

use crate::npy::{self, Array, Values};
use clap::Args;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use vmfkit::m_step::{Maximisation, maximise};
use vmfkit::train::{Adam, Stop};
use vmfkit::{Assignment, ConcentrationPolicy, Fitter, Method, Mixture, RowBatch, Start, SufficientStats, VonMisesFisher};

/// After a warm-up, the work is repeated at least this many times, and for at least this time, so
/// that short work is measured warm, as in a long fit.
const REPEATS: usize = 5;
const TIME: Duration = Duration::from_millis(500);

#[derive(Args)]
pub struct Options {
    /// Where x.npy, directions.npy, weights.npy and concentrations.npy are.
    folder: PathBuf,
    /// Also an epoch of SGD with batches of this many rows.
    #[arg(long)]
    batch: Option<usize>,
}

/// Prints one JSON line a work.
pub fn print_times(options: &Options) -> anyhow::Result<()> {
    let rows = npy::read(&options.folder, "x")?;
    let (element, block) = match &rows.values {
        Values::F32(values) => ("f32", RowBatch::new(rows.shape[1], values)?),
        Values::F64(values) => ("f64", RowBatch::new(rows.shape[1], values)?),
        Values::I64(_) => anyhow::bail!("rows must be f4 or f8"),
    };
    let start = read_start(options)?;
    let about = format!(
        "\"rows\":{},\"dim\":{},\"components\":{},\"element\":\"{element}\"",
        block.len(),
        block.dim(),
        start.components().len()
    );
    let how = Maximisation::new().policy(ConcentrationPolicy::Free);
    let mut ln_likelihood = 0.0;
    let seconds = repeat(|| {
        let mut stats = SufficientStats::zero(start.components().len(), start.dim());
        start.accumulate(&block, Assignment::Soft, &mut stats)?;
        ln_likelihood = stats.objective();
        std::hint::black_box(maximise(&stats, &start, &how)?);
        Ok(())
    })?;
    println!("{{\"work\":\"em\",{about},\"seconds\":{seconds:?},\"ln_likelihood\":{ln_likelihood}}}");
    if let Some(batch) = options.batch {
        let seconds = repeat(|| {
            let fitter = Fitter::new(start.components().len()).method(Method::Sgd(Adam::new())).maximisation(how.clone());
            let fitter = fitter.calibrate(false).start(Start::Mixture(start.clone())).batch(batch).stop(Stop {
                tolerance: None,
                passes: 1,
                ..Stop::default()
            });
            std::hint::black_box(fitter.fit(&block)?);
            Ok(())
        })?;
        println!("{{\"work\":\"sgd\",{about},\"seconds\":{seconds:?}}}");
    }
    Ok(())
}

fn repeat(mut work: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<Vec<f64>> {
    work()?;
    let (mut seconds, begin) = (Vec::new(), Instant::now());
    while seconds.len() < REPEATS || begin.elapsed() < TIME {
        let clock = Instant::now();
        work()?;
        seconds.push(clock.elapsed().as_secs_f64());
    }
    Ok(seconds)
}

fn read_start(options: &Options) -> anyhow::Result<Mixture> {
    let read = |name: &str| npy::read(&options.folder, name);
    let Array { shape, values } = read("directions")?;
    let (directions, concentrations) = (values.into_f64(), read("concentrations")?.values.into_f64());
    let densities = directions.chunks_exact(shape[1]).zip(concentrations);
    let densities = densities.map(|(direction, concentration)| VonMisesFisher::along(direction.to_vec(), concentration));
    Ok(Mixture::new(read("weights")?.values.into_f64(), densities.collect::<vmfkit::Result<_>>()?)?)
}
