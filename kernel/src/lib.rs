//! The arithmetic of a round of a classic group: who gets what, and what that changes for whom; and the assignors
//! themselves, of that protocol (`client`) and the consumer protocol (`server`).
//!
//! No state, no cause, no rule of when there is a round: those are Python's (`streaming.monitor`). Members must all
//! subscribe alike, without racks and with ASCII ids, as nearly all do: every other group is declined (None), and
//! Python, which is the reference, answers. Beside it, heartbeats are read from the bytes that the library writes,
//! offset commits from a client's messages, and views of groups are compared with those before.

mod assign;
mod changes;
mod client;
mod commits;
mod heartbeats;
mod java;
mod json;
mod known;
mod members;
mod python;
mod racks;
mod server;
mod views;

use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use assign::Assignor;
use changes::Changes;
use known::Known;
use members::Members;

/// The members after the round, their changes as JSON, unassigned partitions, those that moved, last
/// owners, whether a member that stayed gave something up.
type Played<'py> = (
    Bound<'py, PyTuple>,
    Bound<'py, PyBytes>,
    Bound<'py, PyDict>,
    Bound<'py, PyDict>,
    Bound<'py, PyDict>,
    bool,
);

/// Topics, members, the members before, and what is owned before.
type Group<'a, 'py> =
    (&'a Bound<'py, PyDict>, &'a Bound<'py, PyTuple>, &'a Bound<'py, PyTuple>, &'a Bound<'py, PyDict>);

/// One round from what is owned `before`. `past`: the members then, as those that are gone have names too. `brings`:
/// members still have what they owned when they join.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // Python hands over what it has: a struct for one call would be read field by field
fn round_played<'py>(
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
    let mut known = Known::take();
    let played = played(py, &mut known, assignor, (topics, members, past, before), last_owners, brings);
    known.put_back();
    played
}

/// The same, with what is known of members.
fn played<'py>(
    py: Python<'py>,
    known: &mut Known,
    assignor: Assignor,
    group: Group<'_, 'py>,
    last_owners: &Bound<'py, PyDict>,
    brings: bool,
) -> PyResult<Option<Played<'py>>> {
    let (topics, members, past, before) = group;
    let Some(group) = Members::read(known, topics, members, past, before)? else { return Ok(None) };
    let brought = if brings { group.present_owners() } else { group.nobody() };
    // A bug here must not stop the job for good: its panic is printed, and Python answers.
    let given = catch_unwind(AssertUnwindSafe(|| assignor.assign(&group.ids(), &group.instances(), brought)));
    let Ok(Some(given)) = given else { return Ok(None) };
    let changes = Changes::of(&group, &given);
    let (last_owners, moves) = changes.last_owners(py, last_owners)?;
    Ok(Some((
        changes.after(py, known)?,
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

/// Where a partition's commits end in a batch of a client's messages, how far it is read then, and those of the groups
/// that are followed.
#[pyfunction]
fn pass_over<'py>(
    messages: &Bound<'py, PyList>,
    at: usize,
    partition: i64,
    reached: i64,
    followed: &Bound<'py, PyDict>,
) -> PyResult<(usize, i64, Bound<'py, PyList>)> {
    commits::pass_over(messages, at, partition, reached, followed)
}

#[pymodule]
fn rebalance_kernel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(read_heartbeats, module)?)?;
    module.add_function(wrap_pyfunction!(pass_over, module)?)?;
    module.add_function(wrap_pyfunction!(round_played, module)?)?;
    module.add_function(wrap_pyfunction!(views::repeated_members, module)?)?;
    module.add_function(wrap_pyfunction!(client::client_shares, module)?)?;
    module.add_function(wrap_pyfunction!(server::range_target, module)?)?;
    module.add_function(wrap_pyfunction!(server::uniform_target, module)?)
}
