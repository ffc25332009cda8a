// What the strip draws, from counts per bucket. No DOM in here.
import { clockTime, count } from "../format.js";

/** Kinds of messages from the bottom up, with their words. */
export const KINDS = [
  ["other", "other messages"], ["submitted", "submitted"], ["finished", "finished"], ["admitted", "admitted"],
  ["preempted", "preempted"], ["evicted", "evicted otherwise"], ["config", "of configuration"],
];

/** How much of each kind a bucket has: who was preempted was evicted, too; messages that hold nothing of all this are `other`. */
export function kindsOf({ counts }) {
  const known = { ...counts, evicted: Math.max(0, (counts.evicted ?? 0) - (counts.preempted ?? 0)) };
  const told = KINDS.reduce((all, [kind]) => all + (kind === "other" ? 0 : known[kind] ?? 0), 0);
  return { ...known, other: Math.max(0, (counts.messages ?? 0) - told) };
}

export const shareOf = (seq, first, last) => (last > first ? (seq - first) / (last - first) : 1);

export function bucketAt(buckets, seq) {
  let low = 0;
  let high = buckets.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (buckets[middle].to < seq) low = middle + 1;
    else high = middle;
  }
  return buckets[low] ?? null;
}

/** One path per kind, stacked; heights by the square root, so that a single preemption is seen beside a thousand others. */
export function paths(buckets, first, last) {
  const drawn = Object.fromEntries(KINDS.map(([kind]) => [kind, ""]));
  const sum = (counts) => KINDS.reduce((all, [kind]) => all + (counts[kind] ?? 0), 0);
  const all = buckets.map(kindsOf);
  const most = Math.max(1, ...all.map(sum));
  for (const [n, bucket] of buckets.entries()) {
    const counts = all[n];
    const total = sum(counts);
    if (!total) continue;
    const left = shareOf(bucket.from - 0.5, first - 0.5, last + 0.5) * 400;
    const right = shareOf(bucket.to + 0.5, first - 0.5, last + 0.5) * 400;
    const width = Math.max(0.8, (right - left) * 0.9);
    const height = Math.sqrt(total / most) * 38;
    let y = 40;
    for (const [kind] of KINDS) {
      const part = ((counts[kind] ?? 0) / total) * height;
      if (part > 0) drawn[kind] += `M${left.toFixed(2)} ${y.toFixed(2)}h${width.toFixed(2)}v${(-part).toFixed(2)}h${(-width).toFixed(2)}z`;
      y -= part;
    }
  }
  return drawn;
}

/** Where a key leads on the strip; null for keys that are none of it. */
export function stepped(event, now, first, last) {
  const far = Math.max(1, Math.round((last - first) / 20));
  const one = event.shiftKey ? Math.max(1, Math.round(far / 5)) : 1;
  switch (event.key) {
    case "ArrowLeft": case "ArrowDown": return now - one;
    case "ArrowRight": case "ArrowUp": return now + one;
    case "PageDown": return now - far;
    case "PageUp": return now + far;
    case "Home": return first;
    case "End": return last;
    default: return null;
  }
}

/** A moment in words, for those who hear it. */
export function told(data, seq) {
  const bucket = bucketAt(data?.buckets ?? [], seq);
  if (!bucket) return count(seq);
  const counts = kindsOf(bucket);
  const what = KINDS.filter(([kind]) => counts[kind]).map(([kind, word]) => `${counts[kind]} ${word}`).join(", ");
  return `message ${count(seq)}, ${clockTime(bucket.time)}, about there: ${what || "nothing"}`;
}
