// The worker loop: acks go with the next receive, heartbeats keep the leases, a stop gives back.

import { pause, TurnaboutError } from "./client.ts";
import { contentOf, type Message, type Outcome, type Payload } from "./message.ts";
import { breather, type Queue } from "./queue.ts";

/** Returns: the message is acked, with what it returns as the result. Throws: it fails. The signal
 * fires when the lease is lost, or when the time to finish after a stop is over. */
export type Handler = (message: Message, context: { signal: AbortSignal }) => Payload | Promise<Payload>;

export interface WorkOptions {
  /** Handlers at once. */
  concurrency?: number;
  leaseSeconds?: number | undefined;
  /** The longest wait of one receive. 20 by default; the server cuts it to its own limit, 60. */
  waitSeconds?: number;
  /** How long handlers may go on after a stop; then their messages are given back. 30 by default. */
  graceSeconds?: number;
  /** Stops the worker: it takes no more, and finishes what runs. */
  signal?: AbortSignal | undefined;
  /** Stop on SIGTERM and SIGINT, too, where there are such; a second one ends the grace. */
  stopOnSignals?: boolean;
  /** Takes the errors of handlers, with their messages, and of calls. By default they are logged. */
  onError?: (error: unknown, message?: Message) => void;
}

/** How many messages ended how; `released` at a stop, `lost` with their leases. */
export type WorkerStats = Record<"handled" | "failed" | "released" | "lost", number>;

/** Thrown by a handler: the message is dead at once. */
export class GiveUp extends Error {
  override readonly name = "GiveUp";
}

const SETTLE_RETRIES = 8; // half a minute without a server
const BEATS_PER_LEASE = 3; // so two may be missed

/** A message whose handler runs. Times are of `performance.now()`. */
interface Job {
  message: Message;
  controller: AbortController;
  endsAt: number;
  beatAt: number;
}

export class Worker {
  readonly #queue: Queue;
  readonly #handler: Handler;
  readonly #options: WorkOptions;
  readonly #jobs = new Set<Job>();
  readonly #stop = new AbortController();
  readonly #graceEnd = new AbortController();
  readonly #stats: WorkerStats = { handled: 0, failed: 0, released: 0, lost: 0 };
  #acks: { message: Message; result: Payload }[] = [];
  /** Room that receives under way may fill. */
  #reserved = 0;
  #isPolling = false;
  #settling: Promise<void> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isBeating = false;
  #fatal: unknown;
  #wake: () => void = () => undefined;

  constructor(queue: Queue, handler: Handler, options: WorkOptions) {
    if (!((options.concurrency ?? 1) >= 1)) throw new TurnaboutError("usage", "concurrency: at least 1");
    [this.#queue, this.#handler, this.#options] = [queue, handler, options];
  }

  async run(): Promise<WorkerStats> {
    const unlisten = this.#listen();
    while (!this.#stop.signal.aborted) {
      if (this.#room() > 0) await this.#poll();
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
    await this.#finish();
    unlisten();
    if (this.#fatal !== undefined) throw this.#fatal;
    return this.#stats;
  }

  #room(): number {
    return (this.#options.concurrency ?? 1) - this.#jobs.size - this.#reserved;
  }

  #listen(): () => void {
    const { signal, stopOnSignals } = this.#options;
    const stop = () => (this.#stop.abort(), this.#wake());
    const told = () => (this.#stop.signal.aborted ? this.#graceEnd.abort() : stop());
    type Listen = (name: string, listener: () => void) => void;
    const { process } = globalThis as { process?: { on: Listen; off: Listen } };
    const names = stopOnSignals ? ["SIGTERM", "SIGINT"] : [];
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop);
    for (const name of names) process?.on(name, told);
    return () => {
      signal?.removeEventListener("abort", stop);
      for (const name of names) process?.off(name, told);
    };
  }

  /** Wait for messages. There is one such request at a time, however many handlers are free. */
  async #poll(): Promise<void> {
    this.#isPolling = true;
    await this.#patiently(async () => {
      const asked = Date.now();
      if (!(await this.#take(this.#options.waitSeconds ?? 20))) await breather(asked);
    });
    this.#isPolling = false;
  }

  /** Ack what is done, and take more, in one call. */
  async #take(waitSeconds: number): Promise<boolean> {
    const max = this.#room();
    if (max < 1) return false;
    const acks = this.#acks.splice(0);
    this.#reserved += max;
    try {
      const { messages, acked } = await this.#queue.receive({
        max,
        waitSeconds,
        leaseSeconds: this.#options.leaseSeconds,
        acks: acks.map(({ message }) => message),
        results: acks.map(({ result }) => result),
        signal: this.#stop.signal,
        retries: 0,
      });
      acks.length = 0;
      this.#count(acked);
      if (this.#stop.signal.aborted) await this.#release(messages);
      else for (const message of messages) void this.#handle(message);
      return messages.length > 0;
    } finally {
      this.#acks.unshift(...acks); // those without an answer
      this.#reserved -= max;
      this.#wake();
    }
  }

  /** Make a call until it works. It ends the worker if no repeat can help: a bad token, say. */
  async #patiently(call: () => Promise<unknown>): Promise<void> {
    for (let failures = 0; !this.#stop.signal.aborted; failures += 1) {
      try {
        await call();
        return;
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        const { code, retryable, retryAfter, status = 0 } = error as Partial<TurnaboutError>;
        if (retryable || code === "uncertain" || status >= 500) {
          this.#report(error);
          await pause(failures, retryAfter, [this.#stop.signal]).catch(() => undefined);
        } else {
          this.#fatal = error;
          this.#stop.abort();
        }
      }
    }
  }

  async #handle(message: Message): Promise<void> {
    const [now, lease] = [performance.now(), message.leaseSeconds * 1000];
    const controller = new AbortController();
    const job = { message, controller, endsAt: now + lease, beatAt: now + lease / BEATS_PER_LEASE };
    this.#jobs.add(job);
    this.#arm();
    try {
      const result = await this.#handler(message, { signal: controller.signal });
      if (result !== undefined) contentOf(result); // what can't be sent fails here, alone
      if (!message.isSettled) this.#acks.push({ message, result });
      else if (this.#jobs.has(job)) this.#stats.handled += 1;
    } catch (error) {
      if (this.#jobs.has(job)) await this.#fail(message, error);
    }
    if (!this.#jobs.delete(job)) return; // its lease was lost, or it was given back
    this.#wake();
    if (this.#isPolling || this.#stop.signal.aborted) this.#settleSoon();
  }

  async #fail(message: Message, error: unknown): Promise<void> {
    this.#report(error, message);
    this.#stats.failed += 1;
    if (message.isSettled) return;
    message.isSettled = true; // a heartbeat need not find out
    const failure = { message, error, retry: !(error instanceof GiveUp) };
    await this.#queue.fail([failure], { retries: SETTLE_RETRIES }).catch(this.#report);
  }

  /** Ack now, as the end of the poll may be far away; messages that are ready come with it. */
  #settleSoon(): void {
    if (this.#acks.length > 0) this.#settling ??= this.#settle();
  }

  async #settle(): Promise<void> {
    while (this.#acks.length > 0) {
      if (this.#room() < 1 || this.#stop.signal.aborted) await this.#flush();
      else await this.#patiently(() => this.#take(0));
    }
    this.#settling = undefined;
  }

  async #flush(): Promise<void> {
    const acks = this.#acks.splice(0);
    const options = { results: acks.map(({ result }) => result), retries: SETTLE_RETRIES };
    try {
      this.#count(await this.#queue.ack(acks.map(({ message }) => message), options));
    } catch (error) {
      this.#stats.lost += acks.length;
      this.#report(error);
    }
  }

  #count(outcomes: readonly Outcome<"ack">[]): void {
    for (const one of outcomes) {
      // Gone: it was acked already, by a call whose answer was lost.
      const isLost = one.outcome === "lease_lost" && one.now !== "gone";
      this.#stats[isLost ? "lost" : "handled"] += 1;
    }
  }

  #arm(): void {
    if (this.#isBeating) return; // it arms the timer at its end
    clearTimeout(this.#timer);
    const due = Math.min(...[...this.#jobs].map(({ beatAt }) => beatAt));
    const rest = Math.max(due - performance.now(), 0);
    if (due < Infinity) this.#timer = setTimeout(() => void this.#beat(), rest);
  }

  /** Once one lease is due, extend all: a beat is one call, not one for each message. */
  async #beat(): Promise<void> {
    this.#isBeating = true;
    const asked = performance.now();
    for (const job of this.#jobs) if (job.endsAt <= asked) this.#abandon(job, "lease_lost");
    const held = [...this.#jobs].filter(({ message }) => !message.isSettled);
    const third = (Math.min(...held.map(({ message }) => message.leaseSeconds)) * 1000) / BEATS_PER_LEASE;
    const options = { leaseSeconds: this.#options.leaseSeconds, timeoutMs: third, retries: 0 };
    try {
      if (held.length === 0) return;
      const outcomes = await this.#queue.extend(held.map(({ message }) => message), options);
      for (const [at, job] of held.entries()) this.#extended(job, outcomes[at]!, asked);
    } catch (error) {
      this.#report(error);
      const now = performance.now();
      for (const job of held) job.beatAt = Math.min(now + third / 3, Math.max(job.endsAt, now));
    } finally {
      // What its handler has settled needs no beat.
      for (const job of this.#jobs) if (job.message.isSettled) job.beatAt = job.endsAt = Infinity;
      this.#isBeating = false;
      this.#arm();
    }
  }

  #extended(job: Job, outcome: Outcome<"extend">, asked: number): void {
    const { message } = job;
    if (outcome.outcome === "extended") {
      job.endsAt = asked + message.leaseSeconds * 1000;
      job.beatAt = asked + (message.leaseSeconds * 1000) / BEATS_PER_LEASE;
      message.cancelRequested = outcome.cancel_requested ?? false;
    } else if (this.#jobs.has(job) && !message.isSettled) this.#abandon(job, "lease_lost");
  }

  /** Leave a handler to itself: it is told, and how it ends does not count. */
  #abandon(job: Job, code: "lease_lost" | "stopped"): void {
    this.#jobs.delete(job);
    if (code === "lease_lost") this.#stats.lost += 1;
    job.message.isSettled = true;
    job.controller.abort(new TurnaboutError(code, `message ${job.message.id} is not ours any more`));
    this.#wake();
  }

  async #finish(): Promise<void> {
    this.#settleSoon();
    const grace = pause(0, this.#options.graceSeconds ?? 30, [this.#graceEnd.signal]);
    let isOver = false;
    void grace.catch(() => undefined).then(() => ((isOver = true), this.#wake()));
    while (this.#jobs.size > 0 && !isOver) await new Promise<void>((resolve) => (this.#wake = resolve));
    this.#graceEnd.abort(); // its timer would keep the program
    const held = [...this.#jobs].map(({ message }) => message).filter(({ isSettled }) => !isSettled);
    for (const job of this.#jobs) this.#abandon(job, "stopped");
    await this.#release(held);
    await this.#settling;
    if (this.#acks.length > 0) await this.#flush();
    clearTimeout(this.#timer);
  }

  async #release(messages: readonly Message[]): Promise<void> {
    if (messages.length === 0) return;
    this.#stats.released += messages.length; // or, without an answer, when their leases run out
    await this.#queue.release(messages, { retries: SETTLE_RETRIES }).catch(this.#report);
  }

  readonly #report = (error: unknown, message?: Message): void => {
    const { onError } = this.#options;
    if (onError !== undefined) return onError(error, message);
    const about = message && ` failed on message ${message.id} (attempt ${message.attempt})`;
    console.error(`handler for ${this.#queue.name}${about ?? ""}:`, error);
  };
}
