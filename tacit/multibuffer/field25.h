/* The arithmetic of field25519.h for processors that multiply 32 bits: 10 limbs, of 26 and 25 bits in turn.
 *
 * A reduced element has limbs below 2^26 + 2^15 or 2^25 + 2^15, a wide one below 2^60 or 2^59.
 */
#ifndef TACIT_FIELD25_H
#define TACIT_FIELD25_H

enum { FIELD_LIMBS = 10, WIDE = 34 };
static const unsigned LIMB_AT[FIELD_LIMBS] = {0, 26, 51, 77, 102, 128, 153, 179, 204, 230}; /* the lowest bit's place */

typedef struct {
    lanes limb[FIELD_LIMBS];
} element;

INLINE int limb_bits(int i)
{
    return i & 1 ? 25 : 26;
}

INLINE u64 limb_mask(int i)
{
    return ((u64)1 << limb_bits(i)) - 1;
}

INLINE lanes times19(lanes a)
{
    return add(add(shift_left(a, 4), shift_left(a, 1)), a);
}

INLINE void carry_from(element *a, int i)
{
    lanes carry = shift_right(a->limb[i], limb_bits(i));
    a->limb[i] = both(a->limb[i], every(limb_mask(i)));
    if (i == FIELD_LIMBS - 1)
        a->limb[0] = add(a->limb[0], times19(carry));
    else
        a->limb[i + 1] = add(a->limb[i + 1], carry);
}

/* Two chains of carries side by side: limbs below 2^63 become reduced. */
INLINE element carried(element a)
{
    UNROLL
    for (int i = 0; i < FIELD_LIMBS / 2; i++) {
        carry_from(&a, i);
        carry_from(&a, i + FIELD_LIMBS / 2);
    }
    carry_from(&a, 0);
    carry_from(&a, FIELD_LIMBS / 2);
    carry_from(&a, 1);
    return a;
}

/* The barrier keeps the compiler from moving all products before all sums: there are not enough registers for that. */
INLINE lanes add_product(lanes sum, lanes a, lanes b)
{
    sum = add(sum, mul(a, b));
    __asm__("" : "+x"(sum));
    return sum;
}

/* Limb k is the sum of a[i] * b[k - i]; twice if i and k - i are odd, as two halves of a bit make one, and nineteen
 * times if k - i is negative and stands for k - i + 10. */
INLINE element product(element a, element b)
{
    lanes twice[FIELD_LIMBS], folded[FIELD_LIMBS];
    element r;
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        twice[i] = add(a.limb[i], a.limb[i]);
        folded[i] = mul(b.limb[i], every(19));
    }
    UNROLL
    for (int k = 0; k < FIELD_LIMBS; k++) {
        lanes sum = zero();
        UNROLL
        for (int i = 0; i < FIELD_LIMBS; i++) {
            int j = i > k ? k - i + FIELD_LIMBS : k - i;
            sum = add_product(sum, i & j & 1 ? twice[i] : a.limb[i], i > k ? folded[j] : b.limb[j]);
        }
        r.limb[k] = sum;
    }
    return r;
}

/* The same, where terms that occur twice are computed once. */
INLINE element product_square(element a)
{
    lanes twice[FIELD_LIMBS], folded[FIELD_LIMBS];
    element r;
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        twice[i] = add(a.limb[i], a.limb[i]);
        folded[i] = mul(a.limb[i], every(19));
    }
    UNROLL
    for (int k = 0; k < FIELD_LIMBS; k++) {
        lanes sum = zero(), odd = zero();
        UNROLL
        for (int i = 0; i < FIELD_LIMBS; i++) {
            int j = i > k ? k - i + FIELD_LIMBS : k - i;
            lanes other = i > k ? folded[j] : a.limb[j];
            if (i == j)
                sum = add_product(sum, i & 1 ? twice[i] : a.limb[i], other);
            else if (i < j) {
                if (i & j & 1)
                    odd = add_product(odd, twice[i], other);
                else
                    sum = add_product(sum, twice[i], other);
            }
        }
        r.limb[k] = k & 1 ? sum : add(sum, add(odd, odd));
    }
    return r;
}

/* a + 121665 * b, where 121665 is (A - 2) / 4 of the curve. Not carried. */
INLINE element plus_curve_times(element a, element b)
{
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++)
        a.limb[i] = add(a.limb[i], mul(b.limb[i], every(121665)));
    return a;
}

/* The one representative in [0, p) of a reduced element. */
INLINE element canonical(element a)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < FIELD_LIMBS; i++)
            carry_from(&a, i);
    lanes over = shift_right(add(a.limb[0], every(19)), limb_bits(0));
    for (int i = 1; i < FIELD_LIMBS; i++)
        over = shift_right(add(a.limb[i], over), limb_bits(i)); /* 1 where a >= p */
    a.limb[0] = add(a.limb[0], times19(over));
    for (int i = 0; i < FIELD_LIMBS - 1; i++)
        carry_from(&a, i);
    a.limb[FIELD_LIMBS - 1] = both(a.limb[FIELD_LIMBS - 1], every(limb_mask(FIELD_LIMBS - 1)));
    return a;
}

/* From little-endian 64-bit words, without the highest bit (RFC 7748 section 5). */
INLINE element element_of(const lanes words[POINT_WORDS])
{
    element a;
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        unsigned word = LIMB_AT[i] / 64, bit = LIMB_AT[i] % 64;
        a.limb[i] = right(words[word], bit);
        if (word + 1 < POINT_WORDS)
            a.limb[i] = either(a.limb[i], left(words[word + 1], 64 - bit));
        a.limb[i] = both(a.limb[i], every(limb_mask(i)));
    }
    return a;
}

INLINE void words_of(lanes words[POINT_WORDS], element a)
{
    UNROLL
    for (unsigned i = 0; i < POINT_WORDS; i++)
        words[i] = zero();
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        unsigned word = LIMB_AT[i] / 64, bit = LIMB_AT[i] % 64;
        words[word] = either(words[word], left(a.limb[i], bit));
        if (word + 1 < POINT_WORDS)
            words[word + 1] = either(words[word + 1], right(a.limb[i], 64 - bit));
    }
}

#endif
