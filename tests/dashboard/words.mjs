// How values are shown: node words.mjs FOLDER

import assert from "node:assert/strict";

const folder = process.argv[2];
const { duration, fault, number, payload, rate, short, time, visible, TEXT_MAX } =
  await import(new URL("text.js", folder));
const { Rates, POINTS_MAX } = await import(new URL("rates.js", folder));
const { Api } = await import(new URL("api.js", folder));

for (const mark of [0, 8, 0xb, 0x1b, 0x7f, 0x85, 0xad, 0x61c, 0x200b, 0x200f, 0x2028, 0x202a, 0x202e,
  0x2066, 0x2069, 0xfeff, 0xe0041, 0xd800, 0xdfff]) {
  assert.equal(visible(`a${String.fromCodePoint(mark)}b`), `a\\u{${mark.toString(16)}}b`);
}
for (const text of ["grüße", "日本語", "שלום", "😀", "tab\tand\nline", "<b>&amp;"]) {
  assert.equal(visible(text), text);
}

assert.deepEqual([0, 0.25, 1, 61, 3_600, 90_061, null].map(duration),
  ["0 s", "250 ms", "1 s", "1 min 1 s", "1 h", "1 d 1 h", "–"]);
assert.deepEqual([null, 0, 1.25, 1234.5].map(rate), ["–", "0", "1.3", "1,235"]);
assert.equal(number(1234567), "1,234,567");
assert.equal(time(9e15), "never");
assert.match(time(1_800_000_000_000), /^2027-01-1\d \d\d:\d\d:\d\d$/);

assert.deepEqual(payload({ json: { a: "\u202e" } }), { kind: "json", text: '{\n  "a": "\\u{202e}"\n}' });
assert.deepEqual(payload({ text: "a\u0007" }), { kind: "text", text: "a\\u{7}" });
assert.deepEqual(payload({ base64: "/wA=" }), { kind: "base64", text: "/wA=" });
assert.equal(payload(null).kind, "not kept");
assert.match(payload({ text: "x".repeat(TEXT_MAX + 5) }).text, /… 5 more characters$/);
const trace = 'Traceback (most recent call last):\n  File "a.py", line 4, in f\n    g()\n    ^^^\n';
assert.equal(fault(`${trace}ValueError: no such\nuser\n`), "ValueError: no such user");
assert.equal(fault("550 no such user\nat line 7"), "550 no such user at line 7");
assert.equal(short("a\nb".repeat(50), 10), "a ba ba b…");

const stats = (queue, sent, done) => ({ queue, sent, done, dead: 0, cancelled: 0, expired: 0 });
const rates = new Rates();
rates.add(1_000, [stats("a", 10, 0), stats("b", 5, 5)]);
assert.deepEqual(rates.of("a"), { sent: null, finished: null });
rates.add(3_000, [stats("a", 30, 4), stats("b", 1, 5)]); // b was redriven: no rate below nothing
assert.deepEqual(rates.of("a"), { sent: 10, finished: 2 });
assert.deepEqual(rates.of("b"), { sent: 0, finished: 0 });
assert.deepEqual(rates.chart().at(-1), { at: 3_000, sent: 10, finished: 2 });
rates.add(4_000, [stats("a", 30, 4)]); // b is gone
assert.deepEqual(rates.of("b"), { sent: null, finished: null });
for (let i = 0; i < 200; i += 1) rates.add(5_000 + i, [stats("a", 30, 4)]);
assert.equal(rates.chart("a").length, POINTS_MAX);

assert.equal(Api.queue("a b", "/messages", { limit: 2, state: "", channel: "x/y&z", cursor: null }),
  "/queues/a%20b/messages?limit=2&channel=x%2Fy%26z");
console.log("well");
