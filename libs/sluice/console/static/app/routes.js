// Addresses and their pages. A page's module is loaded when it is first looked at.

/** path, title, second letter of `g _`. */
export const NAVIGATION = [
  ["/", "Now", "n"], ["/queues", "Quota", "q"], ["/pending", "Pending", "p"], ["/jobs", "Jobs", "j"],
  ["/preemptions", "Preemptions", "x"], ["/checks", "Checks", "c"], ["/budgets", "Budgets", "b"], ["/kinds", "Kinds", "k"], ["/what-if", "What if", "w"], ["/simulate", "Simulate", "i"],
  ["/log", "Log", "l"], ["/diff", "Diff", "d"], ["/system", "System", "s"],
];

const ROUTES = [
  [/^\/$/, "now"],
  [/^\/queues$/, "quota"],
  [/^\/queues\/([^/]+)$/, "queue"],
  [/^\/cohorts\/([^/]+)$/, "cohort"],
  [/^\/pending$/, "pending"],
  [/^\/jobs$/, "jobs"],
  [/^\/jobs\/([^/]+)\/([^/]+)$/, "job"],
  [/^\/jobs\/([^/]+)\/([^/]+)\/why$/, "why"],
  [/^\/jobs\/([^/]+)\/([^/]+)\/events$/, "job-events"],
  [/^\/jobs\/([^/]+)\/([^/]+)\/spec$/, "job-spec"],
  [/^\/preemptions$/, "preemptions"],
  [/^\/checks$/, "checks"],
  [/^\/budgets$/, "budgets"],
  [/^\/kinds$/, "kinds"],
  [/^\/kinds\/([^/]+)$/, "kind"],
  [/^\/what-if$/, "what-if"],
  [/^\/simulate$/, "simulate"],
  [/^\/log$/, "log"],
  [/^\/log\/(\d+)$/, "commit"],
  [/^\/diff$/, "diff"],
  [/^\/system$/, "system"],
];

export const PAGES = [...ROUTES.map(([, page]) => page), "nowhere"];

export function route(path) {
  const plain = path.length > 1 ? path.replace(/\/+$/, "") : path;
  for (const [pattern, page] of ROUTES) {
    const found = pattern.exec(plain);
    if (found) return { page, names: found.slice(1).map(decodeURIComponent) };
  }
  return { page: "nowhere", names: [path] };
}
