// The rules for recipes on this device: docs/schemas/rules.md, and the device's own limits. docs/device.md, section 7.
import { decimal, isRange, labels, largest, rising } from './answer.mjs';
import { b64url, sha256, text, unb64url } from './bytes.mjs';
import { hpkeConfig } from './hpke.mjs';
import { Refusal, isStrongKey } from './merkle.mjs';
import { recipeHash, taskOf } from './recipe.mjs';
import { tokenKey } from './token.mjs';

/** Refusals that may be temporary, because what is missing may still appear in the log. */
export const MAY_PASS = new Set(['opt-in-missing', 'slot-key-missing']);
const LARGEST_SHARE = 258048;

const check = (rule, passes, reason) => {
  if (!passes) throw new Refusal(rule, reason);
};
const listed = (list, name, key) => list === undefined || list === null || list[name] === key;

function parties(recipe, policy, pins) {
  const { analyst, issuer, gateway, leader, helper, relay, attester } = recipe.parties;
  check('analyst-unknown', listed(policy.analysts, analyst.operator, analyst.signing_key), 'the policy does not list the analyst');
  check('issuer-unknown', issuer.name === pins.issuer.name && issuer.signing_key === pins.issuer.signing_key, 'not the pinned issuer');
  check('gateway-unknown', gateway.operator === pins.gateway.name && gateway.signing_key === pins.gateway.signing_key,
    'not the pinned gateway');
  for (const each of policy.aggregators ? [leader, helper] : []) {
    const pin = policy.aggregators[each.operator];
    check('aggregator-unknown', pin && pin.url === each.url && pin.signing_key === each.signing_key, `the policy does not list ${each.operator}`);
  }
  const apart = [[relay, gateway], [leader, helper], [attester, issuer]]
    .concat([attester, issuer].flatMap((each) => [leader, helper, analyst].map((other) => [each, other])));
  check('operators-equal', apart.every(([one, other]) => one.operator !== other.operator), 'parties that must not collude have one operator');
  for (const { url } of [leader, helper, relay]) check('url-invalid', isPlainUrl(url, policy), 'a URL is not absolute, plain https');
  check('url-invalid', leader.url !== helper.url, 'leader and helper have the same URL');
  check('relay-mismatch', relay.url === pins.relay_url, 'the claim is about another relay than ours');
}

function isPlainUrl(url, policy) {
  let parsed;
  try {
    parsed = new URL(url);
  } catch {
    return false;
  }
  const loopback = ['127.0.0.1', '[::1]', 'localhost'].includes(parsed.hostname);
  const secure = parsed.protocol === 'https:' || (parsed.protocol === 'http:' && (loopback || policy.insecure_http));
  return secure && !parsed.username && !parsed.password && !/[?#]|\/$/.test(url);
}

function keys(recipe) {
  const { analyst, leader, helper, gateway, issuer, collector } = recipe.parties;
  let sealing;
  try {
    sealing = [leader, helper, collector].map((each) => hpkeConfig(unb64url(each.hpke_config)).key.toString('hex'));
  } catch {
    sealing = [];
  }
  check('hpke-key-invalid', new Set(sealing).size === 3, 'the HPKE keys are not three different ones of our suite');
  const signers = [analyst, leader, helper, gateway, issuer];
  check('signing-key-invalid', signers.every((each) => isStrongKey(unb64url(each.signing_key, 32))), 'a signing key is of small order');
  for (const one of signers) {
    for (const other of signers) {
      const shared = one.signing_key === other.signing_key && one.operator !== other.operator;
      check('signing-key-shared', !shared, `${one.operator} and ${other.operator} sign with the same key`);
    }
  }
}

function audience(recipe, policy) {
  check('audience-not-allowed', policy.populations.includes(recipe.audience.population), 'the policy does not list the population');
  check('audience-floor', recipe.audience.criteria === undefined, 'this device does not read censuses, so it accepts no criteria');
  const { encoder } = recipe.question;
  if (encoder.kind !== 'attributes') return;
  for (const [name, values] of Object.entries(encoder.attributes)) {
    const own = policy.attributes?.[name] ?? [];
    check('audience-attribute', values.every((value) => own.includes(value)), `the policy does not list ${name} with these values`);
  }
  check('census-form', recipe.batch.close === 'interval_end', 'a census has one batch');
}

/** What this device can randomise: for which encoders and statistics, what proves it, and what its claim is called. */
const METHODS = {
  krr: {
    encoders: ['buckets', 'categories', 'attributes'], statistics: ['histogram'], proof: 'Prio3Histogram', mechanism: 'shuffle-fmt22',
  },
  rr: { encoders: ['boolean'], statistics: ['count'], proof: 'Prio3Count', mechanism: 'rr-exact' },
  'one-bit': { encoders: ['number'], statistics: ['sum', 'mean'], proof: 'Prio3Count', mechanism: 'rr-exact' },
};

function randomizer(recipe, policy) {
  const { randomizer: own, vdaf, question: { encoder, statistic } } = recipe;
  check('randomizer-not-allowed', policy.randomizers.includes(own.name), 'the policy does not list the randomizer');
  check('randomizer-not-allowed', Object.hasOwn(METHODS, own.name), `this device has ${Object.keys(METHODS).join(', ')}, not ${own.name}`);
  const method = METHODS[own.name];
  const unused = [own.max_weight, own.scale, own.flips, own.name === 'one-bit' ? undefined : own.maximum, recipe.aggregator_noise];
  const epsilon0 = own.epsilon0 === undefined ? -1n : decimal(own.epsilon0);
  check('randomizer-parameters', unused.every((each) => each === undefined) && epsilon0 >= 10n ** 12n && epsilon0 <= 40n * 10n ** 18n,
    'its parameters are not those of the randomizer');
  const length = own.name === 'krr' ? own.categories : 1;
  const plain = vdaf.max_weight === undefined && vdaf.max_measurement === undefined;
  check('randomizer-vdaf-mismatch', vdaf.name === method.proof && vdaf.length === length && plain, 'the VDAF proves other outputs');
  const fits = method.encoders.includes(encoder.kind) && method.statistics.includes(statistic);
  check('encoder-mismatch', fits && own.categories === labels(encoder) && own.categories >= 2, 'encoder, statistic and randomizer do not fit');
  const numbers = encoder.kind !== 'number' || (isRange(encoder) && own.maximum === largest(encoder));
  check('encoder-mismatch', numbers, 'the range has no steps, or others than the randomizer states');
  const names = [...(encoder.categories ?? []), ...[encoder.other, encoder.missing].filter((each) => each !== undefined)];
  const lists = [names, ...Object.values(encoder.attributes ?? {})];
  const distinct = lists.every((list) => new Set(list).size === list.length);
  check('encoder-mismatch', rising(encoder.edges ?? []) && distinct, 'edges do not rise, or a category occurs twice');
  const calls = Math.ceil(length / vdaf.chunk_length);
  const share = 16 * (length + 2 * vdaf.chunk_length + 2 ** (Math.ceil(Math.log2(calls + 1)) + 1) - 1) + 32;
  check('vdaf-parameters', length <= policy.max_length && vdaf.chunk_length <= length && share <= LARGEST_SHARE, 'too long');
}

function batch(recipe, policy, pins, now) {
  const { batch: own, interval, token, privacy } = recipe;
  check('batch-floor', own.min_batch_size >= policy.min_batch_size, `B is below ${policy.min_batch_size}`);
  check('batch-too-large', own.min_batch_size <= policy.max_batch_size, 'B is too large');
  check('batch-mode', own.mode === { interval_end: 'time_interval', at_B: 'leader_selected' }[own.close], 'mode and close do not fit');
  const most = Math.ceil(Number(recipe.sampling.rate) * policy.max_devices);
  check('contributions-over-population', own.expected_contributions <= most, 'more contributions are expected than the devices send');
  check('contributions-below-batch', own.expected_contributions >= own.min_batch_size, 'the batch is not expected to fill');
  const aligned = interval.start % own.time_precision === 0 && interval.duration % own.time_precision === 0;
  check('interval-unaligned', aligned, 'start and duration are not multiples of the precision');
  const end = interval.start + interval.duration;
  check('interval-over', now < end, 'the interval has ended');
  check('interval-too-long', interval.duration <= policy.max_duration, 'the interval is too long');
  const epoch = pins.issuer.epoch_seconds;
  check('interval-outside-epoch', interval.start >= token.epoch * epoch && end <= (token.epoch + 1) * epoch, 'not in the epoch of its token');
  check('issuer-mismatch', token.issuer === recipe.parties.issuer.name, 'the token is of another issuer');
  check('account-unknown', !policy.accounts || Object.hasOwn(policy.accounts, privacy.account), 'the policy does not list the account');
  const charging = policy.accounts?.[privacy.account]?.analysts;
  check('account-analyst', !charging || charging.includes(recipe.parties.analyst.operator), 'the analyst may not charge the account');
}

/** Checks the claim's form and caps. Whether (a) and (b) are understated is not computed; the device charges epsilon0 instead. */
function claim(recipe, policy) {
  const { privacy, sampling, randomizer: own } = recipe;
  const rate = decimal(sampling.rate);
  const one = 10n ** 18n;
  check('sampling-rate', rate > 0n && rate <= one, 'the rate is not above 0 and at most 1');
  check('sampling-cap', rate <= decimal(policy.max_sampling_rate), 'the rate is above the cap');
  check('importance-not-supported', sampling.importance === undefined, 'this device takes part where the coin depends on no answer');
  check('dummies-invalid', sampling.dummies === undefined, 'this device sends no dummies');
  const { epsilon } = privacy;
  const [a, b, local] = [epsilon.aggregator, epsilon.aggregator_with_relay, own.epsilon0].map(decimal);
  check('sampling-one-claimed', rate < one || (!privacy.mechanism.includes('sampling') && a >= b), 'amplification by a rate of 1');
  check('claim-parameters', privacy.n === recipe.batch.min_batch_size && privacy.epsilon0 === own.epsilon0, 'the claim is for another recipe');
  check('delta-cap', decimal(privacy.delta) > 0n && decimal(privacy.delta) <= decimal(policy.max_delta), 'delta is above the cap');
  const { mechanism } = METHODS[own.name];
  check('claim-mechanism', [mechanism, `${mechanism}+sampling`].includes(privacy.mechanism), 'not the mechanism of this randomizer');
  const both = epsilon.both_aggregators_with_relay;
  check('claim-understated', both !== 'unbounded' && decimal(both) >= local, 'claim (d) is below epsilon0');
  const withRelay = policy.max_epsilon_aggregator_with_relay;
  check('claim-cap', a <= decimal(policy.max_epsilon_aggregator) && (withRelay === null || b <= decimal(withRelay))
    && local <= decimal(policy.max_epsilon_local), 'a claim is above its cap');
}

function optIns(recipe, found) {
  const hash = b64url(recipeHash(recipe));
  const task = b64url(taskOf(recipe).id);
  const [leader, helper] = ['leader', 'helper'].map((role) => found.get(`${hash}/${role}`));
  check('opt-in-missing', leader && helper, 'leader or helper has not opted in');
  const agree = leader.task_id === task && helper.task_id === task && leader.seed_id === helper.seed_id
    && leader.verify_key_confirmation === helper.verify_key_confirmation;
  check('opt-in-mismatch', agree, 'the opt-ins are for another task, or for two different keys');
}

/** The token key that the log shows for the recipe's slot. */
export function slotKey(recipe, view) {
  const directory = view.directories.get(recipe.token.epoch);
  const slot = directory?.keys.find((each) => each.slot === recipe.token.slot);
  return slot && unb64url(slot.token_key);
}

/** Throws the Refusal of the first rule that refuses. `recipe` matches the schema, is signed, and is in the log (`view`). */
export function checkRecipe(recipe, view, policy, pins, now) {
  check('model-unsupported', recipe.model === 'secure-aggregation', 'only secure aggregation is known');
  parties(recipe, policy, pins);
  keys(recipe);
  audience(recipe, policy);
  randomizer(recipe, policy);
  batch(recipe, policy, pins, now);
  claim(recipe, policy);
  check('series-missing', recipe.series === undefined, 'this device does not take part in series');
  const der = slotKey(recipe, view);
  check('slot-key-missing', der, 'the log has no key of the slot');
  tokenKey(der);
  const owner = view.slots.get(`${recipe.token.issuer}/${recipe.token.epoch}/${recipe.token.slot}`);
  check('slot-taken', owner === b64url(recipeHash(recipe)), 'another recipe named the slot first');
  optIns(recipe, view.optIns);
}

/** The name of the directory key for which a token was requested: its SHA-256. */
export const keyName = (der) => sha256(text('slot key'), der).toString('hex');
