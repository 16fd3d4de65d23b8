/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checkpoint of a training run: any bytes are refused, or are read as what is written as the
 * same bytes; so is the history in it. A line of the log of its rounds is refused, or is read as a
 * round whose own line is read as the same round. The input is the bytes of the
 * checkpoint and of the log, or changes to those that were good; and they can be given the seals
 * that belong to them.
 */
#include <string.h>

#include "base/digest.h"
#include "cli/checkpoint/checkpoint.h"
#include "cli/checkpoint/history.h"
#include "fuzz_input.h"

enum { PATCHED = 1, SEALED = 2 };
enum { SEAL_BYTES = 32, MOST_WORKERS = 3, MOST_ROUNDS = 4, MOST_DIMENSION = 8, ROOM = 8192 };

typedef struct writing {
    uint8_t *bytes;
    size_t size, room;
} writing;

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

static void read_shares(const checkpoint *state, uint32_t workers)
{
    const checkpoint_part *part = &state->history;
    history *past = NULL;
    require(history_create(workers, workers, &past) == TARRY_OK);
    if (history_decode(past, part->bytes, part->size) == TARRY_OK) {
        require(history_encoded_size(past) == part->size);
        adopt(past);
        uint8_t *again = malloc(part->size);
        require(again != NULL);
        history_encode(past, again);
        require(memcmp(again, part->bytes, part->size) == 0);
        free(again);
    }
    history_free(past);
}

/* A round that was read, and how many were before it. */
static int read_round(void *user, const history_round *round)
{
    char line[ROUND_LINE_BYTES], again[ROUND_LINE_BYTES];
    size_t length, size;
    history_round found;
    require(round->result.parts >= 1 && round->result.copies_needed >= round->result.parts);
    require(round->seconds >= 0);
    require(round_line_write(round, line, &length) == TARRY_OK);
    require(round_line_read(line, length, &found, NULL) == TARRY_OK);
    require(round_line_write(&found, again, &size) == TARRY_OK);
    require(size == length && memcmp(again, line, size) == 0);
    ++*(uint64_t *)user;
    return TARRY_OK;
}

/* The rounds that the checkpoint counts on. */
static void read_rounds(const checkpoint *state, const uint8_t *log, size_t size)
{
    uint8_t seal[HISTORY_SEAL_BYTES];
    uint64_t rounds = 0, used;
    const uint64_t count = state->round - state->first;
    FILE *stream = fmemopen((void *)log, size, "r");
    if (stream == NULL)
        return;
    const int error = history_lines(stream, "log", count, read_round, &rounds, seal, &used, NULL);
    require(error == TARRY_OK || error == TARRY_ERROR_FORMAT);
    require(used <= size && rounds <= count);
    require((rounds == count) == (error == TARRY_OK));
    fclose(stream);
}

static void read(const uint8_t *bytes, size_t size, const uint8_t *log, size_t log_size,
                 uint32_t workers)
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
    read_shares(&state, workers);
    read_rounds(&state, log, log_size);
}

/* The lines of `count` rounds. */
static size_t write_log(input *in, uint64_t count, char log[ROOM])
{
    size_t size = 0;
    for (uint64_t i = 0; i < count; i++) {
        size_t length;
        history_round round = history_blank_round;
        round.result.round = i;
        round.result.parts = 1;
        round.result.copies_needed = 1U + take(in);
        round.result.exact = true;
        require(ROOM - size >= ROUND_LINE_BYTES);
        require(round_line_write(&round, log + size, &length) == TARRY_OK);
        size += length;
    }
    return size;
}

/* A checkpoint, and behind it *log_size bytes of its log. */
static writing write_good(input *in, uint32_t workers, size_t *log_size)
{
    static const float zeros[MOST_DIMENSION];
    static const float *const vectors[CHECKPOINT_VECTORS] = {zeros, zeros, zeros, zeros};
    static const uint8_t text[UINT8_MAX];
    uint8_t shares[ROOM];
    char log[ROOM];
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
    history *past = NULL;
    require(history_create(workers, workers, &past) == TARRY_OK);
    state.history = (checkpoint_part){shares, history_encoded_size(past)};
    history_encode(past, shares);
    history_free(past);
    if (state.round > 0)
        state.first = take(in) % state.round;
    *log_size = write_log(in, state.round - state.first, log);
    writing good = {.bytes = malloc(ROOM), .room = ROOM};
    require(good.bytes != NULL);
    require(checkpoint_encode(&state, vectors, put, &good) == TARRY_OK);
    require(put(&good, (const uint8_t *)log, *log_size) == TARRY_OK);
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
    size_t count, log_size;
    if ((mode & PATCHED) != 0) {
        writing good = write_good(&in, workers, &log_size);
        count = good.size;
        bytes = copy(good.bytes, count);
        free(good.bytes);
        take_patches(&in, bytes, count);
    } else {
        uint8_t share = take(&in);
        count = in.left;
        log_size = count * share / UINT8_MAX;
        bytes = copy(in.data, count);
    }
    count -= log_size;
    uint8_t *own = copy(bytes, count), *log = copy(bytes + count, log_size);
    if ((mode & SEALED) != 0 && count >= SEAL_BYTES)
        require(digest_of_bytes(own, count - SEAL_BYTES, own + count - SEAL_BYTES) == 0);
    read(own, count, log, log_size, workers);
    free(log);
    free(own);
    free(bytes);
    return 0;
}
