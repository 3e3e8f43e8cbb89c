//! The first mixture of each restart: from rows in memory, from a sample of a source, or from
//! neither.

use super::Fitter;
use super::method::Method;
use crate::dispersion::dispersion;
use crate::error::Result;
use crate::m_step::ConcentrationPolicy;
use crate::mixture::Mixture;
use crate::reservoir::Reservoir;
use crate::rows::RowBatch;
use crate::sampler::Stream;
use crate::source::Source;
use crate::start::em_search::{passes_of_em, search_of_em};
use crate::start::plus_plus::ShouldCancel;
use crate::start::{self, Labelled, Start, sample_rows, search_rows};
use crate::train::{Progress, ProgressCallback};
use rand::seq::SliceRandom;
use std::ops::ControlFlow;

/// Passes of EM after which the dispersion is measured. The decision is coarse, 1.5 against 5 and
/// more on embeddings, and needs no converged fit.
const DISPERSION_PASSES: usize = 10;

/// The first mixture of a restart.
pub(crate) struct FirstMixture {
    pub mixture: Mixture,
    /// The dispersion of the rows, if the policy asks for it.
    pub dispersion: Option<f64>,
    /// Passes that the search made over the sample.
    pub search_passes: usize,
    /// The number of rows of the source, if it was counted.
    pub rows: Option<u64>,
    /// The sample of a source, if one was drawn.
    pub sample: Option<RowBatch<'static>>,
    /// True if a callback asked to stop, so the mixture is not good enough to start from.
    pub cancelled: bool,
}

impl From<Mixture> for FirstMixture {
    fn from(mixture: Mixture) -> Self {
        FirstMixture { mixture, dispersion: None, search_passes: 0, rows: None, sample: None, cancelled: false }
    }
}

impl<'a> Fitter<'a> {
    pub(crate) fn seed_of(&self, restart: usize) -> u64 {
        if restart == 0 { self.seed } else { Stream::derive(self.seed, restart as u64) }
    }

    /// From rows in memory.
    pub(crate) fn start_from_memory(
        &self,
        rows: &RowBatch,
        restart: usize,
        mut progress: Option<&mut ProgressCallback<'a>>,
    ) -> Result<FirstMixture> {
        let mut flow = ControlFlow::Continue(());
        let first = self.first_mixture(rows, restart, &mut || {
            if let (Some(progress), true) = (&mut progress, flow.is_continue()) {
                flow = progress(Progress { restart, pass: 0, rows: rows.len() as u64 });
            }
            flow
        })?;
        Ok(FirstMixture { cancelled: flow.is_break(), ..first })
    }

    /// From one pass over a source, which samples it.
    pub(crate) fn start_from_source(
        &self,
        source: &mut dyn Source,
        restart: usize,
        mut progress: Option<&mut ProgressCallback<'a>>,
    ) -> Result<FirstMixture> {
        let seed = self.seed_of(restart);
        if let Some(start) = self.start_without_rows(source.dim(), seed)
            && !self.asks_for_dispersion()
        {
            return Ok(start?.into());
        }
        let mut labelled = match &self.start {
            Start::Labels(labels) => Some(Labelled::new(labels, self.components, source.dim())?),
            _ => None,
        };
        let mut reservoir = Reservoir::new(self.sample_rows(source.dim()), seed);
        let (mut rows, mut flow) = (0, ControlFlow::Continue(()));
        let mut buffer = RowBatch::default();
        source.rewind()?;
        while flow.is_continue()
            && let Some(batch) = source.next_validated(&mut buffer)?
        {
            if let Some(labelled) = &mut labelled {
                labelled.see(&batch)?;
            }
            reservoir.offer(&batch)?;
            rows += batch.len() as u64;
            if let Some(progress) = &mut progress {
                flow = progress(Progress { restart, pass: 0, rows });
            }
        }
        let sample = reservoir.into_sample();
        let mut should_cancel = || {
            if let (Some(progress), true) = (&mut progress, flow.is_continue()) {
                flow = progress(Progress { restart, pass: 0, rows });
            }
            flow
        };
        if let Some(labelled) = &labelled
            && should_cancel().is_continue()
        {
            labelled.check()?;
        }
        let sample = sample?;
        let first = match labelled {
            Some(labelled) => {
                let start = self.finished(labelled.mixture(&self.maximisation)?)?;
                let dispersion = match self.asks_for_dispersion() && should_cancel().is_continue() {
                    true => self.measured_dispersion(&sample, &start, seed, &mut should_cancel)?,
                    false => None,
                };
                FirstMixture { dispersion, ..start.into() }
            }
            None => self.first_mixture(&sample, restart, &mut should_cancel)?,
        };
        let (cancelled, rows) = (flow.is_break(), flow.is_continue().then_some(rows));
        Ok(FirstMixture { rows, cancelled, sample: Some(sample), ..first })
    }

    /// From settings alone, if the start needs no rows.
    pub(crate) fn start_without_rows(&self, dim: usize, seed: u64) -> Option<Result<Mixture>> {
        let mixture = self.start.without_rows(dim, self.components, seed)?;
        Some(mixture.and_then(|mixture| self.finished(mixture)))
    }

    /// From these rows. Online methods, which are chosen to avoid passes over all rows, start from
    /// a sample of them.
    pub(crate) fn first_mixture(
        &self,
        batch: &RowBatch,
        restart: usize,
        should_cancel: &mut ShouldCancel,
    ) -> Result<FirstMixture> {
        let seed = self.seed_of(restart);
        let sample = self.batch_rows().max(if self.components == 1 { 1 } else { 64 * self.components });
        let needs_all = matches!(self.start, Start::Labels(_) | Start::Mixture(_));
        let mut buffer = Default::default();
        let start = &self.start_of(restart);
        let mixture = if self.method.is_online() && !needs_all && sample < batch.len() {
            let mut rows: Vec<usize> = (0..batch.len()).collect();
            let (chosen, _) = rows.partial_shuffle(&mut Stream::new(seed ^ 0x7361_6d70, 1), sample);
            let sample = batch.gather(chosen, &mut buffer)?;
            // All rows of the sample may have a weight of 0.
            match sample.weights().is_none_or(|w| w.iter().any(|w| *w > 0.0)) {
                true => start.mixture_while(&sample, self.components, &self.maximisation, seed, should_cancel)?,
                false => start.mixture_while(batch, self.components, &self.maximisation, seed, should_cancel)?,
            }
        } else {
            start.mixture_while(batch, self.components, &self.maximisation, seed, should_cancel)?
        };
        let mut mixture = self.finished(mixture)?;
        let mut how = self.maximisation_used();
        let dispersion =
            if self.asks_for_dispersion() { self.measured_dispersion(batch, &mixture, seed, should_cancel)? } else { None };
        how.dispersion = how.dispersion.or(dispersion);
        let mut search_passes = 0;
        if self.searches() && should_cancel().is_continue() {
            let mut rng = Stream::new(seed ^ 0x7365_6172, 0);
            let sample = start::sample(batch, search_rows(self.components), &mut rng, &mut buffer);
            (mixture, search_passes) = search_of_em(&sample, mixture, &how, &mut rng, should_cancel)?;
        }
        Ok(FirstMixture { dispersion, search_passes, ..mixture.into() })
    }

    /// The dispersion of a sample of rows under EM with free concentrations from this start; `None`
    /// if it is cancelled.
    pub(crate) fn measured_dispersion(
        &self,
        batch: &RowBatch,
        start: &Mixture,
        seed: u64,
        should_cancel: &mut ShouldCancel,
    ) -> Result<Option<f64>> {
        let mut buffer = Default::default();
        let mut rng = Stream::new(seed ^ 0x7361_6d70, 2);
        let most = sample_rows(self.components).min(search_rows(1));
        let sample = start::sample(batch, most, &mut rng, &mut buffer);
        let free = self.maximisation.clone().policy(ConcentrationPolicy::Free);
        let fitted = passes_of_em(&sample, start, &free, DISPERSION_PASSES, should_cancel)?;
        fitted.map(|fitted| dispersion(&sample, &fitted)).transpose()
    }

    /// The start of a restart. k-means and its search end in the same optimum whatever the seed, so
    /// restarts after the first use others.
    fn start_of(&self, restart: usize) -> Start {
        match (&self.start, restart % 2) {
            (Start::KMeans, _) if restart == 0 => Start::KMeans,
            (Start::KMeans, 0) => Start::RandomRows,
            (Start::KMeans, _) => Start::PlusPlus,
            (other, _) => other.clone(),
        }
    }

    /// Whether the fit searches for a better optimum than the one nearest to its start. It does not
    /// if a start or annealing was chosen.
    pub(crate) fn searches(&self) -> bool {
        let from_k_means = matches!((&self.method, &self.start), (Method::Em { annealing: None }, Start::KMeans));
        self.search && self.components > 1 && from_k_means && self.start_mark.is_none()
    }

    /// A start with the background and the weights of the fit.
    pub(crate) fn finished(&self, mixture: Mixture) -> Result<Mixture> {
        match self.background {
            // k-means keeps equal weights, whatever the start says.
            _ if matches!(self.method, Method::KMeans) => {
                let components = mixture.without_background().components().to_vec();
                Mixture::new(vec![1.0 / components.len() as f64; components.len()], components)
            }
            Some(weight) if !mixture.has_background() => mixture.with_background(weight),
            _ => Ok(mixture),
        }
    }
}
