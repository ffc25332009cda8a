// What if? The question is in the address, so that it can be sent to somebody; the answer stands side by side.
import { useEffect, useState } from "preact/hooks";
import { address, setQuery } from "../address.js";
import { logCommand } from "../commands.js";
import { html } from "../html.js";
import { Page, Problem } from "../parts/page.js";
import { useResource } from "../resource.js";
import { Outcome } from "./outcome.js";
import { quotaField } from "./remedies.js";
import { useQuestion } from "./simulate.js";

const lines = (text) => (text ?? "").split("\n").map((one) => one.trim()).filter(Boolean);

export default function WhatIf() {
  const { set = "", drop = "", from = "", control } = address.value.query;
  const [draft, setDraft] = useState({ set, drop, from });
  const question = useQuestion();
  const asked = lines(set).length + lines(drop).length > 0;
  useEffect(() => {
    setDraft({ set, drop, from });
    if (asked) question.ask("/what-if", { set: lines(set), drop: lines(drop), ...(from ? { from } : {}), control: control !== "no" });
  }, [set, drop, from, control]);
  const send = (event) => { event.preventDefault(); setQuery({ set: lines(draft.set).join("\n") || null, drop: lines(draft.drop).join("\n") || null, from: draft.from || null }, { replace: false }); };
  const change = (name) => (event) => setDraft((old) => ({ ...old, [name]: event.target.value }));
  const words = ["replay", "what-if", "--per-job", ...lines(draft.set).flatMap((one) => ["--set", one]), ...lines(draft.drop).flatMap((one) => ["--drop", one]), ...(draft.from ? ["--from", draft.from] : [])];
  return html`<${Page} title="What if?" about="The log is played again with other rules or without some jobs. Nothing changes in the cell." command=${logCommand(words, "")}>
    <form onSubmit=${send} class="ask">
      <${QuotaPicker} add=${(line) => setDraft((old) => ({ ...old, set: [...lines(old.set), line].join("\n") }))} />
      <label class="field"><span>Fields to set, one per line</span><textarea rows="3" spellcheck=${false} value=${draft.set} onInput=${change("set")} placeholder="ClusterQueue/research.spec.cohortName=company"></textarea></label>
      <label class="field"><span>Jobs or objects to leave out, one per line</span><textarea rows="2" spellcheck=${false} value=${draft.drop} onInput=${change("drop")} placeholder="job/api-rollout"></textarea></label>
      <label class="field short"><span>From (sequence or time; empty: the beginning)</span><input type="text" value=${draft.from} onInput=${change("from")} /></label>
      <p><button type="submit" disabled=${question.status === "waiting"}>Play it</button> ${question.status === "waiting" && html`<button type="button" class="quiet" onClick=${question.cancel}>Stop</button>`}</p>
    </form>
    <div aria-live="polite">${question.status === "waiting" && html`<p>Playing the log again …</p>`}
      ${question.status === "error" && html`<${Problem} error=${question.error} />`}
      ${question.status === "ready" && html`<${Outcome} of=${question.data} />`}</div>
  </${Page}>`;
}

/** Pick a queue's quota from the configuration as it is, and write the line for it. */
function QuotaPicker({ add }) {
  const queues = useResource("/objects/ClusterQueue", { limit: 500 }, { kinds: ["ClusterQueue"], counts: false });
  const [picked, pick] = useState("");
  const [value, setValue] = useState("");
  const fields = (queues.data?.items ?? []).flatMap((queue) => (queue.spec?.resourceGroups ?? []).flatMap((group) => (group.flavors ?? []).flatMap((flavor) => (flavor.resources ?? []).map((resource) => ({
    field: quotaField(queue, flavor.name, resource.name), text: `${queue.metadata.name}: ${resource.name} of ${flavor.name} (now ${resource.nominalQuota})` })))));
  if (!fields.length) return null;
  return html`<fieldset><legend>Another nominal quota</legend><div class="filters">
    <label class="field"><span>Quota</span><select value=${picked} onChange=${(event) => pick(event.target.value)}><option value="">choose</option>${fields.map((one) => html`<option value=${one.field}>${one.text}</option>`)}</select></label>
    <label class="field short"><span>To be</span><input type="text" value=${value} onInput=${(event) => setValue(event.target.value)} /></label>
    <button type="button" disabled=${!picked || !value} onClick=${() => { add(`${picked}=${value}`); setValue(""); }}>Add</button></div></fieldset>`;
}
