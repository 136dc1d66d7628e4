// `consume` and `work`.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { fresh, quiet, sleep, turnabout, until, url } from "./setting.mjs";

const numbers = (count) => Array.from({ length: count }, (_, payload) => ({ payload }));

test("consume: one request a message", async () => {
  const { queue, requests } = await fresh();
  await queue.sendMany(numbers(20));
  requests.length = 0;
  const seen = [];
  for await (const message of queue.consume({ waitSeconds: 0, untilEmpty: true })) {
    seen.push(message.json());
  }
  assert.equal(seen.length, 20);
  assert.equal(requests.length, 21); // and one that found nothing
  assert.deepEqual(new Set(requests), new Set(["POST receive"]));
  assert.equal((await queue.stats()).done, 20);
});

test("consume: break gives back what is held, and acks what is done", async () => {
  const { queue } = await fresh();
  await queue.sendMany(numbers(5));
  for await (const message of queue.consume({ max: 5 })) if (message.json() === 2) break;
  const { done, ready, leased } = await queue.stats();
  assert.deepEqual({ done, ready, leased }, { done: 2, ready: 3, leased: 0 });
});

test("consume: an exception gives back, fail in a catch fails", async () => {
  const { queue } = await fresh({ max_attempts: 1 });
  await queue.send("x");
  await assert.rejects(async () => {
    for await (const message of queue.consume()) throw new Error(message.text());
  }, /x/);
  assert.equal((await queue.stats()).ready, 1);
  for await (const message of queue.consume({ waitSeconds: 0, untilEmpty: true })) {
    await message.fail("no");
  }
  assert.equal((await queue.stats()).dead, 1);
});

test("consume: a signal ends a wait", async () => {
  const { queue } = await fresh();
  const controller = new AbortController();
  void setTimeout(100).then(() => controller.abort());
  for await (const message of queue.consume({ waitSeconds: 30, signal: controller.signal })) {
    assert.fail(String(message));
  }
});

test("consume: a lost lease is told", async () => {
  const { queue } = await fresh();
  await queue.send("x");
  const lost = [];
  const options = { waitSeconds: 0, untilEmpty: true, leaseSeconds: 0.05 };
  for await (const message of queue.consume({ ...options, onLost: (one) => lost.push(one.id) })) {
    await sleep(60);
    assert.equal((await queue.receive()).messages[0].attempt, message.attempt + 1);
  }
  assert.equal(lost.length, 1);
});

/** Run a worker until something holds. */
async function working(queue, handler, holds, options = {}) {
  const controller = new AbortController();
  const stats = queue.work(handler, { ...quiet, signal: controller.signal, ...options });
  await Promise.race([until(holds), stats]).finally(() => controller.abort());
  return await stats;
}

test("work: one request a message", async () => {
  const { queue, requests } = await fresh();
  await queue.sendMany(numbers(20));
  requests.length = 0;
  let seen = 0;
  const stats = await working(queue, () => void (seen += 1), () => seen === 20 && requests.length > 20);
  assert.equal(stats.handled, 20);
  assert.deepEqual([...new Set(requests.slice(0, 21))], ["POST receive"]);
  assert.ok(requests.length <= 22, String(requests)); // at the stop the last ack once more, perhaps
});

test("work: as many handlers as told, and no more", async () => {
  const { queue, requests } = await fresh();
  await queue.sendMany(numbers(30));
  requests.length = 0;
  let [now, most, seen] = [0, 0, 0];
  const handler = async () => {
    most = Math.max(most, (now += 1));
    await sleep(5 + Math.random() * 20);
    now -= 1;
    seen += 1;
  };
  const stats = await working(queue, handler, () => seen === 30, { concurrency: 6 });
  assert.equal(most, 6);
  await assert.rejects(async () => queue.work(handler, { concurrency: 0 }), { code: "usage" });
  assert.deepEqual(stats, { handled: 30, failed: 0, released: 0, lost: 0 });
  assert.ok(requests.length <= 35, String(requests));
});

test("work: an ack does not wait for the end of a long poll, nor does what is sent meanwhile", async () => {
  const { queue } = await fresh();
  await queue.send("slow");
  let seen = 0;
  const handler = async () => {
    await sleep(150);
    seen += 1;
    return { seen };
  };
  const holds = async () => {
    if (seen === 1) await queue.sendMany(numbers(3));
    return (await queue.stats()).done >= 4;
  };
  const before = Date.now();
  await working(queue, handler, holds, { concurrency: 3, waitSeconds: 30 });
  assert.ok(Date.now() - before < 5000);
  const { entries } = await queue.client.call("history", { path: { queue: queue.name }, query: {} });
  assert.ok(entries.every(({ result }) => result.data.json.seen > 0));
});

test("work: heartbeats keep a short lease", async () => {
  const { queue, requests } = await fresh();
  await queue.send("x");
  let attempts = 0;
  const handler = async () => {
    attempts += 1;
    await sleep(1500);
  };
  const done = async () => (await queue.stats()).done === 1;
  const stats = await working(queue, handler, done, { leaseSeconds: 0.6 });
  assert.equal(attempts, 1);
  assert.deepEqual(stats, { handled: 1, failed: 0, released: 0, lost: 0 });
  assert.ok(requests.filter((one) => one === "POST extend").length >= 4);
});

test("work: an error fails the message with its text; GiveUp ends it", async () => {
  const { client, queue } = await fresh({ max_attempts: 2, backoff_seconds: 0 });
  await queue.sendMany([{ payload: "error" }, { payload: "hopeless" }, { payload: 1 }]);
  const told = [];
  const handler = async (message) => {
    if (message.delivery.payload.json === 1) return 10n; // not JSON
    if (message.text() === "hopeless") throw new turnabout.GiveUp("no use");
    throw new RangeError("it broke");
  };
  const onError = (error, message) => told.push([error.name, message.attempt]);
  const dead = async () => (await queue.stats()).dead === 3;
  const stats = await working(queue, handler, dead, { onError });
  assert.equal(stats.failed, 5);
  assert.equal(told.length, 5);
  const { items } = await client.queue(`${queue.name}-dead`).peek();
  const errors = items.map(({ origin }) => origin.last_error.split("\n")[0]).sort();
  assert.match(errors[0], /^GiveUp: no use|^Error: no use/);
  assert.ok(errors.includes("RangeError: it broke"));
});

test("work: a stop lets handlers finish, and gives back what does not", async () => {
  const { queue } = await fresh();
  await queue.sendMany([{ payload: 100 }, { payload: 60_000 }, { payload: 0 }]);
  const started = [];
  const aborted = [];
  const handler = async (message, { signal }) => {
    started.push(message.json());
    signal.addEventListener("abort", () => aborted.push(signal.reason.code));
    await setTimeout(message.json(), undefined, { signal });
  };
  const options = { concurrency: 2, graceSeconds: 0.5 };
  const stats = await working(queue, handler, () => started.length === 2, options);
  assert.deepEqual(stats, { handled: 1, failed: 0, released: 1, lost: 0 });
  assert.deepEqual(aborted, ["stopped"]);
  const { done, ready, leased } = await queue.stats();
  assert.deepEqual({ done, ready, leased }, { done: 1, ready: 2, leased: 0 });
});

test("work: a handler whose lease is lost is told, and its end does not count", async () => {
  const { queue } = await fresh();
  await queue.send("x");
  const reasons = [];
  const handler = async (message, { signal }) => {
    await queue.extend([message], { leaseSeconds: 0, exact: true });
    assert.equal((await queue.receive()).messages[0].attempt, 2); // by somebody else
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    reasons.push(signal.reason.code);
  };
  const stats = await working(queue, handler, () => reasons.length === 1, { leaseSeconds: 0.6 });
  assert.deepEqual(reasons, ["lease_lost"]);
  assert.deepEqual(stats, { handled: 0, failed: 0, released: 0, lost: 1 });
});

test("work: SIGTERM ends a program", { skip: process.platform === "win32" }, async () => {
  const { queue } = await fresh();
  await queue.sendMany([{ payload: 300 }, { payload: 0 }]);
  const program = fileURLToPath(new URL("program.mjs", import.meta.url));
  const child = spawn(process.execPath, [program, url, queue.name], { stdio: ["ignore", "pipe", "inherit"] });
  let out = "";
  child.stdout.on("data", (data) => (out += data));
  const exit = new Promise((resolve) => child.on("exit", resolve));
  await until(() => out.includes("begin 300"));
  child.kill("SIGTERM");
  assert.equal(await exit, 0);
  assert.match(out, /end 300\n\{"handled":1,"failed":0,"released":0,"lost":0\}\n$/);
  const { done, ready } = await queue.stats();
  assert.deepEqual({ done, ready }, { done: 1, ready: 1 });
});
