//! [`VonMisesFisher`]: one density, its moments, entropy and divergences.

use crate::bessel;
use crate::error::{Error, Result};
use crate::projection::ProjectionLaw;
use crate::rows::{Length, RowBatch, Rows, Scalar, SparseRows, UNIT_TOLERANCE};
use vmfkit_kernels::vector::{half_squared_distance, norm, sparse_half_squared_distance};

/// The von Mises-Fisher density C_d(k) exp(k mu . x) on the unit sphere of R^d, MATH.md (1.1).
///
/// It accepts any d >= 2 and any finite concentration k >= 0; k = 0 is the uniform density.
///
/// Use [`Mixture`](crate::Mixture) for several densities and
/// [`maximum_likelihood`](crate::estimate::maximum_likelihood) to fit one.
///
/// The log density is computed as (k + ln C_d(k)) - k |x - mu|^2 / 2, which stays accurate at k =
/// 1e10 and beyond; the terms k mu . x and ln C_d(k) would cancel there. If the length of x differs
/// from 1 by e, at most [`UNIT_TOLERANCE`], the log density is too small by k e^2 / 2.
///
/// ```
/// use vmfkit::VonMisesFisher;
/// let density = VonMisesFisher::new(vec![0.0, 0.0, 1.0], 10.0)?;
/// assert!((density.ln_density(&[0.0, 0.0, 1.0])? - (10.0 / std::f64::consts::TAU).ln()).abs() < 1e-8);
/// assert!((density.mean()[2] - 0.9).abs() < 1e-8);
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct VonMisesFisher {
    mean_direction: Vec<f64>,
    concentration: f64,
    ln_peak: f64,
}

impl VonMisesFisher {
    /// A density with this mean direction and concentration.
    ///
    /// The mean direction must have length 1 to within [`UNIT_TOLERANCE`]; it is normalised. Use
    /// [`Self::along`] for vectors of other lengths.
    ///
    /// # Errors
    /// [`Error::Dimension`], [`Error::MeanDirection`], [`Error::MeanDirectionNotFinite`] and
    /// [`Error::Concentration`].
    pub fn new(mean_direction: Vec<f64>, concentration: f64) -> Result<Self> {
        let norm = checked_length(&mean_direction)?.value();
        if (norm - 1.0).abs() > UNIT_TOLERANCE {
            return Err(Error::MeanDirection { norm });
        }
        Self::along(mean_direction, concentration)
    }

    /// A density whose mean direction is the direction of `vector`, which may have any length but
    /// 0.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn along(mut vector: Vec<f64>, concentration: f64) -> Result<Self> {
        let length = checked_length(&vector)?;
        if !(concentration >= 0.0 && concentration.is_finite()) {
            return Err(Error::Concentration { value: concentration });
        }
        if length.value() != 1.0 {
            vector.iter_mut().for_each(|x| *x = length.divide(*x));
        }
        Ok(Self::of_unit(vector, concentration))
    }

    /// Like [`Self::new`], but keeps the bits of a mean direction of unit length up to rounding.
    pub(crate) fn restored(mean_direction: Vec<f64>, concentration: f64) -> Result<Self> {
        let rounding = 1e-9;
        if (checked_length(&mean_direction)?.value() - 1.0).abs() <= rounding && concentration >= 0.0 && concentration.is_finite()
        {
            return Ok(Self::of_unit(mean_direction, concentration));
        }
        Self::new(mean_direction, concentration)
    }

    /// From valid parameters.
    fn of_unit(mean_direction: Vec<f64>, concentration: f64) -> Self {
        let ln_peak = bessel::ln_peak(mean_direction.len(), concentration);
        VonMisesFisher { mean_direction, concentration, ln_peak }
    }

    /// The uniform density. Its mean direction, which has no meaning, is the first axis.
    pub fn uniform(dim: usize) -> Result<Self> {
        let mut axis = vec![0.0; dim];
        *axis.first_mut().ok_or(Error::Dimension { dim })? = 1.0;
        Self::along(axis, 0.0)
    }

    /// The number of coordinates.
    pub fn dim(&self) -> usize {
        self.mean_direction.len()
    }

    /// The mean direction mu.
    pub fn mean_direction(&self) -> &[f64] {
        &self.mean_direction
    }

    /// The concentration k.
    pub fn concentration(&self) -> f64 {
        self.concentration
    }

    /// The log normaliser ln C_d(k).
    pub fn ln_normalizer(&self) -> f64 {
        bessel::ln_normalizer(self.dim(), self.concentration)
    }

    /// The log density at the mode, k + ln C_d(k).
    pub fn ln_peak(&self) -> f64 {
        self.ln_peak
    }

    /// The log density at one row of unit length.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`], [`Error::NotFinite`], [`Error::ZeroRow`] and
    /// [`Error::NotUnit`].
    pub fn ln_density(&self, row: &[f64]) -> Result<f64> {
        Ok(self.ln_peak + self.ln_relative_density(row)?)
    }

    /// The log density relative to its value at the mode, -k (1 - mu . x).
    ///
    /// # Errors
    /// As [`Self::ln_density`].
    pub fn ln_relative_density(&self, row: &[f64]) -> Result<f64> {
        if row.len() != self.dim() {
            return Err(Error::DimensionMismatch { expected: self.dim(), found: row.len() });
        }
        let norm = Length::of_row(0, row)?.value();
        if (norm - 1.0).abs() > UNIT_TOLERANCE {
            return Err(Error::NotUnit { row: 0, norm });
        }
        Ok(-self.concentration * half_squared_distance(row, &self.mean_direction))
    }

    /// The log density at each row of a batch.
    ///
    /// ```
    /// use vmfkit::{RowBatch, VonMisesFisher};
    /// let density = VonMisesFisher::new(vec![0.0, 1.0], 5.0)?;
    /// let rows = [0.0, 1.0, 1.0, 0.0];
    /// let found = density.ln_densities(&RowBatch::new(2, &rows)?)?;
    /// assert!((found[0] - found[1] - 5.0).abs() < 1e-15);
    /// # Ok::<(), vmfkit::Error>(())
    /// ```
    pub fn ln_densities(&self, batch: &RowBatch) -> Result<Vec<f64>> {
        let mut out = vec![0.0; batch.len()];
        self.ln_densities_into(batch, &mut out)?;
        Ok(out)
    }

    /// [`Self::ln_densities`], written to `out`, which has one value per row.
    pub fn ln_densities_into(&self, batch: &RowBatch, out: &mut [f64]) -> Result<()> {
        self.deviations_into(batch, out)?;
        for value in out.iter_mut() {
            *value = self.ln_peak - self.concentration * *value;
        }
        Ok(())
    }

    /// The deviation 1 - mu . x of each row of a batch, the argument of the tails of
    /// [`ProjectionLaw`].
    ///
    /// Deviations of dense rows have full relative accuracy. Those of sparse rows, of which only
    /// the stored entries are read, have an absolute error of a few 1e-16.
    ///
    /// ```
    /// use vmfkit::{RowBatch, VonMisesFisher};
    /// let density = VonMisesFisher::new(vec![0.0, 1.0], 5.0)?;
    /// assert_eq!(density.deviations(&RowBatch::new(2, &[1.0, 0.0, 0.0, -1.0])?)?, [1.0, 2.0]);
    /// # Ok::<(), vmfkit::Error>(())
    /// ```
    pub fn deviations(&self, batch: &RowBatch) -> Result<Vec<f64>> {
        let mut out = vec![0.0; batch.len()];
        self.deviations_into(batch, &mut out)?;
        Ok(out)
    }

    /// [`Self::deviations`], written to `out`, which has one value per row.
    pub fn deviations_into(&self, batch: &RowBatch, out: &mut [f64]) -> Result<()> {
        if batch.dim() != self.dim() {
            return Err(Error::DimensionMismatch { expected: self.dim(), found: batch.dim() });
        }
        Error::check_length("out", out, batch.len())?;
        fn fill<T: Scalar>(values: &[T], mean_direction: &[f64], out: &mut [f64]) {
            for (value, row) in out.iter_mut().zip(values.chunks_exact(mean_direction.len())) {
                *value = half_squared_distance(row, mean_direction);
            }
        }
        fn fill_sparse<T: Scalar>(rows: &SparseRows<T>, mean_direction: &[f64], out: &mut [f64]) {
            for (row, value) in out.iter_mut().enumerate() {
                let (columns, values) = rows.row(row);
                *value = sparse_half_squared_distance(columns, values, mean_direction);
            }
        }
        let mut buffer = RowBatch::default();
        match batch.validated_slice(0, batch.len(), &mut buffer)?.rows() {
            Rows::F32(values) => fill(values, &self.mean_direction, out),
            Rows::F64(values) => fill(values, &self.mean_direction, out),
            Rows::SparseF32(rows) => fill_sparse(rows, &self.mean_direction, out),
            Rows::SparseF64(rows) => fill_sparse(rows, &self.mean_direction, out),
        }
        Ok(())
    }

    /// The expectation of x, A_d(k) mu; see MATH.md (1.4).
    pub fn mean(&self) -> Vec<f64> {
        let length = bessel::mean_length(self.dim(), self.concentration);
        self.mean_direction.iter().map(|x| length * x).collect()
    }

    /// The mode of the density, mu; for k = 0 every point is a mode.
    pub fn mode(&self) -> &[f64] {
        &self.mean_direction
    }

    /// The variances of x along mu, A'_d(k), and along any direction orthogonal to mu, A_d(k)/k;
    /// see MATH.md (1.6).
    pub fn variances(&self) -> (f64, f64) {
        let ratio = bessel::mean_length_and_slope(self.dim(), self.concentration);
        let across = if self.concentration > 0.0 { ratio.value / self.concentration } else { 1.0 / self.dim() as f64 };
        (ratio.slope, across)
    }

    /// The d x d covariance matrix in row-major order, MATH.md (1.6).
    pub fn covariance(&self) -> Vec<f64> {
        let (along, across) = self.variances();
        let (d, mu) = (self.dim(), &self.mean_direction);
        let mut matrix = Vec::with_capacity(d * d);
        for i in 0..d {
            matrix.extend((0..d).map(|j| {
                let identity = if i == j { across } else { 0.0 };
                identity + (along - across) * mu[i] * mu[j]
            }));
        }
        matrix
    }

    /// The differential entropy in nats, MATH.md (7.1).
    pub fn entropy(&self) -> f64 {
        bessel::entropy(self.dim(), self.concentration)
    }

    /// The distribution of mu . x.
    pub fn projection(&self) -> ProjectionLaw {
        ProjectionLaw::new(self.dim(), self.concentration).expect("dimension and concentration were checked by `new`")
    }

    /// The angle in radians within which this fraction of the mass lies, measured from mu.
    ///
    /// It expresses a concentration in a unit that is comparable across dimensions. It is NaN
    /// unless `fraction` is from 0 to 1.
    ///
    /// ```
    /// let density = vmfkit::VonMisesFisher::new(vec![0.0, 0.0, 1.0], 100.0)?;
    /// assert!((density.angle_holding(0.5).to_degrees() - 6.75).abs() < 0.01);
    /// # Ok::<(), vmfkit::Error>(())
    /// ```
    pub fn angle_holding(&self, fraction: f64) -> f64 {
        angle_of_deviation(self.projection().deviation_quantile(fraction))
    }

    /// The Kullback-Leibler divergence KL(self || other) in nats, MATH.md (7.5).
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`].
    pub fn divergence(&self, other: &Self) -> Result<f64> {
        self.same_dim(other)?;
        let deviation = half_squared_distance(&self.mean_direction, &other.mean_direction);
        let same = bessel::divergence(self.dim(), self.concentration, other.concentration);
        Ok(same + other.concentration * (bessel::mean_length(self.dim(), self.concentration) * deviation))
    }

    /// The Kullback-Leibler divergence from the uniform density in nats, MATH.md (7.2).
    pub fn divergence_from_uniform(&self) -> f64 {
        bessel::divergence_from_uniform(self.dim(), self.concentration)
    }

    /// The Renyi divergence of order `alpha` > 0 in nats, MATH.md (7.7).
    ///
    /// Order 1 is [`Self::divergence`]. An infinite order is the maximum of the log density ratio.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`]; [`Error::Option`] unless `alpha` is above 0.
    pub fn renyi_divergence(&self, other: &Self, alpha: f64) -> Result<f64> {
        self.same_dim(other)?;
        if !(alpha > 0.0) {
            return Err(Error::Option { option: "the order of a Renyi divergence", range: "above 0", value: alpha });
        }
        if alpha == 1.0 {
            return self.divergence(other);
        }
        if alpha == f64::INFINITY {
            return Ok(self.divergence(other)? + self.largest_ratio_beyond_divergence(other));
        }
        let between = self.tilted(other, alpha);
        if alpha < 1.0 {
            let mixed = alpha * between.divergence(self)? + (1.0 - alpha) * between.divergence(other)?;
            Ok(mixed / (1.0 - alpha))
        } else {
            // self lies between `between` and other, so all terms are positive here, too.
            Ok(self.divergence(other)? + self.divergence(&between)? / (alpha - 1.0))
        }
    }

    /// D_inf - KL, MATH.md (7.7): |gap| - gap . E[x] for gap = eta_p - eta_q, from the components
    /// of the gap along mu and orthogonal to it.
    fn largest_ratio_beyond_divergence(&self, other: &Self) -> f64 {
        let (k, l) = (self.concentration, other.concentration);
        let deviation = half_squared_distance(&self.mean_direction, &other.mean_direction);
        let (along, across) = ((k - l) + l * deviation, l * (deviation * (2.0 - deviation)).max(0.0).sqrt());
        let gap = along.hypot(across);
        let ratio = bessel::mean_length_and_slope(self.dim(), k);
        if along > 0.0 { across * (across / (gap + along)) + along * ratio.complement } else { gap - along * ratio.value }
    }

    /// The density proportional to self^alpha other^(1 - alpha), which is a vMF.
    fn tilted(&self, other: &Self, alpha: f64) -> Self {
        let (mu, nu) = (&self.mean_direction, &other.mean_direction);
        // In units of the larger concentration nothing overflows.
        let unit = self.concentration.max(other.concentration).max(f64::MIN_POSITIVE);
        let (a, b) = (alpha * (self.concentration / unit), (1.0 - alpha) * (other.concentration / unit));
        if mu == nu {
            // Equal directions keep their bits: at a high concentration one ulp is a large
            // difference.
            let direction = mu.iter().map(|x| if a + b < 0.0 { -x } else { *x }).collect();
            return Self::of_unit(direction, (unit * (a + b).abs()).min(f64::MAX));
        }
        let eta: Vec<f64> = mu.iter().zip(nu).map(|(x, y)| a * x + b * y).collect();
        let length = norm(&eta);
        let direction = if length > 0.0 { eta } else { mu.clone() };
        Self::along(direction, (unit * length).min(f64::MAX)).expect("a combination of two valid densities")
    }

    /// The Bhattacharyya distance, minus the log of the integral of sqrt(p q), MATH.md (7.6).
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`].
    pub fn bhattacharyya_distance(&self, other: &Self) -> Result<f64> {
        self.same_dim(other)?;
        let between = self.tilted(other, 0.5);
        Ok(0.5 * (between.divergence(self)? + between.divergence(other)?))
    }

    /// The Hellinger distance sqrt(1 - integral of sqrt(p q)), from 0 to 1.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`].
    pub fn hellinger_distance(&self, other: &Self) -> Result<f64> {
        Ok((-(-self.bhattacharyya_distance(other)?).exp_m1()).sqrt())
    }

    fn same_dim(&self, other: &Self) -> Result<()> {
        if self.dim() != other.dim() {
            return Err(Error::DimensionMismatch { expected: self.dim(), found: other.dim() });
        }
        Ok(())
    }
}

/// The length of a mean direction, before normalisation.
fn checked_length(direction: &[f64]) -> Result<Length> {
    if direction.len() < 2 {
        return Err(Error::Dimension { dim: direction.len() });
    }
    Length::of_row(0, direction).map_err(|error| match error {
        Error::NotFinite { column, value, .. } => Error::MeanDirectionNotFinite { column, value },
        _ => Error::MeanDirection { norm: 0.0 },
    })
}

/// The angle between mu and x from s = 1 - mu . x.
pub(crate) fn angle_of_deviation(s: f64) -> f64 {
    // `clamp` propagates NaN, `min` does not.
    2.0 * (0.5 * s).sqrt().clamp(0.0, 1.0).asin()
}
