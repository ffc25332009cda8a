// JSX without a compiler: html`<p>${text}</p>` makes Preact's nodes.
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
