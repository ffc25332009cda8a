// Preemptions over time: queues as rows, an arrow from the preemptor's queue to the victim's, its dash by rule.
import { go, href } from "../address.js";
import { clockTime } from "../format.js";
import { html } from "../html.js";

const ROW = 30;
const STYLES = ["", "6 3", "2 3", "8 2 2 2"];

export function Arrows({ of: items }) {
  const queues = [...new Set(items.flatMap((one) => [one.preemptorQueue, one.victimQueue]))].sort();
  const rules = [...new Set(items.map((one) => one.rule))].sort();
  const times = items.map((one) => new Date(one.time).getTime());
  const [from, to] = [Math.min(...times), Math.max(...times)];
  const x = (time) => 40 + ((new Date(time) - from) / Math.max(1, to - from)) * 920;
  const y = (queue) => 18 + queues.indexOf(queue) * ROW;
  const height = queues.length * ROW + 8;
  return html`<div class="arrows"><ul class="arrow-names" aria-hidden="true">${queues.map((queue) => html`<li>${queue}</li>`)}</ul>
    <svg viewBox=${`0 0 1000 ${height}`} preserveAspectRatio="none" style=${{ height: `${height}px` }} role="img" aria-label=${`${items.length} preemptions among ${queues.length} queues, from ${clockTime(new Date(from))} to ${clockTime(new Date(to))}; the table below has them`}>
      ${queues.map((queue) => html`<line class="row-line" x1="0" x2="1000" y1=${y(queue)} y2=${y(queue)} />`)}
      ${items.map((one) => { const x1 = x(one.time); const y1 = y(one.preemptorQueue); const y2 = y(one.victimQueue); return html`<g onClick=${() => go(href(`/log/${one.seq}`))}>
        <path class=${`arrow r${rules.indexOf(one.rule) % 4}`} stroke-dasharray=${STYLES[rules.indexOf(one.rule) % 4]} d=${y1 === y2 ? `M${x1 - 9} ${y1}a9 9 0 1 0 18 0` : `M${x1} ${y1}L${x1} ${y2}`} />
        <circle class="from" cx=${x1} cy=${y1} r="3.5" /><path class="victim" d=${`M${x1 - 5} ${y2 - 5}l10 10m0 -10l-10 10`} /><title>${one.preemptor} preempted ${one.victim}: ${one.rule}</title></g>`; })}
    </svg>
    <ul class="legend">${rules.map((rule, n) => html`<li><svg width="34" height="8" aria-hidden="true"><line class=${`arrow r${n % 4}`} stroke-dasharray=${STYLES[n % 4]} x1="0" x2="34" y1="4" y2="4" /></svg> ${rule}</li>`)}<li>● preemptor's queue</li><li>× victim's queue</li></ul>
  </div>`;
}
