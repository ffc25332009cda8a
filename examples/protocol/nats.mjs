// NATS in plain JavaScript: what a program needs to speak to a cell, on nothing but Node's own `net`.
//
//   const nats = await connect();
//   await nats.request("sluice.main.query.status", {});
//
// For a program of your own take a client library: this one knows no TLS, keys or reconnects.

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { createConnection } from "node:net";
import { dirname, join } from "node:path";

/** The address of the cell that `sluice up` started here or above, or SLUICE_NATS_URL. */
export function address() {
  if (process.env.SLUICE_NATS_URL) return process.env.SLUICE_NATS_URL;
  for (let at = process.cwd(); ; at = dirname(at)) {
    try {
      return JSON.parse(readFileSync(join(at, ".sluice", "up.json"), "utf8")).url;
    } catch (error) {
      if (at === dirname(at)) throw error;
    }
  }
}

/** A connection, once the server has taken the login. */
export async function connect(url = new URL(address())) {
  const socket = createConnection(Number(url.port || 4222), url.hostname);
  const nats = new Nats(socket);
  const [user, pass] = [url.username, url.password].map(decodeURIComponent);
  nats.send(`CONNECT ${JSON.stringify({ verbose: false, headers: true, no_responders: true, user, pass })}`);
  nats.hearAnswers();
  await nats.ping();
  return nats;
}

class Nats {
  #socket;
  #read = Buffer.alloc(0);
  #subscriptions = new Map();
  #pongs = [];
  #inbox = `_INBOX.${randomBytes(8).toString("hex")}`;
  #numbers = 0;
  #answers = new Map();

  constructor(socket) {
    this.#socket = socket;
    socket.on("data", (data) => this.#parse(data));
  }

  hearAnswers() {
    this.subscribe(`${this.#inbox}.*`, (message) => this.#answers.get(message.subject)?.(message));
  }

  send(line, body = "") {
    this.#socket.write(`${line}\r\n${body}`);
  }

  ping() {
    this.send("PING");
    return new Promise((resolve, reject) => this.#pongs.push({ resolve, reject }));
  }

  subscribe(subject, heard) {
    const number = ++this.#numbers;
    this.#subscriptions.set(`${number}`, heard);
    this.send(`SUB ${subject} ${number}`);
  }

  /** Publish `data` as JSON. */
  publish(subject, data, { headers = {}, reply = "" } = {}) {
    const text = data === undefined ? "" : JSON.stringify(data);
    const lines = Object.entries(headers).map(([key, value]) => `${key}: ${value}\r\n`);
    const head = lines.length ? `NATS/1.0\r\n${lines.join("")}\r\n` : "";
    const [ahead, whole] = [Buffer.byteLength(head), Buffer.byteLength(head + text)];
    const sizes = head ? `${ahead} ${whole}` : `${whole}`;
    this.send(`${head ? "HPUB" : "PUB"} ${subject} ${reply ? `${reply} ` : ""}${sizes}`, `${head}${text}\r\n`);
  }

  /** Ask, and return the answer's JSON; of JetStream, what it refuses is thrown. */
  async request(subject, data, headers = {}) {
    const reply = `${this.#inbox}.${++this.#numbers}`;
    const answered = new Promise((resolve) => this.#answers.set(reply, resolve));
    this.publish(subject, data, { headers, reply });
    const { json, headers: said } = await answered;
    this.#answers.delete(reply);
    if (said.startsWith("NATS/1.0 503")) throw new Error(`nobody answers on ${subject}`);
    if (json?.error) throw Object.assign(new Error(json.error.description), { code: json.error.err_code });
    return json;
  }

  close() {
    this.#socket.end();
  }

  // One operation after the other, as far as they are there whole.
  #parse(data) {
    this.#read = Buffer.concat([this.#read, data]);
    for (let end; (end = this.#read.indexOf("\r\n")) >= 0; ) {
      const [operation, ...words] = this.#read.toString("utf8", 0, end).split(" ");
      let begin = end + 2;
      if (operation === "MSG" || operation === "HMSG") {
        const whole = Number(words.at(-1));
        if (this.#read.length < begin + whole + 2) return;
        const ahead = operation === "HMSG" ? Number(words.at(-2)) : 0;
        this.#deliver(words, this.#read.subarray(begin, begin + whole), ahead);
        begin += whole + 2;
      } else if (operation === "PING") this.send("PONG");
      else if (operation === "PONG") this.#pongs.shift()?.resolve();
      else if (operation === "-ERR") this.#refused(words.join(" "));
      this.#read = this.#read.subarray(begin);
    }
  }

  #deliver([subject, number], payload, ahead) {
    const text = payload.toString("utf8", ahead);
    const message = { subject, headers: payload.toString("utf8", 0, ahead), json: text ? JSON.parse(text) : undefined };
    this.#subscriptions.get(number)?.(message);
  }

  #refused(reason) {
    const error = new Error(`the server says: ${reason}`);
    const waiting = this.#pongs.shift();
    if (waiting) waiting.reject(error);
    else throw error;
  }
}
