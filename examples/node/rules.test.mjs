// The rules for recipes, and what a journal stores.
import assert from 'node:assert/strict';
import test from 'node:test';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { b64url } from './bytes.mjs';
import { Journal, LOCK } from './journal.mjs';
import { includedLeaves } from './merkle.mjs';
import { recipeHash } from './recipe.mjs';
import { checkRecipe } from './rules.mjs';
import { withDefaults } from './schema.mjs';

const vectors = (name) => JSON.parse(readFileSync(new URL(`../../docs/vectors/${name}.json`, import.meta.url)));
const log = vectors('log');
const leaves = includedLeaves(log.pages, { size: log.size, root: Buffer.from(log.root, 'hex') }).map(({ leaf }) => leaf);
const recipe = leaves.find((leaf) => leaf.type === 'recipe').body;
const hash = b64url(recipeHash(recipe));
const directory = leaves.find((leaf) => leaf.type === 'issuer-directory').body;
const optIns = leaves.filter((leaf) => leaf.type === 'opt-in' && leaf.body.recipe_hash === hash).map(({ body }) => body);
const { issuer, gateway, relay } = recipe.parties;
const pins = {
  issuer: { name: issuer.name, signing_key: issuer.signing_key, epoch_seconds: directory.epoch_seconds },
  gateway: { name: gateway.operator, signing_key: gateway.signing_key },
  relay_url: relay.url,
};
const NOW = recipe.interval.start - 60;

function view() {
  const { epoch, slot } = recipe.token;
  return {
    directories: new Map([[directory.epoch, directory]]),
    optIns: new Map(optIns.map((body) => [`${hash}/${body.role}`, body])),
    slots: new Map([[`${recipe.token.issuer}/${epoch}/${slot}`, hash]]),
  };
}

const outcome = (changed, shown = view(), limits = {}, now = NOW) => {
  try {
    checkRecipe(changed, shown, withDefaults('policy', limits), pins, now);
    return 'passes';
  } catch (error) {
    return error.rule ?? error;
  }
};

test('the recipe of the vectors passes', () => assert.equal(outcome(recipe), 'passes'));

const CHANGES = {
  'model-unsupported': (r) => { r.model = 'shuffled'; },
  'issuer-unknown': (r) => { r.parties.issuer.signing_key = r.parties.leader.signing_key; },
  'gateway-unknown': (r) => { r.parties.gateway.operator = 'other.example'; },
  'operators-equal': (r) => { r.parties.helper.operator = r.parties.leader.operator; },
  'url-invalid': (r) => { r.parties.leader.url = 'http://leader.example'; },
  'relay-mismatch': (r) => { r.parties.relay.url = 'https://relay.example'; },
  'hpke-key-invalid': (r) => { r.parties.helper.hpke_config = r.parties.leader.hpke_config; },
  'signing-key-invalid': (r) => { r.parties.helper.signing_key = b64url(Buffer.alloc(32)); },
  'signing-key-shared': (r) => { r.parties.helper.signing_key = r.parties.leader.signing_key; },
  'audience-not-allowed': (r) => { r.audience.population = 'some'; },
  'audience-floor': (r) => { r.audience.criteria = { os: 'mac' }; },
  'randomizer-not-allowed': (r) => { r.randomizer.name = 'flips'; },
  'randomizer-parameters': (r) => { r.randomizer.epsilon0 = '41'; },
  'randomizer-vdaf-mismatch': (r) => { r.vdaf.length = 15; },
  'encoder-mismatch': (r) => { r.question.encoder.edges.pop(); },
  'sampling-rate': (r) => { r.sampling.rate = '1.1'; },
  'sampling-one-claimed': (r) => { r.sampling.rate = '1'; },
  'importance-not-supported': (r) => { r.sampling.importance = { default: 0, default_rate: '0.1' }; },
  'batch-floor': (r) => { r.batch.min_batch_size = 99; },
  'batch-mode': (r) => { r.batch.close = 'at_B'; },
  'interval-unaligned': (r) => { r.interval.start += 1; },
  'interval-outside-epoch': (r) => { r.interval.start += 86400; },
  'issuer-mismatch': (r) => { r.token.issuer = 'other.example'; },
  'claim-parameters': (r) => { r.privacy.n += 1; },
  'claim-mechanism': (r) => { r.privacy.mechanism = 'rr-exact+sampling'; },
  'claim-understated': (r) => { r.privacy.epsilon.both_aggregators_with_relay = '1.98'; },
  'delta-cap': (r) => { r.privacy.delta = '0.00001'; },
  'claim-cap': (r) => { r.privacy.epsilon.aggregator = '1.01'; },
  'series-missing': (r) => { r.series = { hash: b64url(Buffer.alloc(32)), index: 0 }; },
};

for (const [rule, change] of Object.entries(CHANGES)) {
  test(`${rule} refuses what it is for`, () => {
    const changed = structuredClone(recipe);
    change(changed);
    assert.equal(outcome(changed), rule);
  });
}

test('what the log does not show yet, or shows for another, is refused by name', () => {
  assert.equal(outcome(recipe, { ...view(), directories: new Map() }), 'slot-key-missing');
  assert.equal(outcome(recipe, { ...view(), slots: new Map() }), 'slot-taken');
  const one = view();
  one.optIns.delete(`${hash}/helper`);
  assert.equal(outcome(recipe, one), 'opt-in-missing');
  const other = view();
  other.optIns.set(`${hash}/helper`, { ...other.optIns.get(`${hash}/helper`), seed_id: 'another' });
  assert.equal(outcome(recipe, other), 'opt-in-mismatch');
  assert.equal(outcome(recipe, view(), {}, NOW + 7200), 'interval-over');
  assert.equal(outcome(recipe, view(), { analysts: {} }), 'analyst-unknown');
  assert.equal(outcome(recipe, view(), { accounts: { other: { epsilon: '1', delta: '0.00001', window_seconds: 86400 } } }), 'account-unknown');
  const charged = { default: { epsilon: '1', delta: '0.00001', window_seconds: 86400, analysts: ['other.example'] } };
  assert.equal(outcome(recipe, view(), { accounts: charged }), 'account-analyst');
});

test('a randomizer that the policy allows and this device does not have is refused by its name', () => {
  const changed = structuredClone(recipe);
  changed.randomizer.name = 'oue';
  const policy = withDefaults('policy', {});
  assert.ok(policy.randomizers.includes('oue'));
  assert.throws(() => checkRecipe(changed, view(), policy, pins, NOW), /randomizer-not-allowed: this device has krr, rr, one-bit, not oue/);
});

test('a mean is checked for its range, its one bit and its proof', () => {
  const { recipe: mean } = vectors('recipes').recipes.find((each) => each.recipe.randomizer.name === 'one-bit');
  const shown = { directories: new Map([[mean.token.epoch, directory]]), optIns: new Map(), slots: new Map() };
  assert.equal(outcome(mean, shown), 'slot-key-missing', 'every rule about the question passes');
  for (const [rule, change] of Object.entries({
    'randomizer-parameters': (r) => { r.randomizer.flips = 2; },
    'randomizer-vdaf-mismatch': (r) => { r.vdaf.max_measurement = 24; },
    'encoder-mismatch': (r) => { r.randomizer.maximum = 23; },
    'claim-mechanism': (r) => { r.privacy.mechanism = 'shuffle-fmt22'; },
    'claim-cap': (r) => { r.privacy.epsilon.aggregator = '99'; },
  })) {
    const changed = structuredClone(mean);
    change(changed);
    assert.equal(outcome(changed, shown), rule);
  }
  const halved = structuredClone(mean);
  halved.question.encoder.unit = '0.7';
  assert.equal(outcome(halved, shown), 'encoder-mismatch');
});

test('a journal is kept as a whole, for its owner alone, and belongs to one process', () => {
  const folder = mkdtempSync(join(tmpdir(), 'device-'));
  try {
    const first = new Journal(folder);
    first.update((data) => { data.recipes.a = { name: 'a', state: 'decided' }; });
    assert.throws(() => first.update((data) => { data.recipes.b = 1; throw new Error('half way'); }));
    first.close();
    const again = new Journal(folder);
    assert.deepEqual(again.data.recipes, { a: { name: 'a', state: 'decided' } });
    assert.equal(statSync(again.path).mode & 0o777, 0o600);
    assert.throws(() => new Journal(folder), new RegExp(`another agent is at work here .pid ${process.pid}.`));
    again.close();
    writeFileSync(join(folder, LOCK), '1');
    new Journal(folder).close(); // a file that nobody has locked, whatever it says
  } finally {
    rmSync(folder, { recursive: true });
  }
});
