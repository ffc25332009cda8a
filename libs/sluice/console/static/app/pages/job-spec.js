// What was submitted, as it was.
import { nowCommand } from "../commands.js";
import { at } from "../address.js";
import { html } from "../html.js";
import { apiPath, JobPage, nameOf } from "../parts/job-page.js";
import { Seq } from "../parts/links.js";
import { Empty, Shown } from "../parts/page.js";
import { useResource } from "../resource.js";

export default function JobSpec({ names }) {
  const spec = useResource(`${apiPath(names)}/spec`, {}, { kinds: ["Job"] });
  return html`<${JobPage} names=${names} title="What was submitted" command=${nowCommand(["get", `job/${names[1]}`, "-n", names[0], "-o", "yaml"], at.value, ["replay", "state", `job/${nameOf(names)}`])}>
    <${Shown} resource=${spec}>${(data) => (data.manifest
      ? html`<p>As message <${Seq} of=${data.seq} /> has it.</p><pre tabindex="0">${JSON.stringify(data.manifest, null, 2)}</pre>`
      : html`<${Empty}>The log has no manifest of it: it was left out when the log was exported (--redact).</${Empty}>`)}</${Shown}>
  </${JobPage}>`;
}
