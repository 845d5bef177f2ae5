// Runs before the first paint, so that a dark page never flashes white.
(() => {
  const asked = new URLSearchParams(location.search).get("theme");
  let kept = null;
  try {
    kept = localStorage.getItem("theme");
  } catch {
    kept = null; // storage can be switched off: the system's choice stands
  }
  const wanted = asked ?? kept;
  const dark = wanted ? wanted === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
