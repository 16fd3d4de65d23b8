/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine for members on one machine, threads or processes of one user: each shows the others a
 * small segment of memory (engine/segment.h), through which a sum passes stripe by stripe.
 *
 * It finds out that a member is gone only when it opens its segment, at `form` or `start`; else it
 * waits. One that abandons a sum is noticed by those who wait for it: they fail, and suspect
 * nobody.
 */
#ifndef ENGINE_SHARED_H
#define ENGINE_SHARED_H

#include <tarry/allocator.h>
#include <tarry/engine.h>

#include "engine/segment.h"

/* Numbers of a segment unless told otherwise: 1 MB, so that those of many members stay in the last
 * cache. */
enum { SHARED_NUMBERS = 1 << 18 };

/* numbers: of its segment; 0: SHARED_NUMBERS. Members may differ in it. `pool`: of the members that
 * are threads of this process, borrowed; NULL: each has memory of its own, which other processes
 * can open, too. Freed by its method. Errors: NO_MEMORY, ARGUMENT, SYSTEM. */
int shared_engine_create(size_t numbers, segment_pool *pool, const tarry_allocator *allocator,
                         tarry_engine **out, tarry_diagnostic *diagnostic);
/* Whether bytes are an address of such an engine that is likely to be reached from this one: on the
 * same machine. */
bool shared_engine_reaches(const tarry_engine *engine, const uint8_t *address, size_t size);

#endif
