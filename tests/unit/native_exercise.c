/* Runs every kernel of every level on batches of 1 to 9 reports in buffers of exactly the right size, for sanitizers:
 * shard, verify_init twice, decide, aggregate; then random input shares; then wrong lengths, which must be refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tacit_native.h"

static uint64_t state = 88172645463325252u;

static uint8_t *fresh(size_t size, int random)
{
    uint8_t *bytes = malloc(size ? size : 1);
    for (size_t i = 0; i < size; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        bytes[i] = random ? (uint8_t)(state >> 32) : 0;
    }
    return bytes;
}

static void require(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

static int accepted(const uint8_t *flags, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (flags[i])
            return 0;
    return 1;
}

static void run(int level, const tacit_shape *shape, size_t n)
{
    uint8_t context[38] = {0}, key[32] = {1};
    tacit_sizes z;
    tacit_plan *plan = tacit_plan_new(level, shape, context, sizeof context, &z);
    require(plan != NULL, "no plan");
    size_t helper_size = 32 + z.seed;
    uint8_t *nonces = fresh(16 * n, 1), *rands = fresh(z.rand * n, 1), *values = fresh(z.measurement * n, 0);
    uint8_t *public_shares = fresh(z.public_share * n, 0), *leader = fresh(z.leader_share * n, 0);
    uint8_t *helper = fresh(helper_size * n, 0), *out = fresh(z.out_share * n, 0), *sum = fresh(z.out_share, 0);
    uint8_t *first = fresh(z.verifier_share * n, 0), *second = fresh(z.verifier_share * n, 0);
    uint8_t *seeds = fresh(z.seed * n, 0), *messages = fresh(z.seed * n, 0), *flags = fresh(n, 0), *ones = fresh(n, 0);
    memset(ones, 1, n);
#define ROWS(buffer, size) buffer, (size) * n
#define VERIFY(agg_id, input, size, output)                                                                      \
    tacit_verify_init(plan, agg_id, key, 32, n, ROWS(nonces, 16), ROWS(public_shares, z.public_share), ROWS(input, size), \
                      ROWS(output, z.verifier_share), ROWS(seeds, z.seed), ROWS(out, z.out_share), ROWS(flags, 1))
    require(!tacit_shard(plan, n, ROWS(values, z.measurement), ROWS(nonces, 16), ROWS(rands, z.rand),
                         ROWS(public_shares, z.public_share), ROWS(leader, z.leader_share), ROWS(flags, 1)),
            "shard");
    require(accepted(flags, n), "shard flags");
    for (size_t i = 0; i < n; i++)
        memcpy(helper + helper_size * i, rands + z.rand * i, helper_size);
    require(!VERIFY(0, leader, z.leader_share, first) && accepted(flags, n), "leader");
    require(!VERIFY(1, helper, helper_size, second) && accepted(flags, n), "helper");
    require(!tacit_decide(plan, n, ROWS(first, z.verifier_share), ROWS(second, z.verifier_share), ROWS(seeds, z.seed),
                          ROWS(messages, z.seed), ROWS(flags, 1)),
            "decide");
    require(accepted(flags, n), "a proof does not hold");
    require(!tacit_aggregate(plan, n, ROWS(out, z.out_share), ROWS(ones, 1), sum, z.out_share), "aggregate");
    uint8_t *noise = fresh(z.leader_share * n, 1);
    require(!VERIFY(0, noise, z.leader_share, first), "random shares");
    require(VERIFY(0, noise, z.leader_share - 1, first) == TACIT_BAD_ARGUMENT, "a short share was accepted");
    require(VERIFY(2, noise, z.leader_share, first) == TACIT_BAD_ARGUMENT, "a third aggregator was accepted");
    uint8_t *all[] = {nonces, rands, values, public_shares, leader, helper, out,  sum,
                      first,  second, seeds, messages,      flags,  ones,   noise};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    tacit_plan_free(plan);
}

int main(void)
{
    const tacit_shape shapes[] = {
        {TACIT_COUNT, 64, 1, 1, 1, 1, 1},       {TACIT_SUM, 64, 1, 2, 1, 255, 1},
        {TACIT_SUM, 64, 1, 2, 1, 1, 1},         {TACIT_SUM_VEC, 128, 1, 3, 11, 9, 7},
        {TACIT_SUM_VEC, 64, 3, 3, 5, 6, 4},     {TACIT_HISTOGRAM, 128, 1, 4, 33, 1, 5},
        {TACIT_HISTOGRAM, 128, 1, 4, 1, 1, 1},  {TACIT_HISTOGRAM, 128, 1, 4, 3, 1, 9},
        {TACIT_MULTIHOT, 128, 1, 5, 13, 3, 4},  {TACIT_HISTOGRAM, 128, 1, 4, 70, 1, 1},
        {TACIT_HISTOGRAM, 128, 1, 4, 3000, 1, 1}, {TACIT_SUM, 128, 1, 2, 1, 255, 1},
    };
    const tacit_shape refused[] = {
        {0, 64, 1, 1, 1, 1, 1},          {TACIT_COUNT, 32, 1, 1, 1, 1, 1},
        {TACIT_SUM_VEC, 64, 1, 3, 5, 6, 4}, {TACIT_HISTOGRAM, 128, 1, 4, (uint64_t)1 << 62, 1, 5},
        {TACIT_HISTOGRAM, 128, 0, 4, 5, 1, 5}, {TACIT_HISTOGRAM, 128, 1, 4, 5, 1, 0},
        {TACIT_MULTIHOT, 128, 1, 5, 3, 4, 1},  {TACIT_SUM_VEC, 128, 255, 3, 60000, 1, 60000},
    };
    tacit_sizes sizes;
    int levels = tacit_best_level() + 1;
    for (int level = 0; level < levels; level++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (size_t n = shapes[i].length > 1000 ? 9 : 1; n <= 9; n++)
                run(level, &shapes[i], n);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        require(!tacit_plan_new(0, &refused[i], NULL, 0, &sizes), "a shape was not refused");
    require(!tacit_plan_new(levels, &shapes[0], NULL, 0, &sizes), "an unknown level was not refused");
    printf("%d levels ok\n", levels);
    return 0;
}
