// Where spans lie on the lanes. No DOM in here.
import { duration } from "../format.js";

export function extent(timeline) {
  const times = timeline.lanes.flatMap((lane) => lane.spans.flatMap((span) => [span.from, span.to])).filter(Boolean);
  const from = timeline.from || times.reduce((a, b) => (a < b ? a : b));
  const to = timeline.to || times.reduce((a, b) => (a > b ? a : b));
  return { from, to };
}

export function placed(span, { from, to }) {
  const whole = Math.max(1, new Date(to) - new Date(from));
  const share = (time) => Math.max(0, Math.min(1, (new Date(time) - new Date(from)) / whole));
  const left = share(span.from);
  return { left, width: Math.max(0, (span.to ? share(span.to) : 1) - left) };
}

const STEPS = [0.001, 0.01, 0.1, 1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400, 604_800];

/** Ticks at round distances from the beginning. */
export function axis({ from, to }) {
  const seconds = Math.max(0.001, (new Date(to) - new Date(from)) / 1000);
  const step = STEPS.find((one) => seconds / one <= 8) ?? seconds / 8;
  const ticks = [];
  for (let n = 0; n * step <= seconds; n += 1) ticks.push({ share: (n * step) / seconds, text: n === 0 ? "begins" : `+${duration(n * step)}` });
  return ticks;
}
