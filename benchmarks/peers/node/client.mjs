// A client process of a peer on Node: `node client.mjs FOLDER PEER URL`. A line of JSON comes in, a
// line goes out; see ../on_node.py. The clock is the one that all processes of a machine share.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [folder, name, url] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const QUEUE = "bench";
const WARM_CALLS = 6;
const STAMP_DIGITS = 20;

const seconds = () => Number(process.hrtime.bigint()) / 1e9;
const sleep = (s) => new Promise((resolve) => setTimeout(resolve, s * 1000));
const cpuNs = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) * 1000;
};
const stamp = () => String(process.hrtime.bigint()).padStart(STAMP_DIGITS, "0");
const age = (text) => Number(process.hrtime.bigint() - BigInt(text)) / 1e9;

class PgBossPeer {
  async open() {
    const PgBoss = require("pg-boss");
    this.boss = new PgBoss({ connectionString: url, supervise: false, schedule: false });
    this.boss.on("error", () => {});
    await this.boss.start();
  }
  async install() {
    await this.boss.createQueue(QUEUE);
  }
  async put(count, text) {
    if (count === 1) await this.boss.send(QUEUE, { p: text });
    else {
      const jobs = Array.from({ length: count }, () => ({ name: QUEUE, data: { p: text } }));
      await this.boss.insert(jobs);
    }
  }
  async step(job) {
    const found = await this.boss.fetch(QUEUE, { batchSize: job.batch });
    if (found.length) await this.boss.complete(QUEUE, found.map((one) => one.id));
    return found.length;
  }
  async work(job, begun) {
    let messages = 0;
    let now;
    do {
      const found = await this.step(job);
      if (!found) break;
      messages += found;
      now = seconds() - begun;
    } while (now < job.seconds && messages < job.most);
    return { messages, seconds: seconds() - begun };
  }
  async close() {
    await this.boss.stop({ graceful: false });
  }
}

class GraphileWorkerPeer {
  async open() {
    this.module = require("graphile-worker");
    const { Logger, makeWorkerUtils } = this.module;
    this.quiet = new Logger(() => () => {});
    this.utils = await makeWorkerUtils({ connectionString: url, logger: this.quiet });
  }
  async install() {
    await this.utils.migrate();
  }
  async put(count, text) {
    const job = { identifier: QUEUE, payload: { p: text } };
    if (count === 1) await this.utils.addJob(QUEUE, { p: text });
    else await this.utils.addJobs(Array.from({ length: count }, () => job));
  }
  async step() {}
  // The clock starts with the first message: how long a worker takes to start is not measured.
  async work(job) {
    const { run, WorkerPreset } = this.module;
    const many = job.batch > 1;
    const waits = [];
    let messages = 0;
    let first = 0;
    let last = 0;
    const handler = (payload) => {
      last = seconds();
      if (!messages++) first = last;
      if (job.action === "listen") waits.push(age(payload.p));
    };
    const worker = { concurrentJobs: Math.min(job.batch, 24), logger: this.quiet };
    if (many) Object.assign(worker, { localQueue: { size: job.batch }, completeJobBatchDelay: 0 });
    const preset = { extends: [WorkerPreset], worker };
    const runner = await run({
      connectionString: url, noHandleSignals: true, taskList: { [QUEUE]: handler }, preset,
    });
    const ends = seconds() + job.seconds;
    let before = -1;
    const more = () => job.action === "listen" || !messages || messages !== before;
    while (seconds() < ends && messages < job.most && more()) {
      before = messages;
      await sleep(Math.min(0.1, Math.max(0, ends - seconds())));
    }
    await runner.stop();
    return { messages, seconds: job.seconds, waits, span: last > first ? [first, last] : null };
  }
  async close() {
    await this.utils.release();
  }
}

const peer = name === "pg-boss" ? new PgBossPeer() : new GraphileWorkerPeer();
await peer.open();

async function warm(job) {
  const text = "x".repeat(job.size);
  for (let i = 0; i < WARM_CALLS; i++) {
    if (job.action === "put") await peer.put(job.batch, text);
    else if (job.action === "drain") await peer.step(job);
  }
  return {};
}

async function send(job) {
  const text = "x".repeat(job.size);
  const begun = seconds();
  let calls = 0;
  while (seconds() - begun < job.seconds) {
    await peer.put(job.batch, text);
    calls++;
  }
  return { messages: calls * job.batch, seconds: seconds() - begun };
}

async function pace(job) {
  const begun = seconds();
  const count = Math.floor(job.seconds * job.rate);
  for (let i = 0; i < count; i++) {
    const wait = begun + i / job.rate - seconds();
    if (wait > 0) await sleep(wait);
    await peer.put(1, stamp());
  }
  return { messages: count, seconds: seconds() - begun };
}

async function run(job) {
  const spent = cpuNs();
  const work = { put: send, pace }[job.action] ?? ((j) => peer.work(j, seconds()));
  const done = await work(job);
  return { ...done, calls: done.messages, empty: 0, client_ns: cpuNs() - spent };
}

const ask = { install: () => peer.install(), warm, run };
for await (const line of createInterface({ input: process.stdin })) {
  const job = JSON.parse(line);
  let answer;
  try {
    answer = (await ask[job.what](job)) ?? {};
  } catch (error) {
    answer = { error: String(error?.stack ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await peer.close();
process.exit(0);
