//! Draws with their derivatives in the concentration.

use crate::error::raise;
use crate::numpy_array;
use crate::pool::{self, Stop};
use numpy::{IntoPyArray, Ix3, PyArray1, PyArray3, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use rayon::prelude::*;
use vmfkit::{ProjectionLaw, Sampler, VonMisesFisher};

/// Rows around the first axis, their deviations 1 - x_1, and the derivatives of the deviations in the concentration.
type Draws<'py> = (Bound<'py, PyArray3<f64>>, Bound<'py, PyArray1<f64>>, Option<Bound<'py, PyArray1<f64>>>);

/// `count` draws around the first axis for each concentration: rows of shape (concentrations, count, dim), deviations and, with `slopes`, the
/// derivatives of MATH.md (13.2).
#[pyfunction]
#[pyo3(signature = (dim, concentrations, count, seed=0, slopes=true))]
pub fn axis_draws<'py>(
    py: Python<'py>,
    dim: usize,
    concentrations: PyReadonlyArray1<'py, f64>,
    count: usize,
    seed: u64,
    slopes: bool,
) -> PyResult<Draws<'py>> {
    let concentrations = concentrations.as_slice()?;
    let groups = concentrations.len();
    if dim < 2 {
        return Err(raise(vmfkit::Error::Dimension { dim }));
    }
    let values = numpy_array::empty::<f64, Ix3>(py, (groups, count, dim))?;
    let rows = groups * count;
    let mut deviations = vec![0f64; rows];
    let mut derivatives = vec![0f64; if slopes { rows } else { 0 }];
    if rows > 0 {
        let mut values = values.readwrite();
        // One slice for each group; empty without derivatives.
        let derivatives: Vec<&mut [f64]> =
            if slopes { derivatives.chunks_mut(count).collect() } else { (0..groups).map(|_| Default::default()).collect() };
        let groups = values.as_slice_mut()?.par_chunks_mut(count * dim).zip(deviations.par_chunks_mut(count)).zip(derivatives);
        let groups = groups.zip(concentrations).enumerate();
        pool::run(py, None, |stop| {
            groups.filter(|_| !stop.asked()).try_for_each(|(i, (((rows, deviations), slopes), &concentration))| {
                // Each concentration has its own seed. With a common seed, two concentrations would share random numbers.
                group(stop, dim, concentration, seed.wrapping_add(i as u64), rows, deviations, slopes)
            })
        })?
        .map_err(raise)?;
    }
    Ok((values, deviations.into_pyarray(py), slopes.then(|| derivatives.into_pyarray(py))))
}

/// Rows of one concentration that are drawn between two checks for Ctrl-C.
const ROWS_AT_ONCE: usize = 1 << 14;

/// Draws the rows of one concentration.
fn group(
    stop: &Stop,
    dim: usize,
    concentration: f64,
    seed: u64,
    rows: &mut [f64],
    deviations: &mut [f64],
    slopes: &mut [f64],
) -> vmfkit::Result<()> {
    let mut axis = vec![0.0; dim];
    axis[0] = 1.0;
    let sampler = Sampler::new(&VonMisesFisher::new(axis, concentration)?);
    let law = if slopes.is_empty() { None } else { Some(ProjectionLaw::new(dim, concentration)?) };
    let mut slopes = slopes.chunks_mut(ROWS_AT_ONCE);
    let pieces = rows.chunks_mut(ROWS_AT_ONCE * dim).zip(deviations.chunks_mut(ROWS_AT_ONCE)).enumerate();
    for (number, (rows, deviations)) in pieces.take_while(|_| !stop.asked()) {
        sampler.fill(seed, (number * ROWS_AT_ONCE) as u64, rows)?;
        deviations.par_iter_mut().zip(rows.par_chunks_exact(dim)).with_min_len(1 << 10).for_each(|(deviation, row)| {
            let across: f64 = row[1..].iter().map(|x| x * x).sum();
            // Near the axis 1 - x_1 would cancel; the other coordinates give it without cancellation.
            *deviation = if row[0] > 0.0 { across / (1.0 + row[0]) } else { 1.0 - row[0] };
        });
        if let Some((law, slopes)) = law.as_ref().zip(slopes.next()) {
            let slope = |(slope, &deviation): (&mut f64, &f64)| *slope = law.deviation_quantile_slope(deviation.min(2.0));
            slopes.par_iter_mut().zip(&*deviations).with_min_len(1 << 8).for_each(slope);
        }
    }
    Ok(())
}
