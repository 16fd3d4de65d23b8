/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine that a worker's owner brings, for sums; connections of the worker carry all else that
 * workers hand each other. Its groups are of workers that brought an engine of the same name.
 */
#ifndef TCP_BROUGHT_H
#define TCP_BROUGHT_H

#include <tarry/engine.h>
#include <tarry/tcp.h>

#include "runtime/tcp/mesh/mesh.h"

/*
 * connections and own are borrowed; *out is freed by its method, which abandons what runs of `own`
 * and does not free that. Errors: ARGUMENT (an address that is too long), NO_MEMORY, with a
 * diagnostic.
 */
int brought_create(const mesh *connections, tarry_engine *own, const tarry_allocator *allocator,
                   tarry_engine **out, tarry_diagnostic *diagnostic);

#endif
