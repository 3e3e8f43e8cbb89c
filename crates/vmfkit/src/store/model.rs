//! Model files: a mixture as versioned [safetensors](https://github.com/huggingface/safetensors),
//! which Python reads without this crate.
//!
//! | tensor (f64) | shape | |
//! |---|---|---|
//! | `weights` | K | of the components, a background last |
//! | `mean_directions` | K x d | unit vectors |
//! | `concentrations` | K | 0 for a background |
//! | `trace` | passes x 4 | objective, smallest weight, largest concentration, temperature of each pass |
//! | `sums` | K x 2 | mass and shortfall (mass - length of the resultant) of each component, if known |
//! | `reliability` | 2 x 15 x 3 | bins of the exact posterior and of calibrated probabilities: fraction of the rows, mean probability, confirmed fraction |
//! | `spreads` | K | the dispersion of each component |
//! | `outlier_points` | n x 2 | score and p-value, overall and then of each component |
//! | `outlier_lengths` | 1 + components without a background | how many points each of these tables has |
//!
//! The metadata are strings: `format` ("vmfkit.mixture"), `version` ("2"), `checksum`, `background`
//! ("true" or "false"), and, if they are known, `method`, `policy`, `estimator`, `seed`, `status`,
//! `rows` and `weight` (the number and the total weight of the rows), `notes` (one per line),
//! `labels` (a JSON list of the label of each component), `calibration`
//! (what the temperature rests on), `temperature`, `calibration_dispersion`, `calibration_rows`,
//! `calibration_copies`, `outlier_rows`, `outlier_rows_held_out`, `angles` (how the rows were written, as
//! in `lat,lon`), `software`, and every other setting of the fit as `setting.` and its name. Other
//! tensors and metadata are ignored. docs/file-format.md lists all.
//!
//! Nothing in a file depends on the clock or on the number of threads, and entries are sorted by
//! name: equal fits give equal files.
//!
//! ```python
//! from safetensors.numpy import load_file
//! model = load_file("model.safetensors")
//! scores = rows @ (model["concentrations"][:, None] * model["mean_directions"]).T   # + ln C_d(k) + ln weight
//! ```

use crate::angles::Angles;
use crate::calibrate::Calibration;
use crate::error::{Error, Result};
use crate::mixture::Mixture;
use crate::outlier::OutlierTable;
use crate::settings::Settings;
use crate::stats::ComponentSum;
pub use crate::tensor_file::LONGEST_HEADER;
use crate::tensor_file::{Contents, File, Kind, excerpt};
use crate::train::{Fit, Pass};

const KIND: Kind = Kind { format: "vmfkit.mixture", version: "2", unchecked: Some("1") };

/// The program that wrote a file.
const SOFTWARE: &str = concat!("vmfkit ", env!("CARGO_PKG_VERSION"));

/// How a mixture was fitted. Unknown fields are empty or 0.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Description {
    /// The name of the [`Method`](crate::Method).
    pub method: String,
    /// The name of the [`ConcentrationPolicy`](crate::ConcentrationPolicy) and its number, as in
    /// `fixed:50`.
    pub policy: String,
    /// The name of the [`ConcentrationEstimator`](crate::ConcentrationEstimator).
    pub estimator: String,
    /// The seed of the fit.
    pub seed: u64,
    /// The name of the [`Status`](crate::train::Status).
    pub status: String,
    /// The number of rows.
    pub rows: u64,
    /// The total weight of the rows.
    pub weight: f64,
    /// The notes of the fit.
    pub notes: Vec<String>,
    /// One entry for each pass, with 0 seconds: equal fits take different times.
    pub trace: Vec<Pass>,
    /// Passes of the search over a sample of the rows, before those of the trace.
    pub search_passes: usize,
    /// All other settings of the fit.
    pub settings: Settings,
    /// The label of each component without a background, if
    /// [labels were known](crate::start::known_labels); else empty.
    pub labels: Vec<String>,
    /// The [angles](Angles) in which the rows were written; `None` if they were unit vectors.
    pub angles: Option<Angles>,
    /// The mass and the shortfall of each component under the last M step, or empty.
    pub sums: Vec<ComponentSum>,
    /// How far probabilities can be trusted.
    pub calibration: Option<Calibration>,
    /// The scores that p-values of rows are computed from.
    pub outlier_table: Option<OutlierTable>,
}

/// Settings with a field of their own.
const FIELDS: [&str; 4] = ["method", "policy", "estimator", "seed"];

impl Description {
    /// The description of a fit.
    pub fn of(fit: &Fit) -> Self {
        let text = |name| fit.settings.get(name).unwrap_or_default().to_owned();
        let mut settings = Settings::default();
        for (name, text) in fit.settings.iter().filter(|(name, _)| !FIELDS.contains(name)) {
            settings.set(name, text);
        }
        Description {
            method: text("method"),
            policy: text("policy"),
            estimator: text("estimator"),
            seed: text("seed").parse().unwrap_or_default(),
            status: fit.status.name().to_owned(),
            rows: fit.rows,
            weight: fit.weight,
            notes: fit.notes.iter().map(ToString::to_string).collect(),
            trace: fit.trace.iter().map(|pass| Pass { seconds: 0.0, ..*pass }).collect(),
            search_passes: fit.search_passes,
            settings,
            labels: Vec::new(),
            angles: None,
            sums: fit.sums.clone(),
            calibration: fit.calibration.clone(),
            outlier_table: fit.outlier_table.clone(),
        }
    }
}

/// The bytes of a model file.
///
/// ```
/// use vmfkit::store::model::{Description, from_bytes, to_bytes};
/// use vmfkit::{Mixture, VonMisesFisher};
/// let mixture = Mixture::new(vec![1.0], vec![VonMisesFisher::new(vec![0.6, 0.8], 10.0)?])?.with_background(0.1)?;
/// let mut description = Description::default();
/// description.method = "by hand".to_owned();
/// let bytes = to_bytes(&mixture, &description);
/// assert_eq!(from_bytes(&bytes)?, (mixture, description));
/// # Ok::<(), vmfkit::Error>(())
/// ```
pub fn to_bytes(mixture: &Mixture, description: &Description) -> Vec<u8> {
    let mut contents = Contents::new(&KIND);
    contents.mixture("", mixture);
    let trace = description.trace.iter().flat_map(Pass::numbers).collect();
    contents.numbers("trace", vec![description.trace.len(), Pass::NUMBERS], trace);
    let Description { method, policy, estimator, seed, status, rows, weight, notes, settings, labels, angles, .. } = description;
    let labels = if labels.is_empty() { String::new() } else { serde_json::json!(labels).to_string() };
    let angles = angles.map_or(String::new(), |angles| angles.to_string());
    let texts =
        [("method", method), ("policy", policy), ("estimator", estimator), ("status", status), ("notes", &notes.join("\n"))];
    let texts = texts.into_iter().chain([("labels", &labels), ("angles", &angles)]);
    texts.filter(|(_, text)| !text.is_empty()).for_each(|(key, text)| contents.text(key, text));
    contents.text("seed", seed.to_string());
    contents.text("rows", rows.to_string());
    contents.text("weight", format!("{weight:?}"));
    if description.search_passes > 0 {
        contents.text("search_passes", description.search_passes.to_string());
    }
    contents.text("software", SOFTWARE);
    settings.iter().for_each(|(name, text)| contents.text(format!("setting.{name}"), text));
    contents.sums("sums", &description.sums);
    description.calibration.iter().for_each(|calibration| calibration.write(&mut contents));
    description.outlier_table.iter().for_each(|table| table.write(&mut contents));
    contents.to_bytes()
}

/// The mixture and its description, exactly. Errors are found without allocating more memory than
/// the bytes fill.
pub fn from_bytes(bytes: &[u8]) -> Result<(Mixture, Description)> {
    let file = File::open(bytes, &KIND, |what| Error::ModelBytes { what })?;
    let mixture = file.mixture("")?;
    let trace = file.numbers("trace", [None, Some(Pass::NUMBERS)])?;
    let components = mixture.components().len();
    let fitted = components - usize::from(mixture.has_background());
    let mut settings = Settings::default();
    for (key, text) in file.texts() {
        if let Some(name) = key.strip_prefix("setting.") {
            settings.set(name, text);
        }
    }
    let description = Description {
        method: file.text("method").to_owned(),
        policy: file.text("policy").to_owned(),
        estimator: file.text("estimator").to_owned(),
        seed: file.parsed("seed")?,
        status: file.text("status").to_owned(),
        rows: file.parsed("rows")?,
        weight: file.parsed("weight")?,
        notes: file.text("notes").lines().map(str::to_owned).collect(),
        trace: trace.chunks_exact(Pass::NUMBERS).map(Pass::of_numbers).collect(),
        search_passes: file.parsed("search_passes")?,
        settings,
        labels: labels(&file, fitted)?,
        sums: file.sums("sums", components)?,
        calibration: Calibration::read(&file, components)?,
        outlier_table: OutlierTable::read(&file, fitted)?,
        angles: match file.text("angles") {
            "" => None,
            text => match text.parse::<Angles>() {
                Ok(angles) if angles.dim() == mixture.dim() => Some(angles),
                _ => return file.wrong(format!("metadata `angles` must be those of its dimension, found: `{}`", excerpt(text))),
            },
        },
    };
    Ok((mixture, description))
}

/// The labels of this number of components, or none.
fn labels(file: &File, components: usize) -> Result<Vec<String>> {
    let text = file.text("labels");
    if text.is_empty() {
        return Ok(Vec::new());
    }
    match serde_json::from_str::<Vec<String>>(text) {
        Ok(labels) if labels.len() == components => Ok(labels),
        Ok(labels) => file
            .wrong(format!("metadata `labels` must have a label for each of {components} components, found: `{}`", labels.len())),
        Err(_) => file.wrong(format!("metadata `labels` must be a JSON list of strings, found: `{}`", excerpt(text))),
    }
}
