// A change that `why` names, as a question to what-if. No DOM in here.
import { href } from "../address.js";

/** The field of a queue's nominal quota, as `--set` writes it; null if it is not there. */
export function quotaField(queue, flavor, resource) {
  const groups = queue?.spec?.resourceGroups ?? [];
  const group = groups.findIndex((one) => one.flavors?.some((each) => each.name === flavor) && one.coveredResources?.includes(resource));
  return group < 0 ? null : `ClusterQueue/${queue.metadata.name}.spec.resourceGroups.${group}.flavors.${flavor}.resources.${resource}.nominalQuota`;
}

const added = (text, more, unit) => {
  // cpu counts in thousandths: 16 and 16000 more are 32; others as the manifest has them.
  const number = /^\d+(\.\d+)?$/.test(text) ? Number(text) : null;
  return number === null ? null : number + more / unit;
};

export function trial(remedy, report, queue, seq) {
  if (remedy.kind === "quota" && remedy.amounts) {
    const set = [];
    for (const [name, more] of Object.entries(remedy.amounts)) {
      const [flavor, resource] = name.split(/\/(.*)/);
      const field = quotaField(queue, flavor, resource);
      const now = report.numbers?.find((row) => row.flavor === flavor && row.resource === resource);
      const value = now && field ? added(now.nominal, more, resource === "memory" || resource.endsWith("storage") ? 1 : 1000) : null;
      if (value === null) return null;
      set.push(`${field}=${value}`);
    }
    return href("/what-if", { at: null, set: set.join("\n"), from: seq });
  }
  if (remedy.kind === "finish") {
    const key = /the end of (\S+)/.exec(remedy.text)?.[1];
    const job = key && report.candidates?.find((one) => one.workload === key)?.job;
    return job ? href("/what-if", { at: null, drop: `job/${job}` }) : null;
  }
  return null;
}
