/* 64-bit words, one message per lane: eight with AVX-512 IFMA, four with AVX2. */
#ifndef TACIT_LANES_H
#define TACIT_LANES_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define KERNEL static __attribute__((noinline))
#define UNROLL _Pragma("GCC unroll 64")

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

#if defined(__AVX512IFMA__)
#include "lanes_ifma.h"
#else
#include "lanes_avx2.h"
#endif

/* Overwrites memory that held secrets; the compiler cannot drop this. */
INLINE void wipe(void *memory, size_t bytes)
{
    memset(memory, 0, bytes);
    __asm__ volatile("" : : "r"(memory) : "memory");
}

#endif
