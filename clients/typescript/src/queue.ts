// A queue: its verbs as methods, and the loop over its messages.

import type { CallOptions, Client } from "./client.ts";
import { contentOf, Message, type ExtendOptions, type FailOptions, type Payload } from "./message.ts";
import type { Operations, Outgoing, QueueStats } from "./schema.ts";
import { Worker, type Handler, type WorkerStats, type WorkOptions } from "./worker.ts";

type CamelCase<S extends string> = S extends `${infer A}_${infer B}` ? `${A}${Capitalize<CamelCase<B>>}` : S;

/** The fields of a message beside its payload: `channel`, `delaySeconds`, `dedupKey`, … */
export type SendFields = {
  [K in Exclude<keyof Outgoing, "payload"> as CamelCase<K>]?: Outgoing[K];
};
export type Sendable = SendFields & { payload: Payload };
export type SendOutcome = Operations["send"]["answer"];
/** A message, or its receipt. */
export type Which = Message | string;
export type Failing = FailOptions & { message: Which; error: unknown };

export interface ReceiveOptions extends CallOptions {
  max?: number;
  /** How long to wait for a message; the server cuts it to its own limit, 60. */
  waitSeconds?: number;
  leaseSeconds?: number | undefined;
  /** Done: acked first, in the same transaction. */
  acks?: readonly Which[];
  /** A result for each of `acks`, or `undefined`. */
  results?: readonly Payload[];
}

export interface ConsumeOptions extends Pick<ReceiveOptions, "max" | "waitSeconds" | "leaseSeconds"> {
  /** Ends the loop, without an error. */
  signal?: AbortSignal | undefined;
  /** Ends the loop once a receive brings nothing. */
  untilEmpty?: boolean;
  /** A message that took longer than its lease: somebody else has it, or will have. */
  onLost?: (message: Message) => void;
}

export class Queue {
  readonly client: Client;
  readonly name: string;

  constructor(client: Client, name: string) {
    this.client = client;
    this.name = name;
  }

  /** Send one message. A full queue or channel is an outcome, not an error. */
  send(payload: Payload, fields: SendFields = {}, options?: CallOptions): Promise<SendOutcome> {
    return this.sendMany([{ ...fields, payload }], options);
  }

  /** Send all or none. */
  sendMany(messages: readonly Sendable[], options?: CallOptions): Promise<SendOutcome> {
    return this.#call("send", { messages: messages.map(outgoing) }, options);
  }

  /** Ack `acks`, then lease up to `max` messages; `acked` says for each whether its lease held. */
  async receive(options: ReceiveOptions = {}) {
    const { max = 1, waitSeconds = 0, leaseSeconds, acks = [], results, ...more } = options;
    const done = { acks: acks.map(receiptOf), results: resultsOf(results) };
    const asked = { max_messages: max, wait_seconds: waitSeconds, lease_seconds: leaseSeconds };
    const body = { ...done, ...asked };
    const { deliveries, acked = [] } = await this.#call("receive", body, more);
    return { messages: deliveries.map((delivery) => new Message(this, delivery)), acked };
  }

  async ack(which: readonly Which[], options: CallOptions & { results?: readonly Payload[] } = {}) {
    const body = { receipts: which.map(receiptOf), results: resultsOf(options.results) };
    return (await this.#call("ack", body, options)).items;
  }

  async fail(failures: readonly Failing[], options?: CallOptions) {
    const wire = failures.map(({ message, error, retry, delaySeconds }) => {
      const about = { receipt: receiptOf(message), error: errorText(error) };
      return { ...about, retry, delay_seconds: delaySeconds };
    });
    return (await this.#call("fail", { failures: wire }, options)).items;
  }

  async extend(which: readonly Which[], options: ExtendOptions = {}) {
    const { leaseSeconds, note, exact, ...more } = options;
    const body = { receipts: which.map(receiptOf), lease_seconds: leaseSeconds, note, exact };
    return (await this.#call("extend", body, more)).items;
  }

  async release(which: readonly Which[], options?: CallOptions) {
    return (await this.#call("release", { receipts: which.map(receiptOf) }, options)).items;
  }

  /** Look at messages, without changing anything; each as `/v1` has it. */
  peek(query: Operations["peek"]["query"] = {}, options?: CallOptions) {
    return this.client.call("peek", { path: { queue: this.name }, query }, options);
  }

  async stats(options?: CallOptions): Promise<QueueStats> {
    return (await this.client.call("stats", { path: { queue: this.name } }, options)).items[0]!;
  }

  /** Loop over messages. Each is acked when the loop asks for the next, in one call with it.
   *
   * The loop can't see an exception in its body: that, `break` and `return` give back what is held,
   * uncharged. So catch it and `await message.fail(error)`, or use `work`. */
  async *consume(options: ConsumeOptions = {}): AsyncGenerator<Message, void, undefined> {
    const { max = 1, waitSeconds = 20, leaseSeconds, signal, untilEmpty, onLost } = options;
    let done: Message[] = [];
    let held: Message[] = [];
    try {
      while (!signal?.aborted) {
        const asked = Date.now();
        const given = { max, waitSeconds, leaseSeconds, signal, acks: done };
        const { messages, acked } = await this.receive(given);
        for (const [at, message] of done.entries()) {
          if (acked[at]?.outcome === "lease_lost") onLost?.(message);
        }
        [done, held] = [[], [...messages]];
        for (const message of messages) {
          if (signal?.aborted) return;
          yield message;
          held.shift();
          if (!message.isSettled) done.push(message);
        }
        if (messages.length === 0 && untilEmpty) return;
        if (messages.length === 0) await breather(asked);
      }
    } catch (error) {
      if (!signal?.aborted) throw error;
    } finally {
      // Without a server they come back when their leases run out; the loop's own error counts.
      const rest = held.filter((message) => !message.isSettled);
      if (done.length > 0) await this.ack(done).catch(() => undefined);
      if (rest.length > 0) await this.release(rest).catch(() => undefined);
    }
  }

  /** Call `handler` with each message, until `signal` fires. */
  work(handler: Handler, options: WorkOptions = {}): Promise<WorkerStats> {
    return new Worker(this, handler, options).run();
  }

  #call<O extends "send" | "receive" | "ack" | "fail" | "extend" | "release">(
    operation: O,
    body: Operations[O]["body"],
    options?: CallOptions,
  ): Promise<Operations[O]["answer"]> {
    return this.client.call(operation, { path: { queue: this.name }, body }, options);
  }
}

/** A server that is about to stop answers at once: don't ask it in a tight loop. */
export async function breather(askedAt: number): Promise<void> {
  const rest = askedAt + 250 - Date.now();
  if (rest > 0) await new Promise((resolve) => setTimeout(resolve, rest));
}

function outgoing({ payload, ...fields }: Sendable): Outgoing {
  const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const wire = Object.entries(fields).map(([name, value]) => [snake(name), value]);
  return { ...Object.fromEntries(wire), payload: contentOf(payload) };
}

function receiptOf(which: Which): string {
  return typeof which === "string" ? which : which.receipt;
}

function resultsOf(results: readonly Payload[] = []) {
  if (results.every((result) => result === undefined)) return undefined;
  return results.map((result) => (result === undefined ? null : { data: contentOf(result) }));
}

/** What is kept of an error: its stack, which begins with its name and text. */
function errorText(error: unknown): string {
  const text = error instanceof Error ? error.stack || String(error) : String(error);
  // The server takes 16 KiB of characters, and no lone half of one.
  return text.slice(0, 16_000).replace(/[\uD800-\uDFFF]/gu, "\uFFFD");
}
