/* What the exported functions, which check every length and the processor, call of the kernels, which check nothing. */
#ifndef TACIT_KERNELS_H
#define TACIT_KERNELS_H

#include <stddef.h>
#include <stdint.h>

enum {
    RSA_BYTES = 256,
    HASH_BYTES = 48,
    POINT_BYTES = 32,
    SUITE_BYTES = 10,
    CONTEXT_BYTES = 65,
    MAX_KEY_BYTES = 32,
    NONCE_BYTES = 12,
    EXPORTER_BYTES = 32
};

/* What the messages to one recipient have in common: its public key, "HPKE" with the code points, the key schedule
 * context (RFC 9180 section 5.1) and the size of the AEAD's key. */
typedef struct {
    const uint8_t *recipient, *suite, *context;
    size_t key_size;
} hpke_setup;

/* The kernels of one instruction set. */
typedef struct {
    void (*rsa_verify)(const uint8_t *number, const uint8_t *r_squared, size_t count, const uint8_t *signatures,
                       const uint8_t *hashes, uint8_t *verdicts);
    void (*hpke_open)(const hpke_setup *setup, const uint8_t *private_key, size_t count, const uint8_t *encs,
                      uint8_t *keys, uint8_t *nonces, uint8_t *exporters, uint8_t *flags);
    void (*hpke_seal)(const hpke_setup *setup, size_t count, const uint8_t *scalars, uint8_t *encs, uint8_t *keys,
                      uint8_t *nonces, uint8_t *flags);
    void (*x25519)(size_t count, const uint8_t *scalars, const uint8_t *points, uint8_t *out, uint8_t *flags);
} kernels;

extern const kernels kernels_avx2, kernels_ifma;

/* The name of what is compiled once for each instruction set. */
#if defined(__AVX512IFMA__)
#define LEVEL(name) name##_ifma
#else
#define LEVEL(name) name##_avx2
#endif

void LEVEL(rsa_verify)(const uint8_t *number, const uint8_t *r_squared, size_t count, const uint8_t *signatures,
                       const uint8_t *hashes, uint8_t *verdicts);

#endif
