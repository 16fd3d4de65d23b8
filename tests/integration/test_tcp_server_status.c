/* SPDX-License-Identifier: Apache-2.0 */
/* How a run stands: what the network server gives its caller, and shows to viewers. */
#include <stdio.h>

#include <tarry/local.h>

#include "server_bench.h"
#include "test.h"

static const char *after(const char *text, const char *what)
{
    const char *found = strstr(text, what);
    if (found == NULL)
        fail_msg("%s is not in %s", what, text);
    return found + strlen(what);
}

/* Gives back how many workers are listed: the first ones; the others are counted. */
static uint32_t check_document(const char *text)
{
    char expected[64];
    uint32_t listed = 0;
    text = after(text, "{\"version\":1,\"run\":{\"rounds_done\":6,\"rounds\":12,"
                       "\"rounds_exact\":2,\"running\":false,\"waiting\":false,"
                       "\"round_seconds\":null,\"median_seconds\":");
    text = after(text, ",\"note\":\"loss \\\"0.5\\\"\"},\"sum\":null,\"workers\":[");
    for (; strstr(text, "{\"worker\":") != NULL; listed++) {
        snprintf(expected, sizeof(expected), "{\"worker\":%u,\"state\":\"resting\",", listed);
        text = after(text, expected);
        text = after(text, "\"chunks_held\":3,");
    }
    snprintf(expected, sizeof(expected), "\"resting\":%u", WORKERS - listed);
    text = after(text, "],\"unlisted\":{");
    if (listed < WORKERS)
        text = after(text, expected);
    assert_string_equal(text, "}}");
    return listed;
}

/* What the caller gets with so much room, and a viewer if twice as much may wait for it. */
static void show_how_it_stands(size_t room, uint32_t least, uint32_t most)
{
    OWNED(bench) its;
    char text[TARRY_STATUS_BYTES + WORKERS * TARRY_STATUS_WORKER_BYTES];
    assert_true(room <= sizeof(text));
    bench_init(&its);
    its.settings.most_peer_bytes = 2 * room;
    bench_begin(&its, 1);
    crew_hire(&its, WORKERS);
    crew_start(&its);
    assert_ok(bench_round(&its, 1));
    tarry_runtime_note(its.server, 5, 12, "loss \"0.5\"");
    assert_ok(bench_round(&its, 2));
    assert_ok(tarry_runtime_status(its.server, text, room));
    assert_in_range(check_document(text), least, most);
    assert_int_equal(tarry_runtime_status(its.server, text, 100), TARRY_ERROR_ARGUMENT);
    assert_int_equal(tarry_runtime_status(its.server, text, 0), TARRY_ERROR_ARGUMENT);
    script viewer;
    script_open(&viewer, its.address, 99);
    script_say_hello(&viewer, WIRE_ROLE_VIEWER, WIRE_ANY_WORKER);
    script_await(&viewer, WIRE_STATUS);
    assert_true(viewer.head.length < sizeof(text));
    memcpy(text, viewer.body, viewer.head.length);
    text[viewer.head.length] = '\0';
    assert_in_range(check_document(text), least, most);
    script_close(&viewer);
}

TEST(shows_how_it_stands)
{
    show_how_it_stands(TARRY_STATUS_BYTES + WORKERS * TARRY_STATUS_WORKER_BYTES, WORKERS, WORKERS);
}

TEST(lists_as_many_workers_as_fit)
{
    show_how_it_stands(1500, 1, WORKERS - 1);
}

TEST(other_runtimes_have_none)
{
    char text[TARRY_STATUS_BYTES];
    tarry_local_settings settings;
    tarry_runtime *local;
    OWNED(tarry_plan) plan = bench_plan(1);
    tarry_local_settings_init(&settings);
    settings.parameters = settings.dimension = 1;
    assert_ok(tarry_local_create(plan, &settings, NULL, &local, NULL));
    assert_int_equal(tarry_runtime_status(local, text, sizeof(text)), TARRY_ERROR_STATE);
    tarry_runtime_free(local, true);
}
