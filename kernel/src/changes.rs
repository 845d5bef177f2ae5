//! What a round changes: `assignors.diff` and `streaming.monitor.rounds.changes`, for groups without violations.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::assign::{Owners, NO_ONE};
use crate::json::{key, Json, Spot};
use crate::known::{Known, Member};
use crate::members::{text, Members};

/// What the diff of twenty members takes: no growing for most.
const JSON_BYTES: usize = 4096;

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
    fn members(&self) -> impl Iterator<Item = (&Rc<Member>, &[Spot], &[Spot])> {
        let share = |place| (self.before.share(place), self.after.share(place));
        self.group.present.iter().enumerate().map(move |(place, member)| {
            let (had, has) = share(place);
            (member, had, has)
        })
    }

    /// Whether a member that stayed gave something up.
    pub fn revoked(&self) -> bool {
        let mut parts = self.group.owners.iter().flatten().zip(self.given.iter().flatten());
        parts.any(|(&before, &now)| before < self.group.present.len() && before != now)
    }

    /// The members with what they have now; those who have what they had are the same objects.
    pub fn after(&self, py: Python<'py>, known: &mut Known) -> PyResult<Bound<'py, PyTuple>> {
        let mut found = Vec::with_capacity(self.group.present.len());
        for (member, had, has) in self.members() {
            if had == has {
                found.push(member.object.bind(py).clone());
                continue;
            }
            let (object, owning) = member.owning(py, has)?;
            known.forget(member);
            known.keep(&Rc::new(owning));
            found.push(object);
        }
        PyTuple::new(py, found)
    }

    /// Partitions that nobody has, by topic.
    pub fn unassigned(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        for (topic, parts) in self.group.topics.list.iter().zip(self.given) {
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
        for (member, had, has) in self.members().filter(|(_, had, has)| had != has) {
            let id = member.identity.id.bind(py);
            let lost: Vec<Spot> =
                had.iter().copied().filter(|spot| has.binary_search(spot).is_err()).collect();
            for part in lost.chunk_by(|a, b| a.0 == b.0) {
                let topic = part[0].0 as usize;
                let owners = free(self.group.topics.list[topic].name.bind(py))?;
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
        for (place, topic) in self.group.topics.list.iter().enumerate() {
            let Some(owners) = find(topic.name.bind(py))? else { continue };
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
                    Some(last) => text(last.downcast()?) != self.group.present[now].identity.text,
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

    /// Every member's change as a JSON object by member id, those that are gone last.
    pub fn json(&self) -> Vec<u8> {
        let topics = &self.group.topics.list;
        let mut out = Json(Vec::with_capacity(JSON_BYTES));
        out.0.push(b'{');
        for (member, had, has) in self.members() {
            if had != has {
                out.changed(topics, &member.identity, had, has);
            } else if had == member.spots {
                member.kept(&mut out);
            } else {
                out.kept(topics, &member.identity, had);
            }
        }
        for member in &self.group.gone {
            let mut owned = Json::default();
            let share = member.owned.iter();
            owned.listed(share.map(|(name, _, partitions)| (key(text(name)), partitions.as_slice())));
            out.gone(&member.key, &member.names, &owned.0);
        }
        out.close();
        out.0
    }
}
