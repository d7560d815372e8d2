/* Field64, p = 2^64 - 2^32 + 1, in lanes. Elements are reduced; R = 1 (no Montgomery form).
 *
 * The interface of every field: element, sum_of_products, and the functions below; element_mul is a * b / R. An
 * element in memory is WORDS vectors of lanes; a mask is all ones or 0 in every lane. Fields that do not keep elements
 * reduced state their bounds; none may double above 2^WIDEST * p. PLAIN_WIDTH plain sums fit the registers at once.
 */
#ifndef TACIT_FIELD64_H
#define TACIT_FIELD64_H

#include "lanes.h"

enum { WORDS = 1, RADIX_BITS = 0, WIDEST = 64 };

typedef struct {
    lanes v;
} element;

typedef struct {
    lanes low, high, top;
} sum_of_products;

#define MODULUS64 0xFFFFFFFF00000001u
#define EPSILON 0xFFFFFFFFu /* 2^64 mod p */

static inline element element_load(const lanes *words)
{
    return (element){words[0]};
}

static inline void element_store(lanes *words, element a)
{
    words[0] = a.v;
}

static inline element element_constant(u128 value)
{
    return (element){(lanes){0} + (u64)value};
}

/* All ones where a canonical element is not 0. */
static inline lanes element_nonzero(element a)
{
    return lanes_nonzero(a.v);
}

/* All ones in lanes whose words are not below the modulus. */
static inline lanes element_excess(const lanes *words)
{
    return ~lanes_below(words[0], (lanes){0} + MODULUS64);
}

static inline lanes reduce_once(lanes a)
{
    lanes modulus = (lanes){0} + MODULUS64;
    return a - (modulus & ~lanes_below(a, modulus));
}

static inline element element_add(element a, element b)
{
    lanes sum = a.v + b.v;
    return (element){reduce_once(sum + (lanes_below(sum, a.v) & EPSILON))};
}

static inline element element_sub(element a, element b)
{
    return (element){a.v - b.v - (lanes_below(a.v, b.v) & EPSILON)};
}

/* Like element_sub; fields whose elements are not kept reduced use the bound on b: 2^bound * p. */
static inline element element_sub_wide(element a, element b, unsigned bound)
{
    (void)bound;
    return element_sub(a, b);
}

static inline element element_canonical(element a)
{
    return a;
}

static inline element element_to_montgomery(element a, u128 r2)
{
    (void)r2;
    return a;
}

static inline element element_masked(element a, lanes chosen)
{
    return (element){a.v & chosen};
}

static inline void wide_product(lanes a, lanes b, lanes *low, lanes *high)
{
    lanes ah = a >> 32, bh = b >> 32;
    lanes ll = lanes_mul32(a, b), lh = lanes_mul32(a, bh), hl = lanes_mul32(ah, b), hh = lanes_mul32(ah, bh);
    lanes middle = lh + (ll >> 32), carry = hl + (middle & EPSILON);
    *low = (ll & EPSILON) | carry << 32;
    *high = hh + (middle >> 32) + (carry >> 32);
}

/* high * 2^64 + low, with 2^64 = 2^32 - 1 and 2^96 = -1. */
static inline lanes fold_wide(lanes low, lanes high)
{
    lanes top = high >> 32, mid = high & EPSILON;
    lanes t = low - top;
    t -= lanes_below(low, top) & EPSILON;
    lanes u = (mid << 32) - mid, sum = t + u;
    return reduce_once(sum + (lanes_below(sum, t) & EPSILON));
}

static inline element element_mul(element a, element b)
{
    lanes low, high;
    wide_product(a.v, b.v, &low, &high);
    return (element){fold_wide(low, high)};
}

static inline void sum_clear(sum_of_products *s)
{
    s->low = s->high = s->top = (lanes){0};
}

static inline void sum_add_product(sum_of_products *s, element a, element b)
{
    lanes low, high;
    wide_product(a.v, b.v, &low, &high);
    s->low += low;
    high -= lanes_below(s->low, low); /* a product's high word is at most 2^64 - 2^33 */
    s->high += high;
    s->top -= lanes_below(s->high, high);
}

/* Must be called once every SUM_SPAN products. */
enum { SUM_SPAN = 1 << 16 };

static inline void sum_carry(sum_of_products *s)
{
    (void)s;
}

/* The sum divided by R: 2^128 = -2^32, and top stays below 2^18. */
static inline element sum_reduce(const sum_of_products *s)
{
    return element_sub((element){fold_wide(s->low, s->high)}, (element){s->top << 32});
}

/* A sum of up to PLAIN_SPAN elements, each left out where its mask is set. */
typedef struct {
    lanes low, top;
} plain_sum;

enum { PLAIN_SPAN = 1 << 16, PLAIN_WIDTH = 4 };

static inline void plain_clear(plain_sum *s)
{
    s->low = s->top = (lanes){0};
}

static inline void plain_add_unless(plain_sum *s, element a, lanes left_out)
{
    lanes added = a.v & ~left_out;
    s->low += added;
    s->top -= lanes_below(s->low, added);
}

/* Canonical value of both sums together. */
static inline element plain_reduce(const plain_sum *s, const plain_sum *t)
{
    lanes low = s->low + t->low, top = s->top + t->top - lanes_below(low, s->low);
    return (element){fold_wide(low, top)};
}

#endif
