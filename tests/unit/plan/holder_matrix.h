/* SPDX-License-Identifier: Apache-2.0 */
/* The slow way to ask what two chunks, or two workers, have in common. */
#ifndef TEST_HOLDER_MATRIX_H
#define TEST_HOLDER_MATRIX_H

#include "plan_check.h"

/* chunks x workers bytes, 1 where the worker holds the chunk; the caller frees it. */
static inline unsigned char *holder_matrix(const tarry_plan *plan)
{
    size_t workers = tarry_plan_workers(plan);
    unsigned char *held = calloc(tarry_plan_chunks(plan) * workers, 1);
    assert_non_null(held);
    for (uint32_t worker = 0; worker < workers; worker++)
        for (uint32_t position = 0; position < tarry_plan_load(plan, worker); position++)
            held[tarry_plan_chunk(plan, worker, position) * workers + worker] = 1;
    return held;
}

static inline uint32_t workers_shared(const tarry_plan *plan, const unsigned char *held,
                                      uint32_t chunk, uint32_t other)
{
    size_t workers = tarry_plan_workers(plan);
    uint32_t shared = 0;
    for (size_t worker = 0; worker < workers; worker++)
        shared += held[chunk * workers + worker] & held[other * workers + worker];
    return shared;
}

static inline uint32_t chunks_shared(const tarry_plan *plan, const unsigned char *held,
                                     uint32_t worker, uint32_t other)
{
    size_t workers = tarry_plan_workers(plan);
    uint32_t shared = 0;
    for (size_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++)
        shared += held[chunk * workers + worker] & held[chunk * workers + other];
    return shared;
}

#endif
