import assert from "node:assert/strict";
import { rm, writeFile } from "node:fs/promises";
import { test } from "node:test";

import { check, watch } from "./check.js";
import { keyToken, subjectToken } from "./controller.js";

const request = (labels = {}, cpu = 1000) => ({
  workload: { namespace: "default", name: "job-train-1", uid: "1", job: "train" },
  check: "hello",
  attempt: 1,
  podSets: [{ name: "main", count: 1, requests: { cpu }, labels }],
  assignment: [{ name: "main", count: 1, flavors: { cpu: "default" }, usage: { cpu } }],
});

test("a workload may run", async () => {
  assert.equal((await check(request())).state, "Ready");
});

test("a label holds it", async () => {
  assert.equal((await check(request({ hold: "true" }))).state, "Pending");
});

test("there is a limit", async () => {
  assert.equal((await check(request({}, 2_000_000))).state, "Rejected");
});

test("an approval is taken back", async (context) => {
  assert.equal(await watch(request()), undefined);
  context.after(() => rm("denied.txt"));
  await writeFile("denied.txt", "train\n");
  assert.equal((await watch(request())).state, "Retry");
});

test("names become tokens", () => {
  assert.equal(keyToken("example.com/a_b"), "example=2Ecom=2Fa=5Fb");
  assert.equal(subjectToken("example.com/a_b"), "example%2Ecom%2Fa_b");
});
