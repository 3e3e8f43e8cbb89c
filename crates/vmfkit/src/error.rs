//! Errors: every variant carries the value and the position.

use std::sync::Arc;

/// The largest weight of a row. Sums and squares of such weights, times any log-density, are finite for any number of rows; larger weights
/// have led to objectives that were not numbers.
pub const LARGEST_WEIGHT: f64 = 1e100;

/// The names of systems of angles, for messages and help.
pub const ANGLE_SYSTEMS: &str = "lat,lon; ra,dec; dec,inc; trend,plunge; theta,phi; or angle";

/// The result of a fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What was wrong with the input. Not converging is not an error.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The sphere needs at least two coordinates.
    #[error("the dimension must be at least 2, found: `{dim}`")]
    Dimension {
        /// The dimension given.
        dim: usize,
    },
    /// A concentration is a finite number of at least 0.
    #[error("the concentration must be finite and at least 0, found: `{}`", plain(*value))]
    Concentration {
        /// The concentration given.
        value: f64,
    },
    /// A mean direction is a unit vector.
    #[error("the mean direction must have length 1, found: `{}`", plain(*norm))]
    MeanDirection {
        /// Its Euclidean length.
        norm: f64,
    },
    /// A coordinate of a mean direction is NaN or infinite.
    #[error("coordinate {column} of the mean direction must be a finite number, found: `{}`", plain(*value))]
    MeanDirectionNotFinite {
        /// Counted from 0.
        column: usize,
        /// The coordinate.
        value: f64,
    },
    /// Two things that must live on the same sphere do not.
    #[error("expected dimension {expected}, found: `{found}`")]
    DimensionMismatch {
        /// The dimension asked for.
        expected: usize,
        /// The dimension met.
        found: usize,
    },
    /// The values do not fill whole rows.
    #[error("{values} values do not fill rows of dimension {dim}, left over: `{}`", values % dim)]
    PartialRow {
        /// How many values there are.
        values: usize,
        /// The length of a row.
        dim: usize,
    },
    /// Sparse rows have one start more than there are rows.
    #[error("sparse rows must have at least one row start, where the first row begins, found: `0`")]
    NoRowStarts,
    /// The starts of sparse rows never decrease, and none is past the last entry.
    #[error("row start {position} must be from {least} to {most}, found: `{found}`")]
    RowStart {
        /// Counted from 0.
        position: usize,
        /// The start before it.
        least: usize,
        /// How many entries there are.
        most: usize,
        /// The start given.
        found: usize,
    },
    /// Each entry of sparse rows has a column and a value.
    #[error("expected {columns} values, one a column number, found: `{values}`")]
    EntryCount {
        /// How many column numbers there are.
        columns: usize,
        /// How many values.
        values: usize,
    },
    /// An entry of a sparse row is beyond its last column.
    #[error("entry {position}, of row {row}, must be in a column below {dim}, found: `{column}`")]
    Column {
        /// Counted from 0.
        row: usize,
        /// Among the entries of all rows, counted from 0.
        position: usize,
        /// The length of a row.
        dim: usize,
        /// The column given.
        column: u32,
    },
    /// The columns of a sparse row do not ascend, or one is there twice.
    #[error(
        "entry {position}, of row {row}, must be in a column above {previous}, found: `{column}`\n\
         hint: sort the columns of each row and add up duplicates, as scipy's `sort_indices()` and `sum_duplicates()` do"
    )]
    ColumnOrder {
        /// Counted from 0.
        row: usize,
        /// Among the entries of all rows, counted from 0.
        position: usize,
        /// The column of the entry before.
        previous: u32,
        /// The column given.
        column: u32,
    },
    /// A coordinate is NaN or infinite.
    #[error("row {row}, column {column} must be a finite number, found: `{}`", plain(*value))]
    NotFinite {
        /// Counted from 0.
        row: usize,
        /// Counted from 0.
        column: usize,
        /// The coordinate.
        value: f64,
    },
    /// A row of zeros has no direction.
    #[error("row {row} has no direction, all its coordinates are: `0`")]
    ZeroRow {
        /// Counted from 0.
        row: usize,
    },
    /// An angle from the equator or from a pole is past a pole.
    #[error("row {row}: the {angle} must be from {} to {} {unit}, found: `{}`", plain(*least), plain(*most), plain(*value))]
    Angle {
        /// Counted from 0.
        row: usize,
        /// What the angle is called.
        angle: &'static str,
        /// The smallest that it may be.
        least: f64,
        /// The largest that it may be.
        most: f64,
        /// `degrees` or `radians`.
        unit: &'static str,
        /// The angle given.
        value: f64,
    },
    /// The name of a column says that its angles are in another unit than the one they are to be read in.
    #[error(
        "angles in {unit} were asked for, found a column whose name says otherwise: `{column}`\n\
         hint: `{instead}` has the other unit; columns that are chosen by name are read whatever their names say"
    )]
    AngleUnit {
        /// The name of the column.
        column: String,
        /// `degrees` or `radians`.
        unit: &'static str,
        /// The same angles in the other unit.
        instead: String,
    },
    /// A text that names no system of angles.
    #[error("angles must be {}, found: `{found}`", ANGLE_SYSTEMS)]
    UnknownAngles {
        /// The text.
        found: String,
    },
    /// A row is not on the sphere.
    #[error("row {row} must have length 1, found: `{}`\nhint: ask for rows to be rescaled if only their direction matters", plain(*norm))]
    NotUnit {
        /// Counted from 0.
        row: usize,
        /// Its Euclidean length.
        norm: f64,
    },
    /// A row weight is from 0 to [`LARGEST_WEIGHT`].
    #[error(
        "the weight of row {row} must be from 0 to {LARGEST_WEIGHT:e}, found: `{}`{}",
        plain(*value),
        if value.is_finite() && *value > 0.0 { "\nhint: sums and squares of larger weights overflow; divide all weights by the same number" } else { "" }
    )]
    Weight {
        /// Counted from 0.
        row: usize,
        /// The weight given.
        value: f64,
    },
    /// There is one weight a row.
    #[error("expected {rows} weights, one a row, found: `{found}`")]
    WeightCount {
        /// How many rows there are.
        rows: usize,
        /// How many weights were given.
        found: usize,
    },
    /// Two labelings of the same rows are equally long.
    #[error("expected {expected} labels, one a row, found: `{found}`")]
    LabelCount {
        /// How many labels the first has.
        expected: usize,
        /// How many the second.
        found: usize,
    },
    /// No rows, or only rows of weight 0.
    #[error("there is nothing to fit, total row weight: `{}`", plain(*weight))]
    NoRows {
        /// The sum of the weights.
        weight: f64,
    },
    /// All rows are equal: the likelihood grows without bound with the concentration.
    #[error("all rows are equal, so no finite concentration is the most likely one, total row weight: `{}`", plain(*weight))]
    AllRowsEqual {
        /// The sum of the weights.
        weight: f64,
    },
    /// Bytes that are not statistics.
    #[error("these bytes are no statistics: {what}")]
    StatisticsBytes {
        /// What is wrong with them.
        what: String,
    },
    /// Statistics of another pass, or made under another mixture.
    #[error(
        "the statistics must be those of {what} {expected}, found: `{found}`\n\
         hint: accumulate all parts of a pass under the state that its statistics shall make a step from"
    )]
    OtherState {
        /// A pass or a state.
        what: &'static str,
        /// Which it should be.
        expected: String,
        /// Which it is.
        found: String,
    },
    /// Draws of stochastic EM depend on a row's number in the pass.
    #[error(
        "the draws of these statistics must begin with row {expected} of the pass, found: `{found}`\n\
         hint: parts come in the order of their rows, and each says how many rows are before it"
    )]
    PartOrder {
        /// The number of rows in the parts before.
        expected: u64,
        /// The row that it began with.
        found: u64,
    },
    /// A pass over other rows than the one before.
    #[error(
        "the rows of this pass must weigh {} as in the pass before, found: `{}`\n\
         hint: is a part missing, or there twice?",
        plain(*expected),
        plain(*found)
    )]
    PassWeight {
        /// The total weight of the rows in the pass before.
        expected: f64,
        /// The total weight now.
        found: f64,
    },
    /// A fit that goes by parts makes one step a pass, from one start.
    #[error("a fit by parts has one start and makes one step a pass, found: `{found}`\nhint: {hint}")]
    NotByParts {
        /// What is in the way.
        found: String,
        /// What could be done.
        hint: &'static str,
    },
    /// Nothing is left to do for a fit that has ended.
    #[error("the fit has ended, so there is no pass to make statistics for, status: `{status}`")]
    FitEnded {
        /// How it ended.
        status: &'static str,
    },
    /// A setting of a file that makes no fitter.
    #[error("the setting {setting} must be {range}, found: `{found}`")]
    Setting {
        /// What it is called.
        setting: String,
        /// What it may be.
        range: &'static str,
        /// What it was.
        found: String,
    },
    /// Bytes that are not a model file.
    #[error("these bytes are no mixture: {what}")]
    ModelBytes {
        /// What is wrong with them.
        what: String,
    },
    /// Bytes that are not a checkpoint, or one of another way of fitting.
    #[error("these bytes are no checkpoint: {what}")]
    CheckpointBytes {
        /// What is wrong with them.
        what: String,
    },
    /// A checkpoint of a fit with other settings or other rows.
    #[error(
        "the checkpoint was made with {setting} {expected}, found: `{found}`\n\
         hint: resume with the same settings and the same rows, or begin anew without the checkpoint"
    )]
    CheckpointSetting {
        /// What the setting is called.
        setting: String,
        /// What it was.
        expected: String,
        /// What it is now.
        found: String,
    },
    /// A checkpoint of a fit to other rows.
    #[error(
        "the checkpoint was made with {expected}, found: `{found}`\n\
         hint: the rows, their order or their weights have changed; resume with those of the checkpoint, or remove it to begin anew"
    )]
    CheckpointRows {
        /// What its rows were like.
        expected: String,
        /// What these are like.
        found: String,
    },
    /// The weights of a mixture are finite, at least 0, and sum to 1.
    #[error("the weight of component {component} must be finite and at least 0, found: `{}`", plain(*value))]
    ComponentWeight {
        /// Counted from 0.
        component: usize,
        /// The weight given.
        value: f64,
    },
    /// There is one weight a component, and at least one component.
    #[error("expected one weight for each of {components} components (at least one), found: `{weights}`")]
    ComponentCount {
        /// How many components were given.
        components: usize,
        /// How many weights.
        weights: usize,
    },
    /// The weights of a mixture sum to 1.
    #[error("the weights of the components must sum to 1, found: `{}`", plain(*sum))]
    WeightSum {
        /// What they sum to.
        sum: f64,
    },
    /// What was asked for takes more memory than there is.
    #[error("there must be memory for {what}, bytes that it takes: `{bytes}`")]
    Memory {
        /// What it is for.
        what: &'static str,
        /// How much it takes.
        bytes: u64,
    },
    /// A source that can be read only once was to be read again.
    #[error(
        "these rows can be read only once, and this way of fitting reads them once a pass\nhint: online EM with one pass reads them once"
    )]
    CannotRewind,
    /// A slice to be filled has another length.
    #[error("`{slice}` must have {expected} values, found: `{found}`")]
    OutputLength {
        /// The name of the argument.
        slice: &'static str,
        /// How many values there are.
        expected: usize,
        /// The number of values of the slice.
        found: usize,
    },
    /// A cost matrix has one entry for each row and column.
    #[error("a cost matrix of {rows} x {columns} must have {} entries, found: `{found}`", rows.saturating_mul(*columns))]
    CostCount {
        /// The number of rows.
        rows: usize,
        /// The number of columns.
        columns: usize,
        /// How many entries there are.
        found: usize,
    },
    /// The entries of a cost matrix are finite.
    #[error("the cost of row {row} and column {column} must be finite, found: `{}`", plain(*value))]
    Cost {
        /// Counted from 0.
        row: usize,
        /// Counted from 0.
        column: usize,
        /// The cost given.
        value: f64,
    },
    /// A source of rows, or a callback, failed. Its own error is the [`source()`](std::error::Error::source) of this one.
    #[error(fmt = fmt_read)]
    Read(#[source] ReadFailure),
    /// A hypothesis test was given too little, or rows of a kind that it cannot use.
    #[error("{test} needs {needs}, found: `{found}`")]
    TestNeeds {
        /// What is tested, or how.
        test: &'static str,
        /// What the test needs.
        needs: &'static str,
        /// What there is.
        found: String,
    },
    /// A way of fitting reads rows more than once, and those of a stream are not kept.
    #[error("a stream is fitted by online EM, found: `{method}`")]
    NotForStreams {
        /// The name of the method.
        method: &'static str,
    },
    /// Bytes are not those of a stream.
    #[error("these bytes are not those of a stream: {what}")]
    StreamBytes {
        /// What is wrong with them.
        what: String,
    },
    /// An option is outside its range.
    #[error("{option} must be {range}, found: `{}`", plain(*value))]
    Option {
        /// What the option is called.
        option: &'static str,
        /// What it may be.
        range: &'static str,
        /// What it was.
        value: f64,
    },
}

impl Error {
    /// The error of a [`Source`](crate::source::Source) or of a callback outside this crate.
    ///
    /// The error itself can be got back through [`source()`](std::error::Error::source). `{}` does not repeat it, as is usual for errors with a
    /// source; `{:#}` prints it with all its causes.
    ///
    /// ```
    /// use std::error::Error;
    /// let error = vmfkit::Error::read(std::io::Error::other("the cable broke"));
    /// let cause = error.source().unwrap().downcast_ref::<std::io::Error>().unwrap();
    /// assert_eq!(cause.to_string(), "the cable broke");
    /// assert_eq!(format!("{error}"), "a source of rows or a callback failed");
    /// assert_eq!(format!("{error:#}"), "the cable broke");
    /// ```
    pub fn read(cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Error::Read(ReadFailure(Arc::new(cause)))
    }

    /// The number of the row that the error is about, if it is about one.
    pub fn row_mut(&mut self) -> Option<&mut usize> {
        use Error::*;
        match self {
            NotFinite { row, .. } | ZeroRow { row } | NotUnit { row, .. } | Weight { row, .. } | Angle { row, .. } => Some(row),
            Column { row, .. } | ColumnOrder { row, .. } => Some(row),
            _ => None,
        }
    }

    /// Refuses a slice of another length.
    pub(crate) fn check_length<T>(slice: &'static str, out: &[T], expected: usize) -> Result<()> {
        if out.len() == expected { Ok(()) } else { Err(Error::OutputLength { slice, expected, found: out.len() }) }
    }
}

impl From<vmfkit_special::Error> for Error {
    fn from(error: vmfkit_special::Error) -> Self {
        use vmfkit_special::Error as Special;
        match error {
            Special::Dimension { dim } => Error::Dimension { dim },
            Special::Concentration { value } => Error::Concentration { value },
            // The enum is non-exhaustive for users; a new variant needs a line above.
            other => unreachable!("an error without a counterpart: {other}"),
        }
    }
}

/// Why a source or a callback failed: any error, shared by the clones of the [`Error`] that carries it. Equal only to its clones.
#[derive(Debug, Clone)]
pub struct ReadFailure(Arc<dyn std::error::Error + Send + Sync>);

impl ReadFailure {
    /// The error of the source or callback.
    pub fn cause(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.0
    }
}

// Not an error itself, so that `source()` of `Error::Read` is the cause and can be downcast.
impl std::ops::Deref for ReadFailure {
    type Target = dyn std::error::Error + Send + Sync + 'static;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for ReadFailure {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// With `{:#}` all causes, as in `x.npy: cannot be read: permission denied`.
fn fmt_read(failure: &ReadFailure, f: &mut std::fmt::Formatter) -> std::fmt::Result {
    if !f.alternate() {
        return f.write_str("a source of rows or a callback failed");
    }
    write!(f, "{}", failure.cause())?;
    let mut cause = failure.cause().source();
    while let Some(deeper) = cause {
        write!(f, ": {deeper}")?;
        cause = deeper.source();
    }
    Ok(())
}

/// A text that is none of the choices of a setting: the error of every `FromStr` of these crates.
///
/// ```
/// use std::error::Error;
/// let error = "lloyd".parse::<vmfkit::Method>().unwrap_err();
/// assert_eq!(error.text(), "lloyd");
/// assert!(error.to_string().starts_with("unknown method `lloyd`: one of em, hard, "));
/// // A number that cannot be parsed is the source.
/// let error = "fixed:1,5".parse::<vmfkit::ConcentrationPolicy>().unwrap_err();
/// assert!(error.to_string().starts_with("`1,5` is not a number in the policy `fixed:1,5`: one of auto"));
/// assert!(error.source().unwrap().is::<std::num::ParseFloatError>());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseChoiceError {
    what: &'static str,
    choices: String,
    text: String,
    number: Option<(String, std::num::ParseFloatError)>,
}

impl ParseChoiceError {
    /// `what` names the setting, as in "method"; `choices` are listed in this order.
    pub fn new(what: &'static str, choices: &[&str], text: &str) -> Self {
        ParseChoiceError { what, choices: choices.join(", "), text: text.to_owned(), number: None }
    }

    /// The same for a text with a number that cannot be parsed.
    pub fn with_number(self, number: &str, error: std::num::ParseFloatError) -> Self {
        ParseChoiceError { number: Some((number.to_owned(), error)), ..self }
    }

    /// The text that was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The choices, separated by commas.
    pub fn choices(&self) -> &str {
        &self.choices
    }
}

impl std::fmt::Display for ParseChoiceError {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let ParseChoiceError { what, choices, text, number } = self;
        match number {
            None => write!(f, "unknown {what} `{text}`: one of {choices}"),
            Some((number, _)) => write!(f, "`{number}` is not a number in the {what} `{text}`: one of {choices}"),
        }
    }
}

impl std::error::Error for ParseChoiceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.number.as_ref().map(|(_, error)| error as _)
    }
}

/// A number as a person would write it: no three hundred zeros.
fn plain(value: f64) -> String {
    if value == 0.0 || !value.is_finite() || (1e-5..1e16).contains(&value.abs()) {
        format!("{value}")
    } else {
        format!("{value:e}")
    }
}
