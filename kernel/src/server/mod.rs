//! `range` and `uniform` of the consumer protocol (KIP-848): `assignors.consumer`, which is the reference.
//!
//! Python's objects are read into numbers (`group`, `claims`), the arithmetic knows nothing but those (`range`,
//! `homogeneous`, `heterogeneous`), and its answer becomes Python's again (`answer`). What Python refuses, or what
//! only its own hash table knows, is declined (None).

pub mod answer;
mod balancer;
pub mod claims;
pub mod group;
mod heterogeneous;
mod homogeneous;
pub mod kinds;
pub mod range;
mod runs;

use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustc_hash::FxHashMap;

use claims::Claims;
use group::Group;

/// The shares of `range` by member.
#[pyfunction]
pub fn range_target<'py>(
    topics: &Bound<'py, PyAny>,
    members: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(mut group) = Group::read(topics, members, true)? else { return Ok(None) };
    let Some(order) = range::order(&group)? else { return Ok(None) };
    group.order = order;
    range::shares(&group, None)
}

/// The shares of `uniform` by member; a member that keeps what it has gets the very object that it owned.
#[pyfunction]
pub fn uniform_target<'py>(
    topics: &Bound<'py, PyAny>,
    members: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(mut group) = Group::read(topics, members, true)? else { return Ok(None) };
    if !group.in_map_order() {
        return Ok(None);
    }
    let Some(mut claims) = Claims::read(&group)? else { return Ok(None) };
    // A bug here must not stop the job for good: its panic is printed, and Python answers.
    let target = catch_unwind(AssertUnwindSafe(|| {
        if group.alike() {
            homogeneous::target(&group, &claims)
        } else {
            Some(heterogeneous::target(&group, &mut claims))
        }
    }));
    let Ok(Some(target)) = target else { return Ok(None) };
    answer::shares(&group, &claims, &target)
}

/// Partitions `first`, `first + step`, …: as many as `count`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Run {
    pub first: u32,
    pub step: u32,
    pub count: u32,
}

impl Run {
    pub fn partitions(self) -> impl Iterator<Item = u32> {
        (0..self.count).map(move |at| self.first + at * self.step)
    }
}

/// A member gets a partition, or loses it: all by number.
#[derive(Clone, Copy)]
pub struct Event {
    pub member: u32,
    pub topic: u32,
    pub partition: u32,
    pub gained: bool,
}

/// What changes from the claims to the target, in the order in which Python changes it: shares keep the order of
/// their topics, and the next target depends on that.
#[derive(Default)]
pub struct Target {
    /// Members that give something up have what they keep in this order of topics.
    pub reordered: FxHashMap<u32, Vec<u32>>,
    /// (member, topic, run): those of a member and topic follow each other.
    pub given: Vec<(u32, u32, Run)>,
    pub events: Vec<Event>,
}
