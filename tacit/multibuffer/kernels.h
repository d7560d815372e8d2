/* Between the exported functions, which check every length and the processor, and the kernels, which do not. */
#ifndef TACIT_KERNELS_H
#define TACIT_KERNELS_H

#include <stddef.h>
#include <stdint.h>

enum { RSA_BYTES = 256, HASH_BYTES = 48 };

void rsa_verify(const uint8_t *number, const uint8_t *r_squared, size_t count, const uint8_t *signatures,
                const uint8_t *hashes, uint8_t *verdicts);

#endif
