/* Field128, p = 2^128 - 7 * 2^66 + 1, in eight lanes of three 52-bit limbs (AVX-512 IFMA). R = 2^156.
 *
 * Elements are not kept reduced: limbs 0 and 1 are below 2^52, limb 2 holds the rest. A product of factors below
 * 2^a * p and 2^b * p is below p + 2^(a + b - 28) * p once divided by R: factors may grow to 2^24 * p before
 * it matters. p = 1 mod 2^52, so the Montgomery quotient of a limb is its negative.
 */
#ifndef TACIT_FIELD128_IFMA_H
#define TACIT_FIELD128_IFMA_H

#include "lanes.h"

enum { WORDS = 2, RADIX_BITS = 156, WIDEST = 22 };

#define LIMB 0xFFFFFFFFFFFFFu
#define P1 0xFFFFFFFFE4000u /* limbs 1 and 2 of p; limb 0 is 1 */
#define P2 0xFFFFFFu

typedef struct {
    __m512i limb[3];
} element;

typedef struct {
    __m512i column[6];
} sum_of_products;

#define ADD _mm512_add_epi64
#define SUB _mm512_sub_epi64
#define AND _mm512_and_si512
#define ALL(x) _mm512_set1_epi64((long long)(x))
#define MADD_LOW(c, a, b) ((c) = _mm512_madd52lo_epu64((c), (a), (b)))
#define MADD_HIGH(c, a, b) ((c) = _mm512_madd52hi_epu64((c), (a), (b)))

/* Propagates carries; single limbs may be negative, the number may not. */
static inline element normal(__m512i a, __m512i b, __m512i c)
{
    b = ADD(b, _mm512_srai_epi64(a, 52));
    c = ADD(c, _mm512_srai_epi64(b, 52));
    return (element){{AND(a, ALL(LIMB)), AND(b, ALL(LIMB)), c}};
}

static inline element element_load(const lanes *words)
{
    __m512i low = (__m512i)words[0], high = (__m512i)words[1];
    __m512i middle = _mm512_or_si512(_mm512_srli_epi64(low, 52), _mm512_slli_epi64(high, 12));
    return (element){{AND(low, ALL(LIMB)), AND(middle, ALL(LIMB)), _mm512_srli_epi64(high, 40)}};
}

/* Precondition: a is below 2p. */
static inline void element_store(lanes *words, element a)
{
    element less = normal(SUB(a.limb[0], ALL(1)), SUB(a.limb[1], ALL(P1)), SUB(a.limb[2], ALL(P2)));
    __mmask8 below = _mm512_movepi64_mask(less.limb[2]);
    __m512i r[3];
    for (int i = 0; i < 3; i++)
        r[i] = _mm512_mask_blend_epi64(below, less.limb[i], a.limb[i]);
    words[0] = (lanes)_mm512_or_si512(r[0], _mm512_slli_epi64(r[1], 52));
    words[1] = (lanes)_mm512_or_si512(_mm512_srli_epi64(r[1], 12), _mm512_slli_epi64(r[2], 40));
}

/* All ones where a canonical element, below 2p, is not 0. */
static inline lanes element_nonzero(element a)
{
    lanes words[2];
    element_store(words, a);
    return lanes_nonzero(words[0] | words[1]);
}

static inline element element_constant(u128 value)
{
    return (element){{ALL((u64)value & LIMB), ALL((u64)(value >> 52) & LIMB), ALL((u64)(value >> 104))}};
}

static inline lanes element_excess(const lanes *words)
{
    return lanes_excess(words[0], words[1]);
}

static inline element element_add(element a, element b)
{
    return normal(ADD(a.limb[0], b.limb[0]), ADD(a.limb[1], b.limb[1]), ADD(a.limb[2], b.limb[2]));
}

/* a - b + 2^bound * p. Precondition: b is at most 2^bound * p, bound at most 24. */
static inline element element_sub_wide(element a, element b, unsigned bound)
{
    u64 one = (u64)1 << bound, middle = ((u64)P1 << bound) & LIMB;
    u64 high = ((u64)P2 << bound) + (bound ? (u64)P1 >> (52 - bound) : 0);
    return normal(ADD(SUB(a.limb[0], b.limb[0]), ALL(one)), ADD(SUB(a.limb[1], b.limb[1]), ALL(middle)),
                  ADD(SUB(a.limb[2], b.limb[2]), ALL(high)));
}

/* Precondition: b is at most 4p. */
static inline element element_sub(element a, element b)
{
    return element_sub_wide(a, b, 2);
}

static inline element element_masked(element a, lanes chosen)
{
    for (int i = 0; i < 3; i++)
        a.limb[i] = AND(a.limb[i], (__m512i)chosen);
    return a;
}

static inline void sum_clear(sum_of_products *s)
{
    for (int i = 0; i < 6; i++)
        s->column[i] = _mm512_setzero_si512();
}

static inline void sum_add_product(sum_of_products *s, element a, element b)
{
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            MADD_LOW(s->column[i + j], a.limb[i], b.limb[j]);
            MADD_HIGH(s->column[i + j + 1], a.limb[i], b.limb[j]);
        }
}

/* Must be called once every SUM_SPAN products: a column takes at most five terms below 2^52 from each. */
enum { SUM_SPAN = 512 };

static inline void sum_carry(sum_of_products *s)
{
    for (int i = 0; i < 5; i++) {
        s->column[i + 1] = ADD(s->column[i + 1], _mm512_srli_epi64(s->column[i], 52));
        s->column[i] = AND(s->column[i], ALL(LIMB));
    }
}

/* One step of the reduction: makes `low` a multiple of 2^52, and carries it into the next column. */
#define REDUCE_LIMB(low, c1, c2, c3)                                                        \
    do {                                                                                    \
        __m512i quotient = SUB(_mm512_setzero_si512(), (low));                              \
        (c1) = ADD((c1), _mm512_srli_epi64(ADD((low), ALL(LIMB)), 52));                     \
        MADD_LOW(c1, quotient, ALL(P1));                                                    \
        MADD_HIGH(c2, quotient, ALL(P1));                                                   \
        MADD_LOW(c2, quotient, ALL(P2));                                                    \
        MADD_HIGH(c3, quotient, ALL(P2));                                                   \
    } while (0)

static inline element sum_reduce(const sum_of_products *s)
{
    __m512i c0 = s->column[0], c1 = s->column[1], c2 = s->column[2];
    __m512i c3 = s->column[3], c4 = s->column[4], c5 = s->column[5];
    REDUCE_LIMB(c0, c1, c2, c3);
    REDUCE_LIMB(c1, c2, c3, c4);
    REDUCE_LIMB(c2, c3, c4, c5);
    c4 = ADD(c4, _mm512_srli_epi64(c3, 52));
    c5 = ADD(c5, _mm512_srli_epi64(c4, 52));
    return (element){{AND(c3, ALL(LIMB)), AND(c4, ALL(LIMB)), c5}};
}

static inline element element_mul(element a, element b)
{
    sum_of_products s;
    sum_clear(&s);
    sum_add_product(&s, a, b);
    return sum_reduce(&s);
}

static inline element element_to_montgomery(element a, u128 r2)
{
    return element_mul(a, element_constant(r2));
}

/* The same element below 2p: the part above 2^128 is folded back with 2^128 = 7 * 2^66 - 1. */
static inline element element_canonical(element a)
{
    __m512i top = _mm512_srli_epi64(a.limb[2], 24), less = SUB(_mm512_slli_epi64(top, 17), _mm512_slli_epi64(top, 14));
    return normal(SUB(a.limb[0], top), ADD(a.limb[1], less), AND(a.limb[2], ALL(P2)));
}

/* A sum of up to PLAIN_SPAN elements, each left out where its mask is set. */
typedef struct {
    __m512i limb[3];
} plain_sum;

enum { PLAIN_SPAN = 1024, PLAIN_WIDTH = 4 };

static inline void plain_clear(plain_sum *s)
{
    for (int i = 0; i < 3; i++)
        s->limb[i] = _mm512_setzero_si512();
}

static inline void plain_add_unless(plain_sum *s, element a, lanes left_out)
{
    __mmask8 kept = _mm512_testn_epi64_mask((__m512i)left_out, (__m512i)left_out);
    for (int i = 0; i < 3; i++)
        s->limb[i] = _mm512_mask_add_epi64(s->limb[i], kept, s->limb[i], a.limb[i]);
}

/* Canonical value of both sums together. */
static inline element plain_reduce(const plain_sum *s, const plain_sum *t)
{
    return element_canonical(normal(ADD(s->limb[0], t->limb[0]), ADD(s->limb[1], t->limb[1]),
                                    ADD(s->limb[2], t->limb[2])));
}

#endif
