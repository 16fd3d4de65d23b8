/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/ranks_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi/clock.h"
#include "mpi/ranks_create.h"
#include "mpi/sum_engine.h"

#define NAP_NS UINT64_C(1000000)      /* between two looks at MPI where nothing is expected, */
#define SUM_NAP_NS UINT64_C(100000)   /* and while a sum is made */
#define END_NS UINT64_C(5000000000)   /* for all ranks to come to the end, */
#define LAST_NS UINT64_C(1000000000)  /* and for what is said last, where some are dead */
#define ALIVE_NS UINT64_C(1000000000) /* between two signs of life of rank 0 */

/* ---- a worker's words ---- */

void ranks_hello(tarry_mpi *self)
{
    uint32_t connection = self->connection;
    post_put_bytes(self->post, 0, WORD_HELLO, &connection, sizeof(connection));
}

/* The connection is over; another one begins. */
static void connect_again(tarry_mpi *self)
{
    tarry_worker_host_cut(self->worker);
    self->connection++;
    ranks_hello(self);
}

void ranks_send_up(void *user, const void *frame, size_t size, const float *numbers, size_t count)
{
    tarry_mpi *self = user;
    uint32_t connection = self->connection;
    (void)numbers; /* of coded parts, which go to no server here */
    (void)count;
    post_block *block = post_block_make(sizeof(connection) + size);
    if (block != NULL) {
        memcpy(block->bytes, &connection, sizeof(connection));
        memcpy(block->bytes + sizeof(connection), frame, size);
    }
    post_put(self->post, 0, WORD_UP, block);
}

void ranks_pass(void *user, uint32_t to, const void *bytes, size_t size)
{
    tarry_mpi *self = user;
    const passed_head head = {self->rank, to};
    post_block *block = post_block_make(sizeof(head) + size);
    if (block != NULL) {
        memcpy(block->bytes, &head, sizeof(head));
        memcpy(block->bytes + sizeof(head), bytes, size);
    }
    post_put(self->post, to == TARRY_NO_WORKER ? 0 : to, WORD_PASSED, block);
}

/* The user's function, of whose user the worker's is not the same here. */
int ranks_compute(void *user, const tarry_task *task)
{
    const tarry_mpi *self = user;
    return self->compute(self->user, task);
}

void ranks_give_up(void *user)
{
    tarry_mpi *self = user;
    self->gave_up = true;
    post_wake(self->post);
}

void ranks_broken(void *user, int error)
{
    tarry_mpi *self = user;
    self->broken = error;
    post_wake(self->post);
}

/* ---- what comes ---- */

static void take_frame(tarry_mpi *self, const post_block *block)
{
    uint32_t connection;
    if (self->worker == NULL || block->size < sizeof(connection))
        return;
    memcpy(&connection, block->bytes, sizeof(connection));
    if (connection != self->connection)
        return;
    if (tarry_worker_host_deliver(self->worker, block->bytes + sizeof(connection),
                                  block->size - sizeof(connection), NULL, 0) != TARRY_OK)
        connect_again(self);
}

/* Who asks for something, and can't be answered, hears of that over rank 0. */
static void take_passed(tarry_mpi *self, uint32_t from, const post_block *block)
{
    passed_head head;
    if (self->worker == NULL || block->size < sizeof(head))
        return;
    if (!post_reaches(self->post, from))
        post_put_bytes(self->post, 0, WORD_CUT, &from, sizeof(from));
    memcpy(&head, block->bytes, sizeof(head));
    tarry_worker_host_passed(self->worker, head.from, block->bytes + sizeof(head),
                             block->size - sizeof(head));
}

static void take_number(tarry_mpi *self, word kind, const post_block *block)
{
    uint32_t number;
    if (self->worker == NULL || block->size < sizeof(number))
        return;
    memcpy(&number, block->bytes, sizeof(number));
    if (kind == WORD_LOST && number == self->connection && self->broken == TARRY_OK)
        connect_again(self);
    if (kind == WORD_GONE && number < self->ranks && number != self->rank) {
        tarry_worker_host_part(self->worker, number);
        post_drop(self->post, number, WORD_BLOCK);
    }
}

void ranks_take(void *user, uint32_t from, int tag, post_block *block)
{
    tarry_mpi *self = user;
    word kind = (word)tag;
    if (from == 0)
        self->heard_ns = clock_now_ns();
    if (ranks_server_take(self, from, kind, block))
        return;
    switch (kind) {
    case WORD_BLOCK:
        if (!self->shares && self->engine != NULL)
            sum_engine_take(self->engine, from, block);
        break;
    case WORD_DOWN:
        take_frame(self, block);
        break;
    case WORD_PASSED:
        take_passed(self, from, block);
        break;
    case WORD_LOST:
    case WORD_GONE:
        take_number(self, kind, block);
        break;
    case WORD_END:
        self->ended = true;
        self->whole = block->size > 0 && block->bytes[0] != 0;
        break;
    case WORD_UP:
    case WORD_HELLO:
    case WORD_LEFT:
    case WORD_CUT:
    case WORD_ALIVE:
        break;
    }
}

void ranks_unreachable(void *user, uint32_t rank)
{
    tarry_mpi *self = user;
    if (self->engine != NULL && !self->shares)
        sum_engine_lose(self->engine, rank);
    if (rank > 0)
        post_put_bytes(self->post, 0, WORD_CUT, &rank, sizeof(rank));
    if (self->runtime != NULL)
        ranks_server_give_up(self, rank);
}

/* ---- the loop ---- */

/* Whoever waits for rank 0 within a patience hears of it meanwhile. */
static void say_alive(tarry_mpi *self)
{
    uint64_t now = clock_now_ns();
    if (self->patience_ns == TARRY_NEVER || now - self->spoke_ns < ALIVE_NS)
        return;
    self->spoke_ns = now;
    for (uint32_t rank = 1; rank < self->ranks; rank++)
        post_put_bytes(self->post, rank, WORD_ALIVE, NULL, 0);
}

/* Tells rank 0 that the worker is there, whose threads may be too busy with numbers to answer the
 * server's probes. Returns when to say so again. */
static uint64_t sign_for_worker(tarry_mpi *self)
{
    uint64_t now = clock_now_ns();
    uint32_t connection = self->connection;
    if (self->worker == NULL || self->left || self->ended)
        return TARRY_NEVER;
    if (now - self->signed_ns >= self->sign_ns) {
        self->signed_ns = now;
        post_put_bytes(self->post, 0, WORD_ALIVE, &connection, sizeof(connection));
    }
    return self->signed_ns + self->sign_ns;
}

/* What the worker's threads have left to be done here. */
static void mind_worker(tarry_mpi *self)
{
    if (self->broken != TARRY_OK && !self->left) {
        uint32_t connection = self->connection;
        self->left = true;
        post_put_bytes(self->post, 0, WORD_LEFT, &connection, sizeof(connection));
    }
    if (atomic_exchange(&self->gave_up, false) && !self->left)
        connect_again(self);
}

void ranks_turn(tarry_mpi *self, uint64_t until_ns)
{
    uint64_t nap = NAP_NS;
    if (self->runtime != NULL)
        say_alive(self);
    mind_worker(self);
    uint64_t sign = sign_for_worker(self);
    until_ns = sign < until_ns ? sign : until_ns;
    if (self->engine != NULL && !self->shares && sum_engine_turn(self->engine))
        nap = SUM_NAP_NS;
    post_wait(self->post, until_ns, nap);
    if (self->engine != NULL && !self->shares)
        sum_engine_turn(self->engine);
}

/* ---- the public functions ---- */

tarry_runtime *tarry_mpi_runtime(const tarry_mpi *ranks)
{
    return ranks->runtime;
}

const char *tarry_mpi_engine(const tarry_mpi *ranks)
{
    return ranks->engine->methods->name;
}

static int say(tarry_diagnostic *diagnostic, int error, const char *text)
{
    if (diagnostic != NULL)
        snprintf(diagnostic->text, sizeof(diagnostic->text), "%s", text);
    return error;
}

int tarry_mpi_work(tarry_mpi *ranks, tarry_diagnostic *diagnostic)
{
    const uint64_t second = UINT64_C(1000000000);
    ranks->heard_ns = clock_now_ns();
    while (!ranks->ended) {
        uint64_t now = clock_now_ns();
        if (ranks->patience_ns != TARRY_NEVER && now - ranks->heard_ns > ranks->patience_ns)
            return say(diagnostic, TARRY_ERROR_STATE, "rank 0 has not been heard of any more");
        ranks_turn(ranks, ranks->patience_ns != TARRY_NEVER ? now + second : TARRY_NEVER);
    }
    int broken = ranks->broken;
    return broken == TARRY_OK ? TARRY_OK : say(diagnostic, broken, "its replica failed");
}

/* All that is said is gone, and all ranks are here; within a bounded time. False: they are not. */
static bool come_together(tarry_mpi *self)
{
    uint64_t until = clock_from_now(self->whole ? END_NS : LAST_NS);
    MPI_Request all;
    int here = 0;
    while (!post_is_clear(self->post) && clock_now_ns() < until)
        post_wait(self->post, until, SUM_NAP_NS);
    if (!self->whole || !post_is_clear(self->post) || MPI_Ibarrier(self->comm, &all) != MPI_SUCCESS)
        return false;
    while (MPI_Test(&all, &here, MPI_STATUS_IGNORE) == MPI_SUCCESS && !here &&
           clock_now_ns() < until)
        post_wait(self->post, clock_from_now(SUM_NAP_NS), SUM_NAP_NS);
    return here;
}

bool tarry_mpi_free(tarry_mpi *ranks, bool finished)
{
    if (ranks == NULL)
        return true;
    tarry_runtime *runtime = ranks->runtime;
    if (runtime != NULL && finished)
        ranks_server_settle(ranks);
    tarry_runtime_free(runtime, finished);
    ranks->runtime = NULL;
    uint64_t until = clock_from_now(END_NS);
    while (!ranks->ended && runtime != NULL && clock_now_ns() < until)
        ranks_turn(ranks, until); /* the own END comes back */
    tarry_worker_host_free(ranks->worker);
    ranks->worker = NULL;
    bool whole = come_together(ranks);
    ranks_release(ranks, whole);
    return whole;
}

_Noreturn void tarry_mpi_exit(int status)
{
    fflush(NULL);
    _exit(status);
}
