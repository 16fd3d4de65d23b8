/* SPDX-License-Identifier: Apache-2.0 */
#include "plain_relay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coding/layout.h"
#include "protocol/wire/wire_layout.h"
#include "protocol/wire/wire_trunk.h"

enum { CHILDREN = 64, STRIPES = 64, TICK_MS = 50, SMALL = WIRE_HEAD_BYTES + WIRE_LANE_OPEN_BYTES };

typedef struct child {
    int fd;     /* -1: there is none */
    bool ended; /* LANE_END was said, and is not heard yet */
    bool heard;
    uint32_t out; /* parts without a TAKEN */
    bool wants_parameters;
    bool wants[WIRE_BLOBS];
} child;

/* Something large, whole or not. */
typedef struct large {
    uint8_t *bytes;
    uint64_t size, total;
    uint64_t of; /* parameters: the round */
    uint8_t digest[WIRE_DIGEST_BYTES];
    bool asked;
} large;

/* A sum to be made: the last one that the parent told of. */
typedef struct group {
    wire_gather words;
    uint32_t lane[CHILDREN], epoch[CHILDREN];
    float *weights;              /* count x parts */
    float *z[CHILDREN][STRIPES]; /* what has come */
    uint32_t got[STRIPES];
    bool sent[STRIPES];
    uint32_t out; /* stripes without a TAKEN */
} group;

struct plain_relay {
    group group;
    int trunk, door;
    char address[32];
    pthread_t thread;
    _Atomic int order;        /* what to do: */
    child children[CHILDREN]; /* by lane */
    wire_welcome welcome;
    large parameters, blobs[WIRE_BLOBS];
    wire_head head; /* the frame that was read last */
    uint8_t *body;
    uint32_t most_batch;
    wire_batch batch; /* that is being made */
    uint8_t reports[WIRE_HEAD_BYTES + WIRE_BATCH_HEAD_BYTES +
                    WIRE_BATCH_MOST * WIRE_BATCH_LONGEST_BYTES];
    pthread_mutex_t lock;
    plain_relay_counts counts;
};

enum { ORDER_GO_ON, ORDER_FREEZE, ORDER_END };

/* ---- bytes ---- */

static bool send_all(int fd, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

static bool read_frame(plain_relay *self, int fd)
{
    uint8_t head[WIRE_HEAD_BYTES];
    if (recv(fd, head, sizeof(head), MSG_WAITALL) != sizeof(head))
        return false;
    assert_int_equal(wire_head_decode(head, &self->head), TARRY_OK);
    self->body = realloc(self->body, self->head.length + 1);
    assert_non_null(self->body);
    return self->head.length == 0 ||
           recv(fd, self->body, self->head.length, MSG_WAITALL) == (ssize_t)self->head.length;
}

static int dial(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

/* ---- up ---- */

static bool up(plain_relay *self, const void *bytes, size_t size)
{
    return send_all(self->trunk, bytes, size);
}

static void flush(plain_relay *self)
{
    if (self->batch.count == 0)
        return;
    up(self, self->reports, wire_batch_encode(&self->batch, self->reports));
    pthread_mutex_lock(&self->lock);
    self->counts.batches++;
    self->counts.reports += self->batch.count;
    pthread_mutex_unlock(&self->lock);
    self->batch.count = 0;
}

static void add_report(plain_relay *self, uint32_t lane, const tarry_message *report)
{
    wire_batch *batch = &self->batch;
    if (batch->count > 0 && (batch->round != report->round || batch->term != report->term))
        flush(self);
    *batch = (wire_batch){
        .round = report->round, .term = report->term, .lanes = true, .count = batch->count + 1};
    wire_batch_put(batch, self->reports, batch->count - 1, lane, report);
    if (batch->count == self->most_batch)
        flush(self);
}

static void end_lane(plain_relay *self, uint32_t lane)
{
    uint8_t frame[SMALL];
    const wire_lane_end words = {.lane = lane, .reason = WIRE_LANE_BROKEN, .text = "it hung up"};
    flush(self);
    up(self, frame, wire_lane_end_encode(&words, frame));
    close(self->children[lane].fd);
    self->children[lane] = (child){.fd = -1, .ended = true};
}

static void pass_up(plain_relay *self, uint32_t lane)
{
    uint8_t head[WIRE_HEAD_BYTES + WIRE_LANE_HEAD_BYTES + WIRE_HEAD_BYTES];
    flush(self);
    wire_lane_head(lane, WIRE_HEAD_BYTES + self->head.length, head);
    wire_head_encode(self->head.kind, self->head.length,
                     head + WIRE_HEAD_BYTES + WIRE_LANE_HEAD_BYTES);
    up(self, head, sizeof(head));
    up(self, self->body, self->head.length);
}

/* ---- sums ---- */

static void forget_group(plain_relay *self)
{
    group *its = &self->group;
    for (uint32_t i = 0; i < CHILDREN; i++)
        for (uint32_t stripe = 0; stripe < STRIPES; stripe++)
            free(its->z[i][stripe]);
    free(its->weights);
    *its = (group){0};
}

static void take_group(plain_relay *self)
{
    group *its = &self->group;
    forget_group(self);
    assert_int_equal(wire_gather_decode(&self->head, self->body, &its->words), TARRY_OK);
    assert_true(its->words.count <= CHILDREN);
    its->weights = calloc((size_t)its->words.count * its->words.parts, sizeof(float));
    for (uint32_t i = 0; i < its->words.count; i++)
        wire_gather_get(&its->words, i, &its->lane[i], &its->epoch[i],
                        its->weights + (size_t)i * its->words.parts);
    pthread_mutex_lock(&self->lock);
    self->counts.gathers++;
    pthread_mutex_unlock(&self->lock);
}

static void send_sum(plain_relay *self, uint32_t stripe)
{
    uint8_t frame[SMALL];
    group *its = &self->group;
    layout cut =
        layout_make(self->welcome.dimension, its->words.parts, self->welcome.stripe_length);
    for (uint32_t part = 0; part < cut.parts; part++) {
        size_t present = layout_present(&cut, part, stripe);
        if (present == 0)
            break;
        float *sum = calloc(present, sizeof(float));
        for (uint32_t i = 0; i < its->words.count; i++)
            for (size_t at = 0; at < present; at++)
                sum[at] += its->weights[(size_t)i * cut.parts + part] * its->z[i][stripe][at];
        const wire_gathered words = {.round = its->words.round,
                                     .attempt = its->words.attempt,
                                     .group = its->words.group,
                                     .stripe = stripe,
                                     .part = part,
                                     .count = present};
        up(self, frame, wire_gathered_encode(&words, frame));
        up(self, sum, present * sizeof(float));
        free(sum);
    }
    its->sent[stripe] = true;
    its->out++;
    pthread_mutex_lock(&self->lock);
    self->counts.gathered++;
    pthread_mutex_unlock(&self->lock);
}

static void send_sums(plain_relay *self)
{
    group *its = &self->group;
    for (uint32_t stripe = 0; stripe < STRIPES && its->out < WIRE_LANE_WINDOW; stripe++)
        if (its->words.count > 0 && its->got[stripe] == its->words.count && !its->sent[stripe])
            send_sum(self, stripe);
}

/* Whether the PART that was read is of the group. */
static bool take_into_group(plain_relay *self, uint32_t lane)
{
    const codec_shape no_sets = {0};
    group *its = &self->group;
    tarry_message part;
    assert_int_equal(codec_decode(&no_sets, self->body, CODEC_HEADER_BYTES, NULL, &part), TARRY_OK);
    size_t bytes = self->head.length - CODEC_HEADER_BYTES;
    for (uint32_t i = 0; i < its->words.count; i++) {
        if (its->lane[i] != lane || part.round != its->words.round ||
            part.attempt != its->words.attempt || part.epoch != its->epoch[i] ||
            part.stripe >= STRIPES || its->z[i][part.stripe] != NULL)
            continue;
        its->z[i][part.stripe] = malloc(bytes);
        memcpy(its->z[i][part.stripe], self->body + CODEC_HEADER_BYTES, bytes);
        its->got[part.stripe]++;
        flush(self);
        send_sums(self);
        return true;
    }
    return false;
}

static void pass_part(plain_relay *self, uint32_t lane)
{
    uint8_t frame[SMALL];
    child *from = &self->children[lane];
    size_t numbers = self->head.length - CODEC_HEADER_BYTES;
    wire_lane_part part = {.lane = lane, .bytes = numbers};
    memcpy(part.message, self->body, CODEC_HEADER_BYTES);
    flush(self);
    up(self, frame, wire_lane_part_encode(&part, frame));
    up(self, self->body + CODEC_HEADER_BYTES, numbers);
    from->out++;
    pthread_mutex_lock(&self->lock);
    self->counts.parts++;
    if (from->out > self->counts.most_out)
        self->counts.most_out = from->out;
    pthread_mutex_unlock(&self->lock);
}

static void hear_child(plain_relay *self, uint32_t lane)
{
    const codec_shape no_sets = {0};
    tarry_message message;
    if (!read_frame(self, self->children[lane].fd)) {
        end_lane(self, lane);
        return;
    }
    self->children[lane].heard = true;
    if (self->head.kind == WIRE_HEARTBEAT)
        return;
    bool is_message = self->head.kind == WIRE_MESSAGE;
    if (is_message && self->body[0] == TARRY_MESSAGE_PART) {
        if (!take_into_group(self, lane))
            pass_part(self, lane);
    } else if (is_message && self->body[0] == TARRY_MESSAGE_REPORT) {
        assert_int_equal(codec_decode(&no_sets, self->body, self->head.length, NULL, &message),
                         TARRY_OK);
        add_report(self, lane, &message);
    } else {
        pass_up(self, lane);
    }
}

static void admit(plain_relay *self)
{
    uint8_t frame[SMALL];
    uint32_t lane = 0;
    while (self->children[lane].fd >= 0 || self->children[lane].ended)
        assert_true(++lane < CHILDREN);
    wire_lane_open words = {.lane = lane, .trusted = true};
    snprintf(words.from, sizeof(words.from), "child %u", lane);
    self->children[lane] = (child){.fd = accept4(self->door, NULL, NULL, SOCK_CLOEXEC)};
    flush(self);
    up(self, frame, wire_lane_open_encode(&words, frame));
    pthread_mutex_lock(&self->lock);
    self->counts.lanes++;
    pthread_mutex_unlock(&self->lock);
}

/* Every child sends heartbeats: those who are there were heard. */
static void tell_heard(plain_relay *self)
{
    uint8_t frame[SMALL], bits[CHILDREN / 8] = {0};
    for (uint32_t lane = 0; lane < CHILDREN; lane++)
        if (self->children[lane].fd >= 0)
            bits[lane / 8] |= (uint8_t)(1u << lane % 8);
    const wire_heard words = {.size = sizeof(bits), .bits = bits};
    up(self, frame, wire_heard_encode(&words, frame));
    up(self, frame, wire_heartbeat_encode(frame));
}

/* ---- down ---- */

static bool is_whole(const large *its)
{
    return its->bytes != NULL && its->size == its->total;
}

static void give_parameters(plain_relay *self)
{
    uint8_t frame[SMALL];
    uint64_t count = self->welcome.parameters;
    for (uint32_t lane = 0; lane < CHILDREN; lane++) {
        child *to = &self->children[lane];
        if (to->fd < 0 || !to->wants_parameters)
            continue;
        to->wants_parameters = false;
        const wire_parameters words = {.round = self->parameters.of, .count = count};
        send_all(to->fd, frame, wire_parameters_encode(&words, frame));
        send_all(to->fd, self->parameters.bytes, count * sizeof(float));
    }
}

static void give_blob(plain_relay *self, wire_blob_kind kind)
{
    uint8_t frame[SMALL];
    const large *its = &self->blobs[kind];
    for (uint32_t lane = 0; lane < CHILDREN; lane++) {
        child *to = &self->children[lane];
        if (to->fd < 0 || !to->wants[kind])
            continue;
        to->wants[kind] = false;
        const wire_blob words = {.kind = kind, .total = its->total, .count = its->total};
        send_all(to->fd, frame, wire_blob_encode(&words, frame));
        send_all(to->fd, its->bytes, its->total);
    }
}

static void take_parameters(plain_relay *self)
{
    wire_parameters words;
    large *its = &self->parameters;
    assert_int_equal(wire_parameters_decode(&self->head, self->body, &words), TARRY_OK);
    if (words.first == 0) {
        free(its->bytes);
        *its = (large){.bytes = calloc(self->welcome.parameters, sizeof(float)),
                       .total = self->welcome.parameters * sizeof(float),
                       .of = words.round};
    }
    assert_true(words.round == its->of && words.first * sizeof(float) == its->size);
    memcpy(its->bytes + its->size, self->body + LAYOUT_PARAMETERS, words.count * sizeof(float));
    its->size += words.count * sizeof(float);
    if (!is_whole(its))
        return;
    pthread_mutex_lock(&self->lock);
    self->counts.parameters++;
    pthread_mutex_unlock(&self->lock);
    give_parameters(self);
}

static void take_blob(plain_relay *self)
{
    wire_blob words;
    assert_int_equal(wire_blob_decode(&self->head, self->body, &words), TARRY_OK);
    large *its = &self->blobs[words.kind];
    if (words.first == 0) {
        free(its->bytes);
        its->bytes = malloc(words.total + 1);
        its->size = 0;
        its->total = words.total;
    }
    assert_int_equal(words.first, its->size);
    memcpy(its->bytes + its->size, self->body + LAYOUT_BLOB, words.count);
    its->size += words.count;
    if (!is_whole(its))
        return;
    its->asked = false;
    pthread_mutex_lock(&self->lock);
    self->counts.plans += words.kind == WIRE_BLOB_PLAN;
    self->counts.jobs += words.kind == WIRE_BLOB_JOB;
    pthread_mutex_unlock(&self->lock);
    give_blob(self, words.kind);
}

static void take_announcement(plain_relay *self)
{
    wire_lane_blob words;
    uint8_t frame[SMALL];
    assert_int_equal(wire_lane_blob_decode(&self->head, self->body, &words), TARRY_OK);
    large *its = &self->blobs[words.kind];
    self->children[words.lane].wants[words.kind] = true;
    bool known = memcmp(its->digest, words.digest, sizeof(words.digest)) == 0;
    if (known && is_whole(its)) {
        give_blob(self, words.kind);
    } else if (!known || !its->asked) {
        memcpy(its->digest, words.digest, sizeof(words.digest));
        its->size = 0;
        its->asked = true;
        const wire_fetch fetch = {.kind = words.kind, .index = words.index};
        up(self, frame, wire_fetch_encode(&fetch, frame));
    }
}

static void pass_down(plain_relay *self)
{
    uint32_t lane;
    wire_head inner;
    const uint8_t *body;
    tarry_message_type type;
    uint64_t round;
    assert_int_equal(wire_lane_decode(&self->head, self->body, &lane, &inner, &body), TARRY_OK);
    child *to = &self->children[lane];
    if (to->fd < 0)
        return;
    send_all(to->fd, self->body + WIRE_LANE_HEAD_BYTES, self->head.length - WIRE_LANE_HEAD_BYTES);
    if (inner.kind != WIRE_MESSAGE)
        return;
    assert_int_equal(codec_peek(body, inner.length, &type, &round), TARRY_OK);
    if (type != TARRY_MESSAGE_ROUND)
        return;
    to->wants_parameters = true;
    if (self->parameters.of == round && is_whole(&self->parameters))
        give_parameters(self);
}

static void take_end(plain_relay *self)
{
    wire_lane_end words;
    assert_int_equal(wire_lane_end_decode(&self->head, self->body, &words), TARRY_OK);
    child *its = &self->children[words.lane];
    if (its->fd >= 0)
        end_lane(self, words.lane);
    its->ended = false;
}

static void take_window(plain_relay *self)
{
    wire_taken words;
    assert_int_equal(wire_taken_decode(&self->head, self->body, &words), TARRY_OK);
    if (words.lane == WIRE_NO_LANE) {
        self->group.out -= words.count < self->group.out ? words.count : self->group.out;
        send_sums(self);
        return;
    }
    child *its = &self->children[words.lane];
    its->out -= words.count < its->out ? words.count : its->out;
}

/* False: the parent is gone. */
static bool hear_parent(plain_relay *self)
{
    if (!read_frame(self, self->trunk) || self->head.kind == WIRE_BYE)
        return false;
    switch (self->head.kind) {
    case WIRE_LANE:
        pass_down(self);
        break;
    case WIRE_LANE_BLOB:
        take_announcement(self);
        break;
    case WIRE_LANE_END:
        take_end(self);
        break;
    case WIRE_PARAMETERS:
        take_parameters(self);
        break;
    case WIRE_BLOB:
        take_blob(self);
        break;
    case WIRE_TAKEN:
        take_window(self);
        break;
    case WIRE_GATHER:
        take_group(self);
        break;
    default:
        assert_int_equal(self->head.kind, WIRE_HEARTBEAT);
    }
    return true;
}

/* ---- its life ---- */

static uint32_t list(const plain_relay *self, struct pollfd *polled, uint32_t *lanes)
{
    uint32_t count = 2;
    polled[0] = (struct pollfd){.fd = self->trunk, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = self->door, .events = POLLIN};
    for (uint32_t lane = 0; lane < CHILDREN; lane++) {
        const child *its = &self->children[lane];
        if (its->fd < 0 || its->out == WIRE_LANE_WINDOW)
            continue;
        lanes[count] = lane;
        polled[count++] = (struct pollfd){.fd = its->fd, .events = POLLIN};
    }
    return count;
}

static void *run(void *argument)
{
    plain_relay *self = argument;
    bool alive = true;
    while (alive && atomic_load(&self->order) != ORDER_END) {
        struct pollfd polled[CHILDREN + 2];
        uint32_t lanes[CHILDREN + 2];
        uint32_t count = list(self, polled, lanes);
        int ready = poll(polled, count, self->batch.count > 0 ? 0 : TICK_MS);
        if (atomic_load(&self->order) == ORDER_FREEZE) {
            usleep(TICK_MS * 1000);
            continue;
        }
        if (ready == 0 && self->batch.count > 0)
            flush(self);
        else if (ready == 0)
            tell_heard(self);
        if (polled[0].revents != 0)
            alive = hear_parent(self);
        if (polled[1].revents != 0)
            admit(self);
        for (uint32_t i = 2; i < count; i++)
            if (polled[i].revents != 0 && self->children[lanes[i]].fd == polled[i].fd)
                hear_child(self, lanes[i]);
    }
    for (uint32_t lane = 0; lane < CHILDREN; lane++)
        if (self->children[lane].fd >= 0)
            close(self->children[lane].fd);
    close(self->trunk);
    close(self->door);
    return NULL;
}

plain_relay *plain_relay_start(const char *parent, uint32_t reports)
{
    plain_relay *self = calloc(1, sizeof(*self));
    assert_non_null(self);
    self->most_batch = reports;
    pthread_mutex_init(&self->lock, NULL);
    for (uint32_t lane = 0; lane < CHILDREN; lane++)
        self->children[lane].fd = -1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    self->door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(self->door, (const struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(self->door, CHILDREN), 0);
    getsockname(self->door, (struct sockaddr *)&at, &size);
    snprintf(self->address, sizeof(self->address), "127.0.0.1:%u", ntohs(at.sin_port));
    self->trunk = dial(parent);
    uint8_t frame[SMALL];
    const wire_hello hello = {.oldest = WIRE_VERSION,
                              .newest = WIRE_VERSION,
                              .role = WIRE_ROLE_RELAY,
                              .worker = WIRE_ANY_WORKER};
    assert_true(up(self, frame, wire_hello_encode(&hello, frame)));
    assert_true(read_frame(self, self->trunk));
    assert_int_equal(self->head.kind, WIRE_WELCOME);
    assert_int_equal(wire_welcome_decode(&self->head, self->body, &self->welcome), TARRY_OK);
    assert_int_equal(self->welcome.worker, WIRE_ANY_WORKER);
    assert_int_equal(self->welcome.plan_bytes + self->welcome.job_bytes, 0);
    assert_int_equal(pthread_create(&self->thread, NULL, run, self), 0);
    return self;
}

const char *plain_relay_address(const plain_relay *self)
{
    return self->address;
}

void plain_relay_kill(plain_relay *self)
{
    atomic_store(&self->order, ORDER_END);
}

void plain_relay_freeze(plain_relay *self)
{
    atomic_store(&self->order, ORDER_FREEZE);
}

plain_relay_counts plain_relay_counted(plain_relay *self)
{
    pthread_mutex_lock(&self->lock);
    plain_relay_counts counts = self->counts;
    pthread_mutex_unlock(&self->lock);
    return counts;
}

void plain_relay_free(plain_relay *self)
{
    plain_relay_kill(self);
    pthread_join(self->thread, NULL);
    forget_group(self);
    free(self->parameters.bytes);
    for (int kind = 0; kind < WIRE_BLOBS; kind++)
        free(self->blobs[kind].bytes);
    free(self->body);
    pthread_mutex_destroy(&self->lock);
    free(self);
}
