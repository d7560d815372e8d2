/* Field128, p = 2^128 - 7 * 2^66 + 1, one lane after the other with 64-bit products. Elements are reduced; R = 2^128.
 *
 * p = 1 mod 2^64, so the Montgomery quotient of a word is its negative. Conditional subtractions are masks.
 */
#ifndef TACIT_FIELD128_H
#define TACIT_FIELD128_H

#include "lanes.h"

enum { WORDS = 2, RADIX_BITS = 128 };

#define MODULUS_HIGH 0xFFFFFFFFFFFFFFE4u
#define COMPLEMENT (((u128)27 << 64) | 0xFFFFFFFFFFFFFFFFu) /* 2^128 - p */
#define EACH_LANE for (int k = 0; k < LANES; k++)

typedef struct {
    u64 low[LANES], high[LANES];
} element;

typedef struct {
    u64 word[5][LANES];
} sum_of_products;

static inline u128 lane_of(const element *a, int k)
{
    return (u128)a->high[k] << 64 | a->low[k];
}

static inline void set_lane(element *a, int k, u128 value)
{
    a->low[k] = (u64)value;
    a->high[k] = (u64)(value >> 64);
}

/* The compiler may not learn that a mask is 0 or -1, lest it makes a branch of it. */
static inline u64 opaque(u64 mask)
{
    __asm__("" : "+r"(mask));
    return mask;
}

static inline u128 select_mask(u64 condition)
{
    u64 mask = opaque(-condition);
    return (u128)mask << 64 | mask;
}

/* carry * 2^128 + value, below 2p, minus p if that is not below p. */
static inline u128 subtract_once(u128 value, u64 carry)
{
    u128 less = value + COMPLEMENT, mask = select_mask(carry | (less < value));
    return value ^ ((value ^ less) & mask);
}

static inline element element_load(const lanes *words)
{
    element a;
    memcpy(a.low, &words[0], sizeof a.low);
    memcpy(a.high, &words[1], sizeof a.high);
    return a;
}

static inline void element_store(lanes *words, element a)
{
    memcpy(&words[0], a.low, sizeof a.low);
    memcpy(&words[1], a.high, sizeof a.high);
}

static inline element element_constant(u128 value)
{
    element a;
    EACH_LANE set_lane(&a, k, value);
    return a;
}

static inline lanes element_excess(const lanes *words)
{
    lanes top = (lanes){0} + MODULUS_HIGH;
    return lanes_below(top, words[1]) | (~lanes_nonzero(words[1] ^ top) & lanes_nonzero(words[0]));
}

static inline element element_add(element a, element b)
{
    element r;
    EACH_LANE
    {
        u128 x = lane_of(&a, k), sum = x + lane_of(&b, k);
        set_lane(&r, k, subtract_once(sum, sum < x));
    }
    return r;
}

static inline element element_sub(element a, element b)
{
    element r;
    EACH_LANE
    {
        u128 x = lane_of(&a, k), y = lane_of(&b, k);
        set_lane(&r, k, x - y - (COMPLEMENT & select_mask(x < y)));
    }
    return r;
}

static inline element element_sub_wide(element a, element b, unsigned bound)
{
    (void)bound;
    return element_sub(a, b);
}

static inline element element_canonical(element a, u128 one)
{
    (void)one;
    return a;
}

static inline element element_masked(element a, lanes mask)
{
    element r;
    EACH_LANE
    {
        r.low[k] = a.low[k] & mask[k];
        r.high[k] = a.high[k] & mask[k];
    }
    return r;
}

typedef struct {
    u64 t0, t1, t2, t3;
} product;

static inline product wide_product(u64 a0, u64 a1, u64 b0, u64 b1)
{
    u128 low = (u128)a0 * b0, cross = (u128)a0 * b1 + (u64)(low >> 64);
    u128 other = (u128)a1 * b0 + (u64)cross;
    u128 high = (u128)a1 * b1 + (u64)(cross >> 64) + (u64)(other >> 64);
    return (product){(u64)low, (u64)other, (u64)high, (u64)(high >> 64)};
}

/* t / 2^128 mod p for a sum t of five words, the last one below 2^58. */
static inline u128 montgomery(u64 t0, u64 t1, u64 t2, u64 t3, u64 t4)
{
    u128 q = (u128)(-t0) * MODULUS_HIGH + t1 + (t0 != 0);
    t1 = (u64)q;
    u128 x = (u128)t2 + (u64)(q >> 64);
    u128 y = (u128)t3 + (u64)(x >> 64);
    t4 += (u64)(y >> 64);
    q = (u128)(-t1) * MODULUS_HIGH + (u64)x + (t1 != 0);
    x = (u128)(u64)y + (u64)(q >> 64);
    t4 += (u64)(x >> 64);
    u128 value = (u128)(u64)x << 64 | (u64)q, more = ((u128)(7 * t4) << 66) - t4, sum = value + more;
    return subtract_once(sum, sum < value);
}

static inline element element_mul(element a, element b)
{
    element r;
    EACH_LANE
    {
        product t = wide_product(a.low[k], a.high[k], b.low[k], b.high[k]);
        set_lane(&r, k, montgomery(t.t0, t.t1, t.t2, t.t3, 0));
    }
    return r;
}

static inline element element_to_montgomery(element a, u128 r2)
{
    return element_mul(a, element_constant(r2));
}

static inline void sum_clear(sum_of_products *s)
{
    memset(s, 0, sizeof *s);
}

static inline void sum_add_product(sum_of_products *s, element a, element b)
{
    EACH_LANE
    {
        product t = wide_product(a.low[k], a.high[k], b.low[k], b.high[k]);
#if defined(__x86_64__)
        unsigned long long w0, w1, w2, w3;
        unsigned char carry = _addcarry_u64(0, s->word[0][k], t.t0, &w0);
        carry = _addcarry_u64(carry, s->word[1][k], t.t1, &w1);
        carry = _addcarry_u64(carry, s->word[2][k], t.t2, &w2);
        carry = _addcarry_u64(carry, s->word[3][k], t.t3, &w3);
#else
        u128 sum = (u128)s->word[0][k] + t.t0;
        u64 w0 = (u64)sum, w1, w2, w3, carry;
        sum = (u128)s->word[1][k] + t.t1 + (u64)(sum >> 64);
        w1 = (u64)sum;
        sum = (u128)s->word[2][k] + t.t2 + (u64)(sum >> 64);
        w2 = (u64)sum;
        sum = (u128)s->word[3][k] + t.t3 + (u64)(sum >> 64);
        w3 = (u64)sum;
        carry = (u64)(sum >> 64);
#endif
        s->word[0][k] = w0;
        s->word[1][k] = w1;
        s->word[2][k] = w2;
        s->word[3][k] = w3;
        s->word[4][k] += carry;
    }
}

/* Must be called once every SUM_SPAN products. */
enum { SUM_SPAN = 1 << 16 };

static inline void sum_carry(sum_of_products *s)
{
    (void)s;
}

static inline element sum_reduce(const sum_of_products *s)
{
    element r;
    EACH_LANE set_lane(&r, k, montgomery(s->word[0][k], s->word[1][k], s->word[2][k], s->word[3][k], s->word[4][k]));
    return r;
}

#endif
