// What may be done to a queue or a job: first its command and what it would do, then the doing, then what came of it in the log.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { at } from "../address.js";
import { act } from "../api.js";
import { plural } from "../format.js";
import { html } from "../html.js";
import { source } from "../source.js";
import { useResource } from "../resource.js";
import { Command } from "./command.js";
import { Events } from "./events.js";
import { Seq } from "./links.js";
import { Problem, Shown } from "./page.js";
import { Table } from "./table.js";

/** Buttons for those `offers` {action, label, fields, fixed} that this user has; none in the past. `of` names the thing. */
export function Actions({ of, offers }) {
  const [open, show] = useState(null);
  const may = source.value?.actions ?? [];
  const mine = at.value ? [] : offers.filter((one) => one && may.includes(one.action));
  if (!mine.length) return null;
  return html`${mine.map((offer) => html`<button type="button" onClick=${() => show(offer)}>${offer.label} …</button> `)}
    ${open && html`<${Dialog} key=${open.label} offer=${open} of=${of} close=${() => show(null)} />`}`;
}

const start = (offer) => Object.fromEntries((offer.fields ?? []).map((field) => [field.name, field.value ?? field.options?.[0]?.[0] ?? ""]));

function Dialog({ offer, of, close }) {
  const dialog = useRef();
  const [given, give] = useState(() => start(offer));
  const [state, set] = useState({ step: "form" });
  const abort = useRef(new AbortController());
  useLayoutEffect(() => { dialog.current.showModal(); return () => abort.current.abort(); }, []);
  const body = { action: offer.action, ...of, ...offer.fixed, ...given };
  const ask = async (path, more, waiting, done) => {
    set({ ...state, step: waiting, error: null });
    try {
      const data = await act(path, { ...body, ...more }, { signal: abort.current.signal });
      set({ step: done, preview: state.preview, [done]: data });
    } catch (error) {
      // Changed meanwhile: what was shown is not what would be done, so look again.
      if (error.name !== "AbortError") set({ step: error.status === 409 ? "form" : state.step, preview: state.preview, error });
    }
  };
  const look = () => ask("/actions/preview", {}, "looking", "preview");
  const go = () => ask("/actions", { version: state.preview.version }, "acting", "done");
  useEffect(() => { if (!(offer.fields ?? []).length) look(); }, []);
  const change = (name) => (event) => { give((old) => ({ ...old, [name]: event.target.value })); set({ step: "form" }); };
  return html`<dialog ref=${dialog} class="act" aria-labelledby="act-title" onClose=${close}>
    <h2 id="act-title">${offer.label.includes(of.name) ? offer.label : `${offer.label}: ${of.name}`}</h2>
    ${state.step !== "done" && offer.fields?.length > 0 && html`<form class="filters" onSubmit=${(event) => { event.preventDefault(); look(); }}>
      ${offer.fields.map((field) => html`<${Input} of=${field} value=${given[field.name]} change=${change(field.name)} />`)}
      <button type="submit" disabled=${state.step === "looking" || state.step === "preview"}>What would it do?</button></form>`}
    <div aria-live="polite">
      ${state.step === "looking" && html`<p>Trying it on a copy of the state …</p>`}
      ${state.step === "acting" && html`<p>Doing it …</p>`}
      ${state.error && html`<${Problem} error=${state.error} />`}
      ${state.step === "preview" && html`<${Preview} of=${state.preview} />`}
      ${state.step === "done" && html`<${Done} of=${state.done} />`}
    </div>
    <p class="ends">${state.step === "preview" && html`<button type="button" class="danger" onClick=${go}>${offer.label}</button>`}
      <button type="button" onClick=${() => dialog.current.close()}>${state.step === "done" ? "Close" : "Leave it as it is"}</button></p>
  </dialog>`;
}

const Input = ({ of: field, value, change }) => html`<label class="field"><span>${field.label}</span>${field.options
  ? html`<select value=${value} onChange=${change}>${field.options.map(([key, text]) => html`<option value=${key} selected=${key === value}>${text ?? key}</option>`)}</select>`
  : html`<input type="text" value=${value} onInput=${change} required=${!field.optional} autocomplete="off" spellcheck=${false} />`}</label>`;

function Preview({ of }) {
  return html`<p class="sentence">${of.summary}</p>
    ${of.warnings.map((text) => html`<p class="note warn">${text}</p>`)}
    <h3>What would follow at once</h3>
    ${of.effects.length ? html`<p>${summed(of.effects)}</p><${Table} caption="What would follow" rows=${of.effects.slice(0, 50)} rowKey=${(row) => row.what + row.workload} columns=${[
      { title: "What", cell: (row) => html`<strong>${row.what}</strong>` }, { title: "Job", cell: (row) => html`<code>${row.job || row.workload}</code>` },
      { title: "Queue", cell: (row) => row.queue || "-" }, { title: "Why", wide: true, cell: (row) => row.why },
    ]} />` : html`<p>Nobody would be admitted or evicted because of it.</p>`}
    <h3>The same on the command line</h3><${Command} text=${of.command} />`;
}

const summed = (effects) => Object.entries(Object.groupBy(effects, (one) => one.what))
  .map(([what, all]) => `would ${what} ${plural(all.length, "workload")}`).join(", ").replace(/^w/, "W") + ".";

function Done({ of }) {
  if (!of.seq) return html`<p>It was so already; nothing had to be said.</p>`;
  return html`<p class="sentence">It is said: message <${Seq} of=${of.seq} /> (${of.outcome}).</p>
    ${of.warnings.map((text) => html`<p class="note warn">${text}</p>`)}<${Followed} seq=${of.seq} />`;
}

/** What has come of the message so far; asked again as the log grows. */
function Followed({ seq }) {
  const found = useResource(`/log/${seq}`, {}, { moment: false, counts: false });
  return html`<${Shown} resource=${found}>${(data) => (data.consequences?.length
    ? html`<${Events} of=${data.consequences.map(({ depth, event }) => ({ depth, ...event }))} near=${data.events[0]?.time} label="What came of it" depths />`
    : html`<p class="quiet">Nothing has followed from it yet.</p>`)}</${Shown}>`;
}
