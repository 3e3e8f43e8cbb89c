//! Bad input is named, with its place and value; the exit code is 2 and nothing is left behind.

use crate::{Run, Workspace, npy, testdata};

fn fit_of(name: &str, content: impl AsRef<[u8]>, options: &str) -> Run {
    let workspace = Workspace::new();
    workspace.write(name, content);
    let run = workspace.run(&format!("fit {name} {options}"));
    assert_eq!(workspace.names(), [name]);
    run
}

/// Rows of f64 in a file of their own.
fn rows(dim: usize, values: &[f64]) -> Vec<u8> {
    let data: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    npy(&format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({}, {dim})}}", values.len() / dim), &data)
}

#[test]
fn bad_rows_are_named() {
    let good = [0.6, 0.8];
    let cases: [(&[f64], &str); 5] = [
        (&[f64::NAN, 0.0], "row 1, column 0 must be a finite number, found: `NaN`"),
        (&[0.0, f64::INFINITY], "row 1, column 1 must be a finite number, found: `inf`"),
        (&[0.0, 0.0], "row 1 has no direction: all its coordinates are `0`"),
        (&[3.0, 4.0], "row 1 must have length 1, found: `5`"),
        (&[1e-200, 0.0], "row 1 must have length 1, found: `"),
    ];
    for (row, message) in cases {
        fit_of("x.npy", rows(2, &[&good, row].concat()), "").refused(&["error: x.npy: ", message]);
    }
    fit_of("x.npy", rows(2, &[0.6, 0.8, 3.0, 4.0]), "").refused(&["`--rescale` divides each row by its length"]);
    fit_of("x.npy", rows(2, &[0.6, 0.8, 0.0, 0.0]), "--rescale").refused(&["row 1 has no direction"]);
}

#[test]
fn rows_that_leave_nothing_to_estimate_are_refused() {
    fit_of("x.npy", rows(2, &[0.6, 0.8]), "").refused(&["x.npy: all rows are equal"]);
    fit_of("x.npy", rows(2, &[0.6, 0.8, 0.6, 0.8]), "--method sgd").refused(&["all rows are equal"]);
    fit_of("x.npy", rows(2, &[]), "").refused(&["x.npy: there is nothing to fit"]);
    fit_of("x.npy", rows(1, &[1.0, 1.0]), "").refused(&["the dimension must be at least 2, found: `1`"]);
    fit_of("x.csv", "", "").refused(&["x.csv: there is nothing to fit"]);
    fit_of("x.csv", "x,y\n", "").refused(&["there is nothing to fit"]);
}

#[test]
fn rows_that_cancel_are_uniform() {
    let run = fit_of("x.npy", rows(2, &[1.0, 0.0, -1.0, 0.0]), "--json");
    assert_eq!(run.json()["concentration"], 0.0);
    let text = fit_of("x.npy", rows(2, &[1.0, 0.0, -1.0, 0.0]), "").success();
    assert!(text.contains("concentration     0\n"), "{text}");
}

#[test]
fn broken_arrays_are_named() {
    let shape = |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}");
    let whole = rows(2, &[0.6, 0.8]);
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (vec![], "begins with `\\x93NUMPY`, found: ``"),
        (b"PK\x03\x04zip".to_vec(), "the zip archive cannot be read"),
        (whole[..7].to_vec(), "the file's length is: `7`"),
        (whole[..9].to_vec(), "the file's length is: `9`"),
        (whole[..30].to_vec(), "the header must end within the file"),
        (whole[..whole.len() - 3].to_vec(), "an array of shape (1, 2) has 16 bytes of data, found: `13`"),
        ([&whole[..], b"more"].concat(), "has 16 bytes of data, found: `20`"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}".to_vec(), "at byte 4294967307, but the file's length is: `14`"),
        (b"\x93NUMPY\x04\x00\x02\x00{}".to_vec(), "found: `4.0`"),
        (npy("{}", b""), "must name descr, fortran_order and shape, found: `{}`"),
        (npy("\u{fffd}{", b""), "must name descr"),
        (npy(&shape("(1000000000000, 2)"), b"12345678"), "has 8000000000000 bytes of data, found: `8`"),
        (npy(&shape("(4294967296, 4294967296)"), b""), "larger than any file, found shape: `(4294967296, 4294967296)`"),
        (npy(&shape("(99999999999999999999, 2)"), b""), "larger than any file"),
        (npy(&shape("(0, 1000000000000000000)"), b""), "there is nothing to fit"),
        (npy(&shape("(1000000000000000000, 0)"), b""), "the dimension must be at least 2, found: `0`"),
        (npy(&shape("(2,)"), b"12345678"), "two axes, rows and coordinates, found shape: `(2,)`"),
        (npy(&shape("()"), b"1234"), "two axes, rows and coordinates, found shape: `()`"),
    ];
    for (content, message) in cases {
        fit_of("x.npy", content, "").refused(&["error: x.npy: ", message]);
    }
}

#[test]
fn arrays_of_other_kinds_are_named() {
    let workspace = Workspace::new();
    for (name, message) in [
        ("three_axes", "found shape: `(2, 2, 3)`"),
        ("objects", "must be f2 to f8, i1 to i8, u1 to u8 or b1, found: `|O`\nhint: save `x.astype('float32')`"),
        ("structured", "found: `[('x', '<f4'), ('y', '<f4')]"),
    ] {
        let path = testdata("npy").join(name).with_extension("npy");
        workspace.run(&format!("fit {}", path.display())).refused(&[name, message]);
    }
}

#[test]
fn unreadable_files_are_named() {
    let workspace = Workspace::new();
    workspace.run("fit missing.npy").refused(&["missing.npy: cannot be read: "]);
    workspace.run("fit .").refused(&[".: the folder must contain a file of a known format, other files: `0`"]);
    workspace.run("constants --from missing.csv").refused(&["missing.csv: cannot be read: "]);
}

#[test]
fn bad_cells_are_named() {
    fit_of("x.csv", "x,y\n0.6,0.8\n0.6,eight\n", "")
        .refused(&["x.csv: line 3, column `y` must be a number, found: `eight`\nhint: `--columns"]);
    fit_of("x.csv", "0.6,0.8\n,1\n", "").refused(&["line 2, column `1` must be a number, found: ``"]);
    fit_of("x.csv", "0.6,eight\n0.6,0.8\n", "").refused(&["line 1, column `2` must be a number, found: `eight`"]);
    fit_of("x.csv", "0.6,0.8\n0.6\n", "").refused(&["line 2 must have as many cells as the first line, 2, found: `1`"]);
    fit_of("x.csv", b"x,y\n0.6,\xff\n", "").refused(&["line 2, column `y` must be a number"]);
    fit_of("x.csv", "x,y\n0.6,0.8\n", "--columns x,z").refused(&["no column is called `z`, found: `x,y`"]);
    fit_of("x.csv", "0.6,0.8\n", "--columns x,y").refused(&["only if the first line names the columns"]);
    fit_of("x.npy", rows(2, &[0.6, 0.8]), "--columns x,y").refused(&["no column names"]);
    fit_of("x.csv", "x,y,w\n0.6,0.8,-1\n", "--weights column:w").refused(&["weight of row 0", "found: `-1`"]);
}

#[test]
fn weights_of_another_length_are_refused() {
    let weights = testdata("npy").join("weights.npy");
    let run = fit_of("x.npy", rows(2, &[0.6, 0.8]), &format!("--weights {}", weights.display()));
    run.refused(&["weights.npy: expected 1 weights, one per row, found: `4`"]);
}

#[test]
fn bad_points_are_named() {
    let workspace = Workspace::new();
    for (input, message) in [
        ("", "line 1 must name the columns"),
        ("d,k\n3,1\n", "found: `d,k`"),
        ("d,kappa\n3,1\n0,1\n", "line 3, column `d` must be a whole number of at least 1, found: `0`"),
        ("d,kappa\n3.5,1\n", "line 2, column `d` must be a whole number of at least 1, found: `3.5`"),
        ("d,kappa\n3,-1\n", "line 2, column `kappa` must be finite and at least 0, found: `-1`"),
        ("d,kappa\n3,nan\n", "found: `nan`"),
        ("d,kappa\n3,many\n", "line 2, column `kappa` must be a number, found: `many`"),
        ("d,kappa\n3\n", "line 2 has too few cells, missing column: `kappa`"),
        ("d,r\n3,1.5\n", "line 2, column `r` must be in [0, 1], found: `1.5`"),
        ("d,one_minus_r\n3,-0.5\n", "column `one_minus_r` must be in [0, 1], found: `-0.5`"),
        ("d,kappa1,kappa2\n3,1,inf\n", "column `kappa2` must be finite and at least 0, found: `inf`"),
    ] {
        workspace.run_with_input("constants --from - -o out.csv", input.as_bytes()).refused(&["standard input: ", message]);
        assert!(workspace.names().is_empty());
    }
}

#[test]
fn bad_numbers_on_the_command_line_are_named() {
    let workspace = Workspace::new();
    for (arguments, message) in [
        ("constants --dim 3 --concentration -1", "the concentration must be finite and at least 0, found: `-1`"),
        ("constants --dim 3 --concentration nan", "found: `NaN`"),
        ("constants --dim 0 --concentration 1", "0"),
        ("constants --dim 3", "--concentration"),
        ("constants --dim 3 --mean-length 1.5", "the mean length must be in [0, 1], found: `1.5`"),
        ("constants --dim 3 --mean-length 1", "no finite concentration in dimension 3 has the mean length: `1`"),
        ("constants --dim 3 --complement -1", "the complement must be in [0, 1], found: `-1`"),
        ("sample --dim 3 --concentration -2 -n 5 -o x.npy", "the concentration must be finite and at least 0, found: `-2`"),
        ("sample --dim 3 --concentration nan -n 5 -o x.npy", "found: `NaN`"),
        ("sample --dim 1 --concentration 1 -n 5 -o x.npy", "1 is not in 2..=10000000"),
        ("sample --dim 3 --concentration 1 -n -5 -o x.npy", "-5"),
        ("sample --dim 3 --concentration 1 -n 18446744073709551615 -o x.npy", "exceed the size of a file"),
        (
            "sample --dim 3 --concentration 1 -n 5 -o x.txt",
            "npz, safetensors or mtx, found: `x.txt`\nhint: or choose a format, such as `--to npy`",
        ),
        (
            "sample --dim 3 --mean-direction 1,0 --concentration 1 -n 5 -o x.npy",
            "the mean direction: expected dimension 3, found: `2`",
        ),
        ("sample --mean-direction 0,0 --concentration 1 -n 5 -o x.npy", "the mean direction must have length 1, found: `0`"),
        ("sample --mean-direction 1,nan --concentration 1 -n 5 -o x.npy", "coordinate 1 of the mean direction"),
        ("sample --mean-direction mu.npy --concentration 1 -n 5 -o x.npy", "mu.npy: cannot be read"),
        ("fit x.npy --epochs 5", "`--method closed` does not use the option: `--max-passes`"),
        ("fit x.npy --threads 0", "0 is not in 1..=1024"),
    ] {
        workspace.run(arguments).refused(&[message]);
        assert!(workspace.names().is_empty(), "{arguments}");
    }
    fit_of("x.npy", rows(2, &[0.6, 0.8, 1.0, 0.0]), "--level 1.5").refused(&["found: `1.5`"]);
    fit_of("x.npy", rows(2, &[0.6, 0.8, 1.0, 0.0]), "--method sgd --set decay=0").refused(&["decay", "found: `0`"]);
}

#[test]
fn a_refused_sample_keeps_the_file_that_was_there() {
    let workspace = Workspace::new();
    workspace.write("x.npy", "before");
    workspace.run("sample --dim 3 --concentration -1 -n 5 -o x.npy").refused(&["-1"]);
    workspace.write("points.csv", "d,kappa\n3,1\n3,x\n");
    workspace.run("constants --from points.csv -o x.npy").refused(&["line 3"]);
    assert_eq!(workspace.read("x.npy"), b"before");
    assert_eq!(workspace.names(), ["points.csv", "x.npy"]);
}
