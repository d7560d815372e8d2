/* The exported functions: whether the processor runs the kernels, and the checks of every length before they run. */
#include "multibuffer.h"

#include "kernels.h"

int tacit_multibuffer_usable(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512ifma");
}

/* Whether `buffer` holds exactly `count` rows. An empty buffer may be NULL. */
static int holds(const void *buffer, size_t bytes, size_t count, size_t row)
{
    size_t expected;
    if (__builtin_mul_overflow(count, row, &expected))
        return 0;
    return bytes == expected && (buffer || !bytes);
}

int tacit_rsa_verify(const uint8_t *modulus, size_t modulus_len, const uint8_t *r_squared, size_t r_squared_len,
                     size_t count, const uint8_t *signatures, size_t signatures_len, const uint8_t *hashes,
                     size_t hashes_len, uint8_t *verdicts, size_t verdicts_len)
{
    if (!tacit_multibuffer_usable() || !holds(modulus, modulus_len, 1, RSA_BYTES) ||
        !holds(r_squared, r_squared_len, 1, RSA_BYTES) || !holds(signatures, signatures_len, count, RSA_BYTES) ||
        !holds(hashes, hashes_len, count, HASH_BYTES) || !holds(verdicts, verdicts_len, count, 1))
        return TACIT_BAD_ARGUMENT;
    if (!(modulus[0] >> 7) || !(modulus[RSA_BYTES - 1] & 1))
        return TACIT_BAD_ARGUMENT;
    rsa_verify(modulus, r_squared, count, signatures, hashes, verdicts);
    return TACIT_OK;
}
