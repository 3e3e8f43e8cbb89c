//! `vmf constants`: the constants of one density, or of a file of points.

use crate::args::{INPUT, MODEL, OUTPUT, ReportArguments};
use crate::files::Files;
use crate::files::input;
use crate::files::output::Output;
use crate::report::format::json_number;
use crate::report::progress::Progress;
use anyhow::{Context, Result, anyhow, bail};
use csv::ByteRecord;
use rayon::prelude::*;
use serde_json::{Map, Value};
use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use vmfkit::bessel;
use vmfkit_io::csv::{not_a_number, number};
use vmfkit_io::excerpt;

const EXAMPLES: &str = "\
Examples:
  vmf constants --dim 768 --concentration 50
  vmf constants --dim 768 --mean-length 0.7           the density with this mean length
  vmf constants --dim 768 --complement 1e-12 --json   the same, for mean lengths near 1
  vmf constants --from points.csv -o answers.csv      one line per point

Columns of --from (in any order; others are ignored) and columns of the output:
  d,one_minus_r    d,one_minus_r,kappa
  d,r              d,r,kappa                r is the mean length
  d,kappa1,kappa2  d,kappa1,kappa2,kl       the KL divergence for equal mean directions
  d,kappa          d,kappa,log_iv,log_c,log_c_plus_kappa,a,one_minus_a,a_prime,entropy,phi,
                   kl_uniform
If a file has the columns of several of these lines, the first one applies. Points are copied
unchanged. Numbers are the shortest text that reads back as the same f64, or inf and -inf.";

/// Compute the constants of a density: ln C, ln I, A, entropy, divergence from uniform
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Constants {
    /// Number of coordinates d, at least 1
    #[arg(long, short, value_name = "D", help_heading = MODEL, required_unless_present = "from")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 52))]
    dim: Option<u64>,
    /// Concentration kappa, at least 0
    #[arg(long, visible_alias = "kappa", value_name = "KAPPA", allow_hyphen_values = true, help_heading = MODEL)]
    #[arg(required_unless_present_any = ["mean_length", "complement", "from"])]
    concentration: Option<f64>,
    /// Mean length R in [0, 1], instead of the concentration
    #[arg(long, value_name = "R", help_heading = MODEL, allow_hyphen_values = true, conflicts_with = "concentration")]
    mean_length: Option<f64>,
    /// 1 - R, instead of the concentration; more precise than R if R is near 1
    #[arg(long, value_name = "1-R", help_heading = MODEL, allow_hyphen_values = true, conflicts_with_all = ["concentration", "mean_length"])]
    complement: Option<f64>,
    /// Read points from a CSV file with a header, `-` for standard input
    #[arg(long, value_name = "FILE", help_heading = INPUT, conflicts_with_all = ["dim", "concentration", "mean_length", "complement", "json"])]
    from: Option<PathBuf>,
    /// File to write, `-` for standard output
    #[arg(long, short, value_name = "FILE", default_value = "-", help_heading = OUTPUT)]
    output: PathBuf,
    #[command(flatten)]
    report: ReportArguments,
}

impl Constants {
    pub fn run(&self) -> Result<()> {
        match &self.from {
            Some(path) => {
                Files::new().reads([path]).writes("-o", Some(&self.output)).check()?;
                answer_file(path, &self.output, Progress::new(!self.report.quiet))
            }
            None => self.answer_point(),
        }
    }

    fn answer_point(&self) -> Result<()> {
        let dim = usize::try_from(self.dim.expect("required without --from"))?;
        let rows = describe(dim, self.given_concentration(dim)?);
        let mut text = format!("{:<14}{:<25}{}\n", "d", dim, "dimension");
        for (_, symbol, value, meaning) in rows {
            writeln!(text, "{symbol:<14}{:<25}{meaning}", format!("{value:.16e}"))?;
        }
        if self.report.json {
            let mut object = Map::new();
            object.insert("dim".to_owned(), dim.into());
            object.extend(rows.map(|(key, _, value, _)| (key.to_owned(), json_number(value))));
            text = format!("{}\n", Value::from(object));
        }
        let mut output = Output::create(&self.output)?;
        output.write(text)?;
        output.finish()
    }

    fn given_concentration(&self, dim: usize) -> Result<f64> {
        let (name, given, found) = match (self.concentration, self.mean_length, self.complement) {
            (Some(value), ..) if value >= 0.0 && value.is_finite() => return Ok(value),
            (Some(value), ..) => return Err(vmfkit::Error::Concentration { value }.into()),
            (_, Some(given), _) => ("mean length", given, bessel::concentration_from_mean_length(dim, given)),
            (.., given) => {
                let given = given.expect("one of the three is required");
                ("complement", given, bessel::concentration_from_complement(dim, given))
            }
        };
        if !(0.0..=1.0).contains(&given) {
            bail!("the {name} must be in [0, 1], found: `{given}`");
        }
        if found == f64::INFINITY {
            let hint = if self.complement.is_none() { "\nhint: for R near 1, give `--complement`, which is 1 - R" } else { "" };
            bail!("no finite concentration in dimension {dim} has the {name}: `{given}`{hint}");
        }
        Ok(found)
    }
}

/// Key, symbol, value and meaning of every constant.
fn describe(dim: usize, k: f64) -> [(&'static str, &'static str, f64, &'static str); 11] {
    let ratio = bessel::mean_length_and_slope(dim, k);
    [
        ("concentration", "kappa", k, "concentration"),
        ("ln_normalizer", "ln C", bessel::ln_normalizer(dim, k), "log of the normaliser"),
        ("ln_peak", "kappa + ln C", bessel::ln_peak(dim, k), "log density at the mode"),
        ("ln_bessel_i", "ln I", bessel::ln_bessel_i(order(dim), k), "log of the Bessel function of order d/2 - 1"),
        ("ln_bessel_i_scaled", "ln I - kappa", bessel::ln_bessel_i_scaled(order(dim), k), "log of exp(-kappa) I"),
        ("mean_length", "A", ratio.value, "mean length, E[mu . x]"),
        ("mean_length_complement", "1 - A", ratio.complement, "1 - A without cancellation"),
        ("mean_length_slope", "A'", ratio.slope, "variance of mu . x"),
        ("entropy", "H", bessel::entropy(dim, k), "entropy in nats"),
        ("divergence_from_uniform", "KL", bessel::divergence_from_uniform(dim, k), "KL from the uniform density in nats"),
        ("ln_partition", "Phi", bessel::ln_partition(dim, k), "ln C(0) - ln C(kappa)"),
    ]
}

/// d/2 - 1
fn order(dim: usize) -> f64 {
    0.5 * dim as f64 - 1.0
}

/// What is computed for a file of points.
#[derive(Debug, Clone, Copy)]
enum Question {
    Everything,
    Divergence,
    FromMeanLength,
    FromComplement,
}

impl Question {
    /// In order of preference.
    const ALL: [Self; 4] = [Self::FromComplement, Self::FromMeanLength, Self::Divergence, Self::Everything];

    /// The input columns after `d`.
    fn given(self) -> &'static [&'static str] {
        match self {
            Self::Everything => &["kappa"],
            Self::Divergence => &["kappa1", "kappa2"],
            Self::FromMeanLength => &["r"],
            Self::FromComplement => &["one_minus_r"],
        }
    }

    /// The output columns after those.
    fn asked(self) -> &'static str {
        match self {
            Self::Everything => "log_iv,log_c,log_c_plus_kappa,a,one_minus_a,a_prime,entropy,phi,kl_uniform",
            Self::Divergence => "kl",
            Self::FromMeanLength | Self::FromComplement => "kappa",
        }
    }

    fn check(self, value: f64) -> bool {
        match self {
            Self::Everything | Self::Divergence => value >= 0.0 && value.is_finite(),
            Self::FromMeanLength | Self::FromComplement => (0.0..=1.0).contains(&value),
        }
    }

    fn range(self) -> &'static str {
        match self {
            Self::Everything | Self::Divergence => "finite and at least 0",
            Self::FromMeanLength | Self::FromComplement => "in [0, 1]",
        }
    }

    fn answer(self, dim: usize, given: [f64; 2], line: &mut String) {
        let k = given[0];
        // `{:?}` prints the shortest text that reads back, with an exponent if that is shorter.
        let result = match self {
            Self::Everything => {
                let (ln_bessel, ln_normalizer, ln_peak) =
                    (bessel::ln_bessel_i(order(dim), k), bessel::ln_normalizer(dim, k), bessel::ln_peak(dim, k));
                let bessel::MeanLength { value, complement, slope } = bessel::mean_length_and_slope(dim, k);
                let (entropy, phi) = (bessel::entropy(dim, k), bessel::ln_partition(dim, k));
                let kl = bessel::divergence_from_uniform(dim, k);
                let numbers = [ln_bessel, ln_normalizer, ln_peak, value, complement, slope, entropy, phi, kl];
                return numbers.iter().for_each(|x| write!(line, ",{x:?}").expect("a string takes any text"));
            }
            Self::Divergence => bessel::divergence(dim, given[0], given[1]),
            Self::FromMeanLength => bessel::concentration_from_mean_length(dim, given[0]),
            Self::FromComplement => bessel::concentration_from_complement(dim, given[0]),
        };
        write!(line, ",{result:?}").expect("a string takes any text");
    }
}

/// The positions of the columns in the file.
struct Layout {
    question: Question,
    dim: usize,
    given: Vec<usize>,
}

impl Layout {
    fn find(header: &ByteRecord) -> Result<Self> {
        let position = |name: &str| header.iter().position(|cell| cell == name.as_bytes());
        let find = |question: Question| {
            let given = question.given().iter().map(|name| position(name)).collect::<Option<Vec<_>>>()?;
            Some(Layout { question, dim: position("d")?, given })
        };
        Question::ALL.into_iter().find_map(find).ok_or_else(|| {
            let names = header.iter().collect::<Vec<_>>().join(&b',');
            anyhow!(
                "line 1 must name the columns d and one of kappa, r, one_minus_r, or kappa1 and kappa2, found: `{}`",
                excerpt(&names)
            )
        })
    }

    fn answer(&self, record: &ByteRecord, out: &mut String) -> Result<()> {
        let line = record.position().map_or(0, csv::Position::line);
        let cell = |column: usize, name: &str| {
            record.get(column).with_context(|| format!("line {line} has too few cells, missing column: `{name}`"))
        };
        let dim_cell = cell(self.dim, "d")?;
        let dim = std::str::from_utf8(dim_cell).ok().and_then(|d| d.parse().ok()).filter(|&d: &usize| d >= 1);
        let Some(dim) = dim else {
            bail!("line {line}, column `d` must be a whole number of at least 1, found: `{}`", excerpt(dim_cell));
        };
        out.push_str(&String::from_utf8_lossy(dim_cell));
        let mut given = [0.0; 2];
        for ((value, &column), name) in given.iter_mut().zip(&self.given).zip(self.question.given()) {
            let found = cell(column, name)?;
            *value = number(found).ok_or_else(|| not_a_number(line, name, found))?;
            if !self.question.check(*value) {
                bail!("line {line}, column `{name}` must be {}, found: `{}`", self.question.range(), excerpt(found));
            }
            out.push(',');
            out.push_str(&String::from_utf8_lossy(found));
        }
        self.question.answer(dim, given, out);
        out.push('\n');
        Ok(())
    }
}

/// Lines in memory at a time.
const LINES_PER_BATCH: usize = 1 << 14;
/// Lines per task.
const LINES_PER_TASK: usize = 1 << 9;

fn answer_file(from: &Path, to: &Path, mut progress: Progress) -> Result<()> {
    let name = || input::display(from);
    let input: Box<dyn Read> = if from == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(from).context("cannot be read").with_context(name)?)
    };
    let mut reader = csv::ReaderBuilder::new().flexible(true).trim(csv::Trim::All).buffer_capacity(1 << 18).from_reader(input);
    let layout = reader.byte_headers().map_err(Into::into).and_then(Layout::find).with_context(name)?;
    let mut output = Output::create(to)?;
    output.write(format!("d,{},{}\n", layout.question.given().join(","), layout.question.asked()))?;
    let mut batch = vec![ByteRecord::new(); LINES_PER_BATCH];
    let mut answered = 0;
    loop {
        let mut filled = 0;
        while filled < batch.len() && reader.read_byte_record(&mut batch[filled]).with_context(name)? {
            filled += 1;
        }
        let answers: Vec<(String, Result<()>)> = batch[..filled]
            .par_chunks(LINES_PER_TASK)
            .map(|records| {
                let mut lines = String::with_capacity(200 * records.len());
                let done = records.iter().try_for_each(|record| layout.answer(record, &mut lines));
                (lines, done)
            })
            .collect();
        for (lines, done) in answers {
            done.with_context(name)?;
            output.write(lines)?;
        }
        answered += filled as u64;
        progress.count("", answered, None, "points");
        if filled < batch.len() {
            return output.finish();
        }
    }
}
