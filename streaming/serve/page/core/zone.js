// Times are shown by the local clock or in UTC: the choice is kept, and a change draws the page again.
const KEY = "times";

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage can be switched off
  }
}

export const isUtc = stored() === "utc";

// From local time to UTC at a moment, ms, as far as times are shown by the local clock.
export const offsetMs = (timestamp) => (isUtc ? 0 : new Date(timestamp).getTimezoneOffset() * 60_000);

// A date whose local fields are those to show.
export const fields = (timestamp) => new Date(isUtc ? timestamp + new Date(timestamp).getTimezoneOffset() * 60_000 : timestamp);

// The value of a date-and-time field for a moment, ms, and back; NaN where the field is incomplete.
export const toField = (timestamp) => new Date(timestamp - offsetMs(timestamp)).toISOString().slice(0, 19);
export const fromField = (value) => Date.parse(isUtc ? `${value}Z` : value);

export function zoneName(minutes = isUtc ? 0 : -new Date().getTimezoneOffset()) {
  if (!minutes) return "UTC";
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return `UTC${minutes < 0 ? "−" : "+"}${hours}${rest ? `:${String(rest).padStart(2, "0")}` : ""}`;
}

const TIME = /(?:(\d{4})-(\d\d)-(\d\d) )?\b(\d\d):(\d\d)(?::(\d\d))?\b( UTC)?/g;
const DAY_MS = 86_400_000;
const two = (value) => String(value).padStart(2, "0");

// A story with its times, which are UTC, as the page shows times; those without a date are the nearest to `at`.
export function inZone(story, at) {
  if (isUtc || !offsetMs(at)) return story;
  return story.replace(TIME, (_, year, month, day, hour, minute, second) => {
    const near = new Date(at);
    const date = year ? [year, month - 1, day] : [near.getUTCFullYear(), near.getUTCMonth(), near.getUTCDate()];
    let moment = Date.UTC(...date, hour, minute, second ?? 0);
    if (!year) moment -= Math.round((moment - at) / DAY_MS) * DAY_MS;
    const time = new Date(moment);
    const dated = year ? `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ` : "";
    return `${dated}${two(time.getHours())}:${two(time.getMinutes())}${second ? `:${two(time.getSeconds())}` : ""}`;
  });
}

export function installZone(button) {
  button.textContent = zoneName();
  button.title = isUtc ? "Times are UTC; show them by the local clock" : "Times are local; show them in UTC";
  button.setAttribute("aria-label", `${button.textContent}: ${button.title}`);
  button.hidden = !new Date().getTimezoneOffset();
  button.addEventListener("click", () => {
    try {
      localStorage.setItem(KEY, isUtc ? "local" : "utc");
    } catch {
      return;
    }
    location.reload();
  });
}
