// An admission-check controller for Sluice over NATS: what the protocol asks for, on the `nats` package alone.
//
//   new Controller("example.com/budget", async (request, signal) => ({ state: "Ready" })).run();
//
// The function gets a request (proto/schema/admission-check.json) and answers with
//   { state: "Ready", message, podSetUpdates }        the workload may run
//   { state: "Retry", message, requeueAfterSeconds }  not now: quota is given back, tried again later
//   { state: "Rejected", message }                    never
//   { state: "Pending", message, recheckSeconds }     not decided: called again
// `signal` is aborted when the request is withdrawn. What it throws is shown as Pending, and tried again.
//
// The option `watch` is a second function, called for what is approved, at once and then every `watchSeconds`, as
// long as it holds its quota: Retry and Rejected take the approval back, nothing or Ready leaves it.

import { connect, headers, nkeyAuthenticator, StringCodec } from "nats";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, join } from "node:path";

const TTL_S = 5;
const RECHECK_S = 60;
const BACKOFF_MOST_S = 300;
const SKEW_MS = 60_000;
const WATCH_S = 60;
const FINAL = new Set(["Ready", "Retry", "Rejected"]);
const REFUSED = new Set(["Retry", "Rejected"]);
const text = StringCodec();
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const log = (event, more = {}) => console.error(JSON.stringify({ time: new Date().toISOString(), event, ...more }));

// A name as one token: of a bucket's key (`a.b` -> `a=2Eb`), and of a subject (`a.b` -> `a%2Eb`).
export const keyToken = (name) => encode(name, "=", /[A-Za-z0-9-]/);
export const subjectToken = (name) => encode(name, "%", /[A-Za-z0-9_-]/);

function encode(name, mark, plain) {
  return [...Buffer.from(name)]
    .map((byte) => String.fromCharCode(byte))
    .map((char) => (plain.test(char) ? char : mark + char.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")))
    .join("");
}

// What the `nats` package wants for `nats://user:password@host:port,...`: it takes no credentials from the address.
// Files, of an NKey's seed and of authorities for TLS: `?credentials=` and `&ca=` of the address, or the environment.
function server(url) {
  const urls = url.split(",").map((one) => new URL(one.includes("://") ? one.trim() : `nats://${one.trim()}`));
  const [{ protocol, username, password, searchParams }] = urls;
  const [user, pass] = [username, password].map(decodeURIComponent);
  const seed = searchParams.get("credentials") || process.env.SLUICE_CREDENTIALS;
  const caFile = searchParams.get("ca") || process.env.SLUICE_CA;
  // Read at each login, so that a new key counts from the next one on.
  const read = () => text.encode(readFileSync(seed, "utf8").match(/^SU\w+/m)[0]);
  return {
    servers: urls.map((one) => one.host),
    ...(seed ? { authenticator: nkeyAuthenticator(read) } : pass ? { user, pass } : user ? { token: user } : {}),
    ...(protocol === "tls:" || caFile ? { tls: caFile ? { caFile } : {} } : {}),
  };
}

// The cell that `sluice up` started in this directory or above it, as the command itself finds it.
function nearest() {
  for (let at = process.cwd(); ; at = dirname(at)) {
    try {
      const { url, cell } = JSON.parse(readFileSync(join(at, ".sluice", "up.json"), "utf8"));
      return { url, cell };
    } catch {
      if (at === dirname(at)) return { url: "nats://127.0.0.1:4222", cell: "main" };
    }
  }
}

export class Controller {
  constructor(name, check, { url, cell, concurrency = 100, watch, watchSeconds = WATCH_S } = {}) {
    Object.assign(this, { name, check, concurrency, watch, watchSeconds });
    this.url = url ?? process.env.SLUICE_NATS_URL ?? process.env.NATS_URL;
    const near = this.url ? { cell: "main" } : nearest();
    this.url ??= near.url;
    this.cell = cell ?? process.env.SLUICE_CELL ?? near.cell;
    this.instance = `${hostname()}-${process.pid}-${randomBytes(3).toString("hex")}`;
    this.heartbeat = `$KV.sluice_${this.cell}_heartbeats.controller.${keyToken(name)}`;
    this.subject = `sluice.${this.cell}.verdict.${subjectToken(name)}`;
    this.stopping = false;
  }

  // Work until SIGTERM or SIGINT. One of several replicas is active: the one that holds the heartbeat.
  async run() {
    for (const which of ["SIGTERM", "SIGINT"]) process.on(which, () => (this.stopping = true));
    this.nc = await connect({ ...server(this.url), name: this.name, maxReconnectAttempts: -1, waitOnFirstConnect: true });
    const domain = await this.domain();
    this.js = this.nc.jetstream({ timeout: 3000, checkAPI: false, domain });
    this.jsm = await this.nc.jetstreamManager({ checkAPI: false, domain });
    log("controller started", { controller: this.name, instance: this.instance });
    while (!this.stopping) {
      if (await this.acquire()) await this.lead();
      else await sleep(TTL_S * 100);
    }
    await this.nc.drain();
  }

  // A user with an account of its own, which has no JetStream, asks the cell's gate: the domain `sluice`.
  async domain() {
    try {
      await (await this.nc.jetstreamManager({ checkAPI: false })).streams.info(`KV_sluice_${this.cell}_checks`);
    } catch (error) {
      if (error.api_error?.err_code === 10039) return "sluice";
    }
    return undefined;
  }

  // The heartbeat. It is created where there is none and renewed at the revision written last; a replica is
  // active for TTL_S seconds from the moment at which its last successful renewal began.

  get active() {
    return performance.now() < this.until;
  }

  async beat(expected, ttl = TTL_S, instance = this.instance) {
    const began = performance.now();
    const fields = headers();
    fields.set("Nats-TTL", `${ttl}s`);
    fields.set("Nats-Expected-Last-Subject-Sequence", `${expected}`);
    const value = JSON.stringify({ name: this.name, instance, host: hostname(), pid: process.pid });
    const ack = await this.js.publish(this.heartbeat, text.encode(value), { headers: fields });
    this.revision = ack.seq;
    this.until = began + TTL_S * 1000;
  }

  async holder() {
    try {
      const stream = `KV_sluice_${this.cell}_heartbeats`;
      const message = await this.jsm.streams.getMessage(stream, { last_by_subj: this.heartbeat });
      return { revision: message.seq, instance: message.json().instance };
    } catch (error) {
      if (error.api_error?.err_code === 10037) return null; // there is no such key
      throw error;
    }
  }

  async acquire() {
    try {
      const held = await this.holder();
      const now = performance.now();
      if (held && held.revision !== this.seen?.revision) this.seen = { ...held, at: now };
      if (held && held.instance !== "" && held.instance !== this.instance) return false;
      // A server that restarts forgets the key, and its holder may not know yet.
      if (!held && this.seen && now - this.seen.at < TTL_S * 1000) return false;
      await this.beat(held?.revision ?? 0);
      return true;
    } catch (error) {
      log("heartbeat not taken", { error: error.message });
      return false;
    }
  }

  async renew() {
    try {
      await this.beat(this.revision);
    } catch (error) {
      log("heartbeat not renewed", { error: error.message });
      const held = await this.holder().catch(() => undefined);
      if (held === undefined) return; // nobody answers: try again, until the time is over
      if (held && held.instance !== this.instance) this.until = 0;
      else if (this.active) await this.beat(held?.revision ?? 0).catch(() => {});
    }
  }

  // Be the active replica: follow the requests, until the heartbeat is lost or the process is to stop.
  async lead() {
    log("active", { controller: this.name });
    this.held = new Map();
    this.queue = [];
    this.running = 0;
    let watch;
    try {
      // Pulled: a consumer that is pushed to would not be let through the gate.
      const bucket = `sluice_${this.cell}_checks`;
      const filterSubjects = [`$KV.${bucket}.${keyToken(this.name)}.>`];
      const consumer = await this.js.consumers.get(`KV_${bucket}`, { filterSubjects });
      const first = new Map();
      let complete;
      const initialized = new Promise((resolve) => (complete = resolve));
      if ((await consumer.info()).num_pending === 0) complete();
      watch = await consumer.consume();
      let told = null;
      const following = (async () => {
        for await (const message of watch) {
          const key = message.subject.slice(`$KV.${bucket}.`.length);
          const gone = message.headers?.has("KV-Operation") || message.headers?.has("Nats-Marker-Reason");
          const request = gone ? null : parse(key, message);
          if (told) told(key, request);
          else if (request) first.set(key, request);
          else first.delete(key);
          if (message.info.pending === 0) complete();
        }
      })();
      following.catch((error) => log("requests not followed", { error: error.message }));
      await this.renewing(initialized);
      const past = await this.history([...first.values()]);
      told = (key, request) => this.update(key, request);
      for (const [key, request] of first) this.update(key, request, past.get(`${key} ${request.attempt}`));
      while (this.active && !this.stopping) {
        await sleep(TTL_S * 250);
        await this.renew();
      }
    } catch (error) {
      log("cannot follow requests", { error: error.message });
      await sleep(500);
    }
    watch?.stop();
    if (this.active) {
      // Let what is at work finish, then hand over.
      this.queue = [];
      for (const held of this.held.values()) if (approved(held)) end(held); // watches may wait for long
      for (let n = 0; n < 100 && this.running; n++) await sleep(100);
    }
    for (const held of this.held.values()) end(held);
    if (this.active) await this.beat(this.revision, 1, "").catch(() => {});
    this.until = 0;
    log("not active any more", { controller: this.name });
  }

  async renewing(promise) {
    const timer = setInterval(() => this.renew(), TTL_S * 250);
    await promise.finally(() => clearInterval(timer));
  }

  // What was answered before: the log knows. Maps `<key> <attempt>` to the number of verdicts and the last state.
  async history(requests) {
    const past = new Map();
    if (!requests.length) return past;
    const keys = new Map(requests.map((r) => [[name(r), r.check, r.attempt].join(" "), r]));
    const since = Math.min(...requests.map((r) => (r.reservedAt ?? 0) / 1000)) - SKEW_MS;
    const stream = `SLUICE_${this.cell}`;
    const consumer = await this.js.consumers.get(stream, {
      filterSubjects: [this.subject],
      deliver_policy: "by_start_time",
      opt_start_time: new Date(Math.max(since, 0)).toISOString(),
    });
    let left = (await consumer.info()).num_pending;
    while (left > 0) {
      for await (const message of await consumer.fetch({ max_messages: Math.min(left, 500), expires: 5000 })) {
        left--;
        const { id, data } = message.json();
        const request = keys.get([data.workload, data.check, data.attempt].join(" "));
        if (!request || (data.uid && data.uid !== request.workload.uid)) continue;
        const number = Number(id.slice(id.lastIndexOf(".") + 1)) || 0;
        const key = `${requestKey(request)} ${request.attempt}`;
        const before = past.get(key)?.number ?? 0;
        past.set(key, { number: Math.max(number, before), state: data.state, message: data.message ?? "" });
      }
    }
    return past;
  }

  // One request as it is now; null: withdrawn.
  update(key, request, past) {
    let held = this.held.get(key);
    if (held && (!request || held.request.attempt !== request.attempt || held.request.workload.uid !== request.workload.uid)) {
      end(held);
      this.held.delete(key);
      held = undefined;
    }
    if (!request) return;
    if (!held) {
      held = { key, number: past?.number ?? 0, said: past, failures: 0, abort: new AbortController() };
      this.held.set(key, held);
    }
    held.request = request;
    if ((request.state ?? "Pending") === "Pending" && !held.busy && !FINAL.has(held.said?.state)) this.enqueue(held);
    else this.tend(held, 0);
  }

  // Look at an approved workload, in so many seconds.
  tend(held, seconds) {
    if (!this.watch || held.busy || held.abort.signal.aborted || !approved(held)) return;
    clearTimeout(held.timer);
    held.timer = setTimeout(() => held.busy || this.enqueue(held), seconds * 1000);
  }

  enqueue(held) {
    clearTimeout(held.timer);
    held.busy = true;
    this.queue.push(held);
    this.next();
  }

  next() {
    while (this.running < this.concurrency && this.queue.length && this.active && !this.stopping) {
      const held = this.queue.shift();
      this.running++;
      this.perform(held)
        .catch((error) => log("fault", { error: error.stack }))
        .finally(() => {
          this.running--;
          held.busy = false;
          this.tend(held, this.watchSeconds);
          this.next();
        });
    }
  }

  async perform(held) {
    if (approved(held)) return this.look(held);
    let answer;
    try {
      answer = await this.check(held.request, held.abort.signal);
      if (!FINAL.has(answer?.state) && answer?.state !== "Pending") throw new Error("the check returned no verdict");
      held.failures = 0;
    } catch (error) {
      const recheckSeconds = Math.min(BACKOFF_MOST_S, 2 ** held.failures++);
      answer = { state: "Pending", message: `The check failed and is tried again: ${error.message}`, recheckSeconds };
      if (!held.abort.signal.aborted) log("check failed", { workload: name(held.request), error: error.stack });
    }
    if (held.abort.signal.aborted) return;
    await this.say(held, answer);
    if (answer.state === "Pending" && !held.abort.signal.aborted) {
      held.timer = setTimeout(() => held.busy || this.enqueue(held), (answer.recheckSeconds ?? RECHECK_S) * 1000);
    }
  }

  async look(held) {
    try {
      const answer = await this.watch(held.request, held.abort.signal);
      if (REFUSED.has(answer?.state) && !held.abort.signal.aborted) await this.say(held, answer);
    } catch (error) {
      if (!held.abort.signal.aborted) log("watch failed", { workload: name(held.request), error: error.stack });
    }
  }

  // Publish a verdict that differs from the last one, until the log has it: its id keeps it from being stored twice.
  async say(held, { state, reason, message = "", requeueAfterSeconds, podSetUpdates }) {
    if (held.said?.state === state && state === "Pending" && held.said.message === message) return;
    const { workload, check, attempt } = held.request;
    const number = ++held.number;
    held.said = { state, message, number };
    const id = `${workload.uid}.${subjectToken(check)}.${attempt}.${number}`;
    const data = {
      workload: name(held.request), check, attempt, uid: workload.uid, state, reason, message: message.slice(0, 8192),
      requeueAfterSeconds, podSetUpdates,
    };
    const event = {
      specversion: "1.0", id, source: `controller/${this.name}`, type: "CheckVerdict", subject: data.workload,
      time: new Date().toISOString(), datacontenttype: "application/json", data,
    };
    while (this.active && !held.abort.signal.aborted) {
      try {
        const ack = await this.js.publish(this.subject, text.encode(JSON.stringify(event)), { msgID: id });
        log("verdict", { workload: data.workload, check, attempt, state, seq: ack.seq });
        return;
      } catch (error) {
        log("verdict not acknowledged", { id, error: error.message });
        await sleep(200);
      }
    }
  }
}

const name = (request) => `${request.workload.namespace}/${request.workload.name}`;

// Has the check passed, and was that not taken back?
const approved = (held) => held.request.state === "Ready" && !REFUSED.has(held.said?.state);

function requestKey({ controller, workload, check }) {
  return [controller, workload.namespace, workload.name, check].map(keyToken).join(".");
}

function parse(key, message) {
  try {
    return message.json();
  } catch (error) {
    log("unreadable request", { key, error: error.message });
    return null;
  }
}

function end(held) {
  clearTimeout(held.timer);
  held.abort.abort();
}
