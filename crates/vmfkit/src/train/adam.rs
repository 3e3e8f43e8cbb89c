//! Stochastic gradient ascent with Adam, the second estimator of Kim (2021), section 2.2.

use crate::block::Block;
use crate::distribution::VonMisesFisher;
use crate::error::{Error, Result};
use crate::estimate::{ConcentrationEstimator, gradient, ln_likelihood, maximum_likelihood};
use crate::sampler::{Stream, fill_with_normals};
use crate::stats::SufficientStats;
use rand::seq::SliceRandom;

/// Fits one vMF by stochastic gradient steps in the paper's unconstrained parameters: an unnormalised mean direction and ln k.
///
/// Each step reads the [`SufficientStats`] of one mini-batch (Fisher's identity, MATH.md (10.1)); the gradient of a smaller batch at the end
/// of an epoch counts by its share of rows. The defaults are the paper's:
/// learning rate 0.01, multiplied by 0.95 after each epoch, betas 0.9 and 0.99, batches of 128 shuffled rows, 100 epochs. Only the
/// start differs: it is the closed-form estimate of the first batch, because Adam moves ln k by at most the learning rate a step
/// and few rows make few steps; [`Start::Random`] is the paper's. Adam is that of Kingma and Ba, arXiv:1412.6980.
///
/// ```
/// use vmfkit::{Block, Sampler, VonMisesFisher, train::Adam};
/// let truth = VonMisesFisher::new(vec![0.0, 0.6, 0.8], 50.0)?;
/// let mut rows = vec![0.0; 3 * 2000];
/// Sampler::new(&truth).fill(1, 0, &mut rows)?;
/// let fit = Adam::new().epochs(60).fit(&Block::new(3, &rows)?)?;
/// assert!((fit.density.concentration() / 50.0 - 1.0).abs() < 0.1);
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Adam {
    learning_rate: f64,
    decay: f64,
    betas: (f64, f64),
    epsilon: f64,
    batch: usize,
    epochs: usize,
    seed: u64,
    shuffle: bool,
    start: Start,
}

/// Where the steps begin.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Start {
    /// The closed-form estimate of the first mini-batch.
    #[default]
    FirstBatch,
    /// A normal direction and a concentration near 1, as in the paper.
    Random,
    /// This density; its concentration must be above 0.
    At(VonMisesFisher),
}

impl Default for Adam {
    fn default() -> Self {
        Adam {
            learning_rate: 0.01,
            decay: 0.95,
            betas: (0.9, 0.99),
            epsilon: 1e-8,
            batch: 128,
            epochs: 100,
            seed: 0,
            shuffle: true,
            start: Start::FirstBatch,
        }
    }
}

/// What [`Adam::fit`] ends with.
#[derive(Debug, Clone)]
pub struct AdamFit {
    /// The last iterate.
    pub density: VonMisesFisher,
    /// For each epoch the mean log density of the rows, each under the iterate that met it.
    pub trace: Vec<f64>,
}

impl Adam {
    /// The paper's settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// The step size of the first epoch.
    pub fn learning_rate(mut self, learning_rate: f64) -> Self {
        self.learning_rate = learning_rate;
        self
    }

    /// What the step size is multiplied by after each epoch.
    pub fn decay(mut self, decay: f64) -> Self {
        self.decay = decay;
        self
    }

    /// The forgetting factors of the first and second moment.
    pub fn betas(mut self, first: f64, second: f64) -> Self {
        self.betas = (first, second);
        self
    }

    /// The term that keeps a step finite where the gradient vanishes.
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = epsilon;
        self
    }

    /// Rows in a mini-batch; the last one of an epoch may be smaller.
    pub fn batch(mut self, batch: usize) -> Self {
        self.batch = batch;
        self
    }

    /// Passes over the rows.
    pub fn epochs(mut self, epochs: usize) -> Self {
        self.epochs = epochs;
        self
    }

    /// What the start and the order of the rows are drawn from.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Whether each epoch takes the rows in a new random order, or all in their own.
    pub fn shuffle(mut self, shuffle: bool) -> Self {
        self.shuffle = shuffle;
        self
    }

    /// Where the steps begin.
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    fn check(&self, dim: usize) -> Result<()> {
        let unit = |x: f64| (0.0..1.0).contains(&x);
        let checks = [
            (
                self.learning_rate > 0.0 && self.learning_rate.is_finite(),
                "the learning rate",
                "finite and above 0",
                self.learning_rate,
            ),
            (self.decay > 0.0 && self.decay <= 1.0, "the decay of the learning rate", "above 0 and at most 1", self.decay),
            (unit(self.betas.0), "the first beta", "at least 0 and below 1", self.betas.0),
            (unit(self.betas.1), "the second beta", "at least 0 and below 1", self.betas.1),
            (self.epsilon > 0.0 && self.epsilon.is_finite(), "epsilon", "finite and above 0", self.epsilon),
            (self.batch > 0, "the batch", "at least 1 row", self.batch as f64),
            (self.epochs > 0, "the number of epochs", "at least 1", self.epochs as f64),
        ];
        if let Some(&(_, option, range, value)) = checks.iter().find(|check| !check.0) {
            return Err(Error::Option { option, range, value });
        }
        match &self.start {
            Start::At(start) if start.dim() != dim => Err(Error::DimensionMismatch { expected: dim, found: start.dim() }),
            Start::At(start) if start.concentration() == 0.0 => Err(Error::Option {
                option: "the concentration of a start",
                range: "above 0 (its logarithm is the parameter)",
                value: 0.0,
            }),
            _ => Ok(()),
        }
    }

    /// Fits one vMF to the rows.
    pub fn fit(&self, block: &Block) -> Result<AdamFit> {
        let dim = block.dim();
        self.check(dim)?;
        let weight = block.weights().map_or(block.len() as f64, |w| w.iter().sum());
        if !(weight > 0.0) {
            return Err(Error::NoRows { weight });
        }
        // So that the steps share no random word with rows that were drawn with the same seed.
        let mut rng = Stream::new(self.seed ^ 0x6164_616d, 0);
        let mut order: Vec<usize> = (0..block.len()).collect();
        if self.shuffle {
            order.shuffle(&mut rng);
        }
        // The unnormalised direction, then ln k.
        let mut parameters = self.first_parameters(block, &order, &mut rng);
        let full_batch = weight * self.batch.min(block.len()) as f64 / block.len() as f64;
        let mut moments = Moments::new(parameters.len());
        let mut learning_rate = self.learning_rate;
        let mut trace = Vec::with_capacity(self.epochs);
        let model = |parameters: &[f64]| VonMisesFisher::along(parameters[..dim].to_vec(), parameters[dim].exp());
        for epoch in 0..self.epochs {
            if self.shuffle && epoch > 0 {
                order.shuffle(&mut rng);
            }
            let mut objective = 0.0;
            for batch in order.chunks(self.batch) {
                let stats = SufficientStats::of_rows(block, batch.iter().copied());
                if stats.mass(0) == 0.0 {
                    continue;
                }
                objective += ln_likelihood(&stats, &model(&parameters)?);
                let up = gradient(&stats, &parameters[..dim], parameters[dim].exp());
                // Every row counts the same, also in the smaller batch at the end of an epoch.
                let share = stats.mass(0) / full_batch;
                let up = up.direction.into_iter().chain([up.ln_concentration]).map(|g| share * g);
                moments.ascend(&mut parameters, up, learning_rate, self.betas, self.epsilon);
            }
            trace.push(objective / weight);
            learning_rate *= self.decay;
        }
        Ok(AdamFit { density: model(&parameters)?, trace })
    }

    fn first_parameters(&self, block: &Block, order: &[usize], rng: &mut Stream) -> Vec<f64> {
        let from =
            |density: &VonMisesFisher| density.mean_direction().iter().copied().chain([density.concentration().ln()]).collect();
        let first = || {
            let stats = SufficientStats::of_rows(block, order.iter().copied().take(self.batch));
            maximum_likelihood(&stats, ConcentrationEstimator::Banerjee).ok().filter(|d| d.concentration() > 0.0)
        };
        let start = match &self.start {
            Start::At(density) => Some(density.clone()),
            // A batch without an estimate (its rows all equal, or cancelling) leaves only chance.
            Start::FirstBatch => first(),
            Start::Random => None,
        };
        start.as_ref().map(from).unwrap_or_else(|| {
            let mut random = vec![0.0; block.dim() + 1];
            fill_with_normals(rng, &mut random);
            random[block.dim()] *= 0.01;
            random
        })
    }
}

/// Adam's running moments of the gradient.
#[derive(Debug, Clone)]
struct Moments {
    first: Vec<f64>,
    second: Vec<f64>,
    /// betas to the power of the number of steps
    fading: (f64, f64),
}

impl Moments {
    fn new(parameters: usize) -> Self {
        Moments { first: vec![0.0; parameters], second: vec![0.0; parameters], fading: (1.0, 1.0) }
    }

    /// One step uphill.
    fn ascend(
        &mut self,
        parameters: &mut [f64],
        gradient: impl Iterator<Item = f64>,
        learning_rate: f64,
        (beta1, beta2): (f64, f64),
        epsilon: f64,
    ) {
        self.fading.0 *= beta1;
        self.fading.1 *= beta2;
        let step = learning_rate / (1.0 - self.fading.0);
        let spread = 1.0 / (1.0 - self.fading.1);
        for (((parameter, g), first), second) in parameters.iter_mut().zip(gradient).zip(&mut self.first).zip(&mut self.second) {
            *first = beta1 * *first + (1.0 - beta1) * g;
            *second = beta2 * *second + (1.0 - beta2) * g * g;
            *parameter += step * *first / ((*second * spread).sqrt() + epsilon);
        }
    }
}
