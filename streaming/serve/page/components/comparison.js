// Two episodes of a group side by side: what they cost, and whether the later one was better. The address holds both numbers.
import { get, groupPath } from "../core/api.js";
import { h } from "../core/dom.js";
import { bounds, kindText, moment, number } from "../core/format.js";
import { query, setQuery } from "../core/router.js";

const VERDICTS = new Map([[true, "better"], [false, "worse"], [null, ""]]);

function valueText(figure, range) {
  if (range === null) return "unknown";
  if (figure.endsWith("Ms")) return bounds(...range);
  const [lower, upper] = range;
  if (upper === null) return lower ? `≥ ${number(lower)}` : "unknown";
  return lower === upper ? number(lower) : `${number(lower)} to ${number(upper)}`;
}

export class Comparison {
  constructor(group) {
    this.group = group;
    this.body = h("div", { class: "diff" });
    this.element = h("section", { class: "card comparison", "aria-label": "Comparison of two episodes", hidden: true },
      h("header", {}, h("h2", {}, "Comparison"), h("span", { class: "spacer" }), h("button", { class: "button", type: "button", onclick: () => this.show([]) }, "Close")), this.body);
    this.show((query().get("compare") ?? "").split(",").map(Number).filter(Boolean).slice(0, 2));
  }

  // The first episode waits for a second one; a third one begins a new comparison.
  choose(number) {
    this.show(this.numbers.length === 1 && this.numbers[0] !== number ? [...this.numbers, number] : [number]);
    this.element.scrollIntoView({ block: "nearest" });
  }

  async show(numbers) {
    this.numbers = numbers.sort((a, b) => a - b);
    setQuery({ compare: numbers.join() });
    this.element.hidden = !numbers.length;
    if (numbers.length === 1) this.body.replaceChildren(h("p", { class: "note", role: "status" }, `Episode ${numbers[0]}: choose “Compare” in another episode.`));
    if (numbers.length !== 2) return;
    let found;
    try {
      found = await get(`${groupPath(this.group)}/compare/${numbers.join("/")}`);
    } catch (error) {
      found = error;
    }
    if (numbers !== this.numbers) return;
    this.body.replaceChildren(found instanceof Error ? h("p", { class: "note", role: "status" }, found.message) : this.table(found));
  }

  table({ before, after, figures }) {
    const heads = ["Figure", ...[before, after].map(({ episode, kind, openedAt }) => `${episode}: ${kindText(kind)}, ${moment(openedAt)}`), "Later episode"];
    const rows = figures.map(({ figure, heading, before: first, after: second, better }) =>
      h("tr", {}, h("th", { scope: "row" }, heading), h("td", {}, valueText(figure, first)), h("td", {}, valueText(figure, second)),
        h("td", { "data-better": String(better) }, VERDICTS.get(better))));
    return h("table", {}, h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, rows));
  }
}
