//! Numbers into Python's objects.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::claims::Claims;
use super::group::Group;
use super::runs::Runs;
use super::{Event, Run, Target};

/// The answer, from the share of a member by number and place; None when one is listed twice.
pub fn by_member<'py>(
    group: &Group<'py>,
    mut share: impl FnMut(usize, usize) -> PyResult<Bound<'py, PyDict>>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let answer = PyDict::new(group.members[0].object.py());
    for (place, (number, member)) in group.numbers().into_iter().zip(&group.members).enumerate() {
        answer.set_item(&member.id, share(number as usize, place)?)?;
    }
    Ok((answer.len() == group.members.len()).then_some(answer))
}

/// Every member's share: what it owned, with what changes.
pub fn shares<'py>(
    group: &Group<'py>,
    claims: &Claims<'py>,
    target: &Target,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let members = group.members.len();
    let given = Grouped::of(members, &target.given, |given| given.0);
    let events = Grouped::of(members, &target.events, |event| event.member);
    let mut runs = Runs::new(group.members[0].object.py());
    by_member(group, |member, place| {
        let (owned, as_it_is) = &claims.owned[place];
        let (given, events) = (given.of_member(member), events.of_member(member));
        if events.is_empty() && given.is_empty() && *as_it_is {
            return Ok(owned.clone());
        }
        if events.is_empty() && claims.of(place as u32).is_empty() {
            return fresh(group, &mut runs, given);
        }
        let mut share = Share::of(group, claims, place)?;
        if let Some(order) = target.reordered.get(&(member as u32)) {
            share.0.sort_by_key(|held| order.iter().position(|&topic| topic == held.topic));
        }
        for &(_, topic, run) in given {
            share.more(topic, run.partitions());
        }
        for event in events {
            share.apply(event);
        }
        share.object(group, &mut runs)
    })
}

/// The share of a member that had nothing.
fn fresh<'py>(
    group: &Group<'py>,
    runs: &mut Runs<'py>,
    given: &[(u32, u32, Run)],
) -> PyResult<Bound<'py, PyDict>> {
    let share = PyDict::new(group.members[0].object.py());
    for part in given.chunk_by(|one, other| one.1 == other.1) {
        let name = &group.topics[part[0].1 as usize].name;
        match part {
            [(_, _, run)] => share.set_item(name, runs.object(*run)?)?,
            _ => {
                let partitions = part.iter().flat_map(|given| given.2.partitions()).collect();
                share.set_item(name, runs.some(partitions)?)?;
            }
        }
    }
    Ok(share)
}

/// What a member has of a topic: Python's object while that holds, else the numbers.
struct Held<'py> {
    topic: u32,
    object: Option<Bound<'py, PyAny>>,
    partitions: Vec<u32>,
}

/// The share of a member that had something.
struct Share<'py>(Vec<Held<'py>>);

impl<'py> Share<'py> {
    /// What the member at this place owns and subscribes to.
    fn of(group: &Group<'py>, claims: &Claims<'py>, place: usize) -> PyResult<Self> {
        let bucket = &group.buckets[group.members[place].bucket as usize];
        let mut parts = claims.of(place as u32).iter();
        let mut share = Share(Vec::new());
        for (name, object) in &claims.owned[place].0 {
            let Some(topic) = group.topic(name.downcast()?) else { continue };
            let Some(part) = parts.next() else { break };
            if bucket.hears(topic) && part.len > 0 {
                let object = claims.ascends(part).then_some(object);
                share.0.push(Held { topic, object, partitions: claims.numbers(part) });
            }
        }
        Ok(share)
    }

    fn more(&mut self, topic: u32, partitions: impl Iterator<Item = u32>) {
        match self.0.iter_mut().find(|held| held.topic == topic) {
            Some(held) => {
                held.object = None;
                held.partitions.extend(partitions);
            }
            None => self.0.push(Held { topic, object: None, partitions: partitions.collect() }),
        }
    }

    fn apply(&mut self, event: &Event) {
        if event.gained {
            return self.more(event.topic, std::iter::once(event.partition));
        }
        let Some(at) = self.0.iter().position(|held| held.topic == event.topic) else { return };
        let held = &mut self.0[at];
        held.object = None;
        held.partitions.retain(|&partition| partition != event.partition);
        if held.partitions.is_empty() {
            self.0.remove(at);
        }
    }

    fn object(self, group: &Group<'py>, runs: &mut Runs<'py>) -> PyResult<Bound<'py, PyDict>> {
        let share = PyDict::new(group.members[0].object.py());
        for held in self.0 {
            let name = &group.topics[held.topic as usize].name;
            match held.object {
                Some(object) => share.set_item(name, object)?,
                None => share.set_item(name, runs.some(held.partitions)?)?,
            }
        }
        Ok(share)
    }
}

/// Things by the member that they are about, in their order.
pub struct Grouped<T> {
    things: Vec<T>,
    starts: Vec<u32>,
}

impl<T: Copy> Grouped<T> {
    pub fn of(members: usize, things: &[T], member: impl Fn(&T) -> u32) -> Self {
        let mut starts = vec![0; members + 1];
        for thing in things {
            starts[member(thing) as usize + 1] += 1;
        }
        for member in 0..members {
            starts[member + 1] += starts[member];
        }
        let mut next = starts.clone();
        let mut order = vec![0; things.len()];
        for (place, thing) in things.iter().enumerate() {
            let at = &mut next[member(thing) as usize];
            order[*at as usize] = place;
            *at += 1;
        }
        Grouped { things: order.into_iter().map(|place| things[place]).collect(), starts }
    }

    pub fn of_member(&self, member: usize) -> &[T] {
        &self.things[self.starts[member] as usize..self.starts[member + 1] as usize]
    }
}
