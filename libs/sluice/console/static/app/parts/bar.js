// A quota as a bar: own use solid, borrowed hatched, lent as an outline, reserved light, promised dotted; ticks at nominal and at the limit.
import { html } from "../html.js";

const v = (amount) => amount?.value ?? 0;

/** Where each piece lies, in shares of the bar. Exported for tests. */
export function pieces(q) {
  const nominal = v(q.nominal);
  const limit = q.borrowingLimit ? nominal + v(q.borrowingLimit) : null;
  const full = Math.max(nominal, limit ?? 0, v(q.used) + v(q.promised), v(q.used) + Math.max(0, v(q.free)), 1);
  const piece = (kind, from, size) => ({ kind, from: from / full, size: Math.min(size, full - from) / full });
  return {
    pieces: [
      piece("own", 0, v(q.own)),
      piece("borrowed", v(q.own), v(q.borrowed)),
      piece("lent", Math.max(0, nominal - v(q.lent)), v(q.lent)),
      piece("reserved", Math.max(0, v(q.used) - v(q.reserved)), v(q.reserved)),
      piece("promised", v(q.used), v(q.promised)),
    ].filter((one) => one.size > 0),
    nominal: nominal / full,
    limit: limit === null ? null : limit / full,
  };
}

export function inWords(q) {
  const said = [`${q.used.text} of ${q.nominal.text} ${q.resource} used`];
  for (const [key, word] of [["borrowed", "borrowed"], ["lent", "lent to others"], ["reserved", "reserved, not admitted yet"], ["promised", "promised to preemptors"]]) {
    if (v(q[key]) > 0) said.push(`${q[key].text} ${word}`);
  }
  if (v(q.free) > 0) said.push(`${q.free.text} free to take`);
  if (q.borrowingLimit) said.push(`may borrow ${q.borrowingLimit.text}`);
  return said.join(", ");
}

const percent = (share) => `${(share * 100).toFixed(3)}%`;

export function Bar({ of: q, large = false }) {
  const { pieces: all, nominal, limit } = pieces(q);
  const over = v(q.borrowed) > 0;
  return html`<div class="quota ${large ? "large" : ""}">
    <div class="bar" role="img" aria-label=${`${q.flavor}: ${inWords(q)}`}>
      ${all.map((one) => html`<i class=${one.kind} style=${{ left: percent(one.from), width: percent(one.size) }}></i>`)}
      <b class="tick" style=${{ left: percent(nominal) }}></b>
      ${limit !== null && html`<b class="tick limit" style=${{ left: percent(limit) }}></b>`}
    </div>
    <span class="said">${q.used.text} of ${q.nominal.text} ${q.resource}${over ? html`, <em class="borrows">${q.borrowed.text} borrowed</em>` : ""}${v(q.lent) > 0 ? html`, <em class="lends">${q.lent.text} lent</em>` : ""}${v(q.promised) > 0 ? `, ${q.promised.text} promised` : ""}</span>
  </div>`;
}

export const Legend = () => html`<ul class="legend" aria-label="What the bars show">
  ${[["own", "own use"], ["borrowed", "borrowed"], ["lent", "lent to others"], ["reserved", "reserved, not admitted"], ["promised", "promised to a preemptor"]]
    .map(([kind, text]) => html`<li><span class="bar sample">${kind === "reserved" && html`<i class="own"></i>`}<i class=${kind}></i></span> ${text}</li>`)}
  <li><span class="bar sample"><b class="tick"></b></span> nominal quota</li>
  <li><span class="bar sample"><b class="tick limit"></b></span> borrowing limit</li>
</ul>`;
