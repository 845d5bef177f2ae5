// Ownership over time: a row a partition, a colour an owner, a mark a round, a band an episode; zoom, pan, hover, keys.
import { h, paced, setAttribute, sized } from "../../core/dom.js";
import { unassignedCount } from "../../core/attention.js";
import { annotationText, causeText, clock, counting, duration, kindText, moment, visible } from "../../core/format.js";
import { onTheme, theme } from "../../core/theme.js";
import { paintEpisodes } from "./bands.js";
import { Minimap } from "./minimap.js";
import { SHUT_DOWN } from "./model.js";
import { moves, ordered, usualOrder } from "./order.js";
import { BOTTOM, EPISODES, TOP, paintAnnotations, paintAxis, paintBand, paintCrosshair, paintMarks, paintRows, palette } from "./paint.js";

const MOST_HEIGHT = 470;
const SHORTEST = { time: 200, rounds: 2 };

export class Timeline {
  // onSelect(round index), onEpisode(episode), onRange({axis, from, to, follow}), onOlder(), onDraw(frame, colors)
  constructor({ model, episodes, owners, onSelect, onEpisode, onRange, onOlder, onDraw }) {
    Object.assign(this, { model, episodes, owners, onSelect, onEpisode, onRange, onOlder, onDraw });
    this.axis = "time";
    this.view = { from: 0, to: 1, follow: true };
    this.selected = -1;
    this.dim = null;
    this.hover = null;
    this.band = null;
    this.marks = [];
    this.bands = [];
    this.order = null; // the usual one
    this.find = "";
    this.at = null; // the moment that the page shows; null: now
    this.flags = [];
    this.canvas = h("canvas", {
      tabindex: "0", role: "slider", "aria-valuemin": "0", "aria-valuemax": "0", "aria-valuenow": "0", "aria-valuetext": "No round chosen",
      "aria-label": "Ownership of partitions over time, by round",
      "aria-description": "Left and right choose a round, plus and minus zoom, 0 shows the newest, Enter opens the round. The list below holds the same rounds as text.",
    });
    this.spacer = h("div", { style: { width: "1px" } });
    this.stage = h("div", { class: "stage" }, this.canvas, this.spacer);
    this.tip = h("div", { class: "tip", hidden: true, role: "presentation" });
    this.minimap = new Minimap(this);
    this.paint = paced(() => this.draw());
    this.forget = onTheme(() => {
      this.paint();
      this.minimap.paint();
    });
    this.observer = new ResizeObserver(this.paint);
    this.observer.observe(this.stage);
    this.clock = setInterval(() => this.tick(), 1000);
    document.body.append(this.tip);
    this.listen();
  }

  close() {
    clearInterval(this.clock);
    this.forget();
    this.observer.disconnect();
    this.tip.remove();
  }

  tick() {
    if (this.view.follow && this.axis === "time") this.followEnd();
    this.minimap.paint();
  }

  // The newest stretch that reads well: the last 40 rounds, or all there are.
  fit() {
    const { model, axis } = this;
    const first = Math.max(0, model.rounds.length - 40);
    const end = model.end(axis);
    const start = model.rounds.length ? model.position(first, axis) : model.start(axis);
    const room = axis === "rounds" ? 0.5 : Math.max(2000, (end - start) * 0.02);
    this.view = { from: start - room, to: axis === "rounds" ? Math.max(end, start + 6) : end + room * 0.6, follow: true };
    this.changed();
  }

  setAxis(axis) {
    this.axis = axis;
    this.fit();
  }

  show(from, to, { follow = false } = {}) {
    const least = SHORTEST[this.axis];
    const end = this.model.end(this.axis);
    const start = this.model.start(this.axis);
    const span = Math.max(least, Math.min(to - from, (end - start) * 1.1 + least));
    // Past the end there is nothing to see; a view that reaches it stays there and follows.
    const ahead = span * 0.04;
    const follows = follow || to >= end;
    let left = follows ? Math.min(to, end + ahead) - span : (from + to) / 2 - span / 2;
    left = Math.max(left, start - span * 0.6);
    this.view = { from: left, to: left + span, follow: follows };
    this.changed();
    if (left < start && this.model.next) this.onOlder();
  }

  zoom(factor, at = null) {
    const { from, to, follow } = this.view;
    const fixed = at ?? (follow ? to : (from + to) / 2);
    this.show(fixed - (fixed - from) * factor, fixed + (to - fixed) * factor);
  }

  pan(share) {
    const span = this.view.to - this.view.from;
    this.show(this.view.from + span * share, this.view.to + span * share);
  }

  followEnd() {
    const span = this.view.to - this.view.from;
    const end = this.model.end(this.axis);
    const to = this.axis === "rounds" ? Math.max(end, this.view.to) : end + span * 0.012;
    this.view = { from: to - span, to, follow: true };
    this.paint();
  }

  changed() {
    if (this.pointer) this.point(this.pointer); // another partition and time is under it now
    this.onRange({ axis: this.axis, ...this.view });
    this.paint();
    this.minimap.paint();
  }

  // A round came: keep the end in sight when it was.
  grown() {
    if (this.view.follow) this.followEnd();
    this.paint();
    this.minimap.paint();
  }

  select(index, { reveal = false } = {}) {
    this.selected = index;
    if (reveal && index >= 0) {
      const at = this.model.position(index, this.axis);
      const { from, to } = this.view;
      if (at < from || at > to) this.show(at - (to - from) / 2, at + (to - from) / 2);
    }
    this.paint();
  }

  // Bring a moment into sight; null: none.
  reach(moment) {
    if (moment !== null) {
      const at = this.model.place(moment, this.axis);
      const { from, to } = this.view;
      if (at < from || at > to) this.show(at - (to - from) / 2, at + (to - from) / 2);
    }
    this.paint();
  }

  // Set the chosen round as the slider's value; return whether a screen reader reads it, as the chart has the focus.
  announce(text) {
    setAttribute(this.canvas, "aria-valuemax", Math.max(0, this.model.rounds.length - 1));
    setAttribute(this.canvas, "aria-valuenow", this.selected);
    setAttribute(this.canvas, "aria-valuetext", text);
    return document.activeElement === this.canvas;
  }

  // Show other partitions, or in another order; null: the usual one.
  arrange({ order = this.order, find = this.find }) {
    Object.assign(this, { order, find });
    this.stage.scrollTop = 0;
    this.paint();
  }

  // The partitions that are shown, with the people who owned them.
  listed() {
    const { model, owners, find } = this;
    const order = this.order ?? usualOrder(model);
    const key = [model.last, model.rounds.length, model.partitions.length, owners.index.size, owners.version, order, find, theme()].join();
    if (this.listedFor !== key) {
      this.listedFor = key;
      const ids = [...owners.index.keys()];
      const people = ids.map((id) => owners.personOf(id));
      const partitions = ordered(model, people, order, find);
      const longest = partitions.reduce((most, one) => Math.max(most, one.topic.length), 4);
      const colorOf = people.map((person) => owners.colorOfPerson(person));
      this.list = { key, order, people, colorOf, partitions, longest, most: Math.max(1, ...model.partitions.map(moves)) };
    }
    return this.list;
  }

  geometry({ order, partitions, longest }) {
    const width = this.stage.clientWidth;
    const count = Math.max(1, partitions.length);
    // In the order of topics a label serves many rows; otherwise each row has its own.
    const row = Math.max(order === "topic" ? 5 : 12, Math.min(20, Math.floor((MOST_HEIGHT - TOP - BOTTOM) / count)));
    const full = TOP + BOTTOM + count * row;
    const gutter = Math.min(190, 48 + longest * 6, Math.max(70, width * 0.26));
    return { width, row, full, height: Math.min(full, MOST_HEIGHT), gutter };
  }

  frame() {
    const list = this.listed();
    const { width, row, full, height, gutter } = this.geometry(list);
    const { from, to } = this.view;
    const scale = (width - gutter) / (to - from);
    return {
      model: this.model, episodes: this.episodes, owners: this.owners, axis: this.axis, from, to, gutter, width, height, row, full,
      scroll: this.stage.scrollTop, selected: this.selected, dim: this.dim,
      ...list,
      x: (position) => (position === -Infinity ? -Infinity : gutter + (position - from) * scale),
      at: (x) => from + (x - gutter) / scale,
    };
  }

  draw() {
    const frame = this.frame();
    if (!frame.width) return;
    this.spacer.style.height = `${frame.full - frame.height}px`;
    this.stage.style.height = `${frame.height}px`;
    const context = sized(this.canvas, frame.width, frame.height);
    const colors = palette();
    if (!this.model.rounds.length) {
      context.fillStyle = colors.surface;
      context.fillRect(0, 0, frame.width, frame.height);
      return;
    }
    context.drawImage(this.rows(frame, colors), 0, 0, frame.width, frame.height);
    paintBand(context, frame, colors, this.band);
    paintCrosshair(context, frame, colors, this.hover);
    this.bands = paintEpisodes(context, frame, colors);
    this.marks = paintMarks(context, frame, colors);
    paintAxis(context, frame, colors);
    this.flags = paintAnnotations(context, frame, colors, this.at);
    this.onDraw(frame, colors);
  }

  // The rows change with the view, not with the pointer: they are kept as a picture between.
  rows(frame, colors) {
    const { axis, from, to, width, height, scroll, dim, row } = frame;
    const end = Math.round(frame.x(this.model.end(axis)));
    const key = [axis, from, to, width, height, scroll, dim, row, end, theme(), frame.key].join();
    if (this.rowsKey !== key) {
      this.rowsKey = key;
      this.layer ??= document.createElement("canvas");
      const context = sized(this.layer, width, height);
      context.fillStyle = colors.surface;
      context.fillRect(0, 0, width, height);
      paintRows(context, frame, colors);
    }
    return this.layer;
  }

  listen() {
    const { canvas } = this;
    this.stage.addEventListener("scroll", this.paint, { passive: true });
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerleave", () => this.leave());
    canvas.addEventListener("dblclick", () => this.fit());
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  wheel(event) {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.zoom(1.0018 ** event.deltaY, this.frame().at(event.offsetX));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      this.pan((event.deltaX || event.deltaY) / this.stage.clientWidth);
    }
  }

  press(event) {
    if (event.button !== 0) return;
    const band = this.bandAt(event);
    if (band) {
      this.onEpisode(band.episode);
      return;
    }
    const mark = this.markAt(event);
    if (mark) {
      const next = this.selected >= mark.from && this.selected < mark.to ? this.selected + 1 : mark.from;
      this.onSelect(next);
      return;
    }
    const begin = event.offsetX;
    this.canvas.setPointerCapture(event.pointerId);
    const move = ({ offsetX }) => {
      this.band = Math.abs(offsetX - begin) > 4 ? { a: begin, b: offsetX } : null;
      this.paint();
    };
    const release = ({ offsetX, offsetY }) => {
      this.canvas.removeEventListener("pointermove", move);
      const { band } = this;
      this.band = null;
      const frame = this.frame();
      if (band) this.show(frame.at(Math.min(band.a, band.b)), frame.at(Math.max(band.a, band.b)));
      else this.click(frame, offsetX, offsetY);
    };
    this.canvas.addEventListener("pointermove", move);
    this.canvas.addEventListener("pointerup", release, { once: true });
  }

  click(frame, x, y) {
    if (x < frame.gutter || y < TOP) return;
    const hit = this.hit(frame, x, y);
    if (hit && hit.round >= 0) this.onSelect(hit.round);
  }

  // What is under a point: the partition, its stretch of one owner, and the round that began it.
  hit(frame, x, y) {
    const { model, axis } = this;
    const index = Math.floor((y - TOP + frame.scroll) / frame.row);
    if (x < frame.gutter || y < TOP || y > frame.height - BOTTOM || index >= frame.partitions.length) return null;
    const partition = frame.partitions[index];
    const stretch = Math.max(0, model.stretch(partition, model.roundAt(frame.at(x), axis)));
    const begin = partition.starts[stretch];
    const end = stretch + 1 < partition.starts.length ? partition.starts[stretch + 1] : null;
    return {
      x, index, partition, round: begin, until: end, owner: partition.owners[stretch],
      left: frame.x(model.position(begin, axis)), right: frame.x(end === null ? model.end(axis) : model.position(end, axis)),
    };
  }

  bandAt({ offsetX, offsetY }) {
    return offsetY < EPISODES ? this.bands.find(({ left, right }) => left <= offsetX && offsetX <= right) : null;
  }

  flagAt({ offsetX, offsetY }) {
    return offsetY > this.frame().height - BOTTOM ? this.flags.find(({ x }) => Math.abs(x + 4 - offsetX) < 9) : null;
  }

  markAt({ offsetX, offsetY }) {
    return EPISODES <= offsetY && offsetY < TOP ? this.marks.find((one) => Math.abs(one.x - offsetX) < 9) : null;
  }

  point(event) {
    this.pointer = event;
    const frame = this.frame();
    const band = this.bandAt(event);
    const mark = this.markAt(event);
    this.canvas.style.cursor = band || mark ? "pointer" : "crosshair";
    const flag = this.flagAt(event);
    const hit = band || mark ? null : this.hit(frame, event.offsetX, event.offsetY);
    this.hover = hit ? { ...hit, partition: hit.index } : null;
    if (band) this.explain(event, [h("b", {}, kindText(band.episode.kind)), h("div", {}, visible(band.episode.story))]);
    else if (mark) this.explain(event, this.markLines(mark));
    else if (flag) this.explain(event, [h("b", {}, annotationText(flag.annotation)), h("div", {}, moment(flag.annotation.timestamp))]);
    else if (hit) this.explain(event, this.hitLines(hit));
    else this.tip.hidden = true;
    this.paint();
  }

  leave() {
    this.pointer = null;
    this.hover = null;
    this.tip.hidden = true;
    this.paint();
  }

  markLines({ from, to }) {
    const rounds = this.model.rounds.slice(from, to + 1).slice(0, 6);
    const lines = rounds.map(({ summary }) => h("div", {}, h("b", {}, causeText(summary.cause, summary.names)), `${moment(summary.timestamp)} · ${summary.moved} moved${unassignedCount(summary, null) ? `, ${summary.unassigned} unassigned` : ""}`));
    if (to - from >= 6) lines.push(h("div", { class: "muted" }, `and ${to - from - 5} more`));
    return lines;
  }

  hitLines({ partition, owner, round, until }) {
    const ids = [...this.owners.index.keys()];
    const begin = round >= 0 ? this.model.rounds[round] : null;
    const end = until === null ? null : this.model.rounds[until];
    const color = owner < 0 ? "transparent" : this.owners.colorOf(ids[owner]);
    const lines = [
      h("b", {}, `${partition.topic} / ${partition.number}`),
      h("div", {}, h("span", { class: "swatch", style: { background: color } }), owner === SHUT_DOWN ? "unassigned: the group was shut down" : owner < 0 ? "unassigned" : this.owners.personOf(ids[owner])),
    ];
    if (owner >= 0 && this.owners.named(ids[owner])) lines.push(h("div", { class: "muted" }, visible(ids[owner])));
    const since = begin ? `since ${clock(begin.at)}` : "since before the first round shown";
    const length = begin ? ` · ${duration((end ? end.at : Date.now()) - begin.at)}` : "";
    lines.push(h("div", { class: "muted" }, `${since}${end ? ` until ${clock(end.at)}` : ""}${length}`));
    if (begin) lines.push(h("div", { class: "muted" }, causeText(begin.summary.cause, begin.summary.names)));
    if (moves(partition)) lines.push(h("div", { class: "muted" }, `${counting(moves(partition), "change")} of owner in the rounds loaded`));
    return lines;
  }

  explain(event, lines) {
    this.tip.replaceChildren(...lines);
    this.tip.hidden = false;
    const { width, height } = this.tip.getBoundingClientRect();
    this.tip.style.left = `${Math.min(event.clientX + 14, innerWidth - width - 8)}px`;
    this.tip.style.top = `${event.clientY + 16 + height > innerHeight ? event.clientY - height - 12 : event.clientY + 16}px`;
  }

  key(event) {
    const moves = {
      ArrowLeft: () => this.onSelect(Math.max(0, (this.selected < 0 ? this.model.rounds.length : this.selected) - 1)),
      ArrowRight: () => this.onSelect(Math.min(this.model.rounds.length - 1, this.selected + 1)),
      Home: () => this.onSelect(0),
      End: () => this.onSelect(this.model.rounds.length - 1),
      "+": () => this.zoom(0.6),
      "=": () => this.zoom(0.6),
      "-": () => this.zoom(1 / 0.6),
      0: () => this.fit(),
      Enter: () => this.onSelect(this.selected, { open: true }),
    };
    if (!moves[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    moves[event.key]();
  }
}
