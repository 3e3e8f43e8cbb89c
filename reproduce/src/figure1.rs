//! Figure 1: ln I_s(x) at high orders, where I_s(x) itself is below the smallest f64 and scipy
//! returns 0.
//!
//! scipy's values and the 25-digit references are in `data/figure1.csv`, and those of the block of
//! arguments in `data/figure1_block.csv`. The script `data/figure1.py` computes both.

use crate::largest;
use crate::verdict::{self, Source, Verdict};
use anyhow::{Context, Result};
use clap::Args;
use kuva::plot::{LinePlot, ScatterPlot};
use kuva::render::annotations::{ReferenceLine, ShadedRegion, TextAnnotation};
use kuva::render::{layout::Layout, plots::Plot, render::render_multiple};
use serde::Serialize;
use std::path::PathBuf;
use vmfkit::bessel::ln_bessel_i;

const TABLE: &str = include_str!("../data/figure1.csv");
const BLOCK: &str = include_str!("../data/figure1_block.csv");

/// The smaller of the arguments in the paper's listing; scipy's value there is 0.
const PAPERS_ARGUMENT: f64 = 0.03;

/// The paper's block: this order, and rows of this many arguments.
const BLOCK_ORDER: f64 = 100.0;
const BLOCK_COLUMNS: usize = 4;

/// The orders in the printed table: d = 2, 102, 202, 402, 1002 and 2002. The figure has all orders.
const PRINTED: [f64; 6] = [0.0, 50.0, 100.0, 200.0, 500.0, 1000.0];

/// The largest error of ln I allowed, in ulps of max(1, s, |ln I|).
const TOLERANCE: f64 = 3.0;

/// The logarithm of the smallest positive f64, 2^-1074.
const LN_SMALLEST: f64 = -1074.0 * std::f64::consts::LN_2;

/// The lowest ln I in the figure.
const FLOOR: f64 = -3000.0;

const COLORS: [&str; 6] = ["#2f9e9e", "#4269d0", "#e8871e", "#c8342f", "#3ca951", "#8c5fc4"];

#[derive(Args)]
pub struct Options {
    /// File of the figure, .svg or .png.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Print JSON with all rows instead of the table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    order: f64,
    x: f64,
    scipy: f64,
    /// Minus infinity (null in JSON) where scipy underflows.
    scipy_ln: f64,
    ours: f64,
    reference: String,
    /// In ulps of max(1, s, |ln I|).
    error: f64,
}

impl Row {
    fn parse(line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |i: usize| -> Result<f64> { Ok(fields.get(i).context("a field is missing")?.parse()?) };
        let (order, x, reference, rest) = (number(0)?, number(1)?, number(4)?, number(5)?);
        let ours = ln_bessel_i(order, x);
        let scale = reference.abs().max(order).max(1.0);
        let error = ((ours - reference) - rest).abs() / (scale * f64::EPSILON);
        Ok(Row { order, x, scipy: number(2)?, scipy_ln: number(3)?, ours, reference: fields[4].into(), error })
    }
}

fn rows(table: &str) -> Result<Vec<Row>> {
    let lines = table.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines.map(|line| Row::parse(line).with_context(|| format!("data of figure 1: {line}"))).collect()
}

fn verdicts(rows: &[Row], block: &[Row]) -> Vec<Verdict> {
    let lost = |rows: &[Row]| rows.iter().filter(|row| !row.scipy_ln.is_finite()).count();
    let worst = largest(rows.iter().chain(block).map(|row| row.error));
    let listed = rows.iter().find(|row| (row.order, row.x) == (BLOCK_ORDER, PAPERS_ARGUMENT));
    let scipy = listed.map_or(f64::NAN, |row| row.scipy);
    let values =
        |row: &Row| format!("I_{BLOCK_ORDER}({PAPERS_ARGUMENT}) is {} by scipy, {} by vmfkit", row.scipy, decimal(row.ours));
    vec![
        Verdict::check(
            format!("at x = {PAPERS_ARGUMENT} and a high order scipy underflows to 0, and arbitrary precision does not"),
            scipy,
            scipy == 0.0 && listed.is_some_and(|row| row.ours.is_finite()),
            listed.map_or("not in the table".into(), values),
        )
        .source(Source::Paper),
        Verdict::check(
            "scipy loses the logarithm at high order",
            lost(rows) as f64,
            lost(rows) > 0,
            format!("{} of {} values, and {} of {} in the block", lost(rows), rows.len(), lost(block), block.len()),
        )
        .source(Source::Paper),
        Verdict::check(
            format!("ours is right to {TOLERANCE} ulps of max(1, s, |ln I|) at every point, including the block"),
            worst,
            worst < TOLERANCE,
            format!("at most {worst:.2}"),
        ),
    ]
}

/// Prints the table with its verdicts, and draws the figure. Returns the verdicts.
pub fn run(options: &Options) -> Result<Vec<Verdict>> {
    let (rows, block) = (rows(TABLE)?, rows(BLOCK)?);
    let verdicts = verdicts(&rows, &block);
    if options.json {
        // The paper shows its values as an image only, so this has the parameters from its text.
        let paper = serde_json::json!({ "x": PAPERS_ARGUMENT, "block_order": BLOCK_ORDER, "block_shape": [3, BLOCK_COLUMNS] });
        let report = serde_json::json!({ "rows": rows, "block": block, "paper": paper, "verdicts": verdicts });
        crate::show(&serde_json::to_string_pretty(&report)?)?;
    } else {
        crate::show(&format!("{}\n\n{}\n\n{}", table(&rows), block_table(&block), verdict::lines(&verdicts)))?;
    }
    if let Some(path) = &options.output {
        let (plots, layout) = figure(&rows);
        crate::draw(path, &render_multiple(plots, layout))?;
    }
    Ok(verdicts)
}

fn table(rows: &[Row]) -> String {
    let mut lines = vec![
        "Figure 1: the modified Bessel function at high order; scipy's logarithm is the better of ln(iv) and ln(ive) + x".into(),
        String::new(),
        "   s      x     scipy iv            scipy ln             ours ln  reference ln                 error (ulp)".into(),
    ];
    for row in rows.iter().filter(|row| PRINTED.contains(&row.order)) {
        let Row { order, x, scipy, scipy_ln, ours, reference, error } = row;
        lines.push(format!(
            "{order:>4}  {x:>5}  {scipy:>11.4e}  {scipy_ln:>18.11}  {ours:>18.11}  {reference:<28}  {error:>10.2}"
        ));
    }
    lines.join("\n")
}

/// The block of the paper's text: arguments, our values, and scipy's.
fn block_table(block: &[Row]) -> String {
    let lines = |cell: &dyn Fn(&Row) -> String| -> String {
        let line = |rows: &[Row]| rows.iter().map(|row| format!("  {:<18}", cell(row))).collect::<String>().trim_end().to_owned();
        block.chunks(BLOCK_COLUMNS).map(|rows| format!("\n{}", line(rows))).collect()
    };
    format!(
        "I_{BLOCK_ORDER}(x) for a block of 3 x {BLOCK_COLUMNS} arguments, uniform in [0, 1), numpy's generator with seed 1\nx{}\nours{}\nscipy{}",
        lines(&|row| format!("{:.12}", row.x)),
        lines(&|row| decimal(row.ours)),
        lines(&|row| if row.scipy == 0.0 { "0".into() } else { format!("{:.9e}", row.scipy) }),
    )
}

/// e^ln in decimal with ten digits, also if it is smaller than any f64. `ln` must be finite.
fn decimal(ln: f64) -> String {
    let log10 = ln / std::f64::consts::LN_10;
    let exponent = log10.floor();
    // A mantissa that rounds to 10 increments the exponent.
    let mantissa = format!("{:.9e}", 10_f64.powf(log10 - exponent));
    let (digits, carry) = mantissa.split_once('e').expect("the format writes an exponent");
    format!("{digits}e{}", exponent + carry.parse::<f64>().expect("an exponent is a number"))
}

/// Our values as lines, scipy's finite values as points.
fn figure(rows: &[Row]) -> (Vec<Plot>, Layout) {
    let mut plots = Vec::new();
    for (group, color) in rows.chunk_by(|a, b| a.x == b.x).zip(COLORS) {
        let x = group[0].x;
        let line =
            (0..=1000).step_by(2).map(|s| (f64::from(s), ln_bessel_i(f64::from(s), x))).take_while(|point| point.1 >= FLOOR);
        let name = format!("vmfkit, x = {x}");
        plots.push(Plot::Line(LinePlot::new().with_data(line).with_color(color).with_stroke_width(2.0).with_legend(name)));
    }
    let points = rows.iter().filter(|row| row.scipy_ln.is_finite()).map(|row| (row.order, row.scipy_ln));
    let scatter = ScatterPlot::new().with_data(points).with_color("#222222").with_size(3.0).with_legend("scipy, where finite");
    plots.push(Plot::Scatter(scatter));
    let gray = "#444444";
    let mut layout = Layout::auto_from_plots(&plots)
        .with_title("The Bessel function beyond the smallest f64")
        .with_x_label("order s = d/2 - 1")
        .with_y_label("ln I_s(x)")
        .with_width(860.0)
        .with_height(560.0)
        .with_x_axis_min(0.0)
        .with_x_axis_max(1000.0)
        .with_y_axis_min(FLOOR)
        .with_y_axis_max(600.0)
        .with_shaded_region(ShadedRegion::horizontal(FLOOR, LN_SMALLEST).with_color("#999999").with_opacity(0.13))
        .with_reference_line(ReferenceLine::horizontal(LN_SMALLEST).with_color("#666666").with_label("smallest f64, 2^-1074"))
        .with_annotation(TextAnnotation::new("here scipy's I_s(x) is 0", 118.0, -2350.0).with_color(gray))
        .with_annotation(TextAnnotation::new("and its logarithm -inf", 118.0, -2480.0).with_color(gray));
    if let Some(row) = rows.iter().rfind(|row| row.x == 10.0 && row.scipy_ln.is_finite()) {
        let label = TextAnnotation::new("scipy ends", 362.0, -620.0).with_color(gray);
        layout = layout.with_annotation(label.with_arrow(row.order, row.scipy_ln));
    }
    (plots, layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_values_match_the_references() {
        let (rows, block) = (rows(TABLE).unwrap(), rows(BLOCK).unwrap());
        assert_eq!((rows.len(), block.len()), (6 * 41, 3 * BLOCK_COLUMNS));
        assert!(block.iter().all(|row| row.order == BLOCK_ORDER && (0.0..1.0).contains(&row.x)));
        for verdict in verdicts(&rows, &block) {
            assert!(verdict.is_met(), "{}: {}", verdict.claim, verdict.found);
        }
    }

    #[test]
    fn verdicts_fail_without_an_underflow_and_with_a_wrong_digit() {
        let (mut rows, mut block) = (rows(TABLE).unwrap(), rows(BLOCK).unwrap());
        for row in &mut rows {
            (row.scipy, row.scipy_ln) = (1e-300, row.ours);
        }
        block[7].error = 3.5;
        assert!(verdicts(&rows, &block).iter().all(|verdict| !verdict.is_met()));
        // Without a row for the paper's argument its verdict cannot hold.
        rows.retain(|row| row.x != PAPERS_ARGUMENT);
        assert!(!verdicts(&rows, &block)[0].is_met());
    }

    /// Expected values by mpmath: I_100(0.03), and an entry of the block below the smallest f64.
    #[test]
    fn values_below_the_smallest_f64_are_printed_in_decimal() {
        assert_eq!(decimal(-783.7098811158334), "4.356354550e-341");
        assert_eq!(decimal(-792.1962926175782), "8.985071387e-345");
        assert_eq!(decimal(0.0), "1.000000000e0");
        assert_eq!(decimal((1e5_f64 * (1.0 - 1e-12)).ln()), "1.000000000e5");
    }

    #[test]
    fn the_block_is_printed_in_three_lines_of_four() {
        let text = block_table(&rows(BLOCK).unwrap());
        assert_eq!(text.lines().count(), 4 + 3 * 3);
        assert!(
            text.contains("8.985071387e-345") && text.lines().last().unwrap().starts_with("  8.540731764e-215    0 "),
            "{text}"
        );
    }

    #[test]
    fn the_figure_has_a_line_per_argument_and_the_points() {
        let (plots, layout) = figure(&rows(TABLE).unwrap());
        assert_eq!(plots.len(), 7);
        let svg = kuva::render_to_svg(plots, layout);
        assert!(svg.contains("vmfkit, x = 500") && svg.contains("vmfkit, x = 0.03"));
    }
}
