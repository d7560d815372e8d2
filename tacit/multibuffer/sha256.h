/* HMAC-SHA-256 (FIPS 180-4, RFC 2104) of messages, one per 32-bit lane, under keys of 32 bytes. */
#ifndef TACIT_SHA256_H
#define TACIT_SHA256_H

#include "lanes.h"
#include "sha2.h"

enum { HASH_WORDS = 8, BLOCK_WORDS = 16, BLOCK_BYTES = 64 };

/* The hash states after the padded key, from which the inner and the outer hash of every MAC under it start. */
typedef struct {
    lanes inner[HASH_WORDS], outer[HASH_WORDS];
} mac_key;

/* Overwrites `block`. */
KERNEL void compress(lanes state[HASH_WORDS], lanes block[BLOCK_WORDS])
{
    lanes s[HASH_WORDS];
    memcpy(s, state, sizeof s);
    for (int round = 0; round < 64; round += 16) {
        UNROLL
        for (int i = 0; i < 16; i++) {
            if (round) {
                lanes near = block[(i + 1) & 15], late = block[(i + 14) & 15];
                lanes small0 = differ3(turn32(near, 7), turn32(near, 18), shift_right32(near, 3));
                lanes small1 = differ3(turn32(late, 17), turn32(late, 19), shift_right32(late, 10));
                block[i] = add32(add32(block[i], small0), add32(block[(i + 9) & 15], small1));
            }
            lanes *a = &s[-i & 7], *b = &s[(1 - i) & 7], *c = &s[(2 - i) & 7], *d = &s[(3 - i) & 7];
            lanes *e = &s[(4 - i) & 7], *f = &s[(5 - i) & 7], *g = &s[(6 - i) & 7], *h = &s[(7 - i) & 7];
            lanes constant = every32((u32)(SHA2_ROUND[round + i] >> 32));
            lanes sum = add32(add32(*h, add32(block[i], constant)), select_bits(*e, *f, *g));
            sum = add32(sum, differ3(turn32(*e, 6), turn32(*e, 11), turn32(*e, 25)));
            *d = add32(*d, sum);
            *h = add32(add32(sum, majority(*a, *b, *c)), differ3(turn32(*a, 2), turn32(*a, 13), turn32(*a, 22)));
        }
    }
    UNROLL
    for (int i = 0; i < HASH_WORDS; i++)
        state[i] = add32(state[i], s[i]);
}

INLINE void start(lanes state[HASH_WORDS], const lanes key[HASH_WORDS], u32 padding)
{
    lanes block[BLOCK_WORDS];
    for (int i = 0; i < BLOCK_WORDS; i++)
        block[i] = i < HASH_WORDS ? differ(key[i], every32(padding)) : every32(padding);
    for (int i = 0; i < HASH_WORDS; i++)
        state[i] = every32(SHA256_START[i]);
    compress(state, block);
}

INLINE void set_key(mac_key *mac, const lanes key[HASH_WORDS])
{
    start(mac->inner, key, 0x36363636u);
    start(mac->outer, key, 0x5c5c5c5cu);
}

/* The MAC, in place of the inner hash. */
INLINE void finish(lanes state[HASH_WORDS], const mac_key *mac)
{
    lanes block[BLOCK_WORDS];
    memcpy(block, state, HASH_WORDS * sizeof *block);
    for (int i = HASH_WORDS; i < BLOCK_WORDS; i++)
        block[i] = zero();
    block[HASH_WORDS] = every32(0x80000000u);
    block[BLOCK_WORDS - 1] = every32(8 * (BLOCK_BYTES + 32));
    memcpy(state, mac->outer, sizeof mac->outer);
    compress(state, block);
}

#endif
