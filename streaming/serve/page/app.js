// Boot: theme, stream, and the view that the address names.
import { h, setAttribute, setText } from "./core/dom.js";
import { route, start } from "./core/router.js";
import { store } from "./core/store.js";
import { installTheme } from "./core/theme.js";
import { openGroup } from "./views/group.js";
import { openGroups } from "./views/groups.js";

installTheme(document.getElementById("theme"));

const live = document.getElementById("live");
const texts = { connecting: "Connecting", live: "Live", behind: "Catching up", lost: "Reconnecting" };
store.addEventListener("state", () => {
  setAttribute(live, "data-state", store.state);
  setText(live.querySelector("span"), texts[store.state]);
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
route(/^\/groups\/(.+)$/, (outlet, group) => {
  crumb(h("a", { href: "/", "data-link": true }, "Groups"), h("b", {}, group));
  document.title = `${group} · Rebalance Monitor`;
  return openGroup(outlet, group);
});

store.connect();
start(document.getElementById("view"));
