// From a recipe to its DAP task, and to the report of one measurement. docs/device.md, sections 6 and 8.
import { randomBytes } from 'node:crypto';
import { canonical, cat, opaque, sha256, text, uint, unb64url } from './bytes.mjs';
import { hpkeConfig, sealTo } from './hpke.mjs';
import { randSize, shard, vdafId } from './prio3.mjs';
import { extension } from './token.mjs';

export const recipeHash = (recipe) => sha256(text(canonical(recipe)));

const VDAF_CONFIG = {
  Prio3Count: () => Buffer.alloc(0),
  Prio3Sum: (vdaf) => uint(vdaf.max_measurement, 8),
  Prio3SumVec: (vdaf) => cat(uint(vdaf.length, 4), uint(vdaf.max_measurement, 8), uint(vdaf.chunk_length, 4)),
  Prio3Histogram: (vdaf) => cat(uint(vdaf.length, 4), uint(vdaf.chunk_length, 4)),
  Prio3MultihotCountVec: (vdaf) => cat(uint(vdaf.length, 4), uint(vdaf.chunk_length, 4), uint(vdaf.max_weight, 8)),
  Prio3L2BoundSum: ({ length, chunk_length: chunk, vector: v }) =>
    cat(uint(length, 4), ...[v.max_value, v.centre, v.max_square, v.scale, v.flips].map((x) => uint(x, 8)), uint(chunk, 4)),
};

/** `{ configuration, id, ctx }` of the DAP task. */
export function taskOf(recipe) {
  const { parties, batch, interval, vdaf } = recipe;
  const precision = BigInt(batch.time_precision);
  const times = cat(uint(BigInt(interval.start) / precision, 8), uint(BigInt(interval.duration) / precision, 8));
  const configuration = cat(
    opaque(1, recipeHash(recipe)),
    opaque(2, text(parties.leader.url)),
    opaque(2, text(parties.helper.url)),
    uint(batch.time_precision, 8),
    uint(batch.min_batch_size, 8),
    uint(batch.mode === 'time_interval' ? 1 : 2, 1),
    opaque(2, Buffer.alloc(0)),
    uint(vdafId(vdaf.name), 4),
    opaque(2, VDAF_CONFIG[vdaf.name](vdaf)),
    opaque(2, cat(uint(1, 2), opaque(2, times))),
  );
  const id = sha256(sha256(text('dap-taskprov task id')), configuration);
  return { configuration, id, ctx: cat(text('dap-18'), id) };
}

/** The associated data that a report's seals cover in addition to the shares. */
export function reportAad(recipe, task, id, publicShare) {
  const time = Math.floor(recipe.interval.start / recipe.batch.time_precision);
  const metadata = cat(id, uint(time, 8), opaque(2, Buffer.alloc(0)));
  return { metadata, aad: cat(task.id, task.configuration, metadata, opaque(4, publicShare)) };
}

/** A share's plaintext: the token extension, then the input share. */
export const sharePlaintext = (ext, share) => cat(opaque(2, ext), opaque(4, share));

/** Makes one report, which is never made again: the bytes of the upload. `token` holds token, rLeader and rHelper. */
export function makeReport(recipe, measurement, token) {
  const task = taskOf(recipe);
  const id = randomBytes(16);
  const shares = shard(recipe.vdaf, task.ctx, measurement, id, randomBytes(randSize(recipe.vdaf)));
  const { metadata, aad } = reportAad(recipe, task, id, shares.publicShare);
  const seal = (role, code, own, other) => {
    const config = hpkeConfig(unb64url(recipe.parties[role].hpke_config));
    const info = cat(text('dap-18 input share'), Buffer.from([1, code]));
    const { enc, ciphertext } = sealTo(config.key, info, aad, sharePlaintext(extension(token.token, own, other), shares[role]));
    return cat(uint(config.id, 1), opaque(2, enc), opaque(4, ciphertext));
  };
  return cat(
    metadata,
    opaque(4, shares.publicShare),
    seal('leader', 2, token.rLeader, token.rHelper),
    seal('helper', 3, token.rHelper, token.rLeader),
  );
}
