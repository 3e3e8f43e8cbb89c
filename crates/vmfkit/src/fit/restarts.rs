//! The run of a [`Fitter`]: a start, passes over the rows, restarts of which the best is kept.

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::fingerprint::FingerprintedSource;
use crate::fit::{First, Fitter, Save, Watch};
use crate::m_step::Maximisation;
use crate::mixture::Mixture;
use crate::reservoir::Reservoir;
use crate::row_fingerprint::RowFingerprint;
use crate::rows::RowBatch;
use crate::sampler::Stream;
use crate::settings::Settings;
use crate::source::{Batches, MemorySource, Source};
use crate::start::{Labelled, Start};
use crate::train::{Checkpoint, Driver, Fit, Progress, ProgressCallback, Status, Stop, Trainer};
use std::cmp::Ordering;
use std::ops::ControlFlow;

impl<'a> Fitter<'a> {
    /// Fits rows in memory.
    pub fn fit(self, block: &RowBatch) -> Result<Fit> {
        self.run(&mut MemorySource::new(block.slice(0, block.len())), Some(block))
    }

    /// Fits rows that come block by block, also more of them than memory holds.
    ///
    /// The fit depends on the rows and their order, not on the blocks that they come in. Each restart begins with a pass that samples rows for its start
    /// (see [`Self::sample`]), unless that needs none. Where the sample has room for all rows, the fit is that of [`Self::fit`] to the last bit, unless an
    /// online method shuffles only some of the rows together (see [`Self::shuffle_rows`]).
    ///
    /// A source that cannot rewind is fitted by an online method in one pass without restarts, which is all it makes unless [`Self::stop`] asks for more: that is
    /// an error. The start is made of the rows that are shuffled together first, so these should be some dozens a component. For rows that
    /// arrive bit by bit see [`Self::stream`].
    pub fn fit_source(self, source: &mut dyn Source) -> Result<Fit> {
        self.run(source, None)
    }

    fn run(mut self, source: &mut dyn Source, memory: Option<&RowBatch>) -> Result<Fit> {
        self.check()?;
        self.check_room(source.dim())?;
        if let (Some(block), true) = (memory, self.resume.is_none() && self.shuffle) {
            self.shuffle_rows = self.shuffle_rows.or(Some(self.window_rows(block.dim()).max(block.len())));
        }
        let mut calls = Calls { watch: self.watch.take(), progress: self.progress.take(), save: self.save.take() };
        let mut resume = self.resume.take();
        let mut known = resume.as_ref().and_then(|checkpoint| checkpoint.rows);
        if let Some(checkpoint) = &mut resume {
            checkpoint.allow_passes(self.stop_of_method().passes);
            self.take_measured(&checkpoint.settings);
            checkpoint.settings.check(&self.settings(source.dim()))?;
            if checkpoint.restart >= self.restarts {
                let what = format!("the restart must be below {}, found: `{}`", self.restarts, checkpoint.restart);
                return Err(Error::CheckpointBytes { what });
            }
            if let Some(expected) = known.filter(|_| source.can_rewind()) {
                expected.check(&RowFingerprint::of(source)?)?;
            }
        } else {
            self.check_start()?;
            if !source.can_rewind() {
                let fit = self.fit_once(source, &mut calls)?;
                return Ok(Fit { settings: self.settings(source.dim()), ..fit });
            }
            if calls.save.is_some() {
                known = Some(RowFingerprint::of(source)?);
            }
        }
        let source = &mut FingerprintedSource::new(source, known);
        let mut weight = resume.as_ref().and_then(Checkpoint::rows_weight);
        let mut best: Option<Fit> = resume.as_ref().and_then(|checkpoint| checkpoint.best.clone());
        for restart in resume.as_ref().map_or(0, |checkpoint| checkpoint.restart)..self.restarts {
            let began = Clock::start();
            let Calls { watch, progress, save } = &mut calls;
            let Sampled { first, rows, flow } = match (&resume, memory) {
                (Some(checkpoint), _) => Sampled::without_rows(checkpoint.current.mixture.clone()),
                (None, Some(block)) => self.start_of_block(block, restart, progress.as_deref_mut())?,
                (None, None) => self.sampled_start(source, restart, progress.as_deref_mut())?,
            };
            self.take_dispersion(first.dispersion);
            let settings = self.settings(source.dim());
            known = known.map(|known| known.learn(rows, source.fingerprint()));
            let mut driver = self.driver(first, (restart, began), watch.as_deref_mut(), progress.as_deref_mut())?;
            let mut saver = Saver { save: save.as_deref_mut(), restart, settings: &settings, rows: known, best: best.as_ref() };
            match resume.take() {
                Some(checkpoint) => driver.trainer = driver.trainer.resume(&checkpoint)?,
                // What was cut short is no start to go on with.
                None if flow.is_break() => driver.trainer.stop(),
                None => saver.save(&driver.trainer)?,
            }
            while driver.trainer.status() == Status::Running {
                let passes = driver.trainer.passes();
                driver.pass(source)?;
                if driver.trainer.passes() > passes {
                    known.map_or(Ok(()), |known| known.check_count(driver.trainer.row_count()))?;
                    check_weight(weight.take(), driver.trainer.rows_weight())?;
                    saver.rows = saver.rows.map(|known| known.learn(None, source.fingerprint()));
                    saver.save(&driver.trainer)?;
                }
            }
            let (fitted, how) = (driver.trainer.into_fit(), self.maximisation_used());
            let stopped = fitted.status == Status::Stopped;
            let best = match &mut best {
                Some(best) if !is_better(&fitted, best, &how) => best,
                best => best.insert(fitted),
            };
            if stopped {
                // Other restarts might have been better, whatever became of this one.
                best.status = Status::Stopped;
                break;
            }
        }
        Ok(Fit { settings: self.settings(source.dim()), ..best.expect("at least one restart") })
    }

    /// One pass over rows of which none comes again.
    fn fit_once(&mut self, source: &mut dyn Source, calls: &mut Calls<'a>) -> Result<Fit> {
        let Calls { watch, progress, save } = calls;
        let (watch, progress) = (watch.as_deref_mut(), progress.as_deref_mut());
        let began = Clock::start();
        if self.method.is_online() {
            self.stop = self.stop.or(Some(Stop { passes: 1, ..self.method.stop() }));
        }
        let once = self.restarts == 1 && self.stop_of_method().passes == 1;
        source.rewind()?;
        if let Some(start) = self.start_without_rows(source.dim(), self.seed)
            && once
            && !self.asks_for_dispersion()
        {
            let mut driver = self.driver(start?.into(), (0, began), watch, progress)?;
            driver.pass(source)?;
            self.save_once(save, &driver.trainer)?;
            return Ok(driver.trainer.into_fit());
        }
        let needs_rows = !matches!(self.start, Start::Mixture(_) | Start::Random);
        if !once || needs_rows && (!self.method.is_online() || matches!(self.start, Start::Labels(_))) {
            return Err(Error::CannotRewind);
        }
        let window = self.window_rows(source.dim());
        let mut buffer = RowBatch::default();
        let mut first: Option<RowBatch> = None;
        while first.as_ref().is_none_or(|first| first.len() < window)
            && let Some(batch) = source.next_batch()?
        {
            let batch = batch.validated(&mut buffer)?;
            first.get_or_insert_with(|| RowBatch::empty_like(&batch)).append(&batch)?;
        }
        let Some(first) = first else {
            return Err(Error::NoRows { weight: 0.0 });
        };
        let first = first.without_unit_weights();
        let start = self.first_mixture(&first.slice(0, window.min(first.len())), 0, &mut || ControlFlow::Continue(()))?;
        self.take_dispersion(start.dispersion);
        let mut driver = self.driver(start, (0, began), watch, progress)?;
        let mut windows = driver.windows();
        let mut flow = driver.see_source_batch(&first, &mut windows)?;
        while flow.is_continue()
            && let Some(batch) = source.next_batch()?
        {
            flow = driver.see_source_batch(&batch, &mut windows)?;
        }
        if flow.is_continue() {
            driver.end_windows(&mut windows)?;
            if driver.trainer.passes() > 0 {
                self.save_once(save, &driver.trainer)?;
            }
        }
        Ok(driver.trainer.into_fit())
    }

    /// The only checkpoint of rows of which none comes again.
    fn save_once(&self, save: &mut Option<Box<Save<'a>>>, trainer: &Trainer) -> Result<()> {
        let settings = &self.settings(trainer.model().dim());
        Saver { save: save.as_deref_mut(), restart: 0, settings, rows: None, best: None }.save(trainer)
    }

    pub(crate) fn seed_of(&self, restart: usize) -> u64 {
        if restart == 0 { self.seed } else { Stream::derive(self.seed, restart as u64) }
    }

    fn driver<'s>(
        &self,
        first: First,
        (restart, began): (usize, Clock),
        watch: Option<&'s mut Watch<'a>>,
        progress: Option<&'s mut ProgressCallback<'a>>,
    ) -> Result<Driver<'s, 'a>> {
        let seed = self.seed_of(restart);
        let mut trainer = Trainer::new(first.mixture, self.rule(seed), self.stop_of_method())?;
        trainer = trainer.since(began).after_search(first.search_passes);
        if let Some(watch) = watch {
            trainer = trainer.watch(move |pass, mixture| watch(restart, pass, mixture));
        }
        let batches = self.method.is_online().then(|| {
            let batches = Batches::new(self.batch_rows()).windows(self.window_rows(trainer.model().dim()));
            if self.shuffle { batches.shuffled(seed) } else { batches }
        });
        Ok(Driver::new(trainer).batches(batches).block_rows(self.block_rows_used()).progress(restart, progress))
    }

    /// The first mixture of a restart, from rows in memory.
    fn start_of_block(
        &self,
        block: &RowBatch,
        restart: usize,
        mut progress: Option<&mut ProgressCallback<'a>>,
    ) -> Result<Sampled> {
        let mut flow = ControlFlow::Continue(());
        let first = self.first_mixture(block, restart, &mut || {
            if let (Some(progress), true) = (&mut progress, flow.is_continue()) {
                flow = progress(Progress { restart, pass: 0, rows: block.len() as u64 });
            }
            flow
        })?;
        Ok(Sampled { first, rows: None, flow })
    }

    /// The first mixture of a restart, from one pass over the source.
    pub(crate) fn sampled_start(
        &self,
        source: &mut dyn Source,
        restart: usize,
        mut progress: Option<&mut ProgressCallback<'a>>,
    ) -> Result<Sampled> {
        let seed = self.seed_of(restart);
        if let Some(start) = self.start_without_rows(source.dim(), seed)
            && !self.asks_for_dispersion()
        {
            return Ok(Sampled::without_rows(start?));
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
            && let Some(batch) = source.next_batch()?
        {
            let batch = batch.validated(&mut buffer)?;
            if let Some(labelled) = &mut labelled {
                labelled.see(&batch)?;
            }
            if labelled.is_none() || self.asks_for_dispersion() {
                reservoir.offer(&batch)?;
            }
            rows += batch.len() as u64;
            if let Some(progress) = &mut progress {
                flow = progress(Progress { restart, pass: 0, rows });
            }
        }
        let sample = reservoir.into_sample();
        let mut ask = || {
            if let (Some(progress), true) = (&mut progress, flow.is_continue()) {
                flow = progress(Progress { restart, pass: 0, rows });
            }
            flow
        };
        let first = match labelled {
            Some(labelled) => {
                if ask().is_continue() {
                    labelled.check()?;
                }
                let start = self.finished(labelled.mixture(&self.maximisation)?)?;
                let measures = self.asks_for_dispersion() && ask().is_continue();
                let dispersion = if measures { self.measured_dispersion(&sample?, &start, seed, &mut ask)? } else { None };
                First { dispersion, ..start.into() }
            }
            None => self.first_mixture(&sample?, restart, &mut ask)?,
        };
        Ok(Sampled { first, rows: flow.is_continue().then_some(rows), flow })
    }

    fn start_without_rows(&self, dim: usize, seed: u64) -> Option<Result<Mixture>> {
        let mixture = self.start.without_rows(dim, self.components, seed)?;
        Some(mixture.and_then(|mixture| self.finished(mixture)))
    }
}

/// The first mixture of a restart, from rows that were sampled.
pub(crate) struct Sampled {
    pub first: First,
    /// How many rows there are, if all were seen for it.
    pub rows: Option<u64>,
    /// A break if it was cut short.
    pub flow: ControlFlow<()>,
}

impl Sampled {
    fn without_rows(start: Mixture) -> Self {
        Sampled { first: start.into(), rows: None, flow: ControlFlow::Continue(()) }
    }
}

/// Whether a fit is better than another under the same policy: it has fewer collapsed components, or as many and a higher objective.
pub(crate) fn is_better(fit: &Fit, other: &Fit, how: &Maximisation) -> bool {
    let collapsed = |fit: &Fit| how.count_collapsed(&fit.notes, fit.mixture.dim());
    match collapsed(fit).cmp(&collapsed(other)) {
        Ordering::Less => true,
        Ordering::Equal => fit.objective() > other.objective(),
        Ordering::Greater => false,
    }
}

/// Whom to call.
struct Calls<'a> {
    watch: Option<Box<Watch<'a>>>,
    progress: Option<Box<ProgressCallback<'a>>>,
    save: Option<Box<Save<'a>>>,
}

/// Makes checkpoints of one restart.
struct Saver<'s, 'a> {
    save: Option<&'s mut Save<'a>>,
    restart: usize,
    settings: &'s Settings,
    rows: Option<RowFingerprint>,
    best: Option<&'s Fit>,
}

impl Saver<'_, '_> {
    fn save(&mut self, trainer: &Trainer) -> Result<()> {
        let Some(save) = &mut self.save else {
            return Ok(());
        };
        let checkpoint = trainer.checkpoint()?.with_settings(self.settings.clone()).with_rows(self.rows);
        save(&Checkpoint { restart: self.restart, best: self.best.cloned(), ..checkpoint })
    }
}

/// Rows that weigh less or more than before are not the same rows; sums in another order may differ in their last digits.
pub(crate) fn is_same_weight(expected: f64, found: f64) -> bool {
    (found - expected).abs() <= 1e-9 * expected
}

fn check_weight(expected: Option<f64>, found: f64) -> Result<()> {
    match expected {
        Some(expected) if !is_same_weight(expected, found) => Err(Error::CheckpointSetting {
            setting: "a total row weight of".to_owned(),
            expected: expected.to_string(),
            found: found.to_string(),
        }),
        _ => Ok(()),
    }
}
