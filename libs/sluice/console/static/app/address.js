// Where we are is in the address, all of it: page, filters, selection, moment. Links keep the moment (?at=).
import { computed, signal } from "@preact/signals";

const read = () => ({ path: location.pathname, query: Object.fromEntries(new URLSearchParams(location.search)) });

export const address = signal(read());
export const at = computed(() => address.value.query.at ?? "");

/** Write an address; the moment looked at goes along unless `query` has an `at` of its own (null: none). */
export function href(path, query = {}) {
  const all = { at: at.value, ...query };
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(all)) {
    if (value !== null && value !== undefined && value !== "" && value !== false) words.set(name, value);
  }
  const tail = words.toString();
  return tail ? `${path}?${tail}` : path;
}

export function go(to, { replace = false } = {}) {
  if (to === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  const before = address.value.path;
  address.value = read();
  if (before !== address.value.path) window.scrollTo(0, 0);
}

/** Change parts of the query and stay on the page; null takes a part away. */
export function setQuery(changes, { replace = true } = {}) {
  const { path, query } = address.value;
  go(href(path, { at: null, ...query, ...changes }), { replace });
}

/** Look at another moment; "" is now. */
export function travel(moment) {
  setQuery({ at: moment === "" ? null : String(moment) }, { replace: false });
}

window.addEventListener("popstate", () => { address.value = read(); });

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || link.target || link.hasAttribute("download")) return;
  if (link.origin !== location.origin || link.pathname.startsWith("/api/") || link.pathname.startsWith("/static/")) return;
  if (link.hash && link.pathname === location.pathname && link.search === location.search) return;
  event.preventDefault();
  go(link.pathname + link.search);
});
