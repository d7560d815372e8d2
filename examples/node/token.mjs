// One token of a slot: challenge, blind RSA (RFC 9474), evidence, finalize. docs/device.md, section 4.
import { constants, createHash, createPrivateKey, createPublicKey, randomBytes, sign, verify, X509Certificate } from 'node:crypto';
import { b64url, cat, opaque, sha256, text, toInt, uint } from './bytes.mjs';

// The only AlgorithmIdentifier of RFC 9578 section 8.2.2, up to a modulus of 2048 bits; and the exponent 65537 after it.
const SPKI_HEAD = Buffer.from(
  '30820152303d06092a864886f70d01010a3030a00d300b0609608648016503040202a11a301806092a864886f70d010108300b0609608648016503040202'
  + 'a2030201300382010f003082010a0282010100', 'hex');
const SPKI_TAIL = Buffer.from('0203010001', 'hex');
const SALT = 48, HASH = 48, MODULUS = 256;

function modPow(base, exponent, n) {
  let out = 1n;
  for (let b = base % n, e = exponent; e > 0n; e >>= 1n, b = (b * b) % n) if (e & 1n) out = (out * b) % n;
  return out;
}

function modInverse(x, n) {
  let [a, b, s, t] = [x % n, n, 1n, 0n];
  while (b > 0n) [a, b, s, t] = [b, a % b, t, s - (a / b) * t];
  if (a !== 1n) throw new Error('not invertible');
  return ((s % n) + n) % n;
}

/** The modulus of a slot's key; any other kind of key is refused. */
export function tokenKey(der) {
  const fits = der.length === SPKI_HEAD.length + MODULUS + SPKI_TAIL.length
    && der.subarray(0, SPKI_HEAD.length).equals(SPKI_HEAD) && der.subarray(-SPKI_TAIL.length).equals(SPKI_TAIL);
  const modulus = der.subarray(SPKI_HEAD.length, SPKI_HEAD.length + MODULUS);
  if (!fits || modulus[0] < 0x80 || (modulus[MODULUS - 1] & 1) === 0) throw new Error('not a token key of 2048 bits');
  return toInt(modulus);
}

function mgf1(seed, length) {
  const blocks = [];
  for (let i = 0; i * HASH < length; i++) blocks.push(createHash('sha384').update(seed).update(uint(i, 4)).digest());
  return cat(...blocks).subarray(0, length);
}

/** EMSA-PSS (RFC 8017 section 9.1.1) with SHA-384, for a modulus of 2048 bits. */
function emsaPss(message, salt) {
  const digest = createHash('sha384').update(message).digest();
  const hash = createHash('sha384').update(Buffer.alloc(8)).update(digest).update(salt).digest();
  const db = cat(Buffer.alloc(MODULUS - SALT - HASH - 2), Buffer.from([1]), salt);
  const mask = mgf1(hash, db.length);
  const masked = Buffer.from(db.map((byte, i) => byte ^ mask[i]));
  masked[0] &= 0x7f;
  return cat(masked, hash, Buffer.from([0xbc]));
}

function uniformUnit(n) {
  for (;;) {
    const r = toInt(randomBytes(MODULUS));
    if (r >= 1n && r < n) return r;
  }
}

/** Fresh randomness for one request. With it and the request stored, a device can send the same bytes again. */
export const drawSecrets = (der) => ({
  rLeader: randomBytes(32), rHelper: randomBytes(32), salt: randomBytes(SALT), r: uint(uniformUnit(tokenKey(der)), MODULUS),
});

/** `{ input (98 bytes), request (259 bytes) }` for a slot `{ issuer, epoch, slot }` under its key. */
export function tokenRequest(slot, der, secrets) {
  const n = tokenKey(der);
  const nonce = sha256(text('sa2-tok'), sha256(secrets.rLeader), sha256(secrets.rHelper));
  const context = sha256(text('sa2-slot'), uint(slot.epoch, 8), uint(slot.slot, 4));
  const challenge = cat(uint(2, 2), opaque(2, text(slot.issuer)), opaque(1, context), opaque(2, Buffer.alloc(0)));
  const keyId = sha256(der);
  const input = cat(uint(2, 2), nonce, sha256(challenge), keyId);
  const blinded = (toInt(emsaPss(input, secrets.salt)) * modPow(toInt(secrets.r), 65537n, n)) % n;
  return { challenge, input, request: cat(uint(2, 2), keyId.subarray(31), uint(blinded, MODULUS)) };
}

/** The token (354 bytes); throws if the issuer's answer is not a signature under the slot's key. */
export function finalize(input, der, r, response) {
  const n = tokenKey(der);
  const blind = toInt(response);
  if (response.length !== MODULUS || blind >= n) throw new Error('not a blind signature');
  const signature = uint((blind * modInverse(toInt(r), n)) % n, MODULUS);
  const key = createPublicKey({ key: der, format: 'der', type: 'spki' });
  const pss = { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: SALT };
  if (!verify('sha384', input, pss, signature)) throw new Error('the blind signature does not verify');
  return cat(input, signature);
}

/** Private extension of type 0xFF54: the token, the aggregator's own secret, and the hash of the other aggregator's. */
export const extension = (token, own, other) => cat(uint(0xff54, 2), opaque(2, cat(token, own, sha256(other))));

/** A software root's identity: PKCS#8 key, then certificates, leaf first. */
export function readIdentity(pem) {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  if (!blocks.length || blocks.length > 4) throw new Error('the identity does not hold a chain of one to four certificates');
  return { key: createPrivateKey(pem), chain: blocks.map((block) => new X509Certificate(block).raw) };
}

export const binding = (challenge, request) => sha256(text('tacit attest v1'), challenge, request);

/** The body of a token request to the attester. */
export function attestedBody(identity, challenge, request) {
  const chain = cat(...identity.chain.map((der) => opaque(2, der)));
  const signature = sign('sha256', binding(challenge, request), identity.key);
  const blob = cat(opaque(2, chain), opaque(2, signature));
  return {
    evidence: { fmt: 'software-root', blob: b64url(blob) },
    challenge: b64url(challenge),
    token_request: b64url(request),
  };
}
