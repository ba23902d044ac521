// Elements, axes and tables. Names come from data: they are only ever put in as text.
import { shown } from "./figures.mjs";
import { sortable } from "./tables.mjs";

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Record<string, string | number | boolean | null | undefined>} Attributes */

/** @template {Element} T @param {T} made @param {Attributes} attributes @param {(Node | string)[]} children @returns {T} */
function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, String(value === true ? "" : value));
  made.append(...children);
  return made;
}

/** @template {keyof HTMLElementTagNameMap} T @param {T} tag @param {Attributes} [attributes] @param {(Node | string)[]} children @returns {HTMLElementTagNameMap[T]} */
export const el = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);

/** @template {keyof SVGElementTagNameMap} T @param {T} tag @param {Attributes} [attributes] @param {(Node | string)[]} children @returns {SVGElementTagNameMap[T]} */
export const svg = (tag, attributes = {}, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

/** @param {number} x @param {number} y @param {string} said @param {Attributes} [more] */
export const label = (x, y, said, more = {}) => svg("text", { x: x.toFixed(1), y: y.toFixed(1), ...more }, said);

/** A drawing of a width in pixels. @param {number} width @param {number} height @param {string} name @param {Attributes} [more] */
export function drawing(width, height, name, more = {}) {
  const made = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": name, ...more });
  made.classList.add("px");
  const defs = svg("defs");
  for (const [id, path] of [["hatch", "M0 6L6 0M-1 1L1 -1M5 7L7 5"], ["never", "M0 0L8 8M-1 7L1 9M7 -1L9 1"]])
    defs.append(svg("pattern", { id, width: id === "hatch" ? 6 : 8, height: id === "hatch" ? 6 : 8, patternUnits: "userSpaceOnUse" },
      svg("path", { d: path, class: `${id}-line` })));
  made.append(defs);
  return made;
}

/** Round figures from 0 to at most the most. @param {number} most @param {number} [count] */
export function ticks(most, count = 5) {
  if (!(most > 0)) return [0];
  const raw = most / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 2.5, 5, 10].find((m) => m * power >= raw * (1 - 1e-9)) ?? 10) * power;
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, i) => i * step);
}

/** The vertical lines of an axis along x, with their figures below. @param {number} left @param {number} scale @param {number} most @param {number} top @param {number} bottom @param {number} [count] */
export const axis = (left, scale, most, top, bottom, count) =>
  ticks(most, count).flatMap((tick) => [
    svg("path", { d: `M${(left + scale * tick).toFixed(1)} ${top}V${bottom}`, class: "grid" }),
    label(left + scale * tick, bottom + 17, shown(tick), { "text-anchor": "middle", class: "soft" }),
  ]);

/** @param {string} said @param {number} most */
export const short = (said, most) => (said.length <= most ? said : `${said.slice(0, Math.max(1, most - 1))}…`);

/** Rows that can be sorted by a click on a heading. @param {string[]} heads @param {(string | number | null | undefined)[][]} rows @param {number} [most] */
export function table(heads, rows, most = 400) {
  const head = el("tr", {}, ...heads.map((said) => el("th", { scope: "col" }, said)));
  const body = rows.slice(0, most).map((row) => el("tr", {}, ...row.map((cell) => el("td", {}, typeof cell === "string" ? cell : shown(cell)))));
  const made = el("table", {}, el("thead", {}, head), el("tbody", {}, ...body));
  sortable(made);
  const box = el("div", { class: "scroll tall", tabindex: 0 }, made);
  return rows.length > most ? el("div", {}, box, el("p", { class: "soft" }, `The first ${most} of ${rows.length}: filter to see others.`)) : box;
}

/** A drawing's table, folded away; made when it is opened. @param {() => Node} make @param {string} [said] */
export function folded(make, said = "As a table") {
  const box = el("details", {}, el("summary", {}, said));
  box.addEventListener("toggle", () => {
    if (box.open) box.replaceChildren(/** @type {Element} */ (box.firstElementChild), make());
  });
  return box;
}
