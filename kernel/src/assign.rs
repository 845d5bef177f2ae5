//! `range`, `roundrobin`, `sticky` and `cooperative-sticky` where all members subscribe alike.
//!
//! An answer is who owns each partition: `owners[topic][partition]`, topics in Java's order, members by place.

use crate::java::map_order;
use crate::racks::Racks;
use crate::server::Run;

pub const NO_ONE: usize = usize::MAX;
/// Owners by topic and partition.
pub type Owners = Vec<Vec<usize>>;

#[derive(Clone, Copy, PartialEq)]
pub enum Assignor {
    Range,
    RoundRobin,
    Sticky,
    CooperativeSticky,
}

impl Assignor {
    pub fn named(name: &str) -> Option<Assignor> {
        match name {
            "range" => Some(Assignor::Range),
            "roundrobin" => Some(Assignor::RoundRobin),
            "sticky" => Some(Assignor::Sticky),
            "cooperative-sticky" => Some(Assignor::CooperativeSticky),
            _ => None,
        }
    }
}

pub fn sorted_ids(ids: &[&str]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..ids.len()).collect();
    places.sort_by_key(|&place| ids[place]);
    places
}

/// `assignors.classic.range.divided`: contiguous runs of a topic's partitions, as long as there are any.
pub fn divide(count: usize, members: usize, mut give: impl FnMut(usize, Run)) {
    let (base, extra) = (count / members, count % members);
    let mut first = 0;
    for at in 0..members.min(count) {
        let size = base + usize::from(at < extra);
        give(at, Run { first: first as u32, step: 1, count: size as u32 });
        first += size;
    }
}

/// `assignors.classic.circle`: partitions round the members from `start` on.
pub fn deal(count: usize, members: usize, start: usize, mut give: impl FnMut(usize, Run)) {
    for first in 0..members.min(count) {
        let size = (count - first).div_ceil(members);
        let step = if size > 1 { members } else { 1 };
        give((start + first) % members, Run { first: first as u32, step: step as u32, count: size as u32 });
    }
}

/// A topic's partition, both by number.
pub type Part = (usize, usize);

/// `assignors.classic.sticky_uniform`: who has what while it changes hands. Places of members beside their parts, in
/// the order in which Python takes and gives them: shares keep the order of their topics.
pub struct Hands {
    pub owners: Owners,
    losers: Owners,
    withhold: bool,
    /// What members have that is not in their racks.
    pub unfit: Vec<(Part, usize)>,
    /// What they have above their quotas.
    pub surplus: Vec<(Part, usize)>,
    pub given: Vec<(Part, usize)>,
}

impl Hands {
    pub fn of(owners: Owners, withhold: bool) -> Hands {
        let losers = owners.iter().map(|parts| vec![NO_ONE; parts.len()]).collect();
        Hands { owners, losers, withhold, unfit: vec![], surplus: vec![], given: vec![] }
    }

    /// What becomes of it; None where only Python has the answer.
    pub fn keep(mut self, ids: &[&str], racks: Option<&Racks>) -> Option<Hands> {
        if let Some(racks) = racks {
            self.unfit = self.held().filter(|&(part, place)| racks.mismatch(part, place)).collect();
            self.unfit.clone().into_iter().for_each(|(part, _)| self.take(part));
        }
        let mut shares: Vec<Vec<(usize, usize)>> = vec![Vec::new(); ids.len()];
        for ((topic, partition), owner) in self.held() {
            shares[owner].push((partition, topic));
        }
        let mut sizes: Vec<usize> = shares.iter().map(Vec::len).collect();
        let mut quotas = Quotas::of(self.owners.iter().map(Vec::len).sum(), ids.len());
        // Python fills a second map from the first: only trees would make a difference, and are Python's.
        let order = map_order(ids)?;
        map_order(&order.iter().map(|&place| ids[place]).collect::<Vec<_>>())?;
        for place in order {
            let left = quotas.keep(place, sizes[place]);
            if left < sizes[place] {
                shares[place].sort_unstable();
                for &(partition, topic) in &shares[place][left..] {
                    self.surplus.push(((topic, partition), place));
                    self.take((topic, partition));
                }
                sizes[place] = left;
            }
        }
        let mut free = self.free();
        quotas.sort(ids);
        if let Some(racks) = racks {
            let (near, rest) = racks.give_near(free, &mut quotas, &mut sizes);
            near.into_iter().for_each(|(part, place)| self.give(part, place));
            free = rest;
        }
        let mut receivers = quotas.receivers(&sizes, free.len()).into_iter();
        for part in free {
            self.give(part, receivers.next()?);
        }
        Some(self)
    }

    fn held(&self) -> impl Iterator<Item = (Part, usize)> + '_ {
        let parts = self.owners.iter().enumerate();
        parts
            .flat_map(|(topic, parts)| parts.iter().enumerate().map(move |(at, &owner)| ((topic, at), owner)))
            .filter(|held| held.1 != NO_ONE)
    }

    fn free(&self) -> Vec<Part> {
        let parts = self.owners.iter().enumerate().flat_map(|(topic, parts)| {
            let free = parts.iter().enumerate().filter(|part| *part.1 == NO_ONE);
            free.map(move |(partition, _)| (topic, partition))
        });
        parts.collect()
    }

    fn take(&mut self, (topic, partition): Part) {
        self.losers[topic][partition] = std::mem::replace(&mut self.owners[topic][partition], NO_ONE);
    }

    /// To its new owner, unless an old one must give it up first.
    fn give(&mut self, (topic, partition): Part, place: usize) {
        let loser = self.losers[topic][partition];
        if !self.withhold || loser == NO_ONE || loser == place {
            self.owners[topic][partition] = place;
            self.given.push(((topic, partition), place));
        }
    }
}

/// `assignors.classic.sticky_uniform.Quotas`.
pub struct Quotas {
    pub floor: usize,
    pub ceiling: usize,
    pub extra: usize,
    pub large: usize,
    pub under: Vec<usize>,
    pub exact: Vec<usize>,
}

impl Quotas {
    fn of(partitions: usize, members: usize) -> Quotas {
        let (floor, extra) = (partitions / members, partitions % members);
        let ceiling = floor + usize::from(extra > 0);
        Quotas { floor, ceiling, extra, large: 0, under: Vec::new(), exact: Vec::new() }
    }

    fn keep(&mut self, place: usize, size: usize) -> usize {
        if size < self.floor {
            self.under.push(place);
            return size;
        }
        if size >= self.ceiling && self.large < self.extra {
            self.add_large();
            return self.ceiling;
        }
        if self.large < self.extra {
            self.exact.push(place);
        }
        self.floor
    }

    pub fn add_large(&mut self) {
        self.large += 1;
        if self.large == self.extra {
            self.exact.clear();
        }
    }

    fn sort(&mut self, ids: &[&str]) {
        self.under.sort_by_key(|&place| ids[place]);
        self.exact.sort_by_key(|&place| ids[place]);
    }

    fn receivers(self, sizes: &[usize], count: usize) -> Vec<usize> {
        let (mut order, mut filled) = (Vec::with_capacity(count), 0);
        let missing = |place: usize| self.floor - sizes[place];
        let (mut circle, mut queue) = (self.under, self.exact);
        while let Some(least) = circle.iter().map(|&place| missing(place)).min() {
            for _ in filled..least {
                order.extend_from_slice(&circle);
            }
            filled = least;
            queue.extend(circle.iter().filter(|&&place| missing(place) == filled));
            circle.retain(|&place| missing(place) > filled);
        }
        queue.truncate(count.saturating_sub(order.len()));
        order.append(&mut queue);
        order
    }
}
