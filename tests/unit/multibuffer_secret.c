/* For memcheck: a secret counts as uninitialised, so that every branch on it, and every address made of it, is an
 * error. With a second argument, branches on the secret itself, which must be found. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/memcheck.h>

#include "multibuffer.h"

enum { COUNT = 11 };

static uint8_t secret[32], scalars[32 * COUNT], points[32 * COUNT], encs[32 * COUNT], shared[32 * COUNT];
static uint8_t keys[32 * COUNT], nonces[12 * COUNT], exporters[32 * COUNT], flags[COUNT];
static uint8_t public_key[32] = {9}, suite[10], context[65];

int main(int count, char **arguments)
{
    int level = count > 1 ? atoi(arguments[1]) : TACIT_LEVELS;
    for (size_t i = 0; i < sizeof points; i++)
        points[i] = (uint8_t)(37 * i + 5), scalars[i] = (uint8_t)(51 * i + 3);
    memset(points + 64, 0, 32);
    (void)VALGRIND_MAKE_MEM_UNDEFINED(secret, sizeof secret);
    (void)VALGRIND_MAKE_MEM_UNDEFINED(scalars, sizeof scalars);
    if (count > 2)
        return secret[3] & 1 ? puts("odd") : 0;
    int failed = 0;
    for (size_t size = 16; size <= 32; size += 16) {
        failed |= tacit_hpke_open(level, secret, 32, public_key, 32, suite, 10, context, 65, size, COUNT, points,
                                  sizeof points, keys, size * COUNT, nonces, sizeof nonces, exporters,
                                  size == 16 ? 0 : sizeof exporters, flags, sizeof flags);
        failed |= tacit_hpke_seal(level, public_key, 32, suite, 10, context, 65, size, COUNT, scalars, sizeof scalars,
                                  encs, sizeof encs, keys, size * COUNT, nonces, sizeof nonces, flags, sizeof flags);
    }
    failed |= tacit_x25519(level, COUNT, scalars, sizeof scalars, points, sizeof points, shared, sizeof shared, flags,
                           sizeof flags);
    return failed;
}
