//! `vmf demo` and the command's own texts.

use crate::{Workspace, number};

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
    assert!(text.lines().count() < 30 && text.contains("SGD") && text.contains("vmf fit"), "{text}");
    assert!(workspace.names().is_empty());
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
