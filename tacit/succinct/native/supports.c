/* Walsh spectra of the number of reports that support each item (tacit.succinct.supports has the theory).
 *
 * Every function checks its arguments and returns 0, or another number for an argument out of range; nothing is written
 * then.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif

enum { MAX_HASH_BITS = 8, MAX_BITS = 512, WORD = 64, LANES = 64, MAX_FREE_BITS = 20, BLOCK = 512, LINE = 16 };

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

/* The same for row `j` of the hash function of `seed` and items of several words, the lowest of which ends with
 * `free_bits` bits that belong to no prefix. Word w of a row is word w (hash_bits + 1) + j + 1 of the seed. */
static inline uint64_t row_parities(uint64_t seed, unsigned j, unsigned hash_bits, const uint64_t *columns,
                                    unsigned prefix_bits, unsigned free_bits)
{
    const unsigned first = WORD - free_bits < prefix_bits ? WORD - free_bits : prefix_bits;
    uint64_t found = parities(splitmix(seed, j + 1) >> free_bits, columns, first);
    for (unsigned at = first, w = 1; at < prefix_bits; at += WORD, w++) {
        const unsigned rest = prefix_bits - at < WORD ? prefix_bits - at : WORD;
        found ^= parities(splitmix(seed, (uint64_t)w * (hash_bits + 1) + j + 1), columns + at, rest);
    }
    return found;
}

/* Bit t of a byte, in byte t of a word. */
static inline uint64_t spread(uint64_t byte)
{
    const uint64_t bits = byte * 0x0101010101010101u & 0x8040201008040201u;
    return (bits + 0x7F7F7F7F7F7F7F7Fu) >> 7 & 0x0101010101010101u;
}

/* Adds to a row of the spectrum what its lanes' one-byte counters of minus signs say of that many visits. */
static void settle(int32_t *row, uint64_t *minus, uint8_t *visits)
{
    for (unsigned t = 0; t < LANES; t++)
        row[t] += (int32_t)*visits - 2 * (int32_t)(minus[t / 8] >> t % 8 * 8 & 255);
    memset(minus, 0, LANES);
    *visits = 0;
}

/* Every subset of the rows of A but the empty one, in the order of a Gray code: one step is one exclusive or for the
 * position and one for the signs of all lanes. `minus` and `visits` are used for 64 lanes only: a position's counters
 * fill one cache line, and are settled before they could pass a byte. */
static inline void add_report(const uint64_t *positions, const uint64_t *signs, unsigned hash_bits, unsigned lanes,
                              const uint64_t *spreads, int32_t *spectrum, uint64_t *minus, uint8_t *visits)
{
    uint64_t position = 0, sign = 0;
    for (unsigned step = 1; step < 1u << hash_bits; step++) {
        const unsigned j = (unsigned)__builtin_ctz(step);
        position ^= positions[j];
        sign ^= signs[j];
        if (lanes == 1) {
            spectrum[position] += 1 - 2 * (int32_t)(sign & 1);
            continue;
        }
        uint64_t *counters = minus + position * (LANES / 8);
        for (unsigned at = 0; at < LANES / 8; at++)
            counters[at] += spreads[sign >> 8 * at & 255];
        if (++visits[position] == UINT8_MAX)
            settle(spectrum + position * LANES, counters, visits + position);
    }
}

/* Adds every report to `spectrum`, an array of 2^free_bits rows of `lanes` numbers (1 or 64), the spectrum of lane t
 * in column t. Returns 2, and adds nothing, where there is no memory for the counters. */
EXPORT int succinct_add(const uint64_t *seeds, const uint8_t *values, size_t reports, unsigned hash_bits,
                        const uint64_t *columns, unsigned prefix_bits, unsigned free_bits, unsigned lanes,
                        int32_t *spectrum)
{
    if (!hash_bits || hash_bits > MAX_HASH_BITS || free_bits > MAX_FREE_BITS || prefix_bits > MAX_BITS ||
        prefix_bits + free_bits > MAX_BITS ||
        (lanes != 1 && lanes != LANES))
        return 1;
    const size_t rows = (size_t)1 << free_bits, counted = lanes == 1 ? 1 : rows;
    uint64_t *minus = aligned_alloc(LANES, counted * LANES), spreads[256];
    uint8_t *visits = calloc(counted, 1);
    if (!minus || !visits) {
        free(minus);
        free(visits);
        return 2;
    }
    memset(minus, 0, counted * LANES);
    for (unsigned byte = 0; byte < 256; byte++)
        spreads[byte] = spread(byte);
    for (size_t i = 0; i < reports; i++) {
        uint64_t positions[MAX_HASH_BITS], signs[MAX_HASH_BITS];
        const uint64_t shift = splitmix(seeds[i], hash_bits + 1) ^ values[i];
        for (unsigned j = 0; j < hash_bits; j++) {
            positions[j] = splitmix(seeds[i], j + 1) & (rows - 1);
            signs[j] = row_parities(seeds[i], j, hash_bits, columns, prefix_bits, free_bits) ^ -((shift >> j) & 1);
        }
        add_report(positions, signs, hash_bits, lanes, spreads, spectrum, minus, visits);
    }
    for (size_t position = 0; lanes == LANES && position < rows; position++)
        settle(spectrum + position * LANES, minus + position * (LANES / 8), visits + position);
    free(minus);
    free(visits);
    return 0;
}

/* Walsh-Hadamard butterflies of the columns of `rows` rows, for distances from `half` rows on. */
static inline void butterflies(int32_t *spectrum, size_t rows, size_t half, unsigned lanes)
{
    for (; half < rows; half *= 2)
        for (size_t block = 0; block < rows; block += 2 * half) {
            int32_t *low = spectrum + block * lanes, *high = low + half * lanes;
            for (size_t at = 0; at < half * lanes; at++) {
                const int32_t a = low[at], b = high[at];
                low[at] = a + b;
                high[at] = a - b;
            }
        }
}

/* Transforms the columns in place and writes the number of supports of every string s of lane t to
 * supports[t * 2^free_bits + s], for the first `chosen` lanes. The empty subset of rows adds one for each report.
 * Blocks that fit into a cache are transformed first, and written by lines. */
CLONES EXPORT int succinct_finish(int32_t *spectrum, unsigned free_bits, unsigned lanes, unsigned chosen,
                                  size_t reports, unsigned hash_bits, int32_t *supports)
{
    if (free_bits > MAX_FREE_BITS || (lanes != 1 && lanes != LANES) || chosen > lanes || !hash_bits ||
        hash_bits > MAX_HASH_BITS || reports >> (31 - hash_bits))
        return 1;
    const size_t rows = (size_t)1 << free_bits, block = rows < BLOCK ? rows : BLOCK, line = rows < LINE ? rows : LINE;
    for (size_t start = 0; start < rows; start += block)
        butterflies(spectrum + start * lanes, block, 1, lanes);
    butterflies(spectrum, rows, block, lanes);
    for (size_t start = 0; start < rows; start += line)
        for (unsigned t = 0; t < chosen; t++)
            for (size_t s = start; s < start + line; s++)
                supports[t * rows + s] = (int32_t)(((int64_t)spectrum[s * lanes + t] + (int64_t)reports) >> hash_bits);
    return 0;
}
