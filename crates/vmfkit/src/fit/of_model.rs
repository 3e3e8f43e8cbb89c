//! The fitter of a model file, and the description of a mixture that was merged from another.

use super::Fitter;
use crate::m_step::{ConcentrationPolicy, Maximisation};
use crate::mixture::Mixture;
use crate::start::Start;
use crate::stats::ComponentSum;
use crate::store::model::Description;

impl Fitter<'static> {
    /// The fitter that made a mixture, as far as its description says: with all its settings, or
    /// with those that are known if they are not all that a fitter needs. A mixture of unknown origin
    /// gets EM with free concentrations.
    ///
    /// ```
    /// # use vmfkit::{Fitter, Mixture, RowBatch, VonMisesFisher, store::model::Description};
    /// let rows = [1.0, 0.0, 0.8, 0.6, 0.6, 0.8, 0.0, 1.0];
    /// let fit = Fitter::new(2).seed(7).fit(&RowBatch::new(2, &rows)?)?;
    /// let fitter = Fitter::of_model(&fit.mixture, &Description::of(&fit));
    /// assert_eq!(fitter.settings(2), fit.settings);
    /// # Ok::<(), vmfkit::Error>(())
    /// ```
    pub fn of_model(mixture: &Mixture, description: &Description) -> Self {
        let mut settings = description.settings.clone();
        let Description { method, policy, estimator, seed, .. } = description;
        for (name, text) in [("method", method), ("policy", policy), ("estimator", estimator), ("seed", &seed.to_string())] {
            if !text.is_empty() {
                settings.set(name, text);
            }
        }
        if let Ok(fitter) = Fitter::of_settings(&settings) {
            return fitter;
        }
        let mut how = Maximisation::new().policy(policy.parse().unwrap_or(ConcentrationPolicy::Free));
        how = how.fixed_weights(settings.get("fixed_weights") == Some("true"));
        if let Some(dispersion) = settings.dispersion() {
            how = how.dispersion(dispersion);
        }
        if let Some(largest) = settings.get("largest_concentration").and_then(|text| text.parse().ok()) {
            how = how.largest_concentration(largest);
        }
        if let Ok(estimator) = estimator.parse() {
            how = how.estimator(estimator);
        }
        let fitted = mixture.components().len() - usize::from(mixture.has_background());
        Fitter::new(fitted).seed(*seed).maximisation(how)
    }

    /// [`Self::of_model`] that starts from another mixture, such as one with
    /// [merged](crate::merge_tree::MergeTree::mixture) components: once, without a search.
    pub fn from_mixture(mixture: Mixture, description: &Description) -> Self {
        let mut fitter = Self::of_model(&mixture, description).restarts(1).search(false);
        fitter.components = mixture.components().len() - usize::from(mixture.has_background());
        // The mixture has its own.
        fitter.background = None;
        fitter.start(Start::Mixture(mixture))
    }
}

impl Description {
    /// The description of a mixture with fewer components, whose statistics were merged from those of
    /// the mixture that this one describes. It keeps the settings, and has no passes, no labels and no
    /// calibration: those are of rows.
    pub fn of_merged(&self, mixture: &Mixture, sums: Vec<ComponentSum>) -> Self {
        let clusters = mixture.components().len() - usize::from(mixture.has_background());
        let mut settings = self.settings.clone();
        let before = settings.get("components").unwrap_or_default().to_owned();
        settings.set("components", clusters.to_string());
        let from = if before.is_empty() { String::new() } else { format!(" from {before}") };
        let note = format!("merged{from} to {clusters} components by their statistics, without passes over the rows");
        Description {
            status: "merged".to_owned(),
            notes: vec![note],
            trace: Vec::new(),
            search_passes: 0,
            settings,
            labels: Vec::new(),
            sums,
            calibration: None,
            outlier_table: None,
            ..self.clone()
        }
    }
}
