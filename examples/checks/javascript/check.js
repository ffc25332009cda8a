// The admission check hello: decides whether a workload that has quota reserved may run.

import { readFile } from "node:fs/promises";

/** Answer one request. `signal` is aborted when the workload is evicted, finished or deleted. */
export async function check(request, signal) {
  if ((request.podSets ?? []).some((podSet) => podSet.labels?.hold === "true")) {
    return { state: "Pending", message: "held by the label of its pods", recheckSeconds: 10 };
  }
  if (cores(request) > 1000) return { state: "Rejected", message: "more than 1000 cores" };
  return { state: "Ready", message: `hello, ${request.workload.job ?? request.workload.name}` };
}

/**
 * Look at a workload that was approved, now and then while it holds its quota: Retry or Rejected takes the approval
 * back, and the workload is stopped. Here: those of jobs that are listed in the file denied.txt.
 */
export async function watch(request, signal) {
  const denied = await readFile("denied.txt", { encoding: "utf8", signal }).catch(() => "");
  const job = request.workload.job ?? request.workload.name;
  if (denied.split(/\s+/).includes(job)) {
    return { state: "Retry", message: `${job} is denied`, requeueAfterSeconds: 60 };
  }
}

/** CPU that the workload was given, in cores. */
export function cores(request) {
  return (request.assignment ?? []).reduce((sum, podSet) => sum + (podSet.usage?.cpu ?? 0), 0) / 1000;
}
