// The page: what is shown, when it is asked for, and what the token is. See queue.js for a queue.

import { Api, Problem } from "./api.js";
import { Chart } from "./chart.js";
import { el, rows, say, table } from "./dom.js";
import { QueuePage } from "./queue.js";
import { Rates } from "./rates.js";
import { duration, leased, number, rate } from "./text.js";

const LOOK_MS = 2_000;
const part = (id) => document.getElementById(id);

const api = new Api((...given) => globalThis.fetch(...given), globalThis.sessionStorage);
const rates = new Rates();
let page = null;
let problemBy = null;
let begun = 0;
let timer = null;
let turn = 0;

/** What pages may do: call, tell, and look again. */
const desk = {
  api,
  rates,
  tell(text) {
    say(part("notice"), text);
  },
  /** Do something that may be refused; whether it went well. */
  attempt: (work) => attempt("deed", work),
  look: () => look(),
};

async function attempt(by, work) {
  const mine = ++begun;
  try {
    await work();
    problem(by, mine, null);
    return true;
  } catch (error) {
    problem(by, mine, error);
    return false;
  }
}

/** What went wrong stays to be read until the same goes well, begun later: a look says nothing about
    a deed, nor does the end of an earlier one. */
function problem(by, mine, error) {
  if (error) problemBy = { by, mine };
  else if (problemBy?.by !== by || mine < problemBy.mine) return;
  part("problem").hidden = !error;
  if (!error) return;
  if (!(error instanceof Problem)) throw error;
  const texts = {
    401: api.token
      ? "The server does not accept this token: it is unknown, expired or revoked."
      : "This server needs a token. Enter one above; `turnabout token create` makes one.",
  };
  say(part("problem"), texts[error.status] ?? error.message);
}

// --- the list of queues --------------------------------------------------------------------------

class Overview {
  constructor() {
    this.title = "Queues";
    this.chart = new Chart("All queues, messages per second");
    const { whole, body } = table("Queues", [
      ["Queue"], ["Ready", "n"], ["Scheduled", "n"], ["Leased", "n"], ["Oldest ready", "n"],
      ["Sent/s", "n"], ["Finished/s", "n"], ["Done", "n"], ["Dead", "n"], ["State"], [""],
    ]);
    this.body = body;
    this.none = el("p", { class: "quiet" }, "No queues yet: the first send creates one.");
    this.element = el("div", {}, this.chart.whole, el("section", {}, whole, this.none));
  }

  update(all) {
    this.chart.draw(rates.chart());
    this.none.hidden = all.length > 0;
    rows(this.body, all, (stats) => stats.queue, (stats) => this.#row(stats), fillRow);
  }

  #row(stats) {
    const row = el("tr", {}, el("th", { scope: "row", class: "name" },
      el("a", { href: `#/${encodeURIComponent(stats.queue)}` }, stats.queue)));
    row.append(...Array.from({ length: 8 }, () => el("td", { class: "n" })), el("td"));
    const button = el("button", { type: "button", onclick: () => setPaused(stats.queue, row) });
    row.append(el("td", {}, button));
    return row;
  }
}

function fillRow(row, stats) {
  const now = rates.of(stats.queue);
  const shown = [
    number(stats.ready), number(stats.scheduled), leased(stats),
    duration(stats.oldest_ready_seconds), rate(now.sent), rate(now.finished),
    number(stats.done), number(stats.dead), stateOf(stats),
  ];
  const cells = [...row.children];
  shown.forEach((text, i) => say(cells[i + 1], text));
  cells[9].setAttribute("class", stats.paused ? "bad" : "quiet");
  row.setAttribute("data-paused", String(Boolean(stats.paused)));
  const button = cells[10].children[0];
  say(button, stats.paused ? "Resume" : "Pause");
  const label = `${stats.paused ? "Resume" : "Pause"} ${stats.queue}`;
  if (button.getAttribute("aria-label") !== label) button.setAttribute("aria-label", label);
}

export const stateOf = (stats) =>
  stats.paused ? `paused${stats.pause_reason ? `: ${stats.pause_reason}` : ""}` : "running";

async function setPaused(queue, row) {
  const pause = row.getAttribute("data-paused") !== "true";
  await desk.attempt(async () => {
    await api.call("PATCH", Api.queue(queue), {
      paused: pause, pause_reason: pause ? "from the dashboard" : null,
    });
    desk.tell(pause ? `${queue} is paused: nothing is handed out.` : `${queue} is running again.`);
  });
  await look();
}

// --- looking, and going from page to page --------------------------------------------------------

/** Ask for the counts, and show them. Slow answers are asked for less often. */
async function look() {
  clearTimeout(timer);
  const mine = ++turn;
  const started = Date.now();
  const isWell = await attempt("look", async () => {
    const all = await api.whole("/stats");
    if (mine !== turn) return; // somebody looked after us
    rates.add(Date.now(), all);
    await page.update(all);
  });
  const took = Date.now() - started;
  if (mine !== turn) return;
  say(part("connection"), isWell ? "connected" : "out of date");
  if (!document.hidden) timer = setTimeout(look, Math.max(LOOK_MS, 10 * took));
}

function go() {
  const link = /^#token=(.+)$/.exec(location.hash);  // as `turnabout serve` prints it once
  if (link) {
    api.token = link[1];
    history.replaceState(null, "", location.pathname);  // it stays in no address and no history
  }
  const [queue, view] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  if (queue && page?.queue === queue) {
    page.show(view);
  } else {
    page = queue ? new QueuePage(queue, view, desk) : new Overview();
    part("page").replaceChildren(page.element);
    say(part("notice"), "");
  }
  if (problemBy) problem(problemBy.by, ++begun, null);
  document.title = `${page.title} – Turnabout`;
  look();
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    return text;
  }
}

part("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  api.token = part("token").value.trim();
  part("token").value = "";
  go();
});
part("token-forget").addEventListener("click", () => {
  api.token = "";
  desk.tell("The token is forgotten.");
  look();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) clearTimeout(timer);
  else look();
});
globalThis.addEventListener("hashchange", () => {
  go();
  part("main").focus();
});
go();
