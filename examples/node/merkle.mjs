// The log: signed notes and cosignatures, inclusion, consistency, and signed leaves. docs/device.md, section 3.
import { verify } from 'node:crypto';
import { canonical, cat, parseCanonical, sha256, text, toInt, unb64url } from './bytes.mjs';

const ED25519 = Buffer.from('302a300506032b6570032100', 'hex'); // SubjectPublicKeyInfo before the 32 bytes
const P = (1n << 255n) - 19n;
const TORSION = [ // y coordinates of the eight points of small order
  0n, 1n, P - 1n,
  toInt(Buffer.from('26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05', 'hex').reverse()),
  toInt(Buffer.from('c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a', 'hex').reverse()),
];
const AHEAD = 300;

export class Refusal extends Error {
  constructor(rule, reason) {
    super(`${rule}: ${reason}`);
    this.rule = rule;
  }
}

/** Whether signatures under a key mean something: whether the key has large order. */
export function isStrongKey(key) {
  const y = toInt(Buffer.from(key).reverse()) & ((1n << 255n) - 1n);
  return !TORSION.includes(y % P);
}

export function verifyEd25519(key, message, signature) {
  const spki = { key: cat(ED25519, key), format: 'der', type: 'spki' };
  return signature.length === 64 && isStrongKey(key) && verify(null, message, spki, signature);
}

/** Parses `name+id+base64(type || key)` to `{ name, id, key }`. */
export function noteKey(line, type) {
  const [, name, id, data] = /^([^+\s]+)\+([0-9a-f]{8})\+(\S+)$/.exec(line) ?? [];
  const raw = Buffer.from(data ?? '', 'base64');
  const expected = sha256(text(`${name}\n`), raw).subarray(0, 4).toString('hex');
  if (raw.length !== 33 || raw[0] !== type || expected !== id) throw new Error('not a verifier key of a note');
  return { name, id, key: raw.subarray(1) };
}

function signatureLines(note) {
  const split = note.lastIndexOf('\n\n');
  if (split < 0 || !note.endsWith('\n')) throw new Refusal('log-checkpoint', 'the note has no signatures');
  const lines = note.slice(split + 2, -1).split('\n').map((line) => {
    const [, name, data] = /^— (\S+) ([A-Za-z0-9+/]+=*)$/.exec(line) ?? [];
    const raw = Buffer.from(data ?? '', 'base64');
    if (raw.length < 5) throw new Refusal('log-checkpoint', 'a signature line is malformed');
    return { name, id: raw.subarray(0, 4).toString('hex'), signature: raw.subarray(4) };
  });
  return { body: note.slice(0, split + 1), lines };
}

function isCosigned(witness, body, lines, now, maxAge) {
  return lines.some((line) => {
    if (line.name !== witness.name || line.id !== witness.id || line.signature.length !== 72) return false;
    const time = Number(toInt(line.signature.subarray(0, 8)));
    if (time < now - maxAge || time > now + AHEAD) return false;
    return verifyEd25519(witness.key, text(`cosignature/v1\ntime ${time}\n${body}`), line.signature.subarray(8));
  });
}

/** `{ size, root }` of a checkpoint that the log signed and, if there is a policy for witnesses, k of them too. */
export function openCheckpoint(note, logKey, witnesses, now) {
  const { body, lines } = signatureLines(note);
  const pin = noteKey(logKey, 0x01);
  const own = lines.filter((line) => line.name === pin.name && line.id === pin.id);
  if (!own.length || !own.every((line) => verifyEd25519(pin.key, text(body), line.signature))) {
    throw new Refusal('log-checkpoint', 'the log did not sign it');
  }
  const words = /^([^\n]+)\n(0|[1-9][0-9]{0,15})\n([A-Za-z0-9+/]{43}=)\n$/.exec(body);
  if (!words || words[1] !== pin.name) throw new Refusal('log-checkpoint', 'it is not a checkpoint of this log');
  if (witnesses) {
    const keys = witnesses.keys.map((line) => noteKey(line, 0x04));
    const fresh = keys.filter((key) => isCosigned(key, body, lines, now, witnesses.max_age_seconds ?? 86400));
    if (fresh.length < witnesses.k) throw new Refusal('log-checkpoint', `${fresh.length} fresh cosignatures, not ${witnesses.k}`);
  }
  return { size: Number(words[2]), root: Buffer.from(words[3], 'base64') };
}

export const leafHash = (leaf) => sha256(Buffer.from([0]), leaf);
const nodeHash = (left, right) => sha256(Buffer.from([1]), left, right);

/** RFC 9162 section 2.1.3.2: the audit path leads from the leaf to the root. */
export function isIncluded(hash, index, size, path, root) {
  if (index >= size) return false;
  let at = index, last = size - 1, out = hash;
  for (const sibling of path) {
    if (last === 0) return false;
    if (at % 2 === 1 || at === last) {
      out = nodeHash(sibling, out);
      while (at % 2 === 0 && at !== 0) { at /= 2; last = Math.floor(last / 2); }
    } else {
      out = nodeHash(out, sibling);
    }
    at = Math.floor(at / 2);
    last = Math.floor(last / 2);
  }
  return last === 0 && out.equals(root);
}

/** The block of hashes that connects a tree of `known` leaves to one of `size`. */
export const consistencyBlock = (known, size) =>
  Math.min(Math.floor(known / 256), Math.max(0, Math.floor((size - 1) / 256) - 1));

/** The root of the first `size` leaves, from the hashes that the log gave; throws if one is missing. */
export function rootFromHashes(hashes, size) {
  const leaves = unb64url(hashes.leaves);
  const nodes = new Map(hashes.nodes.map(([level, index, hash]) => [`${level}/${index}`, unb64url(hash, 32)]));
  const node = (level, index) => {
    const given = nodes.get(`${level}/${index}`);
    if (given) return given;
    if (level > 0) return nodeHash(node(level - 1, 2 * index), node(level - 1, 2 * index + 1));
    const at = 32 * (index - hashes.start);
    if (at < 0 || at + 32 > leaves.length) throw new Refusal('log-consistency', 'a hash is missing');
    return leaves.subarray(at, at + 32);
  };
  const range = (from, to) => {
    const level = Math.ceil(Math.log2(to - from));
    if (2 ** level === to - from) return node(level, from / 2 ** level);
    const middle = from + 2 ** (level - 1);
    return nodeHash(range(from, middle), range(middle, to));
  };
  return size === 0 ? sha256() : range(0, size);
}

/** What the signature of a leaf covers. */
export const signedBytes = (leaf) =>
  cat(text('tacit leaf v1'), Buffer.from([0]), text(leaf.type), Buffer.from([0]), text(canonical(leaf.body)));

export const isSignedBy = (leaf, operator, key) =>
  leaf.signer === operator && verifyEd25519(unb64url(key, 32), signedBytes(leaf), unb64url(leaf.signature, 64));

/** Entries of the pages, all proved to be in the tree: `{ index, leaf }`; leaf is null if it is not canonical JSON. */
export function includedLeaves(pages, tree) {
  let before = -1;
  return pages.flatMap((page) => page.entries).map((entry) => {
    const bytes = unb64url(entry.leaf);
    const path = entry.inclusion.map((hash) => unb64url(hash, 32));
    if (!Number.isSafeInteger(entry.index) || entry.index <= before) throw new Refusal('log-inclusion', 'indices do not increase');
    if (!isIncluded(leafHash(bytes), entry.index, tree.size, path, tree.root)) {
      throw new Refusal('log-inclusion', `entry ${entry.index} is not in the tree`);
    }
    before = entry.index;
    let leaf = null;
    try {
      if (bytes.length <= 65535) leaf = parseCanonical(bytes);
    } catch {
      leaf = null;
    }
    return { index: entry.index, leaf };
  });
}
