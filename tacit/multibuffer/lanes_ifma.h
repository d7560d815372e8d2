/* Eight 64-bit words, one message per lane, and the operations of AVX-512 with IFMA that the kernels share. */
#ifndef TACIT_LANES_IFMA_H
#define TACIT_LANES_IFMA_H

enum { LANES = 8, HASH_LANES = 16 };

typedef __m512i lanes;
typedef __mmask8 lane_mask;

#define shift_left _mm512_slli_epi64
#define shift_right _mm512_srli_epi64
#define shift_right32 _mm512_srli_epi32
#define turn _mm512_ror_epi64
#define turn32 _mm512_ror_epi32

INLINE lanes zero(void)
{
    return _mm512_setzero_si512();
}

INLINE lanes every(u64 word)
{
    return _mm512_set1_epi64((long long)word);
}

INLINE lanes add(lanes a, lanes b)
{
    return _mm512_add_epi64(a, b);
}

INLINE lanes sub(lanes a, lanes b)
{
    return _mm512_sub_epi64(a, b);
}

INLINE lanes both(lanes a, lanes b)
{
    return _mm512_and_si512(a, b);
}

INLINE lanes either(lanes a, lanes b)
{
    return _mm512_or_si512(a, b);
}

INLINE lanes differ(lanes a, lanes b)
{
    return _mm512_xor_si512(a, b);
}

INLINE lanes differ3(lanes a, lanes b, lanes c)
{
    return _mm512_ternarylogic_epi64(a, b, c, 0x96);
}

/* Bit by bit: b where a is set, else c. */
INLINE lanes select_bits(lanes a, lanes b, lanes c)
{
    return _mm512_ternarylogic_epi64(a, b, c, 0xca);
}

INLINE lanes majority(lanes a, lanes b, lanes c)
{
    return _mm512_ternarylogic_epi64(a, b, c, 0xe8);
}

/* Shifts by any count; a shift by 64 or more gives 0. */
INLINE lanes left(lanes a, unsigned bits)
{
    return _mm512_sll_epi64(a, _mm_cvtsi32_si128((int)bits));
}

INLINE lanes right(lanes a, unsigned bits)
{
    return _mm512_srl_epi64(a, _mm_cvtsi32_si128((int)bits));
}

/* sum + the low, or high, 52 bits of the product of the low 52 bits of a and b. */
INLINE lanes add_low(lanes sum, lanes a, lanes b)
{
    return _mm512_madd52lo_epu64(sum, a, b);
}

INLINE lanes add_high(lanes sum, lanes a, lanes b)
{
    return _mm512_madd52hi_epu64(sum, a, b);
}

/* Byte offsets of the rows of eight lanes; lanes beyond the last of `rows` repeat it. Stride 0: one row for all. */
INLINE lanes offsets(size_t stride, size_t rows)
{
    lanes row = _mm512_min_epu64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), every(rows - 1));
    return _mm512_mullo_epi64(row, every(stride));
}

INLINE lanes load(const u8 *base, lanes at)
{
    return _mm512_i64gather_epi64(at, base, 1);
}

/* -1 in lanes whose highest bit is set, else 0. */
INLINE lanes sign(lanes a)
{
    return _mm512_srai_epi64(a, 63);
}

INLINE lane_mask is_negative(lanes a)
{
    return _mm512_movepi64_mask(a);
}

INLINE lane_mask is_clear(lanes a)
{
    return _mm512_testn_epi64_mask(a, a);
}

/* The lanes in which one of `bits` is set. */
INLINE lane_mask has_bits(lanes a, lanes bits)
{
    return _mm512_test_epi64_mask(a, bits);
}

INLINE lanes choose(lane_mask chosen, lanes yes, lanes no)
{
    return _mm512_mask_blend_epi64(chosen, no, yes);
}

/* Bit i is set if lane i is chosen. */
INLINE unsigned bits_of(lane_mask chosen)
{
    return chosen;
}

INLINE lanes swap_bytes(lanes a)
{
    const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8));
    return _mm512_shuffle_epi8(a, order);
}

INLINE lanes every32(u32 word)
{
    return _mm512_set1_epi32((int)word);
}

INLINE lanes add32(lanes a, lanes b)
{
    return _mm512_add_epi32(a, b);
}

INLINE lanes load_row(const u32 words[HASH_LANES])
{
    return _mm512_loadu_si512(words);
}

/* Overwrites the vector registers. */
INLINE void clear_registers(void)
{
    __asm__ volatile("vzeroall\n\t"
                     "vpxorq %%zmm16, %%zmm16, %%zmm16\n\tvpxorq %%zmm17, %%zmm17, %%zmm17\n\t"
                     "vpxorq %%zmm18, %%zmm18, %%zmm18\n\tvpxorq %%zmm19, %%zmm19, %%zmm19\n\t"
                     "vpxorq %%zmm20, %%zmm20, %%zmm20\n\tvpxorq %%zmm21, %%zmm21, %%zmm21\n\t"
                     "vpxorq %%zmm22, %%zmm22, %%zmm22\n\tvpxorq %%zmm23, %%zmm23, %%zmm23\n\t"
                     "vpxorq %%zmm24, %%zmm24, %%zmm24\n\tvpxorq %%zmm25, %%zmm25, %%zmm25\n\t"
                     "vpxorq %%zmm26, %%zmm26, %%zmm26\n\tvpxorq %%zmm27, %%zmm27, %%zmm27\n\t"
                     "vpxorq %%zmm28, %%zmm28, %%zmm28\n\tvpxorq %%zmm29, %%zmm29, %%zmm29\n\t"
                     "vpxorq %%zmm30, %%zmm30, %%zmm30\n\tvpxorq %%zmm31, %%zmm31, %%zmm31" ::
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
                           "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20",
                           "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30",
                           "xmm31");
}

#endif
