/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that are made to be freed at once, or can't be made. */
#ifndef TEST_CREATION_H
#define TEST_CREATION_H

#include <tarry/server.h>
#include <tarry/worker.h>

typedef struct server_creation {
    const tarry_plan *plan;
    tarry_server_settings settings;
} server_creation;

typedef struct worker_creation {
    const tarry_plan *plan;
    tarry_worker_settings settings;
} worker_creation;

/* A server, or the case fails. */
tarry_server *server_make(const tarry_plan *plan, const tarry_server_settings *settings);

/* Attempts for fail_each_allocation; `user` is a creation. */
int create_server(void *user, const tarry_allocator *allocator);
int create_worker(void *user, const tarry_allocator *allocator);

/* Such a server can't be made: an argument is wrong, and the diagnostic has these words. */
void assert_refused(const tarry_plan *plan, const tarry_server_settings *settings, const char *why);

#endif
