/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/wire/status.h"

enum { TAIL_BYTES = 512 }; /* more than follows the list of workers */

const char *const status_states[WIRE_WORKER_STATES] = {
    [WIRE_WORKER_ABSENT] = "absent",       [WIRE_WORKER_RESTING] = "resting",
    [WIRE_WORKER_RECEIVING] = "receiving", [WIRE_WORKER_COMPUTING] = "computing",
    [WIRE_WORKER_SENDING] = "sending",     [WIRE_WORKER_LATE] = "late",
    [WIRE_WORKER_SILENT] = "silent",       [WIRE_WORKER_GONE] = "gone",
    [WIRE_WORKER_LEFT] = "left",           [WIRE_WORKER_BEHIND] = "behind",
    [WIRE_WORKER_SUMMING] = "summing",     [WIRE_WORKER_HOLDING] = "holding",
};

const record_member status_run_table[] = {
    {"rounds_done", RECORD_WHOLE_64, RECORD_AT(status_run, done)},
    {"rounds", RECORD_WHOLE_KNOWN, RECORD_AT(status_run, rounds)},
    {"rounds_exact", RECORD_WHOLE_64, RECORD_AT(status_run, exact)},
    {"running", RECORD_TRUTH, RECORD_AT(status_run, running)},
    {"waiting", RECORD_TRUTH, RECORD_AT(status_run, waiting)},
    {"round_seconds", RECORD_SECONDS, RECORD_AT(status_run, elapsed_ns)},
    {"median_seconds", RECORD_SECONDS, RECORD_AT(status_run, median_ns)},
    {"attempts", RECORD_WHOLE_32, RECORD_AT(status_run, attempts)},
    {"note", RECORD_TEXT, offsetof(status_run, note), STATUS_NOTE_BYTES + 1, NULL},
    {0},
};

const record_member status_sum_table[] = {
    {"step", RECORD_WHOLE_64, RECORD_AT(status_sum, step)},
    {"term", RECORD_WHOLE_32, RECORD_AT(status_sum, term)},
    {"attempt", RECORD_WHOLE_32, RECORD_AT(status_sum, attempt)},
    {"voters", RECORD_WHOLE_32, RECORD_AT(status_sum, voters)},
    {"fetches", RECORD_WHOLE_32, RECORD_AT(status_sum, fetches)},
    {"attempts", RECORD_WHOLE_32, RECORD_AT(status_sum, tries)},
    {0},
};

const record_member status_worker_table[] = {
    {"worker", RECORD_WHOLE_32, RECORD_AT(status_worker, id)},
    {"state", RECORD_WORD, offsetof(status_worker, state), WIRE_WORKER_STATES, status_states},
    {"heard_seconds", RECORD_SECONDS, RECORD_AT(status_worker, heard_ns)},
    {"arrivals", RECORD_WHOLE_32, RECORD_AT(status_worker, arrivals)},
    {"chunks_held", RECORD_WHOLE_32, RECORD_AT(status_worker, load)},
    {"chunks_done", RECORD_WHOLE_32, RECORD_AT(status_worker, finished)},
    {"chunks_ever", RECORD_WHOLE_64, RECORD_AT(status_worker, chunks)},
    {"chunk_seconds", RECORD_SECONDS, RECORD_AT(status_worker, pace_ns)},
    {"received_bytes", RECORD_WHOLE_64, RECORD_AT(status_worker, received)},
    {"sent_bytes", RECORD_WHOLE_64, RECORD_AT(status_worker, sent)},
    {"rack", RECORD_TEXT, offsetof(status_worker, rack), sizeof(wire_rack), NULL},
    {0},
};

/* What does not fit leaves no trace. Gives back whether the worker is listed. */
static bool put_worker(record_out *out, const status_worker *worker)
{
    const size_t before = out->length;
    record_put(out, worker->id > 0 ? "," : "");
    record_put_object(out, status_worker_table, worker);
    if (!out->full)
        return true;
    out->full = false;
    out->length = before;
    return false;
}

static void put_others(record_out *out, const uint32_t others[WIRE_WORKER_STATES])
{
    const char *before = "\"";
    for (int state = 0; state < WIRE_WORKER_STATES; state++) {
        if (others[state] == 0)
            continue;
        record_put(out, before);
        record_put(out, status_states[state]);
        record_put(out, "\":");
        record_put_whole(out, others[state]);
        before = ",\"";
    }
}

bool status_write(const status_run *run, uint32_t workers, status_describe *describe, void *user,
                  record_out *out)
{
    uint32_t others[WIRE_WORKER_STATES] = {0};
    bool listing = true;
    record_put(out, "{\"version\":");
    record_put_whole(out, STATUS_VERSION);
    record_put(out, ",\"run\":");
    record_put_object(out, status_run_table, run);
    record_put(out, ",\"sum\":");
    if (run->sum.step > 0)
        record_put_object(out, status_sum_table, &run->sum);
    else
        record_put(out, "null");
    record_put(out, ",\"workers\":[");
    if (out->full || out->size - out->length < TAIL_BYTES)
        return false;
    out->size -= TAIL_BYTES;
    for (uint32_t id = 0; id < workers; id++) {
        status_worker worker = {.id = id};
        describe(user, &worker);
        listing = listing && put_worker(out, &worker);
        if (!listing)
            others[worker.state]++;
    }
    out->size += TAIL_BYTES;
    record_put(out, "],\"unlisted\":{");
    put_others(out, others);
    record_put(out, "}}");
    return true;
}
