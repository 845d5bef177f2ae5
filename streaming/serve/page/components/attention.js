// The card of what needs attention: incidents of the cluster, of groups, then groups that do not become stable.
import { arrange, h, setAttribute, setText } from "../core/dom.js";
import { ago, kindText, number, visible } from "../core/format.js";
import { groupAddress } from "../core/router.js";
import { inZone } from "../core/zone.js";

// On a small screen the table would be out of sight.
const most = () => (innerHeight < 700 || innerWidth < 760 ? 2 : 4);
const WORDS = { lost: "Members crashed" };

export class Attention {
  constructor() {
    this.all = false;
    this.items = new Map();
    this.count = h("span", { class: "muted num" });
    this.list = h("ul", { "aria-label": "Groups that need attention, the most urgent first" });
    this.more = h("button", { class: "more", type: "button", hidden: true, onclick: () => this.toggle() });
    this.element = h("section", { class: "card attention", "aria-label": "Needs attention" },
      h("header", {}, h("h2", {}, "Needs attention"), this.count), this.list, this.more);
  }

  toggle() {
    this.all = !this.all;
    this.show(this.found);
  }

  show(found) {
    this.found = found;
    setAttribute(this.element, "data-tone", found[0]?.tone ?? "good");
    setText(this.count, found.length ? number(found.length) : "None: no group needs attention");
    const shown = this.all ? found : found.slice(0, most());
    const items = new Map();
    arrange(this.list, shown.map((one) => {
      const key = `${one.what}/${one.kind}/${one.groupId}`;
      const item = this.items.get(key) ?? this.item(one);
      items.set(key, item);
      this.fill(item, one);
      return item;
    }));
    this.items = items;
    this.list.hidden = !shown.length;
    this.more.hidden = found.length <= most();
    setAttribute(this.more, "aria-expanded", String(this.all));
    setText(this.more, this.all ? "Show fewer" : `Show ${number(found.length - shown.length)} more`);
  }

  // An incident of the cluster has no page of its own.
  item({ what, groupId }) {
    const isCluster = what === "cluster";
    const parts = [h("span", { class: "mark" }), h("b", {}, isCluster ? "Cluster" : visible(groupId)), h("time"), h("span", { class: "story" })];
    return h("li", {}, isCluster ? h("div", {}, parts) : h("a", { href: groupAddress(groupId), "data-link": true }, parts));
  }

  fill(item, { what, kind, tone, since, story }) {
    const [mark, , time, text] = item.firstElementChild.children;
    setAttribute(item, "data-tone", tone);
    setText(mark, WORDS[what] ?? kindText(what === "cluster" || what === "incident" ? kind : what));
    setText(time, ago(since));
    setAttribute(time, "datetime", new Date(since).toISOString());
    setText(text, visible(inZone(story, since)));
    setAttribute(text, "title", text.textContent);
  }
}
