//! The report of `vmf select`: the table and the recommendation.

use super::Select;
use crate::files::output;
use crate::files::row_source::RowTotals;
use crate::interrupt;
use crate::report::format::{aligned, json_number, readable};
use anyhow::{Result, bail};
use serde_json::{Map, Value, json};
use std::path::Path;
use vmfkit::ConcentrationPolicy;
use vmfkit::fit::select::{Candidate, Criterion, Estimate, Recommendation, Skipped, best, best_of, recommend};
use vmfkit::policy::LARGEST_DISPERSION;
use vmfkit::store::model::{self, Description};
use vmfkit::train::Status;

/// The table and the recommendation.
pub(super) struct Report<'a> {
    pub select: &'a Select,
    pub rows: RowTotals,
    pub weighted: bool,
    pub candidates: Vec<Candidate>,
    pub policies: Vec<ConcentrationPolicy>,
}

impl Report<'_> {
    /// The best candidate of each policy by a criterion.
    fn preferred(&self, criterion: Criterion) -> impl Iterator<Item = &Candidate> {
        self.policies.iter().filter_map(move |&policy| best(&self.candidates, criterion, Some(policy)))
    }

    fn is_preferred(&self, candidate: &Candidate, criterion: Criterion) -> bool {
        self.preferred(criterion).any(|other| std::ptr::eq(other, candidate))
    }

    /// The recommendation for each policy.
    fn recommendations(&self) -> Vec<Recommendation<'_>> {
        let of_policy = |&policy| recommend(&self.candidates, self.select.criterion, Some(policy));
        self.policies.iter().filter_map(of_policy).collect()
    }

    /// Writes the recommended mixture.
    pub fn write_recommended(&self, path: &Path) -> Result<()> {
        let recommendations = self.recommendations();
        let Some(recommended) = recommendations.first() else {
            bail!("{}: not written, because {}", path.display(), self.nothing_recommended());
        };
        let fit = recommended.candidate.to_fit();
        output::write_file(path, model::to_bytes(&fit.mixture, &Description::of(&fit)))
    }

    fn nothing_recommended(&self) -> String {
        match self.candidates.is_empty() {
            true => "no fit was finished".to_owned(),
            false => format!("{} could not be measured", self.select.criterion),
        }
    }

    pub fn to_json(&self) -> String {
        let candidates: Vec<Value> = self.candidates.iter().map(|candidate| self.line_to_json(candidate)).collect();
        let recommendations: Vec<Value> = self.recommendations().iter().map(recommendation_to_json).collect();
        let object = json!({
            "file": self.rows.file,
            "rows": self.rows.rows,
            "dim": self.rows.dim,
            "rescaled_rows": self.rows.rescaled,
            "held_out_fraction": self.select.holdout(),
            "seed": self.select.seed,
            "criterion": self.select.criterion.name(),
            "interrupted": interrupt::is_requested(),
            "recommended": recommendations.first(),
            "recommendations": recommendations,
            "candidates": candidates,
        });
        format!("{object}\n")
    }

    fn line_to_json(&self, candidate: &Candidate) -> Value {
        let mut best = Map::new();
        for criterion in Criterion::SCORES {
            best.insert(criterion.name().replace('-', "_"), self.is_preferred(candidate, criterion).into());
        }
        let held_out = candidate.held_out.map(|held_out| {
            json!({
                "total_weight": json_number(held_out.weight),
                "mean_ln_density": json_number(held_out.mean()),
                "standard_error": json_number(held_out.standard_error()),
            })
        });
        let estimate = |estimate: Estimate| json!({ "mean": json_number(estimate.mean), "standard_error": json_number(estimate.standard_error) });
        let stability = candidate.stability.as_ref();
        let skipped = candidate.skipped.iter();
        let skipped: Map<String, Value> =
            skipped.map(|(criterion, why)| (criterion.name().replace('-', "_"), why.to_string().into())).collect();
        json!({
            "components": candidate.components,
            "policy": candidate.policy.to_string(),
            "background": candidate.background,
            "free_parameters": candidate.free_parameters,
            "total_weight": json_number(candidate.seen.weight),
            "ln_likelihood": json_number(candidate.seen.ln_likelihood),
            "mean_ln_density": json_number(candidate.seen.mean()),
            "aic": json_number(candidate.aic()),
            "bic": json_number(candidate.bic()),
            "icl": json_number(candidate.icl()),
            "held_out": held_out,
            "stability": stability.map(|stability| estimate(stability.agreement)),
            "shared_information": stability.map(|stability| estimate(stability.shared_information)),
            "shared_clusters": stability.map(|stability| json_number(stability.shared_clusters())),
            "neighbours": candidate.neighbours.map(estimate),
            "not_measured": skipped,
            "passes": candidate.trace.len(),
            "search_passes": candidate.search_passes,
            "dispersion": candidate.dispersion().map(json_number),
            "status": candidate.status.name(),
            "grown": candidate.grown,
            "notes": candidate.notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "best": best,
        })
    }

    pub fn to_text(&self) -> String {
        let likelihoods =
            ["k", "policy", "background", "parameters", "ln-likelihood", "AIC", "BIC", "ICL", "held-out ln p", "+-", "passes"];
        let measured: &[&str] =
            if self.is_measured() { &["stability", "+-", "neighbours", "+-", "shared clusters"] } else { &[] };
        let mut table = vec![likelihoods.iter().chain(measured).map(|name| (*name).to_owned()).collect::<Vec<_>>()];
        table.extend(self.candidates.iter().map(|candidate| self.cells(candidate)));
        let held_out = self.candidates.first().and_then(|candidate| candidate.held_out);
        let held_out_weight = held_out.map(|held_out| held_out.weight);
        let held_out = match held_out_weight {
            None if self.select.holdout() > 0.0 => ", too few to hold any out".to_owned(),
            None => String::new(),
            Some(weight) => {
                let weight =
                    if self.weighted { format!("a weight of {}", readable(weight)) } else { format!("{weight} of them") };
                format!(", {weight} held out: likelihood, AIC, BIC and ICL are for the other rows")
            }
        };
        let mut text = format!("{}{held_out}\n\n{}\n", self.rows.heading(), aligned(&table));
        let warnings: String = self.candidates.iter().filter_map(warning).collect();
        if !warnings.is_empty() {
            text.push_str(&format!("{warnings}\n"));
        }
        if held_out_weight == Some(0.0) {
            text.push_str("the held-out rows have no weight, so there is no held-out ln p\n");
        }
        text.extend(self.candidates.iter().flat_map(not_measured));
        let recommendations = self.recommendations();
        let is_by_likelihood = |found: &Recommendation| found.criterion.is_likelihood();
        let misfit = self.preferred(Criterion::Bic).filter_map(Candidate::dispersion).fold(0.0, f64::max);
        // A recommendation by likelihood says so itself.
        if misfit > LARGEST_DISPERSION && !recommendations.iter().any(is_by_likelihood) {
            text.push_str(&format!(
                "the rows vary {misfit:.1} times more along their mean directions than the model allows: AIC, BIC, ICL and \
                 held-out\nln p prefer ever more components\n"
            ));
        }
        if recommendations.is_empty() && !self.candidates.is_empty() {
            text.push_str(&format!("no recommendation, because {}\n", self.nothing_recommended()));
        }
        for recommendation in &recommendations {
            text.push_str(&self.recommendation(recommendation));
        }
        if interrupt::is_requested() {
            text.push_str("interrupted: the other mixtures were not fitted or compared\n");
        }
        text
    }

    /// Whether fits of halves were compared.
    fn is_measured(&self) -> bool {
        let is_measured = |candidate: &Candidate| candidate.stability.is_some() || candidate.neighbours.is_some();
        self.candidates.iter().any(|candidate| is_measured(candidate) || !candidate.skipped.is_empty())
    }

    /// A star marks the best value of a criterion, a ! the k of a mixture with warnings, and `limit` a fit that did not converge.
    fn cells(&self, candidate: &Candidate) -> Vec<String> {
        let starred = |criterion: Criterion, value: String| {
            let star = if self.is_preferred(candidate, criterion) { '*' } else { ' ' };
            format!("{value}{star}")
        };
        let held_out = candidate.held_out.filter(|held_out| held_out.weight > 0.0);
        let (held_out, error) = held_out.map_or(("-".to_owned(), "-".to_owned()), |held_out| {
            (format!("{:.4}", held_out.mean()), format!("{:.4}", held_out.standard_error()))
        });
        let mut cells = vec![
            format!("{}{}", candidate.components, if candidate.warnings().next().is_some() { "!" } else { "" }),
            candidate.policy.to_string(),
            if candidate.background { "yes" } else { "no" }.to_owned(),
            candidate.free_parameters.to_string(),
            format!("{:.1}", candidate.seen.ln_likelihood),
            starred(Criterion::Aic, format!("{:.1}", candidate.aic())),
            starred(Criterion::Bic, format!("{:.1}", candidate.bic())),
            starred(Criterion::Icl, format!("{:.1}", candidate.icl())),
            starred(Criterion::HeldOut, held_out),
            error,
            format!("{}{}", candidate.trace.len(), if candidate.status == Status::PassLimit { ", limit" } else { "" }),
        ];
        if self.is_measured() {
            let stability = candidate.stability.as_ref();
            let estimates =
                [(Criterion::Stability, stability.map(|s| s.agreement)), (Criterion::Neighbours, candidate.neighbours)];
            for (criterion, estimate) in estimates {
                cells.push(estimate.map_or("-".to_owned(), |estimate| starred(criterion, format!("{:.4}", estimate.mean))));
                cells.push(estimate.map_or("-".to_owned(), |estimate| format!("{:.4}", estimate.standard_error)));
            }
            let shared = |clusters| starred(Criterion::SharedInformation, format!("{clusters:.1}"));
            cells.push(stability.map_or("-".to_owned(), |stability| shared(stability.shared_clusters())));
        }
        cells
    }

    fn recommendation(&self, recommended: &Recommendation) -> String {
        let Recommendation { candidate: best, criterion, .. } = recommended;
        let of = if self.policies.len() > 1 { format!("policy {}: ", best.policy) } else { String::new() };
        let how = match &self.select.output {
            Some(path) => format!("written to {}", path.display()),
            None => "`-o FILE` writes that mixture".to_owned(),
        };
        let text = format!("{of}{recommended}\n  {how}\n");
        if best.warnings().next().is_none() {
            return text;
        }
        let sound = self.candidates.iter().filter(|other| other.policy == best.policy && other.warnings().next().is_none());
        let instead = match best_of(sound, *criterion) {
            Some(Candidate { components, background, .. }) => {
                format!(
                    "without warnings, {criterion} prefers {components}{}",
                    if *background { " and a background" } else { "" }
                )
            }
            None => "all mixtures have warnings".to_owned(),
        };
        format!("{text}  but that mixture has a warning (see above); {instead}\n")
    }
}

fn recommendation_to_json(recommendation: &Recommendation) -> Value {
    let Recommendation { candidate, criterion, confidence, reasons, .. } = recommendation;
    json!({
        "components": candidate.components,
        "criterion": criterion.name(),
        "confidence": confidence.name(),
        "reasons": reasons.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "policy": candidate.policy.to_string(),
        "background": candidate.background,
    })
}

/// Why criteria of a line could not be measured; with one component that needs no words.
fn not_measured(candidate: &Candidate) -> impl Iterator<Item = String> {
    let Candidate { policy, components, .. } = candidate;
    let skipped = candidate.skipped.iter().filter(|(_, why)| *why != Skipped::OneComponent);
    skipped.map(move |(criterion, why)| format!("{policy}, k = {components}: no {criterion}, because {why}\n"))
}

/// The first warning of a mixture, and the number of others.
fn warning(candidate: &Candidate) -> Option<String> {
    let Candidate { policy, components, background, .. } = candidate;
    let mut warnings = candidate.warnings();
    let first = warnings.next()?;
    let with = if *background { " and a background" } else { "" };
    let more = match warnings.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(format!("! {policy}, k = {components}{with}: {first}{more}\n"))
}
