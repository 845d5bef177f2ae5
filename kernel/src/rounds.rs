//! Every round of one rebalance, as JSON: `streaming.monitor.derived` and `streaming.monitor.rounds`.

use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::FxHashSet;
use serde::{Serialize, Serializer};

use crate::assign::{Assignor, Owners, NO_ONE};
use crate::state::{Cause, Map, Member, Name, Share, State};

/// `streaming.monitor.derived.MAX_ROUNDS`.
const MAX_ROUNDS: u32 = 64;

/// What a diff of twenty members takes: no growing for most.
const JSON_BYTES: usize = 4096;

/// A diff to write: its round and its JSON.
pub type Round = (u32, Vec<u8>);

/// What everyone owned before a round, those that left included.
type Ownership = Map<Name, Arc<Share>>;

/// Written as a map, in this order.
struct Pairs<K, V>(Vec<(K, V)>);

/// A part of a share.
type Lists<'a> = Pairs<&'a Name, Cow<'a, [u32]>>;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Diff<'a> {
    group_id: &'a str,
    protocol: &'a str,
    assignor: Option<&'a str>,
    generation: i64,
    group_epoch: Option<i64>,
    round: u32,
    cause: Option<&'a Cause>,
    timestamp: i64,
    members: &'a Pairs<&'a Name, MemberDiff<'a>>,
    unassigned: Lists<'a>,
    moved: usize,
    /// Plain groups break no rule: see [`State::plain`].
    violations: [(); 0],
}

#[derive(Serialize)]
struct MemberDiff<'a> {
    owned: &'a Share,
    revoked: Lists<'a>,
    assigned: Lists<'a>,
    kept: Kept<'a>,
    present: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Kept<'a> {
    All(&'a Share),
    Part(Lists<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LatestAssignment<'a> {
    group_id: &'a str,
    protocol: &'a str,
    assignor: Option<&'a str>,
    generation: i64,
    group_epoch: Option<i64>,
    timestamp: i64,
    members: Pairs<&'a Name, &'a Share>,
}

impl<K: Serialize, V: Serialize> Serialize for Pairs<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// One change of a group: `streaming.monitor.derived.Change`.
pub struct Change {
    pub members: Vec<Member>,
    /// The generation that a newcomer says it was in; -1: none.
    pub claimed: i64,
    pub timestamp: i64,
    pub cause: Cause,
}

/// The group after a change, and a diff a round; None: Python's.
pub fn rebalance(state: &State, group_id: &str, change: Change) -> Option<(State, Vec<Round>)> {
    let Change { members, claimed, timestamp, cause } = change;
    let known = state.members.iter().map(|member| (member.member_id.clone(), member.owned.clone()));
    let mut before: Ownership = known.collect();
    for member in &members {
        before.entry(member.member_id.clone()).or_default();
    }
    let mut after = State {
        observed: false,
        generation: following(state.generation.max(claimed)),
        protocol: state.protocol.clone(),
        assignor: None,
        members,
        topics: state.topics.clone(),
        last_owners: state.last_owners.clone(),
        applied: state.applied.clone(),
        timestamp,
        round: 1,
        cause: Some(cause),
        revoked: false, // between events a group is at rest
        hints: Vec::new(),
    };
    if after.members.is_empty() {
        let (round, _) = play(&mut after, group_id, &before)?;
        return Some((after, vec![round]));
    }
    let names = &after.members[0].assignors;
    let name: Name = names.first().cloned().unwrap_or_else(|| "range".into());
    let assignor = Assignor::named(&name)?;
    let cooperative = assignor == Assignor::CooperativeSticky;
    // `streaming.protocols.vote.cooperative`: what all of its assignors support.
    let keeps = names.iter().all(|name| Assignor::named(name) == Some(Assignor::CooperativeSticky));
    after.assignor = Some(name);
    let topics = topics(&after);
    let mut rounds = Vec::new();
    loop {
        let owned = owners(&topics, &after.members);
        // A client that rebalances eagerly has given up what it had when it joins.
        let brought = if cooperative && !keeps { free(&topics) } else { owned.clone() };
        let given = assignor.assign(&after.members, brought)?;
        give(&mut after.members, &topics, &owned, &given);
        let (round, revoked) = play(&mut after, group_id, &before)?;
        rounds.push(round);
        // A cooperative client that gave up partitions asks for another round (`_rejoins`).
        if !cooperative || !keeps || !revoked || after.round == MAX_ROUNDS {
            return Some((after, rounds));
        }
        before =
            after.members.iter().map(|member| (member.member_id.clone(), member.owned.clone())).collect();
        after.generation = following(after.generation);
        after.round += 1;
    }
}

/// `streaming.monitor.rounds.following`.
fn following(generation: i64) -> i64 {
    if generation < i32::MAX.into() {
        generation + 1
    } else {
        1
    }
}

/// The topics that count, by name: subscribed to and with metadata.
fn topics(state: &State) -> Vec<(Name, usize)> {
    let subscribed = state.members[0].topics.iter();
    let count = |name: &Name| state.topics.get(name).map_or(0, |topic| topic.partitions as usize);
    let mut found: Vec<(Name, usize)> =
        subscribed.map(|name| (name.clone(), count(name))).filter(|(_, count)| *count > 0).collect();
    found.sort();
    found
}

fn free(topics: &[(Name, usize)]) -> Owners {
    topics.iter().map(|(_, count)| vec![NO_ONE; *count]).collect()
}

/// Who owns each partition, by place.
fn owners(topics: &[(Name, usize)], members: &[Member]) -> Owners {
    let mut found = free(topics);
    for (place, member) in members.iter().enumerate() {
        for (name, partitions) in &*member.owned {
            if let Some(topic) = rank(topics, name) {
                partitions.iter().for_each(|&partition| found[topic][partition as usize] = place);
            }
        }
    }
    found
}

fn rank(topics: &[(Name, usize)], name: &Name) -> Option<usize> {
    topics.binary_search_by(|(known, _)| known.cmp(name)).ok()
}

/// New shares for the members that have not what they had.
fn give(members: &mut [Member], topics: &[(Name, usize)], owned: &Owners, given: &Owners) {
    let mut changed = vec![false; members.len() + 1];
    let place = |owner: usize| owner.min(members.len());
    for (&before, &after) in owned.iter().flatten().zip(given.iter().flatten()) {
        if before != after {
            changed[place(before)] = true;
            changed[place(after)] = true;
        }
    }
    let mut shares = vec![Share::default(); members.len()];
    for ((name, _), parts) in topics.iter().zip(given) {
        for (partition, &owner) in parts.iter().enumerate() {
            if owner != NO_ONE && changed[owner] {
                shares[owner].entry(name.clone()).or_default().push(partition as u32);
            }
        }
    }
    for ((member, share), _) in members.iter_mut().zip(shares).zip(&changed).filter(|(_, &changed)| changed) {
        member.owned = Arc::new(share);
    }
}

/// The diff from `before` (at least these members) to what `state`'s members own, and whether one that stayed gave something up.
fn play(state: &mut State, group_id: &str, before: &Ownership) -> Option<(Round, bool)> {
    let nothing = Share::default();
    let mut members = Pairs(Vec::with_capacity(before.len()));
    for member in &state.members {
        members.0.push((&member.member_id, diff(&before[&member.member_id], &member.owned, true)));
    }
    let revoked = members.0.iter().any(|(_, change)| !change.revoked.0.is_empty());
    if before.len() > members.0.len() {
        let here: FxHashSet<&Name> = members.0.iter().map(|(id, _)| *id).collect();
        let gone = before.iter().filter(|(id, _)| !here.contains(id));
        members.0.extend(gone.map(|(id, share)| (id, diff(share, &nothing, false))));
    }
    let (last_owners, moved) = last_owners(&state.last_owners, &members.0);
    let mut json = Vec::with_capacity(JSON_BYTES);
    let written = serde_json::to_writer(
        &mut json,
        &Diff {
            group_id,
            protocol: &state.protocol,
            assignor: state.assignor.as_deref(),
            generation: state.generation,
            group_epoch: None,
            round: state.round,
            cause: state.cause.as_ref(),
            timestamp: state.timestamp,
            members: &members,
            unassigned: unassigned(state),
            moved,
            violations: [],
        },
    );
    written.ok()?;
    if let Some(owners) = last_owners {
        state.last_owners = Arc::new(owners);
    }
    Some(((state.round, json), revoked))
}

/// `assignors.diff.diff`.
fn diff<'a>(owned: &'a Share, now: &'a Share, present: bool) -> MemberDiff<'a> {
    let (mut revoked, mut assigned, mut kept) = (Pairs(Vec::new()), Pairs(Vec::new()), Pairs(Vec::new()));
    if std::ptr::eq(owned, now) {
        return MemberDiff { owned, revoked, assigned, kept: Kept::All(owned), present };
    }
    for (name, had) in owned {
        let has: &[u32] = now.get(name).map_or(&[], |list| list);
        if had == has {
            kept.0.push((name, Cow::Borrowed(had.as_slice())));
            continue;
        }
        let without = |some: &[u32], others: &[u32]| -> Vec<u32> {
            some.iter().copied().filter(|p| others.binary_search(p).is_err()).collect()
        };
        let (gone, new) = (without(had, has), without(has, had));
        let stay = if gone.is_empty() { had.clone() } else { without(had, &gone) };
        for (lists, part) in [(&mut revoked, gone), (&mut assigned, new), (&mut kept, stay)] {
            if !part.is_empty() {
                lists.0.push((name, Cow::Owned(part)));
            }
        }
    }
    let new = now.iter().filter(|(name, _)| !owned.contains_key(*name));
    assigned.0.extend(new.map(|(name, list)| (name, Cow::Borrowed(list.as_slice()))));
    MemberDiff { owned, revoked, assigned, kept: Kept::Part(kept), present }
}

type LastOwners = Map<Name, Map<u32, Name>>;

/// The last owners of what is free after a round where that changed, and how many partitions another member got.
fn last_owners(known: &LastOwners, members: &[(&Name, MemberDiff)]) -> (Option<LastOwners>, usize) {
    if members.iter().all(|(_, change)| change.revoked.0.is_empty() && change.assigned.0.is_empty()) {
        return (None, 0);
    }
    let mut freed = known.clone();
    for (id, change) in members {
        for (name, partitions) in &change.revoked.0 {
            let free = freed.entry((*name).clone()).or_default();
            free.extend(partitions.iter().map(|&partition| (partition, (*id).clone())));
        }
    }
    let mut moved = 0;
    for (id, change) in members {
        for (name, partitions) in &change.assigned.0 {
            let Some(free) = freed.get_mut(*name) else { continue };
            let owners = partitions.iter().filter_map(|partition| free.swap_remove(partition));
            moved += owners.filter(|owner| owner != *id).count();
        }
    }
    freed.retain(|_, owners| !owners.is_empty());
    (Some(freed), moved)
}

/// Partitions of subscribed topics that no one owns.
fn unassigned(state: &State) -> Lists<'_> {
    let mut found = Pairs(Vec::new());
    let Some(first) = state.members.first() else { return found };
    let mut names: Vec<&Name> = first.topics.iter().collect();
    names.sort();
    for name in names {
        let mut taken = vec![false; state.topics.get(name).map_or(0, |topic| topic.partitions as usize)];
        let lists = state.members.iter().filter_map(|member| member.owned.get(name));
        lists.flatten().for_each(|&partition| taken[partition as usize] = true);
        let free: Vec<u32> = (0u32..).zip(&taken).filter(|(_, taken)| !**taken).map(|(p, _)| p).collect();
        if !free.is_empty() {
            found.0.push((name, Cow::Owned(free)));
        }
    }
    found
}

/// The value of the compacted topic.
pub fn latest(state: &State, group_id: &str) -> Option<Vec<u8>> {
    serde_json::to_vec(&LatestAssignment {
        group_id,
        protocol: &state.protocol,
        assignor: state.assignor.as_deref(),
        generation: state.generation,
        group_epoch: None,
        timestamp: state.timestamp,
        members: Pairs(state.members.iter().map(|member| (&member.member_id, &*member.owned)).collect()),
    })
    .ok()
}
