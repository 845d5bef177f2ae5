//! A round's changes as JSON: `streaming.wire.diffs.MemberDiff`, by member id.

use std::borrow::Cow;

use crate::known::{Identity, Topic};

/// A topic by place, and a partition.
pub type Spot = (u32, u32);

/// A name as a JSON key, with its colon.
pub fn key(name: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len() + 3);
    serde_json::to_writer(&mut out, name).expect("memory takes all");
    out.push(b':');
    out
}

/// What a member is called (client id, host, instance id; None: not known), and its end.
pub fn ending(names: &[Option<&str>; 3]) -> Cow<'static, [u8]> {
    if names.iter().all(Option::is_none) {
        return Cow::Borrowed(b",\"clientId\":null,\"clientHost\":null,\"groupInstanceId\":null},");
    }
    const FIELDS: [&[u8]; 3] = [b",\"clientId\":", b",\"clientHost\":", b",\"groupInstanceId\":"];
    let mut out = Vec::with_capacity(64 + names.iter().flatten().map(|name| name.len() + 2).sum::<usize>());
    for (field, name) in FIELDS.iter().zip(names) {
        out.extend_from_slice(field);
        match name {
            Some(name) => serde_json::to_writer(&mut out, name).expect("memory takes all"),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.extend_from_slice(b"},");
    Cow::Owned(out)
}

/// JSON under construction: each entry ends with a comma, which closing an object takes back.
#[derive(Default)]
pub struct Json(pub Vec<u8>);

impl Json {
    pub fn close(&mut self) {
        if self.0.last() == Some(&b',') {
            self.0.pop();
        }
        self.0.push(b'}');
    }

    /// A member that is there before and after the round, and has `spots` throughout.
    pub fn kept(&mut self, topics: &[Topic], who: &Identity, spots: &[Spot]) {
        self.owned(topics, &who.key, spots);
        self.0.extend_from_slice(b",\"revoked\":{},\"assigned\":{},\"kept\":");
        self.share(topics, spots.iter().copied());
        self.0.extend_from_slice(b",\"present\":true");
        self.0.extend_from_slice(&who.names);
    }

    /// A member that is there before and after the round, which changes what it has: `assignors.diff.diff`.
    pub fn changed(&mut self, topics: &[Topic], who: &Identity, had: &[Spot], has: &[Spot]) {
        let within = |share: &[Spot], spot: &Spot| share.binary_search(spot).is_ok();
        let known = |spot: &Spot| had.binary_search_by_key(&spot.0, |other| other.0).is_ok();
        self.owned(topics, &who.key, had);
        self.0.extend_from_slice(b",\"revoked\":");
        self.share(topics, had.iter().copied().filter(|spot| !within(has, spot)));
        self.0.extend_from_slice(b",\"assigned\":");
        // Topics of which it had something before come first.
        let new = has.iter().copied().filter(|spot| known(spot) && !within(had, spot));
        self.share(topics, new.chain(has.iter().copied().filter(|spot| !known(spot))));
        self.0.extend_from_slice(b",\"kept\":");
        self.share(topics, had.iter().copied().filter(|spot| within(has, spot)));
        self.0.extend_from_slice(b",\"present\":true");
        self.0.extend_from_slice(&who.names);
    }

    /// A member that is gone after the round.
    pub fn gone(&mut self, key: &[u8], names: &[u8], owned: &[u8]) {
        self.0.extend_from_slice(key);
        self.0.extend_from_slice(b"{\"owned\":");
        self.0.extend_from_slice(owned);
        self.0.extend_from_slice(b",\"revoked\":");
        self.0.extend_from_slice(owned);
        self.0.extend_from_slice(b",\"assigned\":{},\"kept\":{},\"present\":false");
        self.0.extend_from_slice(names);
    }

    fn owned(&mut self, topics: &[Topic], key: &[u8], spots: &[Spot]) {
        self.0.extend_from_slice(key);
        self.0.extend_from_slice(b"{\"owned\":");
        self.share(topics, spots.iter().copied());
    }

    fn share(&mut self, topics: &[Topic], spots: impl Iterator<Item = Spot>) {
        self.0.push(b'{');
        let mut last = None;
        for (topic, partition) in spots {
            if last != Some(topic) {
                if last.replace(topic).is_some() {
                    self.list_ends();
                }
                self.0.extend_from_slice(&topics[topic as usize].key);
                self.0.push(b'[');
            }
            self.number(partition);
        }
        if last.is_some() {
            self.list_ends();
        }
        self.close();
    }

    /// A share of topics that may not be the group's any more, by their keys.
    pub fn listed<'a>(&mut self, share: impl Iterator<Item = (Vec<u8>, &'a [u32])>) {
        self.0.push(b'{');
        for (key, partitions) in share {
            self.0.extend_from_slice(&key);
            self.0.push(b'[');
            partitions.iter().for_each(|&partition| self.number(partition));
            self.list_ends();
        }
        self.close();
    }

    fn number(&mut self, number: u32) {
        serde_json::to_writer(&mut self.0, &number).expect("memory takes all");
        self.0.push(b',');
    }

    fn list_ends(&mut self) {
        self.0.pop();
        self.0.extend_from_slice(b"],");
    }
}
