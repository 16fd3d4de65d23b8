/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers over the network. A round that too few workers are left for does not end the run: it
 * waits for others to come and begins another one.
 */
#ifndef CLI_RUNNER_TCP_H
#define CLI_RUNNER_TCP_H

#include <tarry/tcp.h>

#include "cli/output/event_log.h"
#include "cli/runner/runner.h"

/* Workers that were started along with the server, and end with it: for them no run goes on. */
typedef struct runner_crew {
    void *user;
    uint32_t (*expected)(void *user); /* how many can be expected to come; any thread */
    void (*retire)(void *user);       /* the server is about to end, */
    void (*end)(void *user);          /* and is gone */
} runner_crew;

typedef struct runner_tcp_settings {
    const char *const *listen;
    uint32_t listen_count;
    tarry_tcp_security security;
    bool share;           /* memory with workers on this machine */
    bool announce;        /* say where it listens */
    bool ship;            /* the samples, to workers that have none */
    bool tells_draws;     /* the key of draws, with differential privacy, along with the job */
    uint64_t wait_ns;     /* for all workers, before the first round */
    uint64_t patience_ns; /* from the first of several rounds on that too few workers were left for
                             until the run ends; 0: it ends at once */
    uint32_t decode_threads; /* 0: chosen */
    event_log *log;          /* NULL for none */
    const runner_crew *crew; /* NULL: workers come by themselves */
} runner_tcp_settings;

/* A runner_create, whose user is a runner_tcp_settings, borrowed; what it points to must outlive
 * the runner. */
int runner_tcp_create(void *user, const runner_request *request, runner **out,
                      tarry_diagnostic *diagnostic);

#endif
