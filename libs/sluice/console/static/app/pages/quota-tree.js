// Which rows of the tree are shown. No DOM in here.

const parents = (node, nodes) => {
  const found = [];
  for (let up = nodes.find((one) => one.kind === "Cohort" && one.name === node.parent); up; up = nodes.find((one) => one.kind === "Cohort" && one.name === up.parent)) {
    found.push(up);
  }
  return found;
};

/** Is it below a cohort that is closed? */
export const hiddenBy = (node, nodes, shut) => shut.size > 0 && parents(node, nodes).some((up) => shut.has(up.name));

/** Nodes whose name or flavor has the text, with the cohorts above them. */
export function kept(nodes, text) {
  const low = text.trim().toLowerCase();
  if (!low) return nodes;
  const hit = nodes.filter((node) => node.name.toLowerCase().includes(low) || node.quota.some((q) => q.flavor.toLowerCase().includes(low)));
  const all = new Set(hit.flatMap((node) => [node, ...parents(node, nodes)]));
  return nodes.filter((node) => all.has(node));
}

/** flavor/resource of any node, in the order in which they come. */
export const resourcesOf = (nodes) => [...new Set(nodes.flatMap((node) => node.quota.map((q) => `${q.flavor}/${q.resource}`)))];
