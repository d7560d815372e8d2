// Bytes and text: fixed integers, length prefixes, strict base64url, QUIC varints, RFC 8785 JSON.
import { createHash, randomBytes } from 'node:crypto';

export const sha256 = (...parts) => createHash('sha256').update(Buffer.concat(parts)).digest();
export const cat = (...parts) => Buffer.concat(parts);
export const text = (value) => Buffer.from(value, 'utf8');

/** Big-endian integer of `size` bytes. */
export function uint(value, size) {
  const out = Buffer.alloc(size);
  let rest = BigInt(value);
  if (rest < 0n || rest >= 1n << BigInt(8 * size)) throw new RangeError(`does not fit into ${size} bytes`);
  for (let i = size - 1; i >= 0; i--, rest >>= 8n) out[i] = Number(rest & 255n);
  return out;
}

export const toInt = (bytes) => (bytes.length ? BigInt(`0x${Buffer.from(bytes).toString('hex')}`) : 0n);

/** Data after its length in `size` bytes. */
export const opaque = (size, data) => cat(uint(data.length, size), data);

export const b64url = (bytes) => Buffer.from(bytes).toString('base64url');

/** Decodes base64url without padding, in its only valid spelling; `size`: the required number of bytes, if given. */
export function unb64url(value, size) {
  if (typeof value !== 'string') throw new Error('base64url is text');
  const out = Buffer.from(value, 'base64url');
  if (out.toString('base64url') !== value) throw new Error('not base64url in its only valid spelling');
  if (size !== undefined && out.length !== size) throw new Error(`not ${size} bytes`);
  return out;
}

/** QUIC's variable-length integer (RFC 9000 section 16), shortest form. */
export function varint(value) {
  if (value < 0x40) return uint(value, 1);
  if (value < 0x4000) return uint(value | 0x4000, 2);
  if (value < 0x40000000) return uint(BigInt(value) | 0x80000000n, 4);
  return uint(BigInt(value) | 0xc000000000000000n, 8);
}

/** Reads from the front of a buffer; throws if bytes are missing. */
export class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  get left() {
    return this.bytes.length - this.at;
  }

  take(size) {
    if (size > this.left) throw new Error('message ends too early');
    this.at += size;
    return this.bytes.subarray(this.at - size, this.at);
  }

  uint(size) {
    return Number(toInt(this.take(size)));
  }

  opaque(size) {
    return this.take(this.uint(size));
  }

  varint() {
    const first = this.uint(1);
    const more = this.take((1 << (first >> 6)) - 1);
    return Number(toInt(cat(Buffer.from([first & 0x3f]), more)));
  }

  /** A section of Binary HTTP: missing at the end of the message means empty. */
  section() {
    return this.left ? this.take(this.varint()) : Buffer.alloc(0);
  }
}

/** RFC 8785 for documents whose numbers are integers: names in code-unit order, no white space. */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value !== null && typeof value === 'object') {
    const names = Object.keys(value).sort();
    return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(',')}}`;
  }
  if (typeof value === 'number' && !Number.isSafeInteger(value)) throw new Error('a number is not an integer');
  return JSON.stringify(value);
}

/** Parses bytes that must be in canonical form (so: no floats, no repeated members, no other spelling). */
export function parseCanonical(bytes) {
  const value = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  if (!text(canonical(value)).equals(bytes)) throw new Error('not canonical JSON');
  return value;
}

/** A uniform number below `bound`, from 16 random bytes at a time. */
export function uniformBelow(bound, draw = randomBytes) {
  const b = BigInt(bound);
  const limit = (1n << 128n) - ((1n << 128n) % b);
  for (;;) {
    const d = toInt(draw(16));
    if (d < limit) return d % b;
  }
}

/** A uniform time between two times in seconds, so that the time of a request reveals nothing about it. */
export function uniformTime(low, high) {
  const span = Math.max(0, high - low);
  return low + (span * Number(toInt(randomBytes(6)))) / 2 ** 48;
}
