// Boot: theme, stream, and the view that the address names.
import { Palette } from "./components/palette.js";
import { h, setAttribute, setText } from "./core/dom.js";
import { ago, moment, visible } from "./core/format.js";
import { route, start } from "./core/router.js";
import { store } from "./core/store.js";
import { installTheme } from "./core/theme.js";
import { installZone } from "./core/zone.js";
import { openGroup } from "./views/group.js";
import { openGroups } from "./views/groups.js";

installTheme(document.getElementById("theme"));
installZone(document.getElementById("zone"));

const live = document.getElementById("live");
const warning = document.getElementById("stale");
// The components that feed the topics, each by its heartbeats.
const states = { alive: "running, last heartbeat", behind: "behind, last heartbeat", silent: "no heartbeat, last one", stopped: "stopped" };
function partsText(parts) {
  if (!parts.length) return "No heartbeats from a collector or the stream: the age of the data is unknown";
  return parts.map((part) => {
    const when = ago(part.lastHeartbeat);
    return `${part.part} ${visible(part.id)}: ${states[part.state]} ${when === "now" ? "now" : `${when} ago`}`;
  }).join("\n");
}

const texts = { connecting: "Connecting", live: "Live", behind: "Catching up", stale: "Not up to date", lost: "Reconnecting" };
function showStanding() {
  setAttribute(live, "data-state", store.state);
  setText(live.querySelector("span"), texts[store.state]);
  const stale = store.state === "lost" ? { reason: "No contact with the server", since: store.lost } : store.stale;
  warning.hidden = !stale;
  if (stale) {
    const when = ago(stale.since);
    setText(warning.firstElementChild, `${visible(stale.reason)} since ${moment(stale.since)}; the page shows the state of that time.`);
    setText(warning.lastElementChild, when === "now" ? "" : `${when} ago`);
  }
  setText(document.getElementById("health"), store.state === "lost" ? "No contact with the server" : partsText(store.parts));
  const cluster = document.getElementById("cluster");
  setText(cluster, visible(store.cluster ?? ""));
  cluster.hidden = !store.cluster;
  // The styles mark states that may be outdated.
  document.body.toggleAttribute("data-stale", Boolean(stale));
}
store.addEventListener("state", showStanding);
setInterval(showStanding, 5000); // ages grow

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

new Palette(document.getElementById("search"));
store.connect();
start(document.getElementById("view"), (outlet) => {
  crumb(h("b", {}, "Not found"));
  document.title = "Not found · Rebalance Monitor";
  outlet.append(h("div", { class: "detail" }, h("div", { class: "card empty" }, h("h1", {}, "No such page"),
    h("p", {}, `No page has the address ${visible(location.pathname)}. Groups are at /groups/NAME, their data at /api/v1/groups.`),
    h("a", { class: "button", href: "/", "data-link": true }, "All groups"))));
});
