//! `vmf calibrate`: models without a calibration, held-out rows, and what is refused.

use crate::mixture::three_groups;
use crate::{Workspace, number};

/// A model of the command, and one with the same mixture and no calibration.
fn with_models() -> Workspace {
    let workspace = three_groups();
    workspace.run("fit x.csv -k 3 -o whole.safetensors").success();
    workspace.run("fit x.csv -k 3 --no-calibration -o bare.safetensors").success();
    workspace
}

#[test]
fn the_rows_of_the_fit_make_the_file_of_a_calibrated_fit() {
    let workspace = with_models();
    workspace.run("assign bare.safetensors x.csv --p-values conformal -o a.csv").refused(&["vmf calibrate"]);
    let said = workspace.run("calibrate bare.safetensors x.csv -o bare.safetensors").success();
    assert!(said.contains("probabilities     exact posterior (temperature 1), because the rows fit the model\n"), "{said}");
    assert!(said.contains("p-values          conformal, from 600 rows of the fit; the smallest is 0.001663894\n"), "{said}");
    assert_eq!(workspace.read("bare.safetensors"), workspace.read("whole.safetensors"));
    workspace.run("assign bare.safetensors x.csv --p-values conformal -o a.csv").success();
}

#[test]
fn held_out_rows_replace_a_calibration() {
    let workspace = with_models();
    workspace.run("sample whole.safetensors -n 999 --seed 5 -o held.npy").success();
    // Only the report.
    let before = workspace.names();
    let said = workspace.run("calibrate whole.safetensors held.npy --held-out --json").json();
    assert_eq!((&said["rows"], &said["calibration"]["basis"]), (&999.into(), &"model".into()));
    assert_eq!(said["outlier_table"], serde_json::json!({ "rows": 999, "held_out": true }));
    assert!((0.5..1.5).contains(&number(&said["calibration"]["dispersion"])));
    assert_eq!(workspace.names(), before);
    let piped = ["calibrate", "whole.safetensors", "held.npy", "--held-out", "-o", "-"];
    let piped = workspace.command().args(piped).output().unwrap();
    let said = String::from_utf8_lossy(&piped.stderr).into_owned();
    assert!(piped.status.success() && said.contains("from 999 held-out rows"), "{said}");
    workspace.run("calibrate whole.safetensors held.npy --held-out -o held.safetensors").success();
    assert_eq!(piped.stdout, workspace.read("held.safetensors"));
    let shown = workspace.run("inspect held.safetensors").success();
    assert!(shown.contains("conformal, from 999 held-out rows; the smallest is 0.001000000\n"), "{shown}");
    let shown = workspace.run("inspect held.safetensors --json").json();
    assert_eq!(shown["outlier_table"]["held_out"], true);
}

#[test]
fn models_and_rows_that_do_not_suit_are_refused_or_named() {
    let workspace = with_models();
    workspace.write("two.csv", "0.6,0.8\n");
    workspace.write("zeros.txt", "0\n".repeat(600));
    let x = workspace.read("x.csv");
    for (command, words) in [
        ("calibrate", "<MODEL>"),
        ("calibrate bare.safetensors", "<DATA>"),
        ("calibrate x.csv x.csv", "x.csv: not a valid model file"),
        ("calibrate bare.safetensors two.csv -o m", "two.csv: expected dimension 3, found: `2`"),
        ("calibrate bare.safetensors x.csv -o x.csv", "`-o` would overwrite an input: `x.csv`"),
        ("calibrate bare.safetensors x.csv --weights zeros.txt -o m", "the total row weight is `0`"),
    ] {
        workspace.run(command).refused(&[words]);
        assert!(!workspace.path("m").exists() && workspace.read("x.csv") == x, "{command}");
    }
    workspace.run("fit x.csv -k 1 -o one.safetensors").success();
    let said = workspace.run("calibrate one.safetensors x.csv").success();
    assert!(said.contains("not calibrated, because there is one component\n"), "{said}");
    workspace.write("one-row.csv", "x,y,z\n1,0,0\n");
    let said = workspace.run("calibrate bare.safetensors one-row.csv --held-out").success();
    assert!(said.contains("from 1 held-out rows; the smallest is 0.5000000\n"), "{said}");
}
