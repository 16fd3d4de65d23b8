/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checkpoint of a training run: any bytes are refused, or are read as what is written as the
 * same bytes; so is the history in it. The input is the bytes, or changes to a checkpoint that was
 * good; and they can be given the seal that belongs to them.
 */
#include <string.h>

#include "base/digest.h"
#include "cli/checkpoint/checkpoint.h"
#include "cli/checkpoint/history_code.h"
#include "fuzz_input.h"

enum { PATCHED = 1, SEALED = 2 };
enum { SEAL_BYTES = 32, MOST_WORKERS = 3, MOST_ROUNDS = 4, MOST_DIMENSION = 8, ROOM = 4096 };

typedef struct writing {
    uint8_t *bytes;
    size_t size, room;
} writing;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int put(void *user, const uint8_t *bytes, size_t size)
{
    writing *to = user;
    require(size <= to->room - to->size);
    memcpy(to->bytes + to->size, bytes, size);
    to->size += size;
    return TARRY_OK;
}

/* What was read of an earlier process counts as done by this one. */
static void adopt(history *past)
{
    past->seconds = past->earlier_seconds;
    for (uint32_t worker = 0; worker < past->workers; worker++) {
        past->worker[worker].chunks = past->earlier[worker].chunks;
        past->worker[worker].seconds = past->earlier[worker].seconds;
    }
}

static void read_history(const checkpoint *state, uint32_t workers)
{
    const checkpoint_part *part = &state->history;
    history *past = NULL;
    require(history_create(workers, workers, &past) == TARRY_OK);
    if (history_decode(past, (size_t)state->round, part->bytes, part->size) == TARRY_OK) {
        require(past->count == state->round && history_encoded_size(past) == part->size);
        adopt(past);
        uint8_t *again = malloc(part->size);
        require(again != NULL);
        history_encode(past, again);
        require(memcmp(again, part->bytes, part->size) == 0);
        free(again);
    } else {
        require(past->count == 0);
    }
    history_free(past);
}

static void read(const uint8_t *bytes, size_t size, uint32_t workers)
{
    checkpoint state;
    const uint8_t *found[CHECKPOINT_VECTORS];
    tarry_diagnostic diagnostic;
    if (checkpoint_decode(bytes, size, &state, found, &diagnostic) != TARRY_OK)
        return;
    float *numbers[CHECKPOINT_VECTORS] = {NULL};
    for (uint32_t i = 0; i < state.vectors; i++) {
        numbers[i] = malloc(state.dimension * sizeof(float));
        require(numbers[i] != NULL);
        checkpoint_numbers(found[i], state.dimension, numbers[i]);
    }
    writing again = {.bytes = malloc(size), .room = size};
    require(again.bytes != NULL);
    require(checkpoint_encode(&state, (const float *const *)numbers, put, &again) == TARRY_OK);
    require(again.size == size && memcmp(again.bytes, bytes, size) == 0);
    free(again.bytes);
    for (uint32_t i = 0; i < state.vectors; i++)
        free(numbers[i]);
    read_history(&state, workers);
}

static size_t write_history(input *in, uint32_t workers, uint64_t rounds, uint8_t *bytes)
{
    history *past = NULL;
    require(history_create(workers, workers, &past) == TARRY_OK);
    for (uint64_t i = 0; i < rounds; i++) {
        history_round *round = history_add(past);
        require(round != NULL);
        round->result = (tarry_round_result){
            .round = i,
            .parts = 1,
            .copies_needed = 1U + take(in),
            .exact = true,
            .signal_ns = TARRY_NEVER,
        };
    }
    size_t size = history_encoded_size(past);
    require(size <= ROOM);
    history_encode(past, bytes);
    history_free(past);
    return size;
}

static writing write_good(input *in, uint32_t workers)
{
    static const float zeros[MOST_DIMENSION];
    static const float *const vectors[CHECKPOINT_VECTORS] = {zeros, zeros, zeros};
    static const uint8_t text[UINT8_MAX];
    uint8_t past[ROOM];
    checkpoint state = {
        .round = take(in) % (MOST_ROUNDS + 1U),
        .decayed = take(in) / 255.0,
        .square_decayed = 1,
        .config = {text, take(in)},
        .plan = {text, take(in)},
        .server = {text, take(in)},
        .dimension = 1U + take(in) % MOST_DIMENSION,
        .vectors = 1U + take(in) % CHECKPOINT_VECTORS,
    };
    state.history = (checkpoint_part){past, write_history(in, workers, state.round, past)};
    writing good = {.bytes = malloc(ROOM), .room = ROOM};
    require(good.bytes != NULL);
    require(checkpoint_encode(&state, vectors, put, &good) == TARRY_OK);
    return good;
}

/* A block of its very size, so that the sanitizer sees a step beyond it. */
static uint8_t *copy(const uint8_t *bytes, size_t size)
{
    uint8_t *own = malloc(size > 0 ? size : 1);
    require(own != NULL);
    if (size > 0)
        memcpy(own, bytes, size);
    return own;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.data = data, .left = size};
    uint8_t mode = take(&in);
    uint32_t workers = 1 + mode / 4 % MOST_WORKERS;
    uint8_t *bytes;
    size_t count;
    if ((mode & PATCHED) != 0) {
        writing good = write_good(&in, workers);
        count = good.size;
        bytes = copy(good.bytes, count);
        free(good.bytes);
        take_patches(&in, bytes, count);
    } else {
        count = in.left;
        bytes = copy(in.data, count);
    }
    if ((mode & SEALED) != 0 && count >= SEAL_BYTES)
        require(digest_of_bytes(bytes, count - SEAL_BYTES, bytes + count - SEAL_BYTES) == 0);
    read(bytes, count, workers);
    free(bytes);
    return 0;
}
