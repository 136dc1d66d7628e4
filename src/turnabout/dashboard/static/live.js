// Live: when the queue has changed, or every few seconds, the same page again, and what differs is put
// in place. Nothing moves while the page is hidden, or somebody has a form open or a box ticked.
const SECONDS = 3;
const busy = () => document.hidden || document.querySelector("main details[open], main :checked:not(option), main input:focus");

// The link that the first start of a server prints has the token behind a `#`, which no server sees.
function signIn() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token === null) return;
  history.replaceState(null, "", location.pathname + location.search);
  const field = document.getElementById("token");
  if (field) { field.value = token; field.form.requestSubmit(); }
}
signIn();
addEventListener("hashchange", signIn);

async function look() {
  if (busy()) return;
  const here = new URL(location.href);
  here.searchParams.delete("count"); // which looks through all dead letters
  const answer = await fetch(here);
  const next = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const old of busy() || !answer.ok ? [] : document.querySelectorAll("[data-live]")) {
    const now = next.querySelector(`[data-live="${old.dataset.live}"]`);
    if (!now || old.isEqualNode(now)) continue;
    const focused = document.activeElement?.closest?.("[data-key]")?.dataset.key;
    old.replaceWith(now);
    if (focused !== undefined) now.querySelector(`[data-key="${CSS.escape(focused)}"] a`)?.focus();
  }
}

let seen = "";
async function change() {
  const path = document.querySelector("[data-changes]")?.dataset.changes;
  if (!path || document.hidden) return;
  const answer = await fetch(`${path}?seen=${seen}`);
  if (answer.ok) seen = (await answer.json()).seen;
}

const pause = seconds => new Promise(done => setTimeout(done, 1000 * seconds));
const calm = step => step().catch(() => {}); // the server is away: the next look may find it
for (;;) {
  await Promise.all([pause(SECONDS), calm(change)]);
  if (document.querySelector("[data-live]")) await calm(look);
}
