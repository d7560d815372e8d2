/* Prio3 (section 7.2 of the draft) over batches. Compiled once for each level and field:
 *     -DTACIT_LEVEL=0..3 -DTACIT_FIELD=64|128 and the flags that let the compiler use the level's instructions.
 * A report is a lane and LANES reports a group; the last group repeats the last report.
 */
#include "lanes.h"

#if TACIT_FIELD == 64
#include "field64.h"
#elif TACIT_LEVEL == 3
#include "field128_ifma.h"
#else
#include "field128.h"
#endif

#include "flp.h"
#include "keccak.h"

typedef struct {
    u8 *memory;
    size_t size;
    lanes *meas, *helper_meas, *bits, *proofs, *helper_proofs, *joint, *draws, *out, *values;
    flp_scratch flp;
} scratch;

/* Hands out pieces of one allocation: first with memory == NULL, to learn the size. */
static void *piece(scratch *s, size_t *used, size_t bytes)
{
    void *at = s->memory ? s->memory + *used : NULL;
    *used += (bytes + 63) / 64 * 64;
    return at;
}

/* Whether the output is computed from the measurement rather than part of it. */
static int has_integers(const tacit_plan *plan)
{
    int summed = plan->shape.circuit == TACIT_SUM || plan->shape.circuit == TACIT_SUM_VEC;
    return plan->squares || (plan->value.bits > 1 && summed);
}

static size_t lay_out(scratch *s, const tacit_plan *plan, int proving)
{
    size_t used = 0, proofs = plan->shape.proofs, n = plan->wire_len;
    size_t padded = plan->checks * plan->shape.chunk, word = WORDS * sizeof(lanes);
    size_t share = proofs * plan->proof_len;
    size_t draws = proofs * (proving ? plan->arity : plan->query_len);
    size_t verifiers = 2 * proofs * plan->verifier_len, integers = has_integers(plan) ? plan->shape.length : 0;
    s->meas = piece(s, &used, (padded > plan->meas_len ? padded : plan->meas_len) * word);
    s->proofs = piece(s, &used, share * word);
    s->joint = piece(s, &used, proofs * plan->joint_len * word);
    s->draws = piece(s, &used, draws * word);
    s->out = piece(s, &used, (verifiers > integers ? verifiers : integers) * word);
    s->flp.even = piece(s, &used, n * sizeof(element));
    s->flp.odd = piece(s, &used, n * sizeof(element));
    s->flp.power = piece(s, &used, plan->calls * sizeof(element));
    s->flp.joint = piece(s, &used, plan->calls * sizeof(element));
    s->flp.entries = piece(s, &used, plan->squares * plan->shape.chunk * sizeof(element));
    if (proving) {
        s->flp.left = piece(s, &used, n * sizeof(element));
        s->flp.right = piece(s, &used, n * sizeof(element));
        s->flp.products = piece(s, &used, n * sizeof(sum_of_products));
        if (plan->by_pairs) {
            s->flp.chosen = piece(s, &used, padded * sizeof(element));
            s->flp.pairs = piece(s, &used, plan->calls * plan->calls * sizeof(plain_sum));
        }
        s->helper_meas = piece(s, &used, plan->meas_len * word);
        s->helper_proofs = piece(s, &used, share * word);
        s->bits = piece(s, &used, (padded > plan->meas_len ? padded : plan->meas_len) * sizeof(lanes));
        s->values = piece(s, &used, plan->values * sizeof(lanes));
    }
    return used;
}

static int scratch_new(scratch *s, const tacit_plan *plan, int proving)
{
    memset(s, 0, sizeof *s);
    s->size = lay_out(s, plan, proving);
    s->memory = aligned_alloc(64, s->size);
    if (!s->memory)
        return TACIT_NO_MEMORY;
    memset(s->memory, 0, s->size);
    lay_out(s, plan, proving);
    return TACIT_OK;
}

static void scratch_free(scratch *s)
{
    wipe(s->memory, s->size);
    free(s->memory);
}

static lanes any_excess(const lanes *words, size_t count)
{
    lanes bad = {0};
    for (size_t i = 0; i < count; i++)
        bad |= element_excess(words + WORDS * i);
    return bad;
}

/* Loads elements of the rows; returns the lanes with one out of range. Checks a piece while it is in the L1 cache. */
static lanes load_elements(lanes *words, rows r, size_t count)
{
    enum { PIECE = 64 };
    lanes bad = {0};
    for (size_t done = 0; done < WORDS * count; done += PIECE * WORDS) {
        size_t left = count - done / WORDS, some = left < PIECE ? left : PIECE;
        load_words(words + done, rows_skip(r, 8 * done), WORDS * some);
        bad |= any_excess(words + done, some);
    }
    return bad;
}

static void store_flags(u8 *flags, size_t first, size_t reports, lanes one, lanes two, lanes four)
{
    for (size_t lane = 0; lane < LANES && first + lane < reports; lane++)
        flags[first + lane] = (u8)((one[lane] & 1) | (two[lane] & 2) | (four[lane] & 4));
}

/* Expands a Helper's seeds into shares of the measurement and of the proofs. */
static void expand_helper(const tacit_plan *plan, rows seeds, lanes *meas, lanes *proofs)
{
    sponge s;
    start(&s, plan, USE_MEAS);
    absorb_rows(&s, seeds, SEED);
    absorb_byte(&s, 1);
    squeeze(&s, meas, WORDS * plan->meas_len);
    start(&s, plan, USE_PROOF);
    absorb_rows(&s, seeds, SEED);
    absorb_byte(&s, plan->shape.proofs);
    absorb_byte(&s, 1);
    squeeze(&s, proofs, WORDS * plan->shape.proofs * plan->proof_len);
    wipe(&s, sizeof s);
}

static void joint_rand_part(const tacit_plan *plan, unsigned agg_id, rows blinds, rows nonces, const lanes *meas,
                            lanes part[4])
{
    sponge s;
    start(&s, plan, USE_JOINT_PART);
    absorb_rows(&s, blinds, SEED);
    absorb_byte(&s, agg_id);
    absorb_rows(&s, nonces, NONCE);
    absorb_words(&s, meas, WORDS * plan->meas_len);
    squeeze(&s, part, 4);
    wipe(&s, sizeof s);
}

static void joint_rand_seed(const tacit_plan *plan, const lanes first[4], const lanes second[4], lanes seed[4])
{
    static const u8 zeros[SEED];
    sponge s;
    start(&s, plan, USE_JOINT_SEED);
    absorb_bytes(&s, zeros, SEED);
    absorb_words(&s, first, 4);
    absorb_words(&s, second, 4);
    squeeze(&s, seed, 4);
}

/* `count` elements from seeds in lanes, with the number of proofs as binder. */
static void expand_seeds(const tacit_plan *plan, int usage, const lanes seed[4], lanes *out, size_t count)
{
    sponge s;
    start(&s, plan, usage);
    absorb_words(&s, seed, 4);
    absorb_byte(&s, plan->shape.proofs);
    squeeze(&s, out, WORDS * count);
    wipe(&s, sizeof s);
}

static void query_rands(const tacit_plan *plan, const u8 *verify_key, rows nonces, lanes *out)
{
    sponge s;
    start(&s, plan, USE_QUERY);
    absorb_bytes(&s, verify_key, SEED);
    absorb_byte(&s, plan->shape.proofs);
    absorb_rows(&s, nonces, NONCE);
    squeeze(&s, out, WORDS * plan->shape.proofs * plan->query_len);
    wipe(&s, sizeof s);
}

/* What is aggregated of position i: an integer, or scale * value + noise. */
static element output_at(const tacit_plan *plan, const scratch *s, size_t i)
{
    if (!plan->squares)
        return weighted_bits(&plan->value, s->meas + WORDS * plan->value.bits * i);
    element value = element_mul(element_add(s->flp.entries[i], TABLE(plan->half_centre)), TABLE(plan->scale));
    if (!plan->noise.bits)
        return element_canonical(value);
    const lanes *noise = s->meas + WORDS * (plan->noise_at + plan->noise.bits * i);
    return element_canonical(element_add(value, weighted_bits(&plan->noise, noise)));
}

/* What is aggregated: the measurement itself, its first elements, or its integers. */
static void store_output(const tacit_plan *plan, const scratch *s, rows out)
{
    const lanes *words = s->meas;
    if (has_integers(plan)) {
        for (size_t i = 0; i < plan->shape.length; i++)
            element_store(s->out + WORDS * i, output_at(plan, s, i));
        words = s->out;
    }
    store_words(out, words, WORDS * plan->shape.length);
}

typedef struct {
    rows nonces, public_shares, input_shares, verifier_shares, seeds, out_shares;
} verify_rows;

static lanes joint_randomness(const tacit_plan *plan, const scratch *s, int agg_id, const verify_rows *r,
                              rows verifier_tail)
{
    lanes part[4], other[4], seed[4];
    rows blinds = rows_skip(r->input_shares, agg_id ? SEED : plan->size.leader_share - SEED);
    size_t count = plan->shape.proofs * plan->joint_len;
    joint_rand_part(plan, (unsigned)agg_id, blinds, r->nonces, s->meas, part);
    load_words(other, rows_skip(r->public_shares, agg_id ? 0 : SEED), 4);
    if (agg_id)
        joint_rand_seed(plan, other, part, seed);
    else
        joint_rand_seed(plan, part, other, seed);
    expand_seeds(plan, USE_JOINT_RAND, seed, s->joint, count);
    store_words(verifier_tail, part, 4);
    store_words(r->seeds, seed, 4);
    return any_excess(s->joint, count);
}

/* Verifies one group; returns the lanes to redo, and in `malformed` those whose share has an element out of range. */
static lanes verify_group(const tacit_plan *plan, const scratch *s, int agg_id, const u8 *verify_key,
                          const verify_rows *r, lanes *malformed)
{
    size_t proofs = plan->shape.proofs, share = proofs * plan->proof_len;
    lanes redo = {0}, excess;
    if (agg_id) {
        expand_helper(plan, r->input_shares, s->meas, s->proofs);
        excess = any_excess(s->meas, plan->meas_len) | any_excess(s->proofs, share);
    } else {
        excess = load_elements(s->meas, r->input_shares, plan->meas_len);
        excess |= load_elements(s->proofs, rows_skip(r->input_shares, plan->element * plan->meas_len), share);
    }
    if (plan->joint_len)
        redo = joint_randomness(plan, s, agg_id, r, rows_skip(r->verifier_shares, plan->size.verifier_share - SEED));
    query_rands(plan, verify_key, r->nonces, s->draws);
    redo |= any_excess(s->draws, proofs * plan->query_len);
    for (size_t i = 0; i < proofs; i++) {
        const lanes *proof = s->proofs + WORDS * plan->proof_len * i;
        const lanes *joint = s->joint + WORDS * plan->joint_len * i;
        const lanes *query = s->draws + WORDS * plan->query_len * i;
        redo |= flp_query(plan, &s->flp, s->meas, proof, joint, query, s->out + WORDS * plan->verifier_len * i);
    }
    store_words(r->verifier_shares, s->out, WORDS * proofs * plan->verifier_len);
    store_output(plan, s, r->out_shares);
    *malformed = agg_id ? (lanes){0} : excess;
    return agg_id ? redo | excess : redo;
}

static int verify_init(const tacit_plan *plan, int agg_id, const u8 *verify_key, size_t reports, const u8 *nonces,
                       const u8 *public_shares, const u8 *input_shares, u8 *verifier_shares, u8 *seeds, u8 *out_shares,
                       u8 *flags)
{
    scratch s;
    const tacit_sizes *size = &plan->size;
    size_t input_size = agg_id ? SEED + size->seed : size->leader_share;
    if (scratch_new(&s, plan, 0))
        return TACIT_NO_MEMORY;
    for (size_t first = 0; first < reports; first += LANES) {
        verify_rows r = {rows_of(nonces, NONCE, first, reports),
                         rows_of(public_shares, size->public_share, first, reports),
                         rows_of(input_shares, input_size, first, reports),
                         rows_of(verifier_shares, size->verifier_share, first, reports),
                         rows_of(seeds, size->seed, first, reports),
                         rows_of(out_shares, size->out_share, first, reports)};
        lanes malformed, redo = verify_group(plan, &s, agg_id, verify_key, &r, &malformed);
        store_flags(flags, first, reports, redo, malformed, (lanes){0});
    }
    scratch_free(&s);
    return TACIT_OK;
}

static int decide(const tacit_plan *plan, size_t reports, const u8 *leader_shares, const u8 *helper_shares,
                  const u8 *seeds, u8 *messages, u8 *flags)
{
    scratch s;
    size_t proofs = plan->shape.proofs, elements = proofs * plan->verifier_len, stride = plan->size.verifier_share;
    if (scratch_new(&s, plan, 0))
        return TACIT_NO_MEMORY;
    lanes *left = s.out, *right = s.out + WORDS * elements;
    for (size_t first = 0; first < reports; first += LANES) {
        rows leader = rows_of(leader_shares, stride, first, reports);
        rows helper = rows_of(helper_shares, stride, first, reports);
        lanes bad_proof = {0}, bad_seed = {0};
        lanes bad_share = load_elements(left, leader, elements) | load_elements(right, helper, elements);
        for (size_t i = 0; i < elements; i += plan->verifier_len)
            bad_proof |= flp_decide(plan, left + WORDS * i, right + WORDS * i);
        if (plan->joint_len) {
            lanes parts[2][4], message[4], expected[4];
            load_words(parts[0], rows_skip(leader, stride - SEED), 4);
            load_words(parts[1], rows_skip(helper, stride - SEED), 4);
            load_words(expected, rows_of(seeds, SEED, first, reports), 4);
            joint_rand_seed(plan, parts[0], parts[1], message);
            for (int i = 0; i < 4; i++)
                bad_seed |= message[i] ^ expected[i];
            store_words(rows_of(messages, SEED, first, reports), message, 4);
        }
        store_flags(flags, first, reports, bad_share, bad_proof, lanes_nonzero(bad_seed));
    }
    scratch_free(&s);
    return TACIT_OK;
}

/* The bits of an integer in [0, maximum], as masks (the draft's range-check encoding). */
static lanes encode_integer(const bounded *integers, lanes value, lanes *bits)
{
    lanes excess = lanes_below((lanes){0} + integers->maximum, value);
    lanes rest = (lanes){0} + (integers->maximum - integers->last_weight), last = lanes_below(rest, value);
    value -= last & integers->last_weight;
    for (size_t k = 0; k + 1 < integers->bits; k++)
        bits[k] = -(value >> k & 1);
    bits[integers->bits - 1] = last;
    return excess;
}

/* The bits of values, noises and the sum of squares, which is below 2^63 if the values are in their range. */
static lanes encode_vector(const tacit_plan *plan, const scratch *s)
{
    size_t length = plan->shape.length;
    lanes excess = {0}, square = {0};
    for (size_t i = 0; i < length; i++) {
        lanes distance = s->values[i] - plan->shape.centre;
        square += distance * distance;
        excess |= encode_integer(&plan->value, s->values[i], s->bits + plan->value.bits * i);
        if (plan->noise.bits)
            excess |= encode_integer(&plan->noise, s->values[length + i],
                                     s->bits + plan->noise_at + plan->noise.bits * i);
    }
    return excess | encode_integer(&plan->square, square, s->bits + plan->square_at);
}

/* Measurements as masks, one per element; returns the lanes outside the circuit's domain. */
static lanes encode_measurements(const tacit_plan *plan, const scratch *s)
{
    size_t length = plan->shape.length;
    lanes excess = {0}, weight = {0};
    switch (plan->shape.circuit) {
    case TACIT_HISTOGRAM:
        for (size_t i = 0; i < length; i++)
            s->bits[i] = ~lanes_nonzero(s->values[0] ^ i);
        return ~lanes_below(s->values[0], (lanes){0} + length);
    case TACIT_MULTIHOT:
        for (size_t i = 0; i < length; i++) {
            s->bits[i] = -(s->values[i] & 1);
            weight += s->values[i] & 1;
            excess |= lanes_nonzero(s->values[i] >> 1);
        }
        return excess | encode_integer(&plan->value, weight, s->bits + length);
    case TACIT_L2_BOUND:
        return encode_vector(plan, s);
    default:
        for (size_t i = 0; i < length; i++)
            excess |= encode_integer(&plan->value, s->values[i], s->bits + plan->value.bits * i);
        return excess;
    }
}

static void subtract_share(const tacit_plan *plan, lanes *left, lanes *right, size_t count)
{
    for (size_t i = 0; i < WORDS * count; i += WORDS)
        element_store(left + i, element_canonical(element_sub(element_load(left + i), element_load(right + i))));
}

/* Joint randomness of a report from its rands: Helper seed, Helper blind, Leader blind, prover seed. */
static void shard_jointly(const tacit_plan *plan, const scratch *s, rows nonces, rows rands, rows public_shares,
                          rows leader_blind)
{
    lanes parts[2][4], words[4];
    joint_rand_part(plan, 1, rows_skip(rands, SEED), nonces, s->helper_meas, parts[1]);
    joint_rand_part(plan, 0, rows_skip(rands, 2 * SEED), nonces, s->meas, parts[0]);
    store_words(public_shares, parts[0], 4);
    store_words(rows_skip(public_shares, SEED), parts[1], 4);
    load_words(words, rows_skip(rands, 2 * SEED), 4);
    store_words(leader_blind, words, 4);
    joint_rand_seed(plan, parts[0], parts[1], words);
    expand_seeds(plan, USE_JOINT_RAND, words, s->joint, plan->shape.proofs * plan->joint_len);
    wipe(words, sizeof words);
}

static lanes shard_group(const tacit_plan *plan, const scratch *s, rows nonces, rows rands, rows public_shares,
                         rows leader)
{
    size_t proofs = plan->shape.proofs, share = proofs * plan->proof_len;
    lanes seed[4], redo;
    expand_helper(plan, rands, s->helper_meas, s->helper_proofs);
    redo = any_excess(s->helper_meas, plan->meas_len) | any_excess(s->helper_proofs, share);
    memset(s->meas, 0, plan->meas_len * WORDS * sizeof(lanes));
    for (size_t i = 0; i < plan->meas_len; i++)
        s->meas[WORDS * i] = s->bits[i] & 1;
    subtract_share(plan, s->meas, s->helper_meas, plan->meas_len);
    if (plan->joint_len)
        shard_jointly(plan, s, nonces, rands, public_shares, rows_skip(leader, plan->size.leader_share - SEED));
    redo |= any_excess(s->joint, proofs * plan->joint_len);
    load_words(seed, rows_skip(rands, plan->size.rand - SEED), 4);
    expand_seeds(plan, USE_PROVE, seed, s->draws, proofs * plan->arity);
    redo |= any_excess(s->draws, proofs * plan->arity);
    entries_of_values(plan, &s->flp, s->values);
    for (size_t i = 0; i < proofs; i++) {
        lanes *proof = s->proofs + WORDS * plan->proof_len * i;
        memcpy(proof, s->draws + WORDS * plan->arity * i, plan->arity * WORDS * sizeof(lanes));
        flp_prove(plan, &s->flp, s->bits, s->joint + WORDS * plan->joint_len * i, proof);
    }
    subtract_share(plan, s->proofs, s->helper_proofs, share);
    store_words(leader, s->meas, WORDS * plan->meas_len);
    store_words(rows_skip(leader, plan->element * plan->meas_len), s->proofs, WORDS * share);
    wipe(seed, sizeof seed);
    return redo;
}

static int shard(const tacit_plan *plan, size_t reports, const u8 *measurements, const u8 *nonces, const u8 *rands,
                 u8 *public_shares, u8 *leader_shares, u8 *flags)
{
    scratch s;
    const tacit_sizes *size = &plan->size;
    if (scratch_new(&s, plan, 1))
        return TACIT_NO_MEMORY;
    for (size_t first = 0; first < reports; first += LANES) {
        load_words(s.values, rows_of(measurements, size->measurement, first, reports), plan->values);
        lanes malformed = encode_measurements(plan, &s);
        lanes redo = shard_group(plan, &s, rows_of(nonces, NONCE, first, reports),
                                 rows_of(rands, size->rand, first, reports),
                                 rows_of(public_shares, size->public_share, first, reports),
                                 rows_of(leader_shares, size->leader_share, first, reports));
        store_flags(flags, first, reports, redo, malformed, (lanes){0});
    }
    scratch_free(&s);
    return TACIT_OK;
}

static u64 exercise(int primitive, u64 rounds)
{
    enum { WIDTH = 8 };
    lanes words[25];
    element x[WIDTH];
    sum_of_products sum;
    for (int i = 0; i < 25; i++)
        words[i] = (lanes){0} + (u64)i;
    for (int i = 0; i < WIDTH; i++)
        x[i] = element_load(words + WORDS * i);
    sum_clear(&sum);
    for (u64 i = 0; i < rounds; i++) {
        if (primitive == TACIT_KECCAK)
            keccak_p12(words);
        for (int k = 0; k < WIDTH && primitive == TACIT_MULTIPLY; k++)
            x[k] = element_mul(x[k], x[k]);
        for (int k = 0; k < WIDTH && primitive == TACIT_MULTIPLY_ADD; k++)
            sum_add_product(&sum, x[k], x[WIDTH - 1 - k]);
        if (i % (SUM_SPAN / WIDTH) == 0)
            sum_carry(&sum);
    }
    x[0] = element_add(x[0], sum_reduce(&sum));
    element_store(words, element_canonical(x[0]));
    __asm__ volatile("" : : "r"(words), "r"(x) : "memory");
    return rounds * (primitive == TACIT_KECCAK ? LANES : WIDTH * LANES);
}

#define PASTE(level, field) kernels_##level##_##field
#define NAME(level, field) PASTE(level, field)

extern const kernels NAME(TACIT_LEVEL, TACIT_FIELD);
const kernels NAME(TACIT_LEVEL, TACIT_FIELD) = {RADIX_BITS, verify_init, decide, shard, exercise};
