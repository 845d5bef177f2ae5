// The one way elements are made here: text is always text, never markup.
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name in element && name !== "list" && typeof value !== "string") element[name] = value;
    else element.setAttribute(name === "className" ? "class" : name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function setText(element, text) {
  const value = String(text);
  if (element.textContent !== value) element.textContent = value;
}

export function setAttribute(element, name, value) {
  if (value === null || value === undefined) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

// Make these the children, in this order; what stays where it is keeps the focus.
export function arrange(parent, wanted) {
  const kept = new Set(wanted);
  for (const child of [...parent.children]) if (!kept.has(child)) child.remove();
  let next = parent.firstElementChild;
  for (const one of wanted) {
    if (one === next) next = next.nextElementSibling;
    else parent.insertBefore(one, next);
  }
}

// Put a text on the clipboard; without TLS only the old way works.
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = h("textarea", { value: text, "aria-hidden": "true", style: { position: "fixed", opacity: "0" } });
  document.body.append(area);
  area.value = text;
  area.select();
  document.execCommand("copy");
  area.remove();
  return null;
}

// At most one call a frame, and not more often than `every` ms.
export function paced(work, every = 0) {
  let due = false;
  let last = 0;
  return () => {
    if (due) return;
    due = true;
    const run = () => requestAnimationFrame(() => {
      due = false;
      last = performance.now();
      work();
    });
    const wait = every - (performance.now() - last);
    if (wait > 0) setTimeout(run, wait);
    else run();
  };
}

// A canvas at the screen's resolution: its context, ready for CSS pixels.
export function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const w = Math.round(width * ratio);
  const hgt = Math.round(height * ratio);
  if (canvas.width !== w || canvas.height !== hgt) {
    canvas.width = w;
    canvas.height = hgt;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

// Hide a view until it has its data, so that nothing moves while it is read; canvases need a frame to be drawn.
export function reveal(element, isReady) {
  if (!isReady) element.setAttribute("data-loading", "");
  else if (element.hasAttribute("data-loading")) requestAnimationFrame(() => requestAnimationFrame(() => element.removeAttribute("data-loading")));
}
