//! A group's state: the msgpack of `streaming.monitor.state`, and which groups are plain.

use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashSet};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_bytes::ByteBuf;

pub type Name = Arc<str>;
pub type Map<K, V> = IndexMap<K, V, FxBuildHasher>;
/// Ascending partitions by topic.
pub type Share = Map<Name, Vec<u32>>;

/// `streaming.monitor.state.MemberState`.
#[derive(Clone, Serialize, Deserialize)]
pub struct Member {
    pub member_id: Name,
    pub topics: Arc<Vec<Name>>,
    #[serde(default)]
    pub assignors: Arc<Vec<Name>>,
    #[serde(default)]
    pub instance_id: Option<Name>,
    #[serde(default)]
    pub rack_id: Option<Name>,
    #[serde(default = "classic")]
    pub group_protocol: Name,
    #[serde(default)]
    pub session_timeout_ms: Option<i64>,
    #[serde(default)]
    pub owned: Arc<Share>,
}

/// `streaming.monitor.state.TopicState`.
#[derive(Clone, Serialize, Deserialize)]
pub struct Topic {
    pub partitions: u32,
    #[serde(default)]
    pub racks: Option<Vec<Vec<Name>>>,
    #[serde(default)]
    pub topic_id: Option<Name>,
}

/// `streaming.wire.events.Cause`; a map on the wire and in the state.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    pub kind: Name,
    #[serde(default)]
    pub member_ids: Vec<Name>,
    #[serde(default)]
    pub evidence: Vec<Evidence>,
}

/// `streaming.wire.events.Evidence`.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    pub source: Name,
    pub reason: Name,
    #[serde(default)]
    pub member_ids: Vec<Name>,
    #[serde(default)]
    pub kind: Option<Name>,
}

/// `streaming.monitor.state.GroupState`.
#[derive(Clone, Serialize, Deserialize)]
pub struct State {
    pub observed: bool,
    pub generation: i64,
    pub protocol: Name,
    pub assignor: Option<Name>,
    pub members: Vec<Member>,
    pub topics: Arc<Map<Name, Topic>>,
    pub last_owners: Arc<Map<Name, Map<u32, Name>>>,
    pub applied: Arc<ByteBuf>,
    pub timestamp: i64,
    pub round: u32,
    pub cause: Option<Cause>,
    pub revoked: bool,
    pub hints: Vec<Evidence>,
}

fn classic() -> Name {
    "classic".into()
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("kind", &self.kind)?;
        map.serialize_entry("memberIds", &self.member_ids)?;
        map.serialize_entry("evidence", &self.evidence)?;
        map.end()
    }
}

impl Serialize for Evidence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("source", &self.source)?;
        map.serialize_entry("reason", &self.reason)?;
        map.serialize_entry("memberIds", &self.member_ids)?;
        map.serialize_entry("kind", &self.kind)?;
        map.end()
    }
}

impl State {
    /// Whether this module has the answer for every round of the group: a derived group of the classic protocol
    /// whose members all subscribe alike, without racks, with what they own in order. All else is Python's.
    pub fn plain(&self) -> bool {
        !self.observed
            && &*self.protocol == "classic"
            && self.hints.is_empty()
            && self.topics.values().all(|topic| topic.racks.is_none())
            && self.members.iter().all(|member| self.fits(member))
            && self.instances_differ()
            && self.shares_fit()
    }

    /// Whether a member is like the first one, and its names sort alike in Java and here.
    pub fn fits(&self, member: &Member) -> bool {
        let first = &self.members.first().unwrap_or(member);
        member.rack_id.is_none()
            && &*member.group_protocol == "classic"
            && member.member_id.is_ascii()
            && member.instance_id.as_ref().is_none_or(|id| id.is_ascii())
            && member.topics == first.topics
            && member.assignors == first.assignors
            && (!std::ptr::eq(*first, member) || distinct_ascii(&member.topics))
    }

    fn instances_differ(&self) -> bool {
        let mut seen = FxHashSet::default();
        let mut ids = FxHashSet::default();
        self.members.iter().all(|member| {
            ids.insert(&member.member_id) && member.instance_id.as_ref().is_none_or(|id| seen.insert(id))
        })
    }

    fn shares_fit(&self) -> bool {
        let mut taken: FxHashSet<(&str, u32)> = FxHashSet::default();
        self.members.iter().all(|member| {
            member.owned.iter().all(|(name, partitions)| {
                let count = self.topics.get(name).map_or(0, |topic| topic.partitions);
                member.topics.contains(name)
                    && !partitions.is_empty()
                    && partitions.windows(2).all(|pair| pair[0] < pair[1])
                    && partitions.iter().all(|&p| p < count && taken.insert((name, p)))
            })
        })
    }
}

fn distinct_ascii(names: &[Name]) -> bool {
    let mut seen = FxHashSet::default();
    names.iter().all(|name| name.is_ascii() && seen.insert(name))
}
