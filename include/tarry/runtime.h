/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A runtime: the server's side of a cluster of workers, wherever they are. Runtimes differ in how
 * they are made (tarry_local_create, tarry_tcp_server_create, tarry_host_create) and are used in
 * the same way.
 *
 * Calls are for one thread at a time, and between rounds unless something else is said;
 * tarry_runtime_interrupt is for any thread.
 */
#ifndef TARRY_RUNTIME_H
#define TARRY_RUNTIME_H

#include <tarry/server.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARRY_JOB_ID_SIZE 16

typedef struct tarry_runtime tarry_runtime;

/*
 * Ends the runtime and frees it: workers hear that the run is over (`finished`), or that it will be
 * resumed. Waits until compute functions in progress in this process have returned, and taken tasks
 * were given back. NULL is allowed.
 */
TARRY_API void tarry_runtime_free(tarry_runtime *runtime, bool finished);

/*
 * Lets workers in, where they come from elsewhere; the first tarry_runtime_wait or
 * tarry_runtime_round does so, too. Errors: STATE (a runtime that was made from a checkpoint, of
 * which none was stored since).
 */
TARRY_API int tarry_runtime_open(tarry_runtime *runtime, tarry_diagnostic *diagnostic);
/* Waits until `workers` workers are there; with TARRY_SUM_EVERYWHERE, until they have stepped on
 * the last committed sum (as tarry_server_count_ready). Errors: INTERRUPTED, STATE (wait_ns are
 * over, TARRY_NEVER: no limit; or as tarry_runtime_open). */
TARRY_API int tarry_runtime_wait(tarry_runtime *runtime, uint32_t workers, uint64_t wait_ns,
                                 tarry_diagnostic *diagnostic);

/*
 * Runs one round: sum[0..dimension-1] becomes the sum of the chunks' gradients, or the estimate the
 * stop rule allows. `parameters` are read, and `sum` is written, until it returns. Fills *result on
 * success and for COVERAGE. Errors: COVERAGE (who is left can't bring what the stop rule wants; the
 * diagnostic names the chunks), LINKS (those who are there could not sum with each other; it names
 * workers): more may come, and another round be run; INTERRUPTED (the next call starts a new
 * round), STATE (as tarry_runtime_open), NUMERICAL, NO_MEMORY, SYSTEM.
 */
TARRY_API int tarry_runtime_round(tarry_runtime *runtime, const float *parameters, float *sum,
                                  tarry_round_result *result, tarry_diagnostic *diagnostic);
/*
 * With TARRY_SUM_EVERYWHERE parameters and sum are NULL: workers have the first and get the second,
 * and result->sum names it. The round is over when its sum is committed; workers step on it
 * afterwards.
 */

/* Makes the round or wait in progress, or the next one, return INTERRUPTED. Any thread. */
TARRY_API void tarry_runtime_interrupt(tarry_runtime *runtime);

/* What each chunk costs, relative to each other, in the rounds to come, for dynamic orders; NULL:
 * learned. As tarry_server_costs. Errors: ARGUMENT. */
TARRY_API int tarry_runtime_costs(tarry_runtime *runtime, const double *costs);

/*
 * Goes on with `next`, a plan of the same workers and parts that was made from the same original
 * one (tarry_plan_evolve); borrowed, like the one before, which is not used any more. Rounds are
 * numbered on; who is there, what each worker did and what the server has learned stay. The runtime
 * waits for no compute function: one in progress runs to its end on its own task, and its worker
 * goes on with the next plan then. Takes as much memory as the plan anew, and gives back that of
 * the plan before. Errors: ARGUMENT (plans that don't belong together), NO_MEMORY; the runtime goes
 * on with the plan before then.
 */
TARRY_API int tarry_runtime_replan(tarry_runtime *runtime, const tarry_plan *next,
                                   tarry_diagnostic *diagnostic);

/* Calls `look` with the server's machine while nothing steps it, and gives back its result. */
TARRY_API int tarry_runtime_visit(tarry_runtime *runtime,
                                  int (*look)(void *user, const tarry_server *machine), void *user);

/* Writes what a runtime for the same plan and settings needs to go on from here,
 * tarry_server_checkpoint_size bytes of its machine. Errors: NO_MEMORY. */
TARRY_API int tarry_runtime_checkpoint(tarry_runtime *runtime, uint8_t *bytes);
/*
 * As tarry_server_stored. If a runtime was made from a checkpoint, and its workers come from
 * elsewhere, the caller must take a new checkpoint and store it in the place of the old one before
 * the runtime lets anybody in.
 */
TARRY_API void tarry_runtime_stored(tarry_runtime *runtime, const uint8_t *bytes);

/* ---- compress_down, where workers have a view of the parameters ---- */

typedef struct tarry_view {
    const float *numbers; /* as many as parameters; NULL: none */
    uint64_t round;       /* that it was made for */
} tarry_view;

/*
 * What workers compute with in the round that runs, or did in the last one: borrowed, until the
 * next round begins. numbers is NULL before the first round, and where they compute with the
 * parameters themselves. Stored with a checkpoint and given to the runtime that goes on from it, it
 * makes that one continue to the bit.
 */
TARRY_API tarry_view tarry_runtime_view(const tarry_runtime *runtime);

/* ---- TARRY_SUM_EVERYWHERE, where workers have the parameters ---- */

/*
 * A copy of the state (as tarry_replica.save writes it) after the last committed sum, or a later
 * one, of a worker that has it: *size bytes, to be given to tarry_runtime_release_state, after
 * *after. A call waits for at most wait_ns. Errors: STATE (the copy is not complete yet, no worker
 * has the state, no round has begun since the last replan, or the server makes the sum), NO_MEMORY,
 * SYSTEM.
 *
 * A transfer may take several calls: each call continues the transfer that the call before it left
 * incomplete. The transfer ends when the copy is complete or the runtime runs a round. If the
 * worker is lost, or sends nothing for the silence limit, the runtime asks another worker. A caller
 * that waits for a large state should give up when tarry_runtime_copied stops growing, not after a
 * fixed time.
 */
TARRY_API int tarry_runtime_state(tarry_runtime *runtime, uint64_t wait_ns, tarry_sum_id *after,
                                  void **bytes, uint64_t *size, tarry_diagnostic *diagnostic);
TARRY_API void tarry_runtime_release_state(tarry_runtime *runtime, void *bytes);
/* A copy of the last committed sum, of a worker that holds it, as they all do until the next round.
 * Waits and continues as tarry_runtime_state; `sum` is written only on success. Errors: STATE (the
 * copy is not complete yet, no worker holds the sum, the server makes it, or it is not float32),
 * NO_MEMORY. */
TARRY_API int tarry_runtime_sum(tarry_runtime *runtime, uint64_t wait_ns, float *sum,
                                tarry_diagnostic *diagnostic);
/* Bytes that have arrived by the transfers of tarry_runtime_state and tarry_runtime_sum so far,
 * over all calls and workers. It never falls. */
TARRY_API uint64_t tarry_runtime_copied(const tarry_runtime *runtime);
/*
 * A state after the sum `after` that workers may load from this process, over the network, where
 * no worker has the last one: a run that goes on has it from its checkpoint. The run goes back to
 * it where all that is newer is lost. To be called between rounds, right after the creation if the
 * run goes on; each call takes the place of the one before. `bytes` are borrowed until then or
 * until the runtime is freed. Errors: STATE (the server makes the sum; or workers are of this
 * process, whose owner loads what they step), SYSTEM (no way to workers).
 */
TARRY_API int tarry_runtime_vectors(tarry_runtime *runtime, const tarry_sum_id *after,
                                    const void *bytes, uint64_t size, tarry_diagnostic *diagnostic);

/* What one worker did so far, over all rounds. */
typedef struct tarry_worker_state {
    uint64_t chunks; /* finished chunks that the server heard of */
    double seconds;  /* spent on these, injected delays included; 0 where workers don't tell */
    double pace; /* seconds that a chunk of mean cost takes it, as the server has learned; 0: not
                    known */
    bool present;
    uint32_t arrivals;                   /* over a connection */
    uint32_t silent, gone, late, failed; /* how often the server continued without it */
    uint64_t received, sent;             /* bytes over connections */
    char rack[TARRY_RACK_BYTES + 1];     /* that it said last; "": none */
    uint64_t numerics; /* that it said last, as tarry_tcp_worker_numerics; 0: none */
} tarry_worker_state;

/* The state of `worker` (0..workers-1). Of a server over TCP also during rounds, for any thread. */
TARRY_API tarry_worker_state tarry_runtime_worker(tarry_runtime *runtime, uint32_t worker);

/* ---- where workers come from elsewhere; otherwise NULL, zeros and nothing ---- */

/* Where the runtime listens: the index-th of its addresses, with the port that the system chose for
 * port 0. NULL past the last. */
TARRY_API const char *tarry_runtime_address(const tarry_runtime *runtime, uint32_t index);
/* The id by which workers know the job again when it is resumed. */
TARRY_API void tarry_runtime_job_id(const tarry_runtime *runtime, uint8_t id[TARRY_JOB_ID_SIZE]);
/* Tells viewers (`tarry top`): rounds that are done, to which those that end from now on
 * are added; rounds in all (0: not known); and a line of text. */
TARRY_API void tarry_runtime_note(tarry_runtime *runtime, uint64_t done, uint64_t rounds,
                                  const char *note);
/* Bytes that suffice for any status of a run without workers, and for each worker. */
enum { TARRY_STATUS_BYTES = 2048, TARRY_STATUS_WORKER_BYTES = 512 };
/*
 * Writes how the run stands as one JSON document with a NUL behind it (docs/status.schema.json).
 * `text` has `size` bytes. With less room than all workers need, the document lists those of the
 * lowest ids and counts the others by state. May be called from any thread, also during rounds and
 * by an observer (tarry_tcp_observe). Errors: STATE (workers do not come from elsewhere), ARGUMENT
 * (`size` is too small for the run itself); what `text` holds is then undefined.
 */
TARRY_API int tarry_runtime_status(tarry_runtime *runtime, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
