// One message of the log: what is in it, what brought it about, what came of it.
import { logCommand } from "../commands.js";
import { clockTime } from "../format.js";
import { html } from "../html.js";
import { useKeys } from "../keys.js";
import { go, href } from "../address.js";
import { Events } from "../parts/events.js";
import { Page, Shown } from "../parts/page.js";
import { useResource } from "../resource.js";

export default function Commit({ names: [text] }) {
  const seq = Number(text);
  const found = useResource(`/log/${seq}`, {}, { still: true, moment: false });
  useKeys({
    k: ["message before", () => go(href(`/log/${Math.max(1, seq - 1)}`))],
    j: ["next message", () => go(href(`/log/${seq + 1}`))],
  });
  return html`<${Page} title=${`Message ${seq}`} command=${logCommand(["trace", seq], "")}
      actions=${html`<a class="button" href=${href(`/log/${seq - 1}`)}>Before</a> <a class="button" href=${href(`/log/${seq + 1}`)}>Next</a>`}>
    <${Shown} resource=${found}>${(data) => html`
      <p class="sentence">${data.events.length === 1 ? "One event" : `${data.events.length} events`} on <code>${data.subject}</code>, ${clockTime(data.events[0]?.time ?? data.time, null, { parts: true })}. ${" "}
        <a href=${href("/", { at: seq })}>The cell right after it</a> · <a href=${href("/diff", { from: seq - 1, to: seq, at: null })}>what it changed</a></p>
      <section><h2>What it says</h2><${Events} of=${data.events} near=${data.events[0]?.time} label="Its events" /></section>
      <section><h2>What brought it about</h2>${data.causes?.length ? html`<${Events} of=${data.causes} near=${data.events[0]?.time} label="Causes" />` : html`<p class="quiet">Nothing in the log: it came from outside.</p>`}</section>
      <section><h2>What came of it</h2>${data.consequences?.length ? html`<${Events} of=${data.consequences.map(({ depth, event }) => ({ depth, ...event }))} near=${data.events[0]?.time} label="Consequences" depths />` : html`<p class="quiet">Nothing.</p>`}
        ${data.cut && html`<p class="note">There is more; the command has all.</p>`}</section>
      <details><summary>As it is in the log</summary><pre tabindex="0">${JSON.stringify(data.events.map((one) => one.data), null, 2)}</pre></details>`}
    </${Shown}></${Page}>`;
}
