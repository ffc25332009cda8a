// Links to things, so that a name looks and leads the same everywhere.
import { href } from "../address.js";
import { clockTime, shortKey } from "../format.js";
import { html } from "../html.js";

export const jobPath = (key) => `/jobs/${key.split("/").map(encodeURIComponent).join("/")}`;

export const Job = ({ of, rest = "", children }) =>
  of ? html`<a class="name" href=${href(jobPath(of) + rest)}>${children ?? shortKey(of)}</a>` : "-";
export const Queue = ({ of }) => (of ? html`<a class="name" href=${href(`/queues/${encodeURIComponent(of)}`)}>${of}</a>` : "-");
export const Cohort = ({ of }) => (of ? html`<a class="name" href=${href(`/cohorts/${encodeURIComponent(of)}`)}>${of}</a>` : "-");

/** A message of the log. */
export const Seq = ({ of }) => (of ? html`<a class="number" href=${href(`/log/${of}`)}>${of}</a>` : "-");

/** A time; its title has all of it, in UTC. */
export const Time = ({ of, near, parts }) =>
  (of ? html`<time dateTime=${of} title=${of}>${clockTime(of, near, { parts })}</time>` : "-");

const TONES = {
  Running: "good", Admitted: "good", Succeeded: "done", Finished: "done", Failed: "bad", Rejected: "bad", Inactive: "bad",
  Queued: "wait", Pending: "wait", Submitted: "wait", QuotaReserved: "half",
  Stopping: "half", Suspended: "half", Evicted: "half", Deactivated: "bad", Ready: "good", Lost: "bad", Unknown: "half", Retry: "half",
};
export const tone = (phase) => TONES[phase] ?? "plain";

/** A state as a word with a shape: never by colour alone. */
export const Phase = ({ of }) => html`<span class="phase ${tone(of)}">${of || "-"}</span>`;
