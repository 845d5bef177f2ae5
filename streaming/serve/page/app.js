// Boot: theme, stream, and the view that the address names.
import { Palette } from "./components/palette.js";
import { cluster, get, ROOT } from "./core/api.js";
import { h, setAttribute, setText } from "./core/dom.js";
import { ago, moment, visible } from "./core/format.js";
import { address, route, start } from "./core/router.js";
import { store } from "./core/store.js";
import { installTheme } from "./core/theme.js";
import { installZone } from "./core/zone.js";
import { openGroup } from "./views/group.js";
import { openGroups } from "./views/groups.js";

installTheme(document.getElementById("theme"));
installZone(document.getElementById("zone"));

const CLUSTERS_MS = 15_000;
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

// The choice among several clusters. Another one is loaded as a new page, as no data of this page applies to it.
const clusters = document.getElementById("clusters");
clusters.addEventListener("change", () => {
  const wanted = encodeURIComponent(clusters.value);
  clusters.value = clusters.shown; // as Back may show this page again
  location.assign(`/?cluster=${wanted}`);
});
async function showClusters() {
  const { clusters: all } = await get("clusters", {}, ROOT);
  const names = all.map(({ name, ready }) => (ready ? name : `${name} (not ready)`));
  if (all.length > 1 && clusters.known !== names.join()) {
    clusters.known = names.join();
    clusters.replaceChildren(...all.map(({ name }, index) => h("option", { value: name }, names[index])));
    clusters.shown = cluster ?? all[0].name;
    clusters.value = clusters.shown;
    clusters.hidden = false;
    showStanding();
  }
  if (all.length > 1) setTimeout(showClusters, CLUSTERS_MS);
  return all.map(({ name }) => name);
}

// In place of the view while the server has no data of the cluster.
const away = h("section", { class: "detail", "aria-label": "Not connected" }, h("div", { class: "card empty" },
  h("h1", {}, "Not connected"), h("p", {}, "The server tries again every ten seconds; the page shows the cluster as soon as it answers.")));
const texts = { connecting: "Connecting", live: "Live", behind: "Catching up", stale: "Not up to date", lost: "Reconnecting" };
function showStanding() {
  setAttribute(live, "data-state", store.state);
  setText(live.querySelector("span"), texts[store.state]);
  const lost = store.refusal ?? "No contact with the server";
  const stale = store.state === "lost" ? { reason: lost, since: store.lost } : store.stale;
  warning.hidden = !stale;
  if (stale) {
    const when = ago(stale.since);
    const shows = store.isReady ? "; the page shows the state of that time" : "";
    setText(warning.firstElementChild, `${visible(stale.reason)} since ${moment(stale.since)}${shows}.`);
    setText(warning.lastElementChild, when === "now" ? "" : `${when} ago`);
  }
  if (store.isReady || !store.refusal) away.remove();
  else if (!away.isConnected) document.getElementById("view").before(away);
  setText(document.getElementById("health"), store.state === "lost" ? visible(lost) : partsText(store.parts));
  const name = document.getElementById("cluster");
  setText(name, visible(store.cluster ?? ""));
  name.hidden = !store.cluster || !clusters.hidden;
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
  crumb(h("a", { href: address("/"), "data-link": true }, "Groups"), h("b", {}, visible(group)));
  document.title = `${visible(group)} · Rebalance Monitor`;
  return openGroup(outlet, group);
});

function nowhere(outlet, title, text, href) {
  crumb(h("b", {}, "Not found"));
  document.title = "Not found · Rebalance Monitor";
  outlet.append(h("div", { class: "detail" }, h("div", { class: "card empty" }, h("h1", {}, title), h("p", {}, text),
    h("a", { class: "button", href, "data-link": true }, "All groups"))));
}

let isBooted = false;
function ready() {
  if (!isBooted) boot();
  isBooted = true;
}
async function boot() {
  const view = document.getElementById("view");
  const listed = showClusters();
  if (cluster) {
    const names = await listed;
    if (!names.includes(cluster)) {
      for (const id of ["live", "search"]) document.getElementById(id).hidden = true; // there is nothing to follow or to find
      clusters.prepend(h("option", { value: "", disabled: true, selected: true }, "Choose a cluster"));
      nowhere(view, "No such cluster", `No cluster is called ${visible(cluster)}. The server has ${names.map(visible).join(", ")}.`, "/");
      return;
    }
  }
  document.querySelector(".brand").setAttribute("href", address("/"));
  new Palette(document.getElementById("search"));
  store.connect();
  start(view, (outlet) => nowhere(outlet, "No such page",
    `No page has the address ${visible(location.pathname)}. Groups are at /groups/NAME, their data at /api/v1/groups.`, address("/")));
}
// The header is painted before the view is built; a hidden page has no frames.
requestAnimationFrame(() => setTimeout(ready));
setTimeout(ready, 100);
