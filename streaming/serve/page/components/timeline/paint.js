// Drawing: rows of ownership, marks of rounds, axis. Nothing here listens or remembers.
import { causeGlyph, clock, day, shortened } from "../../core/format.js";
import { toneOf, token } from "../../core/theme.js";
import { offsetMs } from "../../core/zone.js";
import { SHUT_DOWN } from "./model.js";
import { moves } from "./order.js";

export const EPISODES = 18; // the height of the bands
export const TOP = EPISODES + 26;
export const BOTTOM = 22;

export function palette() {
  const names = ["surface", "sunken", "line", "line-strong", "ink", "ink-2", "ink-3", "bad", "warn", "idle", "accent", "owner-ink", "font"];
  return Object.fromEntries(names.map((name) => [name, token(`--${name}`)]));
}

const hatches = new WeakMap();
function hatch(context, color) {
  const cached = hatches.get(context.canvas);
  if (cached?.color === color) return cached.pattern;
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  pen.strokeStyle = color;
  pen.lineWidth = 1.6;
  pen.beginPath();
  for (const offset of [-8, 0, 8]) {
    pen.moveTo(offset, 8);
    pen.lineTo(offset + 8, 0);
  }
  pen.stroke();
  const pattern = context.createPattern(tile, "repeat");
  hatches.set(context.canvas, { color, pattern });
  return pattern;
}

// A stretch of a known owner that is narrower is drawn as pixels of a picture: a rectangle each, of tens of thousands, takes too long.
const NARROW = 24;
const NARROW_GAP = 8; // the same for one without an owner, which is hatched where it is wider

const scratch = (width, height) => Object.assign(document.createElement("canvas"), { width, height }).getContext("2d", { willReadFrequently: true });

// A colour as a pixel of ImageData.
const pixels = new Map();
let probe = null;
function pixelOf(color, alpha) {
  const key = `${color}/${alpha}`;
  if (!pixels.has(key)) {
    probe ??= scratch(1, 1);
    probe.clearRect(0, 0, 1, 1);
    probe.globalAlpha = alpha;
    probe.fillStyle = color;
    probe.fillRect(0, 0, 1, 1);
    pixels.set(key, new Uint32Array(probe.getImageData(0, 0, 1, 1).data.buffer)[0]);
  }
  return pixels.get(key);
}

// frame: {model, partitions, people, colorOf, order, most, axis, from, to, gutter, width, height, scroll, row, x(position), dim}
export function paintRows(context, frame, colors) {
  const { partitions, gutter, width, height, scroll, row, model, axis, x } = frame;
  const first = Math.max(0, Math.floor(scroll / row));
  const last = Math.min(partitions.length, Math.ceil((scroll + height - TOP - BOTTOM) / row) + 1);
  context.save();
  context.beginPath();
  context.rect(gutter, TOP, width - gutter, height - TOP - BOTTOM);
  context.clip();
  const places = model.rounds.map((_, index) => x(model.position(index, axis)));
  places.push(x(model.end(axis)));
  const tall = row - (row >= 9 ? 2 : row >= 5 ? 1 : 0);
  const shared = { tall, places, begin: model.roundAt(frame.from, axis), ratio: window.devicePixelRatio || 1 };
  shared.isDimmed = (owner) => frame.dim !== null && frame.dim !== (owner < 0 ? owner : frame.people[owner]);
  const columns = Math.round(width * shared.ratio);
  if (last > first && columns > 0) paintNarrow(context, frame, colors, { ...shared, first, last, columns });
  for (let index = first; index < last; index += 1) paintWide(context, frame, colors, partitions[index], TOP + index * row - scroll, shared);
  context.restore();
  paintLabels(context, frame, colors, first, last);
}

// Calls draw(owner, left, right) for each stretch of a partition that is seen. begin: the round at the left edge; places: where each round
// lies, and at last the end of the axis.
function eachStretch({ model, gutter, width }, { starts, owners }, { begin, places }, draw) {
  let painted = -1;
  for (let index = Math.max(0, model.stretch({ starts }, begin)); index < starts.length; index += 1) {
    const left = Math.max(gutter, places[starts[index]] ?? gutter); // no place: before the first round
    if (left > width) break;
    const right = Math.min(width, places[starts[index + 1] ?? model.rounds.length]);
    const owner = owners[index];
    // What would lie within the pixel painted last is not seen; a missing owner always is.
    if (owner >= 0 && right - painted < 0.75) continue;
    painted = right;
    if (right > left) draw(owner, left, right);
  }
}

const isNarrow = (owner, left, right) => right - left < (owner < 0 ? NARROW_GAP : NARROW);

// A line of pixels for each row, stretched to the row's height.
function paintNarrow(context, frame, colors, { first, last, columns, tall, ratio, isDimmed, ...shared }) {
  const image = new ImageData(columns, last - first);
  const data = new Uint32Array(image.data.buffer);
  const found = new Map();
  const pixelFor = (owner) => {
    if (!found.has(owner)) {
      const color = owner >= 0 ? frame.colorOf[owner] : owner === SHUT_DOWN ? colors.idle : colors.bad;
      const alpha = owner >= 0 ? (isDimmed(owner) ? 0.16 : 1) : owner === SHUT_DOWN || isDimmed(owner) ? 0.3 : 0.75;
      found.set(owner, pixelOf(color, alpha));
    }
    return found.get(owner);
  };
  const cut = tall >= 4 ? Math.round(ratio) : 0;
  for (let index = first; index < last; index += 1) {
    const line = (index - first) * columns;
    let taken = 0; // pixels up to here show a missing owner
    eachStretch(frame, frame.partitions[index], shared, (owner, left, right) => {
      if (!isNarrow(owner, left, right)) return;
      const begin = Math.round(left * ratio);
      const end = Math.min(columns, Math.max(begin + 1, Math.round(right * ratio) - (right - left >= 3 ? cut : 0)));
      const pixel = pixelFor(owner);
      for (let column = Math.max(begin, owner >= 0 ? taken : 0); column < end; column += 1) data[line + column] = pixel;
      if (owner < 0) taken = end;
    });
  }
  const picture = scratch(columns, last - first);
  picture.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  for (let index = first; index < last; index += 1) {
    context.drawImage(picture.canvas, 0, index - first, columns, 1, 0, TOP + index * frame.row - frame.scroll, frame.width, tall);
  }
}

function paintWide(context, frame, colors, partition, y, { tall: height, isDimmed, ...shared }) {
  const { people, colorOf } = frame;
  const cut = height >= 4 ? 1 : 0;
  eachStretch(frame, partition, shared, (owner, left, right) => {
    if (isNarrow(owner, left, right)) return;
    const span = right - left - cut;
    const dimmed = isDimmed(owner);
    context.globalAlpha = dimmed ? 0.16 : 1;
    if (owner < 0) {
      const color = owner === SHUT_DOWN ? colors.idle : colors.bad;
      context.globalAlpha = dimmed ? 0.1 : 0.16;
      context.fillStyle = color;
      context.fillRect(left, y, span, height);
      context.globalAlpha = dimmed || owner === SHUT_DOWN ? 0.2 : 0.7;
      context.fillStyle = hatch(context, color);
    } else context.fillStyle = colorOf[owner];
    context.fillRect(left, y, span, height);
    context.globalAlpha = dimmed ? 0.25 : 1;
    if (owner >= 0 && height >= 13 && span > 46) {
      context.fillStyle = colors["owner-ink"];
      context.font = `500 10.5px ${colors.font}`;
      context.textBaseline = "middle";
      const text = fitted(context, people[owner], span - 12, 10);
      if (text) context.fillText(text, left + 6, y + height / 2 + 0.5);
    }
    context.globalAlpha = 1;
  });
}

function paintLabels(context, frame, colors, first, last) {
  const { partitions, order, gutter, height, scroll, row } = frame;
  context.save();
  context.beginPath();
  context.rect(0, TOP, gutter, height - TOP - BOTTOM);
  context.clip();
  context.textBaseline = "middle";
  const step = Math.max(1, Math.ceil(11 / row));
  for (let index = first; index < last; index += 1) {
    const partition = partitions[index];
    const heads = index === 0 || partitions[index - 1].topic !== partition.topic;
    const y = TOP + index * row - scroll + row / 2;
    context.globalAlpha = (moves(partition) / frame.most) ** 0.7;
    context.fillStyle = colors.warn;
    context.fillRect(gutter - 5, y - row / 2, 3, row - 1);
    context.globalAlpha = 1;
    if (order !== "topic") {
      context.font = `10.5px ${colors.font}`;
      context.fillStyle = colors["ink-2"];
      context.textAlign = "left";
      context.fillText(fitted(context, `${partition.topic}-${partition.number}`, gutter - 22), 12, y);
      continue;
    }
    if (heads || partition.number % step === 0) {
      context.font = `10.5px ${colors.font}`;
      context.fillStyle = colors["ink-3"];
      context.textAlign = "right";
      context.fillText(partition.number, gutter - 8, Math.max(y, TOP + 6));
    }
    if (heads || index === first) {
      context.font = `500 11px ${colors.font}`;
      context.fillStyle = colors["ink-2"];
      context.textAlign = "left";
      context.fillText(fitted(context, partition.topic, gutter - 42), 12, Math.max(y, TOP + 7));
    }
    if (heads && index > 0) {
      context.fillStyle = colors.line;
      context.fillRect(0, TOP + index * row - scroll - 1, gutter, 1);
    }
  }
  context.restore();
}

// The text, or as much of its ends as fits; empty where fewer than `least` letters do.
function fitted(context, text, width, least = 4) {
  const own = context.measureText(text).width;
  if (own <= width) return text;
  const letters = Math.floor((text.length * width) / own) - 1;
  return letters < least ? "" : shortened(text, letters);
}

// Marks of rounds: one glyph a round while there is room, one with a count where they stand close.
// Gives the marks back for hit tests: [{x, from, to}] as round indexes.
export function paintMarks(context, frame, colors) {
  const { model, axis, gutter, width, height, x } = frame;
  context.fillStyle = colors.surface;
  context.fillRect(0, EPISODES, width, TOP - EPISODES);
  const first = Math.max(0, model.roundAt(frame.from, axis) + (axis === "rounds" ? 0 : 1));
  const marks = [];
  for (let index = first; index < model.rounds.length; index += 1) {
    const at = x(model.position(index, axis));
    if (at > width + 8) break;
    if (at < gutter - 8) continue;
    const near = marks.at(-1);
    if (near && at - near.x < 17) near.to = index;
    else marks.push({ x: at, from: index, to: index });
  }
  for (const mark of marks) {
    const kinds = new Set(model.rounds.slice(mark.from, mark.to + 1).map((round) => round.summary.cause.kind));
    const kind = kinds.has("member.fenced") ? "member.fenced" : model.rounds[mark.from].summary.cause.kind;
    const chosen = frame.selected >= mark.from && frame.selected <= mark.to;
    paintMark(context, mark, toneOf(kind), causeGlyph(kind), chosen, { colors, height, gutter });
  }
  context.fillStyle = colors.line;
  context.fillRect(0, TOP - 0.5, width, 1);
  return marks;
}

function paintMark(context, mark, color, glyph, chosen, { colors, height, gutter }) {
  const at = Math.max(mark.x, gutter);
  context.globalAlpha = chosen ? 0.95 : 0.32;
  context.fillStyle = chosen ? colors.accent : color;
  context.fillRect(Math.round(at) - 0.5, TOP - 6, chosen ? 2 : 1, height - TOP - BOTTOM + 6);
  context.globalAlpha = 1;
  const count = mark.to - mark.from + 1;
  const text = count > 1 ? (count > 99 ? "99" : String(count)) : glyph;
  const half = 7;
  context.beginPath();
  context.roundRect(at - half, EPISODES + 5, half * 2, 14, 4);
  context.fillStyle = chosen ? colors.accent : colors.surface;
  context.fill();
  if (!chosen) {
    context.globalAlpha = 0.18;
    context.fillStyle = color;
    context.fill();
    context.globalAlpha = 1;
  }
  context.fillStyle = chosen ? colors.surface : color;
  context.font = `700 ${count > 9 ? 8.5 : 10}px ${colors.font}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(text, at, EPISODES + 12.5);
  context.textAlign = "left";
}

const STEPS = [100, 250, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5, 864e5, 1728e5, 6048e5, 2592e6, 7776e6, 31536e6];

export function paintAxis(context, frame, colors) {
  const { axis, from, to, gutter, width, height, x } = frame;
  const y = height - BOTTOM;
  context.fillStyle = colors.surface;
  context.fillRect(0, y, width, BOTTOM);
  context.fillStyle = colors.line;
  context.fillRect(0, y, width, 1);
  context.font = `10.5px ${colors.font}`;
  context.textBaseline = "middle";
  context.textAlign = "center";
  const room = Math.max(1, Math.floor((width - gutter) / (axis === "rounds" ? 56 : 96)));
  const step = axis === "rounds"
    ? Math.max(1, [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((one) => (to - from) / one <= room) ?? 1000)
    : (STEPS.find((one) => (to - from) / one <= room) ?? STEPS.at(-1));
  const offset = axis === "time" ? offsetMs(from) : 0;
  for (let at = Math.ceil((from - offset) / step) * step + offset; at <= to; at += step) {
    const px = x(at);
    if (px < gutter + 18 || px > width - 22) continue;
    if (axis === "rounds" && (at < 0 || at >= frame.model.rounds.length)) continue;
    context.fillStyle = colors["line-strong"];
    context.fillRect(Math.round(px), y, 1, 4);
    context.fillStyle = colors["ink-3"];
    const text = axis === "rounds" ? roundLabel(frame.model.rounds[at]) : step >= 864e5 ? day(at) : clock(at, { seconds: step < 6e4, millis: step < 1e3 });
    context.fillText(text, px, y + 13);
  }
  context.textAlign = "left";
}

const roundLabel = ({ summary }) => `${summary.generation ?? summary.groupEpoch ?? ""}${summary.round > 1 ? `·${summary.round}` : ""}`;

export function paintCrosshair(context, frame, colors, hover) {
  if (!hover) return;
  const { gutter, width, height, row, scroll } = frame;
  context.fillStyle = colors.ink;
  context.globalAlpha = 0.35;
  context.fillRect(Math.round(hover.x), TOP, 1, height - TOP - BOTTOM);
  if (hover.partition !== null) {
    context.globalAlpha = 0.9;
    context.strokeStyle = colors.ink;
    context.lineWidth = 1;
    const y = TOP + hover.partition * row - scroll;
    context.strokeRect(Math.max(gutter, hover.left) + 0.5, y + 0.5, Math.min(width, hover.right) - Math.max(gutter, hover.left) - 1, Math.max(2, row - 2));
  }
  context.globalAlpha = 1;
}

// Deployments, and the moment that is shown: lines over the rows with a flag in the axis. Gives the flags back: [{x, annotation}].
export function paintAnnotations(context, frame, colors, at) {
  const { model, axis, gutter, width, height, x } = frame;
  const flags = [];
  const line = (position, color, dash) => {
    const px = Math.round(x(model.place(position, axis)));
    if (px < gutter || px > width) return null;
    context.strokeStyle = context.fillStyle = color;
    context.setLineDash(dash);
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(px, TOP);
    context.lineTo(px, height - BOTTOM);
    context.stroke();
    context.setLineDash([]);
    return px;
  };
  for (const annotation of model.annotations) {
    const px = line(annotation.timestamp, colors.ink, [4, 3]);
    if (px === null) continue;
    context.beginPath();
    context.moveTo(px, height - BOTTOM);
    context.lineTo(px + 9, height - BOTTOM + 5);
    context.lineTo(px, height - BOTTOM + 10);
    context.fill();
    flags.push({ x: px, annotation });
  }
  if (at !== null) line(at, colors.accent, []);
  return flags;
}

export function paintBand(context, frame, colors, band) {
  if (!band) return;
  context.fillStyle = colors.accent;
  context.globalAlpha = 0.16;
  context.fillRect(Math.min(band.a, band.b), TOP, Math.abs(band.a - band.b), frame.height - TOP - BOTTOM);
  context.globalAlpha = 1;
}
