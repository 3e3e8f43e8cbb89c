//! Why a criterion could not be measured.

use std::fmt;

/// Why stability or the agreement of neighbours could not be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skipped {
    /// There is one component, so all rows agree.
    OneComponent,
    /// Half of the rows are fewer than the components.
    FewRows {
        /// The rows of a half.
        half: usize,
    },
    /// All rows were assigned to the same component.
    OneGroup,
    /// Too few rows have neighbours other than copies of them.
    FewNeighbours {
        /// The number of rows with neighbours.
        rows: usize,
    },
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::OneComponent => write!(f, "a single component agrees with itself"),
            Self::FewRows { half } => write!(f, "half of the rows, {half}, are fewer than the components"),
            Self::OneGroup => write!(f, "all rows were assigned to the same component"),
            Self::FewNeighbours { rows } => {
                write!(f, "only {rows} rows have neighbours other than copies of them")
            }
        }
    }
}
