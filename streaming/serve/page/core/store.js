// The page's data: groups, their episodes and incidents, the newest rounds, and how fresh they are.
import { API } from "./api.js";
import { weight } from "./kept.js";
import { Stream } from "./stream.js";

const KEPT = 400;
const KEPT_MEMBERS = 50_000;

class Store extends EventTarget {
  groups = new Map();
  episodes = new Map(); // group → its newest
  isReady = false; // groups, episodes and incidents have arrived
  incidents = new Map(); // those that are open, by group and number
  rounds = []; // newest last: {seq, summary, diff}
  members = 0; // in their diffs
  state = "connecting";
  caughtUp = false;
  stale = null; // {kind, reason, since}: the data is from that time
  parts = []; // {part, id, state, lastHeartbeat, upTo} of collectors and the stream
  seq = 0;

  connect() {
    this.stream = new Stream(`${API}stream?stories=true`, {
      onEvent: (event, data) => this.take(event, data),
      onLost: (reason) => this.lose(reason),
    });
  }

  // The feed ended, or is refused; a reason comes from the server.
  lose(reason) {
    if (this.state !== "lost") this.lost = Date.now();
    this.refusal = reason;
    this.become("lost");
  }

  become(state) {
    this.state = state;
    this.emit("state");
  }

  emit(name, detail = null) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  take(event, data) {
    if (event === "snapshot") this.snapshot(data);
    else if (event === "round") this.round(data);
    else if (event === "stories") this.stories(data);
    else if (event === "episode") this.episode(data);
    else if (event === "incident") this.incident(data);
    else if (event === "annotation") this.emit("annotation", data);
    else if (event === "group") {
      this.groups.set(data.groupId, data);
      this.emit("groups");
    } else if (event === "gone") {
      for (const group of data.groups) {
        this.groups.delete(group);
        this.episodes.delete(group);
      }
      for (const [key, one] of this.incidents) if (data.groups.includes(one.groupId)) this.incidents.delete(key);
      this.emit("groups");
    } else if (event === "reset") this.forget(this.rounds.length);
    if ("caughtUp" in data) this.stands(data);
    else if (this.state === "lost" || this.state === "connecting") this.stands(this);
  }

  stands({ caughtUp, stale = null, parts = [] }) {
    this.caughtUp = caughtUp;
    this.parts = parts;
    const changed = stale?.since !== this.stale?.since || stale?.reason !== this.stale?.reason;
    this.stale = stale;
    const state = stale ? "stale" : caughtUp ? "live" : "behind";
    if (changed || state !== this.state) this.become(state);
  }

  snapshot({ seq, groups, cluster }) {
    this.cluster = cluster;
    this.groups = new Map(groups.map((group) => [group.groupId, group]));
    this.seq = seq;
    this.emit("groups");
    this.emit("snapshot");
  }

  // The newest episode of every group, and all open incidents.
  stories({ episodes, incidents }) {
    this.episodes = new Map(episodes.map((one) => [one.groupId, one]));
    this.incidents = new Map(incidents.map((one) => [`${one.groupId}/${one.incident}`, one]));
    this.isReady = true;
    this.emit("groups");
    this.emit("stories");
  }

  episode({ episode, names }) {
    const known = this.episodes.get(episode.groupId);
    if (!known || episode.episode >= known.episode) this.episodes.set(episode.groupId, episode);
    this.emit("groups");
    this.emit("episode", { episode, names });
  }

  incident({ incident, names }) {
    const key = `${incident.groupId}/${incident.incident}`;
    if (incident.closedAt === null) this.incidents.set(key, incident);
    else this.incidents.delete(key);
    this.emit("groups");
    this.emit("incident", { incident, names });
  }

  // The oldest rounds.
  forget(count) {
    for (const { diff } of this.rounds.splice(0, count)) this.members -= weight(diff);
  }

  round(round) {
    if (round.seq <= this.seq) return;
    this.seq = round.seq;
    this.groups.set(round.group.groupId, round.group);
    this.rounds.push(round);
    this.members += weight(round.diff);
    if (this.rounds.length > KEPT) this.forget(KEPT / 4);
    while (this.members > KEPT_MEMBERS && this.rounds.length > 1) this.forget(1);
    this.emit("groups");
    this.emit("round", round);
  }
}

export const store = new Store();
