//! Common options, and options that would have no effect.

use crate::mixture::three_groups;
use crate::{Workspace, number};

/// `DataFrame.to_csv` with and without its index, and without names at all.
#[test]
fn the_headers_of_pandas_are_headers() {
    let workspace = Workspace::new();
    let rows = ["0.6,0.8,0.0", "0.0,0.6,0.8", "0.8,0.0,-0.6"];
    let plain = rows.map(|row| format!("{row}\n")).concat();
    let indexed: String = rows.iter().enumerate().map(|(index, row)| format!("{index},{row}\n")).collect();
    workspace.write("plain.csv", &plain);
    let expected = workspace.run("fit plain.csv --json").json();
    for (text, options) in [
        (format!("0,1,2\n{plain}"), ""),
        (format!(",0,1,2\n{indexed}"), ""),
        (format!("\"\",\"0\",\"1\",\"2\"\n{indexed}"), ""),
        (format!(",x,y,z\n{indexed}"), ""),
        (format!("name,x,y,z\n{indexed}"), "--columns x,y,z"),
        (format!("9,8,7\n{plain}"), "--header yes"),
        (format!("0,1,2\n{plain}"), "--columns 0,1,2"),
        (plain.clone(), "--header no"),
    ] {
        workspace.write("x.csv", &text);
        let found = workspace.run(&format!("fit x.csv {options} --json")).json();
        assert_eq!((&found["rows"], &found["concentration"]), (&3.into(), &expected["concentration"]), "{options}: {text}");
    }
    workspace.write("x.csv", format!("0,1,2\n{plain}"));
    workspace.run("fit x.csv --header no").refused(&["x.csv: row 0 must have length 1, found: `2.236"]);
    workspace.run("fit x.csv --header yes --header no").refused(&["cannot be used multiple times"]);
    workspace.run("fit x.csv --header maybe").refused(&["[possible values: yes, no, auto]"]);
    assert_eq!(workspace.run("fit x.csv --header no --rescale --json").json()["rows"], 4);
    // In the plane `0,1` is a row like any other.
    workspace.write("plane.csv", "0,1\n1,0\n");
    assert_eq!(workspace.run("fit plane.csv --json").json()["rows"], 2);
    assert_eq!(workspace.run("select x.csv -k 1 --header yes --json").json()["rows"], 3);
    // The index can still name the rows.
    workspace.write("x.csv", format!(",0,1,2\n{indexed}"));
    let converted = workspace.command().args(["convert", "x.csv", "--id-column", "", "-"]).output().unwrap();
    assert!(converted.stdout.starts_with(b"id,x0,x1,x2\n0,0.6,0.8,0.0\n"), "{}", String::from_utf8_lossy(&converted.stderr));
}

#[test]
fn other_separators_get_a_hint() {
    let workspace = Workspace::new();
    for (name, text, found) in [
        ("a.csv", "x;y\n0.6;0.8\n", "semicolons: `0.6;0.8`"),
        ("b.csv", "0.6 0.8\n", "blanks: `0.6 0.8`"),
        ("c.csv", "x y\n0.6  0.8\n", "blanks: `0.6  0.8`"),
        ("d.csv", "0.6\t0.8\n1\t0\n", "tabs: `0.6"),
        ("e.tsv", "x,y\n0.6,0.8\n", "commas: `0.6,0.8`"),
    ] {
        workspace.write(name, text);
        let words = format!("{name}: cells must be separated by commas, or in .tsv files by tabs, found {found}");
        workspace.run(&format!("fit {name}")).refused(&[&words, "\nhint: `--format tsv` reads tabs"]);
    }
    assert_eq!(workspace.run("fit d.csv --format tsv --json").json()["rows"], 2);
    // A name may have blanks in it.
    workspace.write("x.csv", "0.6,0.8\n0.8,0.6\n");
    workspace.write("w.csv", "weight of the row\n1\n2\n");
    assert_eq!(number(&workspace.run("fit x.csv --weights w.csv --json").json()["total_weight"]), 3.0);
}

#[test]
fn json_lines_that_vmf_wrote_are_read_without_options() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 4 --concentration 9 -n 50 --dtype f64 -o x.jsonl").success();
    workspace.run("convert x.jsonl x.npy -q").success();
    let [lines, array] = ["x.jsonl", "x.npy"].map(|name| workspace.run(&format!("fit {name} --json")).json());
    assert_eq!((&lines["rows"], &lines["concentration"]), (&50.into(), &array["concentration"]));
    workspace.write("y.json", workspace.read("x.jsonl"));
    assert_eq!(workspace.run("fit x.jsonl y.json --json").json()["rows"], 100);
    assert_eq!(workspace.run_with_input("fit - --json", &workspace.read("x.jsonl")).json()["rows"], 50);
    workspace.run("fit x.jsonl --columns other").refused(&["no key is called `other`"]);
    workspace.write("y.jsonl", "{\"vector\": [0.6, 0.8]}\n");
    workspace.run("fit y.jsonl").refused(&["no key is called `embedding`"]);
}

#[test]
fn sample_and_convert_report_as_json() {
    let workspace = three_groups();
    workspace.run("fit x.csv -k 3 -o m.safetensors -q").success();
    let said = workspace.run("sample m.safetensors -n 20 --seed 4 -o y.parquet --labels l.npy --json -q").json();
    let expected = serde_json::json!({
        "output": "y.parquet", "labels": "l.npy", "format": "parquet", "rows": 20, "dim": 3, "angles": null, "dtype": "f32", "seed": 4,
        "model": "m.safetensors", "concentration": null,
    });
    assert_eq!(said, expected);
    let said = workspace.run("convert y.parquet z.npy --rescale --json").json();
    assert_eq!(
        (&said["output"], &said["rows"], &said["dim"], &said["format"]),
        (&"z.npy".into(), &20.into(), &3.into(), &"npy".into())
    );
    // Standard output has the rows then.
    for command in ["sample --dim 3 --concentration 2 -n 5 -o - --json", "convert z.npy - --json"] {
        let run = workspace.run(command);
        let report: serde_json::Value = serde_json::from_str(&run.stderr).expect("one JSON value");
        assert_eq!(report["output"], "-");
        assert!(run.success().starts_with("x0,x1,x2\n"), "{command}");
    }
}

/// Every command with long work accepts `--quiet`.
#[test]
fn every_long_command_can_be_quiet() {
    let workspace = three_groups();
    for command in [
        "fit x.csv -q",
        "fit x.csv -k 3 --quiet -o m.safetensors",
        "fit x.csv -k 3 -q --checkpoint st --start-only",
        "accumulate st x.csv -q -o p.stats",
        "merge p.stats -q -o all.stats",
        "maximise st all.stats -q -o st",
        "select x.csv -k 1:2 -q",
        "assign m.safetensors x.csv -q -o l.npy",
        "score m.safetensors x.csv -q",
        "inspect m.safetensors x.csv -q",
        "calibrate m.safetensors x.csv -q",
        "sample m.safetensors -n 9 -q -o y.npy",
        "convert y.npy -q y.csv",
    ] {
        let run = workspace.run(command);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{command}");
    }
}

#[test]
fn options_that_would_be_ignored_are_refused() {
    let workspace = three_groups();
    workspace.run("fit x.csv -k 3 -o m.safetensors").success();
    workspace
        .run("score m.safetensors x.csv --outliers 0.5 --p-values none")
        .refused(&["`--outliers 0.5` needs p-values", "--p-values none"]);
    for option in ["--columns x", "--memory 1GB", "--rescale", "--header yes", "--typical 3"] {
        workspace.run(&format!("inspect m.safetensors {option}")).refused(&["required arguments were not provided", "<DATA>"]);
    }
    workspace.run("inspect m.safetensors --json").success();
    // Nothing is published if not all of it can be.
    let run = workspace.run("sample m.safetensors -n 10 -o y.npy --labels nodir/l.npy");
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.starts_with("error: nodir/l.npy: cannot be written: "), "{}", run.stderr);
    assert_eq!(workspace.names(), ["m.safetensors", "truth.txt", "x.csv"]);
}

#[test]
fn rows_without_weight_are_refused_by_every_command() {
    let workspace = three_groups();
    workspace.run("fit x.csv -k 3 -o m.safetensors").success();
    workspace.write("w.txt", "0\n".repeat(600));
    let expected = "x.csv: there is nothing to fit: the total row weight is `0`";
    for command in ["score m.safetensors x.csv", "assign m.safetensors x.csv -o l.csv", "fit x.csv -k 3", "fit x.csv"] {
        workspace.run(&format!("{command} --weights w.txt")).refused(&[expected]);
    }
    assert_eq!(workspace.names(), ["m.safetensors", "truth.txt", "w.txt", "x.csv"]);
}

#[test]
fn one_row_has_no_standard_error() {
    let workspace = three_groups();
    workspace.run("fit x.csv -k 3 -o m.safetensors").success();
    workspace.write("one.csv", "1,0,0\n");
    let score = workspace.run("score m.safetensors one.csv --json").json();
    assert!(score["standard_error"].is_null() && score["mean_ln_density"].is_number(), "{score}");
    let text = workspace.run("score m.safetensors one.csv --p-values none").success();
    assert!(!text.contains("+-"), "{text}");
}
