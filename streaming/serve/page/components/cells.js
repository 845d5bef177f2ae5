// Cells that views share: a status with its dot, a cause with its glyph, a story.
import { h, setAttribute, setText } from "../core/dom.js";
import { called, causeGlyph, causeText, causeTip, kindText, moment, statusTone, visible } from "../core/format.js";
import { inZone } from "../core/zone.js";

// The one status of a group; its tip has since when, why and for whom.
export function statusCell() {
  const text = h("span");
  const element = h("span", { class: "state" }, h("i"), text);
  return {
    element,
    set({ status, since, reason, awaited, names, state }, { isShutDown = false } = {}) {
      setAttribute(element, "data-tone", statusTone(status));
      setText(text, isShutDown && status === "empty" ? "Empty, shut down" : kindText(status));
      const whom = awaited.length ? `waits for ${awaited.map((id) => called(id, names)).join(", ")}` : null;
      const tip = [since ? `since ${moment(since)}` : null, reason && visible(reason), whom, `state in Kafka: ${state}`];
      setAttribute(element, "title", tip.filter(Boolean).join("; "));
    },
  };
}

export function causeCell() {
  const glyph = h("i", { "aria-hidden": "true" });
  const text = h("span");
  const element = h("span", { class: "cause" }, glyph, text);
  return {
    element,
    set(cause, names) {
      setAttribute(element, "data-cause", cause?.kind ?? null);
      glyph.hidden = !cause;
      setText(glyph, cause ? causeGlyph(cause.kind) : "");
      setText(text, causeText(cause, names));
      setAttribute(element, "title", (cause && causeTip(cause)) || null);
    },
  };
}

export function storyCell() {
  const text = h("span");
  const element = h("span", { class: "story-text" }, h("i", { "aria-hidden": "true" }), text);
  return {
    element,
    set(episode, status) {
      element.hidden = !episode;
      if (!episode) return;
      setAttribute(element, "data-tone", statusTone(status));
      setText(text, visible(inZone(episode.story, episode.updatedAt)));
      setAttribute(element, "title", text.textContent);
    },
  };
}

// Keeps one part a DOM cell, however often the cell is filled with another item.
export function once(cell, make) {
  cell.held ??= (() => {
    const part = make();
    cell.replaceChildren(part.element);
    return part;
  })();
  return cell.held;
}
