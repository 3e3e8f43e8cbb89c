//! The temperature at which responsibilities predict best.

use rayon::prelude::*;

/// Rows of logits, relative to the largest of their row, with weighted targets.
pub(crate) struct Targets {
    components: usize,
    /// Row by row.
    logits: Vec<f32>,
    /// Row, component and weight of what a row should predict.
    targets: Vec<(u32, u32, f64)>,
}

/// Rows per task.
const ROWS: usize = 256;

impl Targets {
    /// `targets` lists row, component and weight, in ascending order of the rows.
    pub fn new(components: usize, logits: Vec<f32>, targets: Vec<(u32, u32, f64)>) -> Self {
        Targets { components, logits, targets }
    }

    /// The inverse temperature beta that maximises the mean of ln softmax(beta logits)\[target\].
    /// 1 if a larger one would be better still, since calibration never sharpens.
    ///
    /// The mean is concave in beta. Its derivative is the mean of the target's logit minus the
    /// expected logit, whose zero is found by bisection in ln beta.
    pub fn best_coldness(&self) -> f64 {
        if self.slope(1.0) >= 0.0 {
            return 1.0;
        }
        let (mut low, mut high) = (LEAST_COLDNESS.ln(), 0.0);
        for _ in 0..STEPS {
            let middle = 0.5 * (low + high);
            if self.slope(f64::exp(middle)) > 0.0 { low = middle } else { high = middle }
        }
        f64::exp(0.5 * (low + high))
    }

    /// The largest probability of a row.
    pub fn largest(&self, row: usize, coldness: f64) -> f64 {
        let logits = &self.logits[row * self.components..(row + 1) * self.components];
        1.0 / logits.iter().map(|z| (coldness * f64::from(*z)).exp()).sum::<f64>()
    }

    /// The derivative of the weighted sum of ln softmax(beta logits)\[target\] in beta.
    fn slope(&self, coldness: f64) -> f64 {
        let rows: Vec<&[(u32, u32, f64)]> = self.targets.chunk_by(|a, b| a.0 == b.0).collect();
        let of_rows = |rows: &[&[(u32, u32, f64)]]| -> f64 {
            let slope = |row: &&[(u32, u32, f64)]| {
                let logits = &self.logits[row[0].0 as usize * self.components..][..self.components];
                let (mut sum, mut weighted) = (0.0, 0.0);
                for z in logits.iter().map(|z| f64::from(*z)).filter(|z| coldness * z > NEGLIGIBLE) {
                    let power = (coldness * z).exp();
                    sum += power;
                    weighted += power * z;
                }
                let expected = weighted / sum;
                row.iter().map(|(_, target, weight)| weight * (f64::from(logits[*target as usize]) - expected)).sum::<f64>()
            };
            rows.iter().map(slope).sum()
        };
        // Collected in order, so that the number of threads does not change one bit.
        let sums: Vec<f64> = rows.par_chunks(ROWS).map(of_rows).collect();
        sums.iter().sum()
    }
}

/// No rows need a lower inverse temperature: at a temperature of a million, responsibilities are
/// the weights but for rounding.
const LEAST_COLDNESS: f64 = 1e-6;
/// Bisections: beta has a relative error of 1e-6.
const STEPS: usize = 24;
/// The logarithm of a power that does not change the sum.
const NEGLIGIBLE: f64 = -40.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_temperature_of_draws_is_found() {
        // Targets are drawn with known temperatures; the seed is fixed.
        use rand::RngExt;
        let mut rng = crate::sampler::Stream::new(5, 0);
        for coldness in [0.02, 0.3, 0.9] {
            let (components, rows) = (7, 4000);
            let mut logits = Vec::new();
            let mut targets = Vec::new();
            for row in 0..rows {
                let mut row_logits: Vec<f64> = (0..components).map(|_| 6.0 / coldness * rng.random::<f64>()).collect();
                let largest = row_logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                row_logits.iter_mut().for_each(|z| *z -= largest);
                let powers: Vec<f64> = row_logits.iter().map(|z| (coldness * z).exp()).collect();
                let mut left = rng.random::<f64>() * powers.iter().sum::<f64>();
                let target = powers
                    .iter()
                    .position(|power| {
                        left -= power;
                        left < 0.0
                    })
                    .unwrap_or(components - 1);
                targets.push((row, target as u32, 1.0));
                logits.extend(row_logits.iter().map(|z| *z as f32));
            }
            let found = Targets::new(components, logits, targets).best_coldness();
            // Four standard errors of about 3 %.
            assert!((found / coldness).ln().abs() < 0.12, "{coldness}: {found}");
        }
    }

    #[test]
    fn calibration_never_sharpens() {
        let logits = [0.0, -1.0, -1.0, 0.0].repeat(50);
        let right = (0..100).map(|row| (row, u32::from(row % 2 == 1), 1.0)).collect();
        assert_eq!(Targets::new(2, logits.clone(), right).best_coldness(), 1.0);
        let wrong = (0..100).map(|row| (row, u32::from(row % 2 == 0), 1.0)).collect();
        assert!(Targets::new(2, logits, wrong).best_coldness() < 1e-5);
    }
}
