//! What members own, read once: who has which partition, and how much of what each member has.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyString};

use super::group::Group;
use super::runs::Runs;

pub const NO_ONE: u32 = u32::MAX;

/// What a member owns of a topic: `len` partitions, `first`, `first + step`, … or (`step` 0) in `listed` from there on.
#[derive(Clone, Copy)]
pub struct Part {
    pub topic: u32,
    pub len: u32,
    first: u32,
    step: u32,
}

pub struct Claims<'py> {
    pub owners: Owners,
    /// How many of each topic's partitions nobody owns.
    unowned: Vec<u32>,
    /// By place, subscribed to or not, in the order of what it owns.
    parts: Vec<Part>,
    ends: Vec<u32>,
    listed: Vec<u32>,
    /// By number: how many partitions of topics that the member subscribes to.
    pub sizes: Vec<u32>,
    /// By place: Python's object, and whether that is the answer where nothing changes.
    pub owned: Vec<(Bound<'py, PyDict>, bool)>,
}

/// Who owns each partition of the topics that anybody claims, one topic behind the other.
pub struct Owners {
    all: Vec<u32>,
    /// By topic, its place in there and how many partitions it has.
    topics: Vec<(Option<usize>, usize)>,
}

impl Owners {
    fn of(group: &Group) -> Owners {
        let topics: Vec<_> = group.topics.iter().map(|topic| (None, topic.partitions as usize)).collect();
        let all = Vec::with_capacity(topics.iter().map(|topic| topic.1).sum());
        Owners { all, topics }
    }

    /// The owners of a topic's partitions; empty where nobody claims any of it.
    pub fn topic(&self, topic: u32) -> &[u32] {
        let (start, count) = self.topics[topic as usize];
        start.map_or(&[], |start| &self.all[start..start + count])
    }

    /// The same, of all partitions.
    pub fn topic_mut(&mut self, topic: u32) -> &mut [u32] {
        let (start, count) = &mut self.topics[topic as usize];
        let start = *start.get_or_insert_with(|| {
            let end = self.all.len();
            self.all.resize(end + *count, NO_ONE);
            end
        });
        &mut self.all[start..start + *count]
    }
}

impl<'py> Claims<'py> {
    /// The claims; None where one is unsound, or nothing that is known here.
    pub fn read(group: &Group<'py>) -> PyResult<Option<Self>> {
        let count = group.members.len();
        let mut claims = Claims {
            owners: Owners::of(group),
            unowned: group.topics.iter().map(|topic| topic.partitions).collect(),
            parts: Vec::with_capacity(count),
            ends: Vec::with_capacity(count),
            listed: Vec::new(),
            sizes: vec![0; count],
            owned: Vec::with_capacity(count),
        };
        let py = group.members[0].object.py();
        let mut runs = Runs::new(py);
        let mut strange = Vec::new();
        for (number, member) in group.numbers().into_iter().zip(&group.members) {
            let owned = member.object.getattr(intern!(py, "owned"))?;
            let Ok(owned) = owned.downcast_into_exact::<PyDict>() else { return Ok(None) };
            let mut as_it_is = true;
            let mut size = 0;
            let bucket = &group.buckets[member.bucket as usize];
            for (name, partitions) in &owned {
                let Ok(name) = name.downcast_exact::<PyString>() else { return Ok(None) };
                let Some(topic) = group.topic(name) else {
                    as_it_is = false;
                    continue;
                };
                let Some(part) = claims.part(&mut runs, topic, &partitions)? else { return Ok(None) };
                claims.parts.push(part);
                if bucket.hears(topic) {
                    size += part.len;
                    as_it_is &= part.len > 0 && claims.ascends(&part);
                } else {
                    as_it_is = false;
                    if group.topics[topic as usize].partitions == 0 {
                        continue;
                    }
                    strange.push(part);
                }
                if !claims.take(&part, number) {
                    return Ok(None);
                }
            }
            claims.ends.push(claims.parts.len() as u32);
            claims.sizes[number as usize] = size;
            claims.owned.push((owned, as_it_is));
        }
        // They may be nobody else's, but nobody has them.
        for part in strange {
            for partition in claims.numbers(&part) {
                claims.owners.topic_mut(part.topic)[partition as usize] = NO_ONE;
            }
            claims.unowned[part.topic as usize] += part.len;
        }
        Ok(Some(claims))
    }

    /// The parts of what the member at this place owns.
    pub fn of(&self, place: u32) -> &[Part] {
        let start = if place == 0 { 0 } else { self.ends[place as usize - 1] };
        &self.parts[start as usize..self.ends[place as usize] as usize]
    }

    /// A part's partitions, in the order in which they are owned.
    pub fn numbers(&self, part: &Part) -> Vec<u32> {
        if part.step == 0 {
            return self.list(part).to_vec();
        }
        (0..part.len).map(|at| part.first + at * part.step).collect()
    }

    pub fn ascends(&self, part: &Part) -> bool {
        part.step > 0 || self.list(part).is_sorted()
    }

    /// The runs of a topic that nobody owns: (first, how many).
    pub fn free(&self, group: &Group, topic: u32) -> Vec<(u32, u32)> {
        let (owners, unowned) = (self.owners.topic(topic), self.unowned[topic as usize]);
        if owners.is_empty() {
            return vec![(0, group.topics[topic as usize].partitions)];
        }
        if unowned == 0 {
            return Vec::new();
        }
        let mut runs = Vec::new();
        let mut at = 0;
        while let Some(start) = owners[at..].iter().position(|&owner| owner == NO_ONE) {
            let first = at + start;
            let len = owners[first..].iter().position(|&owner| owner != NO_ONE);
            let len = len.unwrap_or(owners.len() - first);
            runs.push((first as u32, len as u32));
            at = first + len;
        }
        runs
    }

    fn list(&self, part: &Part) -> &[u32] {
        &self.listed[part.first as usize..(part.first + part.len) as usize]
    }

    /// Enter who owns this; whether all of it exists and was nobody's.
    fn take(&mut self, part: &Part, member: u32) -> bool {
        let owners = self.owners.topic_mut(part.topic);
        let (first, len, step) = (part.first as usize, part.len as usize, part.step as usize);
        let unowned = &mut self.unowned[part.topic as usize];
        *unowned = unowned.wrapping_sub(part.len); // too many: one of them is another's or does not exist
        if step == 1 {
            let Some(theirs) = owners.get_mut(first..first + len) else { return false };
            let free = theirs.iter().fold(true, |free, &owner| free & (owner == NO_ONE)); // all at once, not one by one
            theirs.fill(member);
            return free;
        }
        let mut take = |partition: usize| {
            let owner = owners.get_mut(partition);
            owner.is_some_and(|owner| std::mem::replace(owner, member) == NO_ONE)
        };
        if step == 0 {
            self.listed[first..first + len].iter().all(|&partition| take(partition as usize))
        } else {
            (0..len).all(|at| take(first + at * step))
        }
    }

    fn part(
        &mut self,
        runs: &mut Runs<'py>,
        topic: u32,
        partitions: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Part>> {
        if let Ok(list) = partitions.downcast_exact::<PyList>() {
            let first = self.listed.len();
            for partition in list {
                let Ok(partition) = partition.downcast_exact::<PyInt>().map(|number| number.extract()) else {
                    return Ok(None);
                };
                let Ok(partition) = partition else { return Ok(None) };
                self.listed.push(partition);
            }
            let len = (self.listed.len() - first) as u32;
            return Ok(Some(Part { topic, first: first as u32, len, step: 0 }));
        }
        Ok(runs.read(partitions)?.map(|run| Part { topic, first: run.first, len: run.count, step: run.step }))
    }
}
