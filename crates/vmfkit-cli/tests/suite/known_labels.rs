//! `vmf fit --known-labels`: one component per label.

use crate::Workspace;
use serde_json::Value;
use std::path::PathBuf;

const ROWS: &str = "1,0,0\n0.8,0.6,0\n0,1,0\n0,0.8,0.6\n0,0,1\n0.6,0,0.8\n";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("x.csv", ROWS);
    workspace.write("y.txt", "pear\npear\napple\napple\nfig\nfig\n");
    workspace
}

fn labels(model: &Value) -> Vec<&str> {
    let mut components: Vec<&Value> = model["components"].as_array().unwrap().iter().collect();
    components.sort_by_key(|component| component["component"].as_u64());
    components.iter().map(|component| component["label"].as_str().unwrap()).collect()
}

#[test]
fn components_are_those_of_the_sorted_labels_and_keep_their_names() {
    let workspace = workspace();
    let text = workspace.run("fit x.csv --known-labels y.txt -o m.safetensors").success();
    assert!(text.contains("3 components, one per label, concentrations shared\n"), "{text}");
    assert!(text.contains("\n0 apple ") && text.contains("\n2 pear "), "{text}");
    let model = workspace.run("inspect m.safetensors --json").json();
    assert_eq!(labels(&model), ["apple", "fig", "pear"]);
    assert_eq!((&model["method"], &model["rows"], &model["passes"]), (&"labels".into(), &6.into(), &0.into()));
    let pear = model["components"].as_array().unwrap().iter().find(|component| component["label"] == "pear").unwrap();
    // The mean of (1, 0, 0) and (0.8, 0.6, 0).
    let length = (1.8f64 * 1.8 + 0.6 * 0.6).sqrt();
    assert!((pear["mean_direction"][0].as_f64().unwrap() - 1.8 / length).abs() < 1e-12, "{pear}");
    let inspected = workspace.run("inspect m.safetensors x.csv").success();
    assert!(inspected.contains("component 2 pear, 2 rows: "), "{inspected}");
    assert!(!inspected.contains("after 0 passes"), "{inspected}");
}

#[test]
fn assigned_rows_have_their_labels_beside_their_components() {
    let workspace = workspace();
    workspace.run("fit x.csv --known-labels y.txt -o m.safetensors").success();
    let report = workspace.run("assign m.safetensors x.csv --p-values none --top 2 -o labels.csv").success();
    assert!(report.contains("\n0 apple "), "{report}");
    let table = String::from_utf8(workspace.read("labels.csv")).unwrap();
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("row,component,label,probability,ln_density,component_2,label_2,probability_2"));
    let found: Vec<&str> = lines.map(|line| line.split(',').nth(2).unwrap()).collect();
    assert_eq!(found, ["pear", "pear", "apple", "apple", "fig", "fig"]);
    let score = workspace.run("score m.safetensors x.csv --p-values none --json").json();
    assert_eq!(score["labels"], serde_json::json!(["apple", "fig", "pear"]));
    let assigned = workspace.run("assign m.safetensors x.csv -o y.npy --json").json();
    assert_eq!(labels(&assigned), ["apple", "fig", "pear"]);
}

#[test]
fn labels_come_from_arrays_tables_and_columns_of_the_rows() {
    let workspace = workspace();
    workspace.run("fit x.csv --known-labels y.txt -o expected.safetensors").success();
    let expected = workspace.run("inspect expected.safetensors --json").json();
    let table: Vec<String> = ROWS
        .lines()
        .zip(["pear", "pear", "apple", "apple", "fig", "fig"])
        .map(|(row, label)| format!("{row},{label}\n"))
        .collect();
    workspace.write("both.csv", format!("x,y,z,fruit\n{}", table.concat()));
    workspace.write("y.csv", "name,label\na,pear\nb,pear\nc,apple\nd,apple\ne,fig\nf,fig\n");
    workspace.write(
        "y.jsonl",
        "{\"kind\":\"pear\"}\n".repeat(2) + &"{\"kind\":\"apple\"}\n".repeat(2) + &"{\"kind\":\"fig\"}\n".repeat(2),
    );
    for arguments in [
        "fit both.csv --columns x,y,z --known-labels column:fruit",
        "fit both.csv --known-labels column:fruit",
        "fit x.csv --known-labels y.csv",
        "fit x.csv --known-labels y.jsonl:kind",
    ] {
        workspace.run(&format!("{arguments} -o m.safetensors")).success();
        let model = workspace.run("inspect m.safetensors --json").json();
        assert_eq!(model["components"], expected["components"], "{arguments}");
    }
    // Numbers are sorted by their value.
    workspace.write("numbers.txt", "10\n10\n9\n9\n-1\n-1\n");
    let fit = workspace.run("fit x.csv --known-labels numbers.txt --json").json();
    assert_eq!(labels(&fit), ["-1", "9", "10"]);
    workspace.run("fit x.csv -k 3 --seed 1 --labels found.npy").success();
    let fit = workspace.run("fit x.csv --known-labels found.npy --json").json();
    assert_eq!(labels(&fit), ["0", "1", "2"]);
}

#[test]
fn policies_equal_weights_and_angles_are_used_and_stored() {
    let workspace = workspace();
    workspace.write("uneven.txt", "b\nb\nb\nb\na\na\n");
    let concentrations = |model: &Value| -> Vec<f64> {
        model["components"].as_array().unwrap().iter().map(|component| component["concentration"].as_f64().unwrap()).collect()
    };
    let free = workspace.run("fit x.csv --known-labels uneven.txt --policy free --json").json();
    let shared = workspace.run("fit x.csv --known-labels uneven.txt --json").json();
    let fixed = workspace.run("fit x.csv --known-labels uneven.txt --policy fixed:7 --set fixed_weights=true --json").json();
    assert!(concentrations(&free)[0] != concentrations(&free)[1]);
    assert_eq!(concentrations(&shared)[0], concentrations(&shared)[1]);
    assert_eq!(concentrations(&fixed), [7.0, 7.0]);
    assert_eq!(fixed["components"][0]["weight"], 0.5);
    assert!((shared["components"][0]["weight"].as_f64().unwrap() - 4.0 / 6.0).abs() < 1e-15);
    workspace.write("a.csv", "lat,lon,site\n10,20,n\n12,22,n\n-40,100,s\n-41,98,s\n");
    let text = workspace.run("fit a.csv --angles lat,lon --known-labels column:site -o m.safetensors").success();
    assert!(text.contains("\n0 n ") && text.contains("lat, lon: the mean direction as angles"), "{text}");
    assert_eq!(workspace.run("inspect m.safetensors --json").json()["angles"], "lat,lon");
}

#[test]
fn labels_that_do_not_fit_are_refused_with_their_file() {
    let workspace = workspace();
    workspace.write("short.txt", "a\nb\n");
    workspace.write("empty.txt", "");
    workspace.write("fractions.npy", b"\x93NUMPY");
    for (arguments, words) in [
        ("fit x.csv --known-labels short.txt", "short.txt: expected 6 labels, one per row, found: `2`"),
        ("fit x.csv --known-labels empty.txt", "empty.txt: no labels to fit"),
        ("fit x.csv --known-labels missing.txt", "missing.txt: cannot be read"),
        ("fit x.csv --known-labels column:fruit", "fruit"),
        ("fit x.csv --known-labels y.txt -k 3", "cannot be used with"),
        ("fit x.csv --known-labels y.txt --method em", "cannot be used with"),
        ("fit x.csv --known-labels y.txt --max-passes 3", "`--known-labels` does not use the option: `--max-passes`"),
        ("fit x.csv --known-labels y.txt --background", "cannot be used with"),
        ("fit x.csv --known-labels y.txt --restarts 3", "cannot be used with"),
        ("fit x.csv --known-labels y.txt --checkpoint c", "cannot be used with"),
        ("fit - --known-labels column:fruit", "DATA must be files, found: `-`"),
        ("fit x.csv --known-labels y.txt --set search=false", "`--known-labels` does not use the setting: `search`"),
        ("fit x.csv --known-labels missing.jsonl:kind", "missing.jsonl: cannot be read"),
        ("fit x.csv --known-labels y.txt -o y.txt", "y.txt"),
    ] {
        workspace.run(arguments).refused(&[words]);
    }
    assert_eq!(workspace.read("y.txt"), b"pear\npear\napple\napple\nfig\nfig\n");
}

/// The rows of an array of two axes or of one: bytes a row, and all of them.
fn npy_rows(bytes: &[u8], row_bytes: usize) -> Vec<&[u8]> {
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[header..].chunks_exact(row_bytes).collect()
}

/// An array of half precision.
fn half_npy(rows: &[&[u8]], dim: usize) -> Vec<u8> {
    let header = format!("{{'descr': '<f2', 'fortran_order': False, 'shape': ({}, {dim}), }}\n", rows.len());
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), &rows.concat()].concat()
}

/// 13,083 questions to a bank in 384 dimensions (all-MiniLM-L6-v2) and their 77 intents: 10,003 to
/// learn from, 3,080 to judge, as published.
#[test]
fn the_intents_of_banking77_are_found_for_85_of_100_questions_of_the_official_test_split() {
    let Some(folder) = std::env::var_os("VMFKIT_DATA").map(|data| PathBuf::from(data).join("banking77")) else {
        println!("skipped: VMFKIT_DATA is not set");
        return;
    };
    let read = |name: &str| std::fs::read(folder.join(name)).expect("the data set is in its folder");
    let (rows, labels, is_test) =
        (read("banking77_minilm_f16.npy"), read("banking77_labels_u8.npy"), read("banking77_is_test_u8.npy"));
    let names = String::from_utf8(read("banking77_label_names.txt")).unwrap();
    let names: Vec<&str> = names.lines().collect();
    let (rows, labels, is_test) = (npy_rows(&rows, 2 * 384), npy_rows(&labels, 1), npy_rows(&is_test, 1));
    let part = |test: u8| (0..rows.len()).filter(|&row| is_test[row][0] == test).collect::<Vec<_>>();
    let truth = |test: u8| part(test).iter().map(|&row| names[usize::from(labels[row][0])]).collect::<Vec<_>>();
    let workspace = Workspace::new();
    for (name, test) in [("train.npy", 0), ("test.npy", 1)] {
        workspace.write(name, half_npy(&part(test).iter().map(|&row| rows[row]).collect::<Vec<_>>(), 384));
    }
    workspace.write("train.txt", truth(0).join("\n"));
    let fit = workspace.run("fit train.npy --known-labels train.txt -o m.safetensors --json").json();
    assert_eq!((&fit["rows"], &fit["component_count"], &fit["policy"]), (&10003.into(), &77.into(), &"shared".into()));
    workspace.run("assign m.safetensors test.npy --p-values none -o found.csv").success();
    let found = String::from_utf8(workspace.read("found.csv")).unwrap();
    let found: Vec<&str> = found.lines().skip(1).map(|line| line.split(',').nth(2).unwrap()).collect();
    let right = found.iter().zip(truth(1)).filter(|(found, truth)| *found == truth).count();
    let accuracy = right as f64 / found.len() as f64;
    assert!(found.len() == 3080 && accuracy > 0.845, "{accuracy}");
    println!("accuracy on banking77: {accuracy:.4}");
}
