// What a person has to look at first, from what is told of the groups; no element is touched here.

// Groups that lost their last member rather than sent it home.
const LOST = new Set(["crash", "poll-timeout", "storm"]);

// An empty group rests, unless its members were lost: then somebody misses it.
export function rests(group, episode) {
  if (group.members > 0) return false;
  return episode ? !LOST.has(episode.kind) : group.cause?.kind !== "member.fenced";
}

// Partitions that somebody should own: a group that rests is to own none.
export const missed = (group, episode) => (rests(group, episode) ? 0 : group.unassigned);

// Incidents that tell why a group is not settled.
const UNSETTLED = new Set(["storm", "duplicate-instance-id", "stuck", "partition-without-owner", "poll-timeout"]);

const RANKS = { incident: 0, stuck: 1, storming: 1, lost: 2, settling: 3 };

// [{rank, tone, what, kind, groupId, since, story}]: what is wrong, then what is on its way, the newest first.
export function attention({ groups, episodes, incidents }) {
  const found = [...incidents.values()].map(({ groupId, kind, openedAt, story }) => ({ what: "incident", kind, groupId, since: openedAt, story }));
  const told = new Set(found.filter(({ kind }) => UNSETTLED.has(kind)).map(({ groupId }) => groupId));
  for (const [groupId, { status, kind, openedAt, updatedAt, story }] of episodes) {
    const group = groups.get(groupId);
    if (status === "settled") {
      if (group && group.members === 0 && !rests(group, { kind })) found.push({ what: "lost", kind, groupId, since: updatedAt, story });
    } else if (!told.has(groupId)) found.push({ what: status, kind, groupId, since: openedAt, story });
  }
  for (const one of found) {
    one.rank = RANKS[one.what];
    one.tone = one.what === "settling" ? "warn" : "bad";
  }
  return found.sort((a, b) => a.rank - b.rank || b.since - a.since || (a.groupId < b.groupId ? -1 : 1));
}
