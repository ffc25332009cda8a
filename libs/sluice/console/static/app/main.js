// Where the console begins.
import { render } from "preact";
import { html } from "./html.js";
import { start } from "./live.js";
import { loadAll, Shell } from "./shell.js";
import { learn } from "./source.js";

const app = document.getElementById("app");
app.replaceChildren();
render(html`<${Shell} />`, app);
learn().then(start).then(() => (window.requestIdleCallback ?? setTimeout)(loadAll));
