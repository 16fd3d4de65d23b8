/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes are refused, or read as a plan that is written as the same bytes and that the rest of
 * the library can work with. The first byte says whether what follows are the bytes, or changes to
 * those of a small plan; whether they are given the digests that belong to them; and whether a plan
 * is used, which takes longest.
 */
#include <string.h>

#include <tarry/server.h>

#include "base/digest.h"
#include "fuzz_plans.h"
#include "plan/plan_code.h"

enum { PATCHED = 1, SEALED = 2, USED = 4 };
enum { SEAL_BYTES = 32, TAIL_BYTES = TARRY_DIGEST_SIZE + SEAL_BYTES };
/* Of plans beyond these the fuzzer is content to have read them. */
enum { MOST_WORKERS = 8, MOST_CHUNKS = 16 };

static void put_seals(uint8_t *bytes, size_t size)
{
    if (size < PLAN_CODE_HEAD_BYTES + TAIL_BYTES)
        return;
    uint8_t *tail = bytes + size - TAIL_BYTES;
    size_t body = size - PLAN_CODE_HEAD_BYTES - TAIL_BYTES;
    require(digest_of_bytes(bytes + PLAN_CODE_HEAD_BYTES, body, tail) == 0);
    require(digest_of_bytes(bytes, size - SEAL_BYTES, tail + TARRY_DIGEST_SIZE) == 0);
}

static void check_spans(const tarry_plan *plan)
{
    double size = 0;
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++) {
        for (uint32_t i = 0; i < tarry_plan_span_count(plan, chunk); i++) {
            tarry_span span = tarry_plan_span(plan, chunk, i);
            require(span.origin < tarry_plan_origins(plan));
            size += (double)span.count / span.of;
        }
    }
    require(size == tarry_plan_origins(plan));
}

/* The plan carries a round's server, and the next plan comes from it. */
static void use(const tarry_plan *plan)
{
    uint32_t workers = tarry_plan_workers(plan), chunks = tarry_plan_chunks(plan);
    if (workers > MOST_WORKERS || chunks > MOST_CHUNKS)
        return;
    tarry_server_settings settings;
    tarry_server_settings_init(&settings);
    settings.dimension = 64;
    tarry_server *server = NULL;
    if (tarry_server_create(plan, &settings, NULL, &server, NULL) == TARRY_OK)
        tarry_server_free(server);

    double cost[MOST_CHUNKS], pace[MOST_WORKERS];
    for (uint32_t chunk = 0; chunk < chunks; chunk++)
        cost[chunk] = 1 + 3 * (chunk % 4);
    for (uint32_t worker = 0; worker < workers; worker++)
        pace[worker] = 1 + worker % 3;
    const tarry_plan_evolution wanted = {
        .pace = pace, .cost = cost, .heaviest = 1.5, .lightest = 0.5, .most_moves = 4};
    tarry_plan *next = NULL;
    if (tarry_plan_evolve(plan, &wanted, NULL, &next, NULL, NULL) == TARRY_OK)
        check_spans(next);
    tarry_plan_free(next);
}

static void read_bytes(const uint8_t *bytes, size_t size, bool used)
{
    tarry_plan *plan = NULL;
    tarry_diagnostic diagnostic;
    if (plan_decode_bytes(bytes, size, NULL, &plan, &diagnostic) != TARRY_OK)
        return;
    require(plan_encoded_size(plan) == size);
    uint8_t *again = malloc(size);
    require(again != NULL && plan_encode(plan, again) == TARRY_OK);
    require(memcmp(again, bytes, size) == 0);
    free(again);
    check_spans(plan);
    if (used)
        use(plan);
    tarry_plan_free(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.data = data, .left = size};
    uint8_t mode = take(&in);
    const tarry_plan *plan = (mode & PATCHED) != 0 ? take_plan(&in) : NULL;
    /* A block of its very size, so that the sanitizer sees a step beyond it. */
    size_t count = plan != NULL ? plan_encoded_size(plan) : in.left;
    uint8_t *bytes = malloc(count > 0 ? count : 1);
    require(bytes != NULL);
    if (plan != NULL) {
        require(plan_encode(plan, bytes) == TARRY_OK);
        take_patches(&in, bytes, count);
    } else if (count > 0) {
        memcpy(bytes, in.data, count);
    }
    if ((mode & SEALED) != 0)
        put_seals(bytes, count);
    read_bytes(bytes, count, (mode & USED) != 0);
    free(bytes);
    return 0;
}
