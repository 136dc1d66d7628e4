// Verbs, payloads, errors, and what is repeated.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";
import { fresh, guarded, turnabout, url } from "./setting.mjs";

const { Client, TurnaboutError } = turnabout;

test("send, receive, ack with the next receive", async () => {
  const { queue, requests } = await fresh();
  const sent = await queue.sendMany([{ payload: "one" }, { payload: { n: 2 }, channel: "c" }]);
  assert.equal(sent.outcome, "sent");
  assert.equal(sent.ids.length, 2);
  const first = await queue.receive({ leaseSeconds: 30 });
  assert.equal(first.messages[0].text(), "one");
  assert.equal(first.messages[0].leaseSeconds, 30);
  const second = await queue.receive({ acks: first.messages });
  assert.deepEqual(second.acked, [{ outcome: "acked" }]);
  assert.deepEqual(second.messages[0].json(), { n: 2 });
  assert.equal(second.messages[0].channel, "c");
  assert.deepEqual(await second.messages[0].ack({ ok: true }), { outcome: "acked" });
  assert.deepEqual(await second.messages[0].ack(), { outcome: "lease_lost", now: "gone" });
  assert.equal((await queue.stats()).done, 2);
  assert.deepEqual(requests.slice(0, 3), ["POST messages", "POST receive", "POST receive"]);
});

test("fields and headers arrive, in the words of /v1", async () => {
  const { queue } = await fresh();
  await queue.send("x", { delaySeconds: 0, priority: 3, headers: { Trace: "7" }, dedupKey: "k" });
  const again = await queue.send("x", { dedupKey: "k" });
  assert.deepEqual(again.duplicates, [0]);
  const { items } = await queue.peek({ limit: 5 });
  assert.equal(items[0].priority, 3);
  const { messages } = await queue.receive();
  assert.equal(messages[0].delivery.priority, 3);
  assert.deepEqual(Object.values(messages[0].headers), ["7"]);
});

test("text, JSON and bytes come as they went", async () => {
  const { queue } = await fresh();
  const bytes = Uint8Array.from({ length: 70_000 }, (_, at) => at % 256);
  const all = ["", "\uFEFFä€😀", [1, null], null, false, bytes, new Uint8Array(), bytes.buffer];
  await queue.sendMany(all.map((payload) => ({ payload })));
  const { messages } = await queue.receive({ max: 10 });
  assert.deepEqual(messages[0].bytes(), new Uint8Array());
  assert.equal(messages[1].text(), "\uFEFFä€😀");
  assert.deepEqual(messages[2].json(), [1, null]);
  assert.deepEqual(messages[2].text(), "[1,null]");
  assert.equal(messages[3].json(), null);
  assert.equal(messages[4].json(), false);
  assert.deepEqual(messages[5].bytes(), bytes);
  assert.throws(() => messages[5].text(), TypeError);
  assert.throws(() => messages[1].json(), SyntaxError);
  assert.equal(messages[6].bytes().length, 0);
  assert.deepEqual(messages[7].bytes(), bytes);
  await assert.rejects(async () => queue.send(undefined), { code: "usage" });
});

test("FIFO: the next of a channel opens with the ack in the same call", async () => {
  const { queue } = await fresh({ fifo: true });
  await queue.sendMany([1, 2, 3].map((payload) => ({ payload, channel: "a" })));
  const seen = [];
  let acks = [];
  for (let at = 0; at < 4; at += 1) {
    const { messages } = await queue.receive({ max: 5, acks });
    seen.push(messages.map((message) => message.json()));
    acks = messages;
  }
  assert.deepEqual(seen, [[1], [2], [3], []]);
});

test("fail, release, defer, extend", async () => {
  const { queue } = await fresh({ backoff_seconds: 0, max_attempts: 2 });
  await queue.send("x");
  const take = async () => (await queue.receive({ waitSeconds: 5 })).messages[0];
  assert.equal((await (await take()).release()).outcome, "released");
  assert.equal((await (await take()).defer(0, { page: 2 })).outcome, "deferred");
  const message = await take();
  assert.deepEqual(message.delivery.state, { text: '{"page":2}' });
  assert.equal((await message.extend({ leaseSeconds: 60 })).outcome, "extended");
  const failed = await message.fail(new RangeError("too far"), { delaySeconds: 0 });
  assert.equal(failed.outcome, "retrying");
  assert.match((await queue.peek()).items[0].error, /^RangeError: too far\n +at /);
  assert.equal((await (await take()).fail("again")).outcome, "dead");
});

test("a full queue is an outcome", async () => {
  const { queue } = await fresh({ max_messages: 1 });
  await queue.send("x");
  const refused = await queue.send("y");
  assert.equal(refused.outcome, "queue_full");
});

test("errors have a code, and are not repeated without a reason", async () => {
  const { client, queue, requests } = await fresh();
  await assert.rejects(queue.receive({ max: 0 }), { code: "usage", status: 400, retryable: false });
  await assert.rejects(client.queue("..").send("x"), { code: "usage", status: 0 });
  await assert.rejects(client.queue("a/b").stats(), { code: "usage" });
  assert.equal(requests.length, 1);
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = listener.address();
  await new Promise((resolve) => listener.close(resolve)); // now nobody is there
  const away = new Client({ url: `http://127.0.0.1:${port}`, retries: 1 });
  await assert.rejects(away.queue("q").send("x"), { code: "disconnected", retryable: true });
});

test("a token is wanted, and taken from an option or the URL", async () => {
  const refused = new Client({ url: guarded.url }).queue("q").send("x");
  await assert.rejects(refused, { code: "unauthorized", status: 401, name: "TurnaboutError" });
  assert.equal((await new Client(guarded).queue("q").send("x")).outcome, "sent");
  const within = guarded.url.replace("://", `://${guarded.token}@`);
  assert.equal((await new Client({ url: within }).queue("q").send("x")).outcome, "sent");
  const wrong = new Client({ ...guarded, token: "tbt_wrong" }).queue("q");
  await assert.rejects(wrong.work(() => undefined), { code: "unauthorized" });
  await assert.rejects(async () => {
    for await (const message of wrong.consume()) assert.fail(String(message));
  }, { code: "unauthorized" });
});

/** A client whose first answers are these; then the server's. */
function faulty(...answers) {
  const calls = [];
  const client = new Client({
    url,
    fetch: (input, init) => {
      calls.push(init);
      const answer = answers.shift();
      if (answer instanceof Error) return Promise.reject(answer);
      return answer === undefined ? fetch(input, init) : Promise.resolve(answer);
    },
  });
  return { client, calls };
}

const busy = (headers) =>
  new Response(JSON.stringify({ error: { code: "busy", message: "later", retryable: true } }), {
    status: 503,
    headers,
  });
const lost = () => new TypeError("fetch failed", { cause: { code: "ECONNRESET" } });
const unconnected = () => new TypeError("fetch failed", { cause: { code: "ECONNREFUSED" } });

test("what did not happen is repeated, after what the server asks for", async () => {
  const { queue } = await fresh();
  const { client, calls } = faulty(busy({ "Retry-After": "0.3" }), unconnected());
  const before = Date.now();
  assert.equal((await client.queue(queue.name).send("x")).outcome, "sent");
  assert.equal(calls.length, 3);
  assert.ok(Date.now() - before >= 300);
});

test("a send that may have happened is repeated with a key only", async () => {
  const { queue } = await fresh();
  const cases = [
    [(q) => q.send("x"), 1],
    [(q) => q.send("x", { dedupKey: "a" }), 2],
    [(q) => q.send("x", { dedupKey: "a", dedupMode: "until_started" }), 1],
    [(q) => q.sendMany([{ payload: 1, dedupKey: "b" }, { payload: 2 }]), 1],
    [(q) => q.send("x", {}, { idempotencyKey: "c" }), 2],
    [(q) => q.receive(), 2],
    [(q) => q.ack([]), 2],
    [(q) => q.stats(), 2],
  ];
  for (const [call, tries] of cases) {
    const { client, calls } = faulty(lost());
    const result = await call(client.queue(queue.name)).catch((error) => error);
    assert.equal(calls.length, tries, String(call));
    if (tries === 1) assert.equal(result.code, "uncertain");
  }
});

test("answers of something else are errors, by what their status tells", async () => {
  const page = (status) => new Response("<html>", { status });
  for (const [status, code] of [[200, "not_turnabout"], [302, "not_turnabout"], [504, "uncertain"]]) {
    const { client } = faulty(page(status));
    await assert.rejects(client.queue("q").send("x"), { code, status });
  }
  const { client, calls } = faulty(page(429));
  await client.queue("q").send("x");
  assert.equal(calls.length, 2);
  assert.equal(calls[0].redirect, "manual");
});

test("a signal and a limit end a call", async () => {
  const { queue } = await fresh();
  const controller = new AbortController();
  const waiting = queue.receive({ waitSeconds: 30, signal: controller.signal });
  setTimeout(() => controller.abort(new Error("enough")), 50);
  await assert.rejects(waiting, { message: "enough" });
  const never = () => new Promise((_, reject) => setTimeout(() => reject(new Error("late")), 400));
  const slow = new Client({
    url,
    timeoutMs: 30,
    retries: 0,
    fetch: (_, { signal }) =>
      Promise.race([never(), new Promise((_, no) => signal.addEventListener("abort", no))]),
  });
  await assert.rejects(slow.queue("q").send("x"), { code: "uncertain" });
  await assert.rejects(slow.queue("q").stats(), { code: "disconnected" });
  assert.ok(new TurnaboutError("a", "b") instanceof Error);
});
