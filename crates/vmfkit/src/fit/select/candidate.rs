//! [`Candidate`]: one line of the table, and the criteria that score it.

use super::estimate::Estimate;
use super::skipped::Skipped;
use super::stability::Stability;
use crate::calibrate::Calibration;
use crate::error::ParseChoiceError;
use crate::m_step::{ConcentrationPolicy, Note};
use crate::mixture::{Evaluation, Mixture};
use crate::outlier::OutlierTable;
use crate::settings::Settings;
use crate::stats::ComponentSum;
use crate::train::{Fit, Pass, Status};

/// A criterion of model selection. Smaller is better for AIC, BIC and ICL, larger for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Criterion {
    /// [`Self::Bic`] if the rows fit the model, else [`Self::SharedInformation`]: see
    /// [`recommend`](super::recommend()).
    #[default]
    Auto,
    /// The mutual information of fits of two halves of the rows, less that of chance: how much of a
    /// clustering an independent sample reproduces. It is measured with [`Self::Stability`].
    SharedInformation,
    /// The adjusted Rand index of fits of two halves of the rows: [`Stability`]. It needs no model of
    /// the rows, and 2 fits per repeat. Few large clusters are nearly always stable, so it is better
    /// for checking a number than for choosing one.
    Stability,
    /// The agreement of the components of a row and of its nearest neighbours: the adjusted mutual
    /// information, MATH.md (17.5).
    Neighbours,
    /// Akaike's criterion: -2 ln L + 2 p.
    Aic,
    /// Schwarz's criterion: -2 ln L + p ln n.
    Bic,
    /// BIC plus twice the entropy of the responsibilities (Biernacki, Celeux and Govaert,
    /// doi:10.1109/34.865189): for clusters that should not overlap.
    Icl,
    /// The mean ln p of held-out rows.
    HeldOut,
}

impl Criterion {
    /// Every criterion.
    pub const ALL: [Self; 8] =
        [Self::Auto, Self::SharedInformation, Self::Stability, Self::Neighbours, Self::Aic, Self::Bic, Self::Icl, Self::HeldOut];

    /// Those that score a candidate by itself: all but [`Self::Auto`].
    pub const SCORES: [Self; 7] =
        [Self::SharedInformation, Self::Stability, Self::Neighbours, Self::Aic, Self::Bic, Self::Icl, Self::HeldOut];

    /// The name used on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::SharedInformation => "shared-information",
            Self::Stability => "stability",
            Self::Neighbours => "neighbours",
            Self::Aic => "aic",
            Self::Bic => "bic",
            Self::Icl => "icl",
            Self::HeldOut => "held-out",
        }
    }

    /// Whether it is made from the likelihood, which means little if rows do not fit the model.
    pub fn is_likelihood(self) -> bool {
        matches!(self, Self::Aic | Self::Bic | Self::Icl | Self::HeldOut)
    }
}

impl std::str::FromStr for Criterion {
    type Err = ParseChoiceError;

    fn from_str(text: &str) -> Result<Self, ParseChoiceError> {
        const NAMES: &[&str] = &["auto", "shared-information", "stability", "neighbours", "aic", "bic", "icl", "held-out"];
        let found = Self::ALL.into_iter().find(|criterion| criterion.name() == text);
        found.ok_or_else(|| ParseChoiceError::new("criterion", NAMES, text))
    }
}

/// One line of the table: a mixture fitted to the rows, or to those that were not held out.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Candidate {
    /// The number of components without a background.
    pub components: usize,
    /// How the concentrations are tied across components.
    pub policy: ConcentrationPolicy,
    /// Whether there is a uniform background.
    pub background: bool,
    /// The fitted mixture.
    pub mixture: Mixture,
    /// How the fit ended.
    pub status: Status,
    /// Whether the fit that was kept started from the mixture with fewer components.
    pub grown: bool,
    /// The number of rows it was fitted to.
    pub rows: u64,
    /// One entry for each pass of the fit that was kept.
    pub trace: Vec<Pass>,
    /// Passes of its search over a sample of the rows.
    pub search_passes: usize,
    /// The settings of the fit that was kept.
    pub settings: Settings,
    /// The number of free parameters.
    pub free_parameters: usize,
    /// How well it explains the rows it was fitted to.
    pub seen: Evaluation,
    /// How well it explains the held-out rows, if there are any.
    pub held_out: Option<Evaluation>,
    /// The notes of the fit that was kept.
    pub notes: Vec<Note>,
    /// The mass and the shortfall of each component under the last M step.
    pub sums: Vec<ComponentSum>,
    /// How far its probabilities can be trusted, as a [`Fitter`](crate::Fitter) finds it.
    pub calibration: Option<Calibration>,
    /// The scores of its rows for p-values, as a [`Fitter`](crate::Fitter) finds them.
    pub outlier_table: Option<OutlierTable>,
    /// The agreement of fits of two halves of the rows, if it was measured.
    pub stability: Option<Stability>,
    /// The agreement of the components of rows and of their neighbours, if it was measured.
    pub neighbours: Option<Estimate>,
    /// The criteria that could not be measured, and why.
    pub skipped: Vec<(Criterion, Skipped)>,
}

impl Candidate {
    /// The fit, as a [`Fitter`](crate::Fitter) returns it.
    pub fn to_fit(&self) -> Fit {
        Fit {
            mixture: self.mixture.clone(),
            trace: self.trace.clone(),
            status: self.status,
            notes: self.notes.clone(),
            weight: self.seen.weight,
            rows: self.rows,
            search_passes: self.search_passes,
            sums: self.sums.clone(),
            calibration: self.calibration.clone(),
            outlier_table: self.outlier_table.clone(),
            settings: self.settings.clone(),
        }
    }

    /// The notes on the result, such as empty and collapsed components, without those on repairs.
    pub fn warnings(&self) -> impl Iterator<Item = &Note> {
        self.notes.iter().filter(|note| !matches!(note, Note::Reseeded { .. }))
    }

    /// The [dispersion](crate::dispersion::dispersion) of the rows under the mixture.
    pub fn dispersion(&self) -> Option<f64> {
        self.calibration.as_ref().map(|calibration| calibration.dispersion)
    }

    /// -2 ln L + 2 p.
    pub fn aic(&self) -> f64 {
        self.seen.aic(self.free_parameters)
    }

    /// -2 ln L + p ln n.
    pub fn bic(&self) -> f64 {
        self.seen.bic(self.free_parameters)
    }

    /// BIC plus twice the entropy of the responsibilities.
    pub fn icl(&self) -> f64 {
        self.seen.icl(self.free_parameters)
    }

    /// The criterion as a score: larger is better. `None` if it was not measured, as without held-out
    /// rows of positive weight, and for [`Criterion::Auto`].
    pub fn score(&self, criterion: Criterion) -> Option<f64> {
        match criterion {
            Criterion::Auto => None,
            Criterion::SharedInformation => self.stability.as_ref().map(|stability| stability.shared_information.mean),
            Criterion::Stability => self.stability.as_ref().map(|stability| stability.agreement.mean),
            Criterion::Neighbours => self.neighbours.map(|neighbours| neighbours.mean),
            Criterion::Aic => Some(-self.aic()),
            Criterion::Bic => Some(-self.bic()),
            Criterion::Icl => Some(-self.icl()),
            Criterion::HeldOut => self.held_out.filter(|held_out| held_out.weight > 0.0).map(|held_out| held_out.mean()),
        }
    }
}

/// The candidate that a criterion prefers; with `policy`, among those of that policy.
///
/// Likelihoods compare numbers of components well and policies badly: free concentrations always
/// fit better, even if they make worse clusters (docs/default-policy.md). They also prefer
/// collapsed components: see [`Candidate::warnings`].
pub fn best(candidates: &[Candidate], criterion: Criterion, policy: Option<ConcentrationPolicy>) -> Option<&Candidate> {
    best_of(candidates.iter().filter(|candidate| policy.is_none_or(|policy| candidate.policy == policy)), criterion)
}

/// The candidate that a criterion prefers.
pub fn best_of<'a>(candidates: impl IntoIterator<Item = &'a Candidate>, criterion: Criterion) -> Option<&'a Candidate> {
    let scored =
        candidates.into_iter().filter_map(|c| c.score(criterion).filter(|score| score.is_finite()).map(|score| (score, c)));
    // Among equals the first, which has the fewest components.
    scored.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, candidate)| candidate)
}
