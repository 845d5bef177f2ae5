// Runs before the first paint: the theme, so that a dark page never flashes white, and the requests of the first view, so
// that the server answers while the browser still reads the page's code.
(() => {
  const params = new URLSearchParams(location.search);
  const asked = params.get("theme");
  let kept = null;
  let token = null;
  try {
    kept = localStorage.getItem("theme");
    token = sessionStorage.getItem("token");
  } catch {
    kept = null; // storage can be switched off: the system's choice stands
  }
  const wanted = asked ?? kept;
  const dark = wanted ? wanted === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";

  // Address → its request, which core/api.js and core/stream.js take in place of one of their own.
  window.early = new Map();
  const request = (path, accept) => {
    const abort = new AbortController();
    const headers = { Accept: accept, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    const response = fetch(path, { headers, signal: abort.signal, cache: "no-store" });
    response.catch(() => {}); // whoever takes it handles its failure
    window.early.set(path, { abort, response });
  };
  if (params.has("cluster")) return; // which may be unknown
  request("/api/v1/stream?stories=true", "text/event-stream");
  const has = (name) => params.has(name);
  const group = /^\/groups\/([\w.-]+)$/.exec(location.pathname)?.[1]; // a name that no address encodes
  let paths = [];
  if (group) paths = ["/timeline?limit=300", "/episodes?limit=100", "/incidents?limit=100", has("at") ? [] : ""].flat().map((path) => `groups/${group}${path}`);
  else if (location.pathname === "/" && !has("at") && !has("from")) paths = ["rounds?view=summary&limit=60"];
  for (const path of paths) request(`/api/v1/${path}`, "application/json");
})();
