// Simulate: would this be admitted?
import { useEffect, useRef, useState } from "preact/hooks";
import { at } from "../address.js";
import { post } from "../api.js";
import { logCommand } from "../commands.js";
import { html } from "../html.js";
import { Page, Problem } from "../parts/page.js";
import { plan, watch } from "../rendered.js";
import { source } from "../source.js";

const EXAMPLE = `apiVersion: batch/v1
kind: Job
metadata:
  name: mine
  labels:
    kueue.x-k8s.io/queue-name: research
spec:
  template:
    spec:
      containers:
      - name: main
        resources:
          requests:
            cpu: 4
`;

/** Ask by POST; what is asked before the last answer is there takes its place. */
export function useQuestion() {
  const [shown, show] = useState({ status: "idle" });
  const abort = useRef(null);
  const mine = useRef({ status: "ready", upto: 0 });
  useEffect(() => watch(mine.current), []);
  useEffect(() => () => abort.current?.abort(), []);
  useEffect(() => {
    mine.current.status = shown.status === "waiting" ? "loading" : shown.status === "error" ? "error" : "ready";
    mine.current.upto = shown.data?.upto ?? shown.data?.seq ?? source.value?.source.end ?? 0;
    plan();
  }, [shown]);
  const ask = async (path, body) => {
    abort.current?.abort();
    abort.current = new AbortController();
    const { signal } = abort.current;
    show({ status: "waiting" });
    try {
      const data = await post(path, body, { signal });
      show({ status: "ready", data });
    } catch (error) {
      if (!signal.aborted) show({ status: "error", error });
    }
  };
  const cancel = () => { abort.current?.abort(); show({ status: "idle" }); };
  return { ...shown, ask, cancel };
}

export default function Simulate() {
  const [text, setText] = useState(sessionStorage.getItem("sluice-simulate") ?? EXAMPLE);
  const question = useQuestion();
  const send = (event) => {
    event?.preventDefault();
    sessionStorage.setItem("sluice-simulate", text);
    question.ask("/simulate", { text, ...(at.value ? { at: at.value } : {}) });
  };
  return html`<${Page} title="Would this be admitted?" about="Nothing is submitted: it is decided on a copy of the state." command=${logCommand(["simulate", "-f", "job.yaml"], at.value)}>
    <form onSubmit=${send} class="ask">
      <label class="field"><span>Manifest of a job</span><textarea rows="16" spellcheck=${false} value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label>
      <p><button type="submit" disabled=${question.status === "waiting"}>Decide</button> ${question.status === "waiting" && html`<button type="button" class="quiet" onClick=${question.cancel}>Stop</button>`}</p>
    </form>
    <div aria-live="polite">${question.status === "waiting" && html`<p>Deciding …</p>`}
      ${question.status === "error" && html`<${Problem} error=${question.error} />`}
      ${question.status === "ready" && html`<section class="answer"><h2>${question.data.report?.admitted ? "It would be admitted" : "It would wait"}</h2><pre tabindex="0">${(question.data.text ?? []).join("\n")}</pre></section>`}</div>
  </${Page}>`;
}
