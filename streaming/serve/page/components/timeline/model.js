// Ownership over time: rounds in order, and for each partition the rounds at which its owner changed.
import { isShutDown } from "../../core/attention.js";

// No owner: the partition is unassigned, or its group was shut down.
export const NOBODY = -1;
export const SHUT_DOWN = -2;

// Changes of ownership in a round, as the server gives them for stored rounds: [owner or null, topic, partitions].
export function changesOf(diff) {
  const found = [];
  const taken = new Set();
  for (const [member, { assigned }] of Object.entries(diff.members)) {
    for (const [topic, numbers] of Object.entries(assigned)) {
      found.push([member, topic, numbers]);
      for (const number of numbers) taken.add(`${topic}/${number}`);
    }
  }
  const freed = [...Object.values(diff.members).map((one) => one.revoked), diff.unassigned];
  for (const partitions of freed) {
    for (const [topic, numbers] of Object.entries(partitions)) {
      const left = numbers.filter((number) => !taken.has(`${topic}/${number}`));
      if (left.length) found.push([null, topic, left]);
    }
  }
  return found;
}

export class Ownership {
  constructor(owners) {
    this.owners = owners;
    this.clear();
  }

  clear() {
    this.rounds = []; // oldest first: {seq, summary, changes}
    this.base = [];
    this.next = null;
    this.partitions = [];
    this.byKey = new Map();
    this.owners.names = {};
    this.annotations = []; // deployments and the like
  }

  annotate(annotations) {
    const known = new Map([...this.annotations, ...annotations].map((one) => [one.id, one]));
    this.annotations = [...known.values()].sort((a, b) => a.timestamp - b.timestamp);
  }

  // Where a moment lies on the axis: in the order of rounds, before the first that is later.
  place(timestamp, axis) {
    return axis === "rounds" ? this.roundAt(timestamp, "time") + 1 : timestamp;
  }

  get last() {
    return this.rounds.at(-1)?.seq ?? 0;
  }

  // A page as the server gives it, newest first; older pages go in front.
  load({ base, names, rounds, next, annotations = [] }) {
    this.annotate(annotations);
    for (const known of [names, ...rounds.map(({ summary }) => summary.names)]) this.owners.call(known, { later: false });
    const older = [...rounds].reverse();
    if (older.length || !this.rounds.length) this.base = base;
    this.rounds = [...older, ...this.rounds];
    this.next = next;
    this.rebuild();
  }

  append({ seq, summary, diff }) {
    if (seq <= this.last) return;
    this.owners.call(summary.names);
    const round = { seq, summary, changes: changesOf(diff) };
    this.rounds.push(round);
    if (this.rounds.length === 1) {
      this.base = Object.entries(diff.members).flatMap(([member, { owned }]) => Object.entries(owned).map(([topic, numbers]) => [member, topic, numbers]));
      this.rebuild();
      return;
    }
    const known = this.partitions.length;
    this.apply(round.changes, this.rounds.length - 1);
    this.rest(round.summary, this.rounds.length - 1);
    round.at = Math.max(round.summary.timestamp, this.rounds.at(-2).at);
    if (this.partitions.length !== known) this.sort();
  }

  rebuild() {
    this.partitions = [];
    this.byKey = new Map();
    this.resting = false;
    this.apply(this.base, -1);
    let at = -Infinity;
    this.rounds.forEach((round, index) => {
      // Clocks of brokers differ a little: order in the log wins over time.
      at = Math.max(at, round.summary.timestamp);
      round.at = at;
      this.apply(round.changes, index);
      this.rest(round.summary, index);
    });
    this.sort();
  }

  apply(changes, index) {
    for (const [member, topic, numbers] of changes) {
      const owner = member === null ? NOBODY : this.owners.of(member);
      for (const number of numbers) this.give(this.partition(topic, number), owner, index);
    }
  }

  give(partition, owner, index) {
    if (partition.owners.at(-1) === owner) return;
    if (partition.starts.at(-1) === index) partition.owners[partition.owners.length - 1] = owner;
    else {
      partition.starts.push(index);
      partition.owners.push(owner);
    }
  }

  // Partitions of a group that was shut down are not marked as unassigned.
  rest(summary, index) {
    const resting = isShutDown(summary, null);
    if (!resting && !this.resting) return;
    this.resting = resting;
    for (const partition of this.partitions) if (partition.owners.at(-1) < 0) this.give(partition, resting ? SHUT_DOWN : NOBODY, index);
  }

  partition(topic, number) {
    const key = `${topic}/${number}`;
    let found = this.byKey.get(key);
    if (!found) {
      found = { topic, number, starts: [], owners: [] };
      this.byKey.set(key, found);
      this.partitions.push(found);
    }
    return found;
  }

  sort() {
    this.partitions.sort((a, b) => (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.number - b.number));
  }

  // The stretch of a partition that holds a round: its index in starts, or -1 before the first.
  stretch(partition, index) {
    let low = 0;
    let high = partition.starts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (partition.starts[middle] <= index) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  // The last round at or before a place on the axis; -1 before the first.
  roundAt(position, axis) {
    if (axis === "rounds") return Math.min(this.rounds.length - 1, Math.floor(position));
    let low = 0;
    let high = this.rounds.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.rounds[middle].at <= position) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  position(index, axis) {
    if (index < 0) return -Infinity;
    return axis === "rounds" ? index : this.rounds[index].at;
  }

  // Where the axis ends: now, or one past the last round.
  end(axis) {
    return axis === "rounds" ? this.rounds.length : Math.max(Date.now(), this.rounds.at(-1)?.at ?? 0);
  }

  start(axis) {
    return axis === "rounds" ? 0 : (this.rounds[0]?.at ?? Date.now() - 60_000);
  }
}
