//! [`Error`]: each variant carries the offending value and where it was found.

pub use crate::parse_choice::ParseChoiceError;
pub use crate::read_failure::ReadFailure;
use crate::read_failure::fmt_read;

/// The largest allowed row weight.
///
/// Sums and squares of weights up to this limit, times any log density, are finite for any number
/// of rows.
pub const LARGEST_WEIGHT: f64 = 1e100;

/// The names of the systems of angles, for messages and help texts.
pub const ANGLE_SYSTEMS: &str = "lat,lon; ra,dec; dec,inc; trend,plunge; theta,phi; or angle";

/// The result of a fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Invalid input, or a failed source of rows.
///
/// A fit that does not converge is not an error: see [`Status`](crate::train::Status). Rows,
/// columns, components and entries are counted from 0.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // Rows
    /// A sphere has at least two coordinates.
    #[error("the dimension must be at least 2, found: `{dim}`")]
    Dimension {
        /// The dimension given.
        dim: usize,
    },
    /// Two inputs have different dimensions.
    #[error("expected dimension {expected}, found: `{found}`")]
    DimensionMismatch {
        /// The dimension required.
        expected: usize,
        /// The dimension given.
        found: usize,
    },
    /// The number of values is not a multiple of the dimension.
    #[error("{values} values do not fill rows of dimension {dim}, left over: `{}`", values % dim)]
    PartialRow {
        /// The number of values.
        values: usize,
        /// The length of a row.
        dim: usize,
    },
    /// The array of row starts of sparse rows is empty; it has one entry more than there are rows.
    #[error("sparse rows need at least one row start, found: `0`")]
    NoRowStarts,
    /// A row start of sparse rows is below the one before it, or past the last entry.
    #[error("row start {position} must be from {least} to {most}, found: `{found}`")]
    RowStart {
        /// The index of the row start.
        position: usize,
        /// The previous row start.
        least: usize,
        /// The number of entries.
        most: usize,
        /// The row start given.
        found: usize,
    },
    /// The arrays of columns and values of sparse rows have different lengths.
    #[error("expected {columns} values, one per column number, found: `{values}`")]
    EntryCount {
        /// The number of column numbers.
        columns: usize,
        /// The number of values.
        values: usize,
    },
    /// The column of an entry of a sparse row is not below the dimension.
    #[error("row {row}, entry {position}: the column must be below {dim}, found: `{column}`")]
    Column {
        /// The row.
        row: usize,
        /// The index among the entries of all rows.
        position: usize,
        /// The dimension.
        dim: usize,
        /// The column given.
        column: u32,
    },
    /// The columns of a sparse row are not in ascending order, or repeat.
    #[error(
        "row {row}, entry {position}: the column must be above {previous}, found: `{column}`\n\
         hint: sort the columns of each row and sum duplicates, as scipy's `sort_indices()` and `sum_duplicates()` do"
    )]
    ColumnOrder {
        /// The row.
        row: usize,
        /// The index among the entries of all rows.
        position: usize,
        /// The column of the previous entry.
        previous: u32,
        /// The column given.
        column: u32,
    },
    /// A coordinate is NaN or infinite.
    #[error("row {row}, column {column} must be a finite number, found: `{}`", plain(*value))]
    NotFinite {
        /// The row.
        row: usize,
        /// The column.
        column: usize,
        /// The coordinate.
        value: f64,
    },
    /// All coordinates of a row are 0.
    #[error("row {row} has no direction: all its coordinates are `0`")]
    ZeroRow {
        /// The row.
        row: usize,
    },
    /// The length of a row is not 1.
    #[error("row {row} must have length 1, found: `{}`\nhint: rescale the rows if only their direction matters", plain(*norm))]
    NotUnit {
        /// The row.
        row: usize,
        /// Its Euclidean length.
        norm: f64,
    },
    /// A row weight is negative, NaN or above [`LARGEST_WEIGHT`].
    #[error(
        "the weight of row {row} must be from 0 to {LARGEST_WEIGHT:e}, found: `{}`{}",
        plain(*value),
        if value.is_finite() && *value > 0.0 { "\nhint: sums and squares of larger weights overflow; divide all weights by the same number" } else { "" }
    )]
    Weight {
        /// The row.
        row: usize,
        /// The weight given.
        value: f64,
    },
    /// The number of weights is not the number of rows.
    #[error("expected {rows} weights, one per row, found: `{found}`")]
    WeightCount {
        /// The number of rows.
        rows: usize,
        /// The number of weights.
        found: usize,
    },
    /// The number of labels is not the number of rows, or two labelings differ in length.
    #[error("expected {expected} labels, one per row, found: `{found}`")]
    LabelCount {
        /// The number of labels required.
        expected: usize,
        /// The number of labels given.
        found: usize,
    },
    /// A starting label is not below the number of components.
    #[error("the label of row {row} must be below {components}, the number of components, found: `{label}`")]
    Label {
        /// The row.
        row: usize,
        /// The number of components.
        components: usize,
        /// The label given.
        label: u32,
    },
    /// There are no rows, or all row weights are 0.
    #[error("there is nothing to fit: the total row weight is `{}`", plain(*weight))]
    NoRows {
        /// The sum of the weights.
        weight: f64,
    },
    /// All rows are equal, so the likelihood has no maximum: it grows with the concentration.
    #[error("all rows are equal, so the most likely concentration is infinite (total row weight: `{}`)", plain(*weight))]
    AllRowsEqual {
        /// The sum of the weights.
        weight: f64,
    },
    /// The rows sum to zero, so they have no mean direction.
    #[error("the rows have no mean direction: their sum is `0`")]
    NoMeanDirection,
    /// The method reads the rows in every pass, but the source can be read only once.
    #[error("these rows can be read only once, and this method reads them in every pass\nhint: use online EM with one pass")]
    CannotRewind,
    /// A source of rows, or a callback, failed. Its own error is the
    /// [`source()`](std::error::Error::source) of this one.
    #[error(fmt = fmt_read)]
    Read(#[source] ReadFailure),

    // Angles
    /// A latitude, inclination, colatitude or the like is past a pole.
    #[error("row {row}: the {angle} must be from {} to {} {unit}, found: `{}`", plain(*least), plain(*most), plain(*value))]
    Angle {
        /// The row.
        row: usize,
        /// The name of the angle.
        angle: &'static str,
        /// The smallest value allowed.
        least: f64,
        /// The largest value allowed.
        most: f64,
        /// `degrees` or `radians`.
        unit: &'static str,
        /// The angle given.
        value: f64,
    },
    /// The name of a column contradicts the unit in which its angles are to be read.
    #[error(
        "expected angles in {unit}, found column: `{column}`\n\
         hint: use `{instead}`, or choose the columns by name to ignore the unit in their names"
    )]
    AngleUnit {
        /// The name of the column.
        column: String,
        /// `degrees` or `radians`.
        unit: &'static str,
        /// The same angles in the other unit.
        instead: String,
    },
    /// A text does not name a system of angles.
    #[error("angles must be {}, found: `{found}`", ANGLE_SYSTEMS)]
    UnknownAngles {
        /// The text.
        found: String,
    },

    // Densities and mixtures
    /// A concentration is negative, infinite or NaN.
    #[error("the concentration must be finite and at least 0, found: `{}`", plain(*value))]
    Concentration {
        /// The concentration given.
        value: f64,
    },
    /// The length of a mean direction is not 1.
    #[error("the mean direction must have length 1, found: `{}`", plain(*norm))]
    MeanDirection {
        /// Its Euclidean length.
        norm: f64,
    },
    /// A coordinate of a mean direction is NaN or infinite.
    #[error("coordinate {column} of the mean direction must be a finite number, found: `{}`", plain(*value))]
    MeanDirectionNotFinite {
        /// The coordinate's index.
        column: usize,
        /// The coordinate.
        value: f64,
    },
    /// A weight of a mixture is negative, infinite or NaN.
    #[error("the weight of component {component} must be finite and at least 0, found: `{}`", plain(*value))]
    ComponentWeight {
        /// The component.
        component: usize,
        /// The weight given.
        value: f64,
    },
    /// A mixture has no components, or not one weight per component.
    #[error(
        "expected at least one component and one weight per component, found: `{components}` components, `{weights}` weights"
    )]
    ComponentCount {
        /// The number of components given.
        components: usize,
        /// The number of weights given.
        weights: usize,
    },
    /// Two inputs have different numbers of components.
    #[error("{what} must have {expected} components, found: `{found}`")]
    ComponentMismatch {
        /// The input whose number of components is wrong.
        what: &'static str,
        /// The number of components required.
        expected: usize,
        /// The number of components given.
        found: usize,
    },
    /// The weights of a mixture do not sum to 1.
    #[error("the weights of the components must sum to 1, found: `{}`", plain(*sum))]
    WeightSum {
        /// Their sum.
        sum: f64,
    },

    // Fits
    /// The number of starting directions is not the number of components.
    #[error("expected {expected} starting directions, one per component, found: `{found}`")]
    DirectionCount {
        /// The number of components.
        expected: usize,
        /// The number of directions given.
        found: usize,
    },
    /// The method cannot fit a mixture with a uniform background.
    #[error("{method} does not support a background, found a background of weight: `{}`", plain(*weight))]
    BackgroundNotSupported {
        /// The method.
        method: &'static str,
        /// The weight of the background.
        weight: f64,
    },
    /// The method reads rows more than once, but a stream does not keep its rows.
    #[error("only online EM fits streams, found: `{method}`")]
    NotForStreams {
        /// The method.
        method: &'static str,
    },
    /// Statistics of another pass, or computed from another mixture.
    #[error(
        "the statistics must belong to {what} {expected}, found: `{found}`\n\
         hint: accumulate all parts of a pass from the same state"
    )]
    OtherState {
        /// `pass` or `state`.
        what: &'static str,
        /// The pass or state required.
        expected: String,
        /// The pass or state given.
        found: String,
    },
    /// Parts of stochastic EM are merged out of order: its random draws depend on row numbers.
    #[error(
        "the random draws of these statistics must start at row {expected} of the pass, found: `{found}`\n\
         hint: merge parts in the order of their rows, and give each the number of rows that precede it"
    )]
    PartOrder {
        /// The number of rows in the parts before.
        expected: u64,
        /// The row at which the draws start.
        found: u64,
    },
    /// The total row weight of a pass differs from that of the previous pass.
    #[error(
        "the total row weight of this pass must be {}, as in the previous pass, found: `{}`\n\
         hint: check whether a part is missing or was added twice",
        plain(*expected),
        plain(*found)
    )]
    PassWeight {
        /// The total row weight of the previous pass.
        expected: f64,
        /// The total row weight of this pass.
        found: f64,
    },
    /// A distributed fit has one start and takes one step per pass.
    #[error("a distributed fit has one start and takes one step per pass, found: `{found}`\nhint: {hint}")]
    NotByParts {
        /// The setting that prevents it.
        found: String,
        /// What to change.
        hint: &'static str,
    },
    /// The fit has ended.
    #[error("the fit has ended (status: `{status}`), so there is no pass to accumulate")]
    FitEnded {
        /// How it ended.
        status: &'static str,
    },
    /// A stored setting is invalid.
    #[error("the setting {setting} must be {range}, found: `{found}`")]
    Setting {
        /// The name of the setting.
        setting: String,
        /// The values allowed.
        range: &'static str,
        /// The value stored.
        found: String,
    },
    /// A checkpoint of a fit with other settings.
    #[error(
        "the checkpoint was made with {setting} {expected}, found: `{found}`\n\
         hint: resume with the same settings and the same rows, or start over without the checkpoint"
    )]
    CheckpointSetting {
        /// The name of the setting.
        setting: String,
        /// Its value in the checkpoint.
        expected: String,
        /// Its value now.
        found: String,
    },
    /// A checkpoint of a fit to other rows.
    #[error(
        "the checkpoint was made with {expected}, found: `{found}`\n\
         hint: the rows, their order or their weights have changed; resume with the original rows, or remove the checkpoint to start over"
    )]
    CheckpointRows {
        /// A description of the rows of the checkpoint.
        expected: String,
        /// A description of the rows given.
        found: String,
    },
    /// A checkpoint was requested in the middle of a pass.
    #[error("a checkpoint can be made only between passes, row weight since the last pass: `{}`", plain(*weight))]
    CheckpointWithinPass {
        /// The weight of the rows seen since the last pass ended.
        weight: f64,
    },
    /// An option is outside its range.
    #[error("{option} must be {range}, found: `{}`", plain(*value))]
    Option {
        /// What the option sets.
        option: &'static str,
        /// The values allowed.
        range: &'static str,
        /// The value given.
        value: f64,
    },

    // Files
    /// Bytes are not a valid model file.
    #[error("not a valid model file: {what}")]
    ModelBytes {
        /// What is wrong with them.
        what: String,
    },
    /// Bytes are not a valid statistics file.
    #[error("not a valid statistics file: {what}")]
    StatisticsBytes {
        /// What is wrong with them.
        what: String,
    },
    /// Bytes are not a valid checkpoint, or one of another method.
    #[error("not a valid checkpoint: {what}")]
    CheckpointBytes {
        /// What is wrong with them.
        what: String,
    },
    /// Bytes are not a valid state of a stream.
    #[error("not a valid stream state: {what}")]
    StreamBytes {
        /// What is wrong with them.
        what: String,
    },

    // Tests and metrics
    /// A diagnostic has too few rows.
    #[error("{what} needs at least {needed} rows, found: `{found}`")]
    FewRows {
        /// The diagnostic.
        what: &'static str,
        /// The fewest rows it can use.
        needed: usize,
        /// The number of rows it has.
        found: usize,
    },
    /// A hypothesis test has too few rows, groups or dimensions.
    #[error("{test} needs {needs}, found: `{found}`")]
    TestNeeds {
        /// The test.
        test: &'static str,
        /// What it needs.
        needs: &'static str,
        /// What was given.
        found: usize,
    },
    /// A hypothesis test does not support this calibration of its p-value.
    #[error("{test} does not support the calibration `{found}`\nhint: use {supported}")]
    CalibrationNotSupported {
        /// The test.
        test: &'static str,
        /// The name of the calibration given.
        found: &'static str,
        /// The names of the calibrations supported.
        supported: &'static str,
    },
    /// A test does not support row weights.
    #[error("{by} does not support row weights")]
    WeightsNotSupported {
        /// The test.
        by: &'static str,
    },
    /// A test does not support sparse rows.
    #[error("{by} does not support sparse rows\nhint: convert the rows to dense rows")]
    SparseNotSupported {
        /// The test.
        by: &'static str,
    },
    /// The length of a cost matrix is not the product of its numbers of rows and columns.
    #[error("a cost matrix of {rows} x {columns} must have {} entries, found: `{found}`", rows.saturating_mul(*columns))]
    CostCount {
        /// The number of rows.
        rows: usize,
        /// The number of columns.
        columns: usize,
        /// The number of entries given.
        found: usize,
    },
    /// An entry of a cost matrix is NaN or infinite.
    #[error("the cost of row {row} and column {column} must be finite, found: `{}`", plain(*value))]
    Cost {
        /// The row.
        row: usize,
        /// The column.
        column: usize,
        /// The cost given.
        value: f64,
    },

    // Memory
    /// There is not enough memory.
    #[error("not enough memory for {what}, bytes needed: `{bytes}`")]
    Memory {
        /// What the memory is for.
        what: &'static str,
        /// The number of bytes needed.
        bytes: u64,
    },
    /// A slice that receives results has the wrong length.
    #[error("`{slice}` must have {expected} values, found: `{found}`")]
    OutputLength {
        /// The name of the argument.
        slice: &'static str,
        /// The length required.
        expected: usize,
        /// The length given.
        found: usize,
    },
}

impl Error {
    /// The error of a [`Source`](crate::source::Source) or of a callback outside this crate.
    ///
    /// [`source()`](std::error::Error::source) returns `cause`. `{}` does not repeat its message,
    /// as is usual for errors with a source; `{:#}` prints it with all its causes.
    ///
    /// ```
    /// use std::error::Error;
    /// let error = vmfkit::Error::read(std::io::Error::other("connection reset"));
    /// let cause = error.source().unwrap().downcast_ref::<std::io::Error>().unwrap();
    /// assert_eq!(cause.to_string(), "connection reset");
    /// assert_eq!(format!("{error}"), "a source of rows or a callback failed");
    /// assert_eq!(format!("{error:#}"), "connection reset");
    /// ```
    pub fn read(cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Error::Read(ReadFailure::new(cause))
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

    /// An error unless `out` has `expected` values.
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
            // `vmfkit_special::Error` is non-exhaustive: a new variant there needs a line here.
            other => unreachable!("an error without a counterpart: {other}"),
        }
    }
}

/// Very large and very small numbers with an exponent, others without.
fn plain(value: f64) -> String {
    if value == 0.0 || !value.is_finite() || (1e-5..1e16).contains(&value.abs()) {
        format!("{value}")
    } else {
        format!("{value:e}")
    }
}
