//! `vmf fit -k`: mixtures, their files, and what is wrong with options.

use crate::{Workspace, npy, number};
use serde_json::Value;

const METHODS: [&str; 6] = ["em", "hard", "stochastic", "online", "sgd", "kmeans"];

/// Three groups of 100, 200 and 300 rows around the axes of three dimensions in `x.csv`, and their
/// labels in `truth.txt`.
pub fn three_groups() -> Workspace {
    let workspace = Workspace::new();
    let (mut rows, mut labels) = ("x,y,z\n".to_owned(), String::new());
    for (group, (axis, size)) in [("1,0,0", 100), ("0,1,0", 200), ("0,0,1", 300)].into_iter().enumerate() {
        let drawn = workspace
            .run(&format!("sample --mean-direction {axis} --concentration 60 -n {size} --seed {group} --dtype f64 -o -"));
        drawn.success().lines().skip(1).for_each(|line| rows += &format!("{line}\n"));
        labels += &format!("{group}\n").repeat(size);
    }
    workspace.write("x.csv", rows);
    workspace.write("truth.txt", labels);
    workspace
}

#[test]
fn every_method_finds_the_groups() {
    let workspace = three_groups();
    for method in METHODS {
        let fit = workspace.run(&format!("fit x.csv -k 3 --method {method} --labels found.npy --json")).json();
        assert_eq!((&fit["method"], &fit["component_count"], &fit["dim"]), (&method.into(), &3.into(), &3.into()));
        let components = fit["components"].as_array().unwrap();
        // Sorted by weight: the group of 300 rows, then that of 200; k-means has equal weights.
        let weights: Vec<f64> = components.iter().map(|c| number(&c["weight"])).collect();
        let expected = if method == "kmeans" { [1.0 / 3.0; 3] } else { [1.0 / 2.0, 1.0 / 3.0, 1.0 / 6.0] };
        assert!(weights.iter().zip(expected).all(|(w, e)| (w - e).abs() < 0.02), "{method}: {weights:?}");
        for axis in [2, 1, 0] {
            let along = |component: &&Value| number(&component["mean_direction"][axis]) > 0.99;
            let component = components.iter().find(along).unwrap_or_else(|| panic!("{method}: none along axis {axis}"));
            assert!((45.0..80.0).contains(&number(&component["concentration"])), "{method}: {component}");
            assert!((number(&component["degrees_to_nearest"]) - 90.0).abs() < 5.0, "{method}: {component}");
        }
        let compared = workspace.run("compare truth.txt found.npy --json").json();
        assert!(number(&compared["adjusted_rand_index"]) > 0.98, "{method}: {compared}");
        assert_eq!(fit["trace"].as_array().unwrap().len(), number(&fit["passes"]) as usize);
    }
}

#[test]
fn likelihood_and_criteria_agree() {
    let workspace = three_groups();
    let fit = workspace.run("fit x.csv -k 3 --policy free --json").json();
    let get = |key: &str| number(&fit[key]);
    assert_eq!(get("free_parameters"), 2.0 + 3.0 * 3.0);
    assert!((get("aic") - (22.0 - 2.0 * get("ln_likelihood"))).abs() < 1e-9);
    assert!((get("bic") - (11.0 * 600f64.ln() - 2.0 * get("ln_likelihood"))).abs() < 1e-9);
    assert!(get("icl") >= get("bic") && (get("mean_ln_density") * 600.0 - get("ln_likelihood")).abs() < 1e-9);
    let text = workspace.run("fit x.csv -k 3 --policy free").success();
    for words in [
        "x.csv: 600 rows of dimension 3\n3 components by em, concentrations free: converged after ",
        "\nlog-likelihood    ",
        "\nAIC, BIC, ICL     ",
        "(lower is better; 11 free parameters)\n",
        "\n\ncomponent    weight  concentration  half within  nearest  angle to it ",
    ] {
        assert!(text.contains(words), "`{words}` is missing in:\n{text}");
    }
    // One component is the single density.
    let [one, single] = ["-k 1", ""].map(|k| workspace.run(&format!("fit x.csv {k} --json")).json());
    assert!((number(&one["ln_likelihood"]) - number(&single["ln_likelihood"])).abs() < 1e-6);
    assert!(workspace.run("fit x.csv -k 1").success().contains("1 component by em"));
}

#[test]
fn threads_change_no_bit_of_a_model_file_but_seeds_do() {
    let workspace = three_groups();
    for method in METHODS {
        for (name, more) in [("a", "--threads 1"), ("b", "--threads 2"), ("c", "--seed 5 --max-passes 2")] {
            workspace.run(&format!("fit x.csv -k 5 --method {method} {more} -o {name}")).success();
        }
        assert_eq!(workspace.read("a"), workspace.read("b"), "{method}");
        assert_ne!(workspace.read("a"), workspace.read("c"), "{method}");
    }
    let [one, two] = [1, 2].map(|n| {
        let mut fit = workspace.run(&format!("fit x.csv -k 5 --background --json --threads {n} -o {n}")).json();
        let passes = fit["trace"].as_array_mut().unwrap();
        // Model files store no times, which always differ.
        let seconds: Vec<f64> =
            passes.iter_mut().map(|pass| number(&pass.as_object_mut().unwrap().remove("seconds").unwrap())).collect();
        assert!(seconds[0] > 0.0 && seconds.is_sorted(), "{seconds:?}");
        fit
    });
    assert_eq!(one, two);
    assert_eq!(workspace.read("1"), workspace.read("2"));
    assert!(!String::from_utf8_lossy(&workspace.read("1")).contains("seconds"));
}

#[test]
fn fits_start_from_the_given_start() {
    let workspace = three_groups();
    workspace.write("directions.csv", "0,0,2\n0,3,0\n4,0,0\n");
    workspace
        .write("named.txt", String::from_utf8(workspace.read("truth.txt")).unwrap().replace('0', "noise").replace('2', "-7"));
    workspace.run("fit x.csv -k 3 -o model.safetensors").success();
    let best = number(&workspace.run("fit x.csv -k 3 --json").json()["ln_likelihood"]);
    for start in [
        "kmeans",
        "plusplus",
        "random-rows",
        "random",
        "labels:truth.txt",
        "labels:named.txt",
        "directions:directions.csv",
        "model:model.safetensors",
    ] {
        let restarts = if start.contains(':') { "" } else { "--restarts 4" };
        let fit = workspace.run(&format!("fit x.csv -k 3 --start {start} {restarts} --tolerance 1e-9 --json")).json();
        assert!(number(&fit["ln_likelihood"]) > best - 0.1, "{start}: {} for {best}", fit["ln_likelihood"]);
    }
    // The mixture of a file goes in as it was, and its labels are component numbers.
    let fit = workspace.run("fit x.csv -k 3 --start model:model.safetensors --max-passes 1 --json").json();
    assert_eq!(fit["status"], "pass limit");
    workspace.run("fit x.csv -k 3 --start labels:truth.txt --labels found.txt").success();
    let same = workspace.read("found.txt").iter().zip(workspace.read("truth.txt")).filter(|(a, b)| *a == b).count();
    assert!(same > 1190, "{same} of 1200 bytes");
}

#[test]
fn every_option_changes_the_fit() {
    let workspace = three_groups();
    let model = |options: &str| {
        workspace.run(&format!("fit x.csv -k 4 -o model.safetensors {options}")).success();
        workspace.read("model.safetensors")
    };
    for (plain, options) in [
        (
            "",
            "--policy free|--policy shared|--policy fixed:30|--policy ratio:5|--set estimator=banerjee|--background|--background=0.2|\
             --set fixed_weights=true|--set smallest_weight=0.2|--set annealing=5,0.5|--max-passes 1|--tolerance 0.5|--start random-rows|--seed 9",
        ),
        ("--method online", "--set step=0.9,1|--set step=0.7,5|--set batch=50|--set shuffle=false|--max-passes 2"),
        (
            "--method sgd --max-passes 3",
            "--set learning_rate=0.2|--set decay=0.5|--set betas=0.8,0.99|--set batch=32|--set shuffle=false|--tolerance 0.5|--policy free|--set fixed_weights=true|--set smallest_weight=0.2",
        ),
    ] {
        let (before, mut seen) = (model(plain), std::collections::HashSet::new());
        for option in options.split('|') {
            let after = model(&format!("{plain} {option}"));
            assert!(after != before && seen.insert(after), "{plain} {option}");
        }
    }
    let shared = workspace.run("fit x.csv -k 3 --policy shared --json").json();
    assert_eq!(shared["components"][0]["concentration"], shared["components"][2]["concentration"]);
    let fixed = workspace.run("fit x.csv -k 3 --policy fixed:30 --json").json();
    assert_eq!((&fixed["components"][1]["concentration"], &fixed["policy"]), (&30.0.into(), &"fixed:30".into()));
}

/// K-means has one concentration and equal weights: 3 directions of 2 numbers and one concentration
/// are free.
#[test]
fn k_means_is_described_as_k_means() {
    let workspace = three_groups();
    for (options, policy, free) in
        [("", "shared", 7), ("--set estimator=banerjee", "shared", 7), ("--policy fixed:30", "fixed:30", 6)]
    {
        let command = format!("fit x.csv -k 3 --method kmeans {options} -o m.safetensors");
        let fit = workspace.run(&format!("{command} --json")).json();
        assert_eq!((&fit["policy"], &fit["free_parameters"]), (&policy.into(), &free.into()), "{options}");
        let text = workspace.run(&command).success();
        assert!(text.contains(&format!("by kmeans, concentrations {policy}: ")), "{text}");
        assert!(text.contains(&format!("{free} free parameters")), "{text}");
        assert!(String::from_utf8_lossy(&workspace.read("m.safetensors")).contains(policy), "{options}");
    }
}

/// Random methods may end elsewhere from the same start.
#[test]
fn restarts_that_differ_are_made() {
    let workspace = three_groups();
    for method in ["stochastic", "online", "sgd"] {
        workspace.run(&format!("fit x.csv -k 3 --method {method} --start labels:truth.txt --restarts 2")).success();
    }
    workspace.run("fit x.csv -k 3 --start labels:truth.txt --restarts 1").success();
}

#[test]
fn a_background_takes_outliers() {
    let workspace = three_groups();
    let uniform = workspace.run("sample --dim 3 --concentration 0 -n 200 --seed 9 --dtype f64 -o -").success();
    let rows = String::from_utf8(workspace.read("x.csv")).unwrap();
    workspace.write("noisy.csv", rows + uniform.split_once('\n').unwrap().1);
    let fit = workspace.run("fit noisy.csv -k 3 --background --policy free --json -o m.safetensors").json();
    let components = fit["components"].as_array().unwrap();
    assert_eq!((components.len(), &fit["component_count"]), (4, &3.into()));
    let background = components.iter().find(|c| c["background"] == true).unwrap();
    assert!((number(&background["weight"]) - 0.25).abs() < 0.06, "{background}");
    assert_eq!((&background["component"], &background["concentration"]), (&3.into(), &0.0.into()));
    let text = workspace.run("fit noisy.csv -k 3 --start model:m.safetensors").success();
    assert!(text.contains("3 components and a background by em") && text.contains("3 (background)"), "{text}");
}

#[test]
fn long_lists_of_components_are_truncated_and_notes_are_shown() {
    let workspace = three_groups();
    let text = workspace.run("fit x.csv -k 25 --max-passes 3").success();
    assert!(text.contains("... and 5 more (all of them with --json)") && text.lines().count() < 40, "{text}");
    // Two distinct rows cannot fill three components.
    workspace.write("two.csv", "1,0\n1,0\n0,1\n0,1\n");
    let run = workspace.run("fit two.csv -k 3 --policy free --json");
    let notes = run.json()["notes"].to_string();
    assert!(notes.contains("collapsed on"), "{notes}");
    assert!(workspace.run("fit two.csv -k 3 --policy free").success().contains("\nnote: component "));
}

#[test]
fn options_that_do_not_go_together_are_named() {
    let workspace = three_groups();
    workspace.run("fit x.csv -k 3 -o model.safetensors").success();
    workspace.write("labels.txt", "1\n2\n");
    workspace.write("many.txt", (0..600).map(|i| format!("{}\n", i % 7)).collect::<String>());
    workspace.write("directions.csv", "1,0,0\n0,1,0\n");
    let before = workspace.names();
    for (options, words) in [
        ("--method em", "one density is fitted by `--method closed` or `--method sgd`, found: `em`\nhint: `-k N`"),
        ("-k 3 --method closed", "mixtures have no closed form, found: `--method closed`"),
        ("-k 3 --method newton", "possible values: closed, em, hard, stochastic, online, sgd, kmeans"),
        ("-k 0", "0 is not in 1.."),
        ("--policy free", "--components <N>"),
        ("--background", "--components <N>"),
        ("--labels l.npy", "--components <N>"),
        ("--set search=false", "one density does not use the setting: `search`\nhint: `-k N` fits a mixture"),
        ("-k 3 --set serach=false", "no setting is called `serach`; similar: `search`\nhint: `vmf fit --help-settings`"),
        ("-k 3 --set seed=1", "`seed` has a separate option: `--seed`"),
        ("-k 3 --set search=false --set search=true", "a setting can be given only once, found twice: `search`"),
        ("-k 3 --set fixed_weights=true --set smallest_weight=0.1", "`smallest_weight` has no effect with `fixed_weights=true`"),
        ("-k 3 --set search", "a setting is given as NAME=VALUE"),
        ("-k 3 --level 0.9", "cannot be used with"),
        ("-k 3 --set estimator=corrected", "`estimator=corrected` is for one density, found: `--method em`"),
        ("--start random", "`--method closed` does not use the option: `--start`"),
        ("-k 3 --set betas=0.9,0.99", "`--method em` does not use the setting: `betas`\nhint: it is for `--method sgd`"),
        ("-k 3 --set batch=9", "`batch`\nhint: it is for `--method sgd`, `--method online`"),
        ("-k 3 --method sgd --set step=0.7,1", "`--method sgd` does not use the setting: `step`"),
        ("-k 3 --method kmeans --background", "does not use the option: `--background`"),
        (
            "-k 3 --method kmeans --policy free",
            "`--method kmeans` does not use the option: `--policy free`\nhint: it is for `--method em`",
        ),
        ("-k 3 --method kmeans --policy auto", "does not use the option: `--policy auto`"),
        ("-k 3 --method kmeans --policy shared", "does not use the option: `--policy shared`"),
        ("-k 3 --method kmeans --set fixed_weights=true", "does not use the setting: `fixed_weights`"),
        ("-k 3 --method kmeans --set smallest_weight=0.1", "does not use the setting: `smallest_weight`"),
        (
            "-k 3 --restarts 2 --start model:model.safetensors",
            "`--method em` gives the same fit for every restart from a given start, found: `--restarts 2`\nhint: ",
        ),
        ("-k 3 --restarts 3 --method hard --start labels:truth.txt", "`--method hard` gives the same fit"),
        ("-k 3 --restarts 9 --method kmeans --start directions:directions.csv", "found: `--restarts 9`"),
        ("-k 3 -o new --labels new", "`-o` and `--labels` need different files, found for both: `new`"),
        ("-k 3 -o model.safetensors --labels ./model.safetensors", "need different files, found for both: `./model.safetensors`"),
        ("-k 3 -o ./new --labels new", "need different files"),
        ("-k 3 --method sgd --set estimator=sra", "does not use the setting: `estimator`"),
        ("-k 3 --method hard --set annealing=2,0.5", "does not use the setting: `annealing`"),
        ("-k 3 --policy loose", "unknown policy `loose`, expected one of auto, free, shared, fixed:CONCENTRATION, ratio:RATIO"),
        ("-k 3 --policy fixed", "unknown policy `fixed`"),
        ("-k 3 --policy ratio:much", "`much` is not a number in the policy `ratio:much`"),
        ("-k 3 --policy ratio:0.5", "the ratio of concentrations must be finite and at least 1, found: `0.5`"),
        (
            "-k 3 --set annealing=0.5,0.5",
            "`annealing` must be two numbers, the first from 1 to 1e6, the second above 0 and below 1, found: `0.5,0.5`",
        ),
        ("-k 3 --set annealing=5", "`annealing` must be two numbers"),
        ("-k 3 --restarts 0", "the number of restarts must be at least 1, found: `0`"),
        ("-k 3 --max-passes 0", "the number of passes must be at least 1, found: `0`"),
        ("-k 3 --background=1", "the weight of the background must be above 0 and below 1, found: `1`"),
        ("-k 3 --set smallest_weight=0.5", "the smallest weight must be"),
        ("-k 3 --method online --set step=0.2,1", "`step` must be two numbers, the first above 0.5 and at most 1"),
        ("-k 3 --start middle", "unknown start `middle`, expected one of kmeans, plusplus"),
        ("-k 3 --start labels:labels.txt", "labels.txt: expected 600 labels, one per row, found: `2`"),
        ("-k 3 --start labels:many.txt", "many.txt: there must be at most `-k 3` different labels, found: `7`"),
        ("-k 3 --start directions:directions.csv", "there must be 3 directions of dimension 3, found: `2 of 3`"),
        ("-k 4 --start model:model.safetensors", "the start must have `-k 4` components, found: `3`"),
        ("-k 3 --start model:x.csv", "x.csv: not a valid model file: "),
        ("-k 3 --start model:missing", "missing: cannot be read: "),
        ("-k 3 -o -", "standard output holds the report"),
    ] {
        workspace.run(&format!("fit x.csv {options}")).refused(&[words]);
        assert_eq!(workspace.names(), before, "{options}");
    }
    let run = workspace.run("fit x.csv -k 3 -o missing/m.safetensors");
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""));
    assert!(run.stderr.starts_with("error: missing/m.safetensors: cannot be written: "), "{}", run.stderr);
}

#[test]
fn bad_rows_leave_the_model_that_was_there() {
    let workspace = Workspace::new();
    workspace.write("m.safetensors", "before");
    let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2)}";
    workspace.write("x.npy", npy(header, &[3f64, 4.0].map(f64::to_le_bytes).concat()));
    workspace.run("fit x.npy -k 2 -o m.safetensors").refused(&["x.npy: row 0 must have length 1, found: `5`", "`--rescale`"]);
    assert_eq!(workspace.read("m.safetensors"), b"before");
    let fit = workspace.run("fit x.npy -k 2 --rescale --json -o m.safetensors").json();
    assert_eq!((&fit["rescaled_rows"], &fit["rows"]), (&1.into(), &1.into()));
    assert!(workspace.read("m.safetensors").len() > 300);
}

/// A weight of 2 equals a repeated row.
#[test]
fn weighted_rows_count_more() {
    let workspace = three_groups();
    let rows = String::from_utf8(workspace.read("x.csv")).unwrap();
    let twice: String = rows.lines().skip(1).flat_map(|line| [line, "\n", line, "\n"]).collect();
    workspace.write("twice.csv", twice);
    workspace.write("weights.csv", "2\n".repeat(600));
    workspace.write("axes.csv", "1,0,0\n0,1,0\n0,0,1\n");
    let [weighted, twice] = ["x.csv --weights weights.csv", "twice.csv"]
        .map(|file| workspace.run(&format!("fit {file} -k 3 --start directions:axes.csv --json")).json());
    assert_eq!(number(&weighted["total_weight"]), 1200.0);
    assert!((number(&weighted["bic"]) - number(&twice["bic"])).abs() < 1e-6);
}
