// Rounds a minute over the last hour, as bars coloured by cause.
import { h, paced, sized } from "../core/dom.js";
import { onTheme, toneOf, token } from "../core/theme.js";

const MINUTES = 60;
export class Pulse {
  constructor() {
    this.element = h("canvas", { role: "img", "aria-label": "Rounds a minute over the last hour" });
    this.rounds = [];
    this.paint = paced(() => this.draw(), 200);
    this.forget = onTheme(this.paint);
    this.observer = new ResizeObserver(this.paint);
    this.observer.observe(this.element);
    this.clock = setInterval(this.paint, 10_000);
  }

  close() {
    clearInterval(this.clock);
    this.forget();
    this.observer.disconnect();
  }

  add(timestamp, kind) {
    this.rounds.push({ timestamp, kind });
    this.paint();
  }

  get count() {
    const since = Date.now() - MINUTES * 60_000;
    this.rounds = this.rounds.filter((round) => round.timestamp >= since);
    return this.rounds.length;
  }

  draw() {
    const width = this.element.parentElement.clientWidth ? this.element.clientWidth : 0;
    if (!width) return;
    const height = 30;
    const context = sized(this.element, width, height);
    this.element.style.width = "100%";
    context.clearRect(0, 0, width, height);
    const now = Math.ceil(Date.now() / 60_000) * 60_000;
    const bins = Array.from({ length: MINUTES }, () => new Map());
    for (const { timestamp, kind } of this.rounds) {
      const bin = MINUTES - 1 - Math.floor((now - timestamp) / 60_000);
      if (bin >= 0 && bin < MINUTES) bins[bin].set(kind, (bins[bin].get(kind) ?? 0) + 1);
    }
    const top = Math.max(4, ...bins.map((bin) => [...bin.values()].reduce((a, b) => a + b, 0)));
    const step = width / MINUTES;
    bins.forEach((bin, index) => {
      let y = height;
      context.fillStyle = token("--line");
      context.fillRect(index * step, height - 1, step - 1.5, 1);
      for (const [kind, count] of [...bin].sort()) {
        const part = (count / top) * (height - 2);
        context.fillStyle = toneOf(kind);
        context.fillRect(index * step, y - part, step - 1.5, part);
        y -= part;
      }
    });
  }
}
