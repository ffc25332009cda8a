// A plain table: columns are {key, title, cell(row), number, wide, sort, onSort}; `sort` is as aria-sort has it. j and k go through its rows, Enter opens the row's first link.
import { useRef } from "preact/hooks";
import { html } from "../html.js";
import { useKeys } from "../keys.js";

export function moveRow(table, step) {
  const rows = [...(table?.querySelectorAll("tbody tr[data-key]") ?? [])];
  if (!rows.length) return false;
  const now = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[now < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, now + step))];
  const target = next.querySelector("a[href], button");
  (target ?? next).focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}

export const rowKeys = (table) => ({
  j: ["next row", () => moveRow(table.current, 1)],
  k: ["previous row", () => moveRow(table.current, -1)],
});

export function Table({ caption, columns, rows, rowKey, keys = false, rowClass }) {
  const table = useRef();
  useKeys(keys ? rowKeys(table) : {});
  return html`<div class="scroll" role="region" aria-label=${caption} tabindex="0">
    <table ref=${table}>
      <caption class="hidden">${caption}</caption>
      <thead><tr>${columns.map((c) => html`<th scope="col" class=${c.number ? "number" : ""} aria-sort=${c.onSort && c.sort !== "none" ? c.sort : null}>${c.onSort ? html`<button type="button" class="sort" onClick=${c.onSort}>${c.title}<span aria-hidden="true">${{ ascending: " ▲", descending: " ▼" }[c.sort] ?? ""}</span></button>` : c.title}</th>`)}</tr></thead>
      <tbody>
        ${rows.map((row, n) => html`<tr key=${rowKey(row, n)} data-key=${rowKey(row, n)} tabindex="-1" class=${rowClass?.(row) ?? ""}>
          ${columns.map((c) => html`<td class=${`${c.number ? "number" : ""} ${c.wide ? "wide" : ""}`}>${c.cell(row)}</td>`)}
        </tr>`)}
      </tbody>
    </table>
  </div>`;
}

export const Facts = ({ of }) => html`<dl class="facts">
  ${of.filter((one) => one && one[1] !== undefined && one[1] !== null && one[1] !== "" && one[1] !== false).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
</dl>`;
