/* Four 64-bit words, one message per lane, and the operations of AVX2 that the kernels share. */
#ifndef TACIT_LANES_AVX2_H
#define TACIT_LANES_AVX2_H

enum { LANES = 4, HASH_LANES = 8 };

typedef __m256i lanes;
typedef __m256i lane_mask; /* all bits of a chosen lane are 1 */

#define shift_left _mm256_slli_epi64
#define shift_right _mm256_srli_epi64
#define shift_right32 _mm256_srli_epi32

INLINE lanes zero(void)
{
    return _mm256_setzero_si256();
}

INLINE lanes every(u64 word)
{
    return _mm256_set1_epi64x((long long)word);
}

INLINE lanes add(lanes a, lanes b)
{
    return _mm256_add_epi64(a, b);
}

INLINE lanes sub(lanes a, lanes b)
{
    return _mm256_sub_epi64(a, b);
}

INLINE lanes both(lanes a, lanes b)
{
    return _mm256_and_si256(a, b);
}

INLINE lanes either(lanes a, lanes b)
{
    return _mm256_or_si256(a, b);
}

INLINE lanes differ(lanes a, lanes b)
{
    return _mm256_xor_si256(a, b);
}

INLINE lanes differ3(lanes a, lanes b, lanes c)
{
    return differ(differ(a, b), c);
}

/* Bit by bit: b where a is set, else c. */
INLINE lanes select_bits(lanes a, lanes b, lanes c)
{
    return differ(both(a, differ(b, c)), c);
}

INLINE lanes majority(lanes a, lanes b, lanes c)
{
    return differ(both(differ(a, c), differ(b, c)), c);
}

/* Shifts by any count; a shift by 64 or more gives 0. */
INLINE lanes left(lanes a, unsigned bits)
{
    return _mm256_sll_epi64(a, _mm_cvtsi32_si128((int)bits));
}

INLINE lanes right(lanes a, unsigned bits)
{
    return _mm256_srl_epi64(a, _mm_cvtsi32_si128((int)bits));
}

/* The product of the low 32 bits of a and b. */
INLINE lanes mul(lanes a, lanes b)
{
    return _mm256_mul_epu32(a, b);
}

/* -1 in lanes whose highest bit is set, else 0. */
INLINE lanes sign(lanes a)
{
    return _mm256_cmpgt_epi64(zero(), a);
}

INLINE lane_mask is_negative(lanes a)
{
    return sign(a);
}

INLINE lane_mask is_clear(lanes a)
{
    return _mm256_cmpeq_epi64(a, zero());
}

/* The lanes in which one of `bits` is set. */
INLINE lane_mask has_bits(lanes a, lanes bits)
{
    return ~is_clear(both(a, bits));
}

INLINE lanes choose(lane_mask chosen, lanes yes, lanes no)
{
    return _mm256_blendv_epi8(no, yes, chosen);
}

/* Bit i is set if lane i is chosen. */
INLINE unsigned bits_of(lane_mask chosen)
{
    return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(chosen));
}

/* Byte offsets of the rows of four lanes; lanes beyond the last of `rows` repeat it. Stride 0: one row for all. */
INLINE lanes offsets(size_t stride, size_t rows)
{
    lanes row = _mm256_setr_epi64x(0, 1, 2, 3), last = every(rows - 1);
    return mul(choose(_mm256_cmpgt_epi64(row, last), last, row), every(stride));
}

INLINE lanes load(const u8 *base, lanes at)
{
    return _mm256_i64gather_epi64((const long long *)base, at, 1);
}

INLINE lanes swap_bytes(lanes a)
{
    const lanes order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8));
    return _mm256_shuffle_epi8(a, order);
}

INLINE lanes turn(lanes a, int bits)
{
    return either(shift_right(a, bits), shift_left(a, 64 - bits));
}

INLINE lanes turn32(lanes a, int bits)
{
    return either(shift_right32(a, bits), _mm256_slli_epi32(a, 32 - bits));
}

INLINE lanes every32(u32 word)
{
    return _mm256_set1_epi32((int)word);
}

INLINE lanes add32(lanes a, lanes b)
{
    return _mm256_add_epi32(a, b);
}

INLINE lanes load_row(const u32 words[HASH_LANES])
{
    return _mm256_loadu_si256((const lanes *)words);
}

/* Overwrites the vector registers. */
INLINE void clear_registers(void)
{
    __asm__ volatile("vzeroall" ::
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
                           "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

#endif
