//! [`PartStats`]: the statistics of a part of a pass, which the processes of a fit exchange as
//! bytes.
//!
//! The bytes are safetensors like those of a model, described in docs/file-format.md. They name the
//! pass and the state of the fit, so that parts of different passes are never added.

use crate::error::{Error, Result};
use crate::settings::{digits, undigits};
use crate::stats::SufficientStats;
use crate::tensor_file::{Contents, File, Kind, excerpt};

const KIND: Kind = Kind { format: "vmfkit.statistics", version: "3", unchecked: None };

/// Up to this number all whole numbers are exact as f64.
const LARGEST_COUNT: u64 = 1 << 53;

/// Statistics of some rows of a pass, with the pass and the state of the fit they belong to;
/// [`Accumulator`](crate::fit::parts::Accumulator) computes them.
///
/// They are one sum, or one sum per block, in order. Floating-point sums depend on their order, so
/// only sums per block reproduce those of one process to the last bit.
#[derive(Debug, Clone, PartialEq)]
pub struct PartStats {
    pub(crate) state: u64,
    pub(crate) pass: u64,
    /// The first row of the part, if the assignments are random.
    pub(crate) first_row: Option<u64>,
    blocks: u64,
    rows: u64,
    /// At least one.
    stats: Vec<SufficientStats>,
}

impl PartStats {
    /// The statistics of some rows: of each block, or of all of them together.
    pub(crate) fn new(
        state: (u64, u64),
        first_row: Option<u64>,
        (rows, blocks): (u64, u64),
        stats: Vec<SufficientStats>,
    ) -> Self {
        PartStats { state: state.0, pass: state.1, first_row, blocks, rows, stats }
    }

    /// Adds the statistics of the next part, and sums those of blocks. An error if the state
    /// differs, or if assignments are random and the parts are not adjacent.
    pub fn merge(&mut self, next: &Self) -> Result<()> {
        next.check_state(self.state, self.pass)?;
        if let (Some(first), Some(found)) = (self.first_row, next.first_row) {
            let expected = first.saturating_add(self.rows);
            if found != expected {
                return Err(Error::PartOrder { expected, found });
            }
        }
        let mut sum = self.sum();
        next.stats.iter().try_for_each(|stats| sum.merge(stats))?;
        self.stats = vec![sum];
        self.blocks = self.blocks.saturating_add(next.blocks);
        self.rows = self.rows.saturating_add(next.rows);
        Ok(())
    }

    /// Whether it belongs to this state.
    pub(crate) fn check_state(&self, state: u64, pass: u64) -> Result<()> {
        let other = |what, expected, found| Err(Error::OtherState { what, expected, found });
        if self.pass != pass {
            return other("pass", pass.to_string(), self.pass.to_string());
        }
        if self.state != state {
            return other("state", digits(state), digits(self.state));
        }
        Ok(())
    }

    /// The fingerprint of the state of the fit, sixteen digits.
    pub fn state(&self) -> String {
        digits(self.state)
    }

    /// The pass, counted from 1; 0 for a mixture without a fit.
    pub fn pass(&self) -> u64 {
        self.pass
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The number of blocks of the E step that contain its rows.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The statistics of all rows, or of each block.
    pub fn statistics(&self) -> &[SufficientStats] {
        &self.stats
    }

    /// The statistics of all rows.
    pub fn sum(&self) -> SufficientStats {
        let (first, rest) = self.stats.split_first().expect("at least one");
        let mut sum = first.clone();
        rest.iter().for_each(|stats| sum.merge(stats).expect("the same components and dimension"));
        sum
    }

    /// The total weight of the rows.
    pub fn weight(&self) -> f64 {
        self.stats.iter().map(SufficientStats::weight).sum()
    }

    /// The mean objective of the rows, for soft assignments the mean of ln p; 0 without rows.
    pub fn objective(&self) -> f64 {
        let weight = self.weight();
        if weight > 0.0 { self.stats.iter().map(SufficientStats::objective).sum::<f64>() / weight } else { 0.0 }
    }

    /// The bytes of a file; equal statistics give equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (count, components, dim) = (self.stats.len(), self.stats[0].components(), self.stats[0].dim());
        let mut contents = Contents::new(&KIND);
        contents.text("state", digits(self.state));
        contents.text("pass", self.pass.to_string());
        contents.text("rows", self.rows.to_string());
        contents.text("blocks", self.blocks.to_string());
        if let Some(first_row) = self.first_row {
            contents.text("first_row", first_row.to_string());
        }
        let all = |of: &dyn Fn(&SufficientStats, usize) -> Vec<f64>| -> Vec<f64> {
            let each = |stats| (0..components).flat_map(move |component| of(stats, component));
            self.stats.iter().flat_map(each).collect()
        };
        contents.numbers("objectives", vec![count], self.stats.iter().map(SufficientStats::objective).collect());
        contents.numbers("weights", vec![count], self.stats.iter().map(SufficientStats::weight).collect());
        contents.numbers("masses", vec![count, components], all(&|stats, component| vec![stats.mass(component)]));
        contents.numbers("shortfalls", vec![count, components], all(&|stats, component| vec![stats.shortfall(component)]));
        let resultants = all(&|stats, component| stats.resultant(component).to_vec());
        contents.numbers("resultants", vec![count, components, dim], resultants);
        contents.to_bytes()
    }

    /// The statistics that [`Self::to_bytes`] wrote. Errors are found without allocating more
    /// memory than the bytes fill.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let file = File::open(bytes, &KIND, |what| Error::StatisticsBytes { what })?;
        let count = |key: &str| match file.parsed::<u64>(key)? {
            count if count <= LARGEST_COUNT => Ok(count),
            count => file.wrong(format!("metadata `{key}` must be at most 2^53, found: `{count}`")),
        };
        let (pass, rows, blocks) = (count("pass")?, count("rows")?, count("blocks")?);
        let first_row = if file.text("first_row").is_empty() { None } else { Some(count("first_row")?) };
        let text = file.text("state");
        let Some(state) = undigits(text) else {
            return file.wrong(format!("metadata `state` must be sixteen digits, found: `{}`", excerpt(text)));
        };
        let objectives = file.numbers("objectives", [None])?;
        let parts = objectives.len();
        if parts == 0 || parts as u64 > blocks.max(1) {
            return file.wrong(format!("there must be at least one part, and at most one per block, found: `{parts}`"));
        }
        let weights = file.numbers("weights", [Some(parts)])?;
        let masses = file.numbers("masses", [Some(parts), None])?;
        let components = masses.len() / parts;
        let shortfalls = file.numbers("shortfalls", [Some(parts), Some(components)])?;
        let resultants = file.numbers("resultants", [Some(parts), Some(components), None])?;
        let dim = resultants.len().checked_div(parts * components).unwrap_or(0);
        if dim < 2 {
            return file
                .wrong(format!("there must be at least one component, of dimension 2 or more, found: `{components} of {dim}`"));
        }
        let stats = (0..parts).map(|part| {
            let of = |numbers: &[f64], each: usize| numbers[part * each..(part + 1) * each].to_vec();
            let masses_and_shortfalls = [of(&masses, components), of(&shortfalls, components)].concat();
            let values =
                [vec![objectives[part], weights[part]], masses_and_shortfalls, of(&resultants, components * dim)].concat();
            SufficientStats::of_values(components, dim, values.into_iter())
                .or_else(|what| file.wrong(format!("statistics `{part}`: {what}")))
        });
        let stats = stats.collect::<Result<Vec<_>>>()?;
        Ok(PartStats { state, pass, first_row, blocks, rows, stats })
    }
}
