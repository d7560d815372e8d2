// From a datum to a randomised answer: encoders, k-ary randomised response, the coin. docs/device.md, section 7.
import { randomBytes } from 'node:crypto';
import { toInt, uniformBelow } from './bytes.mjs';

const ONE = 1n << 128n;
const SCALE = 10n ** 18n;

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

/** A function: is the datum at least `edge`, an integer or decimal text? null if it is not a number. A float is its shortest decimal. */
function comparison(value) {
  if (value === Infinity || value === -Infinity) return () => value > 0;
  const fraction = ['number', 'string'].includes(typeof value) ? exact(String(value)) : null;
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

function conjunction(encoder, own) {
  let position = 0;
  for (const name of Object.keys(encoder.attributes).sort()) {
    const at = encoder.attributes[name].indexOf(own[name]);
    if (at < 0) return null;
    position = position * encoder.attributes[name].length + at;
  }
  return position;
}

/** The number of answers, including the one for devices without a value; null for encoders that are not supported. */
export function labels(encoder) {
  const extra = (encoder.other === undefined ? 0 : 1) + (encoder.missing === undefined ? 0 : 1);
  if (encoder.kind === 'buckets') return encoder.edges.length + extra;
  if (encoder.kind === 'categories') return encoder.categories.length + extra;
  if (encoder.kind === 'boolean') return 2;
  if (encoder.kind === 'attributes') return Object.values(encoder.attributes).reduce((n, each) => n * each.length, 1) + extra;
  return null;
}

/** The position of the answer; null if there is none and the encoder names no category for that. */
export function encode(encoder, value, attributes) {
  const kinds = { buckets: bucket, categories: category, boolean: (_, each) => truth(each) };
  const found = encoder.kind === 'attributes' ? conjunction(encoder, attributes) : kinds[encoder.kind](encoder, value);
  if (found !== null || encoder.missing === undefined) return found;
  if (encoder.kind === 'boolean') return 0; // the only category that it may name for a missing value is "no"
  return labels(encoder) - 1; // `missing` is the last of the positions
}

/** The measurement of an encoded answer; a missing one is a draw that depends on nothing. `draw(n)` gives n random bytes. */
export function randomise(randomizer, encoded, draw = randomBytes) {
  const { name, categories: k, epsilon0 } = randomizer;
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
