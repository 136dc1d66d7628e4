// Making elements. All text goes in as text nodes, through `visible`; nothing is ever parsed as HTML.

import { visible } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    node.append(typeof child === "object" ? child : document.createTextNode(visible(child)));
  }
  return node;
}

export const el = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

/** Set an element's text, but only if it is another one: a screen reader reads what changes. */
export function say(node, text) {
  const shown = visible(text);
  if (node.textContent !== shown) node.textContent = shown;
}

/** A table. `columns`: [heading, class]. Its body is filled by `rows`. */
export function table(caption, columns) {
  const body = el("tbody");
  const head = columns.map(([title, kind]) => el("th", { scope: "col", class: kind }, title));
  const whole = el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, head)), body),
  );
  return { whole, body };
}

/** Make a body's rows those of `items`. A row that stays is kept, so that nobody loses their place. */
export function rows(body, items, key, make, update) {
  const there = new Map([...body.children].map((row) => [row.getAttribute("data-key"), row]));
  const wanted = items.map((item) => {
    const name = String(key(item));
    let row = there.get(name);
    if (!row) {
      row = make(item);
      row.setAttribute("data-key", name);
    }
    update?.(row, item);
    return row;
  });
  const present = [...body.children];
  if (present.length !== wanted.length || wanted.some((row, i) => row !== present[i])) {
    body.replaceChildren(...wanted);
  }
}
