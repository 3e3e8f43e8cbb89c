//! The extension module `vmfkit._vmfkit`: arrays in, arrays out. Names, shapes and defaults that Python's users know are in the package
//! `vmfkit` beside it, mathematics is in the crate `vmfkit`.

mod draws;
mod error;
mod fit;
mod mixture;
mod numpy_array;
mod online;
mod pool;
mod projection;
mod rows;
mod special;

use pyo3::prelude::*;

#[pymodule]
fn _vmfkit(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ZeroRowError", module.py().get_type::<error::ZeroRowError>())?;
    module.add_class::<mixture::Mixture>()?;
    module.add_class::<fit::Fit>()?;
    module.add_class::<online::OnlineFit>()?;
    module.add_class::<projection::ProjectionLaw>()?;
    module.add_function(wrap_pyfunction!(draws::axis_draws, module)?)?;
    module.add_function(wrap_pyfunction!(fit::default_settings, module)?)?;
    module.add_function(wrap_pyfunction!(fit::fit, module)?)?;
    module.add_function(wrap_pyfunction!(fit::fit_density, module)?)?;
    module.add_function(wrap_pyfunction!(fit::start_rows, module)?)?;
    module.add_function(wrap_pyfunction!(mixture::deviations, module)?)?;
    module.add_function(wrap_pyfunction!(mixture::sample_density, module)?)?;
    module.add_function(wrap_pyfunction!(pool::set_threads, module)?)?;
    module.add_function(wrap_pyfunction!(pool::threads, module)?)?;
    special::add_to(module)
}
