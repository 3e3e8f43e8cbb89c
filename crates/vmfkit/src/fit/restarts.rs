//! Runs a [`Fitter`]: a start, passes over the rows, and restarts of which the best is kept.

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::fingerprint::FingerprintedSource;
use crate::fit::first_mixture::FirstMixture;
use crate::fit::pipe::Pipe;
use crate::fit::{Fitter, Save, Watch};
use crate::m_step::Maximisation;
use crate::row_fingerprint::RowFingerprint;
use crate::rows::RowBatch;
use crate::settings::Settings;
use crate::source::{MemorySource, MiniBatches, Source};
use crate::start::Start;
use crate::train::{Checkpoint, Fit, Observer, ProgressCallback, Run, Status, Stop, Trainer};
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::OnceLock;

impl<'a> Fitter<'a> {
    /// Fits rows in memory.
    pub fn fit(self, batch: &RowBatch) -> Result<Fit> {
        let mut buffer = RowBatch::default();
        let batch = &batch.validated_slice(0, batch.len(), &mut buffer)?;
        self.run(&mut MemorySource::new(batch.slice(0, batch.len())), Some(batch))
    }

    /// Fits rows that come in batches and need not fit into memory.
    ///
    /// The fit depends on the rows and their order, not on the batches. Each restart begins with a
    /// pass that samples rows for its start (see [`Self::sample`]), unless the start needs none. If
    /// the sample can hold all rows, the fit is that of [`Self::fit`] to the last bit, unless an
    /// online method shuffles only some of the rows together (see [`Self::shuffle_rows`]).
    ///
    /// A source that cannot rewind is fitted by an online method in one pass without restarts. One
    /// pass is the default then; more passes are an error. The start is made from the rows that are
    /// shuffled together first, so there should be some dozens of them per component. For rows that
    /// arrive in small batches see [`Self::stream`].
    pub fn fit_source(self, source: &mut dyn Source) -> Result<Fit> {
        self.run(source, None)
    }

    fn run(mut self, source: &mut dyn Source, memory: Option<&RowBatch>) -> Result<Fit> {
        self.check()?;
        self.check_memory(source.dim())?;
        let mut callbacks = Callbacks { watch: self.watch.take(), progress: self.progress.take(), save: self.save.take() };
        let mut resume = self.resume.take();
        if let (Some(batch), None, true) = (memory, &resume, self.shuffle) {
            self.shuffle_rows = self.shuffle_rows.or(Some(self.window_rows(batch.dim()).max(batch.len())));
        }
        let mut known = match &mut resume {
            Some(checkpoint) => self.check_checkpoint(checkpoint, source)?,
            None => {
                self.check_start()?;
                if !source.can_rewind() {
                    return self.fit_once(source, &mut callbacks);
                }
                callbacks.save.is_some().then(|| RowFingerprint::of(source)).transpose()?
            }
        };
        let fingerprint = OnceLock::new();
        let source = &mut FingerprintedSource::new(source, known, &fingerprint);
        let mut expected_weight = resume.as_ref().and_then(Checkpoint::rows_weight);
        let mut best: Option<Fit> = resume.as_ref().and_then(|checkpoint| checkpoint.best.clone());
        let mut sample = None;
        for restart in resume.as_ref().map_or(0, |checkpoint| checkpoint.restart)..self.restarts {
            let began = Clock::start();
            let Callbacks { watch, progress, save } = &mut callbacks;
            let mut first = match (&resume, memory) {
                (Some(checkpoint), _) => checkpoint.current.mixture.clone().into(),
                (None, Some(batch)) => self.start_from_memory(batch, restart, progress.as_deref_mut())?,
                (None, None) => self.start_from_source(source, restart, progress.as_deref_mut())?,
            };
            self.take_dispersion(first.dispersion);
            sample = sample.or(first.sample.take().filter(|_| restart == 0 && self.calibrate));
            let (settings, cancelled) = (self.settings(source.dim()), first.cancelled);
            known = known.map(|known| known.learn(first.rows, fingerprint.get().copied()));
            let mut trainer = self.new_trainer(first, restart, began, watch.as_deref_mut())?;
            let mut saver = Saver { save: save.as_deref_mut(), restart, settings: &settings, rows: known, best: best.as_ref() };
            match resume.take() {
                Some(checkpoint) => trainer = trainer.resume(&checkpoint)?,
                None if cancelled => trainer.stop(),
                None => saver.save(&trainer)?,
            }
            let mut after_pass = |trainer: &Trainer| {
                known.map_or(Ok(()), |known| known.check_count(trainer.row_count()))?;
                check_weight(expected_weight.take(), trainer.rows_weight())?;
                saver.rows = saver.rows.map(|known| known.learn(None, fingerprint.get().copied()));
                saver.save(trainer)
            };
            let observer = Observer { restart, progress: progress.as_deref_mut(), after_pass: Some(&mut after_pass) };
            let fitted = self.new_run(restart, source.dim(), observer).of(trainer, source)?;
            let stopped = fitted.status == Status::Stopped;
            let best = match &mut best {
                Some(best) if !is_better(&fitted, best, &self.maximisation_used()) => best,
                best => best.insert(fitted),
            };
            if stopped {
                // The restarts that were not made might have been better.
                best.status = Status::Stopped;
                break;
            }
        }
        let fit = Fit { settings: self.settings(source.dim()), ..best.expect("at least one restart") };
        self.calibrated(fit, source, memory, sample, callbacks.progress.as_deref_mut())
    }

    /// Whether a checkpoint belongs to this fit and these rows, of which it returns what it knows.
    fn check_checkpoint(&mut self, checkpoint: &mut Checkpoint, source: &mut dyn Source) -> Result<Option<RowFingerprint>> {
        checkpoint.allow_passes(self.stop_of_method().passes);
        self.take_measured(&checkpoint.settings);
        checkpoint.settings.check(&self.settings(source.dim()))?;
        if checkpoint.restart >= self.restarts {
            let what = format!("the restart must be below {}, found: `{}`", self.restarts, checkpoint.restart);
            return Err(Error::CheckpointBytes { what });
        }
        if let Some(expected) = checkpoint.rows.filter(|_| source.can_rewind()) {
            expected.check(&RowFingerprint::of(source)?)?;
        }
        Ok(checkpoint.rows)
    }

    /// One pass over rows that can be read once.
    fn fit_once(mut self, source: &mut dyn Source, callbacks: &mut Callbacks<'a>) -> Result<Fit> {
        let Callbacks { watch, progress, save } = callbacks;
        let began = Clock::start();
        if self.method.is_online() {
            self.stop = self.stop.or(Some(Stop { passes: 1, ..self.method.stop() }));
        }
        let once = self.restarts == 1 && self.stop_of_method().passes == 1;
        let dim = source.dim();
        let mut source = Pipe::new(source)?;
        let first = match self.start_without_rows(dim, self.seed) {
            Some(start) if once && !self.asks_for_dispersion() => start?.into(),
            _ => {
                let needs_rows = !matches!(self.start, Start::Mixture(_) | Start::Random);
                if !once || needs_rows && (!self.method.is_online() || matches!(self.start, Start::Labels(_))) {
                    return Err(Error::CannotRewind);
                }
                let window = self.window_rows(dim);
                let rows = source.first_rows(window)?;
                let rows = rows.slice(0, window.min(rows.len()));
                self.first_mixture(&rows, 0, &mut || ControlFlow::Continue(()))?
            }
        };
        self.take_dispersion(first.dispersion);
        let settings = self.settings(dim);
        let trainer = self.new_trainer(first, 0, began, watch.as_deref_mut())?;
        let mut saver = Saver { save: save.as_deref_mut(), restart: 0, settings: &settings, rows: None, best: None };
        let mut after_pass = |trainer: &Trainer| saver.save(trainer);
        let observer = Observer { restart: 0, progress: progress.as_deref_mut(), after_pass: Some(&mut after_pass) };
        let fit = self.new_run(0, dim, observer).of(trainer, &mut source)?;
        Ok(Fit { settings, ..fit })
    }

    fn new_trainer<'s>(
        &self,
        first: FirstMixture,
        restart: usize,
        began: Clock,
        watch: Option<&'s mut Watch<'a>>,
    ) -> Result<Trainer<'s>> {
        let trainer = Trainer::new(first.mixture, self.rule(self.seed_of(restart)), self.stop_of_method())?;
        let trainer = trainer.since(began).after_search(first.search_passes);
        Ok(match watch {
            Some(watch) => trainer.watch(move |pass, mixture| watch(restart, pass, mixture)),
            None => trainer,
        })
    }

    fn new_run<'s>(&self, restart: usize, dim: usize, observer: Observer<'s, 'a>) -> Run<'s, 'a> {
        let batches = MiniBatches::new(self.batch_rows()).windows(self.window_rows(dim));
        let batches = if self.shuffle { batches.shuffled(self.seed_of(restart)) } else { batches };
        Run { batches, block_rows: self.block_rows_used(), observer }
    }
}

/// Whether a fit is better than another under the same policy: it has fewer collapsed components,
/// or as many and a higher objective.
pub(crate) fn is_better(fit: &Fit, other: &Fit, how: &Maximisation) -> bool {
    let collapsed = |fit: &Fit| how.count_collapsed(&fit.notes, fit.mixture.dim());
    match collapsed(fit).cmp(&collapsed(other)) {
        Ordering::Less => true,
        Ordering::Equal => fit.objective() > other.objective(),
        Ordering::Greater => false,
    }
}

struct Callbacks<'a> {
    watch: Option<Box<Watch<'a>>>,
    progress: Option<Box<ProgressCallback<'a>>>,
    save: Option<Box<Save<'a>>>,
}

/// Saves the checkpoints of one restart.
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

/// Whether two passes may have seen the same rows. Sums in another order differ in their last
/// digits.
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
