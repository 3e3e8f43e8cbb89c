//! `vmf demo` and the command's own texts.

use crate::{Workspace, npy, number};
use serde_json::Value;
use std::path::PathBuf;

#[test]
fn demo_finds_the_mixture_of_the_paper() {
    let workspace = Workspace::new();
    let json = workspace.run("demo --json").json();
    let fits = json["fits"].as_array().unwrap();
    assert_eq!((&fits[0]["method"], &fits[1]["method"], fits.len()), (&"em".into(), &"sgd".into(), 2));
    for fit in fits {
        for k in 0..3 {
            let weight_error = number(&fit["weights"][k]) - number(&json["truth"]["weights"][k]);
            let ratio = number(&fit["concentrations"][k]) / number(&json["truth"]["concentrations"][k]);
            assert!(weight_error.abs() < 0.05 && (ratio - 1.0).abs() < 0.15 && number(&fit["angles_degrees"][k]) < 1.5, "{fit}");
        }
        assert!(
            number(&fit["mean_ln_density"]) > number(&json["truth"]["mean_ln_density"]),
            "a fit explains its rows best: {json}"
        );
    }
    let text = workspace.run("demo --seed 3").success();
    assert!(text.lines().count() <= 60 && text.lines().all(|line| line.chars().count() <= 100), "{text}");
    for word in ["SGD", "1540 questions", "CC-BY 4.0", "calibrated", "Outliers", "p = 0.0", "vmf fit"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(workspace.names().is_empty());
}

#[test]
fn calibrated_probabilities_of_the_demo_are_near_the_fraction_that_is_right() {
    let json = Workspace::new().run("demo --json").json();
    let text = &json["questions"];
    assert_eq!((&text["fitted"], &text["new"], &text["components"]), (&1232.into(), &308.into(), &77.into()));
    let (exact, calibrated) = (&text["exact_posterior"], &text["calibrated"]);
    let right = number(&text["right"]);
    assert!(number(&exact["mean_probability"]) > 0.95 && number(&text["temperature"]) > 5.0, "{text}");
    // Clusters of several intents lower the fraction, which neighbours do not see.
    let gap = |table: &Value| (number(&table["mean_probability"]) - right).abs();
    assert!(gap(calibrated) < 0.5 * gap(exact) && right > 0.6, "{text}");
    for table in [exact, calibrated] {
        let counts: Vec<f64> = table["bins"].as_array().unwrap().iter().map(|bin| number(&bin["questions"])).collect();
        assert_eq!((counts.len(), counts.iter().sum::<f64>()), (4, 308.0), "{table}");
    }
    let rights: Vec<f64> = calibrated["bins"].as_array().unwrap().iter().map(|bin| number(&bin["right"])).collect();
    assert!(rights.is_sorted_by(|a, b| a > b), "probable assignments are right more often: {rights:?}");

    let sizes: Vec<f64> = text["clusters"].as_array().unwrap().iter().map(|cluster| number(&cluster["questions"])).collect();
    assert!(sizes.len() == 3 && sizes.is_sorted_by(|a, b| a >= b) && text["clusters"][0]["typical"][1].is_string(), "{text}");
    let first = |question: &Value, kind: &str| number(&question["components"][0][kind]);
    assert!(first(&text["clear"], "calibrated") > 0.99, "{text}");
    assert!(first(&text["ambiguous"], "exact_posterior") >= 0.999 && first(&text["ambiguous"], "calibrated") < 0.7, "{text}");
    // At most the level and three standard errors are outliers.
    assert!(number(&text["outlier_count"]) <= 308.0 * 0.01 + 3.0 * (308.0 * 0.01f64 * 0.99).sqrt(), "{text}");
    let outliers: Vec<f64> = text["outliers"].as_array().unwrap().iter().map(|outlier| number(&outlier["p_value"])).collect();
    assert!(outliers.len() == 2 && outliers[0] <= outliers[1] && outliers[1] < 0.03, "{text}");
}

/// The report without its times.
fn timeless(mut report: Value) -> Value {
    for fit in report["fits"].as_array_mut().unwrap() {
        fit["milliseconds"].take();
    }
    report["questions"]["seconds"].take();
    report
}

#[test]
fn demo_does_not_depend_on_the_number_of_threads() {
    let workspace = Workspace::new();
    let [one, three] = ["1", "3"].map(|threads| timeless(workspace.run(&format!("demo --json --threads {threads}")).json()));
    assert_eq!(one, three);
}

#[test]
fn demo_writes_its_questions_for_other_commands() {
    let workspace = Workspace::new();
    workspace.run("demo --questions q.parquet -q").success();
    workspace.run("convert q.parquet --id-column id q.jsonl").success();
    let lines = String::from_utf8(workspace.read("q.jsonl")).unwrap();
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((lines.lines().count(), &first["id"]), (1540, &"The refund isn't showing up on my account.".into()));
    assert_eq!(workspace.run("fit q.parquet -k 4 --json").json()["dim"], 384);
    workspace.run("demo --questions q.npy -q").success();
    assert_eq!(workspace.run("fit q.npy --json").json()["rows"], 1540);

    let written = workspace.run("demo --questions again.parquet");
    assert_eq!(written.stderr, "again.parquet: 1540 questions with their embeddings\n");
    workspace.run("demo --questions q.xyz").refused(&["q.xyz"]);
    workspace.run("demo --questions -").refused(&["standard output holds the report", "`--questions` needs a file"]);
}

#[test]
fn questions_of_the_demo_are_those_of_banking77() {
    let Some(folder) = std::env::var_os("VMFKIT_DATA").map(|data| PathBuf::from(data).join("banking77")) else {
        println!("skipped: VMFKIT_DATA is not set");
        return;
    };
    let read = |name: &str| std::fs::read(folder.join(name)).expect("the data set is in its folder");
    let [texts, names] = ["banking77_texts.txt", "banking77_label_names.txt"].map(|name| String::from_utf8(read(name)).unwrap());
    let (rows, labels) = (read("banking77_minilm_f16.npy"), read("banking77_labels_u8.npy"));
    let is_test = read("banking77_is_test_u8.npy");
    let texts: Vec<&str> = texts.lines().collect();
    let last = |bytes: &[u8], row: usize| bytes[bytes.len() - texts.len() + row];
    let mut chosen = Vec::new();
    for intent in 0..names.lines().count() {
        let of_intent = (0..texts.len()).filter(|&row| usize::from(last(&labels, row)) == intent && last(&is_test, row) == 1);
        chosen.extend(of_intent.take(20));
    }
    let row_of = |row: usize| &rows[rows.len() - 768 * (texts.len() - row)..][..768];
    let halves = chosen.iter().map(|&row| row_of(row)).collect::<Vec<_>>().concat();
    let header = format!("{{'descr': '<f2', 'fortran_order': False, 'shape': ({}, 384), }}\n", chosen.len());
    let workspace = Workspace::new();
    workspace.write("full.npy", npy(&header, &halves));
    workspace.run("demo --questions q.parquet -q").success();
    let vectors = |location: &str, ids: bool| {
        workspace.run(&format!("convert {location} {} -o rows.jsonl -q", if ids { "--id-column id" } else { "" })).success();
        let lines = String::from_utf8(workspace.read("rows.jsonl")).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let (ours, full) = (vectors("q.parquet", true), vectors("full.npy", false));
    assert_eq!(ours.len(), full.len());
    let numbers = |row: &Value| row["embedding"].as_array().unwrap().iter().map(number).collect::<Vec<f64>>();
    for ((ours, full), row) in ours.iter().zip(&full).zip(chosen) {
        let spaced = texts[row].split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(ours["id"], spaced);
        let (ours, full) = (numbers(ours), numbers(full));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        let cosine = dot(&ours, &full) / (dot(&ours, &ours) * dot(&full, &full)).sqrt();
        assert!(cosine > 0.9998, "{cosine}");
    }
}

#[test]
fn demo_answers_at_every_size() {
    for arguments in ["-n 10", "-n 100000 --seed 18446744073709551615"] {
        Workspace::new().run(&format!("demo {arguments} --json")).json();
    }
}

#[test]
fn help_names_the_verbs_and_the_exit_codes() {
    let workspace = Workspace::new();
    let help = workspace.run("--help").success();
    for word in ["demo", "constants", "sample", "fit", "Exit codes", "Examples"] {
        assert!(help.contains(word), "{help}");
    }
    assert_eq!(workspace.run("help").success(), help);
    assert_eq!(workspace.run("--version").success(), format!("vmf {}\n", env!("CARGO_PKG_VERSION")));
    workspace.run("demo -n 1").refused(&["1 is not in 10..=1000000"]);
    workspace.run("tidy").refused(&["tidy"]);
    workspace.run("").refused(&["Usage"]);
}
