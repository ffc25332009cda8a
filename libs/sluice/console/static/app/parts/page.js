// A page: its heading, its command, and the four states of what it shows: loading, empty, stale, error.
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { address } from "../address.js";
import { clock } from "../live.js";
import { html } from "../html.js";
import { duration } from "../format.js";
import { Command } from "./command.js";

let shownPath = null;

export function Page({ title, command, about, actions, children }) {
  const heading = useRef();
  const { path } = address.value;
  useLayoutEffect(() => { document.title = `${title} · Sluice`; }, [title]);
  useEffect(() => {
    // After a link, readers of the screen begin at the new page's heading.
    if (shownPath !== null && shownPath !== path) heading.current?.focus({ preventScroll: true });
    shownPath = path;
  }, [path]);
  return html`<div class="page">
    <header class="title">
      <div><h1 tabindex="-1" ref=${heading}>${title}</h1>${about && html`<p class="about">${about}</p>`}</div>
      ${actions && html`<div class="actions">${actions}</div>`}
    </header>
    ${children}
    ${command && html`<${Command} text=${command} main />`}
  </div>`;
}

export function Problem({ error, again }) {
  return html`<div class="problem" role="alert">
    <p><strong>${error.message}</strong></p>
    ${error.hint && html`<p>${error.hint}</p>`}
    ${error.status === 404 && html`<p>At another moment it may be there: move the strip at the bottom, or look at <a href=${address.value.path}>now</a>.</p>`}
    ${again && html`<button type="button" onClick=${again}>Ask again</button>`}
  </div>`;
}

const Skeleton = () => html`<div class="skeleton" aria-hidden="true"><i></i><i></i><i></i><i></i></div>`;

/** Show what a resource has; `children` is a function of its data. */
export function Shown({ resource, children, wait = "Loading" }) {
  const { data, error, status, slow, reload } = resource;
  if (status === "loading") {
    return html`<div aria-busy="true">${slow && html`<p class="hidden" role="status">${wait} …</p><${Skeleton} />`}</div>`;
  }
  if (status === "error") return html`<${Problem} error=${error} again=${reload} />`;
  return html`${status === "stale" && html`<${Stale} of=${data} error=${error} />`}${data && children(data)}`;
}

const Stale = ({ of, error }) => html`<p class="note warn" role="status">As of ${of.upto}, not newer: ${error.message} ${error.hint}</p>`;

/** How long ago something was, by this browser's clock; counts on. */
export const Ago = ({ ms }) => html`${duration(Math.max(0, Math.round((clock.value - ms) / 1000)))} ago`;

/** Nothing to show: say so, and what to type next. */
export const Empty = ({ children, next }) => html`<div class="empty"><p>${children}</p>${next && html`<${Command} text=${next} />`}</div>`;
