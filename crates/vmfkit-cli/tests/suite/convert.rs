//! `vmf convert`: every format into every other, raw rows, ids and weights.

use crate::{Workspace, npy, testdata};

const FORMATS: [&str; 9] = ["parquet", "arrow", "csv", "tsv", "jsonl", "npy", "npz", "safetensors", "mtx"];

/// What to say of a file that `vmf convert` wrote, to read it again in single precision.
fn reading(format: &str) -> &'static str {
    match format {
        "jsonl" => "--columns embedding --dtype f32",
        "csv" | "tsv" | "mtx" => "--dtype f32",
        _ => "",
    }
}

/// The numbers of an array that `vmf convert` wrote.
fn numbers(bytes: &[u8]) -> Vec<f64> {
    let header = String::from_utf8_lossy(&bytes[..128]).into_owned();
    if header.contains("<f4") {
        bytes[128..].chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap()).into()).collect()
    } else {
        bytes[128..].chunks_exact(8).map(|x| f64::from_le_bytes(x.try_into().unwrap())).collect()
    }
}

#[test]
fn every_pair_of_formats_keeps_every_bit() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 4 --concentration 5 -n 37 -o x.npy").success();
    let before = workspace.read("x.npy");
    for from in FORMATS {
        let run = workspace.run(&format!("convert x.npy from.{from}"));
        assert!(run.stderr.contains(&format!("from.{from}: 37 rows of dimension 4 as {from}\n")), "{}", run.stderr);
        assert_eq!(run.success(), "");
        for to in FORMATS {
            workspace.run(&format!("convert from.{from} {} -o to.{to}", reading(from))).success();
            let run = workspace.run(&format!("convert -q to.{to} {} -o back.npy", reading(to)));
            assert_eq!(run.stderr, "");
            assert!(workspace.read("back.npy") == before, "{from} to {to}");
        }
        std::fs::remove_file(workspace.path(&format!("from.{from}"))).unwrap();
    }
}

#[test]
fn double_precision_is_kept_and_rounded_on_request() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 3 --concentration 5 -n 20 --dtype f64 -o x.npy").success();
    for format in FORMATS {
        workspace.run(&format!("convert x.npy -o y.{format}")).success();
        let columns = if format == "jsonl" { "--columns embedding" } else { "" };
        workspace.run(&format!("convert y.{format} {columns} -o back.npy")).success();
        assert_eq!(workspace.read("back.npy"), workspace.read("x.npy"), "{format}");
    }
    workspace.run("convert x.npy --dtype f32 -o single.npy").success();
    let single: Vec<f64> = numbers(&workspace.read("x.npy")).into_iter().map(|x| f64::from(x as f32)).collect();
    assert_eq!(numbers(&workspace.read("single.npy")), single);
}

#[test]
fn rows_off_the_sphere_are_passed_as_they_are() {
    let workspace = Workspace::new();
    workspace.write("raw.csv", "x,y\n3,4\n0,0\nNaN,-inf\n1e300,-0.0\n");
    for format in ["parquet", "arrow", "csv", "tsv", "npy", "npz", "safetensors", "mtx"] {
        workspace.run(&format!("convert raw.csv -o written.{format}")).success();
        workspace.run(&format!("convert written.{format} -o back.npy")).success();
        let found = numbers(&workspace.read("back.npy"));
        let expected = [3.0, 4.0, 0.0, 0.0, f64::NAN, f64::NEG_INFINITY, 1e300, -0.0];
        assert_eq!(found.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), expected.map(f64::to_bits), "{format}");
    }
    workspace.write("one.csv", "1\n2\n");
    workspace.run("convert one.csv one.npy").success();
    assert_eq!(numbers(&workspace.read("one.npy")), [1.0, 2.0]);
    // Half precision becomes single, and is not rescaled.
    let half = testdata("columnar").join("fixed_f16.parquet");
    workspace.run(&format!("convert {} half.npy", half.display())).success();
    let formula = (0..40).flat_map(|i| (0..5).map(move |j| f64::from((7 * i + 3 * j) % 64) / 64.0 - 0.5));
    assert_eq!(numbers(&workspace.read("half.npy")), formula.collect::<Vec<_>>());
}

#[test]
fn rows_are_rescaled_on_request() {
    let workspace = Workspace::new();
    workspace.write("x.csv", "3,4\n0.6,0.8\n0,-2\n");
    let run = workspace.run("convert x.csv x.npy --rescale");
    assert!(run.stderr.contains("x.npy: 3 rows of dimension 2 as npy, 2 were not of length 1\n"), "{}", run.stderr);
    assert_eq!(numbers(&workspace.read("x.npy")), [0.6, 0.8, 0.6, 0.8, 0.0, -1.0]);
    workspace.write("zero.csv", "3,4\n0,0\n");
    workspace.run("convert x.csv zero.csv y.npy --rescale").refused(&["zero.csv: row 1 has no direction"]);
    assert_eq!(workspace.names(), ["x.csv", "x.npy", "zero.csv"]);
}

#[test]
fn ids_and_weights_are_carried() {
    let workspace = Workspace::new();
    workspace.write("x.csv", "name,x,y,n\n\"a,b\",3,4,1.5\nc,0.5,0,2\n");
    workspace.run("convert x.csv x.parquet --columns x,y --id-column name --weights column:n").success();
    let lines =
        "{\"id\":\"a,b\",\"embedding\":[3.0,4.0],\"weight\":1.5}\n{\"id\":\"c\",\"embedding\":[0.5,0.0],\"weight\":2.0}\n";
    let named = "--id-column id --weights column:weight";
    workspace.run(&format!("convert x.parquet x.arrow {named}")).success();
    for from in ["x.parquet", "x.arrow"] {
        let run = workspace.run(&format!("convert {from} - --to jsonl {named}"));
        assert_eq!(run.success(), lines, "{from}");
    }
    let printed = workspace.run(&format!("convert x.arrow - {named}")).success();
    assert_eq!(printed, "id,x0,x1,weight\n\"a,b\",3.0,4.0,1.5\nc,0.5,0.0,2.0\n");
    // Columns that are not named are left out.
    assert_eq!(workspace.run("convert x.arrow -").success(), "x0,x1\n3.0,4.0\n0.5,0.0\n");
    workspace.run(&format!("convert x.arrow y.npy {named}")).refused(&["y.npy: an .npy file holds only rows, found: `id`"]);
    workspace.run(&format!("convert x.arrow y.mtx {named}")).refused(&["y.mtx: an .mtx file holds only rows, found: `id`"]);
    for file in ["y.safetensors", "y.npz"] {
        workspace.run(&format!("convert x.arrow {file} {named}")).refused(&[file, "found ids of type: `text`"]);
    }
    // Numbers stay numbers, and become texts beside texts.
    let beside = testdata("columnar").join("beside.parquet");
    workspace.run(&format!("convert {} n.safetensors --id-column number", beside.display())).success();
    assert!(String::from_utf8_lossy(&workspace.read("n.safetensors")).contains("\"id\":{\"dtype\":\"I64\",\"shape\":[40]"));
    workspace.run(&format!("convert {} n.parquet --id-column number", beside.display())).success();
    workspace.write("t.csv", "id,a,b,c,d,e\nlast,1,2,3,4,5\n");
    let both = workspace.run("convert t.csv n.parquet - --id-column id").success();
    assert!(both.contains("\nlast,1.0,2.0,3.0,4.0,5.0\n0,") && both.contains("\n390,"), "{both}");
}

#[test]
fn weights_of_a_file_of_their_own_are_carried() {
    let workspace = Workspace::new();
    workspace.write("x.csv", "3,4\n0,0\n");
    workspace.write("w.csv", "2\n0.5\n");
    workspace.run("convert x.csv x.parquet --weights w.csv").success();
    let printed = workspace.run("convert x.parquet - --weights column:weight").success();
    assert_eq!(printed, "x0,x1,weight\n3.0,4.0,2.0\n0.0,0.0,0.5\n");
    for weights in ["2\n", "2\n1\n1\n"] {
        workspace.write("w.csv", weights);
        workspace.run("convert x.csv y.parquet --weights w.csv").refused(&["w.csv: expected 2 weights, one per row, found: `"]);
    }
    assert_eq!(workspace.names(), ["w.csv", "x.csv", "x.parquet"]);
}

/// What scipy wrote, and a matrix of many blocks, half of whose rows are empty.
#[test]
fn sparse_rows_go_from_file_to_file_without_their_zeros() {
    let workspace = Workspace::new();
    let entries: String = (0..150_000).map(|row| format!("{} {} 0.{}\n", 2 * row + 1, row % 5000 + 1, row + 1)).collect();
    workspace.write("big.mtx", format!("%%MatrixMarket matrix coordinate real general\n300000 5000 150000\n{entries}"));
    for from in ["csr.npz", "csr_single.npz", "csr_array.npz", "coordinates.mtx.gz"] {
        std::fs::copy(testdata("formats").join(from), workspace.path(from)).unwrap();
    }
    for from in ["csr.npz", "csr_single.npz", "csr_array.npz", "coordinates.mtx.gz", "big.mtx"] {
        workspace.run(&format!("convert {from} -o direct.mtx")).success();
        workspace.run(&format!("convert {from} -o y.npz")).success();
        workspace.run("convert y.npz -o back.mtx").success();
        assert!(workspace.read("back.mtx") == workspace.read("direct.mtx"), "{from}");
        workspace.run("convert back.mtx -o again.npz").success();
        if from != "csr_single.npz" {
            assert!(workspace.read("again.npz") == workspace.read("y.npz"), "{from}");
        }
    }
    assert!(workspace.read("y.npz").len() < 12 * 150_000 + 8 * 300_000 + 4096);
    let fit = workspace.run("fit csr_single.npz --json").json();
    workspace.run("convert csr_single.npz single.npz").success();
    assert_eq!(workspace.run("fit single.npz --json").json()["concentration"], fit["concentration"]);
}

/// Neither begins with what is known before the end.
#[cfg(unix)]
#[test]
fn archives_and_matrices_go_through_a_pipe() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 4 --concentration 5 -n 37 -o x.npz").success();
    for format in ["npz", "mtx"] {
        workspace.shell(&format!(
            "vmf convert x.npz -o x.{format}.file --to {format}; vmf convert x.npz -o - --to {format} > x.{format}.piped"
        ));
        assert!(workspace.read(&format!("x.{format}.file")) == workspace.read(&format!("x.{format}.piped")), "{format}");
    }
    workspace.run("sample --dim 4 --concentration 5 -n 37 -o x.npy").success();
    workspace.run("convert x.npz back.npy").success();
    assert_eq!(workspace.read("back.npy"), workspace.read("x.npy"));
}

#[test]
fn several_files_become_one() {
    let workspace = Workspace::new();
    workspace.write("a.csv", "1,2\n3,4\n");
    workspace.write("b.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)}", &[0, 0, 160, 64, 0, 0, 192, 64]));
    workspace.run("convert a.csv b.npy all.npy").success();
    assert_eq!(numbers(&workspace.read("all.npy")), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    // The empty parts that Spark leaves have no shape.
    for (name, from) in [("part-0", "no_rows"), ("part-1", "list_f32"), ("part-2", "no_rows")] {
        std::fs::copy(testdata("columnar").join(format!("{from}.parquet")), workspace.path(&format!("{name}.parquet"))).unwrap();
    }
    let run = workspace.run("convert part-*.parquet parts.npy");
    assert!(run.stderr.contains("40 rows of dimension 5"), "{}", run.stderr);
    let fit = workspace.run("fit part-*.parquet --rescale --json").json();
    assert_eq!(fit["rows"], 40);
    workspace.run("convert part-0.parquet nothing.npy").refused(&["part-0.parquet: there is nothing to convert"]);
}

#[test]
fn arrow_comes_through_a_pipe() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 4 --concentration 9 -n 30 -o x.arrow").success();
    let fit = workspace.run_with_input("fit - --json", &workspace.read("x.arrow")).json();
    assert_eq!((fit["file"].as_str(), fit["rows"].as_u64()), (Some("standard input"), Some(30)));
    let mixture = workspace.run_with_input("fit - -k 2 --json", &workspace.read("x.arrow")).json();
    assert_eq!(mixture["rows"], 30);
    let stream = std::fs::read(testdata("columnar").join("stream.arrows")).unwrap();
    workspace.run_with_input("convert - stream.npy", &stream).success();
    assert_eq!(numbers(&workspace.read("stream.npy")).len(), 200);
    workspace.run_with_input("fit -", &stream[..stream.len() / 2]).refused(&["standard input: ", "damaged"]);
    let empty = std::fs::read(testdata("columnar").join("no_rows.arrow")).unwrap();
    workspace.run_with_input("fit -", &empty).refused(&["standard input: there is nothing to fit"]);
    let parquet = std::fs::read(testdata("columnar").join("list_f32.parquet")).unwrap();
    workspace.run_with_input("fit -", &parquet).refused(&["a pipe must be npy, arrow, csv", "found: `parquet`"]);
}

#[test]
fn what_cannot_be_converted_is_named() {
    let workspace = Workspace::new();
    workspace.write("x.csv", "1,2\n");
    workspace.write("y.csv", "before");
    for (arguments, words) in [
        ("convert x.csv", "there must be an input and an output file, found only: `x.csv`"),
        ("convert x.csv y.csv", "must not exist, found: `y.csv`\nhint: `-o y.csv` overwrites it"),
        ("convert x.csv z.xls", "the name of a result must end with parquet, arrow, feather, csv"),
        (
            "convert x.csv z.npy --to xls",
            "unknown output format `xls`, expected one of parquet, arrow, csv, tsv, jsonl, npy, npz, safetensors, mtx",
        ),
        ("convert missing.csv z.npy", "missing.csv: cannot be read"),
    ] {
        workspace.run(arguments).refused(&[words]);
    }
    if !cfg!(feature = "object-store") {
        workspace
            .run("fit s3://bucket/x.npy")
            .refused(&["found: `s3://bucket/x.npy`\nhint: install it with the feature `object-store`"]);
    }
    assert_eq!((workspace.names(), workspace.read("y.csv")), (vec!["x.csv".to_owned(), "y.csv".to_owned()], b"before".to_vec()));
    workspace.run("convert x.csv -o y.csv").success();
    assert_eq!(workspace.read("y.csv"), b"x0,x1\n1.0,2.0\n");
}
