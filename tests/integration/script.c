/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "script.h"
#include "test.h"

#include "base/bitset.h"
#include "coding/coefficients.h"
#include "coding/layout.h"
#include "plan/plan.h"
#include "plan/plan_code.h"
#include "protocol/wire/wire.h"
#include "runtime/clock.h"
#include "runtime/tcp/net/address.h"

enum { PATIENCE_SECONDS = 60 };

static void be_patient(const script *its)
{
    const struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
    setsockopt(its->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(its->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

void script_open(script *its, const char *where, uint8_t instance)
{
    *its = (script){.instance = instance};
    address found[ADDRESS_MOST];
    uint32_t count;
    assert_ok(address_resolve(where, false, found, &count, NULL));
    its->fd = socket(found[0].socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(its->fd >= 0);
    const int on = 1; /* fails at a Unix socket, which does not need it */
    setsockopt(its->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    assert_int_equal(connect(its->fd, (struct sockaddr *)&found[0].socket, found[0].size), 0);
    be_patient(its);
}

/* A call on a socket with a time limit is not taken up again by itself when the process was stopped
 * meanwhile. */
static bool was_interrupted(ssize_t result)
{
    return result < 0 && errno == EINTR;
}

bool script_open_secure(script *its, const char *where, uint8_t instance, const char *credentials)
{
    script_open(its, where, instance);
    assert_ok(credential_load(credentials, NULL, &its->credential, NULL));
    its->ssl = credential_open(its->credential);
    assert_non_null(its->ssl);
    SSL_set_fd(its->ssl, its->fd);
    int done;
    do
        done = SSL_connect(its->ssl);
    while (was_interrupted(done));
    return done == 1;
}

void script_hang_up(script *its)
{
    SSL_free(its->ssl);
    its->ssl = NULL;
    if (its->fd >= 0)
        close(its->fd);
    its->fd = -1;
}

void script_take(script *its, int listener)
{
    script_hang_up(its);
    its->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(its->fd >= 0);
    be_patient(its);
}

bool script_accept(script *its, SSL *ssl)
{
    int done;
    assert_non_null(ssl);
    its->ssl = ssl;
    assert_int_equal(SSL_set_fd(ssl, its->fd), 1);
    do {
        errno = 0;
        done = SSL_accept(ssl);
    } while (was_interrupted(done));
    return done == 1;
}

static uint32_t load_of(const script *its)
{
    return tarry_plan_load(its->plan, its->welcome.worker);
}

static void forget_plan(script *its)
{
    if (its->plan == NULL)
        return;
    for (uint32_t slot = 0; its->gradients != NULL && slot < load_of(its); slot++)
        free(its->gradients[slot]);
    free(its->gradients);
    free(its->words);
    tarry_worker_free(its->machine);
    tarry_plan_free(its->plan);
    its->gradients = NULL;
    its->words = NULL;
    its->machine = NULL;
    its->plan = NULL;
}

static void forget_kept(script *its)
{
    while (its->kept_count > 0)
        free(its->kept[--its->kept_count]);
}

void script_close(script *its)
{
    script_hang_up(its);
    credential_free(its->credential);
    forget_plan(its);
    forget_kept(its);
    free(its->parameters);
    free(its->body);
}

bool script_send(script *its, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    while (size > 0) {
        ssize_t sent = its->ssl != NULL ? SSL_write(its->ssl, at, (int)size)
                                        : send(its->fd, at, size, MSG_NOSIGNAL);
        if (was_interrupted(sent))
            continue;
        if (sent <= 0)
            return false;
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

static bool read_all(script *its, void *bytes, size_t size)
{
    uint8_t *at = bytes;
    while (size > 0) {
        ssize_t got =
            its->ssl != NULL ? SSL_read(its->ssl, at, (int)size) : recv(its->fd, at, size, 0);
        if (was_interrupted(got))
            continue;
        if (got <= 0)
            return false;
        at += got;
        size -= (size_t)got;
    }
    return true;
}

bool script_read(script *its)
{
    uint8_t head[WIRE_HEAD_BYTES];
    if (!read_all(its, head, sizeof(head)))
        return false;
    assert_ok(wire_head_decode(head, &its->head));
    if (its->head.length > its->room) {
        its->room = its->head.length;
        its->body = realloc(its->body, its->room);
        assert_non_null(its->body);
    }
    return read_all(its, its->body, its->head.length);
}

void script_say_hello(script *its, wire_role role, uint32_t worker)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_hello hello = {
        .oldest = WIRE_VERSION,
        .newest = WIRE_VERSION,
        .role = role,
        .ranking = COEFFICIENTS_VERSION,
        .worker = worker,
        .instance = {its->instance},
    };
    script_send(its, frame, wire_encode(WIRE_HELLO, &hello, frame));
}

wire_reason script_reason(script *its)
{
    wire_refused refused;
    while (script_read(its))
        if (its->head.kind == WIRE_REFUSED) {
            assert_ok(wire_decode(&its->head, its->body, &refused));
            return refused.reason;
        }
    return 0;
}

/* ---- what the server sends ---- */

static void take_plan(script *its, const uint8_t *bytes, size_t size)
{
    forget_plan(its);
    assert_ok(plan_decode_bytes(bytes, size, NULL, &its->plan, NULL));
    const wire_welcome *told = &its->welcome;
    const tarry_server_settings *server = &told->terms.server;
    const tarry_worker_settings settings = {.worker = told->worker, .server = *server};
    assert_ok(tarry_worker_create(its->plan, &settings, NULL, &its->machine, NULL));
    layout cut = layout_make(server->dimension, its->plan->parts, server->stripe_length);
    codec_shape shape = codec_shape_of(its->plan, told->worker, cut.stripes);
    its->words = calloc(codec_words(&shape), sizeof(uint64_t));
    its->gradients = calloc(load_of(its) + 1, sizeof(float *));
    for (uint32_t slot = 0; slot < load_of(its); slot++)
        its->gradients[slot] = calloc(server->dimension, sizeof(float));
}

static void say_ready(script *its)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_ready ready = {.turn = its->turn, .size = its->reached != 0, .address = {its->reached}};
    tarry_plan_digest(its->plan, ready.plan);
    script_send(its, frame, wire_encode(WIRE_READY, &ready, frame));
}

static void take_blob(script *its)
{
    wire_blob blob;
    assert_ok(wire_decode(&its->head, its->body, &blob));
    const uint8_t *bytes = its->body + wire_fixed_length(&its->head, its->body[0]);
    if (blob.kind == WIRE_BLOB_JOB && blob.first < sizeof(its->job))
        memcpy(its->job + blob.first, bytes,
               blob.count < sizeof(its->job) - blob.first ? blob.count
                                                          : sizeof(its->job) - blob.first);
    if (blob.kind != WIRE_BLOB_PLAN)
        return;
    assert_true(blob.first == 0 && blob.count == blob.total); /* the plans of tests are small */
    its->turn = blob.index;
    take_plan(its, bytes, blob.count);
}

/* Small frames overtake them, the end of their round among these: then the rest does not come. */
static void take_parameters(script *its)
{
    wire_parameters some;
    assert_ok(wire_decode(&its->head, its->body, &some));
    if (!its->receiving || some.round != its->round)
        return;
    assert_true(some.first + some.count <= its->welcome.terms.parameters);
    memcpy(its->parameters + some.first, its->body + wire_fixed_length(&its->head, its->body[0]),
           some.count * sizeof(float));
    its->received += some.count;
}

static void decode_message(script *its, const uint8_t *body, size_t size, tarry_message *message)
{
    layout cut = layout_make(its->welcome.terms.server.dimension, its->plan->parts,
                             its->welcome.terms.server.stripe_length);
    codec_shape shape = codec_shape_of(its->plan, its->welcome.worker, cut.stripes);
    assert_ok(codec_decode(&shape, body, size, its->words, message));
}

static void keep(script *its)
{
    uint32_t at = its->kept_count++;
    assert_true(at < 16);
    its->kept[at] = malloc(its->head.length);
    its->kept_size[at] = its->head.length;
    memcpy(its->kept[at], its->body, its->head.length);
}

void script_await(script *its, wire_kind kind)
{
    do
        assert_true(script_read(its));
    while (its->head.kind != kind);
}

void script_await_message(script *its, tarry_message_type type, tarry_message *message)
{
    do {
        script_await(its, WIRE_MESSAGE);
        decode_message(its, its->body, its->head.length, message);
    } while (message->type != type);
}

void script_join(script *its, uint32_t worker)
{
    script_say_hello(its, WIRE_ROLE_WORKER, worker);
    script_await(its, WIRE_WELCOME);
    assert_ok(wire_welcome_decode(&its->head, its->body, &its->welcome, NULL));
    its->parameters = calloc(its->welcome.terms.parameters, sizeof(float));
    uint32_t due = (its->welcome.plan_bytes > 0 ? 1U : 0U) + (its->welcome.job_bytes > 0 ? 1U : 0U);
    for (uint32_t got = 0; got < due; got++) {
        script_await(its, WIRE_BLOB);
        take_blob(its);
    }
    say_ready(its);
}

bool script_message(script *its, const tarry_message *message, const float *numbers, size_t count)
{
    uint8_t frame[WIRE_HEAD_BYTES + CODEC_MOST_WORKER_BYTES];
    const codec_shape no_sets = {0};
    size_t size = codec_size(&no_sets, message);
    wire_message_head(size, count * sizeof(float), frame);
    codec_encode(&no_sets, message, frame + WIRE_HEAD_BYTES);
    return script_send(its, frame, WIRE_HEAD_BYTES + size) &&
           (count == 0 || script_send(its, numbers, count * sizeof(float)));
}

bool script_batch(script *its, const tarry_message *reports, uint32_t count)
{
    wire_batch batch = {.round = reports->round, .term = reports->term, .count = count};
    OWNED(uint8_t)
    frame =
        checked_malloc(WIRE_HEAD_BYTES + WIRE_BATCH_HEAD_BYTES + count * WIRE_BATCH_REPORT_BYTES);
    for (uint32_t i = 0; i < count; i++)
        wire_batch_put(frame, i, &reports[i]);
    bool sent = script_send(its, frame, wire_batch_encode(&batch, frame));
    return sent;
}

/* ---- a worker ---- */

static void send_reports(script *its)
{
    if (its->report_count > 0)
        script_batch(its, its->reports, its->report_count);
    its->report_count = 0;
}

/* What is said behind reports comes behind them. */
static void send_message(script *its, const tarry_message *message)
{
    if (!its->batches) {
        script_message(its, message, NULL, 0);
        return;
    }
    bool report = message->type == TARRY_MESSAGE_REPORT;
    if (!report || its->report_count == 4 || its->reports->term != message->term)
        send_reports(its);
    if (!report)
        script_message(its, message, NULL, 0);
    else
        its->reports[its->report_count++] = *message;
    if (report && message->next >= load_of(its))
        send_reports(its);
}

float script_gradient(uint64_t round, uint32_t chunk, size_t number, float parameter)
{
    return parameter * (float)((chunk + 1) * (1 + number % 7)) + (float)round;
}

static void step(script *its, const tarry_event *event);

static void send_part(script *its, const tarry_effect *effect)
{
    layout cut = layout_make(its->welcome.terms.server.dimension, its->plan->parts,
                             its->welcome.terms.server.stripe_length);
    size_t length = layout_stripe_length(&cut, effect->stripe);
    uint32_t load = load_of(its);
    float *z = calloc(length, sizeof(float));
    void *scratch = malloc(transfer_encode_scratch(load, cut.parts) + 1);
    transfer_encode(kernel_best(), &cut, effect->stripe, (const float *const *)its->gradients,
                    effect->coefficients, load, z, scratch);
    if (its->death == SCRIPT_DIES_IN_PART) {
        uint8_t frame[WIRE_HEAD_BYTES + CODEC_MOST_WORKER_BYTES];
        wire_message_head(CODEC_HEADER_BYTES, length * sizeof(float), frame);
        codec_encode(&(codec_shape){0}, &effect->message, frame + WIRE_HEAD_BYTES);
        script_send(its, frame, WIRE_HEAD_BYTES + CODEC_HEADER_BYTES);
        script_send(its, z, length / 2 * sizeof(float));
        script_hang_up(its);
    } else {
        script_message(its, &effect->message, z, length);
        its->stripes_sent++;
        if (its->death == SCRIPT_DIES_BETWEEN_PARTS ||
            (its->death == SCRIPT_DIES_BEHIND_PART && its->stripes_sent == cut.stripes))
            script_hang_up(its);
    }
    free(scratch);
    free(z);
    if (its->fd >= 0)
        step(its, &(tarry_event){
                      .type = TARRY_EVENT_ENCODED,
                      .round = effect->round,
                      .attempt = effect->attempt,
                      .stripe = effect->stripe,
                  });
}

static void step(script *its, const tarry_event *event)
{
    const tarry_effects *effects;
    assert_ok(tarry_worker_step(its->machine, clock_now_ns(), event, &effects));
    bool encode = false;
    tarry_effect part;
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        if (effect->type == TARRY_EFFECT_SEND) {
            send_message(its, &effect->message);
        } else if (effect->type == TARRY_EFFECT_COMPUTE) {
            its->computing = true;
            its->task = *effect;
        } else if (effect->type == TARRY_EFFECT_CANCEL) {
            its->computing = false;
        } else if (effect->type == TARRY_EFFECT_ENCODE) {
            encode = true;
            part = *effect;
        }
    }
    if (encode) {
        send_reports(its);
        send_part(its, &part);
    }
}

static bool has_input(const script *its, int wait_ms)
{
    if (its->ssl != NULL && SSL_pending(its->ssl) > 0)
        return true;
    struct pollfd one = {.fd = its->fd, .events = POLLIN};
    return poll(&one, 1, wait_ms) > 0;
}

static void compute(script *its)
{
    if (its->slowness > 0 && has_input(its, (int)(its->slowness * 1e3)))
        return;
    its->computing = false;
    for (size_t number = 0; number < its->welcome.terms.server.dimension; number++)
        its->gradients[its->task.slot][number] =
            script_gradient(its->task.round, its->task.chunk, number,
                            its->parameters[its->welcome.terms.parameters - 1]);
    step(its, &(tarry_event){
                  .type = TARRY_EVENT_COMPUTED,
                  .round = its->task.round,
                  .slot = its->task.slot,
              });
}

static void deliver(script *its, const tarry_message *message)
{
    if ((message->type == TARRY_MESSAGE_ROUND && its->death == SCRIPT_DIES_COMPUTING) ||
        (message->type == TARRY_MESSAGE_SIGNAL && its->death == SCRIPT_DIES_BEFORE_PART))
        script_hang_up(its);
    else {
        if (message->type == TARRY_MESSAGE_SIGNAL && its->pause > 0)
            usleep((useconds_t)(its->pause * 1e6));
        step(its, &(tarry_event){.type = TARRY_EVENT_MESSAGE, .message = message});
    }
}

static void take_message(script *its)
{
    tarry_message message;
    decode_message(its, its->body, its->head.length, &message);
    if (message.type == TARRY_MESSAGE_PROBE ||
        (!its->receiving && message.type != TARRY_MESSAGE_ROUND)) {
        deliver(its, &message);
        return;
    }
    if (message.type == TARRY_MESSAGE_ROUND || message.type == TARRY_MESSAGE_FINISH)
        forget_kept(its);
    its->receiving = message.type != TARRY_MESSAGE_FINISH;
    if (message.type == TARRY_MESSAGE_ROUND) {
        its->round = message.round;
        its->received = 0;
        its->stripes_sent = 0;
    }
    if (its->receiving)
        keep(its);
}

static void begin_round(script *its)
{
    its->receiving = false;
    for (uint32_t i = 0; i < its->kept_count && its->fd >= 0; i++) {
        tarry_message message;
        decode_message(its, its->kept[i], its->kept_size[i], &message);
        deliver(its, &message);
    }
    forget_kept(its);
}

void script_work(script *its)
{
    while (its->fd >= 0) {
        if (its->computing && !has_input(its, 0)) {
            compute(its);
            continue;
        }
        if (!script_read(its) || its->head.kind == WIRE_BYE) {
            script_hang_up(its);
        } else if (its->head.kind == WIRE_MESSAGE) {
            take_message(its);
        } else if (its->head.kind == WIRE_PARAMETERS) {
            take_parameters(its);
            if (its->receiving && its->received == its->welcome.terms.parameters)
                begin_round(its);
        } else if (its->head.kind == WIRE_BLOB) {
            take_blob(its);
            its->computing = false;
            say_ready(its);
        }
    }
}
