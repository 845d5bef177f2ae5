// Lag under the ownership: a strip on the same time axis, and a bar for each of the partitions that are furthest behind.
import { ApiError, get, groupPath } from "../../core/api.js";
import { arrange, h, setText, sized } from "../../core/dom.js";
import { counting, moment, number, visible } from "../../core/format.js";

const HEIGHT = 46;
const BARS = 12;
const EVERY_MS = 5000;

// Of the samples within one pixel: the first, the one with the most lag, and the last; x(time): a place in pixels.
function thinned(samples, x) {
  const found = [];
  for (let begin = 0, end; begin < samples.length; begin = end) {
    const pixel = Math.floor(x(samples[begin][0]));
    let most = begin;
    for (end = begin + 1; end < samples.length && Math.floor(x(samples[end][0])) === pixel; end += 1) {
      if ((samples[end][1] ?? -1) > (samples[most][1] ?? -1)) most = end;
    }
    found.push(...[...new Set([begin, most, end - 1])].map((index) => samples[index]));
  }
  return found;
}

export class Lag {
  // onLoad(): samples have arrived, and the strip can be drawn
  constructor(group, onLoad) {
    Object.assign(this, { group, onLoad, at: null });
    this.samples = [];
    this.canvas = h("canvas", { class: "lag-strip", "aria-hidden": "true" });
    this.text = h("span", { class: "muted" });
    this.bars = h("ol", { class: "lag-bars", "aria-label": "Lag by partition" });
    this.element = h("div", { class: "lag", hidden: true }, this.canvas, h("p", {}, h("b", {}, "Lag "), this.text), this.bars);
    this.clock = setInterval(() => this.load(), EVERY_MS);
    this.load();
  }

  // The samples up to a moment; null: up to now.
  travel(at) {
    if (at === this.at) return;
    this.at = at;
    this.load();
  }

  close() {
    clearInterval(this.clock);
  }

  async load() {
    if (this.loading || document.hidden) return;
    this.loading = true;
    const { at } = this;
    try {
      const lag = await get(`${groupPath(this.group)}/lag`, { at });
      if (at === this.at) this.take(lag);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // the group is not known yet
    } finally {
      this.loading = false;
    }
    if (at !== this.at) this.load();
  }

  take({ lag, timestamp, samples, partitions }) {
    this.element.hidden = !samples.length;
    if (this.element.hidden) return;
    this.samples = samples;
    const all = Object.entries(partitions).flatMap(([topic, lags]) => Object.entries(lags).map(([part, value]) => ({ name: `${topic} ${part}`, value })));
    const behind = all.filter(({ value }) => value > 0).sort((a, b) => b.value - a.value || (a.name < b.name ? -1 : 1));
    const unknown = all.filter(({ value }) => value === null).length;
    const parts = [lag === null ? "unknown: the group has committed no offset" : `${counting(lag, "record")} at ${moment(timestamp)}`];
    if (behind.length > BARS) parts.push(`${number(behind.length)} partitions are behind`);
    if (unknown && lag !== null) parts.push(`without ${counting(unknown, "partition")} that nobody has committed`);
    setText(this.text, parts.join(" · "));
    arrange(this.bars, behind.slice(0, BARS).map(({ name, value }) => h("li", {}, h("span", { title: name }, visible(name)),
      h("i", { style: { width: `${Math.max(1, (100 * value) / behind[0].value)}%` } }), h("span", { class: "num" }, number(value)))));
    this.onLoad();
  }

  // frame, colors: of the timeline, which the strip lies under.
  draw(frame, colors) {
    this.canvas.hidden = frame.axis !== "time";
    if (this.element.hidden || this.canvas.hidden || !frame.width) return;
    const { gutter, width, from, to, x } = frame;
    const context = sized(this.canvas, width, HEIGHT);
    context.clearRect(0, 0, width, HEIGHT);
    const shown = thinned(this.samples.filter(([at], index) => (this.samples[index + 1]?.[0] ?? Infinity) >= from && at <= to), x);
    const most = shown.reduce((top, [, lag]) => Math.max(top, lag ?? 0), 1);
    const y = (lag) => HEIGHT - 3 - (lag / most) * (HEIGHT - 16);
    context.save();
    context.beginPath();
    context.rect(gutter, 0, width - gutter, HEIGHT);
    context.clip();
    for (const fill of [true, false]) {
      context.beginPath();
      let begun = null;
      for (const [index, [at, lag]] of shown.entries()) {
        if (lag === null) continue;
        const left = x(at);
        if (begun === null) context.moveTo((begun = left), fill ? HEIGHT : y(lag));
        context.lineTo(left, y(lag));
        const isLast = index === shown.length - 1;
        if (isLast && fill) context.lineTo(left, HEIGHT);
      }
      context.globalAlpha = fill ? 0.18 : 1;
      context.fillStyle = context.strokeStyle = colors.accent;
      context.lineWidth = 1.5;
      if (fill) context.fill();
      else context.stroke();
    }
    context.restore();
    context.fillStyle = colors["ink-3"];
    context.font = `11px ${colors.font}`;
    context.textBaseline = "top";
    context.fillText("Lag", 14, 4);
    context.fillText(`at most ${number(most)}`, gutter + 4, 2);
  }
}
