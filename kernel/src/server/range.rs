//! `range` of the consumer protocol: `assignors.consumer.range`.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::answer::{by_member, Grouped};
use super::group::{Group, Names};
use super::runs::Runs;
use super::Run;
use crate::members::text;
use crate::python::{put, Attribute, Entries};

/// The places of members as `RangeAssignor` sorts them: static ones by instance id, then dynamic ones by member id;
/// None where names don't sort alike in Java and here, or two are the same.
pub fn order(group: &Group) -> PyResult<Option<Vec<u32>>> {
    let like = &group.members[0].object;
    let instance_id = Attribute::of(&like.get_type(), intern!(like.py(), "instance_id"));
    let mut instances = Vec::with_capacity(group.members.len());
    for member in &group.members {
        let instance = instance_id.get(&member.object)?;
        instances.push(if instance.is_none() { None } else { Some(instance.downcast_into::<PyString>()?) });
    }
    let names: Vec<&str> = (instances.iter().zip(&group.members))
        .map(|(instance, member)| text(instance.as_ref().unwrap_or(&member.id)))
        .collect();
    if !names.iter().all(|name| name.is_ascii()) {
        return Ok(None);
    }
    let mut keys: Vec<(u128, u32)> = (0u32..)
        .zip(&instances)
        .map(|(place, instance)| (key(names[place as usize], instance.is_none()), place))
        .collect();
    let name = |key: &(u128, u32)| names[key.1 as usize];
    keys.sort_unstable_by(|one, other| one.0.cmp(&other.0).then_with(|| name(one).cmp(name(other))));
    let alike = |pair: &[(u128, u32)]| pair[0].0 == pair[1].0 && name(&pair[0]) == name(&pair[1]);
    Ok((!keys.windows(2).any(alike)).then(|| keys.iter().map(|key| key.1).collect()))
}

/// A number that sorts as static or dynamic and the first 16 characters do: these are ASCII, which leaves a bit free.
fn key(name: &str, dynamic: bool) -> u128 {
    let mut bytes = [0; 16];
    let known = name.len().min(16);
    bytes[..known].copy_from_slice(&name.as_bytes()[..known]);
    u128::from_be_bytes(bytes) | u128::from(dynamic) << 127
}

/// Topics of one audience and size: each of its members has the same partitions of all of them.
struct Kind<'py> {
    names: Vec<Bound<'py, PyString>>,
    /// A copy has room for all of them at once.
    like: Bound<'py, PyDict>,
}

/// Every member's share, of members numbered in that order.
pub fn shares<'py>(group: &Group<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
    let py = group.members[0].object.py();
    let mut kinds = Vec::new();
    let mut kind_of = vec![None; group.topics.len()];
    let mut given = Vec::new();
    for audience in group.audiences() {
        let mut by_size: Vec<(u32, Vec<u32>)> = Vec::new();
        for &topic in &audience.topics {
            let size = group.topics[topic as usize].partitions;
            match by_size.iter_mut().find(|known| known.0 == size) {
                Some((_, topics)) => topics.push(topic),
                None => by_size.push((size, vec![topic])),
            }
        }
        for (size, topics) in by_size {
            divide(size, &audience.members, |member, run| given.push((member, kinds.len(), run)));
            topics.iter().for_each(|&topic| kind_of[topic as usize] = Some(kinds.len()));
            let names: Vec<_> =
                topics.iter().map(|&topic| group.topics[topic as usize].name.clone()).collect();
            let like = PyDict::new(py);
            names.iter().try_for_each(|name| like.set_item(name, py.None()))?;
            kinds.push(Kind { names, like });
        }
    }
    let given = Grouped::of(group.members.len(), &given, |given| given.0);
    let owned = Attribute::of(&group.members[0].object.get_type(), intern!(py, "owned"));
    let mut kept = Kept { group, kinds: &kinds, kind_of, seen: Names::default(), runs: Runs::new(py) };
    by_member(group, |member, place| {
        let given = given.of_member(member);
        if let Ok(owned) = owned.get(&group.members[place].object)?.downcast_into_exact::<PyDict>() {
            if kept.is_all(&owned, given)? {
                return Ok(owned);
            }
        }
        let Some(&(_, first, _)) = given.first() else { return Ok(PyDict::new(py)) };
        let share = kinds[first].like.copy()?;
        for &(_, kind, run) in given {
            let partitions = kept.runs.object(run)?;
            kinds[kind].names.iter().try_for_each(|name| put(&share, name, &partitions))?;
        }
        Ok(share)
    })
}

/// Contiguous runs of a topic's partitions over its members, as long as there are any.
fn divide(size: u32, members: &[u32], mut give: impl FnMut(u32, Run)) {
    let (base, extra) = (size / members.len() as u32, size % members.len() as u32);
    let mut first = 0;
    for (place, &member) in (0..size).zip(members) {
        let count = base + u32::from(place < extra);
        give(member, Run { first, step: 1, count });
        first += count;
    }
}

/// Members that have what they are given.
struct Kept<'a, 'py> {
    group: &'a Group<'py>,
    kinds: &'a [Kind<'py>],
    kind_of: Vec<Option<usize>>,
    seen: Names,
    runs: Runs<'py>,
}

impl<'py> Kept<'_, 'py> {
    /// Whether that is just what a member owns.
    fn is_all(&mut self, owned: &Bound<'py, PyDict>, given: &[(u32, usize, Run)]) -> PyResult<bool> {
        if owned.len() != given.iter().map(|given| self.kinds[given.1].names.len()).sum::<usize>() {
            return Ok(false);
        }
        // SAFETY: nothing that is asked of names and ranges runs Python's code.
        for (at, (name, partitions)) in unsafe { Entries::of(owned) }.enumerate() {
            let Ok(name) = name.downcast_exact() else { return Ok(false) };
            let kind = self.seen.topic(self.group, at, name).and_then(|topic| self.kind_of[topic as usize]);
            let run = given.iter().find(|given| kind == Some(given.1)).map(|given| given.2);
            if run.is_none() || self.runs.read(&partitions)? != run {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
