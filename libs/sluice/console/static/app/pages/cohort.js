// A cohort: what moves between its members?
import { at } from "../address.js";
import { part } from "../api.js";
import { nowCommand } from "../commands.js";
import { html } from "../html.js";
import { Bar, Legend } from "../parts/bar.js";
import { Cohort, Queue } from "../parts/links.js";
import { OverTime } from "../parts/series.js";
import { Page, Shown } from "../parts/page.js";
import { Facts, Table } from "../parts/table.js";
import { useResource } from "../resource.js";

export default function CohortPage({ names: [name] }) {
  const cohort = useResource(`/cohorts/${part(name)}`, {}, { kinds: ["ClusterQueue", "Cohort", "Workload"] });
  return html`<${Page} title=${name} about="Cohort: queues that lend quota to each other" command=${nowCommand(["describe", `cohort/${name}`], at.value, ["replay", "state", `cohort/${name}`])}>
    <${Shown} resource=${cohort}>${(data) => html`
      <${Facts} of=${[["Parent", data.node.parent && html`<${Cohort} of=${data.node.parent} />`], ["Weight", data.node.weight], ["Pending", data.node.pending], ["Admitted", data.node.admitted]]} />
      <section><h2>All of it</h2><${Legend} />${data.node.quota.map((q) => html`<div class="named-bar"><span>${q.flavor}</span><${Bar} of=${q} large /></div>`)}</section>
      <section><h2>Who lends to whom</h2>${data.lending?.length ? html`<${Table} caption="Lending" keys rows=${data.lending} rowKey=${(row) => `${row.from} ${row.to} ${row.flavor}/${row.resource}`} columns=${[
        { title: "From", cell: (row) => html`<${Queue} of=${row.from} />` },
        { title: "To", cell: (row) => html`<${Queue} of=${row.to} />` },
        { title: "Flavor", cell: (row) => row.flavor },
        { title: "Amount", number: true, cell: (row) => `${row.amount.text} ${row.resource}` },
      ]} />` : html`<p class="quiet">Nobody borrows from another one.</p>`}</section>
      <${OverTime} path=${`/cohorts/${part(name)}/series`} />
      <section><h2>Members</h2><${Table} caption="Members" rows=${data.members} rowKey=${(row) => row.kind + row.name} columns=${[
        { title: "Name", cell: (row) => (row.kind === "Cohort" ? html`<${Cohort} of=${row.name} />` : html`<${Queue} of=${row.name} />`) },
        { title: "Quota", wide: true, cell: (row) => row.quota.map((q) => html`<div class="named-bar"><span>${q.flavor}</span><${Bar} of=${q} /></div>`) },
        { title: "Pending", number: true, cell: (row) => row.pending },
        { title: "Weight", number: true, cell: (row) => row.weight ?? "-" },
      ]} /></section>`}
    </${Shown}></${Page}>`;
}
