// A question to the API as a hook: asked anew when a frame of the stream touches what it is about.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { at as momentOf } from "./address.js";
import { get, url } from "./api.js";
import { onFrame } from "./live.js";
import { plan, watch } from "./rendered.js";

const SOONEST_MS = 250;

const touches = (frame, kinds) =>
  kinds === "*" || kinds.some((kind) => frame.changed?.[kind]?.length || frame.gone?.[kind]?.length);

/**
 * Ask `path` (null: nothing). `kinds`: what changes it, "*" for every message of the log; `still`: not asked again.
 * `fold(data, frame)` may return data with the frame's rows in it, to show before the next answer is there.
 * Returns {data, error, status, slow, reload}; status is loading, ready, stale (older data and an error) or error.
 */
export function useResource(path, query = {}, { kinds = "*", still = false, moment = true, counts = true, fold = null } = {}) {
  const at = momentOf.value;
  const asked = path === null ? null : url(path, moment && at ? { ...query, at } : query);
  const [shown, show] = useState({ asked: null, data: null, error: null, slow: false });
  const mine = useRef({ status: "loading", upto: 0 });

  useEffect(() => {
    if (asked === null) return undefined;
    const asking = new Asking(path, moment && at ? { ...query, at } : query, (change) => show((old) => ({ ...(old.asked === asked ? old : { data: null, error: null, slow: false }), ...change, asked })));
    asking.ask();
    const stop = still || (moment && at) ? () => {} : onFrame((frame) => {
      if (frame === null || touches(frame, kinds)) {
        if (frame && fold) show((old) => (old.asked === asked && old.data ? { ...old, data: fold(old.data, frame) ?? old.data } : old));
        asking.again();
      } else asking.proven(frame, mine.current);
    });
    return () => { stop(); asking.end(); };
  }, [asked]);

  const current = shown.asked === asked ? shown : { data: null, error: null, slow: false };
  const status = asked === null ? "ready" : current.data ? (current.error ? "stale" : "ready") : current.error ? "error" : "loading";
  useLayoutEffect(() => (counts && asked !== null ? watch(mine.current) : undefined), [asked !== null, counts]);
  useLayoutEffect(() => {
    mine.current.status = status;
    if (mine.current.of !== current.data) mine.current.upto = current.data?.upto ?? 0;
    mine.current.of = current.data;
    plan();
  });
  return { ...current, status, reload: () => show((old) => ({ ...old, asked: null })) };
}

/** One question, asked again at most every quarter of a second, and never while its last answer is awaited. */
class Asking {
  constructor(path, query, tell) {
    Object.assign(this, { path, query, tell, abort: new AbortController(), busy: false, dirty: false, timer: 0, soonest: 0 });
    this.seen = () => { if (!document.hidden && this.dirty) this.again(); };
    document.addEventListener("visibilitychange", this.seen);
  }

  async ask() {
    this.busy = true;
    this.dirty = false;
    const slow = setTimeout(() => this.tell({ slow: true }), 200);
    const begun = performance.now();
    try {
      const data = await get(this.path, this.query, { signal: this.abort.signal });
      this.tell({ data, error: null, slow: false });
    } catch (error) {
      if (error.name === "AbortError") return;
      this.tell({ error, slow: false });
      // Away or not caught up yet: that passes, and nobody should have to press reload.
      if (error.status === 0 || error.status === 503) this.dirty = true;
      this.soonest = performance.now() + 2000;
    } finally {
      clearTimeout(slow);
      this.busy = false;
    }
    const took = performance.now() - begun;
    this.soonest = Math.max(this.soonest, begun + took + Math.max(SOONEST_MS, 2 * took));
    if (this.dirty) this.again();
  }

  again() {
    this.dirty = true;
    if (this.busy || this.timer || document.hidden || this.abort.signal.aborted) return;
    this.timer = setTimeout(() => { this.timer = 0; this.ask(); }, Math.max(0, this.soonest - performance.now()));
  }

  /** Nothing of what this is about has changed in the frame: what is shown is true up to its end, if it was up to its beginning. */
  proven({ since, upto }, mark) {
    if (this.busy || this.dirty || mark.upto >= upto) return;
    if (mark.upto < since) { this.again(); return; }
    mark.upto = upto;
    plan();
  }

  end() {
    document.removeEventListener("visibilitychange", this.seen);
    clearTimeout(this.timer);
    this.abort.abort();
  }
}
