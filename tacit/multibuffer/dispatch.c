/* The exported functions: whether the processor runs the kernels, and the checks of every length before they run. */
#include "multibuffer.h"

#include "kernels.h"

static const kernels *const TABLE[TACIT_LEVELS] = {&kernels_avx2, &kernels_ifma};

int tacit_multibuffer_usable(int level)
{
    if (level != TACIT_AVX2 && level != TACIT_IFMA)
        return 0;
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
               __builtin_cpu_supports("fma");
    return level == TACIT_AVX2 ? avx2
                               : avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                                     __builtin_cpu_supports("avx512ifma");
}

/* Whether `buffer` holds exactly `count` rows. An empty buffer may be NULL. */
static int holds(const void *buffer, size_t bytes, size_t count, size_t row)
{
    size_t expected;
    if (__builtin_mul_overflow(count, row, &expected))
        return 0;
    return bytes == expected && (buffer || !bytes);
}

int tacit_rsa_verify(int level, const uint8_t *modulus, size_t modulus_len, const uint8_t *r_squared,
                     size_t r_squared_len, size_t count, const uint8_t *signatures, size_t signatures_len,
                     const uint8_t *hashes, size_t hashes_len, uint8_t *verdicts, size_t verdicts_len)
{
    if (!tacit_multibuffer_usable(level) || !holds(modulus, modulus_len, 1, RSA_BYTES) ||
        !holds(r_squared, r_squared_len, 1, RSA_BYTES) || !holds(signatures, signatures_len, count, RSA_BYTES) ||
        !holds(hashes, hashes_len, count, HASH_BYTES) || !holds(verdicts, verdicts_len, count, 1))
        return TACIT_BAD_ARGUMENT;
    if (!(modulus[0] >> 7) || !(modulus[RSA_BYTES - 1] & 1))
        return TACIT_BAD_ARGUMENT;
    TABLE[level]->rsa_verify(modulus, r_squared, count, signatures, hashes, verdicts);
    return TACIT_OK;
}

int tacit_x25519(int level, size_t count, const uint8_t *scalars, size_t scalars_len, const uint8_t *points,
                 size_t points_len, uint8_t *out, size_t out_len, uint8_t *flags, size_t flags_len)
{
    if (!tacit_multibuffer_usable(level) || !holds(scalars, scalars_len, count, POINT_BYTES) ||
        !holds(points, points_len, count, POINT_BYTES) || !holds(out, out_len, count, POINT_BYTES) ||
        !holds(flags, flags_len, count, 1))
        return TACIT_BAD_ARGUMENT;
    TABLE[level]->x25519(count, scalars, points, out, flags);
    return TACIT_OK;
}

static int holds_setup(size_t public_key_len, size_t suite_len, size_t context_len, const hpke_setup *setup)
{
    return holds(setup->recipient, public_key_len, 1, POINT_BYTES) && holds(setup->suite, suite_len, 1, SUITE_BYTES) &&
           holds(setup->context, context_len, 1, CONTEXT_BYTES) &&
           (setup->key_size == MAX_KEY_BYTES / 2 || setup->key_size == MAX_KEY_BYTES);
}

int tacit_hpke_open(int level, const uint8_t *private_key, size_t private_key_len, const uint8_t *public_key,
                    size_t public_key_len, const uint8_t *suite, size_t suite_len, const uint8_t *context,
                    size_t context_len, size_t key_size, size_t count, const uint8_t *encs, size_t encs_len,
                    uint8_t *keys, size_t keys_len, uint8_t *nonces, size_t nonces_len, uint8_t *exporters,
                    size_t exporters_len, uint8_t *flags, size_t flags_len)
{
    const hpke_setup setup = {public_key, suite, context, key_size};
    if (!tacit_multibuffer_usable(level) || !holds_setup(public_key_len, suite_len, context_len, &setup) ||
        !holds(private_key, private_key_len, 1, POINT_BYTES) || !holds(encs, encs_len, count, POINT_BYTES) ||
        !holds(keys, keys_len, count, key_size) || !holds(nonces, nonces_len, count, NONCE_BYTES) ||
        (exporters_len && !holds(exporters, exporters_len, count, EXPORTER_BYTES)) ||
        !holds(flags, flags_len, count, 1))
        return TACIT_BAD_ARGUMENT;
    TABLE[level]->hpke_open(&setup, private_key, count, encs, keys, nonces, exporters_len ? exporters : NULL, flags);
    return TACIT_OK;
}

int tacit_hpke_seal(int level, const uint8_t *public_key, size_t public_key_len, const uint8_t *suite, size_t suite_len,
                    const uint8_t *context, size_t context_len, size_t key_size, size_t count, const uint8_t *scalars,
                    size_t scalars_len, uint8_t *encs, size_t encs_len, uint8_t *keys, size_t keys_len, uint8_t *nonces,
                    size_t nonces_len, uint8_t *flags, size_t flags_len)
{
    const hpke_setup setup = {public_key, suite, context, key_size};
    if (!tacit_multibuffer_usable(level) || !holds_setup(public_key_len, suite_len, context_len, &setup) ||
        !holds(scalars, scalars_len, count, POINT_BYTES) || !holds(encs, encs_len, count, POINT_BYTES) ||
        !holds(keys, keys_len, count, key_size) || !holds(nonces, nonces_len, count, NONCE_BYTES) ||
        !holds(flags, flags_len, count, 1))
        return TACIT_BAD_ARGUMENT;
    TABLE[level]->hpke_seal(&setup, count, scalars, encs, keys, nonces, flags);
    return TACIT_OK;
}
