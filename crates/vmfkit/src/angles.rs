//! [`Angles`]: converts between angles and unit vectors in two and three dimensions. MATH.md,
//! "Angles".
//!
//! | name | unit vector | range of returned angles |
//! |---|---|---|
//! | `lat,lon` | x = cos lat cos lon, y = cos lat sin lon, z = sin lat | lat -90..90, lon -180..180 |
//! | `ra,dec` | x = cos dec cos ra, y = cos dec sin ra, z = sin dec | ra 0..360, dec -90..90 |
//! | `dec,inc` | x = cos inc cos dec (north), y = cos inc sin dec (east), z = sin inc (down) | dec 0..360, inc -90..90 |
//! | `trend,plunge` | the same as `dec,inc` | trend 0..360, plunge -90..90 |
//! | `theta,phi` | x = sin theta cos phi, y = sin theta sin phi, z = cos theta (theta is the colatitude, as in physics) | theta 0..180, phi 0..360 |
//! | `angle` | x = cos angle, y = sin angle | 0..360 |
//!
//! The order of the names is the order of the numbers: `lon,lat` has the longitude first. Angles
//! are in degrees unless the name says otherwise: `lat,lon,radians`.

pub use crate::error::ANGLE_SYSTEMS as SYSTEMS;
use crate::error::{Error, Result};
use std::f64::consts::{FRAC_PI_2, PI, TAU};
use std::fmt;
use std::str::FromStr;

/// A system of angles for directions in two or three dimensions, with the order and the unit of the
/// angles.
///
/// ```
/// use vmfkit::angles::Angles;
/// let angles: Angles = "lat,lon".parse()?;
/// // Quito, and the north pole.
/// let rows = angles.unit_vectors(&[-0.22, -78.51, 90.0, 12.0])?;
/// assert_eq!(rows[3..], [0.0, 0.0, 1.0]);
/// assert_eq!(angles.of_vectors(&rows[3..])?, [90.0, 0.0]);
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Angles {
    system: System,
    /// Whether the second angle of the system comes first.
    swapped: bool,
    radians: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum System {
    LatLon,
    RaDec,
    DecInc,
    TrendPlunge,
    ThetaPhi,
    Angle,
}

/// One of the angles of a system.
#[derive(Debug)]
struct Kind {
    /// The name in the name of a system.
    name: &'static str,
    /// Other names that columns may have.
    aliases: &'static [&'static str],
    /// The name in error messages.
    long: &'static str,
    role: Role,
}

/// What an angle measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The angle from the equator, at most a right angle.
    Elevation,
    /// The angle from the pole, at most two right angles.
    Colatitude,
    /// The angle around the axis; returned in -180..180 if `signed`, otherwise in 0..360.
    Azimuth { signed: bool },
}

const fn kind(name: &'static str, aliases: &'static [&'static str], long: &'static str, role: Role) -> Kind {
    Kind { name, aliases, long, role }
}

const AROUND: Role = Role::Azimuth { signed: false };
const LAT: Kind = kind("lat", &["latitude"], "latitude", Role::Elevation);
const LON: Kind = kind("lon", &["long", "lng", "longitude"], "longitude", Role::Azimuth { signed: true });
const RA: Kind = kind("ra", &["right_ascension", "rightascension", "raj2000"], "right ascension", AROUND);
const CELESTIAL_DEC: Kind = kind("dec", &["decl", "declination", "de", "dej2000"], "declination", Role::Elevation);
const DEC: Kind = kind("dec", &["decl", "declination"], "declination", AROUND);
const INC: Kind = kind("inc", &["incl", "inclination"], "inclination", Role::Elevation);
const TREND: Kind = kind("trend", &[], "trend", AROUND);
const PLUNGE: Kind = kind("plunge", &[], "plunge", Role::Elevation);
const THETA: Kind = kind("theta", &["colatitude", "colat"], "colatitude theta", Role::Colatitude);
const PHI: Kind = kind("phi", &["azimuth"], "azimuth phi", AROUND);
const ANGLE: Kind = kind("angle", &["azimuth", "bearing", "direction", "heading", "theta", "phi"], "angle", AROUND);

impl System {
    const ALL: [Self; 6] = [Self::LatLon, Self::RaDec, Self::DecInc, Self::TrendPlunge, Self::ThetaPhi, Self::Angle];

    fn kinds(self) -> &'static [Kind] {
        match self {
            System::LatLon => &[LAT, LON],
            System::RaDec => &[RA, CELESTIAL_DEC],
            System::DecInc => &[DEC, INC],
            System::TrendPlunge => &[TREND, PLUNGE],
            System::ThetaPhi => &[THETA, PHI],
            System::Angle => &[ANGLE],
        }
    }
}

/// Words in the name of a column that specify its unit.
const DEGREES: [&str; 3] = ["deg", "degree", "degrees"];
const RADIANS: [&str; 3] = ["rad", "radian", "radians"];

/// An angle may exceed its bound by this fraction of a right angle, the rounding of single
/// precision.
const ROUNDING: f64 = f32::EPSILON as f64;

impl Angles {
    /// Sets the unit: radians, or degrees if `radians` is false.
    pub fn in_radians(mut self, radians: bool) -> Self {
        self.radians = radians;
        self
    }

    /// Whether the unit is radians; otherwise it is degrees.
    pub fn is_in_radians(self) -> bool {
        self.radians
    }

    /// The dimension of the unit vectors: 2 for one angle, 3 for two.
    pub fn dim(self) -> usize {
        1 + self.count()
    }

    /// The number of angles per direction: 1 on the circle, 2 on the sphere.
    pub fn count(self) -> usize {
        self.system.kinds().len()
    }

    /// The names of the angles, in order.
    pub fn names(self) -> Vec<&'static str> {
        self.kinds().map(|kind| kind.name).collect()
    }

    fn kinds(self) -> impl Iterator<Item = &'static Kind> {
        (0..self.count()).map(move |index| &self.system.kinds()[self.index_in_system(index)])
    }

    fn index_in_system(self, index: usize) -> usize {
        if self.swapped { 1 - index } else { index }
    }

    /// Finds the columns with these angles by their names, in the order of the angles.
    ///
    /// Latitudes are in a column named `lat`, `Latitude` or `lat_deg`, for example. Returns `None`
    /// unless exactly one column matches each angle.
    ///
    /// ```
    /// # use vmfkit::angles::Angles;
    /// let angles: Angles = "dec,inc".parse()?;
    /// assert_eq!(angles.find_columns(&["site", "incl_deg", "Decl (deg)"])?, Some(vec![2, 1]));
    /// assert_eq!(angles.find_columns(&["x", "y", "z"])?, None);
    /// # Ok::<(), vmfkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::AngleUnit`] if the name of a matching column specifies the other unit.
    pub fn find_columns<S: AsRef<str>>(self, columns: &[S]) -> Result<Option<Vec<usize>>> {
        let mut found = Vec::with_capacity(self.count());
        for kind in self.kinds() {
            let matches = |column: &S| kind.is_called(&plain_name(column.as_ref()).0);
            let mut indices = (0..columns.len()).filter(|&index| matches(&columns[index]));
            match (indices.next(), indices.next()) {
                (Some(only), None) => found.push(only),
                _ => return Ok(None),
            }
        }
        for &index in &found {
            let column = columns[index].as_ref();
            if plain_name(column).1.is_some_and(|radians| radians != self.radians) {
                let instead = self.in_radians(!self.radians).to_string();
                return Err(Error::AngleUnit { column: column.to_owned(), unit: self.unit(), instead });
            }
        }
        Ok(Some(found))
    }

    /// Guesses the system of angles from the names of columns, for hints about rows that do not
    /// have unit length.
    pub fn guess<S: AsRef<str>>(columns: &[S]) -> Option<Self> {
        let radians = columns.iter().any(|column| plain_name(column.as_ref()).1 == Some(true));
        // The names of a single angle are common words, so they count only if there is one column.
        let systems = System::ALL.into_iter().filter(|system| *system != System::Angle || columns.len() == 1);
        let found = |system| {
            let angles = Angles { system, swapped: false, radians };
            let indices = angles.find_columns(columns).ok().flatten()?;
            Some(Angles { swapped: indices.len() == 2 && indices[0] > indices[1], ..angles })
        };
        systems.into_iter().find_map(found)
    }

    fn unit(self) -> &'static str {
        if self.radians { "radians" } else { "degrees" }
    }

    /// Converts angles, row by row, to unit vectors, MATH.md (A.1).
    ///
    /// In degrees the result is exact at the poles and at multiples of a right angle.
    ///
    /// # Errors
    /// [`Error::PartialRow`]; [`Error::NotFinite`]; [`Error::Angle`] for latitudes, inclinations
    /// and the like past a pole. Angles around the axis may be of any size.
    pub fn unit_vectors(self, angles: &[f64]) -> Result<Vec<f64>> {
        let count = self.count();
        if !angles.len().is_multiple_of(count) {
            return Err(Error::PartialRow { values: angles.len(), dim: count });
        }
        let mut vectors = Vec::with_capacity(angles.len() / count * self.dim());
        for (row, angles) in angles.chunks_exact(count).enumerate() {
            self.check(row, angles)?;
            let around = self.sin_cos(angles[self.azimuth()]);
            if count == 1 {
                vectors.extend([around.1, around.0]);
                continue;
            }
            let index = 1 - self.azimuth();
            let (mut z, mut from_axis) = self.sin_cos(angles[index]);
            if self.role(index) == Role::Colatitude {
                std::mem::swap(&mut z, &mut from_axis);
            }
            vectors.extend([from_axis * around.1, from_axis * around.0, z]);
        }
        // Replaces -0 by 0.
        vectors.iter_mut().for_each(|x| *x += 0.0);
        Ok(vectors)
    }

    /// Converts vectors of any length, row by row, to angles, MATH.md (A.1).
    ///
    /// At a pole the angle around the axis is 0.
    ///
    /// # Errors
    /// [`Error::PartialRow`]; [`Error::NotFinite`]; [`Error::ZeroRow`].
    pub fn of_vectors(self, vectors: &[f64]) -> Result<Vec<f64>> {
        let dim = self.dim();
        if !vectors.len().is_multiple_of(dim) {
            return Err(Error::PartialRow { values: vectors.len(), dim });
        }
        let mut angles = vec![0.0; vectors.len() / dim * self.count()];
        for (row, (vector, angles)) in vectors.chunks_exact(dim).zip(angles.chunks_exact_mut(self.count())).enumerate() {
            if let Some(column) = vector.iter().position(|x| !x.is_finite()) {
                return Err(Error::NotFinite { row, column, value: vector[column] });
            }
            if vector.iter().all(|x| *x == 0.0) {
                return Err(Error::ZeroRow { row });
            }
            let (x, y) = (vector[0], vector[1]);
            let around = if x == 0.0 && y == 0.0 { 0.0 } else { y.atan2(x) };
            let azimuth = self.azimuth();
            angles[azimuth] = self.normalized(around, self.role(azimuth) == Role::Azimuth { signed: true });
            if dim == 3 {
                // asin and acos would lose half of the digits near a pole.
                let (z, from_axis) = (vector[2], x.hypot(y));
                let index = 1 - azimuth;
                let angle = if self.role(index) == Role::Colatitude { from_axis.atan2(z) } else { z.atan2(from_axis) };
                angles[index] = self.of_radians(angle) + 0.0;
            }
        }
        Ok(angles)
    }

    /// The index of the angle around the axis.
    fn azimuth(self) -> usize {
        (0..self.count()).position(|index| matches!(self.role(index), Role::Azimuth { .. })).expect("each system has one")
    }

    fn role(self, index: usize) -> Role {
        self.system.kinds()[self.index_in_system(index)].role
    }

    fn check(self, row: usize, angles: &[f64]) -> Result<()> {
        for (index, (kind, &value)) in self.kinds().zip(angles).enumerate() {
            if !value.is_finite() {
                return Err(Error::NotFinite { row, column: index, value });
            }
            let right = if self.radians { FRAC_PI_2 } else { 90.0 };
            let (least, most) = match kind.role {
                Role::Elevation => (-right, right),
                Role::Colatitude => (0.0, 2.0 * right),
                Role::Azimuth { .. } => continue,
            };
            let slack = ROUNDING * right;
            if value < least - slack || value > most + slack {
                return Err(Error::Angle { row, angle: kind.long, least, most, unit: self.unit(), value });
            }
        }
        Ok(())
    }

    fn sin_cos(self, angle: f64) -> (f64, f64) {
        if self.radians { angle.sin_cos() } else { sin_cos_of_degrees(angle) }
    }

    fn of_radians(self, angle: f64) -> f64 {
        if self.radians { angle } else { angle.to_degrees() }
    }

    /// Converts an angle of -pi to pi radians to the unit and range of an angle around the axis.
    fn normalized(self, angle: f64, signed: bool) -> f64 {
        let circle = if self.radians { TAU } else { 360.0 };
        let angle = if angle == -PI { PI } else { angle };
        let angle = self.of_radians(angle);
        // Adding a circle to a tiny negative angle may round to a whole circle.
        let normalized = if signed || angle >= 0.0 { angle } else { angle + circle };
        if normalized >= circle { 0.0 } else { normalized + 0.0 }
    }
}

/// Exact at multiples of 90: only the conversion of -45..45 to radians rounds.
fn sin_cos_of_degrees(angle: f64) -> (f64, f64) {
    let reduced = angle % 360.0;
    let quarters = (reduced / 90.0).round();
    let (sin, cos) = (reduced - 90.0 * quarters).to_radians().sin_cos();
    match (quarters as i32).rem_euclid(4) {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

impl Kind {
    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// The name of a column in lower case without words for units, and whether its unit is radians, if
/// the name specifies a unit.
fn plain_name(column: &str) -> (String, Option<bool>) {
    let column = column.to_lowercase().replace('°', " deg ");
    let (mut words, mut radians) = (Vec::new(), None);
    for word in column.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        if DEGREES.contains(&word) {
            radians = Some(false);
        } else if RADIANS.contains(&word) {
            radians = Some(true);
        } else {
            words.push(word);
        }
    }
    (words.join("_"), radians)
}

/// As in `lat,lon` or `lat,lon,radians`.
impl fmt::Display for Angles {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}{}", self.names().join(","), if self.radians { ",radians" } else { "" })
    }
}

impl FromStr for Angles {
    type Err = Error;

    /// Parses the output of `Display`, also with `,degrees` at the end and with the aliases that
    /// columns may have.
    fn from_str(text: &str) -> Result<Self> {
        let words: Vec<String> = text.split(',').map(|word| plain_name(word).0).collect();
        let unit = text.split(',').next_back().map(str::trim).and_then(|last| match last.to_lowercase() {
            last if DEGREES.contains(&&*last) => Some(false),
            last if RADIANS.contains(&&*last) => Some(true),
            _ => None,
        });
        let words = &words[..words.len() - usize::from(unit.is_some())];
        let fits = |system: System, swapped: bool| {
            let angles = Angles { system, swapped, radians: unit == Some(true) };
            let fits = angles.count() == words.len() && angles.kinds().zip(words).all(|(kind, word)| kind.is_called(word));
            fits.then_some(angles)
        };
        let systems = System::ALL.into_iter();
        let found = systems.flat_map(|system| [false, true].map(|swapped| (system, swapped)));
        let mut found = found.filter(|(system, swapped)| !swapped || system.kinds().len() == 2);
        found.find_map(|(system, swapped)| fits(system, swapped)).ok_or_else(|| Error::UnknownAngles { found: text.to_owned() })
    }
}
