/* Runs every function on batches of many sizes in buffers of exactly the right size, for sanitizers; then checks that
 * wrong lengths are refused. Prints "ok", or "absent" if the processor does not run the kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "multibuffer.h"

static int level; /* the instruction set */
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

static void exercise_rsa(size_t n)
{
    uint8_t *modulus = fresh(256, 1), *r_squared = fresh(256, 1), *signatures = fresh(256 * n, 1);
    uint8_t *hashes = fresh(48 * n, 1), *verdicts = fresh(n, 1);
    modulus[0] |= 0x80;
    modulus[255] |= 1;
    r_squared[0] = 0;
    if (n > 1)
        memcpy(signatures + 256, modulus, 256);
#define VERIFY(size, count) \
    tacit_rsa_verify(level, modulus, size, r_squared, 256, count, signatures, 256 * n, hashes, 48 * n, verdicts, n)
    int status = VERIFY(256, n);
    require(status == TACIT_OK, "rsa");
    for (size_t i = 0; i < n; i++)
        require(verdicts[i] == 0, "a random signature was accepted");
    status = VERIFY(256, n + 1);
    require(status == TACIT_BAD_ARGUMENT, "rsa: count");
    status = VERIFY(255, n);
    require(status == TACIT_BAD_ARGUMENT, "rsa: modulus");
    modulus[255] ^= 1;
    status = VERIFY(256, n);
    require(status == TACIT_BAD_ARGUMENT, "rsa: an even modulus");
    free(modulus), free(r_squared), free(signatures), free(hashes), free(verdicts);
}

static void exercise_hpke(size_t n, size_t key_size)
{
    uint8_t *private_key = fresh(32, 1), *public_key = fresh(32, 0), *nine = fresh(32, 0), *flag = fresh(1, 0);
    uint8_t *suite = fresh(10, 1), *context = fresh(65, 1), *scalars = fresh(32 * n, 1), *encs = fresh(32 * n, 0);
    uint8_t *keys = fresh(key_size * n, 0), *nonces = fresh(12 * n, 0), *exporters = fresh(32 * n, 0);
    uint8_t *again = fresh(key_size * n, 0), *nonces_again = fresh(12 * n, 0), *flags = fresh(n, 1);
    nine[0] = 9;
    int status = tacit_x25519(level, 1, private_key, 32, nine, 32, public_key, 32, flag, 1);
    require(status == TACIT_OK && !*flag, "x25519");
#define SETUP public_key, 32, suite, 10, context, 65, key_size
#define SEALED keys, key_size *n, nonces, 12 * n, flags, n
    require(tacit_hpke_seal(level, SETUP, n, scalars, 32 * n, encs, 32 * n, SEALED) == TACIT_OK, "seal");
#define OPEN(size, key_length, length) \
    tacit_hpke_open(level, private_key, key_length, SETUP, n, encs, length, OPENED(size))
#define OPENED(size) again, key_size *n, nonces_again, 12 * n, exporters, size, flags, n
    require(OPEN(0, 32, 32 * n) == TACIT_OK, "open");
    require(!memcmp(keys, again, key_size * n) && !memcmp(nonces, nonces_again, 12 * n), "the two sides differ");
    require(OPEN(32 * n, 32, 32 * n) == TACIT_OK, "export");
    for (size_t i = 0; i < n; i++)
        require(!flags[i], "a point was taken for one of low order");
    if (n)
        memset(encs, 0, 32);
    require(OPEN(0, 32, 32 * n) == TACIT_OK, "open again");
    for (size_t i = 0; i < n; i++)
        require(flags[i] == !i, "flags");
    require(OPEN(0, 31, 32 * n) == TACIT_BAD_ARGUMENT, "open: key");
    require(OPEN(0, 32, 32 * n + 1) == TACIT_BAD_ARGUMENT, "encs");
    require(tacit_hpke_seal(level, SETUP, n + 1, scalars, 32 * n, encs, 32 * n, SEALED) == TACIT_BAD_ARGUMENT, "seal");
    status = tacit_x25519(level, n, scalars, 32 * n, encs, 32 * n, encs, 32 * n + 1, flags, n);
    require(status == TACIT_BAD_ARGUMENT, "out");
    free(private_key), free(public_key), free(nine), free(flag), free(suite), free(context), free(scalars), free(encs);
    free(keys), free(nonces), free(exporters), free(again), free(nonces_again), free(flags);
}

int main(int count, char **arguments)
{
    level = count == 2 ? atoi(arguments[1]) : TACIT_LEVELS;
    if (!tacit_multibuffer_usable(level)) {
        puts("absent");
        return 0;
    }
    for (size_t n = 0; n <= 18; n++)
        exercise_rsa(n);
    for (size_t n = 0; n <= 139; n += n < 18 ? 1 : 11)
        exercise_hpke(n, n % 2 ? 16 : 32);
    puts("ok");
    return 0;
}
