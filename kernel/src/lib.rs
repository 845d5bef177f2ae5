//! The arithmetic of a round of a classic group: who gets what, and what that changes for whom; and the assignors of
//! the consumer protocol (`server`).
//!
//! No state, no cause, no rule of when there is a round: those are Python's (`streaming.monitor`). Members must all
//! subscribe alike, without racks and with ASCII ids, as nearly all do: every other group is declined (None), and
//! Python, which is the reference, answers. Beside it, heartbeats are read from the bytes that the library writes.

mod assign;
mod changes;
mod heartbeats;
mod java;
mod members;
mod server;

use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use assign::Assignor;
use changes::Changes;
use members::Members;

/// New shares by member's place, the members' changes as JSON, unassigned partitions, those that moved, last
/// owners, whether a member that stayed gave something up.
type Played<'py> = (
    Vec<(usize, Bound<'py, PyDict>)>,
    Bound<'py, PyBytes>,
    Bound<'py, PyDict>,
    Bound<'py, PyDict>,
    Bound<'py, PyDict>,
    bool,
);

/// One round from what is owned `before`. `past`: the members then, as those that are gone have names too. `brings`:
/// members still have what they owned when they join.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // Python hands over what it has: a struct for one call would be read field by field
fn play_round<'py>(
    py: Python<'py>,
    assignor: &str,
    topics: &Bound<'py, PyDict>,
    members: &Bound<'py, PyTuple>,
    past: &Bound<'py, PyTuple>,
    before: &Bound<'py, PyDict>,
    last_owners: &Bound<'py, PyDict>,
    brings: bool,
) -> PyResult<Option<Played<'py>>> {
    let Some(assignor) = Assignor::named(assignor) else { return Ok(None) };
    let Some(group) = Members::read(topics, members, past, before)? else { return Ok(None) };
    let brought = if brings { group.present_owners() } else { group.nobody() };
    // A bug here must not stop the job for good: its panic is printed, and Python answers.
    let given = catch_unwind(AssertUnwindSafe(|| assignor.assign(&group.ids(), &group.instances(), brought)));
    let Ok(Some(given)) = given else { return Ok(None) };
    let changes = Changes::of(&group, &given);
    let (last_owners, moves) = changes.last_owners(py, last_owners)?;
    Ok(Some((
        changes.shares(py)?,
        PyBytes::new(py, &changes.json()),
        changes.unassigned(py)?,
        moves,
        last_owners,
        changes.revoked(),
    )))
}

/// Who was heard when in these heartbeats of one group; None where one is not as the library writes them.
#[pyfunction]
fn read_heartbeats<'py>(
    key: &Bound<'py, PyBytes>,
    values: &Bound<'py, PyList>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    heartbeats::read(key, values)
}

#[pymodule]
fn rebalance_kernel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(read_heartbeats, module)?)?;
    module.add_function(wrap_pyfunction!(play_round, module)?)?;
    module.add_function(wrap_pyfunction!(server::range_target, module)?)?;
    module.add_function(wrap_pyfunction!(server::uniform_target, module)?)
}
