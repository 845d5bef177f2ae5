// A table that renders the rows in sight and no others: ten thousand groups cost as much as forty.
import { h, setAttribute } from "../core/dom.js";

const MARGIN = 6;

export class VirtualTable {
  // columns: [{key, title, className, value, render(cell, item)}]; onSort(key): by those that have a value. The height of a
  // row is the style's `--row`.
  constructor({ columns, label, onSort }) {
    this.columns = columns;
    this.rowHeight = 34;
    this.items = [];
    this.slots = [];
    this.spacer = h("div");
    this.body = h("div", { class: "grid-body", role: "rowgroup", tabindex: "0", "aria-label": label }, this.spacer);
    this.heads = columns.map(({ key, title, className, value }) =>
      h("span", { role: "columnheader", class: className ?? "", "data-column": key }, value ? h("button", { type: "button", onclick: () => onSort(key) }, title) : title),
    );
    this.head = h("div", { class: "grid-head", role: "row" }, this.heads);
    this.element = h("div", { class: "grid", role: "table", "aria-label": label }, this.head, this.body);
    this.body.addEventListener("scroll", () => this.render(), { passive: true });
    this.observer = new ResizeObserver(() => this.measure());
    this.observer.observe(this.body);
  }

  close() {
    this.observer.disconnect();
  }

  // Rows are taller where a narrow screen folds them.
  measure() {
    const height = Number.parseFloat(getComputedStyle(this.body).getPropertyValue("--row"));
    if (height !== this.rowHeight) {
      this.rowHeight = height;
      this.show(this.items);
    } else this.render();
  }

  sorted(key, descending) {
    this.columns.forEach((column, index) => {
      const direction = descending ? "descending" : "ascending";
      setAttribute(this.heads[index], "aria-sort", column.key === key ? direction : null);
    });
  }

  show(items) {
    this.items = items;
    this.spacer.style.height = `${items.length * this.rowHeight}px`;
    setAttribute(this.element, "aria-rowcount", items.length);
    this.render();
  }

  render() {
    const height = this.body.clientHeight;
    // Head and rows share columns only if both leave the same room for the scrollbar.
    this.head.style.paddingRight = `${16 + this.body.offsetWidth - this.body.clientWidth}px`;
    const first = Math.max(0, Math.floor(this.body.scrollTop / this.rowHeight) - MARGIN);
    const last = Math.min(this.items.length, Math.ceil((this.body.scrollTop + height) / this.rowHeight) + MARGIN);
    while (this.slots.length < last - first) this.slots.push(this.slot());
    this.slots.forEach((slot, index) => {
      const item = first + index < last ? this.items[first + index] : null;
      slot.row.hidden = item === null;
      if (item !== null) this.fill(slot, item, first + index);
    });
  }

  slot() {
    const cells = this.columns.map(({ key, className }) => h("span", { role: "cell", class: className ?? "", "data-column": key }));
    const row = h("div", { class: "grid-row", role: "row" }, cells);
    const slot = { row, cells, item: null };
    row.addEventListener("click", (event) => {
      if (!event.target.closest("a") && slot.item) row.querySelector("a")?.click();
    });
    this.body.append(row);
    return slot;
  }

  fill(slot, item, index) {
    const top = `${index * this.rowHeight}px`;
    if (slot.row.style.top !== top) slot.row.style.top = top;
    setAttribute(slot.row, "aria-rowindex", index + 1);
    slot.item = item;
    this.columns.forEach((column, at) => column.render(slot.cells[at], item, slot.row));
  }
}
