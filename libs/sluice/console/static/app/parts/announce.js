// One polite live region for the whole page: what changed without a new page is said here, and not too often.
import { signal } from "@preact/signals";
import { html } from "../html.js";

const said = signal("");
let timer = 0;

export function announce(text, { wait = 0 } = {}) {
  clearTimeout(timer);
  timer = setTimeout(() => { said.value = said.value === text ? `${text}\u00a0` : text; }, wait);
}

export const Announcer = () => html`<div class="hidden" role="status" aria-live="polite">${said}</div>`;
