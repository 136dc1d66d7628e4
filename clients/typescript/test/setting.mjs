// What the tests share: the client (of `src`, or another build of it), and queues of their own.

const { TURNABOUT_CLIENT = "../src/index.ts" } = process.env;

export const turnabout = await import(TURNABOUT_CLIENT);
export const url = process.env.TURNABOUT_TEST_URL;
/** A server that wants this token. */
export const guarded = {
  url: process.env.TURNABOUT_TEST_GUARDED_URL,
  token: process.env.TURNABOUT_TEST_TOKEN,
};

/** A client that counts its requests, and an empty queue. */
export async function fresh(settings = {}, options = {}) {
  const requests = [];
  const counting = (input, init) => {
    requests.push(`${init.method} ${new URL(input).pathname.split("/").at(-1)}`);
    return fetch(input, init);
  };
  const client = new turnabout.Client({ url, fetch: counting, ...options });
  const queue = client.queue(`q-${crypto.randomUUID()}`);
  await client.call("queue_create", { body: { queue: queue.name, settings } });
  requests.length = 0;
  return { client, queue, requests };
}

/** Wait until something holds, for at most ten seconds. */
export async function until(holds) {
  const end = Date.now() + 10_000;
  for (;;) {
    if (await holds()) return;
    if (Date.now() > end) throw new Error(`not within ten seconds: ${holds}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export const quiet = { onError: () => undefined };
