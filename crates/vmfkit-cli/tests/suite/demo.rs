//! `vmf demo` and the command's own texts.

use crate::{Workspace, number};

#[test]
fn demo_finds_the_density_three_ways() {
    let workspace = Workspace::new();
    let json = workspace.run("demo --json").json();
    let fits = json["fits"].as_array().unwrap();
    let methods: Vec<_> = fits.iter().map(|fit| fit["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["banerjee", "exact", "sgd"]);
    for fit in fits {
        assert!(number(&fit["relative_error"]) < 0.01 && number(&fit["angle_degrees"]) < 1.0, "{fit}");
        assert!(number(&fit["ln_likelihood"]) <= number(&fits[1]["ln_likelihood"]), "exact is the maximum: {json}");
    }
    let text = workspace.run("demo --seed 3").success();
    assert!(methods.iter().all(|method| text.contains(method)) && text.contains("vmf fit"), "{text}");
    assert!(workspace.names().is_empty());
}

#[test]
fn demo_answers_at_every_size() {
    for arguments in ["--dim 2 --concentration 0", "--dim 3 -k 1e12 -n 200", "--dim 1000 -k 1e5 -n 2"] {
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
    workspace.run("demo --dim 100000 -n 1000000").refused(&["found: `100000000000`"]);
    workspace.run("tidy").refused(&["tidy"]);
    workspace.run("").refused(&["Usage"]);
}
