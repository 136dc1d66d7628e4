// A worker that is stopped by a signal: `node program.mjs URL QUEUE`. Payloads are milliseconds.

import { sleep, turnabout } from "./setting.mjs";

const [, , url, name] = process.argv;
const queue = new turnabout.Client({ url }).queue(name);
const stats = await queue.work(
  async (message) => {
    console.log(`begin ${message.json()}`);
    await sleep(message.json());
    console.log(`end ${message.json()}`);
  },
  { stopOnSignals: true, onError: () => undefined },
);
console.log(JSON.stringify(stats));
