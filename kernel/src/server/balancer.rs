//! Moves from the most loaded members to the least loaded: `assignors.consumer.uniform`.

use super::claims::Claims;
use super::group::Audience;
use super::Event;

/// `MAX_ITERATION_COUNT`: passes over the topics before an imbalance is left as it is.
const MOST_PASSES: usize = 16;

/// Passes over the topics until none moves a partition, or 16 are done; two events a move.
pub fn balance(claims: &mut Claims, audiences: &[Audience], topics: &[(u32, usize)]) -> Vec<Event> {
    let mut events = Vec::new();
    let mut checked: Vec<Option<(usize, u32)>> = vec![None; audiences.len()];
    let mut last = None;
    for _ in 0..MOST_PASSES {
        for (position, &(topic, at)) in topics.iter().enumerate() {
            if last == Some(position) {
                return events;
            }
            let imbalance = match checked[at] {
                Some((then, known)) if then == events.len() => known,
                _ => imbalance(claims, &audiences[at]),
            };
            checked[at] = Some((events.len(), imbalance));
            let before = events.len();
            if imbalance > 1 {
                balance_topic(claims, &audiences[at], topic, &mut events);
            }
            if events.len() > before || last.is_none() {
                last = Some(position);
            }
        }
    }
    events
}

/// Partitions between the most and the least loaded.
fn imbalance(claims: &Claims, audience: &Audience) -> u32 {
    let sizes = audience.members.iter().map(|&member| claims.sizes[member as usize]);
    sizes.clone().max().unwrap_or(0) - sizes.min().unwrap_or(0)
}

/// Moves the topic's last partitions until the most and the least loaded are a partition apart.
fn balance_topic(claims: &mut Claims, audience: &Audience, topic: u32, events: &mut Vec<Event>) {
    let mut ranges = Ranges::of(claims, audience);
    let mut to_give = Holdings::of(claims.owners.topic(topic), claims.sizes.len());
    while !ranges.balanced() {
        let mut giver = ranges.next_most(&claims.sizes);
        while giver.is_some_and(|giver| to_give.is_empty(giver)) {
            ranges.exclude_most();
            giver = ranges.next_most(&claims.sizes);
        }
        let Some(giver) = giver else { return };
        let partition = to_give.pop(giver);
        let taker = ranges.next_least(&claims.sizes);
        if ranges.balanced() {
            return;
        }
        events.push(Event { member: giver, topic, partition, gained: false });
        events.push(Event { member: taker, topic, partition, gained: true });
        claims.owners.topic_mut(topic)[partition as usize] = taker;
        claims.sizes[giver as usize] -= 1;
        claims.sizes[taker as usize] += 1;
    }
}

/// Each member's partitions of a topic, ascending.
struct Holdings {
    starts: Vec<u32>,
    ends: Vec<u32>,
    partitions: Vec<u32>,
}

impl Holdings {
    fn of(owners: &[u32], members: usize) -> Holdings {
        let mut starts = vec![0; members + 1];
        for &owner in owners {
            starts[owner as usize + 1] += 1;
        }
        for member in 0..members {
            starts[member + 1] += starts[member];
        }
        let mut ends = starts.clone();
        let mut partitions = vec![0; owners.len()];
        for (partition, &owner) in (0u32..).zip(owners) {
            let end = &mut ends[owner as usize];
            partitions[*end as usize] = partition;
            *end += 1;
        }
        Holdings { starts, ends, partitions }
    }

    fn is_empty(&self, member: u32) -> bool {
        self.starts[member as usize] == self.ends[member as usize]
    }

    fn pop(&mut self, member: u32) -> u32 {
        self.ends[member as usize] -= 1;
        self.partitions[self.ends[member as usize] as usize]
    }
}

/// The least loaded members `[0, low_end)` and the most loaded `[high_start, high_end)` of one topic.
struct Ranges {
    members: Vec<u32>,
    low_end: usize,
    low_level: i64,
    low_next: usize,
    high_start: usize,
    high_end: usize,
    high_level: i64,
    /// One more than the place of who is asked next.
    high_next: usize,
}

impl Ranges {
    fn of(claims: &Claims, audience: &Audience) -> Ranges {
        let mut members = audience.members.clone();
        members.sort_by_key(|&member| claims.sizes[member as usize]);
        let size = |member: u32| i64::from(claims.sizes[member as usize]);
        let (low_level, high_level) = (size(members[0]) - 1, size(members[members.len() - 1]) + 1);
        let all = members.len();
        let (high_start, high_end, high_next) = (all, all, all);
        Ranges { members, low_end: 0, low_level, low_next: 0, high_start, high_end, high_level, high_next }
    }

    fn size(&self, sizes: &[u32], place: usize) -> i64 {
        i64::from(sizes[self.members[place] as usize])
    }

    /// Whether the levels of the two ranges are at most one apart.
    fn balanced(&self) -> bool {
        self.high_level - self.low_level <= 1
    }

    /// The member that gets the next partition.
    fn next_least(&mut self, sizes: &[u32]) -> u32 {
        if self.low_next >= self.low_end {
            self.low_level += 1;
            while self.low_end < self.members.len() && self.size(sizes, self.low_end) == self.low_level {
                self.low_end += 1;
            }
            self.low_next = 0;
        }
        self.low_next += 1;
        self.members[self.low_next - 1]
    }

    /// The member that may give the next partition, None when there is none left.
    fn next_most(&mut self, sizes: &[u32]) -> Option<u32> {
        if self.high_next <= self.high_start {
            if self.high_end <= self.high_start && self.high_start > 0 {
                // All of the range was excluded: go on with the next level that has members.
                self.high_level = self.size(sizes, self.high_start - 1);
            } else {
                self.high_level -= 1;
            }
            while self.high_start > 0 && self.size(sizes, self.high_start - 1) == self.high_level {
                self.high_start -= 1;
            }
            self.high_next = self.high_end;
        }
        self.high_next = self.high_next.checked_sub(1)?;
        Some(self.members[self.high_next])
    }

    /// Takes the member that `next_most` gave out of the range: it has nothing to give.
    fn exclude_most(&mut self) {
        self.high_end -= 1;
        self.members.swap(self.high_next, self.high_end);
    }
}
