//! What a round changes: `assignors.diff` and `streaming.monitor.rounds.changes`, for groups without violations.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::assign::{Owners, NO_ONE};
use crate::members::{text, Members, Names};

/// What the diff of twenty members takes: no growing for most.
const JSON_BYTES: usize = 4096;

/// A topic by place, and a partition.
type Spot = (u32, u32);

/// Who has what, in order, one member after the other.
struct Shares {
    ends: Vec<usize>,
    spots: Vec<Spot>,
}

impl Shares {
    fn of(owners: &Owners, members: usize) -> Shares {
        let mut ends = vec![0; members + 1];
        for &owner in owners.iter().flatten().filter(|&&owner| owner < members) {
            ends[owner + 1] += 1;
        }
        for place in 0..members {
            ends[place + 1] += ends[place];
        }
        let mut spots = vec![(0, 0); ends[members]];
        let mut next = ends.clone();
        for (topic, parts) in (0u32..).zip(owners) {
            for (partition, &owner) in (0u32..).zip(parts).filter(|(_, &owner)| owner < members) {
                spots[next[owner]] = (topic, partition);
                next[owner] += 1;
            }
        }
        Shares { ends, spots }
    }

    fn share(&self, place: usize) -> &[Spot] {
        &self.spots[self.ends[place]..self.ends[place + 1]]
    }
}

pub struct Changes<'a, 'py> {
    group: &'a Members<'py>,
    given: &'a Owners,
    before: Shares,
    after: Shares,
}

impl<'a, 'py> Changes<'a, 'py> {
    pub fn of(group: &'a Members<'py>, given: &'a Owners) -> Self {
        let members = group.present.len();
        let (before, after) = (Shares::of(&group.owners, members), Shares::of(given, members));
        Changes { group, given, before, after }
    }

    /// What every member that is present had and has.
    fn members(&self) -> impl Iterator<Item = (&Bound<'py, PyString>, &[Spot], &[Spot])> {
        let share = |place| (self.before.share(place), self.after.share(place));
        self.group.present.iter().enumerate().map(move |(place, member)| {
            let (had, has) = share(place);
            (&member.id, had, has)
        })
    }

    /// Whether a member that stayed gave something up.
    pub fn revoked(&self) -> bool {
        let mut parts = self.group.owners.iter().flatten().zip(self.given.iter().flatten());
        parts.any(|(&before, &now)| before < self.group.present.len() && before != now)
    }

    /// What each member has now, in lists by topic, by its place; those who have what they had are left out.
    pub fn shares(&self, py: Python<'py>) -> PyResult<Vec<(usize, Bound<'py, PyDict>)>> {
        let dict = |has: &[Spot]| -> PyResult<Bound<'py, PyDict>> {
            let found = PyDict::new(py);
            for part in has.chunk_by(|a, b| a.0 == b.0) {
                let partitions = PyList::new(py, part.iter().map(|spot| spot.1))?;
                found.set_item(&self.group.topics[part[0].0 as usize].name, partitions)?;
            }
            Ok(found)
        };
        let changed = self.members().enumerate().filter(|(_, (_, had, has))| had != has);
        changed.map(|(place, (_, _, has))| Ok((place, dict(has)?))).collect()
    }

    /// Partitions that nobody has, by topic.
    pub fn unassigned(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        for (topic, parts) in self.group.topics.iter().zip(self.given) {
            if parts.contains(&NO_ONE) {
                let free = parts.iter().enumerate().filter(|(_, &owner)| owner == NO_ONE);
                found.set_item(&topic.name, free.map(|(partition, _)| partition).collect::<Vec<_>>())?;
            }
        }
        Ok(found)
    }

    /// The last owners of what is free after the round, and the partitions that another member got.
    pub fn last_owners(
        &self,
        py: Python<'py>,
        known: &Bound<'py, PyDict>,
    ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
        let freed = PyDict::new(py);
        for (name, owners) in known {
            freed.set_item(name, owners.downcast::<PyDict>()?.copy()?)?;
        }
        let find = |name: &Bound<'py, PyString>| -> PyResult<Option<Bound<'py, PyDict>>> {
            Ok(freed.get_item(name)?.map(|owners| owners.downcast_into()).transpose()?)
        };
        let free = |name: &Bound<'py, PyString>| -> PyResult<Bound<'py, PyDict>> {
            if let Some(owners) = find(name)? {
                return Ok(owners);
            }
            let owners = PyDict::new(py);
            freed.set_item(name, &owners)?;
            Ok(owners)
        };
        // What goes from one member to another in this round is free in between for no one to see, but a topic that
        // is new here comes with the first that gives some of it up.
        for (id, had, has) in self.members().filter(|(_, had, has)| had != has) {
            let lost: Vec<Spot> =
                had.iter().copied().filter(|spot| has.binary_search(spot).is_err()).collect();
            for part in lost.chunk_by(|a, b| a.0 == b.0) {
                let topic = part[0].0 as usize;
                let owners = free(&self.group.topics[topic].name)?;
                for (_, partition) in part {
                    if self.given[topic][*partition as usize] == NO_ONE {
                        owners.set_item(partition, id)?;
                    }
                }
            }
        }
        for member in &self.group.gone {
            for (name, topic, partitions) in &member.owned {
                let owners = free(name)?;
                for partition in partitions {
                    let now = topic.and_then(|topic| self.given[topic].get(*partition as usize));
                    if now.is_none_or(|&owner| owner == NO_ONE) {
                        owners.set_item(partition, &member.id)?;
                    }
                }
            }
        }
        let moves = PyDict::new(py);
        for (place, topic) in self.group.topics.iter().enumerate() {
            let Some(owners) = find(&topic.name)? else { continue };
            let mut moved = Vec::new();
            let parts = self.group.owners[place].iter().zip(&self.given[place]).enumerate();
            for (partition, (&before, &now)) in
                parts.filter(|(_, (before, now))| before != now && **now != NO_ONE)
            {
                let last = if owners.is_empty() { None } else { owners.get_item(partition)? };
                if last.is_some() {
                    owners.del_item(partition)?;
                }
                let another = match last {
                    _ if before != NO_ONE => true,
                    Some(last) => text(last.downcast()?) != text(&self.group.present[now].id),
                    None => false,
                };
                if another {
                    moved.push(partition);
                }
            }
            if !moved.is_empty() {
                moves.set_item(&topic.name, moved)?;
            }
        }
        for (name, owners) in freed.iter().collect::<Vec<_>>() {
            if owners.is_empty()? {
                freed.del_item(name)?;
            }
        }
        Ok((freed, moves))
    }

    /// Every member's change as a JSON object by member id, those that are gone last: `assignors.diff.diff`.
    pub fn json(&self) -> Vec<u8> {
        let names: Vec<Vec<u8>> = self.group.topics.iter().map(|topic| key(text(&topic.name))).collect();
        let mut out = Json(Vec::with_capacity(JSON_BYTES));
        out.0.push(b'{');
        for ((id, had, has), member) in self.members().zip(&self.group.present) {
            let topic_of =
                |share: &[Spot], spot: &Spot| share.binary_search_by_key(&spot.0, |other| other.0).is_ok();
            let part = |share: &[Spot], keep: &dyn Fn(&Spot) -> bool| -> Vec<Spot> {
                share.iter().copied().filter(|spot| keep(spot)).collect()
            };
            out.0.extend_from_slice(&key(text(id)));
            out.0.extend_from_slice(b"{\"owned\":");
            let start = out.0.len();
            out.share(&names, had);
            if had == has {
                out.0.extend_from_slice(b",\"revoked\":{},\"assigned\":{},\"kept\":");
                out.0.extend_from_within(start..start + (out.0.len() - start - EMPTY));
            } else {
                let new = |spot: &Spot| had.binary_search(spot).is_err();
                let mut assigned = part(has, &|spot| new(spot) && topic_of(had, spot));
                assigned.extend(part(has, &|spot| !topic_of(had, spot)));
                out.0.extend_from_slice(b",\"revoked\":");
                out.share(&names, &part(had, &|spot| has.binary_search(spot).is_err()));
                out.0.extend_from_slice(b",\"assigned\":");
                out.share(&names, &assigned);
                out.0.extend_from_slice(b",\"kept\":");
                out.share(&names, &part(had, &|spot| has.binary_search(spot).is_ok()));
            }
            out.0.extend_from_slice(b",\"present\":true");
            out.names(&member.names);
        }
        for member in &self.group.gone {
            let names: Vec<Vec<u8>> = member.owned.iter().map(|(name, _, _)| key(text(name))).collect();
            let owned: Vec<Spot> = (0u32..)
                .zip(&member.owned)
                .flat_map(|(place, (_, _, partitions))| partitions.iter().map(move |&p| (place, p)))
                .collect();
            out.0.extend_from_slice(&key(text(&member.id)));
            out.0.extend_from_slice(b"{\"owned\":");
            out.share(&names, &owned);
            out.0.extend_from_slice(b",\"revoked\":");
            out.share(&names, &owned);
            out.0.extend_from_slice(b",\"assigned\":{},\"kept\":{},\"present\":false");
            out.names(&member.names);
        }
        out.close();
        out.0
    }
}

/// Bytes of what a member without changes has between `owned` and `kept`.
const EMPTY: usize = b",\"revoked\":{},\"assigned\":{},\"kept\":".len();

/// A name as a JSON key, with its colon.
fn key(name: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len() + 3);
    serde_json::to_writer(&mut out, name).expect("memory takes all");
    out.push(b':');
    out
}

/// JSON under construction: each entry ends with a comma, which closing an object takes back.
struct Json(Vec<u8>);

impl Json {
    fn close(&mut self) {
        if self.0.last() == Some(&b',') {
            self.0.pop();
        }
        self.0.push(b'}');
    }

    /// What a member is called, and its end.
    fn names(&mut self, names: &Names) {
        for (field, name) in [
            (&b",\"clientId\":"[..], &names.client_id),
            (&b",\"clientHost\":"[..], &names.client_host),
            (&b",\"groupInstanceId\":"[..], &names.instance_id),
        ] {
            self.0.extend_from_slice(field);
            serde_json::to_writer(&mut self.0, &name.as_ref().map(text)).expect("memory takes all");
        }
        self.0.extend_from_slice(b"},");
    }

    fn share(&mut self, names: &[Vec<u8>], share: &[Spot]) {
        self.0.push(b'{');
        for part in share.chunk_by(|a, b| a.0 == b.0) {
            self.0.extend_from_slice(&names[part[0].0 as usize]);
            self.0.push(b'[');
            for spot in part {
                serde_json::to_writer(&mut self.0, &spot.1).expect("memory takes all");
                self.0.push(b',');
            }
            self.0.pop();
            self.0.extend_from_slice(b"],");
        }
        self.close();
    }
}
