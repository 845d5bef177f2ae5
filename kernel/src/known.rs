//! Members that were read before. The state of a member never changes, a member that changes is another object: so what
//! was read of one stands for it as long as it lives, and a round reads those members that are new to it.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::rc::Rc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::GILOnceCell;
use pyo3::types::{PyDict, PyList, PyString};
use rustc_hash::FxHashMap;

use crate::json::{ending, key, Json, Spot};
use crate::members::{ascending, text};

/// How many members are remembered: those of a batch's last groups, as records come group by group.
const MOST: usize = 4096;

pub struct Topic {
    pub name: Py<PyString>,
    pub text: String,
    pub count: usize,
    /// Its name as a JSON key.
    pub key: Vec<u8>,
}

/// What a group subscribes to: topics with metadata, by name. A share's spots count by place in it.
pub struct Topics {
    /// What it was made from; kept, so that no other object has their addresses.
    metadata: Py<PyDict>,
    subscription: Py<PyList>,
    pub list: Vec<Topic>,
}

impl Topics {
    /// None where names don't sort alike in Java and here, or one is named twice.
    fn of(metadata: &Bound<'_, PyDict>, subscription: &Bound<'_, PyList>) -> PyResult<Option<Self>> {
        let py = metadata.py();
        let mut list: Vec<Topic> = Vec::with_capacity(subscription.len());
        for name in subscription {
            let name = name.downcast_into::<PyString>()?;
            let text = name.to_str()?.to_owned();
            if !text.is_ascii() {
                return Ok(None);
            }
            let count = match metadata.get_item(&name)? {
                Some(topic) => topic.getattr(intern!(py, "partitions"))?.extract()?,
                None => 0,
            };
            let key = key(&text);
            list.push(Topic { name: name.unbind(), text, count, key });
        }
        list.sort_by(|a, b| a.text.cmp(&b.text));
        if list.windows(2).any(|pair| pair[0].text == pair[1].text) {
            return Ok(None);
        }
        list.retain(|topic| topic.count > 0);
        let (metadata, subscription) = (metadata.clone().unbind(), subscription.clone().unbind());
        Ok(Some(Topics { metadata, subscription, list }))
    }

    pub fn rank(&self, name: &str) -> Option<usize> {
        self.list.binary_search_by(|topic| topic.text.as_str().cmp(name)).ok()
    }

    /// What a member owns, where that is the group's and in our order.
    pub fn spots(&self, owned: &Bound<'_, PyDict>) -> PyResult<Option<Vec<Spot>>> {
        let (mut spots, mut last) = (Vec::new(), None);
        for (name, partitions) in owned {
            let Some(topic) = self.rank(text(name.downcast()?)) else { return Ok(None) };
            let fits = last.replace(topic).is_none_or(|before| before < topic)
                && ascending(partitions.downcast()?, |partition| {
                    spots.push((topic as u32, partition));
                    (partition as usize) < self.list[topic].count
                })?;
            if !fits {
                return Ok(None);
            }
        }
        Ok(Some(spots))
    }

    /// A share in lists by topic.
    pub fn share<'py>(&self, py: Python<'py>, spots: &[Spot]) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        for part in spots.chunk_by(|a, b| a.0 == b.0) {
            let partitions = PyList::new(py, part.iter().map(|spot| spot.1))?;
            found.set_item(&self.list[part[0].0 as usize].name, partitions)?;
        }
        Ok(found)
    }
}

/// What does not change with what a member owns.
pub struct Identity {
    pub id: Py<PyString>,
    pub text: String,
    pub instance: Option<String>,
    /// Its id as a JSON key.
    pub key: Vec<u8>,
    /// What it is called, as the end of its JSON.
    pub names: Cow<'static, [u8]>,
}

pub struct Member {
    pub object: Py<PyAny>,
    pub identity: Rc<Identity>,
    topics: Rc<Topics>,
    owned: Py<PyDict>,
    pub spots: Vec<Spot>,
    /// Its JSON in a round that changes nothing for it.
    kept: OnceCell<Vec<u8>>,
}

impl Member {
    /// A member of a group that subscribes to `topics`; None where it has other topics, a rack or an odd share.
    fn read(object: &Bound<'_, PyAny>, topics: &Rc<Topics>) -> PyResult<Option<Self>> {
        let py = object.py();
        let own = object.getattr(intern!(py, "topics"))?;
        let subscription = topics.subscription.bind(py);
        if !(own.is(subscription) || own.eq(subscription)?)
            || !object.getattr(intern!(py, "rack_id"))?.is_none()
        {
            return Ok(None);
        }
        let owned = object.getattr(intern!(py, "owned"))?.downcast_into::<PyDict>()?;
        let Some(spots) = topics.spots(&owned)? else { return Ok(None) };
        let id = object.getattr(intern!(py, "member_id"))?.downcast_into::<PyString>()?;
        let (names, instance) = called(object)?;
        let text = text(&id).to_owned();
        if !(text.is_ascii() && instance.as_ref().is_none_or(|name| name.is_ascii())) {
            return Ok(None);
        }
        let identity = Rc::new(Identity { key: key(&text), id: id.unbind(), text, instance, names });
        let (object, owned) = (object.clone().unbind(), owned.unbind());
        Ok(Some(Member { object, identity, topics: topics.clone(), owned, spots, kept: OnceCell::new() }))
    }

    /// The member with another share, as an object of Python's and as it is known here.
    pub fn owning<'py>(&self, py: Python<'py>, spots: &[Spot]) -> PyResult<(Bound<'py, PyAny>, Self)> {
        static REPLACE: GILOnceCell<Py<PyAny>> = GILOnceCell::new();
        let replace = REPLACE.import(py, "msgspec.structs", "replace")?;
        let owned = self.topics.share(py, spots)?;
        let fields = PyDict::new(py);
        fields.set_item(intern!(py, "owned"), &owned)?;
        let object = replace.call((&self.object,), Some(&fields))?;
        let member = Member {
            object: object.clone().unbind(),
            identity: self.identity.clone(),
            topics: self.topics.clone(),
            owned: owned.unbind(),
            spots: spots.to_vec(),
            kept: OnceCell::new(),
        };
        Ok((object, member))
    }

    /// Whether this is the very share of its state.
    pub fn owns(&self, owned: &Bound<'_, PyAny>) -> bool {
        self.owned.as_ptr() == owned.as_ptr()
    }

    /// Its JSON where nothing changes for it, from what it owns.
    pub fn kept(&self, out: &mut Json) {
        if let Some(known) = self.kept.get() {
            out.0.extend_from_slice(known);
            return;
        }
        let start = out.0.len();
        out.kept(&self.topics.list, &self.identity, &self.spots);
        // Nobody else has set it: a round is played by one thread.
        let _ = self.kept.set(out.0[start..].to_vec());
    }
}

/// What a member is called, as the end of its JSON; and its instance id.
pub fn called(member: &Bound<'_, PyAny>) -> PyResult<(Cow<'static, [u8]>, Option<String>)> {
    let py = member.py();
    let read = |name| -> PyResult<Option<String>> {
        let value: Bound<'_, PyAny> = member.getattr(name)?;
        Ok(if value.is_none() { None } else { Some(text(value.downcast()?).to_owned()) })
    };
    let (client_id, client_host) = (read(intern!(py, "client_id"))?, read(intern!(py, "client_host"))?);
    let instance = read(intern!(py, "instance_id"))?;
    Ok((ending(&[client_id.as_deref(), client_host.as_deref(), instance.as_deref()]), instance))
}

/// What is known, by the addresses of what it was read from.
#[derive(Default)]
pub struct Known(FxHashMap<usize, Rc<Member>>);

thread_local! {
    static KNOWN: Cell<Known> = Cell::default();
}

impl Known {
    /// Taken while a round is played: whoever plays another in the middle of it begins with nothing.
    pub fn take() -> Known {
        KNOWN.take()
    }

    pub fn put_back(self) {
        KNOWN.set(self);
    }

    pub fn find(&self, object: &Bound<'_, PyAny>) -> Option<&Rc<Member>> {
        self.0.get(&(object.as_ptr() as usize))
    }

    pub fn keep(&mut self, member: &Rc<Member>) {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.insert(member.object.as_ptr() as usize, member.clone());
    }

    pub fn forget(&mut self, member: &Member) {
        self.0.remove(&(member.object.as_ptr() as usize));
    }

    /// The topics of a group, by its first member; None where native code has no answer.
    pub fn topics(
        &self,
        metadata: &Bound<'_, PyDict>,
        first: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Rc<Topics>>> {
        if let Some(member) = self.find(first) {
            if member.topics.metadata.as_ptr() == metadata.as_ptr() {
                return Ok(Some(member.topics.clone()));
            }
        }
        let subscription = first.getattr(intern!(first.py(), "topics"))?;
        Ok(Topics::of(metadata, subscription.downcast()?)?.map(Rc::new))
    }

    /// A member of a group of these topics; None where native code has no answer.
    pub fn member(&mut self, object: &Bound<'_, PyAny>, topics: &Rc<Topics>) -> PyResult<Option<Rc<Member>>> {
        if let Some(member) = self.find(object).filter(|member| Rc::ptr_eq(&member.topics, topics)) {
            return Ok(Some(member.clone()));
        }
        let Some(member) = Member::read(object, topics)? else { return Ok(None) };
        let member = Rc::new(member);
        self.keep(&member);
        Ok(Some(member))
    }
}
