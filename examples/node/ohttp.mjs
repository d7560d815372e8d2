// Binary HTTP (RFC 9292) inside Oblivious HTTP (RFC 9458), padded to size classes: docs/device.md, section 2.
import http from 'node:http';
import https from 'node:https';
import { Reader, cat, text, uniformTime, varint } from './bytes.mjs';
import { aesOpen, hkdfExpand, hkdfExtract, sealTo } from './hpke.mjs';

const CLASSES = [4096, 16384, 65536, 262144];
const OVERHEAD = 7 + 32 + 16; // header, enc, tag
const NONE = Buffer.alloc(0);
const LARGEST = 4 << 20;

const part = (bytes) => cat(varint(bytes.length), bytes);

/** A known-length request; `fields` are [name, value] pairs. */
export function encodeRequest(method, url, fields, content) {
  const { protocol, host, pathname, search } = new URL(url);
  const lines = cat(...fields.flatMap(([name, value]) => [part(text(name)), part(text(value))]));
  const control = [method, protocol.slice(0, -1), host, pathname + search].map((word) => part(text(word)));
  return cat(Buffer.from([0]), ...control, part(lines), part(content), Buffer.from([0]));
}

export function decodeResponse(bytes) {
  const reader = new Reader(bytes);
  if (reader.uint(1) !== 1) throw new Error('not a known-length response');
  const status = reader.varint();
  if (status < 200 || status > 599) throw new Error('not a final response');
  const lines = new Reader(reader.section());
  const fields = new Map();
  while (lines.left) fields.set(lines.section().toString('latin1'), lines.section().toString('latin1'));
  const content = reader.section();
  reader.section();
  if (reader.take(reader.left).some((byte) => byte !== 0)) throw new Error('padding is not zero');
  return { status, fields, content };
}

/** Decodes a key configuration of RFC 9458 section 3: its key, and its header with the one suite that we support. */
export function keyConfig(bytes) {
  const reader = new Reader(bytes);
  const id = reader.take(1);
  const kem = reader.take(2);
  const key = reader.take(32);
  const pairs = new Reader(reader.opaque(2));
  let suite = null;
  while (pairs.left) {
    const pair = pairs.take(4);
    if (suite === null && pair.toString('hex') === '00010001') suite = pair;
  }
  if (reader.left || kem.toString('hex') !== '0020' || suite === null) throw new Error('key configuration of another suite');
  return { key, header: cat(id, kem, suite) };
}

/** Seals a request: `{ message, open(answer) }`; `ephemeral` is for test vectors. */
export function encapsulate(config, request, ephemeral) {
  const size = CLASSES.find((each) => each >= request.length + OVERHEAD);
  if (size === undefined) throw new Error('the request exceeds the largest size class');
  const { key, header } = keyConfig(config);
  const padded = cat(request, Buffer.alloc(size - OVERHEAD - request.length));
  const info = cat(text('message/bhttp request'), Buffer.from([0]), header);
  const sealed = sealTo(key, info, NONE, padded, ephemeral);
  const open = (answer) => {
    const nonce = answer.subarray(0, 16);
    const prk = hkdfExtract(cat(sealed.enc, nonce), sealed.export('message/bhttp response', 16));
    const plain = aesOpen(hkdfExpand(prk, text('key'), 16), hkdfExpand(prk, text('nonce'), 12), NONE, answer.subarray(16));
    return decodeResponse(plain);
  };
  return { message: cat(header, sealed.enc, sealed.ciphertext), open };
}

// A proxy may add a charset or change the case of a media type; none of ours has parameters.
const bare = (type = '') => type.split(';')[0].trim().toLowerCase();

const rests = new WeakMap(); // by a device's options: when each origin that asked to be left alone may be asked again
const PASSING = (status) => [408, 421, 425, 429].includes(status) || (status >= 500 && ![501, 505].includes(status));
const LONGEST_REST = 3600;

/** Seconds for which an answer asks to be left alone (RFC 9110, 10.2.3): a number, or a date beside the answer's own. */
export function restOf({ 'retry-after': said = '', date = '' }, now = Date.now()) {
  const until = Date.parse(said);
  const since = Number.isNaN(Date.parse(date)) ? now : Date.parse(date);
  const asked = /^\d+$/.test(said) ? Number(said) : (until - since) / 1000;
  return Number.isNaN(asked) ? 0 : Math.min(Math.max(asked, 0), LONGEST_REST);
}

/** One HTTP exchange without cookies, redirects, User-Agent or keep-alive: `{ status, type, date, content }`. */
export function exchange(method, url, type, content = NONE, options = {}) {
  const address = new URL(url);
  const loopback = ['127.0.0.1', '[::1]', 'localhost'].includes(address.hostname);
  if (address.protocol !== 'https:' && !(loopback || options.insecure)) throw new Error('http is for loopback only');
  const rest = rests.get(options)?.get(address.origin) ?? [0, 0];
  if (Date.now() >= rest[0] && Date.now() < rest[1]) return Promise.reject(new Error('the server asked to be left alone for a while'));
  const headers = { 'content-length': content.length, ...(type && { 'content-type': type }) };
  return new Promise((resolve, reject) => {
    const client = address.protocol === 'https:' ? https : http;
    const request = client.request(address, { method, headers, agent: false, ca: options.ca, timeout: 30000 }, (answer) => {
      const chunks = [];
      let size = 0;
      answer.on('data', (chunk) => {
        size += chunk.length;
        if (size > LARGEST) answer.destroy(new Error('the answer is too large'));
        chunks.push(chunk);
      });
      answer.on('error', reject);
      answer.on('end', () => {
        const { 'content-type': found, date } = answer.headers;
        const seconds = PASSING(answer.statusCode) ? restOf(answer.headers) : 0;
        if (seconds) {
          if (!rests.has(options)) rests.set(options, new Map());
          rests.get(options).set(address.origin, [Date.now(), Date.now() + uniformTime(seconds, 1.25 * seconds) * 1000]);
        }
        resolve({ status: answer.statusCode, type: bare(found), date, content: cat(...chunks) });
      });
    });
    request.on('timeout', () => request.destroy(new Error('no answer')));
    request.on('error', reject);
    request.end(content);
  });
}

/** A time, rounded down to the minute, as an HTTP date; it bounds the gateway's replay window. */
export const minute = (now) => new Date(Math.floor(now / 60) * 60000).toUTCString();

// By relay: how many seconds its clock was ahead of ours at its last answer, and whether it dates our requests.
const clocks = new Map();
const clockOf = (relay) => clocks.get(relay) ?? { ahead: 0, followed: true };

/** The date of a request, by the relay's clock, so that the gateway cannot recognise a device by its own clock. */
export function dateFor(relay, now) {
  const { ahead, followed } = clockOf(relay);
  return minute(now + (followed ? ahead : 0));
}

function noteClock(relay, now, date) {
  const ahead = Date.parse(date) / 1000 - now;
  clocks.set(relay, { ...clockOf(relay), ahead: Number.isFinite(ahead) ? ahead : 0 });
}

const isProblem = (answer, status, type) => answer.status === status && answer.content.includes(`http-problem-types#${type}`);

/** Sends a request through relay and gateway, under the first of `configs` that the gateway knows; each try is encapsulated anew. */
export async function throughRelay(relay, configs, method, url, now, options, type, content = NONE) {
  const began = performance.now();
  const fields = [['date', dateFor(relay, now)], ...(type ? [['content-type', type]] : [])];
  for (const config of configs) {
    const { message, open } = encapsulate(config, encodeRequest(method, url, fields, content));
    const outer = await exchange('POST', `${relay}/`, 'message/ohttp-req', message, options);
    if (isProblem(outer, 422, 'ohttp-key')) continue;
    if (outer.status !== 200 || outer.type !== 'message/ohttp-res') throw new Error(`the relay answered ${outer.status}`);
    const corrected = clockOf(relay).followed && clockOf(relay).ahead !== 0;
    noteClock(relay, now + (performance.now() - began) / 1000, outer.date);
    const answer = open(outer.content);
    if (isProblem(answer, 400, 'date')) {
      clocks.set(relay, { ...clockOf(relay), followed: !corrected });
      throw new Error("the gateway refuses the date: this device's clock or the relay's is wrong");
    }
    return answer;
  }
  throw new Error('the gateway knows none of the keys');
}
