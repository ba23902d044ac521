// Tables that sort by a click on a heading; and what a drawing says of a part, where a pointer or the focus rests on it.

/** The number in a cell, its unit of bytes counted in, or nothing. @param {string} said */
const numberIn = (said) => Number(said.replace(/[,%]|[/a-zA-Z]+$/g, "").trim() || NaN) * 1000 ** " KMGTP".indexOf(/ ([KMGTP])B/.exec(said)?.[1] ?? " ");

/** @param {HTMLTableElement} table @param {number} column @param {boolean} rising */
function sort(table, column, rising) {
  const body = table.tBodies[0], sign = rising ? 1 : -1;
  const rows = [...body.rows].map((row) => ({ row, said: row.cells[column].textContent ?? "", value: numberIn(row.cells[column].textContent ?? "") }));
  rows.sort((a, b) => {
    if (Number.isNaN(a.value) && Number.isNaN(b.value)) return sign * a.said.localeCompare(b.said, undefined, { numeric: true });
    if (Number.isNaN(a.value) || Number.isNaN(b.value)) return Number.isNaN(a.value) ? 1 : -1;
    return sign * (a.value - b.value);
  });
  body.append(...rows.map((entry) => entry.row));
}

/** Headings become buttons. @param {HTMLTableElement} table */
export function sortable(table) {
  const heads = [...(table.tHead?.rows[0]?.cells ?? [])];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const rising = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      sort(table, column, rising);
    });
  });
}

/** One box for all drawings of the page: it shows `data-tip`, or what was a title. */
export function tips() {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  /** @param {Event} event @param {number} x @param {number} y */
  const show = (event, x, y) => {
    const target = event.target instanceof Element ? event.target : null, part = target?.closest("svg [data-tip]");
    tip.hidden = !part;
    if (!part) return;
    tip.textContent = part.getAttribute("data-tip");
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${y + 18 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 10 : y + 18}px`;
  };
  document.addEventListener("pointermove", (event) => show(event, event.clientX, event.clientY));
  document.addEventListener("pointerdown", () => (tip.hidden = true));
  document.addEventListener("focusin", (event) => {
    const box = event.target instanceof SVGElement ? event.target.getBoundingClientRect() : null;
    if (box) show(event, box.left, box.bottom - 14);
  });
}

if (document.getElementById("cards")) {
  for (const title of document.querySelectorAll("svg title")) {
    const part = title.parentElement;
    part?.setAttribute("data-tip", title.textContent ?? "");
    part?.setAttribute("aria-label", title.textContent ?? "");
    title.remove();
  }
  for (const table of document.querySelectorAll("table")) sortable(table);
  tips();
  addEventListener("beforeprint", () => {
    for (const box of document.querySelectorAll("details")) box.open = true;
  });
}
