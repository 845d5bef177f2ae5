// The forecast of the next deploy, and advice. Only a click requests them: they are work for the server.
import { ApiError, get, groupPath } from "../core/api.js";
import { h, setAttribute, setText } from "../core/dom.js";
import { query, setQuery } from "../core/router.js";
import { clock, counting, duration, kindText, number, visible } from "../core/format.js";

const WAYS = { eager: "Eager", cooperative: "Cooperative", static: "Static members", consumer: "KIP-848" };

const way = (name, own) => [WAYS[name] ?? visible(name), own ? h("span", { class: "mark" }, "now") : null];

// A change under each protocol, as `forecast` has it.
function costs({ sentence, unsure, now, protocols }) {
  const rows = Object.entries(protocols).map(([name, one]) => {
    const { totalMs, worst } = one.downtime;
    const longest = worst ? `${duration(worst.ms)}, ${visible(worst.topic)} ${worst.partition}` : "–";
    return { own: name === now, cells: [way(name, name === now), visible(one.assignor), number(one.rebalances), number(one.roundCount), number(one.moved), duration(totalMs), longest] };
  });
  return { sentence, unsure, columns: ["Protocol", "Assignor", "Rebalances", "Rounds", "Moved", "Downtime", "Longest"], rows };
}

// The group as it is under every assignor, as `what-if` has it.
function moves({ inexact, answers }) {
  const rows = answers.map((one) => {
    const rounds = `${one.roundsExact ? "" : "about "}${number(one.rounds)}`;
    const each = one.most === one.least ? number(one.most) : `${number(one.least)} – ${number(one.most)}`;
    return { own: one.own, cells: [way(one.protocol, one.own), visible(one.assignor), rounds, number(one.moved), each] };
  });
  const others = answers.filter(({ own }) => !own).map(({ moved }) => moved);
  const [least, most] = [Math.min(...others), Math.max(...others)];
  const moved = `${least === most ? "" : `${number(least)} to `}${counting(most, "partition")}`;
  const sentence = others.length ? `Another assignor would move ${moved}.` : "No other assignor supports this group.";
  const reasons = new Set([...inexact, ...answers.flatMap((one) => one.inexact)]);
  return { sentence, unsure: [...reasons], columns: ["Protocol", "Assignor", "Rounds", "Moved", "Partitions of a member"], rows };
}

// Suggested changes of the group: the result of `advise`.
function suggestions({ advice }) {
  const rows = advice.map(({ severity, title, change, settings, evidence, saving, confidence }) => {
    const options = Object.entries(settings).map(([name, value]) => `${name}=${value}`).join("  ");
    return { own: false, cells: [
      h("span", { class: "mark", "data-severity": severity }, kindText(severity)),
      [h("b", {}, visible(title)), h("p", {}, visible(change)), options ? h("p", { class: "mono" }, visible(options)) : null],
      evidence.map(({ text }) => h("p", {}, visible(text))), saving ? visible(saving.text) : "–", kindText(confidence),
    ] };
  });
  const sentence = rows.length ? `${counting(rows.length, "suggestion")}, the worst first.` : "The history of this group suggests no change.";
  return { sentence, unsure: [...new Set(advice.flatMap(({ unsure }) => unsure))], columns: ["Severity", "Change", "Evidence", "Saving", "Confidence"], rows };
}

// Label → where the answer is, and how it is read. Forecasts are of groups of consumers with members.
const ADVICE = "Suggested changes";
const QUESTIONS = {
  "Rolling restart": { path: "forecast", params: () => ({}), read: costs },
  "One more member": { path: "forecast", params: (members) => ({ scale: members + 1 }), read: costs },
  "Another assignor": { path: "what-if", params: () => ({}), read: moves },
  [ADVICE]: { path: "advice", params: () => ({}), read: suggestions },
};

const slug = (label) => label.toLowerCase().replaceAll(" ", "-");

export class Outlook {
  constructor(group) {
    this.group = group;
    this.members = 0;
    this.asked = 0;
    this.buttons = Object.keys(QUESTIONS).map((label) => h("button", { type: "button", "aria-pressed": "false", onclick: () => this.ask(label) }, label));
    this.when = h("span", { class: "muted" });
    this.sentence = h("p", { role: "status", hidden: true });
    this.answer = h("div", {});
    this.element = h("section", { class: "card outlook", "aria-label": "Forecast and advice", hidden: true },
      h("header", {}, h("h2", {}, "Forecast and advice"), h("span", { class: "segmented", role: "group", "aria-label": "Change" }, this.buttons), this.when),
      this.sentence, this.answer);
  }

  // Only consumers' protocols can be forecast, and only a group that has members.
  of({ kind = "consumer", members }) {
    this.members = members;
    this.element.hidden = !members;
    for (const button of this.buttons) button.hidden = kind !== "consumer" && button.textContent !== ADVICE;
    const wanted = this.buttons.find((button) => !button.hidden && slug(button.textContent) === query().get("forecast"));
    if (wanted && members && !this.asked) this.ask(wanted.textContent);
  }

  // A second click closes the answer.
  async ask(label) {
    const [button] = this.buttons.filter(({ textContent }) => textContent === label);
    const wanted = button.getAttribute("aria-pressed") !== "true";
    const asked = ++this.asked;
    for (const one of this.buttons) setAttribute(one, "aria-pressed", String(one === button && wanted));
    setQuery({ forecast: wanted ? slug(label) : null });
    this.answer.replaceChildren();
    setText(this.when, "");
    this.sentence.hidden = !wanted;
    if (!wanted) return;
    setText(this.sentence, "Computing …");
    const { path, params, read } = QUESTIONS[label];
    let answer = null;
    try {
      answer = read(await get(`${groupPath(this.group)}/${path}`, params(this.members)));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (asked === this.asked) setText(this.sentence, visible(error.message));
      return;
    }
    if (asked !== this.asked) return; // another was asked for meanwhile
    setText(this.when, `as of ${clock(Date.now())}`);
    setText(this.sentence, visible(answer.sentence));
    this.show(answer);
  }

  show({ columns, rows, unsure }) {
    const cell = (content, column) => h("td", { "data-label": columns[column] }, content);
    const table = h("table", { "aria-label": "Answer" },
      h("thead", {}, h("tr", {}, columns.map((one) => h("th", { scope: "col" }, one)))),
      h("tbody", {}, rows.map(({ own, cells }) => h("tr", { "data-own": own }, cells.map(cell)))));
    const doubts = h("details", {}, h("summary", {}, `Not exact: ${counting(unsure.length, "reason")}`), h("ul", {}, unsure.map((one) => h("li", {}, visible(one)))));
    this.answer.replaceChildren(h("div", { class: "diff" }, table), ...(unsure.length ? [doubts] : []));
  }
}
