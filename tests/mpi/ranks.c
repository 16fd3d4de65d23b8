/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run of ranks that check themselves, for test_ranks.py: least squares by gradient descent. Each
 * rank that comes to the end compares what it has with the same steps worked out alone.
 *
 *     ranks NAME=VALUE...
 *
 * steps, dimension, chunks, replication, silence (ms), sleep (ms per chunk), level (of threads,
 * that MPI is asked for: an MPI_THREAD_*'s number), slow (a rank that takes 10 times as long), stop
 * (a rank that stops itself at step 2; whoever runs this lets it go on), after (of the blocks
 * behind step 2, at which it stops instead), deaths and seed (so many ranks, never 0, kill
 * themselves at moments that the seed says), lose (a rank whose replica fails at step 3), head (the
 * step at which rank 0 kills itself), sever (a rank whose sums reach the next one no more from step
 * 2 on), patience (ms), up and down (the forms of numbers on these ways: a tarry_compress).
 */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tarry/mpi.h>
#include <tarry/tcp.h>

#include "mpi/sum_engine.h"

typedef struct ranks_options {
    long steps, dimension, chunks, replication, silence, sleep, slow, stop, after, deaths, seed,
        lose, head, sever, patience, up, down, level;
} ranks_options;

typedef struct own_state {
    uint64_t steps;
    float *numbers;
} own_state;

static ranks_options options = {.steps = 6,
                                .dimension = 1000,
                                .chunks = 8,
                                .replication = 2,
                                .silence = 2000,
                                .slow = -1,
                                .stop = -1,
                                .lose = -1,
                                .sever = -1,
                                .level = -1};
static int rank, ranks;
static uint64_t block_bytes; /* of sums, that this rank has sent over MPI */
enum { MOST_STEPS = 500, ADDRESS_SIZE = 64 };

/* ---- moments at which ranks die ---- */

/* Of a rank: it dies at the `left`-th of these moments of the step, once it has come there. */
typedef enum moment {
    AT_COMPUTE,
    AT_PUT, /* of a block */
    AT_STEP,
    AT_TAKE, /* of a block that came */
    AT_TURN, /* of the engine's thread */
    MOMENTS,
} moment;

static moment planned;
static uint64_t planned_step = UINT64_MAX;
static atomic_long left;
static _Atomic uint64_t stepped;

static void pass(moment at)
{
    if (at == planned && stepped >= planned_step && atomic_fetch_sub(&left, 1) == 1)
        kill(getpid(), SIGKILL);
}

static void stop(void)
{
    printf("rank %d stops: %d\n", rank, (int)getpid());
    fflush(stdout);
    kill(getpid(), SIGSTOP);
}

/* A block came to the rank that stops behind so many of them. */
static void pass_block(void)
{
    static long taken;
    if (rank == options.stop && stepped >= 2 && ++taken == options.after)
        stop();
}

void __real_post_put(post *self, uint32_t to, uint64_t group, post_block *block);
void __wrap_post_put(post *self, uint32_t to, uint64_t group, post_block *block);
void __wrap_post_put(post *self, uint32_t to, uint64_t group, post_block *block)
{
    pass(AT_PUT);
    __real_post_put(self, to, group, block);
}

bool __real_sum_engine_turn(tarry_engine *engine);
bool __wrap_sum_engine_turn(tarry_engine *engine);
bool __wrap_sum_engine_turn(tarry_engine *engine)
{
    pass(AT_TURN);
    return __real_sum_engine_turn(engine);
}

void __real_sum_engine_take(tarry_engine *engine, uint32_t from, post_block *block);
void __wrap_sum_engine_take(tarry_engine *engine, uint32_t from, post_block *block);
void __wrap_sum_engine_take(tarry_engine *engine, uint32_t from, post_block *block)
{
    pass(AT_TAKE);
    __real_sum_engine_take(engine, from, block);
    pass_block();
}

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Deaths begin two steps one after the other; the last ranks die. */
static void plan_death(void)
{
    static const long most[MOMENTS] = {3, 30, 1, 30, 60};
    long number = ranks - 1 - rank;
    if (rank == 0 || number >= options.deaths)
        return;
    uint64_t draw = mix((uint64_t)options.seed * 1000 + (uint64_t)rank);
    planned = (moment)(draw % MOMENTS);
    left = 1 + (long)(mix(draw) % (uint64_t)most[planned]);
    planned_step = 1 + 2 * (uint64_t)number;
}

/* ---- what MPI can't send any more ---- */

int MPI_Isend(const void *bytes, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    if (rank == options.sever && to == rank + 1 && stepped >= 2)
        return MPI_ERR_OTHER;
    block_bytes += (uint64_t)count;
    return PMPI_Isend(bytes, count, type, to, tag, comm, request);
}

/* ---- the job ---- */

static void nap(long milliseconds)
{
    const struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

/* Chunk c pulls coordinate i to (c + i) mod 7, with a strength of its own. */
static void add_gradient(uint32_t chunk, const float *parameters, float *sum)
{
    for (long i = 0; i < options.dimension; i++)
        sum[i] += (float)(chunk % 3 + 1) * (parameters[i] - (float)((chunk + i) % 7));
}

static int compute(void *user, const tarry_task *task)
{
    (void)user;
    pass(AT_COMPUTE);
    nap(rank == options.slow ? 10 * options.sleep : options.sleep);
    memset(task->gradient, 0, task->dimension * sizeof(float));
    for (uint32_t i = 0; i < task->span_count; i++)
        add_gradient(task->spans[i].origin, task->parameters, task->gradient);
    return 0;
}

static void descend(float *numbers, const float *sum)
{
    for (long i = 0; i < options.dimension; i++)
        numbers[i] -= 0.3F / (float)options.chunks * sum[i];
}

static int step(void *user, uint64_t number, const float *sum)
{
    own_state *own = user;
    if (number != own->steps + 1 || (rank == options.lose && number == 3))
        return TARRY_ERROR_NUMERICAL;
    descend(own->numbers, sum);
    own->steps = number;
    stepped = number;
    pass(AT_STEP);
    if (rank == 0 && number == (uint64_t)options.head)
        kill(getpid(), SIGKILL);
    if (rank == options.stop && number == 2 && options.after == 0)
        stop();
    return TARRY_OK;
}

static int parameters(void *user, float *into)
{
    memcpy(into, ((own_state *)user)->numbers, (size_t)options.dimension * sizeof(float));
    return TARRY_OK;
}

static uint64_t state_size(void *user)
{
    (void)user;
    return sizeof(uint64_t) + (size_t)options.dimension * sizeof(float);
}

static int save(void *user, uint64_t first, void *bytes, size_t size)
{
    const own_state *own = user;
    if (first != 0 || size != state_size(user))
        return TARRY_ERROR_ARGUMENT;
    memcpy(bytes, &own->steps, sizeof(own->steps));
    memcpy((char *)bytes + sizeof(own->steps), own->numbers, size - sizeof(own->steps));
    return TARRY_OK;
}

static int load(void *user, uint64_t total, uint64_t first, const void *bytes, size_t size)
{
    own_state *own = user;
    if (first != 0 || size != total || total != state_size(user))
        return TARRY_ERROR_FORMAT;
    memcpy(&own->steps, bytes, sizeof(own->steps));
    memcpy(own->numbers, (const char *)bytes + sizeof(own->steps), size - sizeof(own->steps));
    stepped = own->steps;
    printf("rank %d loads step %llu\n", rank, (unsigned long long)own->steps);
    return TARRY_OK;
}

/* Whether the rank has what the same steps come to alone. */
static bool is_right(const own_state *own)
{
    size_t d = (size_t)options.dimension;
    float *numbers = calloc(d, sizeof(float)), *sum = calloc(d, sizeof(float));
    double worst = 0;
    for (uint64_t number = 0; number < own->steps; number++) {
        memset(sum, 0, d * sizeof(float));
        for (long chunk = 0; chunk < options.chunks; chunk++)
            add_gradient((uint32_t)chunk, numbers, sum);
        descend(numbers, sum);
    }
    for (size_t i = 0; i < d; i++)
        worst = fmax(worst, fabs((double)numbers[i] - own->numbers[i]));
    free(sum);
    free(numbers);
    if (options.up == TARRY_COMPRESS_NONE && options.down == TARRY_COMPRESS_NONE)
        return worst < 1e-4;
    printf("rank %d: off by %.3g\n", rank, worst);
    return worst > 1e-4 && worst < 0.2; /* a rounding of int8 takes a step up to 0.03 away */
}

/* ---- the run ---- */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Whether some of those who are to die have not. */
static bool still_die(tarry_runtime *runtime)
{
    for (long number = 0; number < options.deaths; number++)
        if (tarry_runtime_worker(runtime, (uint32_t)(ranks - 1 - number)).present)
            return true;
    return false;
}

static int run_rounds(tarry_runtime *runtime)
{
    tarry_diagnostic why = {""};
    if (tarry_runtime_wait(runtime, (uint32_t)ranks, UINT64_C(60000000000), &why) != TARRY_OK) {
        printf("%s\n", why.text);
        return 1;
    }
    for (long number = 1; number <= options.steps || (still_die(runtime) && number < MOST_STEPS);
         number++) {
        tarry_round_result result;
        double start = seconds();
        if (tarry_runtime_round(runtime, NULL, NULL, &result, &why) != TARRY_OK) {
            printf("step %ld: %s\n", number, why.text);
            return 1;
        }
        printf("step %ld: exact %d, attempts %u, %.3f s\n", number, result.exact, result.attempts,
               seconds() - start);
        if (!result.exact || result.sum.step != (uint64_t)number)
            return 1;
    }
    if (options.deaths == 0 && options.lose < 0)
        return 0;
    tarry_sum_id after;
    void *bytes;
    uint64_t size;
    if (tarry_runtime_state(runtime, UINT64_C(30000000000), &after, &bytes, &size, &why) !=
        TARRY_OK) {
        printf("no state: %s\n", why.text);
        return 1;
    }
    printf("state after step %llu: %llu bytes\n", (unsigned long long)after.step,
           (unsigned long long)size);
    tarry_runtime_release_state(runtime, bytes);
    return 0;
}

static void read_options(int count, char **words)
{
    const struct {
        const char *name;
        long *value;
    } numbers[] = {{"steps", &options.steps},       {"dimension", &options.dimension},
                   {"chunks", &options.chunks},     {"replication", &options.replication},
                   {"silence", &options.silence},   {"sleep", &options.sleep},
                   {"slow", &options.slow},         {"stop", &options.stop},
                   {"after", &options.after},       {"deaths", &options.deaths},
                   {"seed", &options.seed},         {"lose", &options.lose},
                   {"head", &options.head},         {"sever", &options.sever},
                   {"patience", &options.patience}, {"up", &options.up},
                   {"down", &options.down},         {"level", &options.level}};
    for (int i = 1; i < count; i++) {
        size_t length = strcspn(words[i], "=");
        const char *value = words[i] + length + (words[i][length] != '\0');
        for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++)
            if (strlen(numbers[k].name) == length &&
                strncmp(words[i], numbers[k].name, length) == 0)
                *numbers[k].value = atol(value);
    }
}

static tarry_plan *make_plan(void)
{
    tarry_plan *plan;
    tarry_plan_settings wanted;
    tarry_plan_settings_init(&wanted);
    wanted.workers = (uint32_t)ranks;
    wanted.chunks = (uint32_t)options.chunks;
    wanted.replication = (uint32_t)options.replication;
    return tarry_plan_create(&wanted, NULL, &plan, NULL) == TARRY_OK ? plan : NULL;
}

/* Processor time of this process so far. */
static double processor_seconds(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

static int begin(void *user, tarry_tcp_worker *worker, const tarry_tcp_job *job,
                 uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    const tarry_replica replica = {user, step, parameters, state_size, save, load};
    (void)job;
    (void)data;
    (void)diagnostic;
    tarry_tcp_worker_replica(worker, &replica, NULL);
    return TARRY_OK;
}

static int coordinate(const tarry_plan *plan, tarry_runtime **out, char address[ADDRESS_SIZE],
                      tarry_diagnostic *why)
{
    const char *listen[] = {"127.0.0.1:0"};
    tarry_tcp_server_settings settings;
    tarry_tcp_server_settings_init(&settings);
    settings.listen = listen;
    settings.listen_count = 1;
    settings.security.insecure = true;
    settings.parameters = settings.dimension = (size_t)options.dimension;
    settings.server.sum = TARRY_SUM_EVERYWHERE;
    settings.server.silence_ns = (uint64_t)options.silence * 1000000;
    settings.server.pick = TARRY_PICK_SHARE;
    settings.server.compress = (tarry_compress)options.up;
    settings.server.compress_down = (tarry_compress)options.down;
    int error = tarry_tcp_server_create(plan, &settings, NULL, out, why);
    if (error == TARRY_OK)
        snprintf(address, ADDRESS_SIZE, "%s", tarry_runtime_address(*out, 0));
    return error;
}

static int make_worker(own_state *own, const char *address, tarry_engine *engine,
                       tarry_tcp_worker **out, tarry_diagnostic *why)
{
    tarry_tcp_worker_settings settings;
    tarry_tcp_worker_settings_init(&settings);
    settings.connect = address;
    settings.security.insecure = true;
    settings.worker = (uint32_t)rank;
    settings.begin = begin;
    settings.compute = compute;
    settings.user = own;
    settings.engine = engine;
    if (options.patience > 0)
        settings.patience_ns = (uint64_t)options.patience * 1000000;
    return tarry_tcp_worker_create(&settings, NULL, out, why);
}

static int worker_error; /* that the worker ended with */

static void *work(void *worker)
{
    tarry_diagnostic why = {""};
    worker_error = tarry_tcp_worker_run(worker, &why);
    if (worker_error != TARRY_OK)
        printf("rank %d: %s\n", rank, why.text);
    return NULL;
}

/* Waits until those who are there have stepped on the last sum. */
static void settle(tarry_runtime *runtime)
{
    int error = TARRY_ERROR_STATE;
    for (int slice = 0; slice < 100 && error == TARRY_ERROR_STATE; slice++) {
        uint32_t present = 0;
        for (int worker = 0; worker < ranks; worker++)
            present += tarry_runtime_worker(runtime, (uint32_t)worker).present;
        error = tarry_runtime_wait(runtime, present, UINT64_C(100000000), NULL);
    }
}

/* Rank 0 has its worker in a thread. */
static int work_to_the_end(tarry_runtime *runtime, tarry_tcp_worker *worker)
{
    pthread_t thread;
    if (runtime == NULL) {
        work(worker);
        return worker_error != TARRY_OK;
    }
    if (pthread_create(&thread, NULL, work, worker) != 0)
        return 1;
    int failed = run_rounds(runtime);
    settle(runtime);
    tarry_runtime_free(runtime, true);
    pthread_join(thread, NULL);
    return failed;
}

static int run(own_state *own, const tarry_plan *plan, bool *whole)
{
    char address[ADDRESS_SIZE] = "";
    tarry_mpi *all = NULL;
    tarry_runtime *runtime = NULL;
    tarry_tcp_worker *worker = NULL;
    tarry_diagnostic why = {""};
    if (tarry_mpi_create(MPI_COMM_WORLD, &all, &why) != TARRY_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, why.text);
        return 1;
    }
    int error = rank == 0 ? coordinate(plan, &runtime, address, &why) : TARRY_OK;
    MPI_Bcast(address, sizeof(address), MPI_BYTE, 0, MPI_COMM_WORLD);
    if (error == TARRY_OK)
        error = make_worker(own, address, tarry_mpi_engine(all), &worker, &why);
    if (error != TARRY_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, why.text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    double start = seconds(), used = processor_seconds();
    int failed = work_to_the_end(runtime, worker);
    printf("rank %d: %.4f of a core\n", rank, (processor_seconds() - used) / (seconds() - start));
    printf("rank %d: sent %llu bytes of sums\n", rank, (unsigned long long)block_bytes);
    fflush(stdout);
    tarry_tcp_worker_free(worker);
    *whole = tarry_mpi_free(all, worker_error == TARRY_OK || worker_error == TARRY_ERROR_SYSTEM);
    return failed;
}

int main(int argc, char **argv)
{
    int level;
    bool whole = true;
    read_options(argc, argv);
    MPI_Init_thread(&argc, &argv, options.level < 0 ? MPI_THREAD_SERIALIZED : (int)options.level,
                    &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    plan_death();
    own_state own = {.numbers = calloc((size_t)options.dimension, sizeof(float))};
    tarry_plan *plan = make_plan();
    int status = plan == NULL || own.numbers == NULL || run(&own, plan, &whole);
    bool right = status == 0 && own.steps >= (uint64_t)options.steps && is_right(&own);
    printf("rank %d: %llu steps, %s\n", rank, (unsigned long long)own.steps,
           right ? "right" : "wrong");
    if (rank == 0)
        printf(whole ? "all ranks came to the end\n" : "some ranks are gone\n");
    tarry_plan_free(plan);
    free(own.numbers);
    if (!whole)
        tarry_mpi_exit(!right);
    MPI_Finalize();
    return !right;
}
