// Budgets: what is used and left, who consumes it, since when. From the log, by the rules of the check that keeps them.
import { address, at, setQuery } from "../address.js";
import { nowCommand } from "../commands.js";
import { clockTime, count, duration, plural, secondsBetween } from "../format.js";
import { html } from "../html.js";
import { Job, Queue, Time } from "../parts/links.js";
import { Empty, Page, Shown } from "../parts/page.js";
import { Facts, Table } from "../parts/table.js";
import { useResource } from "../resource.js";

const WIDE = 1000;
const HIGH = 100;
const FIRST = 10;
const percent = (share) => `${(Math.max(0, Math.min(1, share)) * 100).toFixed(2)}%`;

export default function Budgets() {
  const budgets = useResource("/budgets", {}, { kinds: ["Budget", "ClusterQueue", "Workload", "AdmissionCheck"] });
  return html`<${Page} title="What is left of budgets?" command=${nowCommand(["get", "budgets"], at.value, ["replay", "state", "--show", "configuration"])}>
    <${Shown} resource=${budgets} wait="Adding up what was consumed">${(data) => (data.budgets.length
      ? html`<${Legend} />${data.budgets.map((one) => html`<${Budget} key=${one.name} of=${one} now=${data.now} more=${data.more?.[one.name]} />`)}`
      : html`<${Empty} next="sluice up --check budget">No budget is configured. This runs the check that keeps them; budgets are manifests to apply.</${Empty}>`)}</${Shown}>
  </${Page}>`;
}

const Legend = () => html`<ul class="legend" aria-label="What the bars show">
  <li><span class="bar sample"><i class="own"></i></span> used in this period</li><li><span class="bar sample"><i class="committed"></i></span> committed: running jobs may still use it</li><li><span class="bar sample"><b class="tick"></b></span> the limit</li></ul>`;

function Budget({ of, now, more }) {
  const period = secondsBetween(of.start, of.end);
  return html`<section class="budget" id=${of.name}><h2>${of.name} <small>${of.scope}</small></h2>
    ${of.usedUp && html`<p class="note warn">Used up. ${of.onExceeded === "Evict" ? "Who runs in its scope is stopped, and comes back when the period ends." : "Who runs goes on; nobody new starts before the period ends."}</p>`}
    ${of.problem && html`<p class="note warn">Not all of it is known: ${of.problem}.</p>`}
    ${of.limits.map((limit) => html`<${Limit} of=${limit} />`)}
    <${Facts} of=${[
      ["Period", of.start && html`${of.unit}, ends ${html`<${Time} of=${of.end} near=${now} />`} <small>in ${duration(secondsBetween(now, of.end))}, ${Math.round((100 * secondsBetween(of.start, now)) / period)} % of it gone</small>`],
      ["When used up", of.onExceeded === "Evict" ? "running jobs are stopped" : "running jobs go on"],
      ["Being used", of.limits.map((limit) => `${limit.perHour.text} an hour`).join(", ")],
      ["As things go used up", !of.usedUp && soonest(of.limits) && html`<${Time} of=${soonest(of.limits)} near=${now} /> <small>in ${duration(secondsBetween(now, soonest(of.limits)))}</small>`],
    ]} />
    ${of.held.length > 0 && html`<h3>Held by it</h3><${Table} caption=${`Held by ${of.name}`} rows=${shown(of, "held")} rowKey=${(row) => row.job} columns=${[
      { title: "Job", cell: (row) => html`<${Job} of=${row.job} />` }, { title: "Why", wide: true, cell: (row) => row.message }]} /><${More} of=${of} list="held" />`}
    ${of.consumers.length > 0 && html`<h3>Who has used it in this period</h3><${Table} caption=${`Consumers of ${of.name}`} rows=${shown(of, "consumers")} rowKey=${(row) => [row.namespace, row.localQueue, row.clusterQueue].join()} columns=${[
      { title: "Local queue", cell: (row) => `${row.namespace}/${row.localQueue}` }, { title: "Queue", cell: (row) => (row.clusterQueue ? html`<${Queue} of=${row.clusterQueue} />` : "-") },
      ...of.limits.map((limit, n) => ({ title: named(limit), number: true, cell: (row) => html`<span class="side"><i class="last" style=${{ width: percent(row.used[n].value / (limit.used?.value || 1)) }} aria-hidden="true"></i><span>${bare(row.used[n])}</span></span>` })),
      { title: "An hour, now", number: true, cell: (row) => row.perHour.map((one) => one.text).join(", ") }]} /><${More} of=${of} list="consumers" />`}
    ${of.running.length > 0 && html`<h3>Who uses it now</h3><${Table} caption=${`Running on ${of.name}`} rows=${shown(of, "running")} rowKey=${(row, n) => row.job + n} columns=${[
      { title: "Job", cell: (row) => html`<${Job} of=${row.job} />` }, { title: "An hour", number: true, cell: (row) => row.perHour.map((one) => one.text).join(", ") },
      { title: "Since", cell: (row) => html`<${Time} of=${row.since} near=${now} />` }, { title: "Has to end", cell: (row) => (row.ends ? html`<${Time} of=${row.ends} near=${now} />` : html`<span class="quiet">nobody knows</span>`) }]} /><${More} of=${of} list="running" />`}
    ${more > 0 && html`<p class="quiet">${count(more)} who use least are left out.</p>`}
    ${of.limits.map((limit, n) => html`<${Curve} of=${of} limit=${limit} n=${n} />`)}
  </section>`;
}

const shown = (of, list) => (address.value.query.all === `${of.name}/${list}` ? of[list] : of[list].slice(0, FIRST));
const More = ({ of, list }) => shown(of, list).length < of[list].length && html`<p><button type="button" class="quiet" onClick=${() => setQuery({ all: `${of.name}/${list}` })}>All ${count(of[list].length)}</button></p>`;
/** An amount without its unit, which stands beside it. */
const bare = (amount) => amount.text.split(" ")[0];
const soonest = (limits) => limits.map((one) => one.reachedAt).filter(Boolean).sort()[0];
const named = (limit) => (limit.resource ? `Hours of ${limit.resource}${limit.flavor ? ` on ${limit.flavor}` : ""}` : limit.unit || "Cost");

function Limit({ of: limit }) {
  const full = Math.max(limit.limit.value, (limit.used?.value ?? 0) + limit.committed.value) || 1;
  const said = `${limit.used ? bare(limit.used) : "not known"} of ${limit.limit.text} used${limit.committed.value ? `, ${bare(limit.committed)} committed` : ""}${limit.left ? `, ${bare(limit.left)} left` : ""}`;
  return html`<div class="named-bar"><span>${named(limit)}</span><div class="quota large">
    <div class="bar" role="img" aria-label=${`${named(limit)}: ${said}`}>
      ${limit.used && html`<i class=${limit.used.value >= limit.limit.value ? "over" : "own"} style=${{ left: 0, width: percent(limit.used.value / full) }}></i>`}
      <i class="committed" style=${{ left: percent((limit.used?.value ?? 0) / full), width: percent(limit.committed.value / full) }}></i>
      <b class="tick" style=${{ left: percent(limit.limit.value / full) }}></b></div>
    <span class="said">${said}</span></div></div>`;
}

/** What had been used since the period began, as a line under the limit. */
function Curve({ of, limit, n }) {
  const points = of.points;
  if (points.length < 2) return null;
  const [first, last] = [Date.parse(points[0].time), Date.parse(points.at(-1).time)];
  const top = Math.max(...points.map((one) => one.used[n]), 1e-9) * 1.08;
  const x = (time) => (last > first ? (WIDE * (Date.parse(time) - first)) / (last - first) : 0).toFixed(1);
  const y = (value) => (HIGH - (HIGH * value) / top).toFixed(2);
  const line = points.map((one, at_) => `${at_ ? "L" : "M"}${x(one.time)} ${y(one.used[n])}`).join("");
  const from = clockTime(points[0].time);
  const said = `from ${points[0].used[n]} at ${from} to ${limit.used?.text ?? ""} at ${clockTime(points.at(-1).time, points[0].time)}`;
  const rows = points.length > 25 ? points.filter((_, at_) => at_ % Math.ceil(points.length / 25) === 0 || at_ === points.length - 1) : points;
  return html`<div class="series still"><figure><figcaption><strong>${named(limit)} over time</strong> <span class="quiet">${said}</span></figcaption>
    <svg viewBox="0 0 ${WIDE} ${HIGH}" preserveAspectRatio="none" role="img" aria-label=${`${named(limit)} over time, ${said}`}>
      <path class="s-own" d=${`${line}V${HIGH}H${x(points[0].time)}Z`} />${limit.limit.value <= top && html`<path class="s-nominal" d=${`M0 ${y(limit.limit.value)}H${WIDE}`} />`}</svg></figure>
    <details><summary>As a table (${plural(points.length, "point")})</summary><${Table} caption=${`${of.name}, ${named(limit)} over time`} rows=${rows} rowKey=${(row) => row.time} columns=${[
      { title: "Time", cell: (row) => clockTime(row.time) }, { title: "Used", number: true, cell: (row) => row.used[n] }]} /></details></div>`;
}
