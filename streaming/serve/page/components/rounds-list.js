// The rounds of a group as readable diffs, newest first, in bands by episode, which fold to a line; a round that is opened
// shows owned, revoked, assigned, kept.
import { get, groupPath } from "../core/api.js";
import { unassignedCount } from "../core/attention.js";
import { arrange, h, setText } from "../core/dom.js";
import { Band } from "./band.js";
import { causeGlyph, causeText, clock, counting, countOf, day, member, number, ranges } from "../core/format.js";
import { KeptDiffs } from "../core/kept.js";
import { Some } from "./some.js";

const STEP = 60;
const KINDS = [["owned", "Owned before"], ["revoked", "Revoked"], ["assigned", "Assigned"], ["kept", "Kept"]];
const CHIPS = 7;
const SMOOTH = () => ({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });

// Partitions gained and lost: {member: {plus, minus}}.
function balance(model, index) {
  const found = new Map();
  const ids = [...model.owners.index.keys()];
  const of = (owner) => found.get(owner) ?? found.set(owner, { plus: 0, minus: 0 }).get(owner);
  for (const [taker, topic, numbers] of model.rounds[index].changes) {
    for (const one of numbers) {
      const partition = model.byKey.get(`${topic}/${one}`);
      const at = partition ? model.stretch(partition, index - 1) : -1;
      const before = at >= 0 ? partition.owners[at] : -1;
      if (before >= 0 && ids[before] !== taker) of(ids[before]).minus += 1;
      if (taker !== null && (before < 0 || ids[before] !== taker)) of(taker).plus += 1;
    }
  }
  return found;
}

function partitionsCell(partitions, kind, label) {
  const lines = Object.entries(partitions).map(([topic, numbers]) => h("div", {}, h("span", { class: "topic" }, `${topic} `), h("b", {}, ranges(numbers))));
  return h("td", { class: kind, "data-label": label, "data-none": !lines.length }, lines.length ? lines : h("span", { class: "muted" }, "–"));
}

// A round's diff with the cause of its summary.
export const withCause = ({ diff, summary }) => ({ ...diff, cause: summary.cause });

export function diffTable(diff, owners) {
  const weight = (one) => countOf(one.revoked) + countOf(one.assigned);
  const members = Object.entries(diff.members).map(([id, one]) => ({ id, one, changed: weight(one) })).sort((a, b) => b.changed - a.changed);
  const row = ({ id, one }) =>
    h("tr", {},
      h("td", { title: id }, h("span", { class: "chip" }, h("i", { style: { background: owners.colorOf(id) } }), owners.nameOf(id)),
        owners.named(id) ? h("span", { class: "muted id" }, ` ${member(id)}`) : null,
        one.present === false ? h("span", { class: "muted" }, " gone") : null),
      ...KINDS.map(([kind, label]) => partitionsCell(one[kind], kind, label)));
  const body = h("tbody");
  const some = new Some("Find a member", () => fill());
  const fill = () => body.replaceChildren(...some.of(members, ({ id, one }) => `${owners.nameOf(id)} ${id} ${one.clientHost ?? ""}`).map(row));
  fill();
  const heads = ["Member", ...KINDS.map(([, label]) => label)].map((title) => h("th", { scope: "col" }, title));
  const notes = diff.cause.evidence.map(({ source, reason }) => h("p", { class: "note", title: reason }, `${owners.words(reason)} `, h("span", { class: "muted" }, `(${source})`)));
  if (Object.keys(diff.unassigned).length) {
    const text = Object.entries(diff.unassigned).map(([topic, numbers]) => `${topic} ${ranges(numbers)}`).join("; ");
    notes.push(h("p", { class: "note" }, h("span", { class: "flag" }, "Unassigned after this round: "), h("span", { class: "mono" }, text)));
  }
  for (const violation of diff.violations) notes.push(h("p", { class: "note flag", title: violation }, owners.words(violation)));
  if (diff.expected?.verdict === "different") notes.push(...unexpected(diff.expected, owners));
  const others = diff.unchanged ? h("p", { class: "note muted" }, members.length ? `… ${counting(diff.unchanged, "other member")} unchanged` : `All ${counting(diff.unchanged, "member")} unchanged`) : null;
  return h("div", { class: "diff" }, notes, some.element, members.length ? h("table", {}, h("thead", {}, h("tr", {}, heads)), body) : null, others);
}

// What members should have been assigned, and were not.
function unexpected({ why, missing = {}, extra = {} }, owners) {
  const said = (shares, word) => Object.entries(shares).map(([id, share]) =>
    h("p", { class: "note" }, `${owners.nameOf(id)} ${word} `, h("span", { class: "mono" },
      Object.entries(share).map(([topic, numbers]) => `${topic} ${ranges(numbers)}`).join("; "))));
  return [h("p", { class: "note flag" }, `Not as expected: ${why}`), ...said(missing, "should have"), ...said(extra, "should not have")];
}

export class RoundsList {
  // onSelect(seq), onOlder(), onCompare(number of an episode)
  constructor({ group, model, episodes, owners, onSelect, onOlder, onCompare }) {
    Object.assign(this, { group, model, episodes, owners, onSelect, onOlder, onCompare });
    this.list = h("ol", { "aria-label": "Episodes and rounds, newest first" });
    this.more = h("button", { class: "more", type: "button", onclick: () => this.grow() }, "Show more");
    this.count = h("span", { class: "muted num" });
    this.all = h("button", { class: "button", type: "button", onclick: () => this.foldAll() }, "Unfold all");
    this.title = h("h2", {}, "Rounds");
    this.element = h("section", { class: "card rounds", "aria-label": "Rounds" }, h("header", {}, this.title, this.count, h("span", { class: "spacer" }), this.all), this.list, this.more);
    this.shown = STEP;
    this.bands = new Map(); // episode's number → its band
    this.folded = new Map(); // what the person has folded or unfolded, by number
    this.selected = null;
    this.items = new Map();
    this.open = new Set();
    this.diffs = new KeptDiffs();
  }

  grow() {
    this.shown += STEP;
    if (this.shown > this.model.rounds.length && this.model.next) this.onOlder();
    this.render();
  }

  // As the person has it; else the newest is open, and that of the chosen round.
  isFolded({ episode, rounds }, place) {
    return this.folded.get(episode.episode) ?? (place > 0 && !rounds.some((index) => this.model.rounds[index].seq === this.selected));
  }

  fold(band) {
    this.folded.set(band.episode.episode, band.button.getAttribute("aria-expanded") === "true");
    this.render();
  }

  foldAll() {
    const fold = !this.anyFolded;
    for (const { episode } of this.episodes.bands(this.model.rounds, !this.model.next)) if (episode) this.folded.set(episode.episode, fold);
    this.render();
  }

  render() {
    const { rounds, next } = this.model;
    const bands = this.episodes.bands(rounds, !next);
    const wanted = [];
    let room = this.shown; // lines
    this.anyFolded = bands.some((band, place) => band.episode && this.isFolded(band, place));
    let left = false;
    for (const [place, band] of bands.entries()) {
      if (room <= 0) {
        left = true;
        break;
      }
      const folded = band.episode !== null && this.isFolded(band, place);
      const shown = folded ? [] : band.rounds.slice(0, room);
      left ||= !folded && shown.length < band.rounds.length;
      room -= shown.length + (band.episode ? 1 : 0);
      const items = shown.map((index) => this.itemOf(index));
      if (band.episode) wanted.push(this.band(band.episode, folded, items));
      else wanted.push(...items);
    }
    arrange(this.list, wanted);
    this.more.hidden = !left && !next;
    this.all.hidden = !this.episodes.known.size;
    setText(this.all, this.anyFolded ? "Unfold all" : "Fold all");
    const withEpisode = bands.filter(({ episode }) => episode).length;
    setText(this.title, withEpisode ? "Episodes" : "Rounds");
    setText(this.count, withEpisode ? `${number(withEpisode)} · ${counting(rounds.length, "round")}${next ? " loaded" : ""}` : `${number(rounds.length)}${next ? " loaded" : ""}`);
  }

  // Unfold an episode and bring it into sight.
  reveal({ episode }) {
    this.folded.set(episode, false);
    this.render();
    while (!this.bands.get(episode)?.element.isConnected && !this.more.hidden && this.shown < 2 * this.model.rounds.length + STEP) {
      this.shown += STEP;
      this.render();
    }
    this.bands.get(episode)?.element.scrollIntoView(SMOOTH());
  }

  band(episode, folded, items) {
    let band = this.bands.get(episode.episode);
    if (!band) this.bands.set(episode.episode, (band = new Band({ owners: this.owners, onFold: (one) => this.fold(one), onCompare: this.onCompare })));
    band.show(episode, folded, items);
    return band.element;
  }

  itemOf(index) {
    const { seq } = this.model.rounds[index];
    if (this.items.has(seq)) return this.items.get(seq);
    const item = this.item(this.model.rounds[index], index);
    this.items.set(seq, item);
    // The list was loaded again, or has other colours: what was chosen and open stays so.
    if (seq === this.selected) item.setAttribute("data-selected", "");
    if (this.open.delete(seq)) this.unfold(seq);
    return item;
  }

  clear() {
    this.items.clear();
    this.bands.clear();
    this.list.replaceChildren();
  }

  item({ seq, summary }, index) {
    const changed = balance(this.model, index);
    const chips = [...changed].slice(0, CHIPS).map(([id, { plus, minus }]) =>
      h("span", { class: "chip", title: id }, h("i", { style: { background: this.owners.colorOf(id) } }), this.owners.nameOf(id),
        minus ? h("span", { class: "minus" }, `−${minus}`) : null, plus ? h("span", { class: "plus" }, `+${plus}`) : null));
    if (changed.size > CHIPS) chips.push(h("span", { class: "chip muted" }, `${changed.size - CHIPS} more`));
    if (!chips.length) chips.push(h("span", { class: "muted" }, "no change"));
    const generation = summary.groupEpoch === null ? `gen ${summary.generation ?? "–"}` : `epoch ${summary.groupEpoch}`;
    const item = h("li", { class: "round", "data-seq": String(seq) });
    const button = h("button", { type: "button", "aria-expanded": "false", onclick: () => this.toggle(seq) },
      h("span", { class: "turn", "aria-hidden": "true" }, "▶"),
      h("span", { class: "when", title: new Date(summary.timestamp).toISOString() }, `${day(summary.timestamp)} ${clock(summary.timestamp, { millis: true })}`),
      h("span", { class: "why" }, h("span", { class: "cause", "data-cause": summary.cause.kind, title: summary.cause.memberIds.join(", ") },
        h("i", { "aria-hidden": "true" }, causeGlyph(summary.cause.kind)), h("span", {}, causeText(summary.cause, summary.names)))),
      h("span", { class: "who" }, chips),
      h("span", { class: "end gen" }, `${generation}${summary.round > 1 ? ` · round ${summary.round}` : ""}`),
      h("span", { class: "end" }, summary.violations.length ? h("span", { class: "flag" }, `${summary.violations.length} violated`)
        : unassignedCount(summary, null) ? h("span", { class: "flag", title: "partitions that no member owns after this round" }, `${number(summary.unassigned)} unassigned`) : summary.moved ? `${number(summary.moved)} moved` : "–"));
    item.append(button);
    return item;
  }

  toggle(seq) {
    if (this.open.has(seq)) this.close(seq);
    else this.unfold(seq);
    this.onSelect(seq);
  }

  close(seq) {
    this.open.delete(seq);
    const item = this.items.get(seq);
    item?.querySelector(".diff")?.remove();
    item?.firstElementChild.setAttribute("aria-expanded", "false");
  }

  async unfold(seq) {
    const item = this.items.get(seq);
    if (!item || this.open.has(seq)) return;
    this.open.add(seq);
    item.firstElementChild.setAttribute("aria-expanded", "true");
    let diff = this.diffs.get(seq);
    if (!diff) {
      const found = await get(`${groupPath(this.group)}/rounds/${seq}`);
      this.owners.call(found.names, { later: false });
      diff = withCause(found);
      this.diffs.set(seq, diff);
    }
    if (this.open.has(seq) && !item.querySelector(".diff")) item.append(diffTable(diff, this.owners));
  }

  // Mark a round and bring it into sight; `open` shows its diff.
  select(seq, { open = false, scroll = true } = {}) {
    this.items.get(this.selected)?.removeAttribute("data-selected");
    this.selected = seq;
    const place = this.model.rounds.findIndex((round) => round.seq === seq);
    if (place < 0) return;
    const episode = this.episodes.of(this.model.rounds[place].summary);
    if (episode) this.folded.set(episode.episode, false);
    this.render();
    while (!this.items.get(seq)?.isConnected && this.shown < 2 * this.model.rounds.length + STEP) {
      this.shown += STEP;
      this.render();
    }
    const item = this.itemOf(place);
    item.setAttribute("data-selected", "");
    if (open) this.unfold(seq);
    if (scroll) item.scrollIntoView(SMOOTH());
  }
}
