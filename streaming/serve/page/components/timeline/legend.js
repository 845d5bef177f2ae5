// The owners below the chart: people rather than member ids, with their partitions. A click dims all others.
import { h } from "../../core/dom.js";
import { number, shortened } from "../../core/format.js";
import { NOBODY, SHUT_DOWN } from "./model.js";

const MOST = 24;
const NARROW = 760;

export class Legend {
  constructor(timeline, owners) {
    this.timeline = timeline;
    this.owners = owners;
    this.element = h("div", { class: "legend", role: "toolbar", "aria-label": "Owners", onkeydown: (event) => this.rove(event) });
  }

  // One stop of the Tab key; arrows move between owners.
  rove(event) {
    const buttons = [...this.element.querySelectorAll("button")];
    const at = buttons.indexOf(document.activeElement);
    const next = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (next === undefined || !buttons[next]) return;
    event.preventDefault();
    buttons[at].tabIndex = -1;
    buttons[next].tabIndex = 0;
    buttons[next].focus();
  }

  // People rather than member ids: who restarts seven times is one entry. The titles have the ids.
  render() {
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
    const hidden = Math.max(0, order.length - (innerWidth < NARROW ? MOST / 2 : MOST));
    order.length -= hidden;
    const { dim } = this.timeline;
    const text = `${order.join()}/${hidden}/${[...held].join()}/${unassigned}/${resting}/${dim}/${this.owners.version}`;
    if (this.text === text) return;
    this.text = text;
    const entries = order.map((person) =>
      h("button", { type: "button", title: [person, ...idsOf.get(person)].join("\n"), "data-gone": !held.has(person), "aria-pressed": String(dim === person), onclick: () => this.only(person) },
        h("i", { style: { background: this.owners.colorOfPerson(person) } }), h("span", {}, shortened(person, 30)), h("span", { class: "muted num" }, held.get(person) ?? "")));
    const none = h("button", { type: "button", class: "none", "aria-pressed": String(dim === NOBODY), onclick: () => this.only(NOBODY) }, h("i"), h("span", {}, "unassigned"), h("span", { class: "muted num" }, unassigned || (resting ? `${number(resting)} shut down` : "")));
    const gone = entries.slice(held.size);
    const focused = [...this.element.querySelectorAll("button")].indexOf(document.activeElement);
    this.element.replaceChildren(...entries.slice(0, held.size), none, ...(gone.length ? [h("span", { class: "then" }, "earlier"), ...gone] : []), ...(hidden ? [h("span", { class: "muted" }, `and ${number(hidden)} more`)] : []));
    const buttons = [...this.element.querySelectorAll("button")];
    for (const [index, button] of buttons.entries()) button.tabIndex = index === Math.max(0, focused) ? 0 : -1;
    if (focused >= 0) buttons[Math.min(focused, buttons.length - 1)].focus();
  }

  only(person) {
    this.timeline.dim = this.timeline.dim === person ? null : person;
    this.timeline.paint();
    this.render();
  }

  recolor() {
    this.text = null;
    this.render();
  }
}
