//! `vmf test`, and the tests of `vmf fit --goodness-of-fit`.

use crate::{Workspace, number};
use std::path::PathBuf;

/// Three files of 30 rows: two about one direction, one about another and more concentrated.
fn groups() -> Workspace {
    let workspace = Workspace::new();
    for (name, direction, k, seed) in [("a", "0,0,1", 20, 1), ("b", "0,0,1", 20, 2), ("c", "0,1,1", 200, 3)] {
        let sample = format!("sample --mean-direction {direction} --concentration {k} -n 30 --seed {seed} -o {name}.npy");
        workspace.run(&sample).success();
    }
    workspace
}

#[test]
fn groups_of_several_files_are_compared() {
    let workspace = groups();
    let equal = workspace.run("test a.npy b.npy --json").json();
    assert_eq!(equal["groups"][1]["name"], "b.npy");
    assert_eq!((&equal["rows"], &equal["dim"]), (&60.into(), &3.into()));
    for test in ["equal_means", "equal_concentrations"] {
        assert!(number(&equal["tests"][test]["p_value"]) > 0.01, "{equal}");
        assert_eq!(equal["tests"][test]["calibration"], "simulation");
    }
    for options in
        ["", "--separate-concentrations", "--calibration permutation --test equal-means", "--calibration likelihood-ratio"]
    {
        let other = workspace.run(&format!("test a.npy c.npy {options} --json")).json();
        assert!(number(&other["tests"]["equal_means"]["p_value"]) <= 0.001, "{options}: {other}");
    }
    let f = workspace.run("test a.npy b.npy c.npy --calibration high-concentration --json").json();
    assert_eq!(f["tests"]["equal_means"]["degrees_of_freedom"], serde_json::json!([4.0, 174.0]));
    assert!(number(&f["tests"]["equal_concentrations"]["p_value"]) < 1e-6, "{f}");
    // The same seed gives the same p-value on any number of threads, another seed another one.
    let run = |options: &str| workspace.run(&format!("test a.npy b.npy --json {options}")).success();
    assert_eq!(run("--threads 1"), run("--threads 3"));
    assert_ne!(run("--seed 1"), run("--seed 2"));
    let text = workspace.run("test a.npy c.npy").success();
    for words in ["equal mean directions", "equal concentrations", "simulation", "c.npy", "1.00e-3"] {
        assert!(text.contains(words) || words == "1.00e-3" && text.contains("0.0010"), "{words}: {text}");
    }
}

#[test]
fn groups_may_be_in_a_column_or_in_a_file() {
    let workspace = groups();
    workspace.run("convert a.npy a.csv").success();
    workspace.run("convert c.npy c.csv").success();
    let rows = |name: &str, group: &str| {
        let text = String::from_utf8(workspace.read(name)).unwrap();
        text.lines().skip(1).map(|line| format!("{line},{group}\n")).collect::<String>()
    };
    workspace.write("all.csv", format!("x,y,z,site\n{}{}", rows("a.csv", "north"), rows("c.csv", "south")));
    workspace.write("labels.txt", "1\n".repeat(30) + &"2\n".repeat(30));
    let by_file = workspace.run("test a.csv c.csv --json").json();
    let by_column = workspace.run("test all.csv --columns x,y,z --groups column:site --json").json();
    let by_labels = workspace.run("test all.csv --columns x,y,z --groups labels.txt --json").json();
    assert_eq!(by_column["groups"][1]["name"], "south");
    for found in [&by_column, &by_labels] {
        assert_eq!(found["tests"]["equal_means"]["p_value"], by_file["tests"]["equal_means"]["p_value"]);
        assert_eq!(number(&found["groups"][0]["weight"]), 30.0);
    }
    let permuted = workspace.run("test all.csv --columns x,y,z --groups column:site --calibration permutation --json").json();
    assert!(number(&permuted["tests"]["equal_means"]["p_value"]) <= 0.001, "{permuted}");
    workspace.write("short.txt", "1\n2\n");
    workspace.run("test a.npy --groups short.txt").refused(&["a group for each row", "groups: `2`"]);
    workspace.run("test a.npy --test equal-means").refused(&["compares groups", "--groups column:NAME"]);
    workspace.run("test - --groups column:site").refused(&["groups need rows that can be read twice"]);
}

#[test]
fn a_mean_direction_is_tested() {
    let workspace = groups();
    for calibration in ["auto", "likelihood-ratio", "high-concentration"] {
        let p = |direction: &str| {
            let run = workspace.run(&format!("test a.npy --mean-direction {direction} --calibration {calibration} --json"));
            number(&run.json()["tests"]["mean"]["p_value"])
        };
        assert!(p("0,0,2") > 0.01 && p("0,1,1") < 1e-6 && p("0,0,-1") < 1e-6, "{calibration}");
    }
    workspace.run("test a.npy --test mean").refused(&["--mean-direction"]);
    workspace.run("test a.npy --mean-direction 0,1").refused(&["expected dimension 3, found: `2`"]);
    workspace.run("test a.npy --mean-direction 0,0,1 --calibration simulation").refused(&["conditional"]);
}

#[test]
fn rows_without_groups_are_tested_for_uniformity_symmetry_and_projections() {
    let workspace = groups();
    let found = workspace.run("test a.npy --replicates 199 --json").json();
    assert!(number(&found["tests"]["uniform"]["p_value"]) < 1e-10, "{found}");
    assert!(number(&found["tests"]["symmetry"]["p_value"]) > 0.01 && number(&found["tests"]["projection"]["p_value"]) > 0.01);
    workspace.run("sample --dim 2 --concentration 3 -n 40 -o circle.npy").success();
    let circle = workspace.run("test circle.npy --replicates 99 --json").json();
    assert!(circle["tests"]["symmetry"].is_null() && number(&circle["tests"]["projection"]["p_value"]) > 0.01, "{circle}");
    workspace.run("test circle.npy --test symmetry").refused(&["at least 3 dimensions", "`2`"]);
    assert!(
        workspace.run("fit circle.npy --goodness-of-fit=9 --json").json()["goodness_of_fit"]["rotational_symmetry"].is_null()
    );
}

/// Rows stretched to one side of the mean direction pass a test of their distances from it, and not
/// that of symmetry.
#[test]
fn elliptical_rows_fail_the_test_of_symmetry() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 3 --concentration 40 -n 300 --dtype f64 -o x.csv").success();
    let text = String::from_utf8(workspace.read("x.csv")).unwrap();
    // The first axis is the mean direction.
    let stretched = text.lines().skip(1).map(|line| {
        let [x, y, z] = line.split(',').map(|cell| cell.parse::<f64>().unwrap()).collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        format!("{x},{},{}\n", 1.2 * y, 0.83 * z)
    });
    workspace.write("e.csv", stretched.collect::<String>());
    let fit = workspace.run("fit e.csv --rescale --goodness-of-fit=199 --json").json();
    let tests = &fit["goodness_of_fit"];
    assert_eq!(number(&tests["rotational_symmetry"]["p_value"]), 0.005, "{tests}");
    assert!(number(&tests["rotational_symmetry"]["limit_p_value"]) < 1e-4, "{tests}");
    assert!(number(&tests["projection"]["p_value"]) > 0.02, "{tests}");
}

/// The classical data of Fisher, Lewis and Embleton (1987).
#[test]
fn classical_data_sets_are_tested() {
    let Some(folder) = std::env::var_os("VMFKIT_DATA").map(|data| PathBuf::from(data).join("directional")) else {
        println!("skipped: VMFKIT_DATA is not set");
        return;
    };
    let workspace = Workspace::new();
    let test = |name: &str, options: &str| {
        std::fs::copy(folder.join(format!("{name}.csv")), workspace.path("rows.csv")).expect("the data set is in its folder");
        workspace.run(&format!("test rows.csv --columns x,y,z {options} --json")).json()["tests"].clone()
    };
    // B1 and B3 are not uniform; B5, of which fit_b5 has kappa 0.45 from 52 rows, is not far from
    // it: 3n R^2 = 3.39 of chi-squared 3.
    assert!(number(&test("fle_b1_poles", "--test uniform")["uniform"]["p_value"]) < 1e-10);
    assert!(number(&test("fle_b3_cosmic_rays", "--test uniform")["uniform"]["p_value"]) < 1e-6);
    let b5 = number(&test("fle_b5_bowen_red_beds", "--test uniform")["uniform"]["p_value"]);
    assert!((b5 - 0.335).abs() < 0.02, "{b5}");
    // B6 has several modes.
    let b6 = test("fle_b6_magnetic_remanence", "--test symmetry,projection --replicates 199");
    assert_eq!((number(&b6["symmetry"]["p_value"]), number(&b6["projection"]["p_value"])), (0.005, 0.005), "{b6}");
    // Draws of vMF((2,2,1)/3, 200).
    let drawn = test("geostats_palaeomag", "--mean-direction 2,2,1");
    assert!(number(&drawn["mean"]["p_value"]) > 0.05, "{drawn}");
}

#[cfg(unix)]
#[test]
fn the_commands_of_the_page_on_tests_run() {
    let script = crate::commands_of(include_str!("../../../../docs/tests.md"));
    assert!(script.contains("vmf test north.npy south.npy"), "{script}");
    Workspace::new().shell(&script);
}
