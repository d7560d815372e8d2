/* Batched Prio3 (draft-irtf-cfrg-vdaf, wire version 18) for two Aggregators: the interface of the shared object.
 *
 * Every function validates the length of every buffer against the plan and returns a status; nothing is written
 * unless the status is TACIT_OK. Rows are contiguous, one per report, without padding. Nothing branches on, or indexes
 * memory by, a secret. Functions are safe to call from several threads, with one plan or with many.
 */
#ifndef TACIT_NATIVE_H
#define TACIT_NATIVE_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

enum { TACIT_OK = 0, TACIT_BAD_ARGUMENT = 1, TACIT_NO_MEMORY = 2 };

/* Instruction-set levels, slowest first. */
enum { TACIT_BASELINE = 0, TACIT_AVX2 = 1, TACIT_AVX512 = 2, TACIT_IFMA = 3, TACIT_LEVELS = 4 };

/* Circuits: the standard algorithm IDs, and one of our own. */
enum { TACIT_COUNT = 1, TACIT_SUM = 2, TACIT_SUM_VEC = 3, TACIT_HISTOGRAM = 4, TACIT_MULTIHOT = 5, TACIT_L2_BOUND = 6 };

/* Flags of tacit_verify_init and tacit_shard, one byte per report. */
enum {
    TACIT_REDO = 1,     /* a drawn element was not below the modulus, or the query point is a root of unity */
    TACIT_MALFORMED = 2 /* an element of the input share, or the measurement, is out of range */
};

/* Flags of tacit_decide, one byte per report; 0 accepts. */
enum { TACIT_BAD_SHARE = 1, TACIT_BAD_PROOF = 2, TACIT_BAD_SEED = 4 };

typedef struct {
    uint32_t circuit, field_bits, proofs, algorithm_id;
    uint64_t length;  /* elements of the output */
    uint64_t maximum; /* max_measurement (Sum, SumVec), max_weight (Multihot) or max_value (L2 bound), else 1 */
    uint64_t chunk;   /* chunk_length, 1 for Count and Sum */
    uint64_t flips, scale, centre, max_square; /* L2 bound only */
} tacit_shape;

/* Bytes per row. The caller compares them with its own. */
typedef struct {
    uint64_t public_share, leader_share, verifier_share, seed, out_share, rand, measurement;
} tacit_sizes;

typedef struct tacit_plan tacit_plan;

/* The fastest level that this processor runs. */
int tacit_best_level(void);

/* Returns NULL for a level that the processor lacks, for a shape outside the limits, or if there is no memory. */
tacit_plan *tacit_plan_new(int level, const tacit_shape *shape, const uint8_t *context, size_t context_len,
                           tacit_sizes *sizes);
void tacit_plan_free(tacit_plan *plan);

/* verify_init of Aggregator agg_id (0: Leader). nonces: 16 bytes per row. Helper input shares: seed, blind. */
int tacit_verify_init(const tacit_plan *plan, int agg_id, const uint8_t *verify_key, size_t verify_key_len,
                      size_t reports, const uint8_t *nonces, size_t nonces_len, const uint8_t *public_shares,
                      size_t public_shares_len, const uint8_t *input_shares, size_t input_shares_len,
                      uint8_t *verifier_shares, size_t verifier_shares_len, uint8_t *seeds, size_t seeds_len,
                      uint8_t *out_shares, size_t out_shares_len, uint8_t *flags, size_t flags_len);

/* verifier_shares_to_message, and a comparison of the result with the Helper's own corrected seeds. */
int tacit_decide(const tacit_plan *plan, size_t reports, const uint8_t *leader_shares, size_t leader_shares_len,
                 const uint8_t *helper_shares, size_t helper_shares_len, const uint8_t *seeds, size_t seeds_len,
                 uint8_t *messages, size_t messages_len, uint8_t *flags, size_t flags_len);

/* Sums the out shares whose byte in accepted is 1 (0 leaves one out). Precondition: every element is reduced. */
int tacit_aggregate(const tacit_plan *plan, size_t reports, const uint8_t *out_shares, size_t out_shares_len,
                    const uint8_t *accepted, size_t accepted_len, uint8_t *aggregate, size_t aggregate_len);

/* shard of the Client. measurements: 64-bit integers, one per row or one per position (SumVec, Multihot,
 * L2 bound: all values, then all noises if there are any). The Helper's input share is the first 32 bytes of its row in rands (64 with joint randomness). */
int tacit_shard(const tacit_plan *plan, size_t reports, const uint8_t *measurements, size_t measurements_len,
                const uint8_t *nonces, size_t nonces_len, const uint8_t *rands, size_t rands_len,
                uint8_t *public_shares, size_t public_shares_len, uint8_t *leader_shares, size_t leader_shares_len,
                uint8_t *flags, size_t flags_len);

/* For benchmarks: runs a primitive `rounds` times over all lanes; returns the number of single operations. */
enum { TACIT_KECCAK = 0, TACIT_MULTIPLY = 1, TACIT_MULTIPLY_ADD = 2 };
uint64_t tacit_exercise(int level, uint32_t field_bits, int primitive, uint64_t rounds);

#pragma GCC visibility pop

#endif
