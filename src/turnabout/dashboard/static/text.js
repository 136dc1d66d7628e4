// How values are shown: pure functions, without a page.

// Characters that change how others look, or are not seen at all: controls (but tab and newline),
// marks of direction, joiners and spaces without width, line separators, tags, lone surrogates.
const HIDDEN = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5" +
    "\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff" +
    "\\uffa0\\ufff0-\\ufffb\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}" +
    "\\ud800-\\udfff]",
  "gu",
);

export const TEXT_MAX = 20_000;

/** Text from anywhere, safe for the eye: what hides or turns text around is written as \u{…}. */
export function visible(value) {
  return String(value).replace(HIDDEN, (mark) => `\\u{${mark.codePointAt(0).toString(16)}}`);
}

export function number(value) {
  return value.toLocaleString("en");
}

/** How many are leased, and of how many the lease ran out while nobody looked. */
export function leased(stats) {
  return number(stats.leased) + (stats.ran_out ? ` (${number(stats.ran_out)} ran out)` : "");
}

export function rate(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  return value < 10 ? value.toFixed(1) : number(Math.round(value));
}

const UNITS = [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]];

/** Seconds, in the largest unit that fits and the next one. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return seconds > 0 ? `${Math.round(seconds * 1000)} ms` : "0 s";
  const at = UNITS.findIndex(([, size]) => seconds >= size);
  const [unit, size] = UNITS[at];
  const whole = `${Math.floor(seconds / size)} ${unit}`;
  const rest = UNITS[at + 1] && Math.floor((seconds % size) / UNITS[at + 1][1]);
  return rest ? `${whole} ${rest} ${UNITS[at + 1][0]}` : whole;
}

/** An instant in milliseconds, in the reader's time zone. */
export function time(ms) {
  if (ms === null || ms === undefined) return "–";
  const at = new Date(ms);
  if (ms > 8e15 || Number.isNaN(at.getTime())) return "never";
  const two = (part) => String(part).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ` +
    `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** A payload as the server says it, `{json}`, `{text}` or `{base64}`: text, and what kind it is. */
export function payload(content) {
  if (content === null || content === undefined) return { kind: "not kept", text: "" };
  const kind = Object.keys(content)[0] ?? "empty";
  const whole = kind === "json" ? JSON.stringify(content.json, null, 2) : String(content[kind] ?? "");
  const text = visible(whole.slice(0, TEXT_MAX));
  const left = whole.length - TEXT_MAX;
  return { kind, text: left > 0 ? `${text}\n… ${number(left)} more characters` : text };
}

/** Text cut to a line's worth. */
export function short(value, most = 80) {
  const line = visible(value).replaceAll("\n", " ");
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}

/** An error in a line: of a traceback, what stands behind its frames. */
export function fault(error, most = 80) {
  if (!error.startsWith("Traceback ")) return short(error, most);
  const behind = error.trimEnd().split('\n  File "').at(-1).split("\n").slice(1);
  return short(behind.filter((line) => !line.startsWith(" ")).join("\n") || error, most);
}
