// One device across restarts: decisions stay as they were, with the same bytes.
import assert from 'node:assert/strict';
import http from 'node:http';
import test from 'node:test';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { b64url } from './bytes.mjs';
import { Device } from './device.mjs';
import { includedLeaves } from './merkle.mjs';
import { dateFor, exchange, restOf, throughRelay } from './ohttp.mjs';
import { recipeHash } from './recipe.mjs';
import { withDefaults } from './schema.mjs';

const vectors = (name) => JSON.parse(readFileSync(new URL(`../../docs/vectors/${name}.json`, import.meta.url)));
const log = vectors('log');
const token = vectors('token');
const leaves = includedLeaves(log.pages, { size: log.size, root: Buffer.from(log.root, 'hex') }).map(({ leaf }) => leaf);
const of = (type) => leaves.filter((leaf) => leaf.type === type).map(({ body }) => body);
const recipe = { ...of('recipe')[0] };
const hash = b64url(recipeHash(recipe));
const [directory] = of('issuer-directory');
const NOW = recipe.interval.start - 60;

function config(state, budget = '10') {
  const { issuer, gateway, relay } = recipe.parties;
  return {
    state,
    issuer: { name: issuer.name, signing_key: issuer.signing_key, epoch_seconds: directory.epoch_seconds },
    gateway: { name: gateway.operator, signing_key: gateway.signing_key },
    relay_url: relay.url,
    policy: withDefaults('policy', {}),
    budget: { epsilon: budget, delta: '0.00001', days: 365 },
    timing: { poll_seconds: 60, retry_seconds: 5, retry_limit_seconds: 300, late_seconds: 600, resume_seconds: 300, join_late: true },
    values: { mdvis: '3' },
    attributes: {},
  };
}

/** A device that has read the log of the vectors and holds the token of the vectors. */
function ready(state, budget) {
  const device = new Device(config(state, budget), () => {});
  const { epoch, slot } = recipe.token;
  device.nextPoll = Infinity;
  device.reader = {
    isFresh: () => true,
    view: {
      recipes: new Map([[hash, recipe]]),
      directories: new Map([[epoch, directory]]),
      slots: new Map([[`${recipe.token.issuer}/${epoch}/${slot}`, hash]]),
      optIns: new Map(of('opt-in').filter((body) => body.recipe_hash === hash).map((body) => [`${hash}/${body.role}`, body])),
    },
  };
  const secrets = { rLeader: token.r_leader, rHelper: token.r_helper };
  const der = directory.keys.find((each) => each.slot === slot).token_key;
  const name = `${epoch}/${slot}`;
  device.journal.update((data) => { data.tokens[name] ??= { epoch, slot, der, at: 0, tries: 0, secrets, token: token.token }; });
  return device;
}

async function inFolder(part) {
  const folder = mkdtempSync(join(tmpdir(), 'device-'));
  try {
    await part((name) => join(folder, name));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test('a decision is made once, charged once, and its report is never made again', () => inFolder(async (path) => {
  const states = new Set();
  for (let i = 0; i < 64 && states.size < 2; i++) { // both sides of the coin of 1/2: missed once in 2^63
    const first = ready(path(`${i}`));
    await first.step(NOW);
    const kept = first.journal.data.recipes[hash];
    states.add(kept.state);
    assert.equal(first.journal.data.ledger.length, 1);
    if (kept.state === 'scheduled') {
      const { start, duration } = recipe.interval;
      assert.ok(kept.at >= start + duration / 4 && kept.at <= start + duration - 60);
    }
    first.close();
    const again = ready(path(`${i}`));
    await again.step(NOW + 1);
    assert.deepEqual(again.journal.data.recipes[hash], kept);
    assert.equal(again.journal.data.ledger.length, 1);
    again.close();
  }
  assert.deepEqual(states, new Set(['decided', 'scheduled']));
}));

test('a device that has answered enough, or comes late, answers nothing and is charged nothing', () => inFolder(async (path) => {
  const spent = ready(path('spent'), '1.9');
  await spent.step(NOW);
  assert.match(spent.journal.data.recipes[hash].reason, /^budget-spent/);
  const late = ready(path('late'));
  await late.step(recipe.interval.start + recipe.interval.duration / 4 + 1);
  assert.equal(late.journal.data.recipes[hash].state, 'ineligible');
  for (const device of [spent, late]) {
    assert.equal(device.journal.data.ledger.length, 0);
    device.close();
  }
}));

test('of a budget each analyst has its share, whatever others have spent', () => inFolder(async (path) => {
  const { operator, signing_key: key } = recipe.parties.analyst;
  const analysts = { [operator]: key, 'other.example': key };
  for (const [name, spender, spent, refused] of [['other', 'other.example', '4', false], ['own', operator, '4', true], ['of before', undefined, '4', true]]) {
    const device = ready(path(name));
    device.config.policy = { ...device.config.policy, analysts };
    device.journal.update((data) => { data.ledger.push({ time: NOW - 1, epsilon: spent, ...(spender && { analyst: spender }) }); });
    await device.step(NOW);
    assert.equal(/^budget-spent/.test(device.journal.data.recipes[hash].reason ?? ''), refused, name);
    device.close();
  }
}));

test('a device that was off after a failed try plans a new time when it is back', () => inFolder(async (path) => {
  let device;
  for (let i = 0; ; i++) { // until the coin of 1/2 says yes
    device = ready(path(`${i}`));
    await device.step(NOW);
    if (device.journal.data.recipes[hash].state === 'scheduled') break;
    device.close();
  }
  let tries = 0;
  device.reader.gatewayKeys = () => { tries += 1; return []; }; // every try fails
  const entry = () => device.journal.data.recipes[hash];
  await device.step(entry().at).catch(() => {});
  assert.equal(tries, 1);
  const back = entry().at + 11;
  await device.step(back).catch(() => {});
  assert.equal(tries, 1);
  assert.ok(entry().at > back && entry().at <= back + 300);
  await device.step(entry().at + 10).catch(() => {});
  assert.equal(tries, 2);
  device.close();
}));

test("requests are dated by the relay's clock, whatever ours says", async () => {
  const server = http.createServer((_request, answer) => {
    answer.writeHead(200, { 'content-type': 'message/ohttp-res', date: 'Sat, 01 Jan 2000 00:10:59 GMT' });
    answer.end('not sealed');
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const relay = `http://127.0.0.1:${server.address().port}`;
  const ours = Date.UTC(2000, 0, 1, 0, 7, 10) / 1000; // almost four minutes behind
  const set = JSON.parse(readFileSync(new URL('../../docs/vectors/ohttp.json', import.meta.url)));
  const config = Buffer.from(set.key_config, 'hex');
  await assert.rejects(throughRelay(relay, [config], 'GET', 'http://127.0.0.1/', ours, {}));
  server.close();
  assert.equal(dateFor(relay, ours), 'Sat, 01 Jan 2000 00:10:00 GMT');
  assert.equal(dateFor('http://another.example', ours), 'Sat, 01 Jan 2000 00:07:00 GMT');
});

test('a server that asks to be left alone is left alone, in seconds and until a date', async () => {
  const now = Date.parse('Sun, 29 Nov 2026 12:00:00 GMT');
  const inAMinute = 'Sun, 29 Nov 2026 12:01:00 GMT';
  assert.equal(restOf({ 'retry-after': '120' }), 120);
  assert.equal(restOf({ 'retry-after': inAMinute }, now), 60);
  assert.equal(restOf({ 'retry-after': inAMinute, date: 'Sun, 29 Nov 2026 12:00:30 GMT' }, 0), 30);
  assert.equal(restOf({ 'retry-after': '99999999' }), 3600);
  for (const said of ['soon', '', undefined]) assert.equal(restOf({ 'retry-after': said }), 0);
  let asked = 0;
  const server = http.createServer((_request, answer) => { asked += 1; answer.writeHead(503, { 'retry-after': '120' }).end(); });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const [url, options] = [`http://127.0.0.1:${server.address().port}/`, {}];
    assert.equal((await exchange('GET', url, undefined, undefined, options)).status, 503);
    await assert.rejects(exchange('POST', url, undefined, undefined, options), /left alone/);
    assert.equal(asked, 1);
    await exchange('GET', url, undefined, undefined, {}); // another device
    assert.equal(asked, 2);
  } finally {
    server.close();
  }
});
