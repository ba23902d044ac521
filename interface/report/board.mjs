// The board: a row a node, a block a key group, as long as its load. Blocks are dragged, or picked up by keys or a tap.
import { axis, drawing, label, short, svg } from "./draw.mjs";
import { shown } from "./figures.mjs";

/** @typedef {import("./arithmetic.mjs").Model} Model */
/**
 * @typedef {object} Game
 * @property {Model} model
 * @property {ArrayLike<number>} place
 * @property {boolean} byHand
 * @property {() => ArrayLike<number>} loads  Of each key group, as drawn.
 * @property {() => ArrayLike<number>} extra  Of each node, what remote traffic costs it.
 * @property {() => readonly number[]} rows  The nodes that are drawn.
 * @property {() => {at: number, said: string}[]} lines  Means and limits, per unit of capacity.
 * @property {(node: number) => number | null} room  A node's own limit on its load.
 * @property {(k: number) => boolean} matches  Whether a key group passes the filters.
 * @property {(k: number, node: number) => void} move
 * @property {(said: string) => void} say
 * @property {(k: number | null) => void} chosen
 */

const HEIGHT = 30, TOP = 22;

export class Board {
  /** @param {Game} game @param {HTMLElement} host */
  constructor(game, host) {
    this.game = game;
    this.host = host;
    /** @type {number | null} The key group picked up, or under the keys. */
    this.held = null;
    /** @type {number | null} */
    this.cursor = null;
    /** @type {number | null} The node where it would go. */
    this.aim = null;
    /** @type {{k: number, x: number, y: number, moving: boolean, ghost: SVGElement | null} | null} */
    this.drag = null;
    this.svg = drawing(100, 100, "Load of every node");
    this.draw();
  }

  /** Everything anew: for another answer, filter or width. */
  draw() {
    const { game, host } = this, rows = game.rows(), width = Math.max(300, host.clientWidth || 760);
    this.left = width < 600 ? 92 : 140;
    this.nodes = rows;
    this.width = width;
    const now = this.sums(game.place), was = this.sums(game.model.current), extra = game.extra();
    const lines = game.lines();
    this.most = Math.max(...rows.map((i) => Math.max((now[i] + extra[i]) / game.model.capacity[i], was[i] / game.model.capacity[i], game.room(i) ?? 0)), ...lines.map((l) => l.at), 1e-300) * 1.12;
    this.scale = (width - this.left - 16) / this.most;
    const bottom = TOP + HEIGHT * rows.length, height = bottom + 26;
    const help = game.byHand ? ". Arrow keys go from key group to key group, Enter picks one up, up and down choose its node, Enter drops it, Escape lets go" : "";
    const made = drawing(width, height, `Load of every node${help}`, game.byHand ? { tabindex: 0, role: "application", class: "board" } : { class: "board" });
    made.append(...axis(this.left, this.scale, this.most, TOP, bottom, width < 600 ? 3 : 6));
    /** @type {Map<number, SVGGElement>} */
    this.groups = new Map();
    for (const node of rows) {
      const group = svg("g", { "data-node": node });
      this.groups.set(node, group);
      made.append(group);
      this.row(node);
    }
    let last = -1e9;
    for (const line of [...lines].sort((a, b) => a.at - b.at)) {
      const x = this.left + this.scale * line.at, wide = 6.4 * line.said.length, clear = x - wide / 2 > last;
      made.append(svg("path", { d: `M${x} ${TOP - 4}V${bottom}`, class: line.said === "mean" ? "mean" : "limit", "data-tip": `${line.said}: ${shown(line.at)}` }));
      if (clear) {
        made.append(label(Math.min(x, width - wide / 2 - 2), 12, line.said, { "text-anchor": "middle", class: "soft" }));
        last = x + wide / 2 + 6;
      }
    }
    const focused = document.activeElement === this.svg;
    this.svg = made;
    host.replaceChildren(made);
    if (game.byHand) this.listen();
    if (focused) made.focus();
  }

  /** Load of each node, as drawn. @param {ArrayLike<number>} place */
  sums(place) {
    const loads = this.game.loads(), held = new Float64Array(this.game.model.nodes.length);
    for (let k = 0; k < place.length; k++) held[place[k]] += loads[k];
    return held;
  }

  /** Some rows anew, after an edit. @param {readonly number[]} nodes */
  update(nodes) {
    const now = this.sums(this.game.place), extra = this.game.extra(), { capacity } = this.game.model;
    if (nodes.some((i) => (now[i] + extra[i]) / capacity[i] > /** @type {number} */ (this.most))) this.draw();
    else for (const node of nodes) this.row(node);
  }

  /** @param {number} node */
  members(node) {
    const { place, model } = this.game, loads = this.game.loads(), found = [];
    for (let k = 0; k < place.length; k++) if (place[k] === node) found.push(k);
    return found.sort((a, b) => Number(model.current[a] !== node) - Number(model.current[b] !== node) || loads[b] - loads[a] || a - b);
  }

  /** One row: the name, the blocks, what was there before. @param {number} node */
  row(node) {
    const group = this.groups?.get(node);
    if (!group) return;
    const { game } = this, { model } = game, at = /** @type {readonly number[]} */ (this.nodes).indexOf(node), y = TOP + HEIGHT * at;
    const left = /** @type {number} */ (this.left), scale = /** @type {number} */ (this.scale) / model.capacity[node], loads = game.loads();
    const drains = model.draining[node] ? " (drains)" : "";
    /** @type {SVGElement[]} */
    const parts = [
      svg("rect", { x: 0, y, width: /** @type {number} */ (this.width), height: HEIGHT, class: node === this.aim ? "row aim" : "row" }),
      label(left - 8, y + 18, short(model.nodes[node] + drains, left > 100 ? 19 : 12), { "text-anchor": "end", "data-tip": model.nodes[node] + drains }),
    ];
    let x = left, before = 0;
    for (const k of this.members(node)) {
      const wide = loads[k] * scale, came = model.current[k] !== node;
      const kind = ["block", came ? "came" : "", k === this.held ? "held" : "", k === this.cursor ? "cursor" : "", game.matches(k) ? "" : "faint"].join(" ").trim();
      const said = `${model.keys[k]}: load ${shown(loads[k])}, state ${shown(model.state[k])}${came ? `, from ${model.nodes[model.current[k]]}` : ""}`;
      parts.push(svg("rect", { x: x.toFixed(2), y: y + 4, width: Math.max(0.4, wide - (wide > 3 ? 1 : 0.2)).toFixed(2), height: HEIGHT - 11, class: kind, "data-k": k, "data-tip": said }));
      if (came) parts.push(svg("rect", { x: x.toFixed(2), y: y + 4, width: Math.max(0.4, wide - 1).toFixed(2), height: HEIGHT - 11, fill: "url(#hatch)", class: "over" }));
      x += wide;
    }
    const extra = game.extra()[node] * scale;
    if (extra > 0) parts.push(svg("rect", { x: x.toFixed(2), y: y + 4, width: extra.toFixed(2), height: HEIGHT - 11, class: "talk", "data-tip": `${shown(game.extra()[node])} for traffic with other nodes` }));
    for (let k = 0; k < model.current.length; k++) if (model.current[k] === node) before += loads[k];
    const mark = left + before * scale;
    parts.push(svg("path", { d: `M${mark - 4} ${y + HEIGHT - 1}L${mark} ${y + HEIGHT - 7}L${mark + 4} ${y + HEIGHT - 1}Z`, class: "was", "data-tip": `${model.nodes[node]} before: ${shown(before)}` }));
    const room = game.room(node);
    if (room !== null) parts.push(svg("path", { d: `M${left + /** @type {number} */ (this.scale) * room} ${y + 2}v${HEIGHT - 5}`, class: "limit", "data-tip": `limit of ${model.nodes[node]}: ${shown(room * model.capacity[node])}` }));
    group.replaceChildren(...parts);
  }

  /** Rows whose marks have changed. @param {(number | null)[]} nodes */
  refresh(...nodes) {
    for (const node of new Set(nodes)) if (node !== null) this.row(node);
  }

  /** Pick a key group up, or let go. @param {number | null} k */
  pick(k) {
    const { place, model } = this.game, old = this.held, aim = this.aim;
    this.held = k;
    this.aim = null;
    if (k !== null) this.cursor = k;
    this.refresh(old === null ? null : place[old], aim, k === null ? null : place[k]);
    this.game.chosen(k);
    if (k !== null) this.game.say(`${model.keys[k]} picked up on ${model.nodes[place[k]]}. Choose a node.`);
  }

  /** Put the key group down. @param {number} node */
  drop(node) {
    const k = this.held;
    this.pick(null);
    if (k !== null && this.game.place[k] !== node) this.game.move(k, node);
  }

  /** @param {PointerEvent} event */
  under(event) {
    const box = this.svg.getBoundingClientRect(), y = ((event.clientY - box.top) / box.height) * this.svg.viewBox.baseVal.height;
    const at = Math.floor((y - TOP) / HEIGHT), nodes = /** @type {readonly number[]} */ (this.nodes);
    return at >= 0 && at < nodes.length ? nodes[at] : null;
  }

  /** @param {number | null} node */
  aimAt(node) {
    if (node === this.aim) return;
    const old = this.aim;
    this.aim = node;
    this.refresh(old, node);
  }

  listen() {
    const { svg: made } = this;
    made.addEventListener("pointerdown", (event) => this.down(event));
    made.addEventListener("pointermove", (event) => this.moved(event));
    made.addEventListener("pointerup", (event) => this.up(event));
    made.addEventListener("pointercancel", () => this.stop());
    made.addEventListener("keydown", (event) => this.key(event));
  }

  /** @param {PointerEvent} event */
  down(event) {
    const part = event.target instanceof Element ? event.target.closest("[data-k]") : null;
    if (event.button !== 0 || !part) return;
    const k = Number(part.getAttribute("data-k"));
    if (event.pointerType === "touch" && this.held !== k) return;  // the first touch picks up, see `up`; a finger may want to scroll
    event.preventDefault();
    this.svg.focus({ preventScroll: true });
    this.drag = { k, x: event.clientX, y: event.clientY, moving: false, ghost: null };
    this.svg.setPointerCapture(event.pointerId);
  }

  /** @param {PointerEvent} event */
  moved(event) {
    const drag = this.drag;
    if (!drag) return;
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (!drag.moving) {
      if (Math.hypot(dx, dy) < 5) return;
      drag.moving = true;
      if (this.held !== drag.k) this.pick(drag.k);
      const part = this.svg.querySelector(`[data-k="${drag.k}"]`);
      drag.ghost = /** @type {SVGElement | null} */ (part?.cloneNode() ?? null);
      drag.ghost?.setAttribute("class", "block ghost");
      if (drag.ghost) this.svg.append(drag.ghost);
    }
    drag.ghost?.setAttribute("transform", `translate(${dx} ${dy})`);
    this.aimAt(this.under(event));
  }

  /** @param {PointerEvent} event */
  up(event) {
    const drag = this.drag, node = this.under(event);
    const part = event.target instanceof Element ? event.target.closest("[data-k]") : null;
    this.stop(drag !== null && drag.moving);
    if (drag?.moving) {
      if (node !== null) this.drop(node);
      else this.pick(null);
    } else if (this.held !== null && node !== null && node !== this.game.place[this.held]) this.drop(node);
    else if (drag || part) {
      const k = drag ? drag.k : Number(part?.getAttribute("data-k"));
      this.pick(this.held === k ? null : k);
    }
  }

  stop(keep = false) {
    this.drag?.ghost?.remove();
    this.drag = null;
    if (!keep) this.aimAt(null);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { place, model } = this.game, nodes = /** @type {readonly number[]} */ (this.nodes), step = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape" && this.held !== null) this.pick(null);
    else if ((event.key === "Enter" || event.key === " ") && this.cursor !== null) {
      if (this.held === null) this.pick(this.cursor);
      else this.drop(this.aim ?? place[this.held]);
    } else if (/Left|Right/.test(event.key) && step !== undefined && this.held === null && this.cursor !== null) {
      const row = this.members(place[this.cursor]).filter((k) => this.game.matches(k));
      this.look(row[(row.indexOf(this.cursor) + step + row.length) % row.length]);
    } else if (step !== undefined && this.held !== null) {
      const from = nodes.indexOf(this.aim ?? place[this.held]);
      this.aimAt(nodes[(from + step + nodes.length) % nodes.length]);
      this.game.say(`to ${model.nodes[/** @type {number} */ (this.aim)]}`);
    } else if (step !== undefined) {
      const from = this.cursor === null ? -1 : nodes.indexOf(place[this.cursor]);
      for (let at = 1; at <= nodes.length; at++) {
        const row = this.members(nodes[(from + step * at + 2 * nodes.length) % nodes.length]).filter((k) => this.game.matches(k));
        if (row.length) return event.preventDefault(), this.look(row[0]);
      }
    } else return;
    event.preventDefault();
  }

  /** Put the keys' mark on a key group. @param {number} k */
  look(k) {
    const { place, model } = this.game, old = this.cursor;
    this.cursor = k;
    this.refresh(old === null ? null : place[old], place[k]);
    this.game.say(`${model.keys[k]} on ${model.nodes[place[k]]}, load ${shown(this.game.loads()[k])}`);
  }
}
