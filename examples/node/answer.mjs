// From a datum to a randomised answer: encoders, randomised response, one bit of a number, the coin. docs/device.md, section 7.
import { randomBytes } from 'node:crypto';
import { toInt, uniformBelow } from './bytes.mjs';

const ONE = 1n << 128n;
const SCALE = 10n ** 18n;
const LEAST_STEPS = 2;

/** A decimal text of at most 18 places as a whole number of 10^-18. */
export function decimal(words) {
  const [whole, places = ''] = words.split('.');
  return BigInt(whole) * SCALE + BigInt(places.padEnd(18, '0'));
}

const PRECISION = 320n; // bits after the point: more than 60 decimal digits even next to exp(40)

function exponential(e) {
  const x = (e << PRECISION) / SCALE;
  let sum = 0n;
  for (let term = 1n << PRECISION, k = 1n; term > 0n; k++) {
    sum += term;
    term = ((term * x) >> PRECISION) / k;
  }
  return sum;
}

/** T(e, o) = floor(2^128 exp(e) / (exp(e) + o)) - 1, for e as a decimal text. */
export function keepThreshold(epsilon, others) {
  const power = exponential(decimal(epsilon));
  return (ONE * power) / (power + (BigInt(others) << PRECISION)) - 1n;
}

const NUMBER = /^([+-]?)([0-9]{1,30})(?:\.([0-9]{0,30}))?(?:[eE]([+-]?[0-9]{1,3}))?$/;

/** Text as a fraction `[numerator, denominator]` of whole numbers; null if it is not a number. */
function exact(words) {
  const match = NUMBER.exec(words.trim());
  if (!match) return null;
  const [, sign, whole, places = '', power = '0'] = match;
  const digits = BigInt(whole + places) * (sign === '-' ? -1n : 1n);
  const ten = BigInt(Number(power) - places.length);
  return ten >= 0n ? [digits * 10n ** ten, 1n] : [digits, 10n ** -ten];
}

/** A datum as a fraction; null if it is not a number. A float is its shortest decimal. */
const fractionOf = (value) => (['number', 'string'].includes(typeof value) ? exact(String(value)) : null);

/** A function: is the datum at least `edge`, an integer or decimal text? null if it is not a number. */
function comparison(value) {
  if (value === Infinity || value === -Infinity) return () => value > 0;
  const fraction = fractionOf(value);
  return fraction && ((edge) => {
    const [numerator, denominator] = exact(String(edge));
    return fraction[0] * denominator >= numerator * fraction[1];
  });
}

/** Whether edges rise strictly. */
export const rising = (edges) => edges.every((edge, i) => i === 0 || !comparison(edges[i - 1])(edge));

function bucket(encoder, value) {
  const atLeast = comparison(value);
  if (!atLeast) return null;
  const count = encoder.edges.filter(atLeast).length;
  if (count > 0) return count - 1;
  return encoder.other === undefined ? 0 : encoder.edges.length;
}

function category(encoder, value) {
  if (typeof value !== 'string' && !Number.isSafeInteger(value)) return null;
  const position = encoder.categories.indexOf(String(value));
  if (position >= 0) return position;
  return encoder.other === undefined ? null : encoder.categories.length;
}

function truth(value) {
  const words = String(value ?? '').trim().toLowerCase();
  if (['1', 'true', 'yes'].includes(words)) return 1;
  return ['0', 'false', 'no'].includes(words) ? 0 : null;
}

/** (value - low) / unit as a fraction `[numerator, denominator]`. */
function stepsFrom({ low, unit = 1 }, [numerator, denominator]) {
  const [a, b] = exact(String(low));
  const [c, d] = exact(String(unit));
  return [(numerator * b - a * denominator) * d, denominator * b * c];
}

const wholeSteps = ([numerator, denominator]) => Number(numerator / denominator);

/** The largest encoded number of a range. */
export const largest = (encoder) => wholeSteps(stepsFrom(encoder, exact(String(encoder.high))));

/** Whether the range of a number is not empty, its unit divides it, and a fractional one has two steps or more. */
export function isRange(encoder) {
  const [numerator, denominator] = stepsFrom(encoder, exact(String(encoder.high)));
  const fractional = [encoder.low, encoder.high, encoder.unit].some((each) => typeof each === 'string');
  return numerator > 0n && numerator % denominator === 0n && (!fractional || largest(encoder) >= LEAST_STEPS);
}

/** The encoded number for which a missing answer and a dummy stand: that of 0 where it is one of the values, else 0. */
export function neutral(encoder) {
  const [numerator, denominator] = stepsFrom(encoder, [0n, 1n]);
  const steps = wholeSteps([numerator, denominator]);
  return numerator % denominator === 0n && steps >= 0 && steps <= largest(encoder) ? steps : 0;
}

function number(encoder, value) {
  if (value === Infinity || value === -Infinity) return value > 0 ? largest(encoder) : 0;
  const fraction = fractionOf(value);
  if (!fraction) return null;
  const [numerator, denominator] = stepsFrom(encoder, fraction);
  if (numerator <= 0n) return 0;
  const [steps, rest] = [numerator / denominator, numerator % denominator];
  const up = 2n * rest > denominator || (2n * rest === denominator && steps % 2n === 1n); // half to even
  return Math.min(Number(up ? steps + 1n : steps), largest(encoder));
}

function conjunction(encoder, own) {
  let position = 0;
  for (const name of Object.keys(encoder.attributes).sort()) {
    const at = encoder.attributes[name].indexOf(own[name]);
    if (at < 0) return null;
    position = position * encoder.attributes[name].length + at;
  }
  return position;
}

/** The number of answers that the randomizer may give, that for devices without a value included; null for encoders that are not supported. */
export function labels(encoder) {
  const extra = (encoder.other === undefined ? 0 : 1) + (encoder.missing === undefined ? 0 : 1);
  if (encoder.kind === 'buckets') return encoder.edges.length + extra;
  if (encoder.kind === 'categories') return encoder.categories.length + extra;
  if (encoder.kind === 'boolean' || encoder.kind === 'number') return 2;
  if (encoder.kind === 'attributes') return Object.values(encoder.attributes).reduce((n, each) => n * each.length, 1) + extra;
  return null;
}

/** The position of the answer; null if there is none and the encoder names no category for that. */
export function encode(encoder, value, attributes) {
  const kinds = { buckets: bucket, categories: category, number, boolean: (_, each) => truth(each) };
  const found = encoder.kind === 'attributes' ? conjunction(encoder, attributes) : kinds[encoder.kind](encoder, value);
  if (found !== null || encoder.missing === undefined) return found;
  if (encoder.kind === 'boolean') return 0; // the only category that it may name for a missing value is "no"
  return labels(encoder) - 1; // `missing` is the last of the positions
}

/** The measurement of an encoded answer; a missing one is a draw that depends on nothing. `draw(n)` gives n random bytes. */
export function randomise({ randomizer, question }, encoded, draw = randomBytes) {
  const { name, categories: k, epsilon0 } = randomizer;
  if (name === 'one-bit') {
    const value = encoded ?? neutral(question.encoder);
    const bit = Number(uniformBelow(randomizer.maximum, draw) < BigInt(value));
    return toInt(draw(16)) < keepThreshold(epsilon0, 1) ? bit : 1 - bit; // both drawn always, the rounding first
  }
  if (name === 'rr') {
    if (encoded === null) return draw(1)[0] & 1;
    return toInt(draw(16)) < keepThreshold(epsilon0, 1) ? encoded : 1 - encoded;
  }
  if (encoded === null) return Number(uniformBelow(k, draw));
  const keep = toInt(draw(16)) < keepThreshold(epsilon0, k - 1);
  const other = Number(uniformBelow(k - 1, draw)); // always drawn, so that the time reveals nothing
  return keep ? encoded : other + (other >= encoded ? 1 : 0);
}

/** The coin that decides on taking part: whether 128 random bits are below floor(rate 2^128). */
export const takesPart = (rate, draw = randomBytes) => toInt(draw(16)) < (decimal(rate) * ONE) / SCALE;
