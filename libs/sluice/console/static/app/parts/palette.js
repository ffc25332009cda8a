// Ctrl-K: go to anything: pages, jobs, queues, a sequence or a time of the log.
import { useEffect, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { at, go, href, travel } from "../address.js";
import { get } from "../api.js";
import { html } from "../html.js";
import { useKeys } from "../keys.js";
import { NAVIGATION } from "../routes.js";
import { jobPath } from "./links.js";
import { useDialog } from "./help.js";

export const paletteOpen = signal(false);

async function found(text, signal_) {
  const low = text.trim().toLowerCase();
  const pages = NAVIGATION.filter(([, title]) => title.toLowerCase().includes(low))
    .map(([path, title]) => ({ text: title, kind: "page", act: () => go(href(path)) }));
  if (!low) return pages;
  const moments = /^\d+$/.test(low)
    ? [{ text: `Message ${low}`, kind: "log", act: () => go(href(`/log/${low}`)) }, { text: `This page at ${low}`, kind: "moment", act: () => travel(low) }]
    : /^(\d{1,2}:\d\d|\d{4}-\d\d-\d\d|\d+[smhd]$)/.test(low) ? [{ text: `This page at ${text.trim()}`, kind: "moment", act: () => travel(text.trim()) }] : [];
  const query = at.value ? { at: at.value } : {};
  const [jobs, queues] = await Promise.all([
    get("/jobs", { ...query, search: low, limit: 12 }, { signal: signal_ }).then((said) => said.items, () => []),
    get("/queues", query, { signal: signal_ }).then((said) => said.queues, () => []),
  ]);
  return [
    ...moments, ...pages,
    ...queues.filter((queue) => queue.name.toLowerCase().includes(low)).slice(0, 8)
      .map(({ name }) => ({ text: name, kind: "queue", act: () => go(href(`/queues/${encodeURIComponent(name)}`)) })),
    ...jobs.map(({ key, phase }) => ({ text: key, kind: `job, ${phase}`, act: () => go(href(jobPath(key))) })),
  ];
}

export function Palette() {
  const dialog = useRef();
  const [text, setText] = useState("");
  const [rows, setRows] = useState([]);
  const [chosen, choose] = useState(0);
  useKeys({ "Ctrl-K": ["go to anything", () => { paletteOpen.value = true; }] });
  useDialog(paletteOpen, dialog);
  useEffect(() => {
    if (!paletteOpen.value) return undefined;
    const abort = new AbortController();
    found(text, abort.signal).then((all) => { if (!abort.signal.aborted) { setRows(all); choose(0); } });
    return () => abort.abort();
  }, [text, paletteOpen.value]);
  const close = () => { paletteOpen.value = false; setText(""); };
  const take = (row) => { close(); row?.act(); };
  const keys = (event) => {
    if (event.key === "ArrowDown") choose((n) => Math.min(rows.length - 1, n + 1));
    else if (event.key === "ArrowUp") choose((n) => Math.max(0, n - 1));
    else if (event.key === "Enter") take(rows[chosen]);
    else return;
    event.preventDefault();
  };
  return html`<dialog ref=${dialog} class="palette" aria-label="Go to" onClose=${close}>
    <input type="text" value=${text} role="combobox" aria-label="Page, job, queue, sequence or time" aria-expanded="true" aria-controls="palette-rows"
      aria-activedescendant=${rows.length ? `palette-${chosen}` : null} placeholder="Page, job, queue, 4711 or 14:03"
      autocomplete="off" spellcheck=${false} onInput=${(event) => setText(event.target.value)} onKeyDown=${keys} />
    <ul role="listbox" id="palette-rows" aria-label="Found">
      ${rows.map((row, n) => html`<li role="option" id=${`palette-${n}`} aria-selected=${n === chosen} onClick=${() => take(row)}><span>${row.text}</span><small>${row.kind}</small></li>`)}
    </ul>
  </dialog>`;
}
