//! `vmf sample MODEL`: rows of a mixture, and the components they are from.

use crate::mixture::three_groups;
use crate::{Workspace, number};

/// A model of three groups in `m.safetensors`.
fn with_model() -> Workspace {
    let workspace = three_groups();
    workspace.run("fit x.csv -k 3 --policy free -o m.safetensors").success();
    workspace
}

fn labels(workspace: &Workspace, name: &str) -> Vec<u32> {
    let bytes = workspace.read(name);
    bytes[128..].chunks_exact(4).map(|label| u32::from_le_bytes(label.try_into().unwrap())).collect()
}

#[test]
fn draws_have_the_weights_and_directions_of_the_components() {
    let workspace = with_model();
    workspace.run("sample m.safetensors -n 3000 --seed 7 -o y.npy --labels drawn.npy").success();
    let drawn = labels(&workspace, "drawn.npy");
    let model = workspace.run("inspect m.safetensors --json").json();
    for component in model["components"].as_array().unwrap() {
        let fraction = drawn.iter().filter(|&&label| component["component"] == label).count() as f64 / 3000.0;
        assert!((fraction - number(&component["weight"])).abs() < 0.05, "{fraction} for {component}");
    }
    workspace.run("fit y.npy -k 3 --start model:m.safetensors --max-passes 1 --labels found.npy").success();
    let agreement = workspace.run("compare drawn.npy found.npy --json").json();
    assert!(number(&agreement["adjusted_rand_index"]) > 0.98, "{agreement}");
    let fit = workspace.run("fit y.npy -k 3 --json").json();
    let weights: Vec<f64> = fit["components"].as_array().unwrap().iter().map(|c| number(&c["weight"])).collect();
    assert!(weights.iter().zip([0.5, 1.0 / 3.0, 1.0 / 6.0]).all(|(w, e)| (w - e).abs() < 0.05), "{weights:?}");
}

#[test]
fn seeds_are_reproducible_on_any_number_of_threads() {
    let workspace = with_model();
    for (name, more) in [("a", "--threads 1"), ("b", "--threads 3"), ("c", "--seed 1")] {
        workspace.run(&format!("sample m.safetensors -n 500 {more} -o {name}.npy --labels {name}.txt")).success();
    }
    for ending in ["npy", "txt"] {
        let [a, b, c] = ["a", "b", "c"].map(|name| workspace.read(&format!("{name}.{ending}")));
        assert!(a == b && a != c, "{ending}");
    }
    assert_eq!(workspace.read("a.txt").len(), 1000);
    // More rows begin with the same rows.
    workspace.run("sample m.safetensors -n 200 -o short.npy").success();
    assert_eq!(workspace.read("short.npy")[128..], workspace.read("a.npy")[128..][..200 * 12]);
}

#[test]
fn the_same_draws_reach_every_format() {
    let workspace = with_model();
    for law in ["m.safetensors", "--dim 5 --concentration 3"] {
        workspace.run(&format!("sample {law} -n 100 -o x.npy")).success();
        for (format, options) in [
            ("parquet", ""),
            ("arrow", ""),
            ("feather", ""),
            ("safetensors", ""),
            ("csv", "--dtype f32"),
            ("tsv", "--dtype f32"),
            ("jsonl", "--dtype f32 --columns embedding"),
        ] {
            workspace.run(&format!("sample {law} -n 100 -o y.{format}")).success();
            workspace.run(&format!("convert y.{format} {options} -o y.npy")).success();
            assert_eq!(workspace.read("y.npy"), workspace.read("x.npy"), "{law} {format}");
        }
        let tabs = String::from_utf8(workspace.read("y.tsv")).unwrap();
        assert_eq!(tabs.replace('\t', ",").as_bytes(), workspace.read("y.csv"));
    }
    let printed = workspace.run("sample m.safetensors -n 3 -o - --to jsonl").success();
    assert!(printed.starts_with("{\"embedding\":[") && printed.lines().count() == 3, "{printed}");
}

#[test]
fn a_background_is_drawn_from_too() {
    let workspace = three_groups();
    workspace.run("fit x.csv -k 3 --background=0.3 --set fixed_weights=true -o m.safetensors").success();
    workspace.run("sample m.safetensors -n 1000 -o y.npy --labels drawn.npy").success();
    let fraction = labels(&workspace, "drawn.npy").iter().filter(|&&label| label == 3).count();
    assert!((230..370).contains(&fraction), "{fraction}");
}

#[test]
fn a_model_and_a_density_exclude_each_other() {
    let workspace = with_model();
    for (arguments, words) in [
        ("sample m.safetensors --dim 3 -n 5 -o y.npy", "'[MODEL]' cannot be used with"),
        ("sample m.safetensors --concentration 3 -n 5 -o y.npy", "cannot be used with"),
        ("sample m.safetensors --mean-direction 1,0,0 -n 5 -o y.npy", "cannot be used with"),
        ("sample -n 5 -o y.npy", "--concentration"),
        (
            "sample --dim 3 --concentration 1 -n 5 -o y.npy --labels l.npy",
            "rows of one density have no components, found: `--labels l.npy`",
        ),
        ("sample m.safetensors -n 5 -o y.npy --labels y.npy", "need different files, found for both: `y.npy`"),
        ("sample x.csv -n 5 -o y.npy", "x.csv: "),
        ("sample missing.safetensors -n 5 -o y.npy", "missing.safetensors: cannot be read"),
    ] {
        workspace.run(arguments).refused(&[words]);
    }
    assert!(!workspace.names().contains(&"y.npy".to_owned()));
}
