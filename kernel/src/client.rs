//! The client's assignors: `assignors.classic`, which is the reference. `range` for any subscriptions where nobody has a
//! rack, the others where all subscribe alike. The arithmetic is `assign`'s; Python's objects are read and made as for
//! the coordinator (`server`).

use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::assign::{deal, sorted_ids, Assignor, Hands, Owners, Part, NO_ONE};
use crate::racks::Racks;
use crate::server::answer::shares;
use crate::server::claims::{self, Claims};
use crate::server::group::Group;
use crate::server::kinds::Kinds;
use crate::server::{range, Event, Target};
use crate::text;

type Shares<'py> = PyResult<Option<Bound<'py, PyDict>>>;

/// Every member's share; None where Python must answer.
#[pyfunction]
pub fn client_shares<'py>(
    assignor: &str,
    topics: &Bound<'py, PyAny>,
    members: &Bound<'py, PyAny>,
) -> Shares<'py> {
    let Some(assignor) = Assignor::named(assignor) else { return Ok(None) };
    let Some(mut group) = Group::read(topics, members, false)? else { return Ok(None) };
    if assignor != Assignor::Range && group.buckets.len() > 1 || !racks_fit(&group)? {
        return Ok(None);
    }
    match assignor {
        Assignor::Range => {
            let Some(order) = range::order(&group)? else { return Ok(None) };
            if member_racks(&group)?.is_none_or(|racks| racks.iter().any(Option::is_some)) {
                return Ok(None);
            }
            group.order = order;
            range::shares(&group, Some(&first_named(&group)))
        }
        Assignor::RoundRobin => {
            let (Some(order), Some(topics)) = (range::order(&group)?, alike(&group)) else { return Ok(None) };
            // Python's answer has the members in this order, too.
            group.members = order.iter().map(|&place| group.members[place as usize].clone()).collect();
            circle(&group, &topics, &group.order)
        }
        _ => sticky(&group, assignor == Assignor::CooperativeSticky),
    }
}

/// `assignors.classic.sticky`.
fn sticky<'py>(group: &Group<'py>, withhold: bool) -> Shares<'py> {
    let Some(topics) = alike(group) else { return Ok(None) };
    let ids: Vec<&str> = group.members.iter().map(|member| text(&member.id)).collect();
    let Some(racks) = Reader::racks(group, &topics)?.filter(|_| ids.iter().all(|id| id.is_ascii())) else {
        return Ok(None);
    };
    let racks = Some(racks).filter(Racks::matter);
    let Some(claims) = Claims::read(group)? else { return Ok(None) };
    if racks.is_none() && claims.owned.iter().all(|owned| owned.0.is_empty()) {
        let order: Vec<u32> = sorted_ids(&ids).into_iter().map(|place| place as u32).collect();
        return circle(group, &topics, &order);
    }
    let before: Owners = topics.iter().map(|&topic| owners(group, &claims, topic)).collect();
    // A bug here must not stop the job for good: its panic is printed, and Python answers.
    let hands = catch_unwind(AssertUnwindSafe(|| Hands::of(before, withhold).keep(&ids, racks.as_ref())));
    let Ok(Some(hands)) = hands else { return Ok(None) };
    shares(group, &claims, &target(&hands, &topics, &claims))
}

/// Topics round the members, in one circle; those that begin with the same member are given out alike.
fn circle<'py>(group: &Group<'py>, topics: &[u32], order: &[u32]) -> Shares<'py> {
    let mut alike: Vec<((usize, usize), Vec<u32>)> = Vec::new();
    let mut known = FxHashMap::default();
    let mut start = 0;
    for &topic in topics {
        let count = group.topics[topic as usize].partitions as usize;
        let at = *known.entry((count, start)).or_insert_with(|| {
            alike.push(((count, start), Vec::new()));
            alike.len() - 1
        });
        alike[at].1.push(topic);
        start = (start + count) % order.len();
    }
    let mut kinds = Kinds::default();
    for ((count, start), topics) in alike {
        deal(count, order.len(), start, |at, run| kinds.give(order[at], run));
        kinds.end(topics);
    }
    kinds.shares(group, false)
}

/// Where each topic stands among all that members subscribe to, in their order.
fn first_named(group: &Group) -> Vec<usize> {
    let mut ranks = vec![usize::MAX; group.topics.len()];
    for (rank, &topic) in group.buckets.iter().flat_map(|bucket| &bucket.topics).enumerate() {
        ranks[topic as usize] = ranks[topic as usize].min(rank);
    }
    ranks
}

/// The topics that all subscribe to, by name; None where they don't, or a list names one twice, which Kafka's sticky
/// assignors take for another list.
fn alike(group: &Group) -> Option<Vec<u32>> {
    let [all] = &group.buckets[..] else { return None };
    if all.topics.len() < all.names.len() {
        let names: Vec<String> = all.names.extract().ok()?;
        if names.iter().collect::<FxHashSet<_>>().len() < names.len() {
            return None;
        }
    }
    let mut topics = all.topics.clone();
    topics.sort_by_key(|&topic| text(&group.topics[topic as usize].name));
    Some(topics)
}

fn owners(group: &Group, claims: &Claims, topic: u32) -> Vec<usize> {
    let owners = claims.owners.topic(topic);
    if owners.is_empty() {
        return vec![NO_ONE; group.topics[topic as usize].partitions as usize];
    }
    let place = |&owner: &u32| if owner == claims::NO_ONE { NO_ONE } else { owner as usize };
    owners.iter().map(place).collect()
}

/// What changes hands, as the answer's writer takes it. A topic of which some is lost goes behind the others: first those
/// that were not in the member's racks, as it has them, then those above its quota, as they are lost.
fn target(hands: &Hands, topics: &[u32], claims: &Claims) -> Target {
    let mut target = Target::default();
    let behind = &mut target.reordered;
    for &((rank, _), place) in &hands.surplus {
        let order = behind.entry(place as u32).or_default();
        if !order.contains(&topics[rank]) {
            order.push(topics[rank]);
        }
    }
    let unfit: FxHashSet<(u32, u32)> =
        hands.unfit.iter().map(|&((rank, _), place)| (place as u32, topics[rank])).collect();
    for place in unfit.iter().map(|unfit| unfit.0).collect::<FxHashSet<_>>() {
        let order = behind.entry(place).or_default();
        let owned = claims.of(place).iter().map(|part| part.topic);
        let first = owned.filter(|topic| unfit.contains(&(place, *topic)) && !order.contains(topic));
        *order = first.chain(order.clone()).collect();
    }
    let event = |gained| {
        move |&((rank, partition), place): &(Part, usize)| Event {
            member: place as u32,
            topic: topics[rank],
            partition: partition as u32,
            gained,
        }
    };
    target.events.extend(hands.unfit.iter().chain(&hands.surplus).map(event(false)));
    target.events.extend(hands.given.iter().map(event(true)));
    target
}

/// Whether each topic with racks has them for all its partitions: else Python refuses the group.
fn racks_fit(group: &Group) -> PyResult<bool> {
    for topic in &group.topics {
        let racks = topic.object.getattr(intern!(topic.object.py(), "racks"))?;
        if !racks.is_none() && racks.len()? != topic.partitions as usize {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Each member's rack; None where one is no text.
fn member_racks<'py>(group: &Group<'py>) -> PyResult<Option<Vec<Option<Bound<'py, PyString>>>>> {
    let mut found = Vec::with_capacity(group.members.len());
    for member in &group.members {
        let rack = member.object.getattr(intern!(member.object.py(), "rack_id"))?;
        if rack.is_none() {
            found.push(None);
            continue;
        }
        let Ok(rack) = rack.downcast_into::<PyString>() else { return Ok(None) };
        found.push(Some(rack).filter(|rack| !text(rack).is_empty()));
    }
    Ok(Some(found))
}

/// Racks by number: those that were met.
#[derive(Default)]
struct Reader {
    racks: FxHashMap<String, u32>,
    sets: Vec<Vec<u32>>,
    by_set: FxHashMap<Vec<u32>, u32>,
    /// By address; all live as long as the call.
    by_object: FxHashMap<usize, u32>,
}

impl Reader {
    /// The racks of members, and of these topics' partitions where a member has one; None where one is no text.
    fn racks(group: &Group, topics: &[u32]) -> PyResult<Option<Racks>> {
        let Some(members) = member_racks(group)? else { return Ok(None) };
        let mut reader = Reader::default();
        let of_member: Vec<_> =
            members.iter().map(|rack| rack.as_ref().map(|rack| reader.rack(text(rack)))).collect();
        let mut of_topic = Vec::new();
        if of_member.iter().any(Option::is_some) {
            let mut known: FxHashMap<usize, Vec<u32>> = FxHashMap::default();
            for &topic in topics {
                let topic = &group.topics[topic as usize];
                let racks = topic.object.getattr(intern!(topic.object.py(), "racks"))?;
                let address = racks.as_ptr() as usize;
                if !known.contains_key(&address) || racks.is_none() {
                    let Some(read) = reader.topic(&racks, topic.partitions)? else { return Ok(None) };
                    known.insert(address, read);
                }
                of_topic.push(known[&address].clone());
            }
        }
        Ok(Some(Racks { of_member, sets: reader.sets, of_topic }))
    }

    /// The set of racks of each partition.
    fn topic(&mut self, racks: &Bound<'_, PyAny>, partitions: u32) -> PyResult<Option<Vec<u32>>> {
        if racks.is_none() {
            return Ok(Some(vec![self.set(Vec::new()); partitions as usize]));
        }
        let Ok(racks) = racks.downcast::<PyTuple>() else { return Ok(None) };
        let mut sets = Vec::with_capacity(racks.len());
        for at in racks.iter_borrowed() {
            let address = at.as_ptr() as usize;
            if let Some(&set) = self.by_object.get(&address) {
                sets.push(set);
                continue;
            }
            let Ok(at) = at.downcast::<PyTuple>() else { return Ok(None) };
            let mut numbers = Vec::with_capacity(at.len());
            for rack in at.iter_borrowed() {
                let Ok(rack) = rack.downcast::<PyString>() else { return Ok(None) };
                numbers.push(self.rack(text(rack)));
            }
            let set = self.set(numbers);
            self.by_object.insert(address, set);
            sets.push(set);
        }
        Ok(Some(sets))
    }

    fn rack(&mut self, name: &str) -> u32 {
        if let Some(&known) = self.racks.get(name) {
            return known;
        }
        let number = self.racks.len() as u32;
        self.racks.insert(name.to_owned(), number);
        number
    }

    fn set(&mut self, mut racks: Vec<u32>) -> u32 {
        racks.sort_unstable();
        racks.dedup();
        let number = self.sets.len() as u32;
        let known = *self.by_set.entry(racks.clone()).or_insert(number);
        if known == number {
            self.sets.push(racks);
        }
        known
    }
}
