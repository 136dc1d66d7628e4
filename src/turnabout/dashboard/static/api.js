// Calls of /v1. The token is kept for this tab only, and sent to this server only.

const KEPT = "turnabout-token";

// A whole number that a double cannot hold is shown as it was written, where the browser can.
const exact = (key, value, context) =>
  typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) &&
  context?.source && JSON.rawJSON ? JSON.rawJSON(context.source) : value;

/** An answer that says no: its status, code and text. */
export class Problem extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export class Api {
  constructor(fetch, storage) {
    this.fetch = fetch;
    this.storage = storage;
  }

  get token() {
    return this.storage.getItem(KEPT) ?? "";
  }

  set token(value) {
    if (value) this.storage.setItem(KEPT, value);
    else this.storage.removeItem(KEPT);
  }

  async call(method, path, body) {
    const headers = {};
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let answer;
    try {
      answer = await this.fetch(`/v1${path}`, {
        method,
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
        cache: "no-store",
        credentials: "same-origin",
        redirect: "error",
      });
    } catch (error) {
      throw new Problem(0, "unreachable", "The server does not answer.");
    }
    const text = await answer.text();
    let value = null;
    try {
      value = text ? JSON.parse(text, exact) : null;
    } catch (error) {
      throw new Problem(answer.status, "no_json", `The answer (${answer.status}) cannot be read.`);
    }
    if (!answer.ok) {
      const said = value?.error;
      throw new Problem(
        answer.status,
        said?.code ?? value?.outcome ?? "error",
        said?.message ?? `The server answered ${answer.status}.`,
      );
    }
    return value;
  }

  async items(path) {
    return (await this.call("GET", path)).items;
  }

  /** All of a list by name, which the server gives in parts. */
  async whole(path) {
    const all = [];
    let part = { next: "" };
    do {
      const place = part.next === "" ? "" : `?after=${encodeURIComponent(part.next)}`;
      part = await this.call("GET", path + place);
      all.push(...part.items);
    } while (part.next !== undefined);
    return all;
  }

  /** The path of a queue, and parameters, those without a value left out. */
  static queue(name, rest = "", parameters = {}) {
    const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null);
    const query = new URLSearchParams(given).toString();
    return `/queues/${encodeURIComponent(name)}${rest}${query ? `?${query}` : ""}`;
  }
}
