/* SPDX-License-Identifier: Apache-2.0 */
#include <tarry/local.h>

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/bitset.h"
#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sized.h"
#include "plan/plan.h"
#include "runtime/clock.h"
#include "runtime/coverage_text.h"
#include "runtime/local/local_worker.h"
#include "runtime/sum/decoder.h"
#include "straggler/straggler.h"

enum { DEFAULT_STRIPE = 65536 };

struct tarry_local {
    tarry_allocator allocator;
    const tarry_plan *plan;
    tarry_local_settings settings;
    local_shared shared;
    bool has_snapshots, has_inbox; /* of shared: made */
    tarry_server *server;
    local_worker *workers;
    float **parts; /* z of each worker */
    decoder sums;
    uint64_t *returned; /* a bit per worker: gave up, or was heard of after it was given up */
    uint64_t *chunks;   /* per worker: finished, over all rounds */
    _Atomic bool interrupted;

    /* the round in progress */
    uint8_t *frame;   /* an outgoing one */
    uint64_t round;   /* its number, or the next one's */
    uint32_t attempt; /* that the waiting parts belong to */
    bool done;
    tarry_round_result result;
};

void tarry_local_settings_init_sized(tarry_local_settings *settings, size_t size)
{
    if (!sized_begin(settings, size, sizeof(*settings)))
        return;
    tarry_server_settings_init(&settings->server);
}

/* Room for any frame to a worker of the plan. */
static uint8_t *allocate_frame(const tarry_local *local, const tarry_plan *plan)
{
    size_t frame = 0;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        codec_shape shape = codec_shape_of(plan, worker, local->shared.engine.cut.stripes);
        size_t size = codec_max_size(&shape);
        frame = size > frame ? size : frame;
    }
    return memory_allocate(&local->allocator, frame, 1);
}

static int allocate(tarry_local *local)
{
    const tarry_plan *plan = local->plan;
    const tarry_allocator *allocator = &local->allocator;
    size_t workers = plan->workers;
    local->frame = allocate_frame(local, plan);
    local->workers = memory_allocate(allocator, workers, sizeof(*local->workers));
    local->parts = memory_allocate(allocator, workers, sizeof(*local->parts));
    local->returned = memory_allocate(allocator, bitset_words(workers), sizeof(uint64_t));
    local->chunks = memory_allocate(allocator, workers, sizeof(uint64_t));
    if (local->frame == NULL || local->workers == NULL || local->parts == NULL ||
        local->returned == NULL || local->chunks == NULL)
        return TARRY_ERROR_NO_MEMORY;
    return TARRY_OK;
}

/* What the workers share. The inbox has room for all
 * that a round usually brings; senders wait beyond that. */
static int init_shared(tarry_local *local)
{
    const tarry_plan *plan = local->plan;
    local_shared *shared = &local->shared;
    int error = snapshots_init(&shared->snapshots, local->settings.parameters, plan->workers,
                               &local->allocator);
    if (error != TARRY_OK)
        return error;
    local->has_snapshots = true;
    size_t frames =
        (size_t)plan->workers * (8 + 2 * (size_t)shared->engine.cut.stripes) + plan_edges(plan);
    error = mailbox_init(&shared->server_inbox, CODEC_MOST_WORKER_BYTES, frames, &local->allocator);
    if (error != TARRY_OK)
        return error;
    local->has_inbox = true;
    return TARRY_OK;
}

static desk_settings wanted_desk(const tarry_local *local)
{
    const tarry_server_settings *server = &local->settings.server;
    return (desk_settings){
        .cut = local->shared.engine.cut,
        .keep = server->keep,
        .ahead = server->ahead,
        .keeps_stale = server->fill == TARRY_FILL_STALE,
        .conditioning_limit = server->conditioning_limit,
    };
}

static int init_workers(tarry_local *local)
{
    const desk_settings wanted = wanted_desk(local);
    int error = TARRY_OK;
    for (uint32_t worker = 0; worker < local->plan->workers && error == TARRY_OK; worker++) {
        error = local_worker_init(&local->workers[worker], &local->shared, local->plan, worker,
                                  &wanted, &local->allocator);
        if (error == TARRY_OK)
            local->parts[worker] = local->workers[worker].engine.desk->part;
    }
    return error;
}

/* Those that never answer have no threads: what is sent to them is lost. */
static int start_workers(tarry_local *local)
{
    for (uint32_t worker = 0; worker < local->plan->workers; worker++) {
        const tarry_effects *effects;
        tarry_event event = {.type = TARRY_EVENT_JOINED, .worker = worker};
        int error = tarry_server_step(local->server, clock_now_ns(), &event, &effects);
        if (error == TARRY_OK && !tarry_straggler_dead(local->settings.straggler, worker))
            error = engine_start(&local->workers[worker].engine);
        if (error != TARRY_OK)
            return error;
    }
    return TARRY_OK;
}

/*
 * A restored server wants a checkpoint of itself to be kept before it goes on, since messages of
 * its life so far may still be on their way. Here none outlived the workers' threads: it is
 * dropped.
 */
static int restore(tarry_local *local, tarry_diagnostic *diagnostic)
{
    tarry_local_settings *settings = &local->settings;
    int error = tarry_server_restore(local->server, settings->checkpoint, settings->checkpoint_size,
                                     diagnostic);
    settings->checkpoint = NULL; /* the caller's */
    if (error != TARRY_OK)
        return error;
    uint8_t *bytes =
        memory_allocate(&local->allocator, tarry_server_checkpoint_size(local->server), 1);
    error = bytes == NULL ? TARRY_ERROR_NO_MEMORY : tarry_server_checkpoint(local->server, bytes);
    if (error == TARRY_OK)
        tarry_server_stored(local->server, bytes);
    memory_release(&local->allocator, bytes);
    local->round = tarry_server_round(local->server);
    return error;
}

static int create(tarry_local *local, tarry_diagnostic *diagnostic)
{
    int error = allocate(local);
    if (error == TARRY_OK)
        error = init_shared(local);
    if (error == TARRY_OK)
        error = tarry_server_create(local->plan, &local->settings.server, &local->allocator,
                                    &local->server, diagnostic);
    if (error == TARRY_OK && local->settings.checkpoint != NULL)
        error = restore(local, diagnostic);
    if (error == TARRY_ERROR_ARGUMENT || error == TARRY_ERROR_FORMAT)
        return error;
    if (error == TARRY_OK)
        error = init_workers(local);
    if (error == TARRY_OK)
        error = decoder_init(&local->sums, local->plan, &local->shared.engine.cut,
                             local->shared.engine.kernels, local->parts, &local->allocator);
    if (error == TARRY_OK)
        error = start_workers(local);
    if (error != TARRY_OK)
        diagnose(diagnostic, error, "local runtime with %u workers: %s", local->plan->workers,
                 tarry_error_text(error));
    return error;
}

int tarry_local_create(const tarry_plan *plan, const tarry_local_settings *settings,
                       const tarry_allocator *allocator, tarry_local **local,
                       tarry_diagnostic *diagnostic)
{
    int error = sized_check(settings->size, sizeof(*settings), "local runtime", diagnostic);
    if (error != TARRY_OK)
        return error;
    if (settings->parameters == 0 || settings->dimension == 0)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "local runtime: parameters and dimension must be set");
    const char *mortal = straggler_mortal_term(settings->straggler);
    if (mortal != NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "straggler term '%s' is for tarry simulate", mortal);
    tarry_local *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "local runtime");
    made->allocator = memory_allocator(allocator);
    made->plan = plan;
    made->settings = *settings;
    size_t stripe = settings->server.stripe_length;
    layout cut = layout_make(settings->dimension, plan_least_parts(plan),
                             stripe > 0 ? stripe : DEFAULT_STRIPE);
    made->settings.server.dimension = cut.dimension;
    made->settings.server.stripe_length = cut.stripe_length;
    made->shared.engine.pieces = plan->pieces;
    made->shared.engine.straggler = settings->straggler;
    made->shared.engine.compute = settings->compute;
    made->shared.engine.user = settings->user;
    made->shared.engine.cut = cut;
    made->shared.engine.kernels = kernel_best();
    made->shared.engine.snapshots = &made->shared.snapshots;
    error = create(made, diagnostic);
    if (error != TARRY_OK) {
        tarry_local_free(made);
        return error;
    }
    *local = made;
    return TARRY_OK;
}

void tarry_local_free(tarry_local *local)
{
    if (local == NULL)
        return;
    tarry_allocator allocator = local->allocator;
    uint32_t workers = local->workers != NULL ? local->plan->workers : 0;
    for (uint32_t worker = 0; worker < workers; worker++)
        engine_close(&local->workers[worker].engine);
    if (local->has_inbox)
        mailbox_close(&local->shared.server_inbox);
    for (uint32_t worker = 0; worker < workers; worker++)
        engine_destroy(&local->workers[worker].engine, &allocator);
    decoder_destroy(&local->sums, &allocator);
    tarry_server_free(local->server);
    if (local->has_inbox)
        mailbox_destroy(&local->shared.server_inbox);
    if (local->has_snapshots)
        snapshots_destroy(&local->shared.snapshots);
    memory_release(&allocator, local->chunks);
    memory_release(&allocator, local->returned);
    memory_release(&allocator, local->parts);
    memory_release(&allocator, local->workers);
    memory_release(&allocator, local->frame);
    memory_release(&allocator, local);
}

static int send_message(tarry_local *local, uint32_t id, const tarry_message *message)
{
    engine *worker = &local->workers[id].engine;
    if (!worker->talking)
        return TARRY_OK;
    const codec_shape *shape = &worker->desk->shape;
    size_t size = codec_size(shape, message);
    codec_encode(shape, message, local->frame);
    return engine_deliver(worker, local->frame, size);
}

/* All effects, also after one that failed:
 * the round's end must not be missed. Gives back the last error. */
static int carry_out(tarry_local *local, const tarry_effects *effects)
{
    int error = TARRY_OK;
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        switch (effect->type) {
        case TARRY_EFFECT_SEND:
            if (effect->message.type == TARRY_MESSAGE_RESUME)
                decoder_forget(&local->sums);
            if (send_message(local, effect->worker, &effect->message) != TARRY_OK)
                error = TARRY_ERROR_NO_MEMORY;
            break;
        case TARRY_EFFECT_CLEAR:
            decoder_clear(&local->sums, effect->parts, effect->stripe);
            break;
        case TARRY_EFFECT_COMBINE:
            local->attempt = effect->attempt;
            decoder_add(&local->sums, effect->worker, effect->stripe, effect->scale);
            break;
        case TARRY_EFFECT_DONE:
            local->done = true;
            local->result = *effect->result;
            break;
        case TARRY_EFFECT_REJECT:
            /* Threads don't come back from the dead: this one had only been slow to answer. */
            if (effect->reject == TARRY_REJECT_UNKNOWN)
                bitset_set(local->returned, effect->worker);
            break;
        case TARRY_EFFECT_COMPUTE:
        case TARRY_EFFECT_CANCEL:
        case TARRY_EFFECT_ENCODE:
        case TARRY_EFFECT_FOLD:
        case TARRY_EFFECT_DROP:
        case TARRY_EFFECT_LEFT_OUT:
            break;
        }
    }
    return error;
}

static int step(tarry_local *local, const tarry_event *event)
{
    const tarry_effects *effects;
    int error = tarry_server_step(local->server, clock_now_ns(), event, &effects);
    return error == TARRY_OK ? carry_out(local, effects) : error;
}

static int take_frame(tarry_local *local, const mailbox_frame *frame)
{
    if (frame->size == 0) { /* its machine could not take a step; in another round it may */
        bitset_set(local->returned, frame->sender);
        return step(local, &(tarry_event){.type = TARRY_EVENT_LOST, .worker = frame->sender});
    }
    const codec_shape no_sets = {0}; /* what workers send has none */
    tarry_message message;
    int error = codec_decode(&no_sets, frame->bytes, frame->size, NULL, &message);
    assert(error == TARRY_OK);
    if (message.type == TARRY_MESSAGE_REPORT && !message.failed)
        local->chunks[frame->sender]++;
    return step(local, &(tarry_event){
                           .type = TARRY_EVENT_MESSAGE,
                           .worker = frame->sender,
                           .message = &message,
                       });
}

static int take_frames(tarry_local *local, size_t count)
{
    int error = TARRY_OK;
    for (size_t i = 0; i < count && error == TARRY_OK; i++) {
        mailbox_frame frame = mailbox_frame_at(&local->shared.server_inbox, i);
        error = take_frame(local, &frame);
    }
    return error;
}

/* Sums the parts that came in, stripe by stripe, and tells the server. */
static int combine(tarry_local *local)
{
    uint32_t attempt = local->attempt;
    for (uint32_t stripe = 0; stripe < local->sums.cut.stripes; stripe++) {
        uint32_t count = decoder_flush(&local->sums, stripe);
        const uint32_t *senders = decoder_senders(&local->sums, stripe);
        for (uint32_t i = 0; i < count; i++) {
            int error = step(local, &(tarry_event){
                                        .type = TARRY_EVENT_COMBINED,
                                        .worker = senders[i],
                                        .round = local->round,
                                        .attempt = attempt,
                                        .stripe = stripe,
                                    });
            if (error != TARRY_OK)
                return error;
        }
    }
    return TARRY_OK;
}

/* Waits for messages until the server wants to look at the clock, and lets it act on what came. */
static int run_once(tarry_local *local)
{
    if (atomic_load(&local->interrupted))
        return step(local, &(tarry_event){.type = TARRY_EVENT_ABORT});
    mailbox *inbox = &local->shared.server_inbox;
    size_t count = mailbox_take(inbox, tarry_server_deadline(local->server));
    int error = take_frames(local, count);
    if (error == TARRY_OK)
        error = combine(local);
    if (error == TARRY_OK && count == 0 && !local->done)
        error = step(local, &(tarry_event){.type = TARRY_EVENT_TIME});
    return error;
}

static int begin(tarry_local *local, const float *parameters)
{
    local->done = false;
    /* Parts that a round which failed left behind. */
    for (uint32_t stripe = 0; stripe < local->shared.engine.cut.stripes; stripe++)
        decoder_clear(&local->sums, local->shared.engine.cut.parts, stripe);
    for (uint32_t worker = 0; worker < local->plan->workers; worker++) {
        if (!bitset_test(local->returned, worker))
            continue;
        bitset_reset(local->returned, worker);
        int error = step(local, &(tarry_event){.type = TARRY_EVENT_JOINED, .worker = worker});
        if (error != TARRY_OK)
            return error;
    }
    int error = snapshots_publish(&local->shared.snapshots, local->round, parameters);
    if (error != TARRY_OK)
        return error;
    return step(local, &(tarry_event){.type = TARRY_EVENT_START});
}

int tarry_local_round(tarry_local *local, const float *parameters, float *sum,
                      tarry_round_result *result, tarry_diagnostic *diagnostic)
{
    local->sums.estimate = sum;
    int error = begin(local, parameters);
    while (error == TARRY_OK && !local->done)
        error = run_once(local);
    if (error != TARRY_OK) {
        diagnose(diagnostic, error, "round %llu: %s", (unsigned long long)local->round,
                 tarry_error_text(error));
        /* If it did begin, it ends here; otherwise its number is the next one's. */
        if (!local->done)
            step(local, &(tarry_event){.type = TARRY_EVENT_ABORT});
        if (local->done)
            local->round++;
        return error;
    }
    local->round++;
    if (local->result.error == TARRY_ERROR_INTERRUPTED) {
        atomic_store(&local->interrupted, false);
        return diagnose(diagnostic, TARRY_ERROR_INTERRUPTED, "round %llu: interrupted",
                        (unsigned long long)local->result.round);
    }
    *result = local->result;
    if (local->result.error == TARRY_ERROR_COVERAGE)
        return coverage_describe(local->server, local->plan, &local->settings.server,
                                 &local->result, diagnostic);
    decoder_finish(&local->sums);
    return TARRY_OK;
}

int tarry_local_costs(tarry_local *local, const double *costs)
{
    return tarry_server_costs(local->server, costs);
}

/* ---- another plan ---- */

/* What takes the place of what the runtime has. */
typedef struct replacement {
    tarry_server *server;
    desk **desks; /* per worker; NULL once it is the worker's */
    uint8_t *frame;
} replacement;

static int check_plan(const tarry_local *local, const tarry_plan *next,
                      tarry_diagnostic *diagnostic)
{
    const tarry_plan *plan = local->plan;
    const char *fault = NULL;
    if (next->workers != plan->workers)
        fault = "the next plan is of another number of workers";
    else if (next->origins != plan->origins || next->pieces != plan->pieces)
        fault = "the next plan is of other data";
    else if (next->parts != plan->parts || next->adaptive != plan->adaptive)
        fault = "the next plan is of another number of parts";
    return fault == NULL ? TARRY_OK
                         : diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "local runtime: %s", fault);
}

static int make_replacement(const tarry_local *local, const tarry_plan *next, replacement *made,
                            tarry_diagnostic *diagnostic)
{
    const tarry_allocator *allocator = &local->allocator;
    const desk_settings wanted = wanted_desk(local);
    int error =
        tarry_server_create(next, &local->settings.server, allocator, &made->server, diagnostic);
    if (error == TARRY_OK)
        error = tarry_server_adopt(made->server, local->server, diagnostic);
    if (error != TARRY_OK)
        return error;
    made->frame = allocate_frame(local, next);
    made->desks = memory_allocate(allocator, next->workers, sizeof(desk *));
    error = made->frame == NULL || made->desks == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
    for (uint32_t worker = 0; worker < next->workers && error == TARRY_OK; worker++)
        error = desk_create(next, worker, &wanted, allocator, &made->desks[worker]);
    return error == TARRY_OK ? TARRY_OK : diagnose_no_memory(diagnostic, "local runtime");
}

static void discard(const tarry_local *local, replacement *made)
{
    const tarry_allocator *allocator = &local->allocator;
    for (uint32_t worker = 0; made->desks != NULL && worker < local->plan->workers; worker++)
        desk_free(made->desks[worker], allocator);
    memory_release(allocator, made->desks);
    memory_release(allocator, made->frame);
    tarry_server_free(made->server);
}

static bool have_turned(tarry_local *local)
{
    for (uint32_t worker = 0; worker < local->plan->workers; worker++)
        if (!engine_has_turned(&local->workers[worker].engine))
            return false;
    return true;
}

/*
 * Only the talking threads take part, and none of them waits for anything but room in the server's
 * inbox. What is in there was said of the plan before: it tells the next server no more than who
 * gives up.
 */
static void turn_workers(tarry_local *local, replacement *made)
{
    for (uint32_t worker = 0; worker < local->plan->workers; worker++) {
        engine_turn(&local->workers[worker].engine, made->desks[worker]);
        made->desks[worker] = NULL;
    }
    while (!have_turned(local))
        take_frames(local, mailbox_take(&local->shared.server_inbox, TARRY_NEVER));
    for (uint32_t worker = 0; worker < local->plan->workers; worker++) {
        engine_tidy(&local->workers[worker].engine, &local->allocator);
        local->parts[worker] = local->workers[worker].engine.desk->part;
    }
}

int tarry_local_replan(tarry_local *local, const tarry_plan *next, tarry_diagnostic *diagnostic)
{
    replacement made = {0};
    int error = check_plan(local, next, diagnostic);
    if (error == TARRY_OK)
        error = make_replacement(local, next, &made, diagnostic);
    if (error == TARRY_OK) {
        tarry_server *server = local->server;
        uint8_t *frame = local->frame;
        local->plan = local->sums.plan = next;
        local->server = made.server;
        local->frame = made.frame;
        made.server = server;
        made.frame = frame;
        turn_workers(local, &made);
    }
    discard(local, &made);
    return error;
}

const tarry_server *tarry_local_server(const tarry_local *local)
{
    return local->server;
}

int tarry_local_checkpoint(tarry_local *local, uint8_t *bytes)
{
    return tarry_server_checkpoint(local->server, bytes);
}

int tarry_local_take(tarry_local *local, uint32_t worker, uint64_t wait_ns, const tarry_task **task)
{
    assert(worker < local->plan->workers && local->settings.compute == NULL);
    uint64_t now = clock_now_ns();
    return engine_take(&local->workers[worker].engine,
                       wait_ns < TARRY_NEVER - now ? now + wait_ns : TARRY_NEVER, task);
}

void tarry_local_dismiss(tarry_local *local)
{
    for (uint32_t worker = 0; worker < local->plan->workers; worker++)
        engine_close(&local->workers[worker].engine);
}

void tarry_local_interrupt(tarry_local *local)
{
    atomic_store(&local->interrupted, true);
    mailbox_wake(&local->shared.server_inbox);
}

tarry_local_worker tarry_local_worker_state(const tarry_local *local, uint32_t worker)
{
    assert(worker < local->plan->workers);
    return (tarry_local_worker){
        .chunks = local->chunks[worker],
        .seconds = (double)atomic_load(&local->workers[worker].engine.busy_ns) / 1e9,
        .present = tarry_server_present(local->server, worker),
        .pace = tarry_server_pace_ns(local->server, worker) / 1e9,
    };
}
