/* SPDX-License-Identifier: Apache-2.0 */
/* An executor without a server, and what its test waits for: messages that it posts, and counters
 * that change under the lock. */
#ifndef TEST_EXECUTOR_RIG_H
#define TEST_EXECUTOR_RIG_H

#include <pthread.h>

#include "runtime/worker/executor.h"

enum { RIG_POSTS = 64 };

typedef struct executor_rig {
    tarry_plan *plan;
    snapshots pool;
    executor executor;

    pthread_mutex_t lock;
    pthread_cond_t change;
    tarry_message posts[RIG_POSTS];
    bool more[RIG_POSTS]; /* whether another report follows it at once */
    size_t count, read;   /* posted; looked at by the test */
} executor_rig;

/* The lock alone; the test makes the others. */
void rig_init(executor_rig *its);
/* The executor ends, and all is freed. */
void rig_end(executor_rig *its);

/* An uplink's `post`. */
void rig_post(executor_rig *its, const tarry_message *message, bool more);
void rig_count(executor_rig *its, size_t *counter);
void rig_set(executor_rig *its, bool *what, bool value);
size_t rig_get(executor_rig *its, const size_t *counter);
/* Asserts that the counter is there within a minute. */
void rig_await(executor_rig *its, const size_t *counter, size_t least);
tarry_message rig_next_post(executor_rig *its);
/* The executor is told. */
void rig_say(executor_rig *its, const tarry_message *message);

#endif
