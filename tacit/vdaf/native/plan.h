/* What kernels know about one instance: sizes and tables, all public. */
#ifndef TACIT_PLAN_H
#define TACIT_PLAN_H

#include "tacit_native.h"

typedef uint8_t u8;
typedef uint64_t u64;
typedef unsigned __int128 u128;

enum { SEED = 32, NONCE = 16, USAGES = 7 };
enum { USE_MEAS = 0, USE_PROOF, USE_JOINT_RAND, USE_PROVE, USE_QUERY, USE_JOINT_SEED, USE_JOINT_PART };
enum { MAX_ELEMENTS = 1 << 18, MAX_CONTEXT = 1024 };
/* The prover's work by pairs is quadratic in the calls, and depends little on the chunk if that is small. */
enum { PAIRS_CALLS = 64, PAIRS_CALLS_PER_CHUNK = 8, PAIRS_CHUNK = 1024 };

typedef struct kernels kernels;

/* Integers in [0, maximum] by their bits, in the draft's encoding. */
typedef struct {
    u64 maximum, last_weight;
    size_t bits;
    u128 *weights; /* of each bit, times R */
} bounded;

struct tacit_plan {
    const kernels *run;
    tacit_shape shape;
    size_t element; /* bytes of an encoded field element */
    bounded value, noise, square; /* the last two have bits in the L2 bound only */
    size_t noise_at, square_at;   /* where their bits begin */
    size_t checks, squares;       /* calls of the range check, and of the sum of squares behind it */
    size_t meas_len, calls, wire_len, log_wire, arity, gadget_len;
    int by_pairs; /* whether the prover uses prove_by_pairs or prove_by_transforms */
    size_t proof_len, joint_len, query_len, verifier_len, values; /* per proof, except values: per measurement */
    tacit_sizes size;
    /* Field elements times R, the Montgomery radix of the level's field: 1 for Field64. */
    u128 one, r2, inv_wire_len, half, neg_root, inv_root;
    u128 plain_half, minus_one; /* not times R */
    u128 centre, half_centre;   /* not times R */
    u128 scale;
    u128 *roots;                /* 2 * wire_len: powers of the root of order 2 * wire_len */
    u128 *tree;                 /* wire_len: tree[h + i] = (root of order 2h)^-i */
    u128 *twist;                /* wire_len, bit-reversed: (root of order 2 * wire_len)^k / wire_len */
    u128 *pairing;              /* wire_len, not times R: see prove_by_pairs */
    size_t prefix_len;
    u8 *prefix[USAGES]; /* le16(len(dst)) || dst || u8(32), per usage */
};

/* One instruction-set level and one field. Buffers are validated by the caller. */
struct kernels {
    unsigned radix_bits; /* R = 2^radix_bits */
    int (*verify_init)(const tacit_plan *, int agg_id, const u8 *verify_key, size_t reports, const u8 *nonces,
                       const u8 *public_shares, const u8 *input_shares, u8 *verifier_shares, u8 *seeds,
                       u8 *out_shares, u8 *flags);
    int (*decide)(const tacit_plan *, size_t reports, const u8 *leader_shares, const u8 *helper_shares,
                  const u8 *seeds, u8 *messages, u8 *flags);
    int (*shard)(const tacit_plan *, size_t reports, const u8 *measurements, const u8 *nonces, const u8 *rands,
                 u8 *public_shares, u8 *leader_shares, u8 *flags);
    u64 (*exercise)(int primitive, u64 rounds);
};

const kernels *kernels_of(int level, unsigned field_bits);
int level_is_usable(int level);

u128 modulus_of(unsigned field_bits);
u128 add_mod(u128 a, u128 b, u128 modulus);

#endif
