// What a what-if has found: the runs side by side.
import { count, duration } from "../format.js";
import { html } from "../html.js";
import { Table } from "../parts/table.js";
import { JobWaits } from "./job-waits.js";

const TITLES = { recorded: "As recorded", replayed: "Played again, unchanged", changed: "With the changes" };
const sum = (counts) => Object.values(counts ?? {}).reduce((a, b) => a + b, 0);

const ROWS = [
  ["Jobs", (run) => run.workloads, count], ["Admitted", (run) => run.admitted, count], ["Never admitted", (run) => run.neverAdmitted, count],
  ["Mean wait", (run) => run.waits?.all?.mean, duration], ["95 % wait at most", (run) => run.waits?.all?.p95, duration], ["Longest wait", (run) => run.waits?.all?.max, duration],
  ["Preemptions", (run) => sum(run.preemptions), count], ["Evictions", (run) => sum(run.evictions), count], ["Migrations", (run) => run.migrations, count],
  ["Until all had finished", (run) => run.makespanSeconds, duration], ["Fairness (1 is even)", (run) => run.fairness, (n) => (n ?? "-").toString()],
];

export function Outcome({ of }) {
  const runs = of.report?.runs ?? [];
  const last = runs.at(-1);
  const base = runs.find((run) => run.name === "replayed") ?? runs[0];
  const rows = [...ROWS, ...queueRows(runs)].filter(([, get]) => runs.some((run) => get(run) !== undefined && get(run) !== null));
  const scale = (get) => Math.max(1e-9, ...runs.map((run) => Math.abs(get(run) ?? 0)));
  return html`<section class="answer"><h2>Side by side</h2>
    <${Table} caption="Runs side by side" rows=${rows} rowKey=${([name]) => name} columns=${[
      { title: "What", cell: ([name]) => html`<strong>${name}</strong>` },
      ...runs.map((run) => ({ title: TITLES[run.name] ?? run.name, cell: ([, get, text]) => html`<span class="side"><i style=${{ width: `${(Math.abs(get(run) ?? 0) / scale(get)) * 100}%` }} class=${run === last ? "last" : ""} aria-hidden="true"></i><span>${get(run) === undefined || get(run) === null ? "-" : text(get(run))}</span></span>` })),
      { title: "Difference", number: true, cell: ([, get, text]) => difference(get(base), get(last), text) },
    ]} />
    <${Likeness} of=${of.report} runs=${runs} />
    <${JobWaits} of=${of.report} base=${base?.name} last=${last?.name} /></section>`;
}

/** How far the run without changes is the recorded one: what else than the changes could make the difference. */
function Likeness({ of: { sameDecisions, followed }, runs }) {
  const cut = runs.filter((run) => run.cutOff);
  const apart = (followed ?? []).find((one) => one.divergence);
  return html`${sameDecisions === true && html`<p class="quiet">Played again without the changes, every decision is the recorded one: the differences are the changes' doing.</p>`}
    ${sameDecisions === false && html`<p class="note warn">Played again without the changes, not every decision is the recorded one. So compare the last two runs, not the last with the record.</p>`}
    ${apart && html`<p class="note warn">The log does not decide itself again with this code, from ${apart.divergence.seq} on (${apart.service}): what follows from there is not what was.</p>`}
    ${cut.map((run) => html`<p class="note warn">“${TITLES[run.name] ?? run.name}” would have gone on without end, and was cut off; not ended: ${Object.keys(run.cutOff.notEnded).slice(0, 5).join(", ")}.</p>`)}`;
}

const queueRows = (runs) => [...new Set(runs.flatMap((run) => Object.keys(run.waitsByQueue ?? {})))].sort()
  .map((queue) => [`Mean wait in ${queue}`, (run) => run.waitsByQueue?.[queue]?.mean, duration]);

function difference(before, after, text) {
  if (before === undefined || after === undefined || before === null || after === null) return "-";
  const by = after - before;
  return Math.abs(by) < 1e-6 ? "same" : `${by > 0 ? "+" : "−"}${text(Math.abs(Number(by.toFixed(4))))}`;
}
