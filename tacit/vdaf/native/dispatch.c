/* The exported functions: which kernels a processor runs, and the checks of every length before they run. */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

extern const kernels kernels_0_64, kernels_0_128;
#if defined(__x86_64__)
extern const kernels kernels_1_64, kernels_1_128, kernels_2_64, kernels_2_128, kernels_3_64, kernels_3_128;
static const kernels *const TABLE[TACIT_LEVELS][2] = {{&kernels_0_64, &kernels_0_128},
                                                      {&kernels_1_64, &kernels_1_128},
                                                      {&kernels_2_64, &kernels_2_128},
                                                      {&kernels_3_64, &kernels_3_128}};
#else
static const kernels *const TABLE[TACIT_LEVELS][2] = {{&kernels_0_64, &kernels_0_128}};
#endif

int level_is_usable(int level)
{
    if (level == TACIT_BASELINE)
        return 1;
#if defined(__x86_64__)
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
               __builtin_cpu_supports("fma");
    int avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (level == TACIT_AVX2)
        return avx2;
    if (level == TACIT_AVX512)
        return avx512;
    if (level == TACIT_IFMA)
        return avx512 && __builtin_cpu_supports("avx512ifma");
#endif
    return 0;
}

const kernels *kernels_of(int level, unsigned field_bits)
{
    return TABLE[level][field_bits == 128];
}

int tacit_best_level(void)
{
    int level = TACIT_LEVELS - 1;
    while (!level_is_usable(level))
        level--;
    return level;
}

/* Whether `buffer` holds exactly `reports` rows. An empty buffer may be NULL. */
static int holds(const void *buffer, size_t bytes, size_t reports, u64 row)
{
    size_t expected;
    if (__builtin_mul_overflow(reports, (size_t)row, &expected))
        return 0;
    return bytes == expected && (buffer || !bytes);
}

int tacit_verify_init(const tacit_plan *plan, int agg_id, const uint8_t *verify_key, size_t verify_key_len,
                      size_t reports, const uint8_t *nonces, size_t nonces_len, const uint8_t *public_shares,
                      size_t public_shares_len, const uint8_t *input_shares, size_t input_shares_len,
                      uint8_t *verifier_shares, size_t verifier_shares_len, uint8_t *seeds, size_t seeds_len,
                      uint8_t *out_shares, size_t out_shares_len, uint8_t *flags, size_t flags_len)
{
    if (!plan || (agg_id != 0 && agg_id != 1) || !holds(verify_key, verify_key_len, 1, SEED))
        return TACIT_BAD_ARGUMENT;
    const tacit_sizes *size = &plan->size;
    if (!holds(nonces, nonces_len, reports, NONCE) ||
        !holds(public_shares, public_shares_len, reports, size->public_share) ||
        !holds(input_shares, input_shares_len, reports, agg_id ? SEED + size->seed : size->leader_share) ||
        !holds(verifier_shares, verifier_shares_len, reports, size->verifier_share) ||
        !holds(seeds, seeds_len, reports, size->seed) ||
        !holds(out_shares, out_shares_len, reports, size->out_share) || !holds(flags, flags_len, reports, 1))
        return TACIT_BAD_ARGUMENT;
    return plan->run->verify_init(plan, agg_id, verify_key, reports, nonces, public_shares, input_shares,
                                  verifier_shares, seeds, out_shares, flags);
}

int tacit_decide(const tacit_plan *plan, size_t reports, const uint8_t *leader_shares, size_t leader_shares_len,
                 const uint8_t *helper_shares, size_t helper_shares_len, const uint8_t *seeds, size_t seeds_len,
                 uint8_t *messages, size_t messages_len, uint8_t *flags, size_t flags_len)
{
    if (!plan)
        return TACIT_BAD_ARGUMENT;
    const tacit_sizes *size = &plan->size;
    if (!holds(leader_shares, leader_shares_len, reports, size->verifier_share) ||
        !holds(helper_shares, helper_shares_len, reports, size->verifier_share) ||
        !holds(seeds, seeds_len, reports, size->seed) || !holds(messages, messages_len, reports, size->seed) ||
        !holds(flags, flags_len, reports, 1))
        return TACIT_BAD_ARGUMENT;
    return plan->run->decide(plan, reports, leader_shares, helper_shares, seeds, messages, flags);
}

int tacit_shard(const tacit_plan *plan, size_t reports, const uint8_t *measurements, size_t measurements_len,
                const uint8_t *nonces, size_t nonces_len, const uint8_t *rands, size_t rands_len,
                uint8_t *public_shares, size_t public_shares_len, uint8_t *leader_shares, size_t leader_shares_len,
                uint8_t *flags, size_t flags_len)
{
    if (!plan)
        return TACIT_BAD_ARGUMENT;
    const tacit_sizes *size = &plan->size;
    if (!holds(measurements, measurements_len, reports, size->measurement) ||
        !holds(nonces, nonces_len, reports, NONCE) || !holds(rands, rands_len, reports, size->rand) ||
        !holds(public_shares, public_shares_len, reports, size->public_share) ||
        !holds(leader_shares, leader_shares_len, reports, size->leader_share) || !holds(flags, flags_len, reports, 1))
        return TACIT_BAD_ARGUMENT;
    return plan->run->shard(plan, reports, measurements, nonces, rands, public_shares, leader_shares, flags);
}

/* Adds the two halves of every word separately, so that nothing overflows below 2^32 reports. */
static void add_halves(u64 *low, u64 *high, const uint8_t *row, size_t words, u64 mask)
{
    for (size_t i = 0; i < words; i++) {
        u64 word;
        memcpy(&word, row + 8 * i, 8);
        word &= mask;
        low[i] += word & 0xFFFFFFFFu;
        high[i] += word >> 32;
    }
}

static u128 mask_of(u64 condition)
{
    __asm__("" : "+r"(condition)); /* keeps the compiler from making it a branch */
    return (u128)-condition << 64 | -condition;
}

/* The sum of low[k] + high[k] * 2^32, times 2^(64 k), modulo p = 2^bits - complement. Every half is below 2^63. */
static u128 fold(const u64 *low, const u64 *high, unsigned bits, u128 modulus)
{
    u128 complement = bits == 64 ? (u64)-(u64)modulus : -modulus, rest, top;
    rest = low[0] + ((u128)high[0] << 32);
    top = rest >> 64;
    rest = (u64)rest;
    if (bits == 128) {
        u128 next = top + low[1] + ((u128)high[1] << 32);
        rest |= next << 64;
        top = next >> 64;
    }
    rest -= modulus & mask_of(rest >= modulus);
    u128 sum = rest + top * complement, less = sum - modulus, mask = mask_of(sum < rest) | mask_of(sum >= modulus);
    return (sum & ~mask) | (less & mask);
}

int tacit_aggregate(const tacit_plan *plan, size_t reports, const uint8_t *out_shares, size_t out_shares_len,
                    const uint8_t *accepted, size_t accepted_len, uint8_t *aggregate, size_t aggregate_len)
{
    if (!plan || reports >> 31)
        return TACIT_BAD_ARGUMENT;
    size_t row = plan->size.out_share, words = row / 8, per_element = plan->element / 8;
    u128 modulus = modulus_of(plan->shape.field_bits);
    if (!holds(out_shares, out_shares_len, reports, row) || !holds(accepted, accepted_len, reports, 1) ||
        !holds(aggregate, aggregate_len, 1, row))
        return TACIT_BAD_ARGUMENT;
    u64 *low = calloc(2 * words, sizeof *low), *high = low + words;
    if (!low)
        return TACIT_NO_MEMORY;
    for (size_t i = 0; i < reports; i++)
        add_halves(low, high, out_shares + row * i, words, -(u64)(accepted[i] & 1));
    for (size_t i = 0; i < words; i += per_element) {
        u128 sum = fold(low + i, high + i, plan->shape.field_bits, modulus);
        memcpy(aggregate + 8 * i, &sum, plan->element);
    }
    memset(low, 0, 2 * words * sizeof *low);
    __asm__ volatile("" : : "r"(low) : "memory");
    free(low);
    return TACIT_OK;
}

uint64_t tacit_exercise(int level, uint32_t field_bits, int primitive, uint64_t rounds)
{
    if (level < 0 || level >= TACIT_LEVELS || !level_is_usable(level) || (field_bits != 64 && field_bits != 128) ||
        primitive < TACIT_KECCAK || primitive > TACIT_MULTIPLY_ADD)
        return 0;
    return kernels_of(level, field_bits)->exercise(primitive, rounds);
}
