
"use strict";
// A click on a heading sorts by it: numbers the largest first, then the other way round.
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, place) => head.firstElementChild.addEventListener("click", () => {
    const isText = head.classList.contains("text");
    const down = head.getAttribute("aria-sort") === (isText ? "ascending" : null) ||
      (!isText && head.getAttribute("aria-sort") !== "descending");
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (row) => row.cells[place].dataset.key ?? "";
    const body = table.tBodies[0];
    const rows = [...body.rows].sort((one, other) => isText
      ? key(one).localeCompare(key(other), undefined, { numeric: true })
      : key(one) - key(other));
    body.append(...(down ? rows.reverse() : rows));
  }));
}
