// The check of four formulations: objective, figures, limits and rules of an assignment, as `ks.check` has them.
import { bincount, figure, sum } from "./figures.mjs";

const SLACK = 1e-9;

/** @typedef {ArrayLike<number>} Numbers */
/** @typedef {{groups: number[], weights: number[] | null, domain: number, least: number, most: number}} Room */
/** @typedef {{groups: number[], weights: number[] | null, into: number, most: number}} MoveBudget */
/** @typedef {{words: string, name: string, merged: number[][], closed: number[][], shut: number[][], rooms: Room[], budgets: MoveBudget[]}} Rule */
/** @typedef {{row: number[], col: number[], data: number[]}} Traffic */
/** @typedef {{rule: string, said: string, amount: number}} Violation */
/** @typedef {{objective: number, metrics: Record<string, number>, violations: Violation[], loads: Float64Array}} Report */
/** What the page knows of a problem; `play` holds what its own formulation says of itself. */
/** @typedef {{keys: string[], nodes: string[], capacity: number[], draining: number[], load: number[][], state: number[], current: number[], count: number[] | null, home: Record<string, number>[] | number[] | null, rules: Rule[], stated: Rule | null, arrays: number[][], traffic: Traffic | null, total_traffic: number, play: any}} Model */

/** How many key groups stand behind one entry. @param {Model} m @param {number} k */
export const countOf = (m, k) => (m.count ? m.count[k] : 1);

/** @param {Model} m @param {Numbers} weights @param {Numbers} place */
function movedSum(m, weights, place) {
  const moved = [];
  for (let k = 0; k < place.length; k++) if (place[k] !== m.current[k]) moved.push(weights[k]);
  return sum(moved);
}

/** The traffic between nodes; where it costs by level, the cost of the dearest level whose blocks differ. @param {Traffic} t @param {Numbers} place @param {[number, number[]][]} [levels] */
function remote(t, place, levels) {
  const price = (/** @type {number} */ i, /** @type {number} */ j) => (levels ? Math.max(0, ...levels.map(([cost, block]) => (block[i] === block[j] ? 0 : cost))) : Number(i !== j));
  return sum(Float64Array.from(t.data, (v, e) => v * price(place[t.row[e]], place[t.col[e]])));
}

/** @param {Numbers} values @param {number[]} [mean] */
function variance(values, mean) {
  const middle = mean ? mean[0] : sum(values) / values.length;
  return sum(Float64Array.from(values, (v) => (v - middle) * (v - middle))) / values.length;
}

/** The worst, the mean, or the mean of the worst share: `PlannedWindows.combined`. @param {any} play @param {number[]} values */
function combined(play, values) {
  if (play.over === "max" || values.length === 1) return Math.max(...values);
  if (play.over === "mean") return values.reduce((s, v, i) => s + play.share[i] * v, 0);
  const order = values.map((_, i) => i).sort((a, b) => values[b] - values[a] || a - b);
  let before = 0, total = 0;
  for (const i of order) {
    total += Math.min(Math.max(1 - before, 0), play.most[i]) * values[i];
    before += play.most[i];
  }
  return total;
}

/** The largest deviation: either way on kept nodes, upwards only on draining ones. @param {Model} m @param {Numbers} deviation */
function distance(m, deviation) {
  let most = 0;
  for (let i = 0; i < deviation.length; i++) most = Math.max(most, m.draining[i] ? deviation[i] : Math.abs(deviation[i]));
  return most;
}

/** Figures that every problem has: `keyshift.models.metrics.summary`. @param {Model} m @param {Numbers} place */
function summary(m, place) {
  const n = m.nodes.length, loads = m.load.map((row) => bincount(place, row, n)), last = loads[loads.length - 1];
  let migrations = 0;
  for (let k = 0; k < place.length; k++) if (place[k] !== m.current[k]) migrations += countOf(m, k);
  /** @type {Record<string, number>} */
  const metrics = {
    load_distance: distance(m, last.map((v, i) => v / m.capacity[i] - m.play.mean)),
    imbalance: sum(loads.map((row) => variance(row))),
    state_moved: movedSum(m, m.state, place),
    migrations,
  };
  if (m.home) {
    metrics.table_size = 0;
    for (let k = 0; k < place.length; k++) {
      const at = m.home[k];
      metrics.table_size += typeof at === "number" ? Number(at !== place[k]) : countOf(m, k) - (at[place[k]] ?? 0);
    }
  }
  return { metrics, loads, last };
}

/** Some names, and how many more. @param {string[]} names */
export const few = (names) => names.slice(0, 3).join(", ") + (names.length > 3 ? ` and ${names.length - 3} more` : "");

/** By how much a rule is broken, (5) of `keyshift.models.rules.lowered`, and by whom. @param {Model} m @param {Rule} rule @param {Numbers} place */
export function broken(m, rule, place) {
  let amount = 0;
  /** @type {string[]} */
  const said = [];
  for (const members of rule.merged) {
    /** @type {Map<number, number>} */
    const held = new Map();
    for (const k of members) held.set(place[k], (held.get(place[k]) ?? 0) + 1);
    if (held.size > 1) {
      amount += members.length - Math.max(...held.values());
      said.push(`${few(members.map((k) => m.keys[k]))} run on ${held.size} nodes`);
    }
  }
  for (const [k, set] of rule.closed)
    if (rule.shut[set].includes(place[k])) {
      amount += 1;
      said.push(`${m.keys[k]} runs on ${m.nodes[place[k]]}`);
    }
  for (const room of rule.rooms) {
    const domain = m.arrays[room.domain], least = m.arrays[room.least], most = m.arrays[room.most];
    const held = new Float64Array(most.length);
    let heaviest = room.weights ? 0 : 1;
    room.groups.forEach((k, at) => {
      const weight = room.weights ? room.weights[at] : 1, d = domain[place[k]];
      heaviest = Math.max(heaviest, weight);
      if (d >= 0) held[d] += weight;
    });
    const over = held.map((v, d) => (v > most[d] * (1 + SLACK) ? v - most[d] : 0) + Math.max(least[d] - v, 0));
    const excess = sum(over);
    if (excess === 0) continue;
    amount += excess / (heaviest || 1);
    const d = over.findIndex((v) => v > 0), where = few(m.nodes.filter((_, i) => domain[i] === d));
    const inside = held[d] > most[d] ? `, among them ${few(room.groups.filter((k) => domain[place[k]] === d).map((k) => m.keys[k]))}` : "";
    said.push(`${figure(held[d])} on ${where}, at ${held[d] > most[d] ? "most" : "least"} ${figure(held[d] > most[d] ? most[d] : least[d])}${inside}`);
  }
  for (const budget of rule.budgets) {
    /** @type {number[]} */
    const moves = [], into = m.arrays[budget.into];
    budget.groups.forEach((k, at) => {
      if (place[k] !== m.current[k] && into[place[k]]) moves.push(budget.weights ? budget.weights[at] : 1);
    });
    const spent = sum(moves);
    if (spent > budget.most * (1 + SLACK)) {
      amount += spent - budget.most;
      said.push(`${figure(spent)} move, at most ${figure(budget.most)}`);
    }
  }
  return { amount, said: few(said) };
}

/** (2), (6), (7) of key-group allocation. @param {Model} m @param {Numbers} place @param {number} migrations @param {number} cost */
function* allocationLimits(m, place, migrations, cost) {
  const play = m.play;
  if (play.max_migrations !== null && migrations > play.max_migrations)
    yield { rule: "max_migrations", said: `${migrations} key groups move, the limit is ${play.max_migrations}`, amount: migrations - play.max_migrations };
  if (play.max_migration_cost !== null && cost > play.max_migration_cost * (1 + SLACK))
    yield { rule: "max_migration_cost", said: `the moves cost ${figure(cost)}, the limit is ${figure(play.max_migration_cost)}`, amount: cost - play.max_migration_cost };
  if (!play.into_draining) yield* intoDraining(m, place, true);
  for (const room of play.rooms) {
    const used = bincount(place, room.use, m.nodes.length);
    for (let i = 0; i < used.length; i++)
      if (used[i] > room.most[i] * (1 + SLACK))
        yield { rule: "resource_capacity", said: `${m.nodes[i]} uses ${figure(used[i])} of ${room.name}, its capacity is ${figure(room.most[i])}`, amount: used[i] - room.most[i] };
  }
}

/** Key groups on draining nodes, or only those that move there. @param {Model} m @param {Numbers} place @param {boolean} moving */
function* intoDraining(m, place, moving) {
  for (let k = 0; k < place.length; k++)
    if (m.draining[place[k]] && !(moving && place[k] === m.current[k]))
      yield { rule: moving ? "into_draining" : "draining", said: `${m.keys[k]} ${moving ? "moves to" : "is on"} ${m.nodes[place[k]]}, which is draining`, amount: countOf(m, k) };
}

/** @param {Model} m @param {Numbers} place @returns {Report} */
function allocation(m, place) {
  const { metrics, last } = summary(m, place), play = m.play, n = m.nodes.length;
  const away = play.windows.map((/** @type {any} */ w, /** @type {number} */ s) => bincount(place, w.load, n).map((v, i) => v / m.capacity[i] - play.means[s]));
  const distances = away.map((/** @type {Numbers} */ d) => distance(m, d));
  metrics.load_distance = combined(play, distances);
  if (distances.length > 1) {
    metrics.worst_distance = Math.max(...distances);
    metrics.mean_distance = distances.reduce((/** @type {number} */ s, /** @type {number} */ v, /** @type {number} */ i) => s + play.share[i] * v, 0);
  }
  metrics.upper_deviation = Math.max(...away.map((/** @type {number[]} */ d) => Math.max(...d)));
  metrics.lower_deviation = -Math.min(...away.map((/** @type {Float64Array} */ d) => Math.min(...d.filter((_, i) => !m.draining[i]))));
  metrics.deviation_sum = metrics.upper_deviation + metrics.lower_deviation;
  metrics.migration_cost = movedSum(m, play.migration_cost, place);
  if (play.draining_load) Object.assign(metrics, { draining_load: sum(last.filter((_, i) => m.draining[i])), draining_key_groups: sum([...intoDraining(m, place, false)].map((v) => v.amount)) });
  const violations = [...allocationLimits(m, place, metrics.migrations, metrics.migration_cost)];
  if (play.distance_floor) {
    const s = distances.map((/** @type {number} */ d, /** @type {number} */ i) => [d - play.means[i] - SLACK * (play.means[i] || 1), i]).reduce((/** @type {number[]} */ a, /** @type {number[]} */ b) => (b[0] > a[0] ? b : a))[1];
    const excess = distances[s] - play.means[s];
    if (excess > SLACK * (play.means[s] || 1)) violations.push({ rule: "distance_floor", said: `the load distance exceeds the mean by ${figure(excess)}`, amount: excess });
  }
  return { objective: 0, metrics, violations, loads: last };
}

/** Loads of key groups with what their remote traffic costs: `LoadModel.key_group_loads`. @param {Model} m @param {Numbers} load @param {Traffic} t @param {Numbers} place */
function talkingLoads(m, load, t, place) {
  const { serialisation, deserialisation } = m.play;
  if (serialisation + deserialisation === 0) return Float64Array.from(load);
  const sent = new Float64Array(place.length), received = new Float64Array(place.length);
  for (let e = 0; e < t.data.length; e++)
    if (place[t.row[e]] !== place[t.col[e]]) {
      sent[t.row[e]] += t.data[e];
      received[t.col[e]] += t.data[e];
    }
  return Float64Array.from(load, (v, k) => v + serialisation * sent[k] + deserialisation * received[k]);
}

/** @param {Model} m @param {Numbers} place @returns {Report} */
function collocation(m, place) {
  const { metrics } = summary(m, place), play = m.play, n = m.nodes.length, count = play.windows.length;
  const typical = play.traffic[play.traffic.length - 1], perWindow = play.traffic.length > 1;
  const typicalTotal = sum(typical.data);
  const each = play.windows.map((/** @type {any} */ w) => {
    const of = talkingLoads(m, w.load, play.traffic[w.traffic], place), loads = bincount(place, of, n);
    const mean = sum(loads) / play.kept_capacity;
    return { of, loads, mean, away: loads.map((v, i) => v / m.capacity[i] - mean) };
  });
  const distances = each.map((/** @type {any} */ w) => distance(m, w.away));
  metrics.load_distance = Math.max(...distances);
  metrics.load_distance_percent = Math.max(0, ...each.map((/** @type {any} */ w, /** @type {number} */ s) => (w.mean === 0 ? 0 : (100 * distances[s]) / w.mean)));
  const mean = play.over === "mean";
  metrics.remote_traffic = mean || !perWindow ? remote(typical, place, play.levels) : combined(play, play.windows.map((/** @type {any} */ w) => remote(play.traffic[w.traffic], place, play.levels)));
  metrics.collocation_factor = typicalTotal === 0 ? 1 : 1 - remote(typical, place) / typicalTotal;
  metrics.total_load = mean ? sum(talkingLoads(m, play.typical, typical, place)) : combined(play, each.map((/** @type {any} */ w) => sum(w.of)));
  metrics.migration_cost = movedSum(m, play.migration_cost, place);
  const violations = [...allocationLimits(m, place, metrics.migrations, metrics.migration_cost)];
  for (const w of each) {
    if (play.max_load_distance === null) break;
    const most = w.mean + play.max_load_distance * (play.distance_unit === "percent" ? w.mean / 100 : 1) - w.mean;
    const excess = w.away.map((/** @type {number} */ v, /** @type {number} */ i) => (m.draining[i] || play.sides === "upper" ? v : Math.abs(v)) - most);
    const i = excess.indexOf(Math.max(...excess));
    if (excess[i] > SLACK * w.mean)
      violations.push({ rule: "max_load_distance", said: `${m.nodes[i]} deviates from the mean load ${figure(w.mean)} by ${figure(Math.abs(w.away[i]))}, the limit is ${figure(most)}`, amount: excess[i] });
  }
  return { objective: 0, metrics, violations, loads: each[count - 1].loads };
}

/** @param {Model} m @param {Numbers} place @returns {Report} */
function mclb(m, place) {
  const { metrics, loads, last } = summary(m, place), play = m.play;
  if (m.draining.some(Boolean))
    metrics.imbalance = sum(loads.map((row, t) => variance(row.filter((_, i) => !m.draining[i]), [play.kept_means[t]])));
  metrics.imbalance_per_window = metrics.imbalance / m.load.length;
  metrics.share_moved = play.total_state > 0 ? metrics.state_moved / play.total_state : 0;
  /** @type {Violation[]} */
  const violations = [];
  if (play.max_state_moved !== null && metrics.state_moved > play.max_state_moved * (1 + SLACK))
    violations.push({ rule: "max_state_moved", said: `${figure(metrics.state_moved)} of state move, the limit is ${figure(play.max_state_moved)}`, amount: metrics.state_moved - play.max_state_moved });
  violations.push(...intoDraining(m, place, false));
  return { objective: 0, metrics, violations, loads: last };
}

/** @param {Model} m @param {Numbers} place @returns {Report} */
function routing(m, place) {
  const { metrics, last } = summary(m, place), play = m.play, n = m.nodes.length;
  /** @type {Violation[]} */
  const violations = [], thetas = [0];
  for (const w of play.windows) {
    const loads = bincount(place, w.load, n);
    for (let i = 0; i < n; i++) {
      if (!m.draining[i] && w.mean !== 0) thetas.push(play.sides === "both" ? Math.abs(loads[i] / w.fair[i] - 1) : loads[i] / w.fair[i] - 1);
      if (!m.draining[i] && loads[i] > w.upper[i] + w.slack)
        violations.push({ rule: "theta_max", said: `${m.nodes[i]} carries ${figure(loads[i])}, the limit is ${figure(w.upper[i])}`, amount: loads[i] - w.upper[i] });
      if (loads[i] < w.lower[i] - w.slack)
        violations.push({ rule: "theta_max", said: `${m.nodes[i]} carries ${figure(loads[i])}, the least is ${figure(w.lower[i])}`, amount: w.lower[i] - loads[i] });
    }
  }
  metrics.theta = Math.max(...thetas);
  metrics.skewness = play.mean ? Math.max(...last.map((v, i) => v / m.capacity[i])) / play.mean : 1;
  metrics.migration_share = metrics.state_moved / play.unit;
  if (play.max_table_size !== null && metrics.table_size > play.max_table_size)
    violations.push({ rule: "max_table_size", said: `the routing table has ${metrics.table_size} entries, the limit is ${play.max_table_size}`, amount: metrics.table_size - play.max_table_size });
  violations.push(...intoDraining(m, place, false));
  return { objective: 0, metrics, violations, loads: last };
}

/** @type {Record<string, (m: Model, place: Numbers) => Report>} */
const CHECKS = { "key-group-allocation": allocation, "collocated-allocation": collocation, mclb, "mixed-routing": routing };

/** What `ks.check` says of an assignment. @param {Model} m @param {Numbers} place @returns {Report} */
export function check(m, place) {
  const report = CHECKS[m.play.kind](m, place);
  if (m.traffic) {
    const away = remote(m.traffic, place);
    report.metrics.remote_traffic ??= away;
    report.metrics.collocation_factor ??= m.total_traffic === 0 ? 1 : 1 - away / m.total_traffic;
  }
  if (m.stated) report.metrics.broken_rules = broken(m, m.stated, place).amount;
  for (const rule of m.rules) {
    const { amount, said } = broken(m, rule, place);
    if (amount > 0) report.violations.push({ rule: rule.name, said: `${rule.words}: ${said}`, amount });
  }
  report.objective = report.metrics[m.play.objective];
  return report;
}
