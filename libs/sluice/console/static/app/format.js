// Words for numbers and times, as the command line has them.

export const count = (n) => (n ?? 0).toLocaleString("en");
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "-";
  const s = Math.max(0, seconds);
  if (s < 1) return s === 0 ? "0 s" : `${Math.round(s * 1000)} ms`;
  if (s < 120) return `${s < 10 && !Number.isInteger(s) ? s.toFixed(1) : Math.round(s)} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min${Math.round(s % 60) ? ` ${Math.round(s % 60)} s` : ""}`;
  if (s < 172_800) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

const two = (n) => String(n).padStart(2, "0");
const day = (d) => `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;

/** 14:03:07 in local time; with the day where that is another than `near`'s. */
export function clockTime(text, near = null, { parts = false } = {}) {
  if (!text) return "-";
  const d = new Date(text);
  const time = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}${parts ? `.${String(d.getMilliseconds()).padStart(3, "0")}` : ""}`;
  return near && day(new Date(near)) === day(d) ? time : `${day(d)} ${time}`;
}

export const secondsBetween = (from, to) => (new Date(to) - new Date(from)) / 1000;

/** `default/x` as `x`; other namespaces stay, since names are not unique without them. */
export const shortKey = (key) => (key ?? "").replace(/^default\//, "");

export function words(list, most = 3) {
  if (list.length <= most) return list.join(", ");
  return `${list.slice(0, most).join(", ")} and ${list.length - most} more`;
}

/** CamelCase reasons as words: WaitingForQuota is "waiting for quota". */
export const spaced = (reason) =>
  (reason ?? "").replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
