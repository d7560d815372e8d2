/* The proof system (section 7.3 of the draft) for LANES reports: query, decide, prove. Include a field before it.
 *
 * Shares are plain; the query point, joint randomness and tables are times R, so products with them are plain again.
 */
#ifndef TACIT_FLP_H
#define TACIT_FLP_H

#include "lanes.h"

#define TABLE(value) element_constant(value)

typedef struct {
    element *even, *odd;        /* wire_len: Lagrange weights of the two cosets at the query point */
    element *power, *joint;     /* calls */
    element *left, *right;      /* wire_len: one pair of wires of the prover */
    sum_of_products *products;  /* wire_len: gadget outputs on the odd coset */
    element *entries;           /* squares * chunk: distances from the centre, plain */
    element *chosen;            /* calls * chunk: left wires of the prover */
    plain_sum *pairs;           /* calls * calls: what the wires of two calls contribute together */
} flp_scratch;

static inline int is_range_check(const tacit_plan *plan)
{
    return plan->shape.circuit >= TACIT_SUM_VEC;
}

/* All basis polynomials of the wire grid at the point, times R, built of factors 1 + (t w^-i)^(2^k), level by level.
 * Returns point^wire_len. */
static element lagrange_weights(const tacit_plan *plan, element point, element *weights)
{
    element power[32];
    size_t levels = plan->log_wire;
    power[0] = point;
    for (size_t k = 0; k < levels; k++)
        power[k + 1] = element_mul(power[k], power[k]);
    weights[0] = TABLE(plan->inv_wire_len);
    for (size_t level = 1; level <= levels; level++) {
        size_t half = (size_t)1 << (level - 1);
        for (size_t i = 0; i < half; i++) {
            element at = i ? element_mul(power[levels - level], TABLE(plan->tree[half + i])) : power[levels - level];
            element whole = weights[i], part = element_mul(whole, at);
            weights[i] = element_add(whole, part);
            weights[half + i] = element_sub(whole, part);
        }
    }
    return power[levels];
}

/* Bits to integers: sum over k of weights[k] * meas[k]. */
static inline element weighted_bits(const bounded *integers, const lanes *meas)
{
    sum_of_products sum;
    sum_clear(&sum);
    for (size_t k = 0; k < integers->bits; k++) {
        sum_add_product(&sum, element_load(meas + WORDS * k), TABLE(integers->weights[k]));
        if (k % SUM_SPAN == SUM_SPAN - 1)
            sum_carry(&sum);
    }
    return sum_reduce(&sum);
}

/* Shares of the distances from the centre, and 0 beyond the end. */
static void entries_of_shares(const tacit_plan *plan, const flp_scratch *s, const lanes *meas)
{
    for (size_t i = 0; i < plan->squares * plan->shape.chunk; i++) {
        s->entries[i] = TABLE(0);
        if (i < plan->shape.length) {
            element value = weighted_bits(&plan->value, meas + WORDS * plan->value.bits * i);
            s->entries[i] = element_canonical(element_sub(value, TABLE(plan->half_centre)));
        }
    }
}

/* The same from the values themselves. */
static void entries_of_values(const tacit_plan *plan, const flp_scratch *s, const lanes *values)
{
    for (size_t i = 0; i < plan->squares * plan->shape.chunk; i++) {
        lanes words[2] = {{0}, {0}};
        s->entries[i] = TABLE(0);
        if (i < plan->shape.length) {
            words[0] = values[i];
            s->entries[i] = element_canonical(element_sub(element_load(words), TABLE(plan->centre)));
        }
    }
}

/* The outputs of the calls that sum squares, which are behind those of the range check. */
static void store_squares(const tacit_plan *plan, const flp_scratch *s, lanes *gadget)
{
    for (size_t i = 0; i < plan->squares; i++) {
        const element *entries = s->entries + plan->shape.chunk * i;
        sum_of_products sum;
        sum_clear(&sum);
        for (size_t j = 0; j < plan->shape.chunk; j++) {
            sum_add_product(&sum, element_to_montgomery(entries[j], plan->r2), entries[j]);
            if (j % SUM_SPAN == SUM_SPAN - 1)
                sum_carry(&sum);
        }
        element_store(gadget + 2 * WORDS * (1 + plan->checks + i), sum_reduce(&sum));
    }
}

static inline element sum_of_elements(const tacit_plan *plan, const lanes *words, size_t count, size_t stride)
{
    element sum = TABLE(0);
    for (size_t i = 0; i < count; i++)
        sum = element_add(sum, element_load(words + WORDS * stride * i));
    return element_canonical(sum);
}

/* The circuit's outputs, reduced to one element by the query randomness. */
static element circuit_output(const tacit_plan *plan, const lanes *meas, const lanes *gadget, const lanes *query)
{
    const lanes *outputs = gadget + 2 * WORDS; /* of call 1; those of the next calls are at every second point */
    sum_of_products sum;
    element second;
    sum_clear(&sum);
    if (plan->shape.circuit == TACIT_COUNT)
        return element_sub(element_load(outputs), element_load(meas));
    if (plan->shape.circuit == TACIT_SUM) {
        if (plan->query_len == 1)
            return element_load(outputs);
        for (size_t i = 0; i < plan->calls; i++) {
            sum_add_product(&sum, element_load(query + WORDS * i), element_load(outputs + 2 * WORDS * i));
            if (i % SUM_SPAN == SUM_SPAN - 1)
                sum_carry(&sum);
        }
        return element_to_montgomery(sum_reduce(&sum), plan->r2);
    }
    element first = sum_of_elements(plan, outputs, plan->checks, 2);
    if (plan->shape.circuit == TACIT_SUM_VEC)
        return first;
    if (plan->squares)
        second = sum_of_elements(plan, outputs + 2 * WORDS * plan->checks, plan->squares, 2);
    else
        second = sum_of_elements(plan, meas, plan->shape.length, 1);
    if (plan->squares)
        second = element_sub(second, weighted_bits(&plan->square, meas + WORDS * plan->square_at));
    else if (plan->shape.circuit == TACIT_HISTOGRAM)
        second = element_sub(second, TABLE(plan->plain_half));
    else
        second = element_sub(second, weighted_bits(&plan->value, meas + WORDS * plan->shape.length));
    sum_add_product(&sum, element_load(query), first);
    sum_add_product(&sum, element_load(query + WORDS), second);
    return element_to_montgomery(sum_reduce(&sum), plan->r2);
}

/* Wires of the chunked range check at the query point. `meas` is padded with zeros to checks * chunk elements. */
static void range_check_wires(const tacit_plan *plan, const flp_scratch *s, const lanes *meas, const lanes *seeds,
                              const lanes *joint, lanes *wires)
{
    element total = TABLE(0);
    for (size_t i = 0; i < plan->checks; i++) {
        s->joint[i] = element_to_montgomery(element_load(joint + WORDS * i), plan->r2);
        s->power[i] = element_mul(s->even[i + 1], s->joint[i]);
        total = element_add(total, s->even[i + 1]);
    }
    element shift = element_mul(element_canonical(total), TABLE(plan->plain_half));
    for (size_t j = 0; j < plan->shape.chunk; j++) {
        sum_of_products left, right;
        sum_clear(&left);
        sum_clear(&right);
        sum_add_product(&left, s->even[0], element_load(seeds + 2 * WORDS * j));
        sum_add_product(&right, s->even[0], element_load(seeds + 2 * WORDS * j + WORDS));
        for (size_t i = 0; i < plan->checks; i++) {
            element value = element_load(meas + WORDS * (i * plan->shape.chunk + j)), power = s->power[i];
            sum_add_product(&left, power, value);
            sum_add_product(&right, s->even[i + 1], value);
            s->power[i] = element_mul(power, s->joint[i]);
            if (i % (SUM_SPAN / 2) == SUM_SPAN / 2 - 1) {
                sum_carry(&left);
                sum_carry(&right);
            }
        }
        for (size_t i = 0; i < plan->squares; i++) {
            element entry = s->entries[i * plan->shape.chunk + j], weight = s->even[1 + plan->checks + i];
            sum_add_product(&left, weight, entry);
            sum_add_product(&right, weight, entry);
            if (i % (SUM_SPAN / 2) == SUM_SPAN / 2 - 1) {
                sum_carry(&left);
                sum_carry(&right);
            }
        }
        element_store(wires + 2 * WORDS * j, sum_reduce(&left));
        element last = element_sub(sum_reduce(&right), shift);
        element_store(wires + 2 * WORDS * j + WORDS, element_canonical(last));
    }
}

/* Wires of Count (two that carry the measurement) and of Sum (one that carries a bit per call). */
static void direct_wires(const tacit_plan *plan, const flp_scratch *s, const lanes *meas, const lanes *seeds,
                         lanes *wires)
{
    for (size_t j = 0; j < plan->arity; j++) {
        sum_of_products sum;
        sum_clear(&sum);
        sum_add_product(&sum, s->even[0], element_load(seeds + WORDS * j));
        for (size_t i = 0; i < plan->calls; i++) {
            sum_add_product(&sum, s->even[i + 1], element_load(meas + WORDS * i));
            if (i % (SUM_SPAN / 2) == SUM_SPAN / 2 - 1)
                sum_carry(&sum);
        }
        element_store(wires + WORDS * j, sum_reduce(&sum));
    }
}

/* The gadget polynomial, given at all points of the fine grid but the last, at the query point. */
static element gadget_at_point(const tacit_plan *plan, const flp_scratch *s, const lanes *gadget, element point_power)
{
    sum_of_products even, odd, missing;
    size_t n = plan->wire_len;
    sum_clear(&even);
    sum_clear(&odd);
    sum_clear(&missing);
    for (size_t i = 0; i < n; i++) {
        element value = element_load(gadget + 2 * WORDS * i);
        sum_add_product(&missing, TABLE(plan->roots[2 * i]), value);
        sum_add_product(&even, s->even[i], value);
        if (i + 1 < n) {
            value = element_load(gadget + 2 * WORDS * i + WORDS);
            sum_add_product(&missing, TABLE(plan->roots[2 * i + 1]), value);
            sum_add_product(&odd, s->odd[i], value);
        }
        if (i % (SUM_SPAN / 4) == SUM_SPAN / 4 - 1) {
            sum_carry(&even);
            sum_carry(&odd);
            sum_carry(&missing);
        }
    }
    element last = element_mul(sum_reduce(&missing), TABLE(plan->neg_root));
    sum_add_product(&odd, s->odd[n - 1], last);
    element half = TABLE(plan->half), half_power = element_mul(point_power, half);
    sum_of_products value;
    sum_clear(&value);
    sum_add_product(&value, element_add(half, half_power), sum_reduce(&even));
    sum_add_product(&value, element_sub(half, half_power), sum_reduce(&odd));
    return sum_reduce(&value);
}

/* One proof's verifier share: verifier_len elements. Returns the lanes whose query point is a root of unity. */
static lanes flp_query(const tacit_plan *plan, const flp_scratch *s, const lanes *meas, const lanes *proof,
                       const lanes *joint, const lanes *query, lanes *verifier)
{
    const lanes *gadget = proof + WORDS * plan->arity;
    element point = element_to_montgomery(element_load(query + WORDS * (plan->query_len - 1)), plan->r2);
    element point_power = lagrange_weights(plan, point, s->even);
    lagrange_weights(plan, element_mul(point, TABLE(plan->inv_root)), s->odd);
    element output = circuit_output(plan, meas, gadget, query);
    element_store(verifier, element_canonical(output));
    entries_of_shares(plan, s, meas);
    if (is_range_check(plan))
        range_check_wires(plan, s, meas, proof, joint, verifier + WORDS);
    else
        direct_wires(plan, s, meas, proof, verifier + WORDS);
    element_store(verifier + WORDS * (1 + plan->arity), gadget_at_point(plan, s, gadget, point_power));
    element difference = element_sub(element_mul(point_power, TABLE(1)), TABLE(1));
    return ~element_nonzero(element_canonical(difference));
}

/* The lanes whose summed verifier does not accept. */
static lanes flp_decide(const tacit_plan *plan, const lanes *left, const lanes *right)
{
    const size_t last = 1 + plan->arity;
#define SUMMED(i) element_add(element_load(left + WORDS * (i)), element_load(right + WORDS * (i)))
    lanes bad = element_nonzero(element_canonical(SUMMED(0)));
    sum_of_products sum;
    sum_clear(&sum);
    for (size_t j = 1; j < last; j += 2) {
        element x = SUMMED(j), y = plan->arity == 1 ? x : SUMMED(j + 1);
        sum_add_product(&sum, element_to_montgomery(x, plan->r2), y);
        if (j / 2 % SUM_SPAN == SUM_SPAN - 1)
            sum_carry(&sum);
    }
    element expected = SUMMED(last);
    if (plan->arity == 1)
        expected = element_add(expected, SUMMED(1)); /* x^2 - x */
#undef SUMMED
    element difference = element_sub_wide(sum_reduce(&sum), expected, 3);
    return bad | element_nonzero(element_canonical(difference));
}

/* Brings elements below 2^bound * p, which are about to double, below 4p if the field cannot hold more; returns the new
 * bound. */
static unsigned narrowed(element *x, size_t n, unsigned bound)
{
    if (bound < WIDEST)
        return bound;
    for (size_t i = 0; i < n; i++)
        x[i] = element_canonical(x[i]);
    return 2;
}

/* From values on the wire grid to values on the odd coset of the fine grid, in place: inverse transform
 * (decimation in frequency), twist, transform (decimation in time). Sums double their bound at each stage. */
static void move_to_odd_coset(const tacit_plan *plan, element *x)
{
    size_t n = plan->wire_len;
    unsigned bound = 2;
    for (size_t half = n / 2; half; half /= 2, bound++) {
        bound = narrowed(x, n, bound);
        for (size_t block = 0; block < n; block += 2 * half)
            for (size_t i = block; i < block + half; i++) {
                element a = x[i], b = x[i + half], difference = element_sub_wide(a, b, bound);
                x[i] = element_add(a, b);
                x[i + half] = i == block ? difference
                                         : element_mul(difference, TABLE(plan->tree[half + i - block]));
            }
    }
    for (size_t i = 0; i < n; i++)
        x[i] = element_mul(x[i], TABLE(plan->twist[i]));
    bound = 2;
    for (size_t half = 1; half < n; half *= 2, bound++) {
        bound = narrowed(x, n, bound);
        for (size_t block = 0; block < n; block += 2 * half)
            for (size_t i = block; i < block + half; i++) {
                element a = x[i], b = x[i + half];
                if (i != block)
                    b = element_mul(b, TABLE(plan->roots[(i - block) * (n / half)]));
                x[i] = element_add(a, b);
                x[i + half] = element_sub_wide(a, b, bound);
            }
    }
}

/* Values of wire pair j: the left wire times R, the right one plain, so that their product is plain. `bits` are the
 * measurement, 0 or all ones per lane. */
static void prover_wires(const tacit_plan *plan, const flp_scratch *s, const lanes *bits, const lanes *seeds, size_t j)
{
    size_t circuit = plan->shape.circuit, n = plan->wire_len;
    size_t right_seed = plan->arity == 1 ? 0 : 2 * j + 1, left_seed = plan->arity == 1 ? 0 : 2 * j;
    s->left[0] = element_to_montgomery(element_load(seeds + WORDS * left_seed), plan->r2);
    s->right[0] = element_load(seeds + WORDS * right_seed);
    for (size_t i = 0; i + 1 < n; i++) {
        if (i >= plan->calls) {
            s->left[i + 1] = s->right[i + 1] = TABLE(0);
        } else if (circuit == TACIT_COUNT || circuit == TACIT_SUM) {
            s->left[i + 1] = element_masked(TABLE(plan->one), bits[i]);
            s->right[i + 1] = element_masked(TABLE(1), bits[i]);
        } else if (i >= plan->checks) {
            element entry = s->entries[(i - plan->checks) * plan->shape.chunk + j];
            s->left[i + 1] = element_to_montgomery(entry, plan->r2);
            s->right[i + 1] = entry;
        } else {
            lanes bit = bits[i * plan->shape.chunk + j];
            s->left[i + 1] = element_masked(s->power[i], bit);
            s->right[i + 1] = element_masked(TABLE(plan->minus_one), ~bit);
            s->power[i] = element_mul(s->power[i], s->joint[i]);
        }
    }
}

/* The gadget polynomial on the odd coset: transforms of every pair of wires, multiplied point by point. */
static void prove_by_transforms(const tacit_plan *plan, const flp_scratch *s, const lanes *bits, const lanes *proof,
                                element *values)
{
    size_t n = plan->wire_len, pairs = (plan->arity + 1) / 2;
    for (size_t k = 0; k < n; k++)
        sum_clear(&s->products[k]);
    for (size_t j = 0; j < pairs; j++) {
        prover_wires(plan, s, bits, proof, j);
        move_to_odd_coset(plan, s->left);
        move_to_odd_coset(plan, s->right);
        for (size_t k = 0; k < n; k++) {
            sum_add_product(&s->products[k], s->left[k], s->right[k]);
            if (j % SUM_SPAN == SUM_SPAN - 1)
                sum_carry(&s->products[k]);
        }
    }
    for (size_t k = 0; k + 1 < n; k++) {
        values[k] = sum_reduce(&s->products[k]);
        if (plan->arity == 1) /* x^2 - x, where the wire's bound is that of a whole transform */
            values[k] = element_sub_wide(values[k], s->right[k], 24);
    }
}

/* The left wires behind their seeds, times R: powers of the joint randomness where the bit is set, else 0. */
static void chosen_powers(const tacit_plan *plan, const flp_scratch *s, const lanes *bits)
{
    size_t calls = plan->calls, chunk = plan->shape.chunk;
    for (size_t j = 0; j < chunk; j++)
        for (size_t i = 0; i < calls; i++) {
            size_t at = i * chunk + j;
            s->chosen[at] = element_masked(s->power[i], bits[at]);
            s->power[i] = element_mul(s->power[i], s->joint[i]);
        }
}

/* pairs[k] for `width` calls from k on: the left wires of one call, `row`, summed where the call has a 0. */
static inline __attribute__((always_inline)) void sum_pairs(const tacit_plan *plan, const element *row,
                                                            const lanes *bits, size_t k, size_t width,
                                                            plain_sum *pairs)
{
    size_t chunk = plan->shape.chunk;
    plain_sum sums[PLAIN_WIDTH];
    for (size_t b = 0; b < width; b++)
        plain_clear(&sums[b]);
    for (size_t j = 0; j < chunk; j++)
        for (size_t b = 0; b < width; b++)
            plain_add_unless(&sums[b], row[j], bits[(k + b) * chunk + j]);
    for (size_t b = 0; b < width; b++)
        pairs[k + b] = sums[b];
}

/* What a call's wires contribute together with the seeds, times R: the left seeds where the bit is 0, less the left
 * wires times the right seeds. */
static element pair_with_seeds(const tacit_plan *plan, const element *row, const lanes *bits, const lanes *seeds)
{
    sum_of_products right;
    plain_sum left, none;
    sum_clear(&right);
    plain_clear(&left);
    plain_clear(&none);
    for (size_t j = 0; j < plan->shape.chunk; j++) {
        plain_add_unless(&left, element_load(seeds + 2 * WORDS * j), bits[j]);
        sum_add_product(&right, row[j], element_load(seeds + 2 * WORDS * j + WORDS));
        if (j % SUM_SPAN == SUM_SPAN - 1)
            sum_carry(&right);
    }
    return element_to_montgomery(element_sub(plain_reduce(&left, &none), sum_reduce(&right)), plan->r2);
}

/* The same as prove_by_transforms, for range checks of few calls. Wires are sums over calls a of values times basis
 * polynomials l_a; call 0 is the seeds. On the odd coset, where x^n = -1,
 *     l_a l_b = -D(a - b) l_a - D(b - a) l_b   and   l_0^2 = sum of D(a) l_a,   D(d) = 2 / (n (w^d - 1)), D(0) = 1 / n,
 * so the gadget polynomial is a sum of multiples of the l_a, and one transform moves it to the coset. Two calls
 * together contribute a sum of powers of the joint randomness, chosen by bits, so only the seeds need products. A call
 * contributes 0 with itself, as a bit is 0 or 1. `product` is the product of the seeds. */
static void prove_by_pairs(const tacit_plan *plan, const flp_scratch *s, const lanes *bits, const lanes *seeds,
                           element product, element *values)
{
    size_t calls = plan->calls, chunk = plan->shape.chunk, n = plan->wire_len;
    element *with_seeds = s->right;
    chosen_powers(plan, s, bits);
    for (size_t i = 0; i < calls; i++) {
        const element *row = s->chosen + i * chunk;
        size_t k = 0;
        for (; k + PLAIN_WIDTH <= calls; k += PLAIN_WIDTH)
            sum_pairs(plan, row, bits, k, PLAIN_WIDTH, s->pairs + i * calls);
        for (; k < calls; k++)
            sum_pairs(plan, row, bits, k, 1, s->pairs + i * calls);
        with_seeds[i] = pair_with_seeds(plan, row, bits + i * chunk, seeds);
    }
    product = element_to_montgomery(product, plan->r2);
    for (size_t a = 0; a < n; a++) {
        sum_of_products sum;
        sum_clear(&sum);
        sum_add_product(&sum, product, TABLE(plan->pairing[a]));
        if (a && a <= calls)
            sum_add_product(&sum, with_seeds[a - 1], TABLE(plan->pairing[a]));
        for (size_t i = 0; a <= calls && i < calls; i++) {
            element pair = a ? plain_reduce(&s->pairs[(a - 1) * calls + i], &s->pairs[i * calls + a - 1])
                             : with_seeds[i];
            sum_add_product(&sum, pair, TABLE(plan->pairing[(a - 1 - i) & (n - 1)]));
            if (i % (SUM_SPAN / 2) == SUM_SPAN / 2 - 1)
                sum_carry(&sum);
        }
        values[a] = sum_reduce(&sum);
    }
    move_to_odd_coset(plan, values);
}

static element product_of_seeds(const tacit_plan *plan, const lanes *seeds)
{
    element square = TABLE(0);
    sum_of_products sum;
    sum_clear(&sum);
    for (size_t j = 0; j < (plan->arity + 1) / 2; j++) {
        const lanes *left = seeds + 2 * WORDS * j, *right = plan->arity == 1 ? left : left + WORDS;
        sum_add_product(&sum, element_load(left), element_load(right));
        if (j % SUM_SPAN == SUM_SPAN - 1)
            sum_carry(&sum);
    }
    if (plan->arity == 1)
        square = element_load(seeds);
    return element_canonical(element_sub(element_to_montgomery(sum_reduce(&sum), plan->r2), square));
}

/* Makes one proof: `proof` begins with the given seeds, and the gadget polynomial is written behind them. For valid
 * measurements it is 0 at every range check on the wire grid (m * (m - 1)), unlike for Count (m * m) and for squares. */
static void flp_prove(const tacit_plan *plan, const flp_scratch *s, const lanes *bits, const lanes *joint, lanes *proof)
{
    lanes *gadget = proof + WORDS * plan->arity;
    element first = product_of_seeds(plan, proof), *values = s->left;
    for (size_t i = 0; is_range_check(plan) && i < plan->checks; i++)
        s->power[i] = s->joint[i] = element_to_montgomery(element_load(joint + WORDS * i), plan->r2);
    for (size_t k = 0; k < plan->gadget_len; k++)
        element_store(gadget + WORDS * k, TABLE(0));
    element_store(gadget, first);
    if (plan->shape.circuit == TACIT_COUNT)
        element_store(gadget + 2 * WORDS, element_masked(TABLE(1), bits[0]));
    store_squares(plan, s, gadget);
    if (plan->by_pairs)
        prove_by_pairs(plan, s, bits, proof, first, values);
    else
        prove_by_transforms(plan, s, bits, proof, values);
    for (size_t k = 0; k + 1 < plan->wire_len; k++)
        element_store(gadget + 2 * WORDS * k + WORDS, element_canonical(values[k]));
}

#endif
