/* RSASSA-PSS verification (RFC 8017 section 8.1.2) of a signature per lane under one 2048-bit key with public exponent
 * 65537, SHA-384, MGF1-SHA-384 and a salt of 48 bytes. All inputs are public: branches may depend on them.
 */
#include "kernels.h"
#include "sha384.h"

#if defined(__AVX512IFMA__)
#include "number52.h"
#else
#include "number28.h"
#endif

enum { WORDS = 32, SQUARINGS = 16 };

/* Replaces a by a - N in lanes where that is not negative; returns the lanes with a below N. */
INLINE lane_mask subtract_modulus(lanes a[LIMBS], const modulus *n)
{
    lanes less[LIMBS], borrow = zero();
    for (int i = 0; i < LIMBS; i++) {
        lanes difference = add(sub(a[i], every(n->limbs[i])), borrow);
        borrow = sign(difference);
        less[i] = both(difference, every(LIMB_MASK));
    }
    lane_mask below = is_negative(borrow);
    for (int i = 0; i < LIMBS; i++)
        a[i] = choose(below, a[i], less[i]);
    return below;
}

/* 64-bit words, the most significant first, to limbs and back. */
INLINE void limbs_of(lanes limbs[LIMBS], const lanes words[WORDS])
{
    for (unsigned i = 0; i < LIMBS; i++) {
        unsigned word = LIMB_BITS * i / 64, bit = LIMB_BITS * i % 64;
        limbs[i] = word < WORDS ? right(words[WORDS - 1 - word], bit) : zero();
        if (word + 1 < WORDS)
            limbs[i] = either(limbs[i], left(words[WORDS - 2 - word], 64 - bit));
        limbs[i] = both(limbs[i], every(LIMB_MASK));
    }
}

INLINE void words_of(lanes words[WORDS], const lanes limbs[LIMBS])
{
    for (unsigned i = 0; i < WORDS; i++) {
        unsigned limb = 64 * i / LIMB_BITS, bit = 64 * i % LIMB_BITS;
        lanes word = right(limbs[limb], bit);
        for (bit = LIMB_BITS - bit; bit < 64; bit += LIMB_BITS)
            word = either(word, left(limbs[++limb], bit));
        words[WORDS - 1 - i] = word;
    }
}

/* Replaces words by signature^65537 modulo N; returns the lanes whose signature is below N. */
INLINE lane_mask recover(lanes words[WORDS], const modulus *n)
{
    lanes signature[LIMBS], power[LIMBS], factor[LIMBS];
    limbs_of(signature, words);
    memcpy(power, signature, sizeof power);
    lane_mask in_range = subtract_modulus(power, n);
    for (int i = 0; i < LIMBS; i++)
        factor[i] = every(n->r_squared[i]);
    multiply(power, signature, factor, n);
    for (int i = 0; i < SQUARINGS; i++)
        square(power, n);
    multiply_fully(power, power, signature, n);
    subtract_modulus(power, n);
    words_of(words, power);
    return in_range;
}

/* The word that begins 7 bytes into words[0]. */
INLINE lanes after_seven_bytes(const lanes *words)
{
    return either(shift_left(words[0], 56), shift_right(words[1], 8));
}

/* EMSA-PSS-VERIFY (RFC 8017 section 9.1.2) with emBits = 2047; returns the lanes that are consistent.
 *
 * em = maskedDB (207 bytes) || H (48) || 0xbc, and DB = 158 zeros || 0x01 || salt (48). */
INLINE lane_mask consistent(const lanes em[WORDS], const lanes message_hash[SHA384_WORDS])
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
    lanes wrong = either(shift_right(em[0], 63), both(differ(em[31], every(0xbc)), every(0xff)));
    wrong = either(wrong, both(db[0], every(~(u64)0 >> 1)));
    for (int i = 1; i < 19; i++)
        wrong = either(wrong, db[i]);
    wrong = either(wrong, differ(shift_right(db[19], 8), every(1)));

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
    return is_clear(wrong);
}

static void limbs_of_bytes(u64 limbs[LIMBS], const u8 number[RSA_BYTES])
{
    for (int i = 0; i < LIMBS; i++) {
        u64 limb = 0;
        for (int bit = 0; bit < LIMB_BITS; bit += 4) {
            int at = LIMB_BITS * i + bit;
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
    complete_modulus(n);
}

void LEVEL(rsa_verify)(const u8 *number, const u8 *r_squared, size_t count, const u8 *signatures, const u8 *hashes,
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
        lane_mask in_range = recover(words, &n);
        unsigned good = bits_of(in_range & consistent(words, message_hash));
        for (size_t row = 0; row < rows; row++)
            verdicts[first + row] = good >> row & 1;
    }
}
