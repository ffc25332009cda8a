// Links to the parts of one thing (a job's pages): real links, so each part has its address.
import { address, href } from "../address.js";
import { html } from "../html.js";

export const Tabs = ({ label, links }) => html`<nav class="tabs" aria-label=${label}>
  ${links.map(([path, text]) => html`<a href=${href(path)} aria-current=${address.value.path === path ? "page" : null}>${text}</a>`)}
</nav>`;
