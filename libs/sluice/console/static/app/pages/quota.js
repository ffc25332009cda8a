// Quota: who has what, who lent to whom? A treegrid of cohorts and queues.
import { useRef } from "preact/hooks";
import { address, at, href, setQuery } from "../address.js";
import { nowCommand } from "../commands.js";
import { count } from "../format.js";
import { html } from "../html.js";
import { useKeys } from "../keys.js";
import { Bar, Legend } from "../parts/bar.js";
import { Cohort, Queue } from "../parts/links.js";
import { Empty, Page, Shown } from "../parts/page.js";
import { moveRow } from "../parts/table.js";
import { useResource } from "../resource.js";
import { hiddenBy, kept, resourcesOf } from "./quota-tree.js";
import { Field } from "../parts/filters.js";

const TREE_CHANGES = ["ClusterQueue", "Cohort", "Workload"];

export default function Quota() {
  const quota = useResource("/quota", {}, { kinds: TREE_CHANGES });
  return html`<${Page} title="Who has what?" command=${nowCommand(["get", "cq", "-o", "wide"], at.value, ["replay", "state"])}>
    <${Shown} resource=${quota}>${(data) => (data.nodes.length
      ? html`<div class="filters"><${Field} name="q" label="Filter" main placeholder="queue, cohort or flavor" /></div><${Legend} /><${Tree} data=${data} /><${Flavors} data=${data} />`
      : html`<${Empty} next="sluice apply -f examples/demo/">There are no queues yet.</${Empty}>`)}
    </${Shown}></${Page}>`;
}

function Tree({ data }) {
  const table = useRef();
  const { q = "", closed = "" } = address.value.query;
  const shut = new Set(closed.split(",").filter(Boolean));
  const nodes = kept(data.nodes, q).filter((node) => !hiddenBy(node, data.nodes, shut));
  const resources = resourcesOf(nodes);
  const toggle = (name, on) => {
    if (on) shut.add(name); else shut.delete(name);
    setQuery({ closed: [...shut].join(",") || null });
  };
  useKeys({ j: ["next row", () => moveRow(table.current, 1)], k: ["previous row", () => moveRow(table.current, -1)] });
  const keys = (event, node) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") moveRow(table.current, event.key === "ArrowDown" ? 1 : -1);
    else if (event.key === "ArrowRight" && node.kind === "Cohort") toggle(node.name, false);
    else if (event.key === "ArrowLeft" && node.kind === "Cohort") toggle(node.name, true);
    else return;
    event.preventDefault();
  };
  return html`<div class="scroll" role="region" aria-label="Quota" tabindex="0"><table role="treegrid" aria-label="Cohorts and queues" ref=${table} class="tree">
    <thead><tr role="row"><th role="columnheader" scope="col">Name</th>${resources.map((r) => html`<th role="columnheader" scope="col">${r.replace("/", " · ")}</th>`)}
      <th role="columnheader" scope="col" class="number">Pending</th><th role="columnheader" scope="col" class="number">Admitted</th><th role="columnheader" scope="col" class="number">Weight</th></tr></thead>
    <tbody>${nodes.map((node) => html`<tr role="row" key=${node.kind + node.name} data-key=${node.name} aria-level=${node.depth + 1} class=${node.kind === "Cohort" ? "cohort" : ""}
        aria-expanded=${node.kind === "Cohort" ? String(!shut.has(node.name)) : null} onKeyDown=${(event) => keys(event, node)}>
      <td role="gridcell"><span class="indent" style=${{ paddingInlineStart: `${node.depth * 1.1}rem` }}>
        ${node.kind === "Cohort" && html`<button type="button" class="twist" aria-label=${`${shut.has(node.name) ? "Open" : "Close"} ${node.name}`} onClick=${() => toggle(node.name, !shut.has(node.name))}>${shut.has(node.name) ? "▸" : "▾"}</button>`}
        ${node.kind === "Cohort" ? html`<${Cohort} of=${node.name} />` : html`<span class="leaf"><${Queue} of=${node.name} /></span>`}</span>
        ${node.stopPolicy && node.stopPolicy !== "None" && html` <span class="phase half">${node.stopPolicy}</span>`}${node.active === false && html` <span class="phase bad">inactive</span>`}</td>
      ${resources.map((r) => { const found = node.quota.find((q) => `${q.flavor}/${q.resource}` === r); return html`<td role="gridcell">${found ? html`<${Bar} of=${found} />` : html`<span class="quiet">-</span>`}</td>`; })}
      <td role="gridcell" class="number">${node.pending ? html`<a href=${href("/pending", node.kind === "Cohort" ? {} : { queue: node.name })}>${count(node.pending)}</a>` : "0"}</td>
      <td role="gridcell" class="number">${count(node.admitted)}</td><td role="gridcell" class="number">${node.weight ?? "-"}</td></tr>`)}</tbody>
  </table></div>`;
}

const Flavors = ({ data }) => html`<h2>Flavors</h2><ul class="cards">${data.flavors.map((flavor) => html`<li>
  <h3>${flavor.name}</h3>
  ${flavor.quota.map((q) => html`<${Bar} of=${{ flavor: flavor.name, own: q.used, borrowed: null, free: null, ...q }} />`)}
  <small>${flavor.agents?.length ? `agents: ${flavor.agents.join(", ")}` : "no agent says that it serves it"}</small>
  ${Object.keys(flavor.nodeLabels ?? {}).length > 0 && html`<small>${Object.entries(flavor.nodeLabels).map((pair) => pair.join("=")).join(", ")}</small>`}
</li>`)}</ul>`;
