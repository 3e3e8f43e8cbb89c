//! The extension module `vmfkit._vmfkit`: arrays in, arrays out. Names, shapes and defaults that Python's users know are in the package
//! `vmfkit` beside it, mathematics is in the crate `vmfkit`.

mod angles;
mod draws;
mod error;
mod fit;
mod hypothesis;
mod labels;
mod mixture;
mod numpy_array;
mod online;
mod pool;
mod projection;
mod rows;
mod select;
mod special;
mod system;

use pyo3::prelude::*;

#[pymodule]
fn _vmfkit(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // The hook is that of this module alone, which has a Rust runtime of its own.
    vmfkit_io::silence_decoder_panics();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ZeroRowError", module.py().get_type::<error::ZeroRowError>())?;
    module.add_class::<mixture::Mixture>()?;
    module.add_class::<fit::Fit>()?;
    module.add_class::<online::OnlineFit>()?;
    module.add_class::<projection::ProjectionLaw>()?;
    module.add_function(wrap_pyfunction!(angles::angle_count, module)?)?;
    module.add_function(wrap_pyfunction!(angles::angles_of_unit, module)?)?;
    module.add_function(wrap_pyfunction!(angles::guess_angles, module)?)?;
    module.add_function(wrap_pyfunction!(angles::angles_to_unit, module)?)?;
    module.add_function(wrap_pyfunction!(draws::axis_draws, module)?)?;
    module.add_function(wrap_pyfunction!(fit::default_settings, module)?)?;
    module.add_function(wrap_pyfunction!(fit::fit, module)?)?;
    module.add_function(wrap_pyfunction!(fit::fit_density, module)?)?;
    module.add_function(wrap_pyfunction!(fit::start_rows, module)?)?;
    module.add_function(wrap_pyfunction!(labels::fit_labels, module)?)?;
    module.add_function(wrap_pyfunction!(mixture::deviations, module)?)?;
    module.add_function(wrap_pyfunction!(mixture::sample_density, module)?)?;
    module.add_function(wrap_pyfunction!(pool::set_threads, module)?)?;
    module.add_function(wrap_pyfunction!(pool::threads, module)?)?;
    module.add_function(wrap_pyfunction!(select::select, module)?)?;
    module.add_function(wrap_pyfunction!(system::available_memory, module)?)?;
    module.add_function(wrap_pyfunction!(system::write_file, module)?)?;
    // A module of its own: its names are those of tests.
    let tests = PyModule::new(module.py(), "hypothesis")?;
    hypothesis::add_to(&tests)?;
    module.add_submodule(&tests)?;
    special::add_to(module)
}
