//! [`select`]: fits mixtures for several numbers of components and computes their criteria.

use crate::fit::{Fit, parsed};
use crate::pool;
use crate::rows::Rows;
use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ops::ControlFlow;
use vmfkit::ConcentrationPolicy;
use vmfkit::fit::select::{Candidate, Criterion, Recommendation, Selection, best, recommend};
use vmfkit::train::Stop;

/// The candidates and the recommendation, if there is one.
type Selected<'py> = (Vec<Bound<'py, PyDict>>, Option<Bound<'py, PyDict>>);

/// Fits all candidates. Each is returned as a dictionary with its `fit` and its criteria; `best` lists the criteria by which it is the best
/// of its policy. The second dictionary, or None, is the recommendation for the first policy, with the `position` of its candidate.
/// `progress(done, components)` is called after each fit, and again after its comparison with fits of halves.
#[pyfunction]
#[pyo3(signature = (
    rows, components, weights=None, progress=None, *, policies, backgrounds, criterion="auto", repeats=None, holdout=0.0, restarts=None, search=true,
    tolerance=None, passes=None, seed=0, normalize=false, threads=None
))]
#[expect(clippy::too_many_arguments, reason = "the options of the Python function, by name")]
pub fn select<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    components: Vec<usize>,
    weights: Option<PyReadonlyArray1<'py, f64>>,
    progress: Option<Py<PyAny>>,
    policies: Vec<String>,
    backgrounds: Vec<bool>,
    criterion: &str,
    repeats: Option<usize>,
    holdout: f64,
    restarts: Option<usize>,
    search: bool,
    tolerance: Option<f64>,
    passes: Option<usize>,
    seed: u64,
    normalize: bool,
    threads: Option<usize>,
) -> PyResult<Selected<'py>> {
    let criterion: Criterion = parsed(criterion)?;
    let policies: Vec<ConcentrationPolicy> = policies.iter().map(|text| parsed(text)).collect::<PyResult<_>>()?;
    let rows = Rows::of(rows, normalize)?;
    let borrowed = rows.borrowed()?;
    let weights = weights.as_ref().map(|weights| weights.as_slice()).transpose()?;
    let usual = Stop::default();
    let stop_rule =
        Stop { tolerance: tolerance.map_or(usual.tolerance, Some), passes: passes.unwrap_or(usual.passes), ..Stop::default() };
    let table = pool::run(py, threads, |stop| {
        let (mut failed, mut done) = (None, 0);
        let table = borrowed.with_whole(stop, normalize, |block| {
            let weighted = weights.map(|weights| block.clone().with_weights(weights)).transpose()?;
            let block = weighted.as_ref().unwrap_or(block);
            let watch = |candidate: &Candidate| {
                done += 1;
                let call = |callback: &Py<PyAny>| Python::attach(|py| callback.call1(py, (done, candidate.components))).err();
                failed = progress.as_ref().and_then(call);
                if failed.is_some() { ControlFlow::Break(()) } else { stop.flow() }
            };
            let selection = Selection::new(components.iter().copied())
                .policies(policies.iter().copied())
                .backgrounds(backgrounds.iter().copied())
                .held_out(holdout)
                .criterion(criterion)
                .stop(stop_rule)
                .search(search)
                .seed(seed)
                .watch(watch)
                .ask(|| stop.flow());
            let selection = if let Some(repeats) = repeats { selection.repeats(repeats) } else { selection };
            if let Some(restarts) = restarts { selection.restarts(restarts) } else { selection }.run(block)
        });
        match failed {
            Some(error) => Err(error),
            // The incomplete table is discarded. `pool::run` raises the exception of the signal itself.
            None if stop.asked() => Err(PyKeyboardInterrupt::new_err(())),
            None => table,
        }
    })??;
    let lines = table.iter().map(|candidate| line(py, &table, candidate)).collect::<PyResult<_>>()?;
    let recommended = recommend(&table, criterion, policies.first().copied());
    Ok((lines, recommended.map(|found| recommendation(py, &table, &found)).transpose()?))
}

/// A recommendation as a dictionary.
fn recommendation<'py>(py: Python<'py>, table: &[Candidate], found: &Recommendation) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("position", table.iter().position(|candidate| std::ptr::eq(candidate, found.candidate)))?;
    told.set_item("criterion", found.criterion.name())?;
    told.set_item("confidence", found.confidence.name())?;
    told.set_item("reasons", found.reasons.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    told.set_item("text", found.to_string())?;
    Ok(told)
}

/// A candidate as a dictionary.
fn line<'py>(py: Python<'py>, table: &[Candidate], candidate: &Candidate) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    found.set_item("components", candidate.components)?;
    found.set_item("policy", candidate.policy.to_string())?;
    found.set_item("background", candidate.background)?;
    found.set_item("free_parameters", candidate.free_parameters)?;
    found.set_item("total_weight", candidate.seen.weight)?;
    found.set_item("ln_likelihood", candidate.seen.ln_likelihood)?;
    found.set_item("mean_ln_density", candidate.seen.mean())?;
    found.set_item("aic", candidate.aic())?;
    found.set_item("bic", candidate.bic())?;
    found.set_item("icl", candidate.icl())?;
    let held_out = candidate.held_out.filter(|held_out| held_out.weight > 0.0);
    found.set_item("held_out", held_out.map(|held_out| held_out.mean()))?;
    found.set_item("held_out_standard_error", held_out.map(|held_out| held_out.standard_error()))?;
    let stability = candidate.stability.as_ref();
    found.set_item("stability", stability.map(|stability| stability.agreement.mean))?;
    found.set_item("stability_standard_error", stability.map(|stability| stability.agreement.standard_error))?;
    found.set_item("shared_information", stability.map(|stability| stability.shared_information.mean))?;
    found
        .set_item("shared_information_standard_error", stability.map(|stability| stability.shared_information.standard_error))?;
    found.set_item("neighbours", candidate.neighbours.map(|neighbours| neighbours.mean))?;
    found.set_item("neighbours_standard_error", candidate.neighbours.map(|neighbours| neighbours.standard_error))?;
    found.set_item("dispersion", candidate.dispersion())?;
    found.set_item("warnings", candidate.warnings().map(ToString::to_string).collect::<Vec<_>>())?;
    let prefers = |criterion: &Criterion| {
        best(table, *criterion, Some(candidate.policy)).is_some_and(|preferred| std::ptr::eq(preferred, candidate))
    };
    found.set_item(
        "best",
        Criterion::SCORES.iter().filter(|criterion| prefers(criterion)).map(|c| c.name()).collect::<Vec<_>>(),
    )?;
    found.set_item("fit", Py::new(py, Fit::new(py, candidate.to_fit())?)?)?;
    Ok(found)
}
