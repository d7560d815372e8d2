/* Runs the native libraries for a test on another kind of processor: reads calls from stdin, writes results to stdout.
 *
 * A call is: u32 function, u32 count of numbers, u32 count of buffers; the numbers, u64 each; for each buffer its length,
 * u64, and its bytes. The answer is the function's result, u64, and every buffer's bytes. Little-endian.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tacit_native.h"

int succinct_add(const uint64_t *seeds, const uint8_t *values, size_t reports, unsigned hash_bits,
                 const uint64_t *columns, unsigned prefix_bits, unsigned free_bits, unsigned lanes, int32_t *spectrum);
int succinct_finish(int32_t *spectrum, unsigned free_bits, unsigned lanes, unsigned chosen, size_t reports,
                    unsigned hash_bits, int32_t *supports);

enum { MOST = 16 };

static void take(void *to, size_t bytes)
{
    if (fread(to, 1, bytes, stdin) != bytes)
        exit(feof(stdin) ? 0 : 1);
}

static uint64_t call(unsigned function, const uint64_t *n, uint8_t **b, const uint64_t *l)
{
    tacit_plan *plan = (tacit_plan *)(uintptr_t)n[0];
    switch (function) {
    case 0:
        return (uint64_t)tacit_best_level();
    case 1:
        return (uint64_t)(uintptr_t)tacit_plan_new((int)n[0], (tacit_shape *)b[0], b[1], l[1], (tacit_sizes *)b[2]);
    case 2:
        tacit_plan_free(plan);
        return 0;
    case 3:
        return (uint64_t)tacit_verify_init(plan, (int)n[1], b[0], l[0], n[2], b[1], l[1], b[2], l[2], b[3], l[3], b[4],
                                           l[4], b[5], l[5], b[6], l[6], b[7], l[7]);
    case 4:
        return (uint64_t)tacit_decide(plan, n[1], b[0], l[0], b[1], l[1], b[2], l[2], b[3], l[3], b[4], l[4]);
    case 5:
        return (uint64_t)tacit_aggregate(plan, n[1], b[0], l[0], b[1], l[1], b[2], l[2]);
    case 6:
        return (uint64_t)tacit_shard(plan, n[1], b[0], l[0], b[1], l[1], b[2], l[2], b[3], l[3], b[4], l[4], b[5], l[5]);
    case 7:
        return (uint64_t)succinct_add((uint64_t *)b[0], b[1], n[0], (unsigned)n[1], (uint64_t *)b[2], (unsigned)n[2],
                                      (unsigned)n[3], (unsigned)n[4], (int32_t *)b[3]);
    case 8:
        return (uint64_t)succinct_finish((int32_t *)b[0], (unsigned)n[0], (unsigned)n[1], (unsigned)n[2], n[3],
                                         (unsigned)n[4], (int32_t *)b[1]);
    default:
        exit(1);
    }
}

int main(void)
{
    for (;;) {
        uint32_t head[3];
        uint64_t numbers[MOST] = {0}, lengths[MOST] = {0};
        uint8_t *buffers[MOST] = {0};
        take(head, sizeof head);
        if (head[1] > MOST || head[2] > MOST)
            return 1;
        take(numbers, 8 * head[1]);
        for (unsigned i = 0; i < head[2]; i++) {
            take(&lengths[i], 8);
            buffers[i] = malloc(lengths[i] + 1);
            if (!buffers[i])
                return 1;
            take(buffers[i], lengths[i]);
        }
        uint64_t result = call(head[0], numbers, buffers, lengths);
        fwrite(&result, 8, 1, stdout);
        for (unsigned i = 0; i < head[2]; i++) {
            fwrite(buffers[i], 1, lengths[i], stdout);
            free(buffers[i]);
        }
        fflush(stdout);
    }
}
