// Checks and budgets: what do checks hold up, and what is left?
import { at } from "../address.js";
import { nowCommand } from "../commands.js";
import { html } from "../html.js";
import { Job, Phase, Time } from "../parts/links.js";
import { Empty, Page, Shown } from "../parts/page.js";
import { Table } from "../parts/table.js";
import { useResource } from "../resource.js";

export default function Checks() {
  const checks = useResource("/checks", {}, { kinds: ["AdmissionCheck", "Workload"] });
  const budgets = useResource("/objects/Budget", { limit: 500 }, { kinds: ["Budget"] });
  return html`<${Page} title="What do checks hold up?" command=${nowCommand(["check", "list"], at.value, ["replay", "state", "--show", "checks"])}>
    <${Shown} resource=${checks}>${(data) => (data.checks.length ? html`<${Table} caption="Admission checks" keys rows=${data.checks} rowKey=${(row) => row.name} columns=${[
      { title: "Check", cell: (row) => html`<strong>${row.name}</strong>` }, { title: "Controller", cell: (row) => row.controller },
      { title: "Active", cell: (row) => html`<${Phase} of=${row.active ? "Ready" : row.active === false ? "Inactive" : "Unknown"} /> <small>${row.inactive}</small>` },
      { title: "Who waits for it", wide: true, cell: (row) => (row.waiting?.length ? row.waiting.slice(0, 8).map((key) => html`<${Job} of=${key} /> `) : html`<span class="quiet">nobody</span>`) },
      { title: "Oldest", cell: (row) => html`<${Time} of=${row.oldest} near=${data.time} />` },
    ]} />` : html`<${Empty} next="sluice check new python my-check">No admission check is configured.</${Empty}>`)}</${Shown}>
    <section><h2>Budgets</h2><${Shown} resource=${budgets}>${(data) => (data.items.length ? html`<ul class="cards">${data.items.map((one) => html`<li><h3>${one.metadata.name}</h3><pre tabindex="0">${JSON.stringify({ spec: one.spec, status: one.status }, null, 2)}</pre></li>`)}</ul>`
      : html`<p class="quiet">No budget is configured. <code>sluice up --check budget</code> runs the check that keeps them.</p>`)}</${Shown}></section>
  </${Page}>`;
}
