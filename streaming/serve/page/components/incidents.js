// The incidents of a group, and those of the cluster that it is part of: open ones first, then those that are over.
import { acknowledgementOf } from "../core/attention.js";
import { arrange, h, setAttribute, setText } from "../core/dom.js";
import { bounds, duration, kindText, moment, number, visible } from "../core/format.js";
import { inZone } from "../core/zone.js";

const OVER = 3; // that are over, until more are wanted

// Who works on it, until when, and the note.
function acknowledgementText(incident) {
  const found = acknowledgementOf(incident);
  if (!found) return "";
  const { muted, by, until, text } = found;
  return ` ${muted ? "Muted" : "Acknowledged"}${by ? ` by ${visible(by)}` : ""}${until ? ` until ${moment(until)}` : ""}${text ? `: ${visible(text)}` : "."}`;
}

export class Incidents {
  constructor(group) {
    this.group = group;
    this.clear();
    this.wanted = false;
    this.more = h("button", { class: "more", type: "button", hidden: true, onclick: () => this.toggle() });
    this.count = h("span", { class: "muted num" });
    this.list = h("ul", { "aria-label": "Incidents, those that last first" });
    this.element = h("section", { class: "card incidents", "aria-label": "Incidents" }, h("header", {}, h("h2", {}, "Incidents"), this.count), this.list, this.more);
  }

  toggle() {
    this.wanted = !this.wanted;
    this.render();
  }

  clear() {
    this.known = new Map();
    this.ofCluster = []; // those that name the group
    this.items = new Map();
  }

  take(incident) {
    const known = this.known.get(incident.incident);
    if (!known || known.openedAt < incident.openedAt || known.updatedAt <= incident.updatedAt) this.known.set(incident.incident, incident);
  }

  render() {
    const isCluster = ({ scope }) => scope === "cluster";
    const all = [...this.ofCluster, ...this.known.values()].sort((a, b) =>
      (a.closedAt !== null) - (b.closedAt !== null) || (a.closedAt === null && isCluster(b) - isCluster(a)) || b.openedAt - a.openedAt);
    const open = all.filter(({ closedAt }) => closedAt === null).length;
    setText(this.count, all.length ? (open ? `${number(open)} open` : "none open") : "None");
    setAttribute(this.element, "data-tone", open ? "bad" : "good");
    const shown = this.wanted ? all : all.slice(0, open + OVER);
    arrange(this.list, shown.map((one) => this.item(one)));
    this.list.hidden = !all.length;
    this.more.hidden = all.length <= open + OVER;
    setAttribute(this.more, "aria-expanded", String(this.wanted));
    setText(this.more, this.wanted ? "Show fewer" : `Show ${number(all.length - shown.length)} more`);
  }

  item(incident) {
    const { groupId, incident: ordinal, kind, openedAt, closedAt, times, story, scope, pauses } = incident;
    const paused = Object.hasOwn(pauses?.groups ?? {}, this.group) ? ` This group: ${bounds(...pauses.groups[this.group])}.` : "";
    const key = `${groupId}/${ordinal}`;
    if (!this.items.has(key)) this.items.set(key, h("li", {}, h("span", { class: "mark" }), h("span", { class: "when" }), h("p", {})));
    const item = this.items.get(key);
    const [mark, when, text] = item.children;
    setAttribute(item, "data-tone", closedAt === null ? "bad" : null);
    setAttribute(item, "data-over", closedAt === null ? null : "");
    setText(mark, scope === "cluster" ? `Cluster: ${kindText(kind).toLowerCase()}` : kindText(kind));
    const lasted = closedAt === null ? `since ${moment(openedAt)}` : `${moment(openedAt)}, for ${duration(closedAt - openedAt)}`;
    setText(when, times > 1 ? `${lasted}, ${number(times)} times` : lasted);
    setText(text, visible(inZone(story, incident.updatedAt)) + paused + acknowledgementText(incident));
    return item;
  }
}
