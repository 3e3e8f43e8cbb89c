//! Files that are truncated, changed or forged. Errors name the position and the value, come at
//! once and take no memory.

use crate::{Folder, names, npy, npy_rows, read_all, refused, testdata, with_causes};
use vmfkit::source::Source;
use vmfkit_io::{Format, Options, open};

fn check(cases: &[(&str, &[u8], &str)]) {
    let folder = Folder::new();
    for (name, content, message) in cases {
        let place = folder.write(name, content);
        let found = refused(&place, &Options::new());
        assert!(found.starts_with(&place), "{found}");
        assert!(found.contains(message), "`{message}` is missing in: {found}");
    }
}

#[test]
fn arrays() {
    let whole = npy_rows(&[[1.0, 0.0, 0.0, 0.0]]);
    let shape = |shape: &str| npy(&format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}"), b"12345678");
    check(&[
        ("x.npy", b"", "begins with `\\x93NUMPY`, found: ``"),
        ("x.npy", &whole[..7], "the file's length is: `7`"),
        ("x.npy", &whole[..9], "the file's length is: `9`"),
        ("x.npy", &whole[..whole.len() - 3], "an array of shape (1, 4) has 32 bytes of data, found: `29`"),
        ("x.npy", &[&whole[..], b"more"].concat(), "has 32 bytes of data, found: `36`"),
        ("x.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}", "at byte 4294967307, but the file's length is: `14`"),
        ("x.npy", &shape("(1000000000000, 2)"), "has 8000000000000 bytes of data, found: `8`"),
        ("x.npy", &shape("(4294967296, 4294967296)"), "larger than any file"),
        (
            "x.npy",
            &npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000000, 0)}", b""),
            "at least 2, found: `0`",
        ),
        ("x.npy", &npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1000000000000000000)}", b""), "nothing to fit"),
        ("x.npy", &shape("(2,)"), "two axes, rows and coordinates, found shape: `(2,)`"),
        ("x.npy", &shape("(2, 1)"), "the dimension must be at least 2, found: `1`"),
    ]);
    let place = testdata("npy/f8.npy");
    for (options, message) in [
        (Options::new().columns(names("x,y")), "an array has no column names to choose from\nhint: "),
        (Options::new().array("x"), "only .npz and .safetensors files have several arrays, found: `--array x`"),
        (Options::new().header(Some(true)), "only CSV and TSV files have a header line, found: `--header yes`"),
        (Options::new().header(Some(false)), "only CSV and TSV files have a header line, found: `--header no`"),
    ] {
        let found = refused(&place, &options);
        assert!(found.contains(&format!("f8.npy: {message}")), "{found}");
    }
}

#[test]
fn archives() {
    let read = |name: &str| std::fs::read(testdata(&format!("formats/{name}"))).unwrap();
    let stored = read("one_stored.npz");
    let mut changed = read("one_deflated.npz");
    // The last byte of the deflated data.
    let end = changed.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").unwrap();
    changed[end - 1] ^= 0xff;
    let [csr, mut starts] = [read("csr_single.npz"), read("csr_single.npz")];
    // The second start, after the first, 0, and the header of `indptr`, the array of shape (6,).
    let header = csr.windows(4).position(|bytes| bytes == b"(6,)").unwrap();
    let data = header + csr[header..].iter().position(|&byte| byte == b'\n').unwrap() + 1;
    starts[data + 4] = 200;
    // Written that way, not damaged.
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(&csr)).unwrap();
    let member = archive.by_name("indptr.npy").unwrap();
    let start = member.data_start().unwrap() as usize;
    let (old, new) = (member.crc32().to_le_bytes(), crc32fast::hash(&starts[start..start + member.size() as usize]));
    let places: Vec<usize> = (0..csr.len() - 4).filter(|&at| csr[at..at + 4] == old).collect();
    assert_eq!(places.len(), 2, "beside the array and in the directory");
    places.into_iter().for_each(|at| starts[at..at + 4].copy_from_slice(&new.to_le_bytes()));
    check(&[
        ("x.npz", b"PK\x03\x04", "the zip archive cannot be read: "),
        ("x.npz", &stored[..stored.len() - 1], "the zip archive cannot be read: "),
        ("x.npz", &changed, "x.npz: "),
        ("x.npz", &starts, "number 1 of indptr must be from 0 to 11, found: `200`"),
    ]);
}

#[test]
fn safetensors() {
    let file = |header: &str, data: &[u8]| [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat();
    let tensor = |dtype: &str, shape: &str, offsets: &str| {
        file(&format!("{{\"x\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":{offsets}}}}}"), &[0; 16])
    };
    let name = "x.safetensors";
    check(&[
        (name, b"1234", "begins with 8 bytes, the length of its header, found: `4`"),
        (name, b"\xfe\xff\xff\xff\xff\xff\xff\x7f{}", "2 bytes after its length, found: `9223372036854775806`"),
        (name, b"\x02\0\0\0\0\0\0\0[]", "the header must be a JSON object, found: `[]`"),
        (name, &file("{}", b""), "one tensor must have two axes, rows and coordinates, found: ``"),
        (name, &tensor("I8", "[2, 2]", "[0, 4]"), "tensor `x`: the numbers must be F16, BF16, F32 or F64, found: `I8`"),
        (name, &file(r#"{"a":{"shape":[1,2]},"b":{"shape":[1,2]},"c":{"shape":[2]}}"#, b""), "found: `a,b`\nhint: `--array"),
        (
            name,
            &file(r#"{"a":{"shape":[1]},"b":{"shape":[2]}}"#, b""),
            "one tensor must have two axes, rows and coordinates, found: `a,b`",
        ),
        (name, &tensor("F32", "[4]", "[0, 16]"), "two axes, rows and coordinates, found shape: `[4]`"),
        (name, &tensor("F32", "[2, -2]", "[0, 16]"), "found shape: `[2,-2]`"),
        (name, &file(r#"{"x":1,"x":2}"#, b""), "tensors must have different names, found twice: `x`"),
        (name, &tensor("F32", "[2, 2]", "[0, 17]"), "within the 16 bytes after the header, found: `[0,17]`"),
        (name, &tensor("F32", "[2, 2]", "[9, 8]"), "within the 16 bytes after the header, found: `[9,8]`"),
        (name, &tensor("F32", "[2, 2]", "[0, 8]"), "the shape 2 x 2 does not match the number of bytes, found: `8`"),
        (name, &tensor("F32", "[4294967296, 4294967296]", "[0, 16]"), "found: `16`"),
    ]);
}

#[test]
fn tables() {
    check(&[
        ("x.csv", b"x,y\n0.6,0.8\n0.6,eight\n", "line 3, column `y` must be a number, found: `eight`\nhint: `--columns"),
        ("x.csv", b"name,x,y\nA,0.6,0.8\n", "found: `A`\nhint: `--columns x,y` reads the columns of numbers"),
        ("x.csv", b"Lon,Lat,name\n2,49,A\n", "found: `A`\nhint: `--angles lon,lat` reads the columns of angles"),
        ("x.tsv", b"0.6\t0.8\n0.6\n", "line 2 must have as many cells as the first line, 2, found: `1`"),
        ("x.csv", b"0.6\n0.8\n", "the dimension must be at least 2, found: `1`"),
        ("x.csv.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\xffnothing", "cannot be read: "),
        ("x.unknown", b"\x00\x01\x02", "the format cannot be detected from the name or the first bytes, found: `"),
        ("x.parquet", b"PAR1", "the file is damaged, found: `"),
        ("x.csv", b"\xff\xfe0\0,\x001\0\n\0", "text must be in UTF-8, found: `UTF-16`\nhint: `iconv"),
        ("x.jsonl", b"\xfe\xff\0[\x001\0,\x000\0]", "text must be in UTF-8, found: `UTF-16`"),
        ("x", b"\xfe\xff\x000\0,\x001", "text must be in UTF-8, found: `UTF-16`"),
    ]);
    let folder = Folder::new();
    let place = folder.write("x.csv", "x,y,y\n0.6,0.8,1\n");
    let found = refused(&place, &Options::new().columns(names("x,z")));
    assert!(found.ends_with("no column is called `z`, found: `x,y,y`"), "{found}");
    let found = refused(&place, &Options::new().columns(names("x,y")));
    assert!(found.ends_with("only one column may be called `y`, found: `x,y,y`"), "{found}");
    let cut = &std::fs::read(testdata("formats/rows.csv.gz")).unwrap()[..60];
    let found = refused(&folder.write("cut.csv.gz", cut), &Options::new().columns(names("x,y")));
    assert!(found.contains("cut.csv.gz: cannot be read: "), "{found}");
}

/// An open quote makes all following rows part of a cell.
#[test]
fn a_quote_that_is_not_closed_loses_no_rows() {
    check(&[
        ("x.csv", b"0.6,0.8\n1,\"0\n0,1\n", "x.csv: a quote in the row of line 2 must be closed, found after it: `0\u{fffd}0,1"),
        ("x.csv", b"\"x,y\n0.6,0.8\n", "a quote in the row of line 1 must be closed"),
        ("x.tsv", b"x\ty\n0.6\t0.8\n\"1\t0\"\"", "a quote in the row of line 3 must be closed"),
    ]);
    let folder = Folder::new();
    let place = folder.write("x.csv", "x,y,id\n1,0,\"a\nb\"\n0,1,\"c \"\"d\"\"\"");
    let mut source = open(&place, &Options::new().id_column("id")).unwrap();
    assert_eq!(read_all(&mut source).unwrap().ids, ["a\nb", "c \"d\""]);
}

#[test]
fn a_line_without_end_is_refused() {
    for format in [Format::Csv, Format::Tsv, Format::Jsonl] {
        let options = Options::new().format(Some(format));
        let error = vmfkit_io::open_stream(std::io::repeat(b'1'), "pipe", &options).unwrap_err();
        assert_eq!(with_causes(error), "pipe: line 1 must be shorter than 268435456 bytes, found: `268435456`", "{format}");
    }
}

#[test]
fn lines_of_json() {
    check(&[
        ("x.jsonl", b"[0.6, 0.8]\n[0.6, null]\n", "line 2, byte 10: invalid type: null, expected f64, found: `[0.6, null]`"),
        ("x.jsonl", b"[0.6, 0.8]\n\n[1]\n", "line 3 must have as many numbers as the first line, 2, found: `1`"),
        ("x.jsonl", b"[0.6, 0.8\n", "line 1, byte 9: "),
        ("x.jsonl", b"[0.6, 0.8] 1\n", "line 1, byte 12: trailing characters, found: `[0.6, 0.8] 1`"),
        ("x.jsonl", b"[0.6, NaN]\n", "line 1, byte "),
        ("x.jsonl", b"{\"v\": [0.6, 0.8]}\n", "no key is called `embedding`, found: `{\"v\": [0.6, 0.8]}`\nhint: `--columns"),
        ("x.jsonl", b"[[0.6, 0.8], [1, 0]]\n", "expected f64, found: `[[0.6, 0.8], [1, 0]]`\nhint: each line must be one row"),
        ("x.jsonl", b"[\n[0.6, 0.8]\n]\n", "hint: each line must be one row"),
        ("x.jsonl", b"\"text\"\n", "expected an array of numbers or an object, found: `\"text\"`"),
    ]);
    let folder = Folder::new();
    let place = folder.write("x.jsonl", "{\"v\": [0.6, 0.8], \"id\": 1}\n{\"w\": [0.6, 0.8], \"id\": 1.5}\n");
    for (options, message) in [
        (Options::new().columns(names("v")), "line 2, byte 28: no key is called `v`, found: `{\"w\""),
        (Options::new().columns(names("v,w")), "invalid type: sequence, expected f64"),
        (Options::new().columns(names("id")), "invalid type: integer `1`, expected a list of numbers"),
        (Options::new().columns(names("v")).weight_column("n"), "line 1, byte 26: no key is called `n`"),
        (Options::new().columns(names("v")).id_column("v"), "expected a text or a whole number"),
    ] {
        let found = refused(&place, &options);
        assert!(found.contains(message), "`{message}` is missing in: {found}");
    }
    let place = folder.write("arrays.jsonl", "[0.6, 0.8]\n");
    let found = refused(&place, &Options::new().weight_column("n"));
    assert!(found.contains("an array has no key `n`"), "{found}");
}

#[test]
fn matrices() {
    let text = |rest: &str| format!("%%MatrixMarket matrix {rest}");
    let coordinates = |rest: &str| text(&format!("coordinate real general\n% a comment\n{rest}"));
    let cases = [
        ("%%MatrixMarket\n".to_owned(), "or `skew-symmetric`, found: `%%MatrixMarket`"),
        (text("coordinate complex general\n"), "found: `%%MatrixMarket matrix coordinate complex general`"),
        (
            text("coordinate real hermitian\n"),
            "`general`, `symmetric` or `skew-symmetric`, found: `%%MatrixMarket matrix coordinate real herm",
        ),
        (text("array real symmetric\n2 3\n"), "line 2: a symmetric matrix must have as many columns as rows, found: `2 x 3`"),
        (text("array real symmetric\n2 2\n1\n0\n1\n1\n"), "line 6 must be one of 3 numbers, found: `1`"),
        (coordinates(""), "a line of sizes must follow the first"),
        (coordinates("2 2\n"), "line 3 must be three sizes, found: `2 2`"),
        (coordinates("3 2 1\n2 1 1\n"), "row 0 has no direction"),
        (coordinates("1000000000000000000 2 1\n1 1 1\n"), "not enough memory for the rows of a matrix"),
        (coordinates("2 2 1000000000000\n1 1 1\n"), "the matrix must have 1000000000000 entries, found: `1`"),
        (coordinates("1 99999999999 1\n1 1 1\n"), "line 3: a matrix must have fewer than 2^32 columns, found: `99999999999`"),
        (
            coordinates("2 2 2\n1 1 1\n3 1 1\n"),
            "line 5 must be a row, a column and a number of one of 2 entries of 2 x 2, found: `3 1 1`",
        ),
        (coordinates("2 2 2\n1 1 1\n0 1 1\n"), "found: `0 1 1`"),
        (coordinates("2 2 2\n1 1 1\n2 1\n"), "found: `2 1`"),
        (coordinates("1 2 1\n1 1 1\n1 2 1\n"), "of one of 1 entries of 1 x 2, found: `1 2 1`"),
        (coordinates("2 2 2\n1 1 1\n1 2 0\n"), "row 1 has no direction"),
        (text("array real general\n2 1000000000000\n"), "fewer than 2^32 columns"),
        (text("array real general\n1000000000000 2\n1\n"), "has 2000000000000 numbers, found: `1`"),
        (text("array real general\n1 2\n0.6\n0.8\n1\n"), "line 5 must be one of 2 numbers, found: `1`"),
        (text("array real general\n1 2\n0.6\nx\n"), "line 4 must be one of 2 numbers, found: `x`"),
    ];
    let cases: Vec<_> = cases.iter().map(|(content, message)| ("x.mtx", content.as_bytes(), *message)).collect();
    check(&cases);
    let folder = Folder::new();
    let place = folder.write("x.mtx", coordinates("2 2 2\n1 1 1\n2 2 1\n"));
    assert_eq!(open(&place, &Options::new().memory(Some(72))).unwrap().held_bytes(), 72);
    let found = refused(&place, &Options::new().memory(Some(71)));
    assert!(found.contains("read into memory as a whole, which takes 72 bytes, allowed: `71`\nhint: "), "{found}");
}

/// All sample files, with the options to read them.
fn samples() -> Vec<(String, Vec<u8>, Options)> {
    let mut samples = Vec::new();
    for folder in ["formats", "npy"] {
        for entry in std::fs::read_dir(testdata(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let options = match &*name {
                "objects.jsonl" => Options::new().columns(names("vector")),
                "numbers.jsonl" | "rows.csv" | "rows.csv.gz" | "rows.tsv" => Options::new().columns(names("x,y,z,t")),
                _ => Options::new(),
            };
            if Format::of_name(&path).is_some() {
                samples.push((name, std::fs::read(&path).unwrap(), options.block_rows(3)));
            }
        }
    }
    samples
}

#[test]
fn truncated_files_are_refused() {
    let folder = Folder::new();
    for (name, content, options) in samples() {
        let is_text = name.ends_with(".csv") || name.ends_with(".tsv") || name.ends_with(".jsonl");
        for length in 0..content.len() {
            let place = folder.write(&name, &content[..length]);
            let read = open(&place, &options).map_err(vmfkit::Error::from).and_then(|mut source| read_all(&mut source));
            // A table without its last lines is still a table, and the last line break may be
            // missing.
            assert!(
                read.is_err() || is_text || name.ends_with(".mtx") && length >= content.len() - 3,
                "{name} of {length} bytes"
            );
        }
    }
}

#[test]
fn changed_bytes_never_panic() {
    let folder = Folder::new();
    for (name, content, options) in samples() {
        for at in 0..content.len() {
            let mut changed = content.clone();
            changed[at] ^= [0xff, 0x01, 0x80][at % 3];
            let place = folder.write(&name, &changed);
            if let Ok(mut source) = open(&place, &options) {
                // Accepted or not, reading ends without a panic. A sparse row may have any
                // dimension.
                while matches!(source.next_validated(&mut vmfkit::RowBatch::default()), Ok(Some(_))) {}
            }
        }
    }
}
