//! The assignors of the classic protocol (`client`) and of the consumer protocol (`server`).
//!
//! Each declines (None) a group that it does not know how to compute, and Python, which is the reference, computes it.

mod assign;
mod client;
mod java;
mod python;
mod racks;
mod server;

use pyo3::prelude::*;

#[pymodule]
fn rebalance_kernel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(client::client_shares, module)?)?;
    module.add_function(wrap_pyfunction!(server::range_target, module)?)?;
    module.add_function(wrap_pyfunction!(server::uniform_target, module)?)
}
