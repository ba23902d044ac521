// Live figures of the lessons, from the parts of the page of `keyshift explore`.
import { check } from "./arithmetic.mjs";
import { Board } from "./board.mjs";
import { drawing, el, label, svg, ticks } from "./draw.mjs";
import { shown } from "./figures.mjs";
import { tips } from "./tables.mjs";

/** @typedef {import("./arithmetic.mjs").Model} Model */

/** A slider with its name and value. @param {string} name @param {number} least @param {number} most @param {number} step @param {number} value @param {(value: number) => void} act */
function slider(name, least, most, step, value, act) {
  const range = el("input", { type: "range", min: least, max: most, step, value, "aria-label": name }), said = el("output", {}, shown(value));
  range.addEventListener("input", () => {
    said.textContent = shown(Number(range.value));
    act(Number(range.value));
  });
  return el("label", {}, `${name}: `, said, range);
}

/** @param {string} said @param {() => void} act */
function button(said, act) {
  const made = el("button", { type: "button" }, said);
  made.addEventListener("click", act);
  return made;
}

/** Axes of a curve, and where a point is. @param {number} width @param {string} name @param {number} mostX @param {number} mostY @param {string} under */
function plane(width, name, mostX, mostY, under) {
  const made = drawing(width, 240, name), x = (/** @type {number} */ v) => 44 + (v / mostX) * (width - 60), y = (/** @type {number} */ v) => 200 - (v / mostY) * 185;
  for (const tick of ticks(mostY)) made.append(svg("path", { d: `M44 ${y(tick)}H${width - 16}`, class: "grid" }), label(38, y(tick) + 4, shown(tick), { "text-anchor": "end" }));
  for (const tick of ticks(mostX)) made.append(label(x(tick), 218, shown(tick), { "text-anchor": "middle" }));
  made.append(label(width / 2, 236, under, { "text-anchor": "middle" }));
  return { made, x, y, line: (/** @type {number[][]} */ points, /** @type {string} */ kind) => made.append(svg("path", { d: `M${points.map(([a, b]) => `${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("L")}`, class: kind })) };
}

/** Six key groups by hand. @param {HTMLElement} host @param {{model: Model, bound: number}} given */
function six(host, { model, bound }) {
  let place = [...model.current];
  const said = el("p", { "aria-live": "polite" }), body = el("div", { class: "host" });
  const loads = model.load[0], mean = model.play.mean;
  const say = () => {
    const { objective, metrics, violations } = check(model, place), above = objective - bound;
    said.textContent = `d = ${shown(objective)} after ${metrics.migrations === 1 ? "one move" : `${metrics.migrations} moves`}; ${above > 1e-9 ? `${shown(above)} above the bound ${shown(bound)}` : "that is the bound: no answer is better"}. ${violations.length ? `✗ ${violations.map((v) => v.said).join("; ")}` : "✓ All limits are kept."}`;
  };
  const board = new Board({
    model, byHand: true, get place() { return place; }, loads: () => loads, extra: () => new Float64Array(model.nodes.length), rows: () => model.nodes.map((_, i) => i),
    lines: () => [{ at: mean, said: "mean" }, { at: mean + bound, said: "mean + bound" }], room: () => null, matches: () => true, say: () => undefined, chosen: () => undefined,
    move: (k, node) => { place[k] = node; board.draw(); say(); },
  }, body);
  host.append(body, said, button("Start again", () => { place = [...model.current]; board.draw(); say(); }));
  board.draw();
  say();
}

/** L(q) of the three nodes by hand, as the price of the 4 rises. @param {HTMLElement} host */
function prices(host) {
  const nodes = [[3, 3], [3, 3], [4, 5]], said = el("p", { "aria-live": "polite" }), body = el("div");
  const subsets = (/** @type {number[]} */ of) => Array.from({ length: 2 ** of.length }, (_, bits) => of.filter((_v, i) => bits & (1 << i)));
  const total = (/** @type {number[]} */ of) => of.reduce((a, b) => a + b, 0);
  const cheapest = (/** @type {number} */ i, /** @type {number} */ q) => {
    const price = (/** @type {number} */ load) => (load === 4 ? q : 0), others = nodes.flatMap((of, j) => (j === i ? [] : of));
    const columns = subsets(nodes[i]).flatMap((out) => subsets(others).filter((into) => total(nodes[i]) - total(out) + total(into) === 7)
      .map((into) => ({ out, into, cost: out.reduce((s, v) => s + 1 - price(v), 0) + into.reduce((s, v) => s + price(v), 0) })));
    return columns.reduce((a, b) => (b.cost < a.cost - 1e-12 ? b : a));
  };
  const worth = (/** @type {number} */ q) => nodes.reduce((s, _, i) => s + cheapest(i, q).cost, 0);
  const show = (/** @type {number} */ q) => {
    const { made, x, y, line } = plane(Math.min(560, host.clientWidth || 500), "L(q) against the price of the 4", 2, 8, "price of the 4");
    line(Array.from({ length: 81 }, (_, i) => [i / 40, worth(i / 40)]), "steps");
    line([[0, 3], [2, 3]], "bound");
    made.append(label(x(2) - 4, y(3) - 6, "three moves", { "text-anchor": "end" }), svg("circle", { cx: x(q), cy: y(worth(q)), r: 6, class: "answer" }));
    body.replaceChildren(made);
    said.textContent = `L(q) = ${shown(worth(q))}${worth(q) > 3 + 1e-9 ? ": three moves cannot do it" : ": three moves are not ruled out"}. ${nodes.map((_, i) => { const c = cheapest(i, q); return `Node ${i} sends ${c.out.join(" and ")}, takes ${c.into.join(" and ")}, at ${shown(c.cost)}`; }).join(". ")}.`;
  };
  host.append(slider("price of the 4", 0, 2, 0.05, 0, show), body, said);
  show(0);
}

/** The cliff at 2 / p1: what the most frequent key puts on each of its two workers. @param {HTMLElement} host */
function cliff(host) {
  let share = 0.1, workers = 10;
  const said = el("p", { "aria-live": "polite" }), body = el("div");
  const least = (/** @type {number} */ w) => Math.max(1, (w * share) / 2);
  const show = () => {
    const { made, x, y, line } = plane(Math.min(560, host.clientWidth || 500), "least largest load against workers", 60, 6, "workers");
    line(Array.from({ length: 60 }, (_, i) => [i + 1, Math.min(6, least(i + 1))]), "steps");
    if (2 / share <= 60) line([[2 / share, 0], [2 / share, 6]], "bound");
    made.append(svg("circle", { cx: x(workers), cy: y(Math.min(6, least(workers))), r: 6, class: "answer" }), label(46, 12, "largest load / mean, at least"));
    body.replaceChildren(made);
    said.textContent = `2 / p1 = ${shown(2 / share)}. With ${workers} workers the mean is ${shown(100 / workers)} % of all messages, and half of the first key is ${shown(50 * share)} %: ${workers > 2 / share + 1e-9 ? `no scheme with two choices gets below ${shown(least(workers))} times the mean.` : "this key does not stand in the way of balance."}`;
  };
  host.append(slider("workers", 1, 60, 1, workers, (v) => { workers = v; show(); }), slider("share p1 of the first key", 0.04, 0.5, 0.01, share, (v) => { share = v; show(); }), body, said);
  show();
}

/** The table of the dynamic program for twenty tasks and the order of nodes 0, 2, 1: the least state moved. @param {HTMLElement} host */
function intervals(host) {
  const order = [0, 2, 1], tasks = 20, room = 9, now = (/** @type {number} */ k) => (k < 13 ? 0 : 1);
  const best = /** @type {number[][]} */ ([[0, ...Array(tasks).fill(Infinity)]]);
  for (const [row, node] of order.entries())
    best.push(Array.from({ length: tasks + 1 }, (_, k) => {
      let least = Infinity, moved = 0;
      for (let j = k; j >= Math.max(0, k - room); j--) {
        if (j < k) moved += Number(now(j) !== node);
        least = Math.min(least, best[row][j] + moved);
      }
      return least;
    }));
  let step = 0;
  const said = el("p", { "aria-live": "polite" }), body = el("div", { class: "scroll" });
  const show = () => {
    const row = Math.min(order.length, Math.floor(step / (tasks + 1)) + 1), at = step % (tasks + 1), done = step >= order.length * (tasks + 1);
    const cell = (/** @type {number} */ r, /** @type {number} */ k) => (r < row || k < at || done ? (best[r][k] === Infinity ? "∞" : String(best[r][k])) : "");
    body.replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "first tasks"), ...Array.from({ length: tasks + 1 }, (_, k) => el("th", {}, String(k))))),
      el("tbody", {}, ...order.map((node, r) => el("tr", {}, el("th", {}, `to node ${node}`), ...Array.from({ length: tasks + 1 }, (_, k) => el("td", { class: !done && r + 1 === row && k === at - 1 ? "now" : null }, cell(r + 1, k))))))));
    said.textContent = done ? `The last figure of the last row: ${best[order.length][tasks]} tasks move, and no cut moves fewer in this order.` : at ? `The first ${at - 1} tasks on the first ${row} ${row === 1 ? "node" : "nodes"}: ${cell(row, at - 1)} move at least; ∞ where the nodes cannot hold them.` : "Fill the table, figure by figure.";
  };
  const go = (/** @type {number} */ by) => { step = Math.max(0, Math.min(order.length * (tasks + 1), step + by)); show(); };
  host.append(button("Next figure", () => go(1)), button("Next row", () => go(tasks + 1 - (step % (tasks + 1)))), button("Start again", () => go(-step)), body, said);
  show();
}

/** A front being traced: all 729 assignments of six key groups, one budget after another. @param {HTMLElement} host @param {{model: Model}} given */
function front(host, { model }) {
  const all = Array.from({ length: 3 ** 6 }, (_, code) => check(model, Array.from({ length: 6 }, (_v, k) => Math.floor(code / 3 ** k) % 3)).metrics).map((m) => [m.state_moved, m.imbalance]);
  let found = /** @type {number[][]} */ ([]), budget = Infinity;
  const said = el("p", { "aria-live": "polite" }), body = el("div"), most = Math.max(...all.map((p) => p[0]));
  const show = () => {
    const { made, x, y, line } = plane(Math.min(560, host.clientWidth || 500), "imbalance against state moved", most, 60, "state moved");
    for (const [a, b] of all) if (b <= 60) made.append(svg("circle", { cx: x(a), cy: y(b), r: 2, class: a > budget ? "faint" : "dot" }));
    if (found.length) line(found, "steps");
    for (const [a, b] of found) made.append(svg("circle", { cx: x(a), cy: y(b), r: 6, class: "answer", "data-tip": `moves ${shown(a)}, imbalance ${shown(b)}` }));
    if (budget < Infinity && budget >= 0) line([[budget, 0], [budget, 60]], "bound");
    body.replaceChildren(made);
  };
  const next = () => {
    const open = all.filter(([a]) => a <= budget);
    if (!open.length) return void (said.textContent = `Nothing moves less than nothing: the front is whole, with ${found.length} points.`);
    const best = open.reduce((a, b) => (b[1] < a[1] - 1e-9 || (Math.abs(b[1] - a[1]) <= 1e-9 && b[0] < a[0]) ? b : a));
    said.textContent = `Among ${open.length} assignments${budget < Infinity ? ` that move at most ${shown(budget)}` : ""}, the least imbalance is ${shown(best[1])}, by moving ${shown(best[0])}. The next budget is just below that.`;
    found = [best, ...found];
    budget = best[0] - 1;
    show();
  };
  host.append(button("Next budget", next), button("Start again", () => { found = []; budget = Infinity; said.textContent = ""; show(); }), body, said);
  show();
}

/** @type {Record<string, (host: HTMLElement, given: any) => void>} */
const FIGURES = { six, prices, cliff, intervals, front };

addEventListener("DOMContentLoaded", () => {
  const hosts = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-live]"));
  for (const host of hosts) {
    const given = JSON.parse(host.querySelector("script")?.textContent ?? "null");
    host.replaceChildren();
    FIGURES[host.dataset.live ?? ""](host, given);
  }
  if (hosts.length) tips();
});
