//! The special functions by name: their values and their times.

use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::BufRead;
use std::time::{Duration, Instant};
use vmfkit::bessel::*;

/// How long one class of one function is measured in one round.
const ROUND: Duration = Duration::from_millis(20);

/// Answers each line of the input with one line.
pub fn print_values(input: impl BufRead) -> Result<()> {
    let mut answers = String::new();
    for line in input.lines() {
        let line = line?;
        let value = value(&line).with_context(|| format!("cannot answer `{line}`"))?;
        writeln!(answers, "{value:e}")?;
    }
    print!("{answers}");
    Ok(())
}

fn value(line: &str) -> Result<f64> {
    let mut fields = line.split(',');
    let function = fields.next().context("no function")?;
    let dim: usize = fields.next().context("no dimension")?.parse()?;
    let x: f64 = fields.next().context("no argument")?.parse()?;
    Ok(match function {
        "mean_length" => mean_length(dim, x),
        "complement" => mean_length_complement(dim, x),
        "slope" => mean_length_and_slope(dim, x).slope,
        "inverse" => concentration_from_mean_length(dim, x),
        "inverse_complement" => concentration_from_complement(dim, x),
        "phi" => ln_partition(dim, x),
        "kl_uniform" => divergence_from_uniform(dim, x),
        "kl" => divergence(dim, x, fields.next().context("no second argument")?.parse()?),
        "ln_peak" => ln_peak(dim, x),
        "entropy" => entropy(dim, x),
        "ln_normalizer" => ln_normalizer(dim, x),
        "ln_bessel" => ln_bessel_i(order(dim), x),
        _ => bail!("unknown function"),
    })
}

fn order(dim: usize) -> f64 {
    0.5 * dim as f64 - 1.0
}

/// One round over every class and function.
pub fn print_times(input: impl BufRead) -> Result<()> {
    for line in input.lines() {
        let line = line?;
        let (dim, concentrations) = line.split_once(',').context("no concentrations")?;
        let dim: usize = dim.parse()?;
        let concentrations: Vec<f64> = concentrations.split(',').map(str::parse).collect::<Result<_, _>>()?;
        let lengths: Vec<f64> = concentrations.iter().map(|&k| mean_length(dim, k)).collect();
        let print = |name: &str, time: f64| println!("{dim},{name},{time:.2}");
        print("mean_length", nanoseconds(&concentrations, |k| mean_length(dim, k)));
        print(
            "mean_length_and_slope",
            nanoseconds(&concentrations, |k| {
                let at = mean_length_and_slope(dim, k);
                at.value + at.complement + at.slope
            }),
        );
        print("ln_normalizer", nanoseconds(&concentrations, |k| ln_normalizer(dim, k)));
        print("ln_peak", nanoseconds(&concentrations, |k| ln_peak(dim, k)));
        print("ln_bessel", nanoseconds(&concentrations, |x| ln_bessel_i(order(dim), x)));
        print("inverse", nanoseconds(&lengths, |r| concentration_from_mean_length(dim, r)));
        print("entropy", nanoseconds(&concentrations, |k| entropy(dim, k)));
    }
    Ok(())
}

/// The fastest pass of one round, a call.
fn nanoseconds(arguments: &[f64], function: impl Fn(f64) -> f64) -> f64 {
    let mut best = Duration::MAX;
    let round = Instant::now();
    while round.elapsed() < ROUND {
        let pass = Instant::now();
        black_box(black_box(arguments).iter().map(|&x| function(x)).sum::<f64>());
        best = best.min(pass.elapsed());
    }
    best.as_nanos() as f64 / arguments.len() as f64
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn a_point_is_answered_by_its_function() {
        assert_eq!(value("ln_bessel,2,0").unwrap(), 0.0);
        assert_eq!(value("kl,3,2,2").unwrap(), 0.0);
        assert!((value("mean_length,3,2").unwrap() - (1.0 / 2f64.tanh() - 0.5)).abs() < 1e-15);
        assert!(value("mean,3,2").is_err());
        assert!(value("kl,3,2").is_err());
    }
}
