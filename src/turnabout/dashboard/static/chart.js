// A small chart of what was sent and what has ended, per second.

import { el, say, svg } from "./dom.js";
import { rate } from "./text.js";

const WIDTH = 600;
const HEIGHT = 120;

export class Chart {
  constructor(title) {
    this.title = title;
    this.sent = svg("polyline", { class: "sent" });
    this.finished = svg("polyline", { class: "finished" });
    this.picture = svg(
      "svg",
      { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
      svg("line", { x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1 }),
      svg("line", { x1: 0, x2: WIDTH, y1: 8, y2: 8 }),
      this.finished,
      this.sent,
    );
    this.top = el("span");
    this.nowSent = el("span", { class: "sent" });
    this.nowFinished = el("span", { class: "finished" });
    this.whole = el(
      "section",
      {},
      el("h3", {}, title),
      this.picture,
      el("p", { class: "legend" }, this.nowSent, this.nowFinished, this.top),
    );
  }

  draw(points) {
    const most = Math.max(1, ...points.flatMap((point) => [point.sent, point.finished]));
    const last = points.at(-1);
    const first = points[0]?.at ?? 0;
    const span = Math.max(1, (last?.at ?? 0) - first);
    const line = (name) => points
      .map((p) => `${(((p.at - first) / span) * WIDTH).toFixed(1)},` +
        `${(HEIGHT - 1 - (p[name] / most) * (HEIGHT - 9)).toFixed(1)}`)
      .join(" ");
    this.sent.setAttribute("points", line("sent"));
    this.finished.setAttribute("points", line("finished"));
    say(this.nowSent, `sent ${rate(last?.sent)}/s`);
    say(this.nowFinished, `finished ${rate(last?.finished)}/s`);
    say(this.top, points.length ? `scale: 0–${rate(most)}/s` : "waiting for a second measurement");
    this.picture.setAttribute(
      "aria-label",
      `${this.title}: sent ${rate(last?.sent)}, finished ${rate(last?.finished)} per second`,
    );
  }
}
