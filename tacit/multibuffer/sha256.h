/* HMAC-SHA-256 (FIPS 180-4, RFC 2104) of sixteen messages, one per lane, under keys of 32 bytes. */
#ifndef TACIT_SHA256_H
#define TACIT_SHA256_H

#include "lanes.h"
#include "sha2.h"

enum { HASH_LANES = 16, HASH_WORDS = 8, BLOCK_WORDS = 16, BLOCK_BYTES = 64 };

typedef __m512i lanes32; /* sixteen 32-bit words, one per lane */

/* The hash states after the padded key, from which the inner and the outer hash of every MAC under it start. */
typedef struct {
    lanes32 inner[HASH_WORDS], outer[HASH_WORDS];
} mac_key;

INLINE lanes32 every32(u32 word)
{
    return _mm512_set1_epi32((int)word);
}

INLINE lanes32 add32(lanes32 a, lanes32 b)
{
    return _mm512_add_epi32(a, b);
}

#define XOR3(a, b, c) _mm512_ternarylogic_epi32(a, b, c, 0x96)
#define CHOOSE(a, b, c) _mm512_ternarylogic_epi32(a, b, c, 0xca)
#define MAJORITY(a, b, c) _mm512_ternarylogic_epi32(a, b, c, 0xe8)
#define TURN(a, bits) _mm512_ror_epi32(a, bits)

/* Overwrites `block`. */
KERNEL void compress(lanes32 state[HASH_WORDS], lanes32 block[BLOCK_WORDS])
{
    lanes32 s[HASH_WORDS];
    memcpy(s, state, sizeof s);
    for (int turn = 0; turn < 64; turn += 16) {
        UNROLL
        for (int i = 0; i < 16; i++) {
            if (turn) {
                lanes32 near = block[(i + 1) & 15], late = block[(i + 14) & 15];
                lanes32 small0 = XOR3(TURN(near, 7), TURN(near, 18), _mm512_srli_epi32(near, 3));
                lanes32 small1 = XOR3(TURN(late, 17), TURN(late, 19), _mm512_srli_epi32(late, 10));
                block[i] = add32(add32(block[i], small0), add32(block[(i + 9) & 15], small1));
            }
            lanes32 *a = &s[-i & 7], *b = &s[(1 - i) & 7], *c = &s[(2 - i) & 7], *d = &s[(3 - i) & 7];
            lanes32 *e = &s[(4 - i) & 7], *f = &s[(5 - i) & 7], *g = &s[(6 - i) & 7], *h = &s[(7 - i) & 7];
            lanes32 constant = every32((u32)(SHA2_ROUND[turn + i] >> 32));
            lanes32 sum = add32(add32(*h, add32(block[i], constant)), CHOOSE(*e, *f, *g));
            sum = add32(sum, XOR3(TURN(*e, 6), TURN(*e, 11), TURN(*e, 25)));
            *d = add32(*d, sum);
            *h = add32(add32(sum, MAJORITY(*a, *b, *c)), XOR3(TURN(*a, 2), TURN(*a, 13), TURN(*a, 22)));
        }
    }
    UNROLL
    for (int i = 0; i < HASH_WORDS; i++)
        state[i] = add32(state[i], s[i]);
}

#undef XOR3
#undef CHOOSE
#undef MAJORITY
#undef TURN

INLINE void start(lanes32 state[HASH_WORDS], const lanes32 key[HASH_WORDS], u32 padding)
{
    lanes32 block[BLOCK_WORDS];
    for (int i = 0; i < BLOCK_WORDS; i++)
        block[i] = i < HASH_WORDS ? _mm512_xor_si512(key[i], every32(padding)) : every32(padding);
    for (int i = 0; i < HASH_WORDS; i++)
        state[i] = every32(SHA256_START[i]);
    compress(state, block);
}

INLINE void set_key(mac_key *mac, const lanes32 key[HASH_WORDS])
{
    start(mac->inner, key, 0x36363636u);
    start(mac->outer, key, 0x5c5c5c5cu);
}

/* The MAC, in place of the inner hash. */
INLINE void finish(lanes32 state[HASH_WORDS], const mac_key *mac)
{
    lanes32 block[BLOCK_WORDS];
    memcpy(block, state, HASH_WORDS * sizeof *block);
    for (int i = HASH_WORDS; i < BLOCK_WORDS; i++)
        block[i] = zero();
    block[HASH_WORDS] = every32(0x80000000u);
    block[BLOCK_WORDS - 1] = every32(8 * (BLOCK_BYTES + 32));
    memcpy(state, mac->outer, sizeof mac->outer);
    compress(state, block);
}

#endif
