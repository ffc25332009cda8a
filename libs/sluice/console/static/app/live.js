// What the stream has said last: how far the log is, whether we hear of it. Resources listen for frames.
import { signal } from "@preact/signals";
import { follow } from "./stream.js";

/** connecting, open, lost; `file` when what is shown cannot change. */
export const link = signal("connecting");
/** Last sequence of the log that we know to be there. */
export const end = signal(0);
/** When the stream was lost, in the browser's clock. */
export const lostAt = signal(0);
/** Ticks each second while something on the page shows an age. */
export const clock = signal(Date.now());
setInterval(() => { if (!document.hidden) clock.value = Date.now(); }, 1000);

const listeners = new Set();
let greeted = false;

/** Call `heard({changed, gone, upto})`, or `heard(null)` for "load anew"; returns how to stop. */
export function onFrame(heard) {
  listeners.add(heard);
  return () => listeners.delete(heard);
}

const told = (frame) => { for (const heard of [...listeners]) heard(frame); };

function take({ event, data }) {
  if (event === "lost") {
    if (link.value !== "lost") lostAt.value = Date.now();
    link.value = "lost";
    return;
  }
  const gap = event === "resync" || (event === "hello" && greeted && data.upto !== end.value)
    || (event === "delta" && end.value !== 0 && data.since > end.value);
  if (event === "hello") greeted = true;
  link.value = event === "hello" && data.live === false ? "file" : "open";
  // Of an earlier frame told twice (a tab that came late) nothing is news.
  if (event === "delta" && data.upto <= end.value && !gap) return;
  end.value = Math.max(end.value, data.upto);
  if (gap) told(null);
  else told(event === "delta" ? data : { since: Infinity, upto: data.upto, changed: {}, gone: {} });
}

export function start() {
  follow(take, () => end.value);
}
