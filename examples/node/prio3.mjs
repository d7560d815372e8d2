// Sharding of Prio3 for two aggregators and one proof (draft-irtf-cfrg-vdaf, wire version 18): docs/prio3.md.
import { cat, uint } from './bytes.mjs';
import { turboshake128 } from './turboshake.mjs';

const MEAS_SHARE = 1, PROOF_SHARE = 2, JOINT_RAND = 3, PROVE_RAND = 4, JOINT_SEED = 6, JOINT_PART = 7;

class Field {
  constructor(modulus, size, order) {
    this.p = modulus;
    this.size = size;
    this.order = order; // of the 2-power subgroup, as an exponent of 2
    this.generator = this.pow(7n, (modulus - 1n) >> order);
  }

  mod(x) {
    const r = x % this.p;
    return r < 0n ? r + this.p : r;
  }

  pow(base, exponent) {
    let out = 1n;
    for (let b = base, e = exponent; e > 0n; e >>= 1n, b = (b * b) % this.p) if (e & 1n) out = (out * b) % this.p;
    return out;
  }

  inverse(x) {
    return this.pow(x, this.p - 2n);
  }

  root(n) {
    return this.pow(this.generator, (1n << this.order) / BigInt(n));
  }

  encode(vector) {
    return cat(...vector.map((x) => uint(x, this.size).reverse()));
  }

  sub(left, right) {
    return left.map((x, i) => this.mod(x - right[i]));
  }
}

export const Field64 = new Field((1n << 64n) - (1n << 32n) + 1n, 8, 32n);
export const Field128 = new Field((1n << 128n) - 7n * (1n << 66n) + 1n, 16, 66n);

/** Values at the powers of `root`, from coefficients (the number of both is a power of two). */
function ntt(field, values, root) {
  if (values.length === 1) return values;
  const square = (root * root) % field.p;
  const even = ntt(field, values.filter((_, i) => i % 2 === 0), square);
  const odd = ntt(field, values.filter((_, i) => i % 2 === 1), square);
  const out = new Array(values.length);
  for (let i = 0, w = 1n; i < even.length; i++, w = (w * root) % field.p) {
    const t = (w * odd[i]) % field.p;
    out[i] = (even[i] + t) % field.p;
    out[i + even.length] = field.mod(even[i] - t);
  }
  return out;
}

/** From values at the P-th roots of one to values at the 2P-th roots. */
function doubled(field, values) {
  const n = values.length;
  const scale = field.inverse(BigInt(n));
  const coefficients = ntt(field, values, field.inverse(field.root(n))).map((x) => (x * scale) % field.p);
  return ntt(field, [...coefficients, ...new Array(n).fill(0n)], field.root(2 * n));
}

const bitLength = (x) => BigInt(x).toString(2).length;

/** A number in [0, max] as bits that stand for powers of two, and for one last weight such that the sum can reach max exactly. */
function rangeBits(value, max) {
  const bits = bitLength(max);
  const rest = (1n << BigInt(bits - 1)) - 1n;
  const last = BigInt(value) > rest ? 1n : 0n;
  const low = BigInt(value) - last * (BigInt(max) - rest);
  const out = [];
  for (let i = 0n; i < BigInt(bits - 1); i++) out.push((low >> i) & 1n);
  return [...out, last];
}

/** What each of these bits stands for. */
function rangeWeights(max) {
  const powers = Array.from({ length: bitLength(max) - 1 }, (_, i) => 1n << BigInt(i));
  return [...powers, BigInt(max) - powers.reduce((sum, power) => sum + power, 0n)];
}

const bounded = (value, max) => {
  if (!Number.isSafeInteger(value) || value < 0 || value > max) throw new RangeError('the measurement is outside its range');
  return value;
};

const SINGLE = {
  Prio3Count: {
    arity: 2,
    encode: (vdaf, x) => [BigInt(bounded(x, 1))],
    gadget: (field, [x, y]) => (x * y) % field.p,
    inputs: (field, meas) => [[meas[0], meas[0]]],
  },
  Prio3Sum: {
    arity: 1,
    encode: (vdaf, x) => rangeBits(bounded(x, vdaf.max_measurement), vdaf.max_measurement),
    gadget: (field, [x]) => field.mod(x * x - x),
    inputs: (field, meas) => meas.map((x) => [x]),
  },
};

const ENCODE = {
  Prio3Histogram: (vdaf, index) => {
    bounded(index, vdaf.length - 1);
    return Array.from({ length: vdaf.length }, (_, i) => (i === index ? 1n : 0n));
  },
  Prio3MultihotCountVec: (vdaf, bits) => {
    const weight = bits.reduce((sum, bit) => sum + bounded(bit, 1), 0);
    return [...bits.map(BigInt), ...rangeBits(bounded(weight, vdaf.max_weight), vdaf.max_weight)];
  },
  Prio3SumVec: (vdaf, numbers) => numbers.flatMap((x) => rangeBits(bounded(x, vdaf.max_measurement), vdaf.max_measurement)),
  Prio3L2BoundSum: ({ length, vector }, numbers) => {
    const bits = (list, max) => list.flatMap((x) => rangeBits(bounded(x, max), max));
    const values = numbers.slice(0, length);
    const square = values.reduce((sum, v) => sum + (v - vector.centre) ** 2, 0);
    const noises = vector.flips ? bits(numbers.slice(length), vector.flips) : [];
    return [...bits(values, vector.max_value), ...noises, ...rangeBits(bounded(square, vector.max_square), vector.max_square)];
  },
};

/** Of Prio3L2BoundSum: the distance x of each value from the centre, in pairs (x, x), and pairs (0, 0) beyond the end. */
function squareInputs(field, meas, { length, chunk_length: chunk, vector }) {
  const width = bitLength(vector.max_value);
  const weights = rangeWeights(vector.max_value);
  const entry = (i) => meas.slice(i * width, (i + 1) * width).reduce((sum, bit, k) => sum + bit * weights[k], -BigInt(vector.centre));
  const calls = [];
  for (let at = 0; at < length; at += chunk) {
    calls.push(Array.from({ length: 2 * chunk }, (_, j) => (at + (j >> 1) < length ? field.mod(entry(at + (j >> 1))) : 0n)));
  }
  return calls;
}

/** The chunked range check: call i has the pairs (r^(j+1) m, m - 1), and pairs (0, -1) beyond the end. */
function chunkInputs(field, meas, jointRand, chunk) {
  return jointRand.map((r, i) => {
    const wires = [];
    for (let j = 0, power = r; j < chunk; j++, power = (power * r) % field.p) {
      const m = meas[i * chunk + j] ?? 0n;
      wires.push((power * m) % field.p, field.mod(m - 1n));
    }
    return wires;
  });
}

function chunked(vdaf) {
  return {
    arity: 2 * vdaf.chunk_length,
    encode: ENCODE[vdaf.name],
    gadget: (field, wires) => {
      let sum = 0n;
      for (let j = 0; j < wires.length; j += 2) sum += wires[j] * wires[j + 1];
      return sum % field.p;
    },
    inputs: (field, meas, jointRand) => [
      ...chunkInputs(field, meas, jointRand, vdaf.chunk_length),
      ...(vdaf.vector ? squareInputs(field, meas, vdaf) : []),
    ],
    calls: (meas) => Math.ceil(meas.length / vdaf.chunk_length),
  };
}

/** The proof: the wires' first values, then the gadget polynomial at all 2P-th roots of one except the last. */
function prove(field, circuit, meas, proveRand, jointRand) {
  const calls = circuit.inputs(field, meas, jointRand);
  const size = 2 ** Math.ceil(Math.log2(calls.length + 1));
  const wires = proveRand.map((seed, j) => {
    const values = new Array(size).fill(0n);
    values[0] = seed;
    calls.forEach((inputs, k) => { values[k + 1] = inputs[j]; });
    return doubled(field, values);
  });
  const polynomial = [];
  for (let i = 0; i < 2 * size - 1; i++) polynomial.push(circuit.gadget(field, wires.map((wire) => wire[i])));
  return [...proveRand, ...polynomial];
}

const IDS = { Prio3Count: 1, Prio3Sum: 2, Prio3SumVec: 3, Prio3Histogram: 4, Prio3MultihotCountVec: 5, Prio3L2BoundSum: 0xffff5444 };
export const vdafId = (name) => IDS[name];

class Xof {
  constructor(vdaf, ctx) {
    this.tag = (usage) => cat(Buffer.from([18, 0]), uint(IDS[vdaf.name], 4), uint(usage, 2), ctx);
  }

  input(seed, usage, binder) {
    const dst = this.tag(usage);
    return cat(uint(dst.length, 2).reverse(), dst, Buffer.from([seed.length]), seed, binder);
  }

  seed(seed, usage, binder) {
    return turboshake128(this.input(seed, usage, binder), 0x01)(32);
  }

  vector(field, length, seed, usage, binder) {
    const read = turboshake128(this.input(seed, usage, binder), 0x01);
    const out = [];
    while (out.length < length) {
      const x = BigInt(`0x${read(field.size).reverse().toString('hex')}`);
      if (x < field.p) out.push(x);
    }
    return out;
  }
}

/** The number of bytes of `rand` that shard takes. */
export const randSize = (vdaf) => (vdaf.name in SINGLE ? 64 : 128);

/** Returns `{ publicShare, leader, helper }`. The measurement is a number, or an array of them for vectors; `vdaf` is a recipe's. */
export function shard(vdaf, ctx, measurement, nonce, rand) {
  const single = SINGLE[vdaf.name];
  const circuit = single ?? chunked(vdaf);
  const field = single ? Field64 : Field128;
  const xof = new Xof(vdaf, ctx);
  const seeds = Array.from({ length: rand.length / 32 }, (_, i) => rand.subarray(32 * i, 32 * i + 32));
  const [helperSeed, helperBlind, leaderBlind] = single ? [seeds[0]] : seeds;
  const meas = circuit.encode(vdaf, measurement);
  const helperMeas = xof.vector(field, meas.length, helperSeed, MEAS_SHARE, Buffer.from([1]));
  const leaderMeas = field.sub(meas, helperMeas);
  let publicShare = Buffer.alloc(0), jointRand = [];
  if (!single) {
    const part = (blind, id, share) => xof.seed(blind, JOINT_PART, cat(Buffer.from([id]), nonce, field.encode(share)));
    publicShare = cat(part(leaderBlind, 0, leaderMeas), part(helperBlind, 1, helperMeas));
    const seed = xof.seed(Buffer.alloc(32), JOINT_SEED, publicShare);
    jointRand = xof.vector(field, circuit.calls(meas), seed, JOINT_RAND, Buffer.from([1]));
  }
  const proveRand = xof.vector(field, circuit.arity, seeds[seeds.length - 1], PROVE_RAND, Buffer.from([1]));
  const proof = prove(field, circuit, meas, proveRand, jointRand);
  const helperProof = xof.vector(field, proof.length, helperSeed, PROOF_SHARE, Buffer.from([1, 1]));
  const leader = field.encode([...leaderMeas, ...field.sub(proof, helperProof)]);
  return single
    ? { publicShare, leader, helper: helperSeed }
    : { publicShare, leader: cat(leader, leaderBlind), helper: cat(helperSeed, helperBlind) };
}
