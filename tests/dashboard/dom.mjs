// As much of a browser's page as the dashboard needs, so that its code runs in Node alone.

import { readFileSync } from "node:fs";

class Node_ {
  constructor(text = null) {
    this.nodes = [];
    this.text = text;
  }

  get textContent() {
    return this.text ?? this.nodes.map((node) => node.textContent).join("");
  }

  set textContent(text) {
    this.nodes = [new Node_(text)];
  }
}

export class Element extends Node_ {
  constructor(tag) {
    super();
    Object.assign(this, { tag, attributes: new Map(), heard: new Map(), value: "", hidden: false });
    this.disabled = this.isOpen = false;
  }

  get children() {
    return this.nodes.filter((node) => node instanceof Element);
  }

  append(...nodes) {
    for (const node of nodes) this.nodes.push(node instanceof Node_ ? node : new Node_(String(node)));
  }

  replaceChildren(...nodes) {
    this.nodes = [];
    this.append(...nodes);
  }

  setAttribute(name, value) {
    if (name === "hidden") this.hidden = true;
    this.attributes.set(name, String(value));
  }

  getAttribute(name) {
    return this.attributes.get(name) ?? null;
  }

  addEventListener(name, work) {
    this.heard.set(name, [...(this.heard.get(name) ?? []), work]);
  }

  fire(name) {
    const event = { preventDefault() {}, target: this };
    for (const work of this.heard.get(name) ?? []) work(event);
    this[`on${name}`]?.(event);
  }

  focus() {}

  showModal() {
    this.isOpen = true;
  }

  close() {
    this.isOpen = false;
  }

  /** All elements below, of a tag. */
  all(tag) {
    return this.children.flatMap((one) => [...(one.tag === tag ? [one] : []), ...one.all(tag)]);
  }

  button(title) {
    const found = this.all("button").find((one) => one.textContent === title && !one.hidden);
    if (!found) throw new Error(`no button ${title} in: ${this.textContent}`);
    return found;
  }
}

/** Lay the page out, for calls of the server at `base`. */
export function open(folder, base) {
  const html = readFileSync(new URL("index.html", folder), "utf8");
  const known = new Map([...html.matchAll(/<(\w+)[^>]*? id="([\w-]+)"([^>]*)>/g)]
    .map(([, tag, id, more]) => [id, Object.assign(new Element(tag), { hidden: / hidden/.test(more) })]));
  const kept = new Map();
  const world = new Element("window");
  const page = new Element("document");
  Object.assign(page, {
    getElementById: (id) => known.get(id) ?? null,
    createElement: (tag) => new Element(tag),
    createElementNS: (_, tag) => new Element(tag),
    createTextNode: (text) => new Node_(text),
  });
  const fetched = globalThis.fetch;
  Object.assign(globalThis, {
    document: page,
    location: { hash: "", pathname: "/dashboard/" },
    history: { replaceState: () => { globalThis.location.hash = ""; } },
    sessionStorage: {
      getItem: (name) => kept.get(name) ?? null,
      setItem: (name, value) => kept.set(name, value),
      removeItem: (name) => kept.delete(name),
    },
    fetch: (path, how) => fetched(base + path, { ...how, cache: undefined }),
    addEventListener: (name, work) => world.addEventListener(name, work),
  });
  return {
    part: (id) => known.get(id),
    kept,
    go(hash) {
      globalThis.location.hash = hash;
      world.fire("hashchange");
    },
  };
}

/** Wait until it is so; the test's own deadline is the limit. */
export async function until(what, isSo) {
  for (const ends = Date.now() + 15_000; !isSo(); ) {
    if (Date.now() > ends) throw new Error(`never came: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
