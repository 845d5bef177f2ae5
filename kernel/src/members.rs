//! The members of a round, read from Python or known from the round before: all alike, or declined.

use std::borrow::Cow;
use std::rc::Rc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use rustc_hash::FxHashSet;

use crate::assign::{Owners, NO_ONE};
use crate::json::{ending, key};
use crate::known::{called, Known, Member, Topics};

/// A member that is not in the group any more, and what it owned: topics by name, and by place where they count.
pub struct Gone<'py> {
    pub id: Bound<'py, PyString>,
    /// Its id as a JSON key.
    pub key: Vec<u8>,
    /// What it is called, as the end of its JSON.
    pub names: Cow<'static, [u8]>,
    pub owned: Vec<(Bound<'py, PyString>, Option<usize>, Vec<u32>)>,
}

pub struct Members<'py> {
    pub topics: Rc<Topics>,
    pub present: Vec<Rc<Member>>,
    pub gone: Vec<Gone<'py>>,
    /// Who owned each partition before: a place in `present`, or behind it in `gone`.
    pub owners: Owners,
}

/// Go on with what there is, or decline.
macro_rules! some {
    ($option:expr) => {
        match $option {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

impl<'py> Members<'py> {
    pub fn read(
        known: &mut Known,
        topics: &Bound<'py, PyDict>,
        members: &Bound<'py, PyTuple>,
        past: &Bound<'py, PyTuple>,
        before: &Bound<'py, PyDict>,
    ) -> PyResult<Option<Self>> {
        if members.is_empty() {
            return Ok(None);
        }
        let topics = some!(known.topics(topics, &members.get_item(0)?)?);
        let owners = topics.list.iter().map(|topic| vec![NO_ONE; topic.count]).collect();
        let mut group = Members { topics, present: Vec::with_capacity(members.len()), gone: vec![], owners };
        for object in members {
            let member = some!(known.member(&object, &group.topics)?);
            let owned = some!(before.get_item(&member.identity.id)?);
            if !group.take(&member, &owned)? {
                return Ok(None);
            }
            group.present.push(member);
        }
        Ok((group.instances_differ() && group.read_gone(known, before, past)?).then_some(group))
    }

    pub fn ids(&self) -> Vec<&str> {
        self.present.iter().map(|member| member.identity.text.as_str()).collect()
    }

    pub fn instances(&self) -> Vec<Option<&str>> {
        self.present.iter().map(|member| member.identity.instance.as_deref()).collect()
    }

    /// No owner anywhere.
    pub fn nobody(&self) -> Owners {
        self.topics.list.iter().map(|topic| vec![NO_ONE; topic.count]).collect()
    }

    /// Who owned each partition, of those that are present.
    pub fn present_owners(&self) -> Owners {
        let here = |&owner: &usize| if owner < self.present.len() { owner } else { NO_ONE };
        self.owners.iter().map(|parts| parts.iter().map(here).collect()).collect()
    }

    /// Enter what the next member owned; whether it is the group's, and nobody else's.
    fn take(&mut self, member: &Member, owned: &Bound<'py, PyAny>) -> PyResult<bool> {
        let (place, read);
        let spots = if member.owns(owned) {
            &member.spots
        } else {
            let Some(spots) = self.topics.spots(owned.downcast()?)? else { return Ok(false) };
            read = spots;
            &read
        };
        place = self.present.len();
        let owners = &mut self.owners;
        Ok(spots.iter().all(|&(topic, partition)| {
            std::mem::replace(&mut owners[topic as usize][partition as usize], place) == NO_ONE
        }))
    }

    /// Who is gone: whom `before` has beside the members, who stand there in their order. Whether that is so.
    fn read_gone(
        &mut self,
        known: &Known,
        before: &Bound<'py, PyDict>,
        past: &Bound<'py, PyTuple>,
    ) -> PyResult<bool> {
        let mut seen = 0;
        for (id, owned) in before {
            let id = id.downcast_into::<PyString>()?;
            if self.present.get(seen).is_some_and(|member| {
                member.identity.id.as_ptr() == id.as_ptr() || member.identity.text == text(&id)
            }) {
                seen += 1;
                continue;
            }
            let place = self.present.len() + self.gone.len();
            let mut share = Vec::new();
            for (name, partitions) in owned.downcast_into::<PyDict>()? {
                let name = name.downcast_into::<PyString>()?;
                let topic = self.topics.rank(text(&name));
                let mut numbers = Vec::new();
                let fits = ascending(partitions.downcast()?, |partition| {
                    numbers.push(partition);
                    let owner = topic.and_then(|topic| self.owners[topic].get_mut(partition as usize));
                    owner.is_none_or(|owner| std::mem::replace(owner, place) == NO_ONE)
                })?;
                if !fits {
                    return Ok(false);
                }
                share.push((name, topic, numbers));
            }
            let names = names(known, past, &id)?;
            self.gone.push(Gone { key: key(text(&id)), id, names, owned: share });
        }
        Ok(seen == self.present.len())
    }

    /// Whether nobody has another's instance id.
    fn instances_differ(&self) -> bool {
        let mut instances = FxHashSet::default();
        self.present
            .iter()
            .filter_map(|member| member.identity.instance.as_ref())
            .all(|name| instances.insert(name))
    }
}

/// What a member was called that is gone, as the end of its JSON; no names where `past` does not have it.
fn names(known: &Known, past: &Bound<'_, PyTuple>, id: &Bound<'_, PyString>) -> PyResult<Cow<'static, [u8]>> {
    for member in past {
        let is_it = match known.find(&member) {
            Some(known) => known.identity.text == text(id),
            None => member.getattr(intern!(id.py(), "member_id"))?.eq(id)?,
        };
        if is_it {
            return Ok(called(&member)?.0);
        }
    }
    Ok(ending(&[None; 3]))
}

/// Hand on each partition while it is taken; whether all were, at least one and ascending.
pub fn ascending(list: &Bound<'_, PyList>, mut take: impl FnMut(u32) -> bool) -> PyResult<bool> {
    let mut last = None;
    for partition in list {
        let partition: u32 = partition.extract()?;
        if last.replace(partition).is_some_and(|before| before >= partition) || !take(partition) {
            return Ok(false);
        }
    }
    Ok(last.is_some())
}

/// Strings that were read as UTF-8 already.
pub fn text<'a>(string: &'a Bound<'_, PyString>) -> &'a str {
    string.to_str().unwrap_or("")
}
