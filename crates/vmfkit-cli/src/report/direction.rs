//! Directions as coordinates and as angles.

use serde_json::Value;
use vmfkit::Angles;

/// The number of coordinates that are printed; --json has all of them.
pub const COORDINATES_SHOWN: usize = 6;

/// The first coordinates, each at least `width` characters wide.
pub fn coordinates(direction: &[f64], width: usize) -> String {
    let shown: Vec<String> = direction.iter().take(COORDINATES_SHOWN).map(|&x| format!("{x:width$.6}")).collect();
    shown.join(" ") + if direction.len() > COORDINATES_SHOWN { " ..." } else { "" }
}

/// The angles of a direction, each with its name.
fn named(angles: Angles, direction: &[f64]) -> impl Iterator<Item = (&'static str, f64)> {
    let values = angles.of_vectors(direction).expect("a mean direction has a length");
    angles.names().into_iter().zip(values)
}

/// The angles as cells of a table: four decimals for degrees, six for radians.
pub fn cells(angles: Angles, direction: &[f64]) -> Vec<String> {
    let decimals = if angles.is_in_radians() { 6 } else { 4 };
    named(angles, direction).map(|(_, value)| format!("{value:.decimals$}")).collect()
}

/// `lat 12.3456, lon 78.9012 degrees`.
pub fn text(angles: Angles, direction: &[f64]) -> String {
    let cells = cells(angles, direction);
    let parts: Vec<String> = angles.names().iter().zip(cells).map(|(name, cell)| format!("{name} {cell}")).collect();
    format!("{} {}", parts.join(", "), unit(angles))
}

pub fn unit(angles: Angles) -> &'static str {
    if angles.is_in_radians() { "radians" } else { "degrees" }
}

/// The angles by name; null without angles.
pub fn to_json(angles: Option<Angles>, direction: &[f64]) -> Value {
    angles.map_or(Value::Null, |angles| {
        named(angles, direction).map(|(name, value)| (name.to_owned(), Value::from(value))).collect()
    })
}
