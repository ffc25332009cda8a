// The page says what it has rendered, so that a test (or a person's script) waits for a sequence and never for a time:
// <html data-rendered-seq="4711" data-rendered-path="/queues" data-rendered-state="ready">.

const parts = new Set();
let planned = false;

export function watch(one) {
  parts.add(one);
  plan();
  return () => { parts.delete(one); plan(); };
}

/** Say, after the next frame, what is on the page. */
export function plan() {
  if (planned) return;
  planned = true;
  setTimeout(() => { planned = false; mark(); }, 0);
}

function mark() {
  const { dataset } = document.documentElement;
  const all = [...parts];
  if (!all.length || all.some((one) => one.status === "loading")) {
    delete dataset.renderedSeq;
    return;
  }
  const states = new Set(all.map((one) => one.status));
  dataset.renderedState = states.has("error") ? "error" : states.has("stale") ? "stale" : "ready";
  dataset.renderedPath = location.pathname + location.search;
  dataset.renderedSeq = String(Math.min(...all.map((one) => one.upto)));
}
