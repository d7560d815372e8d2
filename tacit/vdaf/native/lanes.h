/* Vectors of LANES 64-bit words, one report per lane; rows of bytes to words of lanes and back. */
#ifndef TACIT_LANES_H
#define TACIT_LANES_H

#include <stdlib.h>
#include <string.h>

#include "plan.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the kernels are written for little-endian processors"
#endif

#if TACIT_LEVEL == 0
#define LANES 2
#elif TACIT_LEVEL == 1
#define LANES 4
#else
#define LANES 8
#endif

typedef u64 lanes __attribute__((vector_size(8 * LANES), aligned(8 * LANES)));

/* All ones where a < b, as unsigned numbers. Does without comparisons if the instruction set has none for 64 bits. */
static inline lanes lanes_below(lanes a, lanes b)
{
#if TACIT_LEVEL >= 2
    return (lanes)(a < b);
#else
    return -(((~a & b) | ((~a | b) & (a - b))) >> 63);
#endif
}

/* All ones where a is not 0. */
static inline lanes lanes_nonzero(lanes a)
{
    return -((a | -a) >> 63);
}

/* Products of the low halves. */
static inline lanes lanes_mul32(lanes a, lanes b)
{
#if LANES == 8 && defined(__x86_64__)
    return (lanes)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif LANES == 4 && defined(__x86_64__)
    return (lanes)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__x86_64__)
    return (lanes)_mm_mul_epu32((__m128i)a, (__m128i)b);
#elif defined(__ARM_NEON)
    return (lanes)vmull_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b));
#else
    return (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF);
#endif
}

/* All ones in lanes whose words are p or more: the high word exceeds that of p, or equals it with a low word not 0. */
static inline lanes lanes_excess(lanes low, lanes high)
{
    lanes top = (lanes){0} + 0xFFFFFFFFFFFFFFE4u;
#if TACIT_LEVEL >= 2
    return (lanes)(high > top) | ((lanes)(high == top) & (lanes)(low != 0));
#else
    return lanes_below(top, high) | (~lanes_nonzero(high ^ top) & lanes_nonzero(low));
#endif
}

/* The start of one row per lane. Lanes beyond the last row repeat it: they compute, and write, the same bytes. */
typedef struct {
    u8 *at[LANES];
} rows;

static inline rows rows_of(const u8 *base, size_t stride, size_t first, size_t count)
{
    rows r;
    for (size_t lane = 0; lane < LANES; lane++)
        r.at[lane] = (u8 *)(uintptr_t)base + stride * (first + lane < count ? first + lane : count - 1);
    return r;
}

static inline rows rows_skip(rows r, size_t bytes)
{
    for (int lane = 0; lane < LANES; lane++)
        r.at[lane] += bytes;
    return r;
}

/* Lanes become rows and rows lanes: log2(LANES) exchanges of the two halves of every block. */
static inline void transpose(lanes m[LANES])
{
#define EXCHANGE(distance, low, high)                             \
    for (int i = 0; i < LANES; i++)                               \
        if (!(i & (distance))) {                                  \
            lanes a = m[i], b = m[i + (distance)];                \
            m[i] = __builtin_shuffle(a, b, (lanes)low);           \
            m[i + (distance)] = __builtin_shuffle(a, b, (lanes)high); \
        }
#define SET(...) {__VA_ARGS__}
#if LANES == 2
    EXCHANGE(1, SET(0, 2), SET(1, 3))
#elif LANES == 4
    EXCHANGE(1, SET(0, 4, 2, 6), SET(1, 5, 3, 7))
    EXCHANGE(2, SET(0, 1, 4, 5), SET(2, 3, 6, 7))
#else
    EXCHANGE(1, SET(0, 8, 2, 10, 4, 12, 6, 14), SET(1, 9, 3, 11, 5, 13, 7, 15))
    EXCHANGE(2, SET(0, 1, 8, 9, 4, 5, 12, 13), SET(2, 3, 10, 11, 6, 7, 14, 15))
    EXCHANGE(4, SET(0, 1, 2, 3, 8, 9, 10, 11), SET(4, 5, 6, 7, 12, 13, 14, 15))
#endif
#undef SET
#undef EXCHANGE
}

static inline lanes load_word(const rows *r, size_t offset, size_t bytes)
{
    u64 words[LANES] = {0};
    lanes word;
    for (int lane = 0; lane < LANES; lane++)
        memcpy(&words[lane], r->at[lane] + offset, bytes);
    memcpy(&word, words, sizeof word);
    return word;
}

static inline void load_words(lanes *words, rows r, size_t count)
{
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        lanes block[LANES];
        for (int lane = 0; lane < LANES; lane++)
            memcpy(&block[lane], r.at[lane] + 8 * i, sizeof(lanes));
        transpose(block);
        for (int k = 0; k < LANES; k++) /* one by one: otherwise the block would go through the stack */
            words[i + k] = block[k];
    }
    for (; i < count; i++)
        words[i] = load_word(&r, 8 * i, 8);
}

static inline void store_words(rows r, const lanes *words, size_t count)
{
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        lanes block[LANES];
        for (int k = 0; k < LANES; k++)
            block[k] = words[i + k];
        transpose(block);
        for (int lane = 0; lane < LANES; lane++)
            memcpy(r.at[lane] + 8 * i, &block[lane], sizeof(lanes));
    }
    for (; i < count; i++)
        for (int lane = 0; lane < LANES; lane++)
            memcpy(r.at[lane] + 8 * i, (const u8 *)&words[i] + 8 * lane, 8);
}

/* Overwrites memory that held secrets; the compiler cannot drop this. */
static inline void wipe(void *memory, size_t bytes)
{
    memset(memory, 0, bytes);
    __asm__ volatile("" : : "r"(memory) : "memory");
}

#endif
