// A queue over HTTP, with nothing but fetch: `node examples/javascript/queue.mjs [URL]`.
// The server: `turnabout serve --url sqlite:///app.db`. Its token: TURNABOUT_TOKEN.

const server = process.argv[2] ?? "http://127.0.0.1:8080";
const token = process.env.TURNABOUT_TOKEN;

/** Every answer is JSON. 409 is an outcome too: refused, as a limit is reached. */
async function call(method, path, body) {
  const headers = { "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(server + path, { method, headers, body: JSON.stringify(body) });
  const answer = await response.json();
  if (response.ok || response.status === 409) return answer;
  // `retryable`: it did not happen, so the same call may be repeated after a moment.
  throw Object.assign(new Error(answer.error.message), answer.error);
}

const queue = "/v1/queues/emails";

// With a dedup_key a send whose answer was lost can be repeated: what was there is a duplicate.
const sent = await call("POST", `${queue}/messages`, {
  messages: [
    { payload: { json: { to: "ada@example.org" } }, channel: "customer-1", dedup_key: "welcome-1" },
    { payload: { json: { to: "alan@example.org" } }, channel: "customer-2" },
  ],
});
console.log(sent.outcome, sent.ids.length);

// A worker: wait up to 20 seconds for messages, handle each, and say that it is done.
for (let todo = sent.ids.length - (sent.duplicates ?? []).length; todo > 0; ) {
  const { deliveries } = await call("POST", `${queue}/receive`, {
    max_messages: 10,
    lease_seconds: 60,
    wait_seconds: 20,
  });
  for (const { payload, receipt, channel } of deliveries) {
    console.log(channel, payload.json.to);
    const { items } = await call("POST", `${queue}/ack`, { receipts: [receipt] });
    console.log(items[0].outcome); // or lease_lost: it took longer than its lease
    todo -= 1;
  }
}

try {
  await call("GET", "/v1/queues/no-such-queue");
} catch (error) {
  console.log(error.code, error.retryable);
}

// It prints:
//   sent 2
//   customer-1 ada@example.org
//   acked
//   customer-2 alan@example.org
//   acked
//   queue_not_found false
