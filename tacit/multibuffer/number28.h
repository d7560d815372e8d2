/* Powers modulo a 2048-bit number, four at a time, for processors that multiply 32 bits.
 *
 * Numbers are 76 limbs of 28 bits, relative to R = 2^2128. Products are reduced modulo N * k, where the one-limb k
 * makes N * k + 1 a multiple of 2^28: the quotient of a limb is then the limb itself, and only the other 74 limbs of
 * N * k + 1, here `rest`, are multiplied. A product of two numbers below 2^2077 is below 2^2077 again without a
 * subtraction. The last product is reduced modulo N in its last block, to a number below 2N. Every column of a product
 * or of a reduction gets at most 76 terms below 2^56, every sum of columns stays below 2^64
 * (tests/unit/test_multibuffer_bounds.py).
 */
#ifndef TACIT_NUMBER28_H
#define TACIT_NUMBER28_H

#include "lanes.h"

enum { LIMB_BITS = 28, LIMBS = 76, N_LIMBS = 74, BLOCK = 4, TILE = 8, PADDED = LIMBS + 2 * TILE };
static const u64 LIMB_MASK = ((u64)1 << LIMB_BITS) - 1;

typedef struct {
    u64 limbs[LIMBS];     /* N */
    u64 r_squared[LIMBS]; /* R^2 modulo N */
    u64 quotient;         /* k = -1/N modulo 2^28 */
    lanes rest[PADDED];   /* (N * k + 1) / 2^28 */
} modulus;

static void complete_modulus(modulus *n)
{
    u64 carry = 1;
    memset(n->rest, 0, sizeof n->rest);
    for (int i = 0; i < LIMBS; i++) {
        carry += n->limbs[i] * n->quotient;
        if (i)
            n->rest[i - 1] = every(carry & LIMB_MASK);
        carry >>= LIMB_BITS;
    }
}

/* Adds `width` columns of q * a to t; column c has the terms q[j] * a[c - j]. */
INLINE void add_tile(lanes *t, const lanes q[BLOCK], const lanes *a, int width)
{
    lanes sum[TILE];
    UNROLL
    for (int c = 0; c < width; c++)
        sum[c] = t[c];
    UNROLL
    for (int i = 1 - BLOCK; i < width; i++) {
        lanes limb = a[i];
        UNROLL
        for (int j = 0; j < BLOCK; j++)
            if (i + j >= 0 && i + j < width)
                sum[i + j] = add(sum[i + j], mul(q[j], limb));
    }
    UNROLL
    for (int c = 0; c < width; c++)
        t[c] = sum[c];
}

/* Adds `columns` columns of q * a to t, or up to three more if a goes on with zeros. */
INLINE void add_rows(lanes *t, const lanes *from, const lanes *a, int columns)
{
    lanes q[BLOCK];
    memcpy(q, from, sizeof q);
    int at = 0;
    for (; at + TILE / 2 < columns; at += TILE)
        add_tile(t + at, q, a + at, TILE);
    if (at < columns)
        add_tile(t + at, q, a + at, TILE / 2);
}

/* Columns to limbs of 28 bits. */
INLINE void carry_limbs(lanes result[LIMBS], const lanes *t)
{
    lanes carry = zero();
    for (int i = 0; i < LIMBS; i++) {
        carry = add(carry, t[i]);
        result[i] = both(carry, every(LIMB_MASK));
        carry = shift_right(carry, LIMB_BITS);
    }
}

/* Makes the four lowest columns of t divisible, in order, by adding multiples of N * k. */
INLINE void reduce_block(lanes *t, const modulus *n)
{
    lanes q[BLOCK], carry = zero();
    UNROLL
    for (int i = 0; i < BLOCK; i++) {
        lanes sum = add(t[i], carry);
        UNROLL
        for (int j = 0; j < i; j++)
            sum = add(sum, mul(q[j], n->rest[i - 1 - j]));
        q[i] = both(sum, every(LIMB_MASK));
        carry = shift_right(sum, LIMB_BITS);
    }
    t[BLOCK] = add(t[BLOCK], carry);
    add_rows(t + BLOCK, q, n->rest + BLOCK - 1, N_LIMBS);
}

/* The same of one column and N itself. */
INLINE void reduce_limb(lanes *t, const modulus *n)
{
    lanes q = both(mul(t[0], every(n->quotient)), every(LIMB_MASK));
    for (int i = 0; i < N_LIMBS; i++)
        t[i] = add(t[i], mul(q, every(n->limbs[i])));
    t[1] = add(t[1], shift_right(t[0], LIMB_BITS));
}

/* The columns of a * b. */
INLINE void product(lanes t[2 * PADDED], const lanes a[LIMBS], const lanes b[LIMBS])
{
    lanes padded[PADDED];
    memset(t, 0, 2 * PADDED * sizeof *t);
    memset(padded, 0, sizeof padded);
    memcpy(padded + TILE, b, LIMBS * sizeof *b);
    for (int row = 0; row < LIMBS; row += BLOCK)
        add_rows(t + row, a + row, padded + TILE, LIMBS + BLOCK - 1);
}

/* result = a * b / R modulo N * k. */
KERNEL void multiply(lanes result[LIMBS], const lanes a[LIMBS], const lanes b[LIMBS], const modulus *n)
{
    lanes t[2 * PADDED];
    product(t, a, b);
    for (int row = 0; row < LIMBS; row += BLOCK)
        reduce_block(t + row, n);
    carry_limbs(result, t + LIMBS);
}

/* result = a * b / R modulo N. */
KERNEL void multiply_fully(lanes result[LIMBS], const lanes a[LIMBS], const lanes b[LIMBS], const modulus *n)
{
    lanes t[2 * PADDED];
    product(t, a, b);
    for (int row = 0; row < LIMBS - BLOCK; row += BLOCK)
        reduce_block(t + row, n);
    for (int row = LIMBS - BLOCK; row < LIMBS; row++)
        reduce_limb(t + row, n);
    carry_limbs(result, t + LIMBS);
}

/* a = a * a / R modulo N * k: each block of limbs times itself, and times twice every later limb. */
KERNEL void square(lanes a[LIMBS], const modulus *n)
{
    lanes t[2 * PADDED], padded[PADDED], *factor = padded + TILE;
    memset(t, 0, sizeof t);
    memset(padded, 0, sizeof padded);
    for (int i = 0; i < LIMBS; i++)
        factor[i] = add(a[i], a[i]);
    for (int row = 0; row < LIMBS; row += BLOCK) {
        for (int i = row; i < row + BLOCK; i++)
            factor[i] = a[i];
        add_rows(t + 2 * row, a + row, factor + row, LIMBS - row + BLOCK - 1);
        for (int i = row; i < row + BLOCK; i++)
            factor[i] = zero();
    }
    for (int row = 0; row < LIMBS; row += BLOCK)
        reduce_block(t + row, n);
    carry_limbs(a, t + LIMBS);
}
#endif
