//! A mixture as bytes: [safetensors](https://github.com/huggingface/safetensors) with a version, which Python opens without this crate.
//!
//! | tensor (f64) | shape | |
//! |---|---|---|
//! | `weights` | K | of the components, a background last |
//! | `mean_directions` | K x d | unit vectors |
//! | `concentrations` | K | 0 for a background |
//! | `trace` | passes x 4 | objective, smallest weight, largest concentration, temperature of each pass |
//!
//! The metadata are texts: `format` ("vmfkit.mixture"), `version` ("1"), `background` ("true" or "false"), and, where they are known,
//! `method`, `policy`, `estimator`, `seed`, `status`, `weight` (the total weight of the rows) and `notes` (one a line). Tensors and
//! metadata by other names are passed over.
//!
//! Nothing in a file depends on the clock or on the number of threads, and metadata stand in the order of their names: equal fits are
//! equal files. (`safetensors::serialize` writes metadata in an order that chance decides; here the crate only reads.)
//!
//! ```python
//! from safetensors.numpy import load_file
//! model = load_file("model.safetensors")
//! scores = rows @ (model["concentrations"][:, None] * model["mean_directions"]).T   # + ln C_d(k) + ln weight
//! ```

use crate::distribution::VonMisesFisher;
use crate::error::{Error, Result};
use crate::mixture::Mixture;
use crate::train::{Fit, Pass};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Map, Value, json};

const FORMAT: &str = "vmfkit.mixture";
const VERSION: &str = "1";

/// Bytes before the header: its length.
const LENGTH: usize = size_of::<u64>();
/// Bytes a number.
const NUMBER: usize = size_of::<f64>();
/// Numbers a pass of the trace.
const PASS: usize = 4;

/// How a mixture came about. What is not known is empty, or 0.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Description {
    /// The name of the [`Method`](crate::Method).
    pub method: String,
    /// The name of the [`ConcentrationPolicy`](crate::ConcentrationPolicy) and its number, as in `shrunk:1`.
    pub policy: String,
    /// The name of the [`ConcentrationEstimator`](crate::ConcentrationEstimator).
    pub estimator: String,
    /// The seed of the fit.
    pub seed: u64,
    /// The name of the [`Status`](crate::train::Status).
    pub status: String,
    /// The total weight of the rows.
    pub weight: f64,
    /// What a person should know about single components.
    pub notes: Vec<String>,
    /// One entry a pass, each with 0 seconds: equal fits take different times.
    pub trace: Vec<Pass>,
}

impl Description {
    /// What a fit knows of itself: status, weight, notes and trace.
    pub fn of(fit: &Fit) -> Self {
        Description {
            status: fit.status.name().to_owned(),
            weight: fit.weight,
            notes: fit.notes.iter().map(ToString::to_string).collect(),
            trace: fit.trace.iter().map(|pass| Pass { seconds: 0.0, ..*pass }).collect(),
            ..Self::default()
        }
    }

    /// Keys and values in the order of the keys.
    fn metadata(&self, background: bool) -> Map<String, Value> {
        let known = |text: String| Some(text).filter(|text| !text.is_empty());
        let entries = [
            ("background", Some(background.to_string())),
            ("estimator", known(self.estimator.clone())),
            ("format", Some(FORMAT.to_owned())),
            ("method", known(self.method.clone())),
            ("notes", known(self.notes.join("\n"))),
            ("policy", known(self.policy.clone())),
            ("seed", Some(self.seed.to_string())),
            ("status", known(self.status.clone())),
            ("version", Some(VERSION.to_owned())),
            ("weight", Some(format!("{:?}", self.weight))),
        ];
        entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.into()))).collect()
    }
}

/// The bytes of a model file.
///
/// ```
/// use vmfkit::model_file::{Description, from_bytes, to_bytes};
/// use vmfkit::{Mixture, VonMisesFisher};
/// let mixture = Mixture::new(vec![1.0], vec![VonMisesFisher::new(vec![0.6, 0.8], 10.0)?])?.with_background(0.1)?;
/// let mut description = Description::default();
/// description.method = "by hand".to_owned();
/// let bytes = to_bytes(&mixture, &description);
/// assert_eq!(from_bytes(&bytes)?, (mixture, description));
/// # Ok::<(), vmfkit::Error>(())
/// ```
pub fn to_bytes(mixture: &Mixture, description: &Description) -> Vec<u8> {
    let (components, dim) = (mixture.components(), mixture.dim());
    let passes = description.trace.iter();
    // In the order of their names, as safetensors has them.
    let tensors: [(&str, Vec<usize>, Vec<f64>); 4] = [
        ("concentrations", vec![components.len()], components.iter().map(VonMisesFisher::concentration).collect()),
        ("mean_directions", vec![components.len(), dim], components.iter().flat_map(|c| c.mean_direction()).copied().collect()),
        (
            "trace",
            vec![passes.len(), PASS],
            passes.flat_map(|p| [p.objective, p.smallest_weight, p.largest_concentration, p.temperature]).collect(),
        ),
        ("weights", vec![components.len()], mixture.weights().to_vec()),
    ];
    let mut header = Map::new();
    header.insert("__metadata__".to_owned(), description.metadata(mixture.has_background()).into());
    let mut data = Vec::new();
    for (name, shape, values) in tensors {
        let from = data.len();
        data.extend(values.iter().flat_map(|x| x.to_le_bytes()));
        header.insert(name.to_owned(), json!({ "data_offsets": [from, data.len()], "dtype": "F64", "shape": shape }));
    }
    let mut header = Value::from(header).to_string();
    // Data begin at a multiple of 8 bytes.
    header.push_str(&" ".repeat(header.len().next_multiple_of(NUMBER) - header.len()));
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

/// The mixture and its description, to the last bit; or what is wrong with the bytes, found without any memory that they do not fill.
pub fn from_bytes(bytes: &[u8]) -> Result<(Mixture, Description)> {
    let file = File::open(bytes)?;
    let weights = file.numbers("weights", [None])?;
    let components = weights.len();
    let concentrations = file.numbers("concentrations", [Some(components)])?;
    let directions = file.numbers("mean_directions", [Some(components), None])?;
    let Some(dim) = directions.len().checked_div(components) else {
        return wrong("tensor `weights` must have at least one number, found: `0`");
    };
    if dim == 0 {
        return Err(Error::Dimension { dim });
    }
    let restored =
        directions.chunks_exact(dim).zip(&concentrations).enumerate().map(|(component, (direction, &concentration))| {
            VonMisesFisher::restored(direction.to_vec(), concentration)
                .map_err(|error| Error::ModelBytes { what: format!("component {component}: {error}") })
        });
    let restored = restored.collect::<Result<Vec<_>>>()?;
    let background = match file.text("background") {
        "" | "false" => false,
        "true" if components > 1 && concentrations[components - 1] == 0.0 => true,
        "true" => return wrong("a background must be the last of several components, of concentration 0"),
        other => return wrong(format!("metadata `background` must be true or false, found: `{}`", excerpt(other))),
    };
    let trace = file.numbers("trace", [None, Some(PASS)])?;
    let trace = trace.chunks_exact(PASS).map(|pass| Pass {
        objective: pass[0],
        seconds: 0.0,
        smallest_weight: pass[1],
        largest_concentration: pass[2],
        temperature: pass[3],
    });
    let description = Description {
        method: file.text("method").to_owned(),
        policy: file.text("policy").to_owned(),
        estimator: file.text("estimator").to_owned(),
        seed: file.parsed("seed")?,
        status: file.text("status").to_owned(),
        weight: file.parsed("weight")?,
        notes: file.text("notes").lines().map(str::to_owned).collect(),
        trace: trace.collect(),
    };
    Ok((Mixture::restored(weights, restored, background)?, description))
}

/// A header whose claims are within the bytes.
struct File<'a> {
    header: Metadata,
    data: &'a [u8],
}

impl<'a> File<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self> {
        let Some((length, rest)) = bytes.split_first_chunk::<LENGTH>() else {
            return wrong(format!("a safetensors file has more than {LENGTH} bytes, found: `{}`", bytes.len()));
        };
        let length = u64::from_le_bytes(*length);
        let Some((header, data)) = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length)) else {
            return wrong(format!("a header of {length} bytes must end within the file, whose length is: `{}`", bytes.len()));
        };
        // Not `SafeTensors::deserialize`: it adds up the lengths that a header claims, which may overflow.
        let header: Metadata = match serde_json::from_slice(header) {
            Ok(header) => header,
            Err(error) => return wrong(format!("its header is not that of safetensors: {}", excerpt(&error.to_string()))),
        };
        if header.data_len() != data.len() {
            return wrong(format!("the header speaks of {} bytes of data, found: `{}`", header.data_len(), data.len()));
        }
        let file = File { header, data };
        match (file.text("format"), file.text("version")) {
            (FORMAT, VERSION) => Ok(file),
            (FORMAT, version) => wrong(format!("the version must be {VERSION}, found: `{}`", excerpt(version))),
            (format, _) => wrong(format!("metadata `format` must be {FORMAT}, found: `{}`", excerpt(format))),
        }
    }

    /// What the metadata say, nothing if they do not.
    fn text(&self, key: &str) -> &str {
        self.header.metadata().as_ref().and_then(|metadata| metadata.get(key)).map_or("", String::as_str)
    }

    fn parsed<T: std::str::FromStr + Default>(&self, key: &str) -> Result<T> {
        match self.text(key) {
            "" => Ok(T::default()),
            text => text.parse().or_else(|_| wrong(format!("metadata `{key}` must be a number, found: `{}`", excerpt(text)))),
        }
    }

    /// The numbers of a tensor whose axes have these lengths, where one is given.
    fn numbers<const AXES: usize>(&self, name: &str, expected: [Option<usize>; AXES]) -> Result<Vec<f64>> {
        let Some(TensorInfo { dtype, shape, data_offsets: (from, to) }) = self.header.info(name) else {
            return wrong(format!("there must be a tensor: `{name}`"));
        };
        if *dtype != Dtype::F64 {
            return wrong(format!("tensor `{name}` must be of type F64, found: `{dtype}`"));
        }
        let fits = |(found, expected): (&usize, &Option<usize>)| expected.is_none_or(|expected| *found == expected);
        if shape.len() != AXES || !shape.iter().zip(&expected).all(fits) {
            let expected = expected.map(|length| length.map_or("any".to_owned(), |length| length.to_string())).join(" x ");
            let found = shape.iter().take(8).map(usize::to_string).collect::<Vec<_>>().join(" x ");
            return wrong(format!("tensor `{name}` must have the shape {expected}, found: `{found}`"));
        }
        let numbers = self.data[*from..*to].chunks_exact(NUMBER);
        Ok(numbers.map(|bytes| f64::from_le_bytes(bytes.try_into().expect("chunks of eight"))).collect())
    }
}

fn wrong<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::ModelBytes { what: what.into() })
}

/// The beginning of a text that a file brought along, without what could play tricks on a terminal.
fn excerpt(text: &str) -> String {
    text.chars().take(100).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
