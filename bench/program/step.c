/* SPDX-License-Identifier: Apache-2.0 */
#include "program/step.h"

#include <math.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tarry/settings.h>
#include <tarry/tcp.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "runtime/clock.h"

#define PATIENCE_NS UINT64_C(60000000000)
#define LOOK_NS UINT64_C(100000)
#define KEPT_BYTES 1e9 /* of finished gradients, over all workers */
#define NS_PER_S 1e9

enum { WARM = 3, ADDRESS_BYTES = 128 };

/* What a worker's process shows. */
typedef struct worker_area {
    _Atomic uint64_t steps;         /* sums that it has stepped on */
    _Atomic uint64_t ready_ns;      /* when its last gradient was there */
    uint64_t loaded_ns;             /* when it got its state of another one; 0: never */
    uint64_t stepped_ns, before_ns; /* when it stepped last; when its gradient was there by then */
    double busy;                    /* processor seconds by then */
    bool wrong;                     /* a sum had other numbers */
} worker_area;

/* Memory of all the processes. */
typedef struct area {
    sem_t goes;
    sem_t joins; /* who joins later */
    char address[ADDRESS_BYTES];
    worker_area workers[STEP_WORKERS_MOST];
} area;

typedef struct site {
    const bench_step_settings *settings;
    area *shared;
    uint32_t place; /* of a worker */
    pid_t processes[STEP_WORKERS_MOST];
    uint32_t started;
    tarry_plan *plan;
    tarry_runtime *server;
    uint64_t steps;
    bool absent;       /* the last worker takes no part */
    uint64_t added_ns; /* the least of all rounds */
    struct {
        pthread_t thread;
        sem_t signalled;           /* the upset round's first attempt has begun */
        _Atomic bool awaits;       /* that */
        uint64_t at_ns;            /* when it came */
        _Atomic uint64_t again_ns; /* when the last attempt after the first one began; 0: never */
        _Atomic uint64_t known_ns; /* when the server knew that the last worker is gone; 0: never */
    } upset;
} site;

static uint32_t last_worker(const site *own)
{
    return own->settings->workers - 1;
}

/* ---- a worker ---- */

/* Small whole numbers, whose sums are exact in any order. */
static float number_of(uint32_t chunk)
{
    return (float)(1 + chunk % 5);
}

static double busy_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / NS_PER_S;
}

static float number_of_task(const tarry_task *task)
{
    float number = 0;
    for (uint32_t s = 0; s < task->span_count; s++)
        number += number_of(task->spans[s].origin) * (float)task->spans[s].count /
                  (float)task->spans[s].of;
    return number;
}

/* All numbers of a gradient are the same, and nobody else writes to where it goes: where those of
 * an earlier one are, they may be the right ones. */
static void write_numbers(const tarry_task *task)
{
    float number = number_of_task(task);
    if (task->gradient[task->dimension - 1] == number)
        return;
    for (size_t x = 0; x < task->dimension; x++)
        task->gradient[x] = number;
}

/* Sleep takes the time. The numbers are written only where others are: on a few processors those of
 * many workers would hold up each other, where each worker has a processor of its own. */
static int compute(void *user, const tarry_task *task)
{
    const site *own = user;
    const bench_step_settings *settings = own->settings;
    double share = settings->seconds * settings->workers / settings->chunks / settings->pieces;
    double factor = own->place + 1 == settings->workers ? settings->slow : 1;
    struct timespec until = clock_timespec(clock_from_now((uint64_t)(share * factor * NS_PER_S)));
    write_numbers(task);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    own->shared->workers[own->place].ready_ns = clock_now_ns();
    return 0;
}

static bool is_right(const bench_step_settings *settings, const float *sum)
{
    float expected = 0;
    for (uint32_t chunk = 0; chunk < settings->chunks * settings->pieces; chunk++)
        expected += number_of(chunk);
    for (size_t x = 0; x < settings->dimension; x += settings->dimension / 1024 + 1)
        if (!(fabsf(sum[x] - expected) <= 1e-5F * expected))
            return false;
    return true;
}

static int step(void *user, uint64_t number, const float *sum)
{
    const site *own = user;
    worker_area *shown = &own->shared->workers[own->place];
    shown->stepped_ns = clock_now_ns();
    shown->before_ns = shown->ready_ns;
    shown->busy = busy_seconds();
    shown->wrong = shown->wrong || !is_right(own->settings, sum);
    shown->steps = number; /* last: whoever reads it reads the rest */
    return TARRY_OK;
}

/* The state is the number of steps, and what fills it up to its size. */
static uint64_t state_size(void *user)
{
    const site *own = user;
    return sizeof(uint64_t) +
           (uint64_t)own->settings->vectors * own->settings->dimension * sizeof(float);
}

static int save(void *user, uint64_t first, void *bytes, size_t size)
{
    const site *own = user;
    uint64_t steps = own->shared->workers[own->place].steps;
    memset(bytes, 1, size);
    if (first == 0)
        memcpy(bytes, &steps, sizeof(steps));
    return TARRY_OK;
}

static int load(void *user, uint64_t total, uint64_t first, const void *bytes, size_t size)
{
    const site *own = user;
    worker_area *shown = &own->shared->workers[own->place];
    uint64_t steps;
    shown->loaded_ns = clock_now_ns();
    if (total != state_size(user) || (first == 0 && size < sizeof(steps)))
        return TARRY_ERROR_FORMAT;
    if (first > 0)
        return TARRY_OK;
    memcpy(&steps, bytes, sizeof(steps));
    shown->steps = steps;
    return TARRY_OK;
}

static int begin(void *user, tarry_tcp_worker *worker, const tarry_tcp_job *job,
                 uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    const tarry_replica replica = {
        .user = user, .step = step, .state_size = state_size, .save = save, .load = load};
    (void)job;
    (void)data;
    (void)diagnostic;
    tarry_tcp_worker_replica(worker, &replica, NULL);
    return TARRY_OK;
}

static void be_worker(const bench_step_settings *settings, area *shared, uint32_t place)
{
    site own = {.settings = settings, .shared = shared, .place = place};
    tarry_tcp_worker_settings with;
    tarry_tcp_worker *worker;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bool joins = settings->upset == BENCH_UPSET_JOIN && place == last_worker(&own);
    while (sem_wait(joins ? &shared->joins : &shared->goes) != 0)
        ;
    tarry_tcp_worker_settings_init(&with);
    with.connect = shared->address;
    with.worker = place;
    with.begin = begin;
    with.compute = compute;
    with.user = &own;
    with.share = settings->share;
    with.security = bench_cluster_worker(settings->cluster);
    int error = tarry_tcp_worker_create(&with, NULL, &worker, NULL);
    if (error == TARRY_OK)
        error = tarry_tcp_worker_run(worker, NULL);
    _exit(error == TARRY_OK ? 0 : 1); /* memory goes with the process */
}

/* ---- the server ---- */

static int plan(site *own, tarry_settings *all, tarry_diagnostic *why)
{
    const bench_step_settings *settings = own->settings;
    tarry_conflict conflict;
    tarry_settings_init(all);
    all->plan.workers = settings->workers;
    all->plan.chunks = settings->chunks;
    all->plan.pieces = settings->pieces;
    all->plan.replication = settings->replication;
    all->server.sum = TARRY_SUM_EVERYWHERE;
    all->keep_auto = !settings->keep_all;
    uint32_t given = TARRY_SETTING_BIT(TARRY_SETTING_PIECES) | TARRY_SETTING_BIT(TARRY_SETTING_SUM);
    if (tarry_settings_settle(all, given, &conflict) != TARRY_OK)
        return diagnose(why, TARRY_ERROR_ARGUMENT, "%s", conflict.reason);
    tarry_settings_keep(all, settings->dimension, KEPT_BYTES, false);
    return tarry_plan_create(&all->plan, NULL, &own->plan, why);
}

/* The loop's thread. */
static void observe(void *user, const tarry_tcp_notice *notice)
{
    site *own = user;
    if (notice->type == TARRY_TCP_SIGNAL && !atomic_exchange(&own->upset.awaits, false))
        own->upset.again_ns = notice->now_ns;
    else if (notice->type == TARRY_TCP_SIGNAL)
        sem_post(&own->upset.signalled);
    else if (notice->type == TARRY_TCP_LEFT_OUT && notice->worker == last_worker(own))
        own->upset.known_ns = notice->now_ns;
}

static int serve(site *own, tarry_diagnostic *why)
{
    const bench_step_settings *settings = own->settings;
    char name[ADDRESS_BYTES]; /* as that of `tarry train --processes`: in no folder */
    snprintf(name, sizeof(name), "unix:@tarry-bench-%ld", (long)getpid());
    const char *const listen[] = {settings->share ? name : "127.0.0.1:0"};
    tarry_settings all;
    int error = plan(own, &all, why);
    if (error != TARRY_OK)
        return error;
    tarry_tcp_server_settings with;
    tarry_tcp_server_settings_init(&with);
    with.server = all.server;
    with.server.silence_ns = (uint64_t)(settings->silence * NS_PER_S);
    with.listen = listen;
    with.listen_count = 1;
    with.parameters = with.dimension = settings->dimension;
    with.security = bench_cluster_server(settings->cluster);
    with.observe = observe;
    with.observe_user = own;
    error = tarry_tcp_server_create(own->plan, &with, NULL, &own->server, why);
    if (error != TARRY_OK)
        return error;
    const char *address = tarry_runtime_address(own->server, 0);
    memcpy(own->shared->address, address, strlen(address) + 1);
    own->absent = settings->upset == BENCH_UPSET_JOIN;
    for (uint32_t i = 0; i + own->absent < settings->workers; i++)
        sem_post(&own->shared->goes);
    return tarry_runtime_wait(own->server, settings->workers - own->absent, PATIENCE_NS, why);
}

/* Of the gradients' time, or of the sum's. */
static void *upset_last(void *user)
{
    site *own = user;
    const bench_step_settings *settings = own->settings;
    pid_t process = own->processes[last_worker(own)];
    bool kills = settings->upset == BENCH_UPSET_KILL;
    while (kills && sem_wait(&own->upset.signalled) != 0)
        ;
    uint64_t whole_ns = kills ? own->added_ns : (uint64_t)(settings->seconds * NS_PER_S);
    const struct timespec half = clock_timespec(whole_ns / 2);
    nanosleep(&half, NULL);
    own->upset.at_ns = clock_now_ns();
    if (settings->upset == BENCH_UPSET_JOIN)
        sem_post(&own->shared->joins);
    else
        kill(process, kills ? SIGKILL : SIGSTOP);
    return NULL;
}

static int begin_upset(site *own, tarry_diagnostic *why)
{
    own->upset.awaits = own->settings->upset == BENCH_UPSET_KILL;
    if (pthread_create(&own->upset.thread, NULL, upset_last, own) != 0)
        return diagnose(why, TARRY_ERROR_SYSTEM, "no thread");
    own->absent = true;
    return TARRY_OK;
}

/* A round that fails may never have come to a sum. */
static void end_upset(site *own)
{
    if (atomic_exchange(&own->upset.awaits, false))
        sem_post(&own->upset.signalled);
    pthread_join(own->upset.thread, NULL);
}

static bool have_stepped(const site *own)
{
    for (uint32_t i = 0; i + own->absent < own->settings->workers; i++)
        if (own->shared->workers[i].steps < own->steps)
            return false;
    return true;
}

/* Workers say themselves when they stepped: how often this looks moves no figure. */
static int await_steps(const site *own, tarry_diagnostic *why)
{
    const struct timespec pause = clock_timespec(LOOK_NS);
    uint64_t until = clock_from_now(PATIENCE_NS);
    while (!have_stepped(own)) {
        if (clock_now_ns() > until)
            return diagnose(why, TARRY_ERROR_SYSTEM, "not all workers have stepped");
        nanosleep(&pause, NULL);
    }
    return TARRY_OK;
}

static void note(const site *own, uint64_t begin_ns, double *seconds, double *added)
{
    uint64_t last = 0, ready = 0;
    for (uint32_t i = 0; i + own->absent < own->settings->workers; i++) {
        const worker_area *one = &own->shared->workers[i];
        last = one->stepped_ns > last ? one->stepped_ns : last;
        ready = one->before_ns > ready ? one->before_ns : ready;
    }
    *seconds = (double)(last - begin_ns) / NS_PER_S;
    *added = (double)(last - ready) / NS_PER_S;
}

static double seconds_since(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / NS_PER_S : 0;
}

/* After the round of a kill, or of who joined. */
static void note_upset(const site *own, bench_step_upset *upset)
{
    uint64_t at_ns = own->upset.at_ns, stepped_ns = 0;
    const worker_area *last = &own->shared->workers[last_worker(own)];
    for (uint32_t i = 0; i < last_worker(own); i++)
        if (own->shared->workers[i].stepped_ns > stepped_ns)
            stepped_ns = own->shared->workers[i].stepped_ns;
    if (own->settings->upset == BENCH_UPSET_KILL) {
        upset->known = seconds_since(at_ns, own->upset.known_ns);
        upset->again = seconds_since(at_ns, own->upset.again_ns);
        upset->repaired = seconds_since(at_ns, stepped_ns);
    } else if (upset->first > 0) {
        upset->loaded = seconds_since(at_ns, last->loaded_ns);
        upset->joined = seconds_since(at_ns, last->stepped_ns);
    }
}

static int run_round(site *own, uint32_t number, bench_step_row *row, tarry_diagnostic *why)
{
    tarry_round_result result;
    double unused[2];
    bool counts = number > WARM;
    bool upsets = counts && number - WARM == own->settings->upset_at;
    uint64_t begin_ns = clock_now_ns();
    int error = upsets ? begin_upset(own, why) : TARRY_OK;
    if (error != TARRY_OK)
        return error;
    error = tarry_runtime_round(own->server, NULL, NULL, &result, why);
    if (upsets)
        end_upset(own);
    if (error != TARRY_OK)
        return error;
    own->steps = result.sum.step;
    row->all_good = row->all_good && result.exact;
    if (upsets) {
        row->upset.attempts = result.attempts;
        row->upset.computed = result.copies_computed;
    }
    bool joined = own->settings->upset == BENCH_UPSET_JOIN && own->absent && counts &&
                  result.voters == own->settings->workers;
    if (joined) {
        row->upset.first = number - WARM;
        own->absent = false;
    }
    error = await_steps(own, why);
    double *added = counts ? &row->added[number - WARM - 1] : &unused[1];
    note(own, begin_ns, counts ? &row->seconds[number - WARM - 1] : &unused[0], added);
    uint64_t added_ns = (uint64_t)(*added * NS_PER_S);
    own->added_ns = number == 1 || added_ns < own->added_ns ? added_ns : own->added_ns;
    if (upsets || joined)
        note_upset(own, &row->upset);
    return error;
}

static double busy_of_all(const site *own)
{
    double busy = 0;
    for (uint32_t i = 0; i + 1 < own->settings->workers; i++)
        busy += own->shared->workers[i].busy;
    return own->settings->workers > 1 ? busy / (own->settings->workers - 1) : 0;
}

/* Of a worker's state, to the server: as one that joins gets it. */
static int time_copy(const site *own, double *seconds, tarry_diagnostic *why)
{
    tarry_sum_id after;
    void *bytes;
    uint64_t size, begin_ns = clock_now_ns();
    int error = tarry_runtime_state(own->server, PATIENCE_NS, &after, &bytes, &size, why);
    *seconds = seconds_since(begin_ns, clock_now_ns());
    if (error == TARRY_OK)
        tarry_runtime_release_state(own->server, bytes);
    return error;
}

static int run_rounds(site *own, bench_step_row *row, tarry_diagnostic *why)
{
    int error = TARRY_OK;
    uint64_t begun = 0;
    double busy = 0;
    row->all_good = true;
    row->upset = (bench_step_upset){.first = 0};
    for (uint32_t number = 1; error == TARRY_OK && number <= WARM + own->settings->times;
         number++) {
        error = run_round(own, number, row, why);
        if (number == WARM) {
            begun = clock_now_ns();
            busy = busy_of_all(own);
        }
    }
    row->busy = (busy_of_all(own) - busy) / seconds_since(begun, clock_now_ns());
    if (error == TARRY_OK && own->settings->upset == BENCH_UPSET_JOIN)
        error = time_copy(own, &row->upset.alone, why);
    for (uint32_t i = 0; i < own->settings->workers; i++)
        row->all_good = row->all_good && !own->shared->workers[i].wrong;
    return error;
}

/* Processes that are not told that the run is over are ended. */
static void end(site *own, bool good)
{
    tarry_runtime_free(own->server, true);
    for (uint32_t i = 0; i < own->started; i++) {
        if (!good || (own->absent && i + 1 == own->started))
            kill(own->processes[i], SIGKILL);
        waitpid(own->processes[i], NULL, 0);
    }
    tarry_plan_free(own->plan);
    sem_destroy(&own->upset.signalled);
    sem_destroy(&own->shared->goes);
    sem_destroy(&own->shared->joins);
    munmap(own->shared, sizeof(*own->shared));
}

int bench_step_run(const bench_step_settings *settings, bench_step_row *row,
                   tarry_diagnostic *diagnostic)
{
    area *shared =
        mmap(NULL, sizeof(area), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return diagnose_no_memory(diagnostic, "workers");
    site own = {.settings = settings, .shared = shared};
    sem_init(&shared->goes, 1, 0);
    sem_init(&shared->joins, 1, 0);
    sem_init(&own.upset.signalled, 0, 0);
    while (own.started < settings->workers) {
        pid_t process = fork();
        if (process == 0)
            be_worker(settings, shared, own.started);
        if (process < 0)
            break;
        own.processes[own.started++] = process;
    }
    int error = own.started == settings->workers
                    ? serve(&own, diagnostic)
                    : diagnose(diagnostic, TARRY_ERROR_SYSTEM, "a process can't be started");
    if (error == TARRY_OK)
        error = run_rounds(&own, row, diagnostic);
    end(&own, error == TARRY_OK);
    return error;
}
