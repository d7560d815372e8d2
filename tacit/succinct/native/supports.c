/* Walsh spectra of the number of reports that support each item (tacit.succinct.supports has the theory).
 *
 * Every function checks its arguments and returns 0, or 1 for an argument out of range; nothing is written then.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "popcnt", "default")))
#else
#define CLONES
#endif

enum { MAX_HASH_BITS = 8, LANES = 64, MAX_FREE_BITS = 20 };

static inline uint64_t splitmix(uint64_t seed, uint64_t at)
{
    uint64_t word = seed + at * 0x9E3779B97F4A7C15u;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    return word ^ (word >> 31);
}

/* For each lane t, bit t of the result is the parity of `row` and the lane's prefix, which is given bit-sliced: bit t
 * of columns[j] is bit j of lane t's prefix. */
static inline uint64_t parities(uint64_t row, const uint64_t *columns, unsigned prefix_bits)
{
    uint64_t found = 0;
    for (unsigned j = 0; j < prefix_bits; j++)
        found ^= columns[j] & -((row >> j) & 1);
    return found;
}

/* Adds every report to `spectrum`, an array of 2^free_bits rows of `lanes` numbers (1 or 64), the spectrum of lane t
 * in column t. Subsets of the rows of A are visited in the order of a Gray code, so that one step is one exclusive
 * or for the position and one for the signs of all lanes. */
CLONES EXPORT int succinct_add(const uint64_t *seeds, const uint8_t *values, size_t reports, unsigned hash_bits,
                               const uint64_t *columns, unsigned prefix_bits, unsigned free_bits, unsigned lanes,
                               int32_t *spectrum)
{
    if (!hash_bits || hash_bits > MAX_HASH_BITS || free_bits > MAX_FREE_BITS || prefix_bits + free_bits > 64 ||
        (lanes != 1 && lanes != LANES))
        return 1;
    const uint64_t mask = ((uint64_t)1 << free_bits) - 1;
    for (size_t i = 0; i < reports; i++) {
        uint64_t positions[MAX_HASH_BITS], signs[MAX_HASH_BITS];
        const uint64_t shift = splitmix(seeds[i], hash_bits + 1) ^ values[i];
        for (unsigned j = 0; j < hash_bits; j++) {
            const uint64_t row = splitmix(seeds[i], j + 1);
            positions[j] = row & mask;
            signs[j] = parities(free_bits < 64 ? row >> free_bits : 0, columns, prefix_bits) ^ -((shift >> j) & 1);
        }
        uint64_t position = 0, sign = 0;
        for (unsigned step = 1; step < 1u << hash_bits; step++) {
            const unsigned j = (unsigned)__builtin_ctz(step);
            position ^= positions[j];
            sign ^= signs[j];
            int32_t *row = spectrum + position * lanes;
            if (lanes == 1)
                row[0] += 1 - 2 * (int32_t)(sign & 1);
            else
                for (unsigned t = 0; t < LANES; t++)
                    row[t] += 1 - 2 * (int32_t)((sign >> t) & 1);
        }
    }
    return 0;
}

/* Transforms the columns in place and writes the number of supports of every string s of lane t to
 * supports[t * 2^free_bits + s], for the first `chosen` lanes. The empty subset of rows adds one for each report. */
CLONES EXPORT int succinct_finish(int32_t *spectrum, unsigned free_bits, unsigned lanes, unsigned chosen,
                                  size_t reports, unsigned hash_bits, int32_t *supports)
{
    if (free_bits > MAX_FREE_BITS || (lanes != 1 && lanes != LANES) || chosen > lanes || !hash_bits ||
        hash_bits > MAX_HASH_BITS || reports >> (31 - hash_bits))
        return 1;
    const size_t rows = (size_t)1 << free_bits;
    for (size_t half = 1; half < rows; half *= 2)
        for (size_t block = 0; block < rows; block += 2 * half) {
            int32_t *low = spectrum + block * lanes, *high = low + half * lanes;
            for (size_t at = 0; at < half * lanes; at++) {
                const int32_t a = low[at], b = high[at];
                low[at] = a + b;
                high[at] = a - b;
            }
        }
    for (size_t s = 0; s < rows; s++)
        for (unsigned t = 0; t < chosen; t++)
            supports[t * rows + s] = (int32_t)(((int64_t)spectrum[s * lanes + t] + (int64_t)reports) >> hash_bits);
    return 0;
}
