// The question before what cannot be undone: a dialog, with a name to type where it matters.

import { say } from "./dom.js";

const part = (id) => document.getElementById(id);
let answer = null;

/** Whether the person says yes. With `name` it has to be typed. */
export function ask({ title, text, yes, name = null }) {
  answer?.(false);
  say(part("ask-title"), title);
  say(part("ask-text"), text);
  say(part("ask-yes"), yes);
  say(part("ask-label"), name ? `To confirm, type ${name}` : "");
  part("ask-line").hidden = !name;
  part("ask-name").value = "";
  part("ask-yes").disabled = Boolean(name);
  part("ask-name").oninput = () => {
    part("ask-yes").disabled = part("ask-name").value !== name;
  };
  part("ask").showModal();
  return new Promise((resolve) => {
    answer = (said) => {
      answer = null;
      part("ask").close();
      resolve(said);
    };
    part("ask-no").onclick = () => answer?.(false);
    part("ask").oncancel = () => answer?.(false); // the Escape key
    part("ask-form").onsubmit = (event) => {
      event.preventDefault();
      if (!part("ask-yes").disabled) answer?.(true);
    };
  });
}
