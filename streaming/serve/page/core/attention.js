// The groups that need attention, by their incidents and episodes. Nothing here touches the document.

// Kinds of episodes in which the last members crashed rather than left.
const LOST = new Set(["crash", "poll-timeout", "storm"]);

// True if the group was shut down: it is empty, and its members did not crash.
export function isShutDown(group, episode) {
  if (group.members > 0) return false;
  return episode ? !LOST.has(episode.kind) : group.cause?.kind !== "member.fenced";
}

// Partitions without a consumer; those of a group that was shut down need none.
export const unassignedCount = (group, episode) => (isShutDown(group, episode) ? 0 : group.unassigned);

// Incidents that explain why a group is not settled.
const UNSETTLED = new Set(["storm", "duplicate-instance-id", "stuck", "partition-without-owner", "poll-timeout"]);

const RANKS = { incident: 0, stuck: 1, storming: 1, lost: 2, settling: 3 };

// [{rank, tone, what, kind, groupId, since, story}]: problems, then groups that are settling, the newest first.
export function attention({ groups, episodes, incidents }) {
  const found = [...incidents.values()].map(({ groupId, kind, openedAt, story }) => ({ what: "incident", kind, groupId, since: openedAt, story }));
  const explained = new Set(found.filter(({ kind }) => UNSETTLED.has(kind)).map(({ groupId }) => groupId));
  for (const [groupId, { status, kind, openedAt, updatedAt, story }] of episodes) {
    const group = groups.get(groupId);
    if (status === "settled") {
      if (group && group.members === 0 && !isShutDown(group, { kind })) found.push({ what: "lost", kind, groupId, since: updatedAt, story });
    } else if (!explained.has(groupId)) found.push({ what: status, kind, groupId, since: openedAt, story });
  }
  for (const one of found) {
    one.rank = RANKS[one.what];
    one.tone = one.what === "settling" ? "warn" : "bad";
  }
  return found.sort((a, b) => a.rank - b.rank || b.since - a.since || (a.groupId < b.groupId ? -1 : 1));
}
