/* Plans: limits of a shape, derived sizes, tables of roots. All values are public, so timing does not matter. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

u128 modulus_of(unsigned field_bits)
{
    return field_bits == 64 ? (u128)0xFFFFFFFF00000001u : ((u128)0xFFFFFFFFFFFFFFE4u << 64) | 1;
}

u128 add_mod(u128 a, u128 b, u128 modulus)
{
    u128 sum = a + b;
    return sum < a || sum >= modulus ? sum - modulus : sum;
}

static u128 mul_mod(u128 a, u128 b, u128 modulus)
{
    u128 product = 0;
    for (; b; b >>= 1) {
        if (b & 1)
            product = add_mod(product, a, modulus);
        a = add_mod(a, a, modulus);
    }
    return product;
}

static u128 pow_mod(u128 base, u128 exponent, u128 modulus)
{
    u128 power = 1;
    for (; exponent; exponent >>= 1) {
        if (exponent & 1)
            power = mul_mod(power, base, modulus);
        base = mul_mod(base, base, modulus);
    }
    return power;
}

/* The draft's principal root: 7^((p - 1) / order). */
static u128 root_of_order(u64 order, u128 modulus)
{
    return pow_mod(7, (modulus - 1) / order, modulus);
}

static size_t bit_length(u64 value)
{
    size_t bits = 0;
    for (; value; value >>= 1)
        bits++;
    return bits;
}

static size_t bit_reversed(size_t index, size_t bits)
{
    size_t reversed = 0;
    for (; bits; bits--, index >>= 1)
        reversed = reversed << 1 | (index & 1);
    return reversed;
}

/* Whether sums of squares, and every element of the output, fit into 63 bits. */
static int length_is_bounded(const tacit_shape *shape)
{
    u64 reach = shape->maximum - shape->centre > shape->centre ? shape->maximum - shape->centre : shape->centre;
    u64 least = (u64)1 << 63;
    if (shape->field_bits != 128 || shape->maximum >> 31 || shape->centre > shape->maximum)
        return 0;
    if (shape->scale < 1 || shape->scale >> 31 || shape->flips >> 31 || shape->max_square < 1 ||
        shape->max_square >= least)
        return 0;
    return reach * reach < least / shape->length;
}

static int shape_is_allowed(const tacit_shape *shape)
{
    int vector = shape->circuit >= TACIT_SUM_VEC && shape->circuit <= TACIT_L2_BOUND;
    if (!vector && shape->circuit != TACIT_COUNT && shape->circuit != TACIT_SUM)
        return 0;
    if (shape->field_bits != 64 && shape->field_bits != 128)
        return 0;
    if (shape->proofs < 1 || shape->proofs > 255 || shape->length < 1 || shape->length > MAX_ELEMENTS)
        return 0;
    if (shape->maximum < 1 || shape->maximum >= modulus_of(shape->field_bits) || shape->chunk < 1 ||
        shape->chunk > MAX_ELEMENTS)
        return 0;
    if (!vector && (shape->length != 1 || shape->chunk != 1))
        return 0;
    if ((shape->circuit == TACIT_COUNT || shape->circuit == TACIT_HISTOGRAM) && shape->maximum != 1)
        return 0;
    if (shape->circuit == TACIT_L2_BOUND)
        return length_is_bounded(shape);
    return shape->circuit != TACIT_MULTIHOT || shape->maximum <= shape->length;
}

static bounded bounded_by(u64 maximum)
{
    size_t bits = bit_length(maximum);
    return (bounded){maximum, bits ? maximum - (((u64)1 << (bits - 1)) - 1) : 0, bits, NULL};
}

/* Behind the values' bits come those of the noises, and of the sum of squares. */
static void add_squares(tacit_plan *plan)
{
    const tacit_shape *shape = &plan->shape;
    plan->noise = bounded_by(shape->flips);
    plan->square = bounded_by(shape->max_square);
    plan->noise_at = plan->meas_len;
    plan->square_at = plan->noise_at + shape->length * plan->noise.bits;
    plan->meas_len = plan->square_at + plan->square.bits;
    plan->squares = (shape->length + shape->chunk - 1) / shape->chunk;
}

static int set_sizes(tacit_plan *plan)
{
    const tacit_shape *shape = &plan->shape;
    int vector = shape->circuit >= TACIT_SUM_VEC;
    size_t outputs = 1;
    plan->element = shape->field_bits / 8;
    plan->value = bounded_by(shape->maximum);
    plan->meas_len = shape->circuit == TACIT_MULTIHOT ? shape->length + plan->value.bits
                                                      : shape->length * plan->value.bits;
    if (shape->circuit == TACIT_L2_BOUND)
        add_squares(plan);
    plan->checks = (plan->meas_len + shape->chunk - 1) / shape->chunk;
    plan->calls = plan->checks + plan->squares;
    plan->arity = vector ? 2 * shape->chunk : shape->circuit == TACIT_COUNT ? 2 : 1;
    plan->joint_len = vector ? plan->checks : 0;
    if (shape->circuit == TACIT_SUM)
        outputs = plan->value.bits;
    else if (shape->circuit >= TACIT_HISTOGRAM)
        outputs = 2;
    while (((size_t)1 << plan->log_wire) < 1 + plan->calls)
        plan->log_wire++;
    plan->wire_len = (size_t)1 << plan->log_wire;
    plan->gadget_len = 2 * plan->wire_len - 1;
    plan->proof_len = plan->arity + plan->gadget_len;
    plan->query_len = 1 + (outputs > 1 ? outputs : 0);
    plan->verifier_len = 2 + plan->arity;
    plan->by_pairs = vector && !plan->squares && plan->calls <= PAIRS_CALLS &&
                     plan->calls <= PAIRS_CALLS_PER_CHUNK * shape->chunk && shape->chunk <= PAIRS_CHUNK;
    plan->values = shape->circuit == TACIT_SUM_VEC || shape->circuit == TACIT_MULTIHOT ? shape->length : 1;
    if (plan->squares)
        plan->values = plan->noise.bits ? 2 * shape->length : shape->length;
    if (plan->meas_len > MAX_ELEMENTS || shape->proofs * plan->proof_len > 4 * MAX_ELEMENTS ||
        plan->calls * shape->chunk > 2 * MAX_ELEMENTS || (shape->field_bits == 64 && vector && shape->proofs < 3))
        return 0;
    plan->size.public_share = vector ? 2 * SEED : 0;
    plan->size.seed = vector ? SEED : 0;
    plan->size.leader_share = plan->element * (plan->meas_len + shape->proofs * plan->proof_len) + plan->size.seed;
    plan->size.verifier_share = plan->element * plan->verifier_len * shape->proofs + plan->size.seed;
    plan->size.out_share = plan->element * shape->length;
    plan->size.rand = vector ? 4 * SEED : 2 * SEED;
    plan->size.measurement = 8 * plan->values;
    return 1;
}

/* pairing[d] = 2 / (n (w^d - 1)) with w of order n; 1 / n for d = 0. Inverses come from products of all the other
 * factors: the product of w^d - 1 over all d is -n. */
static void set_pairing(tacit_plan *plan, u128 root, u128 inv_n, u128 p)
{
    size_t n = plan->wire_len;
    u128 w = mul_mod(root, root, p), power = 1, *before = plan->pairing, after = p - inv_n;
    u128 inverse = pow_mod(w, n - 1, p);
    before[1] = add_mod(inv_n, inv_n, p);
    for (size_t d = 1; d + 1 < n; d++) {
        power = mul_mod(power, w, p);
        before[d + 1] = mul_mod(before[d], power - 1, p);
    }
    power = inverse;
    for (size_t d = n - 1; d; d--, power = mul_mod(power, inverse, p)) {
        plan->pairing[d] = mul_mod(before[d], after, p);
        after = mul_mod(after, power - 1, p);
    }
    plan->pairing[0] = inv_n;
}

static int set_weights(const tacit_plan *plan, bounded *integers)
{
    u128 p = modulus_of(plan->shape.field_bits);
    integers->weights = calloc(integers->bits + 1, sizeof(u128));
    for (size_t k = 0; integers->weights && k < integers->bits; k++)
        integers->weights[k] = mul_mod(k + 1 < integers->bits ? (u64)1 << k : integers->last_weight, plan->one, p);
    return integers->weights != NULL;
}

static int set_tables(tacit_plan *plan)
{
    u128 p = modulus_of(plan->shape.field_bits);
    size_t n = plan->wire_len;
    u128 r = pow_mod(2, plan->run->radix_bits, p);
    u128 root = root_of_order(2 * n, p), inverse = pow_mod(root, 2 * n - 1, p);
    u128 inv_n = pow_mod(p / 2 + 1, plan->log_wire, p);
    plan->one = r;
    plan->r2 = mul_mod(r, r, p);
    plan->plain_half = p / 2 + 1;
    plan->minus_one = p - 1;
    plan->half = mul_mod(plan->plain_half, r, p);
    plan->inv_wire_len = mul_mod(inv_n, r, p);
    plan->neg_root = mul_mod(p - root, r, p);
    plan->inv_root = mul_mod(inverse, r, p);
    plan->roots = calloc(2 * n, sizeof(u128));
    plan->tree = calloc(n, sizeof(u128));
    plan->twist = calloc(n, sizeof(u128));
    plan->pairing = calloc(n, sizeof(u128));
    if (!plan->roots || !plan->tree || !plan->twist || !plan->pairing || !set_weights(plan, &plan->value) ||
        !set_weights(plan, &plan->noise) || !set_weights(plan, &plan->square))
        return 0;
    plan->roots[0] = r;
    for (size_t i = 1; i < 2 * n; i++)
        plan->roots[i] = mul_mod(plan->roots[i - 1], root, p);
    for (size_t half = 1; half < n; half *= 2)
        for (size_t i = 0; i < half; i++)
            plan->tree[half + i] = plan->roots[i ? 2 * n - i * (n / half) : 0];
    for (size_t k = 0; k < n; k++)
        plan->twist[bit_reversed(k, plan->log_wire)] = mul_mod(plan->roots[k], inv_n, p);
    plan->centre = plan->shape.centre;
    plan->half_centre = mul_mod(plan->shape.centre, plan->plain_half, p);
    plan->scale = mul_mod(plan->shape.scale, r, p);
    if (plan->by_pairs)
        set_pairing(plan, root, inv_n, p);
    return 1;
}

static int set_prefixes(tacit_plan *plan, const u8 *context, size_t context_len)
{
    size_t dst_len = 8 + context_len;
    u64 id = plan->shape.algorithm_id;
    plan->prefix_len = 2 + dst_len + 1;
    for (int usage = 0; usage < USAGES; usage++) {
        u8 head[10] = {(u8)dst_len, (u8)(dst_len >> 8), 18,     0,
                       (u8)(id >> 24), (u8)(id >> 16), (u8)(id >> 8), (u8)id, 0, (u8)(usage + 1)};
        u8 *prefix = plan->prefix[usage] = malloc(plan->prefix_len);
        if (!prefix)
            return 0;
        memcpy(prefix, head, sizeof head);
        if (context_len)
            memcpy(prefix + sizeof head, context, context_len);
        prefix[plan->prefix_len - 1] = SEED;
    }
    return 1;
}

tacit_plan *tacit_plan_new(int level, const tacit_shape *shape, const uint8_t *context, size_t context_len,
                           tacit_sizes *sizes)
{
    if (!shape || !sizes || (context_len && !context) || context_len > MAX_CONTEXT || !level_is_usable(level) ||
        !shape_is_allowed(shape))
        return NULL;
    tacit_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    plan->shape = *shape;
    plan->run = kernels_of(level, shape->field_bits);
    if (!set_sizes(plan) || !set_tables(plan) || !set_prefixes(plan, context, context_len)) {
        tacit_plan_free(plan);
        return NULL;
    }
    *sizes = plan->size;
    return plan;
}

void tacit_plan_free(tacit_plan *plan)
{
    if (!plan)
        return;
    free(plan->roots);
    free(plan->tree);
    free(plan->twist);
    free(plan->value.weights);
    free(plan->noise.weights);
    free(plan->square.weights);
    free(plan->pairing);
    for (int usage = 0; usage < USAGES; usage++)
        free(plan->prefix[usage]);
    free(plan);
}
