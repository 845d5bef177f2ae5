// A colour for each owner, the same everywhere on the page; neighbours in order of appearance lie far apart.
import { theme, token } from "./theme.js";

const GOLDEN = 137.508;

export class Owners {
  constructor() {
    this.index = new Map();
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
