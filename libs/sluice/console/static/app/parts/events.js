// Events of the log as a list: sequence, time, writer, what happened, and what brought it about.
import { href } from "../address.js";
import { html } from "../html.js";
import { Job, Seq, Time } from "./links.js";

const NOTABLE = { Preempted: "bad", Evicted: "bad", Admitted: "good", QuotaReserved: "half", WorkloadFinished: "done", JobFinished: "done" };

export const EventLine = ({ of: event, near, depth = 0, cause = true }) => html`<span class="event" style=${depth ? { marginInlineStart: `${Math.min(depth, 8) * 1.2}rem` } : null}>
  <${Seq} of=${event.seq} /> <span class="when"><${Time} of=${event.time} near=${near} parts /></span>
  <span class="writer">${event.writer}</span>
  <span class="what"><strong class=${NOTABLE[event.type] ?? ""}>${event.type}</strong> ${stripped(event)}</span>
  ${event.data?.job && html`<${Job} of=${event.data.job.key ?? event.data.job} />`}
  ${cause && event.cause > 0 && event.cause !== event.seq && html`<a class="cause" href=${href(`/log/${event.cause}`)}>because of ${event.cause}</a>`}
</span>`;

/** The line without the type in front, which stands there already. */
const stripped = ({ text = "", type }) => (text.startsWith(`${type} `) ? text.slice(type.length + 1) : text === type ? "" : text);

export const Events = ({ of, near, label, depths = false }) => html`<ol class="events" aria-label=${label}>
  ${of.map((event) => html`<li key=${`${event.seq} ${event.index}`} data-key=${event.seq}><${EventLine} of=${event} near=${near} depth=${depths ? event.depth ?? 0 : 0} /></li>`)}
</ol>`;
