/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime that computes a training run's sums, and what the tool adds to it: waiting for
 * workers that come from elsewhere, before the run and when too few are left, and a report of them.
 * Its workers are threads of this process, or come over the network.
 */
#ifndef CLI_RUNNER_H
#define CLI_RUNNER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include <tarry/compute.h>
#include <tarry/error.h>
#include <tarry/plan.h>
#include <tarry/runtime.h>
#include <tarry/secure.h>
#include <tarry/straggler.h>
#include <tarry/sum_log.h>
#include <tarry/tcp.h>

#include "cli/job/job.h"
#include "cli/output/event_log.h"

typedef struct runner_network runner_network;

typedef struct runner {
    tarry_runtime *runtime;
    runner_network *network; /* NULL: its workers don't come over the network */
    uint32_t awaited; /* so many workers are waited for before the first round; 0: none, or as the
                         network says */
    bool asks;        /* workers are asked for their states, by the runtime */
    /* Ends the runtime, and frees what belongs to it; NULL: tarry_runtime_free does. */
    void (*end)(void *user, bool finished);
    void *end_user;
    job_replicas *replicas; /* everyone gets the sum: what the workers of this process hold, or
                               one to look at what others hold */
} runner;

/* Waits for workers as the first round would. Errors: INTERRUPTED. */
int runner_gather(runner *self, tarry_diagnostic *diagnostic);
/* As tarry_runtime_round, after runner_gather; where everyone gets the sum, the workers have the
 * parameters, and neither they nor the sum are looked at. */
int runner_round(runner *self, const float *parameters, float *sum, tarry_round_result *result,
                 tarry_diagnostic *diagnostic);
/* Where everyone gets the sum, between two rounds: copies what the workers have after so many
 * steps, all that were taken; `state` is of an optimizer of their kind. Errors: STATE (nothing of
 * it came for wait_ns), FORMAT (what came is no such state), NO_MEMORY, SYSTEM. */
int runner_look(runner *self, uint64_t steps, uint64_t wait_ns, float *parameters,
                optimizer_state *state, tarry_diagnostic *diagnostic);
/* The last sum that the workers made, as tarry_runtime_sum; waits as runner_look. */
int runner_last_sum(runner *self, uint64_t wait_ns, float *sum, tarry_diagnostic *diagnostic);
/* Sets rack[j] of each worker, as tarry_plan_evolution has it, to what the workers say, and for
 * those that say nothing to what the plan has; *said: whether any says something. Errors:
 * NO_MEMORY. */
int runner_racks(runner *self, const tarry_plan *plan, uint32_t *rack, bool *said);
/* What happened between the machines, for the report; null where there are none. NULL is given back
 * where there is no memory. */
json_t *runner_describe(runner *self);
/* `finished`: the run is over; else it may be resumed. NULL is allowed. */
void runner_free(runner *self, bool finished);

/* What to run; all of it is borrowed, and what is not said otherwise must outlive the runner. */
typedef struct runner_request {
    const tarry_plan *plan;
    size_t dimension;                    /* numbers in the parameters, and in a gradient, */
    const tarry_server_settings *server; /* for the call; its dimension and stripe length are the
                                            runtime's to choose */
    tarry_compute *compute;
    void *user; /* of compute */
    const tarry_straggler *straggler;
    /* The same for workers that compute elsewhere; its digest of the data is not filled in. For the
     * call. */
    const job_spec *job;
    const dataset *data;       /* that is trained on; NULL: the workers alone have them */
    tarry_secure_rules secure; /* of secure sums; bits 0: they are not */
    const uint8_t *draws;      /* the key of draws, with differential privacy, for workers that
                                  are trusted with it; for the call. NULL: without */
    /* With TARRY_SUM_EVERYWHERE, for the call; else NULL. */
    const job_replicas_settings *replicas;
    /* The same: where the sums are noted, and what it says of those before. */
    tarry_sum_log sums;
    /* The same: the sum after which the state of `replicas` is. It is before the last one of `sums`
     * if workers may have a newer state. */
    tarry_sum_id state_after;
    /* Tells the user a line; called within `create` and `round`. */
    void (*say)(void *user, const char *line);
    void *say_user;
    /* Called about once a second within a round, where workers may come back again and again. */
    void (*attend)(void *user);
    void *attend_user;
    /* To go on from: what the runtime for the same plan and settings gave; for the call. NULL: a
     * new job. */
    const uint8_t *checkpoint;
    size_t checkpoint_size;
    const uint8_t *job_id;
    tarry_view view; /* the same, where it has one */
} runner_request;

/* Makes a runner that the caller frees. Errors: as tarry_local_create. */
typedef int runner_create(void *user, const runner_request *request, runner **out,
                          tarry_diagnostic *diagnostic);

/*
 * Credentials of a server and its workers for one run, in a folder that goes with it. The process
 * that makes them has all keys: with secure sums they protect no data, and are for trying.
 */

enum { CREW_KEYS_PATH = 256 };

/* A new folder with those of keys init, and a roster. Errors: FILE, SYSTEM, NO_MEMORY, with a
 * diagnostic; then there is none. */
int crew_keys_make(uint32_t workers, char folder[CREW_KEYS_PATH], tarry_diagnostic *diagnostic);
void crew_keys_remove(const char *folder);

/* What a worker's folder has for TLS: the authority's certificate, its own one, and its key. */
enum { CREW_FILES = 3, CREW_FILE_BYTES = 4096 };
typedef struct crew_member {
    uint32_t size[CREW_FILES];
    char bytes[CREW_FILES][CREW_FILE_BYTES];
} crew_member;

/* Reads a worker's from a folder that crew_keys_make has made. Errors: FILE, NO_MEMORY. */
int crew_keys_take(const char *folder, uint32_t worker, crew_member *out,
                   tarry_diagnostic *diagnostic);
/* Writes them into a new folder, maybe on another machine. Errors: FILE, NO_MEMORY; then there is
 * none. */
int crew_keys_put(const crew_member *from, char folder[CREW_KEYS_PATH],
                  tarry_diagnostic *diagnostic);

/* What workers on this machine take beside their vectors, held against what there is. */

typedef struct crew_size {
    uint32_t workers; /* on this machine; 0: they are elsewhere, or start by themselves */
    bool processes;   /* else threads of this process */
    bool everywhere;  /* they sum among themselves */
} crew_size;

/* Bytes that the crew takes at least, whatever it trains. */
double crew_room_bytes(const crew_size *crew);
/* Whether there is room for its threads, and for these bytes in all, which take in those above.
 * `what` names what takes them. tell: if that is more than half of what is free, a line on stderr
 * says so. Errors: NO_MEMORY, with the need and the limit. */
int crew_room_check(const crew_size *crew, double bytes, const char *what, bool tell,
                    tarry_diagnostic *diagnostic);

/* Which refused connections are printed: each address and reason once in a while, and few lines in
 * all, however many come. */

enum {
    REFUSALS_KEPT = 16,  /* address and reason that are not printed again soon */
    REFUSALS_LINES = 8,  /* printed in REFUSALS_NS, at most */
    REFUSALS_TEXT = 160, /* bytes of an address or a reason that are looked at */
    REFUSALS_LINE = 512,
};
#define REFUSALS_NS UINT64_C(10000000000)

typedef struct refusals {
    struct {
        uint64_t at_ns; /* when it was printed; 0: none was */
        char from[REFUSALS_TEXT], why[REFUSALS_TEXT];
    } said[REFUSALS_KEPT];
    uint64_t since_ns;    /* from this moment on */
    uint32_t lines;       /* so many lines were printed, */
    unsigned long unsaid; /* and so many refusals were not */
} refusals;

/*
 * True if this refusal is to be printed: `line` says so. peer is an address, whose port does not
 * count, as each attempt has another; "": several. worker: UINT32_MAX: not known. Zero all of
 * *self before the first call; now_ns must be above 0.
 */
bool refusals_line(refusals *self, uint64_t now_ns, uint32_t worker, const char *peer,
                   const char *why, char line[REFUSALS_LINE]);

/* Workers as threads of this process. */

/* A runner_create; user is not used. */
int runner_local_create(void *user, const runner_request *request, runner **out,
                        tarry_diagnostic *diagnostic);

/* --ship-data at the server: each chunk's samples as bytes, made when they are first asked for. */

typedef struct shipped_data shipped_data;

/* `data`, borrowed, has the samples of the batch's chunks. Errors: ARGUMENT (a chunk is too large,
 * see tarry/tcp.h), NO_MEMORY. */
int shipped_data_create(const dataset *data, const batch_settings *batch, shipped_data **out,
                        tarry_diagnostic *diagnostic);
void shipped_data_free(shipped_data *shipped); /* NULL is allowed */

/* A tarry_tcp_ship; user is the shipped_data. One thread. */
int shipped_data_give(void *user, uint32_t origin, const void **bytes, size_t *size);

/*
 * Workers over the network. A round that too few workers are left for does not end the run: it
 * waits for others to come and begins another one.
 */

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
    bool announce;        /* say where it listens */
    bool ship;            /* the samples, to workers that have none */
    bool tells_draws;     /* the key of draws, with differential privacy, along with the job */
    uint64_t wait_ns;     /* for all workers, before the first round */
    uint64_t patience_ns; /* from the first of several rounds on that too few workers were left for
                             until the run ends; 0: it ends at once */
    event_log *log;       /* NULL for none */
    const runner_crew *crew; /* NULL: workers come by themselves */
} runner_tcp_settings;

/* A runner_create, whose user is a runner_tcp_settings, borrowed; what it points to must outlive
 * the runner. */
int runner_tcp_create(void *user, const runner_request *request, runner **out,
                      tarry_diagnostic *diagnostic);

#endif
