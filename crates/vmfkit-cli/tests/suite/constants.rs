//! `vmf constants` against the reference tables.

use crate::{Workspace, number, testdata};

/// A table by column names.
struct Columns {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Columns {
    fn parse(text: &str) -> Self {
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect());
        let names = lines.next().expect("a header");
        Columns { names, rows: lines.collect() }
    }

    fn reference(name: &str) -> Self {
        Self::parse(&std::fs::read_to_string(testdata(name)).expect("a reference table"))
    }

    fn column(&self, name: &str) -> Vec<&str> {
        let at = self.names.iter().position(|n| n == name).unwrap_or_else(|| panic!("no column {name}"));
        self.rows.iter().map(|row| row[at].as_str()).collect()
    }

    /// The CSV text of some columns, in this order.
    fn select(&self, names: &[&str]) -> String {
        let columns: Vec<_> = names.iter().map(|name| self.column(name)).collect();
        let mut text = names.join(",") + "\n";
        for row in 0..self.rows.len() {
            text += &columns.iter().map(|column| column[row]).collect::<Vec<_>>().join(",");
            text.push('\n');
        }
        text
    }
}

/// Sends the given columns of a reference table through `--from` and compares the answers.
fn compare(table: &str, given: &[&str], header: &str, asked: &[&str]) {
    let reference = Columns::reference(table);
    let workspace = Workspace::new();
    workspace.write("points.csv", reference.select(given));
    let answer = workspace.run("constants --from points.csv").success();
    assert_eq!(answer.lines().next(), Some(header));
    let answer = Columns::parse(&answer);
    for name in given {
        assert_eq!(answer.column(name), reference.column(name), "the points are echoed");
    }
    let dims = reference.column("d");
    let first: Vec<f64> = reference.column(given[1]).iter().map(|x| x.parse().unwrap()).collect();
    for name in asked {
        for (row, (found, expected)) in answer.column(name).into_iter().zip(reference.column(name)).enumerate() {
            let (x, y): (f64, f64) = (found.parse().unwrap(), expected.parse().unwrap());
            // Logarithms that pass through 0 are right on the scale of their terms.
            let d: f64 = dims[row].parse().unwrap();
            let scale: f64 = if name.starts_with("log") || *name == "entropy" { 1.0 + d * d.ln() + first[row] } else { 0.0 };
            assert!(
                x == y || (x - y).abs() <= 1e-14 * scale.max(y.abs()) + 1e-305,
                "{table}, row {row}, {name}: {found} for {expected}"
            );
            assert_eq!(x.is_infinite(), found.ends_with("inf"));
        }
    }
}

const EVERYTHING: &str = "d,kappa,log_iv,log_c,log_c_plus_kappa,a,one_minus_a,a_prime,entropy,phi,kl_uniform";

#[test]
fn everything_agrees_with_the_reference() {
    let asked = ["log_iv", "log_c", "log_c_plus_kappa", "a", "one_minus_a", "a_prime", "entropy"];
    compare("reference_public.csv", &["d", "kappa"], EVERYTHING, &asked);
    compare("reference_d1.csv", &["d", "kappa"], EVERYTHING, &asked);
    compare("extra_phi_kl_public.csv", &["d", "kappa"], EVERYTHING, &["phi", "kl_uniform"]);
}

#[test]
fn inverses_and_divergences_agree_with_the_reference() {
    compare("inverse_public.csv", &["d", "r"], "d,r,kappa", &["kappa"]);
    compare("inverse_complement_public.csv", &["d", "one_minus_r"], "d,one_minus_r,kappa", &["kappa"]);
    compare("kl_public.csv", &["d", "kappa1", "kappa2"], "d,kappa1,kappa2,kl", &["kl"]);
}

#[test]
fn numbers_are_the_shortest_that_read_back() {
    let answer = Workspace::new().run_with_input("constants --from -", b"d,r\n2,0\n3,1\n3,1e-12\n").success();
    assert_eq!(answer, "d,r,kappa\n2,0,0.0\n3,1,inf\n3,1e-12,3e-12\n");
}

/// A table of inverses has its answers in a column `kappa`: it can be given as it is, and is
/// answered anew.
#[test]
fn columns_come_in_any_order_and_inverses_take_precedence() {
    let workspace = Workspace::new();
    let plain = workspace.run_with_input("constants --from -", b"d,kappa\n5,1.50\n").success();
    let shuffled = workspace.run_with_input("constants --from -", b"note, kappa ,d\nx,1.50,5\n").success();
    assert_eq!(shuffled, plain);
    assert!(plain.lines().nth(1).unwrap().starts_with("5,1.50,"));
    let inverse = workspace.run_with_input("constants --from -", b"d,r,kappa\n3,1e-12,7\n").success();
    assert_eq!(inverse, "d,r,kappa\n3,1e-12,3e-12\n");
}

#[test]
fn a_file_is_the_same_as_standard_output() {
    let workspace = Workspace::new();
    workspace.write("points.csv", "d,kappa\n".to_owned() + &"768,50\n".repeat(40_000));
    let printed = workspace.run("constants --from points.csv --threads 1").success();
    assert_eq!(printed.lines().count(), 40_001);
    assert_eq!(workspace.run("constants --from points.csv -o answers.csv").success(), "");
    assert_eq!(workspace.read("answers.csv"), printed.as_bytes());
    assert_eq!(workspace.names(), ["answers.csv", "points.csv"]);
}

#[test]
fn one_point_has_17_digits_and_the_same_numbers_in_json() {
    let workspace = Workspace::new();
    let text = workspace.run("constants --dim 768 --concentration 50").success();
    let values: Vec<&str> = text.lines().skip(1).map(|line| line[14..].split_whitespace().next().unwrap()).collect();
    assert!(values.iter().all(|value| value.trim_start_matches('-').find('e') == Some(18)), "{text}");
    // Not through a JSON parser, which may round.
    let json = workspace.run("constants --dim 768 --concentration 50 --json").success();
    let pairs = json.trim().trim_matches(['{', '}']).split(',').map(|pair| pair.split_once(':').unwrap());
    let (keys, found): (Vec<&str>, Vec<f64>) = pairs.map(|(key, value)| (key, value.parse::<f64>().unwrap())).unzip();
    assert_eq!(keys[..3], ["\"dim\"", "\"concentration\"", "\"ln_normalizer\""]);
    assert_eq!(found[1..], values.iter().map(|value| value.parse().unwrap()).collect::<Vec<f64>>());
}

#[test]
fn one_point_goes_to_a_file_too() {
    let workspace = Workspace::new();
    let printed = workspace.run("constants --dim 9 --kappa 3").success();
    assert_eq!(workspace.run("constants --dim 9 --kappa 3 -o point.txt").success(), "");
    assert_eq!(workspace.read("point.txt"), printed.as_bytes());
}

#[test]
fn mean_length_and_complement_are_inverted() {
    let workspace = Workspace::new();
    let forward = workspace.run("constants --dim 20 --concentration 123.456 --json").json();
    for (option, key) in [("--mean-length", "mean_length"), ("--complement", "mean_length_complement")] {
        let back = workspace.run(&format!("constants --dim 20 {option} {} --json", forward[key])).json();
        assert!((number(&back["concentration"]) / 123.456 - 1.0).abs() < 1e-14);
    }
}

#[test]
fn infinities_are_strings_in_json() {
    let workspace = Workspace::new();
    assert_eq!(workspace.run("constants --dim 3 --concentration 0 --json").json()["ln_bessel_i"], "-inf");
    assert_eq!(workspace.run("constants --dim 1 --concentration 0 --json").json()["ln_bessel_i"], "inf");
}

#[test]
fn scaled_bessel_function_of_dimension_one_keeps_its_digits() {
    // exp(-k) cosh(k) sqrt(2/(pi k)) tends to 1/sqrt(2 pi k).
    let found = Workspace::new().run("constants --dim 1 --concentration 1e20 --json").json();
    let expected = -0.5 * (std::f64::consts::TAU * 1e20).ln();
    assert!((number(&found["ln_bessel_i_scaled"]) - expected).abs() < 1e-13);
}
