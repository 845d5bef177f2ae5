// The card of the ownership chart: its controls, the timeline, the lag, and the owners below them. Links carry its settings.
import { h, setAttribute, setText } from "../../core/dom.js";
import { clock, counting, day, duration } from "../../core/format.js";
import { query, setQuery } from "../../core/router.js";
import { Legend } from "./legend.js";
import { ORDERS, usualOrder } from "./order.js";

export class Chart {
  // ``onAsOf``: shows the group as of the chosen round.
  constructor({ timeline, lag, owners, onAsOf }) {
    this.timeline = timeline;
    this.legend = new Legend(timeline, owners);
    this.axes = ["time", "rounds"].map((axis) => h("button", { type: "button", "data-axis": axis, "aria-pressed": String(axis === "time"), onclick: () => this.setAxis(axis) }, axis === "time" ? "Time" : "Rounds"));
    this.range = h("span", { class: "range" });
    this.order = h("select", { class: "field", "aria-label": "Order of partitions", onchange: () => this.arrange({ order: this.order.value }) },
      Object.entries(ORDERS).map(([value, label]) => h("option", { value }, label)));
    this.find = h("input", { class: "field", type: "search", placeholder: "Find partition, owner", "aria-label": "Find partition or member", oninput: () => this.arrange({ find: this.find.value }) });
    const zoom = h("span", { class: "segmented", role: "group", "aria-label": "Zoom" },
      h("button", { type: "button", "aria-label": "Zoom out", title: "Zoom out (−)", onclick: () => timeline.zoom(1 / 0.6) }, "−"),
      h("button", { type: "button", "aria-label": "Zoom in", title: "Zoom in (+)", onclick: () => timeline.zoom(0.6) }, "+"),
      h("button", { type: "button", title: "The newest rounds (0, or double click)", onclick: () => timeline.fit() }, "Newest"));
    const asOf = h("button", { class: "button", type: "button", title: "Members, status and stories as of the chosen round", onclick: onAsOf }, "As of round");
    this.element = h("section", { class: "card timeline", "aria-label": "Ownership over time" },
      h("header", {}, h("h2", {}, "Ownership"), h("span", { class: "segmented", role: "group", "aria-label": "Axis" }, this.axes), zoom, this.order, this.find, asOf,
        h("span", { class: "muted hint" }, "drag to zoom · ctrl + wheel · shift + wheel to move"), this.range),
      timeline.stage, lag.element, timeline.minimap.element, this.legend.element);
  }

  // The settings that the page's link carries.
  restore() {
    const params = query();
    const axis = params.get("axis") === "rounds" ? "rounds" : "time";
    this.timeline.axis = axis;
    this.find.value = params.get("find") ?? "";
    this.timeline.arrange({ order: params.get("order") in ORDERS ? params.get("order") : null, find: this.find.value });
    this.press(axis);
    const from = Number(params.get("from"));
    const to = Number(params.get("to"));
    if (params.has("from") && to > from) this.timeline.show(from, to);
    else this.timeline.fit();
  }

  arrange(changes) {
    this.timeline.arrange(changes);
    setQuery(changes);
    this.render();
  }

  render() {
    this.order.value = this.timeline.order ?? usualOrder(this.timeline.model);
    this.legend.render();
  }

  press(axis) {
    for (const button of this.axes) setAttribute(button, "aria-pressed", String(button.dataset.axis === axis));
  }

  setAxis(axis) {
    this.press(axis);
    this.timeline.setAxis(axis);
    setQuery({ axis: axis === "rounds" ? axis : null });
  }

  // The link follows once the range rests.
  showRange({ axis, from, to, follow }) {
    clearTimeout(this.settle);
    this.settle = setTimeout(() => setQuery({ from: follow ? null : Math.round(from), to: follow ? null : Math.round(to) }), 250);
    const { model } = this.timeline;
    if (axis === "rounds") {
      const last = Math.min(model.rounds.length, Math.ceil(to));
      setText(this.range, counting(Math.max(0, last - Math.max(0, Math.floor(from))), "round"));
    } else {
      const end = Math.min(to, model.end("time"));
      setText(this.range, `${day(from)} ${clock(from)} – ${day(from) === day(end) ? "" : `${day(end)} `}${clock(end)} · ${duration(Math.max(0, end - from))}`);
    }
  }

  close() {
    clearTimeout(this.settle);
  }
}
