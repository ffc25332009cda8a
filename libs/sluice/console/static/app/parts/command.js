// "Copy as command": the command line that prints the same as the page.
import { html } from "../html.js";
import { useKeys } from "../keys.js";
import { announce } from "./announce.js";

export async function copy(text, what = "Copied") {
  try {
    await navigator.clipboard.writeText(text);
    announce(`${what}: ${text}`);
  } catch {
    announce("The browser does not let this page copy; select the text instead.");
  }
}

export function Command({ text, main = false }) {
  useKeys(main ? {
    c: ["copy the page as a command", () => { copy(text); }],
    y: ["copy a link to the page", () => { copy(location.href); }],
  } : {});
  return html`<div class="command">
    <code tabindex="0" role="group" aria-label="The same on the command line">${text}</code>
    <button type="button" class="quiet" onClick=${() => copy(text)} title="Copy as command">Copy<span class="hidden"> as command</span></button>
  </div>`;
}
