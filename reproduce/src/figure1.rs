//! Figure 1: ln I_s(x) at the orders of high dimension, where I_s(x) itself is below the smallest f64 and scipy answers 0.
//!
//! scipy's values and the 25-digit references are in `data/figure1.csv`, made by the script beside it.

use crate::{Verdict, largest};
use anyhow::{Context, Result};
use clap::Args;
use kuva::plot::{LinePlot, ScatterPlot};
use kuva::render::annotations::{ReferenceLine, ShadedRegion, TextAnnotation};
use kuva::render::{layout::Layout, plots::Plot, render::render_multiple};
use serde::Serialize;
use std::path::PathBuf;
use vmfkit::bessel::ln_bessel_i;

const TABLE: &str = include_str!("../data/figure1.csv");

/// The orders of the printed table, those of d = 2, 102, 202, 402, 1002 and 2002; the picture has them all.
const PRINTED: [f64; 6] = [0.0, 50.0, 100.0, 200.0, 500.0, 1000.0];

/// How far ln I may be from the reference, in ulps of its natural scale.
const TOLERANCE: f64 = 3.0;

/// The logarithm of the smallest positive f64, 2^-1074.
const LN_SMALLEST: f64 = -1074.0 * std::f64::consts::LN_2;

/// The lowest ln I in the picture.
const FLOOR: f64 = -3000.0;

const COLORS: [&str; 5] = ["#4269d0", "#e8871e", "#c8342f", "#3ca951", "#8c5fc4"];

#[derive(Args)]
pub struct Options {
    /// Where to draw the picture: .svg or .png.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Print JSON (every row) instead of the table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    order: f64,
    x: f64,
    scipy: f64,
    /// Minus infinity, which JSON writes as null, where scipy underflows.
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

fn rows() -> Result<Vec<Row>> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines.map(|line| Row::parse(line).with_context(|| format!("figure1.csv: {line}"))).collect()
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let lost = rows.iter().filter(|row| !row.scipy_ln.is_finite()).count();
    let worst = largest(rows.iter().map(|row| row.error));
    vec![
        Verdict {
            claim: "scipy loses the logarithm at high order".into(),
            found: format!("{lost} of {} values", rows.len()),
            holds: lost > 0,
        },
        Verdict {
            claim: format!("ours is right to {TOLERANCE} ulps of max(1, s, |ln I|) at every one"),
            found: format!("at most {worst:.2}"),
            holds: worst < TOLERANCE,
        },
    ]
}

/// Prints the table and its verdicts and draws the picture; true if all verdicts hold.
pub fn run(options: &Options) -> Result<bool> {
    let rows = rows()?;
    let verdicts = verdicts(&rows);
    if options.json {
        crate::show(&serde_json::to_string_pretty(&serde_json::json!({ "rows": rows, "verdicts": verdicts }))?)?;
    } else {
        crate::show(&table(&rows, &verdicts))?;
    }
    if let Some(path) = &options.output {
        let (plots, layout) = picture(&rows);
        crate::draw(path, &render_multiple(plots, layout))?;
    }
    Ok(verdicts.iter().all(|verdict| verdict.holds))
}

fn table(rows: &[Row], verdicts: &[Verdict]) -> String {
    let mut lines = vec![
        "Figure 1: the modified Bessel function at high order; scipy's logarithm is the better of ln(iv) and ln(ive) + x".into(),
        String::new(),
        "   s      x     scipy iv            scipy ln             ours ln  reference ln                 error (ulp)".into(),
    ];
    for row in rows.iter().filter(|row| PRINTED.contains(&row.order)) {
        let Row { order, x, scipy, scipy_ln, ours, reference, error } = row;
        lines.push(format!(
            "{order:>4}  {x:>5}  {scipy:>11.4e}  {scipy_ln:>18.11}  {ours:>18.11}  {reference:<27}  {error:>11.2}"
        ));
    }
    lines.push(String::new());
    lines.extend(verdicts.iter().map(Verdict::line));
    lines.join("\n")
}

/// Ours as lines, scipy's as points where they are finite.
fn picture(rows: &[Row]) -> (Vec<Plot>, Layout) {
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
    fn every_value_meets_its_reference() {
        let rows = rows().unwrap();
        assert_eq!(rows.len(), 5 * 41);
        for verdict in verdicts(&rows) {
            assert!(verdict.holds, "{}: {}", verdict.claim, verdict.found);
        }
    }

    #[test]
    fn the_picture_has_a_line_for_each_argument_and_the_points() {
        let (plots, layout) = picture(&rows().unwrap());
        assert_eq!(plots.len(), 6);
        assert!(kuva::render_to_svg(plots, layout).contains("vmfkit, x = 500"));
    }
}
