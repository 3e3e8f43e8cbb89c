//! The clustering methods of the table, and their scores.

use super::latent::{Latent, Part};
use crate::Spread;
use crate::autoencoder::LATENT;
use crate::clock::Clock;
use crate::kmeans::Centres;
use anyhow::Result;
use serde::Serialize;
use vmfkit::metrics::Agreement;
use vmfkit::train::{Adam, Baseline, Stop};
use vmfkit::{ConcentrationEstimator, ConcentrationPolicy, Fitter, Maximisation, Method, Mixture, RowBatch, Start};

/// The number of clusters, equal to the number of classes.
const CLUSTERS: usize = 10;

/// A clustering method: a line of the table.
pub struct Way {
    pub name: &'static str,
    /// `None` for Euclidean k-means.
    fitter: Option<fn() -> Fitter<'static>>,
    /// The paper's ARI and NMI.
    pub paper: Option<[f64; 2]>,
}

pub const KMEANS: usize = 0;
const SPHERICAL: usize = 1;
pub const EM: usize = 2;
pub const SGD: usize = 3;
pub const DEFAULT: usize = 4;
pub const WAYS: [Way; 7] = [
    Way { name: "k-means", fitter: None, paper: Some([0.0487, 0.0871]) },
    Way { name: "spherical k-means", fitter: Some(spherical), paper: None },
    Way { name: "EM, the paper's setting", fitter: Some(papers_em), paper: Some([0.0522, 0.1068]) },
    Way { name: "SGD, the paper's setting", fitter: Some(papers_sgd), paper: Some([0.0528, 0.1067]) },
    Way { name: "EM, our default", fitter: Some(default), paper: None },
    Way { name: "EM, free concentrations", fitter: Some(free), paper: None },
    Way { name: "online EM", fitter: Some(online), paper: None },
];

fn spherical() -> Fitter<'static> {
    default().method(Method::KMeans)
}

/// Stops when the relative change of ln p in a pass is at most 1e-5.
fn papers_em() -> Fitter<'static> {
    let how = Maximisation::new().estimator(ConcentrationEstimator::Banerjee).policy(ConcentrationPolicy::Free);
    let stop = Stop { baseline: Baseline::Zero, ..Stop::default() };
    Fitter::new(CLUSTERS).calibrate(false).start(Start::Random).maximisation(how).stop(stop)
}

/// Each epoch reads the rows in the order of the files, as the paper's program does.
fn papers_sgd() -> Fitter<'static> {
    let adam = Adam::new().learning_rate(0.1).decay(0.95);
    let how = Maximisation::new().policy(ConcentrationPolicy::Free);
    let stop = Stop { tolerance: None, passes: 100, ..Stop::default() };
    Fitter::new(CLUSTERS)
        .calibrate(false)
        .method(Method::Sgd(adam))
        .start(Start::Random)
        .maximisation(how)
        .batch(256)
        .shuffle(false)
        .stop(stop)
}

/// vmfkit's default policy, search and start.
fn default() -> Fitter<'static> {
    Fitter::new(CLUSTERS).calibrate(false)
}

fn free() -> Fitter<'static> {
    default().policy(ConcentrationPolicy::Free)
}

fn online() -> Fitter<'static> {
    default().method(Method::OnlineEm { exponent: 0.6, offset: 1.0 })
}

/// The mixture fitted with our default.
pub fn default_mixture(latent: &Latent, seed: u64) -> Result<Mixture> {
    Ok(default().seed(seed).fit(&RowBatch::new(LATENT, &latent.train.rows)?)?.mixture)
}

/// Clusters found by any method.
enum Clusters {
    Centres(Centres),
    Mixture(Mixture),
}

impl Clusters {
    /// The cluster of each row.
    fn assign(&self, rows: &[f32]) -> Result<Vec<u32>> {
        match self {
            Clusters::Centres(centres) => Ok(centres.assign(rows)),
            Clusters::Mixture(mixture) => {
                let mut labels = vec![0; rows.len() / LATENT];
                mixture.assign_into(&RowBatch::new(LATENT, rows)?, &mut labels)?;
                Ok(labels)
            }
        }
    }

    /// ARI and NMI with the classes.
    fn scores(&self, part: &Part) -> Result<[f64; 2]> {
        let labels: Vec<i64> = self.assign(&part.rows)?.into_iter().map(i64::from).collect();
        let agreement = Agreement::new(&part.classes, &labels)?;
        Ok([agreement.adjusted_rand_index(), agreement.normalized_mutual_information()])
    }
}

/// The results of one method for all seeds.
#[derive(Serialize)]
pub struct Line {
    name: &'static str,
    paper: Option<[f64; 2]>,
    /// ARI and NMI on the training images and on the test images.
    pub scores: [[Spread; 2]; 2],
    /// Mean ln p of the training images.
    pub ln_likelihood: Option<Spread>,
    pub passes: Spread,
    pub seconds: Spread,
    pub processor_seconds: Spread,
    /// The scores for each seed.
    fits: Vec<[[f64; 2]; 2]>,
}

/// One fit.
struct Outcome {
    scores: [[f64; 2]; 2],
    ln_likelihood: Option<f64>,
    passes: f64,
    seconds: f64,
    processor_seconds: f64,
}

impl Way {
    fn outcome(&self, latent: &Latent, seed: u64) -> Result<Outcome> {
        let block = RowBatch::new(LATENT, &latent.train.rows)?;
        let clock = Clock::start();
        let (clusters, passes) = match self.fitter {
            None => {
                let (centres, passes) = Centres::fit(LATENT, &latent.train.rows, CLUSTERS, seed)?;
                (Clusters::Centres(centres), passes)
            }
            Some(fitter) => {
                let fit = fitter().seed(seed).fit(&block)?;
                (Clusters::Mixture(fit.mixture), fit.trace.len())
            }
        };
        let seconds = clock.seconds();
        // The mixture of k-means is not fitted as a density.
        let ln_likelihood = match &clusters {
            Clusters::Mixture(mixture) if self.name != WAYS[SPHERICAL].name => Some(mixture.evaluate(&block)?.mean()),
            _ => None,
        };
        Ok(Outcome {
            scores: [clusters.scores(&latent.train)?, clusters.scores(&latent.test)?],
            ln_likelihood,
            passes: passes as f64,
            seconds: seconds.wall,
            processor_seconds: seconds.processors,
        })
    }
}

/// Runs all methods with all seeds, one fit at a time so that each can use all processors.
pub fn study(latent: &Latent, first_seed: u64, seeds: u64) -> Result<Vec<Line>> {
    let line = |way: &Way| -> Result<Line> {
        eprintln!("{}: {seeds} fits", way.name);
        let outcomes: Vec<Outcome> =
            (0..seeds).map(|i| way.outcome(latent, first_seed.wrapping_add(i))).collect::<Result<_>>()?;
        let of = |pick: &dyn Fn(&Outcome) -> f64| Spread::of(outcomes.iter().map(pick));
        let score = |part: usize, metric: usize| of(&|outcome| outcome.scores[part][metric]);
        let has_density = outcomes[0].ln_likelihood.is_some();
        Ok(Line {
            name: way.name,
            paper: way.paper,
            scores: [[score(0, 0), score(0, 1)], [score(1, 0), score(1, 1)]],
            ln_likelihood: has_density.then(|| of(&|outcome| outcome.ln_likelihood.unwrap_or(f64::NAN))),
            passes: of(&|outcome| outcome.passes),
            seconds: of(&|outcome| outcome.seconds),
            processor_seconds: of(&|outcome| outcome.processor_seconds),
            fits: outcomes.iter().map(|outcome| outcome.scores).collect(),
        })
    };
    WAYS.iter().map(line).collect()
}

#[cfg(test)]
impl Line {
    /// A line with given scores.
    pub fn of_scores(scores: [[Spread; 2]; 2], processor_seconds: Spread) -> Self {
        let seconds = processor_seconds;
        Line { name: "", paper: None, scores, ln_likelihood: None, passes: seconds, seconds, processor_seconds, fits: Vec::new() }
    }
}
