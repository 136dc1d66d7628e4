// The dashboard's own code at work against a real server: node page.mjs FOLDER URL TOKEN

import assert from "node:assert/strict";
import { open, until } from "./dom.mjs";

const [folder, base, token] = process.argv.slice(2);
const { part, kept, go } = open(folder, base);
const page = () => part("page").textContent;
const click = (title) => part("page").button(title).fire("click");

// Without a token it says what is missing, and asks nothing else.
await import(new URL("app.js", folder));
await until("the problem", () => !part("problem").hidden);
assert.match(part("problem").textContent, /needs a token/);

// A wrong one is told apart; the right one is kept in this tab only.
part("token").value = "tbt_wrong";
part("token-form").fire("submit");
await until("the refusal", () => part("problem").textContent.includes("does not accept this token"));
part("token").value = ` ${token} `;
part("token-form").fire("submit");
await until("the list", () => page().includes("emails"));
part("token-forget").fire("click");
await until("nothing", () => part("problem").textContent.includes("needs a token"));
go(`#token=${token}`);
await until("the list, by a link with the token", () => page().includes("emails"));
assert.equal(part("problem").hidden, true);
assert.equal(location.hash, "");
assert.equal(part("problem").hidden, true);
assert.equal(part("token").value, "");
assert.deepEqual([...kept.values()], [token]);

// Pause and resume, from the list.
const row = () => part("page").all("tr").find((one) => one.getAttribute("data-key") === "emails");
row().all("button")[0].fire("click");
await until("pausing", () => row().textContent.includes("paused: from the dashboard"));
assert.equal(row().all("button")[0].getAttribute("aria-label"), "Resume emails");
row().all("button")[0].fire("click");
await until("resuming", () => row().textContent.includes("running"));

// A queue: its channels, and why one waits.
go("#/emails");
await until("channels", () => page().includes("as many leased as max_concurrency allows"));
await until("where its dead go", () => page().includes("What dies here goes to emails-dead"));
assert.equal(document.title, "emails – Turnabout");

// Messages: payloads are text and nothing else, and what turns text around is written out.
go("#/emails/messages");
await until("messages", () => page().includes("customer-1"));
assert.match(page(), /<script>alert\(1\)<\/script>/);
assert.match(page(), /\\u\{202e\}/);
assert.ok(!page().includes("\u202e"));
assert.equal(part("page").all("script").length, 0);
assert.match(page(), /12345678901234567890/);

// History, with errors.
go("#/emails/history");
await until("history", () => page().includes("550 no such user"));

// Dead letters: their story, and the way back.
go("#/emails-dead/messages");
await until("letters", () => page().includes("died in emails: refused"));
const [box] = part("page").all("input").filter((one) => one.getAttribute("type") === "checkbox");
assert.ok(part("page").button("Send chosen back…").disabled);
box.checked = true;
box.fire("change");
click("Send 1 back…");
await until("the question of one", () => part("ask").isOpen);
assert.match(part("ask-text").textContent, /1 messages go back/);
part("ask-no").fire("click");
click("Redrive…");
await until("the question", () => part("ask").isOpen);
assert.match(part("ask-text").textContent, /1 messages go back/);
part("ask-form").fire("submit");
await until("the redrive", () => part("notice").textContent.includes("1 messages were sent back"));
go("#/emails-dead/redrives");
await until("its record", () => page().includes("done"));

// Purge: not without the name, and not if somebody thinks better of it.
go("#/emails");
await until("the page", () => page().includes("Purge…"));
click("Purge…");
await until("the question", () => part("ask").isOpen);
assert.equal(part("ask-yes").disabled, true);
part("ask-form").fire("submit");
assert.equal(part("ask").isOpen, true);
part("ask-no").fire("click");
assert.equal(part("ask").isOpen, false);
click("Purge…");
part("ask-name").value = "emails";
part("ask-name").fire("input");
assert.equal(part("ask-yes").disabled, false);
part("ask-form").fire("submit");
await until("the purge", () => /\d+ messages were cancelled/.test(part("notice").textContent));

// What was refused stays to be read, however well the counts come in meanwhile.
const fetched = globalThis.fetch;
let looks = 0;
globalThis.fetch = (path, how) => {
  if (path === "/v1/stats") looks += 1;
  return how.method === "PATCH" ? fetched("/v1/queues/emails", { ...how, body: '{"weight": 0}' })
    : fetched(path, how);
};
click("Pause");
await until("two looks", () => looks >= 2);
assert.match(part("problem").textContent, /weight/);
assert.equal(part("problem").hidden, false);
assert.equal(part("connection").textContent, "connected");
globalThis.fetch = fetched;

// A queue that is not there, and a token that is forgotten.
go("#/nobody");
await until("the notice", () => part("notice").textContent.includes("no queue nobody")
  || !part("problem").hidden);
part("token-forget").fire("click");
await until("the refusal", () => part("problem").textContent.includes("needs a token"));
assert.equal(kept.size, 0);

console.log("well");
process.exit(0);
