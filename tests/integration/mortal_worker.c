/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's side: its process, what it computes and steps, and the places that it passes. */
#include <arpa/inet.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tarry/tcp.h>

#include "coding/vector_digest.h"
#include "mortal.h"
#include "replica.h"
#include "runtime/tcp/mesh/mesh_state.h"
#include "runtime/worker/collective.h"

enum { MOST_FILES = 256 };

/* What it is: a process has one, and the functions that the linker wraps are given none. */
static struct {
    mortal_area *area;
    mortal_slot *own;
    uint32_t worker;
    replica_job job; /* its chunks and dimension */
    uint64_t *steps; /* the state: this, and behind it */
    float *state;    /* 2 d numbers */
    float *gradient; /* of a chunk */
    double *sum;     /* worked out serially */
} me;

/* ---- what happens ---- */

/* One of its connections by IP ends, whichever. */
static void cut(uint32_t draw)
{
    int found[MOST_FILES];
    uint32_t count = 0;
    for (int file = 3; file < MOST_FILES; file++) {
        struct sockaddr_storage peer;
        socklen_t size = sizeof(peer);
        if (getpeername(file, (struct sockaddr *)&peer, &size) == 0 && peer.ss_family == AF_INET)
            found[count++] = file;
    }
    if (count > 0)
        shutdown(found[draw % count], SHUT_RDWR);
}

static void pass(mortal_place place)
{
    mortal_slot *own = me.own;
    if (own == NULL)
        return; /* the test's own process */
    if (own->place != place || --own->passes != 0)
        return;
    mortal_fate fate = (mortal_fate)own->fate;
    own->place = MORTAL_NOWHERE;
    if (fate == MORTAL_CUT) {
        own->passes = 1;
        own->fate = MORTAL_DIES;
        own->place = own->next;
        own->cuts++;
        cut(own->draw);
        return;
    }
    if (!mortal_is_licensed(me.area))
        return;
    own->struck = place;
    kill(getpid(), fate == MORTAL_STOPS ? SIGSTOP : SIGKILL);
}

/* ---- places in the library ---- */

void __real_collective_reduce(collective *self, const collective_sum *sum);
void __wrap_collective_reduce(collective *self, const collective_sum *sum);
void __wrap_collective_reduce(collective *self, const collective_sum *sum)
{
    pass(MORTAL_ENCODED);
    __real_collective_reduce(self, sum);
}

channel_verdict __real_mesh_sum_begin(mesh_link *link, const wire_block *block, void **place);
channel_verdict __wrap_mesh_sum_begin(mesh_link *link, const wire_block *block, void **place);
channel_verdict __wrap_mesh_sum_begin(mesh_link *link, const wire_block *block, void **place)
{
    pass(block->kind == WIRE_BLOCK_SUM ? MORTAL_SUM : MORTAL_PART);
    return __real_mesh_sum_begin(link, block, place);
}

channel_verdict __real_mesh_exchange_begin(mesh_link *link, const wire_pass *piece, void **place);
channel_verdict __wrap_mesh_exchange_begin(mesh_link *link, const wire_pass *piece, void **place);
channel_verdict __wrap_mesh_exchange_begin(mesh_link *link, const wire_pass *piece, void **place)
{
    pass(link->mesh->request.asked.type == WIRE_PASS_ASK_SUM ? MORTAL_FETCHES : MORTAL_LOADS);
    return __real_mesh_exchange_begin(link, piece, place);
}

bool __real_mesh_exchange_take(mesh_link *link, const wire_pass *message);
bool __wrap_mesh_exchange_take(mesh_link *link, const wire_pass *message);
bool __wrap_mesh_exchange_take(mesh_link *link, const wire_pass *message)
{
    if (message->type == WIRE_PASS_ASK_SUM)
        pass(MORTAL_LENDS);
    return __real_mesh_exchange_take(link, message);
}

size_t __real_wire_encode(wire_kind kind, const void *body, uint8_t *frame);
size_t __wrap_wire_encode(wire_kind kind, const void *body, uint8_t *frame);
size_t __wrap_wire_encode(wire_kind kind, const void *body, uint8_t *frame)
{
    if (kind == WIRE_PASS && ((const wire_pass *)body)->type == WIRE_PASS_PIECE)
        pass(MORTAL_SENDS);
    return __real_wire_encode(kind, body, frame);
}

uint64_t __real_vector_digest(uint64_t step, const float *sum, size_t dimension);
uint64_t __wrap_vector_digest(uint64_t step, const float *sum, size_t dimension);
uint64_t __wrap_vector_digest(uint64_t step, const float *sum, size_t dimension)
{
    pass(MORTAL_SUMMED);
    return __real_vector_digest(step, sum, dimension);
}

uint64_t __real_vector_digester_end(const vector_digester *self);
uint64_t __wrap_vector_digester_end(const vector_digester *self);
uint64_t __wrap_vector_digester_end(const vector_digester *self)
{
    pass(MORTAL_SUMMED);
    return __real_vector_digester_end(self);
}

/* ---- what is held to be true ---- */

static void complain(const char *what, uint64_t step)
{
    if (!atomic_exchange(&me.area->complained, true))
        snprintf(me.area->complaint, sizeof(me.area->complaint), "worker %u, step %llu: %s",
                 me.worker, (unsigned long long)step, what);
}

/* All who come to a step have the same there. */
static void compare(_Atomic uint64_t *known, uint64_t digest, const char *what, uint64_t step)
{
    uint64_t none = 0;
    digest |= 1; /* never 0 */
    if (!atomic_compare_exchange_strong(known, &none, digest) && none != digest)
        complain(what, step);
}

static void compare_state(uint64_t step)
{
    if (step > 0)
        compare(&me.area->steps[step].state,
                __real_vector_digest(step, me.state, 2 * me.job.dimension), "its state differs",
                step);
}

/* The sum of all chunks' gradients by the parameters that it has, one after the other. */
static void check_sum(uint64_t step, const float *sum)
{
    size_t d = me.job.dimension;
    double most = 0, scale = 0, reach = 0; /* reach: the largest that coded parts can have */
    memset(me.sum, 0, d * sizeof(*me.sum));
    for (uint32_t chunk = 0; chunk < me.job.chunks; chunk++) {
        const tarry_span span = {.origin = chunk, .count = 1, .of = 1};
        replica_compute(&me.job, &(tarry_task){.parameters = me.state,
                                               .spans = &span,
                                               .span_count = 1,
                                               .gradient = me.gradient,
                                               .dimension = d});
        double largest = 0;
        for (size_t i = 0; i < d; i++) {
            me.sum[i] += (double)me.gradient[i];
            largest = fmax(largest, fabs((double)me.gradient[i]));
        }
        reach += largest;
    }
    for (size_t i = 0; i < d; i++) {
        most = fmax(most, fabs(me.sum[i] - (double)sum[i]));
        scale = fmax(scale, fabs(me.sum[i]));
    }
    /* A chunk that is counted twice, or not at all, is a share of that. What is left of gradients
     * that cancel each other is not. */
    if (!(most <= 1e-5 * (scale + me.job.chunks) + me.area->rounding * reach))
        complain("the sum is wrong", step);
    compare(&me.area->steps[step].sum, __real_vector_digest(step, sum, d), "its sum differs", step);
}

/* ---- the replica ---- */

static int step(void *user, uint64_t number, const float *sum)
{
    pass(MORTAL_STEPS_NOW);
    if (number != *me.steps + 1 || number >= MORTAL_STEPS)
        complain("it is told another step than its next one", number);
    check_sum(number, sum);
    replica_descend(&me.job, me.state, sum);
    *me.steps = number;
    compare_state(number);
    me.own->step = number;
    pass(MORTAL_STEPPED);
    return TARRY_OK;
}

static int parameters(void *user, float *into)
{
    memcpy(into, me.state, me.job.dimension * sizeof(float));
    return TARRY_OK;
}

static uint64_t state_size(void *user)
{
    return sizeof(*me.steps) + 2 * me.job.dimension * sizeof(float);
}

static int save(void *user, uint64_t first, void *bytes, size_t size)
{
    pass(MORTAL_SAVES);
    memcpy(bytes, (const uint8_t *)me.steps + first, size);
    return TARRY_OK;
}

static int load(void *user, uint64_t total, uint64_t first, const void *bytes, size_t size)
{
    pass(MORTAL_LOADED);
    if (total != state_size(user))
        complain("a state has another size", *me.steps);
    memcpy((uint8_t *)me.steps + first, bytes, size);
    if (first + size == total) {
        compare_state(*me.steps);
        me.own->step = *me.steps;
    }
    return TARRY_OK;
}

static int begin_job(void *user, tarry_tcp_worker *worker, const tarry_tcp_job *job,
                     uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    static const tarry_replica replica = {
        .step = step,
        .parameters = parameters,
        .state_size = state_size,
        .save = save,
        .load = load,
    };
    pass(MORTAL_PREPARES);
    tarry_tcp_worker_replica(worker, &replica, NULL);
    return TARRY_OK;
}

static int compute(void *user, const tarry_task *task)
{
    pass(MORTAL_COMPUTES);
    return replica_compute(&me.job, task);
}

/* ---- the process ---- */

static void prepare(int file, uint32_t worker)
{
    me.area = mmap(NULL, sizeof(mortal_area), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (me.area == MAP_FAILED)
        _exit(3);
    close(file);
    size_t d = (size_t)me.area->dimension;
    me.worker = worker;
    me.job.dimension = d;
    me.job.chunks = me.area->chunks;
    me.steps = calloc(1, sizeof(*me.steps) + 2 * d * sizeof(float));
    me.gradient = calloc(d, sizeof(float));
    me.sum = calloc(d, sizeof(double));
    if (me.steps == NULL || me.gradient == NULL || me.sum == NULL)
        _exit(3);
    me.state = (float *)(me.steps + 1);
    me.own = &me.area->slots[worker];
}

static int run(void)
{
    char credentials[sizeof(me.area->folder) + 16];
    tarry_tcp_worker_settings settings;
    tarry_tcp_worker *worker;
    tarry_diagnostic why;
    tarry_tcp_worker_settings_init(&settings);
    settings.connect = me.area->address;
    settings.worker = me.worker;
    settings.begin = begin_job;
    settings.compute = compute;
    settings.share = me.area->shares;
    settings.security.insecure = !me.area->tls;
    snprintf(credentials, sizeof(credentials), "%s/worker-%u", me.area->folder, me.worker);
    if (me.area->tls)
        settings.security.credentials = credentials;
    int error = tarry_tcp_worker_create(&settings, NULL, &worker, &why);
    if (error == TARRY_OK)
        error = tarry_tcp_worker_run(worker, &why);
    if (error != TARRY_OK) {
        fprintf(stderr, "worker %u: %s\n", me.worker, why.text);
        return 1;
    }
    tarry_tcp_worker_free(worker);
    free(me.steps);
    free(me.gradient);
    free(me.sum);
    return 0;
}

void mortal_main(int count, char **arguments)
{
    if (count != 3 || strcmp(arguments[0], "mortal") != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prepare(atoi(arguments[1]), (uint32_t)atoi(arguments[2]));
    exit(run());
}
