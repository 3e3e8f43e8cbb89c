//! `vmf fit` recovers what `vmf sample` drew.

use crate::{Run, Workspace, npy, number, testdata};
use serde_json::Value;

/// Runs `vmf fit` on a file of `testdata/npy`.
fn fit_numpy(name: &str, options: &str) -> Run {
    let path = testdata("npy").join(name);
    Workspace::new().run(&format!("fit {} {options} --json", path.to_str().expect("a path of text")))
}

fn close(x: &Value, y: f64, tolerance: f64) {
    assert!((number(x) / y - 1.0).abs() < tolerance, "{x} for {y}");
}

#[test]
fn fit_finds_what_was_sampled_in_every_format() {
    let workspace = Workspace::new();
    for (dtype, file) in [("f32", "x.npy"), ("f64", "x.npy"), ("f32", "x.csv"), ("f64", "x.csv")] {
        workspace.run(&format!("sample --dim 20 --concentration 100 -n 2000 --seed 5 --dtype {dtype} -o {file}")).success();
        let fit = workspace.run(&format!("fit {file} --json")).json();
        close(&fit["concentration"], 100.0, 0.05);
        assert_eq!((fit["rows"].as_u64(), fit["dim"].as_u64()), (Some(2000), Some(20)));
        assert!(number(&fit["mean_direction"][0]) > 0.99);
        let interval = &fit["concentration_interval"];
        assert!(number(&interval[0]) < 100.0 && 100.0 < number(&interval[1]), "{interval}");
    }
    assert_eq!(workspace.names(), ["x.csv", "x.npy"]);
}

#[test]
fn the_same_draws_reach_every_format() {
    let workspace = Workspace::new();
    for file in ["x.npy", "x.csv"] {
        workspace.run(&format!("sample --dim 3 --concentration 7 -n 50 --dtype f64 -o {file}")).success();
    }
    let [npy, csv] = ["x.npy", "x.csv"].map(|file| workspace.run(&format!("fit {file} --json")).json()["concentration"].clone());
    assert_eq!(npy, csv);
    let printed = workspace.run("sample --dim 3 --concentration 7 -n 50 --dtype f64 -o -").success();
    assert_eq!(printed.as_bytes(), workspace.read("x.csv"));
    assert_eq!(printed.lines().next(), Some("x0,x1,x2"));
}

#[test]
fn threads_change_nothing_but_seeds_change_everything() {
    let workspace = Workspace::new();
    let options = "--dim 30 --concentration 40 -n 9000";
    for (name, more) in [("a", "--threads 1"), ("b", "--threads 3"), ("c", "--seed 1")] {
        workspace.run(&format!("sample {options} {more} -o {name}.npy")).success();
    }
    assert_eq!(workspace.read("a.npy"), workspace.read("b.npy"));
    assert_ne!(workspace.read("a.npy"), workspace.read("c.npy"));
    for options in ["", "--method sgd --epochs 3", "--goodness-of-fit=9"] {
        let [one, three] = [1, 3].map(|n| workspace.run(&format!("fit a.npy {options} --json --threads {n}")).success());
        assert_eq!(one, three);
    }
}

#[test]
fn more_rows_begin_with_the_same_rows() {
    let workspace = Workspace::new();
    // More than one block of 2^21 values.
    workspace.run("sample --dim 1000 --concentration 10 -n 2500 -o long.npy").success();
    workspace.run("sample --dim 1000 --concentration 10 -n 2200 -o short.npy").success();
    let (long, short) = (workspace.read("long.npy"), workspace.read("short.npy"));
    assert_eq!(short.len(), 128 + 2200 * 4000);
    assert_eq!(long[128..short.len()], short[128..]);
}

#[test]
fn mean_direction_is_numbers_or_a_file() {
    let workspace = Workspace::new();
    workspace.write("mu.csv", "-1,2,2\n");
    for given in ["-1,2,2", "mu.csv"] {
        workspace.run(&format!("sample --mean-direction {given} --concentration 1e6 -n 100 -o x.npy")).success();
        let fit = workspace.run("fit x.npy --json").json();
        for (found, expected) in fit["mean_direction"].as_array().unwrap().iter().zip([-1.0, 2.0, 2.0]) {
            assert!((number(found) - expected / 3.0).abs() < 1e-3, "{fit}");
        }
    }
}

#[test]
fn extreme_concentrations_are_sampled_and_fitted() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 5 --concentration 0 -n 1000 -o x.npy").success();
    assert!(number(&workspace.run("fit x.npy --json").json()["rayleigh_test"]["p_value"]) > 1e-3);
    workspace.run("sample --dim 5 --concentration 1e12 -n 1000 --dtype f64 -o x.npy").success();
    close(&workspace.run("fit x.npy --json").json()["concentration"], 1e12, 0.1);
    workspace.run("sample --dim 5 --concentration 1e30 -n 10 --dtype f64 -o x.npy").success();
    workspace.run("sample --dim 5 --concentration 1 -n 0 -o empty.npy").success();
    workspace.run("fit empty.npy").refused(&["empty.npy: there is nothing to fit"]);
}

/// In single precision these rows fit back as a concentration of 2.2e15.
#[test]
fn rows_are_written_in_a_precision_that_holds_the_density() {
    let workspace = Workspace::new();
    let sample = |concentration: &str, options: &str| {
        let direction = "--mean-direction 2,7,1,8 -n 5000 -o x.npy --json";
        let run = workspace.run(&format!("sample {direction} --concentration {concentration} {options}"));
        let (said, told) = (run.stderr.clone(), run.json());
        let found = number(&workspace.run("fit x.npy --json").json()["concentration"]);
        (told["dtype"].as_str().unwrap().to_owned(), found / concentration.parse::<f64>().unwrap(), said)
    };
    for (concentration, options, dtype, words) in [
        ("9.9e11", "", "f32", ""),
        ("1e12", "", "f64", "rows are written as f64: f32 resolves angles of 6e-8, too coarse for a concentration of 1e12\n"),
        ("1e16", "", "f64", "rows are written as f64"),
        ("1e16", "--dtype f64", "f64", ""),
        (
            "1e16",
            "--dtype f32",
            "f32",
            "warning: f32 resolves angles of 6e-8, too coarse for a concentration of 1e16\nhint: `--dtype f64` resolves them",
        ),
    ] {
        let (found, ratio, said) = sample(concentration, options);
        assert_eq!((found.as_str(), said.is_empty()), (dtype, words.is_empty()), "{concentration} {options}: {said}");
        assert!(said.contains(words), "{said}");
        // Five standard errors, with 15000 normals.
        assert_eq!((ratio - 1.0).abs() < 0.06, options != "--dtype f32", "{concentration} {options}: {ratio}");
    }
    // A mixture goes by its most concentrated component.
    workspace.run("sample --dim 3 --concentration 1e13 -n 100 -o x.npy").success();
    workspace.run("fit x.npy -k 1 --policy fixed:1e13 --max-passes 1 -o m.safetensors").success();
    assert_eq!(workspace.run("sample m.safetensors -n 9 -o y.npy --json").json()["dtype"], "f64");
}

/// 2 s k on the circle is chi-squared with 1 degree of freedom, at every concentration.
#[test]
fn the_largest_concentration_is_drawn_from() {
    let workspace = Workspace::new();
    for concentration in ["4.4e307", "4.6e307", "1.7976931348623157e308"] {
        workspace.run(&format!("sample --dim 2 --concentration {concentration} -n 1000 -o x.csv")).success();
        let text = String::from_utf8(workspace.read("x.csv")).unwrap();
        let root = concentration.parse::<f64>().unwrap().sqrt();
        let squares = text.lines().skip(1).map(|line| (line.split(',').nth(1).unwrap().parse::<f64>().unwrap() * root).powi(2));
        let mean = squares.sum::<f64>() / 1000.0;
        assert!((mean - 1.0).abs() < 5.0 * (2.0f64 / 1000.0).sqrt(), "{concentration}: {mean}");
    }
    workspace.run("sample --dim 2 --concentration inf -n 9 -o x.csv").refused(&["the concentration must be finite"]);
}

#[test]
fn every_estimator_is_near_the_exact_one() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 10 --concentration 25 -n 3000 -o x.npy").success();
    for estimator in ["exact", "banerjee", "tanabe", "sra", "song"] {
        let fit = workspace.run(&format!("fit x.npy --set estimator={estimator} --json")).json();
        assert_eq!(fit["method"], estimator);
        close(&fit["concentration"], number(&fit["exact_concentration"]), 0.05);
        assert!(number(&fit["ln_likelihood"]) <= number(&fit["exact_ln_likelihood"]) + 1e-9, "exact is the maximum");
    }
    let sgd = workspace
        .run("fit x.npy --method sgd --start random --set batch=64 --set learning_rate=0.02 --set decay=0.9 --json")
        .json();
    close(&sgd["concentration"], number(&sgd["exact_concentration"]), 0.02);
    let corrected = workspace.run("fit x.npy --set estimator=corrected --json").json();
    assert_eq!(corrected["concentration"], corrected["corrected_concentration"]);
    let text = workspace.run("fit x.npy --method sgd --level 0.5 --goodness-of-fit=19").success();
    for word in ["method sgd", "  exact", "(50%)", "projection test", "symmetry test", "95% within"] {
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn every_layout_of_numpy_is_read() {
    let reference = fit_numpy("f8.npy", "").json();
    for name in ["f8_big_endian", "f8_fortran_big_endian", "f8_version_2", "f8_version_3"] {
        let fit = fit_numpy(&format!("{name}.npy"), "").json();
        assert_eq!(fit["mean_direction"], reference["mean_direction"], "{name}");
        assert_eq!(fit["concentration"], reference["concentration"], "{name}");
    }
    for name in ["f4", "f4_big_endian", "f4_fortran"] {
        let fit = fit_numpy(&format!("{name}.npy"), "").json();
        close(&fit["concentration"], number(&reference["concentration"]), 1e-6);
    }
    for name in ["f2", "f2_big_endian"] {
        let run = fit_numpy(&format!("{name}.npy"), "");
        assert!(run.stderr.contains("half precision"), "{}", run.stderr);
        close(&run.json()["concentration"], number(&reference["concentration"]), 1e-3);
    }
}

#[test]
fn integers_are_rows_too_and_mostly_want_rescaling() {
    let fit = fit_numpy("integers.npy", "").json();
    assert_eq!((number(&fit["rows"]), number(&fit["dim"])), (3.0, 3.0));
    let workspace = Workspace::new();
    let header = "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 2)}";
    workspace.write("x.npy", npy(header, &[3i16, -12, 4, 5].map(i16::to_be_bytes).concat()));
    workspace.write("x.csv", "3,4\n-12,5\n");
    workspace.run("fit x.npy").refused(&["row 0 must have length 1, found: `5`", "`--rescale`"]);
    let [array, text] = ["x.npy", "x.csv"].map(|file| workspace.run(&format!("fit {file} --rescale --json")).json());
    assert_eq!((&array["concentration"], &array["rescaled_rows"]), (&text["concentration"], &2.into()));
}

#[test]
fn weights_count_rows_more_than_once() {
    let weights = testdata("npy").join("weights.npy");
    let weighted = fit_numpy("f8.npy", &format!("--weights {}", weights.display())).json();
    assert_eq!(number(&weighted["total_weight"]), 5.0);
    let workspace = Workspace::new();
    workspace.write("x.csv", "name,x,w,y,z\na,0.6,2,0.8,0\nb,0,1,0.6,0.8\n");
    workspace.write("twice.tsv", "x\ty\tz\n0.6\t0.8\t0\n0.6\t0.8\t0\n0\t0.6\t0.8\n");
    let weighted = workspace.run("fit x.csv --columns x,y,z --weights column:w --json").json();
    let twice = workspace.run("fit twice.tsv --json").json();
    close(&weighted["concentration"], number(&twice["concentration"]), 1e-14);
    assert_eq!(weighted["total_weight"], twice["total_weight"]);
}

#[test]
fn rows_are_rescaled_on_request_and_reported() {
    let workspace = Workspace::new();
    workspace.write("x.csv", "3,4\n0.6,0.8\n4,3\n");
    let run = workspace.run("fit x.csv --rescale --json");
    assert!(run.stderr.contains("2 of 3"), "{}", run.stderr);
    assert_eq!(run.json()["rescaled_rows"], 2);
}

#[test]
fn standard_input_is_read_as_text_or_array() {
    let workspace = Workspace::new();
    for name in ["x.npy", "x.csv"] {
        workspace.run(&format!("sample --dim 4 --concentration 9 -n 30 -o {name}")).success();
        let fit = workspace.run_with_input("fit - --json", &workspace.read(name)).json();
        assert_eq!((fit["file"].as_str(), fit["rows"].as_u64()), (Some("standard input"), Some(30)));
    }
}

#[test]
fn every_option_of_sgd_changes_the_fit() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 4 --concentration 20 -n 500 --dtype f64 -o x.npy").success();
    let concentration =
        |options: &str| number(&workspace.run(&format!("fit x.npy --json --method sgd {options}")).json()["concentration"]);
    let plain = concentration("--epochs 5");
    for options in [
        "--epochs 6",
        "--epochs 5 --set batch=64",
        "--epochs 5 --set learning_rate=0.02",
        "--epochs 5 --set decay=0.5",
        "--epochs 5 --set betas=0.8,0.99",
        "--epochs 5 --set shuffle=false",
        "--epochs 5 --start random",
        "--epochs 5 --seed 1",
    ] {
        assert_ne!(concentration(options), plain, "{options}");
    }
    assert_eq!(concentration("--epochs 5 --set betas=0.9,0.99"), plain);
    workspace
        .run("fit x.npy --method sgd --set betas=0.9")
        .refused(&["'betas=0.9' for '--set", "`betas` must be two numbers, each at least 0 and below 1, found: `0.9`"]);
    workspace
        .run("fit x.npy --method sgd --set betas=0.9,1")
        .refused(&["`betas` must be two numbers, each at least 0 and below 1, found: `0.9,1`"]);
    workspace.run("fit x.npy --set shuffle=false").refused(&["`--method closed` does not use the setting: `shuffle`"]);
}

/// 30 rows in 768 dimensions: the plain estimate is biased past its own interval, and the report
/// says so.
#[test]
fn an_estimate_outside_its_interval_is_explained() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 768 --concentration 300 -n 30 --seed 3 -o x.npy").success();
    let text = workspace.run("fit x.npy").success();
    assert!(text.contains("the estimate is outside because it is biased upward in small samples"), "{text}");
    let fit = workspace.run("fit x.npy --json").json();
    let (low, high) = (number(&fit["concentration_interval"][0]), number(&fit["concentration_interval"][1]));
    assert!(number(&fit["concentration"]) > high && low < 300.0 && 300.0 < high, "{low} to {high}");
    assert!(!workspace.run("fit x.npy --set estimator=corrected").success().contains("is outside"));
}
