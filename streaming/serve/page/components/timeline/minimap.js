// An overview of all loaded rounds: a tick a round, and the window that is shown; drag it to move.
import { h, paced, sized } from "../../core/dom.js";
import { theme, toneOf } from "../../core/theme.js";
import { palette } from "./paint.js";

const HEIGHT = 30;

export class Minimap {
  constructor(timeline) {
    this.timeline = timeline;
    this.element = h("canvas", { class: "minimap", "aria-hidden": "true" });
    this.paint = paced(() => this.draw(), 40);
    this.element.addEventListener("pointerdown", (event) => this.drag(event));
  }

  get scale() {
    const { model, axis } = this.timeline;
    const start = model.start(axis);
    const end = model.end(axis);
    return { start, end, span: Math.max(end - start, axis === "rounds" ? 1 : 1000) };
  }

  draw() {
    const { model, axis, view } = this.timeline;
    const width = this.element.clientWidth;
    if (!width) return;
    const context = sized(this.element, width, HEIGHT);
    this.element.style.width = "100%";
    const colors = palette();
    const { start, span } = this.scale;
    const x = (position) => ((position - start) / span) * width;
    context.drawImage(this.ticks(width, x, colors), 0, 0, width, HEIGHT);
    const left = Math.max(0, x(view.from));
    const right = Math.min(width, x(view.to));
    context.globalAlpha = 0.14;
    context.fillStyle = colors.accent;
    context.fillRect(left, 0, Math.max(3, right - left), HEIGHT);
    context.globalAlpha = 1;
    context.fillRect(left, 0, 1.5, HEIGHT);
    context.fillRect(Math.max(left + 1.5, right - 1.5), 0, 1.5, HEIGHT);
  }

  // The ticks change with the rounds, not with the view: they are kept as a picture between.
  ticks(width, x, colors) {
    const { model, axis } = this.timeline;
    const key = [axis, width, model.rounds.length, model.rounds[0]?.seq, model.last, Math.round(x(model.position(model.rounds.length - 1, axis))), theme()].join();
    if (this.ticksKey === key) return this.layer;
    this.ticksKey = key;
    this.layer ??= document.createElement("canvas");
    const context = sized(this.layer, width, HEIGHT);
    context.fillStyle = colors.sunken;
    context.fillRect(0, 0, width, HEIGHT);
    context.globalAlpha = 0.75;
    const most = model.rounds.reduce((top, round) => Math.max(top, round.summary.moved), 1);
    for (let index = 0; index < model.rounds.length; index += 1) {
      const { summary } = model.rounds[index];
      const tall = 5 + (summary.moved / most) * (HEIGHT - 10);
      context.fillStyle = toneOf(summary.cause.kind);
      context.fillRect(x(model.position(index, axis)), HEIGHT - tall, 1.5, tall);
    }
    context.globalAlpha = 1;
    return this.layer;
  }

  drag(event) {
    const { start, span } = this.scale;
    const width = this.element.clientWidth;
    const half = (this.timeline.view.to - this.timeline.view.from) / 2;
    const move = ({ offsetX }) => {
      const middle = start + (offsetX / width) * span;
      this.timeline.show(middle - half, middle + half);
    };
    this.element.setPointerCapture(event.pointerId);
    move(event);
    this.element.addEventListener("pointermove", move);
    this.element.addEventListener("pointerup", () => this.element.removeEventListener("pointermove", move), { once: true });
  }
}
