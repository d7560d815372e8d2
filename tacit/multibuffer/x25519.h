/* X25519 (RFC 7748 section 5) of up to CHUNK pairs of scalar and point, one pair per lane, one inversion for all. */
#ifndef TACIT_X25519_H
#define TACIT_X25519_H

#include "field25519.h"
#include "kernels.h"

enum { GROUPS = 8, CHUNK = GROUPS * LANES };

/* The Montgomery ladder in lock step; the result is numerator / denominator.
 *
 * Both points are kept as x + z and x - z. The sum of the two needs all four, in either order; only the doubling must
 * know which point it doubles, so one selection by the scalar's bit replaces the usual two swaps. */
KERNEL void ladder(element *numerator, element *denominator, const lanes scalar[POINT_WORDS], const element *x)
{
    lanes bits[POINT_WORDS] = {both(scalar[0], every(~(u64)7)), scalar[1], scalar[2],
                               either(both(scalar[3], every(~(u64)0 >> 1)), every((u64)1 << 62))};
    element sum2 = one(), difference2 = one(); /* the point at infinity, 1 : 0 */
    element sum3 = carried(plus(*x, one())), difference3 = carried(minus(*x, one(), 1));
    lane_mask before = {0};
    for (int i = 254; i >= 0; i--) {
        lane_mask bit = has_bits(bits[i / 64], every((u64)1 << i % 64));
        lane_mask third = bit ^ before;
        before = bit;
        element sum, difference;
        UNROLL
        for (int j = 0; j < FIELD_LIMBS; j++) {
            sum.limb[j] = choose(third, sum3.limb[j], sum2.limb[j]);
            difference.limb[j] = choose(third, difference3.limb[j], difference2.limb[j]);
        }
        element da = product(difference3, sum2), cb = product(sum3, difference2);
        element aa = squared(sum), bb = squared(difference);
        element plus_root = carried(plus(da, cb)), minus_root = carried(minus(da, cb, WIDE));
        element e = carried(minus(aa, bb, 1));
        element x3 = product_square(plus_root), z3 = product(*x, squared(minus_root));
        element x2 = product(aa, bb), z2 = product(e, carried(plus_curve_times(aa, e)));
        sum2 = carried(plus(x2, z2));
        difference2 = carried(minus(x2, z2, WIDE));
        sum3 = carried(plus(x3, z3));
        difference3 = carried(minus(x3, z3, WIDE));
    }
    /* The last bit of a scalar is 0, so the second point is the result: x + z + x - z and x + z - (x - z). */
    *numerator = carried(plus(sum2, difference2));
    *denominator = carried(minus(sum2, difference2, 1));
}

INLINE void store_rows(u8 *out, element a, size_t rows)
{
    lanes words[POINT_WORDS];
    u64 lane[POINT_WORDS][LANES];
    words_of(words, a);
    memcpy(lane, words, sizeof lane);
    for (size_t row = 0; row < rows; row++)
        for (int i = 0; i < POINT_WORDS; i++)
            memcpy(out + POINT_BYTES * row + 8 * i, &lane[i][row], 8);
    wipe(lane, sizeof lane);
}

INLINE void load_words(lanes words[POINT_WORDS], const u8 *base, size_t stride, size_t rows)
{
    lanes at = offsets(stride, rows);
    for (int i = 0; i < POINT_WORDS; i++)
        words[i] = load(base + 8 * i, at);
}

/* `count` is 1 to CHUNK. A stride of 0 gives every lane the same scalar or point. If a point has low order, its row of
 * out is all zero, and its flag 1. */
KERNEL void x25519_chunk(u8 *out, u8 *flags, const u8 *scalars, size_t scalar_stride, const u8 *points,
                         size_t point_stride, size_t count)
{
    element numerator[GROUPS], denominator[GROUPS], before[GROUPS], inverse;
    lane_mask infinite[GROUPS];
    lanes scalar[POINT_WORDS], point[POINT_WORDS];
    size_t groups = (count + LANES - 1) / LANES;
    for (size_t g = 0; g < groups; g++) {
        size_t first = LANES * g, rows = count - first < LANES ? count - first : LANES;
        load_words(scalar, scalars + scalar_stride * first, scalar_stride, rows);
        load_words(point, points + point_stride * first, point_stride, rows);
        element x = element_of(point);
        ladder(&numerator[g], &denominator[g], scalar, &x);
        denominator[g] = canonical(denominator[g]);
        infinite[g] = is_zero(denominator[g]);
        denominator[g].limb[0] = choose(infinite[g], every(1), denominator[g].limb[0]);
        before[g] = g ? times(before[g - 1], denominator[g - 1]) : one();
    }
    inverse = times(before[groups - 1], denominator[groups - 1]);
    invert(&inverse, &inverse);
    for (size_t g = groups; g-- > 0;) {
        size_t first = LANES * g, rows = count - first < LANES ? count - first : LANES;
        element result = canonical(times(numerator[g], times(inverse, before[g])));
        inverse = times(inverse, denominator[g]);
        for (int i = 0; i < FIELD_LIMBS; i++)
            result.limb[i] = choose(infinite[g], zero(), result.limb[i]);
        unsigned none = bits_of(is_zero(result));
        store_rows(out + POINT_BYTES * first, result, rows);
        for (size_t row = 0; row < rows; row++)
            flags[first + row] = none >> row & 1;
    }
    wipe(numerator, sizeof numerator);
    wipe(denominator, sizeof denominator);
    wipe(before, sizeof before);
    wipe(&inverse, sizeof inverse);
    wipe(scalar, sizeof scalar);
}

#endif
