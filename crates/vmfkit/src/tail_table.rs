//! [`TailTable`]: the upper tail of a [`ProjectionLaw`] by interpolation.

use crate::projection::ProjectionLaw;

/// P(1 - T > s) to a relative error of 1e-6, twenty times as fast as the quadrature.
///
/// ln P is interpolated in c = sqrt(s), half the distance to the mean direction but for a factor, in which it is smooth up to the antipode: by
/// cubics with the values and slopes at evenly spaced nodes. Beyond the last node, and near the antipode, the law itself is asked.
#[derive(Debug, Clone)]
pub(crate) struct TailTable {
    law: ProjectionLaw,
    first: f64,
    step: f64,
    /// ln P at each node, and its slope times the step.
    nodes: Vec<(f64, f64)>,
}

const INTERVALS: usize = 512;
/// The lower tail at the first node, before which the upper one is 1, and the upper tail at the last.
const TAILS: (f64, f64) = (1e-9, 1e-100);
/// Intervals between the last node and the antipode at least: there ln P has a singularity, and an error of d/64 over the fourth power of this.
const APART: usize = 32;

impl TailTable {
    pub fn new(law: ProjectionLaw) -> Self {
        let first = law.deviation_quantile(TAILS.0).max(0.0).sqrt();
        let far = law.deviation_upper_quantile(TAILS.1).max(0.0).sqrt();
        let antipode = std::f64::consts::SQRT_2;
        let last = far.min(first + (antipode - first) * INTERVALS as f64 / (INTERVALS + APART) as f64);
        let step = (last - first) / INTERVALS as f64;
        let node = |i: usize| {
            let c = first + step * i as f64;
            let ln_tail = law.deviation_ln_survival(c * c);
            // d/dc ln P = -f(s)/P ds/dc.
            (ln_tail, -(law.deviation_ln_pdf(c * c) - ln_tail).exp() * 2.0 * c * step)
        };
        // A law without width, or one that does not give finite numbers, has no table and is always asked.
        let nodes: Vec<(f64, f64)> = if step > 0.0 { (0..=INTERVALS).map(node).collect() } else { Vec::new() };
        let finite = nodes.iter().all(|(value, slope)| value.is_finite() && slope.is_finite());
        TailTable { law, first, step, nodes: if finite { nodes } else { Vec::new() } }
    }

    /// P(1 - T > s).
    pub fn survival(&self, s: f64) -> f64 {
        let position = (s.max(0.0).sqrt() - self.first) / self.step;
        if self.nodes.is_empty() || !(position < INTERVALS as f64) {
            return self.law.deviation_survival(s);
        }
        if position <= 0.0 {
            return 1.0;
        }
        self.ln_tail(position as usize, position.fract()).0.min(0.0).exp()
    }

    /// The s with P(1 - T > s) = p.
    pub fn upper_quantile(&self, p: f64) -> f64 {
        let y = p.ln();
        let above = self.nodes.partition_point(|(ln_tail, _)| *ln_tail >= y);
        if above == 0 || above >= self.nodes.len() {
            return self.law.deviation_upper_quantile(p);
        }
        let (at, mut t) = (above - 1, 0.5);
        for _ in 0..4 {
            let (ln_tail, slope) = self.ln_tail(at, t);
            t = (t - (ln_tail - y) / slope).clamp(0.0, 1.0);
        }
        (self.first + self.step * (at as f64 + t)).powi(2)
    }

    /// Hermite's cubic in an interval and its slope, `t` steps from the interval's left end.
    fn ln_tail(&self, at: usize, t: f64) -> (f64, f64) {
        let ((y0, m0), (y1, m1)) = (self.nodes[at], self.nodes[at + 1]);
        let bend = m0 + m1 - 2.0 * (y1 - y0);
        let curve = y1 - y0 - m0 - bend;
        (y0 + t * (m0 + t * (curve + t * bend)), m0 + t * (2.0 * curve + 3.0 * t * bend))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_those_of_the_law() {
        for dim in [2, 3, 4, 5, 10, 100, 768, 10_000] {
            for concentration in [0.0, 1e-3, 0.5, 1.0, 5.0, 50.0, 700.0, 1e5, 1e9] {
                let law = ProjectionLaw::new(dim, concentration).unwrap();
                let table = TailTable::new(law.clone());
                assert!(!table.nodes.is_empty(), "d = {dim}, k = {concentration}");
                let mut worst: f64 = 0.0;
                for i in 1..2000 {
                    // Evenly in p, and evenly in ln p.
                    let p = if i % 2 == 0 { f64::from(i) / 2000.0 } else { 1e-150f64.powf(f64::from(i) / 2000.0) };
                    let s = law.deviation_upper_quantile(p);
                    worst = worst.max((table.survival(s) / law.deviation_survival(s) - 1.0).abs());
                    // Just before the antipode doubles are too far apart.
                    if (law.deviation_survival(s) / p - 1.0).abs() < 1e-9 {
                        worst = worst.max((law.deviation_survival(table.upper_quantile(p)) / p - 1.0).abs());
                    }
                }
                assert!(worst < 1e-6, "d = {dim}, k = {concentration}: {worst}");
                assert_eq!((table.survival(0.0), table.survival(-1e-17)), (1.0, 1.0));
                assert_eq!(table.survival(2.0), law.deviation_survival(2.0));
                assert!((0.0..=1.0).contains(&table.survival(2.0 + 1e-9)));
            }
        }
    }
}
