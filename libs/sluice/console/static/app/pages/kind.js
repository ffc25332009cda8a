// One kind of jobs of a team's own: how is it read, who runs it, and which jobs are there?
import { at, href } from "../address.js";
import { part } from "../api.js";
import { nowCommand } from "../commands.js";
import { html } from "../html.js";
import { Job, Phase, Time } from "../parts/links.js";
import { Page, Shown } from "../parts/page.js";
import { Facts, Table } from "../parts/table.js";
import { useResource } from "../resource.js";
import { podSet, runners, versions } from "./kinds.js";

const MOST_JOBS = 100;

export default function KindPage({ names: [name] }) {
  const kind = useResource(`/objects/JobKind/${part(name)}`, {}, { kinds: ["JobKind"] });
  const called = kind.data?.object.spec.names.kind;
  return html`<${Page} title=${called ?? name} about="Kind of jobs of a team's own" command=${nowCommand(["describe", `jobkind/${name}`], at.value, ["replay", "state", "--show", "configuration"])}>
    <${Shown} resource=${kind}>${({ object, time }) => html`
      <${Facts} of=${[
        ["API", versions(object.spec)], ["Plural", object.spec.names.plural], ["Short names", object.spec.names.shortNames?.join(", ")],
        ["Described", html`<${Time} of=${object.metadata.creationTimestamp} near=${time} />`],
        ["Says whether it may run", object.spec.mapping?.suspend?.join(", ")], ["Kept when finished", object.spec.mapping?.ttl],
      ]} />
      <section><h2>Pod sets</h2><${PodSets} of=${object.spec.mapping?.podSets ?? []} /></section>
      <section><h2>What an object says of itself</h2><${States} of=${object.spec.mapping?.status ?? {}} /></section>
      <${Runners} of=${called} />
      <${Jobs} of=${called} />
      <section><h2>Changes of this kind</h2><p><a href=${href("/log", { about: `JobKind/${name}`, writer: "config" })}>In the log</a>. A job goes by the description that it was submitted with.</p></section>
      <details><summary>Manifest</summary><pre tabindex="0">${JSON.stringify(object, null, 2)}</pre></details>`}
    </${Shown}></${Page}>`;
}

/** "spec.nodes x spec.groups, at most spec.most": how many pods a rule makes; "its" of an item that makes a pod set. */
function pods(rule) {
  const its = rule.each ? "its " : "";
  const product = rule.count?.length ? rule.count.map((path) => its + path).join(" x ") : rule.otherwise ?? 1;
  const most = rule.atMost ? `, at most ${rule.atMost}` : "";
  const fewer = rule.fewer ? `, less ${rule.fewer}` : "";
  return `${product}${most}${fewer}` + (rule.times ?? []).map((path) => `, times ${path}`).join("");
}

const only = (rule) => [rule.when && `where there is ${rule.when}`, rule.unless && `unless there is ${rule.unless}`].filter(Boolean).join(", ");

const PodSets = ({ of }) => html`<${Table} caption="Pod sets" rows=${of} rowKey=${(row, n) => n} columns=${[
  { title: "Pod set", cell: podSet },
  { title: "Pods", cell: pods },
  { title: "Template", wide: true, cell: (row) => (row.each ? "its " : "") + (row.template || row.resources) },
  { title: "Fewest", cell: (row) => row.minCount ?? "" },
  { title: "Only", cell: only },
]} />`;

const sign = (rule) => (rule.condition ? `condition ${rule.condition}` : `${rule.path}${rule.values?.length ? ` is ${rule.values.join(" or ")}` : " is there"}`);

function States({ of }) {
  const rows = [["Ready", of.ready], ["Succeeded", of.succeeded], ["Failed", of.failed]].filter(([, rules]) => rules?.length);
  if (!rows.length && !of.message) return html`<p class="quiet">Nothing: its executor has to know.</p>`;
  return html`<${Facts} of=${[...rows.map(([state, rules]) => [state, rules.map(sign).join("; ")]), ["Why", of.message]]} />`;
}

function Runners({ of }) {
  const agents = useResource(of ? "/objects/Agent" : null, { limit: 1000 }, { kinds: ["Agent"] });
  const names = runners(agents.data, of);
  return html`<section><h2>Who runs it</h2><${Shown} resource=${agents}>${() => (names.length ? html`<p>${names.join(", ")}</p>`
    : html`<p class="note warn">No executor that is there says that it runs this kind. Its jobs are admitted, and wait.</p>`)}</${Shown}></section>`;
}

function Jobs({ of }) {
  const jobs = useResource(of ? "/objects/Job" : null, { fieldSelector: `kind=${of}`, limit: MOST_JOBS }, { kinds: ["Job"] });
  return html`<section><h2>Jobs</h2><${Shown} resource=${jobs}>${(data) => html`${data.items.length ? html`<${Table} caption="Jobs of the kind" keys rows=${data.items} rowKey=${key} columns=${[
    { title: "Job", cell: (row) => html`<${Job} of=${key(row)} />` },
    { title: "Phase", cell: (row) => html`<${Phase} of=${row.status.phase} />` },
    { title: "Queue", cell: (row) => row.status.queue ?? row.metadata.labels?.["kueue.x-k8s.io/queue-name"] },
    { title: "Created", cell: (row) => html`<${Time} of=${row.metadata.creationTimestamp} near=${data.time} />` },
    { title: "Reason", wide: true, cell: (row) => row.status.reason },
  ]} />` : html`<p class="quiet">There is no job of this kind.</p>`}
  ${data.continue && html`<p>These are the first ${MOST_JOBS}. All: <code>sluice get jobs -A --field-selector kind=${of}</code></p>`}`}</${Shown}></section>`;
}

const key = (row) => `${row.metadata.namespace}/${row.metadata.name}`;
