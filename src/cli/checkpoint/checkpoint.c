/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/checkpoint.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/digest.h"

enum {
    VERSION = 5,
    NAME_BYTES = 8,
    PARTS = 4,
    HEAD_BYTES =
        NAME_BYTES + 2 * 4 + TARRY_JOB_ID_SIZE + 2 * CHECKPOINT_DIGEST_SIZE + 7 * 8 + PARTS * 8,
    SEAL_BYTES = 32,
    PIECE = 4096, /* numbers that are turned into bytes at a time */
};

static const char NAME[NAME_BYTES + 1] = "tarryrun";

typedef struct writer {
    checkpoint_put *put;
    void *user;
    digest *seal;
} writer;

static int write_bytes(const writer *to, const uint8_t *bytes, size_t size)
{
    if (size == 0)
        return TARRY_OK;
    if (digest_add_bytes(to->seal, bytes, size) != 0)
        return TARRY_ERROR_NO_MEMORY;
    return to->put(to->user, bytes, size);
}

static int write_numbers(const writer *to, const float *numbers, size_t count)
{
    uint8_t bytes[PIECE * 4];
    int error = TARRY_OK;
    for (size_t start = 0; start < count && error == TARRY_OK; start += PIECE) {
        uint8_t *at = bytes;
        for (size_t i = start; i < count && i < start + PIECE; i++) {
            uint32_t bits;
            memcpy(&bits, &numbers[i], sizeof(bits));
            at = bytes_put(at, bits, 4);
        }
        error = write_bytes(to, bytes, (size_t)(at - bytes));
    }
    return error;
}

static int write_head(const writer *to, const checkpoint *state)
{
    uint8_t head[HEAD_BYTES];
    memcpy(head, NAME, NAME_BYTES);
    uint8_t *at = bytes_put(head + NAME_BYTES, VERSION, 4);
    at = bytes_put(at, state->vectors, 4);
    memcpy(at, state->job, sizeof(state->job));
    at += sizeof(state->job);
    memcpy(at, state->data, sizeof(state->data));
    at += sizeof(state->data);
    memcpy(at, state->rounds, sizeof(state->rounds));
    at += sizeof(state->rounds);
    at = bytes_put(at, state->round, 8);
    at = bytes_put(at, state->dimension, 8);
    at = bytes_put_f64(at, state->decayed);
    at = bytes_put_f64(at, state->square_decayed);
    at = bytes_put(at, state->seen, 8);
    at = bytes_put(at, state->ledger.releases, 8);
    at = bytes_put(at, state->ledger.seal, 8);
    at = bytes_put(at, state->config.size, 8);
    at = bytes_put(at, state->plan.size, 8);
    at = bytes_put(at, state->server.size, 8);
    at = bytes_put(at, state->history.size, 8);
    assert(at == head + HEAD_BYTES);
    return write_bytes(to, head, (size_t)(at - head));
}

int checkpoint_encode(const checkpoint *state, const float *const vectors[], checkpoint_put *put,
                      void *user)
{
    const checkpoint_part parts[PARTS] = {state->config, state->plan, state->server,
                                          state->history};
    writer to = {put, user, digest_begin()};
    if (to.seal == NULL)
        return TARRY_ERROR_NO_MEMORY;
    int error = write_head(&to, state);
    for (size_t i = 0; i < PARTS && error == TARRY_OK; i++)
        error = write_bytes(&to, parts[i].bytes, parts[i].size);
    for (uint32_t i = 0; i < state->vectors && error == TARRY_OK; i++)
        error = write_numbers(&to, vectors[i], state->dimension);
    uint8_t seal[SEAL_BYTES];
    int failed = digest_end(to.seal, seal);
    if (error == TARRY_OK && failed != 0)
        error = TARRY_ERROR_NO_MEMORY;
    return error == TARRY_OK ? put(user, seal, SEAL_BYTES) : error;
}

/* The sizes, which may be any numbers, say exactly what is there. */
static bool find_parts(const uint8_t *bytes, size_t size, checkpoint *state,
                       const uint8_t *vectors[CHECKPOINT_VECTORS])
{
    checkpoint_part *const parts[PARTS] = {&state->config, &state->plan, &state->server,
                                           &state->history};
    const uint8_t *sizes = bytes + HEAD_BYTES - PARTS * 8;
    const uint8_t *at = bytes + HEAD_BYTES;
    size_t left = size - HEAD_BYTES - SEAL_BYTES;
    for (size_t i = 0; i < PARTS; i++) {
        uint64_t part = bytes_get(sizes + i * 8, 8);
        if (part > left)
            return false;
        *parts[i] = (checkpoint_part){at, (size_t)part};
        at += part;
        left -= (size_t)part;
    }
    if (state->vectors < 1 || state->vectors > CHECKPOINT_VECTORS || state->dimension < 1 ||
        state->dimension > left / sizeof(float) / state->vectors ||
        state->dimension * state->vectors * sizeof(float) != left)
        return false;
    for (uint32_t i = 0; i < CHECKPOINT_VECTORS; i++)
        vectors[i] = i < state->vectors ? at + i * state->dimension * sizeof(float) : NULL;
    return true;
}

static bool is_power(double value)
{
    return value >= 0 && value <= 1;
}

int checkpoint_decode(const uint8_t *bytes, size_t size, checkpoint *state,
                      const uint8_t *vectors[CHECKPOINT_VECTORS], tarry_diagnostic *diagnostic)
{
    if (size < NAME_BYTES + 4 || memcmp(bytes, NAME, NAME_BYTES) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "this is no checkpoint of a training run");
    if (bytes_get(bytes + NAME_BYTES, 4) != VERSION)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "it is of another version of Tarry");
    if (size < HEAD_BYTES + SEAL_BYTES)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "it is cut off");
    checkpoint read = {.vectors = (uint32_t)bytes_get(bytes + NAME_BYTES + 4, 4)};
    const uint8_t *found[CHECKPOINT_VECTORS];
    const uint8_t *at = bytes + NAME_BYTES + 8;
    memcpy(read.job, at, sizeof(read.job));
    at += sizeof(read.job);
    memcpy(read.data, at, sizeof(read.data));
    at += sizeof(read.data);
    memcpy(read.rounds, at, sizeof(read.rounds));
    at += sizeof(read.rounds);
    read.round = bytes_get(at, 8);
    read.dimension = (size_t)bytes_get(at + 8, 8);
    read.decayed = bytes_get_f64(at + 16);
    read.square_decayed = bytes_get_f64(at + 24);
    read.seen = bytes_get(at + 32, 8);
    read.ledger = (tarry_dp_mark){bytes_get(at + 40, 8), bytes_get(at + 48, 8)};
    uint8_t seal[SEAL_BYTES];
    bool good = find_parts(bytes, size, &read, found) && is_power(read.decayed) &&
                is_power(read.square_decayed) && (read.seen == 0 || read.vectors > 1);
    if (good && digest_of_bytes(bytes, size - SEAL_BYTES, seal) != 0)
        return diagnose_no_memory(diagnostic, "checkpoint");
    if (!good || memcmp(seal, bytes + size - SEAL_BYTES, SEAL_BYTES) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "it is damaged");
    *state = read;
    memcpy(vectors, found, sizeof(found));
    return TARRY_OK;
}

void checkpoint_numbers(const uint8_t *bytes, size_t count, float *numbers)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)bytes_get(bytes + i * sizeof(bits), sizeof(bits));
        memcpy(&numbers[i], &bits, sizeof(bits));
    }
}
