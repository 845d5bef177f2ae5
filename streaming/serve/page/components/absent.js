// Instead of a group without a recorded rebalance: what to do, and groups of similar names.
import { h } from "../core/dom.js";
import { visible } from "../core/format.js";
import { address, groupAddress } from "../core/router.js";

const MOST = 6;

export class Absent {
  constructor(group) {
    this.word = group.toLowerCase().split(/[^a-z0-9]+/).sort((a, b) => b.length - a.length)[0];
    this.alike = h("p", {});
    this.element = h("div", { class: "card empty" }, h("h2", {}, "Group not found"),
      h("p", {}, "No rebalance of this group is recorded. Check its name; a new group appears here with its first rebalance."),
      this.alike, h("a", { class: "button", href: address("/"), "data-link": true }, "All groups"));
  }

  suggest(ids) {
    const found = [...ids].filter((id) => this.word && id.toLowerCase().includes(this.word)).sort((a, b) => a.length - b.length || (a < b ? -1 : 1)).slice(0, MOST);
    if (this.alike.childElementCount === found.length) return;
    this.alike.replaceChildren("Groups with a similar name: ", ...found.map((id) => h("a", { href: groupAddress(id), "data-link": true }, visible(id))));
  }
}
