// Cells that views share: a state with its dot, a cause with its glyph, a story with its status.
import { h, setAttribute, setText } from "../core/dom.js";
import { causeGlyph, causeText, causeTip, stateText, stateTone, statusTone, visible } from "../core/format.js";

export function stateCell() {
  const text = h("span");
  const element = h("span", { class: "state" }, h("i"), text);
  return {
    element,
    set(state, { isShutDown = false } = {}) {
      setAttribute(element, "data-tone", stateTone(state));
      setText(text, isShutDown && state === "Empty" ? "Empty, shut down" : stateText(state));
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
    set(episode) {
      element.hidden = !episode;
      if (!episode) return;
      setAttribute(element, "data-tone", statusTone(episode.status));
      setText(text, visible(episode.story));
      setAttribute(element, "title", episode.story);
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
