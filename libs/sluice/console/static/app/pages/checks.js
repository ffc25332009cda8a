// What do checks hold up?
import { at, href } from "../address.js";
import { nowCommand } from "../commands.js";
import { html } from "../html.js";
import { Job, Phase, Time } from "../parts/links.js";
import { Empty, Page, Shown } from "../parts/page.js";
import { Table } from "../parts/table.js";
import { useResource } from "../resource.js";

export default function Checks() {
  const checks = useResource("/checks", {}, { kinds: ["AdmissionCheck", "Workload"] });
  return html`<${Page} title="What do checks hold up?" about=${html`What budgets hold up, and what is left of them, is on <a href=${href("/budgets")}>a page of its own</a>.`} command=${nowCommand(["check", "list"], at.value, ["replay", "state", "--show", "checks"])}>
    <${Shown} resource=${checks}>${(data) => (data.checks.length ? html`<${Table} caption="Admission checks" keys rows=${data.checks} rowKey=${(row) => row.name} columns=${[
      { title: "Check", cell: (row) => html`<strong>${row.name}</strong>` }, { title: "Controller", cell: (row) => row.controller },
      { title: "Active", cell: (row) => html`<${Phase} of=${row.active ? "Ready" : row.active === false ? "Inactive" : "Unknown"} /> <small>${row.inactive}</small>` },
      { title: "Who waits for it", wide: true, cell: (row) => (row.waiting?.length ? row.waiting.slice(0, 8).map((key) => html`<${Job} of=${key} /> `) : html`<span class="quiet">nobody</span>`) },
      { title: "Oldest", cell: (row) => html`<${Time} of=${row.oldest} near=${data.time} />` },
    ]} />` : html`<${Empty} next="sluice check new python my-check">No admission check is configured.</${Empty}>`)}</${Shown}>
  </${Page}>`;
}
