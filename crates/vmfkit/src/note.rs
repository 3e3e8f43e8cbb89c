//! [`Note`]: what a fit reports in addition to its result.

/// A warning about a component or about a fit as a whole.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// The component has no rows; its direction is unchanged.
    Empty {
        /// Counted from 0.
        component: usize,
    },
    /// The component's rows are (nearly) all equal.
    Collapsed {
        /// Counted from 0.
        component: usize,
        /// Their total weight.
        rows: f64,
        /// The concentration it was given.
        concentration: f64,
    },
    /// An empty component was restarted next to the one whose rows are most spread out.
    Reseeded {
        /// Counted from 0.
        component: usize,
        /// The component that it halves.
        beside: usize,
        /// After this many passes.
        pass: usize,
    },
    /// The fit ended before the annealing was complete.
    Warm {
        /// The temperature of the last pass.
        temperature: f64,
    },
    /// The objective fell by more than a quarter of its distance from that of the uniform
    /// distribution.
    Fallen {
        /// The pass of the largest objective, counted from 1.
        pass: usize,
        /// The objective of that pass.
        from: f64,
        /// The objective of the last pass.
        to: f64,
    },
    /// The component equals an earlier one: both describe the same rows.
    Duplicate {
        /// Counted from 0.
        component: usize,
        /// The earlier component.
        of: usize,
    },
    /// Restarted components had not raised the objective by the last pass: the fit is as it was
    /// before.
    RepairsUndone {
        /// The pass that the result is from.
        pass: usize,
        /// The number of passes that were made.
        passes: usize,
    },
    /// A stream moved the component to rows that no component fitted.
    Reassigned {
        /// Counted from 0.
        component: usize,
        /// The component that took over its former rows; `None` if they were dropped, because their
        /// cluster got no more rows.
        merged_into: Option<usize>,
        /// The number of rows that the stream had seen before.
        rows: u64,
    },
    /// The component received none of the latest rows of a stream, although its weight predicts at
    /// least twenty.
    Idle {
        /// Counted from 0.
        component: usize,
        /// The number of rows since it last got one.
        rows: u64,
    },
}

impl Note {
    /// Whether it belongs to the end of a fit and not to a step.
    pub(crate) fn is_of_the_end(&self) -> bool {
        matches!(self, Note::Warm { .. } | Note::Fallen { .. } | Note::Duplicate { .. } | Note::RepairsUndone { .. })
    }
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Note::Empty { component } => write!(f, "component {component} is empty: it has no rows"),
            Note::Collapsed { component, rows, concentration } => {
                let rounded = (rows * 100.0).round() / 100.0;
                let rows = match rounded {
                    1.0 => "1 row".to_owned(),
                    _ if rounded < 0.1 => format!("rows of weight {rows:.1e}"),
                    _ if rounded.fract() == 0.0 => format!("{rounded} rows"),
                    _ => format!("rows of weight {rounded}"),
                };
                write!(f, "component {component} collapsed onto {rows}, concentration {concentration:.3e}")
            }
            Note::Reseeded { component, beside, pass } => {
                write!(f, "component {component} was empty in pass {pass} and restarted next to component {beside}")
            }
            Note::Warm { temperature } => {
                write!(f, "the fit ended at a temperature of {temperature:.1}: annealing needs more passes or a smaller factor")
            }
            Note::Fallen { pass, from, to } => {
                write!(f, "the objective fell from {from:.4} in pass {pass} to {to:.4}: the result is worse than in that pass")
            }
            Note::Duplicate { component, of } => {
                write!(f, "component {component} duplicates component {of}: fewer components may suffice")
            }
            Note::Reassigned { component, merged_into, rows } => {
                write!(f, "component {component} was moved to a new cluster after {rows} rows; ")?;
                match merged_into {
                    Some(other) => write!(f, "component {other} took over its former rows"),
                    None => f.write_str("its former cluster got no more rows"),
                }
            }
            Note::Idle { component, rows } => write!(f, "component {component} got none of the last {rows} rows"),
            Note::RepairsUndone { pass, passes } => {
                write!(
                    f,
                    "restarted components had not raised the objective by pass {passes}: \
                     the result is that of pass {pass}, and more passes may help"
                )
            }
        }
    }
}
