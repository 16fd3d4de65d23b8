/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker whose pieces are short says several reports in one frame. A report waits for the next
 * ones of its round for a moment that is short beside the round so far, so that the server hears
 * of what is finished as early as makes a difference. Pure: time comes from the caller.
 */
#ifndef TCP_REPORT_BATCH_H
#define TCP_REPORT_BATCH_H

#include "protocol/wire/wire_batch.h"

/* The longest that a report waits. Pieces are short if at least four are finished in that time. */
#define REPORT_BATCH_NS UINT64_C(1000000)

enum {
    REPORT_BATCH_FRACTION = 8, /* a report waits for this fraction of the round so far at most */
    REPORT_BATCH_MOST = 128,   /* reports that wait */
    REPORT_BATCH_BYTES =
        WIRE_HEAD_BYTES + WIRE_BATCH_HEAD_BYTES + REPORT_BATCH_MOST * WIRE_BATCH_REPORT_BYTES,
};

/* All zeros: nothing waits. */
typedef struct report_batch {
    wire_batch held;   /* how many wait; they stand in `frame` */
    bool begun;        /* `round` is one */
    uint64_t round;    /* of the last report, */
    uint64_t began_ns; /* of which the first one came then, */
    uint64_t last_ns;  /* and the last one */
    uint64_t due_ns;   /* when those that wait are to go out */
    uint8_t frame[REPORT_BATCH_BYTES];
} report_batch;

/* What waits is dropped, and the next report is the first of its round. */
void report_batch_clear(report_batch *self);
/* Whether the message can stand in one frame with what waits. */
bool report_batch_fits(const report_batch *self, const tarry_message *message);
/* Takes a report that fits. more: another one of this round is to follow. Gives back whether all
 * that is there may wait for it; otherwise it is to be closed and sent now. */
bool report_batch_put(report_batch *self, const tarry_message *report, bool more, uint64_t now_ns);
/* Ends what waits, if anything does: `frame` is to be sent as it is. Gives back its bytes, 0:
 * nothing waited. */
size_t report_batch_close(report_batch *self);

#endif
