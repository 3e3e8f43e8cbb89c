//! `--set`: the model file stores what was set.

use crate::Workspace;
use crate::mixture::three_groups;

/// Options with a value that is not the default, and the output of `vmf inspect`.
const SET: [(&str, &str, &str); 15] = [
    ("--method em", "annealing=5,0.5", "5.0,0.5"),
    ("--method em", "baseline=zero", "zero"),
    ("--method em", "fixed_weights=true", "true"),
    ("--method em", "largest_concentration=1e6", "1000000.0"),
    ("--method hard", "sample=500", "500"),
    ("--method em", "smallest_weight=0.1", "0.1"),
    ("--method online", "step=0.7,2", "0.7,2.0"),
    ("--method online", "batch=50", "50"),
    ("--method online", "shuffle=false", "false"),
    ("--method sgd", "batch=32", "32"),
    ("--method sgd", "betas=0.8,0.95", "0.8,0.95"),
    ("--method sgd", "decay=0.5", "0.5"),
    ("--method sgd", "epsilon=0.001", "0.001"),
    ("--method sgd", "learning_rate=0.25", "0.25"),
    ("--method sgd", "shuffle=false", "false"),
];

#[test]
fn settings_are_stored_in_the_model_and_inspected() {
    let workspace = three_groups();
    for (method, set, expected) in SET {
        let name = set.split('=').next().unwrap();
        workspace.run(&format!("fit x.csv -k 3 {method} --max-passes 2 --set {set} -o m.safetensors")).success();
        let settings = workspace.run("inspect m.safetensors --json").json()["settings"].clone();
        assert_eq!(settings[name], expected, "{method} {set}: {settings}");
        workspace.run(&format!("fit x.csv -k 3 {method} --max-passes 2 -o m.safetensors")).success();
        let settings = workspace.run("inspect m.safetensors --json").json()["settings"].clone();
        assert_ne!(settings[name], expected, "{method}: {settings}");
    }
    workspace.run("fit x.csv -k 3 --set estimator=sra -o m.safetensors").success();
    assert_eq!(workspace.run("inspect m.safetensors --json").json()["estimator"], "sra");
    workspace.run("fit x.csv -k 3 --set search=false -o m.safetensors").success();
    assert!(workspace.run("inspect m.safetensors --json").json()["settings"]["search"].is_null());
}

/// The page lists every setting above, with its default and allowed values.
#[test]
fn help_settings_lists_every_setting() {
    let workspace = Workspace::new();
    let page = workspace.run("fit --help-settings").success();
    for (_, set, _) in SET {
        let name = set.split('=').next().unwrap();
        assert!(page.contains(&format!("\n  {name}=")), "{name}: {page}");
    }
    assert_eq!(page.matches("\n    default: ").count(), 17, "{page}");
    let of_select = workspace.run("select --help-settings").success();
    assert!(of_select.contains("\n  search=true|false\n") && !of_select.contains("learning_rate"), "{of_select}");
}

#[test]
fn select_takes_the_settings_that_its_fits_have() {
    let workspace = three_groups();
    let select = |set: &str| workspace.run(&format!("select x.csv -k 3 --restarts 1 --json {set}"));
    let best = |set: &str| select(set).json()["candidates"][0].clone();
    assert_eq!(best("--set search=false")["search_passes"], 0);
    assert_ne!(best("")["search_passes"], 0);
    assert_ne!(best("--set estimator=banerjee")["ln_likelihood"], best("")["ln_likelihood"]);
    select("--set sample=500").refused(&["`vmf select` does not use the setting: `sample`\nhint: it uses baseline, estimator"]);
    select("--set batch=5").refused(&["`--method em` does not use the setting: `batch`"]);
}
