// A queue or cohort over time: areas of own and borrowed use, lines of nominal quota and of what is lent, and who waited. On demand, as the log is folded for it.
import { address, at, href, setQuery, travel } from "../address.js";
import { clockTime, count } from "../format.js";
import { html } from "../html.js";
import { useResource } from "../resource.js";
import { Cohort, Queue, Seq } from "./links.js";
import { Shown } from "./page.js";
import { Table } from "./table.js";

const WIDE = 1000;
const HIGH = 100;
const ROWS = 25;

export function OverTime({ path }) {
  const { series } = address.value.query;
  const all = series === "all";
  const found = useResource(series ? path : null, all ? { from: 1 } : {}, { still: true, counts: false });
  return html`<section><h2>Over time</h2>
    <div class="chips" role="group" aria-label="How much of the log">${[["", "Off"], ["last", "The last 10,000 messages"], ["all", "The whole log"]].map(([key, text]) => html`<button type="button" aria-pressed=${(series ?? "") === key} onClick=${() => setQuery({ series: key || null })}>${text}</button> `)}
      ${series && !at.value && html`<button type="button" class="quiet" onClick=${found.reload}>Again</button>`}</div>
    ${series && html`<${Shown} resource=${found} wait="Folding the log">${(data) => html`<${Charts} of=${data} />`}</${Shown}>`}</section>`;
}

/** A path through the points, as steps: what is so lasts until the next point. Exported for tests. */
export function steps(xs, values, top, closed) {
  const y = (value) => (HIGH - (HIGH * value) / top).toFixed(2);
  let path = `M${xs[0].toFixed(2)} ${y(values[0])}`;
  for (let n = 1; n < xs.length; n += 1) path += `H${xs[n].toFixed(2)}V${y(values[n])}`;
  return closed ? `${path}V${HIGH}H${xs[0].toFixed(2)}Z` : path;
}

/** Places of times on the axis; where all are the same, by their order. */
export function places(times) {
  const [first, last] = [Date.parse(times[0]), Date.parse(times.at(-1))];
  return times.map((time, n) => WIDE * (last > first ? (Date.parse(time) - first) / (last - first) : n / Math.max(1, times.length - 1)));
}

const v = (amounts) => amounts.map((one) => one.value);

function Charts({ of: data }) {
  const xs = places(data.times);
  const go = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * WIDE;
    travel(data.seqs[Math.max(0, xs.findLastIndex((one) => one <= x))]);
  };
  const waits = Math.max(1, ...data.pending);
  return html`<p class="quiet">From ${clockTime(data.times[0])} to ${clockTime(data.times.at(-1), data.times[0])}: messages ${count(data.from)} to ${count(data.to)}, a point each ${count(data.step)}. A click goes to that moment.</p>
    <ul class="legend" aria-label="What the areas show"><li><span class="bar sample"><i class="own"></i></span> own use</li><li><span class="bar sample"><i class="borrowed"></i></span> borrowed, above it</li><li>dashed: nominal quota</li><li>blue line: lent</li></ul>
    <div class="series">
      ${data.lines.map((line) => html`<${Line} key=${[line.kind, line.name, line.flavor, line.resource].join()} of=${line} xs=${xs} go=${go} />`)}
      <figure><figcaption><strong>Pending</strong> <span>at most ${count(Math.max(...data.pending))}, now ${count(data.pending.at(-1))}</span></figcaption>
        <svg viewBox="0 0 ${WIDE} ${HIGH}" preserveAspectRatio="none" role="img" aria-label=${`Pending: at most ${Math.max(...data.pending)}, at the end ${data.pending.at(-1)}`} onClick=${go}><path class="s-pending" d=${steps(xs, data.pending, waits, true)} /></svg></figure>
    </div>
    <details><summary>As a table</summary><${Numbers} of=${data} /></details>`;
}

function Line({ of: line, xs, go }) {
  const [used, nominal, borrowed, lent] = [v(line.used), v(line.nominal), v(line.borrowed), v(line.lent)];
  const most = used.indexOf(Math.max(...used));
  const top = Math.max(1, ...used, ...nominal) * 1.05;
  const hatch = `hatch-${[line.kind, line.name, line.flavor, line.resource].join("-").replace(/[^\w-]/g, "_")}`;
  const said = `${line.used.at(-1).text} of ${line.nominal.at(-1).text} ${line.resource}, ${line.borrowed.at(-1).text} borrowed, ${line.lent.at(-1).text} lent; at most ${line.used[most].text} used`;
  return html`<figure><figcaption><strong>${line.kind === "Cohort" ? html`<${Cohort} of=${line.name} />` : html`<${Queue} of=${line.name} />`}</strong> <span>${line.flavor} ${line.resource}</span> <span class="quiet">${said}</span></figcaption>
    <svg viewBox="0 0 ${WIDE} ${HIGH}" preserveAspectRatio="none" role="img" aria-label=${`${line.name}, ${line.flavor}: ${said}`} onClick=${go}>
      <defs><pattern id=${hatch} width="9" height="9" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="s-borrowed" width="6" height="9" /></pattern></defs>
      <path fill=${`url(#${hatch})`} d=${steps(xs, used, top, true)} /><path class="s-own" d=${steps(xs, used.map((one, n) => one - borrowed[n]), top, true)} />
      <path class="s-nominal" d=${steps(xs, nominal, top, false)} />${lent.some(Boolean) && html`<path class="s-lent" d=${steps(xs, lent, top, false)} />`}
    </svg></figure>`;
}

/** Some of the points in numbers: as many as one wants to hear. */
function Numbers({ of: data }) {
  const each = Math.max(1, Math.ceil(data.seqs.length / ROWS));
  const rows = data.seqs.map((seq, n) => ({ seq, n })).filter(({ n }) => n % each === 0 || n === data.seqs.length - 1);
  return html`<${Table} caption="Numbers over time" rows=${rows} rowKey=${(row) => row.seq} columns=${[
    { title: "Message", number: true, cell: (row) => html`<${Seq} of=${row.seq} />` }, { title: "Time", cell: (row) => html`<a href=${href(address.value.path, { at: row.seq })}>${clockTime(data.times[row.n], data.times[0])}</a>` },
    ...data.lines.map((line) => ({ title: `${line.name} ${line.flavor} ${line.resource}`, number: true, cell: (row) => `${line.used[row.n].text}${line.borrowed[row.n].value ? ` (${line.borrowed[row.n].text} borrowed)` : ""}` })),
    { title: "Pending", number: true, cell: (row) => count(data.pending[row.n]) },
  ]} />`;
}
