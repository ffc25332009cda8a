// Kinds of jobs that teams have described: which are there, and does anybody run them?
import { at, href } from "../address.js";
import { nowCommand } from "../commands.js";
import { html } from "../html.js";
import { Empty, Page, Shown } from "../parts/page.js";
import { Table } from "../parts/table.js";
import { useResource } from "../resource.js";

/** Agents that are there and run jobs of a kind: those that name it, and those that name none. */
export const runners = (agents, kind) =>
  (agents?.items ?? []).filter(({ status }) => status.phase === "Ready" && (!status.kinds?.length || status.kinds.includes(kind))).map((one) => one.metadata.name);

/** "lab.example.org/v1, v2" */
export const versions = ({ group, versions: all }) => `${group}/${(all ?? []).join(", ")}`;

export const podSet = (rule) => rule.name || `each of ${rule.each}, by ${rule.nameFrom}`;

export default function Kinds() {
  const kinds = useResource("/objects/JobKind", { limit: 500 }, { kinds: ["JobKind"] });
  const agents = useResource("/objects/Agent", { limit: 1000 }, { kinds: ["Agent"] });
  return html`<${Page} title="Which kinds of jobs have teams described?" command=${nowCommand(["get", "jobkinds"], at.value, ["replay", "state", "--show", "configuration"])}>
    <${Shown} resource=${kinds}>${(data) => (data.items.length ? html`<${Table} caption="Kinds of teams' own" keys rows=${data.items} rowKey=${(row) => row.metadata.name} columns=${[
      { title: "Kind", cell: (row) => html`<a class="name" href=${href(`/kinds/${encodeURIComponent(row.metadata.name)}`)}>${row.spec.names.kind}</a>` },
      { title: "API", cell: (row) => versions(row.spec) },
      { title: "Called", cell: (row) => [row.spec.names.plural, ...(row.spec.names.shortNames ?? [])].join(", ") },
      { title: "Pod sets", wide: true, cell: (row) => (row.spec.mapping?.podSets ?? []).map(podSet).join("; ") },
      { title: "Run by", cell: (row) => runners(agents.data, row.spec.names.kind).join(", ") || html`<span class="quiet">nobody who is there</span>` },
    ]} />` : html`<${Empty} next="sluice apply -f examples/own-kind/jobkind.yaml">No team has described a kind of jobs of its own.</${Empty}>`)}</${Shown}>
  </${Page}>`;
}
