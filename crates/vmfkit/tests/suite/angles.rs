//! Conversion of angles to unit vectors and back.

use vmfkit::{Angles, Error, Sampler, VonMisesFisher};

const ON_THE_SPHERE: [&str; 5] = ["lat,lon", "ra,dec", "dec,inc", "trend,plunge", "theta,phi"];

fn angles(text: &str) -> Angles {
    text.parse().unwrap()
}

/// Uniform draws, and rows within 1e-9 of the axes.
fn rows(dim: usize) -> Vec<f64> {
    let mut rows = vec![0.0; 2000 * dim];
    Sampler::new(&VonMisesFisher::uniform(dim).unwrap()).fill(7, 0, &mut rows).unwrap();
    for axis in 0..dim {
        for sign in [1.0, -1.0] {
            let mut direction = vec![0.0; dim];
            direction[axis] = sign;
            let mut near = vec![0.0; 200 * dim];
            Sampler::new(&VonMisesFisher::new(direction, 1e18).unwrap()).fill(8, 0, &mut near).unwrap();
            rows.extend(near);
        }
    }
    rows
}

#[test]
fn conversions_round_trip_in_every_order_and_unit() {
    let swapped = ["lon,lat", "dec,ra", "inc,dec", "plunge,trend", "phi,theta"];
    for (text, dim) in ON_THE_SPHERE.into_iter().chain(swapped).map(|text| (text, 3)).chain([("angle", 2)]) {
        for unit in ["", ",degrees", ",radians"] {
            let angles = angles(&format!("{text}{unit}"));
            let rows = rows(dim);
            let back = angles.unit_vectors(&angles.of_vectors(&rows).unwrap()).unwrap();
            let worst = rows.iter().zip(&back).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
            assert!(worst < 1e-15, "{text}{unit}: {worst:e}");
        }
    }
}

#[test]
fn small_angles_from_a_pole_are_accurate() {
    let colatitude = angles("theta,phi,radians");
    for theta in [1e-300, 1e-20, 1e-9, 1e-3] {
        let back = colatitude.of_vectors(&colatitude.unit_vectors(&[theta, 2.0]).unwrap()).unwrap();
        assert!((back[0] / theta - 1.0).abs() < 1e-15 && (back[1] - 2.0).abs() < 1e-15, "{theta:e}: {back:?}");
    }
}

#[test]
fn conventions_are_as_documented() {
    // An elevation of 30 degrees and an azimuth of 90 degrees are the same point in all systems
    // that measure from the equator.
    for (text, row) in [("lat,lon", [30.0, 90.0]), ("lon,lat", [90.0, 30.0]), ("ra,dec", [90.0, 30.0]), ("dec,inc", [90.0, 30.0])]
    {
        let vector = angles(text).unit_vectors(&row).unwrap();
        assert!(
            (vector[1] - 0.75f64.sqrt()).abs() < 1e-15 && (vector[2] - 0.5).abs() < 1e-15 && vector[0] == 0.0,
            "{text}: {vector:?}"
        );
    }
    let vector = angles("theta,phi").unit_vectors(&[60.0, 90.0]).unwrap();
    assert!((vector[1] - 0.75f64.sqrt()).abs() < 1e-15 && (vector[2] - 0.5).abs() < 1e-15, "{vector:?}");
    assert_eq!(angles("angle").unit_vectors(&[90.0, 180.0, -90.0]).unwrap(), [0.0, 1.0, -1.0, 0.0, 0.0, -1.0]);
}

#[test]
fn poles_and_right_angles_are_exact_in_degrees() {
    let geographic = angles("lat,lon");
    assert_eq!(geographic.unit_vectors(&[90.0, 33.3, -90.0, -12.0]).unwrap(), [0.0, 0.0, 1.0, 0.0, 0.0, -1.0]);
    for turns in [0.0, 360.0, -720.0, 3.6e15] {
        assert_eq!(geographic.unit_vectors(&[0.0, 90.0 + turns, 0.0, 180.0 + turns]).unwrap(), [0.0, 1.0, 0.0, -1.0, 0.0, 0.0]);
    }
    assert_eq!(geographic.of_vectors(&[0.0, -0.0, 1.0, -1.0, -0.0, 0.0]).unwrap(), [90.0, 0.0, 0.0, 180.0]);
    assert_eq!(angles("dec,inc").of_vectors(&[1.0, -1e-300, 0.0, 0.0, -1.0, 0.0]).unwrap(), [0.0, 0.0, 270.0, 0.0]);
    assert_eq!(angles("theta,phi").of_vectors(&[0.0, 0.0, -5.0]).unwrap(), [180.0, 0.0]);
}

#[test]
fn errors_name_the_row_and_the_angle() {
    let refused = |text: &str, row: [f64; 4]| angles(text).unit_vectors(&row).unwrap_err().to_string();
    assert_eq!(refused("lat,lon", [10.0, 999.0, 90.5, 0.0]), "row 1: the latitude must be from -90 to 90 degrees, found: `90.5`");
    assert_eq!(
        refused("dec,inc", [10.0, -91.0, 0.0, 0.0]),
        "row 0: the inclination must be from -90 to 90 degrees, found: `-91`"
    );
    assert_eq!(
        refused("theta,phi", [-1.0, 0.0, 0.0, 0.0]),
        "row 0: the colatitude theta must be from 0 to 180 degrees, found: `-1`"
    );
    assert_eq!(
        refused("lat,lon,radians", [0.0, 0.0, 1.6, 0.0]),
        "row 1: the latitude must be from -1.5707963267948966 to 1.5707963267948966 radians, found: `1.6`"
    );
    assert_eq!(refused("lon,lat", [0.0, 0.0, f64::NAN, 0.0]), "row 1, column 0 must be a finite number, found: `NaN`");
    assert!(matches!(angles("lat,lon").unit_vectors(&[0.0; 3]), Err(Error::PartialRow { values: 3, dim: 2 })));
    assert!(matches!(angles("lat,lon").of_vectors(&[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]), Err(Error::ZeroRow { row: 1 })));
    // The pole in single precision.
    assert!(angles("lat,lon,radians").unit_vectors(&[f64::from(std::f32::consts::FRAC_PI_2), 0.0]).is_ok());
}

#[test]
fn names_round_trip() {
    for text in ON_THE_SPHERE.into_iter().chain(["lon,lat", "inc,dec", "lat,lon,radians", "angle", "angle,radians"]) {
        assert_eq!(angles(text).to_string(), text);
    }
    assert_eq!(angles("Latitude, Longitude, degrees"), angles("lat,lon"));
    assert_eq!(angles("declination,inclination"), angles("dec,inc"));
    assert_eq!(
        "lat,dec".parse::<Angles>().unwrap_err().to_string(),
        "angles must be lat,lon; ra,dec; dec,inc; trend,plunge; theta,phi; or angle, found: `lat,dec`"
    );
    assert!("".parse::<Angles>().is_err() && "lat".parse::<Angles>().is_err() && "degrees".parse::<Angles>().is_err());
}

#[test]
fn columns_are_found_by_name_and_unit() {
    let found = |text: &str, columns: &[&str]| angles(text).find_columns(columns).unwrap();
    assert_eq!(found("lat,lon", &["lat_deg", "lon_deg", "x", "y", "z"]), Some(vec![0, 1]));
    assert_eq!(found("lat,lon", &["Longitude (°)", "id", "Latitude (°)"]), Some(vec![2, 0]));
    assert_eq!(found("ra,dec", &["right_ascension_deg", "declination_deg"]), Some(vec![0, 1]));
    assert_eq!(found("lat,lon", &["lat", "latitude", "lon"]), None);
    let error = angles("lat,lon").find_columns(&["lat_rad", "lon_rad"]).unwrap_err();
    assert!(error.to_string().contains("`lat_rad`\nhint: use `lat,lon,radians`, or choose the columns by name"), "{error}");
    assert_eq!(found("lat,lon,radians", &["lat_rad", "lon_rad"]), Some(vec![0, 1]));
    let guessed = |columns: &[&str]| Angles::guess(columns).map(|angles| angles.to_string());
    assert_eq!(guessed(&["lon", "lat"]).as_deref(), Some("lon,lat"));
    assert_eq!(guessed(&["decl_deg", "incl_deg", "x", "y", "z"]).as_deref(), Some("dec,inc"));
    assert_eq!(guessed(&["ra", "dec"]).as_deref(), Some("ra,dec"));
    assert_eq!(guessed(&["theta_rad", "phi_rad"]).as_deref(), Some("theta,phi,radians"));
    assert_eq!(guessed(&["x", "y", "z"]), None);
}
