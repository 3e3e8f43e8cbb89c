//! Rows that files store as angles.

use crate::{Folder, names, read, refused};
use vmfkit::Angles;
use vmfkit::rows::Rows;
use vmfkit::source::Source;
use vmfkit_io::{
    Batch, Column, ColumnData, ColumnKind, Destination, Element, Ids, Options, OutputFormat, RowLayout, RowWriter, TableWriter,
    open, read_ids,
};

fn angles(text: &str) -> Options {
    Options::new().angles(Some(text.parse().unwrap()))
}

/// The four points in all files of these tests: latitudes and longitudes.
const POINTS: [f64; 8] = [0.0, 0.0, 0.0, 90.0, 90.0, 7.0, -30.0, 180.0];

fn is_points(rows: &[Vec<f64>]) -> bool {
    let half = 0.75f64.sqrt();
    let expected = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [-half, 0.0, -0.5]];
    rows.len() == 4 && rows.iter().flatten().zip(expected.iter().flatten()).all(|(x, y)| (x - y).abs() < 1e-15)
}

#[test]
fn columns_are_found_by_their_names_in_any_order_beside_others() {
    let folder = Folder::new();
    for (name, text) in [
        ("x.csv", "lat,lon\n0,0\n0,90\n90,7\n-30,180\n"),
        ("named.csv", "site,Longitude (deg),Latitude (deg)\na,0,0\nb,90,0\nc,7,90\nd,180,-30\n"),
        ("bare.csv", "0,0\n0,90\n90,7\n-30,180\n"),
        ("other.csv", "a,b\n0,0\n0,90\n90,7\n-30,180\n"),
        ("x.tsv", "w\tlat_deg\tlon_deg\n1\t0\t0\n1\t0\t90\n1\t90\t7\n1\t-30\t180\n"),
        ("arrays.jsonl", "[0,0]\n[0,90]\n[90,7]\n[-30,180]\n"),
        (
            "x.jsonl",
            "{\"lon\":0,\"lat\":0}\n{\"lat\":0,\"lon\":90}\n{\"lat\":90,\"lon\":7}\n{\"n\":[],\"lat\":-30,\"lon\":180}\n",
        ),
        ("x.mtx", "%%MatrixMarket matrix array real general\n4 2\n0\n0\n90\n-30\n0\n90\n7\n180\n"),
    ] {
        let place = folder.write(name, text);
        let all = read(&place, &angles("lat,lon").block_rows(3));
        assert!(is_points(&all.rows), "{name}: {:?}", all.rows);
        let source = open(&place, &angles("lat,lon")).unwrap();
        assert_eq!((source.dim(), source.element(), source.rescaled()), (3, Element::F64, None), "{name}");
    }
    let swapped = folder.write("swapped.csv", "n,e\n0,0\n0,90\n90,7\n-30,180\n");
    assert!(is_points(&read(&swapped, &angles("lat,lon").columns(names("n,e"))).rows));
}

#[test]
fn what_is_written_as_angles_is_read_as_angles_in_every_format() {
    let folder = Folder::new();
    let formats = ["csv", "tsv", "jsonl", "npy", "npz", "parquet", "arrow", "safetensors"];
    for extension in formats {
        let path = folder.path(&format!("x.{extension}"));
        let layout = RowLayout::new(2, Element::F64).rows(4).names(names("lat,lon"));
        let format = OutputFormat::of(&path).unwrap();
        let sink: Box<dyn Destination> = Box::new(std::fs::File::create(&path).unwrap());
        let mut writer = RowWriter::new(format, sink, &layout).unwrap();
        writer.write(&Batch { rows: 4, values: Rows::F64(POINTS.to_vec().into()), ..Batch::default() }).unwrap();
        writer.finish().unwrap();
        let all = read(&crate::location(&path), &angles("lat,lon"));
        assert!(is_points(&all.rows), "{extension}: {:?}", all.rows);
    }
}

#[test]
fn one_angle_is_a_column_a_list_or_an_array_of_one_axis() {
    let folder = Folder::new();
    let mut npy = b"\x93NUMPY\x01\x00\x36\x00{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}\n".to_vec();
    let header = npy.len() - 10;
    npy[8..10].copy_from_slice(&(header as u16).to_le_bytes());
    npy.extend([90.0, 180.0].iter().flat_map(|x: &f64| x.to_le_bytes()));
    for (name, content) in [
        ("x.csv", b"90\n180\n".to_vec()),
        ("named.csv", b"n,heading\n1,90\n2,180\n".to_vec()),
        ("x.jsonl", b"[90]\n[180]\n".to_vec()),
        ("objects.jsonl", b"{\"angle\":90}\n{\"angle\":180}\n".to_vec()),
        ("x.npy", npy),
    ] {
        let place = folder.write(name, content);
        assert_eq!(read(&place, &angles("angle")).rows, [[0.0, 1.0], [-1.0, 0.0]], "{name}");
    }
}

#[test]
fn radians_are_read_where_they_are_asked_for_and_a_name_that_says_otherwise_is_an_error() {
    let folder = Folder::new();
    let place = folder.write("x.csv", "lat_rad,lon_rad\n0,1.5707963267948966\n");
    let rows = read(&place, &angles("lat,lon,radians")).rows;
    assert!((rows[0][1] - 1.0).abs() < 1e-15);
    let found = refused(&place, &angles("lat,lon"));
    assert!(found.contains("expected angles in degrees, found column: `lat_rad`"), "{found}");
    assert!(found.contains("hint: use `lat,lon,radians`"), "{found}");
}

#[test]
fn wrong_angles_are_named_with_file_row_and_value() {
    let folder = Folder::new();
    let place = folder.write("x.csv", "lat,lon\n0,0\n1,720\n91,0\n");
    for block_rows in [1, 100] {
        let found = refused(&place, &angles("lat,lon").block_rows(block_rows));
        assert!(found.ends_with("x.csv: row 2: the latitude must be from -90 to 90 degrees, found: `91`"), "{found}");
    }
    let place = folder.write("x.csv", "lat,lon\n0,nan\n");
    assert!(refused(&place, &angles("lat,lon")).ends_with("row 0, column 1 must be a finite number, found: `NaN`"));
    let place = folder.write("x.csv", "a,b,c\n1,2,3\n");
    let found = refused(&place, &angles("lat,lon"));
    assert!(found.contains("the angles `lat,lon` are two numbers a row, found: `3`\nhint: `--columns`"), "{found}");
    let found = refused(&place, &angles("lat,lon").rescale(true));
    assert!(found.contains("angles always give rows of unit length, found with `--angles lat,lon`: `--rescale`"), "{found}");
}

#[test]
fn columns_that_look_like_angles_get_a_hint_to_read_them_so() {
    let folder = Folder::new();
    for (text, hint) in [
        ("lat_deg,lon_deg\n-26.4,324\n", "hint: the columns look like angles, which `--angles lat,lon` reads"),
        ("decl,incl,x,y,z\n30,10,0,1,0\n", "hint: the columns look like angles, which `--angles dec,inc` reads"),
        ("ra,dec\n315,-66\n", "hint: the columns look like angles, which `--angles ra,dec` reads"),
        ("theta_rad,phi_rad\n1,2\n", "hint: the columns look like angles, which `--angles theta,phi,radians` reads"),
        (
            "12,30\n",
            "hint: `--angles lat,lon` (or ra,dec; dec,inc; theta,phi) reads two angles per row; `--rescale` divides each row by its length",
        ),
        ("1,2,3\n", "hint: `--rescale` divides each row by its length"),
        ("angle\n12\n", "the dimension must be at least 2, found: `1`\nhint: `--angles angle` reads one angle per row"),
    ] {
        let found = refused(&folder.write("x.csv", text), &Options::new());
        assert!(found.ends_with(hint), "{text}: {found}");
    }
    let place = folder.write("x.csv", "lon,lat\n324,-26.4\n");
    let source = open(&place, &Options::new().rescale(true)).unwrap();
    assert_eq!(source.seems_angles(), Some("lon,lat".parse::<Angles>().unwrap()));
}

#[test]
fn labels_are_read_whatever_the_other_columns_hold() {
    let folder = Folder::new();
    let texts = ["b", "a", "b"].map(str::to_owned);
    let csv = folder.write("x.csv", "name,label\nx,b\ny,a\nz,b\n");
    let json = folder.write("x.jsonl", "{\"label\":\"b\",\"x\":[1,2]}\n{\"label\":\"a\"}\n{\"label\":\"b\"}\n");
    let mut places = vec![csv, json];
    for extension in ["parquet", "arrow"] {
        let path = folder.path(&format!("x.{extension}"));
        let columns = [Column::new("name", ColumnKind::Text), Column::new("label", ColumnKind::Text)];
        let sink: Box<dyn Destination> = Box::new(std::fs::File::create(&path).unwrap());
        let mut table = TableWriter::new(OutputFormat::of(&path).unwrap(), sink, &columns, None).unwrap();
        table.write(&[ColumnData::Text(&texts), ColumnData::Text(&texts)]).unwrap();
        table.finish().unwrap();
        places.push(crate::location(&path));
    }
    for place in places {
        assert_eq!(read_ids(&[&place], "label", &Options::new()).unwrap(), [Ids::Texts(texts.to_vec())], "{place}");
        let error = read_ids(&[&place], "other", &Options::new()).unwrap_err();
        assert!(format!("{error:?}").contains("other"), "{error:?}");
    }
}
