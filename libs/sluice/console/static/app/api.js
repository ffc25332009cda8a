// Questions to the server. An answer is JSON with the sequence that it is of; the browser's cache does the ETags.

export class ApiError extends Error {
  constructor(status, { code, message, hint } = {}) {
    super(message || `The server answered ${status}.`);
    Object.assign(this, { status, code: code ?? "", hint: hint ?? "" });
  }
}

export function url(path, query = {}) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== "") words.append(name, each);
    }
  }
  const tail = words.toString();
  return `/api/v1${path}${tail ? `?${tail}` : ""}`;
}

/** A part of a path of the API: names may hold anything. */
export const part = encodeURIComponent;

async function answer(request) {
  let response;
  try {
    response = await request;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { code: "Unreachable", message: "The console's server does not answer.",
      hint: "Is `sluice console` (or `sluice up`) still running? This page asks again by itself." });
  }
  if (response.status === 204) return null;
  let said = null;
  try {
    said = await response.json();
  } catch {
    throw new ApiError(response.status, { message: `The server answered ${response.status}, and not with JSON.` });
  }
  if (!response.ok) throw new ApiError(response.status, said.error);
  return said;
}

export const get = (path, query, { signal } = {}) =>
  answer(fetch(url(path, query), { signal, headers: { Accept: "application/json" } }));

export const post = (path, body, { signal, headers = {} } = {}) =>
  answer(fetch(url(path), {
    method: "POST", signal, body: JSON.stringify(body),
    headers: { Accept: "application/json", "Content-Type": "application/json", ...headers },
  }));

/** Ask for an action with a token that only this console's pages can read; it changes when the console is started again. */
export async function act(path, body, { signal } = {}) {
  const { actionToken } = await get("/whoami", {}, { signal });
  return post(path, body, { signal, headers: { "X-Sluice-Token": actionToken } });
}
