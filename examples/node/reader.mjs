// One device's view of the log, read through relay and gateway: polls, gateway keys. docs/device.md, sections 3 and 5.
import { b64url, canonical, sha256, toInt, unb64url } from './bytes.mjs';
import * as log from './merkle.mjs';
import { exchange, throughRelay } from './ohttp.mjs';
import { recipeHash } from './recipe.mjs';
import { isOf } from './schema.mjs';

const PAGES_GONE = 4;
const STALE = 2 * 86400;

const parse = (answer, schema) => {
  if (answer.status !== 200) throw new Error(`the recipe server answered ${answer.status}`);
  const value = JSON.parse(answer.content.toString('utf8'));
  if (!isOf(schema, value)) throw new Error(`not of docs/schemas/${schema}.json`);
  return value;
};

export class LogReader {
  constructor(config, journal) {
    this.config = config;
    this.journal = journal;
    this.last = null; // head of the last poll, as text
    this.readAt = null;
    this.view = null;
  }

  /** Whether the log was read recently enough to decide on anything. */
  isFresh(now) {
    return this.view !== null && this.readAt !== null && now - this.readAt < STALE;
  }

  /** The key configurations to seal to at this time, in the order in which to try them. */
  gatewayKeys(now) {
    const { gateway } = this.config;
    const period = Math.floor(now / gateway.rotation_seconds);
    const sets = this.journal.data.keySets;
    const own = sets[period] ? [sets[period].active, sets[period].previous] : [sets[period - 1]?.active];
    const pinned = gateway.period === period || gateway.period === period - 1 ? [gateway.key_config] : [];
    const usable = [...own, ...pinned].filter((each) => each !== undefined);
    if (!usable.length) throw new Error('no gateway key of this period is known: the device needs a new pin');
    return [...new Set(usable)].map((each) => unb64url(each));
  }

  #ask(path, now) {
    const { relay_url: relay, recipe_server_url: server, http } = this.config;
    return throughRelay(relay, this.gatewayKeys(now), 'GET', `${server}${path}`, now, http);
  }

  #distrust(rule, reason, ...evidence) {
    this.journal.update((data) => { data.distrust = { reason: `${rule}: ${reason}`, evidence }; });
    throw new log.Refusal(rule, reason);
  }

  /** One poll. Nothing is believed before it is proved, or used before it is stored. */
  async poll(now) {
    const { distrust } = this.journal.data;
    if (distrust) throw new Error(`this log is no longer trusted: ${distrust.reason}`);
    for (let tries = 0; tries < PAGES_GONE; tries++) {
      const head = parse(await this.#ask('/v1/bundle', now), 'bundle-head');
      const tree = log.openCheckpoint(head.checkpoint, this.config.log_key, this.config.policy.witnesses, now);
      const name = `${tree.size}/${tree.root.toString('hex')}/${head.pages.join()}`;
      this.#compare(tree, head.checkpoint);
      if (name === this.last) {
        this.readAt = now;
        return;
      }
      await this.#prove(tree, now);
      const pages = await this.#pages(head.pages, now);
      if (pages === null) continue;
      const leaves = log.includedLeaves(pages, tree);
      await this.#keep(tree, leaves, now);
      this.last = name;
      this.readAt = now;
      return;
    }
    throw new Error('pages disappear before they can be read');
  }

  #compare(tree, checkpoint) {
    const known = this.journal.data.tree;
    if (!known) return;
    if (tree.size < known.size) throw new log.Refusal('log-rollback', `${tree.size} entries after ${known.size}`);
    if (tree.size === known.size && tree.root.toString('hex') !== known.root) {
      this.#distrust('log-split-view', 'two roots for one size', known, checkpoint);
    }
  }

  async #prove(tree, now) {
    const known = this.journal.data.tree;
    if (!known || known.size === 0 || known.size === tree.size) return;
    const block = log.consistencyBlock(known.size, tree.size);
    const hashes = parse(await this.#ask(`/v1/hashes/${tree.size}/${block}`, now), 'hashes');
    const fits = hashes.size === tree.size && hashes.start === 256 * block
      && log.rootFromHashes(hashes, known.size).toString('hex') === known.root
      && log.rootFromHashes(hashes, tree.size).equals(tree.root);
    if (!fits) throw new log.Refusal('log-consistency', 'the tree does not extend the known one');
  }

  async #pages(digests, now) {
    const pages = [];
    for (const digest of digests) {
      const answer = await this.#ask(`/v1/bundle/${digest}`, now);
      if (answer.status === 404) return null;
      if (answer.status === 200 && b64url(sha256(answer.content)) !== digest) throw new Error('a page does not match its digest');
      pages.push(parse(answer, 'bundle-page'));
    }
    return pages;
  }

  #read(leaves) {
    const { issuer, gateway } = this.config;
    const view = { recipes: new Map(), optIns: new Map(), directories: new Map(), keySets: new Map(), slots: new Map() };
    for (const { leaf } of leaves) {
      if (leaf?.type === 'recipe' && isOf('leaf', leaf) && isOf('recipe', leaf.body)) readRecipe(view, leaf);
    }
    for (const { leaf } of leaves) {
      if (!leaf || !isOf('leaf', leaf)) continue;
      if (leaf.type === 'opt-in' && isOf('leaf-opt-in', leaf.body)) readOptIn(view, leaf);
      if (leaf.type === 'issuer-directory' && isOf('leaf-issuer-directory', leaf.body)) {
        const { body } = leaf;
        const ours = body.issuer === issuer.name && body.epoch_seconds === issuer.epoch_seconds;
        if (ours && log.isSignedBy(leaf, issuer.name, issuer.signing_key)) this.#once(view.directories, body.epoch, body);
      }
      if (leaf.type === 'ohttp-config' && isOf('leaf-ohttp-config', leaf.body)) {
        const { body } = leaf;
        const ours = body.gateway === gateway.name && body.rotation_seconds === gateway.rotation_seconds;
        if (ours && log.isSignedBy(leaf, gateway.name, gateway.signing_key)) this.#once(view.keySets, body.period, body);
      }
    }
    return view;
  }

  #once(known, name, body) {
    const before = known.get(name);
    if (before && canonical(before) !== canonical(body)) this.#distrust('log-second-leaf', `two signed leaves for ${name}`, before, body);
    known.set(name, body);
  }

  #sameAsEver(known, seen) {
    for (const [name, body] of seen) {
      const before = known[name];
      if (before && canonical(before) !== canonical(body)) this.#distrust('log-second-leaf', `another leaf than before for ${name}`, before, body);
    }
  }

  async #keep(tree, leaves, now) {
    const view = this.#read(leaves);
    const data = this.journal.data;
    this.#sameAsEver(data.directories, view.directories);
    this.#sameAsEver(data.keySets, view.keySets);
    const sets = await this.#shownToAll(view, now);
    this.journal.update((next) => {
      next.tree = { size: tree.size, root: tree.root.toString('hex') };
      for (const [epoch, body] of view.directories) next.directories[epoch] = body;
      for (const [period, body] of sets) next.keySets[period] ??= body;
      for (const [slot, hash] of view.slots) next.slots[slot] ??= hash;
      this.#forget(next, now);
    });
    for (const [slot, hash] of Object.entries(this.journal.data.slots)) view.slots.set(slot, hash);
    this.view = view;
  }

  /** Removes what is too old to be used for requests or seals. */
  #forget(data, now) {
    const { issuer, gateway } = this.config;
    const epoch = Math.floor(now / issuer.epoch_seconds);
    const period = Math.floor(now / gateway.rotation_seconds);
    for (const each of Object.keys(data.directories)) if (Number(each) < epoch - 1) delete data.directories[each];
    for (const each of Object.keys(data.keySets)) if (Number(each) < period - 2) delete data.keySets[each];
  }

  /** The new key sets that the relay also shows, in a resource that is the same for everybody; a 404 there is no obstacle. */
  async #shownToAll(view, now) {
    const { relay_url: relay, http, log_key: key, policy, gateway } = this.config;
    const period = Math.floor(now / gateway.rotation_seconds);
    const fresh = [...view.keySets].filter(([each]) => Math.abs(each - period) <= 1 && !this.journal.data.keySets[each]);
    if (!fresh.length) return [];
    try {
      const answer = await exchange('GET', `${relay}/key-sets`, undefined, undefined, http);
      if (answer.status === 404) return fresh;
      const shown = parse(answer, 'key-sets');
      const tree = log.openCheckpoint(shown.checkpoint, key, policy.witnesses, now);
      const bodies = log.includedLeaves([shown], tree).map(({ leaf }) => leaf)
        .filter((leaf) => leaf && isOf('leaf', leaf) && log.isSignedBy(leaf, gateway.name, gateway.signing_key));
      return fresh.filter(([, body]) => bodies.some((leaf) => canonical(leaf.body) === canonical(body)));
    } catch {
      return []; // the next poll tries again
    }
  }
}

function readRecipe(view, leaf) {
  const { analyst } = leaf.body.parties;
  if (!log.isSignedBy(leaf, analyst.operator, analyst.signing_key)) return;
  const hash = b64url(recipeHash(leaf.body));
  const { issuer, epoch, slot } = leaf.body.token;
  const name = `${issuer}/${epoch}/${slot}`;
  if (!view.slots.has(name)) view.slots.set(name, hash);
  view.recipes.set(hash, leaf.body);
}

function readOptIn(view, leaf) {
  const { recipe_hash: hash, role } = leaf.body;
  const recipe = view.recipes.get(hash);
  const party = recipe?.parties[role];
  const name = `${hash}/${role}`;
  if (party && !view.optIns.has(name) && log.isSignedBy(leaf, party.operator, party.signing_key)) view.optIns.set(name, leaf.body);
}

/** A random factor for a pause, uniform between two numbers. */
export const factor = (low, high, draw) => low + ((high - low) * Number(toInt(draw(6)))) / 2 ** 48;
