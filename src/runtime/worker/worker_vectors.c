/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/worker_vectors.h"

#include "base/diagnostic.h"

int worker_vectors_check(const tarry_vectors *given, const tarry_server_settings *server,
                         uint32_t parts, const tarry_engine *engine, tarry_diagnostic *diagnostic)
{
    const bool host = given == NULL || given->methods->host != NULL;
    const bool single = server->element == TARRY_ELEMENT_FLOAT32;
    if (!host && (engine == NULL || parts > 1))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "vectors of '%s' are not in host memory: workers have to make the sum, of "
                        "one part",
                        given->methods->name);
    if (engine == NULL || engine->methods->owners || (host && single))
        return TARRY_OK;
    return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                    "engine '%s' sums float32 in host memory: element is %s, and vectors are %s it",
                    engine->methods->name, single ? "float32" : "float64", host ? "in" : "outside");
}

int worker_vectors_init(worker_vectors *self, tarry_vectors *given, tarry_element element,
                        const tarry_allocator *allocator)
{
    *self = (worker_vectors){given, element, given == NULL};
    return given == NULL ? tarry_host_vectors_create(allocator, &self->owner) : TARRY_OK;
}

void worker_vectors_destroy(worker_vectors *self)
{
    if (self->owner != NULL && self->own)
        self->owner->methods->free(self->owner);
    self->owner = NULL;
}
