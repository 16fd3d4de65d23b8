/* SPDX-License-Identifier: Apache-2.0 */
/* An engine that is another one, until it is told to fail: then it does, at that point of its next
 * sum. */
#ifndef TEST_FAULTY_ENGINE_H
#define TEST_FAULTY_ENGINE_H

#include <tarry/allocator.h>
#include <tarry/engine.h>

typedef enum faulty_kind {
    FAULTY_NONE,
    FAULTY_FORM,  /* `form` gives SYSTEM */
    FAULTY_START, /* `start` gives NO_MEMORY */
    FAULTY_FAIL,  /* the sum fails, and `suspect` is suspected; also one that was done */
    FAULTY_HANG,  /* nothing is done any more until it is abandoned, as by a member that is stopped
                   */
    FAULTY_CORRUPT, /* the sum is done with one bit changed, whatever `after` says */
    FAULTY_KILL,    /* the process is killed */
    FAULTY_STOP,    /* the process is stopped; once it continues, so does the sum */
} faulty_kind;

typedef struct faulty_point {
    faulty_kind kind;
    uint64_t after; /* bytes moved: as soon as it has moved so many; 0: before it does anything;
                       UINT64_MAX: once it would be done */
    uint32_t suspect;
} faulty_point;

/* Takes `inner` over, also on failure. Errors: NO_MEMORY. */
int faulty_engine_create(tarry_engine *inner, const tarry_allocator *allocator, tarry_engine **out);
/* It fails once; a point that is set replaces one that has not come. Not during another call, but
 * `wake`. */
void faulty_engine_set(tarry_engine *engine, faulty_point point);
/* Whether the point that was set has come. */
bool faulty_engine_struck(const tarry_engine *engine);

#endif
