//! `vmf inspect`: how a model came about, its components, and the rows that show them.

use crate::mixture::three_groups;
use crate::{Workspace, number};
use serde_json::Value;

/// Three groups with ids in `named.csv`, a model of them, and its labels.
fn with_model() -> Workspace {
    let workspace = three_groups();
    let rows = String::from_utf8(workspace.read("x.csv")).unwrap();
    let named = rows.lines().skip(1).enumerate().map(|(row, line)| format!("row-{row},{line}\n"));
    workspace.write("named.csv", "name,x,y,z\n".to_owned() + &named.collect::<String>());
    workspace.run("fit x.csv -k 3 --seed 5 -o m.safetensors --labels found.txt").success();
    workspace
}

#[test]
fn inspect_shows_how_a_model_was_fitted() {
    let workspace = with_model();
    let fit = workspace.run("fit x.csv -k 3 --seed 5 --json").json();
    let model = workspace.run("inspect m.safetensors --json").json();
    for key in ["method", "policy", "estimator", "seed", "status", "passes", "rows", "total_weight", "dim", "notes"] {
        assert_eq!(model[key], fit[key], "{key}");
    }
    assert_eq!((&model["components"], &model["data"]), (&fit["components"], &Value::Null));
    assert_eq!((&model["settings"]["start"], &model["settings"]["restarts"]), (&"kmeans".into(), &"1".into()));
    let objectives = |report: &Value| -> Vec<Value> {
        report["trace"].as_array().unwrap().iter().map(|pass| pass["objective"].clone()).collect()
    };
    assert_eq!(objectives(&model), objectives(&fit));

    let text = workspace.run("inspect m.safetensors").success();
    let (passes, search) = (number(&fit["passes"]), number(&fit["search_passes"]));
    assert!(search > 0.0 && model["search_passes"] == fit["search_passes"]);
    for words in [
        "m.safetensors: 3 components in dimension 3\n\nmethod                  em\nconcentrations          auto\n",
        &format!(
            "\nstatus                  converged after {passes} passes (and {search} of the search on a sample)\nrows                    600\nseed                    5\n"
        ),
        "\nsettings\n",
        "\n  start                 kmeans\n",
        "\n  largest_concentration 10000000000.0\n",
        "\ncomponent    weight  concentration  half within  nearest  angle to it ",
    ] {
        assert!(text.contains(words), "`{words}` is missing in:\n{text}");
    }
    // The same table as after the fit.
    let table = |text: &str| text[text.find("component    weight").unwrap()..].to_owned();
    assert_eq!(table(&text), table(&workspace.run("fit x.csv -k 3 --seed 5").success()));
    let traced = workspace.run("inspect m.safetensors --trace").success();
    assert_eq!(traced.lines().count() - text.lines().count(), passes as usize + 2);
    assert!(traced.contains("pass  objective  smallest weight"), "{traced}");
}

#[test]
fn typical_rows_are_those_nearest_to_the_mean_direction() {
    let workspace = with_model();
    let lines = String::from_utf8(workspace.read("x.csv")).unwrap();
    let rows: Vec<Vec<f64>> = lines.lines().skip(1).map(|line| line.split(',').map(|x| x.parse().unwrap()).collect()).collect();
    let labels = String::from_utf8(workspace.read("found.txt")).unwrap();
    let labels: Vec<usize> = labels.lines().map(|label| label.parse().unwrap()).collect();
    let model = workspace.run("inspect m.safetensors named.csv --id-column name --typical 4 --json").json();
    assert_eq!((&model["data"]["rows"], &model["data"]["file"]), (&600.into(), &"named.csv".into()));
    for component in model["components"].as_array().unwrap() {
        let number_of = component["component"].as_u64().unwrap() as usize;
        let direction: Vec<f64> = component["mean_direction"].as_array().unwrap().iter().map(number).collect();
        let mut members: Vec<(f64, usize)> = (0..600)
            .filter(|&row| labels[row] == number_of)
            .map(|row| (rows[row].iter().zip(&direction).map(|(x, y)| x * y).sum(), row))
            .collect();
        members.sort_by(|a, b| b.0.total_cmp(&a.0));
        assert_eq!(component["rows"], members.len());
        let typical = component["typical"].as_array().unwrap();
        assert_eq!(typical.len(), 4);
        for (found, (_, row)) in typical.iter().zip(members) {
            assert_eq!((&found["row"], &found["id"]), (&row.into(), &format!("row-{row}").into()));
        }
        assert!(typical.iter().map(|row| number(&row["ln_density"])).is_sorted_by(|a, b| a >= b));
    }
    let first = &model["components"][0];
    let named = workspace.run("inspect m.safetensors named.csv --id-column name").success();
    let [one, two, three] = [0, 1, 2].map(|place| first["typical"][place]["id"].as_str().unwrap().to_owned());
    let line = format!("\ncomponent {}, {} rows: {one}, {two}, {three}\n", first["component"], first["rows"]);
    assert!(named.contains(&line), "`{line}` is missing in:\n{named}");
    let numbered = workspace.run("inspect m.safetensors x.csv --typical 1").success();
    assert!(numbered.contains(&format!(" rows: {}\n", first["typical"][0]["row"])), "{numbered}");
    let piped = workspace.run_with_input("inspect m.safetensors - --typical 1", &workspace.read("x.csv")).success();
    assert_eq!(piped.replace("standard input", "x.csv"), numbered);
}

#[test]
fn many_components_and_a_background_are_shown() {
    let workspace = three_groups();
    workspace.run("fit x.csv -k 25 --max-passes 2 -o m.safetensors").success();
    let text = workspace.run("inspect m.safetensors x.csv").success();
    assert_eq!(text.matches("... and 5 more (all of them with --json)\n").count(), 2, "{text}");
    let all = workspace.run("inspect m.safetensors x.csv --json").json();
    let rows: f64 = all["components"].as_array().unwrap().iter().map(|component| number(&component["rows"])).sum();
    assert_eq!(rows, 600.0);
    workspace.run("fit x.csv -k 2 --background=0.4 -o m.safetensors").success();
    let text = workspace.run("inspect m.safetensors x.csv").success();
    assert!(text.starts_with("m.safetensors: 2 components and a background in dimension 3\n"), "{text}");
    assert!(text.contains("2 (background), "), "{text}");
}

#[test]
fn what_is_no_model_and_what_does_not_fit_is_named() {
    let workspace = with_model();
    workspace.write("two.csv", "0.6,0.8\n");
    workspace.write("long.csv", "3,0,0\n");
    for (arguments, words) in [
        ("inspect", "<MODEL>"),
        ("inspect x.csv", "x.csv: "),
        ("inspect missing.safetensors", "missing.safetensors: cannot be read"),
        ("inspect m.safetensors --typical 2", "DATA"),
        ("inspect m.safetensors two.csv", "two.csv: expected dimension 3, found: `2`"),
        ("inspect m.safetensors long.csv", "long.csv: row 0 must have length 1, found: `3`"),
    ] {
        workspace.run(arguments).refused(&[words]);
    }
    let run = workspace.run("inspect m.safetensors long.csv --rescale");
    assert!(run.stderr.contains("1 of 1 were not of length 1"), "{}", run.stderr);
}
