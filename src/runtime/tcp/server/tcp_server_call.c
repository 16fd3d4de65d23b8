/* SPDX-License-Identifier: Apache-2.0 */
/* What the caller's thread may ask of a server. */
#include "runtime/tcp/server/tcp_server.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/diagnostic.h"
#include "runtime/clock.h"

#define ATTEND_NS UINT64_C(1000000000)
/* Between two rounds of one call where nobody has to come: at first, and at most. */
#define SHORTEST_PAUSE_NS UINT64_C(100000000)
#define LONGEST_PAUSE_NS UINT64_C(5000000000)

void tcp_server_ask(tarry_tcp_server *server, runtime_request *request, void *argument)
{
    pthread_mutex_lock(&server->lock);
    while (server->request != NULL)
        pthread_cond_wait(&server->changed, &server->lock);
    server->request = request;
    server->argument = argument;
    tcp_server_changed(server);
    while (server->request != NULL)
        pthread_cond_wait(&server->changed, &server->lock);
    pthread_mutex_unlock(&server->lock);
}

static void open_doors(tarry_runtime *runtime, void *argument)
{
    (void)argument;
    tarry_tcp_server *server = tcp_server_of(runtime);
    server->open = true;
    tcp_server_accept(server, true);
}

int tcp_server_open(tarry_runtime *runtime, tarry_diagnostic *diagnostic)
{
    (void)diagnostic;
    tarry_tcp_server *server = tcp_server_of(runtime);
    if (!server->open)
        tcp_server_ask(server, open_doors, NULL);
    return TARRY_OK;
}

/* ---- rounds ---- */

typedef struct round_request {
    const float *parameters;
    float *sum;
} round_request;

static void begin_round(tarry_runtime *runtime, void *argument)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    const round_request *wanted = argument;
    server->parameters = wanted->parameters;
    tcp_server_begin_round(server, wanted->sum);
}

/* Waits for a change, until limit_ns at most; with the lock held, which is given up while the
 * caller's `attend` runs. Gives back whether that time has come. */
static bool wait_for_change(tarry_tcp_server *server, uint64_t limit_ns)
{
    const tarry_tcp_server_settings *settings = &server->settings;
    uint64_t next = settings->attend != NULL ? server->attended_ns + ATTEND_NS : TARRY_NEVER;
    uint64_t until = limit_ns < next ? limit_ns : next;
    if (until == TARRY_NEVER) {
        pthread_cond_wait(&server->changed, &server->lock);
        return false;
    }
    struct timespec end = clock_timespec(until);
    if (pthread_cond_timedwait(&server->changed, &server->lock, &end) != ETIMEDOUT)
        return false;
    if (until == limit_ns)
        return true;
    pthread_mutex_unlock(&server->lock);
    settings->attend(settings->attend_user);
    server->attended_ns = clock_now_ns();
    pthread_mutex_lock(&server->lock);
    return false;
}

static void wait_until_over(tarry_tcp_server *server)
{
    pthread_mutex_lock(&server->lock);
    while (!server->round_over)
        wait_for_change(server, TARRY_NEVER);
    server->round_over = false;
    pthread_mutex_unlock(&server->lock);
}

static bool take_interrupt(tarry_tcp_server *server)
{
    return atomic_exchange(&server->interrupted, false);
}

static int run_round(tarry_tcp_server *server, const float *parameters, float *sum,
                     tarry_round_result *result, tarry_diagnostic *diagnostic)
{
    round_request wanted = {.parameters = host_see(server->base.host, parameters), .sum = sum};
    tcp_server_ask(server, begin_round, &wanted);
    wait_until_over(server);
    int error = host_finish(server->base.host, result, diagnostic);
    if (error == TARRY_ERROR_INTERRUPTED)
        take_interrupt(server);
    return error;
}

static uint64_t count_joins(tarry_tcp_server *server)
{
    pthread_mutex_lock(&server->lock);
    uint64_t joins = server->joins;
    pthread_mutex_unlock(&server->lock);
    return joins;
}

/* Whether another round may end better: too few were left for a sum, or those who were there did
 * not reach each other. */
static bool may_be_repeated(int error)
{
    return error == TARRY_ERROR_COVERAGE || error == TARRY_ERROR_LINKS;
}

/* Waits until a worker has come since there were so many joins, even if it was there before, or,
 * where all are there, or links have to come up, for a while. Errors: INTERRUPTED, STATE (it is
 * `until`). */
static int wait_for_more(tarry_tcp_server *server, int failed, uint64_t joins, uint64_t pause_ns,
                         uint64_t until)
{
    uint64_t retry = clock_from_now(pause_ns);
    int error = TARRY_OK;
    bool paused = false;
    pthread_mutex_lock(&server->lock);
    atomic_store(&server->waiting, true);
    while (error == TARRY_OK && server->joins == joins && !paused) {
        bool enough =
            failed == TARRY_ERROR_LINKS || server->present == server->base.host->plan->workers;
        uint64_t limit = enough && retry < until ? retry : until;
        if (take_interrupt(server))
            error = TARRY_ERROR_INTERRUPTED;
        else if (wait_for_change(server, limit) && limit == until)
            error = TARRY_ERROR_STATE;
        else
            paused = enough && clock_now_ns() >= retry;
    }
    atomic_store(&server->waiting, false);
    pthread_mutex_unlock(&server->lock);
    return error;
}

static void tell_waiting(tarry_tcp_server *server)
{
    const tarry_tcp_server_settings *settings = &server->settings;
    const host_round *round = &server->base.host->round;
    if (settings->observe != NULL)
        settings->observe(settings->observe_user, &(tarry_tcp_notice){
                                                      .type = TARRY_TCP_WAITING,
                                                      .now_ns = clock_now_ns(),
                                                      .round = round->result.round,
                                                      .worker = TARRY_TCP_NO_WORKER,
                                                      .waited_ns = settings->patience_ns,
                                                      .peer = "",
                                                      .text = round->diagnostic.text,
                                                      .rack = "",
                                                      .result = &round->result,
                                                  });
}

int tcp_server_round(tarry_runtime *runtime, const float *parameters, float *sum,
                     tarry_round_result *result, tarry_diagnostic *diagnostic)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    uint64_t patience = server->settings.patience_ns, until = 0, pause = SHORTEST_PAUSE_NS;
    for (;;) {
        uint64_t joins = count_joins(server);
        int failed = run_round(server, parameters, sum, result, diagnostic);
        if (!may_be_repeated(failed) || patience == 0)
            return failed;
        if (until == 0) {
            until = clock_from_now(patience);
            tell_waiting(server);
        }
        int error = wait_for_more(server, failed, joins, pause, until);
        if (error == TARRY_ERROR_STATE) /* nothing has changed: it ends as the round did */
            return failed;
        if (error != TARRY_OK)
            return diagnose(diagnostic, error, "interrupted while waiting for workers");
        pause = pause < LONGEST_PAUSE_NS / 2 ? 2 * pause : LONGEST_PAUSE_NS;
    }
}

/* ---- between rounds ---- */

/* `limit_ns` of the monotonic clock; TARRY_NEVER: none. */
static int wait_for(tarry_tcp_server *server, uint32_t workers, uint64_t limit_ns)
{
    int error = TARRY_OK;
    pthread_mutex_lock(&server->lock);
    atomic_store(&server->waiting, server->ready < workers);
    while (error == TARRY_OK && server->ready < workers) {
        if (take_interrupt(server))
            error = TARRY_ERROR_INTERRUPTED;
        else if (wait_for_change(server, limit_ns) && server->ready < workers)
            error = TARRY_ERROR_STATE;
    }
    atomic_store(&server->waiting, false);
    pthread_mutex_unlock(&server->lock);
    return error;
}

int tcp_server_wait(tarry_runtime *runtime, uint32_t workers, uint64_t wait_ns,
                    tarry_diagnostic *diagnostic)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    int error = wait_for(server, workers, clock_from_now(wait_ns));
    if (error == TARRY_ERROR_INTERRUPTED)
        return diagnose(diagnostic, error, "interrupted while waiting for %u workers", workers);
    if (error == TARRY_ERROR_STATE)
        return diagnose(diagnostic, error, "waited %.3g s for %u workers, and not all of them came",
                        (double)wait_ns / 1e9, workers);
    return error;
}

int tcp_server_replan(tarry_runtime *runtime, const tarry_plan *next, tarry_diagnostic *diagnostic)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    tcp_replan wanted = {.next = next, .diagnostic = diagnostic};
    tcp_server_ask(server, tcp_server_turn_to, &wanted);
    return wanted.error;
}

void tcp_server_interrupt(tarry_runtime *runtime)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    atomic_store(&server->interrupted, true);
    pthread_mutex_lock(&server->lock);
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
    tcp_server_changed(server);
}

void tcp_server_note(tarry_runtime *runtime, uint64_t done, uint64_t rounds, const char *note)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    size_t length = strnlen(note, WIRE_STATUS_NOTE_BYTES);
    memcpy(server->note, note, length);
    server->note[length] = '\0';
    server->noted_rounds = rounds;
    server->noted_done = done;
    server->noted_at = server->rounds;
}

void tcp_server_describe(tarry_runtime *runtime, uint32_t worker, tarry_worker_state *state)
{
    const tarry_tcp_server *server = tcp_server_of(runtime);
    const tcp_member *member = &server->members[worker];
    const peer *who = tcp_server_peer(server, worker);
    state->shares_memory = who != NULL && who->shm_opened;
    state->arrivals = member->arrivals;
    state->silent = member->silent;
    state->gone = member->gone;
    state->late = member->late;
    state->failed = member->failed;
    state->received = member->received + (who != NULL ? peer_received(who) : 0);
    state->sent = member->sent + (who != NULL ? peer_sent(who) : 0);
    state->numerics = member->numerics;
    memcpy(state->rack, member->rack, sizeof(member->rack));
}
