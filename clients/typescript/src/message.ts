// A message as it is received, and payloads in both directions.

import { TurnaboutError, type CallOptions } from "./client.ts";
import type { Queue } from "./queue.ts";
import type { Content, Delivery, Note, Operations } from "./schema.ts";

/** Text and bytes are sent as they are; anything else is sent as JSON. */
export type Payload = unknown;

export type Outcome<O extends "ack" | "fail" | "defer" | "extend" | "release"> =
  Operations[O]["answer"]["items"][number];

export interface FailOptions {
  /** False: the message is dead at once. */
  retry?: boolean;
  /** In place of the queue's back-off. */
  delaySeconds?: number;
}

export interface ExtendOptions extends CallOptions {
  leaseSeconds?: number | undefined;
  note?: Note;
  exact?: boolean;
}

export function contentOf(payload: Payload): Content {
  if (typeof payload === "string") return { text: payload };
  if (payload instanceof ArrayBuffer) return contentOf(new Uint8Array(payload));
  if (ArrayBuffer.isView(payload)) {
    const { buffer, byteOffset, byteLength } = payload;
    let text = "";
    for (const byte of new Uint8Array(buffer, byteOffset, byteLength)) text += String.fromCharCode(byte);
    return { base64: btoa(text) };
  }
  if (JSON.stringify(payload) !== undefined) return { json: payload };
  throw new TurnaboutError("usage", `expected text, bytes or JSON, not ${typeof payload}`);
}

/** The fields are those of a delivery of `/v1`; times are in milliseconds since 1970. */
export class Message {
  readonly queue: Queue;
  /** As the server sent it, with what is rarely wanted: `state`, `origin`, `crashes`, … */
  readonly delivery: Delivery;
  readonly receipt: string;
  readonly id: number;
  readonly attempt: number;
  readonly channel: string;
  readonly contentType: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly leaseSeconds: number;
  /** True once it was ended, given back or put off through this object, or its lease was lost. */
  isSettled = false;
  /** True once somebody has asked to cancel it; a worker learns it from a heartbeat. */
  cancelRequested = false;

  constructor(queue: Queue, delivery: Delivery) {
    this.queue = queue;
    this.delivery = delivery;
    this.receipt = delivery.receipt;
    this.id = delivery.id;
    this.attempt = delivery.attempt;
    this.channel = delivery.channel;
    this.contentType = delivery.content_type;
    this.headers = delivery.headers ?? {};
    this.leaseSeconds = delivery.lease_seconds;
  }

  /** The payload's bytes. Of JSON: as JavaScript writes it, which may not be what was sent. */
  bytes(): Uint8Array {
    const { base64 } = this.delivery.payload;
    if (base64 === undefined) return new TextEncoder().encode(this.text());
    return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  }

  /** The payload as text. Throws if it is not UTF-8. */
  text(): string {
    const { text, base64, json } = this.delivery.payload;
    if (base64 === undefined) return text ?? JSON.stringify(json);
    // Without ignoreBOM a mark at the beginning would be lost.
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(this.bytes());
  }

  /** The payload as JSON. Throws a SyntaxError if it is something else; the type is not checked. */
  json<T = unknown>(): T {
    const { payload } = this.delivery;
    return ("json" in payload ? payload.json : JSON.parse(this.text())) as T;
  }

  /** Done. A result is for those who wait for the message. */
  ack(result?: Payload): Promise<Outcome<"ack">> {
    return this.#settle(() => this.queue.ack([this], { results: [result] }));
  }

  /** This attempt failed: the message comes back after the queue's back-off, or is dead. */
  fail(error: unknown, options: FailOptions = {}): Promise<Outcome<"fail">> {
    return this.#settle(() => this.queue.fail([{ message: this, error, ...options }]));
  }

  /** Back at once; not a failure. */
  release(): Promise<Outcome<"release">> {
    return this.#settle(() => this.queue.release([this]));
  }

  /** Back later, with new state if given; not a failure. */
  defer(delaySeconds = 0, state?: Payload): Promise<Outcome<"defer">> {
    const saved = state === undefined ? {} : { state: contentOf(state) };
    const deferrals = [{ receipt: this.receipt, delay_seconds: delaySeconds, ...saved }];
    const input = { path: { queue: this.queue.name }, body: { deferrals } };
    return this.#settle(async () => (await this.queue.client.call("defer", input)).items);
  }

  /** Keep it for longer, counted from now. */
  async extend(options: ExtendOptions = {}): Promise<Outcome<"extend">> {
    return only(await this.queue.extend([this], options));
  }

  async #settle<T>(call: () => Promise<T[]>): Promise<T> {
    this.isSettled = true; // from now on: a loop must not ack what is being failed
    try {
      return only(await call());
    } catch (error) {
      this.isSettled = false;
      throw error;
    }
  }
}

function only<T>(items: T[]): T {
  if (items.length === 1) return items[0] as T;
  throw new TurnaboutError("not_turnabout", "expected one outcome in the answer");
}
