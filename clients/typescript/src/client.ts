// A server, and the calls to it: one request, its errors, and which requests may be repeated.

import { Queue } from "./queue.ts";
import { ROUTES, type ErrorFields, type Operations, type Outgoing } from "./schema.ts";

export interface CallOptions {
  signal?: AbortSignal | undefined;
  /** The longest wait for one answer, beyond the `waitSeconds` of a receive. 30,000 by default. */
  timeoutMs?: number | undefined;
  /** How often a call is repeated, where that is safe. 4 by default. */
  retries?: number | undefined;
  /** For `send`: a repeat with the same key sends nothing twice. */
  idempotencyKey?: string | undefined;
}

export interface ClientOptions extends Omit<CallOptions, "idempotencyKey"> {
  /** Such as `http://127.0.0.1:8080`; a path in it is kept. The token may stand before the `@`. */
  url: string;
  token?: string | undefined;
  /** In place of the global one: for a proxy, certificates, or tests. */
  fetch?: typeof globalThis.fetch;
}

export interface Input<O extends keyof Operations> {
  path?: Operations[O]["path"];
  query?: Operations[O]["query"];
  body?: Operations[O]["body"];
}

/** A call that did not happen (`retryable`), may have happened (`uncertain`), or is wrong. */
export class TurnaboutError extends Error {
  override readonly name = "TurnaboutError";
  /** A code of the server, or `disconnected`, `unavailable`, `uncertain`, `not_turnabout`. */
  readonly code: string;
  /** Of HTTP; 0 without an answer. */
  readonly status: number;
  /** True if nothing happened, and the same call may be made again. */
  readonly retryable: boolean;
  /** Seconds until then, if the server says. */
  readonly retryAfter: number | undefined;

  constructor(code: string, message: string, more: Partial<TurnaboutError> = {}) {
    super(message, { cause: more.cause });
    this.code = code;
    this.status = more.status ?? 0;
    this.retryable = more.retryable ?? false;
    this.retryAfter = more.retryAfter;
  }
}

export class Client {
  readonly #base: string;
  readonly #token: string;
  readonly #options: ClientOptions;

  constructor(options: ClientOptions) {
    const url = new URL(options.url);
    if (!/^https?:$/.test(url.protocol)) {
      throw new TurnaboutError("usage", `expected a URL with http or https, not ${url.protocol}`);
    }
    // fetch refuses a URL with a token in it, and would show it in its error.
    this.#token = options.token ?? decodeURIComponent(url.password || url.username);
    this.#base = url.origin + url.pathname.replace(/\/+$/, "");
    this.#options = options;
  }

  /** A queue, by its name. Nothing is asked; the first message makes it. */
  queue(name: string): Queue {
    return new Queue(this, name);
  }

  /** Any operation of `/v1`, such as `queue_create`, with its fields as they are on the wire. */
  async call<O extends keyof Operations>(
    operation: O,
    input: Input<O> = {},
    options: CallOptions = {},
  ): Promise<Operations[O]["answer"]> {
    for (let failures = 0; ; failures += 1) {
      try {
        return (await this.#once(operation, input, options)) as Operations[O]["answer"];
      } catch (error) {
        const retries = options.retries ?? this.#options.retries ?? 4;
        if (failures >= retries || !isRepeatable(error, operation, input, options)) throw error;
        await pause(failures, (error as TurnaboutError).retryAfter, [this.#options.signal, options.signal]);
      }
    }
  }

  async #once<O extends keyof Operations>(operation: O, input: Input<O>, options: CallOptions) {
    const [method, path] = ROUTES[operation];
    const headers: Record<string, string> = { "Content-Type": "application/json" };
    if (this.#token) headers["Authorization"] = `Bearer ${this.#token}`;
    if (options.idempotencyKey) headers["Idempotency-Key"] = options.idempotencyKey;
    const url = this.#base + targetOf(path, input);
    const body = input.body === undefined ? null : JSON.stringify(input.body);
    const given = [this.#options.signal, options.signal];
    const { wait_seconds = 0 } = { ...input.query, ...input.body } as { wait_seconds?: number };
    const ms = (options.timeoutMs ?? this.#options.timeoutMs ?? 30_000) + wait_seconds * 1000;
    const limit = limited(given, ms);
    try {
      // A redirect would take the token elsewhere.
      const init: RequestInit = { method, headers, body, signal: limit.signal, redirect: "manual" };
      const fetch = this.#options.fetch ?? globalThis.fetch; // by its bare name: browsers want that
      const response = await fetch(url, init);
      return outcomeOf(response, await response.text());
    } catch (error) {
      for (const signal of given) signal?.throwIfAborted();
      if (error instanceof TurnaboutError) throw error;
      throw unanswered(operation, error, limit.signal.aborted ? `none after ${ms} ms` : "");
    } finally {
      limit.release();
    }
  }
}

function targetOf(path: string, { path: names = {}, query = {} }: { path?: object; query?: object }) {
  const filled = path.replace(/\{(\w+)\}/g, (_, what: string) => {
    const name = String((names as Record<string, unknown>)[what]);
    if (/^[A-Za-z0-9][\w.-]*$/.test(name)) return name;
    throw new TurnaboutError("usage", `not a valid ${what}: ${JSON.stringify(name)}`);
  });
  const given = Object.entries(query).filter(([, value]) => value != null);
  return given.length > 0 ? `${filled}?${new URLSearchParams(given)}` : filled;
}

/** The outcome in an answer. 409 is one, too: a full queue, say. */
function outcomeOf({ status, ok, headers }: Response, text: string): unknown {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    // It is of something in between: the status tells what is known.
  }
  const isObject = typeof body === "object" && body !== null;
  const told = isObject ? (body as { error?: Partial<ErrorFields> | null }).error : null;
  const isTold = typeof told?.code === "string";
  if ((ok || status === 409) && isObject && !isTold) return body;
  const isRefused = status === 429 || status === 503;
  const code = isRefused ? "unavailable" : status >= 500 ? "uncertain" : "not_turnabout";
  const message = `status ${status}, and not an answer of a Turnabout server`;
  const seconds = Number.parseFloat(headers.get("Retry-After") ?? "");
  throw new TurnaboutError(isTold ? told.code! : code, isTold ? String(told.message) : message, {
    status,
    retryable: isTold ? told.retryable === true : isRefused,
    retryAfter: told?.retry_after_seconds ?? (seconds || undefined),
  });
}

// Errors of the fetch of Node, and of Deno, that come before anything is sent.
const NOT_SENT = /ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|_CONNECT_TIMEOUT|\(Connect\)/;

function unanswered(operation: keyof Operations, error: unknown, limit: string): TurnaboutError {
  const { cause } = error as { cause?: { code?: string; message?: string } };
  const isNothing = ROUTES[operation][0] === "GET" || NOT_SENT.test(`${cause?.code} ${cause?.message}`);
  const why = limit || cause?.message || cause?.code || String(error);
  const message = `no answer to ${operation} (${why}): ${isNothing ? "nothing" : "it may have"} happened`;
  const code = isNothing ? "disconnected" : "uncertain";
  return new TurnaboutError(code, message, { retryable: isNothing, cause: error });
}

/** Verbs with a receipt count once; what a receive leased whose answer was lost comes back. */
const FENCED: readonly string[] = ["ack", "fail", "defer", "extend", "release", "receive"];

/** Whether a call can be made again: it did not happen, or it does no harm twice. */
function isRepeatable(error: unknown, operation: string, input: object, options: CallOptions) {
  const { code, retryable } = error as Partial<TurnaboutError>;
  if (retryable || code !== "uncertain") return retryable === true;
  if (operation !== "send") return FENCED.includes(operation);
  // The other modes forget the key once the message has begun, or ended.
  const isKept = ({ dedup_key, dedup_mode }: Outgoing) =>
    dedup_key != null && ["window", "sliding", null, undefined].includes(dedup_mode);
  const { messages } = (input as { body: { messages: Outgoing[] } }).body;
  return options.idempotencyKey !== undefined || messages.every(isKept);
}

/** Wait before the next try: longer after each failure, and never all clients at once. */
export async function pause(
  failures: number,
  atLeastSeconds = 0,
  signals: readonly (AbortSignal | undefined)[] = [],
): Promise<void> {
  const backoff = Math.min(100 * 2 ** failures, 10_000) * (0.5 + Math.random() / 2);
  const { signal, release } = limited(signals, atLeastSeconds * 1000 + backoff);
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
  release();
  for (const given of signals) given?.throwIfAborted();
}

/** A signal that follows others, or fires after a time. `AbortSignal.any` would be remembered by
 * each of them for as long as it lives: those of a worker, for ever. */
function limited(signals: readonly (AbortSignal | undefined)[], ms: number) {
  const controller = new AbortController();
  const abort = () => controller.abort();
  const timer = setTimeout(abort, Math.min(ms, 2 ** 31 - 1));
  if (signals.some((signal) => signal?.aborted)) abort();
  for (const signal of signals) signal?.addEventListener("abort", abort);
  const release = () => {
    clearTimeout(timer);
    for (const signal of signals) signal?.removeEventListener("abort", abort);
  };
  return { signal: controller.signal, release };
}
