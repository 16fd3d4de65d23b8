/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/worker/report_batch.h"

#include <assert.h>

enum { SHORT_FRACTION = 4 }; /* of REPORT_BATCH_NS: how long a short piece takes at most */

void report_batch_clear(report_batch *self)
{
    self->held.count = 0;
    self->begun = false;
}

bool report_batch_fits(const report_batch *self, const tarry_message *message)
{
    const wire_batch *held = &self->held;
    return message->type == TARRY_MESSAGE_REPORT &&
           (held->count == 0 || (held->count < REPORT_BATCH_MOST && held->round == message->round &&
                                 held->term == message->term));
}

static uint64_t wait_ns(const report_batch *self, uint64_t now_ns)
{
    uint64_t wait = (now_ns - self->began_ns) / REPORT_BATCH_FRACTION;
    return wait < REPORT_BATCH_NS ? wait : REPORT_BATCH_NS;
}

bool report_batch_put(report_batch *self, const tarry_message *report, bool more, uint64_t now_ns)
{
    assert(report_batch_fits(self, report));
    bool first = !self->begun || self->round != report->round;
    if (first) {
        self->begun = true;
        self->round = report->round;
        self->began_ns = now_ns;
    }
    if (self->held.count == 0) {
        self->held = (wire_batch){.round = report->round, .term = report->term};
        self->due_ns = now_ns + wait_ns(self, now_ns);
    }
    wire_batch_put(self->frame, self->held.count++, report);
    uint64_t piece_ns = now_ns - self->last_ns;
    self->last_ns = now_ns;
    /* Nothing waits in vain: the next one is there in time if its piece takes as long. */
    return !first && more && !report->failed && self->held.count < REPORT_BATCH_MOST &&
           piece_ns < REPORT_BATCH_NS / SHORT_FRACTION && now_ns + piece_ns <= self->due_ns;
}

size_t report_batch_close(report_batch *self)
{
    const codec_shape no_sets = {0};
    wire_batch held = self->held;
    self->held.count = 0;
    if (held.count > 1)
        return wire_batch_encode(&held, self->frame);
    if (held.count == 0)
        return 0;
    /* One alone is shorter as a message. */
    tarry_message report;
    held.reports = self->frame + WIRE_HEAD_BYTES + WIRE_BATCH_HEAD_BYTES;
    wire_batch_get(&held, 0, &report);
    size_t size = codec_size(&no_sets, &report);
    wire_message_head(size, 0, self->frame);
    codec_encode(&no_sets, &report, self->frame + WIRE_HEAD_BYTES);
    return WIRE_HEAD_BYTES + size;
}
