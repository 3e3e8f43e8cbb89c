//! `vmf fit -o` without `-k`: one density is a model file like any other.

use crate::{Workspace, number};

#[test]
fn one_density_is_saved_and_every_command_reads_it() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 5 --concentration 30 -n 400 --dtype f64 --seed 2 -o x.npy").success();
    let fit = workspace.run("fit x.npy -o m.safetensors --json").json();
    let found = workspace.run("inspect m.safetensors --json").json();
    assert_eq!((&found["component_count"], &found["background"], &found["dim"]), (&1.into(), &false.into(), &5.into()));
    assert_eq!((&found["method"], &found["estimator"], &found["policy"]), (&"closed".into(), &"exact".into(), &"free".into()));
    assert_eq!((&found["status"], &found["rows"], &found["total_weight"]), (&"converged".into(), &400.into(), &400.0.into()));
    let component = &found["components"][0];
    assert_eq!((&component["weight"], &component["concentration"]), (&1.0.into(), &fit["concentration"]));
    assert_eq!(component["mean_direction"], fit["mean_direction"]);
    let text = workspace.run("inspect m.safetensors x.npy").success();
    assert!(text.contains("m.safetensors: 1 component in dimension 5\n") && !text.contains("passes"), "{text}");

    let score = workspace.run("score m.safetensors x.npy --json").json();
    assert!((number(&score["mean_ln_density"]) - number(&fit["mean_ln_density"])).abs() < 1e-9, "{score}");
    workspace.run("assign m.safetensors x.npy -o labels.csv").success();
    assert_eq!(workspace.read("labels.csv").iter().filter(|byte| **byte == b'\n').count(), 401);
    workspace.run("sample m.safetensors -n 4000 -o drawn.npy").success();
    let again = workspace.run("fit drawn.npy --json").json();
    assert!((number(&again["concentration"]) / number(&fit["concentration"]) - 1.0).abs() < 0.1, "{again}");
    let continued = workspace.run("fit x.npy -k 1 --start model:m.safetensors --max-passes 1 --json").json();
    assert!((number(&continued["components"][0]["concentration"]) / number(&fit["concentration"]) - 1.0).abs() < 1e-9);
}

#[test]
fn a_saved_density_is_the_one_that_is_reported() {
    let workspace = Workspace::new();
    workspace.run("sample --mean-direction 1,2,2 --concentration 9 -n 60 --dtype f64 --to-angles lat,lon -o x.csv").success();
    let options = ["--set estimator=corrected", "--set estimator=banerjee", "--method sgd --set learning_rate=0.02 --seed 3"];
    for (options, method, estimator) in
        [(options[0], "closed", "corrected"), (options[1], "closed", "banerjee"), (options[2], "sgd", "")]
    {
        let fit = workspace.run(&format!("fit x.csv --angles lat,lon {options} -o m.safetensors --json")).json();
        let found = workspace.run("inspect m.safetensors --json").json();
        assert_eq!(found["components"][0]["concentration"], fit["concentration"], "{options}");
        assert_eq!((&found["method"], found["estimator"].as_str().unwrap_or("")), (&method.into(), estimator), "{options}");
        assert_eq!(found["angles"], "lat,lon", "{options}");
    }
    let found = workspace.run("inspect m.safetensors --json").json();
    assert_eq!((&found["seed"], &found["settings"]["learning_rate"]), (&3.into(), &"0.02".into()));
}

#[test]
fn a_file_that_cannot_be_written_is_named_before_the_work() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 3 --concentration 9 -n 50 -o x.npy").success();
    workspace.run("fit x.npy -o x.npy").refused(&["`-o` would overwrite an input: `x.npy`"]);
    workspace.run("fit x.npy -o -").refused(&["standard output holds the report, so `-o` needs a file, found: `-`"]);
    let run = workspace.run("fit x.npy -o missing/m.safetensors");
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{}", run.stderr);
    assert_eq!(workspace.names(), ["x.npy"]);
}
