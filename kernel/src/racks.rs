//! Racks under equal subscriptions: `Racks` in `assignors.classic.group`, `give_near` in `.sticky_uniform`.

use crate::assign::{Part, Quotas};

/// Racks are numbers, and so are sets of them.
pub struct Racks {
    /// By place; None: it has none.
    pub of_member: Vec<Option<u32>>,
    /// The racks of each set, ascending.
    pub sets: Vec<Vec<u32>>,
    /// The set of each topic's partitions.
    pub of_topic: Vec<Vec<u32>>,
}

impl Racks {
    /// `racks_matter`: whether some member is in a rack of some partition, and not every partition in all racks.
    pub fn matter(&self) -> bool {
        let mut used: Vec<u32> = self.of_topic.iter().flatten().copied().collect();
        used.sort_unstable();
        used.dedup();
        let mut everywhere: Vec<u32> =
            used.iter().flat_map(|&set| &self.sets[set as usize]).copied().collect();
        everywhere.sort_unstable();
        everywhere.dedup();
        self.of_member.iter().flatten().any(|rack| everywhere.contains(rack))
            && used.iter().any(|&set| self.sets[set as usize] != everywhere)
    }

    pub fn mismatch(&self, part: Part, place: usize) -> bool {
        self.of_member[place].is_some_and(|rack| !self.near(part).contains(&rack))
    }

    fn near(&self, (topic, partition): Part) -> &[u32] {
        &self.sets[self.of_topic[topic][partition] as usize]
    }

    /// `give_near`: who gets which of the free partitions, those with the fewest members in their racks first; by topic
    /// and partition. And what no member in a rack could take, in that first order.
    pub fn give_near(
        &self,
        mut free: Vec<Part>,
        quotas: &mut Quotas,
        sizes: &mut [usize],
    ) -> (Vec<(Part, usize)>, Vec<Part>) {
        let near = |set: &Vec<u32>| self.of_member.iter().flatten().filter(|rack| set.contains(rack)).count();
        let members: Vec<usize> = self.sets.iter().map(near).collect();
        free.sort_by_key(|&(topic, partition)| members[self.of_topic[topic][partition] as usize]);
        let mut left = vec![0; self.sets.iter().flatten().max().map_or(0, |&last| last as usize + 1)];
        for rack in quotas.under.iter().filter_map(|&place| self.of_member[place]) {
            if let Some(left) = left.get_mut(rack as usize) {
                *left += 1;
            }
        }
        let mut circle = Circle { racks: self, quotas, sizes, next: 0, left };
        let (mut given, mut rest) = (Vec::with_capacity(free.len()), Vec::new());
        for part in free {
            match circle.take(self.near(part)) {
                Some(place) => given.push((part, place)),
                None => rest.push(part),
            }
        }
        given.sort_unstable();
        (given, rest)
    }
}

/// Members under the floor, served round-robin; behind them those at the floor that may have one more.
struct Circle<'a> {
    racks: &'a Racks,
    quotas: &'a mut Quotas,
    sizes: &'a mut [usize],
    next: usize,
    /// How many of those under the floor there are in each rack, so that a search that would fail is not begun.
    left: Vec<usize>,
}

impl Circle<'_> {
    /// Who gets a partition in these racks.
    fn take(&mut self, near: &[u32]) -> Option<usize> {
        let is_near = |&place: &usize| self.racks.of_member[place].is_some_and(|rack| near.contains(&rack));
        if !near.iter().any(|&rack| self.left[rack as usize] > 0) {
            let at = self.quotas.exact.iter().position(is_near)?;
            return Some(self.take_exact(at));
        }
        let (before, behind) = self.quotas.under.split_at(self.next);
        let found = behind.iter().position(is_near).map(|at| self.next + at);
        let at = found.or_else(|| before.iter().position(is_near))?;
        let place = self.quotas.under[at];
        self.sizes[place] += 1;
        self.next = at + 1;
        if self.sizes[place] == self.quotas.floor {
            self.quotas.under.remove(at);
            self.next = at;
            if let Some(rack) = self.racks.of_member[place] {
                self.left[rack as usize] -= 1;
            }
            if self.sizes[place] < self.quotas.ceiling && self.quotas.large < self.quotas.extra {
                self.quotas.exact.push(place);
            }
        }
        if self.next >= self.quotas.under.len() {
            self.next = 0;
        }
        Some(place)
    }

    fn take_exact(&mut self, at: usize) -> usize {
        let place = self.quotas.exact[at];
        self.sizes[place] += 1;
        if self.sizes[place] == self.quotas.ceiling {
            self.quotas.exact.remove(at);
            self.quotas.add_large();
        }
        place
    }
}
