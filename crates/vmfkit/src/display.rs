//! `Display` of models and reports: one line with `{}`; with `{:#}` also a table or a list.

use crate::calibrate::{Basis, Calibration};
use crate::density::VonMisesFisher;
use crate::fit::Method;
use crate::fit::select::{Candidate, Criterion};
use crate::inference::Test;
use crate::metrics::{Agreement, ParameterErrors};
use crate::mixture::{Evaluation, Mixture};
use crate::settings::Settings;
use crate::stats::SufficientStats;
use crate::train::{Fit, Pass, Status};
use std::fmt::{Display, Formatter, Result};

/// The largest numbers of coordinates of a direction, components of a mixture and notes of a fit
/// that are printed.
const COORDINATES: usize = 4;
const COMPONENTS: usize = 20;
const NOTES: usize = 20;

/// A number with six significant digits.
fn short(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return format!("{x}");
    }
    if !(1e-4..1e7).contains(&x.abs()) {
        return format!("{x:.5e}");
    }
    let decimals = (5 - x.abs().log10().floor() as i32).max(0) as usize;
    let text = format!("{x:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A number with three significant digits.
fn rounded(x: f64) -> String {
    let decimals = if x > 0.0 { (2 - x.log10().floor() as i32).clamp(0, 6) as usize } else { 0 };
    format!("{x:.decimals$}")
}

/// `1 pass`, `2 passes`.
fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn direction(mu: &[f64]) -> String {
    let shown = if mu.len() <= COORDINATES + 1 { mu.len() } else { COORDINATES };
    let mut text = mu[..shown].iter().map(|x| short(*x)).collect::<Vec<_>>().join(", ");
    if shown < mu.len() {
        text += &format!(", ... {} more", mu.len() - shown);
    }
    format!("[{text}]")
}

/// A temperature closer to 1 than this changes no probability by more than a rounding of reports.
const LEAST_CHANGE: f64 = 1e-3;

/// Whether and why probabilities differ from the exact posterior, in words.
impl Display for Calibration {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let source = match self.basis {
            Basis::Model => return f.write_str("exact posterior (temperature 1), because the rows fit the model"),
            Basis::OneComponent => return f.write_str("not calibrated, because there is one component"),
            Basis::FewRows => {
                let rows = self.sample_rows;
                return write!(f, "not calibrated, because too few of the {rows} rows in the sample have neighbours");
            }
            Basis::Neighbours => "neighbours",
            Basis::Labels => "the known labels",
        };
        let [temperature, dispersion, raw, calibrated] =
            [self.temperature, self.dispersion, self.raw.error(), self.calibrated.error()].map(rounded);
        if self.temperature < 1.0 + LEAST_CHANGE {
            return write!(
                f,
                "exact posterior (temperature 1): the rows vary {dispersion} times as much along their mean directions as the \
                 model allows, but {source} confirm it (expected calibration error on the sample {calibrated})"
            );
        }
        write!(
            f,
            "calibrated by {source}, temperature {temperature}: the rows vary {dispersion} times as much along their mean \
             directions as the model allows, so the exact posterior is overconfident (expected calibration error on the sample \
             {raw} before and {calibrated} after)"
        )
    }
}

/// The concentration and the mean direction, or its first coordinates.
///
/// ```
/// let density = vmfkit::VonMisesFisher::new(vec![0.0, 0.6, 0.8], 12.5)?;
/// assert_eq!(density.to_string(), "vMF of dimension 3, concentration 12.5, mean direction [0, 0.6, 0.8]");
/// # Ok::<(), vmfkit::Error>(())
/// ```
impl Display for VonMisesFisher {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "vMF of dimension {}, concentration {}", self.dim(), short(self.concentration()))?;
        if self.concentration() > 0.0 {
            write!(f, ", mean direction {}", direction(self.mean_direction()))
        } else {
            f.write_str(" (uniform)")
        }
    }
}

/// Components and dimension; with `{:#}` also a table of the heaviest components.
///
/// ```
/// use vmfkit::{Mixture, VonMisesFisher};
/// let along = |x, y| VonMisesFisher::new(vec![x, y], 10.0);
/// let mixture = Mixture::new(vec![0.25, 0.75], vec![along(1.0, 0.0)?, along(0.0, 1.0)?])?;
/// assert_eq!(mixture.to_string(), "mixture of 2 vMF components of dimension 2");
/// assert_eq!(
///     format!("{mixture:#}"),
///     "mixture of 2 vMF components of dimension 2
/// component     weight  concentration  half within  mean direction
///         1       0.75             10        12.41  [0, 1]
///         0       0.25             10        12.41  [1, 0]
/// half within: angle in degrees that contains half of the component's mass"
/// );
/// # Ok::<(), vmfkit::Error>(())
/// ```
impl Display for Mixture {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let fitted = self.components().len() - usize::from(self.has_background());
        let background = if self.has_background() { " and a uniform background" } else { "" };
        let components = counted(fitted, "vMF component", "vMF components");
        write!(f, "mixture of {components}{background} of dimension {}", self.dim())?;
        if !f.alternate() {
            return Ok(());
        }
        write!(f, "\n{:>9}  {:>9}  {:>13}  {:>11}  mean direction", "component", "weight", "concentration", "half within")?;
        let mut order: Vec<usize> = (0..self.components().len()).collect();
        order.sort_by(|&a, &b| self.weights()[b].total_cmp(&self.weights()[a]));
        for &number in order.iter().take(COMPONENTS) {
            let density = &self.components()[number];
            let (weight, concentration) = (short(self.weights()[number]), short(density.concentration()));
            let half_within = format!("{:.2}", density.angle_holding(0.5).to_degrees());
            let last = if self.is_background(number) { "(background)".to_owned() } else { direction(density.mean_direction()) };
            write!(f, "\n{number:>9}  {weight:>9}  {concentration:>13}  {half_within:>11}  {last}")?;
        }
        if order.len() > COMPONENTS {
            write!(f, "\n... and {} more", order.len() - COMPONENTS)?;
        }
        f.write_str("\nhalf within: angle in degrees that contains half of the component's mass")
    }
}

/// The shape and the total weight of the rows.
impl Display for SufficientStats {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let components = counted(self.components(), "component", "components");
        write!(f, "statistics of {components} of dimension {}, row weight {}", self.dim(), short(self.weight()))
    }
}

/// The mean log density and its standard error.
impl Display for Evaluation {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let (mean, error) = (short(self.mean()), short(self.standard_error()));
        write!(f, "mean ln p {mean} (standard error {error}), row weight {}", short(self.weight))
    }
}

/// The [name](Status::name).
impl Display for Status {
    fn fmt(&self, f: &mut Formatter) -> Result {
        f.pad(self.name())
    }
}

/// The [name](Method::name), without its settings.
impl Display for Method {
    fn fmt(&self, f: &mut Formatter) -> Result {
        f.pad(self.name())
    }
}

/// The [name](Criterion::name).
impl Display for Criterion {
    fn fmt(&self, f: &mut Formatter) -> Result {
        f.pad(self.name())
    }
}

/// The objective and the extremes of the parameters.
impl Display for Pass {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let [objective, weight, concentration] = [self.objective, self.smallest_weight, self.largest_concentration].map(short);
        write!(f, "objective {objective}, smallest weight {weight}, largest concentration {concentration}")?;
        if self.temperature != 1.0 {
            write!(f, ", temperature {}", short(self.temperature))?;
        }
        Ok(())
    }
}

/// How the fit ended; with `{:#}` also the components and the notes.
///
/// ```
/// use vmfkit::{RowBatch, Fitter};
/// let rows = [1.0, 0.0, 0.8, 0.6, 0.6, 0.8, 0.0, 1.0];
/// let fit = Fitter::new(1).fit(&RowBatch::new(2, &rows)?)?;
/// assert!(fit.to_string().starts_with("converged after "));
/// assert!(fit.to_string().ends_with(": mixture of 1 vMF component of dimension 2"));
/// assert!(format!("{fit:#}").contains("half within"));
/// # Ok::<(), vmfkit::Error>(())
/// ```
impl Display for Fit {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let passes = counted(self.trace.len(), "pass", "passes");
        write!(f, "{} after {passes}", self.status)?;
        if self.search_passes > 0 {
            write!(f, " (and {} of the search, over a sample)", self.search_passes)?;
        }
        if !self.trace.is_empty() {
            write!(f, ", objective {}", short(self.objective()))?;
        }
        if !f.alternate() {
            return write!(f, ": {}", self.mixture);
        }
        write!(f, "\n{:#}", self.mixture)?;
        for note in self.notes.iter().take(NOTES) {
            write!(f, "\nnote: {note}")?;
        }
        if self.notes.len() > NOTES {
            write!(f, "\n... and {} more notes", self.notes.len() - NOTES)?;
        }
        Ok(())
    }
}

/// What was fitted, and every criterion; with `{:#}` also the components and the warnings.
impl Display for Candidate {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let background = if self.background { " and a background" } else { "" };
        let components = counted(self.components, "component", "components");
        let [aic, bic, icl] = [self.aic(), self.bic(), self.icl()].map(short);
        write!(f, "{components}{background}, policy {}: AIC {aic}, BIC {bic}, ICL {icl}", self.policy)?;
        if let Some(held_out) = self.score(Criterion::HeldOut) {
            write!(f, ", held-out mean ln p {}", short(held_out))?;
        }
        if f.alternate() {
            write!(f, "\n{:#}", self.mixture)?;
            for note in self.warnings().take(NOTES) {
                write!(f, "\nnote: {note}")?;
            }
        }
        Ok(())
    }
}

/// Every measure; with `{:#}` one per line.
///
/// ```
/// use vmfkit::metrics::Agreement;
/// let agreement = Agreement::new(&[0, 0, 1, 1], &[1, 1, 0, 0])?;
/// assert_eq!(agreement.to_string(), "ARI 1, NMI 1, homogeneity 1, completeness 1, V-measure 1, matched fraction 1");
/// # Ok::<(), vmfkit::Error>(())
/// ```
impl Display for Agreement {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let measures = [
            ("ARI", self.adjusted_rand_index()),
            ("NMI", self.normalized_mutual_information()),
            ("homogeneity", self.homogeneity()),
            ("completeness", self.completeness()),
            ("V-measure", self.v_measure()),
            ("matched fraction", self.matched_fraction()),
        ];
        for (index, (name, value)) in measures.into_iter().enumerate() {
            match (index > 0, f.alternate()) {
                (true, true) => f.write_str("\n")?,
                (true, false) => f.write_str(", ")?,
                (false, _) => {}
            }
            if f.alternate() { write!(f, "{name:<13}  {}", short(value))? } else { write!(f, "{name} {}", short(value))? }
        }
        Ok(())
    }
}

/// The sums over the components, and the largest angle.
impl Display for ParameterErrors {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let sums = [self.weights(), self.mean_directions(), self.concentrations()].map(short);
        let angle = self.angles().iter().copied().fold(0.0, f64::max).to_degrees();
        let [weights, directions, concentrations] = sums;
        write!(f, "errors of weights {weights}, mean directions {directions}, concentrations {concentrations}; ")?;
        write!(f, "largest angle {} degrees", short(angle))
    }
}

/// Statistic and p-value.
impl Display for Test {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "statistic {}, p-value {}", short(self.statistic), short(self.p_value))
    }
}

/// Every setting as `name=text`; with `{:#}` one per line.
impl Display for Settings {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let separator = if f.alternate() { "\n" } else { " " };
        for (index, (name, text)) in self.iter().enumerate() {
            write!(f, "{}{name}={text}", if index > 0 { separator } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_six_digits_and_no_more_zeros_than_they_need() {
        let numbers = [0.0, 1.0, -2.5, 1.0 / 3.0, 99999.95, 1234567.0, 1e-4, 1e-9, 1e10, f64::INFINITY, f64::NAN];
        let expected = ["0", "1", "-2.5", "0.333333", "99999.9", "1234567", "0.0001", "1.00000e-9", "1.00000e10", "inf", "NaN"];
        assert_eq!(numbers.map(short), expected.map(str::to_owned));
    }
}
