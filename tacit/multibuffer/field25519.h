/* Elements of GF(2^255 - 19), one per lane, in limbs of 51 bits (field51.h) or of 26 and 25 (field25.h).
 *
 * A *reduced* element has limbs that can be factors of a product. A *wide* one is a sum of products before carries.
 * tests/unit/test_multibuffer_bounds.py derives the bounds. Nothing here branches on, or indexes memory by, a value.
 */
#ifndef TACIT_FIELD25519_H
#define TACIT_FIELD25519_H

#include "lanes.h"

enum { POINT_WORDS = 4 };

#if defined(__AVX512IFMA__)
#include "field51.h"
#else
#include "field25.h"
#endif

INLINE element one(void)
{
    return (element){{every(1)}};
}

INLINE element plus(element a, element b)
{
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++)
        a.limb[i] = add(a.limb[i], b.limb[i]);
    return a;
}

/* a - b + 2^scale * p; no limb of b may exceed the same limb of 2^scale * p: scale 1 for reduced b, WIDE for wide b. */
INLINE element minus(element a, element b, int scale)
{
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        u64 bias = (limb_mask(i) - (i ? 0 : 18)) << scale;
        a.limb[i] = sub(add(a.limb[i], every(bias)), b.limb[i]);
    }
    return a;
}

INLINE element times(element a, element b)
{
    return carried(product(a, b));
}

INLINE element squared(element a)
{
    return carried(product_square(a));
}

INLINE element squared_times(element a, int count)
{
    while (count--)
        a = squared(a);
    return a;
}

/* a^(p - 2), which is 0 for 0. */
KERNEL void invert(element *result, const element *a)
{
    element a2 = squared(*a);                                /* exponent 2 */
    element a9 = times(*a, squared_times(a2, 2));            /* 9 */
    element a11 = times(a2, a9);                             /* 11 */
    element e5 = times(a9, squared(a11));                    /* 2^5 - 1 */
    element e10 = times(squared_times(e5, 5), e5);           /* 2^10 - 1, and so on */
    element e20 = times(squared_times(e10, 10), e10);
    element e40 = times(squared_times(e20, 20), e20);
    element e50 = times(squared_times(e40, 10), e10);
    element e100 = times(squared_times(e50, 50), e50);
    element e200 = times(squared_times(e100, 100), e100);
    element e250 = times(squared_times(e200, 50), e50);
    *result = times(squared_times(e250, 5), a11);            /* 2^255 - 21 */
}

/* The lanes in which a canonical element is 0. */
INLINE lane_mask is_zero(element a)
{
    lanes any = a.limb[0];
    for (int i = 1; i < FIELD_LIMBS; i++)
        any = either(any, a.limb[i]);
    return is_clear(any);
}

#endif
