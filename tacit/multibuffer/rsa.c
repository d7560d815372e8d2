/* RSASSA-PSS verification (RFC 8017 section 8.1.2) of eight signatures at a time under one 2048-bit key with public
 * exponent 65537, SHA-384, MGF1-SHA-384 and a salt of 48 bytes. All inputs are public: branches may depend on them.
 *
 * Numbers are 40 limbs of 52 bits. Montgomery products are relative to R = 2^2080 and only kept below 2N: as R is more
 * than 2^30 * 4N, a product of two numbers below 2N is below 2N again without a subtraction. Every column of a
 * product or of a reduction gets at most 80 terms below 2^52, every sum of columns stays below 2^61.
 */
#include "kernels.h"
#include "lanes.h"
#include "sha384.h"

enum { LIMBS = 40, BLOCK = 8, WORDS = 32, SQUARINGS = 16 };
static const u64 LIMB_MASK = ((u64)1 << 52) - 1;

typedef struct {
    u64 limbs[LIMBS];     /* N */
    u64 r_squared[LIMBS]; /* R^2 modulo N */
    u64 quotient;         /* -1/N modulo 2^52 */
} modulus;

/* Computes q[k], the quotient limb that makes column k of t divisible by 2^52; carries into column k + 1. */
INLINE void next_quotient(lanes q[BLOCK], lanes *t, int k, const modulus *n)
{
    lanes low = t[k], high = zero();
    UNROLL
    for (int j = 0; j < k; j++) {
        low = add_low(low, q[j], every(n->limbs[k - j]));
        high = add_high(high, q[j], every(n->limbs[k - j - 1]));
    }
    low = add(low, high);
    q[k] = add_low(zero(), low, every(n->quotient));
    low = add_low(low, q[k], every(n->limbs[0]));
    t[k + 1] = add(t[k + 1], _mm512_srli_epi64(low, 52));
}

/* Adds column `at` (8 or more) of q * N. If `at` is a constant, the compiler knows which terms there are. */
INLINE void add_quotient_column(lanes *t, const lanes q[BLOCK], int at, const modulus *n)
{
    lanes low = t[at], high = zero();
    UNROLL
    for (int j = 0; j < BLOCK; j++) {
        if (at - j < LIMBS)
            low = add_low(low, q[j], every(n->limbs[at - j]));
        if (at - j - 1 < LIMBS)
            high = add_high(high, q[j], every(n->limbs[at - j - 1]));
    }
    t[at] = add(low, high);
}

/* Adds to the column at t the given terms of a product by q: low halves with limb a[-j] for j in [low_from, low_to),
 * high halves with limb a[-j - 1] for j in [high_from, high_to). */
INLINE void add_column(lanes *t, const lanes q[BLOCK], const lanes *a, int low_from, int low_to, int high_from,
                       int high_to)
{
    lanes low = *t, high = zero();
    UNROLL
    for (int j = 0; j < BLOCK; j++) {
        if (j >= low_from && j < low_to)
            low = add_low(low, q[j], a[-j]);
        if (j >= high_from && j < high_to)
            high = add_high(high, q[j], a[-j - 1]);
    }
    *t = add(low, high);
}

/* Adds q * a to t; a has `count` limbs, 8 or more. */
INLINE void add_rows(lanes *t, const lanes q[BLOCK], const lanes *a, int count)
{
    UNROLL
    for (int at = 0; at < BLOCK; at++)
        add_column(t + at, q, a + at, 0, at + 1, 0, at);
    for (int at = BLOCK; at < count; at++)
        add_column(t + at, q, a + at, 0, BLOCK, 0, BLOCK);
    UNROLL
    for (int beyond = 0; beyond < BLOCK; beyond++)
        add_column(t + count + beyond, q, a + count + beyond, beyond + 1, BLOCK, beyond, BLOCK);
}

/* Adds to column `at` the products of different limbs of q, each once. */
INLINE void add_own_column(lanes *t, const lanes q[BLOCK], int at)
{
    lanes low = t[at], high = zero();
    UNROLL
    for (int j = 0; j < BLOCK; j++) {
        if (at - j > j && at - j < BLOCK)
            low = add_low(low, q[j], q[at - j]);
        if (at - j - 1 > j && at - j - 1 < BLOCK)
            high = add_high(high, q[j], q[at - j - 1]);
    }
    t[at] = add(low, high);
}

/* result = t / R modulo N. The serial chain of a block's quotients is interleaved with the previous block's columns. */
INLINE void reduce(lanes result[LIMBS], lanes t[2 * LIMBS], const modulus *n)
{
    lanes q[BLOCK], next[BLOCK], carry = zero();
    UNROLL
    for (int k = 0; k < BLOCK; k++)
        next_quotient(q, t, k, n);
    for (int row = 0; row < LIMBS - BLOCK; row += BLOCK) {
        UNROLL
        for (int at = BLOCK; at < 2 * BLOCK; at++)
            add_quotient_column(t + row, q, at, n);
        UNROLL
        for (int k = 0; k < BLOCK; k++) {
            next_quotient(next, t + row + BLOCK, k, n);
            UNROLL
            for (int at = 0; at < (LIMBS - BLOCK) / BLOCK; at++)
                add_quotient_column(t + row, q, 2 * BLOCK + (LIMBS - BLOCK) / BLOCK * k + at, n);
        }
        memcpy(q, next, sizeof q);
    }
    for (int at = BLOCK; at < LIMBS; at++)
        add_quotient_column(t + LIMBS - BLOCK, q, at, n);
    UNROLL
    for (int at = LIMBS; at < LIMBS + BLOCK; at++)
        add_quotient_column(t + LIMBS - BLOCK, q, at, n);
    for (int i = 0; i < LIMBS; i++) {
        carry = add(carry, t[LIMBS + i]);
        result[i] = both(carry, every(LIMB_MASK));
        carry = _mm512_srli_epi64(carry, 52);
    }
}

KERNEL void multiply(lanes result[LIMBS], const lanes a[LIMBS], const lanes b[LIMBS], const modulus *n)
{
    lanes t[2 * LIMBS] = {zero()};
    for (int row = 0; row < LIMBS; row += BLOCK)
        add_rows(t + row, b + row, a, LIMBS);
    reduce(result, t, n);
}

/* Products of different limbs once, doubled, and the squares of the limbs. */
KERNEL void square(lanes a[LIMBS], const modulus *n)
{
    lanes t[2 * LIMBS] = {zero()};
    for (int row = 0; row < LIMBS; row += BLOCK) {
        const lanes *q = a + row;
        UNROLL
        for (int at = 1; at < 2 * BLOCK - 1; at++)
            add_own_column(t + 2 * row, q, at);
        if (row < LIMBS - BLOCK)
            add_rows(t + 2 * row + BLOCK, q, q + BLOCK, LIMBS - BLOCK - row);
    }
    for (int i = 0; i < LIMBS; i++) {
        t[2 * i] = add_low(add(t[2 * i], t[2 * i]), a[i], a[i]);
        t[2 * i + 1] = add_high(add(t[2 * i + 1], t[2 * i + 1]), a[i], a[i]);
    }
    reduce(a, t, n);
}

/* Replaces a by a - N in lanes where that is not negative; returns the lanes with a below N. */
INLINE __mmask8 subtract_modulus(lanes a[LIMBS], const modulus *n)
{
    lanes less[LIMBS], borrow = zero();
    for (int i = 0; i < LIMBS; i++) {
        lanes difference = add(sub(a[i], every(n->limbs[i])), borrow);
        borrow = _mm512_srai_epi64(difference, 63);
        less[i] = both(difference, every(LIMB_MASK));
    }
    __mmask8 below = _mm512_movepi64_mask(borrow);
    for (int i = 0; i < LIMBS; i++)
        a[i] = _mm512_mask_mov_epi64(less[i], below, a[i]);
    return below;
}

/* 64-bit words, the most significant first, to limbs and back. */
INLINE void limbs_of(lanes limbs[LIMBS], const lanes words[WORDS])
{
    for (unsigned i = 0; i < LIMBS; i++) {
        unsigned word = 52 * i / 64, bit = 52 * i % 64;
        limbs[i] = right(words[WORDS - 1 - word], bit);
        if (word + 1 < WORDS)
            limbs[i] = either(limbs[i], left(words[WORDS - 2 - word], 64 - bit));
        limbs[i] = both(limbs[i], every(LIMB_MASK));
    }
}

INLINE void words_of(lanes words[WORDS], const lanes limbs[LIMBS])
{
    for (unsigned i = 0; i < WORDS; i++) {
        unsigned limb = 64 * i / 52, bit = 64 * i % 52;
        lanes word = either(right(limbs[limb], bit), left(limbs[limb + 1], 52 - bit));
        if (limb + 2 < LIMBS)
            word = either(word, left(limbs[limb + 2], 104 - bit));
        words[WORDS - 1 - i] = word;
    }
}

/* Replaces words by signature^65537 modulo N; returns the lanes whose signature is below N. */
INLINE __mmask8 recover(lanes words[WORDS], const modulus *n)
{
    lanes signature[LIMBS], power[LIMBS], factor[LIMBS];
    limbs_of(signature, words);
    memcpy(power, signature, sizeof power);
    __mmask8 in_range = subtract_modulus(power, n);
    for (int i = 0; i < LIMBS; i++)
        factor[i] = every(n->r_squared[i]);
    multiply(power, signature, factor, n);
    for (int i = 0; i < SQUARINGS; i++)
        square(power, n);
    multiply(power, power, signature, n);
    subtract_modulus(power, n);
    words_of(words, power);
    return in_range;
}

/* The word that begins 7 bytes into words[0]. */
INLINE lanes after_seven_bytes(const lanes *words)
{
    return either(_mm512_slli_epi64(words[0], 56), _mm512_srli_epi64(words[1], 8));
}

/* EMSA-PSS-VERIFY (RFC 8017 section 9.1.2) with emBits = 2047; returns the lanes that are consistent.
 *
 * em = maskedDB (207 bytes) || H (48) || 0xbc, and DB = 158 zeros || 0x01 || salt (48). */
INLINE __mmask8 consistent(const lanes em[WORDS], const lanes message_hash[SHA384_WORDS])
{
    lanes hash[SHA384_WORDS], db[5 * SHA384_WORDS], block[SHA512_BLOCK_WORDS];
    for (int i = 0; i < SHA384_WORDS; i++)
        hash[i] = after_seven_bytes(em + 25 + i);
    for (u64 counter = 0; counter < 5; counter++) {
        memcpy(block, hash, sizeof hash);
        for (int i = SHA384_WORDS; i < SHA512_BLOCK_WORDS; i++)
            block[i] = zero();
        block[6] = every(counter << 32 | 0x80000000u);
        block[15] = every(8 * (48 + 4));
        sha384(db + SHA384_WORDS * counter, block);
    }
    for (int i = 0; i < 26; i++)
        db[i] = differ(db[i], em[i]);
    lanes wrong = either(_mm512_srli_epi64(em[0], 63), both(differ(em[31], every(0xbc)), every(0xff)));
    wrong = either(wrong, both(db[0], every(~(u64)0 >> 1)));
    for (int i = 1; i < 19; i++)
        wrong = either(wrong, db[i]);
    wrong = either(wrong, differ(_mm512_srli_epi64(db[19], 8), every(1)));

    block[0] = zero();
    memcpy(block + 1, message_hash, sizeof hash);
    for (int i = 0; i < SHA384_WORDS; i++)
        block[7 + i] = after_seven_bytes(db + 19 + i);
    block[13] = every((u64)1 << 63);
    block[14] = zero();
    block[15] = every(8 * (8 + 48 + 48));
    sha384(db, block);
    for (int i = 0; i < SHA384_WORDS; i++)
        wrong = either(wrong, differ(db[i], hash[i]));
    return _mm512_testn_epi64_mask(wrong, wrong);
}

static void limbs_of_bytes(u64 limbs[LIMBS], const u8 number[RSA_BYTES])
{
    for (int i = 0; i < LIMBS; i++) {
        u64 limb = 0;
        for (int bit = 0; bit < 52; bit += 4) {
            int at = 52 * i + bit;
            if (at < 8 * RSA_BYTES)
                limb |= (u64)(number[RSA_BYTES - 1 - at / 8] >> at % 8 & 15) << bit;
        }
        limbs[i] = limb;
    }
}

static void set_modulus(modulus *n, const u8 number[RSA_BYTES], const u8 r_squared[RSA_BYTES])
{
    memset(n, 0, sizeof *n);
    limbs_of_bytes(n->limbs, number);
    limbs_of_bytes(n->r_squared, r_squared);
    u64 inverse = 1;
    for (int i = 0; i < 6; i++)
        inverse *= 2 - n->limbs[0] * inverse;
    n->quotient = -inverse & LIMB_MASK;
}

void rsa_verify(const u8 *number, const u8 *r_squared, size_t count, const u8 *signatures, const u8 *hashes,
                u8 *verdicts)
{
    modulus n;
    set_modulus(&n, number, r_squared);
    for (size_t first = 0; first < count; first += LANES) {
        size_t rows = count - first < LANES ? count - first : LANES;
        lanes words[WORDS], message_hash[SHA384_WORDS];
        lanes at = offsets(RSA_BYTES, rows);
        for (int i = 0; i < WORDS; i++)
            words[i] = swap_bytes(load(signatures + RSA_BYTES * first + 8 * i, at));
        at = offsets(HASH_BYTES, rows);
        for (int i = 0; i < SHA384_WORDS; i++)
            message_hash[i] = swap_bytes(load(hashes + HASH_BYTES * first + 8 * i, at));
        __mmask8 good = recover(words, &n);
        good &= consistent(words, message_hash);
        for (size_t row = 0; row < rows; row++)
            verdicts[first + row] = good >> row & 1;
    }
}
