/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for one execution. Under the address sanitizer, whatever lies beside a block or in one
 * that was given back must not be touched; none is given out twice, so that this holds until the
 * end. It takes a fraction of the time of the sanitizer's own, of which most goes into remembering
 * who took a block. In other builds it is only memory.
 */
#ifndef FUZZ_ARENA_H
#define FUZZ_ARENA_H

#include <tarry/allocator.h>

/* Where an execution takes its memory from. */
const tarry_allocator *arena_begin(void);
/* Ends the fuzzer if some of it was not given back. */
void arena_end(void);

#endif
