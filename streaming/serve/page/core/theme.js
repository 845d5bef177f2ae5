// Light or dark; canvases repaint when it changes.
const listeners = new Set();

export const theme = () => document.documentElement.dataset.theme;

export function onTheme(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function set(value, keep) {
  document.documentElement.dataset.theme = value;
  tokens.clear();
  if (keep) {
    try {
      localStorage.setItem("theme", value);
    } catch {
      // Storage can be switched off: the choice then lasts as long as the page.
    }
  }
  for (const listener of listeners) listener();
}

export function installTheme(button) {
  button.addEventListener("click", () => set(theme() === "dark" ? "light" : "dark", true));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
    if (!localStorage.getItem("theme")) set(event.matches ? "dark" : "light", false);
  });
}

// The colour of a cause.
const tones = {
  "member.joined": "--joined",
  "member.left": "--left",
  "member.fenced": "--fenced",
  "member.subscription_changed": "--subscription",
  "topic.partitions_changed": "--partitions",
};
export const toneOf = (kind) => token(tones[kind] ?? "--observed");

// The computed value of a token, for canvases; asking the style engine for each bar would cost more than the bar.
const tokens = new Map();
export function token(name) {
  let value = tokens.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    tokens.set(name, value);
  }
  return value;
}
