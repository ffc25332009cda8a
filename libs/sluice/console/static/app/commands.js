// The command line that prints what a page shows.
import { source } from "./source.js";

const safe = /^[\w@%+=:,./-]+$/;
export const quoted = (word) => (safe.test(word) ? word : `'${String(word).replaceAll("'", "'\\''")}'`);

const file = () => {
  const from = source.value?.source;
  return from?.kind === "file" ? ["-l", from.name] : [];
};

/** A command that reads a log: of a file with -l, at the moment looked at with --at. */
export function logCommand(words, at) {
  return ["sluice", ...words.map(String), ...(at ? ["--at", at] : []), ...file()].map(quoted).join(" ");
}

/** A command about now; of the past or of a file, `past` (a command that reads a log) says the same. */
export function nowCommand(words, at, past) {
  if (at || file().length) return logCommand(past, at || undefined);
  return ["sluice", ...words].map(quoted).join(" ");
}
