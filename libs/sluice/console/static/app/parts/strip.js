// The strip at the bottom: the whole log by density, the moment that the page shows, and the way to another one.
import { useRef, useState } from "preact/hooks";
import { address, at, travel } from "../address.js";
import { get, part } from "../api.js";
import { clockTime, count } from "../format.js";
import { html } from "../html.js";
import { useKeys } from "../keys.js";
import { useResource } from "../resource.js";
import { announce } from "./announce.js";
import { KINDS, bucketAt, kindsOf, paths, shareOf, stepped, told } from "./density.js";

/** The job that the page is about: keys go through its decisions. */
export function subject() {
  const found = /^\/jobs\/([^/]+)\/([^/]+)/.exec(address.value.path);
  return found ? `${decodeURIComponent(found[1])}/${decodeURIComponent(found[2])}` : "";
}

export function Strip({ shown }) {
  const about = subject();
  const { data } = useResource("/density", { buckets: 400 }, { moment: false, counts: false });
  const [hover, setHover] = useState(null);
  const dragging = useRef(false);
  const track = useRef();
  const first = data?.first ?? 1;
  const last = Math.max(data?.end ?? 1, first);
  const past = at.value !== "";
  const now = past ? Math.min(shown || last, last) : last;
  const jump = (seq) => {
    const to = Math.max(first, Math.min(last, seq));
    travel(to >= last ? "" : to);
    announce(told(data, to), { wait: 150 });
  };
  useStripKeys({ now, past, about, jump });

  const seqAt = (event) => {
    const box = track.current.getBoundingClientRect();
    return Math.round(first + Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)) * (last - first));
  };
  const down = (event) => { dragging.current = true; track.current.setPointerCapture(event.pointerId); setHover(seqAt(event)); };
  const move = (event) => setHover(seqAt(event));
  const up = (event) => { if (dragging.current) { dragging.current = false; jump(seqAt(event)); } };
  const keys = (event) => {
    const to = stepped(event, now, first, last);
    if (to !== null) { event.preventDefault(); event.stopPropagation(); jump(to); }
  };
  const marked = hover ?? now;
  const bucket = bucketAt(data?.buckets ?? [], marked);
  return html`<section class="strip" aria-label="Time">
    <div class="track" ref=${track} role="slider" tabindex="0" aria-label="Moment of the log"
      aria-valuemin=${first} aria-valuemax=${last} aria-valuenow=${now} aria-valuetext=${told(data, now)}
      onPointerDown=${down} onPointerMove=${move} onPointerUp=${up} onPointerLeave=${() => setHover(null)} onKeyDown=${keys}>
      <svg viewBox="0 0 400 40" preserveAspectRatio="none" aria-hidden="true">
        ${KINDS.map(([kind]) => html`<path class=${`d-${kind}`} d=${paths(data?.buckets ?? [], first, last)[kind]} />`)}
      </svg>
      ${hover !== null && html`<b class="cursor" style=${{ left: `${shareOf(hover, first, last) * 100}%` }}></b>`}
      <b class="hand ${past ? "then" : ""}" style=${{ left: `${shareOf(now, first, last) * 100}%` }}></b>
    </div>
    <div class="strip-says">
      <span class="number">${count(marked)}</span>
      <span>${bucket ? clockTime(bucket.time) : ""}</span>
      <span class="counts">${bucket ? KINDS.filter(([kind]) => kindsOf(bucket)[kind]).map(([kind, word]) => html`<span class=${`key-${kind}`}>${kindsOf(bucket)[kind]} ${word}</span>`) : ""}</span>
      <span class="steps">
        <button type="button" class="quiet" onClick=${() => jump(now - 1)} disabled=${now <= first} title="One message back: [">‹<span class="hidden">One message back</span></button>
        <button type="button" class="quiet" onClick=${() => jump(now + 1)} disabled=${!past} title="One message on: ]">›<span class="hidden">One message on</span></button>
        <button type="button" onClick=${() => travel("")} disabled=${!past} title="Back to the end: t">Now</button>
      </span>
    </div>
  </section>`;
}

function useStripKeys({ now, past, about, jump }) {
  const found = (seq, order) => { if (seq) jump(seq); else announce(order === "desc" ? "Nothing before it" : "Nothing after it"); };
  const seek = (query, order) => () => {
    const span = order === "desc" ? { to: now - 1 } : { from: now + 1 };
    get("/log", { ...query, ...span, order, limit: 1 }).then(({ items }) => found(items[0]?.seq, order), () => {});
  };
  const decision = (order) => (about
    ? () => { get(`/jobs/${about.split("/").map(part).join("/")}/events`, { limit: 1000 }).then(({ items }) => found(items.map((one) => one.seq).filter((seq) => (order === "desc" ? seq < now : seq > now)).at(order === "desc" ? -1 : 0), order), () => {}); }
    : seek({ writer: "scheduler" }, order));
  const onward = (act) => () => { if (!past) return false; act(); return true; };
  useKeys({
    "[": ["one message back", () => jump(now - 1)],
    "]": ["one message on", onward(() => jump(now + 1))],
    "{": ["decision before (of the job shown)", decision("desc")],
    "}": ["next decision (of the job shown)", onward(decision("asc"))],
    ",": ["preemption before", seek({ type: "Preempted" }, "desc")],
    ".": ["next preemption", onward(seek({ type: "Preempted" }, "asc"))],
    t: ["back to now", () => { if (!past) return false; travel(""); return true; }],
  });
}
