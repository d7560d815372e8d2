/* Field128, p = 2^128 - 7 * 2^66 + 1, one lane at a time with 64-bit products. Elements are reduced; R = 2^128.
 *
 * p = 1 mod 2^64, so the Montgomery quotient of a word is its negative. Conditional subtractions are masks.
 */
#ifndef TACIT_FIELD128_H
#define TACIT_FIELD128_H

#include "lanes.h"

enum { WORDS = 2, RADIX_BITS = 128, FIELD_LANES = 1, NEXT = LANES, STEP = 2 * LANES };

typedef u64 __attribute__((may_alias)) word;
typedef u64 mask;

#define MODULUS_HIGH 0xFFFFFFFFFFFFFFE4u
#define COMPLEMENT (((u128)27 << 64) | 0xFFFFFFFFFFFFFFFFu) /* 2^128 - p */

typedef u128 element;

typedef struct {
    u128 low, high;
    u64 top;
} sum_of_products;

/* The compiler may not learn that a mask is 0 or -1, lest it makes a branch of it. */
static inline u64 opaque(u64 bits)
{
    __asm__("" : "+r"(bits));
    return bits;
}

/* The carry of a sum, and the borrow of a difference, out of sight of the compiler for the same reason. */
static inline u64 add_carry(u128 a, u128 b, u128 *sum)
{
    return opaque(__builtin_add_overflow(a, b, sum));
}

static inline u64 sub_borrow(u128 a, u128 b, u128 *difference)
{
    return opaque(__builtin_sub_overflow(a, b, difference));
}

static inline u128 select_mask(u64 condition)
{
    u64 bits = opaque(-condition);
    return (u128)bits << 64 | bits;
}

/* carry * 2^128 + value, below 2p, minus p if that is not below p. */
static inline u128 subtract_once(u128 value, u64 carry)
{
    u128 less;
    u64 above = add_carry(value, COMPLEMENT, &less);
    return value ^ ((value ^ less) & select_mask(carry | above));
}

static inline element element_load(const word *words)
{
    return (u128)words[NEXT] << 64 | words[0];
}

static inline void element_store(word *words, element a)
{
    words[0] = (u64)a;
    words[NEXT] = (u64)(a >> 64);
}

static inline element element_constant(u128 value)
{
    return value;
}

/* All ones where a canonical element is not 0. */
static inline mask element_nonzero(element a)
{
    u64 bits = (u64)a | (u64)(a >> 64);
    return -((bits | -bits) >> 63);
}

static inline lanes element_excess(const lanes *words)
{
    lanes top = (lanes){0} + MODULUS_HIGH;
    return lanes_below(top, words[1]) | (~lanes_nonzero(words[1] ^ top) & lanes_nonzero(words[0]));
}

static inline element element_add(element a, element b)
{
    u128 sum;
    u64 carry = add_carry(a, b, &sum);
    return subtract_once(sum, carry);
}

static inline element element_sub(element a, element b)
{
    u128 difference;
    u64 borrow = sub_borrow(a, b, &difference);
    return difference - (COMPLEMENT & select_mask(borrow));
}

static inline element element_sub_wide(element a, element b, unsigned bound)
{
    (void)bound;
    return element_sub(a, b);
}

static inline element element_canonical(element a)
{
    return a;
}

static inline element element_masked(element a, mask chosen)
{
    return a & ((u128)chosen << 64 | chosen);
}

static inline void wide_product(u128 a, u128 b, u128 *low, u128 *high)
{
    u64 a0 = (u64)a, a1 = (u64)(a >> 64), b0 = (u64)b, b1 = (u64)(b >> 64);
    u128 least = (u128)a0 * b0, cross = (u128)a0 * b1 + (u64)(least >> 64), other = (u128)a1 * b0 + (u64)cross;
    *low = other << 64 | (u64)least;
    *high = (u128)a1 * b1 + (u64)(cross >> 64) + (u64)(other >> 64);
}

/* (high * 2^128 + low) / 2^128 modulo p, as carry * 2^128 + value. */
static inline u128 montgomery(u128 low, u128 high, u64 *carry)
{
    u64 t0 = (u64)low;
    u128 q = (u128)(-t0) * MODULUS_HIGH + (u64)(low >> 64) + opaque(t0 != 0), value;
    u64 t1 = (u64)q;
    u64 first = add_carry(high, (u128)(u64)(q >> 64), &high);
    q = (u128)(-t1) * MODULUS_HIGH + opaque(t1 != 0);
    *carry = first + add_carry(high, q, &value);
    return value;
}

static inline element element_mul(element a, element b)
{
    u128 low, high;
    u64 carry;
    wide_product(a, b, &low, &high);
    u128 value = montgomery(low, high, &carry);
    return subtract_once(value, carry);
}

static inline element element_to_montgomery(element a, u128 r2)
{
    return element_mul(a, element_constant(r2));
}

static inline void sum_clear(sum_of_products *s)
{
    s->low = s->high = s->top = 0;
}

static inline void sum_add_product(sum_of_products *s, element a, element b)
{
    u128 low, high;
    wide_product(a, b, &low, &high);
    high += add_carry(s->low, low, &s->low); /* a product's high half is below 2^128 - 1 */
    s->top += add_carry(s->high, high, &s->high);
}

/* Must be called once every SUM_SPAN products. */
enum { SUM_SPAN = 1 << 16 };

static inline void sum_carry(sum_of_products *s)
{
    (void)s;
}

static inline element sum_reduce(const sum_of_products *s)
{
    u64 carry;
    u128 value = montgomery(s->low, s->high, &carry), sum;
    u64 top = s->top + carry; /* top * 2^128 = top * (7 * 2^66 - 1), and top is below 2^58 */
    carry = add_carry(value, ((u128)(7 * top) << 66) - top, &sum);
    return subtract_once(sum, carry);
}

/* A sum of up to PLAIN_SPAN elements, each left out where its mask is set. */
typedef struct {
    u128 low;
    u64 top;
} plain_sum;

enum { PLAIN_SPAN = 1 << 16, PLAIN_WIDTH = 4 };

static inline void plain_clear(plain_sum *s)
{
    s->low = s->top = 0;
}

static inline void plain_add_unless(plain_sum *s, element a, mask left_out)
{
    s->top += add_carry(s->low, element_masked(a, ~left_out), &s->low);
}

/* Canonical value of both sums together. */
static inline element plain_reduce(const plain_sum *s, const plain_sum *t)
{
    u128 sum;
    u64 top = s->top + t->top + add_carry(s->low, t->low, &sum);
    u64 carry = add_carry(sum, ((u128)(7 * top) << 66) - top, &sum);
    return subtract_once(sum, carry);
}

#endif
