// An address that is no page.
import { href } from "../address.js";
import { html } from "../html.js";
import { Page } from "../parts/page.js";
import { NAVIGATION } from "../routes.js";

export default ({ names: [path] }) => html`<${Page} title="There is no such page">
  <p>Nothing is at <code>${path}</code>. What there is:</p>
  <ul>${NAVIGATION.map(([to, title]) => html`<li><a href=${href(to)}>${title}</a></li>`)}</ul>
</${Page}>`;
