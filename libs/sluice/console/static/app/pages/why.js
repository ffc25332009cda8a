// Why not, and what is the least that would change it?
import { at } from "../address.js";
import { part } from "../api.js";
import { logCommand } from "../commands.js";
import { count } from "../format.js";
import { html } from "../html.js";
import { apiPath, JobPage, nameOf } from "../parts/job-page.js";
import { Queue } from "../parts/links.js";
import { Empty, Shown } from "../parts/page.js";
import { Table } from "../parts/table.js";
import { useResource } from "../resource.js";
import { trial } from "./remedies.js";

const ENDED = new Set(["Succeeded", "Failed", "Rejected"]);

export default function Why({ names }) {
  const job = useResource(apiPath(names), {}, { kinds: ["Job"] });
  const ended = ENDED.has(job.data?.row.phase);
  const why = useResource(job.data && !ended ? `${apiPath(names)}/why` : null, {}, { kinds: ["Job", "ClusterQueue"] });
  const name = why.data?.report?.cluster_queue;
  const queue = useResource(name ? `/queues/${part(name)}` : null, {}, { kinds: ["ClusterQueue"], counts: false });
  return html`<${JobPage} names=${names} title="Why is it not running?" command=${logCommand(["why", nameOf(names)], at.value)}>
    <${Shown} resource=${job}>${() => ended && html`<${Empty}>It has ended, and waits for nothing. Its life shows when it waited: look at it then, with the strip.</${Empty}>`}</${Shown}>
    <${Shown} resource=${why} wait="Trying changes on a copy of the state">${(data) => html`<${Report} of=${data.report} seq=${data.upto} queue=${queue.data?.object} text=${data.text} />`}</${Shown}>
  </${JobPage}>`;
}

function Report({ of: report, seq, queue, text }) {
  const tried = report.remedies ?? [];
  return html`
    <p class="sentence"><strong>${report.phase}</strong>${report.rule ? html`: <strong>${report.rule}</strong>.` : "."} ${report.message}</p>
    ${report.position ? html`<p>It is number <strong>${count(report.position)}</strong> of ${count(report.queue_size)} in <${Queue} of=${report.cluster_queue} />${report.ahead?.length ? html`, behind ${report.ahead.slice(0, 5).map((key, n) => html`${n ? ", " : ""}<code>${key}</code>`)}` : ""}.</p>` : ""}
    ${tried.length > 0 && html`<section><h2>What would admit it</h2><p class="quiet">Each was decided on a copy of this very state (${count(report.trials)} trials); the smallest first.</p>
      <ol class="remedies">${tried.map((one) => { const to = trial(one, report, queue, seq); return html`<li class=${one.smallest ? "smallest" : ""}>
        <span>${one.text}</span> ${one.smallest && html`<span class="phase good">smallest</span>`} ${one.preempts > 0 && html`<small>would preempt ${one.preempts}</small>`}
        ${to && html`<a class="button" href=${to}>Try it</a>`}</li>`; })}</ol></section>`}
    ${report.numbers?.length > 0 && html`<section><h2>Flavor by flavor</h2><${Table} caption="Quota by flavor" keys rows=${report.numbers} rowKey=${(row) => `${row.pod_set} ${row.flavor} ${row.resource}`} columns=${[
      { title: "Flavor", cell: (row) => row.flavor }, { title: "Resource", cell: (row) => row.resource }, { title: "Pods", cell: (row) => row.pod_set },
      { title: "Asks", number: true, cell: (row) => row.requested }, { title: "Nominal", number: true, cell: (row) => row.nominal }, { title: "Used", number: true, cell: (row) => row.used },
      { title: "Could borrow", number: true, cell: (row) => row.borrowable }, { title: "Short of", number: true, cell: (row) => html`<strong>${row.short}</strong>` }, { title: "What stands in the way", wide: true, cell: (row) => row.obstacle },
    ]} /></section>`}
    ${report.candidates?.length > 0 && html`<section><h2>Whom could it preempt?</h2><${Table} caption="Candidates for preemption" rows=${report.candidates} rowKey=${(row) => row.workload} columns=${[
      { title: "Workload", cell: (row) => html`<code>${row.workload}</code>` }, { title: "Queue", cell: (row) => html`<${Queue} of=${row.cluster_queue} />` }, { title: "Priority", number: true, cell: (row) => row.priority },
      { title: "Holds", cell: (row) => Object.entries(row.usage ?? {}).map(([what, much]) => `${much} ${what}`).join(", ") },
      { title: "May it?", wide: true, cell: (row) => html`<strong>${row.allowed ? "yes" : "no"}</strong> <small>${row.why}</small>` },
    ]} />${report.candidates_left_out > 0 && html`<p>${report.candidates_left_out} more.</p>`}</section>`}
    ${report.checks?.length > 0 && html`<section><h2>Checks</h2><ul>${report.checks.map((one) => html`<li>${typeof one === "string" ? one : JSON.stringify(one)}</li>`)}</ul></section>`}
    <details><summary>As the command says it</summary><pre tabindex="0">${(text ?? []).join("\n")}</pre></details>`;
}

