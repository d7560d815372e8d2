/* The keys of many HPKE messages (RFC 9180, base mode, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256): X25519 in 64-bit
 * lanes, the key schedule in twice as many of 32 bits. The AEAD is left to the caller.
 *
 * Nothing here branches on, or indexes memory by, a secret. Memory that held a secret is overwritten, and so is the
 * stack below the functions that computed with it.
 */
#include "kernels.h"
#include "sha256.h"
#include "x25519.h"

enum { MAX_BLOCKS = 2, STACK_BYTES = 24 * 1024 };

static const u8 BASE_POINT[POINT_BYTES] = {9};
static const u8 KEM_SUITE[] = {'K', 'E', 'M', 0, 0x20};

/* The message of a MAC, which follows the block of its key; padded to whole blocks. */
typedef struct {
    u8 bytes[MAX_BLOCKS * BLOCK_BYTES];
    size_t length, blocks;
} message;

/* What the messages of a batch have in common. */
typedef struct {
    mac_key no_salt;
    message extract_dh, expand_shared; /* the secret, or enc, is inserted at .._AT */
    message extract_secret, expand_key, expand_nonce, expand_exporter;
} schedule;

enum { DH_AT = 19, ENC_AT = 27 };

static void append(message *m, const void *bytes, size_t length)
{
    memcpy(m->bytes + m->length, bytes, length);
    m->length += length;
}

static void pad(message *m)
{
    u64 bits = 8 * (BLOCK_BYTES + m->length);
    m->bytes[m->length] = 0x80;
    m->blocks = (m->length + 9 + BLOCK_BYTES - 1) / BLOCK_BYTES;
    for (size_t i = 0; i < 8; i++)
        m->bytes[BLOCK_BYTES * m->blocks - 1 - i] = (u8)(bits >> 8 * i);
}

/* "HPKE-v1" || suite || label, after the length of the output when expanding (length 0: extracting). */
static message labeled(size_t length, const u8 *suite, size_t suite_length, const char *label)
{
    message m = {.length = 0};
    const u8 prefix[2] = {(u8)(length >> 8), (u8)length};
    append(&m, prefix, length ? sizeof prefix : 0);
    append(&m, "HPKE-v1", 7);
    append(&m, suite, suite_length);
    append(&m, label, strlen(label));
    return m;
}

static message expand_label(size_t length, const hpke_setup *setup, const char *label)
{
    const u8 one_block = 1;
    message m = labeled(length, setup->suite, SUITE_BYTES, label);
    append(&m, setup->context, CONTEXT_BYTES);
    append(&m, &one_block, 1);
    pad(&m);
    return m;
}

static void set_schedule(schedule *s, const hpke_setup *setup)
{
    static const u8 blank[POINT_BYTES];
    const u8 one_block = 1;
    lanes no_salt[HASH_WORDS] = {zero()};
    set_key(&s->no_salt, no_salt);
    s->extract_dh = labeled(0, KEM_SUITE, sizeof KEM_SUITE, "eae_prk");
    append(&s->extract_dh, blank, POINT_BYTES);
    pad(&s->extract_dh);
    s->expand_shared = labeled(32, KEM_SUITE, sizeof KEM_SUITE, "shared_secret");
    append(&s->expand_shared, blank, POINT_BYTES);
    append(&s->expand_shared, setup->recipient, POINT_BYTES);
    append(&s->expand_shared, &one_block, 1);
    pad(&s->expand_shared);
    s->extract_secret = labeled(0, setup->suite, SUITE_BYTES, "secret");
    pad(&s->extract_secret);
    s->expand_key = expand_label(setup->key_size, setup, "key");
    s->expand_nonce = expand_label(NONCE_BYTES, setup, "base_nonce");
    s->expand_exporter = expand_label(EXPORTER_BYTES, setup, "exp");
}

static inline u32 word_at(const u8 *bytes)
{
    u32 word;
    memcpy(&word, bytes, sizeof word);
    return __builtin_bswap32(word);
}

/* The MAC under `key` of m, with row i of `rows` inserted at `at` in lane i; without `rows`, of m in every lane. Lanes
 * beyond `count` repeat the last row. */
static void mac(lanes state[HASH_WORDS], const mac_key *key, const message *m, const u8 *rows, size_t at,
                size_t count)
{
    u32 lane[BLOCK_WORDS][HASH_LANES];
    lanes block[BLOCK_WORDS];
    u8 bytes[sizeof m->bytes];
    memcpy(state, key->inner, sizeof key->inner);
    for (size_t b = 0; b < m->blocks; b++) {
        for (size_t j = 0; rows && j < HASH_LANES; j++) {
            memcpy(bytes, m->bytes, sizeof bytes);
            memcpy(bytes + at, rows + POINT_BYTES * (j < count ? j : count - 1), POINT_BYTES);
            for (size_t i = 0; i < BLOCK_WORDS; i++)
                lane[i][j] = word_at(bytes + BLOCK_BYTES * b + 4 * i);
        }
        for (size_t i = 0; i < BLOCK_WORDS; i++)
            block[i] = rows ? load_row(lane[i]) : every32(word_at(m->bytes + BLOCK_BYTES * b + 4 * i));
        compress(state, block);
    }
    finish(state, key);
    wipe(lane, sizeof lane);
    wipe(block, sizeof block);
    wipe(bytes, sizeof bytes);
}

/* The first `size` bytes of every lane's hash, as rows. */
static void store_hashes(u8 *out, const lanes hash[HASH_WORDS], size_t size, size_t count)
{
    u32 lane[HASH_WORDS][HASH_LANES];
    memcpy(lane, hash, sizeof lane);
    for (size_t j = 0; j < count; j++)
        for (size_t i = 0; i < size / 4; i++) {
            u32 word = __builtin_bswap32(lane[i][j]);
            memcpy(out + size * j + 4 * i, &word, sizeof word);
        }
    wipe(lane, sizeof lane);
}

/* ExtractAndExpand of the KEM and KeySchedule of up to HASH_LANES messages. */
KERNEL void derive(const schedule *s, size_t key_size, const u8 *dh, const u8 *encs, size_t count, u8 *keys, u8 *nonces,
                   u8 *exporters)
{
    mac_key key;
    lanes hash[HASH_WORDS];
    mac(hash, &s->no_salt, &s->extract_dh, dh, DH_AT, count);
    set_key(&key, hash);
    mac(hash, &key, &s->expand_shared, encs, ENC_AT, count);
    set_key(&key, hash);
    mac(hash, &key, &s->extract_secret, NULL, 0, count);
    set_key(&key, hash);
    mac(hash, &key, &s->expand_key, NULL, 0, count);
    store_hashes(keys, hash, key_size, count);
    mac(hash, &key, &s->expand_nonce, NULL, 0, count);
    store_hashes(nonces, hash, NONCE_BYTES, count);
    if (exporters) {
        mac(hash, &key, &s->expand_exporter, NULL, 0, count);
        store_hashes(exporters, hash, EXPORTER_BYTES, count);
    }
    wipe(&key, sizeof key);
    wipe(hash, sizeof hash);
}

/* Overwrites what earlier functions left on the stack and in vector registers. */
KERNEL void forget(void)
{
    u8 stack[STACK_BYTES];
    wipe(stack, sizeof stack);
    clear_registers();
}

/* The schedule of a whole chunk. */
KERNEL void derive_chunk(const schedule *s, size_t key_size, const u8 *dh, const u8 *encs, size_t first, size_t count,
                         u8 *keys, u8 *nonces, u8 *exporters)
{
    for (size_t at = 0; at < count; at += HASH_LANES) {
        size_t rows = count - at < HASH_LANES ? count - at : HASH_LANES, row = first + at;
        derive(s, key_size, dh + POINT_BYTES * at, encs + POINT_BYTES * row, rows, keys + key_size * row,
               nonces + NONCE_BYTES * row, exporters ? exporters + EXPORTER_BYTES * row : NULL);
    }
}

static void hpke_open(const hpke_setup *setup, const u8 *private_key, size_t count, const u8 *encs, u8 *keys,
                      u8 *nonces, u8 *exporters, u8 *flags)
{
    schedule s;
    u8 dh[CHUNK * POINT_BYTES];
    set_schedule(&s, setup);
    for (size_t first = 0; first < count; first += CHUNK) {
        size_t rows = count - first < CHUNK ? count - first : CHUNK;
        x25519_chunk(dh, flags + first, private_key, 0, encs + POINT_BYTES * first, POINT_BYTES, rows);
        derive_chunk(&s, setup->key_size, dh, encs, first, rows, keys, nonces, exporters);
    }
    wipe(dh, sizeof dh);
    forget();
}

static void hpke_seal(const hpke_setup *setup, size_t count, const u8 *scalars, u8 *encs, u8 *keys, u8 *nonces,
                      u8 *flags)
{
    schedule s;
    u8 dh[CHUNK * POINT_BYTES];
    set_schedule(&s, setup);
    for (size_t first = 0; first < count; first += CHUNK) {
        size_t rows = count - first < CHUNK ? count - first : CHUNK;
        const u8 *scalar = scalars + POINT_BYTES * first;
        x25519_chunk(encs + POINT_BYTES * first, flags + first, scalar, POINT_BYTES, BASE_POINT, 0, rows);
        x25519_chunk(dh, flags + first, scalar, POINT_BYTES, setup->recipient, 0, rows);
        derive_chunk(&s, setup->key_size, dh, encs, first, rows, keys, nonces, NULL);
    }
    wipe(dh, sizeof dh);
    forget();
}

static void x25519(size_t count, const u8 *scalars, const u8 *points, u8 *out, u8 *flags)
{
    for (size_t first = 0; first < count; first += CHUNK) {
        size_t at = POINT_BYTES * first, rows = count - first < CHUNK ? count - first : CHUNK;
        x25519_chunk(out + at, flags + first, scalars + at, POINT_BYTES, points + at, POINT_BYTES, rows);
    }
    forget();
}

const kernels LEVEL(kernels) = {LEVEL(rsa_verify), hpke_open, hpke_seal, x25519};
