/* SPDX-License-Identifier: Apache-2.0 */
#include "program/peer.h"

#include <string.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/memory.h"
#include "coding/coefficients.h"
#include "plan/plan.h"

enum { READ_BYTES = 4 << 10 };

static int not_understood(tarry_diagnostic *diagnostic)
{
    return diagnose(diagnostic, TARRY_ERROR_FORMAT, "the server sent what a worker can't take");
}

static int lost(tarry_diagnostic *diagnostic)
{
    return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "a worker lost its connection");
}

/* ---- what the machine says ---- */

static void add_report(bench_peer *peer, const tarry_message *message)
{
    uint8_t *frame = peer->reports + peer->report_count * BENCH_REPORT_BYTES;
    /* Others are answers to what changes in the middle of a round, which nothing does here. */
    if (message->type != TARRY_MESSAGE_REPORT || peer->report_count == peer->report_capacity)
        return;
    wire_message_head(CODEC_HEADER_BYTES, 0, frame);
    codec_encode(&peer->shape, message, frame + WIRE_HEAD_BYTES);
    peer->report_count++;
}

/* Steps, and finishes at once what is to be computed. */
static int step(bench_peer *peer, tarry_event event, tarry_diagnostic *diagnostic)
{
    for (bool again = true; again;) {
        const tarry_effects *effects;
        int error = tarry_worker_step(peer->machine, 0, &event, &effects);
        if (error != TARRY_OK)
            return diagnose(diagnostic, error, "a worker's machine: %s", tarry_error_text(error));
        again = false;
        for (size_t i = 0; i < effects->count; i++) {
            const tarry_effect *effect = &effects->items[i];
            if (effect->type == TARRY_EFFECT_SEND)
                add_report(peer, &effect->message);
            if (effect->type == TARRY_EFFECT_ENCODE) {
                peer->part = effect->message;
                peer->encoding = true;
            }
            if (effect->type == TARRY_EFFECT_COMPUTE) {
                event = (tarry_event){
                    .type = TARRY_EVENT_COMPUTED, .round = effect->round, .slot = effect->slot};
                again = true;
            }
        }
    }
    return TARRY_OK;
}

static int take_message(bench_peer *peer, const uint8_t *body, size_t size,
                        tarry_diagnostic *diagnostic)
{
    tarry_message message;
    if (codec_decode(&peer->shape, body, size, peer->words, &message) != TARRY_OK)
        return not_understood(diagnostic);
    bool round = message.type == TARRY_MESSAGE_ROUND;
    if (round)
        peer->report_count = 0;
    if (round || message.type == TARRY_MESSAGE_FINISH)
        peer->encoding = false;
    const tarry_event event = {.type = TARRY_EVENT_MESSAGE, .message = &message};
    int error = step(peer, event, diagnostic);
    peer->in_round = peer->in_round || (round && peer->report_count > 0);
    return error;
}

/* ---- frames ---- */

static int take_frame(bench_peer *peer, const wire_head *head, const uint8_t *body,
                      tarry_diagnostic *diagnostic)
{
    wire_refused refused;
    switch (head->kind) {
    case WIRE_MESSAGE:
        return take_message(peer, body, head->length, diagnostic);
    case WIRE_REFUSED:
        if (wire_decode(head, body, &refused) != TARRY_OK)
            return not_understood(diagnostic);
        return diagnose(diagnostic, TARRY_ERROR_STATE, "a worker was refused: %s", refused.text);
    case WIRE_BYE:
        peer->left = true;
        return TARRY_OK;
    default: /* parameters are not computed with */
        return TARRY_OK;
    }
}

/* Whether a whole frame is there; makes room for what is still to come of it. */
static int look(bench_peer *peer, size_t at, wire_head *head, bool *whole,
                tarry_diagnostic *diagnostic)
{
    size_t size = peer->in_size - at;
    size_t need = WIRE_HEAD_BYTES;
    *whole = false;
    if (size >= WIRE_HEAD_BYTES) {
        if (wire_head_decode(peer->in + at, head) != TARRY_OK)
            return not_understood(diagnostic);
        need += head->length;
        *whole = size >= need;
    }
    if (*whole)
        return TARRY_OK;
    if (size > 0)
        memmove(peer->in, peer->in + at, size);
    peer->in_size = size;
    if (need + READ_BYTES <= peer->in_capacity)
        return TARRY_OK;
    uint8_t *grown = memory_allocate(NULL, need + READ_BYTES, 1);
    if (grown == NULL)
        return diagnose_no_memory(diagnostic, "a worker");
    if (size > 0)
        memcpy(grown, peer->in, size);
    memory_release(NULL, peer->in);
    peer->in = grown;
    peer->in_capacity = need + READ_BYTES;
    return TARRY_OK;
}

static int fill(bench_peer *peer, tarry_diagnostic *diagnostic)
{
    size_t got =
        bench_line_read(&peer->line, peer->in + peer->in_size, peer->in_capacity - peer->in_size);
    peer->in_size += got;
    return got > 0 ? TARRY_OK : lost(diagnostic);
}

int bench_peer_read(bench_peer *peer, tarry_diagnostic *diagnostic)
{
    do {
        int error = fill(peer, diagnostic);
        if (error != TARRY_OK)
            return error;
        bool whole = true;
        for (size_t at = 0; whole;) {
            wire_head head;
            error = look(peer, at, &head, &whole, diagnostic);
            if (error == TARRY_OK && whole)
                error = take_frame(peer, &head, peer->in + at + WIRE_HEAD_BYTES, diagnostic);
            if (error != TARRY_OK)
                return error;
            at += whole ? WIRE_HEAD_BYTES + head.length : 0;
        }
    } while (!peer->left && bench_line_pending(&peer->line));
    return TARRY_OK;
}

int bench_peer_send_part(bench_peer *peer, uint8_t *frame, tarry_diagnostic *diagnostic)
{
    const tarry_message part = peer->part;
    size_t numbers = layout_stripe_length(&peer->cut, part.stripe);
    wire_message_head(CODEC_HEADER_BYTES, numbers * sizeof(float), frame);
    codec_encode(&peer->shape, &part, frame + WIRE_HEAD_BYTES);
    if (!bench_line_write(&peer->line, frame, BENCH_PART_PREFIX_BYTES + numbers * sizeof(float)))
        return lost(diagnostic);
    peer->encoding = false;
    return step(peer,
                (tarry_event){.type = TARRY_EVENT_ENCODED,
                              .round = part.round,
                              .attempt = part.attempt,
                              .stripe = part.stripe},
                diagnostic);
}

/* ---- the beginning ---- */

static bool say_hello(bench_peer *peer, const tarry_plan *plan, uint32_t worker)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_hello hello = {
        .oldest = WIRE_VERSION,
        .newest = WIRE_VERSION,
        .role = WIRE_ROLE_WORKER,
        .ranking = COEFFICIENTS_VERSION,
        .worker = worker,
    };
    bytes_put(hello.instance, UINT64_C(1) + worker, 8);
    tarry_plan_digest(plan, hello.plan);
    return bench_line_write(&peer->line, frame, wire_encode(WIRE_HELLO, &hello, frame));
}

static bool say_ready(bench_peer *peer, const wire_welcome *told)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_ready ready = {0};
    memcpy(ready.plan, told->plan, sizeof(ready.plan));
    return bench_line_write(&peer->line, frame, wire_encode(WIRE_READY, &ready, frame));
}

/* Reads until the server's answer is there, and nothing else. */
static int hear_answer(bench_peer *peer, wire_welcome *told, tarry_diagnostic *diagnostic)
{
    wire_head head;
    for (;;) {
        bool whole;
        int error = look(peer, 0, &head, &whole, diagnostic);
        if (error != TARRY_OK || whole) {
            if (error != TARRY_OK)
                return error;
            break;
        }
        error = fill(peer, diagnostic);
        if (error != TARRY_OK)
            return error;
    }
    const uint8_t *body = peer->in + WIRE_HEAD_BYTES;
    if (head.kind == WIRE_REFUSED)
        return take_frame(peer, &head, body, diagnostic);
    if (head.kind != WIRE_WELCOME || wire_welcome_decode(&head, body, told, NULL) != TARRY_OK)
        return not_understood(diagnostic);
    size_t used = WIRE_HEAD_BYTES + head.length;
    peer->in_size -= used;
    memmove(peer->in, peer->in + used, peer->in_size);
    return TARRY_OK;
}

static int make_machine(bench_peer *peer, const tarry_plan *plan, const wire_welcome *told,
                        tarry_diagnostic *diagnostic)
{
    const tarry_server_settings *server = &told->terms.server;
    const tarry_worker_settings settings = {.worker = told->worker, .server = *server};
    int error = tarry_worker_create(plan, &settings, NULL, &peer->machine, diagnostic);
    if (error != TARRY_OK)
        return error;
    peer->cut = layout_make(server->dimension, plan->parts, server->stripe_length);
    peer->shape = codec_shape_of(plan, told->worker, peer->cut.stripes);
    peer->report_capacity = tarry_plan_load(plan, told->worker);
    peer->words = memory_allocate(NULL, codec_words(&peer->shape), sizeof(uint64_t));
    peer->reports = memory_allocate(NULL, peer->report_capacity, BENCH_REPORT_BYTES);
    if (peer->words == NULL || peer->reports == NULL)
        return diagnose_no_memory(diagnostic, "a worker");
    return TARRY_OK;
}

int bench_peer_open(bench_peer *peer, const char *where, const credential *self,
                    const tarry_plan *plan, uint32_t worker, tarry_diagnostic *diagnostic)
{
    wire_welcome told;
    *peer = (bench_peer){.line = {.fd = -1}};
    int error = bench_line_connect(where, self, &peer->line, diagnostic);
    if (error == TARRY_OK && !say_hello(peer, plan, worker))
        error = lost(diagnostic);
    if (error == TARRY_OK)
        error = hear_answer(peer, &told, diagnostic);
    if (error == TARRY_OK && (told.plan_bytes > 0 || told.worker != worker))
        error = not_understood(diagnostic);
    if (error == TARRY_OK)
        error = make_machine(peer, plan, &told, diagnostic);
    if (error == TARRY_OK && !say_ready(peer, &told))
        error = lost(diagnostic);
    if (error != TARRY_OK)
        bench_peer_close(peer);
    return error;
}

void bench_peer_close(bench_peer *peer)
{
    bench_line_close(&peer->line);
    tarry_worker_free(peer->machine);
    memory_release(NULL, peer->words);
    memory_release(NULL, peer->reports);
    memory_release(NULL, peer->in);
    *peer = (bench_peer){.line = {.fd = -1}};
}
