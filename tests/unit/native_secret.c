/* For memcheck: measurements and randomness count as uninitialised, so that every branch on them, and every address
 * made of them, is an error. With a second argument, branches on what a report holds, which must be found. */
#include <stdio.h>
#include <stdlib.h>
#include <valgrind/memcheck.h>

#include "tacit_native.h"

enum { REPORTS = 3 };

static const tacit_shape shapes[] = {
    {TACIT_COUNT, 64, 1, 1, 1, 1, 1, 0, 0, 0, 0},
    {TACIT_SUM, 64, 1, 2, 1, 200, 1, 0, 0, 0, 0},
    {TACIT_SUM_VEC, 128, 1, 3, 40, 9, 7, 0, 0, 0, 0},
    {TACIT_SUM_VEC, 64, 3, 3, 5, 6, 4, 0, 0, 0, 0},
    {TACIT_HISTOGRAM, 128, 1, 4, 70, 1, 9, 0, 0, 0, 0},
    {TACIT_HISTOGRAM, 128, 1, 4, 700, 1, 2, 0, 0, 0, 0},
    {TACIT_MULTIHOT, 128, 1, 5, 9, 3, 4, 0, 0, 0, 0},
    {TACIT_L2_BOUND, 128, 1, 6, 70, 14, 12, 9, 3, 7, 3000},
};

static int sharded(int level, const tacit_shape *shape, int control)
{
    static const uint8_t context[3];
    tacit_sizes size;
    tacit_plan *plan = tacit_plan_new(level, shape, context, sizeof context, &size);
    if (!plan)
        return 1;
    size_t values = REPORTS * size.measurement, rand = REPORTS * size.rand, leader = REPORTS * size.leader_share;
    size_t public = REPORTS * size.public_share;
    uint8_t nonces[16 * REPORTS] = {0}, flags[REPORTS];
    uint8_t *in = calloc(1, values), *rands = calloc(1, rand), *out = calloc(1, leader), *parts = calloc(1, public + 1);
    (void)VALGRIND_MAKE_MEM_UNDEFINED(in, values);
    (void)VALGRIND_MAKE_MEM_UNDEFINED(rands, rand);
    int status = tacit_shard(plan, REPORTS, in, values, nonces, sizeof nonces, rands, rand, parts, public, out, leader,
                             flags, REPORTS);
    if (control && out[0] & 1)
        puts("odd");
    free(in), free(rands), free(out), free(parts);
    tacit_plan_free(plan);
    return status;
}

int main(int count, char **arguments)
{
    int failed = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        failed |= sharded(count > 1 ? atoi(arguments[1]) : TACIT_LEVELS, &shapes[i], count > 2);
    return failed;
}
