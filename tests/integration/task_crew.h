/* SPDX-License-Identifier: Apache-2.0 */
/* Workers whose owners take tasks and give them back, each in a thread: in this process or over the
 * network. */
#ifndef TEST_TASK_CREW_H
#define TEST_TASK_CREW_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <tarry/tcp.h>

enum { TASK_WORKERS = 4, TASK_CHUNKS = 8, TASK_DIMENSION = 300 };
#define TASK_PATIENCE_NS UINT64_C(60000000000)

typedef struct task_crew task_crew;

/* One worker, and the thread that takes its tasks. */
typedef struct task_hand {
    task_crew *of;
    uint32_t worker;
    tarry_tcp_worker *remote; /* NULL: of the local runtime */
    tarry_replica replica;    /* as the runtime calls it, if owners step */
    pthread_t thread;
    int result;             /* of the call that gave no task */
    _Atomic unsigned begun; /* calls of `begin` in its thread */
} task_hand;

struct task_crew {
    /* What the test sets: */
    bool network;
    bool steps; /* everyone gets the sum, and owners take the steps, too */
    void (*does)(task_hand *own, const tarry_task *task); /* and gives the task back */
    tarry_plan *plan;
    tarry_runtime *runtime;
    task_hand hands[TASK_WORKERS];
    char address[64];
};

int task_hand_take(task_hand *own, uint64_t wait_ns, const tarry_task **task);

/* Makes the plan. The replicas of the hands are set between that and the next call. */
void task_crew_make(task_crew *own, uint32_t replication);
/* Makes the runtime and the workers. */
void task_crew_begin(task_crew *own);
/* The threads, which end by themselves. All workers have joined. */
void task_crew_start(task_crew *own);
void task_crew_end(task_crew *own);
/* The settings of the server that the runtimes have. */
void task_crew_server(const task_crew *own, tarry_server_settings *server);

#endif
