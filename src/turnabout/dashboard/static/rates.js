// Rates, worked out from counts: what was sent and what has ended between two looks.

export const POINTS_MAX = 90;

const finishedOf = (stats) => stats.done + stats.dead + stats.cancelled + stats.expired;

/** Remembers the counts of each queue, and the points of each chart. */
export class Rates {
  constructor() {
    this.last = new Map();
    this.now = new Map();
    this.points = new Map();
  }

  /** Counts of all queues at a time in milliseconds. A count that went down (a redrive) gives no rate. */
  add(at, all) {
    const total = { sent: 0, finished: 0 };
    let isKnown = false;
    const seen = new Set();
    for (const stats of all) {
      seen.add(stats.queue);
      const counts = { at, sent: stats.sent, finished: finishedOf(stats) };
      const before = this.last.get(stats.queue);
      this.last.set(stats.queue, counts);
      const seconds = before ? (at - before.at) / 1000 : 0;
      if (seconds <= 0) continue;
      const found = {
        sent: Math.max(0, counts.sent - before.sent) / seconds,
        finished: Math.max(0, counts.finished - before.finished) / seconds,
      };
      this.now.set(stats.queue, found);
      this.#point(stats.queue, at, found);
      total.sent += found.sent;
      total.finished += found.finished;
      isKnown = true;
    }
    for (const queue of [...this.last.keys()].filter((name) => !seen.has(name))) {
      for (const kept of [this.last, this.now, this.points]) kept.delete(queue);
    }
    if (isKnown) this.#point("", at, total);
  }

  /** The rates of a queue; "" is all of them. */
  of(queue) {
    return this.now.get(queue) ?? { sent: null, finished: null };
  }

  chart(queue = "") {
    return this.points.get(queue) ?? [];
  }

  #point(queue, at, found) {
    const points = this.points.get(queue) ?? [];
    points.push({ at, ...found });
    if (points.length > POINTS_MAX) points.shift();
    this.points.set(queue, points);
  }
}
