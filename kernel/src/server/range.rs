//! `range` of the consumer protocol: `assignors.consumer.range`.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::answer::{by_member, Objects};
use super::group::Group;
use super::Run;
use crate::members::text;

/// The places of members as `RangeAssignor` sorts them: static ones by instance id, then dynamic ones by member id;
/// None where names don't sort alike in Java and here, or two are the same.
pub fn order(group: &Group) -> PyResult<Option<Vec<u32>>> {
    let mut instances = Vec::with_capacity(group.members.len());
    for member in &group.members {
        let instance = member.object.getattr(intern!(member.object.py(), "instance_id"))?;
        instances.push(if instance.is_none() { None } else { Some(instance.downcast_into::<PyString>()?) });
    }
    let names: Vec<(bool, &str)> = (instances.iter().zip(&group.members))
        .map(|(instance, member)| (instance.is_none(), text(instance.as_ref().unwrap_or(&member.id))))
        .collect();
    if !names.iter().all(|name| name.1.is_ascii()) {
        return Ok(None);
    }
    let mut places: Vec<u32> = (0..names.len() as u32).collect();
    places.sort_unstable_by_key(|&place| names[place as usize]);
    let alike = |pair: &[u32]| names[pair[0] as usize] == names[pair[1] as usize];
    Ok((!places.windows(2).any(alike)).then_some(places))
}

/// Every member's share, of members numbered in that order.
pub fn shares<'py>(group: &Group<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
    let py = group.members[0].object.py();
    let mut objects = Objects::new(py);
    let mut shares: Vec<Option<Bound<'py, PyDict>>> = vec![None; group.members.len()];
    for audience in group.audiences() {
        let mut by_size: Vec<(u32, Vec<u32>)> = Vec::new();
        for &topic in &audience.topics {
            let size = group.topics[topic as usize].partitions;
            match by_size.iter_mut().find(|known| known.0 == size) {
                Some((_, topics)) => topics.push(topic),
                None => by_size.push((size, vec![topic])),
            }
        }
        let members = audience.members.len() as u32;
        for (size, topics) in by_size {
            // A copy has room for all of them at once.
            let like = PyDict::new(py);
            topics
                .iter()
                .try_for_each(|&topic| like.set_item(&group.topics[topic as usize].name, py.None()))?;
            let (base, extra) = (size / members, size % members);
            let mut first = 0;
            for (place, &member) in (0..size).zip(&audience.members) {
                let count = base + u32::from(place < extra);
                let partitions = objects.run(Run { first, step: 1, count })?;
                let share = match &mut shares[member as usize] {
                    Some(share) => share,
                    empty => empty.insert(like.copy()?),
                };
                for &topic in &topics {
                    share.set_item(&group.topics[topic as usize].name, &partitions)?;
                }
                first += count;
            }
        }
    }
    by_member(group, |member, _| Ok(shares[member].take().unwrap_or_else(|| PyDict::new(py))))
}
