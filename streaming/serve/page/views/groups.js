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
// The statuses that the tile counts as not stable.
const BUSY = new Set(["rebalancing", "stuck", "storming", "settling", "catching-up"]);

function counted(key) {
  return (cell, group) => {
    const value = group[key] ?? 0;
    setText(cell, value ? number(value) : "–");
    setAttribute(cell, "class", `end ${value ? "" : "quiet"}`);
  };
}

const asOf = () => Number(query().get("at")) || null; // the moment that is shown; null: now
const episodeOf = (group) => (asOf() ? null : store.episodes.get(group.groupId));

// Connect, Kafka Streams and share groups have a kind of their own.
const kindOf = (group) => group.kind ?? "consumer";

const columns = [
  {
    key: "group", title: "Group", value: (group) => group.groupId, className: "name",
    render(cell, group, row) {
      cell.held ??= cell.appendChild(h("a", { "data-link": true }));
      setText(cell.held, visible(group.groupId));
      setAttribute(cell.held, "href", groupAddress(group.groupId, { at: asOf() }));
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
    this.moment = h("input", { class: "field", type: "datetime-local", step: "1", title: "Show all groups as of a moment", onchange: () => this.travel(fromField(this.moment.value)) });
    this.count = h("span", { class: "count", role: "status" });
    this.nothing = h("p", { class: "nothing", hidden: true });
    this.onKey = (event) => this.key(event);
    document.addEventListener("keydown", this.onKey);
    const table = h("div", { class: "card table" },
      h("header", { class: "filters" }, this.search, ...Object.values(this.selects), h("label", { class: "as-of" }, "As of ", this.moment), this.count), this.nothing, this.table.element);
    this.when = h("b");
    this.travels = h("div", { class: "card travel", role: "group", "aria-label": "As of a moment", hidden: true }, h("span", { role: "status" }, "As of ", this.when),
      h("button", { class: "button", type: "button", onclick: () => this.travel(null) }, "Now"));
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
    if (store.seq || this.at) this.load();
    this.update();
  }

  // All groups as of a moment, by the history; null: now again. A link carries it.
  travel(at) {
    if (Number.isNaN(at)) return;
    setQuery({ at });
    this.restore();
    this.then = null;
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
    this.nothing.hidden = shown > 0 || (this.at ? !this.then : store.state === "connecting");
    if (this.nothing.hidden) return;
    if (this.at && !all) return setText(this.nothing, "No group existed at that moment, as far as the history reaches.");
    if (all) setText(this.nothing, "No group matches the filters.");
    else if (store.parts.length) setText(this.nothing, "No consumer group yet. A group appears here with its first rebalance.");
    else setText(this.nothing, "No consumer group yet, and no heartbeat of a collector or the stream: start `rebalance-monitor collect` and `rebalance-monitor stream`, or `rebalance-monitor run`.");
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
    this.travels.hidden = this.at === null;
    this.lastHour.hidden = this.at !== null;
    this.moment.value = this.at ? toField(this.at) : "";
    if (this.at) setText(this.when, moment(this.at));
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
    const { at } = this;
    if (at) {
      const [{ groups }, { rounds }] = await Promise.all([get("groups", { at }), get("rounds", { view: "summary", limit: 60, to: at + 1 })]);
      if (at !== this.at) return;
      this.then = groups.map((group) => ({ ...group, rounds: null, movedTotal: null })); // these are today's
      this.activity.fill(rounds);
      this.update();
      return;
    }
    const since = Date.now() - 3_600_000;
    const { rounds } = await get("rounds", { view: "summary", limit: 2000, from: since });
    const newest = rounds.length ? rounds : (await get("rounds", { view: "summary", limit: 60 })).rounds;
    if (this.at) return;
    this.pulse.rounds = rounds.map(({ summary }) => ({ timestamp: summary.timestamp, kind: summary.cause.kind }));
    this.pulse.paint();
    this.activity.fill(newest);
    setText(this.hour, number(this.pulse.count));
  }

  round(round) {
    if (this.at) return;
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
    const all = this.at ? (this.then ?? []) : [...store.groups.values()];
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
    this.attention.element.hidden = this.at !== null || (!store.episodes.size && !store.incidents.size);
    this.attention.show(attention(store));
    if (this.table.element.toggleAttribute("data-episodes", store.episodes.size > 0) !== this.hasEpisodes) {
      this.hasEpisodes = store.episodes.size > 0;
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
