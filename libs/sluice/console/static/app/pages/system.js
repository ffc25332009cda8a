// System: do all services follow?
import { count } from "../format.js";
import { html } from "../html.js";
import { Phase, Seq, Time } from "../parts/links.js";
import { Page, Shown } from "../parts/page.js";
import { Facts, Table } from "../parts/table.js";
import { useResource } from "../resource.js";
import { source } from "../source.js";

const bytes = (n) => (n === undefined || n === null ? "-" : n < 10_000 ? `${n} B` : n < 10_000_000 ? `${Math.round(n / 1000)} kB` : `${Math.round(n / 1_000_000)} MB`);

export default function System() {
  const system = useResource("/system", {}, { moment: false });
  const file = source.value?.source;
  return html`<${Page} title="Do all services follow?" command=${file?.kind === "file" ? `sluice replay verify -l ${file.name}` : "sluice status"}>
    <${Shown} resource=${system}>${(data) => html`
      ${file?.kind === "file" && html`<p class="note">This is a file: what services were running then, it does not say. How far each had written is below.</p>`}
      ${data.replicas?.length > 0 && html`<section><h2>Services</h2><${Table} caption="Replicas of services" keys rows=${data.replicas} rowKey=${(row) => `${row.service} ${row.instance}`} columns=${[
        { title: "Service", cell: (row) => html`<strong>${row.service}</strong>` }, { title: "Role", cell: (row) => row.role }, { title: "Place in the log", number: true, cell: (row) => count(row.upto) },
        { title: "Behind by", number: true, cell: (row) => count(row.lag ?? 0) }, { title: "Process", cell: (row) => row.pid ?? "-" }, { title: "Instance", cell: (row) => html`<small>${row.instance}</small>` },
      ]} /></section>`}
      <section><h2>Agents</h2>${data.agents?.length ? html`<${Table} caption="Agents" rows=${data.agents} rowKey=${({ metadata }) => metadata.name} columns=${[
        { title: "Agent", cell: ({ metadata }) => html`<strong>${metadata.name}</strong>` }, { title: "Phase", cell: ({ status }) => html`<${Phase} of=${status.phase} />` }, { title: "Since", cell: ({ status }) => html`<${Time} of=${status.since} near=${data.time} />` },
        { title: "Flavors", cell: ({ status }) => (status.flavors?.length ? status.flavors.join(", ") : "all") }, { title: "Kinds", cell: ({ status }) => (status.kinds ?? []).join(", ") },
        { title: "Jobs", number: true, cell: ({ status }) => count(status.jobs ?? 0) }, { title: "Message", wide: true, cell: ({ status }) => status.message },
      ]} />` : html`<p class="quiet">No agent has said that it is there.</p>`}</section>
      <section><h2>Who has written how far</h2><${Table} caption="Writers" rows=${Object.entries(data.writers ?? {})} rowKey=${(row) => row[0]} columns=${[
        { title: "Writer", cell: ([name]) => name }, { title: "Last message", number: true, cell: ([, one]) => html`<${Seq} of=${one.seq} />` }, { title: "When", cell: ([, one]) => html`<${Time} of=${one.time} near=${data.time} />` },
      ]} /></section>
      <section><h2>Log and console</h2><${Facts} of=${[
        ["Messages", `${count(data.log.first)} to ${count(data.log.end)}`], ["Size", bytes(data.log.bytes)], ["Rejected messages", count(data.rejected)],
        ["Console follows to", count(data.console?.upto)], ["Behind by", count(data.console?.lag)], ["Browsers", data.console?.clients], ["Heavy questions", data.console?.questions && `${data.console.questions.running} running, ${data.console.questions.waiting} waiting`],
        ["Console's memory", bytes(data.console?.memoryBytes)], ["Version", source.value?.version],
      ]} /></section>`}
    </${Shown}></${Page}>`;
}
