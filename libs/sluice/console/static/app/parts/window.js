// Which rows a scrolled list shows, and which pages of the answer it needs for them. No DOM in here.

export const ROW = 34;
export const PAGE = 200;

/** Rows [from, to) to have in the document: what is seen, and some more on both sides. */
export function visible(scrollTop, height, total, extra = 12) {
  const from = Math.max(0, Math.floor(scrollTop / ROW) - extra);
  return { from: Math.min(from, Math.max(0, total - 1)), to: Math.min(total, Math.ceil((scrollTop + height) / ROW) + extra) };
}

/** Offsets of the pages that hold rows [from, to). */
export function pagesOf(from, to) {
  const pages = [];
  for (let page = Math.floor(from / PAGE); page * PAGE < Math.max(to, from + 1); page += 1) pages.push(page * PAGE);
  return pages;
}

/** How many rows of the first list are elsewhere, or not there, in the second. */
export function moved(before, after) {
  const place = new Map(after.map((key, n) => [key, n]));
  const changed = before.filter((key, n) => place.get(key) !== n).length;
  return changed + Math.max(0, after.length - before.length);
}
