// The page of `keyshift explore`: a slider over answers, key groups moved by hand, two answers side by side.
import { check, countOf } from "./arithmetic.mjs";
import { Board } from "./board.mjs";
import { drawing, el, folded, label, short, svg, table, ticks } from "./draw.mjs";
import { bincount, figure, shown } from "./figures.mjs";

/** @typedef {import("./arithmetic.mjs").Model} Model */
/** @typedef {{seconds: number, bound: number, peak: number, phases: number, rows: number[][]}} Schedule */
/** @typedef {{name: string, method: string, status: string, objective: number, bound: number | null, seconds: number, metrics: Record<string, number>, moves: number[][], second: number | null, limit: number | null, schedule: Schedule | null}} Answer */
/** @typedef {{name: string, metric: string, limit: string, label: string, offset: number, whole: boolean}} Trade */
/** @typedef {Model & {labels: Record<string, string[]>, domains: Record<string, string[]>, block: number[] | null, by_hand: boolean}} Whole */
/** @typedef {{problem: string, objective: string, scale: number, trade: Trade | null, instead: string, model: Whole | null, points: Answer[], rivals: Answer[], timed: boolean}} Content */

const MOST_ROWS = 60;

/** @param {string} name */
const spaced = (name) => name.replaceAll("_", " ");

class Explorer {
  /** @param {Content} content */
  constructor(content) {
    this.content = content;
    const model = (this.model = content.model);
    /** @type {Answer} */
    const today = { name: "as it is now", method: "nothing moves", status: "feasible", objective: NaN, bound: null, seconds: 0, metrics: {}, moves: [], second: null, limit: null, schedule: null };
    this.answers = [...content.points, ...content.rivals, ...(model ? [today] : [])];
    this.at = content.points.length - 1;
    this.undone = /** @type {{place: Int32Array<ArrayBufferLike>, at: number, edited: boolean}[]} */ ([]);
    this.redone = this.undone.slice();
    this.edited = false;
    /** @type {Int32Array<ArrayBufferLike>} */
    this.place = this.placeOf(this.answers[this.at]);
    this.mean = /** @type {number[] | null} */ (null);
    this.chosen = /** @type {number[] | null} */ (null);
    /** @type {Map<HTMLElement, number>} Widths of cards, measured once: to ask anew at each edit would lay out the page each time. */
    this.widths = new Map();
    this.pending = 0;
    this.cards = /** @type {HTMLElement} */ (document.getElementById("cards"));
    this.last = this.cards.firstElementChild;
    this.live = el("p", { class: "live", "aria-live": "polite" });
    this.slider = el("input", { type: "range", min: 0, max: content.points.length - 1, value: this.at, step: 1, id: "slider", "aria-label": content.trade?.label ?? "answer" });
    this.where = el("output", { for: "slider" });
    this.buttons = { undo: this.button("Undo", () => this.step(true), "Ctrl+Z"), redo: this.button("Redo", () => this.step(false)), back: this.button("Back to this answer", () => this.stand(this.at)), save: this.button("Save assignment", () => this.save(), "keyshift check and keyshift plan read it") };
    this.now = el("span", { class: "now" });
    this.tiles = el("div", { class: "tiles" });
    this.status = el("div", { class: "status" });
    this.compareBody = el("div");
    this.filter = /** @type {Record<string, string>} */ ({});
    this.window = -1;
    this.compared = [Math.max(0, content.points.length - 1), content.rivals.length ? content.points.length : 0];
    if (model?.by_hand) for (const answer of this.answers) this.value(answer);
    this.build();
    this.refresh();
  }

  /** Figures of an answer as the page computes them: what a page shows of today, too. @param {Answer} answer */
  value(answer) {
    const report = check(/** @type {Whole} */ (this.model), this.placeOf(answer));
    if (Number.isNaN(answer.objective)) Object.assign(answer, { objective: report.objective, metrics: report.metrics, status: report.violations.length ? "breaks limits" : "feasible" });
    const trade = this.content.trade;
    if (trade && answer.second === null) answer.second = report.metrics[trade.metric] ?? null;
  }

  /** @param {Answer} answer */
  placeOf(answer) {
    const place = Int32Array.from(this.model?.current ?? []);
    for (const [k, node] of answer.moves) place[k] = node;
    return place;
  }

  // What is drawn ------------------------------------------------------------------------------------------------

  /** The windows that count. @returns {number[][]} */
  windows() {
    return this.model?.play?.windows.map((/** @type {{load: number[]}} */ w) => w.load) ?? this.model?.load.slice(-1) ?? [];
  }

  /** Loads of key groups in the window chosen, or their mean. */
  loads() {
    const rows = this.windows(), one = rows.length === 1 ? rows[0] : rows[this.window];
    return one ?? (this.mean ??= rows[0].map((_, k) => rows.reduce((s, row) => s + row[k], 0) / rows.length));
  }

  /** What remote traffic costs each node, where there is one window. */
  extra() {
    const n = this.model?.nodes.length ?? 0;
    if (!this.report || !this.model?.play?.serialisation || this.windows().length > 1) return new Float64Array(n);
    const own = bincount(this.place, this.loads(), n);
    return this.report.loads.map((v, i) => Math.max(0, v - own[i]));
  }

  /** Lines across all rows: the mean, and limits that are the same for every node. */
  lines() {
    const m = /** @type {Whole} */ (this.model), loads = this.loads();
    let total = 0, kept = 0;
    for (const v of loads) total += v;
    for (const v of this.extra()) total += v;
    m.capacity.forEach((c, i) => (kept += m.draining[i] ? 0 : c));
    const mean = total / kept, found = [{ at: mean, said: "mean" }], play = m.play;
    const away = play?.max_load_distance === undefined || play.max_load_distance === null ? null : play.max_load_distance * (play.distance_unit === "percent" ? mean / 100 : 1);
    if (away !== null) found.push({ at: mean + away, said: "most" }, ...(play?.sides === "upper" ? [] : [{ at: Math.max(0, mean - away), said: "least" }]));
    if (play?.theta_max !== undefined) found.push({ at: (1 + play.theta_max) * mean, said: "most" }, ...(play.sides === "both" ? [{ at: Math.max(0, 1 - play.theta_max) * mean, said: "least" }] : []));
    return found;
  }

  /** A node's own limit on load, per unit of capacity. @param {number} node */
  room(node) {
    const room = this.model?.play?.rooms?.find((/** @type {{name: string}} */ r) => r.name === "load");
    return room ? room.most[node] / /** @type {Whole} */ (this.model).capacity[node] : null;
  }

  /** @param {number} k */
  matches(k) {
    const m = /** @type {Whole} */ (this.model);
    return Object.entries(this.filter).every(([name, wanted]) => {
      if (wanted === "") return true;
      if (name === "node") return String(this.place[k]) === wanted || String(m.current[k]) === wanted;
      return m.labels[name]?.[k] === wanted;
    });
  }

  /** The nodes that are drawn: chosen anew for another answer or filter, not at each edit. The board keeps the list, so nobody sorts it. @returns {readonly number[]} */
  rows() {
    return (this.chosen ??= this.choose());
  }

  /** The nodes worth drawing: of many, those of the filter, those that take part in moves, the most deviating. */
  choose() {
    const m = /** @type {Whole} */ (this.model), n = m.nodes.length;
    const all = Array.from({ length: n }, (_, i) => i);
    const racks = Object.entries(this.filter).filter(([name, wanted]) => wanted !== "" && m.domains[name]);
    const inside = all.filter((i) => racks.every(([name, wanted]) => m.domains[name][i] === wanted));
    if (inside.length <= MOST_ROWS) return inside;
    const held = bincount(this.place, this.loads(), n), score = new Float64Array(n), middle = this.lines()[0].at;
    for (const i of all) score[i] = Math.abs(held[i] / m.capacity[i] - middle) / (middle || 1);
    for (let k = 0; k < this.place.length; k++) if (this.place[k] !== m.current[k]) { score[this.place[k]] += 1; score[m.current[k]] += 1; }
    if (this.filter.node) score[Number(this.filter.node)] = Infinity;
    return inside.sort((a, b) => score[b] - score[a]).slice(0, MOST_ROWS).sort((a, b) => a - b);
  }

  // Edits --------------------------------------------------------------------------------------------------------

  keep() {
    this.undone.push({ place: Int32Array.from(this.place), at: this.at, edited: this.edited });
    this.redone = [];
  }

  /** @param {number} k @param {number} node */
  move(k, node) {
    if (!this.model?.by_hand || this.place[k] === node) return;
    const from = this.place[k];
    this.keep();
    this.place[k] = node;
    this.edited = true;
    this.refresh([from, node]);
    this.relabel(k);
    const report = /** @type {import("./arithmetic.mjs").Report} */ (this.report);
    this.say(`${this.model.keys[k]} moved from ${this.model.nodes[from]} to ${this.model.nodes[node]}. ${this.content.objective} ${this.said(report.objective)}. ${report.violations.length ? "A limit or rule is broken." : "All limits and rules are kept."}`);
  }

  /** @param {number} at */
  stand(at) {
    this.keep();
    this.at = at;
    this.edited = false;
    this.place = this.placeOf(this.answers[at]);
    this.refresh();
  }

  /** One step back, or forth again. @param {boolean} back */
  step(back) {
    const [from, to] = back ? [this.undone, this.redone] : [this.redone, this.undone], state = from.pop();
    if (!state) return;
    to.push({ place: this.place, at: this.at, edited: this.edited });
    ({ place: this.place, at: this.at, edited: this.edited } = state);
    this.refresh();
    this.say(back ? "Undone." : "Done again.");
  }

  /** The assignment as `keyshift check` and `keyshift plan` read it. */
  save() {
    const m = /** @type {Whole} */ (this.model), report = /** @type {import("./arithmetic.mjs").Report} */ (this.report);
    const assignment = m.block ? m.block.map((b) => this.place[b]) : [...this.place];
    const said = JSON.stringify({ problem: this.content.problem, objective: report.objective, assignment });
    const link = el("a", { href: URL.createObjectURL(new Blob([said], { type: "application/json" })), download: "assignment.json" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    this.say("Saved as assignment.json.");
  }

  /** @param {string} words */
  say(words) {
    this.live.textContent = words;
  }

  /** The objective as everywhere. @param {number | null} value */
  said(value) {
    return figure(value, this.content.scale);
  }

  /** The width of a drawing's card. @param {HTMLElement} host @param {number} usual */
  widthOf(host, usual) {
    if (!this.widths.has(host)) this.widths.set(host, host.clientWidth || usual);
    return this.widths.get(host) ?? usual;
  }

  // The page -----------------------------------------------------------------------------------------------------

  /** A card; what is in it is made anew by `refresh`. @param {string} title @param {string} note @param {boolean} wide */
  card(title, note = "", wide = false) {
    const body = el("div"), head = [el("h2", {}, title), ...(note ? [el("p", { class: "soft" }, note)] : [])];
    this.cards.insertBefore(el("section", { class: wide ? "wide" : null }, ...head, body), this.last);
    return body;
  }

  /** @param {string} said @param {() => void} act @param {string} [hint] */
  button(said, act, hint) {
    const made = el("button", { type: "button", title: hint }, said);
    made.addEventListener("click", act);
    return made;
  }

  /** @param {string} name @param {[string, string][]} options @param {(value: string) => void} act */
  select(name, options, act) {
    const made = el("select", {}, ...options.map(([value, said]) => el("option", { value }, said)));
    made.addEventListener("change", () => act(made.value));
    return { made, box: el("label", {}, el("span", {}, name), made) };
  }

  build() {
    const { content, model } = this, hand = Boolean(model?.by_hand);
    const bar = el("div", { class: "bar" });
    this.slider.addEventListener("input", () => this.stand(Number(this.slider.value)));
    const range = content.points.length > 1 ? [el("label", { for: "slider" }, `Budget: ${content.trade?.label ?? ""}`), this.slider] : [];
    bar.append(el("div", { class: "grow" }, ...range, this.where, this.now), ...(hand ? Object.values(this.buttons) : []));
    this.cards.before(bar, this.live);
    this.cards.before(this.tiles, this.status);
    if (content.trade) this.front = this.card("What a budget buys", "Circles: the best known answers. Squares: heuristics. Below the dashed line no answer is possible.", !model);
    if (model) this.buildBoard(model, hand);
    addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && hand) {
        event.preventDefault();
        this.step(!event.shiftKey);
      }
    });
    addEventListener("resize", () => {
      cancelAnimationFrame(this.pending);
      this.pending = requestAnimationFrame(() => {
        this.widths.clear();
        this.refresh();
      });
    });
  }

  /** @param {Whole} model @param {boolean} hand */
  buildBoard(model, hand) {
    const schedule = () => (this.schedule = this.card("Schedule", "Filled: a node sends. Outlined: it receives. A key group's name and times are at its bar."));
    const talks = model.play?.kind === "collocated-allocation";
    if (!talks) schedule();
    else this.traffic = this.card("Traffic between nodes", "The area of a square is traffic; outlined on the diagonal, what stays on its node.");
    const note = hand ? "Drag a key group to another row, or pick it up with Enter or a tap. Hatched: it has moved. The small triangle: the load before." : "Hatched: it has moved. The small triangle: the load before.";
    const body = this.card(hand ? "By hand" : "Load of every node", note, true);
    this.tools = el("div", { class: "tools" });
    const host = el("div", { class: "host" });
    this.boardTable = folded(() => this.nodeTable(), "Nodes as a table");
    this.keyTable = folded(() => this.groupTable(), "Key groups as a table");
    body.append(this.tools, host, this.boardTable, this.keyTable);
    this.buildTools(model, hand);
    const game = this;
    this.board = new Board({
      model, byHand: hand, get place() { return game.place; }, loads: () => this.loads(), extra: () => this.extra(), rows: () => this.rows(),
      lines: () => this.lines(), room: (i) => this.room(i), matches: (k) => this.matches(k), move: (k, i) => this.move(k, i), say: (s) => this.say(s),
      chosen: (k) => { if (this.which && k !== null && this.matches(k)) this.which.value = String(k); },
    }, host);
    this.moves = this.card("Moves", "", !talks);
    if (talks) schedule();
    this.compare = this.card("Two answers side by side", "", true);
    const names = () => /** @type {[string, string][]} */ ([...this.answers.map((a, i) => [String(i), this.nameOf(a)]), ["-1", "by hand, as it stands"]]);
    this.sides = [0, 1].map((side) => this.select(side ? "B" : "A", names(), (value) => {
      this.compared[side] = Number(value);
      this.drawCompare();
    }));
    this.compare.append(el("div", { class: "tools" }, ...this.sides.map((s) => s.box)), this.compareBody);
    this.sides.forEach((s, side) => (s.made.value = String(this.compared[side])));
  }

  /** @param {Answer} answer */
  nameOf(answer) {
    return this.content.rivals.includes(answer) ? `heuristic ${answer.name}` : answer.name;
  }

  /** Filters, the window, and the two lists for moving without a pointer. @param {Whole} model @param {boolean} hand */
  buildTools(model, hand) {
    const tools = /** @type {HTMLElement} */ (this.tools);
    /** @param {string} name @param {[string, string][]} options */
    const filter = (name, options) => tools.append(this.select(name, [["", `every ${name}`], ...options], (value) => {
      this.filter[name] = value;
      this.fillLists();
      this.refresh();
    }).box);
    filter("node", model.nodes.map((said, i) => [String(i), said]));
    for (const [name, labels] of Object.entries(model.labels)) {
      const known = [...new Set(labels)].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
      if (known.length > 1 && known.length <= 500) filter(name, known.map((said) => [said, said]));
    }
    for (const [name, labels] of Object.entries(model.domains)) filter(name, [...new Set(labels)].sort().map((said) => [said, said]));
    const windows = this.windows().length;
    if (windows > 1) tools.append(this.select("window", [["-1", "mean of all"], .../** @type {[string, string][]} */ (Array.from({ length: windows }, (_, i) => [String(i), String(i + 1)]))], (value) => {
      this.window = Number(value);
      this.refresh();
    }).box);
    if (!hand) return;
    const which = this.select("key group", [], (k) => this.board?.pick(Number(k)));
    const to = this.select("to node", model.nodes.map((said, i) => [String(i), said]), () => undefined);
    this.which = which.made;
    tools.append(el("span", { class: "rule" }), which.box, to.box, this.button("Move", () => {
      this.board?.pick(null);
      this.move(Number(which.made.value), Number(to.made.value));
    }));
    this.fillLists();
  }

  fillLists() {
    if (!this.which || !this.model) return;
    const { keys } = this.model, found = [];
    for (let k = 0; k < keys.length; k++) if (this.matches(k)) found.push(el("option", { value: k }, `${keys[k]} (${this.model.nodes[this.place[k]]})`));
    const held = this.which.value;
    this.which.replaceChildren(...found);
    if (held && this.matches(Number(held))) this.which.value = held;
  }

  /** Everything that depends on where key groups are; of the board only some rows, where they are named. @param {number[]} [nodes] */
  refresh(nodes) {
    const { content, model } = this, answer = this.answers[this.at];
    this.report = model?.by_hand ? check(model, this.place) : null;
    if (this.at < content.points.length) this.slider.value = String(this.at);
    this.where.textContent = this.edited ? `by hand, from: ${this.nameOf(answer)}` : this.nameOf(answer);
    this.slider.setAttribute("aria-valuetext", this.where.textContent);
    this.buttons.undo.disabled = !this.undone.length;
    this.buttons.redo.disabled = !this.redone.length;
    this.buttons.back.disabled = !this.edited;
    this.drawTiles(answer);
    if (this.front) this.drawFront(answer);
    if (!model) return;
    if (nodes?.every((node) => this.rows().includes(node))) this.board?.update(model.play?.serialisation ? this.rows() : nodes);
    else {
      this.chosen = null;
      this.board?.draw();
    }
    for (const box of [this.boardTable, this.keyTable]) if (box?.open) box.dispatchEvent(new Event("toggle"));
    if (!nodes) this.fillLists();
    requestAnimationFrame(() => {
      this.drawMoves();
      if (this.traffic) this.drawTraffic(model);
      if (!nodes || this.compared.includes(-1)) this.drawCompare();
      this.drawSchedule(answer, model);
    });
  }

  /** The list says where a key group is. @param {number} k */
  relabel(k) {
    const option = this.which?.querySelector(`option[value="${k}"]`), m = /** @type {Whole} */ (this.model);
    if (option) option.textContent = `${m.keys[k]} (${m.nodes[this.place[k]]})`;
  }

  /** What is known at the cost of what one looks at: the best answer, and the bound. @param {number} second */
  known(second) {
    const { points, trade } = this.content, near = 1e-9 * Math.max(1, Math.abs(second));
    if (!trade) return { best: points[0].objective, bound: points[0].bound };
    const best = points.filter((p) => (p.second ?? 0) <= second + near).map((p) => p.objective);
    const bounds = points.filter((p) => p.limit === null || p.limit >= second - trade.offset - near).map((p) => p.bound ?? -Infinity);
    const bound = Math.max(...bounds);
    return { best: best.length ? Math.min(...best) : null, bound: Number.isFinite(bound) ? bound : null };
  }

  /** @param {Answer} answer */
  drawTiles(answer) {
    const { content, report } = this, metrics = report?.metrics ?? answer.metrics, objective = report?.objective ?? answer.objective;
    const trade = content.trade, { best, bound } = this.known(trade ? metrics[trade.metric] : 0);
    const today = this.answers[this.answers.length - 1], play = this.model?.play;
    const of = play?.mean && /distance/.test(content.objective) ? `, ${figure((100 * objective) / play.mean, 100, 4)} % of the mean` : "";
    const feasible = !report?.violations.length, below = bound !== null && objective < bound - 1e-9 * content.scale;
    /** @type {[string, string][]} */
    const tiles = [[content.objective + of, this.said(objective)]];
    if (report) tiles.push([`${content.objective} as it is now`, this.said(today.objective)]);
    if (best !== null) tiles.push([trade ? "above the best known at this cost" : "above the best known", objective >= best ? this.said(objective - best) : `${this.said(best - objective)} better`]);
    else if (trade) tiles.push(["no answer is known that costs so little", "-"]);
    if (bound !== null) tiles.push([`above the bound: no answer at this cost is below ${this.said(bound)}`, below ? (feasible ? "0" : "below it, against the limits") : this.said(objective) === this.said(bound) ? "0" : this.said(objective - bound)]);
    if (metrics.migrations !== undefined) tiles.push(["key groups moved", figure(metrics.migrations)]);
    if (metrics.state_moved !== undefined && content.objective !== "state moved") tiles.push(["state moved", figure(metrics.state_moved)]);
    if (trade && !["migrations", "state_moved"].includes(trade.metric)) tiles.push([trade.label, figure(metrics[trade.metric])]);
    const above = best !== null && objective > best ? `, ${shown(objective - best, content.scale)} above the best known at this cost` : "";
    this.now.textContent = `${content.objective} ${this.said(objective)}${above}${feasible ? "" : ` · ✗ ${report?.violations.length} broken`}`;
    this.now.classList.toggle("over", !feasible);
    this.tiles.replaceChildren(...tiles.map(([name, value]) => el("div", { class: "tile" }, el("b", {}, value), el("span", {}, name))));
    const figures = folded(() => table(["figure", "value"], Object.entries(metrics).map(([name, v]) => [spaced(name), figure(v)])), "All figures of the check");
    const broken = report?.violations ?? [];
    const open = this.status.querySelector("details")?.open;
    const said = !report ? [] : feasible ? [el("p", { class: "kept" }, "✓ All limits and rules are kept.")] : [
      el("p", { class: "broken" }, `✗ ${broken.length === 1 ? "One limit or rule is" : `${broken.length} limits or rules are`} broken:`),
      el("ul", {}, ...broken.slice(0, 8).map((v) => el("li", {}, v.said)), ...(broken.length > 8 ? [el("li", {}, `and ${broken.length - 8} more`)] : []))];
    this.status.replaceChildren(...said, figures);
    if (open) figures.open = true;
  }

  /** The front, the line below which nothing is possible, the heuristics, and where one stands. @param {Answer} answer */
  drawFront(answer) {
    const { content, report } = this, host = /** @type {HTMLElement} */ (this.front), trade = /** @type {Trade} */ (content.trade);
    const width = Math.max(280, this.widthOf(host, 500)), height = 300, left = 62, bottom = height - 42, right = width - 14;
    const at = (/** @type {Answer} */ a) => [a.second ?? 0, a.objective];
    const here = report ? [report.metrics[trade.metric], report.objective] : at(answer);
    const all = [...content.points, ...content.rivals].map(at), limits = content.points.map((p) => p.limit ?? p.second ?? 0).map((v) => v + trade.offset);
    const mostX = Math.max(...all.map((p) => p[0]), ...limits, here[0], 1e-300) * 1.06, mostY = Math.max(...all.map((p) => p[1]), here[1], 1e-300) * 1.1;
    const leastX = trade.offset && Math.min(...all.map((p) => p[0])) > 0 ? Math.min(...all.map((p) => p[0])) * 0.95 : 0;
    const x = (/** @type {number} */ v) => left + ((v - leastX) / (mostX - leastX)) * (right - left), y = (/** @type {number} */ v) => bottom - (v / mostY) * (bottom - 14);
    const made = drawing(width, height, `${content.objective} against ${trade.label}`);
    for (const tick of ticks(mostY)) made.append(svg("path", { d: `M${left} ${y(tick)}H${right}`, class: "grid" }), label(left - 6, y(tick) + 4, shown(tick), { "text-anchor": "end", class: "soft" }));
    for (const tick of ticks(mostX, width < 420 ? 3 : 6)) if (tick >= leastX) made.append(label(x(tick), bottom + 16, shown(tick), { "text-anchor": "middle", class: "soft" }));
    made.append(label((left + right) / 2, height - 6, trade.label, { "text-anchor": "middle" }));
    const edge = this.staircase(mostX, trade);
    if (edge.length) {
      const path = edge.map(([from, to, b]) => `L${x(Math.max(from, leastX)).toFixed(1)} ${y(b).toFixed(1)}L${x(to).toFixed(1)} ${y(b).toFixed(1)}`).join("");
      made.append(svg("path", { d: `M${x(leastX)} ${bottom}${path}L${x(edge[edge.length - 1][1]).toFixed(1)} ${bottom}Z`, fill: "url(#never)", class: "never" }), svg("path", { d: `M${path.slice(1)}`, class: "bound" }));
      const roomy = edge.map(([from, to, b]) => [x(Math.max(from, leastX)), x(to), y(b)]).filter(([a, b, c]) => b - a > 150 && bottom - c > 22).sort((a, b) => a[2] - b[2])[0];
      if (roomy) made.append(label((roomy[0] + roomy[1]) / 2, (roomy[2] + bottom) / 2 + 4, "nothing is possible here", { "text-anchor": "middle", class: "soft halo" }));
    }
    made.append(svg("path", { d: `M${content.points.map((p, i) => `${i ? `H${x(p.second ?? 0).toFixed(1)}V` : `${x(p.second ?? 0).toFixed(1)} `}${y(p.objective).toFixed(1)}`).join("")}`, class: "steps" }));
    content.points.forEach((p, i) => {
      const dot = svg("circle", { cx: x(p.second ?? 0), cy: y(p.objective), r: i === this.at && !this.edited ? 7 : 5, class: "answer", "data-tip": `${p.name}: ${this.said(p.objective)}${p.bound === null ? "" : `, bound ${this.said(p.bound)}`}` });
      dot.addEventListener("click", () => this.stand(i));
      made.append(dot);
    });
    content.rivals.forEach((r, i) => {
      const [a, b] = [x(r.second ?? 0), y(r.objective)];
      const mark = svg("g", { class: "rival", "data-tip": `heuristic ${r.name}: ${this.said(r.objective)} at ${shown(r.second)} ${trade.label}` }, svg("rect", { x: a - 8, y: b - 8, width: 16, height: 16, rx: 2 }), label(a, b + 4, String.fromCharCode(97 + i), { "text-anchor": "middle" }));
      mark.addEventListener("click", () => this.stand(content.points.length + i));
      made.append(mark);
    });
    const [hx, hy] = [x(here[0]), y(Math.min(here[1], mostY))];
    made.append(svg("path", { d: `M${hx} ${hy - 9}l-7 -12h14Z`, class: "here", "data-tip": `you are here: ${this.said(here[1])} at ${shown(here[0])} ${trade.label}` }), svg("circle", { cx: hx, cy: hy, r: 9, class: "ring" }));
    const key = content.rivals.length ? [el("p", { class: "soft" }, content.rivals.map((r, i) => `${String.fromCharCode(97 + i)} ${r.name}`).join(" · "), ". The arrow: where you stand.")] : [el("p", { class: "soft" }, "The arrow: where you stand.")];
    const rows = () => table(["answer", trade.label, content.objective, "bound", "status"], [...content.points, ...content.rivals].map((a) => [this.nameOf(a), a.second, this.said(a.objective), a.bound === null ? "-" : this.said(a.bound), a.status]));
    const open = host.querySelector("details")?.open, list = folded(rows);
    host.replaceChildren(made, ...key, list);
    if (open) list.open = true;
  }

  /** Pieces of the bound: from, to, height. A bound proven at a looser limit holds at a tighter one. @param {number} most @param {Trade} trade */
  staircase(most, trade) {
    const found = [];
    let from = 0;
    for (const p of this.content.points) {
      const to = Math.min(p.limit === null ? most : p.limit + trade.offset, most); // beyond the last limit nothing is known
      const { bound } = this.known(p.limit === null ? most : p.limit + trade.offset);
      if (bound !== null && to > from) found.push([from, to, Math.max(0, bound)]);
      from = Math.max(from, to);
    }
    return found;
  }

  moved() {
    const m = /** @type {Whole} */ (this.model), found = [];
    for (let k = 0; k < this.place.length; k++) if (this.place[k] !== m.current[k] && this.matches(k)) found.push(k);
    return found;
  }

  drawMoves() {
    const m = /** @type {Whole} */ (this.model), loads = this.loads(), found = this.moved(), host = /** @type {HTMLElement} */ (this.moves);
    const rows = found.map((k) => [m.keys[k], m.nodes[m.current[k]], m.nodes[this.place[k]], loads[k], m.state[k]]);
    host.replaceChildren(found.length ? table(["key group", "from", "to", "load", "state"], rows) : el("p", {}, "Nothing moves."));
  }

  nodeTable() {
    const m = /** @type {Whole} */ (this.model), n = m.nodes.length, now = bincount(this.place, this.loads(), n), was = bincount(m.current, this.loads(), n), extra = this.extra();
    const into = new Float64Array(n), out = new Float64Array(n);
    for (let k = 0; k < this.place.length; k++) if (this.place[k] !== m.current[k]) { into[this.place[k]] += countOf(m, k); out[m.current[k]] += countOf(m, k); }
    const names = Object.keys(m.domains);
    return table(["node", ...names, "before", "now", "moves in", "moves out"], m.nodes.map((said, i) => [said, ...names.map((d) => m.domains[d][i]), was[i], now[i] + extra[i], into[i], out[i]]), 1000);
  }

  groupTable() {
    const m = /** @type {Whole} */ (this.model), loads = this.loads(), names = Object.keys(m.labels), rows = [];
    for (let k = 0; k < m.keys.length; k++) if (this.matches(k)) rows.push([m.keys[k], ...names.map((name) => m.labels[name][k]), m.nodes[m.current[k]], m.nodes[this.place[k]], loads[k], m.state[k]]);
    return table(["key group", ...names, "before", "now", "load", "state"], rows);
  }

  /** Squares, their area the traffic from node to node. @param {Whole} m */
  drawTraffic(m) {
    const host = /** @type {HTMLElement} */ (this.traffic), t = m.play.traffic[m.play.traffic.length - 1], n = m.nodes.length;
    const flow = new Map(), by = new Float64Array(n);
    for (let e = 0; e < t.data.length; e++) {
      const a = this.place[t.row[e]], b = this.place[t.col[e]], code = a * n + b;
      flow.set(code, (flow.get(code) ?? 0) + t.data[e]);
      by[a] += t.data[e];
      by[b] += t.data[e];
    }
    const nodes = [...this.rows()].sort((a, b) => by[b] - by[a]).slice(0, 40).sort((a, b) => a - b), place = new Map(nodes.map((node, i) => [node, i]));
    const width = Math.min(560, Math.max(280, this.widthOf(host, 500))), left = 70, cell = (width - left - 6) / nodes.length, most = Math.max(...flow.values(), 1e-300);
    const made = drawing(width, 14 + left * 0.6 + cell * nodes.length, "Traffic from node to node"), top = left * 0.6 + 8;
    nodes.forEach((node, i) => {
      const mid = cell * (i + 0.5);
      if (cell > 9) made.append(label(left - 6, top + mid + 4, short(m.nodes[node], 9), { "text-anchor": "end" }), label(0, 0, short(m.nodes[node], 6), { transform: `translate(${(left + mid + 4).toFixed(1)} ${top - 5}) rotate(-60)` }));
      made.append(svg("path", { d: `M${left} ${top + cell * i}H${width - 6}M${left + cell * i} ${top}V${top + cell * nodes.length}`, class: "grid" }));
    });
    for (const [code, value] of flow) {
      const i = place.get(Math.floor(code / n)), j = place.get(code % n), side = Math.max(1, cell * 0.94 * Math.sqrt(value / most));
      if (i === undefined || j === undefined) continue;
      made.append(svg("rect", { x: (left + cell * (j + 0.5) - side / 2).toFixed(1), y: (top + cell * (i + 0.5) - side / 2).toFixed(1), width: side.toFixed(1), height: side.toFixed(1), class: i === j ? "stays" : "remote", "data-tip": `${m.nodes[Math.floor(code / n)]} to ${m.nodes[code % n]}: ${shown(value)}${i === j ? ", on one node" : ""}` }));
    }
    const open = host.querySelector("details")?.open, list = folded(() => table(["from", "to", "traffic"], [...flow].filter(([code]) => place.has(Math.floor(code / n)) && place.has(code % n)).sort((a, b) => b[1] - a[1]).map(([code, v]) => [m.nodes[Math.floor(code / n)], m.nodes[code % n], v])));
    host.replaceChildren(made, list);
    if (open) list.open = true;
  }

  /** When each node sends and receives. @param {Answer} answer @param {Whole} m */
  drawSchedule(answer, m) {
    const host = /** @type {HTMLElement} */ (this.schedule), plan = answer.schedule, unit = this.content.timed ? " s" : " units of state";
    if (this.edited || !plan) return host.replaceChildren(el("p", {}, this.edited ? "Moves made by hand have no schedule yet: save the assignment, and `keyshift plan --solution assignment.json` makes one." : "There is no schedule for this answer here: `keyshift plan` makes one."));
    const said = el("p", { class: "soft" }, `${plan.phases} ${plan.phases === 1 ? "phase" : "phases"}, ${shown(plan.seconds)}${unit}, at least ${shown(plan.bound)}${unit}; the highest load on the way is ${shown(plan.peak)}.`);
    if (!plan.rows.length) return host.replaceChildren(said);
    const to = new Map(answer.moves.map(([k, node]) => [k, node])), nodes = [...new Set(plan.rows.flatMap(([k]) => [m.current[k], to.get(k) ?? 0]))].sort((a, b) => a - b).slice(0, 40);
    const width = Math.max(280, this.widthOf(host, 500)), left = width < 420 ? 80 : 120, height = 16, top = 6, scale = (width - left - 12) / (plan.seconds || 1), bottom = top + (height + 4) * nodes.length;
    const made = drawing(width, bottom + 24, "When each node sends and receives");
    for (const tick of ticks(plan.seconds, 4)) made.append(svg("path", { d: `M${left + scale * tick} ${top}V${bottom}`, class: "grid" }), label(left + scale * tick, bottom + 16, shown(tick) + (this.content.timed ? " s" : ""), { "text-anchor": "middle", class: "soft" }));
    nodes.forEach((node, i) => made.append(label(left - 8, top + (height + 4) * i + 12, short(m.nodes[node], left > 100 ? 16 : 10), { "text-anchor": "end" })));
    for (const [k, start, end, phase] of plan.rows)
      for (const [node, kind] of /** @type {[number, string][]} */ ([[m.current[k], "sends"], [to.get(k) ?? 0, "takes"]])) {
        const i = nodes.indexOf(node);
        if (i >= 0) made.append(svg("rect", { x: (left + scale * start).toFixed(1), y: top + (height + 4) * i + (kind === "sends" ? 0 : 3), width: Math.max(1.5, scale * (end - start) - 1).toFixed(1), height: height - 3, rx: 2, class: kind, "data-tip": `${m.keys[k]}, phase ${phase}: ${shown(start)} to ${shown(end)}${unit}, ${m.nodes[m.current[k]]} to ${m.nodes[to.get(k) ?? 0]}` }));
      }
    const open = host.querySelector("details")?.open, list = folded(() => table(["key group", "from", "to", "phase", "start", "end"], plan.rows.map(([k, start, end, phase]) => [m.keys[k], m.nodes[m.current[k]], m.nodes[to.get(k) ?? 0], phase, start, end])));
    host.replaceChildren(said, made, list);
    if (open) list.open = true;
  }

  /** Two answers: figures, loads, the moves that differ. */
  drawCompare() {
    const m = /** @type {Whole} */ (this.model), n = m.nodes.length;
    const sides = this.compared.map((i) => i < 0 ? { name: "by hand", place: this.place, metrics: this.report?.metrics ?? {}, objective: this.report?.objective ?? NaN } : { name: this.nameOf(this.answers[i]), place: this.placeOf(this.answers[i]), metrics: this.answers[i].metrics, objective: this.answers[i].objective });
    const [a, b] = sides, loads = this.loads();
    const names = [...new Set([...Object.keys(a.metrics), ...Object.keys(b.metrics)])];
    const figures = table(["figure", "A", "B", "B less A"], [[this.content.objective, this.said(a.objective), this.said(b.objective), this.said(b.objective - a.objective)], ...names.filter((name) => spaced(name) !== this.content.objective).map((name) => [spaced(name), figure(a.metrics[name]), figure(b.metrics[name]), figure((b.metrics[name] ?? NaN) - (a.metrics[name] ?? NaN))])]);
    const differ = [];
    for (let k = 0; k < m.keys.length; k++) if (a.place[k] !== b.place[k] && this.matches(k)) differ.push(k);
    const stays = (/** @type {number} */ k, /** @type {ArrayLike<number>} */ place) => (place[k] === m.current[k] ? "stays" : m.nodes[place[k]]);
    const moves = differ.length ? table(["key group", "from", "A to", "B to", "load", "state"], differ.map((k) => [m.keys[k], m.nodes[m.current[k]], stays(k, a.place), stays(k, b.place), loads[k], m.state[k]])) : el("p", {}, this.compared[0] === this.compared[1] ? "This is one answer, twice." : "No move differs.");
    const [left, right] = sides.map((s) => bincount(s.place, loads, n)), rows = this.rows().filter((i) => left[i] !== right[i]).slice(0, 40);
    this.compareBody.replaceChildren(el("div", { class: "cards" }, el("div", {}, el("h3", {}, "Figures"), figures), el("div", {}, el("h3", {}, `Loads that differ: ● A, ◇ B`), rows.length ? this.dumbbells(m, rows, left, right) : el("p", {}, "None."))), el("h3", {}, `Moves that differ: ${differ.length}`), moves);
  }

  /** @param {Whole} m @param {number[]} rows @param {Float64Array} left @param {Float64Array} right */
  dumbbells(m, rows, left, right) {
    const width = Math.max(280, Math.min(620, this.widthOf(this.compareBody, 500) / (innerWidth > 900 ? 2 : 1) - 20)), start = 110, step = 20;
    const all = rows.flatMap((i) => [left[i], right[i]]), spread = Math.max(...all) - Math.min(...all), least = Math.max(0, Math.min(...all) - 0.1 * spread);
    const most = Math.max(...all) + 0.05 * spread, scale = (width - start - 14) / (most - least || 1), bottom = 4 + step * rows.length;
    const made = drawing(width, bottom + 22, "Loads of two answers");
    for (const tick of ticks(most, Math.ceil((4 * most) / (most - least || 1))).filter((v) => v >= least).slice(0, 8)) made.append(svg("path", { d: `M${start + scale * (tick - least)} 4V${bottom}`, class: "grid" }), label(start + scale * (tick - least), bottom + 16, shown(tick), { "text-anchor": "middle", class: "soft" }));
    rows.forEach((i, at) => {
      const y = 4 + step * (at + 0.5), [a, b] = [start + scale * (left[i] - least), start + scale * (right[i] - least)];
      made.append(svg("g", { "data-tip": `${m.nodes[i]}: A ${shown(left[i])}, B ${shown(right[i])}` }, label(start - 8, y + 4, short(m.nodes[i], 15), { "text-anchor": "end" }), svg("path", { d: `M${a} ${y}H${b}`, class: "steps" }), svg("circle", { cx: a, cy: y, r: 5, class: "answer" }), svg("path", { d: `M${b - 6} ${y}l6 -6l6 6l-6 6Z`, class: "ring" })));
    });
    return made;
  }
}

const block = document.getElementById("data");
if (block) new Explorer(JSON.parse(block.textContent ?? "")).say("");
