//! Shares of members that get the same partitions of several topics.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::answer::{by_member, Grouped};
use super::group::Group;
use super::runs::Runs;
use super::Run;

/// A member by number, the kind of topics, and its partitions of each of these.
type Given = (u32, u32, Run);

/// Topics that are given out alike, and who gets which partitions of them.
#[derive(Default)]
pub struct Kinds {
    topics: Vec<Vec<u32>>,
    given: Vec<Given>,
}

impl Kinds {
    /// The member's partitions of the kind that [`Kinds::end`] ends.
    pub fn give(&mut self, member: u32, run: Run) {
        self.given.push((member, self.topics.len() as u32, run));
    }

    pub fn end(&mut self, topics: Vec<u32>) {
        self.topics.push(topics);
    }

    /// Every member's share. `keeping`: one that owns just that gets the very share.
    pub fn shares<'py>(self, group: &Group<'py>, keeping: bool) -> PyResult<Option<Bound<'py, PyDict>>> {
        let py = group.members[0].object.py();
        let given = Grouped::of(group.members.len(), &self.given, |given| given.0);
        let names: Vec<Vec<_>> = (self.topics.iter())
            .map(|topics| topics.iter().map(|&topic| group.topics[topic as usize].name.clone()).collect())
            .collect();
        let mut kept = Kept::of(group, &self.topics, Runs::new(py));
        by_member(group, |member, place| {
            let given = given.of_member(member);
            if keeping {
                let owned = group.members[place].object.getattr(intern!(py, "owned"))?;
                if let Ok(owned) = owned.downcast_into_exact::<PyDict>() {
                    if kept.is_all(&owned, given)? {
                        return Ok(owned);
                    }
                }
            }
            let share = PyDict::new(py);
            for &(_, kind, run) in given {
                let partitions = kept.runs.object(run)?;
                names[kind as usize].iter().try_for_each(|name| share.set_item(name, &partitions))?;
            }
            Ok(share)
        })
    }
}

/// Members that have what they are given.
struct Kept<'a, 'py> {
    group: &'a Group<'py>,
    kind_of: Vec<Option<u32>>,
    sizes: Vec<usize>,
    runs: Runs<'py>,
}

impl<'a, 'py> Kept<'a, 'py> {
    fn of(group: &'a Group<'py>, kinds: &[Vec<u32>], runs: Runs<'py>) -> Self {
        let mut kind_of = vec![None; group.topics.len()];
        for (kind, topics) in (0u32..).zip(kinds) {
            topics.iter().for_each(|&topic| kind_of[topic as usize] = Some(kind));
        }
        let sizes = kinds.iter().map(Vec::len).collect();
        Kept { group, kind_of, sizes, runs }
    }

    /// Whether that is just what a member owns.
    fn is_all(&mut self, owned: &Bound<'py, PyDict>, given: &[Given]) -> PyResult<bool> {
        if owned.len() != given.iter().map(|given| self.sizes[given.1 as usize]).sum::<usize>() {
            return Ok(false);
        }
        let mut last = None;
        for (name, partitions) in owned {
            let Ok(name) = name.downcast_exact() else { return Ok(false) };
            let kind = self.group.topic(name).and_then(|topic| self.kind_of[topic as usize]);
            if last.replace((kind, partitions.as_ptr())) == Some((kind, partitions.as_ptr())) {
                continue; // the same range for another topic of the kind
            }
            let run = given.iter().find(|given| kind == Some(given.1)).map(|given| given.2);
            if run.is_none() || self.runs.read(&partitions)? != run {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
