// Pending: who waits, for what, since when, at which place?
import { address, at, href } from "../address.js";
import { nowCommand } from "../commands.js";
import { count, duration, shortKey } from "../format.js";
import { html } from "../html.js";
import { Chips, Choice, Field } from "../parts/filters.js";
import { Job, Queue, Time } from "../parts/links.js";
import { Empty, Page, Shown } from "../parts/page.js";
import { Total, Virtual } from "../parts/virtual.js";

const COLUMNS = [
  { title: "Job", size: "c-name", cell: (row) => html`<${Job} of=${row.key} />${row.count > 1 ? html` <small title=${(row.more ?? []).map(shortKey).join(", ")}>and ${count(row.count - 1)} equal</small>` : ""}` },
  { title: "Queue", size: "c-queue", cell: (row) => html`<${Queue} of=${row.clusterQueue || row.queue} />` },
  { title: "Place", size: "c-place", number: true, cell: (row) => (row.position ? `${count(row.position)} of ${count(row.of)}` : "-") },
  { title: "Waits for", size: "c-why", cell: (row) => html`<a href=${href(`/jobs/${row.key}/why`)}>${row.reason}</a> <small title=${row.message}>${row.message}</small>` },
  { title: "For", size: "c-time", number: true, cell: (row) => duration(row.waitingSeconds) },
  { title: "Reason since", size: "c-when", cell: (row) => html`<${Time} of=${row.since} near=${row.since} />` },
  { title: "Priority", size: "c-small", number: true, cell: (row) => row.priority },
  { title: "Asks for", size: "c-asks", cell: (row) => Object.entries(row.requests ?? {}).map(([name, amount]) => `${amount.text} ${name}`).join(", ") },
];

export default function Pending() {
  const { queue, reason, namespace, group } = address.value.query;
  const query = { queue, reason, namespace, group };
  return html`<${Page} title="Who waits, and for what?" command=${nowCommand(["get", "jobs", "-A", "--field-selector", "status.phase=Queued"], at.value, ["replay", "state", "--show", "jobs"])}>
    <div class="filters">
      <${Field} name="queue" label="Queue" main /><${Field} name="namespace" label="Namespace" />
      <${Choice} name="group" label="Equal workloads" options=${[["", "one row each"], ["equal", "as one row"]]} />
    </div>
    <${Virtual} caption="Waiting jobs" path="/pending" query=${query} columns=${COLUMNS} kinds=${["Job", "Workload", "ClusterQueue"]}
      heads=${(first) => html`<${Shown} resource=${first}>${(data) => html`<${Chips} name="reason" label="Reasons" counts=${data.reasons ?? {}} single />`}</${Shown}><${Total} of=${first} one="row" many="rows" />`}
      empty=${html`<${Empty} next=${nowCommand(["get", "jobs", "-A"], at.value, ["replay", "state", "--show", "jobs"])}>Nobody waits${queue || reason || namespace ? " here: the filters leave nothing" : ""}.</${Empty}>`} />
  </${Page}>`;
}
