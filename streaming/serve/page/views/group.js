// One group: its state, what it is waiting for, ownership over time, episodes with their rounds, incidents, members.
import { statusCell } from "../components/cells.js";
import { Comparison } from "../components/comparison.js";
import { Episodes } from "../components/episodes.js";
import { Incidents } from "../components/incidents.js";
import { Members } from "../components/members.js";
import { Outlook } from "../components/outlook.js";
import { RoundsList, withCause } from "../components/rounds-list.js";
import { Lag } from "../components/timeline/lag.js";
import { Timeline } from "../components/timeline/timeline.js";
import { NOBODY, Ownership, SHUT_DOWN } from "../components/timeline/model.js";
import { ORDERS, usualOrder } from "../components/timeline/order.js";
import { Waits } from "../components/waits.js";
import { ApiError, get, groupPath } from "../core/api.js";
import { unassignedCount, isShutDown } from "../core/attention.js";
import { h, paced, reveal, setAttribute, setText } from "../core/dom.js";
import { annotationText, bounds, causeText, clock, counting, day, duration, moment, number, shortened, visible } from "../core/format.js";
import { Owners } from "../core/owners.js";
import { address, groupAddress, query, setQuery } from "../core/router.js";
import { store } from "../core/store.js";
import { onTheme } from "../core/theme.js";

const PAGE = 300;
const STORIES = 100;
const CLUSTER = "(cluster)";
const LATER_MS = 2000;
const LEGEND = 24;

// An answer, or null where the group is not known (yet).
async function known(path, params) {
  try {
    return await get(path, params);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
    return null;
  }
}

function fact(label, className = "") {
  const value = h("dd", { class: className }, "–");
  return { value, element: h("div", { class: "tile" }, h("dt", {}, label), value) };
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
      onRange: (range) => this.ranged(range),
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
    this.facts = {
      protocol: fact("Protocol", "text"), assignor: fact("Assignor", "text"), generation: fact("Generation"), members: fact("Members"), partitions: fact("Partitions"),
      unassigned: fact("Unassigned"), rounds: fact("Rounds"), moved: fact("Partitions moved"), away: fact("Downtime"),
    };
    const axes = ["time", "rounds"].map((axis) => h("button", { type: "button", "data-axis": axis, "aria-pressed": String(axis === "time"), onclick: () => this.axis(axis) }, axis === "time" ? "Time" : "Rounds"));
    this.axes = axes;
    this.range = h("span", { class: "range" });
    this.legend = h("div", { class: "legend", role: "toolbar", "aria-label": "Owners", onkeydown: (event) => this.rove(event) });
    this.order = h("select", { class: "field", "aria-label": "Order of partitions", onchange: () => this.arrange({ order: this.order.value }) },
      Object.entries(ORDERS).map(([value, label]) => h("option", { value }, label)));
    this.find = h("input", { class: "field", type: "search", placeholder: "Find partition, owner", "aria-label": "Find partition or member", oninput: () => this.arrange({ find: this.find.value }) });
    const zoom = h("span", { class: "segmented", role: "group", "aria-label": "Zoom" },
      h("button", { type: "button", "aria-label": "Zoom out", title: "Zoom out (−)", onclick: () => this.timeline.zoom(1 / 0.6) }, "−"),
      h("button", { type: "button", "aria-label": "Zoom in", title: "Zoom in (+)", onclick: () => this.timeline.zoom(0.6) }, "+"),
      h("button", { type: "button", title: "The newest rounds (0, or double click)", onclick: () => this.timeline.fit() }, "Newest"));
    this.asOf = h("button", { class: "button", type: "button", title: "Members, status and stories as of the chosen round", onclick: () => this.travel(this.chosenAt()) }, "As of round");
    this.chart = h("section", { class: "card timeline", "aria-label": "Ownership over time" },
      h("header", {}, h("h2", {}, "Ownership"), h("span", { class: "segmented", role: "group", "aria-label": "Axis" }, axes), zoom, this.order, this.find, this.asOf,
        h("span", { class: "muted hint" }, "drag to zoom · ctrl + wheel · shift + wheel to move"), this.range),
      this.timeline.stage, this.lag.element, this.timeline.minimap.element, this.legend);
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
      h("dl", { class: "card facts" }, Object.values(this.facts).map((one) => one.element)),
      this.chart, this.outlook.element, this.comparison.element, h("div", { class: "beside" }, this.list.element, h("aside", {}, this.incidents.element, this.members.element)), this.announcement);
    outlet.append(this.page);
    reveal(this.page, false);
  }

  close() {
    this.closed = true;
    for (const [name, listener] of Object.entries(this.listeners)) store.removeEventListener(name, listener);
    this.forget();
    clearInterval(this.clock);
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
    this.absent?.remove();
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

  arrange(changes) {
    this.timeline.arrange(changes);
    setQuery(changes);
    this.legends();
  }

  // One stop of the Tab key; arrows move between owners.
  rove(event) {
    const buttons = [...this.legend.querySelectorAll("button")];
    const at = buttons.indexOf(document.activeElement);
    const next = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (next === undefined || !buttons[next]) return;
    event.preventDefault();
    buttons[at].tabIndex = -1;
    buttons[next].tabIndex = 0;
    buttons[next].focus();
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

  // A group without a recorded rebalance: what to do, and groups of similar names.
  missing() {
    this.alike = h("p", {});
    this.absent = h("div", { class: "card empty" }, h("h2", {}, "Group not found"),
      h("p", {}, "No rebalance of this group is recorded. Check its name; a new group appears here with its first rebalance."),
      this.alike, h("a", { class: "button", href: address("/"), "data-link": true }, "All groups"));
    this.page.append(this.absent);
    this.page.toggleAttribute("data-absent", true);
    this.update();
  }

  suggest() {
    const word = this.group.toLowerCase().split(/[^a-z0-9]+/).sort((a, b) => b.length - a.length)[0];
    const found = [...store.groups.keys()].filter((id) => word && id.toLowerCase().includes(word)).sort((a, b) => a.length - b.length || (a < b ? -1 : 1)).slice(0, 6);
    if (this.alike.childElementCount === found.length) return;
    this.alike.replaceChildren("Groups with a similar name: ", ...found.map((id) => h("a", { href: groupAddress(id), "data-link": true }, visible(id))));
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
    this.legends();
  }

  restore() {
    const params = query();
    const axis = params.get("axis") === "rounds" ? "rounds" : "time";
    this.timeline.axis = axis;
    this.find.value = params.get("find") ?? "";
    this.timeline.arrange({ order: params.get("order") in ORDERS ? params.get("order") : null, find: this.find.value });
    this.pressed(axis);
    const from = Number(params.get("from"));
    const to = Number(params.get("to"));
    if (params.has("from") && to > from) this.timeline.show(from, to);
    else this.timeline.fit();
    const seq = Number(params.get("round"));
    if (seq) this.choose(seq, { open: true, reveal: true });
  }

  pressed(axis) {
    for (const button of this.axes) setAttribute(button, "aria-pressed", String(button.dataset.axis === axis));
  }

  axis(axis) {
    this.pressed(axis);
    this.timeline.setAxis(axis);
    setQuery({ axis: axis === "rounds" ? axis : null });
  }

  ranged({ axis, from, to, follow }) {
    clearTimeout(this.settle);
    this.settle = setTimeout(() => !this.closed && setQuery({ from: follow ? null : Math.round(from), to: follow ? null : Math.round(to) }), 250);
    this.describe(axis, from, to);
  }

  describe(axis, from, to) {
    if (axis === "rounds") {
      const last = Math.min(this.model.rounds.length, Math.ceil(to));
      setText(this.range, counting(Math.max(0, last - Math.max(0, Math.floor(from))), "round"));
    } else {
      const end = Math.min(to, this.model.end("time"));
      setText(this.range, `${day(from)} ${clock(from)} – ${day(from) === day(end) ? "" : `${day(end)} `}${clock(end)} · ${duration(Math.max(0, end - from))}`);
    }
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
    if (!group && this.absent) this.suggest();
    if (!group) return;
    const newest = this.then ? (this.then.episodes[0] ?? null) : this.episodes.newest;
    this.status.set(group, { isShutDown: isShutDown(group, newest) });
    this.waits.show(newest, group.status);
    this.outlook.of(group);
    const { kind = "consumer", protocol } = group;
    setText(this.facts.protocol.value, kind === "consumer" || kind === protocol ? protocol : `${kind} · ${protocol}`);
    setText(this.facts.assignor.value, group.assignor ?? "–");
    setAttribute(this.facts.assignor.value, "title", group.assignor);
    setText(this.facts.generation.element.firstElementChild, group.groupEpoch === null ? "Generation" : "Group epoch");
    setText(this.facts.generation.value, group.groupEpoch ?? group.generation ?? "–");
    setText(this.facts.members.value, number(group.members));
    setText(this.facts.partitions.value, number(group.partitions));
    setText(this.facts.unassigned.value, number(group.unassigned));
    setAttribute(this.facts.unassigned.value, "data-tone", unassignedCount(group, newest) ? "bad" : null);
    setText(this.facts.rounds.value, number(group.rounds));
    setText(this.facts.moved.value, number(group.movedTotal));
    this.showDowntime(newest, group);
    this.legends();
  }

  // Today's downtime by episodes; without episodes, the time between rounds.
  showDowntime(newest, group) {
    const { element, value } = this.facts.away;
    const today = this.today;
    setText(element.firstElementChild, newest ? "Downtime today" : "Unassigned for");
    if (newest) setText(value, today?.partitions ? bounds(today.lowerMs, today.upperMs) : "–");
    else setText(value, group.unavailableMs ? duration(group.unavailableMs) : "–");
    const longest = today?.worst ? `; longest ${bounds(...today.longestMs)}` : "";
    setAttribute(element, "title", newest ? `All partitions together, in episodes with a round since midnight (UTC)${longest}` : "Time between rounds in which partitions were unassigned, all partitions together");
  }

  // People rather than member ids: who restarts seven times is one entry. The titles have the ids.
  legends() {
    const held = new Map();
    let unassigned = 0;
    let resting = 0;
    const ids = [...this.owners.index.keys()];
    const { people, partitions } = this.timeline.listed();
    const idsOf = new Map();
    const found = this.timeline.find && new Set(partitions.flatMap(({ owners }) => owners));
    for (const [index, person] of people.entries()) {
      if (found && !found.has(index)) continue;
      if (!idsOf.has(person)) idsOf.set(person, []);
      idsOf.get(person).push(ids[index]);
    }
    for (const { owners } of partitions) {
      const owner = owners.at(-1);
      if (owner === SHUT_DOWN) resting += 1;
      else if (owner === NOBODY) unassigned += 1;
      else held.set(people[owner], (held.get(people[owner]) ?? 0) + 1);
    }
    const order = [...held.keys(), ...[...idsOf.keys()].filter((person) => !held.has(person)).reverse()];
    const hidden = Math.max(0, order.length - (innerWidth < 760 ? LEGEND / 2 : LEGEND));
    order.length -= hidden;
    const { dim } = this.timeline;
    const text = `${order.join()}/${hidden}/${[...held].join()}/${unassigned}/${resting}/${dim}/${this.owners.version}`;
    this.order.value = this.timeline.order ?? usualOrder(this.model);
    if (this.legendText === text) return;
    this.legendText = text;
    const entries = order.map((person) =>
      h("button", { type: "button", title: [person, ...idsOf.get(person)].join("\n"), "data-gone": !held.has(person), "aria-pressed": String(dim === person), onclick: () => this.only(person) },
        h("i", { style: { background: this.owners.colorOfPerson(person) } }), h("span", {}, shortened(person, 30)), h("span", { class: "muted num" }, held.get(person) ?? "")));
    const none = h("button", { type: "button", class: "none", "aria-pressed": String(dim === NOBODY), onclick: () => this.only(NOBODY) }, h("i"), h("span", {}, "unassigned"), h("span", { class: "muted num" }, unassigned || (resting ? `${number(resting)} shut down` : "")));
    const gone = entries.slice(held.size);
    const focused = [...this.legend.querySelectorAll("button")].indexOf(document.activeElement);
    this.legend.replaceChildren(...entries.slice(0, held.size), none, ...(gone.length ? [h("span", { class: "then" }, "earlier"), ...gone] : []), ...(hidden ? [h("span", { class: "muted" }, `and ${number(hidden)} more`)] : []));
    const buttons = [...this.legend.querySelectorAll("button")];
    for (const [index, button] of buttons.entries()) button.tabIndex = index === Math.max(0, focused) ? 0 : -1;
    if (focused >= 0) buttons[Math.min(focused, buttons.length - 1)].focus();
  }

  only(person) {
    this.timeline.dim = this.timeline.dim === person ? null : person;
    this.timeline.paint();
    this.legends();
  }

  recolor() {
    this.legendText = null;
    this.list.clear();
    this.list.render();
    this.members.recolor();
    this.legends();
  }
}

export const openGroup = (outlet, group) => new GroupView(outlet, group);
