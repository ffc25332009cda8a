// Would mine have waited? The waits of each job in two runs of a what-if, side by side; sort and filter are in the address.
import { address, setQuery } from "../address.js";
import { count, duration, shortKey } from "../format.js";
import { html } from "../html.js";
import { Job } from "../parts/links.js";
import { Table } from "../parts/table.js";

const SHOWN = 200;
const NAMES = { recorded: "recorded", replayed: "played again", changed: "with the changes" };
const flavors = (wait) => wait?.flavors?.join(", ") ?? "";
const first = (wait) => (wait ? wait.firstSeconds ?? Infinity : undefined);

/** key, title, what is compared, its text. */
const COLUMNS = [
  ["first", "First admitted after", first, (wait) => (wait.firstSeconds === null ? "never" : duration(wait.firstSeconds))],
  ["waited", "Waits in all", (wait) => wait?.waitedSeconds, (wait) => `${duration(wait.waitedSeconds)}${wait.waits ? " and on" : ""}`],
  ["after", "After preemption", (wait) => wait?.afterPreemptionSeconds, (wait) => duration(wait.afterPreemptionSeconds)],
  ["preemptions", "Preempted", (wait) => wait?.preemptions, (wait) => count(wait.preemptions)],
  ["flavors", "Flavors", flavors, (wait) => flavors(wait) || "-"],
];

const sorts = {
  differs: () => 0, // as it comes: most different first
  job: (a, b) => a.job.localeCompare(b.job),
  queue: (a, b) => a.queue.localeCompare(b.queue),
};

function sorted(rows, by, last) {
  const key = by.replace(/^-/, "");
  const column = COLUMNS.find(([name]) => name === key);
  const order = column ? (a, b) => compare(column[2](a.runs[last]), column[2](b.runs[last])) : sorts[key] ?? sorts.differs;
  const found = [...rows].sort(order);
  return by.startsWith("-") ? found.reverse() : found;
}

const compare = (a, b) => {
  if (a === undefined || b === undefined) return a === b ? 0 : a === undefined ? -1 : 1;
  return typeof a === "string" ? a.localeCompare(b) : a === b ? 0 : a - b;
};

export function JobWaits({ of: report, base, last }) {
  const rows = report?.jobs;
  const { sort = "differs", job = "" } = address.value.query;
  if (!Array.isArray(rows)) return null;
  const meant = rows.filter((row) => !job || row.job.includes(job));
  const differ = rows.filter((row) => !same(row, base, last)).length;
  const shown = sorted(meant, sort, last);
  const by = (key, title) => ({ sort: sort.replace(/^-/, "") === key ? (sort.startsWith("-") ? "descending" : "ascending") : "none", onSort: () => setQuery({ sort: sort === key ? `-${key}` : sort === `-${key}` ? null : key }), title });
  return html`<section><h2>Would mine have waited?</h2>
    <p>${rows.length ? html`${count(differ)} of ${count(report.jobsFound)} jobs that were played wait otherwise; ${unreached(report)}${report.jobsFound > rows.length ? `the ${count(rows.length)} that differ most are here.` : "first those that differ most."}` : "No job was played."}</p>
    <div class="filters"><label class="field"><span>Job</span><input type="search" value=${job} placeholder="part of its name" onInput=${(event) => setQuery({ job: event.target.value || null })} /></label></div>
    ${!meant.length && job && html`<p class="quiet">No job with ${job} in its name was played. What the changes cannot reach does as recorded.</p>`}
    ${meant.length > 0 && html`<${Table} caption="Waits per job" keys rows=${shown.slice(0, SHOWN)} rowKey=${(row) => row.job} columns=${[
      { ...by("job", "Job"), cell: (row) => html`<${Name} of=${row.job} />` },
      { ...by("queue", "Queue"), cell: (row) => row.queue },
      ...COLUMNS.map(([key, title, value, text]) => ({ ...by(key, title), number: key !== "flavors", cell: (row) => html`<${Both} before=${row.runs[base]} after=${row.runs[last]} value=${value} text=${text} />` })),
    ]} />`}
    ${shown.length > SHOWN && html`<p class="quiet">${count(shown.length - SHOWN)} more; a part of the name leaves fewer. <code>--per-job -o json</code> on the command line has all.</p>`}
    <p class="quiet">Struck through: ${NAMES[base] ?? base}. Behind it: ${NAMES[last] ?? last}, where it differs. A wait begins when a job is queued, or has given its quota back, and ends when it is admitted.</p></section>`;
}

const same = (row, base, last) => JSON.stringify(row.runs[base]) === JSON.stringify(row.runs[last]);
const unreached = ({ reach }) => (reach && reach.jobs < reach.of ? `the other ${count(reach.of - reach.jobs)} the changes cannot reach; ` : "");
/** The second job of a name has no page of its own. */
const Name = ({ of: key }) => (key.includes("#") ? shortKey(key) : html`<${Job} of=${key} />`);

function Both({ before, after, value, text }) {
  if (!before || !after) return html`${before ? text(before) : after ? text(after) : "-"} <small>${before ? "left out" : "only here"}</small>`;
  if (value(before) === value(after)) return html`<span class="quiet">${text(after)}</span>`;
  // A wait that goes on when the run ends says how long the run was, and not who is better off.
  if (before.waits || after.waits) return html`<del>${text(before)}</del> <ins>${text(after)}</ins>`;
  const better = typeof value(after) === "number" && value(after) < value(before);
  return html`<del>${text(before)}</del> <ins class=${typeof value(after) === "number" ? (better ? "better" : "worse") : ""}>${text(after)}</ins>`;
}
