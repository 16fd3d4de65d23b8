/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator and the local runtime agree: the same plan and straggler draws give the same steps
 * of all machines and the same round times, as far as times decide them. Both run the machines of
 * the library; the linker puts a recorder between (--wrap). Threads wake up when the system lets
 * them, so order is compared where the simulated times are TOLERANCE_NS apart or more, and a round
 * that was disturbed may be repeated.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include <tarry/local.h>
#include <tarry/sim.h>
#include <tarry/worker.h>

#include "base/bitset.h"
#include "edge_plan.h"
#include "plan/plan.h"
#include "test.h"

enum { WORKERS = 12, LOAD = 3, ROUNDS = 20, TEXT = 512 };
/* Runs to come close, and for a busy machine to pass at all. */
enum { ATTEMPTS = 5, MOST_ATTEMPTS = 40 };
#define TOLERANCE_NS UINT64_C(6000000)

/* What happened in one round. */
typedef struct record {
    uint32_t reports[WORKERS * LOAD][2]; /* (worker, slot), in the order in which they came in */
    uint32_t report_count;
    bool coded[WORKERS][LOAD]; /* in the state of the last signal */
    char steps[WORKERS][TEXT]; /* each worker's steps in words */
    uint32_t signals;
    double seconds;
} record;

static struct recorder {
    pthread_mutex_t lock;
    const tarry_plan *plan;
    record *rounds; /* ROUNDS */
} recorder = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void note_signal(record *into, const tarry_effect *effect)
{
    const tarry_plan *plan = recorder.plan;
    uint32_t worker = effect->worker, first = plan->worker_offset[worker];
    size_t bit = 0;
    for (uint32_t slot = 0; slot < plan->worker_offset[worker + 1] - first; slot++) {
        uint32_t chunk = plan->slot_chunk[first + slot];
        into->coded[worker][slot] =
            bitset_test(effect->message.psi, bit + plan->slot_holder[first + slot]);
        bit += tarry_plan_replication(plan, chunk);
    }
    into->signals++;
}

static void note_server(const tarry_event *event, const tarry_effects *effects)
{
    bool rejected = effects->count > 0 && effects->items[0].type == TARRY_EFFECT_REJECT;
    if (event->type == TARRY_EVENT_MESSAGE && event->message->type == TARRY_MESSAGE_REPORT &&
        !rejected) {
        record *into = &recorder.rounds[event->message->round];
        into->reports[into->report_count][0] = event->worker;
        into->reports[into->report_count++][1] = event->message->slot;
    }
    for (size_t i = 0; i < effects->count; i++)
        if (effects->items[i].type == TARRY_EFFECT_SEND &&
            effects->items[i].message.type == TARRY_MESSAGE_SIGNAL)
            note_signal(&recorder.rounds[effects->items[i].round], &effects->items[i]);
}

static void say(char *text, const char *word, uint32_t number)
{
    size_t used = strlen(text);
    snprintf(text + used, TEXT - used, " %s%u", word, number);
}

static void note_worker(const tarry_event *event, const tarry_effects *effects)
{
    static const char *const messages[] = {"round", "signal", "resume", "probe", "finish"};
    static const char *const names[] = {"send", "reject",  "",       "",
                                        "",     "compute", "cancel", "encode"};
    bool message = event->type == TARRY_EVENT_MESSAGE;
    if (effects->count == 0 && event->type == TARRY_EVENT_MESSAGE)
        return; /* a signal or an end to one who has nothing to do with it */
    uint32_t worker = effects->count > 0 ? effects->items[0].worker : UINT32_MAX;
    if (worker == UINT32_MAX)
        return; /* the end of the last stripe */
    char *text = recorder.rounds[message ? event->message->round : event->round].steps[worker];
    if (message)
        say(text, messages[event->message->type], 0);
    else
        say(text, event->type == TARRY_EVENT_COMPUTED ? "computed" : "encoded", event->slot);
    for (size_t i = 0; i < effects->count; i++)
        say(text, names[effects->items[i].type], effects->items[i].slot);
}

int __real_tarry_server_step(tarry_server *server, uint64_t now, const tarry_event *event,
                             const tarry_effects **effects);
int __wrap_tarry_server_step(tarry_server *server, uint64_t now, const tarry_event *event,
                             const tarry_effects **effects);
int __real_tarry_worker_step(tarry_worker *worker, uint64_t now, const tarry_event *event,
                             const tarry_effects **effects);
int __wrap_tarry_worker_step(tarry_worker *worker, uint64_t now, const tarry_event *event,
                             const tarry_effects **effects);

int __wrap_tarry_server_step(tarry_server *server, uint64_t now, const tarry_event *event,
                             const tarry_effects **effects)
{
    int error = __real_tarry_server_step(server, now, event, effects);
    pthread_mutex_lock(&recorder.lock);
    if (error == TARRY_OK)
        note_server(event, *effects);
    pthread_mutex_unlock(&recorder.lock);
    return error;
}

int __wrap_tarry_worker_step(tarry_worker *worker, uint64_t now, const tarry_event *event,
                             const tarry_effects **effects)
{
    int error = __real_tarry_worker_step(worker, now, event, effects);
    pthread_mutex_lock(&recorder.lock);
    if (error == TARRY_OK)
        note_worker(event, *effects);
    pthread_mutex_unlock(&recorder.lock);
    return error;
}

static int compute(void *user, const tarry_task *task)
{
    task->gradient[0] = (float)task->chunk;
    return 0;
}

static void begin(const tarry_plan *plan, record *rounds)
{
    memset(rounds, 0, ROUNDS * sizeof(*rounds));
    recorder.plan = plan;
    recorder.rounds = rounds;
}

static void run_simulated(const tarry_plan *plan, const tarry_straggler *straggler, record *rounds)
{
    tarry_sim_settings settings;
    tarry_sim_settings_init(&settings);
    settings.straggler = straggler;
    tarry_sim *sim;
    begin(plan, rounds);
    assert_ok(tarry_sim_create(plan, &settings, NULL, &sim, NULL));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        tarry_round_result result;
        assert_ok(tarry_sim_round(sim, &result));
        rounds[round].seconds = (double)(result.end_ns - result.start_ns) * 1e-9;
    }
    tarry_sim_free(sim);
}

static void run_threads(const tarry_plan *plan, const tarry_straggler *straggler, record *rounds)
{
    tarry_local_settings settings;
    tarry_local_settings_init(&settings);
    settings.parameters = settings.dimension = 1;
    settings.compute = compute;
    settings.straggler = straggler;
    tarry_runtime *local;
    begin(plan, rounds);
    assert_ok(tarry_local_create(plan, &settings, NULL, &local, NULL));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        float parameter = 0, sum;
        tarry_round_result result;
        assert_ok(tarry_runtime_round(local, &parameter, &sum, &result, NULL));
        /* Thirds of three copies are rounded. */
        assert_true(fabs(sum / (WORKERS * (WORKERS - 1) / 2.0) - 1) < 1e-6);
        rounds[round].seconds = (double)(result.end_ns - result.start_ns) * 1e-9;
    }
    tarry_runtime_free(local, true);
}

/* When the worker reports the slot, by its draws alone. */
static uint64_t due_ns(const tarry_plan *plan, const tarry_straggler *straggler, uint64_t round,
                       uint32_t worker, uint32_t slot)
{
    uint64_t time = 0;
    for (uint32_t at = 0; at <= slot; at++)
        time += tarry_straggler_time_ns(straggler, round, worker, at,
                                        tarry_plan_chunk(plan, worker, at), 1, 0);
    return time;
}

/* Reports come in in the order of their times. */
static bool is_in_order(const tarry_plan *plan, const tarry_straggler *straggler, uint64_t round,
                        const record *real)
{
    uint64_t latest = 0;
    for (uint32_t i = 0; i < real->report_count; i++) {
        uint64_t due = due_ns(plan, straggler, round, real->reports[i][0], real->reports[i][1]);
        if (due + TOLERANCE_NS < latest)
            return false;
        latest = due > latest ? due : latest;
    }
    return true;
}

/* The same copies are in the signal, and so the same workers take part; those who did the same
 * number of chunks took the same steps. */
static bool is_alike(const tarry_plan *plan, const tarry_straggler *straggler, uint64_t round,
                     const record *simulated, const record *real)
{
    uint64_t signal_ns = (uint64_t)(simulated->seconds * 1e9);
    if (real->signals != simulated->signals)
        return false;
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        bool near = false;
        for (uint32_t slot = 0; slot < LOAD; slot++) {
            uint64_t due = due_ns(plan, straggler, round, worker, slot);
            bool close = due + TOLERANCE_NS >= signal_ns && due <= signal_ns + TOLERANCE_NS;
            if (!close && simulated->coded[worker][slot] != real->coded[worker][slot])
                return false;
            near = near || close;
        }
        if (!near && strcmp(simulated->steps[worker], real->steps[worker]) != 0)
            return false;
    }
    return true;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median over the rounds of the real time over the simulated one. */
static double median_ratio(const record *simulated, const record *real)
{
    double ratios[ROUNDS];
    for (uint32_t round = 0; round < ROUNDS; round++)
        ratios[round] = real[round].seconds / simulated[round].seconds;
    qsort(ratios, ROUNDS, sizeof(*ratios), compare_doubles);
    return ratios[ROUNDS / 2];
}

/*
 * In an undisturbed run all rounds agree and times are within 5%. Here three quarters of the rounds
 * must agree in one of several runs, and the median of one run be within 25%.
 */
static bool is_close_enough(uint32_t agreed, double ratio, int attempt)
{
    return attempt < ATTEMPTS ? agreed == ROUNDS && ratio <= 1.05
                              : agreed >= ROUNDS * 3 / 4 && ratio < 1.25;
}

static void assert_agreement(const char *spec)
{
    static record simulated[ROUNDS], real[ROUNDS];
    OWNED(tarry_plan) plan = plan_drawn(WORKERS, WORKERS, LOAD, 1);
    OWNED(tarry_straggler) straggler = NULL;
    assert_ok(tarry_straggler_create(spec, WORKERS, 4, NULL, &straggler, NULL));
    run_simulated(plan, straggler, simulated);

    bool agreed[ROUNDS] = {false};
    uint32_t total = 0;
    double best = 1e9;
    for (int attempt = 0; attempt < MOST_ATTEMPTS && !is_close_enough(total, best, attempt);
         attempt++) {
        run_threads(plan, straggler, real);
        uint32_t alike = 0;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            bool good = is_in_order(plan, straggler, round, &real[round]) &&
                        is_alike(plan, straggler, round, &simulated[round], &real[round]);
            alike += good;
            total += good && !agreed[round];
            agreed[round] = agreed[round] || good;
        }
        double ratio = median_ratio(simulated, real);
        best = ratio < best ? ratio : best;
        printf("%s: %u of %d rounds agree, median of real over simulated time %.4f\n", spec, alike,
               ROUNDS, ratio);
    }
    assert_true(is_close_enough(total, best, MOST_ATTEMPTS));
    assert_true(best > 0.95);
}

TEST(simulated_rounds_are_like_real_ones)
{
    assert_agreement("shifted-exp:0.04,0.03");
    assert_agreement("shifted-exp:0.04,0.03/chunk");
}
