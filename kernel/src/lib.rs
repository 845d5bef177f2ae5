//! Rounds of plain consumer groups in native code: what `streaming.monitor.derived` says, byte for byte.
//!
//! A plain group (`State::plain`) is derived from member events, speaks the classic protocol, and its members all
//! subscribe alike and have no racks: nearly every group. Whatever else a group or an event is, each function here
//! gives None and Python, which is the reference, answers.

mod assign;
mod java;
mod rounds;
mod state;

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_bytes::ByteBuf;

use rounds::{Change, Round};
use state::{Cause, Evidence, Member, Name, State};

/// `streaming.monitor.applied.REMEMBERED`, in bytes.
const REMEMBERED: usize = 512 * 8;

/// A group's state. Frozen: an event gives another one.
#[pyclass(frozen, module = "rebalance_kernel")]
struct Group(State);

/// The group after an event, and the diffs to write as (round, JSON).
type Answer<'py> = (Group, Vec<(u32, Bound<'py, PyBytes>)>);

#[pymethods]
impl Group {
    /// The group of a packed `GroupState`; None if it is not plain.
    #[staticmethod]
    fn read(packed: &[u8]) -> Option<Group> {
        let state: State = rmp_serde::from_slice(packed).ok()?;
        state.plain().then_some(Group(state))
    }

    /// The packed `GroupState`.
    fn write<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let packed = rmp_serde::to_vec(&self.0);
        Ok(PyBytes::new(
            py,
            &packed.map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))?,
        ))
    }

    /// Whether the event of this fingerprint was applied.
    fn applied(&self, mark: &[u8]) -> bool {
        self.0.applied.chunks_exact(mark.len()).any(|known| known == mark)
    }

    /// How many members there are.
    fn __len__(&self) -> usize {
        self.0.members.len()
    }

    /// The members' ids, in order.
    fn member_ids(&self) -> Vec<&str> {
        self.0.members.iter().map(|member| &*member.member_id).collect()
    }

    /// A member's session timeout, ms; None: it is unknown or named none.
    fn session_timeout_ms(&self, member_id: &str) -> Option<i64> {
        self.0.members.iter().find(|member| &*member.member_id == member_id)?.session_timeout_ms
    }

    /// A new member, or one that joins again as it was; None where it is not like the others, or changed.
    #[allow(clippy::too_many_arguments)]
    fn joined<'py>(
        &self,
        py: Python<'py>,
        group_id: &str,
        mark: &[u8],
        timestamp: i64,
        member_id: &str,
        topics: Vec<String>,
        assignors: Vec<String>,
        instance_id: Option<&str>,
        session_timeout_ms: Option<i64>,
        generation: i64,
    ) -> Option<Answer<'py>> {
        let alike =
            |given: Vec<String>, of: fn(&Member) -> &Arc<Vec<Name>>| match self.0.members.first().map(of) {
                Some(known) if known.iter().map(|name| &**name).eq(given.iter().map(String::as_str)) => {
                    known.clone()
                }
                _ => Arc::new(given.into_iter().map(Name::from).collect()),
            };
        let joining = Member {
            member_id: member_id.into(),
            topics: alike(topics, |member| &member.topics),
            assignors: alike(assignors, |member| &member.assignors),
            instance_id: instance_id.map(Name::from),
            rack_id: None,
            group_protocol: "classic".into(),
            session_timeout_ms,
            owned: Arc::default(),
        };
        if !self.0.fits(&joining) {
            return None;
        }
        let same = |member: &Member| {
            *member.member_id == *member_id
                || instance_id.is_some() && member.instance_id == joining.instance_id
        };
        if let Some(place) = self.0.members.iter().position(same) {
            let known = &self.0.members[place];
            if known.member_id != joining.member_id || known.instance_id != joining.instance_id {
                return None;
            }
            let mut state = self.0.clone();
            state.members[place] = Member { owned: known.owned.clone(), ..joining };
            return Some(answer(py, state, mark, vec![]));
        }
        let cause =
            Cause { kind: "member.joined".into(), member_ids: vec![member_id.into()], evidence: vec![] };
        let members = self.0.members.iter().cloned().chain([joining]).collect();
        let change = Change { members, claimed: generation, timestamp, cause };
        let (state, given) = rebalanced(&self.0, group_id, change)?;
        Some(answer(py, state, mark, given))
    }

    /// A member is gone, by an event of this kind (`member.left`, `member.fenced`) and source; None where it is not
    /// known by its id.
    #[allow(clippy::too_many_arguments)]
    fn removed<'py>(
        &self,
        py: Python<'py>,
        group_id: &str,
        mark: &[u8],
        timestamp: i64,
        member_id: &str,
        kind: &str,
        source: &str,
        reason: Option<&str>,
    ) -> Option<Answer<'py>> {
        let place = self.0.members.iter().position(|member| &*member.member_id == member_id)?;
        let member_ids = vec![self.0.members[place].member_id.clone()];
        let evidence = reason.filter(|reason| !reason.is_empty()).map(|reason| Evidence {
            source: source.into(),
            reason: reason.into(),
            member_ids: member_ids.clone(),
            kind: Some(kind.into()),
        });
        let cause = Cause { kind: kind.into(), member_ids, evidence: evidence.into_iter().collect() };
        let mut members = self.0.members.clone();
        members.remove(place);
        let change = Change { members, claimed: -1, timestamp, cause };
        let (state, given) = rebalanced(&self.0, group_id, change)?;
        Some(answer(py, state, mark, given))
    }

    /// The JSON of the group's latest assignment.
    fn assignment<'py>(&self, py: Python<'py>, group_id: &str) -> Option<Bound<'py, PyBytes>> {
        Some(PyBytes::new(py, &rounds::latest(&self.0, group_id)?))
    }
}

/// A bug here must not stop the job for good: its panic is printed, and Python answers.
fn rebalanced(state: &State, group_id: &str, change: Change) -> Option<(State, Vec<Round>)> {
    catch_unwind(AssertUnwindSafe(|| rounds::rebalance(state, group_id, change))).ok().flatten()
}

fn answer<'py>(py: Python<'py>, mut state: State, mark: &[u8], given: Vec<Round>) -> Answer<'py> {
    let kept = state.applied.len().saturating_sub(REMEMBERED - mark.len());
    state.applied = Arc::new(ByteBuf::from([&state.applied[kept..], mark].concat()));
    (Group(state), given.into_iter().map(|(round, json)| (round, PyBytes::new(py, &json))).collect())
}

#[pymodule]
fn rebalance_kernel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Group>()
}
