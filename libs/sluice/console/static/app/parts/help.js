// `?`: all keys, and the switch for single letters.
import { useLayoutEffect, useRef } from "preact/hooks";
import { signal } from "@preact/signals";
import { html } from "../html.js";
import { bindings, setSingleKeys, singleKeys, useKeys } from "../keys.js";

export const helpOpen = signal(false);

/** Open and close a dialog with a signal, before the next key can be pressed: an effect after the paint would lose what is typed at once. */
export function useDialog(open, ref) {
  useLayoutEffect(() => {
    if (open.value && !ref.current.open) ref.current.showModal();
    if (!open.value && ref.current.open) ref.current.close();
  }, [open.value]);
}

export function Help() {
  const dialog = useRef();
  useKeys({ "?": ["these keys", () => { helpOpen.value = true; }] });
  useDialog(helpOpen, dialog);
  return html`<dialog ref=${dialog} aria-labelledby="help-title" onClose=${() => { helpOpen.value = false; }}>
    <h2 id="help-title">Keys</h2>
    ${helpOpen.value && html`<dl class="keys">${bindings().map(({ keys, text }) => html`<div><dt><kbd>${keys}</kbd></dt><dd>${text}</dd></div>`)}
      <div><dt><kbd>Enter</kbd></dt><dd>open what has the focus</dd></div>
      <div><dt><kbd>← →</kbd></dt><dd>on the strip: one message; with Shift, Page up/down, Home, End: further</dd></div></dl>`}
    <label><input type="checkbox" checked=${singleKeys.value} onChange=${(event) => setSingleKeys(event.target.checked)} /> Single letters are keys</label>
    <p><button type="button" onClick=${() => { helpOpen.value = false; }}>Close</button></p>
  </dialog>`;
}
