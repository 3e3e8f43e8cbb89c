//! `vmf compare`: how well two labelings of the same rows agree.

use crate::args::rows::Header;
use crate::args::{INPUT, ReportArguments};
use crate::files::input;
use crate::files::output;
use crate::report::progress::Progress;
use anyhow::{Result, bail};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use vmfkit::metrics::Agreement;

const EXAMPLES: &str = "\
Examples:
  vmf compare truth.npy found.npy
  vmf compare truth.txt found.npy --json
  vmf compare truth.parquet labels.parquet --columns class,component

A .npy file holds one integer per row. A text file (.csv, .tsv or any other) holds one label per
line, which may be any text. A table (Parquet, Arrow, JSON Lines, or text with a header) holds
them in a column of integers, by default `component`, as `vmf assign` writes it.
Only the partition of the rows matters: the two files may name the same group differently.";

/// The best matching of up to this many pairs of groups takes a few seconds.
const MOST_PAIRS: usize = 1 << 22;

/// Compare two labelings of the same rows: adjusted Rand index, mutual information, V-measure
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Compare {
    /// Reference labels, `-` for standard input
    first: PathBuf,
    /// Labels to compare with them, `-` for standard input
    second: PathBuf,
    /// Column of the labels: one name for both files, or one for each [default: component]
    ///
    /// Leave a name empty for a file without columns.
    #[arg(long, visible_alias = "column", value_name = "NAMES", value_delimiter = ',', num_args = 1..=2, help_heading = INPUT)]
    columns: Option<Vec<String>>,
    /// Whether the first line of text files names the columns [default: auto]
    ///
    /// auto: the first line is a header if it is not a number and all other lines are.
    #[arg(long, value_name = "WHEN", value_enum, help_heading = INPUT)]
    header: Option<Header>,
    #[command(flatten)]
    report: ReportArguments,
}

impl Compare {
    pub fn run(&self) -> Result<()> {
        if [&self.first, &self.second].iter().all(|path| *path == Path::new("-")) {
            bail!("only one of the files can be standard input, found: `- -`");
        }
        let columns = self.columns.as_deref().unwrap_or_default();
        let column = |file: usize| columns.get(file).or(columns.last()).map(String::as_str).filter(|name| !name.is_empty());
        let header = self.header.and_then(Header::is_there);
        let first = input::read_labels(&self.first, header, column(0))?;
        let second = input::read_labels(&self.second, header, column(1))?;
        let names = [&self.first, &self.second].map(|path| input::display(path));
        if first.len() != second.len() {
            bail!(
                "both files must label the same rows, {} has {} labels and {}: `{}`",
                names[0],
                first.len(),
                names[1],
                second.len()
            );
        }
        let agreement = Agreement::new(&first, &second)?;
        let mut progress = Progress::new(!self.report.quiet);
        progress.announce("finding the best matching of the groups");
        let report =
            if self.report.json { to_json(&names, first.len(), &agreement) } else { to_text(&names, first.len(), &agreement) };
        drop(progress);
        output::print(report)
    }
}

/// Key, name, value and meaning of every score. Very many groups are not matched.
fn scores(agreement: &Agreement) -> [(&'static str, &'static str, Option<f64>, &'static str); 6] {
    let (first, second) = agreement.groups();
    let matched = (first.saturating_mul(second) <= MOST_PAIRS).then(|| agreement.matched_fraction());
    [
        (
            "adjusted_rand_index",
            "ARI",
            Some(agreement.adjusted_rand_index()),
            "adjusted Rand index: 0 on average for random labels",
        ),
        (
            "normalized_mutual_information",
            "NMI",
            Some(agreement.normalized_mutual_information()),
            "mutual information over the mean of the entropies",
        ),
        ("homogeneity", "homogeneity", Some(agreement.homogeneity()), "1 if each group of the second is within one of the first"),
        (
            "completeness",
            "completeness",
            Some(agreement.completeness()),
            "1 if each group of the first is within one of the second",
        ),
        ("v_measure", "V", Some(agreement.v_measure()), "harmonic mean of homogeneity and completeness"),
        ("matched_fraction", "matched", matched, "fraction of rows that agree under the best one-to-one renaming of groups"),
    ]
}

fn to_json(names: &[String; 2], rows: usize, agreement: &Agreement) -> String {
    let (first, second) = agreement.groups();
    let mut object = Map::new();
    object.insert("files".to_owned(), json!(names));
    object.insert("rows".to_owned(), rows.into());
    object.insert("groups".to_owned(), json!([first, second]));
    object.extend(scores(agreement).map(|(key, _, value, _)| (key.to_owned(), value.into())));
    format!("{}\n", Value::from(object))
}

fn to_text(names: &[String; 2], rows: usize, agreement: &Agreement) -> String {
    let (first, second) = agreement.groups();
    let mut text = format!("{rows} rows: {first} groups in {}, {second} groups in {}\n\n", names[0], names[1]);
    for (_, name, value, meaning) in scores(agreement) {
        let value = value.map_or_else(|| "-".to_owned(), |value| format!("{value:.6}"));
        text.push_str(&format!("{name:<15}{value:>9}   {meaning}\n"));
    }
    text
}
