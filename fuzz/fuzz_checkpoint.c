/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes are refused, or restore a server whose next checkpoint says the same, but for the
 * arrivals, which go on behind the reserve, and which can then begin a round. The input is the
 * bytes, or changes to a checkpoint of a server with the same plan and settings; and they can be
 * given the seal that belongs to them.
 */
#include <string.h>

#include <tarry/server.h>

#include "base/bytes.h"
#include "base/digest.h"
#include "fuzz_plans.h"

enum { PATCHED = 1, SEALED = 2, BY_ERROR = 4, SAMPLED = 8 };
enum { SEAL_BYTES = 32, EPOCH_BYTES = 4, MEMBER_BYTES = 72 };

static tarry_server *make_server(const tarry_plan *plan, uint8_t mode, uint8_t choice)
{
    tarry_server_settings settings;
    tarry_server_settings_init(&settings);
    settings.dimension = 64;
    settings.stripe_length = 4;
    settings.silence_ns = 100 + choice;
    settings.stop = (mode & BY_ERROR) != 0 ? TARRY_STOP_ERROR : TARRY_STOP_EXACT;
    settings.sample_chunks = (mode & SAMPLED) != 0;
    tarry_server *server = NULL;
    require(tarry_server_create(plan, &settings, NULL, &server, NULL) == TARRY_OK);
    return server;
}

/* The checkpoint of the restored server against the one that it was restored from. */
static void compare(const uint8_t *before, const uint8_t *after, size_t size, uint32_t workers)
{
    size_t members = size - SEAL_BYTES - (size_t)workers * MEMBER_BYTES;
    require(memcmp(before, after, members) == 0);
    for (uint32_t worker = 0; worker < workers; worker++) {
        size_t at = members + (size_t)worker * MEMBER_BYTES;
        uint64_t epoch = bytes_get(before + at, EPOCH_BYTES) + TARRY_CHECKPOINT_ARRIVALS;
        epoch = epoch < UINT32_MAX ? epoch : UINT32_MAX;
        require(bytes_get(after + at, EPOCH_BYTES) == epoch);
        require(memcmp(before + at + EPOCH_BYTES, after + at + EPOCH_BYTES,
                       MEMBER_BYTES - EPOCH_BYTES) == 0);
    }
}

static void step(tarry_server *server, uint64_t now, tarry_event_type type, uint32_t worker,
                 int expected)
{
    const tarry_event event = {.type = type, .worker = worker};
    const tarry_effects *effects;
    require(tarry_server_step(server, now, &event, &effects) == expected);
}

static void go_on(tarry_server *server, uint32_t workers)
{
    for (uint32_t worker = 0; worker < workers; worker++)
        step(server, 0, TARRY_EVENT_JOINED, worker, TARRY_OK);
    step(server, 0, TARRY_EVENT_START, 0, TARRY_OK);
    for (uint32_t i = 0; i < 4 && tarry_server_deadline(server) != TARRY_NEVER; i++)
        step(server, tarry_server_deadline(server), TARRY_EVENT_TIME, 0, TARRY_OK);
}

static void restore(const tarry_plan *plan, tarry_server *server, uint8_t *bytes, size_t size)
{
    tarry_diagnostic diagnostic;
    if (tarry_server_restore(server, bytes, size, &diagnostic) != TARRY_OK)
        return;
    uint32_t workers = tarry_plan_workers(plan);
    step(server, 0, TARRY_EVENT_JOINED, 0, TARRY_ERROR_STATE);
    uint8_t *again = malloc(size);
    require(again != NULL && tarry_server_checkpoint_size(server) == size);
    require(tarry_server_checkpoint(server, again) == TARRY_OK);
    step(server, 0, TARRY_EVENT_JOINED, 0, TARRY_ERROR_STATE);
    tarry_server_stored(server, again);
    compare(bytes, again, size, workers);
    free(again);
    go_on(server, workers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.data = data, .left = size};
    uint8_t mode = take(&in), choice = take(&in);
    const tarry_plan *plan = take_plan(&in);
    tarry_server *server = make_server(plan, mode, choice);
    bool patched = (mode & PATCHED) != 0;
    /* A block of its very size, so that the sanitizer sees a step beyond it. */
    size_t count = patched ? tarry_server_checkpoint_size(server) : in.left;
    uint8_t *bytes = malloc(count > 0 ? count : 1);
    require(bytes != NULL);
    if (patched) {
        require(tarry_server_checkpoint(server, bytes) == TARRY_OK);
        take_patches(&in, bytes, count);
    } else if (count > 0) {
        memcpy(bytes, in.data, count);
    }
    if ((mode & SEALED) != 0 && count >= SEAL_BYTES)
        require(digest_of_bytes(bytes, count - SEAL_BYTES, bytes + count - SEAL_BYTES) == 0);
    restore(plan, server, bytes, count);
    free(bytes);
    tarry_server_free(server);
    return 0;
}
