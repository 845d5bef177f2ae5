// A search field over a long list that shows its first entries only: ten thousand rows would stall the page.
import { h, setText } from "../core/dom.js";
import { number } from "../core/format.js";

export const MOST = 200;
// Shorter lists have no search field.
const SEARCHED = 30;

export class Some {
  // label: of the field; onChange(): others are looked for.
  constructor(label, onChange) {
    this.field = h("input", { class: "field", type: "search", placeholder: label, "aria-label": label, hidden: true, oninput: onChange });
    this.note = h("span", { class: "muted num", role: "status", hidden: true });
    this.element = h("p", { class: "some", hidden: true }, this.field, this.note);
  }

  get searching() {
    return this.field.value.trim() !== "";
  }

  // Those to be shown; `textOf(item)` is what is looked at. `first`: so many while nothing is looked for.
  of(items, textOf, first = MOST) {
    const wanted = this.field.value.trim().toLowerCase();
    const found = wanted ? items.filter((item) => textOf(item).toLowerCase().includes(wanted)) : items;
    const shown = found.slice(0, wanted ? MOST : Math.min(first, MOST));
    this.element.hidden = items.length <= SEARCHED;
    this.field.hidden = this.element.hidden;
    this.note.hidden = !wanted && (first < MOST || found.length <= MOST);
    setText(this.note, found.length > MOST ? `the first ${number(MOST)} of ${number(found.length)}` : `${number(found.length)} of ${number(items.length)}`);
    return shown;
  }
}
