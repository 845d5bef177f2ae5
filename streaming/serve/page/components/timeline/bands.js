// The strip above the rounds: a band an episode, from its first round to its last. Nothing here listens or remembers.
import { kindText, statusTone } from "../../core/format.js";
import { EPISODES } from "./paint.js";

// Where an episode begins and ends on the axis.
function stretch({ model, axis }, { episode, rounds }) {
  if (axis === "rounds") return rounds.length ? [rounds.at(-1), rounds[0] + 1] : null;
  return [episode.openedAt, episode.closedAt ?? model.end(axis)];
}

// Gives the bands back for hit tests: [{left, right, episode}].
export function paintEpisodes(context, frame, colors) {
  const { model, gutter, width, x } = frame;
  context.fillStyle = colors.surface;
  context.fillRect(0, 0, width, EPISODES);
  const found = [];
  for (const band of frame.episodes.bands(model.rounds, !model.next)) {
    const place = band.episode && stretch(frame, band);
    if (!place) continue;
    const left = Math.max(gutter, x(place[0]));
    const right = Math.min(width, Math.max(x(place[1]), x(place[0]) + 3));
    if (right <= gutter || left >= width) continue;
    found.push({ left, right, episode: band.episode });
    paintOne(context, colors, found.at(-1));
  }
  return found;
}

function paintOne(context, colors, { left, right, episode }) {
  const tone = statusTone(episode.status);
  context.fillStyle = colors[tone === "good" ? "ink-3" : tone];
  context.globalAlpha = 0.16;
  context.fillRect(left, 2, right - left - 1, EPISODES - 4);
  context.globalAlpha = 1;
  context.fillRect(left, EPISODES - 3, Math.max(2, right - left - 1), 2);
  const text = kindText(episode.kind);
  context.font = `500 10.5px ${colors.font}`;
  if (context.measureText(text).width > right - left - 12) return;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillStyle = colors[tone === "good" ? "ink-2" : tone];
  context.fillText(text, left + 6, EPISODES / 2 - 0.5);
}
