// What all pages of one job have: heading, links to its parts, keys.
import { at, go, href } from "../address.js";
import { part } from "../api.js";
import { logCommand } from "../commands.js";
import { html } from "../html.js";
import { useKeys } from "../keys.js";
import { jobPath } from "./links.js";
import { Page } from "./page.js";
import { Tabs } from "./tabs.js";

export const apiPath = ([namespace, name]) => `/jobs/${part(namespace)}/${part(name)}`;
export const nameOf = ([namespace, name]) => (namespace === "default" ? name : `${namespace}/${name}`);

export function JobPage({ names, words, command, actions, children, title = "" }) {
  const key = names.join("/");
  const path = jobPath(key);
  useKeys({
    w: ["why is it not running", () => go(href(`${path}/why`))],
    x: ["preemptions", () => go(href("/preemptions"))],
  });
  return html`<${Page} title=${title || nameOf(names)} about=${title ? nameOf(names) : `Job in ${names[0]}`} command=${command ?? logCommand(words, at.value)} actions=${actions}>
    <${Tabs} label="Parts of the job" links=${[[path, "Life"], [`${path}/why`, "Why"], [`${path}/events`, "Events"], [`${path}/spec`, "Manifest"]]} />
    ${children}
  </${Page}>`;
}
