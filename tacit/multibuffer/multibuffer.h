/* Public-key operations on many messages at once, eight per instruction: the interface of the shared object.
 *
 * Needs AVX-512 with IFMA. Every function validates the length of every buffer and returns a status; nothing is
 * written unless the status is TACIT_OK. Rows lie one after the other, one per message, without padding. Functions
 * keep no state and are safe to call from several threads.
 */
#ifndef TACIT_MULTIBUFFER_H
#define TACIT_MULTIBUFFER_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

enum { TACIT_OK = 0, TACIT_BAD_ARGUMENT = 1 };

/* 1 where the processor and the operating system run the kernels, else 0; the others then return TACIT_BAD_ARGUMENT. */
int tacit_multibuffer_usable(void);

/* RSASSA-PSS with SHA-384, MGF1-SHA-384 and 48 bytes of salt under one public key: 2048-bit odd modulus, exponent 65537.
 * Numbers are big endian. r_squared is 2^4160 modulo the modulus. Row i of hashes (48 bytes) is the SHA-384 of message
 * i, verdicts[i] becomes 1 for a valid signature and 0 for another. */
int tacit_rsa_verify(const uint8_t *modulus, size_t modulus_len, const uint8_t *r_squared, size_t r_squared_len,
                     size_t count, const uint8_t *signatures, size_t signatures_len, const uint8_t *hashes,
                     size_t hashes_len, uint8_t *verdicts, size_t verdicts_len);

#pragma GCC visibility pop

#endif
