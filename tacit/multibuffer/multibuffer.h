/* Public-key operations on many messages at once, several per instruction: the interface of the shared object.
 *
 * Needs AVX2, or AVX-512 with IFMA, which `level` chooses. Every function validates the length of every buffer and
 * returns a status; nothing is written unless the status is TACIT_OK. Rows are contiguous, one per message, without
 * padding. Functions keep no state and are safe to call from several threads.
 */
#ifndef TACIT_MULTIBUFFER_H
#define TACIT_MULTIBUFFER_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

enum { TACIT_OK = 0, TACIT_BAD_ARGUMENT = 1 };

/* The instruction sets: four messages per instruction, or eight. */
enum { TACIT_AVX2 = 0, TACIT_IFMA = 1, TACIT_LEVELS = 2 };

/* 1 if the processor and the operating system run the kernels, else 0; then all others return TACIT_BAD_ARGUMENT. */
int tacit_multibuffer_usable(int level);

/* RSASSA-PSS with SHA-384, MGF1-SHA-384 and 48 bytes of salt under one public key: 2048-bit odd modulus, exponent
 * 65537. Numbers are big endian. r_squared is 2^4256 for AVX2, or 2^4160 for IFMA, modulo
 * the modulus. Row i of hashes (48 bytes) is the SHA-384 of
 * message i; verdicts[i] becomes 1 if signature i is valid, else 0. */
int tacit_rsa_verify(int level, const uint8_t *modulus, size_t modulus_len, const uint8_t *r_squared,
                     size_t r_squared_len, size_t count, const uint8_t *signatures, size_t signatures_len,
                     const uint8_t *hashes, size_t hashes_len, uint8_t *verdicts, size_t verdicts_len);

/* X25519 (RFC 7748) of scalar i and point i; flags[i] becomes 1 if the result is all zero, else 0. */
int tacit_x25519(int level, size_t count, const uint8_t *scalars, size_t scalars_len, const uint8_t *points,
                 size_t points_len, uint8_t *out, size_t out_len, uint8_t *flags, size_t flags_len);

/* Keys of messages to one recipient (RFC 9180, base mode, X25519 and HKDF-SHA256). suite: "HPKE" and the three code
 * points; context: the key schedule context. Rows of encs have 32 bytes, of keys key_size (16 or 32), of nonces 12, of
 * exporters 32; exporter secrets are left out if exporters_len is 0. flags[i] becomes 1 if the point has low order and
 * the message must be refused, else 0. */
int tacit_hpke_open(int level, const uint8_t *private_key, size_t private_key_len, const uint8_t *public_key,
                    size_t public_key_len, const uint8_t *suite, size_t suite_len, const uint8_t *context,
                    size_t context_len, size_t key_size, size_t count, const uint8_t *encs, size_t encs_len,
                    uint8_t *keys, size_t keys_len, uint8_t *nonces, size_t nonces_len, uint8_t *exporters,
                    size_t exporters_len, uint8_t *flags, size_t flags_len);

/* The sender's side: rows of scalars are 32 random bytes each, used for one message. */
int tacit_hpke_seal(int level, const uint8_t *public_key, size_t public_key_len, const uint8_t *suite, size_t suite_len,
                    const uint8_t *context, size_t context_len, size_t key_size, size_t count, const uint8_t *scalars,
                    size_t scalars_len, uint8_t *encs, size_t encs_len, uint8_t *keys, size_t keys_len, uint8_t *nonces,
                    size_t nonces_len, uint8_t *flags, size_t flags_len);

#pragma GCC visibility pop

#endif
