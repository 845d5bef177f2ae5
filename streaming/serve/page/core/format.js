// Texts of numbers, times, members, partitions and causes.
import { fields } from "./zone.js";

const whole = new Intl.NumberFormat("en");
export const number = (value) => whole.format(value);
export const counting = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;

export function ago(timestamp, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - timestamp) / 1000));
  if (seconds < 5) return "now";
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.round((seconds % 86400) / 3600)} h`;
}

// Bounds of a time in the words of stories; `upper` null: no upper limit known.
export function bounds(lower, upper) {
  if (upper === null) return lower ? `≥ ${duration(lower)}` : "unknown";
  const [least, most] = [duration(lower), duration(upper)];
  if (least === most) return least;
  return lower ? `${least} to ${most}` : `at most ${most}`;
}

// Bounds of a number, such as `12 to 30 messages`; `upper` null: no upper limit known.
export function countBounds([lower, upper], noun) {
  if (upper === null) return lower ? `≥ ${counting(lower, noun)}` : `unknown number of ${noun}s`;
  if (lower === upper) return counting(lower, noun);
  return lower ? `${number(lower)} to ${counting(upper, noun)}` : `at most ${counting(upper, noun)}`;
}

const two = (value) => String(value).padStart(2, "0");
export function clock(timestamp, { seconds = true, millis = false } = {}) {
  const time = fields(timestamp);
  const base = `${two(time.getHours())}:${two(time.getMinutes())}`;
  if (!seconds) return base;
  return `${base}:${two(time.getSeconds())}${millis ? `.${String(time.getMilliseconds()).padStart(3, "0")}` : ""}`;
}

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
export function day(timestamp) {
  const time = fields(timestamp);
  return `${time.getDate()} ${months[time.getMonth()]}`;
}

export function moment(timestamp) {
  const same = fields(Date.now()).toDateString() === fields(timestamp).toDateString();
  return same ? clock(timestamp) : `${day(timestamp)} ${clock(timestamp)}`;
}

// Ids are whatever a client chose: what would not show, or would turn the text around, is written out.
export const visible = (id) => id.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
  (one) => (one < " " ? String.fromCharCode(0x2400 + one.charCodeAt(0)) : `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`)) || "(no name)";

// `orders-consumer-1-0a3b52c7-…` → `orders-consumer-1·0a3b`: Kafka's clients put a UUID behind the client id.
const uuid = /^(.*?)[-.]?([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
export function member(chosen) {
  const id = visible(chosen);
  const match = uuid.exec(id);
  if (match) return `${match[1] ? `${match[1]}·` : ""}${match[2].slice(0, 4)}`;
  return /^[A-Za-z0-9+/_-]{22}$/.test(id) ? id.slice(0, 6) : id;
}

// [0, 1, 2, 5] → "0–2, 5"
export function ranges(numbers) {
  const parts = [];
  for (let i = 0; i < numbers.length; ) {
    let j = i;
    while (j + 1 < numbers.length && numbers[j + 1] === numbers[j] + 1) j += 1;
    parts.push(j === i ? `${numbers[i]}` : j === i + 1 ? `${numbers[i]}, ${numbers[j]}` : `${numbers[i]}–${numbers[j]}`);
    i = j + 1;
  }
  return parts.join(", ");
}

export const countOf = (partitions) => Object.values(partitions).reduce((sum, list) => sum + list.length, 0);

// A long name less its middle: what distinguishes names is at their ends.
export function shortened(text, most) {
  if (text.length <= most) return text;
  const head = Math.ceil((most - 1) / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
}

// `deploy a1b2c3`
export const annotationText = ({ text, revision }) => visible([text, revision].filter(Boolean).join(" "));

const causes = {
  "member.joined": ["+", "joined"],
  "member.left": ["−", "left"],
  "member.fenced": ["×", "fenced"],
  "member.subscription_changed": ["~", "changed its subscription"],
  "member.assignment_acknowledged": ["✓", "acknowledged"],
  "topic.partitions_changed": ["#", "partitions changed"],
  "group.observed": ["•", "observed"],
  "group.deleted": ["∅", "group deleted"],
};
export const causeGlyph = (kind) => causes[kind]?.[0] ?? "•";

// A member's display name, or its short id.
export const called = (id, names) => (Object.hasOwn(names ?? {}, id) ? visible(names[id]) : member(id));

// `names`: of the members that the cause names, as their round or group brings them.
export function causeText(cause, names) {
  if (!cause) return "—";
  const verb = causes[cause.kind]?.[1] ?? cause.kind.replace(/^.*\./, "").replaceAll("_", " ");
  const ids = cause.memberIds;
  if (!ids.length) return verb;
  const who = ids.length > 2 ? `${called(ids[0], names)} and ${ids.length - 1} more` : ids.map((id) => called(id, names)).join(", ");
  return `${who} ${verb}`;
}

// The tooltip of a cause: member ids and reasons.
export const causeTip = (cause) => [cause.memberIds.join(", "), ...cause.evidence.map(({ reason }) => reason)].filter(Boolean).join("; ");

// `rolling-restart` → `Rolling restart`
export const kindText = (kind) => (kind.charAt(0).toUpperCase() + kind.slice(1)).replaceAll("-", " ");

// Every status of a group, the worst first, with its tone. An episode that misses nothing is `settled`.
const tones = { rebalancing: "warn", stuck: "bad", storming: "bad", settling: "warn", "catching-up": "warn", stable: "good", empty: "off", dead: "off" };
export const STATUSES = Object.keys(tones);
export const statusTone = (status) => tones[status] ?? "good";
