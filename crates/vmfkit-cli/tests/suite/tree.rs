//! `vmf tree` and `vmf assign --clusters`: the merges of a model, coarser models, formats.

use crate::mixture::three_groups;
use crate::{Workspace, number};
use serde_json::Value;

/// Three groups of rows, and a model with nine components.
fn with_model() -> Workspace {
    let workspace = three_groups();
    workspace.run("fit x.csv -k 9 --set search=false --max-passes 20 -o m.safetensors").success();
    workspace
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
}

#[test]
fn the_merges_are_a_table_a_drawing_and_json() {
    let workspace = with_model();
    let json = workspace.run("tree m.safetensors --json").json();
    assert_eq!((&json["component_count"], &json["dim"], &json["statistics"]), (&9.into(), &3.into(), &"fit".into()));
    assert_eq!((&json["clusters"], &json["output"], &json["refined"]), (&Value::Null, &Value::Null, &Value::Null));
    let merges = json["merges"].as_array().unwrap();
    assert_eq!(merges.len(), 8);
    let heights: Vec<f64> = merges.iter().map(|merge| number(&merge["height"])).collect();
    assert!(heights.is_sorted() && merges.iter().all(|merge| number(&merge["cost"]) <= number(&merge["height"])));
    // The three groups are far apart.
    assert!(heights[6] > 10.0 * heights[5], "{heights:?}");
    assert_eq!(
        (&merges[7]["clusters"], &merges[7]["components"], number(&merges[7]["mass"]).round()),
        (&1.into(), &9.into(), 600.0)
    );
    let mut leaves = numbers(&json["leaf_order"]);
    leaves.sort_unstable();
    assert_eq!(leaves, (0..9).collect::<Vec<_>>());

    let text = workspace.run("tree m.safetensors").success();
    assert!(text.starts_with("m.safetensors: 9 components in dimension 3\n\nstep  joined "), "{text}");
    let last = &merges[7];
    let line = format!("{} + {}", last["first_component"], last["second_component"]);
    assert!(
        text.lines().any(|found| found.starts_with("8 ") && found.contains(&line) && found.ends_with("1  1.000000")),
        "{text}"
    );
    assert_eq!((text.matches('┐').count(), text.matches('┘').count(), text.matches('├').count()), (8, 8, 7), "{text}");
    // A large tree is not drawn, and only its last steps are listed.
    workspace.run("fit x.csv -k 70 --set search=false --max-passes 2 -o large.safetensors").success();
    let text = workspace.run("tree large.safetensors").success();
    assert!(text.contains("the first 49 steps are not shown") && !text.contains('┐'), "{text}");
    assert!(text.contains("\n50  ") && text.contains("\n69  "), "{text}");
}

#[test]
fn clusters_are_labelled_without_another_fit() {
    let workspace = with_model();
    let report = workspace.run("assign m.safetensors x.csv --clusters 3 -o found.npy --json").json();
    let clusters = report["clusters"].as_array().unwrap();
    let mut rows: Vec<u64> = clusters.iter().map(|cluster| cluster["rows"].as_u64().unwrap()).collect();
    rows.sort_unstable();
    assert_eq!((rows, &report["components"]), (vec![100, 200, 300], &Value::Null));
    let weight: f64 = clusters.iter().map(|cluster| number(&cluster["weight"])).sum();
    assert!((weight - 1.0).abs() < 1e-9);
    let compared = workspace.run("compare truth.txt found.npy --json").json();
    assert!(number(&compared["adjusted_rand_index"]) > 0.98, "{compared}");

    // The cluster of a row is that of its component; its probability is a sum.
    let tree = workspace.run("tree m.safetensors --clusters 4 --json").json();
    let mut of_component = [0; 9];
    for cluster in tree["clusters"].as_array().unwrap() {
        for component in numbers(&cluster["components"]) {
            of_component[component as usize] = cluster["cluster"].as_u64().unwrap();
        }
    }
    let rows = |options: &str| -> Vec<Vec<String>> {
        let text = workspace.run(&format!("assign m.safetensors x.csv --p-values none -o - -q {options}")).success();
        text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
    };
    let (fine, coarse) = (rows("--top 9"), rows("--clusters 4 --top 4"));
    let header = ["row", "cluster", "probability", "ln_density", "cluster_2", "probability_2"];
    assert_eq!(coarse[0][..6], header.map(str::to_owned));
    for (fine, coarse) in fine.iter().zip(&coarse).skip(1) {
        let parse = |cell: &String| cell.parse::<f64>().unwrap();
        assert_eq!(of_component[parse(&fine[1]) as usize], parse(&coarse[1]) as u64);
        assert_eq!(fine[3], coarse[3]);
        let mut sum = 0.0;
        for at in [1].into_iter().chain((4..20).step_by(2)) {
            let probability = if at == 1 { 2 } else { at + 1 };
            if of_component[parse(&fine[at]) as usize] == parse(&coarse[1]) as u64 {
                sum += parse(&fine[probability]);
            }
        }
        assert!((sum - parse(&coarse[2])).abs() < 1e-9);
    }
    let text = workspace.run("assign m.safetensors x.csv --clusters 3 -o a.csv").success();
    assert!(text.contains("\ncluster  rows  fraction  weight in the model\n"), "{text}");
}

#[test]
fn a_coarser_model_is_written_and_refined() {
    let workspace = with_model();
    let text = workspace.run("tree m.safetensors --clusters 3 -o coarse.safetensors").success();
    assert!(text.contains("\ncluster    weight  components\n"), "{text}");
    assert!(text.ends_with("\ncoarse.safetensors: 3 components, not fitted to rows, not calibrated\n"), "{text}");
    let inspected = workspace.run("inspect coarse.safetensors --json").json();
    assert_eq!((&inspected["component_count"], &inspected["status"]), (&3.into(), &"merged".into()));
    assert_eq!((&inspected["calibration"], &inspected["rows"]), (&Value::Null, &600.into()));
    assert_eq!(inspected["settings"]["components"], "3");
    let note = inspected["notes"][0].as_str().unwrap();
    assert_eq!(note, "merged from 9 to 3 components by their statistics, without passes over the rows");
    workspace.run("assign coarse.safetensors x.csv -o found.npy").success();
    let compared = workspace.run("compare truth.txt found.npy --json").json();
    assert!(number(&compared["adjusted_rand_index"]) > 0.98, "{compared}");

    let refined = workspace.run("tree m.safetensors --clusters 3 --refine x.csv -o refined.safetensors --json").json();
    assert_eq!((&refined["refined"]["status"], &refined["refined"]["rows"]), (&"converged".into(), &600.into()));
    let inspected = workspace.run("inspect refined.safetensors --json").json();
    assert_eq!(inspected["calibration"]["basis"], "model");
    // EM ends in the optimum of a direct fit.
    let direct = workspace.run("fit x.csv -k 3 --json").json();
    let last = |report: &Value| number(&report["trace"].as_array().unwrap().last().unwrap()["objective"]);
    assert!((last(&inspected) - last(&direct)).abs() < 1e-3);
    let text = workspace.run("tree m.safetensors --clusters 3 --refine x.csv -o refined.safetensors").success();
    assert!(text.contains("refined.safetensors: 3 components, converged after "), "{text}");
    // The tree of a coarser model continues that of the first.
    let again = workspace.run("tree coarse.safetensors --json").json();
    let whole = workspace.run("tree m.safetensors --json").json();
    let cost = |report: &Value| number(&report["merges"].as_array().unwrap().last().unwrap()["cost"]);
    assert!((cost(&again) / cost(&whole) - 1.0).abs() < 1e-6, "{} {}", cost(&again), cost(&whole));
}

#[test]
fn other_programs_read_the_tree() {
    let workspace = with_model();
    let newick = workspace.run("tree m.safetensors --newick --linkage z.npy").success();
    assert!(newick.starts_with("((") && newick.ends_with(");\n") && newick.matches(',').count() == 8, "{newick}");
    let linkage = workspace.read("z.npy");
    assert!(linkage.starts_with(b"\x93NUMPY"));
    let header = String::from_utf8_lossy(&linkage[..128]).into_owned();
    assert!(header.contains("'shape': (8, 4)") && header.contains("<f8"), "{header}");
    let values: Vec<f64> =
        linkage[linkage.len() - 8 * 32..].chunks(8).map(|x| f64::from_le_bytes(x.try_into().unwrap())).collect();
    let json = workspace.run("tree m.safetensors --json").json();
    for (row, merge) in values.chunks(4).zip(json["merges"].as_array().unwrap()) {
        assert_eq!(row, ["first", "second", "height", "components"].map(|key| number(&merge[key])));
    }
    // Labels name the leaves.
    workspace.write("names.txt", "one group\n".repeat(100) + &"two\n".repeat(200) + &"it's three\n".repeat(300));
    workspace.run("fit x.csv --known-labels names.txt -o labelled.safetensors").success();
    let newick = workspace.run("tree labelled.safetensors --newick").success();
    assert!(["'it''s three':", "'one group':", "two:"].iter().all(|name| newick.contains(name)), "{newick}");
    let text = workspace.run("tree labelled.safetensors --clusters 2").success();
    assert!(text.contains("it's three") && text.contains("two"), "{text}");
    workspace.run("assign labelled.safetensors x.csv --clusters 2 -o a.csv").success();
    assert!(String::from_utf8(workspace.read("a.csv")).unwrap().starts_with("row,cluster,probability,"));
}

#[test]
fn models_of_every_kind_have_trees() {
    let workspace = three_groups();
    for options in ["--method kmeans", "--background=0.1", "--method sgd --max-passes 2", "--method online", "--policy fixed:60"]
    {
        workspace.run(&format!("fit x.csv -k 5 {options} -o m.safetensors")).success();
        let run = workspace.run("tree m.safetensors --clusters 3 --refine x.csv -o coarse.safetensors --json");
        let is_noted = run.stderr.contains("m.safetensors: the file has no statistics of its fit");
        let report = run.json();
        assert_eq!(report["merges"].as_array().unwrap().len(), 4, "{options}");
        assert_eq!((is_noted, report["statistics"] == "expected"), (options.contains("sgd"), options.contains("sgd")));
        workspace.run("assign m.safetensors x.csv --clusters 3 -o a.csv").success();
        let coarse = workspace.run("inspect coarse.safetensors --json").json();
        assert_eq!((&coarse["component_count"], &coarse["background"]), (&3.into(), &report["background"]), "{options}");
    }
    workspace.run("fit x.csv -o one.safetensors").success();
    assert!(workspace.run("tree one.safetensors").success().ends_with("there is nothing to merge\n"));
    assert_eq!(workspace.run("tree one.safetensors --newick").success(), "0;\n");
}

#[test]
fn what_does_not_fit_is_named() {
    let workspace = with_model();
    workspace.write("two.csv", "0.6,0.8\n");
    for (arguments, words) in [
        ("tree", "<MODEL>"),
        ("tree x.csv", "x.csv: "),
        ("tree m.safetensors --clusters 10", "m.safetensors: the number of clusters must be from 1 to the number of components"),
        ("tree m.safetensors --clusters 0", "0"),
        ("tree m.safetensors -o c.safetensors", "--clusters"),
        ("tree m.safetensors x.csv", "--refine"),
        ("tree m.safetensors --refine x.csv", "--clusters"),
        ("tree m.safetensors --clusters 3 --refine -o c.safetensors", "DATA"),
        (
            "tree m.safetensors --clusters 3 --refine two.csv -o c.safetensors",
            "two.csv: rows must have the dimension of the model, 3, found: `2`",
        ),
        ("tree m.safetensors --clusters 3 -o m.safetensors", "`-o` would overwrite an input: `m.safetensors`"),
        ("tree m.safetensors --linkage m.safetensors", "`--linkage` would overwrite an input: `m.safetensors`"),
        ("tree m.safetensors --linkage -", "`--linkage` needs a file"),
        ("tree m.safetensors --newick --json", "--json"),
        ("assign m.safetensors x.csv --clusters 10 -o a.csv", "m.safetensors: the number of clusters must be from 1 to"),
        (
            "assign m.safetensors x.csv --clusters 3 --top 4 -o a.csv",
            "`--top` must be at most the number of clusters, 3, found: `4`",
        ),
    ] {
        workspace.run(arguments).refused(&[words]);
    }
}
