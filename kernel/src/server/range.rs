//! `range` of the consumer protocol: `assignors.consumer.range`.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::group::Group;
use super::kinds::Kinds;
use crate::assign::divide;
use crate::python::text;
use crate::python::Attribute;

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

/// Every member's share, of members numbered in that order; one that owns just that gets the very share.
///
/// The client's assignor gives `ranks`, by which shares have their topics there, and knows nothing that is owned.
pub fn shares<'py>(group: &Group<'py>, ranks: Option<&[usize]>) -> PyResult<Option<Bound<'py, PyDict>>> {
    let audiences = group.audiences();
    let mut alike: Vec<(u32, Vec<u32>, &[u32])> = Vec::new();
    for audience in &audiences {
        let first = alike.len();
        for &topic in &audience.topics {
            let size = group.topics[topic as usize].partitions;
            match alike[first..].iter_mut().find(|known| known.0 == size) {
                Some((_, topics, _)) => topics.push(topic),
                None => alike.push((size, vec![topic], &audience.members)),
            }
        }
    }
    if let Some(ranks) = ranks {
        alike.iter_mut().for_each(|(_, topics, _)| topics.sort_by_key(|&topic| ranks[topic as usize]));
        alike.sort_by_key(|(_, topics, _)| ranks[topics[0] as usize]);
    }
    let mut kinds = Kinds::default();
    for (size, topics, members) in alike {
        divide(size as usize, members.len(), |at, run| kinds.give(members[at], run));
        kinds.end(topics);
    }
    kinds.shares(group, ranks.is_none())
}
