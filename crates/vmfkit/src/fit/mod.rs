//! [`Fitter`]: fits a mixture to rows in one call; every choice is an option.

mod calibrated;
pub mod cross_fit;
mod first_mixture;
mod fitter_settings;
pub mod halves;
mod held_rows;
mod method;
pub mod parts;
mod pipe;
mod reassign;
mod restarts;
pub mod select;
pub mod stream;

pub use method::Method;

use crate::capacity;
use crate::error::{Error, Result};
use crate::m_step::{ConcentrationPolicy, Maximisation};
use crate::mixture::{Assignment, BLOCK_ROWS, Mixture, check_block_rows};
use crate::settings::Settings;
use crate::start::{Start, sample_rows, search_rows};
use crate::train::{Checkpoint, Em, OnlineEm, Pass, Progress, ProgressCallback, Rule, Stop};
use std::ops::ControlFlow;

/// The default number of rows that are shuffled together: 32 MB in single precision, within limits.
/// Fewer than some thousand rows would leave sorted rows nearly sorted.
const SHUFFLED_NUMBERS: usize = 1 << 23;
const FEWEST_SHUFFLED: usize = 1 << 12;
const MOST_SHUFFLED: usize = 1 << 16;

/// Fits a mixture to rows: chooses a start, runs a method, keeps the best of several restarts.
///
/// ```
/// use vmfkit::{RowBatch, Fitter, Mixture, VonMisesFisher};
/// let truth = Mixture::new(
///     vec![0.3, 0.7],
///     vec![VonMisesFisher::new(vec![1.0, 0.0, 0.0], 40.0)?, VonMisesFisher::new(vec![0.0, 0.6, 0.8], 20.0)?],
/// )?;
/// let (mut rows, mut labels) = (vec![0f32; 3 * 2000], vec![0; 2000]);
/// truth.fill(1, 0, &mut rows, &mut labels)?;
/// let fit = Fitter::new(2).seed(7).fit(&RowBatch::new(3, &rows)?)?;
/// let heavier = fit.mixture.weights().iter().fold(0.0, |a: f64, &b| a.max(b));
/// assert!((heavier - 0.7).abs() < 0.03);
/// # Ok::<(), vmfkit::Error>(())
/// ```
pub struct Fitter<'a> {
    pub(crate) components: usize,
    pub(crate) method: Method,
    pub(crate) start: Start,
    /// The fingerprint in settings of a start whose directions, labels or mixture they do not
    /// contain.
    pub(crate) start_mark: Option<String>,
    pub(crate) maximisation: Maximisation,
    pub(crate) background: Option<f64>,
    pub(crate) restarts: usize,
    pub(crate) seed: u64,
    pub(crate) stop: Option<Stop>,
    pub(crate) batch: Option<usize>,
    pub(crate) shuffle: bool,
    pub(crate) shuffle_rows: Option<usize>,
    pub(crate) block_rows: Option<usize>,
    pub(crate) sample: Option<usize>,
    pub(crate) search: bool,
    pub(crate) calibrate: bool,
    pub(crate) watch: Option<Box<Watch<'a>>>,
    pub(crate) progress: Option<Box<ProgressCallback<'a>>>,
    pub(crate) save: Option<Box<Save<'a>>>,
    pub(crate) resume: Option<Checkpoint>,
}

pub(crate) type Save<'a> = dyn FnMut(&Checkpoint) -> Result<()> + Send + 'a;

pub(crate) type Watch<'a> = dyn FnMut(usize, &Pass, &Mixture) -> ControlFlow<()> + Send + 'a;

impl std::fmt::Debug for Fitter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Fitter").field("components", &self.components).field("method", &self.method).finish_non_exhaustive()
    }
}

impl<'a> Fitter<'a> {
    /// EM with this many components (a background not counted) and all other choices at their
    /// defaults.
    pub fn new(components: usize) -> Self {
        Fitter {
            components,
            method: Method::default(),
            start: Start::default(),
            start_mark: None,
            maximisation: Maximisation::default(),
            background: None,
            restarts: 1,
            seed: 0,
            stop: None,
            batch: None,
            shuffle: true,
            shuffle_rows: None,
            block_rows: None,
            sample: None,
            search: true,
            calibrate: true,
            watch: None,
            progress: None,
            save: None,
            resume: None,
        }
    }

    /// A fitter with the same choices and without callbacks.
    pub(crate) fn choices(&self) -> Fitter<'static> {
        Fitter {
            components: self.components,
            method: self.method.clone(),
            start: self.start.clone(),
            start_mark: self.start_mark.clone(),
            maximisation: self.maximisation.clone(),
            background: self.background,
            restarts: self.restarts,
            seed: self.seed,
            stop: self.stop,
            batch: self.batch,
            shuffle: self.shuffle,
            shuffle_rows: self.shuffle_rows,
            block_rows: self.block_rows,
            sample: self.sample,
            search: self.search,
            calibrate: self.calibrate,
            watch: None,
            progress: None,
            save: None,
            resume: None,
        }
    }

    /// Whether the fit is calibrated, which is the default: from a sample of the rows it finds the
    /// temperature of probabilities ([`Fit::calibration`](crate::train::Fit)) and the table of
    /// p-values ([`Fit::outlier_table`](crate::train::Fit)). Calibration does not change the
    /// mixture.
    pub fn calibrate(mut self, calibrate: bool) -> Self {
        self.calibrate = calibrate;
        self
    }

    /// The fitting method.
    pub fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// The start of the fit.
    pub fn start(mut self, start: Start) -> Self {
        (self.start, self.start_mark) = (start, None);
        self
    }

    /// The settings of the M step.
    pub fn maximisation(mut self, maximisation: Maximisation) -> Self {
        self.maximisation = maximisation;
        self
    }

    /// How concentrations are tied across components; other settings of the M step are unchanged.
    pub fn policy(mut self, policy: ConcentrationPolicy) -> Self {
        self.maximisation = self.maximisation.policy(policy);
        self
    }

    /// Adds a uniform background with this initial weight.
    pub fn background(mut self, weight: f64) -> Self {
        self.background = Some(weight);
        self
    }

    /// The number of fits from different starts. The fit with the fewest collapsed components is
    /// kept; if several have as few, the one with the best objective. With [`Start::KMeans`], fits
    /// after the first start from k-means++ seeds and random rows alternately, because k-means ends
    /// in nearly the same optimum for every seed.
    pub fn restarts(mut self, restarts: usize) -> Self {
        self.restarts = restarts;
        self
    }

    /// The random seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// When to stop; by default [`Method::stop`].
    pub fn stop(mut self, stop: Stop) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Rows of a mini-batch of the online methods. By default 64 for gradient ascent (128 for a
    /// single density), as in Kim (2021), and for online EM 16 per component, at least 512.
    pub fn batch(mut self, rows: usize) -> Self {
        self.batch = Some(rows);
        self
    }

    /// Whether the online methods shuffle the rows in every pass, true by default.
    pub fn shuffle(mut self, shuffle: bool) -> Self {
        self.shuffle = shuffle;
        self
    }

    /// The number of rows that an online method shuffles together, for rows that do not fit into
    /// memory. By default 8 million numbers, at least 4096 and at most 65536 rows. Sorted rows need
    /// more. [`Self::fit`] shuffles all rows by default. The model stores the number, since the fit
    /// depends on it.
    pub fn shuffle_rows(mut self, rows: usize) -> Self {
        self.shuffle_rows = Some(rows);
        self
    }

    /// The rows of a block of the [E step](crate::EStep), a multiple of 1152. The model stores it,
    /// since the last bits of a fit depend on it. The only reason to change it is to
    /// [divide a pass among processes](crate::fit::parts) in smaller parts.
    pub fn block_rows(mut self, rows: usize) -> Self {
        self.block_rows = Some(rows);
        self
    }

    /// Whether EM with [`Start::KMeans`] first searches for a better optimum on a sample of the
    /// rows, true by default. The split-and-merge search removes the component whose removal costs
    /// least and splits the one that gains most, as long as the likelihood rises. It makes up to
    /// about 300 passes over at most 32768 rows or 64 per component; for a source, over its
    /// [sample](Self::sample).
    pub fn search(mut self, search: bool) -> Self {
        self.search = search;
        self
    }

    /// The number of rows of a source that are sampled for the start and held in memory while it is
    /// computed. By default as many as k-means uses (64 per component, at least 8192) or as the
    /// [search](Self::search) uses; see [`Self::sample_rows`].
    pub fn sample(mut self, rows: usize) -> Self {
        self.sample = Some(rows);
        self
    }

    /// Calls back after every pass of every restart; a break stops the fit.
    pub fn watch(mut self, watch: impl FnMut(usize, &Pass, &Mixture) -> ControlFlow<()> + Send + 'a) -> Self {
        self.watch = Some(Box::new(watch));
        self
    }

    /// Calls back after every batch of the source, or every mini-batch of an online method; a break
    /// stops the fit, which then ends with the best mixture so far. Rows of an incomplete pass
    /// count for the online methods only.
    pub fn progress(mut self, progress: impl FnMut(Progress) -> ControlFlow<()> + Send + 'a) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// Calls back with a checkpoint after each start and each pass; an error ends the fit. To lose
    /// no more than a pass in a power failure, write [`Checkpoint::to_bytes`] to a temporary file
    /// next to the previous checkpoint and rename it.
    pub fn checkpoint(mut self, save: impl FnMut(&Checkpoint) -> Result<()> + Send + 'a) -> Self {
        self.save = Some(Box::new(save));
        self
    }

    /// Resumes from a checkpoint. The fit ends as it would have without the interruption, to the
    /// last bit. Different settings or rows are an error, except that the maximum number of passes
    /// may be increased in the first restart.
    ///
    /// ```
    /// use vmfkit::{RowBatch, Fitter, train::Checkpoint};
    /// let rows = [1.0, 0.0, 0.8, 0.6, 0.6, 0.8, 0.0, 1.0];
    /// let block = RowBatch::new(2, &rows)?;
    /// let mut file = Vec::new();
    /// let fit = Fitter::new(2).checkpoint(|checkpoint| Ok(file = checkpoint.to_bytes())).fit(&block)?;
    /// let resumed = Fitter::new(2).resume(Checkpoint::from_bytes(&file)?).fit(&block)?;
    /// assert_eq!(resumed.mixture, fit.mixture);
    /// # Ok::<(), vmfkit::Error>(())
    /// ```
    pub fn resume(mut self, checkpoint: Checkpoint) -> Self {
        self.resume = Some(checkpoint);
        self
    }

    /// The settings of the M step that the method uses: k-means always has one concentration and
    /// equal weights.
    pub fn maximisation_used(&self) -> Maximisation {
        match self.method {
            Method::KMeans => self.maximisation.of_k_means(),
            _ => self.maximisation.clone(),
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.components == 0 {
            return Err(Error::Option { option: "the number of components", range: "at least 1", value: 0.0 });
        }
        if self.restarts == 0 {
            return Err(Error::Option { option: "the number of restarts", range: "at least 1", value: 0.0 });
        }
        if self.sample == Some(0) {
            return Err(Error::Option { option: "the sample", range: "at least 1 row", value: 0.0 });
        }
        if self.batch == Some(0) {
            return Err(Error::Option { option: "the batch", range: "at least 1 row", value: 0.0 });
        }
        if self.shuffle_rows == Some(0) {
            return Err(Error::Option { option: "the number of rows shuffled together", range: "at least 1", value: 0.0 });
        }
        check_block_rows(self.block_rows_used())?;
        if let Some(weight) = self.background.filter(|weight| !(*weight > 0.0 && *weight < 1.0)) {
            // A weight of 0 would stay 0.
            return Err(Error::Option { option: "the weight of the background", range: "above 0 and below 1", value: weight });
        }
        if let (Some(weight), Method::KMeans) = (self.background, &self.method) {
            return Err(Error::BackgroundNotSupported { method: "k-means", weight });
        }
        self.maximisation.check(self.components + usize::from(self.background.is_some()))
    }

    /// Whether there is memory for what every fit of rows of this dimension allocates: two
    /// mixtures, the statistics of the pass and those of a block.
    pub(crate) fn check_memory(&self, dim: usize) -> Result<()> {
        capacity::check("the components of a fit and their statistics", &[4, self.components, dim])
    }

    pub(crate) fn batch_rows(&self) -> usize {
        let default = match self.method {
            Method::Sgd(_) if self.components == 1 => 128,
            Method::Sgd(_) => 64,
            _ => self.components.saturating_mul(16).max(512),
        };
        self.batch.unwrap_or(default)
    }

    /// The number of rows of this dimension in a window of an online method: those that are
    /// shuffled together, or one mini-batch.
    pub fn window_rows(&self, dim: usize) -> usize {
        let default = (SHUFFLED_NUMBERS / dim.max(1)).clamp(FEWEST_SHUFFLED, MOST_SHUFFLED);
        if self.shuffle { self.shuffle_rows.unwrap_or(default) } else { self.batch_rows() }
    }

    pub(crate) fn block_rows_used(&self) -> usize {
        self.block_rows.unwrap_or(BLOCK_ROWS)
    }

    pub(crate) fn stop_of_method(&self) -> Stop {
        self.stop.unwrap_or_else(|| self.method.stop())
    }

    pub(crate) fn rule(&self, seed: u64) -> Rule {
        let em = Em::new().maximisation(self.maximisation_used());
        match &self.method {
            Method::Em { annealing: None } => em.into(),
            Method::Em { annealing: Some(annealing) } => em.annealing(*annealing).into(),
            Method::HardEm => em.assignment(Assignment::Hard).into(),
            Method::StochasticEm => em.assignment(Assignment::Sampled { seed: seed ^ 0x7361_6d70 }).into(),
            Method::KMeans => em.assignment(Assignment::Nearest).into(),
            Method::OnlineEm { exponent, offset } => {
                OnlineEm::new().exponent(*exponent).offset(*offset).maximisation(self.maximisation.clone()).into()
            }
            Method::Sgd(adam) => adam.clone().maximisation(&self.maximisation).into(),
        }
    }

    /// The number of rows of this dimension that are sampled from a source for the start: as many
    /// as were asked for, or as k-means and the search use. The search uses fewer if they would
    /// take more than 64 MB in single precision.
    pub fn sample_rows(&self, dim: usize) -> usize {
        const NUMBERS: usize = 1 << 24;
        let usual = sample_rows(self.components);
        let of_search = if self.searches() { search_rows(self.components).min(NUMBERS / dim.max(1)) } else { 0 };
        self.sample.unwrap_or(usual.max(of_search))
    }

    /// Whether the policy depends on a dispersion that is not known yet. It is measured in the
    /// first restart only.
    pub(crate) fn asks_for_dispersion(&self) -> bool {
        let used = self.maximisation_used();
        used.policy == ConcentrationPolicy::Auto && used.dispersion.is_none()
    }

    /// Sets the dispersion that was measured, unless it is known.
    pub(crate) fn take_dispersion(&mut self, measured: Option<f64>) {
        self.maximisation.dispersion = self.maximisation.dispersion.or(measured);
    }

    /// Takes the measured and default values from the settings of another fit.
    pub(crate) fn take_measured(&mut self, settings: &Settings) {
        let number = |name: &str| settings.get(name).and_then(|text| text.parse().ok());
        self.take_dispersion(settings.dispersion());
        self.block_rows = self.block_rows.or(number("block_rows"));
        self.shuffle_rows = self.shuffle_rows.or(number("shuffle_rows"));
    }
}
