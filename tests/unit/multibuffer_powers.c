/* Exposes the internals of rsa.c to a test: returns the power of each value modulo N, as 256 bytes, big endian. */
#include "rsa.c"

__attribute__((visibility("default"))) void powers(const u8 *number, const u8 *r_squared, size_t count,
                                                   const u8 *values, u8 *results)
{
    modulus n;
    set_modulus(&n, number, r_squared);
    for (size_t first = 0; first < count; first += LANES) {
        size_t rows = count - first < LANES ? count - first : LANES;
        lanes words[WORDS];
        for (int i = 0; i < WORDS; i++)
            words[i] = swap_bytes(load(values + RSA_BYTES * first + 8 * i, offsets(RSA_BYTES, rows)));
        recover(words, &n);
        for (int i = 0; i < WORDS; i++) {
            u64 lane[LANES];
            words[i] = swap_bytes(words[i]);
            memcpy(lane, &words[i], sizeof lane);
            for (size_t row = 0; row < rows; row++)
                memcpy(results + RSA_BYTES * (first + row) + 8 * i, &lane[row], 8);
        }
    }
}
