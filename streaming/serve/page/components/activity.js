// The newest rounds of all groups, as they land.
import { unassignedCount } from "../core/attention.js";
import { h } from "../core/dom.js";
import { ago, causeGlyph, causeText, causeTip, number, visible } from "../core/format.js";
import { groupAddress } from "../core/router.js";

const SHOWN = 60;

function line(summary, fresh) {
  const what = summary.moved ? `${number(summary.moved)} moved` : "nothing moved";
  const note = unassignedCount(summary, null) ? `${what}, ${number(summary.unassigned)} unassigned` : what;
  return h("li", { class: fresh ? "fresh" : "" },
    h("a", { href: groupAddress(summary.groupId, { round: summary.seq }), "data-link": true },
      h("span", { class: "cause", "data-cause": summary.cause.kind }, h("i", { "aria-hidden": "true" }, causeGlyph(summary.cause.kind))),
      h("b", {}, visible(summary.groupId)),
      h("time", { "data-at": summary.timestamp }, ago(summary.timestamp)),
      h("small", { title: causeTip(summary.cause) }, `${causeText(summary.cause, summary.names)} · ${note}`),
    ),
  );
}

export class Activity {
  constructor() {
    this.list = h("ol", { "aria-label": "Latest rounds", "aria-live": "off" });
    this.element = h("div", { class: "card activity" }, h("header", {}, h("h2", {}, "Latest rounds")), this.list);
    this.clock = setInterval(() => this.tick(), 5000);
  }

  close() {
    clearInterval(this.clock);
  }

  fill(rounds) {
    this.list.replaceChildren(...rounds.slice(0, SHOWN).map(({ seq, summary }) => line({ ...summary, seq }, false)));
  }

  add({ seq, summary }) {
    this.list.prepend(line({ ...summary, seq }, true));
    while (this.list.childElementCount > SHOWN) this.list.lastElementChild.remove();
  }

  tick() {
    for (const time of this.list.querySelectorAll("time")) time.textContent = ago(Number(time.dataset.at));
  }
}
