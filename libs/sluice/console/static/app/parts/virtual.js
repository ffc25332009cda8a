// A table of any length: only the rows that are seen are in the document, and only their pages are asked for.
// While the pointer or the focus is in the list its order stands still: cells change in place, moves wait for `r`.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { at as momentOf } from "../address.js";
import { count } from "../format.js";
import { html } from "../html.js";
import { useKeys } from "../keys.js";
import { Command } from "./command.js";
import { pagesOf, PAGE, ROW, visible, moved } from "./window.js";
import { rowKeys } from "./table.js";
import { useResource } from "../resource.js";

/** `path`, `query`: a list of the API whose `continue` is an offset. `heads(answer)`: what stands above, from the first page's answer. */
export function Virtual({ caption, path, query, columns, rowKey = (row) => row.key, kinds, fold, rowClass, heads, empty }) {
  const [range, setRange] = useState({ from: 0, to: 40 });
  const box = useRef();
  const table = useRef();
  const held = useRef({ busy: false, order: null });
  const [, redraw] = useState(0);
  const name = JSON.stringify([path, query, momentOf.value]);
  const pages = pagesOf(range.from, range.to);
  const first = useResource(path, { ...query, limit: PAGE }, { kinds, fold });
  const near = usePage(path, query, pages.find((page) => page > 0) ?? null, kinds, fold);
  const next = usePage(path, query, pages.filter((page) => page > 0)[1] ?? null, kinds, fold);
  const total = first.data?.total ?? 0;

  const rows = new Map();
  for (const each of [first, near, next]) each?.data?.items.forEach((row, n) => rows.set((each.offset ?? 0) + n, row));
  const waiting = steady(held.current, name, first.data?.items ?? [], rowKey, rows);

  useLayoutEffect(() => { if (box.current) box.current.scrollTop = 0; setRange({ from: 0, to: 40 }); }, [name]);
  useEffect(() => {
    const resize = () => look();
    window.addEventListener("resize", resize);
    look();
    return () => window.removeEventListener("resize", resize);
  }, [total]);
  const look = () => {
    if (!box.current) return;
    const seen = visible(box.current.scrollTop, box.current.clientHeight, total);
    setRange((old) => (old.from === seen.from && old.to === seen.to ? old : seen));
  };
  const busy = (on) => () => { held.current.busy = on; if (!on) redraw((n) => n + 1); };
  const apply = () => { if (!waiting) return false; held.current.order = null; redraw((n) => n + 1); return true; };
  useKeys({ ...rowKeys(table), r: ["apply changes that wait", apply] });

  const to = Math.min(range.to, total);
  const shown = [];
  for (let n = range.from; n < to; n += 1) shown.push([n, rows.get(n)]);
  return html`${heads?.(first)}
    ${first.data && total === 0 && empty}
    ${waiting > 0 && html`<p class="note" role="status"><button type="button" onClick=${apply}>${count(waiting)} changes wait (r)</button></p>`}
    ${total > 0 && html`<div class="scroll virtual" ref=${box} onScroll=${look} tabindex="0" role="region" aria-label=${`${caption}, ${total} rows`}
        onPointerEnter=${busy(true)} onPointerLeave=${busy(false)} onFocusIn=${busy(true)} onFocusOut=${busy(false)} style=${{ height: `min(${(total + 1) * ROW + 20}px, max(16rem, 100vh - 23rem))` }}>
      <table ref=${table} aria-rowcount=${total + 1}>
        <caption class="hidden">${caption}</caption>
        <thead><tr aria-rowindex="1">${columns.map((c) => html`<th scope="col" class=${`${c.number ? "number" : ""} ${c.size ?? ""}`}>${c.title}</th>`)}</tr></thead>
        <tbody>
          ${range.from > 0 && html`<tr class="space" aria-hidden="true"><td colspan=${columns.length} style=${{ height: `${range.from * ROW}px` }}></td></tr>`}
          ${shown.map(([n, row]) => (row
            ? html`<tr key=${rowKey(row)} data-key=${rowKey(row)} aria-rowindex=${n + 2} tabindex="-1" class=${rowClass?.(row) ?? ""}>${columns.map((c) => html`<td class=${`${c.number ? "number" : ""} ${c.size ?? ""}`}>${c.cell(row)}</td>`)}</tr>`
            : html`<tr key=${`row ${n}`} aria-rowindex=${n + 2}><td colspan=${columns.length} class="coming">…</td></tr>`))}
          ${to < total && html`<tr class="space" aria-hidden="true"><td colspan=${columns.length} style=${{ height: `${(total - to) * ROW}px` }}></td></tr>`}
        </tbody>
      </table>
    </div>`}`;
}

function usePage(path, query, offset, kinds, fold) {
  const answer = useResource(offset === null ? null : path, { ...query, limit: PAGE, continue: offset }, { kinds, fold });
  return offset === null ? null : { ...answer, offset };
}

/** Keep the first page's order while somebody is in the list; returns how many changes of order wait. */
function steady(held, name, items, rowKey, rows) {
  const keys = items.map(rowKey);
  if (held.name !== name || !held.busy || !held.order) {
    Object.assign(held, { name, order: keys, last: new Map(items.map((row) => [rowKey(row), row])) });
    return 0;
  }
  const waiting = moved(held.order, keys);
  if (!waiting) return 0;
  const byKey = new Map(items.map((row) => [rowKey(row), row]));
  held.order.forEach((key, n) => rows.set(n, byKey.get(key) ?? held.last.get(key)));
  return waiting;
}

export const Total = ({ of, one, many, command }) => html`<p class="total" role="status">${of.data ? `${count(of.data.total)} ${of.data.total === 1 ? one : many}` : ""}</p>${command && html`<${Command} text=${command} />`}`;
