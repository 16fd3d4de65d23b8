/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of committed sums, where everyone gets the sum (TARRY_SUM_EVERYWHERE): the server steps
 * nothing before its sum is in the log, and a server that starts again goes on from it. It has a
 * few bytes per step and no vector.
 */
#ifndef TARRY_SUM_LOG_H
#define TARRY_SUM_LOG_H

#include <tarry/event.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarry_sum_log {
    /*
     * Appends an entry so that it is there after a crash. One with attempt 0 says that the run goes
     * back to the state after the entry of its step, in its term: those after that are void. NULL:
     * the log is lost with the process. Errors: FILE, which ends the round before anybody steps.
     */
    int (*append)(void *user, const tarry_sum_id *entry);
    void *user;
    /* For a start: the last entry that is not void and the one before (step 0: there is none), and
     * the term of this start, above all that the log names; 0: 1. */
    tarry_sum_id last[2];
    uint32_t term;
} tarry_sum_log;

#ifdef __cplusplus
}
#endif

#endif
