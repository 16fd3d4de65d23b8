/* SPDX-License-Identifier: Apache-2.0 */
/* What the caller's thread may ask of a server. */
#include "runtime/tcp/server/tcp_server.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/diagnostic.h"
#include "runtime/clock.h"

#define ATTEND_NS UINT64_C(1000000000)
/* Between two rounds of one call where all workers are there: at first, and at most. */
#define SHORTEST_PAUSE_NS UINT64_C(100000000)
#define LONGEST_PAUSE_NS UINT64_C(5000000000)

void tcp_server_ask(tarry_tcp_server *server, tcp_request *request, void *argument)
{
    pthread_mutex_lock(&server->lock);
    server->request = request;
    server->argument = argument;
    tcp_server_changed(server);
    while (server->request != NULL)
        pthread_cond_wait(&server->changed, &server->lock);
    pthread_mutex_unlock(&server->lock);
}

static void open_doors(tarry_tcp_server *server, void *argument)
{
    (void)argument;
    server->open = true;
    tcp_server_accept(server, true);
}

/* Nobody is let in before the caller is ready for it: what a restored server says must not go out
 * before its checkpoint is stored. */
static int let_in(tarry_tcp_server *server, tarry_diagnostic *diagnostic)
{
    if (server->awaits_checkpoint)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "network server: a checkpoint has to be stored before anybody is let in");
    if (!server->open)
        tcp_server_ask(server, open_doors, NULL);
    return TARRY_OK;
}

/* ---- rounds ---- */

typedef struct round_request {
    const float *parameters;
    float *sum;
} round_request;

static void begin_round(tarry_tcp_server *server, void *argument)
{
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
    round_request wanted = {.parameters = parameters, .sum = sum};
    tcp_server_ask(server, begin_round, &wanted);
    wait_until_over(server);
    int error = host_finish(server->host, result, diagnostic);
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

/* Waits until a worker has come since there were so many joins, even if it was there before, or,
 * where all are there, for a while. Errors: INTERRUPTED, STATE (it is `until`). */
static int wait_for_more(tarry_tcp_server *server, uint64_t joins, uint64_t pause_ns,
                         uint64_t until)
{
    uint64_t retry = clock_from_now(pause_ns);
    int error = TARRY_OK;
    bool paused = false;
    pthread_mutex_lock(&server->lock);
    atomic_store(&server->waiting, true);
    while (error == TARRY_OK && server->joins == joins && !paused) {
        bool all = server->present == server->host->plan->workers;
        uint64_t limit = all && retry < until ? retry : until;
        if (take_interrupt(server))
            error = TARRY_ERROR_INTERRUPTED;
        else if (wait_for_change(server, limit) && limit == until)
            error = TARRY_ERROR_STATE;
        else
            paused = all && clock_now_ns() >= retry;
    }
    atomic_store(&server->waiting, false);
    pthread_mutex_unlock(&server->lock);
    return error;
}

static void tell_waiting(tarry_tcp_server *server)
{
    const tarry_tcp_server_settings *settings = &server->settings;
    const host_round *round = &server->host->round;
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
                                                  });
}

int tarry_tcp_server_round(tarry_tcp_server *server, const float *parameters, float *sum,
                           tarry_round_result *result, tarry_diagnostic *diagnostic)
{
    uint64_t patience = server->settings.patience_ns, until = 0, pause = SHORTEST_PAUSE_NS;
    int error = let_in(server, diagnostic);
    if (error != TARRY_OK)
        return error;
    for (;;) {
        uint64_t joins = count_joins(server);
        error = run_round(server, parameters, sum, result, diagnostic);
        if (error != TARRY_ERROR_COVERAGE || patience == 0)
            return error;
        if (until == 0) {
            until = clock_from_now(patience);
            tell_waiting(server);
        }
        error = wait_for_more(server, joins, pause, until);
        if (error == TARRY_ERROR_STATE) /* nobody came: it ends as the round did */
            return TARRY_ERROR_COVERAGE;
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
    atomic_store(&server->waiting, server->present < workers);
    while (error == TARRY_OK && server->present < workers) {
        if (take_interrupt(server))
            error = TARRY_ERROR_INTERRUPTED;
        else if (wait_for_change(server, limit_ns) && server->present < workers)
            error = TARRY_ERROR_STATE;
    }
    atomic_store(&server->waiting, false);
    pthread_mutex_unlock(&server->lock);
    return error;
}

int tarry_tcp_server_wait(tarry_tcp_server *server, uint32_t workers, uint64_t wait_ns,
                          tarry_diagnostic *diagnostic)
{
    int error = let_in(server, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = wait_for(server, workers, clock_from_now(wait_ns));
    if (error == TARRY_ERROR_INTERRUPTED)
        return diagnose(diagnostic, error, "interrupted while waiting for %u workers", workers);
    if (error == TARRY_ERROR_STATE)
        return diagnose(diagnostic, error, "waited %.3g s for %u workers, and not all of them came",
                        (double)wait_ns / 1e9, workers);
    return error;
}

typedef struct costs_request {
    const double *costs;
    int error;
} costs_request;

static void set_costs(tarry_tcp_server *server, void *argument)
{
    costs_request *wanted = argument;
    wanted->error = tarry_server_costs(server->host->machine, wanted->costs);
}

int tarry_tcp_server_costs(tarry_tcp_server *server, const double *costs)
{
    costs_request wanted = {.costs = costs};
    tcp_server_ask(server, set_costs, &wanted);
    return wanted.error;
}

int tarry_tcp_server_replan(tarry_tcp_server *server, const tarry_plan *next,
                            tarry_diagnostic *diagnostic)
{
    tcp_replan wanted = {.next = next, .diagnostic = diagnostic};
    tcp_server_ask(server, tcp_server_turn_to, &wanted);
    return wanted.error;
}

typedef struct visit_request {
    int (*look)(void *user, const tarry_server *machine);
    void *user;
    int result;
} visit_request;

static void visit(tarry_tcp_server *server, void *argument)
{
    visit_request *wanted = argument;
    wanted->result = wanted->look(wanted->user, server->host->machine);
}

int tarry_tcp_server_visit(tarry_tcp_server *server,
                           int (*look)(void *user, const tarry_server *machine), void *user)
{
    visit_request wanted = {.look = look, .user = user};
    tcp_server_ask(server, visit, &wanted);
    return wanted.result;
}

typedef struct checkpoint_request {
    uint8_t *bytes;
    int error;
} checkpoint_request;

static void take_checkpoint(tarry_tcp_server *server, void *argument)
{
    checkpoint_request *wanted = argument;
    wanted->error = tarry_server_checkpoint(server->host->machine, wanted->bytes);
}

int tarry_tcp_server_checkpoint(tarry_tcp_server *server, uint8_t *bytes)
{
    checkpoint_request wanted = {.bytes = bytes};
    tcp_server_ask(server, take_checkpoint, &wanted);
    return wanted.error;
}

static void note_stored(tarry_tcp_server *server, void *argument)
{
    const uint8_t *const *bytes = argument;
    tarry_server_stored(server->host->machine, *bytes);
    server->awaits_checkpoint = false;
}

void tarry_tcp_server_stored(tarry_tcp_server *server, const uint8_t *bytes)
{
    tcp_server_ask(server, note_stored, &bytes);
}

void tarry_tcp_server_interrupt(tarry_tcp_server *server)
{
    atomic_store(&server->interrupted, true);
    pthread_mutex_lock(&server->lock);
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
    tcp_server_changed(server);
}

typedef struct note_request {
    uint64_t done, rounds;
    const char *note;
} note_request;

static void set_note(tarry_tcp_server *server, void *argument)
{
    const note_request *wanted = argument;
    size_t length = strnlen(wanted->note, WIRE_STATUS_NOTE_BYTES);
    memcpy(server->note, wanted->note, length);
    server->note[length] = '\0';
    server->noted_rounds = wanted->rounds;
    server->noted_done = wanted->done;
    server->noted_at = server->rounds;
}

void tarry_tcp_server_note(tarry_tcp_server *server, uint64_t done, uint64_t rounds,
                           const char *note)
{
    note_request wanted = {.done = done, .rounds = rounds, .note = note};
    tcp_server_ask(server, set_note, &wanted);
}

typedef struct worker_request {
    uint32_t worker;
    tarry_tcp_worker_state state;
} worker_request;

static void look_at_worker(tarry_tcp_server *server, void *argument)
{
    worker_request *wanted = argument;
    const tcp_member *member = &server->members[wanted->worker];
    const peer *who = tcp_server_peer(server, wanted->worker);
    wanted->state = (tarry_tcp_worker_state){
        .chunks = server->host->members[wanted->worker].chunks,
        .pace = tarry_server_pace_ns(server->host->machine, wanted->worker) / 1e9,
        .present = server->host->members[wanted->worker].joined,
        .near = who != NULL && who->near_opened,
        .arrivals = member->arrivals,
        .silent = member->silent,
        .gone = member->gone,
        .late = member->late,
        .failed = member->failed,
        .received = member->received + (who != NULL ? peer_received(who) : 0),
        .sent = member->sent + (who != NULL ? peer_sent(who) : 0),
        .numerics = member->numerics,
    };
    memcpy(wanted->state.rack, member->rack, sizeof(member->rack));
}

tarry_tcp_worker_state tarry_tcp_server_worker(tarry_tcp_server *server, uint32_t worker)
{
    assert(worker < server->host->plan->workers);
    worker_request wanted = {.worker = worker};
    tcp_server_ask(server, look_at_worker, &wanted);
    return wanted.state;
}
