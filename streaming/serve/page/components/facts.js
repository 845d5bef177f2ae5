// The tiles of a group: protocol, generation, counts, and today's downtime.
import { unassignedCount } from "../core/attention.js";
import { h, setAttribute, setText } from "../core/dom.js";
import { bounds, duration, number } from "../core/format.js";

function fact(label, className = "") {
  const value = h("dd", { class: className }, "–");
  return { value, element: h("div", { class: "tile" }, h("dt", {}, label), value) };
}

export class Facts {
  constructor() {
    this.tiles = {
      protocol: fact("Protocol", "text"), assignor: fact("Assignor", "text"), generation: fact("Generation"), members: fact("Members"), partitions: fact("Partitions"),
      unassigned: fact("Unassigned"), rounds: fact("Rounds"), moved: fact("Partitions moved"), away: fact("Downtime"),
    };
    this.element = h("dl", { class: "card facts" }, Object.values(this.tiles).map((one) => one.element));
  }

  // ``newest``: the group's newest episode; ``today``: its downtime since midnight.
  show(group, newest, today) {
    const { kind = "consumer", protocol } = group;
    setText(this.tiles.protocol.value, kind === "consumer" || kind === protocol ? protocol : `${kind} · ${protocol}`);
    setText(this.tiles.assignor.value, group.assignor ?? "–");
    setAttribute(this.tiles.assignor.value, "title", group.assignor);
    setText(this.tiles.generation.element.firstElementChild, group.groupEpoch === null ? "Generation" : "Group epoch");
    setText(this.tiles.generation.value, group.groupEpoch ?? group.generation ?? "–");
    setText(this.tiles.members.value, number(group.members));
    setText(this.tiles.partitions.value, number(group.partitions));
    setText(this.tiles.unassigned.value, number(group.unassigned));
    setAttribute(this.tiles.unassigned.value, "data-tone", unassignedCount(group, newest) ? "bad" : null);
    setText(this.tiles.rounds.value, number(group.rounds));
    setText(this.tiles.moved.value, number(group.movedTotal));
    this.showDowntime(newest, group, today);
  }

  // Today's downtime by episodes; without episodes, the time between rounds.
  showDowntime(newest, group, today) {
    const { element, value } = this.tiles.away;
    setText(element.firstElementChild, newest ? "Downtime today" : "Unassigned for");
    if (newest) setText(value, today?.partitions ? bounds(today.lowerMs, today.upperMs) : "–");
    else setText(value, group.unavailableMs ? duration(group.unavailableMs) : "–");
    const longest = today?.worst ? `; longest ${bounds(...today.longestMs)}` : "";
    setAttribute(element, "title", newest ? `All partitions together, in episodes with a round since midnight (UTC)${longest}` : "Time between rounds in which partitions were unassigned, all partitions together");
  }
}
