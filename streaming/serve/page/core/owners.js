// A colour and a name for each owner, the same everywhere on the page; neighbours in order of appearance lie far apart.
import { called } from "./format.js";
import { theme, token } from "./theme.js";

const GOLDEN = 137.508;

export class Owners {
  constructor() {
    this.index = new Map();
    this.names = {};
    this.colors = [];
    this.colorsOf = null;
  }

  of(member) {
    let index = this.index.get(member);
    if (index === undefined) {
      index = this.index.size;
      this.index.set(member, index);
    }
    return index;
  }

  // What the server says of later rounds goes before what it says of earlier ones.
  call(names, { later = true } = {}) {
    this.names = later ? { ...this.names, ...names } : { ...names, ...this.names };
  }

  nameOf(member) {
    return called(member, this.names);
  }

  // Whether people call it by another name than its id.
  named(member) {
    return Object.hasOwn(this.names, member);
  }

  // A text for people: names in place of the member ids that stand in it.
  words(text) {
    const known = Object.keys(this.names).filter((id) => id && text.includes(id)).sort((a, b) => b.length - a.length);
    if (!known.length) return text;
    const ids = known.map((id) => id.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
    return text.replace(new RegExp(`(?<![\\w-])(?:${ids})(?![\\w-])`, "g"), (id) => this.nameOf(id));
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

  colorOf(member) {
    return this.color(this.of(member));
  }
}
