// Preemptions: who, whom, by which rule, and does it go in circles?
import { address, at } from "../address.js";
import { logCommand } from "../commands.js";
import { html } from "../html.js";
import { Field } from "../parts/filters.js";
import { Job, Queue, Seq, Time } from "../parts/links.js";
import { Empty, Page, Shown } from "../parts/page.js";
import { Arrows } from "../parts/arrows.js";
import { Table } from "../parts/table.js";
import { useResource } from "../resource.js";

const COLUMNS = [
  { title: "Message", number: true, cell: (row) => html`<${Seq} of=${row.seq} />` },
  { title: "When", cell: (row) => html`<${Time} of=${row.time} />` },
  { title: "Preemptor", cell: (row) => html`<${Job} of=${row.preemptor} /> <small>in ${row.preemptorQueue}</small>` },
  { title: "Victim", cell: (row) => html`<${Job} of=${row.victim} /> <small>in <${Queue} of=${row.victimQueue} /></small>` },
  { title: "Rule", cell: (row) => html`${row.rule}` },
  { title: "In words", wide: true, cell: (row) => html`<small>${row.message}</small>` },
];

export default function Preemptions() {
  const { queue } = address.value.query;
  const found = useResource("/preemptions", { queue, limit: 500 }, { kinds: ["Workload", "Job"] });
  return html`<${Page} title="Who preempted whom?" command=${logCommand(["log", "lint"], "")}>
    <div class="filters"><${Field} name="queue" label="Queue" main /></div>
    <${Shown} resource=${found}>${(data) => html`
      ${data.loops?.length > 0 && html`<ul class="warnings" aria-label="Circles and thrashing">${data.loops.map((loop) => html`<li class="note warn"><strong>${loop.kind === "loops" ? "In circles" : "Stopped again and again"}:</strong> ${loop.text} <${Seq} of=${loop.seq} /></li>`)}</ul>`}
      ${data.items.length > 0 && !data.loops?.length && html`<p class="quiet">Nothing goes in circles, and nobody was stopped again and again${at.value ? " by then" : ""}.</p>`}
      ${data.items.length ? html`<${Arrows} of=${data.items} /><p class="total">${data.total} preemptions${data.items.length < data.total ? `, the last ${data.items.length} shown` : ""}</p>
        <${Table} caption="Preemptions" keys rows=${data.items} rowKey=${(row) => `${row.seq} ${row.victim}`} columns=${COLUMNS} />`
        : html`<${Empty} next=${logCommand(["log", "show", "--type", "Preempted"], "")}>Nobody has been preempted${queue ? " there" : ""}${at.value ? " by then" : ""}.</${Empty}>`}`}
    </${Shown}></${Page}>`;
}

