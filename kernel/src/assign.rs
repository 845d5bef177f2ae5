//! `range`, `roundrobin`, `sticky` and `cooperative-sticky` where all members subscribe alike, without racks.
//!
//! An answer is who owns each partition: `owners[topic][partition]`, topics in Java's order, members by place.

use crate::java::map_order;

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

    /// The owners after a round, from those before it; None where only Python has the answer.
    pub fn assign(self, ids: &[&str], instances: &[Option<&str>], before: Owners) -> Option<Owners> {
        let sizes: Vec<usize> = before.iter().map(Vec::len).collect();
        match self {
            Assignor::Range => Some(range(&sizes, &sorted_members(ids, instances))),
            Assignor::RoundRobin => Some(circle(&sizes, &sorted_members(ids, instances))),
            _ if before.iter().flatten().all(|&owner| owner == NO_ONE) => {
                Some(circle(&sizes, &sorted_ids(ids)))
            }
            Assignor::Sticky => keep(ids, before, false),
            Assignor::CooperativeSticky => keep(ids, before, true),
        }
    }
}

/// `assignors.classic.order`: static members by instance id, then dynamic ones by member id.
fn sorted_members(ids: &[&str], instances: &[Option<&str>]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..ids.len()).collect();
    places.sort_by_key(|&place| (instances[place].is_none(), instances[place].unwrap_or(ids[place])));
    places
}

fn sorted_ids(ids: &[&str]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..ids.len()).collect();
    places.sort_by_key(|&place| ids[place]);
    places
}

/// `assignors.classic.range.divided`.
fn range(counts: &[usize], order: &[usize]) -> Owners {
    let divided = |&count: &usize| {
        let (base, extra) = (count / order.len(), count % order.len());
        let sizes = (0..order.len()).map(|number| base + usize::from(number < extra));
        order.iter().zip(sizes).flat_map(|(&place, size)| std::iter::repeat_n(place, size)).collect()
    };
    counts.iter().map(divided).collect()
}

/// `assignors.classic.circle`: partitions round the members, topic after topic.
fn circle(counts: &[usize], order: &[usize]) -> Owners {
    let mut turn = order.iter().copied().cycle();
    counts.iter().map(|&count| turn.by_ref().take(count).collect()).collect()
}

/// `assignors.classic.sticky_uniform`.
fn keep(ids: &[&str], mut owners: Owners, withhold: bool) -> Option<Owners> {
    let mut shares: Vec<Vec<(usize, usize)>> = vec![Vec::new(); ids.len()];
    for (topic, parts) in owners.iter().enumerate() {
        for (partition, &owner) in parts.iter().enumerate() {
            if owner != NO_ONE {
                shares[owner].push((partition, topic));
            }
        }
    }
    let mut sizes: Vec<usize> = shares.iter().map(Vec::len).collect();
    let mut quotas = Quotas::of(owners.iter().map(Vec::len).sum(), ids.len());
    let mut lost: Owners = owners.iter().map(|parts| vec![NO_ONE; parts.len()]).collect();
    // Filled from the map of subscriptions, a second map has the same order: only trees would make a difference.
    for place in map_order(ids)? {
        let left = quotas.keep(place, sizes[place]);
        if left < sizes[place] {
            shares[place].sort_unstable();
            for &(partition, topic) in &shares[place][left..] {
                owners[topic][partition] = NO_ONE;
                lost[topic][partition] = place;
            }
            sizes[place] = left;
        }
    }
    let free = owners.iter().flatten().filter(|&&owner| owner == NO_ONE).count();
    let mut receivers = quotas.receivers(ids, &sizes, free).into_iter();
    for (parts, lost) in owners.iter_mut().zip(&lost) {
        for (owner, &loser) in parts.iter_mut().zip(lost) {
            if *owner == NO_ONE {
                let receiver = receivers.next()?;
                if !withhold || loser == NO_ONE || loser == receiver {
                    *owner = receiver;
                }
            }
        }
    }
    Some(owners)
}

/// `assignors.classic.quotas.Quotas`.
struct Quotas {
    floor: usize,
    ceiling: usize,
    extra: usize,
    large: usize,
    under: Vec<usize>,
    exact: Vec<usize>,
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
            self.large += 1;
            if self.large == self.extra {
                self.exact.clear();
            }
            return self.ceiling;
        }
        if self.large < self.extra {
            self.exact.push(place);
        }
        self.floor
    }

    fn receivers(mut self, ids: &[&str], sizes: &[usize], count: usize) -> Vec<usize> {
        self.under.sort_by_key(|&place| ids[place]);
        self.exact.sort_by_key(|&place| ids[place]);
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
