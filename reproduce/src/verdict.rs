//! Verdicts on the paper's claims and on our own checks, from results with standard errors.

use serde::{Serialize, Serializer};

/// A mean difference of at most this number of standard errors is a tie.
pub const TIE: f64 = 2.0;

/// Whether the results support a claim. In JSON `true`, `false` or `"tie"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    Yes,
    No,
    Tie,
}

impl Serialize for Holds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Holds::Yes => serializer.serialize_bool(true),
            Holds::No => serializer.serialize_bool(false),
            Holds::Tie => serializer.serialize_str("tie"),
        }
    }
}

impl From<bool> for Holds {
    fn from(holds: bool) -> Self {
        if holds { Holds::Yes } else { Holds::No }
    }
}

impl Holds {
    /// A claim about every part: false if a part contradicts it, true if all parts support it,
    /// otherwise a tie.
    pub fn in_every(parts: &[Part]) -> Self {
        if parts.is_empty() || parts.iter().any(|part| part.holds == Holds::No) {
            Holds::No
        } else if parts.iter().all(|part| part.holds == Holds::Yes) {
            Holds::Yes
        } else {
            Holds::Tie
        }
    }

    /// A claim about the whole: false if a part contradicts it, true if otherwise a part supports
    /// it, otherwise a tie.
    pub fn overall(parts: &[Part]) -> Self {
        let any = |holds| parts.iter().any(|part| part.holds == holds);
        if parts.is_empty() || any(Holds::No) {
            Holds::No
        } else if any(Holds::Yes) {
            Holds::Yes
        } else {
            Holds::Tie
        }
    }

    /// A claim about means: false if a part contradicts it, true if all means are above 0,
    /// otherwise a tie.
    pub fn of_means(parts: &[Part]) -> Self {
        if parts.is_empty() || parts.iter().any(|part| part.holds == Holds::No) {
            Holds::No
        } else if parts.iter().all(|part| part.statistic > 0.0) {
            Holds::Yes
        } else {
            Holds::Tie
        }
    }
}

/// A mean with its standard error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    pub mean: f64,
    pub standard_error: f64,
}

impl Estimate {
    pub fn of(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let square: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
        Estimate { mean, standard_error: (square / (n - 1.0) / n).sqrt() }
    }

    /// The mean of first - second over the same samples.
    pub fn of_paired_difference(first: &[f64], second: &[f64]) -> Self {
        assert_eq!(first.len(), second.len(), "pairs are from the same samples");
        Estimate::of(&first.iter().zip(second).map(|(x, y)| x - y).collect::<Vec<_>>())
    }

    /// Whether the mean is above 0; it is a tie within [`TIE`] standard errors. Values that are not
    /// finite do not hold.
    pub fn is_gain(&self) -> Holds {
        if !self.mean.is_finite() || !self.standard_error.is_finite() || self.mean < -TIE * self.standard_error {
            Holds::No
        } else if self.mean > TIE * self.standard_error {
            Holds::Yes
        } else {
            Holds::Tie
        }
    }

    /// Whether the mean is 0 within [`TIE`] standard errors or within `margin`, whichever is
    /// larger.
    pub fn is_level(&self, margin: f64) -> Holds {
        (self.mean.abs() <= margin.max(TIE * self.standard_error)).into()
    }

    /// The mean in standard errors; 0 if the mean is 0, even with a standard error of 0.
    pub fn z(&self) -> f64 {
        if self.mean == 0.0 { 0.0 } else { self.mean / self.standard_error }
    }
}

/// One of the comparisons that decide a verdict.
#[derive(Debug, Clone, Serialize)]
pub struct Part {
    /// The cell, metric or parameter.
    pub at: String,
    pub statistic: f64,
    pub standard_error: f64,
    /// The statistic's expectation for large samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theory: Option<f64>,
    /// The same statistic of the paper's numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper: Option<f64>,
    pub holds: Holds,
}

impl Part {
    pub fn new(at: impl Into<String>, estimate: Estimate, holds: Holds) -> Self {
        let Estimate { mean: statistic, standard_error } = estimate;
        Part { at: at.into(), statistic, standard_error, theory: None, paper: None, holds }
    }

    /// A claim that the estimate is above 0.
    pub fn gain(at: impl Into<String>, estimate: Estimate) -> Self {
        Part::new(at, estimate, estimate.is_gain())
    }

    pub fn theory(mut self, value: f64) -> Self {
        self.theory = Some(value);
        self
    }

    pub fn paper(mut self, value: Option<f64>) -> Self {
        self.paper = value;
        self
    }

    fn z(&self) -> f64 {
        Estimate { mean: self.statistic, standard_error: self.standard_error }.z()
    }
}

/// How the parts of a claim are combined into one verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Each part must show a gain; see [`Holds::in_every`].
    EveryGain,
    /// There must be a gain overall; see [`Holds::overall`].
    Gain,
    /// Each part's mean must be above 0; see [`Holds::of_means`].
    Means,
    /// Each part must be level: it must not differ significantly from 0.
    Level,
}

/// The numbers of parts (that support the claim, that are ties, that contradict it).
pub fn counts(parts: &[Part]) -> (usize, usize, usize) {
    let count = |holds| parts.iter().filter(|part| part.holds == holds).count();
    (count(Holds::Yes), count(Holds::Tie), count(Holds::No))
}

/// Who makes the claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    Paper,
    Vmfkit,
}

/// A claim and its verdict.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    pub claim: String,
    source: Source,
    pub holds: Holds,
    /// The statistic that decides the verdict; of several parts, that of the part which supports
    /// the claim least.
    pub statistic: f64,
    pub standard_error: Option<f64>,
    /// The results as a sentence.
    pub found: String,
    /// Whether the exit code is 1 if it does not hold.
    pub required: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

impl Verdict {
    /// One of our checks, which decides the exit code.
    pub fn check(claim: impl Into<String>, statistic: f64, holds: bool, found: impl Into<String>) -> Self {
        Verdict {
            claim: claim.into(),
            source: Source::Vmfkit,
            holds: holds.into(),
            statistic,
            standard_error: None,
            found: found.into(),
            required: true,
            parts: Vec::new(),
        }
    }

    /// A claim of the paper; it decides the exit code only if it is
    /// [`required`](Verdict::required).
    pub fn of_paper(claim: impl Into<String>, rule: Rule, parts: Vec<Part>, found: impl Into<String>) -> Self {
        let holds = match rule {
            Rule::EveryGain | Rule::Level => Holds::in_every(&parts),
            Rule::Gain => Holds::overall(&parts),
            Rule::Means => Holds::of_means(&parts),
        };
        let support = |part: &Part| if rule == Rule::Level { -part.z().abs() } else { part.z() };
        let weakest = parts.iter().min_by(|x, y| support(x).total_cmp(&support(y)));
        Verdict {
            claim: claim.into(),
            source: Source::Paper,
            holds,
            statistic: weakest.map_or(f64::NAN, |part| part.statistic),
            standard_error: weakest.map(|part| part.standard_error),
            found: found.into(),
            required: false,
            parts,
        }
    }

    pub fn required(mut self, required: bool) -> Self {
        self.required = required;
        self
    }

    pub fn source(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// Whether this verdict allows the exit code 0.
    pub fn is_met(&self) -> bool {
        !self.required || self.holds == Holds::Yes
    }

    fn line(&self) -> String {
        let word = match (self.holds, self.required) {
            (Holds::Yes, _) => "holds",
            (Holds::Tie, _) => "tie",
            (Holds::No, true) => "FAILS",
            (Holds::No, false) => "not so",
        };
        let indent = " ".repeat(INDENT);
        let found: String = wrapped(&self.found, WIDTH - INDENT).iter().map(|line| format!("\n{indent}{line}")).collect();
        format!("{word:<INDENT$}{}{found}", self.claim)
    }
}

/// Columns of the text.
const WIDTH: usize = 120;
/// Columns of the verdict before each claim.
const INDENT: usize = 8;

/// Wraps a text between words. A word longer than `width` has a line of its own.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}

/// The verdicts as text, the paper's claims first.
pub fn lines(verdicts: &[Verdict]) -> String {
    let of = |source, title: &str| {
        let lines: Vec<String> = verdicts.iter().filter(|verdict| verdict.source == source).map(Verdict::line).collect();
        (!lines.is_empty()).then(|| format!("{title}\n{}", lines.join("\n")))
    };
    let groups = [of(Source::Paper, "The paper's claims"), of(Source::Vmfkit, "Our checks")];
    groups.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(outcomes: &[Holds]) -> Vec<Part> {
        let estimate = Estimate { mean: 0.0, standard_error: 1.0 };
        outcomes.iter().map(|&holds| Part::new("", estimate, holds)).collect()
    }

    #[test]
    fn a_gain_within_two_standard_errors_is_a_tie() {
        let holds = |mean, standard_error| Estimate { mean, standard_error }.is_gain();
        assert_eq!(holds(2.1, 1.0), Holds::Yes);
        assert_eq!(holds(1.9, 1.0), Holds::Tie);
        assert_eq!(holds(-1.9, 1.0), Holds::Tie);
        assert_eq!(holds(-2.1, 1.0), Holds::No);
        assert_eq!(holds(0.0, 0.0), Holds::Tie);
        assert_eq!(holds(1e-9, 0.0), Holds::Yes);
        assert_eq!(holds(f64::NAN, 1.0), Holds::No);
        assert_eq!(holds(1.0, f64::NAN), Holds::No);
    }

    #[test]
    fn means_within_the_margin_or_two_standard_errors_are_level() {
        let holds = |mean, standard_error, margin| Estimate { mean, standard_error }.is_level(margin);
        assert_eq!(holds(1.9, 1.0, 0.0), Holds::Yes);
        assert_eq!(holds(-2.1, 1.0, 0.0), Holds::No);
        assert_eq!(holds(2.1, 1.0, 2.5), Holds::Yes);
        assert_eq!(holds(f64::NAN, 1.0, 2.5), Holds::No);
    }

    #[test]
    fn paired_differences_have_their_own_standard_error() {
        // The differences 1, 2, 3 have mean 2 and standard error 1/sqrt(3).
        let Estimate { mean, standard_error } = Estimate::of_paired_difference(&[101.0, 12.0, 1003.0], &[100.0, 10.0, 1000.0]);
        assert!((mean - 2.0).abs() < 1e-15 && (standard_error - 3_f64.sqrt().recip()).abs() < 1e-15);
    }

    #[test]
    fn claims_about_every_part_tie_or_fail_with_any_part() {
        use Holds::{No, Tie, Yes};
        let holds = |outcomes: &[Holds]| Holds::in_every(&parts(outcomes));
        assert_eq!(holds(&[Yes, Yes]), Yes);
        assert_eq!(holds(&[Yes, Tie]), Tie);
        assert_eq!(holds(&[Tie, Tie]), Tie);
        assert_eq!(holds(&[Yes, Tie, No]), No);
        assert_eq!(holds(&[]), No);
    }

    #[test]
    fn claims_about_the_whole_fail_only_if_contradicted() {
        use Holds::{No, Tie, Yes};
        let holds = |outcomes: &[Holds]| Holds::overall(&parts(outcomes));
        assert_eq!(holds(&[Yes, Tie]), Yes);
        assert_eq!(holds(&[Tie, Tie]), Tie);
        assert_eq!(holds(&[Yes, No]), No);
        assert_eq!(holds(&[]), No);
    }

    #[test]
    fn claims_about_means_need_no_significance() {
        let holds = |means: &[f64]| {
            let part = |&mean| Part::gain("", Estimate { mean, standard_error: 1.0 });
            Holds::of_means(&means.iter().map(part).collect::<Vec<_>>())
        };
        assert_eq!(holds(&[0.1, 5.0]), Holds::Yes);
        assert_eq!(holds(&[-0.1, 5.0]), Holds::Tie);
        assert_eq!(holds(&[0.0, 5.0]), Holds::Tie);
        assert_eq!(holds(&[-2.1, 5.0]), Holds::No);
        assert_eq!(holds(&[f64::NAN, 5.0]), Holds::No);
        assert_eq!(holds(&[]), Holds::No);
    }

    #[test]
    fn the_statistic_is_that_of_the_weakest_part() {
        let part = |at: &str, mean, standard_error| Part::gain(at, Estimate { mean, standard_error });
        let statistic = |rule| {
            let parts = [part("a", 5.0, 1.0), part("b", 0.3, 0.1), part("c", 9.0, 4.0), part("d", -8.0, 1.0)];
            let verdict = Verdict::of_paper("it grows", rule, parts[..if rule == Rule::Gain { 4 } else { 3 }].to_vec(), "");
            (verdict.holds, verdict.statistic, verdict.standard_error)
        };
        assert_eq!(statistic(Rule::EveryGain), (Holds::Yes, 9.0, Some(4.0)));
        assert_eq!(statistic(Rule::Gain), (Holds::No, -8.0, Some(1.0)));
        assert_eq!(statistic(Rule::Level), (Holds::Yes, 5.0, Some(1.0)));
    }

    #[test]
    fn only_required_verdicts_decide_the_exit_code() {
        let claim = |holds| Verdict::of_paper("a", Rule::EveryGain, parts(&[holds]), "b");
        assert!(claim(Holds::No).is_met() && claim(Holds::Tie).is_met());
        assert!(!claim(Holds::No).required(true).is_met() && !claim(Holds::Tie).required(true).is_met());
        assert!(claim(Holds::Yes).required(true).is_met());
        assert!(!Verdict::check("a", 1.0, false, "b").is_met());
    }

    #[test]
    fn long_text_is_wrapped_between_words() {
        assert_eq!(wrapped("a ± bc defgh ijklmn o", 6), ["a ± bc", "defgh", "ijklmn", "o"]);
        assert_eq!(wrapped("abcdefgh i", 6), ["abcdefgh", "i"]);
        assert!(wrapped("", 6).is_empty());
    }

    #[test]
    fn verdicts_print_as_text_and_json() {
        let part = Part::gain("d = 5", Estimate { mean: 0.5, standard_error: 1.0 }).theory(0.25).paper(Some(0.75));
        let claim = Verdict::of_paper("x is above y", Rule::Gain, vec![part], "by 0.5");
        let check = Verdict::check("z is small", 3.0, false, "3");
        let text = lines(&[check.clone(), claim.clone()]);
        assert_eq!(text, "The paper's claims\ntie     x is above y\n        by 0.5\n\nOur checks\nFAILS   z is small\n        3");
        let json = serde_json::to_value([claim, check]).unwrap();
        assert_eq!((&json[0]["holds"], &json[1]["holds"]), (&serde_json::json!("tie"), &serde_json::json!(false)));
        assert_eq!((json[0]["statistic"].as_f64(), json[0]["standard_error"].as_f64()), (Some(0.5), Some(1.0)));
        assert_eq!((json[0]["source"].as_str(), json[1]["source"].as_str()), (Some("paper"), Some("vmfkit")));
        assert_eq!((json[0]["parts"][0]["theory"].as_f64(), json[0]["parts"][0]["paper"].as_f64()), (Some(0.25), Some(0.75)));
    }
}
