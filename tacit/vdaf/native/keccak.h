/* TurboSHAKE128 (RFC 9861) over LANES messages of one length in lockstep: Keccak-p[1600, 12], rate 168. */
#ifndef TACIT_KECCAK_H
#define TACIT_KECCAK_H

#include "lanes.h"

enum { RATE_WORDS = 21 };

#if TACIT_LEVEL >= 2
#define ROTATE(x, n) ((lanes)_mm512_rol_epi64((__m512i)(x), (n)))
#define XOR3(a, b, c) ((lanes)_mm512_ternarylogic_epi64((__m512i)(a), (__m512i)(b), (__m512i)(c), 0x96))
#define CHI(a, b, c) ((lanes)_mm512_ternarylogic_epi64((__m512i)(a), (__m512i)(b), (__m512i)(c), 0xD2))
#else
#define ROTATE(x, n) ((x) << (n) | (x) >> (64 - (n)))
#define XOR3(a, b, c) ((a) ^ (b) ^ (c))
#define CHI(a, b, c) ((a) ^ (~(b) & (c)))
#endif

static const u64 ROUND_CONSTANTS[12] = {
    0x000000008000808B, 0x800000000000008B, 0x8000000000008089, 0x8000000000008003,
    0x8000000000008002, 0x8000000000000080, 0x000000000000800A, 0x800000008000000A,
    0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008};

/* Theta: the parity of a column, and what its neighbours add to column x. */
#define PARITY(x0, x1, x2, x3, x4) XOR3(XOR3(a##x0, a##x1, a##x2), a##x3, a##x4)

/* Rho and pi: word `from` of column x, rotated. */
#define MOVED(from, x, n) ROTATE(a##from ^ d##x, n)

/* Chi: one row of the next state. */
#define CHI_ROW(e0, e1, e2, e3, e4, w0, w1, w2, w3, w4)            \
    do {                                                           \
        lanes b0 = w0, b1 = w1, b2 = w2, b3 = w3, b4 = w4;         \
        e0 = CHI(b0, b1, b2);                                      \
        e1 = CHI(b1, b2, b3);                                      \
        e2 = CHI(b2, b3, b4);                                      \
        e3 = CHI(b3, b4, b0);                                      \
        e4 = CHI(b4, b0, b1);                                      \
    } while (0)

/* Words are variables, not an array, so that they stay in registers. */
__attribute__((noinline)) static void keccak_p12(lanes state[25])
{
    lanes a0 = state[0], a1 = state[1], a2 = state[2], a3 = state[3], a4 = state[4];
    lanes a5 = state[5], a6 = state[6], a7 = state[7], a8 = state[8], a9 = state[9];
    lanes a10 = state[10], a11 = state[11], a12 = state[12], a13 = state[13], a14 = state[14];
    lanes a15 = state[15], a16 = state[16], a17 = state[17], a18 = state[18], a19 = state[19];
    lanes a20 = state[20], a21 = state[21], a22 = state[22], a23 = state[23], a24 = state[24];
    for (int round = 0; round < 12; round++) {
        lanes e0, e1, e2, e3, e4;
        lanes e5, e6, e7, e8, e9;
        lanes e10, e11, e12, e13, e14;
        lanes e15, e16, e17, e18, e19;
        lanes e20, e21, e22, e23, e24;
        lanes c0 = PARITY(0, 5, 10, 15, 20);
        lanes c1 = PARITY(1, 6, 11, 16, 21);
        lanes c2 = PARITY(2, 7, 12, 17, 22);
        lanes c3 = PARITY(3, 8, 13, 18, 23);
        lanes c4 = PARITY(4, 9, 14, 19, 24);
        lanes d0 = c4 ^ ROTATE(c1, 1);
        lanes d1 = c0 ^ ROTATE(c2, 1);
        lanes d2 = c1 ^ ROTATE(c3, 1);
        lanes d3 = c2 ^ ROTATE(c4, 1);
        lanes d4 = c3 ^ ROTATE(c0, 1);
        CHI_ROW(e0, e1, e2, e3, e4,
                a0 ^ d0, MOVED(6, 1, 44), MOVED(12, 2, 43), MOVED(18, 3, 21), MOVED(24, 4, 14));
        CHI_ROW(e5, e6, e7, e8, e9,
                MOVED(3, 3, 28), MOVED(9, 4, 20), MOVED(10, 0, 3), MOVED(16, 1, 45), MOVED(22, 2, 61));
        CHI_ROW(e10, e11, e12, e13, e14,
                MOVED(1, 1, 1), MOVED(7, 2, 6), MOVED(13, 3, 25), MOVED(19, 4, 8), MOVED(20, 0, 18));
        CHI_ROW(e15, e16, e17, e18, e19,
                MOVED(4, 4, 27), MOVED(5, 0, 36), MOVED(11, 1, 10), MOVED(17, 2, 15), MOVED(23, 3, 56));
        CHI_ROW(e20, e21, e22, e23, e24,
                MOVED(2, 2, 62), MOVED(8, 3, 55), MOVED(14, 4, 39), MOVED(15, 0, 41), MOVED(21, 1, 2));
        a0 = e0 ^ ROUND_CONSTANTS[round];
        a1 = e1; a2 = e2; a3 = e3; a4 = e4;
        a5 = e5; a6 = e6; a7 = e7; a8 = e8; a9 = e9;
        a10 = e10; a11 = e11; a12 = e12; a13 = e13; a14 = e14;
        a15 = e15; a16 = e16; a17 = e17; a18 = e18; a19 = e19;
        a20 = e20; a21 = e21; a22 = e22; a23 = e23; a24 = e24;
    }
    state[0] = a0; state[1] = a1; state[2] = a2; state[3] = a3; state[4] = a4;
    state[5] = a5; state[6] = a6; state[7] = a7; state[8] = a8; state[9] = a9;
    state[10] = a10; state[11] = a11; state[12] = a12; state[13] = a13; state[14] = a14;
    state[15] = a15; state[16] = a16; state[17] = a17; state[18] = a18; state[19] = a19;
    state[20] = a20; state[21] = a21; state[22] = a22; state[23] = a23; state[24] = a24;
}

typedef struct {
    lanes state[25];
    unsigned word, byte; /* where the next byte goes */
} sponge;

/* Adds the low `bytes` bytes of every lane; the bytes above must be 0. */
static inline void absorb_word(sponge *s, lanes word, unsigned bytes)
{
    unsigned shift = 8 * s->byte;
    s->state[s->word] ^= word << shift;
    s->byte += bytes;
    if (s->byte < 8)
        return;
    s->byte -= 8;
    if (++s->word == RATE_WORDS) {
        keccak_p12(s->state);
        s->word = 0;
    }
    if (s->byte)
        s->state[s->word] ^= word >> (64 - shift);
}

static inline void absorb_bytes(sponge *s, const u8 *bytes, size_t count)
{
    for (size_t at = 0; at < count; at += 8) {
        size_t some = count - at < 8 ? count - at : 8;
        u64 word = 0;
        memcpy(&word, bytes + at, some);
        absorb_word(s, (lanes){0} + word, (unsigned)some);
    }
}

static inline void absorb_byte(sponge *s, unsigned byte)
{
    absorb_word(s, (lanes){0} + byte, 1);
}

static inline void absorb_rows(sponge *s, rows r, size_t count)
{
    for (size_t at = 0; at < count; at += 8)
        absorb_word(s, load_word(&r, at, 8), 8); /* counts are multiples of 8 */
}

static inline void absorb_words(sponge *s, const lanes *words, size_t count)
{
    unsigned left = 8 * s->byte;
    lanes previous = {0}; /* its upper bytes are still to be added */
    for (size_t i = 0; i < count; i++) {
        s->state[s->word] ^= words[i] << left | previous;
        previous = left ? words[i] >> (64 - left) : previous;
        if (++s->word == RATE_WORDS) {
            keccak_p12(s->state);
            s->word = 0;
        }
    }
    s->state[s->word] ^= previous;
}

/* Starts the stream of one usage: len(dst), dst, len(seed). */
static inline void start(sponge *s, const tacit_plan *plan, int usage)
{
    memset(s, 0, sizeof *s);
    absorb_bytes(s, plan->prefix[usage], plan->prefix_len);
}

/* Ends the message (domain byte 1) and takes the first `count` words of the output. */
static inline void squeeze(sponge *s, lanes *words, size_t count)
{
    s->state[s->word] ^= (lanes){0} + ((u64)1 << 8 * s->byte);
    s->state[RATE_WORDS - 1] ^= (lanes){0} + ((u64)1 << 63);
    for (size_t done = 0; done < count; done += RATE_WORDS) {
        size_t some = count - done < RATE_WORDS ? count - done : RATE_WORDS;
        keccak_p12(s->state);
        memcpy(words + done, s->state, some * sizeof(lanes));
    }
}

#endif
