/* The arithmetic of field25519.h for processors that multiply 52 bits: 5 limbs of 51 bits.
 *
 * A reduced element has limbs below 2^51 + 2^17, a wide one below 2^60.
 */
#ifndef TACIT_FIELD51_H
#define TACIT_FIELD51_H

enum { FIELD_LIMBS = 5, WIDE = 10 };
static const u64 FIELD_MASK = ((u64)1 << 51) - 1;

typedef struct {
    lanes limb[FIELD_LIMBS];
} element;

INLINE lanes twice(lanes a)
{
    return add(a, a);
}

INLINE u64 limb_mask(int i)
{
    (void)i;
    return FIELD_MASK;
}

/* The barrier keeps one multiplication instruction from becoming four shifts and additions. */
INLINE lanes times19(lanes a)
{
    lanes nineteen = every(19);
    __asm__("" : "+v"(nineteen));
    return _mm512_mullo_epi64(a, nineteen);
}

/* One parallel pass of carries: limbs below 2^63 become reduced. */
INLINE element carried(element a)
{
    element r;
    lanes top[FIELD_LIMBS];
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        top[i] = shift_right(a.limb[i], 51);
        r.limb[i] = both(a.limb[i], every(FIELD_MASK));
    }
    r.limb[0] = add_low(r.limb[0], top[4], every(19));
    UNROLL
    for (int i = 1; i < FIELD_LIMBS; i++)
        r.limb[i] = add(r.limb[i], top[i - 1]);
    return r;
}

/* The columns of a product: column k gets the low halves of a[i] * b[k - i], and column k + 1 twice the high halves, as
 * limbs have 51 bits but products are split at bit 52. Columns 5 to 9 are folded back with the factor 19. */
INLINE element product(element a, element b)
{
    lanes column[2 * FIELD_LIMBS] = {zero()};
    element r;
    UNROLL
    for (int k = 0; k < 2 * FIELD_LIMBS - 1; k++) {
        lanes high = zero();
        UNROLL
        for (int i = 0; i < FIELD_LIMBS; i++)
            if (k - i >= 0 && k - i < FIELD_LIMBS)
                high = add_high(high, a.limb[i], b.limb[k - i]);
        column[k + 1] = twice(high);
    }
    UNROLL
    for (int k = 2 * FIELD_LIMBS - 1; k >= FIELD_LIMBS; k--) {
        UNROLL
        for (int i = 0; i < FIELD_LIMBS; i++)
            if (k - i >= 0 && k - i < FIELD_LIMBS)
                column[k] = add_low(column[k], a.limb[i], b.limb[k - i]);
        column[k] = times19(column[k]);
    }
    UNROLL
    for (int k = 0; k < FIELD_LIMBS; k++) {
        r.limb[k] = add(column[k + FIELD_LIMBS], column[k]);
        UNROLL
        for (int i = 0; i <= k; i++)
            r.limb[k] = add_low(r.limb[k], a.limb[i], b.limb[k - i]);
    }
    return r;
}

/* Column k of a square without the low half of a[k / 2]^2, and halved: terms that occur twice are computed once. */
INLINE lanes half_column(const element *a, int k)
{
    lanes sum = zero();
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++)
        if (k - 1 - i > i && k - 1 - i < FIELD_LIMBS)
            sum = add_high(sum, a->limb[i], a->limb[k - 1 - i]);
    sum = twice(sum);
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++)
        if (k - i > i && k - i < FIELD_LIMBS)
            sum = add_low(sum, a->limb[i], a->limb[k - i]);
    if (k & 1)
        sum = add_high(sum, a->limb[(k - 1) / 2], a->limb[(k - 1) / 2]);
    return sum;
}

INLINE element product_square(element a)
{
    element r;
    UNROLL
    for (int k = 2 * FIELD_LIMBS - 1; k >= 0; k--) {
        lanes column = twice(half_column(&a, k));
        if (!(k & 1))
            column = add_low(column, a.limb[k / 2], a.limb[k / 2]);
        if (k >= FIELD_LIMBS)
            r.limb[k - FIELD_LIMBS] = times19(column);
        else
            r.limb[k] = add(r.limb[k], column);
    }
    return r;
}

/* a + 121665 * b, where 121665 is (A - 2) / 4 of the curve. Not carried. */
INLINE element plus_curve_times(element a, element b)
{
    const lanes factor = every(121665);
    lanes high[FIELD_LIMBS];
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++)
        high[i] = twice(add_high(zero(), b.limb[i], factor));
    a.limb[0] = add_low(add_low(a.limb[0], high[4], every(19)), b.limb[0], factor);
    UNROLL
    for (int i = 1; i < FIELD_LIMBS; i++)
        a.limb[i] = add_low(add(a.limb[i], high[i - 1]), b.limb[i], factor);
    return a;
}

INLINE element carried_in_order(element a)
{
    UNROLL
    for (int i = 0; i < FIELD_LIMBS - 1; i++) {
        a.limb[i + 1] = add(a.limb[i + 1], shift_right(a.limb[i], 51));
        a.limb[i] = both(a.limb[i], every(FIELD_MASK));
    }
    return a;
}

/* The one representative in [0, p) of a reduced element. */
INLINE element canonical(element a)
{
    lanes over;
    for (int pass = 0; pass < 2; pass++) {
        a = carried_in_order(a);
        over = shift_right(a.limb[4], 51);
        a.limb[4] = both(a.limb[4], every(FIELD_MASK));
        a.limb[0] = add_low(a.limb[0], over, every(19));
    }
    over = shift_right(add(a.limb[0], every(19)), 51);
    for (int i = 1; i < FIELD_LIMBS; i++)
        over = shift_right(add(a.limb[i], over), 51); /* 1 where a >= p */
    a.limb[0] = add_low(a.limb[0], over, every(19));
    a = carried_in_order(a);
    a.limb[4] = both(a.limb[4], every(FIELD_MASK));
    return a;
}

/* From little-endian 64-bit words, without the highest bit (RFC 7748 section 5). */
INLINE element element_of(const lanes words[POINT_WORDS])
{
    const lanes mask = every(FIELD_MASK);
    return (element){{
        both(words[0], mask),
        both(either(shift_right(words[0], 51), shift_left(words[1], 13)), mask),
        both(either(shift_right(words[1], 38), shift_left(words[2], 26)), mask),
        both(either(shift_right(words[2], 25), shift_left(words[3], 39)), mask),
        both(shift_right(words[3], 12), mask),
    }};
}

INLINE void words_of(lanes words[POINT_WORDS], element a)
{
    words[0] = either(a.limb[0], shift_left(a.limb[1], 51));
    words[1] = either(shift_right(a.limb[1], 13), shift_left(a.limb[2], 38));
    words[2] = either(shift_right(a.limb[2], 26), shift_left(a.limb[3], 25));
    words[3] = either(shift_right(a.limb[3], 39), shift_left(a.limb[4], 12));
}

#endif
