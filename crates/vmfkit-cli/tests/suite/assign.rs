//! `vmf assign`: labels, p-values and ids in every format.

use crate::mixture::three_groups;
use crate::{Workspace, number};
use std::fs::File;
use std::path::Path;
use vmfkit::rows::Rows;
use vmfkit::source::Source;
use vmfkit::{Mixture, RowBatch, store::model};
use vmfkit_io::{Batch, Element, Ids, Options, OutputFormat, RowLayout, RowWriter};

/// Formats that hold a whole table.
const TABLES: [&str; 5] = ["parquet", "arrow", "csv", "tsv", "jsonl"];

/// Three groups in `x.csv`, a mixture of them in `m.safetensors`, and the labels of the fit in
/// `fit.npy`.
pub fn fitted() -> Workspace {
    let workspace = three_groups();
    workspace.run("fit x.csv -k 3 -o m.safetensors --labels fit.npy").success();
    workspace
}

pub fn model(workspace: &Workspace) -> Mixture {
    model::from_bytes(&workspace.read("m.safetensors")).unwrap().0
}

/// Rows in any format, with ids.
fn write_rows(workspace: &Workspace, name: &str, rows: &[f64], dim: usize, ids: Option<Ids>) {
    let mut layout = RowLayout::new(dim, Element::F64);
    if let Some(ids) = &ids {
        layout = layout.ids(ids.kind());
    }
    let sink = Box::new(File::create(workspace.path(name)).unwrap());
    let mut writer = RowWriter::new(OutputFormat::of(Path::new(name)).unwrap(), sink, &layout).unwrap();
    writer.write(&Batch { rows: rows.len() / dim, values: Rows::F64(rows.to_vec().into()), weights: None, ids }).unwrap();
    writer.finish().unwrap();
}

/// Draws of the model in `drawn.npy`.
pub fn draw(workspace: &Workspace, rows: usize, seed: u64) {
    let mixture = model(workspace);
    let mut values = vec![0f64; rows * mixture.dim()];
    mixture.fill(seed, 0, &mut values, &mut vec![0; rows]).unwrap();
    write_rows(workspace, "drawn.npy", &values, mixture.dim(), None);
}

/// The cells of a CSV file with its header.
fn cells(text: &[u8]) -> Vec<Vec<String>> {
    let text = String::from_utf8(text.to_vec()).unwrap();
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

fn column(table: &[Vec<String>], name: &str) -> Vec<f64> {
    let at = table[0].iter().position(|cell| cell == name).unwrap_or_else(|| panic!("no {name} in {:?}", table[0]));
    table[1..].iter().map(|row| row[at].parse().unwrap()).collect()
}

#[test]
fn labels_are_those_of_the_fit_and_numbers_those_of_the_library() {
    let workspace = fitted();
    let report = workspace.run("assign m.safetensors x.csv -o found.npy --json").json();
    assert_eq!((&report["rows"], &report["output"], &report["outliers"]), (&600.into(), &"found.npy".into(), &().into()));
    let compared = workspace.run("compare fit.npy found.npy --json").json();
    assert_eq!((&compared["adjusted_rand_index"], &compared["rows"]), (&1.0.into(), &600.into()));

    workspace.run("assign m.safetensors x.csv -o found.csv").success();
    let (table, mixture) = (cells(&workspace.read("found.csv")), model(&workspace));
    assert_eq!(table[0], ["row", "component", "probability", "ln_density", "p_value"]);
    let rows: Vec<f64> = cells(&workspace.read("x.csv"))[1..].iter().flatten().map(|cell| cell.parse().unwrap()).collect();
    let block = RowBatch::new(3, &rows).unwrap();
    let (mut labels, mut shares, mut ln_densities) = (vec![0; 600], vec![0.0; 1800], vec![0.0; 600]);
    mixture.assign_into(&block, &mut labels).unwrap();
    mixture.responsibilities_into(&block, &mut shares).unwrap();
    mixture.ln_densities_into(&block, &mut ln_densities).unwrap();
    assert_eq!(column(&table, "row"), (0..600).map(f64::from).collect::<Vec<_>>());
    assert_eq!(column(&table, "component"), labels.iter().map(|label| f64::from(*label)).collect::<Vec<_>>());
    assert_eq!(column(&table, "ln_density"), ln_densities);
    let best: Vec<f64> = labels.iter().enumerate().map(|(row, label)| shares[3 * row + *label as usize]).collect();
    assert_eq!(column(&table, "probability"), best);
    assert!(column(&table, "p_value").iter().all(|p_value| (0.0..=1.0).contains(p_value)));

    let components = report["components"].as_array().unwrap();
    let fractions: Vec<f64> = components.iter().map(|component| number(&component["fraction"])).collect();
    assert!((fractions.iter().sum::<f64>() - 1.0).abs() < 1e-12 && fractions.is_sorted_by(|a, b| a >= b), "{fractions:?}");
    let text = workspace.run("assign m.safetensors x.csv -o found.csv --p-values none").success();
    for words in
        ["x.csv: 600 rows of dimension 3, under m.safetensors\n\nmean ln density   ", "component  rows  fraction  weight"]
    {
        assert!(text.contains(words), "`{words}` is missing in:\n{text}");
    }
    assert!(!workspace.read("found.csv").starts_with(b"row,component,probability,ln_density,p_value"));
}

/// Every column of a table: ids, p-values as weights, and the other numbers, which are divided by
/// their length.
fn read_table(workspace: &Workspace, name: &str) -> (Vec<f64>, Vec<f64>, Ids) {
    let columns = ["component", "probability", "ln_density", "component_2", "probability_2"].map(str::to_owned);
    let options = Options::new().columns(columns.to_vec()).weight_column("p_value").id_column("id").rescale(true);
    let mut source = vmfkit_io::open(workspace.path(name).to_str().unwrap(), &options).unwrap();
    let (mut rows, mut weights) = (Vec::new(), Vec::new());
    {
        let block = source.next_batch().unwrap().unwrap();
        (0..block.len()).for_each(|row| rows.extend(block.row(row).to_vec()));
        weights.extend(block.weights().unwrap());
    }
    let ids = source.ids().unwrap().clone();
    (rows, weights, ids)
}

#[test]
fn ids_and_numbers_come_through_every_format() {
    let workspace = fitted();
    let rows: Vec<f64> = cells(&workspace.read("x.csv"))[1..].iter().flatten().map(|cell| cell.parse().unwrap()).collect();
    let texts: Vec<String> = (0..600).map(|row| format!("row, \"{row}\" \u{e9}")).collect();
    let numbers: Vec<i64> = (0..600).map(|row| 7 * row - 50).collect();
    for ids in [Ids::Texts(texts), Ids::Integers(numbers)] {
        let mut first = None;
        for (input, columns) in [("csv", "x0,x1,x2"), ("jsonl", "embedding"), ("parquet", "embedding")] {
            let name = format!("in.{input}");
            write_rows(&workspace, &name, &rows, 3, Some(ids.clone()));
            for output in TABLES {
                let command = format!("assign m.safetensors {name} --columns {columns} --id-column id --top 2 -o out.{output}");
                workspace.run(&command).success();
                let (numbers, p_values, found) = read_table(&workspace, &format!("out.{output}"));
                let (first_numbers, first_p_values) = first.get_or_insert((numbers.clone(), p_values.clone()));
                assert_eq!(p_values, *first_p_values, "{name} to {output}");
                let off = numbers.iter().zip(&*first_numbers).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
                assert!(off < 1e-14 && numbers.len() == 5 * 600, "{name} to {output}: {off}");
                let as_texts = |ids: &Ids| match ids {
                    Ids::Texts(texts) => texts.clone(),
                    Ids::Integers(numbers) => numbers.iter().map(i64::to_string).collect(),
                };
                assert_eq!(as_texts(&found), as_texts(&ids), "{name} to {output}");
                if input == "parquet" && ["parquet", "arrow"].contains(&output) {
                    assert_eq!(found.kind(), ids.kind(), "{output}");
                }
            }
        }
    }
}

#[test]
fn numbers_of_one_file_and_texts_of_another_are_both_ids() {
    let workspace = fitted();
    let some = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0];
    write_rows(&workspace, "numbers.parquet", &some, 3, Some(Ids::Integers(vec![7, 8])));
    write_rows(&workspace, "texts.parquet", &some, 3, Some(Ids::Texts(["a", "b"].map(str::to_owned).to_vec())));
    workspace.run("assign m.safetensors texts.parquet numbers.parquet --id-column id -o out.csv").success();
    let table = cells(&workspace.read("out.csv"));
    let ids: Vec<&str> = table[1..].iter().map(|row| row[0].as_str()).collect();
    assert_eq!(ids, ["a", "b", "7", "8"]);
}

#[test]
fn the_next_components_are_named_too() {
    let workspace = fitted();
    workspace.run("assign m.safetensors x.csv --top 3 --outliers 0.05 -o found.csv").success();
    let table = cells(&workspace.read("found.csv"));
    assert_eq!(table[0][5..], ["outlier", "component_2", "probability_2", "component_3", "probability_3"]);
    let ranks = ["", "_2", "_3"].map(|rank| {
        let column = |name: &str| {
            let at = table[0].iter().position(|cell| *cell == format!("{name}{rank}")).unwrap();
            table[1..].iter().map(|row| row[at].parse::<f64>().unwrap()).collect::<Vec<_>>()
        };
        (column("component"), column("probability"))
    });
    for row in 0..600 {
        let mut components = ranks.clone().map(|rank| rank.0[row]);
        components.sort_by(f64::total_cmp);
        let shares = ranks.clone().map(|rank| rank.1[row]);
        assert_eq!(components, [0.0, 1.0, 2.0], "row {row}");
        assert!(shares.is_sorted_by(|a, b| a >= b) && (shares.iter().sum::<f64>() - 1.0).abs() < 1e-12, "row {row}: {shares:?}");
    }
}

/// Within 4 standard deviations at two levels: a false alarm in 8000, were the seed not fixed.
#[test]
fn as_many_rows_of_the_model_are_outliers_as_the_level_says() {
    let workspace = Workspace::new();
    // Overlapping components, so that p-values are calibrated.
    workspace.write("axes.csv", "1,0,0\n0,1,0\n0,0,1\n-1,1,0\n");
    workspace.run("sample --dim 3 --concentration 0.5 -n 3000 --seed 3 -o x.npy").success();
    workspace.run("fit x.npy -k 4 --policy fixed:4 --start directions:axes.csv --max-passes 5 -o m.safetensors").success();
    draw(&workspace, 20_000, 11);
    for level in [0.01, 0.1] {
        let report = workspace
            .run(&format!("assign m.safetensors drawn.npy --p-values law --outliers {level} -o found.csv --json"))
            .json();
        let fraction = number(&report["outliers"]["fraction"]);
        let deviation = (level * (1.0 - level) / 20_000.0f64).sqrt();
        assert!((fraction - level).abs() < 4.0 * deviation, "{fraction} at {level}");
        let table = String::from_utf8(workspace.read("found.csv")).unwrap();
        let flagged = table.lines().filter(|line| line.ends_with(",true")).count();
        assert_eq!(number(&report["outliers"]["rows"]), flagged as f64);
        assert_eq!(fraction, flagged as f64 / 20_000.0);
        let text =
            workspace.run(&format!("assign m.safetensors drawn.npy --p-values law --outliers {level} -o found.csv")).success();
        assert!(text.contains(&format!("outliers          {flagged}, ")), "{text}");
    }
}

/// A weight of 2 equals a repeated row, except for the number of rows.
#[test]
fn fractions_are_by_weight() {
    let workspace = fitted();
    let rows = String::from_utf8(workspace.read("x.csv")).unwrap();
    let repeated = |row: usize| if row < 100 { 3 } else { 1 };
    let weights: String = (0..600).map(|row| format!("{}\n", repeated(row))).collect();
    let twice: String = rows.lines().skip(1).enumerate().map(|(row, line)| format!("{line}\n").repeat(repeated(row))).collect();
    workspace.write("weights.csv", weights);
    workspace.write("twice.csv", twice);
    let [weighted, twice] = ["x.csv --weights weights.csv", "twice.csv"]
        .map(|file| workspace.run(&format!("assign m.safetensors {file} --outliers 0.2 -o out.csv --json")).json());
    assert_eq!((number(&weighted["rows"]), number(&weighted["total_weight"])), (600.0, 800.0));
    let near = |x: &serde_json::Value, y: &serde_json::Value| assert!((number(x) - number(y)).abs() < 1e-12, "{x} and {y}");
    near(&weighted["mean_ln_density"], &twice["mean_ln_density"]);
    near(&weighted["outliers"]["fraction"], &twice["outliers"]["fraction"]);
    for component in 0..3 {
        let fraction = |report: &serde_json::Value| {
            let of = report["components"].as_array().unwrap().iter().find(|line| line["component"] == component);
            of.unwrap()["fraction"].clone()
        };
        near(&fraction(&weighted), &fraction(&twice));
    }
}

#[test]
fn threads_and_pipes_change_no_byte() {
    let workspace = fitted();
    draw(&workspace, 5000, 1);
    for output in TABLES.into_iter().chain(["npy"]) {
        for threads in [1, 3] {
            workspace.run(&format!("assign m.safetensors drawn.npy --top 1 -o {threads}.{output} --threads {threads}")).success();
        }
        assert_eq!(workspace.read(&format!("1.{output}")), workspace.read(&format!("3.{output}")), "{output}");
    }
    // The number of rows of a CSV file is unknown before its end.
    for (input, output) in [("drawn.npy", "csv"), ("x.csv", "npy"), ("x.csv", "parquet")] {
        workspace.run(&format!("assign m.safetensors {input} -o file.{output}")).success();
        let run = workspace.run_with_input(&format!("assign m.safetensors - -o pipe.{output}"), &workspace.read(input));
        assert!(run.success().starts_with("standard input: "));
        assert_eq!(workspace.read(&format!("file.{output}")), workspace.read(&format!("pipe.{output}")), "{input} to {output}");
    }
}

#[test]
fn standard_output_takes_the_table_and_standard_error_the_report() {
    let workspace = fitted();
    workspace.run("assign m.safetensors x.csv -o out.csv").success();
    let table = String::from_utf8(workspace.read("out.csv")).unwrap();
    let run = workspace.run("assign m.safetensors x.csv -o -");
    assert!(run.stderr.starts_with("x.csv: 600 rows of dimension 3, under m.safetensors\n"), "{}", run.stderr);
    assert_eq!(run.success(), table);
    let run = workspace.run("assign m.safetensors x.csv -o - --json");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&run.stderr).unwrap()["rows"], 600);
    let run = workspace.run("assign m.safetensors x.csv -o - --quiet");
    assert_eq!((run.stderr.as_str(), run.stdout), ("", table));
}

/// The bytes of a row are the values of its columns, without gaps.
#[test]
fn an_array_has_a_field_for_each_column_where_more_than_components_are_asked_for() {
    let workspace = fitted();
    draw(&workspace, 200, 3);
    for (options, descr) in [
        ("--all-columns", "('p_value', '<f8')]"),
        ("--top 2 --p-values none", "('component_2', '<u4'), ('probability_2', '<f8')]"),
        ("--outliers 0.1", "('p_value', '<f8'), ('outlier', '|b1')]"),
    ] {
        workspace.run(&format!("assign m.safetensors drawn.npy {options} -o o.npy")).success();
        workspace.run(&format!("assign m.safetensors drawn.npy {options} -o o.csv")).success();
        let bytes = workspace.read("o.npy");
        let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        let text = String::from_utf8_lossy(&bytes[..header]);
        let first = "{'descr': [('row', '<i8'), ('component', '<u4'), ('probability', '<f8'), ('ln_density', '<f8'), ";
        assert!(text.contains(first) && text.contains(descr) && text.contains("'shape': (200,)"), "{text}");
        let table = cells(&workspace.read("o.csv"));
        let (responsibilities, ln_densities) = (column(&table, "probability"), column(&table, "ln_density"));
        let rows = bytes[header..].chunks_exact((bytes.len() - header) / 200);
        for (number, row) in rows.enumerate() {
            let double = |from: usize| f64::from_le_bytes(row[from..from + 8].try_into().unwrap());
            assert_eq!(i64::from_le_bytes(row[..8].try_into().unwrap()), number as i64);
            assert_eq!((double(12), double(20)), (responsibilities[number], ln_densities[number]), "{options}: row {number}");
        }
    }
}

#[test]
fn options_that_exclude_each_other_are_named() {
    let workspace = fitted();
    workspace.write("flat.csv", "1,0\n0,1\n");
    workspace.write("bad.csv", "1,0,0\n0,1,0\n1,1,0\n");
    workspace.write("empty.csv", "");
    let before = workspace.names();
    for (arguments, words) in [
        ("m.safetensors flat.csv -o o.csv", "flat.csv: rows must have the dimension of m.safetensors, 3, found: `2`"),
        ("m.safetensors x.csv -o o.csv --top 4", "`--top` must be at most the number of components, 3, found: `4`"),
        ("m.safetensors x.csv -o o.csv --top 0", "0 is not in 1.."),
        ("m.safetensors x.csv -o o.xlsx", "must end in .parquet, .arrow, .csv, .tsv, .jsonl or .npy, found: `o.xlsx`"),
        ("m.safetensors x.csv -o o.safetensors", "found: `o.safetensors`"),
        ("m.safetensors x.csv", "--output <FILE>"),
        ("m.safetensors x.csv -o o.csv --outliers 0", "a level must be above 0 and below 1"),
        ("m.safetensors x.csv -o o.csv --outliers -0.1", "a level must be above 0 and below 1"),
        ("m.safetensors x.csv -o o.csv --outliers 0.1 --p-values none", "needs p-values"),
        ("missing.safetensors x.csv -o o.csv", "missing.safetensors: cannot be read: "),
        ("x.csv x.csv -o o.csv", "x.csv: not a valid model file: "),
        ("m.safetensors missing.csv -o o.csv", "missing.csv"),
        ("m.safetensors bad.csv -o o.csv", "bad.csv: row 2 must have length 1, found: `1.414"),
        ("m.safetensors empty.csv -o o.csv", "empty.csv: "),
        ("m.safetensors x.csv --id-column name -o o.csv", "no column is called `name`"),
        ("m.safetensors x.csv --memory 50MB -o o.csv", "this command needs at least "),
    ] {
        workspace.run(&format!("assign {arguments}")).refused(&[words]);
        assert_eq!(workspace.names(), before, "{arguments}");
    }
    let run = workspace.run("assign m.safetensors x.csv -o missing/o.csv");
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""));
    assert!(run.stderr.starts_with("error: missing/o.csv: cannot be written: "), "{}", run.stderr);
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{TABLES, draw, fitted};
    use std::fs::File;
    use std::io::Read;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    #[test]
    fn a_full_disk_leaves_what_was_there() {
        let workspace = fitted();
        draw(&workspace, 20_000, 1);
        for output in TABLES.into_iter().chain(["npy"]) {
            let name = format!("out.{output}");
            workspace.write(&name, "before");
            let before = workspace.names();
            let run = workspace.run_on_a_full_disk(20, &format!("assign m.safetensors drawn.npy --p-values none -o {name}"));
            assert_eq!((run.code, run.stdout.len()), (Some(1), 0), "{}", run.stderr);
            assert!(run.stderr.starts_with(&format!("error: {name}: cannot be written: ")), "{}", run.stderr);
            assert_eq!((workspace.names(), workspace.read(&name)), (before, b"before".to_vec()));
        }
        let full = File::options().write(true).open("/dev/full").unwrap();
        let run = workspace.command().args("assign m.safetensors x.csv -o -".split(' ')).stdout(full).output().unwrap();
        assert_eq!(run.status.code(), Some(1));
        assert!(run.stderr.starts_with(b"error: standard output: cannot be written: "));
    }

    #[test]
    fn a_broken_pipe_is_not_an_error() {
        let workspace = fitted();
        draw(&workspace, 50_000, 1);
        let mut command = workspace.command();
        command.args("assign m.safetensors drawn.npy --p-values none -o -".split(' '));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 10]).unwrap();
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]));
    }

    #[test]
    fn an_interrupt_leaves_nothing_behind() {
        let workspace = fitted();
        let before = workspace.names();
        let mut command = workspace.command();
        // An endless pipe: the table is never finished.
        command.args("assign m.safetensors - -o out.csv".split(' ')).stdin(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, "1,0,0\n".repeat(1000).as_bytes()).unwrap();
        let start = Instant::now();
        while workspace.names().len() == before.len() {
            assert!(start.elapsed() < Duration::from_secs(20), "a partial file appears");
            std::thread::sleep(Duration::from_millis(2));
        }
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_eq!(workspace.names(), before);
    }
}
