//! The assignors of the classic protocol (`client`) and of the consumer protocol (`server`).
//!
//! Each declines (None) a group that it does not know how to compute, and Python, which is the reference, computes it.

mod assign;
mod client;
mod java;
mod racks;
mod server;

use pyo3::prelude::*;
use pyo3::types::PyString;

/// The text of a string that was read as UTF-8 already.
fn text<'a>(string: &'a Bound<'_, PyString>) -> &'a str {
    string.to_str().unwrap_or("")
}

#[pymodule]
fn rebalance_kernel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(client::client_shares, module)?)?;
    module.add_function(wrap_pyfunction!(server::range_target, module)?)?;
    module.add_function(wrap_pyfunction!(server::uniform_target, module)?)
}
