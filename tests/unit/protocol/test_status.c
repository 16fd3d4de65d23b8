/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <tarry/runtime.h>

#include "protocol/wire/status.h"
#include "test.h"

/* The longest entry there is; `user` is the state of all workers. */
static void describe_longest(void *user, status_worker *out)
{
    const uint32_t id = out->id;
    memset(out, 0xff, sizeof(*out));
    out->id = id;
    out->state = *(const wire_worker_state *)user;
    memset(out->rack, '"', sizeof(out->rack) - 1);
    out->rack[sizeof(out->rack) - 1] = '\0';
}

static void describe_one(void *user, status_worker *out)
{
    (void)user;
    *out = (status_worker){
        .id = out->id,
        .state = WIRE_WORKER_LEFT,
        .load = 1,
        .finished = 2,
        .arrivals = 3,
        .chunks = 4,
        .pace_ns = 5,
        .heard_ns = 6000000000,
        .received = 7,
        .sent = 8,
        .rack = "r7",
    };
}

TEST(a_status_is_as_documented)
{
    const status_run run = {
        .done = 1,
        .running = true,
        .elapsed_ns = 2000000000,
        .median_ns = 3000000,
        .rounds = 4,
        .exact = 5,
        .attempts = 6,
        .sum = {.step = 8, .term = 9, .attempt = 10, .voters = 11, .fetches = 12, .tries = 13},
        .note = "\"ok\"",
    };
    char text[TARRY_STATUS_BYTES + TARRY_STATUS_WORKER_BYTES] = "";
    record_out out = {.text = text, .size = sizeof(text) - 1};
    assert_true(status_write(&run, 1, describe_one, NULL, &out));
    assert_int_equal(out.length, strlen(text));
    assert_string_equal(
        text, "{\"version\":1,\"run\":{\"rounds_done\":1,\"rounds\":4,\"rounds_exact\":5,"
              "\"running\":true,\"waiting\":false,\"round_seconds\":2.000000000,"
              "\"median_seconds\":0.003000000,\"attempts\":6,\"note\":\"\\\"ok\\\"\"},"
              "\"sum\":{\"step\":8,\"term\":9,\"attempt\":10,\"voters\":11,\"fetches\":12,"
              "\"attempts\":13},\"workers\":[{\"worker\":0,\"state\":\"left\","
              "\"heard_seconds\":6.000000000,\"arrivals\":3,\"chunks_held\":1,\"chunks_done\":2,"
              "\"chunks_ever\":4,\"chunk_seconds\":0.000000005,\"received_bytes\":7,"
              "\"sent_bytes\":8,\"rack\":\"r7\"}],\"unlisted\":{}}");
}

/* Of the longest: what tarry_runtime_status promises suffices, and with less room workers are
 * counted. */
TEST(as_many_workers_as_fit)
{
    enum { WORKERS = 20, ROOM = TARRY_STATUS_BYTES + WORKERS * TARRY_STATUS_WORKER_BYTES };
    char text[ROOM + 1];
    status_run run;
    memset(&run, 0xff, sizeof(run));
    run.running = run.waiting = true;
    memset(run.note, '"', STATUS_NOTE_BYTES);
    run.note[STATUS_NOTE_BYTES] = '\0';
    for (wire_worker_state kind = 0; kind < WIRE_WORKER_STATES; kind++) {
        uint32_t before = WORKERS;
        for (size_t room = ROOM;; room -= 64) {
            char counted[64];
            uint32_t listed = 0;
            record_out out = {.text = text, .size = room};
            memset(text, 'x', sizeof(text));
            if (!status_write(&run, WORKERS, describe_longest, &kind, &out))
                break;
            assert_true(out.length <= room && text[room] == 'x');
            text[out.length] = '\0';
            for (const char *at = text; (at = strstr(at, "{\"worker\":")) != NULL; at++)
                listed++;
            assert_true(listed <= before);
            before = listed;
            snprintf(counted, sizeof(counted), "\"unlisted\":{\"%s\":%u}}", status_states[kind],
                     WORKERS - listed);
            assert_non_null(strstr(text, listed < WORKERS ? counted : "\"unlisted\":{}}"));
            assert_true(room < ROOM || listed == WORKERS);
        }
        assert_int_equal(before, 0);
    }
}
