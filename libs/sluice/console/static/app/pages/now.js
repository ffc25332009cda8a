// Now: is anything wrong, what is going on?
import { at, href } from "../address.js";
import { nowCommand } from "../commands.js";
import { count, duration } from "../format.js";
import { html } from "../html.js";
import { Bar } from "../parts/bar.js";
import { Job, Phase, Queue, Seq, Time } from "../parts/links.js";
import { Empty, Page, Shown } from "../parts/page.js";
import { Table } from "../parts/table.js";
import { useResource } from "../resource.js";

export default function Now() {
  const overview = useResource("/overview");
  return html`<${Page} title=${at.value ? "Then" : "Now"} command=${nowCommand(["status"], at.value, ["replay", "state"])}>
    <${Shown} resource=${overview}>${(data) => html`
      <p class="sentence">${data.sentence}</p>
      <${Warnings} of=${data.warnings} />
      <${Numbers} of=${data} />
      <div class="columns">
        <section><h2>Why they wait</h2><${Reasons} of=${data.reasons} /></section>
        <section><h2>Oldest in each queue</h2><${Oldest} of=${data} /></section>
        <section><h2>Who borrows most</h2><${Borrowers} of=${data} /></section>
        <section><h2>Last changes of configuration</h2><${Changes} of=${data} /></section>
      </div>`}
    </${Shown}></${Page}>`;
}

function Warnings({ of }) {
  if (!of?.length) return null;
  return html`<ul class="warnings" aria-label="Warnings">${of.map((one) => html`<li class="note warn">
    ${one.text}${one.queue && html` <a href=${href(`/queues/${encodeURIComponent(one.queue)}`)}>Look at ${one.queue}</a>`}</li>`)}</ul>`;
}

function Numbers({ of: data }) {
  const shown = Object.entries(data.jobs ?? {});
  if (!shown.length) {
    return html`<${Empty} next="sluice submit -q QUEUE -- sleep 5">No job is here yet.</${Empty}>`;
  }
  const waits = data.queues.reduce((all, queue) => all + queue.pending, 0);
  return html`<ul class="numbers" aria-label="Jobs by phase">
    ${shown.map(([phase, n]) => html`<li><a href=${href("/jobs", { phase })}><strong class="number">${count(n)}</strong> <${Phase} of=${phase} /></a></li>`)}
    ${waits > 0 && html`<li><a href=${href("/pending")}><strong class="number">${count(waits)}</strong> waiting for quota, in order</a></li>`}
  </ul>`;
}

function Reasons({ of }) {
  if (!of?.length) return html`<p class="quiet">Nobody waits.</p>`;
  const most = Math.max(...of.map((one) => one.count));
  return html`<ul class="reasons">${of.map((one) => html`<li>
    <a href=${href("/pending", { reason: one.reason })}><span class="reason-bar" aria-hidden="true"><i style=${{ width: `${(one.count / most) * 100}%` }}></i></span>
      <strong class="number">${count(one.count)}</strong> ${one.reason}</a>
    <small>in ${Object.keys(one.queues ?? {}).slice(0, 4).join(", ")}${one.example ? html`, for instance <${Job} of=${one.example} rest="/why" />` : ""}</small></li>`)}</ul>`;
}

const Oldest = ({ of: data }) => (data.oldest?.length
  ? html`<${Table} caption="Oldest waiting job of each queue" keys rows=${data.oldest} rowKey=${(row) => row.workload} columns=${[
      { title: "Job", cell: (row) => html`<${Job} of=${row.key} rest="/why" />` },
      { title: "Queue", cell: (row) => html`<${Queue} of=${row.clusterQueue} />` },
      { title: "Waits", number: true, cell: (row) => duration(row.waitingSeconds) },
      { title: "For", cell: (row) => row.reason },
    ]} />`
  : html`<p class="quiet">Nobody waits.</p>`);

function Borrowers({ of: data }) {
  if (!data.borrowers?.length) return html`<p class="quiet">Nobody borrows.</p>`;
  const quota = (one) => data.queues?.find((row) => row.name === one.queue)?.quota?.find((q) => q.flavor === one.flavor && q.resource === one.resource);
  return html`<ul class="plain">${data.borrowers.map((one) => html`<li><${Queue} of=${one.queue} /> <small>${one.flavor}</small>
    ${quota(one) ? html`<${Bar} of=${quota(one)} />` : `${one.borrowed.text} ${one.resource}`}</li>`)}</ul>`;
}

const Changes = ({ of: data }) => (data.configuration?.length
  ? html`<ol class="plain">${data.configuration.map((one) => html`<li><${Seq} of=${one.seq} /> <${Time} of=${one.time} near=${data.time} /> ${one.text}</li>`)}</ol>`
  : html`<${Empty} next="sluice apply -f queues.yaml">Nothing is configured yet.</${Empty}>`);
