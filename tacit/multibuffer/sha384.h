/* SHA-384 (FIPS 180-4) of messages of one block each, words in lanes. */
#ifndef TACIT_SHA384_H
#define TACIT_SHA384_H

#include "lanes.h"
#include "sha2.h"

enum { SHA384_WORDS = 6, SHA512_BLOCK_WORDS = 16 };

/* `block` is the padded message; it is overwritten. */
KERNEL void sha384(lanes digest[SHA384_WORDS], lanes block[SHA512_BLOCK_WORDS])
{
    lanes s[8];
    UNROLL
    for (int i = 0; i < 8; i++)
        s[i] = every(SHA384_START[i]);
    for (int round = 0; round < 80; round += 16) {
        UNROLL
        for (int i = 0; i < 16; i++) {
            if (round) {
                lanes near = block[(i + 1) & 15], late = block[(i + 14) & 15];
                lanes small0 = differ3(turn(near, 1), turn(near, 8), shift_right(near, 7));
                lanes small1 = differ3(turn(late, 19), turn(late, 61), shift_right(late, 6));
                block[i] = add(add(block[i], small0), add(block[(i + 9) & 15], small1));
            }
            lanes *a = &s[-i & 7], *b = &s[(1 - i) & 7], *c = &s[(2 - i) & 7], *d = &s[(3 - i) & 7];
            lanes *e = &s[(4 - i) & 7], *f = &s[(5 - i) & 7], *g = &s[(6 - i) & 7], *h = &s[(7 - i) & 7];
            lanes sum = add(add(*h, add(block[i], every(SHA2_ROUND[round + i]))), select_bits(*e, *f, *g));
            sum = add(sum, differ3(turn(*e, 14), turn(*e, 18), turn(*e, 41)));
            *d = add(*d, sum);
            *h = add(add(sum, majority(*a, *b, *c)), differ3(turn(*a, 28), turn(*a, 34), turn(*a, 39)));
        }
    }
    UNROLL
    for (int i = 0; i < SHA384_WORDS; i++)
        digest[i] = add(s[i], every(SHA384_START[i]));
}

#endif
