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

// An acknowledgement, or a mute, that has not expired.
export const acknowledgementOf = ({ acknowledged }, now = Date.now()) => (acknowledged && (acknowledged.until === null || now < acknowledged.until) ? acknowledged : null);

// Incidents that explain why a group is not settled.
const UNSETTLED = new Set(["rebalance-stuck", "storm", "duplicate-instance-id", "stuck", "partition-without-owner", "poll-timeout"]);

const RANKS = { cluster: 0, incident: 1, stuck: 2, storming: 2, lost: 3, rebalancing: 4, settling: 4 };
// An ordinary start or rebalance takes less.
const ORDINARY_MS = 10_000;

// [{rank, tone, what, kind, groupId, since, story}]: incidents of the cluster, of groups, then groups, the newest first.
// Ordinary starts and finished deploys are not among them.
export function attention({ groups, episodes, incidents }, now = Date.now()) {
  const found = [...incidents.values()].filter((incident) => !acknowledgementOf(incident, now)?.muted).map(({ groupId, kind, openedAt, story, scope }) =>
    ({ what: scope === "cluster" ? "cluster" : "incident", kind, groupId, since: openedAt, story }));
  const explained = new Set(found.filter(({ kind }) => UNSETTLED.has(kind)).map(({ groupId }) => groupId));
  for (const [groupId, group] of groups) {
    const episode = episodes.get(groupId);
    const { status, since, reason } = group;
    const story = reason ?? episode?.story ?? "";
    if (status === "empty") {
      if (episode && !isShutDown(group, episode)) found.push({ what: "lost", kind: episode.kind, groupId, since, story });
    } else if (status in RANKS && !explained.has(groupId) && (RANKS[status] < RANKS.rebalancing || now - since > ORDINARY_MS)) {
      found.push({ what: status, kind: episode?.kind, groupId, since, story });
    }
  }
  for (const one of found) {
    one.rank = RANKS[one.what];
    one.tone = one.rank === RANKS.rebalancing ? "warn" : "bad";
  }
  return found.sort((a, b) => a.rank - b.rank || b.since - a.since || (a.groupId < b.groupId ? -1 : 1));
}
