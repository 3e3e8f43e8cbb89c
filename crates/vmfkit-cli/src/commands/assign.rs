//! `vmf assign`: the most probable component of each row, its density and its p-value.

use crate::args::OUTPUT;
use crate::files::output::{self, Output};
use crate::files::row_memory::ExtraMemory;
use crate::files::row_source::RowTotals;
use crate::files::table_file::TableFile;
use crate::report::components::{self, COMPONENTS_SHOWN};
use crate::report::format::{aligned, json_number, readable};
use crate::score_rows::{P_VALUES, ScoreArguments, ScoredBlock, Scorer, Sums};
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use vmfkit::merge_tree::Cut;
use vmfkit_io::{Column, ColumnData, ColumnKind, Ids, OutputFormat};

static AFTER_HELP: LazyLock<String> = LazyLock::new(|| {
    format!(
        "\
Examples:
  vmf assign model.safetensors x.npy -o labels.parquet
  vmf assign model.safetensors 'part-*.parquet' --columns embedding --id-column url -o labels.parquet
  vmf assign model.safetensors x.npy --top 3 --outliers 0.001 -o labels.csv
  vmf assign model.safetensors x.npy -o found.npy && vmf compare truth.npy found.npy
  vmf assign model.safetensors x.npy --all-columns -o table.npy
  vmf assign model.safetensors x.npy --clusters 20 -o coarse.parquet     merged to 20 clusters
  cat x.jsonl | vmf assign model.safetensors - --p-values none -o -

Columns of the output:
  id or row          the id (--id-column), or the row number from 0
  component          the most probable component, from 0
  label              its label, if the model was fitted to known labels
  probability        the calibrated probability of the component; with --raw, the exact posterior
  ln_density         ln p of the row under the mixture
  p_value            p-value of the row
  outlier            with --outliers: whether the p-value is at most LEVEL
  component_2, label_2, probability_2, ...
                     with --top: the next most probable components
With --clusters, the columns are called cluster, cluster_2, ... and have no labels.
A .npy file holds only the components, as `vmf compare` reads them. With --all-columns, --top,
--outliers or integer ids, it is a structured array with one field per column.
`-o -` writes CSV to standard output and the report to standard error; --quiet omits the report.
Fractions in the report are weighted if the rows have weights.

{P_VALUES}"
    )
});

/// Buffer of a Parquet row group, and the footer of the file.
const ROW_GROUP_MEMORY: u64 = 24 << 20;
/// Memory of a row of the table while it is written, and of each of its components.
const TABLE_ROW: u64 = 512;
const RANK_MEMORY: u64 = 256;

/// Write the most probable component, ln density and p-value of each row
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP.as_str())]
pub struct Assign {
    #[command(flatten)]
    scoring: ScoreArguments,
    /// File to write: .parquet, .arrow, .csv, .tsv, .jsonl, .npy, or `-` for CSV on standard output
    #[arg(long, short, value_name = "FILE", help_heading = OUTPUT)]
    output: PathBuf,
    /// Number of components to write for each row, the most probable first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), help_heading = OUTPUT)]
    top: u32,
    /// Merge components to this number of clusters and label rows by cluster (see `vmf tree`)
    ///
    /// The cluster of a row is that of its most probable component, so that clusters of different
    /// numbers nest. Its probability is the sum of the probabilities of its components.
    #[arg(verbatim_doc_comment, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = OUTPUT)]
    clusters: Option<u32>,
    /// Write all columns to .npy files, as a structured array
    #[arg(long, help_heading = OUTPUT)]
    all_columns: bool,
}

impl Assign {
    pub fn run(&self) -> Result<()> {
        self.scoring.files().writes("-o", Some(&self.output)).check()?;
        let to_stdout = self.output == Path::new("-");
        let format = self.format()?;
        let held_back = if format == OutputFormat::Parquet { ROW_GROUP_MEMORY } else { 0 };
        let has_p_values = self.scoring.has_p_values()?;
        let p_values = has_p_values && !self.is_components_alone(format);
        let extra =
            ExtraMemory { fixed: held_back, per_row: TABLE_ROW + RANK_MEMORY * u64::from(self.top), ..ExtraMemory::default() };
        let mut scorer = self.scoring.open(extra, p_values, self.clusters.map(|clusters| clusters as usize))?;
        let groups = scorer.cut.as_ref().map_or(scorer.mixture.components().len(), Cut::groups);
        if self.top as usize > groups {
            bail!("`--top` must be at most the number of {}s, {groups}, found: `{}`", self.unit(), self.top);
        }
        let output = Output::create(&self.output)?;
        if p_values {
            scorer = scorer.with_p_values(&self.scoring)?;
        }
        let mut tally =
            Tally { sums: Sums::new(self.scoring.outliers, &scorer), rows: vec![0; groups], weights: vec![0.0; groups] };
        self.write_table(&mut scorer, format, output, &mut tally)?;
        let Scorer { model, mixture, cut, labels, source, .. } = scorer;
        let has_background = mixture.has_background();
        let weights = match &cut {
            Some(cut) => {
                let mut weights = vec![0.0; groups];
                cut.of_components()
                    .iter()
                    .zip(mixture.weights())
                    .for_each(|(cluster, weight)| weights[*cluster as usize] += weight);
                weights
            }
            None => mixture.weights().to_vec(),
        };
        let (output, unit, rows) = (&self.output, self.unit(), source.totals());
        let report = Report { output, unit, model, rows, weights, has_background, labels, tally };
        match to_stdout && self.scoring.report.quiet {
            true => Ok(()),
            false => output::report(&if self.scoring.report.json { report.to_json() } else { report.to_text() }, to_stdout),
        }
    }

    /// What rows are assigned to.
    fn unit(&self) -> &'static str {
        if self.clusters.is_some() { "cluster" } else { "component" }
    }

    fn format(&self) -> Result<OutputFormat> {
        if self.output == Path::new("-") {
            return Ok(OutputFormat::Csv);
        }
        let name = self.output.display();
        match OutputFormat::of(&self.output) {
            Ok(OutputFormat::Npz | OutputFormat::Safetensors | OutputFormat::Mtx) | Err(_) => {
                bail!("the output file must end in .parquet, .arrow, .csv, .tsv, .jsonl or .npy, found: `{name}`")
            }
            Ok(format) => Ok(format),
        }
    }

    /// Whether only the most probable component of each row is written.
    fn is_components_alone(&self, format: OutputFormat) -> bool {
        let more = self.all_columns || self.top > 1 || self.scoring.outliers.is_some() || self.scoring.has_ids();
        format == OutputFormat::Npy && !more
    }

    fn write_table(&self, scorer: &mut Scorer, format: OutputFormat, output: Output, tally: &mut Tally) -> Result<()> {
        let Some(mut scored) = scorer.next(self.top as usize)? else { unreachable!("a source without rows is an error") };
        let alone = self.is_components_alone(format);
        let columns = if alone { vec![Column::new(self.unit(), ColumnKind::U32)] } else { self.columns(scorer) };
        let mut table = TableFile::new(output, format, &columns, scorer.source.len())?;
        loop {
            tally.add(&scored);
            if alone {
                table.write(&[ColumnData::U32(&scored.summary.ranks[0].components)])?;
            } else {
                self.write_rows(&mut table, &scored, scorer, columns[0].kind)?;
            }
            match scorer.next(self.top as usize)? {
                Some(next) => scored = next,
                None => return table.finish(),
            }
        }
    }

    fn columns(&self, scorer: &Scorer) -> Vec<Column> {
        let name = match scorer.source.ids().1 {
            Some(Ids::Texts(_)) => Column::new("id", ColumnKind::Text),
            Some(Ids::Integers(_)) => Column::new("id", ColumnKind::I64),
            None => Column::new("row", ColumnKind::I64),
        };
        let has_labels = !scorer.labels.is_empty();
        let mut columns = vec![name, Column::new(self.unit(), ColumnKind::U32)];
        columns.extend(has_labels.then(|| Column::new("label", ColumnKind::Text)));
        columns.extend([Column::new("probability", ColumnKind::F64), Column::new("ln_density", ColumnKind::F64)]);
        columns.extend(scorer.has_p_values().then(|| Column::new("p_value", ColumnKind::F64)));
        columns.extend(self.scoring.outliers.map(|_| Column::new("outlier", ColumnKind::Bool)));
        for rank in 2..=self.top {
            columns.push(Column::new(format!("{}_{rank}", self.unit()), ColumnKind::U32));
            columns.extend(has_labels.then(|| Column::new(format!("label_{rank}"), ColumnKind::Text)));
            columns.push(Column::new(format!("probability_{rank}"), ColumnKind::F64));
        }
        columns
    }

    /// Writes the rows of a block, in the order of [`Self::columns`]. Integer ids become text if those of the first block are text.
    fn write_rows(&self, table: &mut TableFile, scored: &ScoredBlock, scorer: &Scorer, kind: ColumnKind) -> Result<()> {
        let (summary, ids) = (&scored.summary, scorer.source.ids());
        let labels: Vec<Vec<String>> = match scorer.labels.is_empty() {
            true => Vec::new(),
            // A background has no label.
            false => summary
                .ranks
                .iter()
                .map(|rank| rank.components.iter().map(|&k| scorer.labels.get(k as usize).cloned().unwrap_or_default()).collect())
                .collect(),
        };
        let (numbers, texts): (Vec<i64>, Vec<String>);
        let name = match (ids, kind) {
            ((_, Some(Ids::Integers(ids))), ColumnKind::I64) => ColumnData::I64(ids),
            ((_, Some(Ids::Texts(ids))), ColumnKind::Text) => ColumnData::Text(ids),
            ((_, Some(Ids::Integers(ids))), _) => {
                texts = ids.iter().map(i64::to_string).collect();
                ColumnData::Text(&texts)
            }
            ((first, Some(Ids::Texts(ids))), _) => {
                let found = ids.iter().find(|id| id.parse::<i64>().is_err()).map_or("a text", String::as_str);
                bail!(
                    "ids must be integers, like those of the first file, found from row {first} on: `{found}`\n\
                     hint: if a file with text ids comes first, all ids are written as text"
                );
            }
            ((first, None), _) => {
                numbers = (first as i64..).take(summary.ln_densities.len()).collect();
                ColumnData::I64(&numbers)
            }
        };
        let first = &summary.ranks[0];
        let mut data = vec![name, ColumnData::U32(&first.components)];
        data.extend(labels.first().map(|labels| ColumnData::Text(labels)));
        data.extend([ColumnData::F64(&first.responsibilities), ColumnData::F64(&summary.ln_densities)]);
        data.extend(scored.p_values.as_deref().map(ColumnData::F64));
        let is_outlier: Vec<bool>;
        if let (Some(level), Some(p_values)) = (self.scoring.outliers, &scored.p_values) {
            is_outlier = p_values.iter().map(|p_value| *p_value <= level).collect();
            data.push(ColumnData::Bool(&is_outlier));
        }
        for (index, rank) in summary.ranks.iter().enumerate().skip(1) {
            data.push(ColumnData::U32(&rank.components));
            data.extend(labels.get(index).map(|labels| ColumnData::Text(labels)));
            data.push(ColumnData::F64(&rank.responsibilities));
        }
        table.write(&data)
    }
}

/// Counts over the rows.
struct Tally {
    sums: Sums,
    /// Per component, the number of rows assigned to it, and their weight.
    rows: Vec<u64>,
    weights: Vec<f64>,
}

impl Tally {
    fn add(&mut self, scored: &ScoredBlock) {
        self.sums.add(scored);
        for (row, &component) in scored.summary.ranks[0].components.iter().enumerate() {
            self.rows[component as usize] += 1;
            self.weights[component as usize] += scored.weight(row);
        }
    }
}

/// Everything that is reported.
struct Report<'a> {
    output: &'a Path,
    /// `component` or `cluster`.
    unit: &'static str,
    model: String,
    rows: RowTotals,
    /// Of the components or clusters, a background last.
    weights: Vec<f64>,
    has_background: bool,
    labels: Vec<String>,
    tally: Tally,
}

impl Report<'_> {
    /// The components, those with most rows first.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.tally.rows.len()).collect();
        order.sort_by_key(|&component| std::cmp::Reverse(self.tally.rows[component]));
        order
    }

    fn is_background(&self, component: usize) -> bool {
        self.has_background && component + 1 == self.weights.len()
    }

    fn fraction(&self, component: usize) -> f64 {
        self.tally.weights[component] / self.tally.sums.evaluation.weight
    }

    fn to_json(&self) -> String {
        let Report { rows, unit, tally, .. } = self;
        let components: Vec<Value> = self
            .order()
            .into_iter()
            .map(|component| {
                json!({
                    (*unit): component,
                    "label": self.labels.get(component),
                    "background": self.is_background(component),
                    "rows": tally.rows[component],
                    "fraction": json_number(self.fraction(component)),
                    "weight": self.weights[component],
                })
            })
            .collect();
        let outliers = tally.sums.outliers.as_ref().map(
            |outliers| json!({ "level": outliers.level, "p_values": outliers.p_values, "rows": outliers.rows, "fraction": json_number(outliers.fraction()) }),
        );
        let object = json!({
            "file": rows.file,
            "model": self.model,
            "output": self.output.display().to_string(),
            "rows": rows.rows,
            "dim": rows.dim,
            "total_weight": json_number(rows.weight),
            "rescaled_rows": rows.rescaled,
            "mean_ln_density": json_number(tally.sums.evaluation.mean()),
            "outliers": outliers,
            (format!("{unit}s")): components,
        });
        format!("{object}\n")
    }

    fn to_text(&self) -> String {
        let Report { rows, unit, tally, .. } = self;
        let mut text = format!("{}, under {}\n\n", rows.heading(), self.model);
        text.push_str(&format!("mean ln density   {}\n", readable(tally.sums.evaluation.mean())));
        if let Some(outliers) = &tally.sums.outliers {
            let (count, level, fraction) = (outliers.rows, outliers.level, readable(outliers.fraction()));
            text.push_str(&format!("outliers          {count}, {fraction} of the rows (p-values of at most {level})\n"));
        }
        let mut table = vec![[*unit, "rows", "fraction", "weight in the model"].map(str::to_owned).to_vec()];
        let order = self.order();
        table.extend(order.iter().take(COMPONENTS_SHOWN).map(|&component| {
            vec![
                components::name(component, self.is_background(component), &self.labels),
                tally.rows[component].to_string(),
                format!("{:.6}", self.fraction(component)),
                format!("{:.6}", self.weights[component]),
            ]
        }));
        text.push_str(&format!("\n{}{}", aligned(&table), components::more(self.weights.len(), COMPONENTS_SHOWN)));
        text
    }
}
