// HPKE base mode (RFC 9180) with X25519, HKDF-SHA256 and AES-128-GCM: one seal, and the exporter.
import {
  createCipheriv, createDecipheriv, createHmac, createPrivateKey, createPublicKey, diffieHellman, generateKeyPairSync,
} from 'node:crypto';
import { Reader, cat, text, uint } from './bytes.mjs';

const PRIVATE = Buffer.from('302e020100300506032b656e04220420', 'hex'); // PKCS#8 before the 32 bytes (RFC 8410)
const PUBLIC = Buffer.from('302a300506032b656e032100', 'hex'); // SubjectPublicKeyInfo before the 32 bytes
const KEM = cat(text('KEM'), uint(0x20, 2));
const SUITE = cat(text('HPKE'), uint(0x20, 2), uint(1, 2), uint(1, 2));
const NONE = Buffer.alloc(0);
const TAG = 16;

const hmac = (key, ...parts) => createHmac('sha256', key).update(cat(...parts)).digest();
export const hkdfExtract = (salt, ikm) => hmac(salt.length ? salt : Buffer.alloc(32), ikm);

export function hkdfExpand(prk, info, length) {
  let out = NONE;
  for (let block = NONE, i = 1; out.length < length; i++) {
    block = hmac(prk, block, info, Buffer.from([i]));
    out = cat(out, block);
  }
  return out.subarray(0, length);
}

const labeledExtract = (suite, salt, label, ikm) => hkdfExtract(salt, cat(text('HPKE-v1'), suite, text(label), ikm));
const labeledExpand = (suite, prk, label, info, length) =>
  hkdfExpand(prk, cat(uint(length, 2), text('HPKE-v1'), suite, text(label), info), length);

const rawPublic = (key) => key.export({ type: 'spki', format: 'der' }).subarray(-32);
export const publicKey = (raw) => createPublicKey({ key: cat(PUBLIC, raw), format: 'der', type: 'spki' });
const privateKey = (raw) => createPrivateKey({ key: cat(PRIVATE, raw), format: 'der', type: 'pkcs8' });

export function aesSeal(key, nonce, aad, plaintext) {
  const cipher = createCipheriv('aes-128-gcm', key, nonce).setAAD(aad);
  return cat(cipher.update(plaintext), cipher.final(), cipher.getAuthTag());
}

/** Throws if the tag does not match. */
export function aesOpen(key, nonce, aad, sealed) {
  if (sealed.length < TAG) throw new Error('ciphertext is shorter than its tag');
  const cipher = createDecipheriv('aes-128-gcm', key, nonce, { authTagLength: TAG }).setAAD(aad);
  cipher.setAuthTag(sealed.subarray(-TAG));
  return cat(cipher.update(sealed.subarray(0, -TAG)), cipher.final());
}

/** Seals one message to a public key: `{ enc, ciphertext, export(label, length) }`. `ephemeral` (32 bytes) is for test vectors. */
export function sealTo(recipient, info, aad, plaintext, ephemeral) {
  const own = ephemeral ? privateKey(ephemeral) : generateKeyPairSync('x25519').privateKey;
  const enc = rawPublic(createPublicKey(own));
  const dh = diffieHellman({ privateKey: own, publicKey: publicKey(recipient) });
  if (dh.equals(Buffer.alloc(32))) throw new Error('the key is of small order');
  const shared = labeledExpand(KEM, labeledExtract(KEM, NONE, 'eae_prk', dh), 'shared_secret', cat(enc, recipient), 32);
  const context = cat(
    Buffer.from([0]),
    labeledExtract(SUITE, NONE, 'psk_id_hash', NONE),
    labeledExtract(SUITE, NONE, 'info_hash', info),
  );
  const secret = labeledExtract(SUITE, shared, 'secret', NONE);
  const key = labeledExpand(SUITE, secret, 'key', context, 16);
  const nonce = labeledExpand(SUITE, secret, 'base_nonce', context, 12);
  const exporter = labeledExpand(SUITE, secret, 'exp', context, 32);
  return {
    enc,
    ciphertext: aesSeal(key, nonce, aad, plaintext),
    export: (label, length) => labeledExpand(SUITE, exporter, 'sec', text(label), length),
  };
}

/** Decodes a recipe's `hpke_config`: uint8 id, KEM, KDF, AEAD, public key. Throws for another suite. */
export function hpkeConfig(bytes) {
  const reader = new Reader(bytes);
  const config = { id: reader.uint(1), kem: reader.uint(2), kdf: reader.uint(2), aead: reader.uint(2), key: reader.opaque(2) };
  if (reader.left || config.kem !== 0x20 || config.kdf !== 1 || config.aead !== 1 || config.key.length !== 32) {
    throw new Error('HPKE configuration of another suite');
  }
  return config;
}
