// All messages about a job, with causes both ways.
import { at } from "../address.js";
import { logCommand } from "../commands.js";
import { html } from "../html.js";
import { Events } from "../parts/events.js";
import { apiPath, JobPage, nameOf } from "../parts/job-page.js";
import { Shown } from "../parts/page.js";
import { useResource } from "../resource.js";

export default function JobEvents({ names }) {
  const events = useResource(`${apiPath(names)}/events`, { limit: 1000 }, { kinds: ["Job", "Workload"] });
  return html`<${JobPage} names=${names} title="What happened to it" command=${logCommand(["replay", "timeline", nameOf(names)], at.value && undefined)}>
    <${Shown} resource=${events}>${(data) => html`<${Events} of=${data.items} near=${data.time} label="Events about the job" />
      ${data.continue && html`<p class="note">Only the first ${data.items.length} are shown here; the command has all.</p>`}`}</${Shown}>
  </${JobPage}>`;
}
