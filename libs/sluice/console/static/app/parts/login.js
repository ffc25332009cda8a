// With a token: it is sent once, and kept by the browser as a cookie that pages cannot read.
import { useState } from "preact/hooks";
import { post } from "../api.js";
import { html } from "../html.js";
import { learn } from "../source.js";

export function Login() {
  const [token, setToken] = useState("");
  const [error, setError] = useState(null);
  const send = async (event) => {
    event.preventDefault();
    try {
      await post("/login", { token });
      await learn();
    } catch (failed) {
      setError(failed);
    }
  };
  return html`<main id="main" class="login"><h1>Sluice</h1>
    <form onSubmit=${send}>
      <label class="field"><span>Token</span><input type="password" value=${token} onInput=${(event) => setToken(event.target.value)} autocomplete="current-password" required /></label>
      <button type="submit">Log in</button>
      ${error && html`<p class="note warn" role="alert">${error.message} ${error.hint}</p>`}
    </form></main>`;
}
