// Filters of a list: fields that are parts of the address, and chips that switch one value on and off.
import { useEffect, useRef, useState } from "preact/hooks";
import { address, setQuery } from "../address.js";
import { html } from "../html.js";
import { useKeys } from "../keys.js";

/** A field whose value is in the address; typing waits a moment before it asks. */
export function Field({ name, label, main = false, type = "search", list = null, placeholder = "" }) {
  const value = address.value.query[name] ?? "";
  const [typed, type_] = useState(value);
  const input = useRef();
  const timer = useRef(0);
  useEffect(() => { if (document.activeElement !== input.current) type_(value); }, [value]);
  useKeys(main ? { "/": ["filter", () => { input.current.focus(); input.current.select(); }] } : {});
  const change = (event) => {
    const text = event.target.value;
    type_(text);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setQuery({ [name]: text || null }), 250);
  };
  return html`<label class="field"><span>${label}</span>
    <input ref=${input} type=${type} value=${typed} onInput=${change} placeholder=${placeholder} list=${list && `${name}-list`}
      autocomplete="off" spellcheck=${false} onKeyDown=${(event) => { if (event.key === "Escape") input.current.blur(); }} />
    ${list && html`<datalist id=${`${name}-list`}>${list.map((one) => html`<option value=${one} />`)}</datalist>`}
  </label>`;
}

export function Choice({ name, label, options }) {
  const value = address.value.query[name] ?? "";
  return html`<label class="field"><span>${label}</span>
    <select value=${value} onChange=${(event) => setQuery({ [name]: event.target.value || null })}>
      ${options.map(([key, text]) => html`<option value=${key} selected=${key === value}>${text}</option>`)}
    </select></label>`;
}

/** Values with their counts; several may be on: they are a list with commas in the address. */
export function Chips({ name, label, counts, single = false }) {
  const on = (address.value.query[name] ?? "").split(",").filter(Boolean);
  const all = [...new Set([...Object.keys(counts), ...on])];
  if (!all.length) return null;
  const toggle = (value) => setQuery({ [name]: (on.includes(value) ? on.filter((one) => one !== value) : single ? [value] : [...on, value]).join(",") || null });
  return html`<div class="chips" role="group" aria-label=${label}>
    ${all.map((value) => html`<button type="button" aria-pressed=${on.includes(value)} onClick=${() => toggle(value)}>
      ${value} <span class="number">${(counts[value] ?? 0).toLocaleString("en")}</span></button>`)}
  </div>`;
}
