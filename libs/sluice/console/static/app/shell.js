// What stands around each page: navigation, how far we are, the strip, and the dialogs.
import { useEffect, useState } from "preact/hooks";
import { address, at, go, href, travel } from "./address.js";
import { clockTime, count, duration } from "./format.js";
import { html } from "./html.js";
import { useKeys } from "./keys.js";
import { clock, end, link, lostAt } from "./live.js";
import { Announcer } from "./parts/announce.js";
import { Help, helpOpen } from "./parts/help.js";
import { Login } from "./parts/login.js";
import { Problem } from "./parts/page.js";
import { Palette, paletteOpen } from "./parts/palette.js";
import { Strip } from "./parts/strip.js";
import { NAVIGATION, PAGES, route } from "./routes.js";
import { problem, source } from "./source.js";
import { useResource } from "./resource.js";

const loaded = new Map();

async function load(page) {
  loaded.set(page, (await import(`./pages/${page}.js`)).default);
}

/** Have all pages before they are wanted: they are small, and the server may be away then. */
export function loadAll() {
  for (const page of PAGES) load(page).catch(() => {});
}

function Current() {
  const { page, names } = route(address.value.path);
  const [, redraw] = useState(0);
  const [failed, setFailed] = useState(null);
  useEffect(() => {
    let timer = 0;
    const take = () => load(page).then(() => { setFailed(null); redraw((n) => n + 1); }, (error) => { setFailed(error); timer = setTimeout(take, 2000); });
    if (!loaded.has(page)) take();
    return () => clearTimeout(timer);
  }, [page]);
  const Shown = loaded.get(page);
  if (Shown) return html`<${Shown} key=${address.value.path} names=${names} query=${address.value.query} />`;
  return failed && html`<${Problem} error=${{ message: "This page could not be loaded.", hint: String(failed.message) }} />`;
}

function Where() {
  if (at.value) return null;
  if (link.value === "lost") {
    return html`<span class="state lost">as of ${count(end.value)}, ${duration(Math.round((clock.value - lostAt.value) / 1000))} ago; connecting</span>`;
  }
  if (link.value === "file") return html`<span class="state file" title=${source.value?.source.name}>${source.value?.source.name.split("/").at(-1)}</span>`;
  return html`<span class="state ${link.value}">${link.value === "open" ? "live" : "connecting"}</span>`;
}

function Header() {
  const here = address.value.path;
  const current = (path) => (path === "/" ? here === "/" : here === path || here.startsWith(`${path}/`) || (path === "/queues" && here.startsWith("/cohorts")));
  return html`<header class="top">
    <a class="brand" href=${href("/")}><img src="/static/icon.svg" alt="" width="22" height="22" /> Sluice <span>${source.value?.cell ?? ""}</span></a>
    <nav aria-label="Pages">${NAVIGATION.map(([path, title]) => html`<a href=${href(path)} aria-current=${current(path) ? "page" : null}>${title}</a>`)}</nav>
    <div class="tools">
      <${Where} />
      <button type="button" class="quiet" onClick=${() => { paletteOpen.value = true; }} title="Go to anything: Ctrl-K">Go to<kbd>Ctrl K</kbd></button>
      <button type="button" class="quiet" onClick=${() => { helpOpen.value = true; }} title="Keys: ?"><span aria-hidden="true">?</span><span class="hidden">Keys</span></button>
    </div>
  </header>`;
}

/** In the past: say so, and lead back. */
function Past({ moment }) {
  if (!at.value) return null;
  return html`<div class="past" role="status">
    <strong>As of ${moment.data ? count(moment.data.upto) : at.value}</strong>
    ${moment.data && html`<span>${clockTime(moment.data.time)}</span>`}
    ${moment.error && html`<span>${moment.error.message}</span>`}
    <a href=${href("/diff", { at: null, from: moment.data?.upto ?? at.value })}>What has changed since?</a>
    <button type="button" onClick=${() => travel("")}>Back to now</button>
  </div>`;
}

export function Shell() {
  const moment = useResource(at.value && source.value ? "/cohorts" : null, {}, { counts: false });
  useKeys(Object.fromEntries(NAVIGATION.map(([path, title, letter]) => [`g ${letter}`, [title, () => go(href(path))]])));
  if (problem.value?.status === 401) return html`<${Login} />`;
  return html`<a class="skip" href="#main">Skip to the page</a>
    <${Header} />
    <${Past} moment=${moment} />
    <main id="main" tabindex="-1">
      ${problem.value && html`<${Problem} error=${problem.value} />`}
      ${source.value && html`<${Current} />`}
    </main>
    ${source.value && html`<${Strip} shown=${moment.data?.upto ?? 0} />`}
    <${Help} /><${Palette} /><${Announcer} />`;
}
