//! [`Assignment`]: how rows are divided among components.

/// How rows are assigned to components.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum Assignment {
    /// In proportion to the responsibilities: EM.
    #[default]
    Soft,
    /// In proportion to responsibilities^(1/temperature), normalised: annealing.
    Tempered(f64),
    /// To the component with the largest responsibility: hard EM.
    Hard,
    /// To one component drawn with the responsibilities as probabilities: stochastic EM. The draws
    /// depend on the seed and on the number of the row.
    Sampled {
        /// Seed of the draws.
        seed: u64,
    },
    /// To the component with the nearest mean direction: spherical k-means.
    Nearest,
}

impl Assignment {
    /// The divisor of the logits: 1 unless annealed.
    pub fn temperature(self) -> f64 {
        if let Assignment::Tempered(temperature) = self { temperature } else { 1.0 }
    }
}
