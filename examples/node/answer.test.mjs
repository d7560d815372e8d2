// Recipes, answers and reports against docs/vectors.
import assert from 'node:assert/strict';
import test from 'node:test';
import { readFileSync } from 'node:fs';
import { encode, isRange, keepThreshold, labels, largest, neutral, randomise, takesPart } from './answer.mjs';
import { reportAad, recipeHash, sharePlaintext, taskOf } from './recipe.mjs';
import { isOf } from './schema.mjs';
import { extension } from './token.mjs';

const vectors = (name) => JSON.parse(readFileSync(new URL(`../../docs/vectors/${name}.json`, import.meta.url)));
const bytes = (hex) => Buffer.from(hex, 'hex');
const recipes = new Map(vectors('recipes').recipes.map((each) => [each.recipe.name, each]));

/** Hands out the recorded draws, and fails if the sizes differ. */
function recorded(draws) {
  const left = draws.map(bytes);
  const draw = (size) => {
    const next = left.shift();
    assert.equal(next?.length, size);
    return next;
  };
  return { draw, done: () => assert.equal(left.length, 0) };
}

for (const { recipe, hash, task_configuration: configuration, task_id: id, vdaf_context: ctx } of recipes.values()) {
  test(`${recipe.name} becomes its task`, () => {
    const task = taskOf(recipe);
    assert.equal(recipeHash(recipe).toString('hex'), hash);
    assert.equal(task.configuration.toString('hex'), configuration);
    assert.equal(task.id.toString('hex'), id);
    assert.equal(task.ctx.toString('hex'), ctx);
  });
  test(`${recipe.name} is of the schema, and with one member more it is not`, () => {
    assert.ok(isOf('recipe', recipe));
    assert.ok(!isOf('recipe', { ...recipe, further: 1 }));
    assert.ok(!isOf('recipe', { ...recipe, batch: { ...recipe.batch, time_precision: 0 } }));
  });
}

for (const vector of vectors('answers').recipes) {
  const { recipe } = recipes.get(vector.recipe);
  const { randomizer, question, sampling } = recipe;
  if (!['krr', 'rr', 'one-bit'].includes(randomizer.name) || sampling.importance) continue;
  test(`answers to ${vector.recipe} are encoded and randomised, with the coin first`, () => {
    const k = labels(question.encoder);
    assert.equal(k, randomizer.categories);
    assert.equal(keepThreshold(randomizer.epsilon0, k - 1).toString(16).padStart(32, '0'), vector.keep_threshold);
    for (const { value, encoded, draws, measurement, rate, sent } of vector.answers) {
      assert.equal(encode(question.encoder, value, {}), encoded);
      const own = recorded(draws);
      assert.equal(randomise(recipe, encoded, own.draw), measurement);
      own.done();
      const whole = recorded(sent.draws);
      assert.equal(takesPart(rate, whole.draw) ? randomise(recipe, encoded, whole.draw) : null, sent.measurement);
      whole.done();
    }
    for (const { draws, measurement } of vector.dummies) {
      assert.equal(randomise(recipe, null, recorded(draws).draw), measurement);
    }
  });
}

test('numbers are compared exactly, and a value that is not a number is missing', () => {
  const encoder = { kind: 'buckets', edges: [0, 1], other: 'below', missing: 'none' };
  assert.equal(encode(encoder, '0.99999999999999999999999', {}), 0);
  assert.equal(encode(encoder, '-1e-400', {}), 2);
  assert.equal(encode(encoder, '1e999', {}), 1);
  assert.equal(encode(encoder, '1.', {}), 1);
  const long = ['1e1000', '9'.repeat(31), `0.${'1'.repeat(31)}`];
  for (const value of [...long, '', 'x', '.5', '1_0', true, null, undefined, NaN]) assert.equal(encode(encoder, value, {}), 3);
});

test('a number is clipped, counted in units above the low end and rounded half to even', () => {
  const encoder = { kind: 'number', low: -2, high: 10, unit: '0.5' };
  const expected = [['-2', 0], ['-9e99', 0], [-Infinity, 0], [0, 4], [0.25, 4], [0.75, 6], ['1.2500000000000000000001', 7], [10, 24], ['1e99', 24], [Infinity, 24]];
  for (const [value, steps] of expected) assert.equal(encode(encoder, value, {}), steps, String(value));
  for (const value of ['', 'x', true, null, NaN]) assert.equal(encode(encoder, value, {}), null);
  assert.equal(neutral(encoder), 4);
  assert.equal(neutral({ ...encoder, low: 1, high: 3 }), 0);
  assert.equal(neutral({ ...encoder, low: '-0.25', high: '9.75' }), 0);
  assert.equal(largest(encoder), 24);
  assert.ok(isRange(encoder) && isRange({ low: 0, high: 1 }));
  for (const wrong of [{ high: -2 }, { unit: '0.7' }, { unit: 12, low: '-2' }]) assert.ok(!isRange({ ...encoder, ...wrong }));
});

test("a census asks for the conjunction of the device's attributes", () => {
  const encoder = { kind: 'attributes', attributes: { os: ['linux', 'mac'], locale: ['de', 'en', 'fr'] }, missing: 'none' };
  assert.equal(encode(encoder, null, { os: 'mac', locale: 'en' }), 3);
  assert.equal(encode(encoder, null, { os: 'mac' }), 6);
  assert.equal(labels(encoder), 7);
});

for (const report of vectors('reports').reports) {
  test(`the report of ${report.recipe} is put together`, () => {
    const { recipe } = recipes.get(report.recipe);
    const { metadata, aad } = reportAad(recipe, taskOf(recipe), bytes(report.report_id), bytes(report.public_share));
    assert.equal(aad.toString('hex'), report.aad);
    assert.ok(report.report.startsWith(metadata.toString('hex')));
    const [own, other] = [bytes(report.r_leader), bytes(report.r_helper)];
    const plaintext = sharePlaintext(extension(bytes(report.token), own, other), bytes(report.leader.input_share));
    assert.equal(plaintext.toString('hex'), report.leader.plaintext);
  });
}
