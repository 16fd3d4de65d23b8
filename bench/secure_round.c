/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What secure sums cost: rounds of a server and its workers over TLS, plain ones and secure ones
 * in turn, all in one process: `tarry-secure-round [DIMENSION [WORKERS [ROUNDS [BITS [COPIES]]]]]`,
 * 1e7 8 5 32 1 by default. There are as many chunks as workers. With one copy of each chunk
 * functions do nothing.
 *
 * A secure round has to make a mask for each pair of workers twice, to hash the parameters at each
 * worker, and to read each chunk's gradient once and write it as whole numbers. What it takes of
 * processors beyond a plain one is held against that, at the rates of AES-128, SHA-256 and memcpy
 * that are measured in between, and what it takes of time against that over the processors.
 * Medians; of pairs of rounds that follow each other where it is about what is added. A worker that
 * is left out as late shows as another attempt.
 */
#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tarry/tcp.h>

#include "base/digest.h"
#include "base/memory.h"
#include "pki/authority.h"
#include "privacy/secure/ring.h"
#include "runtime/clock.h"

#define WAIT_NS UINT64_C(60000000000)
#define SILENCE_NS UINT64_C(600000000000)
#define BOUND 1000.0

enum { WARM_UP = 1, ROUNDS_MOST = 100, WORKERS_MOST = 64, PATH = 200, PIECE = 8192 };

typedef struct bench {
    size_t dimension;
    uint32_t workers, rounds, bits, copies;
    char folder[64];
    float *parameters, *sum;
    _Atomic bool written; /* gradients are there already */
} bench;

typedef struct worker {
    tarry_tcp_worker *worker;
    pthread_t thread;
    int error;
    tarry_diagnostic why;
} worker;

/* A server and its workers; private or not. */
typedef struct way {
    bench *own;
    bool secure;
    tarry_plan *plan;
    tarry_runtime *server;
    worker workers[WORKERS_MOST];
    double seconds[ROUNDS_MOST], processor[ROUNDS_MOST];
    uint32_t attempts, late; /* of all rounds but those to warm up */
    uint64_t upload_bytes, control_bytes, control_messages;
} way;

/* Seconds that the machine takes for a vector of the dimension's numbers. */
typedef struct rates {
    double aes[ROUNDS_MOST], hash[ROUNDS_MOST], copy[ROUNDS_MOST];
} rates;

static _Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "tarry-secure-round: %s: %s\n", what, why);
    exit(1);
}

static double now_seconds(void)
{
    return (double)clock_now_ns() * 1e-9;
}

static double processor_seconds(void)
{
    struct timespec taken = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &taken);
    return (double)taken.tv_sec + (double)taken.tv_nsec * 1e-9;
}

static int compare(const void *one, const void *other)
{
    const double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* ---- a server and workers ---- */

static int compute(void *user, const tarry_task *task)
{
    const bench *own = user;
    /* With one chunk a worker's gradient has one place. */
    if (!atomic_load(&own->written) || own->copies > 1)
        for (size_t i = 0; i < task->dimension; i++)
            task->gradient[i] = (float)(task->chunk + 1);
    return 0;
}

static void *work(void *argument)
{
    worker *its = argument;
    its->error = tarry_tcp_worker_run(its->worker, &its->why);
    return NULL;
}

static void start_worker(way *its, uint32_t index)
{
    char credentials[PATH];
    tarry_diagnostic why;
    tarry_tcp_worker_settings settings;
    tarry_tcp_worker_settings_init(&settings);
    snprintf(credentials, sizeof(credentials), "%s/keys/worker-%u", its->own->folder, index);
    settings.connect = tarry_runtime_address(its->server, 0);
    settings.security.credentials = credentials;
    settings.worker = index;
    settings.compute = compute;
    settings.user = its->own;
    settings.secure.required = its->secure;
    worker *made = &its->workers[index];
    if (tarry_tcp_worker_create(&settings, NULL, &made->worker, &why) != TARRY_OK)
        die("a worker", why.text);
    if (pthread_create(&made->thread, NULL, work, made) != 0)
        die("a worker", "there is no thread for it");
}

static tarry_secure_rules rules_of(const bench *own)
{
    ring grid;
    if (!ring_choose(own->bits, BOUND, own->workers, &grid))
        die("the grid", "there is none");
    return (tarry_secure_rules){.bits = own->bits,
                                .fraction = grid.fraction,
                                .bound = grid.bound,
                                .colluders = 1,
                                .least = 1};
}

static void open_way(way *its, bench *own, bool secure)
{
    static const char *const listen = "127.0.0.1:0";
    char credentials[PATH];
    tarry_diagnostic why;
    tarry_plan_settings plan;
    tarry_tcp_server_settings settings;
    *its = (way){.own = own, .secure = secure};
    tarry_plan_settings_init(&plan);
    plan.workers = plan.chunks = own->workers;
    plan.replication = own->copies;
    if (tarry_plan_create(&plan, NULL, &its->plan, &why) != TARRY_OK)
        die("the plan", why.text);
    tarry_tcp_server_settings_init(&settings);
    snprintf(credentials, sizeof(credentials), "%s/keys/server", own->folder);
    settings.listen = &listen;
    settings.listen_count = 1;
    settings.security.credentials = credentials;
    settings.parameters = settings.dimension = own->dimension;
    settings.server.keep = TARRY_KEEP_CREDITED;
    settings.server.silence_ns = SILENCE_NS;
    if (secure) {
        settings.secure = rules_of(own);
        settings.server.secure = own->bits;
    }
    if (tarry_tcp_server_create(its->plan, &settings, NULL, &its->server, &why) != TARRY_OK)
        die("the server", why.text);
    for (uint32_t i = 0; i < own->workers; i++)
        start_worker(its, i);
    if (tarry_runtime_wait(its->server, own->workers, WAIT_NS, &why) != TARRY_OK)
        die("the server", why.text);
}

static void close_way(way *its)
{
    tarry_runtime_free(its->server, true);
    for (uint32_t i = 0; i < its->own->workers; i++) {
        pthread_join(its->workers[i].thread, NULL);
        if (its->workers[i].error != TARRY_OK)
            die("a worker", its->workers[i].why.text);
        tarry_tcp_worker_free(its->workers[i].worker);
    }
    tarry_plan_free(its->plan);
}

static void note_result(way *its, const tarry_round_result *result)
{
    its->attempts += result->attempts;
    its->late += result->workers_late;
    its->upload_bytes += result->upload_bytes;
    its->control_bytes += result->control_bytes;
    its->control_messages += result->control_messages;
}

static void run_round(way *its, double *seconds, double *processor)
{
    const bench *own = its->own;
    const float wanted = (float)own->workers * (float)(own->workers + 1) / 2;
    tarry_round_result result;
    tarry_diagnostic why;
    double taken = processor_seconds(), start = now_seconds();
    if (tarry_runtime_round(its->server, own->parameters, own->sum, &result, &why) != TARRY_OK)
        die("a round", why.text);
    *seconds = now_seconds() - start;
    *processor = processor_seconds() - taken;
    if (atomic_load(&own->written))
        note_result(its, &result);
    for (size_t i = 0; i < own->dimension; i += own->dimension / 1000 + 1)
        if (own->sum[i] != wanted)
            die("a round", "the sum is wrong");
}

/* ---- the machine: by this thread's processor time, so that others' work counts for less ---- */

static double thread_seconds(void)
{
    struct timespec taken = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &taken);
    return (double)taken.tv_sec + (double)taken.tv_nsec * 1e-9;
}

static double time_aes(const bench *own)
{
    static const uint8_t key[16] = {1}, block[16] = {2};
    static const uint8_t zeros[PIECE];
    static uint8_t bytes[PIECE];
    const size_t size = own->dimension * (own->bits / 8);
    EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
    int written;
    if (cipher == NULL || EVP_EncryptInit_ex2(cipher, EVP_aes_128_ctr(), key, block, NULL) != 1)
        die("AES", "no memory");
    double start = thread_seconds();
    for (size_t at = 0; at < size; at += PIECE)
        if (EVP_EncryptUpdate(cipher, bytes, &written, zeros,
                              (int)(size - at < PIECE ? size - at : PIECE)) != 1)
            die("AES", "it failed");
    double seconds = thread_seconds() - start;
    EVP_CIPHER_CTX_free(cipher);
    return seconds;
}

static double time_hash(const bench *own)
{
    uint8_t hash[32];
    double start = thread_seconds();
    if (digest_of_bytes((const uint8_t *)own->parameters, own->dimension * sizeof(float), hash) !=
        0)
        die("SHA-256", "no memory");
    return thread_seconds() - start;
}

static double time_copy(const bench *own)
{
    double start = thread_seconds();
    memcpy(own->sum, own->parameters, own->dimension * sizeof(float));
    return thread_seconds() - start;
}

/* ---- all of it ---- */

static void make_keys(bench *own)
{
    char place[PATH];
    authority_rostered listed;
    tarry_diagnostic why;
    snprintf(own->folder, sizeof(own->folder), "/tmp/tarry-secure-round-XXXXXX");
    if (mkdtemp(own->folder) == NULL)
        die(own->folder, "can't be made");
    snprintf(place, sizeof(place), "%s/keys", own->folder);
    if (authority_init(place, own->workers, (authority_hosts){0}, (int64_t)time(NULL), NULL,
                       &why) != TARRY_OK ||
        authority_roster(place, (int64_t)time(NULL), &listed, &why) != TARRY_OK)
        die("credentials", why.text);
}

static void measure(bench *own, way ways[2], rates *machine)
{
    double unused[2];
    for (uint32_t i = 0; i < WARM_UP; i++)
        for (uint32_t secure = 0; secure < 2; secure++)
            run_round(&ways[secure], &unused[0], &unused[1]);
    atomic_store(&own->written, true);
    for (uint32_t i = 0; i < own->rounds; i++) {
        for (uint32_t secure = 0; secure < 2; secure++)
            run_round(&ways[secure], &ways[secure].seconds[i], &ways[secure].processor[i]);
        machine->aes[i] = time_aes(own);
        machine->hash[i] = time_hash(own);
        machine->copy[i] = time_copy(own);
    }
}

static void report_way(const char *name, way *its)
{
    const bench *own = its->own;
    const double rounds = own->rounds;
    const double floats = (double)own->dimension * sizeof(float) * own->workers * rounds;
    printf(
        "%-8s %8.3f s, %8.3f s of processors; a round: %.2f attempts, %.2f late, %.1f messages of "
        "%.0f bytes, numbers of %.4f times their float32\n",
        name, median(its->seconds, own->rounds), median(its->processor, own->rounds),
        its->attempts / rounds, its->late / rounds, (double)its->control_messages / rounds,
        (double)its->control_bytes / rounds, (double)its->upload_bytes / floats);
}

static double median_added(const bench *own, const double *plain, const double *secure)
{
    double added[ROUNDS_MOST];
    for (uint32_t i = 0; i < own->rounds; i++)
        added[i] = secure[i] - plain[i];
    return median(added, own->rounds);
}

static void report(const bench *own, way ways[2], rates *machine)
{
    const uint32_t rounds = own->rounds, workers = own->workers;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const double processors = online < 1 ? 1 : online < workers ? (double)online : workers;
    double aes = median(machine->aes, rounds), hash = median(machine->hash, rounds);
    double copy = median(machine->copy, rounds);
    double needed = workers * ((workers - 1) * aes + hash + copy);
    double more = median_added(own, ways[0].processor, ways[1].processor);
    double longer = median_added(own, ways[0].seconds, ways[1].seconds);
    printf("%u workers, d = %zu, words of %u bits, medians of %u rounds:\n", workers,
           own->dimension, own->bits, rounds);
    report_way("plain", &ways[0]);
    report_way("secure", &ways[1]);
    printf("a vector: AES-128 %.2f ms, SHA-256 %.2f ms, copy %.2f ms\n", aes * 1e3, hash * 1e3,
           copy * 1e3);
    printf("added    %8.3f s of processors, needed %.3f s: %.2f times\n", more, needed,
           more / needed);
    printf("added    %8.3f s, needed %.3f s on %.0f processors: %.2f times\n", longer,
           needed / processors, processors, longer * processors / needed);
}

static unsigned long argument(int argc, char **argv, int index, unsigned long usual,
                              unsigned long most)
{
    char *end = NULL;
    double value = argc > index ? strtod(argv[index], &end) : (double)usual;
    if (argc > index && (*end != '\0' || !(value >= 1 && value <= (double)most)))
        die(argv[index], "is out of range");
    return (unsigned long)value;
}

int main(int argc, char **argv)
{
    static way ways[2];
    static rates machine;
    bench own = {
        .dimension = argument(argc, argv, 1, 10000000, 1000000000),
        .workers = (uint32_t)argument(argc, argv, 2, 8, WORKERS_MOST),
        .rounds = (uint32_t)argument(argc, argv, 3, 5, ROUNDS_MOST),
        .bits = argument(argc, argv, 4, 32, 64) == 64 ? 64 : 32,
        .copies = (uint32_t)argument(argc, argv, 5, 1, WORKERS_MOST),
    };
    own.parameters = vector_allocate(NULL, own.dimension);
    own.sum = vector_allocate(NULL, own.dimension);
    if (own.parameters == NULL || own.sum == NULL)
        die("vectors", "no memory");
    make_keys(&own);
    for (uint32_t secure = 0; secure < 2; secure++)
        open_way(&ways[secure], &own, secure == 1);
    measure(&own, ways, &machine);
    for (uint32_t secure = 0; secure < 2; secure++)
        close_way(&ways[secure]);
    authority_remove(own.folder);
    report(&own, ways, &machine);
    vector_release(NULL, own.sum);
    vector_release(NULL, own.parameters);
    return 0;
}
