/* SPDX-License-Identifier: Apache-2.0 */
/* The exchanges of workers that live in one process: what one holds another one copies. */
#ifndef LOCAL_EXCHANGE_H
#define LOCAL_EXCHANGE_H

#include <tarry/allocator.h>

#include "runtime/worker/exchange.h"

typedef struct local_exchanges local_exchanges;

/* Errors: NO_MEMORY, SYSTEM. */
int local_exchanges_create(uint32_t workers, const tarry_allocator *allocator,
                           local_exchanges **made);
/* Nobody calls an exchange any more. NULL is allowed. */
void local_exchanges_free(local_exchanges *self);
/* That of `worker`. */
exchange *local_exchange_of(local_exchanges *self, uint32_t worker);

#endif
