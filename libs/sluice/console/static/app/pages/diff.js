// Diff: what has changed in between?
import { address, href } from "../address.js";
import { logCommand } from "../commands.js";
import { html } from "../html.js";
import { end } from "../live.js";
import { Field } from "../parts/filters.js";
import { Job } from "../parts/links.js";
import { Empty, Page, Shown } from "../parts/page.js";
import { useResource } from "../resource.js";
import { source } from "../source.js";

export default function Diff() {
  const { from, to } = address.value.query;
  const last = end.value || source.value?.source.end || 1;
  const before = from || String(Math.max(1, last - 10));
  const after = to || String(last);
  const diff = useResource("/diff", { from: before, to: after }, { still: true, moment: false });
  return html`<${Page} title="What has changed?" command=${logCommand(["replay", "diff", before, after], "")}>
    <div class="filters"><${Field} name="from" label="From (sequence or time)" main placeholder=${before} type="text" /><${Field} name="to" label="To" placeholder=${after} type="text" /></div>
    <${Shown} resource=${diff}>${(data) => html`<p class="sentence">Between <a href=${href("/", { at: data.before })}>${data.before}</a> and <a href=${href("/", { at: data.after })}>${data.after}</a></p><${Changes} of=${data.diff} />`}</${Shown}>
  </${Page}>`;
}

const LISTS = [["admitted", "Admitted"], ["finished", "Finished"]];
const TABLES = [["jobs", "Jobs"], ["workloads", "Workloads"], ["clusterQueues", "Cluster queues"], ["cohorts", "Cohorts"], ["flavors", "Flavors"], ["slices", "Slices"], ["variants", "Variants"], ["checks", "Checks"], ["presence", "Agents and controllers"], ["configuration", "Configuration"]];
const full = (table) => table && ["created", "gone", "changed"].some((key) => Object.keys(table[key] ?? {}).length);

function Changes({ of }) {
  const lists = LISTS.filter(([key]) => of[key]?.length);
  const tables = TABLES.filter(([key]) => full(of[key]));
  if (!lists.length && !tables.length && !of.evicted?.length) return html`<${Empty}>Nothing has changed between the two.</${Empty}>`;
  return html`
    ${lists.map(([key, title]) => html`<section><h2>${title}</h2><ul class="plain">${of[key].map((one) => html`<li>${typeof one === "string" ? one : one.workload ?? JSON.stringify(one)}</li>`)}</ul></section>`)}
    ${of.evicted?.length > 0 && html`<section><h2>Evicted</h2><ul class="plain">${of.evicted.map((one) => html`<li><${Job} of=${one.job} /> <small>${Object.entries(one.times).map(([why, n]) => `${why}${n > 1 ? `, ${n} times` : ""}`).join(", ")}</small></li>`)}</ul></section>`}
    ${tables.map(([key, title]) => html`<${ChangedTable} of=${of[key]} title=${title} jobs=${key === "jobs"} />`)}`;
}

const value = (one) => (one === null || one === undefined ? "nothing" : typeof one === "object" ? JSON.stringify(one) : String(one));

function ChangedTable({ of, title, jobs }) {
  const name = (key) => (jobs ? html`<${Job} of=${key} />` : html`<strong>${key}</strong>`);
  return html`<section><h2>${title}</h2><ul class="changes">
    ${Object.entries(of.created ?? {}).map(([key, row]) => html`<li class="came"><b aria-label="new">+</b> ${name(key)} <small>${row?.phase ?? ""}</small></li>`)}
    ${Object.keys(of.gone ?? {}).map((key) => html`<li class="went"><b aria-label="gone">−</b> ${name(key)}</li>`)}
    ${Object.entries(of.changed ?? {}).map(([key, fields]) => html`<li><b aria-label="changed">~</b> ${name(key)}<dl>${Object.entries(fields).map(([field, pair]) => html`<div><dt>${field}</dt><dd>${pair && typeof pair === "object" && ("before" in pair || "after" in pair) ? html`<del>${value(pair.before)}</del> → <ins>${value(pair.after)}</ins>` : value(pair)}</dd></div>`)}</dl></li>`)}
  </ul></section>`;
}
