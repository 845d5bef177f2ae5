// The address holds the state of a view, so that a link shows the same.
const routes = [];
let current = null;
let outlet = null;
let nowhere = null;

export function route(pattern, open) {
  routes.push({ pattern, open });
}

export const query = () => new URLSearchParams(location.search);

// An address on this page: of the same cluster, without parameters that have no value.
export function address(path, params = {}) {
  const all = Object.entries({ cluster: query().get("cluster"), ...params }).filter(([, value]) => value);
  return `${path}${all.length ? `?${new URLSearchParams(all)}` : ""}`;
}

export const groupAddress = (id, params) => address(`/groups/${encodeURIComponent(id)}`, params);

// Change the query in place; `push` makes a step that Back undoes.
export function setQuery(changes, { push = false } = {}) {
  const params = query();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") params.delete(name);
    else params.set(name, value);
  }
  const text = params.toString();
  const url = `${location.pathname}${text ? `?${text}` : ""}`;
  if (url !== location.pathname + location.search) history[push ? "pushState" : "replaceState"](null, "", url);
}

export function go(url) {
  history.pushState(null, "", url);
  arrive();
}

// A new view: keyboards and screen readers go on from its top, as on a page that was loaded.
function arrive() {
  render();
  outlet.focus({ preventScroll: true });
}

// An address that someone typed may hold a percent sign of its own.
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function render() {
  current?.close?.();
  outlet.replaceChildren();
  for (const { pattern, open } of routes) {
    const match = pattern.exec(location.pathname);
    if (match) {
      current = open(outlet, ...match.slice(1).map(decoded));
      return;
    }
  }
  current = null;
  nowhere(outlet);
}

// nowhere(outlet): shows that an address names no view.
export function start(element, missing) {
  nowhere = missing;
  outlet = element;
  addEventListener("popstate", arrive);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-link]");
    if (!link || event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    go(link.getAttribute("href"));
  });
  render();
}
