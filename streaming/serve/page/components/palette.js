// ⌘K: any group, member, topic or partition by name; "who owns orders-17?" lists its owners.
import { get } from "../core/api.js";
import { h, setAttribute, setText } from "../core/dom.js";
import { counting, visible } from "../core/format.js";
import { go, groupAddress } from "../core/router.js";
import { store } from "../core/store.js";

const MOST = 8; // groups; the server finds the others
const PAUSE_MS = 120;

function described({ kind, groupId, topic, partition, owners, partitions, name }) {
  if (kind === "partition") return { url: groupAddress(groupId, { find: `${topic}-${partition}` }), name: `${topic}-${partition}`, note: `owned by ${owners.join(", ")} in ${groupId}` };
  if (kind === "topic") return { url: groupAddress(groupId, { find: topic }), name: topic, note: `topic, ${counting(partitions, "partition")} read by ${groupId}` };
  return { url: groupAddress(groupId, { find: name }), name, note: `member of ${groupId}` };
}

export class Palette {
  constructor(button) {
    this.input = h("input", { class: "field", type: "text", role: "combobox", placeholder: "Group, member, topic, or who owns orders-17?", autocomplete: "off",
      "aria-label": "Search groups, members, topics and partitions", "aria-expanded": "true", "aria-controls": "found", oninput: () => this.search() });
    this.list = h("div", { id: "found", role: "listbox", "aria-label": "Found" });
    this.note = h("p", { role: "status" });
    this.dialog = h("dialog", { class: "palette", "aria-label": "Search", onkeydown: (event) => this.key(event) }, this.input, this.list, this.note);
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
    document.body.append(this.dialog);
    button.addEventListener("click", () => this.open());
    document.addEventListener("keydown", (event) => {
      if (event.key.toLowerCase() !== "k" || !(event.metaKey || event.ctrlKey) || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      this.open();
    });
  }

  open() {
    this.dialog.showModal();
    this.input.select();
    this.search();
  }

  search() {
    const text = this.input.value.trim().replace(/^who owns\s+/i, "").replace(/\?$/, "").trim();
    clearTimeout(this.timer);
    const groups = [...store.groups.keys()].filter((id) => id.toLowerCase().includes(text.toLowerCase())).sort((a, b) => a.length - b.length || (a < b ? -1 : 1));
    const found = groups.slice(0, MOST).map((id) => ({ url: groupAddress(id), name: id, note: "group" }));
    this.text = text;
    this.show(found, text ? "Searching members and topics" : `Type a part of a name; ${counting(store.groups.size, "group")} are known.`);
    if (!text) return;
    this.timer = setTimeout(async () => {
      const answer = await get("search", { q: text, limit: 30 });
      if (this.text !== text) return;
      const all = [...answer.found.filter(({ kind }) => kind === "partition").map(described), ...found, ...answer.found.filter(({ kind }) => kind !== "partition").map(described)];
      this.show(all, all.length ? `${counting(all.length, "result")}` : `No result for “${text}”. Only current members and their partitions are searched.`);
    }, PAUSE_MS);
  }

  show(found, note) {
    this.found = found;
    this.list.replaceChildren(...found.map(({ url, name, note: what }, index) =>
      h("a", { id: `found-${index}`, role: "option", href: url, "data-link": true, tabindex: "-1", onclick: () => this.dialog.close() }, h("b", {}, visible(name)), h("span", {}, visible(what)))));
    this.list.hidden = !found.length;
    setText(this.note, note);
    this.choose(0);
  }

  choose(index) {
    this.chosen = Math.max(0, Math.min(index, this.found.length - 1));
    for (const [place, option] of [...this.list.children].entries()) setAttribute(option, "aria-selected", String(place === this.chosen));
    setAttribute(this.input, "aria-activedescendant", this.found.length ? `found-${this.chosen}` : null);
    this.list.children[this.chosen]?.scrollIntoView({ block: "nearest" });
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) this.choose(this.chosen + step);
    else if (event.key === "Enter" && this.found[this.chosen]) {
      this.dialog.close();
      go(this.found[this.chosen].url);
    } else return;
    event.preventDefault();
  }
}
