// A queue: its counts, its channels, messages and history, its dead letters.

import { Api } from "./api.js";
import { ask } from "./ask.js";
import { Chart } from "./chart.js";
import { el, rows, say, table } from "./dom.js";
import { duration, fault, leased, number, payload, rate, short, time } from "./text.js";

const PAGE = 20;
const VIEWS = { channels: "Channels", messages: "Messages", history: "History", redrives: "Redrives" };
const COUNTS = ["Ready", "Scheduled", "Leased", "Sent/s", "Finished/s", "Done", "Dead", "Expired"];
const BLOCKED = {
  paused: "paused",
  concurrency: "as many leased as max_concurrency allows",
  rate: "rate limit",
  queue_concurrency: "as many leased as the queue's queue_max_concurrency allows",
  queue_rate: "rate limit of the whole queue",
  fifo: "FIFO: its first message is leased, or not due",
  exhausted: "its first message has no attempts left and waits for a person",
};

export class QueuePage {
  constructor(queue, view, desk) {
    this.queue = queue;
    this.title = queue;
    this.desk = desk;
    this.isPaused = false;
    this.deadLetter = null;
    this.chart = new Chart("Messages per second");
    this.counts = new Map(COUNTS.map((name) => [name, el("dd")]));
    this.state = el("span", { class: "tag", hidden: true });
    this.pauseButton = this.#button("Pause", () => this.#pause());
    this.links = el("p", { class: "quiet" });
    this.links.hidden = true;
    this.nav = el("nav", { "aria-label": "Of this queue" });
    this.place = el("div");
    this.element = el(
      "div",
      {},
      el("div", { class: "head" },
        el("h2", { class: "name" }, queue, " "), this.state,
        el("div", { class: "buttons" },
          this.#isDead ? this.#button("Redrive…", () => this.#redrive()) : null,
          this.pauseButton,
          this.#button("Purge…", () => this.#purge(), "danger"))),
      this.links,
      el("section", {}, el("dl", { class: "counts" },
        [...this.counts].map(([name, value]) => el("div", {}, el("dt", {}, name), value)))),
      this.chart.whole,
      this.nav,
      el("section", {}, this.place),
    );
    this.show(view);
    this.desk.attempt(() => this.#about());
  }

  get #isDead() {
    return this.queue.endsWith("-dead");
  }

  /** Show another part of it. */
  show(view) {
    const wanted = view in VIEWS ? view : "channels";
    if (wanted === this.view) return;
    this.view = wanted;
    this.nav.replaceChildren(...Object.entries(VIEWS).map(([name, title]) => el("a", {
      href: this.#hash(this.queue, name), "aria-current": name === wanted ? "page" : null,
    }, title)));
    this[`_${wanted}`]();
  }

  /** New counts came. */
  async update(all) {
    const stats = all.find((one) => one.queue === this.queue);
    if (!stats) {
      this.desk.tell(`There is no queue ${this.queue}, or this token may not see it.`);
      return;
    }
    const now = this.desk.rates.of(this.queue);
    const shown = {
      Ready: number(stats.ready), Scheduled: number(stats.scheduled),
      Leased: leased(stats), "Sent/s": rate(now.sent), "Finished/s": rate(now.finished),
      Done: number(stats.done), Dead: number(stats.dead), Expired: number(stats.expired),
    };
    for (const [name, text] of Object.entries(shown)) say(this.counts.get(name), text);
    this.isPaused = Boolean(stats.paused);
    this.state.hidden = !stats.paused;
    say(this.state, stats.pause_reason ? `paused: ${stats.pause_reason}` : "paused");
    say(this.pauseButton, stats.paused ? "Resume" : "Pause");
    this.unfinished = stats.ready + stats.scheduled;
    this.chart.draw(this.desk.rates.chart(this.queue));
    if (this.view === "channels") await this.refresh();
  }

  // --- channels ----------------------------------------------------------------------------------

  _channels() {
    const { whole, body } = table("Channels with the most messages", [
      ["Channel"], ["Ready", "n"], ["Scheduled", "n"], ["Leased", "n"], ["Oldest ready", "n"],
      ["Why it waits"],
    ]);
    const none = el("p", { class: "quiet" }, "No channel has messages.");
    this.refresh = async () => {
      const all = await this.#items("/channels", { limit: PAGE });
      if (this.view !== "channels") return;
      none.hidden = all.length > 0;
      rows(body, all, (one) => one.channel, (one) => el("tr", {},
        el("th", { scope: "row", class: "name" }, one.channel === "" ? "(default)" : one.channel),
        Array.from({ length: 4 }, () => el("td", { class: "n" })), el("td")),
      (row, one) => [
        number(one.ready), number(one.scheduled), leased(one),
        duration(one.oldest_ready_seconds), one.blocked ? BLOCKED[one.blocked] ?? one.blocked : "",
      ].forEach((text, i) => say(row.children[i + 1], text)));
    };
    this.place.replaceChildren(whole, none);
    this.desk.attempt(this.refresh);
  }

  // --- messages ----------------------------------------------------------------------------------

  _messages() {
    const state = this.#choice("State", ["", "ready", "scheduled", "leased"]);
    const channel = el("input", { id: "channel", autocomplete: "off" });
    const { whole, body } = table("Messages, by id", [
      ["Id"], ["State"], ["Channel"], ["Attempts", "n"], ["Sent"], ["Due, or held until"], ["Content"],
    ]);
    const chosen = new Map();
    const back = this.#button("Send chosen back…", async () => {
      if (await this.#redrive([...chosen.values()])) this.refresh();
    });
    const choose = () => {
      back.disabled = chosen.size === 0;
      say(back, chosen.size ? `Send ${chosen.size} back…` : "Send chosen back…");
    };
    const box = (one) => el("input", {
      type: "checkbox", "aria-label": `Send ${one.id} back`, onchange: (event) => {
        if (event.target.checked) chosen.set(`${one.id}`, one.id);
        else chosen.delete(`${one.id}`);
        choose();
      },
    });
    this.#pages(body, whole, [
      state.label, state.select, el("label", { for: "channel" }, "Channel"), channel,
    ], async (after) => {
      const found = await this.desk.api.call("GET", Api.queue(this.queue, "/messages", {
        limit: PAGE, state: state.select.value, channel: channel.value, after_id: after ?? "",
      }));
      chosen.clear();
      choose();
      return { items: found.items, next: found.next ?? null };
    }, (one) => el("tr", {},
      el("th", { scope: "row", class: "n" }, this.#isDead ? box(one) : null, one.id),
      el("td", {}, one.state, one.ran_out ? ", ran out" : null, one.cancel_requested ? ", to be cancelled" : null),
      el("td", { class: "name" }, one.channel === "" ? "(default)" : one.channel),
      el("td", { class: "n" }, one.attempt),
      el("td", {}, time(one.sent_at)),
      el("td", {}, one.state === "ready" ? "now" : time(one.due_at)),
      el("td", {}, this.#story(one), this.#content(one.payload, one.headers))));
    if (this.#isDead) this.place.append(el("p", { class: "buttons" }, back));
  }

  /** Why it died, or what went wrong last. */
  #story(one) {
    const origin = one.origin;
    if (!origin) return one.error ? el("p", { class: "bad data" }, fault(one.error, 200)) : null;
    return el("details", {},
      el("summary", {}, `died in ${origin.queue}: ${origin.reason}`),
      el("p", {}, `${time(origin.died_at)}, after ${origin.failures} failures and ` +
        `${origin.crashes} crashes; redriven ${origin.redrives ?? 0} times`),
      origin.first_error ? el("pre", {}, origin.first_error) : null,
      origin.last_error && origin.last_error !== origin.first_error
        ? el("pre", {}, origin.last_error) : null);
  }

  #content(content, headers) {
    const shown = payload(content);
    return el("details", {},
      el("summary", {}, shown.kind, " ", el("span", { class: "data quiet" }, short(shown.text, 60))),
      el("pre", { tabindex: "0" }, shown.text),
      Object.keys(headers ?? {}).length
        ? el("pre", { tabindex: "0" }, JSON.stringify(headers, null, 2)) : null);
  }

  // --- history -----------------------------------------------------------------------------------

  _history() {
    const outcome = this.#choice("Outcome", ["", "done", "dead", "cancelled", "expired"]);
    const { whole, body } = table("Finished messages, the newest first", [
      ["Id"], ["Outcome"], ["Channel"], ["Attempts", "n"], ["Finished"], ["Took", "n"], ["Error, content"],
    ]);
    this.#pages(body, whole, [outcome.label, outcome.select], async (cursor) => {
      const found = await this.desk.api.call("GET", Api.queue(this.queue, "/history", {
        limit: PAGE, outcome: outcome.select.value, cursor: cursor ?? "",
      }));
      return { items: found.entries, next: found.cursor };
    }, (one) => el("tr", {},
      el("th", { scope: "row", class: "n" }, one.id),
      el("td", { class: one.outcome === "done" ? null : "bad" }, one.outcome),
      el("td", { class: "name" }, one.channel === "" ? "(default)" : one.channel),
      el("td", { class: "n" }, one.attempt),
      el("td", {}, time(one.finished_at)),
      el("td", { class: "n" }, one.leased_at ? duration((one.finished_at - one.leased_at) / 1000) : "–"),
      el("td", {},
        one.error ? el("details", {}, el("summary", { class: "bad data" }, fault(one.error)),
          el("pre", { tabindex: "0" }, one.error)) : null,
        one.payload ? this.#content(one.payload, one.headers) : null)));
  }

  // --- dead letters ------------------------------------------------------------------------------

  _redrives() {
    const { whole, body } = table("Redrives out of this queue", [
      ["Number"], ["To"], ["State"], ["Moved", "n"], ["Left", "n"], ["Begun"], ["Ended"],
    ]);
    const none = el("p", { class: "quiet" }, "None yet.");
    this.refresh = async () => {
      const query = new URLSearchParams({ queue: this.queue, limit: PAGE });
      const all = await this.desk.api.items(`/redrives?${query}`);
      none.hidden = all.length > 0;
      rows(body, all, (one) => one.id, (one) => el("tr", {},
        el("th", { scope: "row" }, one.id),
        el("td", { class: "name" }, one.target ?? "where each died"),
        el("td"), el("td", { class: "n" }), el("td", { class: "n" }),
        el("td", {}, time(one.created_at)), el("td")),
      (row, one) => {
        say(row.children[2], one.state);
        say(row.children[3], number(one.moved));
        say(row.children[4], number(one.skipped));
        say(row.children[6], time(one.finished_at));
      });
    };
    this.place.replaceChildren(
      el("p", {}, "Sends letters back to the queue that each died in, with their charges reset."),
      el("p", { class: "buttons" }, this.#button("Redrive…", () => this.#redrive())),
      whole, none,
    );
    this.desk.attempt(this.refresh);
  }

  /** All letters, or those with these ids; whether it was begun. */
  async #redrive(ids) {
    const { api } = this.desk;
    const path = Api.queue(this.queue, "/redrives");
    const filter = ids && { ids };
    let counted;
    if (!await this.desk.attempt(async () => {
      counted = await api.call("POST", path, { filter, dry_run: true });
    })) return false;
    const yes = await ask({
      title: "Redrive", yes: "Send them back",
      text: `${number(counted.moved)} messages go back to the queues they died in; ` +
        `${number(counted.skipped)} stay: their queue is gone, they never died, or were sent back ` +
        "too often.",
    });
    if (!yes) return false;
    await this.desk.attempt(async () => {
      let redrive = await api.call("POST", path, { filter });
      while (redrive.state === "running") {
        redrive = await api.call("POST", `/redrives/${redrive.id}/step`, {});
        this.desk.tell(`${number(redrive.moved)} messages have been sent back.`);
      }
      this.desk.tell(`${number(redrive.moved)} messages were sent back, ` +
        `${number(redrive.skipped)} stayed.`);
      if (this.view === "redrives") await this.refresh();
    });
    await this.desk.look();
    return true;
  }

  // --- what can be done --------------------------------------------------------------------------

  async #pause() {
    const pause = !this.isPaused;
    await this.desk.attempt(async () => {
      await this.desk.api.call("PATCH", Api.queue(this.queue), {
        paused: pause, pause_reason: pause ? "from the dashboard" : null,
      });
      this.desk.tell(pause ? "Paused: nothing is handed out." : "Running again.");
    });
    await this.desk.look();
  }

  async #purge() {
    const yes = await ask({
      title: `Purge ${this.queue}`, yes: "Purge", name: this.queue,
      text: `This cancels ${number(this.unfinished ?? 0)} waiting messages. It cannot be undone. ` +
        "Messages that are leased stay.",
    });
    if (!yes) return;
    await this.desk.attempt(async () => {
      const purged = await this.desk.api.call("POST", Api.queue(this.queue, "/purge"), {});
      this.desk.tell(`${number(purged.messages)} messages were cancelled.`);
    });
    await this.desk.look();
  }

  // --- parts -------------------------------------------------------------------------------------

  async #about() {
    const entry = await this.desk.api.call("GET", Api.queue(this.queue));
    if (!entry.dead_letter) return;
    this.links.replaceChildren("What dies here goes to ",
      el("a", { href: this.#hash(entry.dead_letter, "messages"), class: "name" }, entry.dead_letter));
    this.links.hidden = false;
  }

  /** A list in pages: filters above, a way on below. `ask` answers `{items, next}`. */
  #pages(body, whole, filters, find, make) {
    let next = null;
    const more = this.#button("Next page", () => fill(next));
    const none = el("p", { class: "quiet" }, "Nothing.");
    const view = this.view;
    const fill = (from) => this.desk.attempt(async () => {
      const found = await find(from);
      if (this.view !== view) return;
      next = found.next ?? null;
      more.disabled = next === null;
      none.hidden = found.items.length > 0;
      body.replaceChildren(...found.items.map(make));
    });
    this.refresh = () => fill(null);
    const form = el("form", { class: "filters", onsubmit: (event) => {
      event.preventDefault();
      this.refresh();
    } }, filters, el("button", { type: "submit" }, "Show"));
    this.place.replaceChildren(form, whole, none, el("p", {}, more));
    this.refresh();
  }

  #items(rest, parameters) {
    return this.desk.api.items(Api.queue(this.queue, rest, parameters));
  }

  #choice(title, values) {
    const id = title.toLowerCase();
    const select = el("select", { id },
      values.map((value) => el("option", { value }, value === "" ? "all" : value)));
    return { label: el("label", { for: id }, title), select };
  }

  #button(title, work, kind = null) {
    return el("button", { type: "button", class: kind, onclick: work }, title);
  }

  #hash(queue, view) {
    return `#/${encodeURIComponent(queue)}/${view}`;
  }
}
