// One group: its state, what it is waiting for, ownership over time, episodes with their rounds, incidents, members.
import { Absent } from "../components/absent.js";
import { statusCell } from "../components/cells.js";
import { Comparison } from "../components/comparison.js";
import { Episodes } from "../components/episodes.js";
import { Facts } from "../components/facts.js";
import { Incidents } from "../components/incidents.js";
import { Members } from "../components/members.js";
import { Outlook } from "../components/outlook.js";
import { RoundsList, withCause } from "../components/rounds-list.js";
import { Chart } from "../components/timeline/chart.js";
import { Lag } from "../components/timeline/lag.js";
import { Timeline } from "../components/timeline/timeline.js";
import { Ownership } from "../components/timeline/model.js";
import { Waits } from "../components/waits.js";
import { ApiError, get, groupPath } from "../core/api.js";
import { unassignedCount, isShutDown } from "../core/attention.js";
import { h, paced, reveal, setText } from "../core/dom.js";
import { annotationText, causeText, clock, moment, visible } from "../core/format.js";
import { Owners } from "../core/owners.js";
import { address, query, setQuery } from "../core/router.js";
import { store } from "../core/store.js";
import { onTheme } from "../core/theme.js";

const PAGE = 300;
const STORIES = 100;
const CLUSTER = "(cluster)";
const LATER_MS = 2000;

// An answer, or null where the group is not known (yet).
async function known(path, params) {
  try {
    return await get(path, params);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
    return null;
  }
}

class GroupView {
  constructor(outlet, group) {
    this.group = group;
    this.owners = new Owners();
    this.model = new Ownership(this.owners);
    this.episodes = new Episodes();
    this.incidents = new Incidents(group);
    this.over = new Map(); // closed incidents of the cluster that name the group
    this.waits = new Waits(this.owners);
    this.members = new Members(this.owners);
    this.outlook = new Outlook(group);
    this.at = Number(query().get("at")) || null; // the moment that is shown; null: now
    this.loading = false;
    this.closed = false;
    this.isReconnected = store.isReady; // a snapshot follows a lost connection
    this.comparison = new Comparison(group);
    this.list = new RoundsList({ group, model: this.model, episodes: this.episodes, owners: this.owners, onSelect: (seq) => this.choose(seq, { scroll: false }), onOlder: () => this.older(), onCompare: (episode) => this.comparison.choose(episode) });
    this.timeline = new Timeline({
      model: this.model, episodes: this.episodes, owners: this.owners,
      onSelect: (index, options) => this.model.rounds[index] && this.choose(this.model.rounds[index].seq, { open: true, ...options }),
      onEpisode: (episode) => this.list.reveal(episode),
      onRange: (range) => this.chart.showRange(range),
      onOlder: () => this.older(),
      onDraw: (frame, colors) => this.lag.draw(frame, colors),
    });
    this.lag = new Lag(group, () => this.timeline.paint());
    this.build(outlet);
    this.refresh = paced(() => this.update(), 120);
    this.listeners = {
      round: (event) => this.round(event.detail), groups: this.refresh, snapshot: () => this.snapshot(), stories: () => this.snapshotOfStories(),
      episode: (event) => this.takeStory(this.episodes, event.detail.episode, event.detail.names),
      incident: (event) => this.takeIncident(event.detail),
      annotation: (event) => this.annotate(event.detail),
    };
    for (const [name, listener] of Object.entries(this.listeners)) store.addEventListener(name, listener);
    this.forget = onTheme(() => this.recolor());
    this.clock = setInterval(this.refresh, 1000); // ages grow
    this.who = paced(() => this.closed || this.present(), 1000);
    // The members of a group of thousands take seconds.
    const patience = new Promise((resolve) => setTimeout(resolve, 1000));
    this.firstStories = this.loadStories();
    Promise.race([Promise.all([this.load(), this.firstStories]), patience]).then(() => this.closed || reveal(this.page, true));
  }

  build(outlet) {
    this.status = statusCell();
    this.facts = new Facts();
    this.chart = new Chart({ timeline: this.timeline, lag: this.lag, owners: this.owners, onAsOf: () => this.travel(this.chosenAt()) });
    this.marks = h("p", { class: "marks", hidden: true });
    this.when = h("b");
    const step = (label, act) => h("button", { class: "button", type: "button", onclick: act }, label);
    this.travels = h("div", { class: "card travel", role: "group", "aria-label": "As of a moment", hidden: true }, h("span", { role: "status" }, "As of ", this.when),
      step("Previous round", () => this.step(-1)), step("Next round", () => this.step(1)),
      step("Previous episode", () => this.stepEpisode(-1)), step("Next episode", () => this.stepEpisode(1)), step("Now", () => this.travel(null)));
    this.announcement = h("p", { class: "visually-hidden", role: "status" });
    this.page = h("div", { class: "detail" },
      h("div", { class: "headline" }, h("h1", {}, visible(this.group)), h("span", { class: "badge", role: "status" }, this.status.element)),
      this.marks, this.travels, this.waits.element,
      this.facts.element,
      this.chart.element, this.outlook.element, this.comparison.element, h("div", { class: "beside" }, this.list.element, h("aside", {}, this.incidents.element, this.members.element)), this.announcement);
    outlet.append(this.page);
    reveal(this.page, false);
  }

  close() {
    this.closed = true;
    for (const [name, listener] of Object.entries(this.listeners)) store.removeEventListener(name, listener);
    this.forget();
    clearInterval(this.clock);
    this.chart.close();
    this.timeline.close();
    this.lag.close();
  }

  // The first snapshot seldom has what the answers to this view's own requests lack.
  snapshot() {
    if (this.isReconnected || this.isBehind()) this.load();
  }

  async snapshotOfStories() {
    const isReconnected = this.isReconnected;
    this.isReconnected = true;
    await this.firstStories;
    if (isReconnected || this.lacksStories()) this.loadStories();
  }

  isBehind() {
    return this.model.last < (store.groups.get(this.group)?.seq ?? 0);
  }

  lacksStories() {
    const differs = (known, one) => ["updatedAt", "status", "story"].some((name) => known?.[name] !== one[name]);
    const newest = store.episodes.get(this.group);
    const open = [...store.incidents.values()].filter(({ groupId }) => groupId === this.group);
    return (newest !== undefined && differs(this.episodes.newest, newest)) || open.some((one) => differs(this.incidents.known.get(one.incident), one));
  }

  async load({ again = false } = {}) {
    if (this.loading) return;
    this.loading = true;
    let page = null;
    try {
      page = await known(`${groupPath(this.group)}/timeline`, { limit: PAGE });
    } finally {
      this.loading = false;
    }
    if (this.closed) return;
    this.absent?.element.remove();
    if (page === null) return this.missing();
    const before = this.model.last;
    this.model.clear();
    this.list.clear();
    this.model.load(page);
    for (const round of store.rounds) if (round.summary.groupId === this.group) this.model.append(round);
    this.page.toggleAttribute("data-absent", false);
    if (this.isBehind() && !again) return this.load({ again: true }); // rounds that came between the answer and the snapshot
    await this.reach(Number(query().get("round")));
    this.list.render();
    if (before) this.timeline.grown();
    else this.restore();
    this.showMoment();
    this.update();
    await this.present();
  }

  // Members, hosts and today's downtime. One request at a time: the answer for thousands of members takes seconds.
  async present() {
    this.again = this.asking;
    if (this.asking) return;
    this.asking = true;
    let group;
    const asked = this.at;
    try {
      group = await known(groupPath(this.group), { at: asked });
    } finally {
      this.asking = false;
    }
    if (this.closed) return;
    if (this.again) this.who();
    this.then = null;
    if (asked !== this.at) return this.present();
    if (group === null) {
      if (this.at) setText(this.when, `${moment(this.at)}: no round is kept from before then`);
      return this.update();
    }
    const { assignment, names, since = {}, downtimeToday = null, annotations = [] } = group;
    this.owners.call(names);
    if (this.at) {
      this.then = group;
      this.members.forget();
      this.incidents.clear();
      for (const one of group.incidents) this.incidents.take(one);
      this.incidents.render();
    }
    this.members.load({ assignment, since });
    this.today = downtimeToday;
    this.showMarks(annotations);
    this.update();
  }

  showMarks(annotations) {
    this.marks.hidden = !annotations.length;
    const mark = (one) => [" · ", one.link && /^https?:/.test(one.link) ? h("a", { href: one.link, target: "_blank", rel: "noopener noreferrer" }, annotationText(one)) : annotationText(one), ` ${moment(one.timestamp)}`];
    this.marks.replaceChildren("Last changes", ...annotations.slice(0, 3).flatMap(mark));
  }

  annotate(annotation) {
    this.model.annotate(new RegExp(`^${annotation.groups.replace(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".")}$`, "s").test(this.group) ? [annotation] : []);
    this.timeline.paint();
    this.who();
  }

  // The group as of a moment, by its history; null: now again. A link carries it.
  travel(at) {
    if (at === undefined || at === this.at) return;
    this.at = at;
    setQuery({ at });
    this.showMoment();
    if (at === null) {
      this.members.forget();
      this.incidents.clear();
      this.loadStories();
    }
    this.present();
  }

  showMoment() {
    this.travels.hidden = this.at === null;
    document.querySelector("#crumbs a").setAttribute("href", address("/", { at: this.at, from: this.at && query().get("from") }));
    this.timeline.at = this.at;
    if (this.at !== null) setText(this.when, moment(this.at));
    this.timeline.reach(this.at);
    this.lag.travel(this.at);
  }

  chosenAt() {
    const { rounds } = this.model;
    return (rounds[this.timeline.selected] ?? rounds.at(-1))?.summary.timestamp;
  }

  // One round on or back.
  step(by) {
    const { rounds } = this.model;
    const index = rounds.findLastIndex(({ summary }) => summary.timestamp <= this.at);
    const round = rounds[by < 0 && rounds[index]?.summary.timestamp < this.at ? index : index + by];
    if (!round) return;
    this.travel(round.summary.timestamp);
    this.choose(round.seq, { scroll: false });
  }

  // To the begin of the episode before or after.
  stepEpisode(by) {
    const begins = this.episodes.all.map(({ openedAt }) => openedAt);
    this.travel(by < 0 ? begins.find((at) => at < this.at) : begins.findLast((at) => at > this.at));
  }

  // Its episodes and incidents: all that the history keeps.
  async loadStories() {
    const [episodes, incidents] = await Promise.all(["episodes", "incidents"].map((sort) => known(`${groupPath(this.group)}/${sort}`, { limit: STORIES })));
    if (this.closed || !episodes || !incidents) return;
    setTimeout(() => this.loadOver(), LATER_MS);
    for (const { names } of [episodes, incidents]) this.owners.call(names, { later: false });
    for (const one of episodes.episodes) this.episodes.take(one);
    if (this.at === null) for (const one of incidents.incidents) this.incidents.take(one);
    this.stories();
  }

  takeStory(where, story, names) {
    if (story.groupId !== this.group) return;
    this.owners.call(names, { later: false });
    where.take(story);
    this.stories();
    this.who();
  }

  // Nobody waits for them: they are requested after the page has loaded.
  async loadOver() {
    const over = this.closed ? null : await known("incidents", { group: CLUSTER, limit: STORIES });
    if (this.closed || !over) return;
    for (const one of over.incidents) this.takeOver(one);
    this.stories();
  }

  takeOver(incident) {
    if (incident.closedAt !== null && incident.groups.includes(this.group)) this.over.set(incident.incident, incident);
    else this.over.delete(incident.incident);
  }

  takeIncident({ incident, names }) {
    if (incident.scope === "cluster") this.takeOver(incident);
    if (incident.scope === "cluster" || this.at !== null) this.stories();
    else this.takeStory(this.incidents, incident, names);
  }

  stories() {
    const open = [...store.incidents.values()].filter(({ scope, groups }) => scope === "cluster" && groups.includes(this.group));
    this.incidents.ofCluster = this.at ? [] : [...open, ...this.over.values()];
    this.list.render();
    this.timeline.paint();
    this.incidents.render();
    this.update();
  }

  missing() {
    this.absent = new Absent(this.group);
    this.page.append(this.absent.element);
    this.page.toggleAttribute("data-absent", true);
    this.update();
  }

  // A link may name a round older than the first page.
  async reach(seq) {
    while (seq && this.model.next && this.model.rounds.length && this.model.rounds[0].seq > seq && this.model.rounds.length < 4000) await this.older();
  }

  async older() {
    if (this.loading || !this.model.next) return;
    this.loading = true;
    const page = await get(`${groupPath(this.group)}/timeline`, { limit: PAGE * 3, cursor: this.model.next });
    this.loading = false;
    if (this.closed) return;
    const before = this.model.rounds.length;
    this.model.load(page);
    const added = this.model.rounds.length - before;
    if (this.timeline.axis === "rounds") {
      const { from, to } = this.timeline.view;
      this.timeline.view = { ...this.timeline.view, from: from + added, to: to + added };
    }
    if (this.timeline.selected >= 0) this.timeline.selected += added;
    this.list.render();
    this.timeline.changed();
    this.chart.render();
  }

  restore() {
    this.chart.restore();
    const seq = Number(query().get("round"));
    if (seq) this.choose(seq, { open: true, reveal: true });
  }

  round(round) {
    if (round.summary.groupId !== this.group || this.loading) return;
    const isNow = this.at === null;
    if (!this.model.rounds.length) {
      this.load();
      return;
    }
    this.model.append(round);
    this.list.diffs.set(round.seq, withCause(round));
    if (isNow) {
      this.members.round(round.diff);
      this.who();
    }
    this.list.render();
    this.timeline.grown();
    this.refresh();
  }

  choose(seq, { open = false, reveal = true, scroll = true } = {}) {
    const index = this.model.rounds.findIndex((round) => round.seq === seq);
    if (index < 0) return;
    this.timeline.select(index, { reveal });
    this.list.select(seq, { open, scroll });
    setQuery({ round: seq });
    const { summary } = this.model.rounds[index];
    const text = `Round of ${clock(summary.timestamp)}: ${causeText(summary.cause, summary.names)}, ${summary.moved} moved, ${unassignedCount(summary, null)} unassigned`;
    // A screen reader reads the chart's own value while it has the focus.
    if (!this.timeline.announce(text)) setText(this.announcement, text);
  }

  update() {
    const group = this.then?.group ?? store.groups.get(this.group);
    if (!group && this.absent) this.absent.suggest(store.groups.keys());
    if (!group) return;
    const newest = this.then ? (this.then.episodes[0] ?? null) : this.episodes.newest;
    this.status.set(group, { isShutDown: isShutDown(group, newest) });
    this.waits.show(newest, group.status);
    this.outlook.of(group);
    this.facts.show(group, newest, this.today);
    this.chart.render();
  }

  recolor() {
    this.list.clear();
    this.list.render();
    this.members.recolor();
    this.chart.legend.recolor();
  }
}

export const openGroup = (outlet, group) => new GroupView(outlet, group);
