// A name and a colour for each owner, the same everywhere on the page; neighbours in order of appearance lie far apart.
// A person is who stays the same when its process restarts: instance id, or client id and host. It has one colour.
import { called, visible } from "./format.js";
import { theme, token } from "./theme.js";

const GOLDEN = 137.508;

// A round names a member as precisely as it has to: `pay`, `pay (h1)`, or `pay (h1, 3f2a…)` beside its former self.
const precision = (name) => (/, [^()]*\)$/.test(name) ? 0 : name.length);

export class Owners {
  constructor() {
    this.index = new Map();
    this.names = {};
    this.people = new Map(); // member → the person's name
    this.slots = null; // person → place among the colours
    this.version = 0;
    this.colors = [];
    this.colorsOf = null;
  }

  of(member) {
    let index = this.index.get(member);
    if (index === undefined) {
      index = this.index.size;
      this.index.set(member, index);
      this.slots = null;
    }
    return index;
  }

  // What the server says of later rounds goes before what it says of earlier ones.
  call(names, { later = true } = {}) {
    this.names = later ? { ...this.names, ...names } : { ...names, ...this.names };
    for (const [member, name] of Object.entries(names)) {
      const known = this.people.get(member);
      if (known && precision(name) <= precision(known)) continue;
      this.people.set(member, name);
      this.slots = null;
      this.version += 1;
    }
  }

  personOf(member) {
    const name = this.people.get(member);
    return name === undefined ? this.nameOf(member) : visible(name);
  }

  nameOf(member) {
    return called(member, this.names);
  }

  // Whether people call it by another name than its id.
  named(member) {
    return Object.hasOwn(this.names, member);
  }

  // A text for people: names in place of the member ids that stand in it, and nothing that the broker logs as absent.
  words(logged) {
    const text = logged.replace(/ with group instance id null|; client reason: not provided/g, "");
    const known = Object.keys(this.names).filter((id) => id && text.includes(id)).sort((a, b) => b.length - a.length);
    if (!known.length) return text;
    const ids = known.map((id) => id.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
    return text.replace(new RegExp(`(?<![\\w-])(?:${ids})(?![\\w-])`, "g"), (id) => this.nameOf(id));
  }

  slotOf(person) {
    if (!this.slots) {
      this.slots = new Map();
      for (const member of this.index.keys()) this.slot(this.personOf(member));
    }
    return this.slot(person);
  }

  slot(person) {
    if (!this.slots.has(person)) this.slots.set(person, this.slots.size);
    return this.slots.get(person);
  }

  // Hues go round by the golden angle; each full turn of twelve also shifts the lightness.
  color(index) {
    if (this.colorsOf !== theme()) {
      this.colors = [];
      this.colorsOf = theme();
    }
    this.colors[index] ??= this.mix(index);
    return this.colors[index];
  }

  mix(index) {
    const hue = (232 + index * GOLDEN) % 360;
    const turn = Math.floor(index / 12) % 3;
    const light = Number(token("--owner-l")) + [0, -0.09, 0.07][turn];
    return `oklch(${light} ${token("--owner-c")} ${hue.toFixed(1)})`;
  }

  colorOfPerson(person) {
    return this.color(this.slotOf(person));
  }

  colorOf(member) {
    return this.colorOfPerson(this.personOf(member));
  }
}
