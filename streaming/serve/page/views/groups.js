// All groups: totals, groups that need attention, filters, the table, and the latest rounds.
import { Activity } from "../components/activity.js";
import { Attention } from "../components/attention.js";
import { causeCell, once, statusCell, storyCell } from "../components/cells.js";
import { Pulse } from "../components/pulse.js";
import { VirtualTable } from "../components/virtual-table.js";
import { get } from "../core/api.js";
import { attention, unassignedCount, isShutDown } from "../core/attention.js";
import { h, paced, reveal, setAttribute, setText } from "../core/dom.js";
import { ago, counting, kindText, moment, number, STATUSES, visible } from "../core/format.js";
import { groupAddress, query, setQuery } from "../core/router.js";
import { store } from "../core/store.js";
import { fromField, toField } from "../core/zone.js";

const FRESH_MS = 2400;
const PAGE = 2000;
const MOST_PAGES = 10; // of rounds that are counted
const NEWEST = { view: "summary", limit: 60 };
// The statuses that the tile counts as not stable.
const BUSY = new Set(["rebalancing", "stuck", "storming", "settling", "catching-up"]);

function counted(key) {
  return (cell, group) => {
    const value = group[key] ?? 0;
    setText(cell, value ? number(value) : "–");
    setAttribute(cell, "class", `end ${value ? "" : "quiet"}`);
  };
}

// The programs that a cluster without any heartbeat needs.
const START = [h("code", {}, "rebalance-monitor run"), ", or ", h("code", {}, "rebalance-monitor collect"), " and ", h("code", {}, "rebalance-monitor stream"), "."];

const timeOf = (name) => Number(query().get(name)) || null;
const asOf = () => timeOf("at"); // the moment that is shown; null: now
const since = () => (timeOf("from") < (asOf() ?? Infinity) ? timeOf("from") : null); // the begin of the time range; null: none
const episodeOf = (group) => (asOf() ? null : store.episodes.get(group.groupId));

// The time range, as a group's page has it in its address.
const rangeOf = () => (since() ? { from: since(), to: asOf() ?? Date.now() } : {});

// Connect, Kafka Streams and share groups have a kind of their own.
const kindOf = (group) => group.kind ?? "consumer";

const columns = [
  {
    key: "group", title: "Group", value: (group) => group.groupId, className: "name",
    render(cell, group, row) {
      cell.held ??= cell.appendChild(h("a", { "data-link": true }));
      setText(cell.held, visible(group.groupId));
      setAttribute(cell.held, "href", groupAddress(group.groupId, { at: asOf(), ...rangeOf() }));
      setAttribute(cell.held, "title", group.groupId);
      row.classList.toggle("fresh", Date.now() - (group.seenAt ?? 0) < FRESH_MS);
    },
  },
  {
    key: "status", title: "Status", value: (group) => STATUSES.indexOf(group.status),
    render: (cell, group) => once(cell, statusCell).set(group, { isShutDown: isShutDown(group, episodeOf(group)) }),
  },
  { key: "kind", title: "Kind", value: kindOf, render: (cell, group) => setText(cell, kindOf(group)) },
  {
    key: "protocol", title: "Assignor", value: (group) => `${group.protocol} ${group.assignor ?? ""}`,
    render(cell, group) {
      const { protocol, assignor } = group;
      const isImplied = assignor && (protocol === "classic" || assignor.startsWith(protocol)); // the assignor implies the protocol
      setText(cell, [isImplied ? "" : protocol, assignor].filter(Boolean).join(" · "));
      setAttribute(cell, "title", `${protocol}, ${assignor ?? "no assignor"}`);
    },
  },
  { key: "members", title: "Members", value: (group) => group.members, className: "end", number: true, render: counted("members") },
  { key: "partitions", title: "Partitions", value: (group) => group.partitions, className: "end", number: true, render: counted("partitions") },
  {
    key: "unassigned", title: "Unassigned", value: (group) => unassignedCount(group, episodeOf(group)), className: "end", number: true,
    render(cell, group) {
      const value = unassignedCount(group, episodeOf(group));
      setText(cell, value ? number(value) : "–");
      setAttribute(cell, "class", `end ${value ? "alert" : "quiet"}`);
      setAttribute(cell, "title", group.unassigned && !value ? "The group was shut down: its partitions need no owner" : null);
    },
  },
  {
    key: "cause", title: "Last cause", value: (group) => group.cause?.kind ?? "",
    render: (cell, group) => once(cell, causeCell).set(group.cause, group.names),
  },
  {
    key: "moved", title: "Moved", value: (group) => group.moved, className: "end", number: true,
    render(cell, group) {
      cell.held ??= (() => {
        const bar = h("i");
        const text = h("span");
        cell.append(h("span", { class: "moved" }, bar, text));
        return { bar, text };
      })();
      // Of its own partitions: a large group does not make the others look idle.
      cell.held.bar.style.width = `${Math.ceil((30 * Math.min(group.moved, group.partitions)) / Math.max(1, group.partitions))}px`;
      setText(cell.held.text, group.moved ? number(group.moved) : "–");
      setAttribute(cell, "class", `end ${group.moved ? "" : "quiet"}`);
      setAttribute(cell, "title", `${number(group.moved)} of ${number(group.partitions)} partitions moved in the last round${group.movedTotal === null ? "" : `, ${number(group.movedTotal ?? 0)} in all recorded rounds`}`);
    },
  },
  { key: "rounds", title: "Rounds", value: (group) => group.rounds, className: "end", number: true, render: counted("rounds") },
  {
    key: "when", title: "Last", value: (group) => group.timestamp, className: "end", number: true,
    render(cell, group) {
      setText(cell, ago(group.timestamp));
      setAttribute(cell, "title", new Date(group.timestamp).toISOString());
    },
  },
  { key: "story", title: "Last episode", className: "story", render: (cell, group) => once(cell, storyCell).set(episodeOf(group), group.status) },
];

function tile(label, more = "") {
  const value = h("dd", {}, "–");
  return { value, element: h("div", { class: "tile" }, h("dt", {}, label, h("span", { class: "where-wide" }, more)), value) };
}

class GroupsView {
  constructor(outlet) {
    this.tiles = { groups: tile("Groups"), busy: tile("Not stable"), unassigned: tile("Unassigned", " partitions"), members: tile("Members") };
    this.hour = h("span", {}, "–");
    this.pulse = new Pulse();
    this.activity = new Activity();
    this.attention = new Attention();
    this.table = new VirtualTable({ columns, label: "Consumer groups", onSort: (key) => this.sortBy(key) });
    this.search = h("input", { class: "field", type: "search", placeholder: "Filter groups", "aria-label": "Filter groups by name or member", oninput: () => this.filter({ q: this.search.value }) });
    this.selects = Object.fromEntries(["status", "kind", "protocol", "cause"].map((name) => [name, this.select(name)]));
    const field = (title, name) => h("input", { class: "field", type: "datetime-local", step: "1", title, onchange: ({ target }) => this.travel({ [name]: fromField(target.value) }) });
    this.moment = field("Show all groups as of a moment", "at");
    this.begin = field("Show only groups that rebalanced since a moment", "from");
    this.count = h("span", { class: "count", role: "status" });
    this.nothing = h("p", { class: "nothing", hidden: true });
    this.onKey = (event) => this.key(event);
    document.addEventListener("keydown", this.onKey);
    const table = h("div", { class: "card table" },
      h("header", { class: "filters" }, this.search, ...Object.values(this.selects),
        h("span", { class: "times" }, h("label", { class: "as-of" }, "From ", this.begin), h("label", { class: "as-of" }, "As of ", this.moment)), this.count), this.nothing, this.table.element);
    this.when = h("b");
    this.travels = h("div", { class: "card travel", role: "group", "aria-label": "As of a moment", hidden: true }, h("span", { role: "status" }, h("span"), this.when),
      h("button", { class: "button", type: "button", onclick: () => this.travel({ at: null, from: null }) }, "Now"));
    this.lastHour = h("div", { class: "tile wide" }, h("dt", {}, "Rounds, last hour"), h("dd", {}, this.hour, this.pulse.element));
    const tiles = h("dl", { class: "card tiles", style: { margin: "0" } }, ...Object.values(this.tiles).map((one) => one.element), this.lastHour);
    this.page = h("div", { class: "overview" }, h("section", { "aria-label": "Groups" }, h("h1", { class: "visually-hidden" }, "Consumer groups"), this.travels, this.attention.element, tiles, table), h("aside", {}, this.activity.element));
    outlet.append(this.page);
    reveal(this.page, store.isReady);
    this.hasEpisodes = false;
    this.refresh = paced(() => this.update(), 250);
    this.listeners = { groups: this.refresh, round: (event) => this.round(event.detail), snapshot: () => this.load(), stories: () => this.shown() };
    for (const [name, listener] of Object.entries(this.listeners)) store.addEventListener(name, listener);
    this.clock = setInterval(this.refresh, 5000);
    this.restore();
    this.reload = paced(() => this.load(), 2000);
    if (store.seq || this.at) this.load();
    this.update();
  }

  // All groups as of a moment, by the history, and those that rebalanced in a time range; null: now, and all. A link carries both.
  travel(changes) {
    const wanted = { at: this.at, from: this.from, ...changes };
    if (Object.values(wanted).some(Number.isNaN)) return;
    setQuery(wanted);
    this.restore();
    this.then = null;
    this.inRange = null;
    this.load();
    this.update();
  }

  select(name) {
    const label = { status: "All statuses", kind: "All kinds", protocol: "All protocols", cause: "All causes" }[name];
    const select = h("select", { class: "field", "aria-label": label, onchange: () => this.filter({ [name]: select.value }) }, h("option", { value: "" }, label));
    return select;
  }

  // "/" leads to the filter.
  key(event) {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.closest("input, select, dialog")) return;
    event.preventDefault();
    this.search.focus();
  }

  // What to do where no row is shown.
  missing(all, shown) {
    this.nothing.hidden = shown > 0 || (this.from ? !this.inRange : this.at ? !this.then : store.state === "connecting");
    this.table.element.hidden = !this.nothing.hidden;
    if (this.nothing.hidden) return;
    if (this.from && !all) return setText(this.nothing, "No group rebalanced in that time, as far as the history reaches.");
    if (this.at && !all) return setText(this.nothing, "No group existed at that moment, as far as the history reaches.");
    if (all) setText(this.nothing, "No group matches the filters.");
    else if (store.parts.length) setText(this.nothing, "No consumer group yet. A group appears here with its first rebalance.");
    else if (!this.nothing.querySelector("code")) this.nothing.replaceChildren("No consumer group yet, and no heartbeat of a collector or the stream: start ", ...START);
  }

  shown() {
    this.update();
    reveal(this.page, true);
  }

  close() {
    document.removeEventListener("keydown", this.onKey);
    for (const [name, listener] of Object.entries(this.listeners)) store.removeEventListener(name, listener);
    clearInterval(this.clock);
    this.pulse.close();
    this.activity.close();
    this.table.close();
  }

  restore() {
    const params = query();
    this.at = asOf();
    this.from = since();
    this.travels.hidden = this.at === null && this.from === null;
    this.lastHour.hidden = !this.travels.hidden;
    this.moment.value = this.at ? toField(this.at) : "";
    this.begin.value = this.from ? toField(this.from) : "";
    if (this.from) setText(this.when, `${moment(this.from)} to ${this.at ? moment(this.at) : "now"}`);
    else if (this.at) setText(this.when, moment(this.at));
    setText(this.when.previousSibling, this.from ? "Rebalances from " : "As of ");
    const sort = params.get("sort") ?? "-when";
    this.descending = sort.startsWith("-");
    this.sort = sort.replace(/^-/, "");
    if (!columns.some((column) => column.key === this.sort && column.value)) this.sort = "when";
    this.search.value = params.get("q") ?? "";
    this.wanted = { q: this.search.value, status: params.get("status") ?? "", kind: params.get("kind") ?? "", protocol: params.get("protocol") ?? "", cause: params.get("cause") ?? "" };
  }

  filter(changes) {
    Object.assign(this.wanted, changes);
    setQuery(changes);
    this.table.body.scrollTop = 0;
    this.update();
  }

  sortBy(key) {
    const numeric = columns.find((column) => column.key === key).number ?? false;
    this.descending = key === this.sort ? !this.descending : numeric;
    this.sort = key;
    setQuery({ sort: `${this.descending ? "-" : ""}${key}` });
    this.update();
  }

  async load() {
    const { at, from } = this;
    if (at || from) {
      const [then, rounds] = await Promise.all([at && get("groups", { at }), from ? this.roundsOf(from, at) : get("rounds", { view: "summary", limit: 60, to: at + 1 }).then((page) => page.rounds)]);
      if (at !== this.at || from !== this.from) return;
      this.then = then && then.groups.map((group) => ({ ...group, rounds: null, movedTotal: null })); // these are today's
      this.inRange = from && Map.groupBy(rounds, ({ summary }) => summary.groupId);
      this.activity.fill(rounds);
      this.update();
      return;
    }
    // The newest are soon there; often they reach back an hour.
    const { seq } = store;
    let page = await get("rounds", NEWEST);
    if ((page.rounds[0]?.seq ?? 0) < seq) page = await get("rounds", NEWEST); // the first answer was older than the snapshot
    if (this.at || this.from) return;
    this.activity.fill(page.rounds);
    const hour = Date.now() - 3_600_000;
    if (page.next !== null && page.rounds.at(-1).summary.timestamp >= hour) page = await get("rounds", { view: "summary", limit: PAGE, from: hour });
    this.pulse.rounds = page.rounds.map(({ summary }) => ({ timestamp: summary.timestamp, kind: summary.cause.kind }));
    this.pulse.paint();
    setText(this.hour, number(this.pulse.count));
  }

  // The rounds of a time range, newest first.
  async roundsOf(from, at) {
    const rounds = [];
    for (let cursor = null, pages = 0; pages < MOST_PAGES; pages += 1) {
      const page = await get("rounds", { view: "summary", limit: PAGE, from, to: at && at + 1, cursor });
      rounds.push(...page.rounds);
      cursor = page.next;
      if (cursor === null) break;
    }
    return rounds;
  }

  // The groups that are shown: of a time range those with rounds, which are counted.
  all() {
    const all = this.at ? (this.then ?? []) : [...store.groups.values()];
    if (!this.from) return all;
    return all.filter(({ groupId }) => this.inRange?.has(groupId)).map((group) => {
      const rounds = this.inRange.get(group.groupId);
      return { ...group, rounds: rounds.length, movedTotal: rounds.reduce((sum, { summary }) => sum + summary.moved, 0) };
    });
  }

  round(round) {
    if (this.at) return;
    if (this.from) return this.reload();
    const group = store.groups.get(round.summary.groupId);
    group.seenAt = Date.now();
    this.activity.add(round);
    this.pulse.add(round.summary.timestamp, round.summary.cause.kind);
    setTimeout(this.refresh, FRESH_MS + 50);
  }

  passes(group) {
    const { q, status, kind, protocol, cause } = this.wanted;
    if (status && group.status !== status) return false;
    if (kind && kindOf(group) !== kind) return false;
    if (protocol && group.protocol !== protocol) return false;
    if (cause && group.cause?.kind !== cause) return false;
    if (!q) return true;
    const text = q.toLowerCase();
    const members = [...(group.cause?.memberIds ?? []), ...Object.values(group.names ?? {})];
    return [group.groupId, ...members].some((name) => name.toLowerCase().includes(text));
  }

  update() {
    const all = this.all();
    this.options(all);
    const { value } = columns.find((column) => column.key === this.sort);
    const direction = this.descending ? -1 : 1;
    const shown = all.filter((group) => this.passes(group)).map((group) => ({ group, by: value(group) }));
    shown.sort((a, b) => (a.by < b.by ? -direction : a.by > b.by ? direction : a.group.groupId < b.group.groupId ? -1 : 1));
    this.table.sorted(this.sort, this.descending);
    this.stories();
    this.table.show(shown.map(({ group }) => group));
    this.missing(all.length, shown.length);
    setText(this.count, shown.length === all.length ? counting(all.length, "group") : `${number(shown.length)} of ${counting(all.length, "group")}`);
    const sum = (key) => all.reduce((total, group) => total + group[key], 0);
    const busy = all.filter(({ status }) => BUSY.has(status)).length;
    setText(this.tiles.groups.value, number(all.length));
    setText(this.tiles.busy.value, number(busy));
    setAttribute(this.tiles.busy.value, "data-tone", busy ? "warn" : null);
    const unassigned = all.reduce((total, group) => total + unassignedCount(group, episodeOf(group)), 0);
    setText(this.tiles.unassigned.value, number(unassigned));
    setAttribute(this.tiles.unassigned.value, "data-tone", unassigned ? "bad" : null);
    setText(this.tiles.members.value, number(sum("members")));
    setText(this.hour, number(this.pulse.count));
  }

  // Without episodes and incidents the card is hidden.
  stories() {
    this.attention.element.hidden = this.at !== null || this.from !== null || (!store.episodes.size && !store.incidents.size);
    this.attention.show(attention(store));
    const hasEpisodes = this.at === null && store.episodes.size > 0;
    if (this.table.element.toggleAttribute("data-episodes", hasEpisodes) !== this.hasEpisodes) {
      this.hasEpisodes = hasEpisodes;
      this.table.measure();
    }
  }

  options(all) {
    const found = {
      status: new Set(STATUSES),
      kind: new Set(all.map(kindOf)),
      protocol: new Set(all.map((group) => group.protocol)),
      cause: new Set(all.map((group) => group.cause?.kind).filter(Boolean)),
    };
    for (const [name, select] of Object.entries(this.selects)) {
      if (this.wanted[name]) found[name].add(this.wanted[name]);
      const values = name === "status" ? [...found[name]] : [...found[name]].sort();
      if (select.known === values.join()) continue;
      select.known = values.join();
      select.replaceChildren(select.firstElementChild, ...values.map((one) => h("option", { value: one }, name === "status" ? kindText(one) : one)));
      select.value = this.wanted[name];
    }
  }
}

export const openGroups = (outlet) => new GroupsView(outlet);
