//! [`recommend`]: the number of components that a criterion prefers, and how sure that is.
//!
//! A likelihood that holds compares numbers of components by their probabilities. What
//! fits of two halves and neighbours agree on compares them by differences and standard errors, MATH.md (18.8).

use super::candidate::{Candidate, Criterion, best_of};
use super::estimate::Estimate;
use crate::m_step::ConcentrationPolicy;
use crate::policy::LARGEST_DISPERSION;
use std::fmt;

/// How sure a recommendation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Confidence {
    /// No single number of components stands out.
    None,
    /// Others are nearly as good.
    Low,
    /// Others are possible.
    Medium,
    /// The others are clearly worse.
    High,
}

impl Confidence {
    /// The name used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a recommendation rests on, or what speaks against it; its `Display` is a clause in words.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// There was nothing to compare with.
    OnlyNumber,
    /// The smallest number offered (above 1) is the best, so smaller ones may be better.
    Smallest,
    /// The largest number offered is the best, so larger ones may be better.
    Largest,
    /// The rows do not fit the model, so its likelihood says little.
    Dispersion(f64),
    /// The probability of the number among those offered, from AIC, BIC or ICL.
    Probability(f64),
    /// By how many standard errors the held-out likelihood of the next best is lower.
    HeldOutErrors(f64),
    /// The information shared by fits of two halves, as a number of clusters.
    SharedClusters(f64),
    /// One repeat has no standard error, so ties cannot be found.
    OneRepeat,
    /// The adjusted Rand index of fits of two halves.
    HalvesAgree(f64),
    /// The adjusted mutual information of neighbours.
    NeighboursAgree(f64),
    /// Numbers that are as good but for noise.
    Ties(Vec<usize>),
    /// The neighbours prefer this number, which differs by at most a tenth or is better by noise alone.
    NeighboursConfirm(usize),
    /// The neighbours prefer this number, which differs by more than a tenth and is better.
    NeighboursPrefer(usize),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::OnlyNumber => write!(f, "no other number was offered"),
            Self::Smallest => write!(f, "it is the smallest number offered"),
            Self::Largest => write!(f, "it is the largest number offered"),
            Self::Dispersion(dispersion) => write!(
                f,
                "the rows vary {dispersion:.1} times as much along their mean directions as the model allows, so \
                 likelihoods cannot be trusted"
            ),
            Self::Probability(probability) => {
                write!(f, "its probability among the numbers offered is {}", probability_in_words(*probability))
            }
            Self::HeldOutErrors(errors) => {
                write!(f, "the held-out likelihood of the next best is lower by {errors:.1} standard errors")
            }
            Self::SharedClusters(clusters) => {
                write!(f, "independent fits share the information of {clusters:.1} equally large clusters")
            }
            Self::OneRepeat => write!(f, "one repeat has no standard error"),
            Self::HalvesAgree(index) => write!(f, "fits of two halves agree with an adjusted Rand index of {index:.2}"),
            Self::NeighboursAgree(information) => {
                write!(f, "neighbours share components with an adjusted mutual information of {information:.2}")
            }
            Self::Ties(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
                write!(f, "not distinguishable from it: {}", numbers.join(", "))
            }
            Self::NeighboursConfirm(number) => write!(f, "neighbours confirm it (they prefer {number})"),
            Self::NeighboursPrefer(number) => write!(f, "neighbours prefer {number}"),
        }
    }
}

fn probability_in_words(probability: f64) -> String {
    if probability > 0.999 { "above 0.999".to_owned() } else { format!("{probability:.3}") }
}

/// A recommended candidate, and how sure that is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Recommendation<'c> {
    /// The candidate; without confidence, the best of those offered.
    pub candidate: &'c Candidate,
    /// The criterion that decided; not [`Criterion::Auto`].
    pub criterion: Criterion,
    /// How sure it is.
    pub confidence: Confidence,
    /// Why.
    pub reasons: Vec<Reason>,
}

/// The first line says what is recommended, the others why.
impl fmt::Display for Recommendation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Recommendation { candidate, criterion, confidence, reasons } = self;
        let plural = if candidate.components == 1 { "" } else { "s" };
        let with = if candidate.background { " and a background" } else { "" };
        let what = format!("{} component{plural}{with}", candidate.components);
        match confidence {
            Confidence::None => write!(f, "no single number of components stands out; the best by {criterion} is {what}")?,
            confidence => write!(f, "{criterion} recommends {what}, confidence: {confidence}")?,
        }
        reasons.iter().try_for_each(|reason| write!(f, "\n  {reason}"))
    }
}

/// The two halves have found the same clusters: the adjusted Rand index at which mixtures count as
/// recovered throughout this crate's tests.
const RECOVERED: f64 = 0.9;

/// Below it, fits of two halves disagree more than they agree.
const HALF: f64 = 0.5;

/// Numbers of components that differ by at most a tenth are the same for most purposes.
const TENTH: f64 = 0.1;

/// Differences below three standard errors are noise: with five repeats, a difference of noise is
/// larger in 4 % of all cases.
const ERRORS_OF_NOISE: f64 = 3.0;

/// The number of components that a criterion recommends; with `policy`, among the candidates of that
/// policy. `None` if no candidate was scored.
///
/// [`Criterion::Auto`] is BIC if the dispersion under the mixture that BIC prefers is at most
/// [`LARGEST_DISPERSION`]: then the rows fit the model. Otherwise every likelihood prefers ever more
/// components, and the information that independent fits share decides.
///
/// Shared information hardly changes once all clusters are found, so the smallest number within a
/// standard error of the best is recommended. Stability and the agreement of neighbours are relative
/// to the number of clusters, and merged clusters agree as well as single ones; there the largest
/// number within a standard error of the best is recommended. The confidence is that of
/// MATH.md (18.8).
///
/// ```
/// use vmfkit::fit::select::{Confidence, Criterion, Selection, recommend};
/// use vmfkit::{Mixture, RowBatch, VonMisesFisher};
/// let truth = Mixture::new(
///     vec![0.5, 0.5],
///     vec![VonMisesFisher::new(vec![1.0, 0.0, 0.0], 30.0)?, VonMisesFisher::new(vec![0.0, 1.0, 0.0], 30.0)?],
/// )?;
/// let (rows, _) = truth.sample_rows::<f64>(1500, 1)?;
/// let table = Selection::new(1..=4).run(&RowBatch::new(3, &rows)?)?;
/// let found = recommend(&table, Criterion::Auto, None).unwrap();
/// assert_eq!((found.candidate.components, found.criterion), (2, Criterion::Bic));
/// assert_eq!(found.confidence, Confidence::High);
/// # Ok::<(), vmfkit::Error>(())
/// ```
pub fn recommend(
    candidates: &[Candidate],
    criterion: Criterion,
    policy: Option<ConcentrationPolicy>,
) -> Option<Recommendation<'_>> {
    let candidates: Vec<&Candidate> =
        candidates.iter().filter(|candidate| policy.is_none_or(|policy| candidate.policy == policy)).collect();
    match criterion {
        Criterion::Auto => {
            let measured = |criterion| by_differences(&candidates, criterion);
            let likelihood = by_likelihood(&candidates, Criterion::Bic);
            match fits_the_model(candidates.iter().copied()) {
                true => likelihood,
                false => measured(Criterion::SharedInformation).or_else(|| measured(Criterion::Neighbours)).or(likelihood),
            }
        }
        Criterion::SharedInformation | Criterion::Stability | Criterion::Neighbours => by_differences(&candidates, criterion),
        Criterion::Aic | Criterion::Bic | Criterion::Icl | Criterion::HeldOut => by_likelihood(&candidates, criterion),
    }
}

/// Whether the rows fit the model, by the dispersion under the mixture that BIC prefers: BIC is then
/// valid for its own choice.
pub(super) fn fits_the_model<'a>(candidates: impl IntoIterator<Item = &'a Candidate>) -> bool {
    let preferred = best_of(candidates, Criterion::Bic);
    preferred.and_then(Candidate::dispersion).is_none_or(|dispersion| dispersion <= LARGEST_DISPERSION)
}

fn by_likelihood<'c>(candidates: &[&'c Candidate], criterion: Criterion) -> Option<Recommendation<'c>> {
    let best = best_of(candidates.iter().copied(), criterion)?;
    let score = best.score(criterion)?;
    let others = candidates.iter().filter(|other| other.components != best.components);
    let losses: Vec<f64> =
        others.filter_map(|other| other.score(criterion)).filter(|other| other.is_finite()).map(|other| score - other).collect();
    let mut found = Recommendation { candidate: best, criterion, confidence: Confidence::High, reasons: Vec::new() };
    if losses.is_empty() {
        found.add(Confidence::None, Reason::OnlyNumber);
    } else if criterion == Criterion::HeldOut {
        let error = best.held_out.map_or(0.0, |held_out| held_out.standard_error());
        let errors = losses.iter().copied().fold(f64::INFINITY, f64::min) / error;
        found.add(level(errors, [1.0, 2.0]), Reason::HeldOutErrors(errors));
    } else {
        // The posterior probability of BIC, and its like for AIC (Akaike weights) and ICL.
        let probability = 1.0 / (1.0 + losses.iter().map(|loss| (-0.5 * loss).exp()).sum::<f64>());
        found.add(level(probability, [0.75, 0.95]), Reason::Probability(probability));
    }
    found.check_ends(candidates);
    if let Some(dispersion) = best.dispersion().filter(|dispersion| *dispersion > LARGEST_DISPERSION) {
        found.add(Confidence::None, Reason::Dispersion(dispersion));
    }
    Some(found)
}

/// Low below the first limit, high from the second on: "positive" and "strong" evidence of Kass and
/// Raftery (doi:10.1080/01621459.1995.10476572) for probabilities.
fn level(value: f64, [medium, high]: [f64; 2]) -> Confidence {
    match value {
        value if value >= high => Confidence::High,
        value if value >= medium => Confidence::Medium,
        _ => Confidence::Low,
    }
}

fn by_differences<'c>(candidates: &[&'c Candidate], criterion: Criterion) -> Option<Recommendation<'c>> {
    let scored: Vec<&Candidate> = candidates.iter().copied().filter(|candidate| candidate.score(criterion).is_some()).collect();
    let chosen = preferred(&scored, criterion)?;
    let mut found = Recommendation { candidate: chosen, criterion, confidence: Confidence::High, reasons: Vec::new() };
    if let (Criterion::SharedInformation, Some(stability)) = (criterion, &chosen.stability) {
        found.reasons.push(Reason::SharedClusters(stability.shared_clusters()));
    }
    let (score, agreement): (f64, fn(f64) -> Reason) = match (criterion, &chosen.stability) {
        (Criterion::SharedInformation | Criterion::Stability, Some(stability)) => (stability.agreement.mean, Reason::HalvesAgree),
        _ => (chosen.score(criterion)?, Reason::NeighboursAgree),
    };
    // Where halves or neighbours disagree more than they agree, no number has clusters that count.
    let reached = if score < HALF { Confidence::None } else { level(score, [HALF, RECOVERED]) };
    found.add(reached, agreement(score));
    if chosen.stability.as_ref().is_some_and(|stability| stability.repeats.len() < 2) && criterion != Criterion::Neighbours {
        found.add(Confidence::Low, Reason::OneRepeat);
    }
    let is_tie =
        |other: &&&Candidate| is_far(other.components, chosen.components) && !is_worse(other, chosen, criterion, ERRORS_OF_NOISE);
    let mut ties: Vec<usize> = scored.iter().filter(is_tie).map(|other| other.components).collect();
    ties.dedup();
    if !ties.is_empty() {
        // Coarser or finer clusters that are found again, too, leave a choice; others leave none.
        found.add(if reached == Confidence::High { Confidence::Medium } else { Confidence::None }, Reason::Ties(ties));
    }
    if criterion != Criterion::Neighbours {
        // A number that is as good but for noise is confirmed, too.
        let is_confirmed =
            |best: &Candidate| !is_far(best.components, chosen.components) || !is_worse(chosen, best, Criterion::Neighbours, 1.0);
        match best_of(scored.iter().copied(), Criterion::Neighbours).map(|best| (best.components, is_confirmed(best))) {
            Some((other, false)) => {
                let at_most = if reached == Confidence::High { Confidence::Medium } else { Confidence::Low };
                found.add(at_most, Reason::NeighboursPrefer(other));
            }
            Some((other, true)) => found.reasons.push(Reason::NeighboursConfirm(other)),
            None => {}
        }
    }
    if scored.iter().all(|other| other.components == chosen.components) {
        found.add(Confidence::None, Reason::OnlyNumber);
    }
    found.check_ends(&scored);
    Some(found)
}

impl Recommendation<'_> {
    /// A reason that allows at most this confidence.
    fn add(&mut self, at_most: Confidence, reason: Reason) {
        self.confidence = self.confidence.min(at_most);
        self.reasons.push(reason);
    }

    /// A best value at the end of the numbers offered is no peak.
    fn check_ends(&mut self, candidates: &[&Candidate]) {
        let numbers = || candidates.iter().map(|candidate| candidate.components);
        let (smallest, largest) = (numbers().min(), numbers().max());
        if smallest == largest {
            return;
        }
        let chosen = Some(self.candidate.components);
        let is_likelihood = self.criterion.is_likelihood();
        if chosen == largest {
            self.add(if is_likelihood { Confidence::Low } else { Confidence::None }, Reason::Largest);
        } else if chosen == smallest && self.candidate.components > 1 {
            let is_found = self.confidence == Confidence::High;
            self.add(if is_likelihood || is_found { Confidence::Low } else { Confidence::None }, Reason::Smallest);
        }
    }
}

/// The smallest (shared information) or largest number of components that is as good as the best
/// within a standard error.
fn preferred<'c>(candidates: &[&'c Candidate], criterion: Criterion) -> Option<&'c Candidate> {
    let best = best_of(candidates.iter().copied(), criterion)?;
    let is_as_good = |other: &&Candidate| other.score(criterion).is_some() && !is_worse(other, best, criterion, 1.0);
    let as_good = candidates.iter().copied().filter(is_as_good);
    // Among equals the first, which has no background.
    as_good.reduce(|chosen, next| {
        let is_next = match criterion {
            Criterion::SharedInformation => next.components < chosen.components,
            _ => next.components > chosen.components,
        };
        if is_next { next } else { chosen }
    })
}

/// Whether a candidate is worse than another by more than this many standard errors of the
/// difference. Repeats use the same halves for all candidates, so they are paired.
fn is_worse(candidate: &Candidate, other: &Candidate, criterion: Criterion, errors: f64) -> bool {
    let repeats = |candidate: &'_ Candidate| match (criterion, &candidate.stability) {
        (Criterion::SharedInformation, Some(stability)) => Some(stability.information_of_repeats.clone()),
        (Criterion::Stability, Some(stability)) => Some(stability.repeats.clone()),
        _ => None,
    };
    let difference = match (repeats(candidate), repeats(other), candidate.neighbours, other.neighbours) {
        (Some(one), Some(other), ..) => {
            let paired: Vec<f64> = one.iter().zip(&other).map(|(one, other)| other - one).collect();
            Estimate::of_repeats(&paired)
        }
        (_, _, Some(one), Some(other)) => {
            Estimate { mean: other.mean - one.mean, standard_error: one.standard_error.hypot(other.standard_error) }
        }
        _ => return true,
    };
    difference.mean > errors * difference.standard_error
}

/// Whether two numbers of components differ by more than a tenth, and by more than 1.
fn is_far(one: usize, other: usize) -> bool {
    one.abs_diff(other) as f64 > (TENTH * one.max(other) as f64).max(1.0)
}
