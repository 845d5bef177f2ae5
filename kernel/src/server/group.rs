//! A group as the coordinator hands it to an assignor: `assignors.consumer.group`, in numbers.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::java::{hash_order, set_capacity, string_hash, uuid_bits, uuid_hash};
use crate::text;

pub struct Topic<'py> {
    pub object: Bound<'py, PyAny>,
    pub name: Bound<'py, PyString>,
    /// 0: without metadata.
    pub partitions: u32,
    pub id: Option<u128>,
}

/// A member's subscription; equal ones are one.
pub struct Bucket<'py> {
    pub names: Bound<'py, PyTuple>,
    /// Those with metadata, in the order of their names.
    pub topics: Vec<u32>,
    /// The same, a bit a topic.
    heard: Vec<u64>,
}

impl Bucket<'_> {
    pub fn hears(&self, topic: u32) -> bool {
        self.heard[topic as usize / 64] >> (topic % 64) & 1 == 1
    }
}

pub struct Group<'py> {
    pub topics: Vec<Topic<'py>>,
    by_name: Bound<'py, PyDict>,
    /// By address: names that were met, and Python's topics. All live as long as the call.
    by_object: FxHashMap<usize, u32>,
    /// By place: in the order in which Python has them.
    pub members: Vec<Member<'py>>,
    /// By number, which is what the arithmetic knows: the member's place.
    pub order: Vec<u32>,
    pub buckets: Vec<Bucket<'py>>,
}

#[derive(Clone)]
pub struct Member<'py> {
    pub object: Bound<'py, PyAny>,
    pub id: Bound<'py, PyString>,
    pub bucket: u32,
}

/// The subscribers of `topics`: ascending numbers. `alone`: none of them subscribes to any other topic.
pub struct Audience {
    pub members: Vec<u32>,
    pub topics: Vec<u32>,
    pub alone: bool,
}

impl<'py> Group<'py> {
    /// The group; None where Python must look closer. `ids`: topics with metadata must have Uuids.
    pub fn read(
        topics: &Bound<'py, PyAny>,
        members: &Bound<'py, PyAny>,
        ids: bool,
    ) -> PyResult<Option<Self>> {
        let listed = members.downcast::<PyTuple>().map(PyTupleMethods::to_list);
        let members = listed.as_ref().or_else(|_| members.downcast::<PyList>());
        let (Ok(topics), Ok(members)) = (topics.downcast::<PyDict>(), members) else { return Ok(None) };
        let mut group = Group {
            topics: Vec::with_capacity(topics.len()),
            by_name: topics.clone(),
            by_object: FxHashMap::with_capacity_and_hasher(3 * topics.len(), FxBuildHasher),
            members: Vec::with_capacity(members.len()),
            order: (0..members.len() as u32).collect(),
            buckets: Vec::new(),
        };
        Ok((!members.is_empty() && group.read_topics(topics, ids)? && group.read_members(members)?)
            .then_some(group))
    }

    fn read_topics(&mut self, topics: &Bound<'py, PyDict>, with_ids: bool) -> PyResult<bool> {
        let py = topics.py();
        let mut ids = FxHashSet::with_capacity_and_hasher(topics.len(), FxBuildHasher);
        for (name, topic) in topics {
            let Ok(name) = name.downcast_into_exact::<PyString>() else { return Ok(false) };
            let partitions = topic.getattr(intern!(py, "partitions"))?.extract::<u32>();
            let Ok(partitions) = partitions else { return Ok(false) };
            let id = topic.getattr(intern!(py, "topic_id"))?.downcast_into::<PyString>().ok();
            let id = match id.filter(|_| with_ids) {
                Some(printed) => match uuid_bits(printed.to_str()?) {
                    Some(bits) if ids.insert(bits) => Some(bits),
                    _ => return Ok(false),
                },
                None if with_ids && partitions > 0 => return Ok(false),
                None => None,
            };
            let Ok(text) = name.to_str() else { return Ok(false) };
            if !text.is_ascii() {
                return Ok(false);
            }
            let number = self.topics.len() as u32;
            self.by_object.insert(name.as_ptr() as usize, number);
            self.by_object.insert(topic.as_ptr() as usize, number);
            self.topics.push(Topic { object: topic, name, partitions, id });
        }
        Ok(true)
    }

    fn read_members(&mut self, members: &Bound<'py, PyList>) -> PyResult<bool> {
        let py = members.py();
        // The same tuple again and again, or an equal one: Python compares those.
        let mut last = (0, 0);
        let mut by_object: FxHashMap<usize, u32> = FxHashMap::default();
        let equal = PyDict::new(py);
        for object in members {
            let id = object.getattr(intern!(py, "member_id"))?.downcast_into_exact::<PyString>();
            let names = object.getattr(intern!(py, "topics"))?.downcast_into_exact::<PyTuple>();
            let (Ok(id), Ok(names)) = (id, names) else { return Ok(false) };
            let address = names.as_ptr() as usize;
            if address != last.0 {
                let bucket = match by_object.get(&address) {
                    Some(&bucket) => bucket,
                    None => match self.subscription(&equal, names)? {
                        Some(bucket) => bucket,
                        None => return Ok(false),
                    },
                };
                by_object.insert(address, bucket);
                last = (address, bucket);
            }
            self.members.push(Member { object, id, bucket: last.1 });
        }
        Ok(true)
    }

    /// The bucket of these names, a new one if there is none yet.
    fn subscription(
        &mut self,
        equal: &Bound<'py, PyDict>,
        names: Bound<'py, PyTuple>,
    ) -> PyResult<Option<u32>> {
        if let Some(known) = equal.get_item(&names)? {
            return Ok(Some(known.extract()?));
        }
        let heard = vec![0; self.topics.len().div_ceil(64)];
        let mut bucket = Bucket { names: names.clone(), topics: Vec::with_capacity(names.len()), heard };
        for name in &names {
            let Ok(name) = name.downcast_exact::<PyString>() else { return Ok(None) };
            let Some(topic) = self.topic(name) else { continue };
            if self.topics[topic as usize].partitions > 0 && !bucket.hears(topic) {
                bucket.heard[topic as usize / 64] |= 1 << (topic % 64);
                bucket.topics.push(topic);
                self.by_object.insert(name.as_ptr() as usize, topic);
            }
        }
        let number = self.buckets.len() as u32;
        equal.set_item(&names, number)?;
        self.buckets.push(bucket);
        Ok(Some(number))
    }

    /// The number of a topic.
    pub fn topic(&self, name: &Bound<'_, PyString>) -> Option<u32> {
        let known = |object: &Bound<'_, PyAny>| self.by_object.get(&(object.as_ptr() as usize)).copied();
        known(name).or_else(|| known(&self.by_name.get_item(name).ok()??))
    }

    /// Numbers the members as `TargetAssignmentBuilder`'s map of them iterates; whether that could be told.
    pub fn in_map_order(&mut self) -> bool {
        let mut hashes = Vec::with_capacity(self.members.len());
        for member in &self.members {
            let id = text(&member.id);
            if !id.is_ascii() {
                return false;
            }
            hashes.push(string_hash(id));
        }
        let order = hash_order(&hashes, 16);
        order.map(|order| self.order = order).is_some()
    }

    /// The number of the member at each place.
    pub fn numbers(&self) -> Vec<u32> {
        let mut numbers = vec![0; self.order.len()];
        for (number, &place) in (0u32..).zip(&self.order) {
            numbers[place as usize] = number;
        }
        numbers
    }

    /// What the member of this number subscribes to.
    pub fn bucket_of(&self, member: u32) -> &Bucket<'py> {
        &self.buckets[self.members[self.order[member as usize] as usize].bucket as usize]
    }

    /// Whether all subscribe to the same names, with metadata or without.
    pub fn alike(&self) -> bool {
        let names = |bucket: &Bucket<'py>| -> FxHashSet<String> {
            bucket.names.iter().filter_map(|name| name.extract().ok()).collect()
        };
        match &self.buckets[..] {
            [_] => true,
            [first, others @ ..] => {
                let first = names(first);
                others.iter().all(|bucket| names(bucket) == first)
            }
            [] => false,
        }
    }

    /// `new HashSet<>(member.subscribedTopicIds())` as it iterates, of the first member; None: Python knows.
    pub fn in_topic_id_order(&self) -> Option<Vec<u32>> {
        let subscribed = &self.bucket_of(0).names;
        let objects: Result<Vec<Bound<'py, PyString>>, _> =
            subscribed.iter().map(|name| name.downcast_into::<PyString>()).collect();
        let objects = objects.ok()?;
        let mut seen = FxHashSet::with_capacity_and_hasher(objects.len(), FxBuildHasher);
        let names: Vec<&Bound<'py, PyString>> =
            objects.iter().filter(|name| seen.insert(text(name))).collect();
        if !seen.iter().all(|name| name.is_ascii()) {
            return None;
        }
        let hashes: Vec<u32> = names.iter().map(|name| string_hash(text(name))).collect();
        let by_name = hash_order(&hashes, set_capacity(objects.len()))?;
        let known = by_name.iter().filter_map(|&at| self.topic(names[at as usize]));
        let known: Vec<u32> = known.filter(|&topic| self.topics[topic as usize].partitions > 0).collect();
        self.in_uuid_order(&known, set_capacity(names.len()))
    }

    /// Topics as a map keyed by their Uuids iterates them that got them in this order.
    pub fn in_uuid_order(&self, topics: &[u32], capacity: usize) -> Option<Vec<u32>> {
        let hash = |&topic: &u32| Some(uuid_hash(self.topics[topic as usize].id?));
        let hashes: Option<Vec<u32>> = topics.iter().map(hash).collect();
        Some(hash_order(&hashes?, capacity)?.into_iter().map(|at| topics[at as usize]).collect())
    }

    /// Every audience, and its topics, in the order of the members and of their subscriptions.
    pub fn audiences(&self) -> Vec<Audience> {
        if let [all] = &self.buckets[..] {
            let members = (0..self.members.len() as u32).collect();
            return vec![Audience { members, topics: all.topics.clone(), alone: true }];
        }
        let mut members: Vec<Vec<u32>> = vec![Vec::new(); self.buckets.len()];
        let mut buckets = Vec::new();
        for (number, &place) in (0u32..).zip(&self.order) {
            let bucket = self.members[place as usize].bucket;
            let theirs = &mut members[bucket as usize];
            if theirs.is_empty() {
                buckets.push(bucket);
            }
            theirs.push(number);
        }
        let mut heard_by: Vec<Vec<u32>> = vec![Vec::new(); self.topics.len()];
        let mut topics = Vec::new();
        for bucket in buckets {
            for &topic in &self.buckets[bucket as usize].topics {
                let theirs = &mut heard_by[topic as usize];
                if theirs.is_empty() {
                    topics.push(topic);
                }
                theirs.push(bucket);
            }
        }
        let mut known: FxHashMap<&[u32], usize> = FxHashMap::default();
        let mut audiences: Vec<Audience> = Vec::new();
        for topic in topics {
            let buckets = &heard_by[topic as usize][..];
            let at = *known.entry(buckets).or_insert_with(|| {
                let all = buckets.iter().flat_map(|&bucket| &members[bucket as usize]);
                let mut all: Vec<u32> = all.copied().collect();
                all.sort_unstable();
                audiences.push(Audience { members: all, topics: Vec::new(), alone: false });
                audiences.len() - 1
            });
            audiences[at].topics.push(topic);
        }
        for (buckets, &at) in &known {
            let theirs = self.buckets[buckets[0] as usize].topics.len();
            audiences[at].alone = buckets.len() == 1 && theirs == audiences[at].topics.len();
        }
        audiences
    }
}
