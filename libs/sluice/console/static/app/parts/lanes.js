// A job's life as lanes of bars over time, marks on them, and the same as a table.
import { href } from "../address.js";
import { clockTime, duration, secondsBetween, shortKey } from "../format.js";
import { html } from "../html.js";
import { Seq, Time } from "./links.js";
import { axis, extent, placed } from "./lane-places.js";
import { Table } from "./table.js";

const percent = (share) => `${(share * 100).toFixed(3)}%`;

const said = (lane, span, whole) => `${lane.name}: ${span.state}${span.detail ? `, ${span.detail}` : ""}, ${clockTime(span.from, whole.from)} to ${span.to ? clockTime(span.to, whole.from) : "now"}, ${duration(secondsBetween(span.from, span.to || whole.to))}`;

export function Lanes({ of: timeline }) {
  const whole = extent(timeline);
  return html`<div class="lanes">
    <div class="lane axis" aria-hidden="true"><span></span><div class="track-of">${axis(whole).map((tick) => html`<small class=${tick.share > 0.9 ? "at-end" : ""} style=${{ left: percent(tick.share) }}>${tick.text}</small>`)}</div></div>
    ${timeline.lanes.map((lane) => html`<div class="lane" key=${`${lane.kind} ${lane.name}`}>
      <span class="lane-name" title=${lane.name}>${shortKey(lane.name)} <small>${lane.kind}</small></span>
      <ul class="track-of" aria-label=${`${lane.kind} ${lane.name}`}>
        ${lane.spans.map((span) => { const { left, width } = placed(span, whole); return html`<li class="span s-${span.state.toLowerCase().replaceAll(" ", "-")}" style=${{ left: percent(left), width: percent(width) }} title=${said(lane, span, whole)}>
          ${span.fromSeq && width > 0.1 ? html`<a href=${href(`/log/${span.fromSeq}`)} aria-label=${said(lane, span, whole)}>${span.state}${span.detail ? ` · ${span.detail}` : ""}</a>` : html`<span class="hidden">${said(lane, span, whole)}</span>${width > 0.04 && html`<span class="short" aria-hidden="true">${span.state}</span>`}`}</li>`; })}
        ${marksOf(timeline, lane).map((mark) => html`<li class="mark m-${mark.type.toLowerCase()}" style=${{ left: percent(placed({ from: mark.time, to: mark.time }, whole).left) }} title=${`${mark.type}: ${mark.text}`}>
          <a href=${href(`/log/${mark.seq}`)} aria-label=${`${mark.type} at ${clockTime(mark.time, whole.from)}: ${mark.text}`}>${mark.type === "Migrated" ? "→" : "×"}</a></li>`)}
      </ul></div>`)}
  </div>
  <details><summary>The same as a table</summary>
    <${Table} caption="Phases of the job" rows=${rowsOf(timeline)} rowKey=${(row, n) => n} columns=${[
      { title: "Lane", cell: (row) => row.lane }, { title: "State", cell: (row) => row.state }, { title: "Detail", wide: true, cell: (row) => row.detail },
      { title: "From", cell: (row) => html`<${Time} of=${row.from} near=${whole.from} />` }, { title: "For", number: true, cell: (row) => row.lasted },
      { title: "Message", number: true, cell: (row) => html`<${Seq} of=${row.seq} />` },
    ]} /></details>`;
}

/** Marks of a lane; those of lanes that are not drawn stand on the first, the job's own. */
function marksOf({ lanes, marks }, lane) {
  const drawn = new Set(lanes.map((one) => one.name));
  const here = marks.filter((mark) => mark.lane === lane.name || (lane === lanes[0] && !drawn.has(mark.lane)));
  // An eviction and the preemption that it is are one mark: that which names the other side.
  return [...new Map(here.sort((a, b) => a.other.length - b.other.length).map((mark) => [`${mark.seq} ${mark.type}`, mark])).values()];
}

function rowsOf(timeline) {
  const whole = extent(timeline);
  const spans = timeline.lanes.flatMap((lane) => lane.spans.map((span) => ({ lane: lane.name, state: span.state, detail: span.detail, from: span.from, lasted: duration(secondsBetween(span.from, span.to || whole.to)), seq: span.fromSeq })));
  const marks = timeline.marks.map((mark) => ({ lane: mark.lane, state: mark.type, detail: mark.text, from: mark.time, lasted: "", seq: mark.seq }));
  return [...spans, ...marks].sort((a, b) => new Date(a.from) - new Date(b.from) || a.seq - b.seq);
}
