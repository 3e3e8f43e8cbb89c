//! [`DensityGrid`]: integrals, tail probabilities and quantiles of an unnormalised unimodal
//! density.

/// A unimodal density tabulated where it exceeds e^-36 of its maximum.
pub(crate) struct DensityGrid {
    start: f64,
    step: f64,
    ln_max: f64,
    /// The density, relative to its maximum, at the ends of the cells.
    density: Vec<f64>,
    /// Its integral from `start` to the ends of the cells.
    cumulative: Vec<f64>,
}

/// Number of cells for quantiles and for averages over [`DensityGrid::nodes`].
const CELLS: usize = 480;
/// Number of cells for probabilities, with relative errors below 1e-6.
const FINE_CELLS: usize = 960;
/// The grid ends where the log density is this far below its maximum.
const DEPTH: f64 = 36.0;

impl DensityGrid {
    /// Tabulates a density around `near`, a point near the maximum. `step` is a fraction of the
    /// density's width.
    pub(crate) fn new(ln_density: impl Fn(f64) -> f64, near: f64, step: f64) -> Self {
        Self::whole(ln_density, near, step, CELLS)
    }

    fn whole(ln_density: impl Fn(f64) -> f64, near: f64, step: f64, cells: usize) -> Self {
        let mut ln_max = ln_density(near);
        let start = edge(&ln_density, near, -step, &mut ln_max);
        let end = edge(&ln_density, near, step, &mut ln_max);
        Self::between(ln_density, start, end, ln_max, cells)
    }

    /// The log of the integral of a unimodal density, with an error of at most 1e-6.
    pub(crate) fn ln_integral(ln_density: impl Fn(f64) -> f64, near: f64, step: f64) -> f64 {
        Self::whole(ln_density, near, step, FINE_CELLS).ln_total()
    }

    fn between(ln_density: impl Fn(f64) -> f64, start: f64, end: f64, ln_max: f64, cells: usize) -> Self {
        let step = (end - start) / cells as f64;
        // The cubics of the first and the last cell need one more point on either side.
        let values: Vec<f64> = (0..cells + 3).map(|i| (ln_density(start + step * (i as f64 - 1.0)) - ln_max).exp()).collect();
        let mut cumulative = vec![0.0; cells + 1];
        for i in 0..cells {
            // The cubic through four points, integrated over the middle cell.
            let cell = (13.0 * (values[i + 1] + values[i + 2]) - values[i] - values[i + 3]) / 24.0 * step;
            cumulative[i + 1] = cumulative[i] + cell.max(0.0);
        }
        DensityGrid { start, step, ln_max, density: values[1..=cells + 1].to_vec(), cumulative }
    }

    fn total(&self) -> f64 {
        self.cumulative[self.cumulative.len() - 1]
    }

    /// The log of the integral.
    fn ln_total(&self) -> f64 {
        self.ln_max + self.total().ln()
    }

    /// The point below which this fraction of the integral lies.
    pub(crate) fn quantile(&self, fraction: f64) -> f64 {
        let target = fraction * self.total();
        let cell = self.cumulative.partition_point(|&c| c < target).clamp(1, self.cumulative.len() - 1) - 1;
        let (c0, c1) = (self.cumulative[cell], self.cumulative[cell + 1]);
        let (d0, d1) = (self.density[cell] * self.step, self.density[cell + 1] * self.step);
        // The cubic that has the integrals and densities of the grid at the ends of the cell.
        let cubic = |z: f64| {
            let rise = c1 - c0;
            c0 + z * (d0 + z * (3.0 * rise - 2.0 * d0 - d1 + z * (d0 + d1 - 2.0 * rise)))
        };
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            *(if cubic(middle) < target { &mut low } else { &mut high }) = middle;
        }
        self.start + self.step * (cell as f64 + low)
    }

    /// Every fourth point of the grid with its probability, for averages over the density.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        const STRIDE: usize = 4;
        let picked = || self.density.iter().enumerate().step_by(STRIDE);
        let total: f64 = picked().map(|(_, density)| density).sum();
        picked()
            .filter(move |(_, density)| **density > 1e-12 * total)
            .map(move |(i, density)| (self.start + self.step * i as f64, density / total))
    }
}

/// The probability above `x` under a unimodal density, with a relative error of at most 1e-6 even
/// for tiny probabilities. `near` and `step` are those of [`DensityGrid::new`].
pub(crate) fn upper_tail(ln_density: impl Fn(f64) -> f64, x: f64, near: f64, step: f64) -> f64 {
    let whole = DensityGrid::whole(&ln_density, near, step, FINE_CELLS);
    let mut ln_max = ln_density(x);
    let end = edge(&ln_density, x, step, &mut ln_max);
    if x <= whole.start {
        return 1.0;
    }
    let tail = DensityGrid::between(&ln_density, x, end, ln_max, FINE_CELLS);
    (tail.ln_total() - whole.ln_total()).exp().min(1.0)
}

/// Walks from `near` in growing steps until the log density is [`DEPTH`] below the largest value
/// met, or until exp(x) is no longer a normal number.
fn edge(ln_density: &impl Fn(f64) -> f64, near: f64, mut step: f64, ln_max: &mut f64) -> f64 {
    let mut x = near;
    loop {
        x += step;
        let value = ln_density(x);
        *ln_max = ln_max.max(value);
        if !(value > *ln_max - DEPTH) || x.abs() > 708.0 {
            return x;
        }
        step *= 1.2;
    }
}
