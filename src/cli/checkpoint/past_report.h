/* SPDX-License-Identifier: Apache-2.0 */
/* What an earlier run's report (docs/reports.md) says of its workers, for runs to come. */
#ifndef CLI_PAST_REPORT_H
#define CLI_PAST_REPORT_H

#include <stdint.h>

#include <tarry/error.h>

/* NaN stands for what the report doesn't say, INFINITY for no limit. */
typedef struct past_report {
    uint32_t workers, chunks; /* whole chunks */
    uint32_t pieces;          /* of a chunk; 0 from tarry simulate */
    uint64_t dimension;
    /*
     * tarry train: what each worker took for one of its chunks or pieces, on average over the run,
     * injected delays included; INFINITY for one that was lost, or finished nothing. NULL from
     * tarry simulate.
     */
    double *seconds;
    /* tarry train: bytes of the coded parts over the time from the signal to the end of the
     * round, the median over rounds. */
    double server_bandwidth;
    /* tarry simulate: as its options were. */
    double bandwidth, latency, chunk_seconds, overhead;
    char *straggler, *chunk_cost; /* NULL from tarry train */
} past_report;

/*
 * Reads the report of a tarry train or tarry simulate at `path`, or none, which says nothing, where
 * it is NULL; the caller frees *out with past_report_free. Errors: FILE; FORMAT, with the line, or
 * with the key that is missing or wrong; NO_MEMORY.
 */
int past_report_read(const char *path, past_report *out, tarry_diagnostic *diagnostic);
void past_report_free(past_report *report); /* a zeroed one is allowed */

#endif
