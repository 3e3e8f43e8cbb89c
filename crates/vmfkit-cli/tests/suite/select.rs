//! `vmf select`: the number of components.

use crate::mixture::three_groups;
use crate::{Workspace, number};

/// Five clusters whose noise and differences lie in 8 of 32 dimensions, as in embeddings.
fn embeddings() -> Workspace {
    let workspace = Workspace::new();
    let draws = "sample --mean-direction 1,0,0,0,0,0,0,0,0 --concentration 0 --dtype f64 -o - ";
    let draw = |rows: usize, seed: usize| -> Vec<Vec<f64>> {
        let text = workspace.run(&format!("{draws} -n {rows} --seed {seed}")).success();
        text.lines().skip(1).map(|line| line.split(',').map(|x| x.parse().unwrap()).collect()).collect()
    };
    // The sum of six directions is nearly normal.
    let (centres, noise) = (draw(5, 1), draw(6 * 400, 2));
    let row = |(row, noise): (usize, &[Vec<f64>])| {
        let mut values = vec!["0".to_owned(); 32];
        values[31] = "1".to_owned();
        (0..8).for_each(|i| {
            values[i] = (centres[row % 5][i] + 0.3 * noise.iter().map(|x| x[i]).sum::<f64>() / 6f64.sqrt()).to_string()
        });
        values.join(",") + "\n"
    };
    let rows: String = noise.chunks(6).enumerate().map(row).collect();
    workspace.write("e.csv", rows);
    workspace
}

#[test]
fn rows_that_do_not_fit_the_model_are_judged_by_independent_fits() {
    let workspace = embeddings();
    let json = workspace.run("select e.csv --rescale -k 2:7 --repeats 3 --threads 1 --json").success();
    assert_eq!(json, workspace.run("select e.csv --rescale -k 2:7 --repeats 3 --threads 2 --json").success());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let recommended = &json["recommended"];
    assert_eq!(
        (&recommended["components"], &recommended["criterion"]),
        (&5.into(), &"shared-information".into()),
        "{recommended}"
    );
    assert!(["medium", "high"].contains(&recommended["confidence"].as_str().unwrap()), "{recommended}");
    let line = &json["candidates"][3];
    for criterion in ["stability", "neighbours"] {
        assert!(number(&line[criterion]["mean"]) > 0.9 && number(&line[criterion]["standard_error"]) < 0.05, "{line}");
    }
    assert!((number(&line["shared_information"]["mean"]).exp() - number(&line["shared_clusters"])).abs() < 1e-9);
    assert!(number(&line["dispersion"]) > 1.5 && line["best"]["shared_information"] == true, "{line}");
    let text = workspace.run("select e.csv --rescale -k 2:7 --repeats 3").success();
    assert!(text.contains("shared clusters\n"), "{text}");
    assert!(text.contains("as the model allows:\nAIC, BIC, ICL and held-out ln p prefer ever more components\n"), "{text}");
    assert!(text.contains("\nshared-information recommends 5 components, confidence: "), "{text}");
    assert!(text.contains("\n  independent fits share the information of "), "{text}");
}

#[test]
fn likelihoods_are_cheap_and_say_when_they_cannot_be_trusted() {
    let workspace = embeddings();
    let json = workspace.run("select e.csv --rescale -k 4:6 --criterion bic --json").json();
    assert!(json["candidates"].as_array().unwrap().iter().all(|line| line["stability"].is_null()), "{json}");
    assert_eq!(json["recommended"]["confidence"], "none");
    let text = workspace.run("select e.csv --rescale -k 4:6 --criterion bic").success();
    assert!(text.contains("as the model allows, so likelihoods cannot be trusted\n") && !text.contains("stability"), "{text}");
}

#[test]
fn criteria_that_cannot_be_measured_are_named() {
    let workspace = Workspace::new();
    workspace.write("equal.csv", "0.6,0.8\n".repeat(60));
    let text = workspace.run("select equal.csv -k 1:40:13 --criterion stability --repeats 1").success();
    assert!(
        text.contains("\nauto, k = 40: no stability, because half of the rows, 30, are fewer than the components\n"),
        "{text}"
    );
    assert!(text.contains("no neighbours, because only 0 rows have neighbours other than copies of them\n"), "{text}");
    let alone = workspace.run("select equal.csv -k 1 --criterion neighbours").success();
    assert!(alone.ends_with("\nno recommendation, because neighbours could not be measured\n"), "{alone}");
    let unwritten = workspace.run("select equal.csv -k 1 --criterion neighbours -o m.safetensors");
    assert!(unwritten.code == Some(2) && unwritten.stderr.contains("neighbours could not be measured"), "{}", unwritten.stderr);
}

/// The recommended mixture is calibrated like that of `vmf fit`.
#[test]
fn the_recommended_mixture_is_calibrated() {
    let workspace = embeddings();
    workspace.run("select e.csv --rescale -k 5 --criterion bic -o selected.safetensors").success();
    workspace.run("fit e.csv --rescale -k 5 --restarts 10 -o fitted.safetensors").success();
    let inspected = |model: &str| workspace.run(&format!("inspect {model} --json")).json();
    let (selected, fitted) = (inspected("selected.safetensors"), inspected("fitted.safetensors"));
    assert!(number(&selected["calibration"]["temperature"]) > 1.0, "{selected}");
    assert_eq!(selected["calibration"], fitted["calibration"]);
}

#[test]
fn the_number_of_groups_is_found() {
    let workspace = three_groups();
    let json = workspace.run("select x.csv -k 1:5 --holdout 0.2 --json").json();
    let lines = json["candidates"].as_array().unwrap();
    assert_eq!(lines.iter().map(|line| number(&line["components"])).collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0, 5.0]);
    let recommended = &json["recommended"];
    assert_eq!(
        (&recommended["components"], &recommended["policy"], &recommended["background"]),
        (&3.into(), &"auto".into(), &false.into())
    );
    assert_eq!((&recommended["criterion"], &recommended["confidence"]), (&"bic".into(), &"high".into()));
    assert_eq!(json["recommendations"], serde_json::json!([recommended]));
    for (key, best) in [("bic", 2), ("icl", 2)] {
        let marked: Vec<usize> = (0..5).filter(|&line| lines[line]["best"][key] == true).collect();
        assert_eq!(marked, [best], "{key}: {json}");
    }
    for line in lines {
        let get = |key: &str| number(&line[key]);
        assert!((get("aic") - (2.0 * get("free_parameters") - 2.0 * get("ln_likelihood"))).abs() < 1e-9);
        assert_eq!((get("total_weight"), number(&line["held_out"]["total_weight"])), (480.0, 120.0));
        assert!(number(&line["held_out"]["standard_error"]) > 0.0);
    }
    let text = workspace.run("select x.csv -k 1:5 --holdout 0.2").success();
    let heading =
        "x.csv: 600 rows of dimension 3, 120 of them held out: likelihood, AIC, BIC and ICL are for the other rows\n\nk  policy";
    assert!(text.starts_with(heading), "{text}");
    assert!(text.contains("\nbic recommends 3 components, confidence: high\n  its probability among"), "{text}");
    assert!(text.ends_with("\n  `-o FILE` writes that mixture\n"), "{text}");
    assert_eq!(text.matches('*').count(), 4, "{text}");
}

/// The model file is that of the recommended line, to the last digit.
#[test]
fn the_recommended_mixture_is_written() {
    let workspace = three_groups();
    let json = workspace.run("select x.csv -k 1:5 -o model.safetensors --json").json();
    let line = &json["candidates"][2];
    assert_eq!((&json["recommended"]["components"], &line["held_out"]), (&3.into(), &serde_json::Value::Null));
    assert_eq!(number(&line["total_weight"]), 600.0, "nothing is held out for BIC");
    let score = workspace.run("score model.safetensors x.csv --json").json();
    let (found, expected) = (number(&score["mean_ln_density"]), number(&line["mean_ln_density"]));
    assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    let inspected = workspace.run("inspect model.safetensors --json").json();
    assert_eq!((&inspected["rows"], &inspected["policy"]), (&600.into(), &"auto".into()));
    let text = workspace.run("select x.csv -k 2:3 -o model.safetensors").success();
    assert!(text.contains("\nbic recommends 3 components, confidence: low\n"), "{text}");
    assert!(text.ends_with("\n  it is the largest number offered\n  written to model.safetensors\n"), "{text}");
    workspace.run("select x.csv -k 2:3 --policy free,shared -o m.safetensors").refused(&["`-o` writes one mixture"]);
}

#[test]
fn policies_and_backgrounds_are_tried_in_turn() {
    let workspace = three_groups();
    let json = workspace.run("select x.csv -k 3,1:3:2 --policy free,shared,free --background both --holdout 0 --json").json();
    let lines: Vec<(String, bool, u64)> = json["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| (line["policy"].as_str().unwrap().into(), line["background"] == true, line["components"].as_u64().unwrap()))
        .collect();
    let expected = [("free", false), ("shared", false), ("free", true), ("shared", true)];
    assert_eq!(lines, expected.map(|(policy, yes)| [1, 3].map(|k| (policy.to_owned(), yes, k))).concat());
    assert!(json["candidates"][0]["held_out"].is_null());
    assert_eq!(json["recommendations"].as_array().unwrap().len(), 2);
    let text = workspace.run("select x.csv -k 3 --policy free,shared --holdout 0 --criterion icl").success();
    let alone = "policy shared: no single number of components stands out; the best by icl is 3 components\n";
    assert!(text.contains(&format!("{alone}  no other number was offered\n  `-o FILE` writes that mixture\n")), "{text}");
}

#[test]
fn help_explains_the_use_of_likelihoods() {
    let workspace = three_groups();
    let help = |command: &str| workspace.run(command).success().split_whitespace().collect::<Vec<_>>().join(" ");
    let select = help("select --help");
    for words in ["not policies", "does not change the number of parameters", "total weight counts as the number of rows"] {
        assert!(select.contains(words), "`{words}` is missing in: {select}");
    }
    for help in [select, help("fit --help")] {
        assert!(
            help.contains("improves the mean log-likelihood, relative to the uniform distribution, by less than this fraction"),
            "{help}"
        );
    }
}

#[test]
fn a_collapsed_component_is_marked_and_named_in_the_recommendation() {
    let workspace = three_groups();
    let rows = String::from_utf8(workspace.read("x.csv")).unwrap();
    workspace.write("often.csv", format!("{rows}{}", "0,0.6,-0.8\n".repeat(60)));
    let options = "select often.csv -k 3:4 --policy free --restarts 1 --set search=false";
    let json = workspace.run(&format!("{options} --json")).json();
    let lines = json["candidates"].as_array().unwrap();
    assert_eq!(json["recommended"]["components"], 4);
    assert!(lines[1]["notes"].to_string().contains("collapsed on"), "{json}");
    for line in lines {
        assert!(line["grown"].is_boolean() && line["status"].is_string() && line["notes"].is_array(), "{line}");
    }
    let text = workspace.run(options).success();
    assert!(text.lines().any(|line| line.starts_with("4! ")), "{text}");
    assert!(text.contains("\n! free, k = 4: component ") && text.contains(" collapsed onto "), "{text}");
    assert!(text.contains("\nbic recommends 4 components, confidence: low\n"), "{text}");
    assert!(text.contains("\n  it is the largest number offered\n  `-o FILE` writes that mixture\n"), "{text}");
    assert!(text.ends_with("\n  but that mixture has a warning (see above); without warnings, bic prefers 3\n"), "{text}");
}

#[test]
fn rows_that_cannot_be_held_out_are_reported() {
    let workspace = three_groups();
    let two =
        String::from_utf8(workspace.read("x.csv")).unwrap().lines().take(3).map(|line| format!("{line}\n")).collect::<String>();
    workspace.write("two.csv", two);
    let text = workspace.run("select two.csv -k 1 --holdout 0.2").success();
    assert!(text.starts_with("two.csv: 2 rows of dimension 3, too few to hold any out\n"), "{text}");
    workspace.run("select two.csv -k 1 --criterion held-out").refused(&["`--holdout 0.2`, which holds out none of 2 rows"]);
    // Only the first row counts, and it is seen.
    workspace.write("first.csv", format!("1\n{}", "0\n".repeat(599)));
    let seen = (0..9).map(|seed| format!("select x.csv -k 1 --weights first.csv --criterion held-out --seed {seed}"));
    let text = seen.map(|command| workspace.run(&command)).find(|run| run.code == Some(0)).unwrap().success();
    assert!(!text.contains("NaN"), "{text}");
    assert!(text.contains(", a weight of 0 held out: "), "{text}");
    let none = "\nthe held-out rows have no weight, so there is no held-out ln p\n";
    assert!(text.ends_with(&format!("{none}no recommendation, because held-out could not be measured\n")), "{text}");
}

#[test]
fn threads_change_nothing_but_seeds_do() {
    let workspace = three_groups();
    let table = |more: &str| workspace.run(&format!("select x.csv -k 2:4 --json {more}")).success();
    assert_eq!(table("--threads 1"), table("--threads 2"));
    assert_ne!(table(""), table("--seed 1"));
    assert_ne!(table(""), table("--max-passes 1"));
}

#[test]
fn bad_options_are_named() {
    let workspace = three_groups();
    let all = workspace.names();
    for (options, words) in [
        ("", "--components <LIST>"),
        ("-k 0:3", "a mixture has at least 1 component"),
        ("-k 5:3", "`5:3` is neither a number nor FROM:TO nor FROM:TO:STEP"),
        ("-k 1:9:0", "`1:9:0` is neither"),
        ("-k 1,two", "`two` is neither"),
        ("-k 1:9999999999999", "there must be at most 10000 numbers of components"),
        ("-k 2 --policy loose", "unknown policy `loose`"),
        ("-k 2 --holdout 1", "the held-out fraction must be at least 0 and below 1, found: `1`"),
        ("-k 2 --holdout 0 --criterion held-out", "needs held-out rows"),
        ("-k 2 --holdout 1e-9 --criterion held-out", "found: `--holdout 0.000000001`, which holds out none of 600 rows"),
        ("-k 2 --criterion best", "possible values: auto, shared-information, stability, neighbours, aic, bic, icl, held-out"),
        ("-k 2 --repeats 0", "the number of repeats must be at least 1, found: `0`"),
        ("-k 2 --repeats 3 --criterion bic", "`--repeats` is not used by `--criterion bic`, found: `3`"),
        ("-k 2 --restarts 0", "the number of restarts must be at least 1, found: `0`"),
    ] {
        workspace.run(&format!("select x.csv {options}")).refused(&[words]);
    }
    assert_eq!(workspace.names(), all);
}
