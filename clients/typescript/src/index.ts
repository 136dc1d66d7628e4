// What `turnabout-client` offers.

export { Client, TurnaboutError, type CallOptions, type ClientOptions, type Input } from "./client.ts";
export { Message, type ExtendOptions, type FailOptions, type Outcome, type Payload } from "./message.ts";
export { Queue } from "./queue.ts";
export type { ConsumeOptions, Failing, ReceiveOptions, Sendable, SendFields, SendOutcome, Which } from "./queue.ts";
export type * from "./schema.ts";
export { GiveUp, type Handler, type WorkerStats, type WorkOptions } from "./worker.ts";
