//! The extension module `vmfkit._vmfkit`, which takes and returns arrays. The mathematics is in the crate `vmfkit`; the interfaces for users
//! are in the Python package `vmfkit`.

#![deny(unsafe_code)]

mod angles;
mod calibration;
mod density;
mod draws;
mod error;
mod fit;
mod hypothesis;
mod labels;
mod mixture;
mod model_rows;
mod numpy_array;
mod online;
mod pool;
mod projection;
mod rows;
mod select;
mod special;
mod system;
mod tree;

use pyo3::prelude::*;

#[pymodule]
fn _vmfkit(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // This sets the panic hook of this module only, because it has its own Rust runtime.
    vmfkit_io::silence_decoder_panics();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ZeroRowError", module.py().get_type::<error::ZeroRowError>())?;
    module.add_class::<mixture::Mixture>()?;
    module.add_class::<fit::Fit>()?;
    module.add_class::<online::OnlineFit>()?;
    module.add_class::<projection::ProjectionLaw>()?;
    module.add_class::<tree::MergeTree>()?;
    module.add_function(wrap_pyfunction!(angles::angle_count, module)?)?;
    module.add_function(wrap_pyfunction!(angles::angles_of_unit, module)?)?;
    module.add_function(wrap_pyfunction!(angles::guess_angles, module)?)?;
    module.add_function(wrap_pyfunction!(angles::angles_to_unit, module)?)?;
    module.add_function(wrap_pyfunction!(model_rows::calibrated, module)?)?;
    module.add_function(wrap_pyfunction!(model_rows::typical_rows, module)?)?;
    module.add_function(wrap_pyfunction!(draws::axis_draws, module)?)?;
    module.add_function(wrap_pyfunction!(fit::default_settings, module)?)?;
    module.add_function(wrap_pyfunction!(fit::fit, module)?)?;
    module.add_function(wrap_pyfunction!(density::fit_density, module)?)?;
    module.add_function(wrap_pyfunction!(fit::start_rows, module)?)?;
    module.add_function(wrap_pyfunction!(labels::fit_labels, module)?)?;
    module.add_function(wrap_pyfunction!(density::deviations, module)?)?;
    module.add_function(wrap_pyfunction!(density::sample_density, module)?)?;
    module.add_function(wrap_pyfunction!(pool::set_threads, module)?)?;
    module.add_function(wrap_pyfunction!(pool::threads, module)?)?;
    module.add_function(wrap_pyfunction!(select::select, module)?)?;
    module.add_function(wrap_pyfunction!(system::available_memory, module)?)?;
    module.add_function(wrap_pyfunction!(system::write_file, module)?)?;
    // A submodule, because its functions are named after tests.
    let tests = PyModule::new(module.py(), "hypothesis")?;
    hypothesis::add_to(&tests)?;
    module.add_submodule(&tests)?;
    special::add_to(module)
}
