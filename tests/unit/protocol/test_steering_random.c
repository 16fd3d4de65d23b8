/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random stories of a server with a dynamic order and real workers: the books agree after every
 * step, the server knows what a worker is at as soon as nothing is on its way between the two, and
 * rounds end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "books.h"
#include "edge_plan.h"
#include "seed.h"
#include "tarry/worker.h"

enum { MOST_WORKERS = 6, MOST_CHUNKS = 10, MOST_POST = 4096, MOST_STEPS = 100000 };

typedef struct post {
    tarry_message message;
    uint64_t psi, stripes, first, barred;
} post;

typedef struct line {
    post items[MOST_POST];
    size_t count;
} line;

typedef struct node {
    tarry_worker *machine;
    line up, down;
    uint32_t load, slot; /* the chunk in progress; load: none */
    uint64_t compute_round, due;
    uint32_t slowness; /* times the time to compute */
    bool encodes;
    post late; /* of the server, to come in once more */
    bool has_late;
    tarry_message part;
    bool stopped;
} node;

typedef struct world {
    random_stream stream;
    tarry_plan *plan;
    tarry_server *server;
    node nodes[MOST_WORKERS];
    uint64_t now;
    uint32_t rounds, exact;
    bool disturbed; /* workers come and go, chunks fail, messages come twice */
    bool resting;   /* seen in this world */
    tarry_event sums[64];
    size_t sum_count;
} world;

static uint32_t below(world *it, uint32_t limit)
{
    return random_below(&it->stream, limit);
}

static void add(line *to, const tarry_message *message)
{
    assert_true(to->count < MOST_POST);
    post *added = &to->items[to->count++];
    *added = (post){.message = *message};
    const uint64_t *const from[] = {message->psi, message->stripes, message->first,
                                    message->barred};
    uint64_t *const into[] = {&added->psi, &added->stripes, &added->first, &added->barred};
    for (size_t i = 0; i < 4; i++)
        if (from[i] != NULL)
            *into[i] = *from[i];
}

static post take(line *from, size_t index)
{
    post taken = from->items[index];
    from->count--;
    memmove(from->items + index, from->items + index + 1, (from->count - index) * sizeof(post));
    return taken;
}

/* The sets move with the post. */
static void attach(post *of)
{
    of->message.psi = of->message.psi != NULL ? &of->psi : NULL;
    of->message.stripes = of->message.stripes != NULL ? &of->stripes : NULL;
    of->message.first = of->message.first != NULL ? &of->first : NULL;
    of->message.barred = of->message.barred != NULL ? &of->barred : NULL;
}

static void step_server(world *it, const tarry_event *event)
{
    const tarry_effects *effects;
    assert_int_equal(tarry_server_step(it->server, it->now, event, &effects), TARRY_OK);
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        if (effect->type == TARRY_EFFECT_SEND)
            add(&it->nodes[effect->worker].down, &effect->message);
        if (effect->type == TARRY_EFFECT_COMBINE) {
            assert_true(it->sum_count < 64);
            it->sums[it->sum_count++] = (tarry_event){
                .type = TARRY_EVENT_COMBINED,
                .worker = effect->worker,
                .round = effect->round,
                .attempt = effect->attempt,
                .stripe = effect->stripe,
            };
        }
        if (effect->type == TARRY_EFFECT_DONE) {
            it->rounds++;
            it->exact += effect->result->exact;
            it->sum_count = 0;
        }
    }
    books_agree(it->server);
}

static void step_worker(world *it, uint32_t worker, const tarry_event *event)
{
    node *of = &it->nodes[worker];
    const tarry_effects *effects;
    assert_int_equal(tarry_worker_step(of->machine, it->now, event, &effects), TARRY_OK);
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        if (effect->type == TARRY_EFFECT_SEND) {
            add(&of->up, &effect->message);
            if (it->disturbed && below(it, 8) == 0)
                add(&of->up, &effect->message);
        } else if (effect->type == TARRY_EFFECT_CANCEL) {
            of->slot = of->load;
        } else if (effect->type == TARRY_EFFECT_COMPUTE) {
            of->slot = effect->slot;
            of->compute_round = effect->round;
            of->due = it->now + (uint64_t)(1 + below(it, 20)) * of->slowness;
        } else if (effect->type == TARRY_EFFECT_ENCODE) {
            of->encodes = true;
            of->part = effect->message;
        }
    }
}

/* A worker's connection is new: what was on the old one is gone. */
static void arrive(world *it, uint32_t worker)
{
    node *of = &it->nodes[worker];
    of->up.count = of->down.count = 0;
    step_server(it, &(tarry_event){.type = TARRY_EVENT_JOINED, .worker = worker});
}

static void finish_chunk(world *it, uint32_t worker)
{
    node *of = &it->nodes[worker];
    uint32_t slot = of->slot;
    of->slot = of->load;
    step_worker(it, worker,
                &(tarry_event){
                    .type = TARRY_EVENT_COMPUTED,
                    .round = of->compute_round,
                    .slot = slot,
                    .failed = it->disturbed && below(it, 40) == 0,
                });
}

static void finish_part(world *it, uint32_t worker)
{
    node *of = &it->nodes[worker];
    of->encodes = false;
    add(&of->up, &of->part);
    step_worker(it, worker,
                &(tarry_event){
                    .type = TARRY_EVENT_ENCODED,
                    .round = of->part.round,
                    .attempt = of->part.attempt,
                    .stripe = of->part.stripe,
                });
}

static void hear(world *it, uint32_t worker, post came)
{
    attach(&came);
    step_worker(it, worker, &(tarry_event){.type = TARRY_EVENT_MESSAGE, .message = &came.message});
}

static void strike(world *it, uint32_t worker)
{
    node *of = &it->nodes[worker];
    if (of->has_late && below(it, 3) == 0) {
        of->has_late = false;
        hear(it, worker, of->late);
    }
    if (!it->disturbed || below(it, 60) > 0)
        return;
    if (tarry_server_present(it->server, worker) && below(it, 2) == 0)
        step_server(it, &(tarry_event){.type = TARRY_EVENT_LOST, .worker = worker});
    else
        arrive(it, worker);
}

/* Something happens with the worker: what, chance decides. */
static void move(world *it, uint32_t worker)
{
    node *of = &it->nodes[worker];
    bool there = tarry_server_present(it->server, worker);
    switch (below(it, 5)) {
    case 0:
        if (of->down.count > 0 && there) {
            post came = take(&of->down, 0);
            hear(it, worker, came);
            if (it->disturbed && below(it, 8) == 0) {
                of->late = came;
                of->has_late = true;
            }
        }
        break;
    case 1:
        if (of->up.count > 0 && there) {
            size_t which = it->disturbed ? below(it, (uint32_t)of->up.count) : 0;
            post came = take(&of->up, which);
            attach(&came);
            step_server(it, &(tarry_event){.type = TARRY_EVENT_MESSAGE,
                                           .worker = worker,
                                           .message = &came.message});
        }
        break;
    case 2:
        if (of->slot < of->load && it->now >= of->due)
            finish_chunk(it, worker);
        break;
    case 3:
        if (of->encodes)
            finish_part(it, worker);
        break;
    default:
        strike(it, worker);
    }
}

static void check_views(world *it)
{
    for (uint32_t worker = 0; worker < it->plan->workers; worker++) {
        const node *of = &it->nodes[worker];
        const server_member *member = &it->server->members[worker];
        if (it->server->phase != SERVER_COMPUTING || !member_able(member) || member->stopped ||
            of->up.count + of->down.count > 0)
            continue;
        assert_int_equal(it->server->steering->workers[worker].current, of->slot);
        it->resting = it->resting || of->slot == of->load;
    }
}

static void begin(world *it, uint64_t seed, uint32_t run)
{
    it->stream = random_stream_make(seed, RANDOM_TEST, run, 0);
    it->now = it->rounds = it->exact = 0;
    it->sum_count = 0;
    uint32_t workers = 2 + below(it, MOST_WORKERS - 1), chunks = 1 + below(it, MOST_CHUNKS);
    uint32_t replication = 1 + below(it, workers < 4 ? workers : 4);
    uint32_t parts = replication > 1 && below(it, 3) == 0 ? 2 : 1;
    it->plan = edge_plan_random(workers, chunks, replication, parts, random_u64(&it->stream));
    assert_non_null(it->plan);
    edge_plan_random_decode(it->plan, 1);
    if (parts == 1)
        for (uint32_t worker = 0; worker < workers; worker++)
            it->plan->decode[worker] = 1;
    tarry_server_settings settings;
    tarry_server_settings_init(&settings);
    settings.dimension = 1;
    settings.pick = TARRY_PICK_SHARE;
    settings.silence_ns = 2000;
    if (below(it, 4) == 0) {
        settings.stop = TARRY_STOP_ERROR;
        settings.error_limit = 0.1 * below(it, 5);
    }
    assert_int_equal(tarry_server_create(it->plan, &settings, NULL, &it->server, NULL), TARRY_OK);
    it->disturbed = below(it, 2) == 0;
    for (uint32_t worker = 0; worker < workers; worker++) {
        node *of = &it->nodes[worker];
        tarry_worker_settings own = {
            .worker = worker,
            .dimension = settings.dimension,
            .stripe_length = settings.stripe_length,
            .conditioning_limit = settings.conditioning_limit,
        };
        assert_int_equal(tarry_worker_create(it->plan, &own, NULL, &of->machine, NULL), TARRY_OK);
        of->load = of->slot = tarry_plan_load(it->plan, worker);
        of->slowness = below(it, 3) == 0 ? 1 + below(it, 30) : 1;
        of->encodes = of->has_late = false;
        arrive(it, worker);
    }
}

static void end(world *it)
{
    tarry_server_free(it->server);
    for (uint32_t worker = 0; worker < it->plan->workers; worker++)
        tarry_worker_free(it->nodes[worker].machine);
    edge_plan_free(it->plan);
}

/* Three rounds; nothing goes wrong any more once they have lasted for long. */
static void run_world(world *it)
{
    uint32_t steps = 0;
    for (; it->rounds < 3 && steps < MOST_STEPS; steps++) {
        it->disturbed = it->disturbed && steps < 3000;
        if (it->server->phase == SERVER_IDLE) {
            for (uint32_t worker = 0; worker < it->plan->workers; worker++)
                if (!tarry_server_present(it->server, worker))
                    arrive(it, worker);
            step_server(it, &(tarry_event){.type = TARRY_EVENT_START});
        }
        it->now += below(it, 3);
        while (it->sum_count > 0) {
            tarry_event combined = it->sums[--it->sum_count];
            step_server(it, &combined);
        }
        move(it, below(it, it->plan->workers));
        if (it->now >= tarry_server_deadline(it->server))
            step_server(it, &(tarry_event){.type = TARRY_EVENT_TIME});
        check_views(it);
    }
    assert_true(steps < MOST_STEPS);
}

static void the_books_agree_and_views_are_true(void **state)
{
    (void)state;
    static world it;
    uint64_t seed = test_seed("steering/random", 1);
    uint32_t exact = 0, rested = 0;
    for (uint32_t run = 0; run < 1500; run++) {
        it.resting = false;
        begin(&it, seed, run);
        run_world(&it);
        exact += it.exact;
        rested += it.resting;
        end(&it);
    }
    assert_true(exact > 1000 && rested > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_books_agree_and_views_are_true),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
