// Sharding, sealing and messages against docs/vectors: `node --test examples/node`.
import assert from 'node:assert/strict';
import test from 'node:test';
import { readFileSync } from 'node:fs';
import { canonical, opaque, sha256, text } from './bytes.mjs';
import { hpkeConfig, sealTo } from './hpke.mjs';
import { encapsulate, encodeRequest } from './ohttp.mjs';
import { shard } from './prio3.mjs';
import { turboshake128 } from './turboshake.mjs';

const vectors = (name) => JSON.parse(readFileSync(new URL(`../../docs/vectors/${name}.json`, import.meta.url)));
const bytes = (hex) => Buffer.from(hex, 'hex');
const recipes = new Map(vectors('recipes').recipes.map((each) => [each.recipe.name, each]));

test('TurboSHAKE128 of nothing is that of RFC 9861', () => {
  const read = turboshake128(Buffer.alloc(0), 0x1f);
  assert.equal(read(32).toString('hex'), '1e415f1c5983aff2169217277d17bb538cd945a397ddec541f1ce41af2c1b74c');
});

for (const report of vectors('reports').reports) {
  const { recipe, vdaf_context: context } = recipes.get(report.recipe);
  test(`a measurement of ${recipe.vdaf.name} is sharded`, () => {
    const shares = shard(recipe.vdaf, bytes(context), report.measurement, bytes(report.report_id), bytes(report.vdaf_rand));
    assert.equal(shares.publicShare.toString('hex'), report.public_share);
    assert.equal(shares.leader.toString('hex'), report.leader.input_share);
    assert.equal(shares.helper.toString('hex'), report.helper.input_share);
  });
  for (const role of ['leader', 'helper']) {
    test(`the ${role}'s share of ${recipe.name} is sealed`, () => {
      const { key } = hpkeConfig(Buffer.from(recipe.parties[role].hpke_config, 'base64url'));
      const { hpke_info: info, plaintext, ephemeral_private: ephemeral, enc, ciphertext } = report[role];
      const sealed = sealTo(key, bytes(info), bytes(report.aad), bytes(plaintext), bytes(ephemeral));
      assert.equal(sealed.enc.toString('hex'), enc);
      assert.equal(sealed.ciphertext.toString('hex'), ciphertext);
    });
  }
}

test('an upload is encapsulated and its answer opened', () => {
  const vector = vectors('ohttp');
  const url = `${vector.scheme}://${vector.authority}${vector.path}`;
  const request = encodeRequest(vector.method, url, vector.fields, bytes(vector.content));
  assert.equal(request.toString('hex'), vector.binary_http_request);
  const { message, open } = encapsulate(bytes(vector.key_config), request, bytes(vector.ephemeral_private));
  assert.equal(message.toString('hex'), vector.encapsulated_request);
  const answer = open(bytes(vector.encapsulated_response));
  assert.deepEqual([answer.status, answer.content.length], [200, 0]);
  const other = bytes(vector.encapsulated_response);
  other[40] ^= 1;
  assert.throws(() => open(other));
});

test('documents have the canonical bytes and the hash that everybody derives', () => {
  for (const { recipe, canonical: words, hash } of recipes.values()) {
    assert.equal(canonical(recipe), words);
    assert.equal(sha256(text(words)).toString('hex'), hash);
  }
  assert.equal(opaque(2, bytes('ff')).toString('hex'), '0001ff');
});
