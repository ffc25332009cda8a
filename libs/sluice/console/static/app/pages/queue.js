// One queue: how is it, and why does its head wait?
import { at, href } from "../address.js";
import { part } from "../api.js";
import { nowCommand } from "../commands.js";
import { duration, secondsBetween, spaced } from "../format.js";
import { html } from "../html.js";
import { Actions } from "../parts/actions.js";
import { Bar, Legend } from "../parts/bar.js";
import { Cohort, Job, Phase, Time } from "../parts/links.js";
import { OverTime } from "../parts/series.js";
import { Page, Shown } from "../parts/page.js";
import { Facts, Table } from "../parts/table.js";
import { useResource } from "../resource.js";

export default function QueuePage({ names: [name] }) {
  const queue = useResource(`/queues/${part(name)}`, {}, { kinds: ["ClusterQueue", "LocalQueue", "Job", "Workload"] });
  return html`<${Page} title=${name} about="Cluster queue" command=${nowCommand(["describe", `cq/${name}`], at.value, ["replay", "state", `queue/${name}`])}
      actions=${queue.data && html`<${Actions} of=${{ name }} offers=${offersOf(queue.data)} />`}>
    <${Shown} resource=${queue}>${(data) => html`
      ${!data.queue.active && html`<p class="note warn">Inactive: ${data.queue.inactive || "no reason is known"}. Nothing is admitted from it.</p>`}
      <${Facts} of=${[
        ["Cohort", data.queue.cohort && html`<${Cohort} of=${data.queue.cohort} />`], ["Strategy", data.queue.strategy],
        ["Stop policy", data.queue.stopPolicy !== "None" && data.queue.stopPolicy], ["Pending", data.queue.pending], ["Reserving", data.queue.reserving], ["Admitted", data.queue.admitted],
        ["Checks", data.checks?.length > 0 && html`<a href=${href("/checks")}>${data.checks.join(", ")}</a>`],
      ]} />
      <section><h2>Local queues</h2>${data.locals?.length ? html`<${Locals} of=${data} />` : html`<p class="quiet">No local queue leads here, so no job can come to it.</p>`}</section>
      <section><h2>Quota</h2><${Legend} />${data.queue.quota.map((q) => html`<div class="named-bar"><span>${q.flavor}</span><${Bar} of=${q} large /></div>`)}</section>
      ${data.head && html`<section class="head-of"><h2>Next in line</h2><p><${Job} of=${data.head.key} /> waits for ${duration(data.head.waitingSeconds)}: ${data.head.message || spaced(data.head.reason)}. ${" "}
        <a href=${href(`/jobs/${data.head.key}/why`)}>What would admit it?</a></p></section>`}
      <section><h2>Waiting, in order</h2>${data.waiting?.length ? html`<${Waiting} of=${data} />` : html`<p class="quiet">Nobody waits.</p>`}
        ${data.queue.pending > (data.waiting?.length ?? 0) && html`<p><a href=${href("/pending", { queue: name })}>All ${data.queue.pending}</a></p>`}</section>
      <section><h2>Holding quota</h2>${data.holding?.length ? html`<${Holding} of=${data} />` : html`<p class="quiet">Nobody has quota here.</p>`}</section>
      <${OverTime} path=${`/queues/${part(name)}/series`} />
      <section><h2>Who may preempt whom</h2><${Policies} of=${data.policies} /></section>
      <section><h2>Changes of this queue</h2><p><a href=${href("/log", { about: `ClusterQueue/${name}`, writer: "config" })}>In the log</a></p></section>
      <details><summary>Manifest</summary><pre tabindex="0">${JSON.stringify(data.object, null, 2)}</pre></details>`}
    </${Shown}></${Page}>`;
}

function offersOf({ queue, object }) {
  const quotas = (object?.spec?.resourceGroups ?? []).flatMap((group) => (group.flavors ?? []).flatMap((flavor) => (flavor.resources ?? []).map((resource) =>
    ({ action: "quota", label: `Quota for ${resource.name} of ${flavor.name}`, fixed: { flavor: flavor.name, resource: resource.name }, fields: [{ name: "value", label: "Nominal quota", value: String(resource.nominalQuota) }] }))));
  return [
    stopOrResume(queue.stopPolicy),
    ...quotas,
  ];
}

/** Of whom jobs come here; one that is stopped lets nobody of its own in, and each can be stopped by itself. */
const Locals = ({ of: data }) => html`<${Table} caption="Local queues" rows=${data.locals} rowKey=${(row) => `${row.namespace}/${row.name}`} columns=${[
  { title: "Local queue", cell: (row) => html`<strong>${row.namespace}/${row.name}</strong>` },
  { title: "State", cell: (row) => html`${stopped(row.stopPolicy) ? html`<span class="note-word">stopped (${row.stopPolicy})</span>` : row.active ? "admits" : html`<span class="note-word">${row.inactive || "inactive"}</span>`}` },
  { title: "Pending", number: true, cell: (row) => row.pending }, { title: "Reserving", number: true, cell: (row) => row.reserving }, { title: "Admitted", number: true, cell: (row) => row.admitted },
  { title: html`<span class="hidden">Actions</span>`, cell: (row) => html`<${Actions} of=${{ name: row.name, namespace: row.namespace, kind: "LocalQueue" }} offers=${[stopOrResume(row.stopPolicy, ` ${row.namespace}/${row.name}`)]} />` },
]} />`;

const stopped = (policy) => Boolean(policy) && policy !== "None";
const stopOrResume = (policy, name = "") => (stopped(policy) ? { action: "resume", label: `Resume${name}` }
  : { action: "stop", label: `Stop${name}`, fields: [{ name: "value", label: "Who has quota", options: [["Hold", "goes on (Hold)"], ["HoldAndDrain", "is evicted (HoldAndDrain)"]] }] });

const Waiting = ({ of: data }) => html`<${Table} caption="Waiting jobs" keys rows=${data.waiting} rowKey=${(row) => row.key} columns=${[
  { title: "#", number: true, cell: (row) => row.position },
  { title: "Job", cell: (row) => html`<${Job} of=${row.key} />` },
  { title: "Priority", number: true, cell: (row) => row.priority },
  { title: "Waits", number: true, cell: (row) => duration(row.waitingSeconds) },
  { title: "Why", wide: true, cell: (row) => html`<a href=${href(`/jobs/${row.key}/why`)}>${row.reason}</a> <small>${row.message}</small>` },
]} />`;

const Holding = ({ of: data }) => html`<${Table} caption="Jobs that hold quota" rows=${data.holding} rowKey=${(row) => row.key} columns=${[
  { title: "Job", cell: (row) => html`<${Job} of=${row.key} />` },
  { title: "Phase", cell: (row) => html`<${Phase} of=${row.phase} />` },
  { title: "Priority", number: true, cell: (row) => row.priority },
  { title: "Flavors", cell: (row) => row.flavors?.join(", ") },
  { title: "Pods", number: true, cell: (row) => row.pods },
  { title: "Since", cell: (row) => (row.started ? html`<${Time} of=${row.started} near=${data.time} /> <small>${duration(secondsBetween(row.started, data.time))}</small>` : "-") },
]} />`;

const MEANS = {
  reclaimWithinCohort: { Never: "It never takes back what it has lent.", LowerPriority: "It takes back what it has lent, from jobs of lower priority.", Any: "It takes back what it has lent, from anybody." },
  borrowWithinCohort: { Never: "To borrow, it preempts nobody.", LowerPriority: "To borrow, it preempts jobs of lower priority that borrow themselves." },
  withinClusterQueue: { Never: "No job of it preempts another one of it.", LowerPriority: "Its jobs preempt those of lower priority in it.", LowerOrNewerEqualPriority: "Its jobs preempt those of lower priority, or newer of equal, in it." },
};

function Policies({ of }) {
  const rules = Object.entries(of ?? {});
  if (!rules.length) return html`<p>Nobody is preempted for a job of this queue.</p>`;
  return html`<ul>${rules.map(([rule, value]) => html`<li>${MEANS[rule]?.[value?.policy ?? value] ?? ""} <code>${rule}: ${typeof value === "object" ? JSON.stringify(value) : String(value)}</code></li>`)}</ul>`;
}
