//! `range` of the consumer protocol: `assignors.consumer.range`.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::group::Group;
use super::kinds::Kinds;
use crate::assign::divide;
use crate::text;

/// The places of members as `RangeAssignor` sorts them: static ones by instance id, then dynamic ones by member id;
/// None where names don't sort alike in Java and here, or two are the same.
pub fn order(group: &Group) -> PyResult<Option<Vec<u32>>> {
    let mut instances = Vec::with_capacity(group.members.len());
    for member in &group.members {
        let instance = member.object.getattr(intern!(member.object.py(), "instance_id"))?;
        instances.push(if instance.is_none() { None } else { Some(instance.downcast_into::<PyString>()?) });
    }
    let names: Vec<&str> = (instances.iter().zip(&group.members))
        .map(|(instance, member)| text(instance.as_ref().unwrap_or(&member.id)))
        .collect();
    if !names.iter().all(|name| name.is_ascii()) {
        return Ok(None);
    }
    let mut order: Vec<u32> = (0..names.len() as u32).collect();
    let key = |place: u32| (instances[place as usize].is_none(), names[place as usize]);
    order.sort_unstable_by_key(|&place| key(place));
    let unique = !order.windows(2).any(|pair| key(pair[0]) == key(pair[1]));
    Ok(unique.then_some(order))
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
