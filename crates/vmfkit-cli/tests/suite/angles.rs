//! Rows that are angles: read, written, reported.

use crate::Workspace;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number, found: {value}"))
}

/// The pole positions of testdata.
fn poles() -> Workspace {
    let workspace = Workspace::new();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/directional/fle_b1_poles.csv");
    std::fs::copy(path, workspace.path("poles.csv")).expect("the file is part of the repository");
    workspace
}

#[test]
fn the_poles_of_fisher_lewis_and_embleton_are_fitted_from_latitudes_and_longitudes() {
    let workspace = poles();
    let fit = workspace.run("fit poles.csv --angles lat,lon --json").json();
    // An independent program's exact fit to the unit vectors.
    assert!((number(&fit["concentration"]) / 4.318318 - 1.0).abs() < 1e-6, "{fit}");
    for (found, expected) in fit["mean_direction"].as_array().unwrap().iter().zip([0.009711, 0.199658, -0.979818]) {
        assert!((number(found) - expected).abs() < 1e-6, "{fit}");
    }
    let angles = &fit["mean_direction_angles"];
    assert!((number(&angles["lat"]) + 78.4692).abs() < 1e-3 && (number(&angles["lon"]) - 87.2154).abs() < 1e-3, "{angles}");
    assert_eq!(fit["angles"], "lat,lon");
    let text = workspace.run("fit poles.csv --angles lat,lon").success();
    assert!(text.contains("  as angles       lat -78.4692, lon 87.2154 degrees\n"), "{text}");
    assert_eq!(workspace.run("fit poles.csv --angles lat,lon,degrees").success(), text);
}

/// Data set, angles, options, and the mean direction and concentration of an independent program's
/// exact fit.
type Fit = (&'static str, &'static str, &'static str, [f64; 3], f64);

const FITS: [Fit; 6] = [
    ("fle_b1_poles", "lat,lon", "", [0.009711, 0.199658, -0.979818], 4.318318),
    ("fle_b3_cosmic_rays", "ra,dec", "", [-0.295011, 0.034380, -0.954875], 0.832298),
    ("fle_b5_bowen_red_beds", "dec,inc", "", [0.796598, 0.003100, 0.604502], 0.448277),
    ("fle_b6_magnetic_remanence", "dec,inc", "", [0.708513, -0.689457, -0.150526], 1.810924),
    ("geostats_palaeomag", "dec,inc", "", [0.648756, 0.678581, 0.344447], 138.246741),
    // There theta is the longitude, and phi the latitude.
    ("rhea_craters", "lon,lat,radians", "--columns theta,phi", [-0.352262, 0.930549, -0.099949], 0.238164),
];

#[test]
fn classical_data_sets_are_fitted_from_their_angles_as_from_their_unit_vectors() {
    let Some(folder) = std::env::var_os("VMFKIT_DATA").map(|data| PathBuf::from(data).join("directional")) else {
        println!("skipped: VMFKIT_DATA is not set");
        return;
    };
    let workspace = Workspace::new();
    for (name, angles, options, direction, concentration) in FITS {
        std::fs::copy(folder.join(format!("{name}.csv")), workspace.path("rows.csv")).expect("the data set is in its folder");
        let fit = workspace.run(&format!("fit rows.csv --angles {angles} {options} --json")).json();
        assert!((number(&fit["concentration"]) / concentration - 1.0).abs() < 1e-5, "{name}: {}", fit["concentration"]);
        for (found, expected) in fit["mean_direction"].as_array().unwrap().iter().zip(direction) {
            assert!((number(found) - expected).abs() < 1e-6, "{name}: {fit}");
        }
        let names = angles.split(',').filter(|name| *name != "radians");
        let given: Vec<String> = names.map(|name| fit["mean_direction_angles"][name].to_string()).collect();
        workspace.write("mean.csv", format!("{}\n", given.join(",")));
        workspace.run(&format!("convert mean.csv --angles {angles} -o back.csv")).success();
        let back = String::from_utf8(workspace.read("back.csv")).unwrap();
        let back: Vec<f64> = back.lines().nth(1).unwrap().split(',').map(|cell| cell.parse().unwrap()).collect();
        assert!(back.iter().zip(direction).all(|(x, y)| (x - y).abs() < 1e-6), "{name}: {back:?}");
    }
}

#[test]
fn angles_get_a_hint_to_read_them_and_dividing_them_by_their_length_a_warning() {
    let workspace = poles();
    let hint = "hint: the columns look like angles, which `--angles lat,lon` reads";
    let run = workspace.run("fit poles.csv");
    assert!(!run.stderr.contains("--rescale"), "{}", run.stderr);
    run.refused(&["row 0 must have length 1", hint]);
    let run = workspace.run("fit poles.csv --rescale");
    assert!(
        run.stderr.contains("the columns look like angles, which `--rescale` does not convert to directions"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("hint: `--angles lat,lon` reads them"), "{}", run.stderr);
    workspace.run("fit poles.csv --angles lat,lon --rescale").refused(&["cannot be used with", "--rescale"]);
    workspace.run("fit poles.csv --angles lat,dec").refused(&["angles must be lat,lon; ra,dec; dec,inc"]);
    workspace.run("fit poles.csv --angles dec,inc --columns lat_deg,nothing").refused(&["no column is called `nothing`"]);
    workspace.write("bad.csv", "lat,lon\n10,20\n100,20\n");
    workspace
        .run("fit bad.csv --angles lat,lon")
        .refused(&["bad.csv: row 1: the latitude must be from -90 to 90 degrees, found: `100`"]);
}

#[test]
fn radians_that_are_read_as_degrees_are_noticed() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 3 --concentration 1 -n 40 --to-angles lat,lon,radians -o x.csv").success();
    let run = workspace.run("fit x.csv --angles lat,lon");
    assert!(run.stderr.contains("x.csv: all angles were read as degrees, and none is larger than 2 pi"), "{}", run.stderr);
    assert_eq!(workspace.run("fit x.csv --angles lat,lon,radians").stderr, "");
    assert_eq!(workspace.run("fit x.csv --angles lat,lon,radians --json").json()["angles"], "lat,lon,radians");
    assert_eq!(poles().run("fit poles.csv --angles lat,lon").stderr, "");
}

#[test]
fn draws_written_as_angles_in_any_format_are_the_draws_themselves() {
    let workspace = Workspace::new();
    let sample = "sample --mean-direction 2,2,1 --concentration 200 -n 300 --seed 4 --dtype f64";
    workspace.run(&format!("{sample} -o unit.csv")).success();
    let expected = workspace.run("fit unit.csv --json").json();
    for file in ["x.csv", "x.tsv", "x.jsonl", "x.npy", "x.npz", "x.parquet", "x.arrow", "x.safetensors"] {
        for angles in ["lat,lon", "inc,dec", "theta,phi,radians"] {
            workspace.run(&format!("{sample} --to-angles {angles} -o {file}")).success();
            let found = workspace.run(&format!("fit {file} --angles {angles} --json")).json();
            let ratio = number(&found["concentration"]) / number(&expected["concentration"]);
            assert!((ratio - 1.0).abs() < 1e-9, "{file} {angles}: {ratio}");
        }
    }
    let text = String::from_utf8(workspace.read("x.csv")).unwrap();
    assert!(text.starts_with("theta,phi\n"), "{text}");
    // A mean direction may be given as angles, too: that of (2, 2, 1).
    workspace
        .run("sample --to-angles dec,inc --mean-direction 45,19.471220634490695 --concentration 200 -n 300 --seed 4 --dtype f64 -o y.csv")
        .success();
    workspace.run("convert y.csv --angles dec,inc -o back.csv").success();
    let rows = |name: &str| -> Vec<f64> {
        let text = String::from_utf8(workspace.read(name)).unwrap();
        text.lines().skip(1).flat_map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect::<Vec<f64>>()).collect()
    };
    assert!(rows("back.csv").iter().zip(rows("unit.csv")).all(|(x, y)| (x - y).abs() < 1e-12));
    workspace
        .run("sample --dim 4 --concentration 1 -n 3 --to-angles lat,lon -o z.csv")
        .refused(&["directions in dimension 3, found: `4`"]);
}

#[test]
fn rows_are_converted_between_systems_of_angles() {
    let workspace = poles();
    workspace.run("convert poles.csv --angles lat,lon --to-angles theta,phi,radians -o polar.csv").success();
    workspace.run("convert polar.csv --angles theta,phi,radians --to-angles lat,lon -o back.csv").success();
    let rows = |name: &str| -> Vec<Vec<f64>> {
        let text = String::from_utf8(workspace.read(name)).unwrap();
        text.lines().skip(1).map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect()).collect()
    };
    for (before, after) in rows("poles.csv").iter().zip(rows("back.csv")) {
        let turned = (before[1] - after[1]).rem_euclid(360.0);
        assert!((before[0] - after[0]).abs() < 1e-12 && turned.min(360.0 - turned) < 1e-11, "{before:?} {after:?}");
    }
    workspace.write("zero.csv", "1,0,0\n0,0,0\n");
    workspace.run("convert zero.csv --to-angles lat,lon -o x.csv").refused(&["zero.csv: row 1 has no direction"]);
    workspace
        .run("convert poles.csv --to-angles lat,lon -o x.csv")
        .refused(&["rows must have 3 numbers to be written as `lat,lon`, found: `2`"]);
}

#[test]
fn one_angle_is_a_direction_of_the_circle() {
    let workspace = Workspace::new();
    workspace.run("sample --mean-direction 0,-1 --concentration 50 -n 400 --to-angles angle -o x.csv").success();
    let fit = workspace.run("fit x.csv --angles angle --json").json();
    assert!((number(&fit["mean_direction_angles"]["angle"]) - 270.0).abs() < 2.0, "{fit}");
    assert_eq!(fit["dim"], 2);
    workspace
        .run("fit x.csv")
        .refused(&["the dimension must be at least 2, found: `1`", "hint: `--angles angle` reads one angle per row"]);
    workspace.run("convert x.csv --angles angle x.npy").success();
    workspace.run("convert x.npy --to-angles angle y.npy").success();
    let again = workspace.run("fit y.npy --angles angle --json").json();
    assert!((number(&again["concentration"]) / number(&fit["concentration"]) - 1.0).abs() < 1e-5);
}

#[test]
fn a_mixture_of_angles_shows_and_stores_them() {
    let workspace = poles();
    let fit = workspace.run("fit poles.csv --angles lat,lon -k 2 --policy shared -o m.safetensors").success();
    let inspected = workspace.run("inspect m.safetensors").success();
    for text in [&fit, &inspected] {
        let header = text.lines().find(|line| line.starts_with("component ")).expect("a table");
        assert!(header.ends_with("mean direction") && header.contains(" lat ") && header.contains(" lon "), "{text}");
        assert!(text.contains("lat, lon: the mean direction as angles, in degrees\n"), "{text}");
    }
    assert!(inspected.contains("angles                  lat,lon\n"), "{inspected}");
    let model = workspace.run("inspect m.safetensors --json").json();
    assert_eq!(model["angles"], "lat,lon");
    for component in model["components"].as_array().unwrap() {
        let direction: Vec<f64> = component["mean_direction"].as_array().unwrap().iter().map(number).collect();
        let lat = number(&component["mean_direction_angles"]["lat"]).to_radians();
        assert!((lat.sin() - direction[2]).abs() < 1e-12, "{component}");
    }
    for command in ["score m.safetensors poles.csv", "assign m.safetensors poles.csv -o labels.csv"] {
        workspace.run(command).refused(&["hint: the model was fitted with `--angles lat,lon`"]);
        workspace.run(&format!("{command} --angles lat,lon")).success();
    }
    let selected = workspace.run("select poles.csv --angles lat,lon -k 1:2 -o m.safetensors --json").json();
    assert_eq!((&selected["dim"], selected["candidates"].as_array().unwrap().len()), (&3.into(), 2));
}

#[test]
fn mean_directions_are_printed_and_elided_beyond_six_coordinates() {
    let workspace = Workspace::new();
    workspace.run("sample --mean-direction 2,2,1 --concentration 900 -n 200 -o x.npy").success();
    workspace.run("sample --dim 10 --concentration 900 -n 200 -o wide.npy").success();
    let three = workspace.run("fit x.npy -k 1 -o m.safetensors").success();
    let line = three.lines().find(|line| line.starts_with("0 ")).expect("a component");
    let cells: Vec<f64> = line.split_whitespace().rev().take(3).map(|cell| cell.parse().unwrap()).collect();
    assert!((cells[0] - 1.0 / 3.0).abs() < 0.01 && (cells[2] - 2.0 / 3.0).abs() < 0.01, "{three}");
    assert!(workspace.run("inspect m.safetensors").success().contains(line), "{three}");
    let wide = workspace.run("fit wide.npy -k 1").success();
    assert!(wide.lines().any(|line| line.starts_with("0 ") && line.ends_with(" ...")), "{wide}");
    assert!(wide.contains("mean direction: the first 6 of 10 coordinates (all of them with --json)\n"), "{wide}");
}
