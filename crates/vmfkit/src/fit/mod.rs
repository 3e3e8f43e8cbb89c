//! [`Fitter`]: a mixture from rows in one call, with every choice an option.

mod fitter_settings;
mod held_rows;
pub mod parts;
mod reassign;
pub(crate) mod restarts;
pub mod select;
pub mod stream;

use crate::capacity;
use crate::dispersion::dispersion;
use crate::error::{Error, ParseChoiceError, Result};
use crate::m_step::{ConcentrationPolicy, Maximisation};
use crate::mixture::{Assignment, BLOCK_ROWS, Mixture, check_block_rows};
use crate::rows::RowBatch;
use crate::sampler::Stream;
use crate::settings::Settings;
use crate::start::em_search::{passes_of_em, search_of_em};
use crate::start::plus_plus::ShouldCancel;
use crate::start::{self, Start, sample_rows, search_rows};
use crate::train::{Adam, Annealing, Checkpoint, Em, OnlineEm, Pass, Progress, ProgressCallback, Rule, Stop};
use rand::seq::SliceRandom;
use std::ops::ControlFlow;

/// A way of fitting a mixture.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there is one a fit")]
#[non_exhaustive]
pub enum Method {
    /// Soft EM, annealed if asked for.
    Em {
        /// Begin warm.
        annealing: Option<Annealing>,
    },
    /// Hard EM: every row wholly to its most responsible component.
    HardEm,
    /// Stochastic EM: every row wholly to a component drawn by its responsibilities.
    StochasticEm,
    /// Online EM, a step a batch.
    OnlineEm {
        /// a in the step size (t + t0)^-a.
        exponent: f64,
        /// t0 in the step size (t + t0)^-a.
        offset: f64,
    },
    /// Stochastic gradient ascent; which concentrations and weights it may choose is up to the fitter's M step.
    Sgd(Adam),
    /// Spherical k-means, as a mixture with equal weights and one concentration, under which the nearest direction is the most probable.
    KMeans,
}

impl Default for Method {
    fn default() -> Self {
        Method::Em { annealing: None }
    }
}

impl Method {
    /// The name used on the command line and in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Method::Em { .. } => "em",
            Method::HardEm => "hard",
            Method::StochasticEm => "stochastic",
            Method::OnlineEm { .. } => "online",
            Method::Sgd(_) => "sgd",
            Method::KMeans => "kmeans",
        }
    }

    /// Every method, with its default settings.
    pub fn all() -> [Method; 6] {
        [
            Method::default(),
            Method::HardEm,
            Method::StochasticEm,
            Method::OnlineEm { exponent: 0.6, offset: 1.0 },
            Method::Sgd(Adam::new()),
            Method::KMeans,
        ]
    }

    /// When it stops if nothing else is said: at a relative change of 1e-5 or after 100 passes; gradient steps make all their passes, online EM
    /// makes at most 20.
    pub fn stop(&self) -> Stop {
        match self {
            Method::Sgd(_) => Stop { tolerance: None, passes: 100, ..Stop::default() },
            Method::OnlineEm { .. } => Stop { passes: 20, ..Stop::default() },
            _ => Stop::default(),
        }
    }

    /// True if it steps after every batch and need not see rows twice.
    pub fn is_online(&self) -> bool {
        matches!(self, Method::OnlineEm { .. } | Method::Sgd(_))
    }
}

impl std::str::FromStr for Method {
    type Err = ParseChoiceError;

    fn from_str(text: &str) -> std::result::Result<Self, ParseChoiceError> {
        let known = Self::all();
        let names = known.each_ref().map(Self::name);
        known.into_iter().find(|method| method.name() == text).ok_or_else(|| ParseChoiceError::new("method", &names, text))
    }
}

/// Rows that are shuffled together unless a fit chooses another number: 32 MB in single precision, but some thousand rows of any dimension, or else sorted
/// rows stay sorted.
const SHUFFLED_NUMBERS: usize = 1 << 23;
const FEWEST_SHUFFLED: usize = 1 << 12;
const MOST_SHUFFLED: usize = 1 << 16;

/// Passes of EM after which the dispersion is measured. The decision is coarse, 1.5 against 5 and more on embeddings, and needs no converged fit.
const DISPERSION_PASSES: usize = 10;

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
    /// What settings say of a start whose directions, labels or mixture they do not have.
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
    /// EM with this many components (a background not counted) and all other choices at their defaults.
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
            watch: None,
            progress: None,
            save: None,
            resume: None,
        }
    }

    /// A fitter with the same choices that calls nobody.
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
            watch: None,
            progress: None,
            save: None,
            resume: None,
        }
    }

    /// The way of fitting.
    pub fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// Where to begin.
    pub fn start(mut self, start: Start) -> Self {
        (self.start, self.start_mark) = (start, None);
        self
    }

    /// How parameters are found from statistics.
    pub fn maximisation(mut self, maximisation: Maximisation) -> Self {
        self.maximisation = maximisation;
        self
    }

    /// The policy of the concentrations, all else of the M step unchanged.
    pub fn policy(mut self, policy: ConcentrationPolicy) -> Self {
        self.maximisation = self.maximisation.policy(policy);
        self
    }

    /// Adds a uniform background that begins with this weight.
    pub fn background(mut self, weight: f64) -> Self {
        self.background = Some(weight);
        self
    }

    /// Fits that differ in their start. The one with the fewest collapsed components is kept, of equals the one with the best objective. With
    /// [`Start::KMeans`] those after the first begin with k-means++ seeds and random rows in turn, because k-means ends in much the same place
    /// whatever the seed.
    pub fn restarts(mut self, restarts: usize) -> Self {
        self.restarts = restarts;
        self
    }

    /// The random seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// When to stop, by default that of the method.
    pub fn stop(mut self, stop: Stop) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Rows a step of the online methods. By default 64 for gradient steps (128 for a single density), as in Kim (2021), and for online
    /// EM 16 a component, at least 512.
    pub fn batch(mut self, rows: usize) -> Self {
        self.batch = Some(rows);
        self
    }

    /// Whether the online methods see the rows in an order of their own in every pass, which they do by default.
    pub fn shuffle(mut self, shuffle: bool) -> Self {
        self.shuffle = shuffle;
        self
    }

    /// How many rows an online method shuffles together, for rows that do not all fit into memory: 8 million numbers by default, from 4096 to 65536 rows.
    /// Sorted rows want more. [`Self::fit`] shuffles all rows unless a number is given. It is stored with the model, since the fit depends on it.
    pub fn shuffle_rows(mut self, rows: usize) -> Self {
        self.shuffle_rows = Some(rows);
        self
    }

    /// The rows of a block of the [E step](crate::EStep), a multiple of 1152. It is stored with the model, since the last bits of a fit depend on it;
    /// there is no reason to choose another, but for processes that [share a pass](crate::fit::parts) and have parts of fewer rows.
    pub fn block_rows(mut self, rows: usize) -> Self {
        self.block_rows = Some(rows);
        self
    }

    /// Whether EM that begins with [`Start::KMeans`] first searches for a better optimum on a sample of the rows, true by default: components are
    /// moved from where the likelihood misses them least to where they divide most, as long as that raises the likelihood. It takes up to some
    /// 300 passes over at most 32768 rows, or 64 a component; of a source, over its [sample](Self::sample).
    pub fn search(mut self, search: bool) -> Self {
        self.search = search;
        self
    }

    /// Rows of a source from which a start is made; by default as many as k-means looks at in memory, 64 a component and at least 8192, or as EM's
    /// [search](Self::search) does, see [`Self::sample_rows`]. They are held in memory for as long as that takes.
    pub fn sample(mut self, rows: usize) -> Self {
        self.sample = Some(rows);
        self
    }

    /// Shows every pass of every restart to a callback, which may stop the fit.
    pub fn watch(mut self, watch: impl FnMut(usize, &Pass, &Mixture) -> ControlFlow<()> + Send + 'a) -> Self {
        self.watch = Some(Box::new(watch));
        self
    }

    /// Tells a callback after every block (every batch of the online methods) how far the fit has come; a break ends it there. The fit
    /// then ends with the best mixture so far: what an unfinished pass has seen counts for the online methods only.
    pub fn progress(mut self, progress: impl FnMut(Progress) -> ControlFlow<()> + Send + 'a) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// Hands a callback all that is to be remembered, after each start and after each pass; its errors end the fit. Where to keep it is
    /// the caller's affair: write [`Checkpoint::to_bytes`] beside the last one and rename it, and no power cut loses more than a pass.
    pub fn checkpoint(mut self, save: impl FnMut(&Checkpoint) -> Result<()> + Send + 'a) -> Self {
        self.save = Some(Box::new(save));
        self
    }

    /// Goes on where a checkpoint was made. The fit ends as it would have without the interruption, to the last bit; other settings, other
    /// rows and other blocks are refused. It may make more passes than it was begun with, as long as it is in its first restart.
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

    /// The M step that the method really uses: k-means has one concentration and equal weights, whatever was asked for.
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
            // One of 0 would stay there.
            return Err(Error::Option { option: "the weight of the background", range: "above 0 and below 1", value: weight });
        }
        if let (Some(weight), Method::KMeans) = (self.background, &self.method) {
            return Err(Error::BackgroundNotSupported { method: "k-means", weight });
        }
        self.maximisation.check(self.components + usize::from(self.background.is_some()))
    }

    /// Whether there is memory for what every fit of rows of this dimension makes: the mixture, the next one, the statistics of the pass and of
    /// a block.
    pub(crate) fn check_room(&self, dim: usize) -> Result<()> {
        capacity::check("the components of a fit and their statistics", &[4, self.components, dim])
    }

    pub(crate) fn batch_rows(&self) -> usize {
        let few = match self.method {
            Method::Sgd(_) if self.components == 1 => 128,
            Method::Sgd(_) => 64,
            _ => self.components.saturating_mul(16).max(512),
        };
        self.batch.unwrap_or(few)
    }

    /// The rows of this dimension that an online method cuts into batches together: those that it shuffles, or one batch.
    pub fn window_rows(&self, dim: usize) -> usize {
        let few = (SHUFFLED_NUMBERS / dim.max(1)).clamp(FEWEST_SHUFFLED, MOST_SHUFFLED);
        if self.shuffle { self.shuffle_rows.unwrap_or(few) } else { self.batch_rows() }
    }

    pub(crate) fn block_rows_used(&self) -> usize {
        self.block_rows.unwrap_or(BLOCK_ROWS)
    }

    pub(crate) fn stop_of_method(&self) -> Stop {
        self.stop.unwrap_or_else(|| self.method.stop())
    }

    pub(crate) fn rule(&self, seed: u64) -> Box<dyn Rule> {
        let em = || Em::new().maximisation(self.maximisation.clone());
        match &self.method {
            Method::Em { annealing: None } => Box::new(em()),
            Method::Em { annealing: Some(annealing) } => Box::new(em().annealing(*annealing)),
            Method::HardEm => Box::new(em().assignment(Assignment::Hard)),
            Method::StochasticEm => Box::new(em().assignment(Assignment::Sampled { seed: seed ^ 0x7361_6d70 })),
            Method::KMeans => Box::new(em().assignment(Assignment::Nearest).maximisation(self.maximisation.of_k_means())),
            Method::OnlineEm { exponent, offset } => {
                Box::new(OnlineEm::new().exponent(*exponent).offset(*offset).maximisation(self.maximisation.clone()))
            }
            Method::Sgd(adam) => Box::new(adam.clone().maximisation(&self.maximisation)),
        }
    }

    /// The first mixture of one restart. The online methods look at a sample only: they
    /// are for those who would not pass over all rows for a start.
    pub(crate) fn first_mixture(&self, block: &RowBatch, restart: usize, should_cancel: &mut ShouldCancel) -> Result<First> {
        let seed = self.seed_of(restart);
        let sample = self.batch_rows().max(if self.components == 1 { 1 } else { 64 * self.components });
        let needs_all = matches!(self.start, Start::Labels(_) | Start::Mixture(_));
        let mut buffer = Default::default();
        let start = &self.start_of(restart);
        let mixture = if self.method.is_online() && !needs_all && sample < block.len() {
            let mut rows: Vec<usize> = (0..block.len()).collect();
            let (chosen, _) = rows.partial_shuffle(&mut Stream::new(seed ^ 0x7361_6d70, 1), sample);
            let sample = block.gather(chosen, &mut buffer);
            // Weights may leave such a sample without any rows that count.
            match sample.weights().is_none_or(|w| w.iter().any(|w| *w > 0.0)) {
                true => start.mixture_while(&sample, self.components, &self.maximisation, seed, should_cancel)?,
                false => start.mixture_while(block, self.components, &self.maximisation, seed, should_cancel)?,
            }
        } else {
            start.mixture_while(block, self.components, &self.maximisation, seed, should_cancel)?
        };
        let mut mixture = self.finished(mixture)?;
        let mut how = self.maximisation_used();
        let dispersion =
            if self.asks_for_dispersion() { self.measured_dispersion(block, &mixture, seed, should_cancel)? } else { None };
        how.dispersion = how.dispersion.or(dispersion);
        let mut search_passes = 0;
        if self.searches() && should_cancel().is_continue() {
            let mut rng = Stream::new(seed ^ 0x7365_6172, 0);
            let sample = start::sample(block, search_rows(self.components), &mut rng, &mut buffer);
            (mixture, search_passes) = search_of_em(&sample, mixture, &how, &mut rng, should_cancel)?;
        }
        Ok(First { mixture, dispersion, search_passes })
    }

    /// The dispersion of a sample of rows under EM with free concentrations from this start; none if it was asked to stop.
    pub(crate) fn measured_dispersion(
        &self,
        block: &RowBatch,
        start: &Mixture,
        seed: u64,
        should_cancel: &mut ShouldCancel,
    ) -> Result<Option<f64>> {
        let mut buffer = Default::default();
        let mut rng = Stream::new(seed ^ 0x7361_6d70, 2);
        let most = sample_rows(self.components).min(search_rows(1));
        let sample = start::sample(block, most, &mut rng, &mut buffer);
        let free = self.maximisation.clone().policy(ConcentrationPolicy::Free);
        let fitted = passes_of_em(&sample, start, &free, DISPERSION_PASSES, should_cancel)?;
        fitted.map(|fitted| dispersion(&sample, &fitted)).transpose()
    }

    /// Where a restart begins. Those after the first begin elsewhere: k-means and its search end in the same place whatever the seed.
    fn start_of(&self, restart: usize) -> Start {
        match (&self.start, restart % 2) {
            (Start::KMeans, _) if restart == 0 => Start::KMeans,
            (Start::KMeans, 0) => Start::RandomRows,
            (Start::KMeans, _) => Start::PlusPlus,
            (other, _) => other.clone(),
        }
    }

    /// Whether the fit searches for a better optimum than that next to its start. Where people say where to begin, or how warm, that is where it
    /// begins.
    pub(crate) fn searches(&self) -> bool {
        let from_k_means = matches!((&self.method, &self.start), (Method::Em { annealing: None }, Start::KMeans));
        self.search && self.components > 1 && from_k_means && self.start_mark.is_none()
    }

    /// How many rows of a source are held to begin with, if they have this dimension: those that were asked for, or what k-means and a search look at. A
    /// search has to do with fewer where so many would take more than 64 MB in single precision.
    pub fn sample_rows(&self, dim: usize) -> usize {
        const NUMBERS: usize = 1 << 24;
        let usual = sample_rows(self.components);
        let of_search = if self.searches() { search_rows(self.components).min(NUMBERS / dim.max(1)) } else { 0 };
        self.sample.unwrap_or(usual.max(of_search))
    }

    /// Whether the policy depends on the dispersion of the rows and nobody has told it. It is measured once: restarts differ in their start
    /// alone.
    pub(crate) fn asks_for_dispersion(&self) -> bool {
        let used = self.maximisation_used();
        used.policy == ConcentrationPolicy::Auto && used.dispersion.is_none()
    }

    /// Takes the dispersion of the rows as it was measured.
    pub(crate) fn take_dispersion(&mut self, measured: Option<f64>) {
        self.maximisation.dispersion = self.maximisation.dispersion.or(measured);
    }

    /// Takes what another fit has measured of the rows, or has settled for want of a choice.
    pub(crate) fn take_measured(&mut self, settings: &Settings) {
        let number = |name: &str| settings.get(name).and_then(|text| text.parse().ok());
        self.take_dispersion(settings.dispersion());
        self.block_rows = self.block_rows.or(number("block_rows"));
        self.shuffle_rows = self.shuffle_rows.or(number("shuffle_rows"));
    }

    /// A start with what the fit says of backgrounds and weights.
    pub(crate) fn finished(&self, mixture: Mixture) -> Result<Mixture> {
        match self.background {
            // Whatever the start says: k-means holds its weights, and they are equal.
            _ if matches!(self.method, Method::KMeans) => {
                let components = mixture.without_background().components().to_vec();
                Mixture::new(vec![1.0 / components.len() as f64; components.len()], components)
            }
            Some(weight) if !mixture.has_background() => mixture.with_background(weight),
            _ => Ok(mixture),
        }
    }
}

/// The first mixture of a restart.
pub(crate) struct First {
    pub mixture: Mixture,
    /// That of the rows, if the policy asks for it.
    pub dispersion: Option<f64>,
    /// Passes over the sample that the search made.
    pub search_passes: usize,
}

impl From<Mixture> for First {
    fn from(mixture: Mixture) -> Self {
        First { mixture, dispersion: None, search_passes: 0 }
    }
}
