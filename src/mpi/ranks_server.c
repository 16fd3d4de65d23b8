/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 0's server. A worker's connection is a number: with each that the server gives up, or that
 * says that it can't go on, there is another one, and what was said on those before counts no more.
 */
#include <stdlib.h>
#include <string.h>

#include "mpi/clock.h"
#include "mpi/ranks_state.h"

#define SETTLE_NS UINT64_C(10000000000)
#define SLICE_NS UINT64_C(100000000)

/* ---- what goes out ---- */

static int send_frame(void *user, uint32_t worker, const void *frame, size_t size,
                      const float *numbers, size_t count)
{
    const tarry_mpi *self = user;
    const peer *to = &self->peers[worker];
    (void)numbers; /* of parameters, which workers have here */
    (void)count;
    post_block *block = post_block_make(sizeof(to->connection) + size);
    if (block == NULL)
        return -1;
    memcpy(block->bytes, &to->connection, sizeof(to->connection));
    memcpy(block->bytes + sizeof(to->connection), frame, size);
    post_put(self->post, worker, WORD_DOWN, block);
    return 0;
}

static void pass(void *user, uint32_t worker, const void *bytes, size_t size)
{
    const tarry_mpi *self = user;
    const passed_head head = {TARRY_NO_WORKER, worker};
    post_block *block = post_block_make(sizeof(head) + size);
    if (block != NULL) {
        memcpy(block->bytes, &head, sizeof(head));
        memcpy(block->bytes + sizeof(head), bytes, size);
    }
    post_put(self->post, worker, WORD_PASSED, block);
}

/* The others expect nothing of it any more, and what was summed with it is not sent. */
static void tell_gone(tarry_mpi *self, uint32_t rank)
{
    for (uint32_t other = 0; other < self->ranks; other++)
        if (other != rank)
            post_put_bytes(self->post, other, WORD_GONE, &rank, sizeof(rank));
}

/* The connection is over: its worker says hello on another one, if it is there. */
static void part(tarry_mpi *self, uint32_t rank)
{
    peer *of = &self->peers[rank];
    if (!of->joined)
        return;
    of->joined = false;
    post_put_bytes(self->post, rank, WORD_LOST, &of->connection, sizeof(of->connection));
    tell_gone(self, rank);
}

static void left_out(void *user, uint32_t worker, tarry_absence why)
{
    if (why == TARRY_ABSENT_SILENT || why == TARRY_ABSENT_GONE)
        part(user, worker);
}

static void wake(void *user)
{
    const tarry_mpi *self = user;
    post_wake(self->post);
}

static bool is_there(const peer *of)
{
    return (of->joined || of->left) && !of->unreachable;
}

static bool are_all_there(const tarry_mpi *self)
{
    bool all = true;
    for (uint32_t rank = 0; rank < self->ranks; rank++)
        all = all && is_there(&self->peers[rank]);
    return all;
}

static void end(void *user, bool finished)
{
    tarry_mpi *self = user;
    uint8_t whole = are_all_there(self);
    (void)finished;
    for (uint32_t rank = 0; rank < self->ranks; rank++)
        post_put_bytes(self->post, rank, WORD_END, &whole, sizeof(whole));
}

static uint32_t count_joined(const tarry_mpi *self)
{
    uint32_t joined = 0;
    for (uint32_t rank = 0; rank < self->ranks; rank++)
        joined += self->peers[rank].joined;
    return joined;
}

/* One that is behind may still load; one that is dead without the server's knowledge never is up to
 * date. */
void ranks_server_settle(tarry_mpi *self)
{
    uint64_t until = clock_from_now(SETTLE_NS);
    int error = TARRY_ERROR_STATE;
    while (error == TARRY_ERROR_STATE && clock_now_ns() < until) {
        uint64_t end = clock_from_now(SLICE_NS);
        error = tarry_runtime_wait(self->runtime, count_joined(self), SLICE_NS, NULL);
        if (clock_now_ns() < end)
            return; /* all are, or a checkpoint has to be stored before anybody is heard */
    }
}

/* ---- what comes in ---- */

static void receive(void *user, tarry_runtime *runtime, uint64_t until_ns)
{
    tarry_mpi *self = user;
    (void)runtime;
    ranks_turn(self, until_ns);
}

static void lose(tarry_mpi *self, uint32_t rank)
{
    if (!self->peers[rank].joined)
        return;
    tarry_host_lose(self->runtime, rank);
    part(self, rank);
}

void ranks_server_give_up(tarry_mpi *self, uint32_t rank)
{
    lose(self, rank);
    self->peers[rank].unreachable = true;
}

static void take_hello(tarry_mpi *self, uint32_t from, uint32_t connection)
{
    peer *of = &self->peers[from];
    if (of->unreachable || connection <= of->connection)
        return;
    lose(self, from);
    *of = (peer){.connection = connection, .joined = true};
    tarry_host_join(self->runtime, from);
}

static void take_left(tarry_mpi *self, uint32_t from, uint32_t connection)
{
    if (connection != self->peers[from].connection)
        return;
    lose(self, from);
    self->peers[from].left = true;
}

/* What the rank waits for can't come from there. */
static void take_cut(tarry_mpi *self, uint32_t from, const post_block *block)
{
    uint32_t rank;
    if (block->size < sizeof(rank))
        return;
    memcpy(&rank, block->bytes, sizeof(rank));
    if (rank < self->ranks)
        post_put_bytes(self->post, rank, WORD_GONE, &from, sizeof(from));
}

bool ranks_server_take(tarry_mpi *self, uint32_t from, word kind, const post_block *block)
{
    uint32_t connection;
    passed_head head;
    if (self->runtime == NULL)
        return false;
    if (kind == WORD_PASSED && block->size >= sizeof(head)) {
        memcpy(&head, block->bytes, sizeof(head));
        if (head.to != TARRY_NO_WORKER)
            return false;
        tarry_host_passed(self->runtime, from, block->bytes + sizeof(head),
                          block->size - sizeof(head));
        return true;
    }
    if (kind == WORD_CUT) {
        take_cut(self, from, block);
        return true;
    }
    if ((kind != WORD_UP && kind != WORD_HELLO && kind != WORD_LEFT && kind != WORD_ALIVE) ||
        block->size < sizeof(connection))
        return false;
    memcpy(&connection, block->bytes, sizeof(connection));
    const peer *of = &self->peers[from];
    if (kind == WORD_HELLO)
        take_hello(self, from, connection);
    else if (kind == WORD_LEFT)
        take_left(self, from, connection);
    else if (kind == WORD_ALIVE && of->joined && of->connection == connection)
        tarry_host_heard(self->runtime, from);
    else if (kind == WORD_UP && of->joined && of->connection == connection &&
             tarry_host_deliver(self->runtime, from, block->bytes + sizeof(connection),
                                block->size - sizeof(connection), NULL, 0) == TARRY_ERROR_FORMAT)
        lose(self, from);
    return true;
}

/* ---- creation ---- */

int ranks_server_create(tarry_mpi *self, const tarry_plan *plan, const tarry_mpi_settings *settings,
                        const tarry_allocator *allocator, tarry_diagnostic *diagnostic)
{
    tarry_host_settings wanted;
    self->peers = calloc(self->ranks, sizeof(*self->peers));
    if (self->peers == NULL)
        return TARRY_ERROR_NO_MEMORY;
    tarry_host_settings_init(&wanted);
    wanted.parameters = settings->parameters;
    wanted.dimension = settings->dimension;
    wanted.server = settings->server;
    wanted.checkpoint = settings->checkpoint;
    wanted.checkpoint_size = settings->checkpoint_size;
    wanted.log = settings->log;
    wanted.transport = (tarry_transport){
        .user = self,
        .send = send_frame,
        .receive = receive,
        .wake = wake,
        .end = end,
        .pass = pass,
        .left_out = left_out,
    };
    return tarry_host_create(plan, &wanted, allocator, &self->runtime, diagnostic);
}
