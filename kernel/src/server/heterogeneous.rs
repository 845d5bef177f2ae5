//! `uniform` where subscriptions differ: `assignors.consumer.uniform`.

use super::balancer::balance;
use super::claims::Claims;
use super::group::{Audience, Group};
use super::{Run, Target};

/// The new target. Owners and sizes go with what is dealt and moved.
pub fn target(group: &Group, claims: &mut Claims) -> Target {
    let audiences = group.audiences();
    let mut topics: Vec<(u32, usize)> = Vec::new();
    for (at, audience) in audiences.iter().enumerate() {
        topics.extend(audience.topics.iter().map(|&topic| (topic, at)));
    }
    let key = |&(topic, at): &(u32, usize)| {
        let subscribers = audiences[at].members.len();
        let topic = &group.topics[topic as usize];
        let bits = topic.id.unwrap_or_default();
        (f64::from(topic.partitions) / subscribers as f64, subscribers, ((bits >> 64) as i64, bits as i64))
    };
    topics.sort_by(|one, other| {
        let (one, other) = (key(one), key(other));
        other.0.total_cmp(&one.0).then((one.1, one.2).cmp(&(other.1, other.2)))
    });
    let mut dealer = Dealer { ranks: vec![None; audiences.len()], target: Target::default() };
    for &(topic, at) in &topics {
        let free = Free::of(claims.free(group, topic));
        if free.len > 0 {
            dealer.deal(claims, topic, (at, &audiences[at]), &free);
        }
    }
    dealer.settle(claims);
    let events = balance(claims, &audiences, &topics);
    Target { events, ..dealer.target }
}

/// A topic's partitions that nobody owns: a run, or many.
struct Free {
    first: u32,
    listed: Vec<u32>,
    len: u32,
}

impl Free {
    fn of(runs: Vec<(u32, u32)>) -> Free {
        match runs[..] {
            [] => Free { first: 0, listed: Vec::new(), len: 0 },
            [(first, len)] => Free { first, listed: Vec::new(), len },
            _ => {
                let listed: Vec<u32> = runs.iter().flat_map(|&(first, len)| first..first + len).collect();
                let len = listed.len() as u32;
                Free { first: 0, listed, len }
            }
        }
    }

    fn get(&self, at: u32) -> u32 {
        self.listed.get(at as usize).copied().unwrap_or(self.first + at)
    }
}

struct Dealer {
    /// (size, number) of each member as one, for audiences whose loads only they change: sizes know it at the end.
    ranks: Vec<Option<Vec<u64>>>,
    target: Target,
}

impl Dealer {
    /// Gives a topic's partitions to its least loaded subscribers, level by level.
    fn deal(&mut self, claims: &mut Claims, topic: u32, (at, audience): (usize, &Audience), free: &Free) {
        let ranked =
            || audience.members.iter().map(|&member| rank(claims.sizes[member as usize], member)).collect();
        let mut ranks: Vec<u64> = self.ranks[at].take().unwrap_or_else(ranked);
        ranks.sort(); // stable: it is quick where most is sorted
        let owners = claims.owners.topic_mut(topic);
        let (mut start, mut level, mut wide) = (0, size(ranks[0]), 0);
        let mut levels = Vec::new();
        while start < free.len {
            wide += ranks[wide..].iter().take_while(|&&rank| size(rank) <= level).count();
            let next = ranks.get(wide).map(|&rank| size(rank));
            let room = next.map_or(u64::MAX, |next| wide as u64 * u64::from(next - level));
            let end = u64::from(start).saturating_add(room).min(u64::from(free.len)) as u32;
            levels.push((start, end, wide as u32));
            (start, level) = (end, next.unwrap_or(level));
        }
        let dealt = levels.iter().map(|&(start, end, wide)| wide.min(end - start)).max().unwrap_or(0);
        for (turn, rank) in (0..dealt).zip(&mut ranks) {
            let member = *rank as u32;
            for &(start, end, wide) in
                levels.iter().filter(|&&(start, end, wide)| turn < wide.min(end - start))
            {
                let count = (end - start - turn).div_ceil(wide);
                let places = (0..count).map(|round| start + turn + round * wide);
                if free.listed.is_empty() {
                    let run = Run { first: free.get(start + turn), step: wide, count };
                    self.target.given.push((member, topic, run));
                } else {
                    let alone = places.clone().map(|at| Run { first: free.get(at), step: 1, count: 1 });
                    self.target.given.extend(alone.map(|run| (member, topic, run)));
                }
                places.for_each(|at| owners[free.get(at) as usize] = member);
                *rank += u64::from(count) << 32;
            }
        }
        if audience.alone {
            self.ranks[at] = Some(ranks);
        } else {
            ranks.iter().for_each(|&rank| claims.sizes[rank as u32 as usize] = size(rank));
        }
    }

    /// Everything is dealt: sizes count it.
    fn settle(&mut self, claims: &mut Claims) {
        for rank in self.ranks.iter().flatten().flatten() {
            claims.sizes[*rank as u32 as usize] = size(*rank);
        }
    }
}

fn rank(size: u32, member: u32) -> u64 {
    u64::from(size) << 32 | u64::from(member)
}

fn size(rank: u64) -> u32 {
    (rank >> 32) as u32
}
