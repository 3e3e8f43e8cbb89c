//! Reports of a mixture: its components, and the notes and passes of its fit.

use crate::report::direction::{self, COORDINATES_SHOWN};
use crate::report::format::{aligned, escaped, json_number, readable};
use rayon::prelude::*;
use serde_json::{Value, json};
use vmfkit::Mixture;
use vmfkit::store::model::Description;
use vmfkit::train::Pass;
use vmfkit_io::excerpt;

/// The number of components and notes that are printed; --json has all of them.
pub const COMPONENTS_SHOWN: usize = 20;
const NOTES_SHOWN: usize = 10;

/// Characters of a coordinate with its sign.
const SIGNED: usize = 9;

/// The report of a component.
pub struct Line {
    pub component: usize,
    weight: f64,
    concentration: f64,
    pub background: bool,
    /// The half-angle, in degrees, of the cone that contains half of its mass.
    half_within: f64,
    /// The component with the nearest mean direction, and the angle to it.
    nearest: Option<(usize, f64)>,
}

impl Line {
    fn new(mixture: &Mixture, component: usize) -> Self {
        let density = &mixture.components()[component];
        let background = mixture.is_background(component);
        let others = (0..mixture.components().len()).filter(|&k| k != component && !background && !mixture.is_background(k));
        let distance = |k: usize| {
            let pairs = density.mean_direction().iter().zip(mixture.components()[k].mean_direction());
            pairs.map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt()
        };
        let nearest = others.map(|k| (k, distance(k))).min_by(|a, b| a.1.total_cmp(&b.1));
        Line {
            component,
            weight: mixture.weights()[component],
            concentration: density.concentration(),
            background,
            half_within: density.angle_holding(0.5).to_degrees(),
            nearest: nearest.map(|(k, distance)| (k, (2.0 * (0.5 * distance).min(1.0).asin()).to_degrees())),
        }
    }

    /// The component by its number, and by its label if it has one.
    pub fn name(&self, labels: &[String]) -> String {
        name(self.component, self.background, labels)
    }

    fn cells(&self, mixture: &Mixture, description: &Description) -> Vec<String> {
        let (nearest, angle) = self.nearest.map_or(Default::default(), |(k, angle)| (k.to_string(), format!("{angle:.2}")));
        let (weight, half_within) = (format!("{:.6}", self.weight), format!("{:.2}", self.half_within));
        let mut cells = vec![self.name(&description.labels), weight, readable(self.concentration), half_within, nearest, angle];
        if let Some(calibration) = &description.calibration {
            let spread = calibration.spreads.get(self.component).filter(|_| !self.background);
            cells.push(spread.map_or(String::new(), |spread| format!("{spread:.2}")));
        }
        if !self.background {
            let mean = mixture.components()[self.component].mean_direction();
            cells.extend(description.angles.map(|angles| direction::cells(angles, mean)).into_iter().flatten());
            cells.push(direction::coordinates(mean, SIGNED));
        }
        cells
    }

    /// The component as JSON.
    pub fn to_json(&self, mixture: &Mixture, description: &Description) -> Value {
        let mean = mixture.components()[self.component].mean_direction();
        let angles = description.angles.filter(|_| !self.background);
        json!({
            "component": self.component,
            "label": description.labels.get(self.component),
            "weight": self.weight,
            "concentration": self.concentration,
            "spread": description.calibration.as_ref().and_then(|found| found.spreads.get(self.component)),
            "background": self.background,
            "degrees_holding_half": json_number(self.half_within),
            "nearest_component": self.nearest.map(|(k, _)| k),
            "degrees_to_nearest": self.nearest.map(|(_, angle)| angle),
            "mean_direction": mean,
            "mean_direction_angles": direction::to_json(angles, mean),
        })
    }
}

/// All components, the heaviest first.
pub fn lines(mixture: &Mixture) -> Vec<Line> {
    heaviest(mixture, usize::MAX)
}

/// The heaviest components, up to the number that is printed.
pub fn shown(mixture: &Mixture) -> Vec<Line> {
    heaviest(mixture, COMPONENTS_SHOWN)
}

fn heaviest(mixture: &Mixture, most: usize) -> Vec<Line> {
    let mut order: Vec<usize> = (0..mixture.components().len()).collect();
    order.sort_by(|&a, &b| mixture.weights()[b].total_cmp(&mixture.weights()[a]));
    order.truncate(most);
    order.into_par_iter().map(|component| Line::new(mixture, component)).collect()
}

/// The name of a component: its number, and its label if it has one.
pub fn name(component: usize, background: bool, labels: &[String]) -> String {
    match (background, labels.get(component)) {
        (true, _) => format!("{component} (background)"),
        (false, Some(label)) => format!("{component} {}", excerpt(label.as_bytes())),
        (false, None) => component.to_string(),
    }
}

/// The heaviest components as a table.
pub fn table(mixture: &Mixture, description: &Description) -> String {
    let header = ["component", "weight", "concentration", "half within", "nearest", "angle to it"];
    let angles = description.angles.map(|angles| angles.names()).unwrap_or_default();
    let spread = description.calibration.as_ref().map(|_| "spread");
    let header = header.into_iter().chain(spread).chain(angles).chain(["mean direction"]);
    let mut table = vec![header.map(str::to_owned).collect()];
    table.extend(shown(mixture).iter().map(|line| line.cells(mixture, description)));
    let mut text = aligned(&table) + &more(mixture.components().len(), COMPONENTS_SHOWN);
    text.push_str(
        "half within: angle (degrees) that contains half of the component's mass; angle to it: degrees between mean directions\n",
    );
    if description.calibration.is_some() {
        text.push_str("spread: variance of the component's rows along its mean direction, relative to the model's\n");
    }
    if let Some(angles) = description.angles {
        text.push_str(&format!("{}: the mean direction as angles, in {}\n", angles.names().join(", "), direction::unit(angles)));
    }
    if mixture.dim() > COORDINATES_SHOWN {
        let dim = mixture.dim();
        text.push_str(&format!("mean direction: the first {COORDINATES_SHOWN} of {dim} coordinates (all of them with --json)\n"));
    }
    text
}

/// The line for components that are not shown.
pub fn more_components(mixture: &Mixture) -> String {
    more(mixture.components().len(), COMPONENTS_SHOWN)
}

/// The line for items that are not shown; empty if all are.
pub fn more(all: usize, shown: usize) -> String {
    match all.saturating_sub(shown) {
        0 => String::new(),
        more => format!("... and {more} more (all of them with --json)\n"),
    }
}

/// Notes, after an empty line; empty without notes.
pub fn notes(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let lines: String = notes.iter().take(NOTES_SHOWN).map(|note| format!("note: {}\n", escaped(note))).collect();
    format!("\n{lines}{}", more(notes.len(), NOTES_SHOWN))
}

/// A pass as JSON.
pub fn pass_to_json(pass: &Pass) -> Value {
    json!({
        "objective": json_number(pass.objective),
        "smallest_weight": pass.smallest_weight,
        "largest_concentration": pass.largest_concentration,
        "temperature": pass.temperature,
    })
}

/// `1 pass`, `2 passes (and 83 of the search on a sample)`.
pub fn passes(count: usize, of_search: usize) -> String {
    let plural = if count == 1 { "" } else { "es" };
    let search = if of_search > 0 { format!(" (and {of_search} of the search on a sample)") } else { String::new() };
    format!("{count} pass{plural}{search}")
}

/// `1 component`, `2 components and a background`.
pub fn count(components: usize, background: bool) -> String {
    let plural = if components == 1 { "" } else { "s" };
    format!("{components} component{plural}{}", if background { " and a background" } else { "" })
}
