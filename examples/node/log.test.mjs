// Tokens and the log against docs/vectors.
import assert from 'node:assert/strict';
import test from 'node:test';
import { createPrivateKey, createPublicKey, verify } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { sha256, text, unb64url } from './bytes.mjs';
import * as log from './merkle.mjs';
import { attestedBody, binding, extension, finalize, tokenKey, tokenRequest } from './token.mjs';

const vectors = (name) => JSON.parse(readFileSync(new URL(`../../docs/vectors/${name}.json`, import.meta.url)));
const bytes = (hex) => Buffer.from(hex, 'hex');
const vector = vectors('log');
const keys = vectors('keys');
const NOW = 1728003600;

test('a token is requested blindly, finalised, and bound to both shares', () => {
  const token = vectors('token');
  const der = bytes(keys.issuer.token_key);
  const secrets = {
    rLeader: bytes(token.r_leader), rHelper: bytes(token.r_helper), salt: bytes(token.salt), r: bytes(token.blinding_factor),
  };
  const { challenge, input, request } = tokenRequest(token, der, secrets);
  assert.equal(challenge.toString('hex'), token.token_challenge);
  assert.equal(input.toString('hex'), token.token_input);
  assert.equal(request.toString('hex'), token.token_request);
  const made = finalize(input, der, secrets.r, bytes(token.token_response));
  assert.equal(made.toString('hex'), token.token);
  const inner = (own, other) => extension(made, own, other).subarray(4).toString('hex');
  assert.equal(inner(secrets.rLeader, secrets.rHelper), token.leader_extension);
  assert.equal(inner(secrets.rHelper, secrets.rLeader), token.helper_extension);
  assert.throws(() => finalize(input, der, secrets.salt, bytes(token.token_response)));
  assert.throws(() => tokenKey(der.subarray(1)));
});

test('the evidence is bound to challenge and request', () => {
  const vector = vectors('attestation');
  const request = bytes(vectors('token').token_request);
  const key = createPrivateKey({ key: bytes(keys.device.private_pkcs8), format: 'der', type: 'pkcs8' });
  const identity = { key, chain: keys.device.chain.map(bytes) };
  assert.equal(binding(bytes(vector.challenge), request).toString('hex'), vector.binding);
  const body = attestedBody(identity, bytes(vector.challenge), request);
  assert.deepEqual([body.challenge, body.token_request], [vector.body.challenge, vector.body.token_request]);
  const blob = unb64url(body.evidence.blob);
  const chain = blob.readUInt16BE(0);
  assert.deepEqual(blob.subarray(0, chain + 2), bytes(vector.blob).subarray(0, chain + 2));
  for (const signature of [blob.subarray(chain + 4), bytes(vector.blob).subarray(chain + 4)]) {
    assert.ok(verify('sha256', bytes(vector.binding), createPublicKey(key), signature));
  }
});

test('a checkpoint counts when the log and enough witnesses signed it, lately', () => {
  const witnesses = { keys: [vector.witness_key], k: 1 };
  const tree = log.openCheckpoint(vector.checkpoint, vector.log_key, witnesses, NOW);
  assert.equal(tree.size, vector.size);
  assert.equal(tree.root.toString('hex'), vector.root);
  assert.throws(() => log.openCheckpoint(vector.checkpoint, vector.log_key, witnesses, NOW + 90000), { rule: 'log-checkpoint' });
  assert.throws(() => log.openCheckpoint(vector.checkpoint, vector.log_key, witnesses, NOW - 90000), { rule: 'log-checkpoint' });
  const forged = vector.checkpoint.replace(`\n${vector.size}\n`, `\n${vector.size + 1}\n`);
  assert.throws(() => log.openCheckpoint(forged, vector.log_key, undefined, NOW), { rule: 'log-checkpoint' });
});

test('entries of the pages are included, and a moved one is not', () => {
  const page = bytes(vector.page_bytes[0]);
  assert.equal(sha256(page).toString('base64url'), vector.head.pages[0]);
  const tree = { size: vector.size, root: bytes(vector.root) };
  const pages = [JSON.parse(page)];
  const found = log.includedLeaves(pages, tree);
  assert.equal(found.length, vector.leaves.length);
  found.forEach(({ leaf }, i) => {
    assert.equal(log.signedBytes(leaf).toString('hex'), vector.leaves[i].signed);
    assert.equal(log.leafHash(text(vector.leaves[i].entry)).toString('hex'), vector.leaves[i].leaf_hash);
  });
  pages[0].entries[0].index = 1;
  assert.throws(() => log.includedLeaves(pages, tree), { rule: 'log-inclusion' });
});

test('a leaf counts when its signer signed it', () => {
  const leaf = JSON.parse(vector.leaves.find((each) => each.type === 'recipe').entry);
  const { operator, signing_key: key } = leaf.body.parties.analyst;
  assert.ok(log.isSignedBy(leaf, operator, key));
  assert.ok(!log.isSignedBy({ ...leaf, body: { ...leaf.body, name: 'other' } }, operator, key));
  assert.ok(!log.isStrongKey(Buffer.alloc(32)) && !log.isStrongKey(bytes('ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f')));
});

test('a longer tree is proved to extend the known one', () => {
  assert.equal(log.rootFromHashes(vector.hashes, vector.known_size).toString('hex'), vector.known_root);
  assert.equal(log.rootFromHashes(vector.hashes, vector.size).toString('hex'), vector.root);
  assert.equal(log.consistencyBlock(vector.known_size, vector.size), vector.hashes.start / 256);
});
