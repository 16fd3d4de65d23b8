/* SPDX-License-Identifier: Apache-2.0 */
/* The engine `direct` over connections that somebody else has, too (tarry/direct.h). */
#ifndef TCP_DIRECT_H
#define TCP_DIRECT_H

#include <tarry/direct.h>

#include "runtime/tcp/mesh/mesh.h"

/*
 * connections: NULL: shared memory alone; borrowed, or taken over with `owned` (also on failure).
 * Freed by its method. Errors: ARGUMENT, NO_MEMORY, SYSTEM, with a diagnostic.
 */
int direct_create(mesh *connections, bool owned, bool shares, const tarry_allocator *allocator,
                  tarry_engine **out, tarry_diagnostic *diagnostic);

#endif
