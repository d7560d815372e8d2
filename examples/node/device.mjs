// A device: reads the log, fetches tokens, decides, sends. docs/device.md; `node device.mjs --help`.
import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { decimal, encode, randomise, takesPart } from './answer.mjs';
import { b64url, text, unb64url, uniformTime } from './bytes.mjs';
import { readConfig, readValue } from './config.mjs';
import { Journal } from './journal.mjs';
import { Refusal } from './merkle.mjs';
import { exchange, throughRelay } from './ohttp.mjs';
import { LogReader, factor } from './reader.mjs';
import { makeReport, taskOf } from './recipe.mjs';
import { MAY_PASS, checkRecipe, keyName, slotKey } from './rules.mjs';
import { attestedBody, drawSecrets, finalize, tokenKey, tokenRequest } from './token.mjs';

const UPLOAD = 'application/ppm-dap;message=upload-req';
const AGAIN = new Set([9, 10]); // report_too_early, task_not_started
const FINAL = /urn:ietf:params:ppm:dap:error:(invalidMessage|unsupportedExtension|invalidExtension|invalidTask)"/;
const QUOTA = /"urn:tacit:problem:quota"/;
const OFF = 10; // seconds: if a planned time passed longer ago, the device was off

const hex = (secrets) => Object.fromEntries(Object.entries(secrets).map(([name, value]) => [name, value.toString('hex')]));
const unhex = (words) => Object.fromEntries(Object.entries(words).map(([name, value]) => [name, Buffer.from(value, 'hex')]));

export class Device {
  constructor(config, say) {
    this.config = config;
    this.say = say;
    this.journal = new Journal(config.state);
    this.reader = new LogReader(config, this.journal);
    this.nextPoll = 0;
  }

  close() {
    this.journal.close();
  }

  /** Does everything that is due; an error in one part does not stop the others. */
  async step(now) {
    if (now >= this.nextPoll) await this.#guarded('log', () => this.#poll(now));
    await this.#guarded('token', () => this.#fetchTokens(now));
    if (this.reader.isFresh(now)) await this.#guarded('recipe', () => this.#decideAll(now));
    await this.#guarded('report', () => this.#sendAll(now));
  }

  async #guarded(what, part) {
    try {
      await part();
    } catch (error) {
      this.say(`${what}: ${error.message}`);
    }
  }

  async #poll(now) {
    this.nextPoll = now + this.config.timing.poll_seconds * factor(0.75, 1.25, randomBytes);
    await this.reader.poll(now);
    this.#planTokens(now);
  }

  /** Plans when to fetch the token of every new slot, whatever recipes there are. */
  #planTokens(now) {
    const { issuer, timing } = this.config;
    const length = issuer.epoch_seconds;
    const fresh = [];
    for (const [epoch, directory] of this.reader.view.directories) {
      const [start, end] = [epoch * length, (epoch + 1) * length];
      if (now >= end || now < start - length || (now >= start && !timing.join_late)) continue;
      for (const slot of directory.keys) {
        if (this.journal.data.tokens[`${epoch}/${slot.slot}`]) continue;
        const at = now < start ? uniformTime(now, start) : uniformTime(now, now + (end - now) / 4);
        fresh.push([epoch, slot, at]);
      }
    }
    if (!fresh.length) return;
    this.journal.update((data) => {
      for (const [epoch, slot, at] of fresh) {
        const der = unb64url(slot.token_key);
        data.tokens[`${epoch}/${slot.slot}`] = { epoch, slot: slot.slot, der: slot.token_key, at, tries: 0, ...secretsFor(der) };
      }
      for (const [name, token] of Object.entries(data.tokens)) if ((token.epoch + 2) * length < now) delete data.tokens[name];
    });
  }

  async #fetchTokens(now) {
    const { issuer } = this.config;
    for (const [name, token] of Object.entries(this.journal.data.tokens)) {
      if (token.token || token.lost || now < token.at || now >= (token.epoch + 1) * issuer.epoch_seconds) continue;
      await this.#fetchToken(name, token).catch((error) => {
        this.say(`token of slot ${name}: ${error.message}`);
        this.journal.update((data) => {
          data.tokens[name].at = now + this.#retryPause(token.tries);
          data.tokens[name].tries += 1;
        });
      });
    }
  }

  async #fetchToken(name, token) {
    const { attester_url: attester, identity, issuer, http } = this.config;
    const der = unb64url(token.der);
    const secrets = unhex(token.secrets);
    const { input, request } = tokenRequest({ issuer: issuer.name, epoch: token.epoch, slot: token.slot }, der, secrets);
    const asked = await exchange('POST', `${attester}/v1/challenge`, undefined, undefined, http);
    if (asked.status !== 200) throw new Error(`the attester answered ${asked.status}`);
    const challenge = unb64url(JSON.parse(asked.content.toString()).challenge, 32);
    const body = text(JSON.stringify(attestedBody(identity, challenge, request)));
    const answer = await exchange('POST', `${attester}/v1/token-requests`, 'application/json', body, http);
    const lost = answer.status === 429 && QUOTA.test(answer.content.toString()); // the attester's word, not a proxy's
    if (answer.status !== 200 && !lost) throw new Error(`the attester answered ${answer.status}`);
    const made = lost ? null : finalize(input, der, secrets.r, answer.content).toString('hex');
    this.journal.update((data) => { Object.assign(data.tokens[name], lost ? { lost } : { token: made }); });
    this.say(lost ? `slot ${name}: the attester already gave out its token` : `slot ${name}: token`);
  }

  #retryPause(tries) {
    const { retry_seconds: first, retry_limit_seconds: limit } = this.config.timing;
    return Math.min(first * 2 ** tries, limit) * factor(0.5, 1.5, randomBytes);
  }

  async #decideAll(now) {
    for (const [hash, recipe] of this.reader.view.recipes) {
      if (this.journal.data.recipes[hash]) continue;
      const decision = this.#decide(recipe, now);
      if (!decision) continue;
      this.journal.update((data) => {
        data.recipes[hash] = { name: recipe.name, ...decision.kept };
        const analyst = recipe.parties.analyst.operator;
        if (decision.epsilon) data.ledger.push({ time: now, epsilon: decision.epsilon, analyst });
        if (decision.epsilon) delete data.tokens[`${recipe.token.epoch}/${recipe.token.slot}`].secrets;
      });
      this.say(`${recipe.name}: ${decision.word}`);
    }
  }

  /** The final decision on a recipe; null if it cannot be made yet. */
  #decide(recipe, now) {
    const { start, duration } = recipe.interval;
    const late = now > start + duration / 4;
    if (late) return { kept: { state: 'ineligible' }, word: 'seen after the first quarter of its interval' };
    try {
      checkRecipe(recipe, this.reader.view, this.config.policy, this.config, now);
      this.#checkBudget(recipe, now);
    } catch (error) {
      if (error instanceof Refusal && MAY_PASS.has(error.rule)) return null;
      return { kept: { state: 'refused', reason: error.message }, word: `refused, ${error.message}` };
    }
    const token = this.journal.data.tokens[`${recipe.token.epoch}/${recipe.token.slot}`];
    if (!token || token.lost) return { kept: { state: 'ineligible' }, word: 'no token of its slot' };
    if (keyName(unb64url(token.der)) !== keyName(slotKey(recipe, this.reader.view))) {
      return { kept: { state: 'ineligible' }, word: 'the token is of another key' };
    }
    return token.token ? this.#answer(recipe, token, now) : null;
  }

  #checkBudget(recipe, now) {
    const { epsilon, epsilon_with_relay: withRelay, days } = this.config.budget;
    const own = recipe.parties.analyst.operator;
    const { analysts, shares } = this.config.policy;
    const weights = Object.keys(analysts ?? { [own]: '' }).map((name) => BigInt(shares?.[name] ?? 1));
    const all = weights.reduce((sum, weight) => sum + weight);
    const recent = this.journal.data.ledger.filter((each) => each.time > now - days * 86400);
    const fits = (charged, weight) => {
      const total = all * charged.reduce((sum, each) => sum + decimal(each.epsilon), decimal(recipe.randomizer.epsilon0));
      return total <= weight * decimal(epsilon) && (!withRelay || total <= weight * decimal(withRelay));
    };
    if (!fits(recent, all)) throw new Refusal('budget-spent', 'the device has answered enough');
    // charges from before analysts were recorded may have been anybody's
    const charged = recent.filter((each) => (each.analyst ?? own) === own);
    if (!fits(charged, BigInt(shares?.[own] ?? 1))) throw new Refusal('budget-spent', "the analyst's share of the budget is spent");
  }

  /** Charge, coin, randomised answer, time and report; the caller stores all of it in one write. */
  #answer(recipe, token, now) {
    const { epsilon0: epsilon } = recipe.randomizer;
    const value = readValue(this.config, recipe.question.metric, this.say);
    const encoded = encode(recipe.question.encoder, value, this.config.attributes);
    if (!takesPart(recipe.sampling.rate)) return { kept: { state: 'decided' }, epsilon, word: 'decided' };
    const measurement = randomise(recipe, encoded);
    const secrets = { ...unhex(token.secrets), token: Buffer.from(token.token, 'hex') };
    const { start, duration } = recipe.interval;
    const end = start + duration;
    const at = uniformTime(Math.max(now, start + duration / 4), end - Math.min(duration / 20, 60));
    const report = b64url(makeReport(recipe, measurement, secrets));
    const url = `${recipe.parties.leader.url}/tasks/${b64url(taskOf(recipe).id)}/reports`;
    return { kept: { state: 'scheduled', at, due: at, tries: 0, url, report }, epsilon, word: 'decided' };
  }

  async #sendAll(now) {
    const { late_seconds: late, resume_seconds: resume } = this.config.timing;
    for (const [hash, entry] of Object.entries(this.journal.data.recipes)) {
      if (entry.state !== 'scheduled' || now < entry.at) continue;
      if (now > entry.due + late + resume) {
        this.#settle(hash, 'expired', 'not sent in time');
      } else if (now > entry.at + OFF) {
        this.journal.update((data) => { data.recipes[hash].at = uniformTime(now, now + resume); });
      } else {
        await this.#send(hash, entry, now);
      }
    }
  }

  async #send(hash, entry, now) {
    this.journal.update((data) => {
      data.recipes[hash].at = now + this.#retryPause(entry.tries);
      data.recipes[hash].tries += 1;
    });
    const { relay_url: relay, http } = this.config;
    const keys = this.reader.gatewayKeys(now);
    const answer = await throughRelay(relay, keys, 'POST', entry.url, now, http, UPLOAD, unb64url(entry.report));
    if (answer.status === 200) {
      const code = answer.content.length === 17 ? answer.content[16] : null;
      if (code !== null && AGAIN.has(code)) return;
      if (code === null && answer.content.length) return;
      this.#settle(hash, code === null ? 'sent' : 'failed', code === null ? 'the leader has it' : `upload error ${code}`);
    } else if (answer.status >= 400 && answer.status < 500 && ![408, 421, 425, 429].includes(answer.status) && FINAL.test(answer.content.toString())) {
      this.#settle(hash, 'failed', `refused, ${answer.status}`);
    }
  }

  #settle(hash, state, word) {
    const { name } = this.journal.data.recipes[hash];
    this.journal.update((data) => { data.recipes[hash] = { name, state }; });
    this.say(`${name}: ${state}, ${word}`);
  }
}

function secretsFor(der) {
  try {
    tokenKey(der);
    return { secrets: hex(drawSecrets(der)) };
  } catch {
    return { lost: true }; // nothing can be blinded under this key
  }
}

const HELP = `Usage: node device.mjs --config AGENT.json [--config ...] [--value METRIC=VALUE ...] [--seconds N]

Follow the log and contribute, once per recipe, until Ctrl-C or for N seconds. Several configurations run several
devices in one process. Example: node device.mjs --config .tacit/agents/0/agent.json --value mdvis=3`;

async function main() {
  const options = { config: { type: 'string', multiple: true }, value: { type: 'string', multiple: true }, seconds: { type: 'string' }, help: { type: 'boolean' } };
  const { values: given } = parseArgs({ options });
  if (given.help || !given.config) {
    process.stdout.write(`${HELP}\n`);
    return given.help ? 0 : 2;
  }
  const values = Object.fromEntries((given.value ?? []).map((each) => [each.split('=')[0], each.slice(each.indexOf('=') + 1)]));
  const devices = given.config.map((path, i) => {
    const say = (words) => process.stdout.write(`${given.config.length > 1 ? `[${i}] ` : ''}${words}\n`);
    return new Device(readConfig(path, values), say);
  });
  const end = given.seconds ? Date.now() / 1000 + Number(given.seconds) : Infinity;
  let running = true;
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { running = false; });
  await Promise.all(devices.map(async (device) => {
    while (running && Date.now() / 1000 < end) {
      await device.step(Date.now() / 1000);
      await pause(200);
    }
    device.close();
  }));
  return 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.exitCode = await main().catch((error) => {
    process.stderr.write(`${error.message}\n`);
    return 1;
  });
}
