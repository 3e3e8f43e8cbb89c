//! Files written by numpy, scipy and safetensors are read to the last bit.

use crate::{Folder, ROWS, WEIGHTS, names, read, refused, testdata, with_causes};
use vmfkit::source::Source;
use vmfkit_io::{Element, Format, Options, open, open_stream};

fn format(name: &str) -> String {
    testdata(&format!("formats/{name}"))
}

#[test]
fn files_in_double_precision_give_the_rows() {
    let dense = [
        "one_stored.npz",
        "labelled.npz",
        "fortran_stored.npz",
        "bare.csv",
        "arrays.jsonl",
        "arrays.jsonl.gz",
        "f64.safetensors",
        "dense.mtx",
    ];
    let sparse = ["csr.npz", "csr_array.npz", "coordinates.mtx", "coordinates.mtx.gz"];
    for name in dense.iter().chain(&sparse) {
        for block_rows in [1, 2, 5, 100] {
            let all = read(&format(name), &Options::new().block_rows(block_rows));
            assert_eq!(all.rows, ROWS, "{name}");
            assert_eq!(all.blocks[..all.blocks.len() - 1], vec![block_rows; (ROWS.len() - 1) / block_rows], "{name}");
        }
        let source = open(&format(name), &Options::new()).unwrap();
        assert_eq!((source.dim(), source.element(), source.rescaled()), (4, Element::F64, None), "{name}");
        assert_eq!(source.is_sparse(), sparse.contains(name), "{name}");
    }
}

#[test]
fn files_in_single_precision_give_the_nearest_rows() {
    for name in ["one_deflated.npz", "csr_single.npz", "f32.safetensors"] {
        let all = read(&format(name), &Options::new());
        assert_eq!(all.rows, ROWS.map(|row| row.map(|x| f64::from(x as f32))), "{name}");
        assert_eq!(open(&format(name), &Options::new()).unwrap().element(), Element::F32);
    }
}

#[test]
fn half_precision_is_always_rescaled() {
    for (name, tolerance, changed) in [("f16.safetensors", 3e-4, 3), ("bf16.safetensors", 3e-3, 3)] {
        let mut source = open(&format(name), &Options::new().block_rows(2)).unwrap();
        assert_eq!((source.element(), source.rescaled()), (Element::F16, Some(0)));
        let all = crate::read_all(&mut source).unwrap();
        assert_eq!(source.rescaled(), Some(changed), "{name}");
        for (row, expected) in all.rows.iter().zip(ROWS) {
            let length: f64 = row.iter().map(|x| x * x).sum();
            assert!((length - 1.0).abs() < 1e-6, "{name}: {row:?}");
            assert!(row.iter().zip(expected).all(|(x, e)| (x - e).abs() < tolerance), "{name}: {row:?}");
        }
    }
}

#[test]
fn one_of_several_arrays_is_chosen_by_name() {
    let mut reversed = ROWS;
    reversed.reverse();
    for name in ["several.npz", "several.safetensors"] {
        assert_eq!(read(&format(name), &Options::new().array("rows")).rows, ROWS);
        assert_eq!(read(&format(name), &Options::new().array("others")).rows, reversed);
        let message = refused(&format(name), &Options::new());
        assert!(message.contains("rows") && message.ends_with("\nhint: `--array NAME` chooses one"), "{message}");
        let message = refused(&format(name), &Options::new().array("mine"));
        assert!(message.contains(" is called `mine`, found: `"), "{message}");
    }
    let message = refused(&format("several.npz"), &Options::new().array("labels"));
    assert!(message.ends_with("labels: the array must have two axes, rows and coordinates, found shape: `(5,)`"), "{message}");
}

#[test]
fn a_symmetric_matrix_is_completed_from_one_half() {
    let folder = Folder::new();
    let read =
        |text: &str| read(&folder.write("x.mtx", format!("%%MatrixMarket matrix {text}")), &Options::new().rescale(true)).rows;
    let symmetric = [[0.6, 0.8, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]];
    assert_eq!(read("coordinate real symmetric\n3 3 3\n1 1 3\n2 1 4\n3 3 3\n"), symmetric);
    assert_eq!(read("array real symmetric\n3 3\n3\n4\n0\n0\n0\n3\n"), symmetric);
    assert_eq!(read("coordinate pattern symmetric\n2 2 1\n2 1\n"), [[0.0, 1.0], [1.0, 0.0]]);
    let skew = [[0.0, -1.0], [1.0, 0.0]];
    assert_eq!(read("coordinate integer skew-symmetric\n2 2 1\n2 1 5\n"), skew);
    assert_eq!(read("array integer skew-symmetric\n2 2\n5\n"), skew);
}

#[test]
fn a_sparse_row_takes_the_memory_of_its_entries() {
    let folder = Folder::new();
    let place = folder.write("x.mtx", "%%MatrixMarket matrix coordinate real general\n2 1000000 4\n1 1 1\n1 2 0\n2 2 1\n2 9 0\n");
    assert_eq!(open(&place, &Options::new()).unwrap().row_bytes(), 2 * 2 * 12 + 8);
    assert_eq!(open(&format("csr_single.npz"), &Options::new()).unwrap().row_bytes(), 2 * 3 * 8 + 8);
    assert_eq!(open(&format("f32.safetensors"), &Options::new()).unwrap().row_bytes(), 4 * 4);
}

#[test]
fn named_columns_are_coordinates_weights_and_ids() {
    let numbers = Options::new().columns(names("x,y,z,t")).weight_column("n").id_column("id").block_rows(2);
    let rest = Options::new().weight_column("n").id_column("id").block_rows(2);
    let list = Options::new().columns(names("vector")).weight_column("n").id_column("name").block_rows(2);
    for (name, options) in
        [("rows.csv", &numbers), ("rows.csv", &rest), ("rows.csv.gz", &numbers), ("rows.tsv", &numbers), ("objects.jsonl", &list)]
    {
        let all = read(&format(name), options);
        assert_eq!(
            (&all.rows[..], &all.weights[..], &all.blocks[..]),
            (&ROWS.map(Vec::from)[..], &WEIGHTS[..], &[2, 2, 1][..]),
            "{name}"
        );
        assert_eq!(all.ids.concat(), "abcde", "{name}");
    }
    let reordered = read(&format("numbers.jsonl"), &Options::new().columns(names("t,z,y,x")));
    assert_eq!(reordered.rows, ROWS.map(|[x, y, z, t]| [t, z, y, x]));
}

#[test]
fn unsorted_columns_of_a_sparse_row_are_sorted() {
    assert_eq!(read(&format("csr_unsorted.npz"), &Options::new()).rows, [ROWS[0]]);
}

#[test]
fn other_sparse_matrices_are_refused_with_the_way_out() {
    for name in ["csc", "coo"] {
        let message = refused(&format(&format!("{name}.npz")), &Options::new());
        assert!(message.ends_with(&format!("as csr, found: `{name}`\nhint: save `x.tocsr()`")), "{message}");
    }
}

#[test]
fn a_pattern_is_ones_and_has_to_be_rescaled() {
    let message = refused(&format("pattern.mtx"), &Options::new());
    assert!(
        message
            .ends_with("row 0 must have length 1, found: `1.4142135623730951`\nhint: `--rescale` divides each row by its length")
    );
    let all = read(&format("pattern.mtx"), &Options::new().rescale(true));
    assert_eq!(all.rows[3], [0.5; 4]);
}

#[test]
fn an_array_in_fortran_order_is_read_from_a_file_and_refused_from_a_stream() {
    let message = refused(&format("fortran_deflated.npz"), &Options::new());
    assert!(message.contains("rows: ") && message.contains("np.ascontiguousarray(x)"), "{message}");
    let bytes = std::fs::read(testdata("npy/f4_fortran.npy")).unwrap();
    let error = open_stream(&*bytes.leak(), "pipe", &Options::new()).unwrap_err();
    assert!(with_causes(error).starts_with("pipe: an array that is read in sequence"));
}

#[test]
fn a_header_may_be_declared_present_or_absent() {
    let folder = Folder::new();
    let digits = folder.write("digits.csv", "1,2\n0.6,0.8\n");
    assert_eq!(read(&digits, &Options::new().header(Some(true))).rows, [[0.6, 0.8]]);
    assert_eq!(read(&digits, &Options::new().header(Some(true)).columns(names("2,1"))).rows, [[0.8, 0.6]]);
    let words = folder.write("words.csv", "x,y\n0.6,0.8\n");
    let message = refused(&words, &Options::new().header(Some(false)));
    assert!(message.contains("line 1, column `1` must be a number, found: `x`"), "{message}");
}

#[test]
fn a_format_may_be_given() {
    let folder = Folder::new();
    let tabs = folder.write("rows.txt", "0.6\t0.8\n");
    assert_eq!(read(&tabs, &Options::new().format(Some(Format::Tsv))).rows, [[0.6, 0.8]]);
    let message = refused(&tabs, &Options::new().format(Some(Format::Npy)));
    assert!(message.contains("rows.txt: a .npy file begins with"), "{message}");
    let renamed = folder.write("rows.csv", std::fs::read(format("one_stored.npz")).unwrap());
    assert_eq!(read(&renamed, &Options::new()).rows, ROWS);
}

#[test]
fn numbers_of_text_are_read_to_the_last_bit() {
    let folder = Folder::new();
    let x = 0.1f64 + 0.2;
    let y = (1.0 - x * x).sqrt();
    for (name, text) in [("x.csv", format!("{x},{y}\n")), ("x.jsonl", format!("[{x}, {y}]\n"))] {
        assert_eq!(read(&folder.write(name, text), &Options::new()).rows, [[x, y]], "{name}");
    }
}

/// As CSV and as JSON Lines.
fn as_text(rows: &[[f64; 4]]) -> [(&'static str, String); 2] {
    let line = |row: &[f64; 4]| row.map(|x| x.to_string()).join(",");
    let csv: Vec<String> = rows.iter().map(line).collect();
    let json: Vec<String> = rows.iter().map(|row| format!("[{}]", line(row))).collect();
    [("x.csv", csv.join("\n")), ("x.jsonl", json.join("\n\n"))]
}

#[test]
fn text_is_parsed_on_all_threads_and_its_first_wrong_line_is_named() {
    let folder = Folder::new();
    let rows: Vec<[f64; 4]> = (0..20_000).map(|row| (f64::from(row) * 0.1).sin_cos()).map(|(y, x)| [x, 0.0, y, 0.0]).collect();
    for (name, text) in as_text(&rows) {
        let place = folder.write(name, &text);
        for block_rows in [999, 20_000] {
            let everything = read(&place, &Options::new().block_rows(block_rows));
            assert!(everything.rows.iter().flatten().eq(rows.as_flattened()), "{name}");
        }
        let lines: Vec<&str> = text.lines().collect();
        let step = lines.len() / rows.len();
        for wrong in [[3, 19_999], [9_000, 11_000], [12_000, 12_001], [19_998, 19_999]] {
            let mut lines = lines.clone();
            wrong.iter().for_each(|&row| lines[row * step] = "\"never closed");
            let place = folder.write(name, lines.join("\n"));
            let message = refused(&place, &Options::new());
            assert!(message.contains(&format!("line {}", wrong[0] * step + 1)), "{name}, {wrong:?}: {message}");
        }
        // The error at the end of the text comes after those of the lines before it.
        let short = |line: &str| line.replacen(",0", "", 1);
        let mut lines: Vec<String> = lines.iter().map(|line| line.to_string()).collect();
        (lines[5000 * step], lines[15_000 * step]) = (short(&lines[5000 * step]), "\"never closed".to_owned());
        let place = folder.write(name, lines.join("\n"));
        let message = refused(&place, &Options::new());
        let expected = format!("line {} must have as many", 5000 * step + 1);
        assert!(message.contains(&expected) && message.ends_with(", 4, found: `3`"), "{name}: {message}");
    }
}
