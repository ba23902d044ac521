// Numbers as keyshift writes and sums them: the same text, and the same last bit.

/** @typedef {ArrayLike<number>} Numbers */

/**
 * NumPy's sum: pairs of halves, eight lanes in blocks of at most 128.
 * @param {Numbers} values
 * @param {number} [from]
 * @param {number} [count]
 * @returns {number}
 */
export function sum(values, from = 0, count = values.length) {
  let total = 0;
  if (count < 8) {
    for (let i = 0; i < count; i++) total += values[from + i];
    return total;
  }
  if (count <= 128) {
    const lane = new Float64Array(8);
    let i = 0;
    for (; i < count - (count % 8); i += 8) for (let j = 0; j < 8; j++) lane[j] += values[from + i + j];
    total = lane[0] + lane[1] + (lane[2] + lane[3]) + (lane[4] + lane[5] + (lane[6] + lane[7]));
    for (; i < count; i++) total += values[from + i];
    return total;
  }
  let half = count >> 1;
  half -= half % 8;
  return sum(values, from, half) + sum(values, from + half, count - half);
}

/**
 * The weights added up by place, one after another.
 * @param {Numbers} place
 * @param {Numbers} weights
 * @param {number} size
 */
export function bincount(place, weights, size) {
  const held = new Float64Array(size);
  for (let k = 0; k < place.length; k++) held[place[k]] += weights[k];
  return held;
}

/**
 * Digits and exponent of a number, rounded to so many digits; a tie goes to the even digit, as in Python.
 * @param {number} size
 * @param {number} digits
 * @returns {[string, number]}
 */
function rounded(size, digits) {
  const exact = size.toExponential(60), all = exact.slice(0, exact.indexOf("e")).replace(".", "");
  if (/^50*$/.test(all.slice(digits)) && "02468".includes(all[digits - 1]))
    return [all.slice(0, digits), Number(exact.slice(exact.indexOf("e") + 1))];
  const near = size.toExponential(digits - 1), at = near.indexOf("e");
  return [near.slice(0, at).replace(".", ""), Number(near.slice(at + 1))];
}

/** @param {string} whole */
const grouped = (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ",");

/**
 * A number for people: `keyshift.models.base.figures.figure`.
 * @param {number | null | undefined} value
 * @param {number} [scale]
 * @param {number} [digits]
 */
export function figure(value, scale = 0, digits = 6) {
  if (value === null || value === undefined) return "-";
  if (Number.isNaN(value)) return "nan";
  const size = Math.abs(value), sign = value < 0 ? "-" : "";
  if (size === Infinity) return sign + "inf";
  if (size <= (1e-9 * scale || 1e-12)) return "0";
  if (size < 1e15 && (Number.isInteger(size) || size >= 10 ** digits)) {
    const below = Math.floor(size), rest = size - below;
    return sign + grouped(String(rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? below + 1 : below));
  }
  const [said, power] = rounded(size, digits);
  if (power < -4 || power >= digits) {
    const mantissa = `${said[0]}.${said.slice(1)}`.replace(/\.?0+$/, "");
    return `${sign}${mantissa}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  }
  const whole = power < 0 ? "0" : said.slice(0, power + 1);
  const rest = (power < 0 ? "0".repeat(-power - 1) + said : said.slice(power + 1)).replace(/0+$/, "");
  return sign + grouped(whole) + (rest ? `.${rest}` : "");
}

/** Figures on the page: five digits, as in every report. @param {number | null | undefined} value @param {number} [scale] */
export const shown = (value, scale = 0) => figure(value, scale, 5);
