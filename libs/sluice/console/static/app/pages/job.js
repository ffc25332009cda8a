// A job: what happened to it, and what is next?
import { at, href } from "../address.js";
import { logCommand } from "../commands.js";
import { duration, spaced } from "../format.js";
import { html } from "../html.js";
import { Actions } from "../parts/actions.js";
import { apiPath, JobPage, nameOf } from "../parts/job-page.js";
import { Lanes } from "../parts/lanes.js";
import { Phase, Queue, Time } from "../parts/links.js";
import { Shown } from "../parts/page.js";
import { Facts } from "../parts/table.js";
import { useResource } from "../resource.js";
import { source } from "../source.js";

const CHANGES = ["Job", "Workload"];

export default function Job({ names }) {
  const job = useResource(apiPath(names), {}, { kinds: CHANGES });
  const timeline = useResource(`${apiPath(names)}/timeline`, {}, { kinds: CHANGES });
  return html`<${JobPage} names=${names} command=${logCommand(at.value ? ["replay", "state", `job/${nameOf(names)}`] : ["replay", "timeline", nameOf(names)], at.value)}
      actions=${job.data && html`<${JobActions} row=${job.data.row} names=${names} />`}>
    <${Shown} resource=${job}>${(data) => html`<${Sentence} row=${data.row} names=${names} /><${About} row=${data.row} time=${data.time} />`}</${Shown}>
    <section><h2>Its life</h2><${Shown} resource=${timeline}>${(data) => (data.lanes.length ? html`<${Lanes} of=${data} />` : html`<p class="quiet">Nothing has happened to it yet.</p>`)}</${Shown}></section>
    <${Shown} resource=${job}>${(data) => html`
      <details><summary>All that is known of it</summary><pre tabindex="0">${JSON.stringify(data.state, null, 2)}</pre></details>`}
    </${Shown}>
  </${JobPage}>`;
}

const REASON = { name: "message", label: "Why (for people)", optional: true };

function JobActions({ row, names: [namespace, name] }) {
  const classes = useResource((source.value?.actions ?? []).length && !at.value ? "/objects/WorkloadPriorityClass" : null, { limit: 500 }, { still: true, counts: false });
  const known = (classes.data?.items ?? []).map((one) => [one.metadata.name, `${one.metadata.name} (${one.value})`]);
  const ended = row.phase === "Succeeded" || row.phase === "Failed";
  return html`<${Actions} of=${{ namespace, name }} offers=${[
    !ended && (row.phase === "Suspended" ? { action: "activate", label: "Activate", fields: [REASON] } : { action: "deactivate", label: "Deactivate", fields: [REASON] }),
    !ended && known.length > 0 && { action: "priority", label: "Priority", fields: [{ name: "value", label: "Priority class", options: known, value: row.priorityClass || known[0][0] }] },
    { action: "delete", label: "Delete" },
  ]} />`;
}

const WAITS = new Set(["Queued", "Pending", "Submitted", "QuotaReserved"]);

function Sentence({ row, names }) {
  const waits = WAITS.has(row.phase);
  return html`<p class="sentence"><${Phase} of=${row.phase} />
    ${waits ? html` It waits${row.waitedSeconds ? ` for ${duration(row.waitedSeconds)}` : ""}${row.position ? `, at place ${row.position}` : ""}: ${row.message || spaced(row.reason) || "it has not been looked at yet"}. <a href=${href(`/jobs/${names.join("/")}/why`)}>What would admit it?</a>`
      : html` ${[row.reason !== row.phase && spaced(row.reason), row.message].filter(Boolean).join(": ")}`}</p>`;
}

const About = ({ row, time }) => html`<${Facts} of=${[
  ["Queue", html`<${Queue} of=${row.clusterQueue} />`], ["Priority", row.priorityClass ? `${row.priority} (${row.priorityClass})` : row.priority], ["Flavors", row.flavors?.join(", ")],
  ["Pods", row.pods], ["Attempt", row.attempts], ["Evictions", row.evictions || null], ["Executor", row.executor],
  ["Created", html`<${Time} of=${row.created} near=${time} />`], ["Started", row.started && html`<${Time} of=${row.started} near=${time} />`], ["Finished", row.finished && html`<${Time} of=${row.finished} near=${time} />`],
  ["Waited", duration(row.waitedSeconds)], ["Ran", row.ranSeconds ? duration(row.ranSeconds) : null], ["Workload", row.workload],
]} />`;
