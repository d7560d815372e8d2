/* Field128, p = 2^128 - 7 * 2^66 + 1, in lanes of five 28-bit limbs, with 32-bit products. R = 2^140.
 *
 * Elements are not kept reduced: limbs 0 to 3 are below 2^28, limb 4 holds the rest, below 2^32 in a factor. A product
 * of factors below 2^a * p and 2^b * p is below p + 2^(a + b - 12) * p once divided by R. In radix X = 2^28,
 * p = 1 - 7168 X^2 + 2^16 X^4: the Montgomery quotient of a limb is the limb, and its multiple of p is cheap.
 */
#ifndef TACIT_FIELD128_H
#define TACIT_FIELD128_H

#include "lanes.h"

enum { WORDS = 2, RADIX_BITS = 140, LIMBS = 5, COLUMNS = 9, WIDEST = 10 };

#define LIMB 0xFFFFFFFu

typedef struct {
    lanes limb[LIMBS];
} element;

typedef struct {
    lanes column[COLUMNS];
} sum_of_products;

static inline element normal(element a)
{
    for (int i = 0; i < LIMBS - 1; i++) {
        a.limb[i + 1] += a.limb[i] >> 28;
        a.limb[i] &= LIMB;
    }
    return a;
}

static inline element element_load(const lanes *words)
{
    lanes low = words[0], high = words[1];
    return (element){{low & LIMB, low >> 28 & LIMB, (low >> 56 | high << 8) & LIMB, high >> 20 & LIMB, high >> 48}};
}

static inline lanes low_word(const element *a)
{
    return a->limb[0] | a->limb[1] << 28 | a->limb[2] << 56;
}

static inline lanes high_word(const element *a)
{
    return a->limb[2] >> 8 | a->limb[3] << 20 | a->limb[4] << 48;
}

/* a + top * (2^128 - p) */
static inline element add_complements(element a, lanes top)
{
    lanes ones = (top << 28) - top;
    a.limb[0] += ones;
    a.limb[1] += ones;
    a.limb[2] += (top << 13) - (top << 10) - top;
    return normal(a);
}

/* Precondition: a is below 2p. */
static inline void element_store(lanes *words, element a)
{
    element less = add_complements(a, (lanes){0} + 1); /* a - p + 2^128 */
    lanes above = -(less.limb[4] >> 16);
    words[0] = (low_word(&a) & ~above) | (low_word(&less) & above);
    words[1] = (high_word(&a) & ~above) | (high_word(&less) & above);
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
    element a;
    for (int i = 0; i < LIMBS; i++)
        a.limb[i] = (lanes){0} + ((u64)(value >> 28 * i) & LIMB);
    return a;
}

static inline lanes element_excess(const lanes *words)
{
    return lanes_excess(words[0], words[1]);
}

static inline element element_add(element a, element b)
{
    for (int i = 0; i < LIMBS; i++)
        a.limb[i] += b.limb[i];
    return normal(a);
}

/* a - b + 2^bound * p, written so that every limb borrows from the next and none of the result is negative.
 * Precondition: b is at most 2^bound * p, bound at most 24. */
static inline element element_sub_wide(element a, element b, unsigned bound)
{
    const u64 one = (u64)1 << bound;
    const u64 multiple[LIMBS] = {one + (1 << 30), (1 << 30) - 4, ((u64)1 << 40) - 7168 * one - 4, (1 << 30) - (1 << 12),
                                 (one << 16) - 4};
    for (int i = 0; i < LIMBS; i++)
        a.limb[i] += multiple[i] - b.limb[i];
    return normal(a);
}

/* Precondition: b is at most 4p. */
static inline element element_sub(element a, element b)
{
    return element_sub_wide(a, b, 2);
}

static inline element element_masked(element a, lanes chosen)
{
    for (int i = 0; i < LIMBS; i++)
        a.limb[i] &= chosen;
    return a;
}

/* The same element below 2p: the part above 2^128 is folded back with 2^128 = 7 * 2^66 - 1. */
static inline element element_canonical(element a)
{
    lanes top = a.limb[4] >> 16;
    a.limb[4] &= 0xFFFF;
    return add_complements(a, top);
}

static inline void sum_clear(sum_of_products *s)
{
    for (int i = 0; i < COLUMNS; i++)
        s->column[i] = (lanes){0};
}

static inline void sum_add_product(sum_of_products *s, element a, element b)
{
#pragma GCC unroll 5
    for (int i = 0; i < LIMBS; i++)
#pragma GCC unroll 5
        for (int j = 0; j < LIMBS; j++)
            s->column[i + j] += lanes_mul32(a.limb[i], b.limb[j]);
}

/* Must be called once every SUM_SPAN products: a column takes at most five terms below 2^56 from each. */
enum { SUM_SPAN = 32 };

static inline void sum_carry(sum_of_products *s)
{
    for (int i = 0; i < COLUMNS - 1; i++) {
        s->column[i + 1] += s->column[i] >> 28;
        s->column[i] &= LIMB;
    }
}

/* The sum divided by R, below p + sum / R. First p * R is added, spread over the columns so that later subtractions
 * leave none negative: the 2^44 that a column has in excess are the 2^16 that the next one lacks. */
static inline element divide_by_radix(sum_of_products s)
{
    const u64 more = (u64)1 << 44, rest = more - (1 << 16), added[LIMBS] = {more, rest + 1, rest, rest - 7168, rest};
    for (int i = 0; i < LIMBS; i++)
        s.column[i + 4] += added[i];
#pragma GCC unroll 5
    for (int i = 0; i < LIMBS; i++) {
        lanes quotient = s.column[i] & LIMB;
        s.column[i + 1] += s.column[i] >> 28;
        s.column[i + 2] += lanes_mul32(quotient, (lanes){0} + 7168);
        s.column[i + 4] -= quotient << 16;
    }
    return normal((element){{s.column[5], s.column[6], s.column[7], s.column[8]}});
}

static inline element sum_reduce(const sum_of_products *s)
{
    return element_canonical(divide_by_radix(*s));
}

static inline element element_mul(element a, element b)
{
    sum_of_products s;
    sum_clear(&s);
    sum_add_product(&s, a, b);
    return divide_by_radix(s);
}

static inline element element_to_montgomery(element a, u128 r2)
{
    return element_mul(a, element_constant(r2));
}

/* A sum of up to PLAIN_SPAN elements, each left out where its mask is set. */
typedef element plain_sum;

enum { PLAIN_SPAN = 1024, PLAIN_WIDTH = LANES == 8 ? 4 : 2 }; /* as many sums as registers hold */

static inline void plain_clear(plain_sum *s)
{
    for (int i = 0; i < LIMBS; i++)
        s->limb[i] = (lanes){0};
}

static inline void plain_add_unless(plain_sum *s, element a, lanes left_out)
{
    for (int i = 0; i < LIMBS; i++)
        s->limb[i] += a.limb[i] & ~left_out;
}

/* Canonical value of both sums together. */
static inline element plain_reduce(const plain_sum *s, const plain_sum *t)
{
    return element_canonical(element_add(*s, *t));
}

#endif
