// The log: what is being decided? The newest stands above; it follows while nobody scrolls.
import { useEffect, useState } from "preact/hooks";
import { address, at, href } from "../address.js";
import { logCommand } from "../commands.js";
import { count } from "../format.js";
import { html } from "../html.js";
import { Events } from "../parts/events.js";
import { Choice, Field } from "../parts/filters.js";
import { Empty, Page, Shown } from "../parts/page.js";
import { useResource } from "../resource.js";

const TYPES = ["Admitted", "QuotaReserved", "Preempted", "Evicted", "QuotaReleased", "JobSubmitted", "JobFinished", "WorkloadCreated", "WorkloadFinished", "ConfigApplied", "ObjectApplied", "CheckVerdict"];
const WRITERS = [["", "all"], ["job", "jobs and executors"], ["config", "configuration"], ["slices", "slice-aggregator"], ["scheduler", "scheduler"], ["variants", "variant-controller"], ["checks", "admission-check"]];

function useScrolled() {
  const [down, setDown] = useState(false);
  useEffect(() => {
    const look = () => setDown(window.scrollY > 240);
    window.addEventListener("scroll", look, { passive: true });
    return () => window.removeEventListener("scroll", look);
  }, []);
  return down;
}

export default function Log() {
  const { type, writer, about, before } = address.value.query;
  const down = useScrolled();
  const to = before ?? at.value;
  const held = down || Boolean(before);
  const log = useResource("/log", { type, writer, about, to, order: "desc", limit: 200 }, { moment: false, still: held || Boolean(at.value) });
  const show = ["log", "show", ...(type ? ["--type", type] : []), ...(about ? ["--job", about] : [])];
  return html`<${Page} title="What is being decided?" command=${logCommand(show, "")}>
    <div class="filters"><${Field} name="type" label="Event" main list=${TYPES} /><${Choice} name="writer" label="Writer" options=${WRITERS} /><${Field} name="about" label="Job" placeholder="namespace/name" /></div>
    ${held && !at.value && html`<p class="note" role="status">Not following while you read. <a href=${href("/log", { type, writer, about })} onClick=${() => window.scrollTo(0, 0)}>Follow again</a></p>`}
    <${Shown} resource=${log}>${(data) => (data.items.length ? html`
      <p class="total">Messages ${count(data.first)} to ${count(data.end)}, the newest first</p>
      <${Events} of=${data.items} near=${data.time} label="Events, newest first" />
      ${data.next > 0 && html`<p><a class="button" href=${href("/log", { type, writer, about, before: data.next })}>Older</a></p>`}`
      : html`<${Empty} next=${logCommand(["log", "show"], "")}>${type || writer || about ? "The filters leave nothing." : "The log is empty."}</${Empty}>`)}
    </${Shown}></${Page}>`;
}
