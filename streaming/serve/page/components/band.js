// One episode in the list: a line that folds, its story, its members and downtime, and its rounds.
import { arrange, copy, h, setAttribute, setText } from "../core/dom.js";
import { bounds, clock, countBounds, counting, day, duration, kindText, moment, number, statusTone, visible } from "../core/format.js";
import { inZone, zoneName } from "../core/zone.js";

const WHO = [["joined", "joined"], ["left", "left"], ["lost", "crashed"], ["gone", "departed"]];
const NAMED = 12;

// From when to when: the day once.
function span({ openedAt, updatedAt, closedAt }) {
  const end = closedAt === null ? "now" : clock(closedAt);
  const same = closedAt === null || clock(openedAt) === clock(updatedAt);
  return `${day(openedAt)} ${clock(openedAt)}${same && closedAt !== null ? "" : ` – ${end}`}`;
}

function people(ids, owners, verb) {
  const chips = ids.slice(0, NAMED).map((id) => h("span", { class: "chip", title: id }, h("i", { style: { background: owners.colorOf(id) } }), owners.nameOf(id)));
  return h("p", { class: "note" }, chips, ids.length > NAMED ? h("span", { class: "muted" }, ` and ${number(ids.length - NAMED)} more`) : null, ` ${verb}`);
}

function times([least, most]) {
  if (most === null) return `≥ ${counting(least, "stop")}`;
  return least === most ? counting(most, "stop") : `${number(least)} to ${counting(most, "stop")}`;
}

// What the episode cost in messages, in one line.
const isCostKnown = ({ delayedMessages: [lower, upper] }) => lower > 0 || upper !== null;
const costText = ({ delayedMessages, worstDelayMs }) => `${countBounds(delayedMessages, "message")} delayed, worst ${bounds(...worstDelayMs)}`;

function costNote(cost) {
  const { peakLag, catchUpMs, caughtUpAt, evidence } = cost;
  const end = caughtUpAt === null ? "not caught up yet" : `caught up at ${moment(caughtUpAt)}, after ${bounds(...catchUpMs)}`;
  if (!isCostKnown(cost)) return h("p", { class: "note" }, h("b", {}, "Cost: "), "unknown number of messages delayed; ", end, evidence.length ? h("span", { class: "muted" }, ` (${evidence.join(", ")})`) : null);
  return h("p", { class: "note" }, h("b", {}, "Cost: "), `${costText(cost)}; peak lag ${countBounds(peakLag, "message")}; ${end}`, evidence.length ? h("span", { class: "muted" }, ` (${evidence.join(", ")})`) : null);
}

function downtimeNote({ longestMs, totalMs, stops, worst, partitions, unbounded, evidence }) {
  const said = [`longest ${bounds(...longestMs)}`, `${bounds(...totalMs)} in all (${counting(partitions, "partition")}, ${times(stops)})`];
  if (worst) said.push(`worst ${worst.topic} ${worst.partition}: ${bounds(worst.lowerMs, worst.upperMs)} in ${times(worst.stops)}`);
  if (unbounded) said.push(`no upper limit known for ${counting(unbounded, "partition")}`);
  return h("p", { class: "note" }, h("b", {}, "Downtime: "), said.join("; "), evidence.length ? h("span", { class: "muted" }, ` (${evidence.join(", ")})`) : null);
}

function details(episode, owners) {
  const { members, downtime, evidence, sure, cost, cause } = episode;
  const lines = cost ? [costNote(cost)] : [];
  if (downtime?.partitions) lines.push(downtimeNote(downtime));
  if (cause) lines.push(h("p", { class: "note" }, `Part of an incident of the cluster (${visible(cause)}).`));
  lines.push(...WHO.filter(([key]) => members[key].length).map(([key, verb]) => people(members[key], owners, verb)));
  if (members.replaced.length) lines.push(people(members.replaced.map(({ joined }) => joined), owners, "left and rejoined"));
  const reasons = new Map();
  for (const { source, reason } of evidence) {
    const text = `${visible(owners.words(reason))} (${source})`;
    reasons.set(text, (reasons.get(text) ?? 0) + 1);
  }
  for (const [text, times] of reasons) lines.push(h("p", { class: "note" }, text, times > 1 ? h("span", { class: "muted" }, `, ${times} times`) : null));
  if (!sure) lines.push(h("p", { class: "note muted" }, "The evidence does not prove this kind."));
  return lines;
}

// A story for chat or a ticket: group, time, story, what it cost, and a link.
function storyText(episode) {
  const { groupId, downtime, cost, story, openedAt, updatedAt } = episode;
  const link = new URL(location.href);
  for (const [name, value] of [["from", openedAt - 30_000], ["to", updatedAt + 30_000]]) link.searchParams.set(name, value);
  for (const name of ["round", "axis", "at"]) link.searchParams.delete(name);
  const notes = [cost ? costNote(cost) : null, downtime?.partitions ? downtimeNote(downtime) : null].filter(Boolean).map((note) => note.textContent);
  return [`${visible(groupId)}, ${span(episode)} (${zoneName()})`, visible(inZone(story, updatedAt)), ...notes, link].join("\n");
}

// Buttons below an episode: its story for the clipboard, and its place in a comparison.
function actions(episode, onCompare) {
  const button = h("button", { class: "button", type: "button", onclick: async () => {
    await copy(storyText(episode));
    setText(button, "Copied");
    setTimeout(() => setText(button, "Copy story"), 2000);
  } }, "Copy story");
  return h("p", { class: "note" }, button, " ", h("button", { class: "button", type: "button", onclick: () => onCompare(episode.episode) }, "Compare"));
}

export class Band {
  // onFold(band), onCompare(number of its episode)
  constructor({ owners, onFold, onCompare }) {
    this.owners = owners;
    this.onCompare = onCompare;
    this.mark = h("span", { class: "mark" });
    this.when = h("span", { class: "when" });
    this.story = h("span", { class: "story" });
    this.count = h("span", { class: "end" });
    this.still = h("span", { class: "end still" });
    this.button = h("button", { type: "button", onclick: () => onFold(this) },
      h("span", { class: "turn", "aria-hidden": "true" }, "▶"), this.when, this.mark, this.story, this.count, this.still);
    this.details = h("div", { class: "details" });
    this.rounds = h("ol", { "aria-label": "Rounds of this episode, newest first" });
    this.element = h("li", { class: "band" }, this.button, this.details, this.rounds);
  }

  // `items`: its rounds' elements; none while it is folded.
  show(episode, folded, items) {
    if (this.episode !== episode) {
      this.episode = episode;
      setAttribute(this.element, "data-episode", episode.episode);
      setAttribute(this.element, "data-status", episode.status);
      setAttribute(this.element, "data-tone", statusTone(episode.status));
      setText(this.when, span(episode));
      setAttribute(this.when, "title", `for ${duration(episode.updatedAt - episode.openedAt)}`);
      setText(this.mark, kindText(episode.kind));
      setText(this.story, visible(inZone(episode.story, episode.updatedAt)));
      setAttribute(this.story, "title", this.story.textContent);
      setText(this.count, counting(episode.roundCount, "round"));
      const { downtime, cost } = episode;
      const down = downtime?.worst && downtime.longestMs.some(Boolean) ? `down ${bounds(...downtime.longestMs)}` : "";
      setText(this.still, cost && isCostKnown(cost) ? costText(cost) : down);
      setAttribute(this.still, "title", down ? `${cost ? `${down}: ` : ""}the longest time that one partition had no consumer` : null);
      this.hasDetails = false;
    }
    setAttribute(this.button, "aria-expanded", String(!folded));
    this.details.hidden = folded;
    this.rounds.hidden = folded || !items.length;
    arrange(this.rounds, items);
    if (!folded && !this.hasDetails) {
      this.hasDetails = true;
      this.details.replaceChildren(...details(episode, this.owners), actions(episode, this.onCompare));
    }
  }
}
