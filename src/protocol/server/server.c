/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/server/server_state.h"

#include <assert.h>
#include <math.h>

#include <tarry/settings.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sized.h"
#include "protocol/form.h"
#include "protocol/server/server_secure.h"

void tarry_server_settings_init_sized(tarry_server_settings *settings, size_t size)
{
    if (!sized_begin(settings, size, sizeof(*settings)))
        return;
    *settings = (tarry_server_settings){
        .size = size,
        .stop = TARRY_STOP_EXACT,
        .credit = TARRY_CREDIT_CHUNK,
        .learn_costs = true,
        .ahead = TARRY_USUAL_AHEAD,
        .conditioning_limit = 1000,
        .silence_ns = UINT64_C(2000000000),
        .stripe_length = 65536,
        .voters_grace_ns = UINT64_C(2000000000),
        .digest_steps = 16,
        .attempt_limit_ns = UINT64_C(60000000000),
    };
}

/* What a plan was made from is not known any more, and was checked when it was made. */
static int check_together(const tarry_plan *plan, const tarry_server_settings *settings,
                          tarry_diagnostic *diagnostic)
{
    const tarry_settings all = {
        .plan = {.workers = plan->workers,
                 .chunks = plan->origins / plan->pieces,
                 .replication = plan->workers,
                 .parts = plan->parts,
                 .adaptive_parts = plan->adaptive},
        .server = *settings,
    };
    tarry_conflict conflict;
    int error = tarry_settings_check(&all, &conflict);
    if (error == TARRY_OK)
        return TARRY_OK;
    return diagnose(diagnostic, error, "server: %s and %s don't go together: %s",
                    tarry_setting_name(conflict.first), tarry_setting_name(conflict.second),
                    conflict.reason);
}

/* What is wrong with the matrices; NULL: nothing. */
static const char *fault_of_matrices(const tarry_server_settings *settings)
{
    if (settings->compress != TARRY_COMPRESS_POWERSGD)
        return settings->compress_rank == 0 && settings->compress_matrix_count == 0
                   ? NULL
                   : "matrices of a rank are of one form alone";
    const compress_lowrank low = lowrank_of(settings);
    const size_t exact = settings->compress_exact;
    return lowrank_fault(&low, settings->dimension > exact ? settings->dimension - exact : 0);
}

static int check_settings(const tarry_plan *plan, const tarry_server_settings *settings,
                          tarry_diagnostic *diagnostic)
{
    const char *fault = NULL;
    if (settings->dimension == 0 || settings->stripe_length == 0)
        fault = "dimension and stripe_length must be at least 1";
    else if ((settings->dimension - 1) / plan_least_parts(plan) / settings->stripe_length >=
             UINT32_MAX / 64)
        fault = "stripe_length is too small for dimension";
    else if (!(settings->conditioning_limit > 1))
        fault = "conditioning_limit must be above 1";
    else if (settings->silence_ns == 0)
        fault = "silence_ns must be at least 1";
    else if ((unsigned)settings->stop > TARRY_STOP_WORKERS)
        fault = "unknown stop rule";
    else if ((unsigned)settings->credit > TARRY_CREDIT_WHOLE)
        fault = "unknown credit";
    else if ((unsigned)settings->fill > TARRY_FILL_STALE)
        fault = "unknown fill";
    else if ((unsigned)settings->keep > TARRY_KEEP_CREDITED)
        fault = "unknown way to keep gradients";
    else if ((unsigned)settings->pick > TARRY_PICK_SHARE)
        fault = "unknown pick";
    else if ((unsigned)settings->compress >= TARRY_COMPRESSES)
        fault = "unknown form of coded parts";
    else if (settings->compress == TARRY_COMPRESS_TOPK &&
             (settings->compress_share == 0 ||
              settings->compress_share > TARRY_COMPRESS_SHARE_MOST))
        fault = "the share of numbers to be sent must be between a millionth and a half";
    else if (settings->compress != TARRY_COMPRESS_TOPK &&
             dense_rounds_any(dense_rounds_of(settings)))
        fault = "some rounds can be dense only where others send a share of the numbers";
    else if ((unsigned)settings->compress_down > TARRY_COMPRESS_INT8)
        fault = "unknown form of what comes down";
    else if ((unsigned)settings->sum > TARRY_SUM_EVERYWHERE)
        fault = "unknown place of the sum";
    else if (form_rounds_among_workers(settings) && settings->shape != TARRY_SHAPE_AUTO &&
             settings->shape != TARRY_SHAPE_DIRECT)
        fault = "where each hop would round anew, numbers are float32: another form goes with the "
                "shape direct";
    else if (settings->sample_chunks > plan->origins / plan->pieces)
        fault = "there are not so many chunks to sample";
    else if (settings->secure != 0 && settings->secure != 32 && settings->secure != 64)
        fault = "integers of secure sums have 32 bits or 64";
    else
        fault = fault_of_matrices(settings);
    switch (settings->stop) {
    case TARRY_STOP_EXACT:
        break;
    case TARRY_STOP_DEADLINE:
        if (settings->deadline_ns == 0)
            fault = "the deadline must be above 0";
        break;
    case TARRY_STOP_ERROR:
        if (!(settings->error_limit >= 0 && settings->error_limit <= 1))
            fault = "the error limit must be between 0 and 1";
        break;
    case TARRY_STOP_WORKERS:
        if (settings->workers_needed == 0 || settings->workers_needed > plan->workers)
            fault = "the number of workers to wait for must be between 1 and all";
        break;
    }
    if (fault != NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "server: %s", fault);
    return check_together(plan, settings, diagnostic);
}

/* Every worker has a region for the largest bit sets that one message to it carries. */
static int allocate_bits(tarry_server *server, const tarry_allocator *allocator)
{
    uint32_t workers = server->plan->workers;
    server->shapes = memory_allocate(allocator, workers, sizeof(*server->shapes));
    server->bits_offset = memory_allocate(allocator, (size_t)workers + 1, sizeof(size_t));
    if (server->shapes == NULL || server->bits_offset == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t worker = 0; worker < workers; worker++) {
        codec_shape shape = codec_shape_of(server->plan, worker, server->stripes);
        if (server_is_secure(server))
            codec_shape_secure(&shape, server->plan);
        server->shapes[worker] = shape;
        size_t psi = bitset_words(shape.psi_bits), slots = bitset_words(shape.slots);
        server->bits_offset[worker + 1] = server->bits_offset[worker] + psi + 3 * slots;
    }
    size_t stripe_words = bitset_words(server->stripes) + bitset_words(workers);
    server->bits = memory_allocate(allocator, server->bits_offset[workers] + stripe_words,
                                   sizeof(*server->bits));
    return server->bits == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
}

static int allocate(tarry_server *server, const tarry_allocator *allocator)
{
    const tarry_plan *plan = server->plan;
    size_t workers = plan->workers, chunks = plan->chunks, stripes = server->stripes;
    size_t slot_words = bitset_words(plan_edges(plan));
    /* START may send a round to all and end it at once; a watch may probe all, before news and a
     * signal to all, and each may be left out, or called back. */
    server->capacity = 8 * workers + stripes + 8;
    if (server->settings.sum == TARRY_SUM_EVERYWHERE)
        server->capacity += 4 * workers; /* an order, one to break off, and to ask, each */

    server->members = memory_allocate(allocator, workers, sizeof(*server->members));
    server->answers = memory_allocate(allocator, workers, sizeof(*server->answers));
    server->done = memory_allocate(allocator, slot_words, sizeof(uint64_t));
    server->failed = memory_allocate(allocator, slot_words, sizeof(uint64_t));
    server->possible = memory_allocate(allocator, chunks, sizeof(uint32_t));
    server->supposed_possible = memory_allocate(allocator, chunks, sizeof(uint32_t));
    server->hopeless = memory_allocate(allocator, bitset_words(chunks), sizeof(uint64_t));
    server->ill = memory_allocate(allocator, bitset_words(chunks), sizeof(uint64_t));
    server->received =
        memory_allocate(allocator, bitset_words(workers * stripes), sizeof(uint64_t));
    server->awaited = memory_allocate(allocator, stripes, sizeof(uint32_t));
    server->unsummed = memory_allocate(allocator, stripes, sizeof(uint32_t));
    server->complete = memory_allocate(allocator, bitset_words(stripes), sizeof(uint64_t));
    server->foreseen_ns = memory_allocate(allocator, chunks, plan->parts * sizeof(double));
    server->prospects = memory_allocate(allocator, plan->parts, sizeof(*server->prospects));
    server->items = memory_allocate(allocator, server->capacity, sizeof(*server->items));
    if (server->members == NULL || server->answers == NULL || server->done == NULL ||
        server->failed == NULL || server->possible == NULL || server->supposed_possible == NULL ||
        server->hopeless == NULL || server->ill == NULL || server->received == NULL ||
        server->awaited == NULL || server->unsummed == NULL || server->complete == NULL ||
        server->foreseen_ns == NULL || server->prospects == NULL || server->items == NULL)
        return TARRY_ERROR_NO_MEMORY;
    server->news = memory_allocate(allocator, workers, sizeof(uint32_t));
    if (server_keeps_credited(server))
        server->recall_term = memory_allocate(allocator, plan_edges(plan), sizeof(uint32_t));
    if (server->news == NULL || (server_keeps_credited(server) && server->recall_term == NULL))
        return TARRY_ERROR_NO_MEMORY;
    int error = allocate_bits(server, allocator);
    if (error == TARRY_OK)
        error = server_fill_allocate(server, allocator);
    if (error == TARRY_OK)
        error = server_stood_allocate(server, allocator);
    if (error == TARRY_OK)
        error = server_sample_allocate(server, allocator);
    if (error == TARRY_OK)
        error = server_secure_allocate(server, allocator);
    if (error != TARRY_OK)
        return error;
    error = server_vote_create(server, allocator);
    if (error != TARRY_OK)
        return error;
    double limit = server->settings.conditioning_limit;
    error = coverage_create(plan, limit, allocator, &server->credited);
    if (error == TARRY_OK)
        error = coverage_create(plan, limit, allocator, &server->supposed);
    return error == TARRY_OK ? steering_create(server) : error;
}

int tarry_server_create(const tarry_plan *plan, const tarry_server_settings *settings,
                        const tarry_allocator *allocator, tarry_server **server,
                        tarry_diagnostic *diagnostic)
{
    int error = sized_check(settings->size, sizeof(*settings), "server", diagnostic);
    if (error == TARRY_OK)
        error = check_settings(plan, settings, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_server *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "server");
    made->allocator = memory_allocator(allocator);
    made->plan = plan;
    made->settings = *settings;
    made->settings.reproducible = settings->reproducible && settings->secure == 0;
    made->cut = server_layout(made, plan_least_parts(plan));
    made->stripes = made->cut.stripes;
    made->ready_ns = made->look_ns = TARRY_NEVER;
    made->effects.count = 0;
    error = allocate(made, &made->allocator);
    if (error != TARRY_OK) {
        tarry_server_free(made);
        return diagnose_no_memory(diagnostic, "server");
    }
    made->effects.items = made->items;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        made->members[worker].probe_ns = TARRY_NEVER;
        made->members[worker].epoch_end = UINT32_MAX;
    }
    made->late_ns = TARRY_NEVER;
    *server = made;
    return TARRY_OK;
}

void tarry_server_free(tarry_server *server)
{
    if (server == NULL)
        return;
    tarry_allocator allocator = server->allocator;
    server_sample_free(server);
    steering_free(server);
    vote_free(server->vote);
    coverage_free(server->credited);
    coverage_free(server->stale);
    coverage_free(server->supposed);
    coverage_free(server->supposed_stale);
    memory_release(&allocator, server->supposed_possible);
    memory_release(&allocator, server->previous);
    memory_release(&allocator, server->bits);
    memory_release(&allocator, server->bits_offset);
    memory_release(&allocator, server->shapes);
    memory_release(&allocator, server->items);
    memory_release(&allocator, server->prospects);
    memory_release(&allocator, server->foreseen_ns);
    memory_release(&allocator, server->given);
    memory_release(&allocator, server->stood);
    memory_release(&allocator, server->life);
    memory_release(&allocator, server->complete);
    memory_release(&allocator, server->unsummed);
    memory_release(&allocator, server->awaited);
    memory_release(&allocator, server->received);
    memory_release(&allocator, server->hopeless);
    memory_release(&allocator, server->ill);
    memory_release(&allocator, server->possible);
    memory_release(&allocator, server->holders);
    memory_release(&allocator, server->lives);
    memory_release(&allocator, server->news);
    memory_release(&allocator, server->recall_term);
    memory_release(&allocator, server->failed);
    memory_release(&allocator, server->done);
    memory_release(&allocator, server->answers);
    memory_release(&allocator, server->members);
    memory_release(&allocator, server);
}

bool server_is_fresh(const tarry_server *server)
{
    bool fresh = server->phase == SERVER_IDLE && server->round == 0;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        fresh = fresh && server->members[worker].epoch == 0;
    return fresh;
}

/* Whether the message speaks of a stripe that there is, which is counted. */
static bool count_part(tarry_server *server, const tarry_message *part)
{
    if (part->parts < plan_least_parts(server->plan) || part->parts > server->plan->parts)
        return false;
    layout cut = server_layout(server, part->parts);
    if (part->stripe >= cut.stripes)
        return false;
    if (server_is_secure(server)) {
        server->result.upload_bytes += server_secure_bytes(server, &cut, part->stripe);
        return part->form == TARRY_COMPRESS_NONE;
    }
    server->result.upload_bytes += form_stripe_bytes(
        form_of_part(&server->settings, part->round, part->form), &cut, part->stripe);
    return true;
}

/* Whoever sends is alive; what it sends counts only if it speaks for its present arrival. */
static int take_message(tarry_server *server, uint64_t now, uint32_t worker,
                        const tarry_message *message)
{
    if (worker >= server->plan->workers || !server->members[worker].present)
        return server_reject(server, worker, TARRY_REJECT_UNKNOWN);
    server->result.control_bytes += codec_size(&server->shapes[worker], message);
    server->result.control_messages++;
    bool good = message->type != TARRY_MESSAGE_PART || count_part(server, message);
    if (message->epoch != server->members[worker].epoch)
        return server_reject(server, worker, TARRY_REJECT_STALE);
    switch (message->type) {
    case TARRY_MESSAGE_REPORT:
        server_heard(server, now, worker);
        return server_report(server, now, worker, message);
    case TARRY_MESSAGE_PART:
        server_heard(server, now, worker);
        if (server->vote != NULL)
            return server_reject(server, worker, TARRY_REJECT_MISPLACED);
        if (!good)
            return server_reject(server, worker, TARRY_REJECT_RANGE);
        return server_part(server, now, worker, message);
    case TARRY_MESSAGE_ALIVE:
        server_heard(server, now, worker);
        steering_word(server, now, worker, message);
        return TARRY_OK;
    case TARRY_MESSAGE_ROUND:
    case TARRY_MESSAGE_SIGNAL:
    case TARRY_MESSAGE_RESUME:
    case TARRY_MESSAGE_NEWS:
    case TARRY_MESSAGE_PROBE:
    case TARRY_MESSAGE_FINISH:
    case TARRY_MESSAGE_ASK:
    case TARRY_MESSAGE_BREAK:
    case TARRY_MESSAGE_FETCH:
    case TARRY_MESSAGE_LOAD:
    case TARRY_MESSAGE_COMMIT:
        break;
    case TARRY_MESSAGE_HELD:
    case TARRY_MESSAGE_FAILED:
    case TARRY_MESSAGE_STATE:
        server_heard(server, now, worker);
        return server_vote_say(server, now, worker, message);
    }
    return server_reject(server, worker, TARRY_REJECT_MISPLACED);
}

static int take_event(tarry_server *server, uint64_t now, const tarry_event *event)
{
    uint32_t worker = event->worker;
    bool known = worker < server->plan->workers;
    switch (event->type) {
    case TARRY_EVENT_TIME:
        return TARRY_OK;
    case TARRY_EVENT_MESSAGE:
        return take_message(server, now, worker, event->message);
    case TARRY_EVENT_START:
        return server_start(server, now);
    case TARRY_EVENT_ABORT:
        if (server->phase == SERVER_IDLE)
            return TARRY_ERROR_STATE;
        server_finish(server, now, TARRY_ERROR_INTERRUPTED);
        return TARRY_OK;
    case TARRY_EVENT_JOINED:
        return known ? server_joined(server, now, worker)
                     : server_reject(server, worker, TARRY_REJECT_UNKNOWN);
    case TARRY_EVENT_LOST:
        if (!known || !server->members[worker].present)
            return server_reject(server, worker, TARRY_REJECT_UNKNOWN);
        server_left_out(server, worker, TARRY_ABSENT_GONE, now - server->members[worker].heard_ns,
                        0);
        return server_lost(server, now, worker);
    case TARRY_EVENT_HEARD:
        if (!known || !server->members[worker].present)
            return server_reject(server, worker, TARRY_REJECT_UNKNOWN);
        server_overheard(server, now, worker);
        return TARRY_OK;
    case TARRY_EVENT_COMBINED:
        return server_combined(server, event);
    case TARRY_EVENT_COMPUTED:
    case TARRY_EVENT_ENCODED:
    case TARRY_EVENT_REDUCED:
    case TARRY_EVENT_FETCHED:
    case TARRY_EVENT_LOADED:
    case TARRY_EVENT_STEPPED:
        break;
    case TARRY_EVENT_LOGGED:
        return server_vote_logged(server, event);
    }
    return TARRY_ERROR_ARGUMENT;
}

/* Carries out what follows from the event, or from the time. */
static int follow(tarry_server *server, uint64_t now)
{
    int error = server_watch(server, now);
    if (error == TARRY_OK)
        error = server_vote_follow(server, now);
    if (error == TARRY_OK)
        error = server_advance(server, now);
    if (error != TARRY_OK)
        return error;
    server_vote_give_due(server);
    steering_tell(server, now, server_news);
    server_send_news(server);
    server_count_sent(server);
    return TARRY_OK;
}

/* Almost every report comes while the stop rule waits for others, and nothing follows from it. */
static bool nothing_follows(const tarry_server *server, uint64_t now)
{
    return server->phase == SERVER_COMPUTING && server->steering == NULL && server->vote == NULL &&
           server->effects.count == 0 && server->news_count == 0 && now < server->sweep_ns &&
           server_only_waits(server);
}

int tarry_server_step(tarry_server *server, uint64_t now, const tarry_event *event,
                      const tarry_effects **effects)
{
    if (server->restored)
        return TARRY_ERROR_STATE;
    server->effects.count = 0;
    server->now_ns = now;
    int error = take_event(server, now, event);
    if (error == TARRY_OK && !nothing_follows(server, now))
        error = follow(server, now);
    if (error != TARRY_OK)
        return error;
    *effects = &server->effects;
    return TARRY_OK;
}

/* What has passed without an attempt waits for others who vote, and not for a time. */
uint64_t tarry_server_deadline(const tarry_server *server)
{
    uint64_t voters =
        server->vote != NULL && !server->vote_waits ? vote_deadline(server->vote) : TARRY_NEVER;
    if (server->phase == SERVER_IDLE)
        return voters;
    uint64_t next = server_next_watch(server);
    next = voters < next ? voters : next;
    if (server->phase == SERVER_COMPUTING && server->settings.stop == TARRY_STOP_DEADLINE) {
        uint64_t start = server->result.start_ns, limit = server->settings.deadline_ns;
        if (limit < TARRY_NEVER - start && start + limit > server->now_ns && start + limit < next)
            next = start + limit;
    }
    uint64_t look = server_next_look(server);
    return look > server->now_ns && look < next ? look : next;
}

uint64_t tarry_server_round(const tarry_server *server)
{
    return server->round;
}

bool tarry_server_present(const tarry_server *server, uint32_t worker)
{
    assert(worker < server->plan->workers);
    return server->members[worker].present;
}

uint32_t tarry_server_finished(const tarry_server *server, uint32_t worker)
{
    assert(worker < server->plan->workers);
    return server->members[worker].finished - server->members[worker].spared;
}

uint32_t tarry_server_next_hopeless(const tarry_server *server, uint32_t from)
{
    while (from < server->plan->chunks && !bitset_test(server->hopeless, from))
        from++;
    return from < server->plan->chunks ? from : server->plan->chunks;
}
