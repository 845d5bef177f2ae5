// The group's members: names, hosts, when they joined, and their partitions.
import { arrange, h, paced, setAttribute, setText } from "../core/dom.js";
import { ago, countOf, counting, moment, number, ranges, visible } from "../core/format.js";
import { MOST, Some } from "./some.js";

const SHOWN = 12;
// Made once: a comparison by localeCompare makes its own.
const order = new Intl.Collator("en", { numeric: true });

// A member's partitions after a round.
function after({ kept, assigned }) {
  const owned = {};
  for (const [topic, numbers] of [...Object.entries(kept), ...Object.entries(assigned)]) (owned[topic] ??= []).push(...numbers);
  for (const numbers of Object.values(owned)) numbers.sort((a, b) => a - b);
  return owned;
}

export class Members {
  constructor(owners) {
    this.owners = owners;
    this.all = false;
    this.known = new Map(); // id → {host, rack, since, owned}
    this.items = new Map();
    this.at = 0;
    this.count = h("span", { class: "muted num" });
    this.list = h("ul", { "aria-label": "Members, by name" });
    this.some = new Some("Find a member", () => this.render());
    this.refresh = paced(() => this.render(), 200);
    this.more = h("button", { class: "more", type: "button", hidden: true, onclick: () => this.toggle() });
    this.element = h("section", { class: "card members", "aria-label": "Members" }, h("header", {}, h("h2", {}, "Members"), this.count), this.some.element, this.list, this.more);
  }

  toggle() {
    this.all = !this.all;
    this.render();
  }

  // The server's answer: owners unless a later round has arrived; hosts, racks and join times always.
  load({ assignment, since }) {
    if (!assignment) return;
    const { members, names, racks = {}, timestamp } = assignment;
    if (timestamp >= this.at) {
      this.at = timestamp;
      this.known = new Map(Object.entries(members).map(([id, owned]) => [id, { host: names[id]?.clientHost, owned, ...this.kept(id) }]));
    }
    for (const [id, one] of this.known) {
      one.rack = racks[id] ?? one.rack;
      one.since = since[id] ?? one.since;
    }
    this.render();
  }

  // Another moment is shown: what was loaded does not count.
  forget() {
    this.at = 0;
    this.known = new Map();
  }

  kept(id) {
    const { rack, since } = this.known.get(id) ?? {};
    return { rack, since };
  }

  // The members and their partitions after a round.
  round({ timestamp, members, unchanged }) {
    if (unchanged && !this.known.size) return; // the unchanged members are not known yet
    this.at = Math.max(this.at, timestamp);
    const before = this.known;
    const now = Object.entries(members).filter(([, one]) => one.present !== false).map(([id, one]) =>
      [id, { host: one.clientHost, owned: after(one), ...(before.has(id) ? this.kept(id) : { since: timestamp }) }]);
    // Members that the diff leaves out are unchanged.
    this.known = new Map([...(unchanged ? before : []), ...now]);
    if (unchanged) {
      const gone = Object.entries(members).filter(([, one]) => one.present === false).map(([id]) => id);
      for (const id of gone) this.known.delete(id);
    }
    this.refresh();
  }

  render() {
    const sorted = [...this.known.keys()].map((id) => ({ id, name: this.owners.nameOf(id) })).sort((a, b) => order.compare(a.name, b.name));
    const textOf = ({ id, name }) => `${name} ${id} ${this.known.get(id).host ?? ""}`;
    const shown = this.some.of(sorted, textOf, this.all ? undefined : SHOWN);
    setText(this.count, sorted.length ? number(sorted.length) : "None");
    const items = new Map();
    arrange(this.list, shown.map(({ id, name }) => {
      const item = this.items.get(id) ?? this.item(id);
      items.set(id, item);
      this.fill(item, id, name);
      return item;
    }));
    this.items = items;
    this.list.hidden = !shown.length;
    this.more.hidden = sorted.length <= SHOWN || this.some.searching;
    setAttribute(this.more, "aria-expanded", String(this.all));
    setText(this.more, this.all ? "Show fewer" : sorted.length > MOST ? `Show the first ${number(MOST)}` : `Show ${number(sorted.length - shown.length)} more`);
  }

  item(id) {
    return h("li", { "data-member": id }, h("b", { title: id }, h("i", { style: { background: this.owners.colorOf(id) } }), h("span")), h("span", { class: "end" }), h("span", { class: "where" }), h("p", { class: "mono" }));
  }

  fill(item, id, name) {
    const { host, rack, since, owned } = this.known.get(id);
    const [label, held, where, what] = item.children;
    setText(label.lastElementChild, name);
    const count = countOf(owned);
    setText(held, count ? counting(count, "partition") : "no partitions");
    const age = since && ago(since);
    setText(where, [host && visible(host.replace(/^\//, "")), rack && `rack ${visible(rack)}`, since && `since ${moment(since)}${age === "now" ? "" : `, ${age}`}`].filter(Boolean).join(" · "));
    setText(what, Object.entries(owned).map(([topic, numbers]) => `${topic} ${ranges(numbers)}`).join("; "));
    what.hidden = !count;
  }

  recolor() {
    this.items.clear();
    this.render();
  }
}
