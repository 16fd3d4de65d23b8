/* SPDX-License-Identifier: Apache-2.0 */
/* The vectors of a worker: whose they are, and what their numbers are. */
#ifndef RUNTIME_WORKER_VECTORS_H
#define RUNTIME_WORKER_VECTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/engine.h>
#include <tarry/server.h>
#include <tarry/vectors.h>

typedef struct worker_vectors {
    tarry_vectors *owner; /* NULL: there is nothing to destroy */
    tarry_element element;
    bool own; /* the library's */
} worker_vectors;

/* Whether a run can have this owner; NULL: host memory. engine: which makes the sums; NULL: the
 * server does. Errors: ARGUMENT (the run needs what the owner or the engine does not have). */
int worker_vectors_check(const tarry_vectors *given, const tarry_server_settings *server,
                         uint32_t parts, const tarry_engine *engine, tarry_diagnostic *diagnostic);
/* `given` is borrowed; NULL: host memory of the allocator. Nothing is reserved yet. Errors:
 * NO_MEMORY; nothing is left to destroy then. */
int worker_vectors_init(worker_vectors *self, tarry_vectors *given, tarry_element element,
                        const tarry_allocator *allocator);
void worker_vectors_destroy(worker_vectors *self);

/* Where a place is in host memory, or NULL. */
static inline void *worker_vectors_host(const worker_vectors *self, uint32_t place)
{
    return self->owner->methods->host == NULL ? NULL
                                              : self->owner->methods->host(self->owner, place);
}

/* The same of float32 alone. */
static inline float *worker_vectors_floats(const worker_vectors *self, uint32_t place)
{
    return self->element == TARRY_ELEMENT_FLOAT32 ? worker_vectors_host(self, place) : NULL;
}

#endif
