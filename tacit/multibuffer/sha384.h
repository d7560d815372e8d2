/* SHA-384 (FIPS 180-4) of eight messages of one block each, words in lanes. */
#ifndef TACIT_SHA384_H
#define TACIT_SHA384_H

#include "lanes.h"
#include "sha2.h"

enum { SHA384_WORDS = 6, SHA512_BLOCK_WORDS = 16 };

/* a ^ b ^ c, b chosen over c by a, the majority. */
#define XOR3(a, b, c) _mm512_ternarylogic_epi64(a, b, c, 0x96)
#define CHOOSE(a, b, c) _mm512_ternarylogic_epi64(a, b, c, 0xca)
#define MAJORITY(a, b, c) _mm512_ternarylogic_epi64(a, b, c, 0xe8)
#define TURN(a, bits) _mm512_ror_epi64(a, bits)

/* `block` is the padded message; it is overwritten. */
KERNEL void sha384(lanes digest[SHA384_WORDS], lanes block[SHA512_BLOCK_WORDS])
{
    lanes s[8];
    UNROLL
    for (int i = 0; i < 8; i++)
        s[i] = every(SHA384_START[i]);
    for (int turn = 0; turn < 80; turn += 16) {
        UNROLL
        for (int i = 0; i < 16; i++) {
            if (turn) {
                lanes near = block[(i + 1) & 15], late = block[(i + 14) & 15];
                lanes small0 = XOR3(TURN(near, 1), TURN(near, 8), _mm512_srli_epi64(near, 7));
                lanes small1 = XOR3(TURN(late, 19), TURN(late, 61), _mm512_srli_epi64(late, 6));
                block[i] = add(add(block[i], small0), add(block[(i + 9) & 15], small1));
            }
            lanes *a = &s[-i & 7], *b = &s[(1 - i) & 7], *c = &s[(2 - i) & 7], *d = &s[(3 - i) & 7];
            lanes *e = &s[(4 - i) & 7], *f = &s[(5 - i) & 7], *g = &s[(6 - i) & 7], *h = &s[(7 - i) & 7];
            lanes sum = add(add(*h, add(block[i], every(SHA2_ROUND[turn + i]))), CHOOSE(*e, *f, *g));
            sum = add(sum, XOR3(TURN(*e, 14), TURN(*e, 18), TURN(*e, 41)));
            *d = add(*d, sum);
            *h = add(add(sum, MAJORITY(*a, *b, *c)), XOR3(TURN(*a, 28), TURN(*a, 34), TURN(*a, 39)));
        }
    }
    UNROLL
    for (int i = 0; i < SHA384_WORDS; i++)
        digest[i] = add(s[i], every(SHA384_START[i]));
}

#undef XOR3
#undef CHOOSE
#undef MAJORITY
#undef TURN

#endif
