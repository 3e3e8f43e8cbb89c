//! [`DensityGrid`]: an unnormalised density with one maximum, tabulated for integrals, tail probabilities and quantiles.

/// A density with one maximum on a grid that covers all of it but what is below e^-36 of its height.
pub(crate) struct DensityGrid {
    from: f64,
    step: f64,
    ln_top: f64,
    /// The density over its top, at the ends of the cells.
    density: Vec<f64>,
    /// Its integral up to there.
    cumulative: Vec<f64>,
}

/// Cells of a grid for quantiles and integrals with other functions.
const CELLS: usize = 480;
/// Cells of a grid for probabilities: relative errors are below 1e-6.
const FINE_CELLS: usize = 960;
const DEPTH: f64 = 36.0;

impl DensityGrid {
    /// All of it; `start` is a point near the maximum and `step` a fraction of the density's width.
    pub(crate) fn new(ln_density: impl Fn(f64) -> f64, start: f64, step: f64) -> Self {
        Self::whole(ln_density, start, step, CELLS)
    }

    fn whole(ln_density: impl Fn(f64) -> f64, start: f64, step: f64, cells: usize) -> Self {
        let mut top = ln_density(start);
        let from = reach(&ln_density, start, -step, &mut top);
        let to = reach(&ln_density, start, step, &mut top);
        Self::on(ln_density, from, to, top, cells)
    }

    /// ln of the integral of a density with one maximum, right to 1e-6.
    pub(crate) fn ln_integral(ln_density: impl Fn(f64) -> f64, start: f64, step: f64) -> f64 {
        Self::whole(ln_density, start, step, FINE_CELLS).ln_total()
    }

    fn on(ln_density: impl Fn(f64) -> f64, from: f64, to: f64, ln_top: f64, cells: usize) -> Self {
        let step = (to - from) / cells as f64;
        // One point more on either side, for the cubics of the first and the last cell.
        let values: Vec<f64> = (0..cells + 3).map(|i| (ln_density(from + step * (i as f64 - 1.0)) - ln_top).exp()).collect();
        let mut cumulative = vec![0.0; cells + 1];
        for i in 0..cells {
            // The cubic through four points, integrated over the middle cell.
            let cell = (13.0 * (values[i + 1] + values[i + 2]) - values[i] - values[i + 3]) / 24.0 * step;
            cumulative[i + 1] = cumulative[i] + cell.max(0.0);
        }
        DensityGrid { from, step, ln_top, density: values[1..=cells + 1].to_vec(), cumulative }
    }

    fn total(&self) -> f64 {
        self.cumulative[self.cumulative.len() - 1]
    }

    /// ln of the integral.
    fn ln_total(&self) -> f64 {
        self.ln_top + self.total().ln()
    }

    /// The point below which this fraction of the integral lies.
    pub(crate) fn quantile(&self, fraction: f64) -> f64 {
        let target = fraction * self.total();
        let cell = self.cumulative.partition_point(|&c| c < target).clamp(1, self.cumulative.len() - 1) - 1;
        let (c0, c1) = (self.cumulative[cell], self.cumulative[cell + 1]);
        let (d0, d1) = (self.density[cell] * self.step, self.density[cell + 1] * self.step);
        // The cubic with the cell's integrals and densities at its ends.
        let cubic = |z: f64| {
            let rise = c1 - c0;
            c0 + z * (d0 + z * (3.0 * rise - 2.0 * d0 - d1 + z * (d0 + d1 - 2.0 * rise)))
        };
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            *(if cubic(middle) < target { &mut low } else { &mut high }) = middle;
        }
        self.from + self.step * (cell as f64 + low)
    }

    /// Points and their probabilities: every fourth point of the grid.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        const STRIDE: usize = 4;
        let picked = || self.density.iter().enumerate().step_by(STRIDE);
        let total: f64 = picked().map(|(_, density)| density).sum();
        picked()
            .filter(move |(_, density)| **density > 1e-12 * total)
            .map(move |(i, density)| (self.from + self.step * i as f64, density / total))
    }
}

/// The probability above `from` under a density with one maximum, to 1e-6 of itself however small it is.
pub(crate) fn upper_tail(ln_density: impl Fn(f64) -> f64, from: f64, start: f64, step: f64) -> f64 {
    let whole = DensityGrid::whole(&ln_density, start, step, FINE_CELLS);
    let mut top = ln_density(from);
    let to = reach(&ln_density, from, step, &mut top);
    if from <= whole.from {
        return 1.0;
    }
    let tail = DensityGrid::on(&ln_density, from, to, top, FINE_CELLS);
    (tail.ln_total() - whole.ln_total()).exp().min(1.0)
}

/// Walks from `start` in growing steps until the density has fallen e^-36 below the highest point met, or x leaves the range where
/// exp(x) is a normal number.
fn reach(ln_density: &impl Fn(f64) -> f64, start: f64, mut step: f64, top: &mut f64) -> f64 {
    let mut x = start;
    loop {
        x += step;
        let value = ln_density(x);
        *top = top.max(value);
        if !(value > *top - DEPTH) || x.abs() > 708.0 {
            return x;
        }
        step *= 1.2;
    }
}
