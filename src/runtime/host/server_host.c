/* SPDX-License-Identifier: Apache-2.0 */
/* A runtime over a transport that somebody else wrote. */
#include "runtime/host/server_host.h"

#include <assert.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sized.h"
#include "plan/plan.h"
#include "runtime/clock.h"

static server_host *own_of(tarry_runtime *runtime)
{
    return (server_host *)runtime;
}

void tarry_host_settings_init_sized(tarry_host_settings *settings, size_t size)
{
    if (sized_begin(settings, size, sizeof(*settings)))
        tarry_server_settings_init(&settings->server);
}

/* ---- what goes out ---- */

/* A worker that can't be reached is lost after the step in which this is found out. */
static int send_message(void *user, uint32_t worker, const tarry_message *message, uint8_t *frame,
                        size_t size)
{
    server_host *own = user;
    bool round = message->type == TARRY_MESSAGE_ROUND && own->sent != NULL;
    if (!own->base.host->members[worker].joined || own->broken[worker])
        return TARRY_OK;
    if (own->transport.send(own->transport.user, worker, frame, size, round ? own->sent : NULL,
                            round ? own->parameters : 0) != 0)
        own->broken[worker] = own->any_broken = true;
    return TARRY_OK;
}

/* To lose one may find out that another one is lost. */
static void lose_broken(server_host *own)
{
    while (own->any_broken) {
        own->any_broken = false;
        for (uint32_t worker = 0; worker < own->base.host->plan->workers; worker++)
            if (own->broken[worker])
                host_lose(own->base.host, worker);
    }
}

/* By the exchange. */
static void pass(void *user, uint32_t worker, const void *bytes, size_t size)
{
    const server_host *own = user;
    own->transport.pass(own->transport.user, worker, bytes, size);
}

static void leave_out(void *user, const tarry_effect *effect)
{
    const server_host *own = user;
    if (own->others != NULL && effect->reason == TARRY_ABSENT_SILENT)
        exchange_lose(own->others, effect->worker, "is silent");
    if (own->transport.left_out != NULL)
        own->transport.left_out(own->transport.user, effect->worker, effect->reason);
}

/* ---- what comes in ---- */

void tarry_host_join(tarry_runtime *runtime, uint32_t worker)
{
    server_host *own = own_of(runtime);
    assert(worker < runtime->host->plan->workers);
    own->broken[worker] = false;
    host_join(runtime->host, worker);
}

void tarry_host_lose(tarry_runtime *runtime, uint32_t worker)
{
    assert(worker < runtime->host->plan->workers);
    server_host *own = own_of(runtime);
    own->broken[worker] = true;
    if (own->others != NULL)
        exchange_lose(own->others, worker, "is gone");
    host_lose(runtime->host, worker);
}

void tarry_host_heard(tarry_runtime *runtime, uint32_t worker)
{
    assert(worker < runtime->host->plan->workers);
    if (runtime->host->members[worker].joined)
        host_step(runtime->host, &(tarry_event){.type = TARRY_EVENT_HEARD, .worker = worker});
}

int tarry_host_passed(tarry_runtime *runtime, uint32_t worker, const void *bytes, size_t size)
{
    const server_host *own = own_of(runtime);
    return own->others != NULL ? exchange_take(own->others, worker, bytes, size)
                               : TARRY_ERROR_STATE;
}

int tarry_host_deliver(tarry_runtime *runtime, uint32_t worker, const void *frame, size_t size,
                       const float *numbers, size_t count)
{
    assert(worker < runtime->host->plan->workers);
    return host_receive_frame(runtime->host, worker, frame, size, numbers, count);
}

/* Takes what comes until until_ns, and acts on it. */
static void run_once(server_host *own, uint64_t until_ns)
{
    host *core = own->base.host;
    uint64_t due = host_deadline(core);
    own->transport.receive(own->transport.user, &own->base, due < until_ns ? due : until_ns);
    if (due != TARRY_NEVER && clock_now_ns() >= due)
        host_step(core, &(tarry_event){.type = TARRY_EVENT_TIME});
    lose_broken(own);
    host_turn(core);
}

/* ---- the runtime's methods ---- */

int server_host_round(tarry_runtime *runtime, const float *parameters, float *sum,
                      tarry_round_result *result, tarry_diagnostic *diagnostic)
{
    server_host *own = own_of(runtime);
    host *core = runtime->host;
    own->sent = parameters;
    host_begin(core, sum);
    lose_broken(own);
    host_turn(core);
    while (core->round.running) {
        if (runtime_take_interrupt(runtime))
            host_fail(core, TARRY_ERROR_INTERRUPTED);
        run_once(own, core->failure != TARRY_OK ? 0 : TARRY_NEVER);
    }
    own->sent = NULL;
    return host_finish(core, result, diagnostic);
}

/* Who has not stepped on the last sum yet is not there. */
static uint32_t count_there(const host *core)
{
    return core->settings.server.sum == TARRY_SUM_EVERYWHERE
               ? tarry_server_count_ready(core->machine)
               : core->present;
}

int server_host_wait(tarry_runtime *runtime, uint32_t workers, uint64_t until_ns)
{
    while (count_there(runtime->host) < workers) {
        if (runtime_take_interrupt(runtime))
            return TARRY_ERROR_INTERRUPTED;
        if (clock_now_ns() >= until_ns)
            return TARRY_ERROR_STATE;
        run_once(own_of(runtime), until_ns);
    }
    return TARRY_OK;
}

static int replan(tarry_runtime *runtime, const tarry_plan *next, tarry_diagnostic *diagnostic)
{
    const tarry_transport *to = &own_of(runtime)->transport;
    if (to->replan == NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "this transport's plans stay");
    int error = host_replan(runtime->host, next, diagnostic);
    if (error == TARRY_OK && to->replan(to->user, next) != 0)
        error = diagnose(diagnostic, TARRY_ERROR_SYSTEM, "the workers don't go on with the plan");
    return error;
}

/* As the transport's one thread. */
static void await(tarry_runtime *runtime, uint64_t until_ns, exchange_progress *progress)
{
    server_host *own = own_of(runtime);
    const exchange_methods *methods = own->others->methods;
    methods->wait(own->others, 0, progress);
    while (progress->state == EXCHANGE_RUNNING) {
        run_once(own, until_ns);
        methods->wait(own->others, 0, progress);
        if (clock_now_ns() >= until_ns)
            return;
    }
}

void server_host_listen(tarry_runtime *runtime, uint64_t until_ns)
{
    run_once(own_of(runtime), until_ns);
}

exchange *server_host_reach(tarry_runtime *runtime, uint32_t worker)
{
    const server_host *own = own_of(runtime);
    bool there =
        own->others != NULL && own->base.host->members[worker].joined && !own->broken[worker];
    return there ? own->others : NULL;
}

void server_host_wake(tarry_runtime *runtime)
{
    const server_host *own = own_of(runtime);
    own->transport.wake(own->transport.user);
}

void server_host_end(server_host *self)
{
    host_free(self->base.host);
    exchange_free(self->others);
    memory_release(&self->allocator, self->broken);
}

static void release(tarry_runtime *runtime, bool finished)
{
    server_host *own = own_of(runtime);
    tarry_allocator allocator = own->allocator;
    if (runtime->host != NULL && own->transport.end != NULL)
        own->transport.end(own->transport.user, finished);
    server_host_end(own);
    memory_release(&allocator, own);
}

static const runtime_methods methods = {
    .wait = server_host_wait,
    .round = server_host_round,
    .replan = replan,
    .reach = server_host_reach,
    .await = await,
    .listen = server_host_listen,
    .wake = server_host_wake,
    .free = release,
};

/* ---- creation ---- */

static int check_settings(const tarry_host_settings *settings, tarry_diagnostic *diagnostic)
{
    const tarry_transport *to = &settings->transport;
    int error = sized_check(settings->size, sizeof(*settings), "server host", diagnostic);
    if (error != TARRY_OK)
        return error;
    if (settings->parameters == 0 || settings->dimension == 0 || to->send == NULL ||
        to->receive == NULL || to->wake == NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "server host: parameters, dimension and a transport must be set");
    if (settings->server.sum == TARRY_SUM_EVERYWHERE)
        return TARRY_OK; /* numbers pass among workers, by their engine */
    const char *rounding = settings->server.compress != TARRY_COMPRESS_NONE        ? "compress"
                           : settings->server.compress_down != TARRY_COMPRESS_NONE ? "compress-down"
                                                                                   : NULL;
    return rounding == NULL
               ? TARRY_OK
               : diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                          "server host: a transport of one's own carries float32 alone: %s has to "
                          "be none",
                          rounding);
}

int server_host_init(server_host *self, const tarry_plan *plan, const host_settings *wanted,
                     const tarry_transport *transport, bool unchecked,
                     const tarry_allocator *allocator, tarry_diagnostic *diagnostic)
{
    host_settings settings = *wanted;
    const exchange_settings passing = {.piece_bytes = EXCHANGE_PASSED_BYTES,
                                       .now_ns = clock_now_ns,
                                       .parties = plan->workers,
                                       .pass = pass,
                                       .user = self,
                                       .unchecked = unchecked};
    self->allocator = memory_allocator(allocator);
    self->transport = *transport;
    self->parameters = wanted->parameters;
    self->broken = memory_allocate(allocator, plan->workers, sizeof(bool));
    int error = self->broken == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
    if (error == TARRY_OK && wanted->server.sum == TARRY_SUM_EVERYWHERE && transport->pass != NULL)
        error = exchange_create(&passing, allocator, &self->others);
    if (error != TARRY_OK)
        return diagnose(diagnostic, error, "%s: %s", wanted->name, tarry_error_text(error));
    settings.transport.user = self;
    settings.transport.send = send_message;
    settings.transport.left_out = leave_out;
    return host_create(plan, &settings, allocator, &self->base.host, diagnostic);
}

int tarry_host_create(const tarry_plan *plan, const tarry_host_settings *settings,
                      const tarry_allocator *allocator, tarry_runtime **runtime,
                      tarry_diagnostic *diagnostic)
{
    int error = check_settings(settings, diagnostic);
    if (error != TARRY_OK)
        return error;
    server_host *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "server host");
    made->base.methods = &methods;
    made->base.awaits_checkpoint = settings->checkpoint != NULL;
    host_settings wanted = {
        .name = "server host",
        .server = settings->server,
        .checkpoint = settings->checkpoint,
        .checkpoint_size = settings->checkpoint_size,
        .log = settings->log,
        .parameters = settings->parameters,
    };
    wanted.server.dimension = settings->dimension;
    error =
        server_host_init(made, plan, &wanted, &settings->transport, false, allocator, diagnostic);
    if (error != TARRY_OK) {
        release(&made->base, true);
        return error;
    }
    *runtime = &made->base;
    return TARRY_OK;
}
