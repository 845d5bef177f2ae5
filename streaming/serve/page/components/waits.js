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

// A rebalance in progress: since when, why, who has rejoined, and how long each awaited member still has.
function rebalance({ since, reason, joined, awaited, until, state }, owners) {
  const text = [`Rebalancing since ${clock(since)}, ${ago(since)}`, reason && visible(owners.words(reason)), state && `${visible(state)} in Kafka`];
  if (joined.length) text.push(`${counting(joined.length, "member")} rejoined`);
  const left = (id) => (until[id] === undefined ? "" : until[id] > Date.now() ? `removed in ${duration(until[id] - Date.now())}` : "to be removed now");
  return [h("li", {}, text.filter(Boolean).join(" · ")), ...awaited.map((id) =>
    h("li", {}, h("span", { class: "chip", title: id }, h("i", { style: { background: owners.colorOf(id) } }), owners.nameOf(id)), state === "PreparingRebalance" ? " has not rejoined " : " is awaited ", h("span", { class: "muted" }, left(id))))];
}

export class Waits {
  constructor(owners) {
    this.owners = owners;
    this.list = h("ul", {});
    this.element = h("section", { class: "card waits", "aria-label": "Waiting for", hidden: true }, h("header", {}, h("h2", {}, "Waiting for")), this.list);
  }

  show(episode, status) {
    const waiting = episode && episode.closedAt === null ? episode.waitingFor : [];
    const rebalancing = episode?.rebalancing ?? null;
    this.element.hidden = !waiting.length && !rebalancing;
    setAttribute(this.element, "data-tone", statusTone(status));
    if (this.element.hidden) return;
    const text = JSON.stringify([rebalancing, waiting, Math.floor(Date.now() / 1000)]);
    if (this.text === text) return;
    this.text = text;
    this.list.replaceChildren(...(rebalancing ? rebalance(rebalancing, this.owners) : []), ...waiting.map((one) => wait(one, this.owners)));
  }
}
