// Boot: theme, stream, and the view that the address names.
import { h, setAttribute, setText } from "./core/dom.js";
import { moment, visible } from "./core/format.js";
import { route, start } from "./core/router.js";
import { store } from "./core/store.js";
import { installTheme } from "./core/theme.js";
import { openGroup } from "./views/group.js";
import { openGroups } from "./views/groups.js";

installTheme(document.getElementById("theme"));

const live = document.getElementById("live");
const warning = document.getElementById("stale");
const texts = { connecting: "Connecting", live: "Live", behind: "Catching up", stale: "Not up to date", lost: "Reconnecting" };
store.addEventListener("state", () => {
  setAttribute(live, "data-state", store.state);
  setText(live.querySelector("span"), texts[store.state]);
  const stale = store.state === "lost" ? { reason: "No contact with the server", since: store.lost } : store.stale;
  warning.hidden = !stale;
  if (stale) setText(warning, `${stale.reason} since ${moment(stale.since)}; what is shown was true then.`);
  // States that may have changed unseen are told as what they were.
  document.body.toggleAttribute("data-stale", Boolean(stale));
});

const crumbs = document.getElementById("crumbs");
function crumb(...parts) {
  crumbs.replaceChildren(...parts.flatMap((part) => [h("span", { "aria-hidden": "true" }, "/"), part]));
}

route(/^\/$/, (outlet) => {
  crumb(h("b", {}, "Groups"));
  document.title = "Groups · Rebalance Monitor";
  return openGroups(outlet);
});
route(/^\/groups\/(.*)$/, (outlet, group) => {
  crumb(h("a", { href: "/", "data-link": true }, "Groups"), h("b", {}, visible(group)));
  document.title = `${visible(group)} · Rebalance Monitor`;
  return openGroup(outlet, group);
});

store.connect();
start(document.getElementById("view"));
