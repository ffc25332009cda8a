// Jobs: where is my job?
import { address, at, href } from "../address.js";
import { nowCommand } from "../commands.js";
import { count, duration } from "../format.js";
import { html } from "../html.js";
import { Chips, Choice, Field } from "../parts/filters.js";
import { Job, Phase, Queue, Time } from "../parts/links.js";
import { Empty, Page, Shown } from "../parts/page.js";
import { Total, Virtual } from "../parts/virtual.js";

const COLUMNS = [
  { title: "Job", size: "c-name", cell: (row) => html`<${Job} of=${row.key} />` },
  { title: "Phase", size: "c-phase", cell: (row) => html`<${Phase} of=${row.phase} />` },
  { title: "Queue", size: "c-queue", cell: (row) => html`<${Queue} of=${row.clusterQueue} />` },
  { title: "Why", size: "c-why", cell: (row) => html`${row.reason ? html`<a href=${href(`/jobs/${row.key}/why`)}>${row.reason}</a>` : ""}${row.position ? html` <small>place ${count(row.position)}</small>` : ""} <small title=${row.message}>${row.message}</small>` },
  { title: "Priority", size: "c-small", number: true, cell: (row) => row.priority },
  { title: "Pods", size: "c-small", number: true, cell: (row) => row.pods },
  { title: "Flavors", size: "c-queue", cell: (row) => row.flavors?.join(", ") },
  { title: "Waited", size: "c-time", number: true, cell: (row) => duration(row.waitedSeconds) },
  { title: "Ran", size: "c-time", number: true, cell: (row) => duration(row.ranSeconds) },
  { title: "Evicted", size: "c-small", number: true, cell: (row) => row.evictions || "" },
  { title: "Created", size: "c-when", cell: (row) => html`<${Time} of=${row.created} near=${row.created} />` },
];

/** Put the frame's rows in the places of their older ones; what came, went or moved is for the next answer. */
export function fold(answer, frame) {
  const news = new Map((frame.changed?.Job ?? []).map((row) => [row.key, row]));
  if (!news.size) return null;
  return { ...answer, items: answer.items.map((row) => news.get(row.key) ?? row) };
}

export default function Jobs() {
  const { namespace, queue, phase, label, search, owner, sort, group } = address.value.query;
  const query = { namespace, queue, phase, label, search, owner, sort, group };
  const filtered = namespace || queue || phase || label || search || owner;
  const where = namespace ? ["-n", namespace] : ["-A"];
  return html`<${Page} title="Where is my job?" command=${nowCommand(["get", "jobs", ...where, ...(label ? ["-l", label] : [])], at.value, ["replay", "state", "--show", "jobs"])}>
    <div class="filters">
      <${Field} name="search" label="Name" main /><${Field} name="namespace" label="Namespace" /><${Field} name="queue" label="Queue" />
      <${Field} name="label" label="Labels" placeholder="team=a,tier!=low" />
      <${Choice} name="sort" label="Order" options=${[["", "by name"], ["-created", "newest first"], ["created", "oldest first"], ["-priority", "highest priority"], ["-waited", "longest wait"], ["queue", "by queue"], ["phase", "by phase"]]} />
      <${Field} name="group" label="Group by" placeholder="queue, phase or a label" />
    </div>
    <${Virtual} caption="Jobs" path="/jobs" query=${query} columns=${COLUMNS} kinds=${["Job"]} fold=${fold}
      heads=${(first) => html`<${Shown} resource=${first}>${(data) => html`<${Chips} name="phase" label="Phases" counts=${data.phases ?? {}} /><${Groups} of=${data.groups} by=${group} />`}</${Shown}><${Total} of=${first} one="job" many="jobs" />`}
      empty=${html`<${Empty} next=${filtered ? nowCommand(["get", "jobs", "-A"], at.value, ["replay", "state", "--show", "jobs"]) : "sluice submit -q QUEUE -- sleep 5"}>${filtered ? "The filters leave nothing." : "No job is here yet."}</${Empty}>`} />
  </${Page}>`;
}

function Groups({ of, by }) {
  if (!of?.length) return null;
  const narrowed = (value) => (by === "queue" ? { queue: value } : by === "phase" ? { phase: value } : { label: `${by}=${value}` });
  return html`<ul class="groups" aria-label=${`Jobs by ${by}`}>${of.map((one) => html`<li><a href=${href("/jobs", { ...narrowed(one.value) })}><strong>${one.value || "(none)"}</strong> <span class="number">${count(one.count)}</span></a>
    <small>${Object.entries(one.phases ?? {}).map(([phase, n]) => `${n} ${phase}`).join(", ")}</small></li>`)}</ul>`;
}
