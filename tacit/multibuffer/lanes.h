/* Eight 64-bit words, one message per lane, and the operations of AVX-512 with IFMA that the kernels share. */
#ifndef TACIT_LANES_H
#define TACIT_LANES_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES 8
#define INLINE static inline __attribute__((always_inline))
#define KERNEL static __attribute__((noinline))
#define UNROLL _Pragma("GCC unroll 64")

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef __m512i lanes;

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

/* Overwrites memory that held secrets; the compiler cannot drop this. */
INLINE void wipe(void *memory, size_t bytes)
{
    memset(memory, 0, bytes);
    __asm__ volatile("" : : "r"(memory) : "memory");
}

INLINE lanes swap_bytes(lanes a)
{
    const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8));
    return _mm512_shuffle_epi8(a, order);
}

#endif
