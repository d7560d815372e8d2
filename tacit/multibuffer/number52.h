/* Powers modulo a 2048-bit number, eight at a time, for processors that multiply 52 bits.
 *
 * Numbers are 40 limbs of 52 bits. Montgomery products are relative to R = 2^2080 and only kept below 2N: as R is more
 * than 2^30 * 4N, a product of two numbers below 2N is below 2N again without a subtraction. Every column of a
 * product or of a reduction gets at most 80 terms below 2^52, every sum of columns stays below 2^61.
 */
#ifndef TACIT_NUMBER52_H
#define TACIT_NUMBER52_H

#include "lanes.h"

enum { LIMB_BITS = 52, LIMBS = 40, BLOCK = 8 };
static const u64 LIMB_MASK = ((u64)1 << LIMB_BITS) - 1;

typedef struct {
    u64 limbs[LIMBS];     /* N */
    u64 r_squared[LIMBS]; /* R^2 modulo N */
    u64 quotient;         /* -1/N modulo 2^52 */
} modulus;

static void complete_modulus(modulus *n)
{
    (void)n;
}

/* Computes q[k], the quotient limb that makes column k of t divisible by 2^52; carries into column k + 1. */
INLINE void next_quotient(lanes q[BLOCK], lanes *t, int k, const modulus *n)
{
    lanes low = t[k], high = zero();
    UNROLL
    for (int j = 0; j < k; j++) {
        low = add_low(low, q[j], every(n->limbs[k - j]));
        high = add_high(high, q[j], every(n->limbs[k - j - 1]));
    }
    low = add(low, high);
    q[k] = add_low(zero(), low, every(n->quotient));
    low = add_low(low, q[k], every(n->limbs[0]));
    t[k + 1] = add(t[k + 1], shift_right(low, 52));
}

/* Adds column `at` (8 or more) of q * N. If `at` is a constant, the compiler knows which terms there are. */
INLINE void add_quotient_column(lanes *t, const lanes q[BLOCK], int at, const modulus *n)
{
    lanes low = t[at], high = zero();
    UNROLL
    for (int j = 0; j < BLOCK; j++) {
        if (at - j < LIMBS)
            low = add_low(low, q[j], every(n->limbs[at - j]));
        if (at - j - 1 < LIMBS)
            high = add_high(high, q[j], every(n->limbs[at - j - 1]));
    }
    t[at] = add(low, high);
}

/* Adds to the column at t the given terms of a product by q: low halves with limb a[-j] for j in [low_from, low_to),
 * high halves with limb a[-j - 1] for j in [high_from, high_to). */
INLINE void add_column(lanes *t, const lanes q[BLOCK], const lanes *a, int low_from, int low_to, int high_from,
                       int high_to)
{
    lanes low = *t, high = zero();
    UNROLL
    for (int j = 0; j < BLOCK; j++) {
        if (j >= low_from && j < low_to)
            low = add_low(low, q[j], a[-j]);
        if (j >= high_from && j < high_to)
            high = add_high(high, q[j], a[-j - 1]);
    }
    *t = add(low, high);
}

/* Adds q * a to t; a has `count` limbs, 8 or more. */
INLINE void add_rows(lanes *t, const lanes q[BLOCK], const lanes *a, int count)
{
    UNROLL
    for (int at = 0; at < BLOCK; at++)
        add_column(t + at, q, a + at, 0, at + 1, 0, at);
    for (int at = BLOCK; at < count; at++)
        add_column(t + at, q, a + at, 0, BLOCK, 0, BLOCK);
    UNROLL
    for (int beyond = 0; beyond < BLOCK; beyond++)
        add_column(t + count + beyond, q, a + count + beyond, beyond + 1, BLOCK, beyond, BLOCK);
}

/* Adds to column `at` the products of different limbs of q, each once. */
INLINE void add_own_column(lanes *t, const lanes q[BLOCK], int at)
{
    lanes low = t[at], high = zero();
    UNROLL
    for (int j = 0; j < BLOCK; j++) {
        if (at - j > j && at - j < BLOCK)
            low = add_low(low, q[j], q[at - j]);
        if (at - j - 1 > j && at - j - 1 < BLOCK)
            high = add_high(high, q[j], q[at - j - 1]);
    }
    t[at] = add(low, high);
}

/* result = t / R modulo N. The serial chain of a block's quotients is interleaved with the previous block's columns. */
INLINE void reduce(lanes result[LIMBS], lanes t[2 * LIMBS], const modulus *n)
{
    lanes q[BLOCK], next[BLOCK], carry = zero();
    UNROLL
    for (int k = 0; k < BLOCK; k++)
        next_quotient(q, t, k, n);
    for (int row = 0; row < LIMBS - BLOCK; row += BLOCK) {
        UNROLL
        for (int at = BLOCK; at < 2 * BLOCK; at++)
            add_quotient_column(t + row, q, at, n);
        UNROLL
        for (int k = 0; k < BLOCK; k++) {
            next_quotient(next, t + row + BLOCK, k, n);
            UNROLL
            for (int at = 0; at < (LIMBS - BLOCK) / BLOCK; at++)
                add_quotient_column(t + row, q, 2 * BLOCK + (LIMBS - BLOCK) / BLOCK * k + at, n);
        }
        memcpy(q, next, sizeof q);
    }
    for (int at = BLOCK; at < LIMBS; at++)
        add_quotient_column(t + LIMBS - BLOCK, q, at, n);
    UNROLL
    for (int at = LIMBS; at < LIMBS + BLOCK; at++)
        add_quotient_column(t + LIMBS - BLOCK, q, at, n);
    for (int i = 0; i < LIMBS; i++) {
        carry = add(carry, t[LIMBS + i]);
        result[i] = both(carry, every(LIMB_MASK));
        carry = shift_right(carry, 52);
    }
}

KERNEL void multiply(lanes result[LIMBS], const lanes a[LIMBS], const lanes b[LIMBS], const modulus *n)
{
    lanes t[2 * LIMBS] = {zero()};
    for (int row = 0; row < LIMBS; row += BLOCK)
        add_rows(t + row, b + row, a, LIMBS);
    reduce(result, t, n);
}

/* Products of different limbs once, doubled, and the squares of the limbs. */
KERNEL void square(lanes a[LIMBS], const modulus *n)
{
    lanes t[2 * LIMBS] = {zero()};
    for (int row = 0; row < LIMBS; row += BLOCK) {
        const lanes *q = a + row;
        UNROLL
        for (int at = 1; at < 2 * BLOCK - 1; at++)
            add_own_column(t + 2 * row, q, at);
        if (row < LIMBS - BLOCK)
            add_rows(t + 2 * row + BLOCK, q, q + BLOCK, LIMBS - BLOCK - row);
    }
    for (int i = 0; i < LIMBS; i++) {
        t[2 * i] = add_low(add(t[2 * i], t[2 * i]), a[i], a[i]);
        t[2 * i + 1] = add_high(add(t[2 * i + 1], t[2 * i + 1]), a[i], a[i]);
    }
    reduce(a, t, n);
}

/* result = a * b / R modulo N. */
INLINE void multiply_fully(lanes result[LIMBS], const lanes a[LIMBS], const lanes b[LIMBS], const modulus *n)
{
    multiply(result, a, b, n);
}

#endif
