//! `vmf compare`: labels from every kind of file, and what is wrong with the others.

use crate::{Run, Workspace, npy, number};

/// The labelings of the documentation of `Agreement`, in words and by other numbers.
const FIRST: &str = "red\nred\ngreen\ngreen\nsky blue\nsky blue\n";
const SECOND: [u8; 6] = [7, 7, 3, 3, 3, 9];

/// An array of one axis.
fn labels<const WIDTH: usize>(descr: &str, numbers: &[[u8; WIDTH]]) -> Vec<u8> {
    npy(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({},)}}", numbers.len()), &numbers.concat())
}

/// Compares a file with the labels 7 7 3 3 3 9 to another.
fn compare(name: &str, content: impl AsRef<[u8]>, options: &str) -> Run {
    let workspace = Workspace::new();
    workspace.write(name, content);
    workspace.write("second.npy", labels("|u1", &SECOND.map(u8::to_le_bytes)));
    workspace.run(&format!("compare {name} second.npy {options}"))
}

#[test]
fn scores_are_printed_and_in_json() {
    let json = compare("first.txt", FIRST, "--json").json();
    assert_eq!((&json["rows"], &json["groups"]), (&6.into(), &vec![3, 3].into()));
    assert_eq!(json["files"], serde_json::json!(["first.txt", "second.npy"]));
    for (key, expected) in [
        ("adjusted_rand_index", 4.0 / 9.0),
        ("normalized_mutual_information", 0.7396673768),
        ("homogeneity", 0.7103099178),
        ("completeness", 0.7715561736),
        ("v_measure", 0.7396673768),
        ("matched_fraction", 5.0 / 6.0),
    ] {
        assert!((number(&json[key]) - expected).abs() < 1e-9, "{key}: {}", json[key]);
    }
    let text = compare("first.txt", FIRST, "").success();
    assert!(
        text.starts_with("6 rows: 3 groups in first.txt, 3 groups in second.npy\n\nARI             0.444444   adjusted Rand"),
        "{text}"
    );
    assert!(text.contains("\nmatched         0.833333   fraction of rows that agree"), "{text}");
}

#[test]
fn every_type_of_number_is_a_label() {
    let agrees = |name: &str, content: Vec<u8>| {
        let json = compare(name, content, "--json").json();
        assert_eq!((&json["adjusted_rand_index"], &json["groups"]), (&1.0.into(), &vec![3, 3].into()), "{name}");
    };
    agrees("i1.npy", labels("|i1", &SECOND.map(|n| (-(n as i8)).to_le_bytes())));
    agrees("i2.npy", labels(">i2", &SECOND.map(|n| (-i16::from(n)).to_be_bytes())));
    agrees("i4.npy", labels("<i4", &SECOND.map(|n| (i32::MIN + i32::from(n)).to_le_bytes())));
    agrees("i8.npy", labels(">i8", &SECOND.map(|n| (i64::MAX - i64::from(n)).to_be_bytes())));
    agrees("u2.npy", labels("<u2", &SECOND.map(|n| u16::from(n).to_le_bytes())));
    agrees("u4.npy", labels(">u4", &SECOND.map(|n| (u32::from(n) << 8).to_be_bytes())));
    // 3 and 7 on both sides of what an i64 can hold.
    agrees("u8.npy", labels("<u8", &SECOND.map(|n| (u64::from(n) << 61 | u64::from(n)).to_le_bytes())));
    agrees("f2.npy", labels("<f2", &SECOND.map(|n| (0x3c00 + 0x400 * u16::from(n)).to_le_bytes())));
    agrees("f4.npy", labels(">f4", &SECOND.map(|n| f32::from(n).to_be_bytes())));
    agrees("f8.npy", labels("<f8", &SECOND.map(|n| (-1e15 * f64::from(n)).to_le_bytes())));
    let column = npy("{'descr': '|u1', 'fortran_order': True, 'shape': (6, 1)}", &SECOND);
    agrees("column.npy", column);
    let truth = compare("b1.npy", labels("|b1", &SECOND.map(|n| [u8::from(n == 3)])), "--json").json();
    assert_eq!((&truth["groups"], number(&truth["completeness"]) < 1.0), (&vec![2, 3].into(), true));
    assert_eq!(truth["homogeneity"], 1.0);
}

#[test]
fn text_has_one_label_per_line_and_may_have_a_header() {
    for (name, content, options) in [
        ("x.txt", "7\n7\n3\n3\n3\n9", ""),
        ("x.txt", "Paris, France\nParis, France\nOslo\nOslo\nOslo\n\"\n\n", ""),
        ("x.csv", "\"a,b\"\r\n\"a,b\"\r\n c\r\nc \r\nc\r\nd\r\n", ""),
        ("x.csv", "label\n-1\n-1\n0.5\n0.5\n0.5\n1e3\n", ""),
        ("x.csv", "\u{feff}7\n7\n3\n3\n3\n9\n", ""),
        ("x.tsv", "label\na\na\nb, c\nb, c\nb, c\nd\n", "--header yes"),
    ] {
        let json = compare(name, content, &format!("{options} --json")).json();
        assert_eq!((&json["adjusted_rand_index"], &json["rows"]), (&1.0.into(), &6.into()), "{content}");
    }
    let workspace = Workspace::new();
    workspace.write("x.txt", FIRST);
    assert!(workspace.run_with_input("compare - x.txt", FIRST.as_bytes()).success().contains("3 groups in standard input"));
    workspace.run("compare - -").refused(&["only one of the files can be standard input"]);
}

#[test]
fn files_that_are_no_labelings_are_named() {
    let f8 = |numbers: &[f64]| labels("<f8", &numbers.iter().map(|x| x.to_le_bytes()).collect::<Vec<_>>());
    compare("x.npy", f8(&[1.0, 2.0, 2.5]), "").refused(&["x.npy: label 2 must be a 64-bit integer, found: `2.5`"]);
    compare("x.npy", f8(&[1.0, f64::NAN]), "").refused(&["label 1 must be", "found: `NaN`"]);
    compare("x.npy", f8(&[f64::INFINITY]), "").refused(&["label 0 must be", "found: `inf`"]);
    compare("x.npy", f8(&[1e300]), "").refused(&["label 0 must be a 64-bit integer"]);
    compare("x.npy", f8(&[1.0, 2.0]), "")
        .refused(&["both files must label the same rows, x.npy has 2 labels and second.npy: `6`"]);
    compare("x.npy", f8(&[]), "").refused(&["x.npy: no labels to compare"]);
    compare("x.npy", npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3)}", &[0; 24]), "")
        .refused(&["x.npy: labels must be an array of one axis, found shape: `(2, 3)`"]);
    compare("x.npy", npy("{'descr': '<i4', 'fortran_order': False, 'shape': ()}", &[0; 4]), "").refused(&["found shape: `()`"]);
    compare("x.npy", npy("{'descr': '<i4', 'fortran_order': False, 'shape': (6,)}", &[0; 23]), "")
        .refused(&["an array of shape (6,) has 24 bytes of data, found: `23`"]);
    compare("x.npy", npy("{'descr': '<U1', 'fortran_order': False, 'shape': (6,)}", &[0; 24]), "").refused(&["found: `<U1`"]);
    compare("x.txt", "", "").refused(&["x.txt: no labels to compare"]);
    compare("x.txt", "label\n", "--header yes").refused(&["x.txt: no labels to compare"]);
    compare("x.txt", "a\n\nb\n", "").refused(&["x.txt: line 2 must be a label, found: ``"]);
    compare("x.csv", "a\nb,c\n", "").refused(&["x.csv: line 2 must be a single label, found: `b,c`"]);
    compare("x.npz", b"PK\x03\x04\0\0", "").refused(&["x.npz: labels must be a .npy array or text, found", "`PK"]);
    Workspace::new().run("compare a.npy b.npy").refused(&["a.npy: cannot be read"]);
}

/// A table of all pairs of groups would take gigabytes.
#[test]
fn as_many_groups_as_rows_are_compared_without_a_matching() {
    let workspace = Workspace::new();
    workspace.write("x.txt", (0..100_000).map(|i| format!("{i}\n")).collect::<String>());
    let json = workspace.run("compare x.txt x.txt --json").json();
    assert_eq!((&json["adjusted_rand_index"], &json["matched_fraction"]), (&1.0.into(), &serde_json::Value::Null));
    assert!(workspace.run("compare x.txt x.txt").success().contains("\nmatched                -   "));
}

/// What `vmf assign` writes, in every format; and columns of other names.
#[test]
fn labels_may_be_a_column_of_a_table() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 3 --concentration 200 -n 300 -o x.npy").success();
    workspace.run("fit x.npy -k 3 --start random --max-passes 2 -o m.safetensors").success();
    for output in ["l.npy", "l.csv", "l.tsv", "l.parquet", "l.arrow", "l.jsonl"] {
        workspace.run(&format!("assign m.safetensors x.npy -o {output}")).success();
        let json = workspace.run(&format!("compare l.npy {output} --json")).json();
        assert_eq!((&json["adjusted_rand_index"], &json["rows"]), (&1.0.into(), &300.into()), "{output}");
        if output != "l.npy" {
            let fit = |labels: &str| {
                workspace.run(&format!("fit x.npy -k 3 --start labels:{labels} --max-passes 1 -o f.safetensors")).success();
                workspace.read("f.safetensors")
            };
            assert!(fit(output) == fit("l.npy"), "{output}");
        }
    }
    workspace.write("t.csv", "name,class,group\na,1,5\nb,1,5\nc,2,5\n");
    workspace.write("u.csv", "4\n4\n3\n");
    let score = |options: &str| number(&workspace.run(&format!("compare {options} --json")).json()["adjusted_rand_index"]);
    assert_eq!(score("t.csv u.csv --columns class,"), 1.0);
    assert_eq!(score("t.csv t.csv --column class"), 1.0);
    assert_eq!(score("t.csv t.csv --columns class,group"), 0.0);
    workspace.run("compare t.csv u.csv").refused(&["t.csv: line 1 must be a single label"]);
    workspace
        .run("compare t.csv t.csv --column species")
        .refused(&["t.csv: no column is called `species`, found: `name,class,group`"]);
    workspace.run("compare t.csv t.csv --column name").refused(&["t.csv: line 2, column `name` must be a number, found: `a`"]);
    workspace.write("h.csv", "component,x\n1,0\n0.5,0\n");
    workspace.run("compare h.csv h.csv").refused(&["h.csv: label 1 must be a 64-bit integer", "found: `0.5`"]);
    workspace.write("j.jsonl", "{\"component\": 1}\n{\"component\": \"a\"}\n");
    workspace
        .run("compare j.jsonl j.jsonl")
        .refused(&["j.jsonl: line 2 must have a whole number under the key `component`, found: `\"a\"`"]);
    workspace.write("e.csv", "component,x\n");
    workspace.run("compare e.csv e.csv").refused(&["e.csv: no labels to compare"]);
}
