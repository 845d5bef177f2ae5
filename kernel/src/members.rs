//! The members of a round, read from Python: all alike, or declined.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use rustc_hash::FxHashSet;

use crate::assign::{Owners, NO_ONE};

pub struct Topic<'py> {
    pub name: Bound<'py, PyString>,
    pub count: usize,
}

/// What a member is called; None where that is not known.
#[derive(Default)]
pub struct Names<'py> {
    pub client_id: Option<Bound<'py, PyString>>,
    pub client_host: Option<Bound<'py, PyString>>,
    pub instance_id: Option<Bound<'py, PyString>>,
}

impl<'py> Names<'py> {
    fn of(member: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = member.py();
        let read = |name| -> PyResult<Option<Bound<'py, PyString>>> {
            let value: Bound<'py, PyAny> = member.getattr(name)?;
            Ok(if value.is_none() { None } else { Some(value.downcast_into()?) })
        };
        Ok(Names {
            client_id: read(intern!(py, "client_id"))?,
            client_host: read(intern!(py, "client_host"))?,
            instance_id: read(intern!(py, "instance_id"))?,
        })
    }
}

pub struct Member<'py> {
    pub id: Bound<'py, PyString>,
    pub names: Names<'py>,
}

/// A member that is not in the group any more, and what it owned: topics by name, and by place where they count.
pub struct Gone<'py> {
    pub id: Bound<'py, PyString>,
    pub names: Names<'py>,
    pub owned: Vec<(Bound<'py, PyString>, Option<usize>, Vec<u32>)>,
}

pub struct Members<'py> {
    /// Subscribed to and with metadata, by name.
    pub topics: Vec<Topic<'py>>,
    pub present: Vec<Member<'py>>,
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
        topics: &Bound<'py, PyDict>,
        members: &Bound<'py, PyTuple>,
        past: &Bound<'py, PyTuple>,
        before: &Bound<'py, PyDict>,
    ) -> PyResult<Option<Self>> {
        let py = topics.py();
        if members.is_empty() {
            return Ok(None);
        }
        let subscription = members.get_item(0)?.getattr(intern!(py, "topics"))?;
        let topics = some!(counted(topics, subscription.downcast::<PyList>()?)?);
        let owners = topics.iter().map(|topic| vec![NO_ONE; topic.count]).collect();
        let mut group = Members { topics, present: Vec::with_capacity(members.len()), gone: vec![], owners };
        for member in members {
            let alike = member.getattr(intern!(py, "topics"))?.eq(&subscription)?
                && member.getattr(intern!(py, "rack_id"))?.is_none();
            let id = member.getattr(intern!(py, "member_id"))?.downcast_into::<PyString>()?;
            let owned = some!(before.get_item(&id)?);
            if !alike || !group.take(owned.downcast::<PyDict>()?)? {
                return Ok(None);
            }
            group.present.push(Member { id, names: Names::of(&member)? });
        }
        Ok((group.sorts_alike() && group.read_gone(before, past)?).then_some(group))
    }

    pub fn ids(&self) -> Vec<&str> {
        self.present.iter().map(|member| text(&member.id)).collect()
    }

    pub fn instances(&self) -> Vec<Option<&str>> {
        self.present.iter().map(|member| member.names.instance_id.as_ref().map(text)).collect()
    }

    /// No owner anywhere.
    pub fn nobody(&self) -> Owners {
        self.topics.iter().map(|topic| vec![NO_ONE; topic.count]).collect()
    }

    /// Who owned each partition, of those that are present.
    pub fn present_owners(&self) -> Owners {
        let here = |&owner: &usize| if owner < self.present.len() { owner } else { NO_ONE };
        self.owners.iter().map(|parts| parts.iter().map(here).collect()).collect()
    }

    fn rank(&self, name: &str) -> Option<usize> {
        self.topics.binary_search_by(|topic| text(&topic.name).cmp(name)).ok()
    }

    /// Enter what the next member owned; whether it is the group's, nobody else's, and in our order.
    fn take(&mut self, owned: &Bound<'py, PyDict>) -> PyResult<bool> {
        let place = self.present.len();
        let mut last = None;
        for (name, partitions) in owned {
            let Some(topic) = self.rank(text(name.downcast()?)) else { return Ok(false) };
            let fits = last.replace(topic).is_none_or(|before| before < topic)
                && ascending(partitions.downcast()?, |partition| {
                    let owner = self.owners[topic].get_mut(partition as usize);
                    owner.is_some_and(|owner| std::mem::replace(owner, place) == NO_ONE)
                })?;
            if !fits {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Who is gone: whom `before` has beside the members, who stand there in their order. Whether that is so.
    fn read_gone(&mut self, before: &Bound<'py, PyDict>, past: &Bound<'py, PyTuple>) -> PyResult<bool> {
        let mut seen = 0;
        for (id, owned) in before {
            let id = id.downcast_into::<PyString>()?;
            if self.present.get(seen).is_some_and(|member| text(&member.id) == text(&id)) {
                seen += 1;
                continue;
            }
            let place = self.present.len() + self.gone.len();
            let mut share = Vec::new();
            for (name, partitions) in owned.downcast_into::<PyDict>()? {
                let name = name.downcast_into::<PyString>()?;
                let topic = self.rank(text(&name));
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
            let names = named(past, &id)?;
            self.gone.push(Gone { id, names, owned: share });
        }
        Ok(seen == self.present.len())
    }

    /// Whether ids sort alike in Java and here, and nobody has another's instance id.
    fn sorts_alike(&self) -> bool {
        let mut instances = FxHashSet::default();
        self.present.iter().all(|member| {
            let instance = member.names.instance_id.as_ref().map(text);
            text(&member.id).is_ascii()
                && instance.is_none_or(|name| name.is_ascii() && instances.insert(name))
        })
    }
}

/// What a member was called that is gone; no names where `past` does not have it.
fn named<'py>(past: &Bound<'py, PyTuple>, id: &Bound<'py, PyString>) -> PyResult<Names<'py>> {
    for member in past {
        if member.getattr(intern!(id.py(), "member_id"))?.eq(id)? {
            return Names::of(&member);
        }
    }
    Ok(Names::default())
}

/// The topics that count; None where names don't sort alike in Java and here, or one is named twice.
fn counted<'py>(
    topics: &Bound<'py, PyDict>,
    subscription: &Bound<'py, PyList>,
) -> PyResult<Option<Vec<Topic<'py>>>> {
    let py = topics.py();
    let mut found: Vec<Topic> = Vec::with_capacity(subscription.len());
    for name in subscription {
        let name = name.downcast_into::<PyString>()?;
        if !name.to_str()?.is_ascii() {
            return Ok(None);
        }
        let count = match topics.get_item(&name)? {
            Some(topic) => topic.getattr(intern!(py, "partitions"))?.extract()?,
            None => 0,
        };
        found.push(Topic { name, count });
    }
    found.sort_by(|a, b| text(&a.name).cmp(text(&b.name)));
    if found.windows(2).any(|pair| text(&pair[0].name) == text(&pair[1].name)) {
        return Ok(None);
    }
    found.retain(|topic| topic.count > 0);
    Ok(Some(found))
}

/// Hand on each partition while it is taken; whether all were, at least one and ascending.
fn ascending(list: &Bound<'_, PyList>, mut take: impl FnMut(u32) -> bool) -> PyResult<bool> {
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
