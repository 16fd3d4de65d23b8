/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime of tarry_host_create, from within: a runtime in this process begins with one, and has
 * methods of its own in place of some. */
#ifndef RUNTIME_SERVER_HOST_H
#define RUNTIME_SERVER_HOST_H

#include <tarry/host.h>

#include "runtime/host/runtime.h"
#include "runtime/worker/exchange.h"

typedef struct server_host {
    tarry_runtime base;
    tarry_allocator allocator;
    tarry_transport transport;
    size_t parameters;
    const float *sent; /* the parameters of the round in progress */
    bool *broken;      /* per worker: nothing can be sent to it; the host is to hear of it */
    bool any_broken;
    exchange *others; /* where everyone gets the sum and the transport passes on; else NULL */
} server_host;

/*
 * `wanted` has all but the host's `send` and `left_out`, which go to `transport`; the `user` of its
 * other functions is `self`. unchecked: as exchange_settings. `self` is zeros, but for its
 * methods. Errors: as tarry_host_create, but for what the settings may be; end it in any case.
 */
int server_host_init(server_host *self, const tarry_plan *plan, const host_settings *wanted,
                     const tarry_transport *transport, bool unchecked,
                     const tarry_allocator *allocator, tarry_diagnostic *diagnostic);
/* All but `self`, once the transport has ended. */
void server_host_end(server_host *self);

/* As the methods of runtime_methods. */
int server_host_wait(tarry_runtime *runtime, uint32_t workers, uint64_t until_ns);
int server_host_round(tarry_runtime *runtime, const float *parameters, float *sum,
                      tarry_round_result *result, tarry_diagnostic *diagnostic);
exchange *server_host_reach(tarry_runtime *runtime, uint32_t worker);
void server_host_listen(tarry_runtime *runtime, uint64_t until_ns);
void server_host_wake(tarry_runtime *runtime);

#endif
