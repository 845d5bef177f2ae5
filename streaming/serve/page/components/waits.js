// What a rebalancing group is waiting for, and how long that usually takes.
import { h, setAttribute } from "../core/dom.js";
import { ago, clock, counting, duration, ranges, statusTone, visible } from "../core/format.js";

function places(partitions) {
  return Object.entries(partitions).map(([topic, numbers]) => `${topic} ${ranges(numbers)}`).join(", ");
}

const more = ({ omitted }) => (omitted ? h("span", { class: "muted" }, ` and ${counting(omitted, "more partition")}`) : null);

function wait(one, owners) {
  const late = one.usualMs !== null && Date.now() - one.since > one.usualMs;
  const who = one.memberId === null ? null : h("span", { class: "chip", title: one.memberId }, h("i", { style: { background: owners.colorOf(one.memberId) } }), owners.nameOf(one.memberId));
  const when = [`since ${clock(one.since)}`, `${ago(one.since)}`];
  if (one.until !== null) when.push(`until ${clock(one.until)}`);
  if (one.usualMs !== null) when.push(`usually ${duration(one.usualMs)} (${counting(one.usualOf, "rebalance")})`);
  return h("li", {}, who, ` ${visible(one.reason)} `, h("span", { class: "mono" }, places(one.partitions)), more(one),
    h("span", { class: "muted" }, ` ${when.join(" · ")}`), late ? h("span", { class: "flag" }, " longer than usual") : null);
}

export class Waits {
  constructor(owners) {
    this.owners = owners;
    this.list = h("ul", {});
    this.element = h("section", { class: "card waits", "aria-label": "Waiting for", hidden: true }, h("header", {}, h("h2", {}, "Waiting for")), this.list);
  }

  show(episode) {
    const waiting = episode && episode.closedAt === null ? episode.waitingFor : [];
    this.element.hidden = !waiting.length;
    setAttribute(this.element, "data-tone", statusTone(episode?.status));
    const text = waiting.map((one) => `${JSON.stringify(one)}${ago(one.since)}`).join();
    if (this.text === text) return;
    this.text = text;
    this.list.replaceChildren(...waiting.map((one) => wait(one, this.owners)));
  }
}
