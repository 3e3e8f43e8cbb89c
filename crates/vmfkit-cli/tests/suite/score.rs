//! `vmf score`: how well a model explains rows.

use crate::assign::{draw, fitted};
use crate::number;
use std::f64::consts::{LN_2, PI};

#[test]
fn scores_are_reported_and_in_json() {
    let workspace = fitted();
    let fit = workspace.run("fit x.csv -k 3 --json").json();
    let score = workspace.run("score m.safetensors x.csv --json").json();
    let get = |key: &str| number(&score[key]);
    assert!((get("mean_ln_density") - number(&fit["mean_ln_density"])).abs() < 1e-12);
    // The sphere's area is 4 pi.
    let uniform = -(4.0 * PI).ln();
    assert!((get("uniform_ln_density") - uniform).abs() < 1e-14);
    assert!((get("bits_per_coordinate") - (get("mean_ln_density") - uniform) / (3.0 * LN_2)).abs() < 1e-14);
    // Groups at right angles: each row is certain of its component.
    assert!((1.0..1.01).contains(&get("effective_components")), "{score}");
    let text = workspace.run("score m.safetensors x.csv").success();
    for words in [
        "x.csv: 600 rows of dimension 3, under m.safetensors\n\nmean ln density     ",
        "\nover uniform        ",
        " bits per coordinate\ncomponents per row  1.0",
        " of the rows, expected 0.01 +- 0.00406",
    ] {
        assert!(text.contains(words), "`{words}` is missing in:\n{text}");
    }
}

/// The scores of draws agree with the model within 4 standard errors.
#[test]
fn draws_of_the_model_are_what_it_expects() {
    let workspace = fitted();
    draw(&workspace, 20_000, 5);
    let score = workspace.run("score m.safetensors drawn.npy --outliers 0.05 --json").json();
    let outliers = &score["outliers"];
    let error = number(&outliers["standard_error"]);
    assert!((error - (0.05f64 * 0.95 / 20_000.0).sqrt()).abs() < 1e-15);
    assert!((number(&outliers["fraction"]) - 0.05).abs() < 4.0 * error, "{score}");
    assert_eq!((&outliers["expected"], &outliers["level"]), (&0.05.into(), &0.05.into()));
    draw(&workspace, 20_000, 6);
    let other = workspace.run("score m.safetensors drawn.npy --p-values none --json").json();
    assert!(other["outliers"].is_null());
    let difference = number(&score["mean_ln_density"]) - number(&other["mean_ln_density"]);
    assert!(difference.abs() < 4.0 * number(&score["standard_error"]).hypot(number(&other["standard_error"])), "{difference}");
    assert!(!workspace.run("score m.safetensors drawn.npy --p-values none").success().contains("outliers"));
}

#[test]
fn outliers_are_found_and_rows_between_components_are_uncertain() {
    let workspace = fitted();
    workspace.write("strange.csv", "-1,0,0\n0,-1,0\n0,0,-1\n");
    let score = workspace.run("score m.safetensors strange.csv --json").json();
    assert_eq!(number(&score["outliers"]["fraction"]), 1.0);
    assert!(number(&score["bits_per_coordinate"]) < 0.0, "{score}");
    workspace.run("sample --dim 3 --concentration 1 -n 2000 -o wide.npy").success();
    workspace.run("fit wide.npy -k 2 --policy fixed:1 --max-passes 3 -o wide.safetensors").success();
    let score = workspace.run("score wide.safetensors wide.npy --p-values none --json").json();
    assert!((1.2..=2.0).contains(&number(&score["effective_components"])), "{score}");
}

/// A heavy row makes the fraction less certain.
#[test]
fn weights_change_scores() {
    let workspace = fitted();
    let weights: String = (0..600).map(|row| if row == 0 { "100\n" } else { "1\n" }).collect();
    workspace.write("weights.csv", weights);
    let score = workspace.run("score m.safetensors x.csv --weights weights.csv --json").json();
    assert_eq!((number(&score["rows"]), number(&score["total_weight"])), (600.0, 699.0));
    let rows = 699f64.powi(2) / (599.0 + 1e4);
    assert!((number(&score["outliers"]["standard_error"]) - (0.01f64 * 0.99 / rows).sqrt()).abs() < 1e-15);
}

#[test]
fn pipes_are_read_and_mistakes_are_named() {
    let workspace = fitted();
    let [file, pipe] = [workspace.run("score m.safetensors x.csv --json"), {
        workspace.run_with_input("score m.safetensors - --json", &workspace.read("x.csv"))
    }]
    .map(|run| run.json());
    assert_eq!(file["mean_ln_density"], pipe["mean_ln_density"]);
    workspace.write("flat.csv", "1,0\n0,1\n");
    for (arguments, words) in [
        ("m.safetensors flat.csv", "flat.csv: rows must have the dimension of m.safetensors, 3, found: `2`"),
        ("m.safetensors x.csv --outliers 1", "a level must be above 0 and below 1"),
        ("m.safetensors", "<DATA>"),
    ] {
        workspace.run(&format!("score {arguments}")).refused(&[words]);
    }
}
