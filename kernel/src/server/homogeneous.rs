//! `uniform` where all members subscribe to the same topics: `assignors.consumer.uniform`.

use super::claims::{Claims, Part};
use super::group::Group;
use super::{Event, Run, Target};
use crate::java::{hash_order, set_capacity};

/// The new target; None where only Python has the answer.
pub fn target(group: &Group, claims: &Claims) -> Option<Target> {
    let topics = group.in_topic_id_order()?;
    let total: usize = topics.iter().map(|&topic| group.topics[topic as usize].partitions as usize).sum();
    let count = group.members.len();
    let (least, mut extras) = ((total / count) as u32, total % count);
    let mut target = Target::default();
    let mut unfilled: Vec<(u32, u32)> = Vec::new();
    for member in 0..count as u32 {
        let left = count - member as usize;
        let size = claims.sizes[member as usize];
        let mut more = extras > 0;
        let most = least + u32::from(more);
        if size > most {
            cut(group, claims, member, most, &mut target)?;
        } else if size < most {
            more &= left <= extras;
            let quota = least + u32::from(more) - size;
            if quota > 0 {
                unfilled.push((member, quota));
            }
        }
        extras -= usize::from(more);
    }
    fill(group, claims, &topics, &mut unfilled, &mut target);
    Some(target)
}

/// What a member gives up that keeps `quota`, in Java's order: of its topics, then of their partitions.
fn cut(group: &Group, claims: &Claims, member: u32, mut quota: u32, target: &mut Target) -> Option<()> {
    let parts: Vec<&Part> =
        claims.of(group.order[member as usize]).iter().filter(|part| id(group, part).is_some()).collect();
    let owned: Vec<u32> = parts.iter().map(|part| part.topic).collect();
    let bucket = group.bucket_of(member);
    let order = group.in_uuid_order(&owned, 16)?;
    for &topic in &order {
        let Some(part) = parts.iter().find(|part| part.topic == topic && bucket.hears(topic)) else {
            continue;
        };
        if part.len <= quota {
            quota -= part.len;
            continue;
        }
        for &partition in &in_set_order(claims.numbers(part))?[quota as usize..] {
            target.events.push(Event { member, topic, partition, gained: false });
        }
        quota = 0;
    }
    target.reordered.insert(member, order);
    Some(())
}

/// Partitions as the `HashSet` iterates them that got them in this order.
fn in_set_order(partitions: Vec<u32>) -> Option<Vec<u32>> {
    let capacity = set_capacity(partitions.len());
    if partitions.is_sorted() && partitions.last().is_none_or(|&last| (last as usize) < capacity) {
        return Some(partitions); // each has a bin of its own
    }
    let order = hash_order(&partitions, capacity)?;
    Some(order.into_iter().map(|place| partitions[place as usize]).collect())
}

fn id(group: &Group, part: &Part) -> Option<u128> {
    group.topics[part.topic as usize].id
}

/// Gives each member its quota of what nobody has, one block after the other; what was given up comes last.
fn fill(group: &Group, claims: &Claims, topics: &[u32], unfilled: &mut [(u32, u32)], target: &mut Target) {
    let mut at = 0;
    for &topic in topics {
        for (mut first, mut left) in claims.free(group, topic) {
            while left > 0 {
                let Some((member, quota)) = unfilled.get_mut(at) else { return };
                let count = left.min(*quota);
                target.given.push((*member, topic, Run { first, step: 1, count }));
                (first, left, *quota) = (first + count, left - count, *quota - count);
                at += usize::from(*quota == 0);
            }
        }
    }
    for lost in 0..target.events.len() {
        let Some((member, quota)) = unfilled.get_mut(at) else { return };
        target.events.push(Event { member: *member, gained: true, ..target.events[lost] });
        *quota -= 1;
        at += usize::from(*quota == 0);
    }
}
