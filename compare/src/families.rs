//! Families of rows with known components: draws from the model, and noise in few dimensions.

use anyhow::Result;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use vmfkit::{ConcentrationEstimator, Mixture, RowBatch, Sampler, VonMisesFisher};

/// Rows and the component of each; the first are fitted, the others are new to the fit.
pub struct Family {
    pub dim: usize,
    pub rows: Vec<f32>,
    pub labels: Vec<u32>,
}

impl Family {
    pub fn batch(&self, from: usize, to: usize) -> vmfkit::Result<RowBatch<'_>> {
        RowBatch::new(self.dim, &self.rows[from * self.dim..to * self.dim])
    }
}

/// How the noise of components is distributed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Noise {
    /// By the model, with this mean length.
    Model(f64),
    /// In these few dimensions, the same for all components, with this length.
    Common(usize, f64),
    /// In this number of dimensions for each component, of twice as many, with this length.
    Own(usize, f64),
}

/// What makes components or rows unequal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Variant {
    Equal,
    /// Sizes from 1 to 100.
    Sizes,
    /// Concentrations from 1 to 4.
    Concentrations,
    /// A tenth of the rows has four times the spread.
    HeavyTails,
    /// Each row is there twice, in random places.
    Copies,
    /// The same with a difference of this length.
    NearCopies(f64),
}

#[derive(Debug, Clone, Copy)]
pub struct Spec {
    pub dim: usize,
    pub components: usize,
    pub noise: Noise,
    pub variant: Variant,
    pub rows: usize,
    pub fresh: usize,
    pub seed: u64,
}

impl Spec {
    pub fn new(dim: usize, components: usize, noise: Noise, seed: u64) -> Self {
        Spec { dim, components, noise, variant: Variant::Equal, rows: 4000, fresh: 8000, seed }
    }

    pub fn name(&self) -> String {
        let noise = match self.noise {
            Noise::Model(length) => format!("model, mean length {length}"),
            Noise::Common(dims, length) => format!("noise {length} in {dims} common dimensions"),
            Noise::Own(dims, length) => format!("noise {length} in {dims} dimensions of its own"),
        };
        let variant = match self.variant {
            Variant::Equal => String::new(),
            Variant::Sizes => ", sizes 1:100".into(),
            Variant::Concentrations => ", concentrations 1:4".into(),
            Variant::HeavyTails => ", heavy tails".into(),
            Variant::Copies => ", copies".into(),
            Variant::NearCopies(difference) => format!(", near-copies ({difference})"),
        };
        format!("{noise}{variant}")
    }

    /// From -1 to 1 over the components.
    fn place(&self, component: usize) -> f64 {
        2.0 * component as f64 / (self.components - 1).max(1) as f64 - 1.0
    }

    fn weights(&self) -> Vec<f64> {
        let weight = |component| if self.variant == Variant::Sizes { 10f64.powf(self.place(component)) } else { 1.0 };
        let weights: Vec<f64> = (0..self.components).map(weight).collect();
        let total: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / total).collect()
    }

    /// The factor of a component's concentration.
    fn factor(&self, component: usize) -> f64 {
        if self.variant == Variant::Concentrations { 2f64.powf(self.place(component)) } else { 1.0 }
    }

    pub fn draw(&self) -> Result<Family> {
        let total = self.rows + self.fresh;
        let mut family = match self.noise {
            Noise::Model(length) => self.draw_model(length, total)?,
            Noise::Common(dims, length) | Noise::Own(dims, length) => self.draw_noise(dims, length, total),
        };
        if let Variant::Copies | Variant::NearCopies(_) = self.variant {
            self.copy(&mut family);
        }
        Ok(family)
    }

    fn draw_model(&self, length: f64, rows: usize) -> Result<Family> {
        let concentration = ConcentrationEstimator::Exact.estimate(self.dim, length, 1.0 - length);
        let directions = Sampler::new(&VonMisesFisher::uniform(self.dim)?).sample_rows::<f64>(self.components, self.seed)?;
        let density =
            |(component, mu): (usize, &[f64])| VonMisesFisher::along(mu.to_vec(), self.factor(component) * concentration);
        let densities = directions.chunks_exact(self.dim).enumerate().map(density).collect::<Result<_, _>>()?;
        let (rows, labels) = Mixture::new(self.weights(), densities)?.sample_rows(rows, self.seed + 1)?;
        Ok(Family { dim: self.dim, rows, labels })
    }

    /// A row is a common direction, its component's centre at a distance of about 1 from it, and
    /// noise.
    fn draw_noise(&self, dims: usize, length: f64, rows: usize) -> Family {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let scale = 1.0 / (dims as f64).sqrt();
        let mut centres: Vec<Vec<f64>> = Vec::new();
        let mut coordinates: Vec<Vec<usize>> = Vec::new();
        for _ in 0..self.components {
            centres.push((0..dims).map(|_| scale * normal(&mut rng)).collect());
            let mut all: Vec<usize> = (0..(2 * dims).min(self.dim - 1)).collect();
            if let Noise::Own(..) = self.noise {
                let last = all.len();
                (0..dims).for_each(|at| all.swap(at, rng.random_range(at..last)));
            }
            all.truncate(dims);
            coordinates.push(all);
        }
        let weights = self.weights();
        let mut family = Family { dim: self.dim, rows: Vec::new(), labels: Vec::new() };
        for _ in 0..rows {
            let mut left: f64 = rng.random();
            let chosen = weights.iter().position(|weight| {
                left -= weight;
                left < 0.0
            });
            let label = chosen.unwrap_or(self.components - 1);
            let heavy = if self.variant == Variant::HeavyTails && rng.random::<f64>() < 0.1 { 4.0 } else { 1.0 };
            let spread = heavy * length * scale / self.factor(label).sqrt();
            let mut row = vec![0.0; self.dim];
            row[self.dim - 1] = 1.0;
            row.iter_mut().zip(&centres[label]).for_each(|(x, centre)| *x += centre);
            coordinates[label].iter().for_each(|&at| row[at] += spread * normal(&mut rng));
            push_unit(&mut family.rows, &row);
            family.labels.push(label as u32);
        }
        family
    }

    /// Replaces every second row by a copy of the one before it, and shuffles the rows.
    fn copy(&self, family: &mut Family) {
        let difference = if let Variant::NearCopies(difference) = self.variant { difference } else { 0.0 };
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.seed ^ 1);
        let scale = difference / (self.dim as f64).sqrt();
        for row in (1..family.labels.len()).step_by(2) {
            let before = &family.rows[(row - 1) * self.dim..row * self.dim];
            let copy: Vec<f64> = before.iter().map(|x| f64::from(*x) + scale * normal(&mut rng)).collect();
            let mut unit = Vec::new();
            push_unit(&mut unit, &copy);
            family.rows[row * self.dim..(row + 1) * self.dim].copy_from_slice(&unit);
            family.labels[row] = family.labels[row - 1];
        }
        for row in (1..family.labels.len()).rev() {
            let other = rng.random_range(0..=row);
            family.labels.swap(row, other);
            (0..self.dim).for_each(|at| family.rows.swap(row * self.dim + at, other * self.dim + at));
        }
    }
}

fn push_unit(rows: &mut Vec<f32>, row: &[f64]) {
    let length = row.iter().map(|x| x * x).sum::<f64>().sqrt();
    rows.extend(row.iter().map(|x| (x / length) as f32));
}

/// A standard normal number, by Box and Muller.
fn normal(rng: &mut Xoshiro256PlusPlus) -> f64 {
    let length = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    length * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

/// Draws from the model: dimensions 3 to 1536, mean lengths .15 to .9, 2 to 100 components.
pub fn well_specified() -> Vec<Spec> {
    let mut specs = Vec::new();
    let cases: [(usize, [(usize, f64); 4]); 6] = [
        (3, [(2, 0.9), (5, 0.9), (5, 0.6), (20, 0.9)]),
        (5, [(2, 0.5), (5, 0.8), (20, 0.9), (3, 0.3)]),
        (20, [(5, 0.3), (10, 0.5), (20, 0.7), (100, 0.8)]),
        (100, [(2, 0.15), (10, 0.3), (20, 0.5), (100, 0.6)]),
        (384, [(5, 0.15), (20, 0.25), (20, 0.5), (100, 0.6)]),
        (1536, [(2, 0.15), (5, 0.15), (10, 0.3), (20, 0.6)]),
    ];
    for (dim, of_dim) in cases {
        for (components, length) in of_dim {
            let seed = 1000 + 10 * specs.len() as u64;
            let variants: &[Variant] = if dim <= 384 && components <= 20 {
                &[Variant::Equal, Variant::Sizes, Variant::Concentrations]
            } else {
                &[Variant::Equal]
            };
            for &variant in variants {
                let rows = if dim == 1536 { 2000 } else { 4000 };
                let fresh = if dim >= 384 { 4000 } else { 8000 };
                specs.push(Spec { variant, rows, fresh, ..Spec::new(dim, components, Noise::Model(length), seed) });
            }
        }
    }
    specs
}

/// Noise in 8 to 200 dimensions.
pub fn few_dimensions() -> Vec<Spec> {
    use Variant::{Concentrations, Copies, Equal, HeavyTails, NearCopies, Sizes};
    let mut specs = Vec::new();
    for (dim, dims, components, length) in
        [(64, 8, 4, 0.4), (128, 20, 12, 0.6), (128, 60, 12, 0.8), (384, 60, 30, 0.8), (384, 200, 20, 1.2)]
    {
        for noise in [Noise::Common(dims, length), Noise::Own(dims, length)] {
            for variant in [Equal, Sizes, Concentrations, HeavyTails, Copies, NearCopies(3e-4)] {
                let seed = 5000 + 10 * specs.len() as u64;
                specs.push(Spec { variant, ..Spec::new(dim, components, noise, seed) });
            }
        }
    }
    // Copies that are not dropped, since they differ by more than rounding.
    specs.push(Spec { variant: NearCopies(0.03), ..Spec::new(128, 12, Noise::Common(20, 0.6), 7000) });
    specs
}
