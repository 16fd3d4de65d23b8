/* SPDX-License-Identifier: Apache-2.0 */
/* What emulated workers are told, and what they say. */
#include <string.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "coding/coefficients.h"
#include "program/emulated/emulated_state.h"
#include "protocol/wire/wire.h"
#include "runtime/clock.h"

static int not_understood(tarry_diagnostic *diagnostic)
{
    return diagnose(diagnostic, TARRY_ERROR_FORMAT, "the server sent what a worker can't take");
}

int emulated_introduce(const emulated *all, emulated_worker *its)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_hello hello = {
        .oldest = WIRE_VERSION,
        .newest = WIRE_VERSION,
        .role = WIRE_ROLE_WORKER,
        .ranking = COEFFICIENTS_VERSION,
        .worker = its->worker,
    };
    bytes_put(hello.instance, UINT64_C(1) + its->worker, 8);
    memcpy(hello.plan, all->digest, WIRE_DIGEST_BYTES);
    return emulated_send(all, its, frame, wire_encode(WIRE_HELLO, &hello, frame));
}

static int answer(const emulated *all, emulated_worker *its)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_ready ready = {0};
    memcpy(ready.plan, all->digest, sizeof(ready.plan));
    return emulated_send(all, its, frame, wire_encode(WIRE_READY, &ready, frame));
}

static int take_welcome(emulated *all, emulated_worker *its, const wire_welcome *told,
                        tarry_diagnostic *diagnostic)
{
    if (told->worker != its->worker || told->plan_bytes > 0 || told->job_bytes > 0)
        return not_understood(diagnostic);
    if (!its->was_ready)
        atomic_fetch_add(&all->tally->ready, 1);
    its->was_ready = true;
    return answer(all, its);
}

/* ---- rounds ---- */

/* What every message has (docs/wire.md). */
typedef struct order {
    tarry_message_type type;
    uint32_t epoch, attempt;
    uint64_t round;
} order;

static order order_of(const uint8_t *body)
{
    return (order){
        .type = (tarry_message_type)body[0],
        .epoch = (uint32_t)bytes_get(body + 4, 4),
        .round = bytes_get(body + 8, 8),
        .attempt = (uint32_t)bytes_get(body + 16, 4),
    };
}

static size_t write_reports(const emulated *all, const emulated_worker *its)
{
    uint32_t load = tarry_plan_load(all->settings->plan, its->worker);
    const codec_shape no_sets = {0};
    uint8_t *frame = all->scratch;
    wire_batch batch = {.round = its->round};
    for (uint32_t slot = 0; slot < load; slot++) {
        const tarry_message report = {
            .type = TARRY_MESSAGE_REPORT,
            .round = its->round,
            .epoch = its->epoch,
            .slot = slot,
            .next = slot + 1,
            .sequence = (uint16_t)(slot % UINT16_MAX + 1),
        };
        if (all->settings->batch == 1) {
            wire_message_head(CODEC_HEADER_BYTES, 0, frame);
            codec_encode(&no_sets, &report, frame + WIRE_HEAD_BYTES);
            frame += WIRE_HEAD_BYTES + CODEC_HEADER_BYTES;
            continue;
        }
        wire_batch_put(frame, batch.count++, &report);
        if (batch.count == all->settings->batch || slot + 1 == load) {
            frame += wire_batch_encode(&batch, frame);
            batch.count = 0;
        }
    }
    return (size_t)(frame - all->scratch);
}

static int say_reports(emulated *all, emulated_worker *its)
{
    return emulated_send(all, its, all->scratch, write_reports(all, its));
}

/* Whether the signal of the last round that was reported has come to all workers of all processes.
 */
static bool all_signalled(const emulated *all)
{
    uint64_t workers = tarry_plan_workers(all->settings->plan);
    return atomic_load(&all->tally->signalled) >= workers * all->rounds;
}

static void note_first(_Atomic uint64_t *time_ns)
{
    uint64_t never = 0;
    atomic_compare_exchange_strong(time_ns, &never, clock_now_ns());
}

int emulated_report(emulated *all)
{
    if (all->in_round < all->count || atomic_load(&all->tally->rounds_due) == all->rounds)
        return TARRY_OK;
    all->rounds++;
    all->in_round = 0;
    note_first(&all->tally->began_ns);
    int error = TARRY_OK;
    for (uint32_t i = 0; error == TARRY_OK && i < all->count; i++)
        if (all->workers[i].line.fd >= 0)
            error = say_reports(all, &all->workers[i]);
    return error;
}

/* A new round, or the one that it was in, over a new connection. */
static int take_round(emulated *all, emulated_worker *its, const order *told)
{
    bool again = its->has_round && its->round == told->round;
    bool reported = again && all->in_round == 0;
    its->epoch = told->epoch;
    if (again)
        return reported ? say_reports(all, its) : TARRY_OK;
    its->signalled = false;
    its->has_round = true;
    its->round = told->round;
    all->in_round++;
    atomic_fetch_add(&all->tally->in_round, 1);
    return TARRY_OK;
}

static void take_signal(emulated *all, emulated_worker *its, const order *told)
{
    all->owing += !its->owes;
    its->owes = true;
    its->attempt = told->attempt;
    if (its->signalled)
        return;
    its->signalled = true;
    atomic_fetch_add(&all->tally->signalled, 1);
    if (all_signalled(all))
        atomic_store(&all->tally->signal_ns, clock_now_ns());
}

/* Parts go out once all workers know: what is measured is the way of the signal. */
int emulated_send_parts(emulated *all)
{
    const codec_shape no_sets = {0};
    size_t size = all->settings->dimension * sizeof(float);
    int error = TARRY_OK;
    if (all->owing == 0 || !all_signalled(all))
        return TARRY_OK;
    memset(all->scratch, 0, WIRE_HEAD_BYTES + CODEC_HEADER_BYTES + size);
    for (uint32_t i = 0; error == TARRY_OK && i < all->count; i++) {
        emulated_worker *its = &all->workers[i];
        if (!its->owes || its->line.fd < 0)
            continue;
        const tarry_message part = {
            .type = TARRY_MESSAGE_PART,
            .round = its->round,
            .epoch = its->epoch,
            .attempt = its->attempt,
        };
        its->owes = false;
        all->owing--;
        wire_message_head(CODEC_HEADER_BYTES, all->settings->dimension * sizeof(float),
                          all->scratch);
        codec_encode(&no_sets, &part, all->scratch + WIRE_HEAD_BYTES);
        error = emulated_send(all, its, all->scratch, WIRE_HEAD_BYTES + CODEC_HEADER_BYTES + size);
    }
    return error;
}

static int take_message(emulated *all, emulated_worker *its, const uint8_t *body)
{
    order told = order_of(body);
    switch (told.type) {
    case TARRY_MESSAGE_ROUND:
        return take_round(all, its, &told);
    case TARRY_MESSAGE_SIGNAL:
        take_signal(all, its, &told);
        return TARRY_OK;
    default: /* nobody is probed before the silence limit, and FINISH changes nothing */
        return TARRY_OK;
    }
}

int emulated_take_frame(emulated *all, emulated_worker *its, const wire_head *head,
                        const uint8_t *body, tarry_diagnostic *diagnostic)
{
    wire_welcome told;
    wire_refused refused;
    wire_bye bye;
    switch (head->kind) {
    case WIRE_WELCOME:
        return wire_welcome_decode(head, body, &told, NULL) == TARRY_OK
                   ? take_welcome(all, its, &told, diagnostic)
                   : not_understood(diagnostic);
    case WIRE_MESSAGE:
        return take_message(all, its, body);
    case WIRE_REFUSED:
        if (wire_decode(head, body, &refused) != TARRY_OK)
            return not_understood(diagnostic);
        return wire_reason_passes(refused.reason)
                   ? TARRY_OK
                   : diagnose(diagnostic, TARRY_ERROR_STATE, "worker %u was refused: %s",
                              its->worker, refused.text);
    case WIRE_BYE:
        its->left = wire_decode(head, body, &bye) == TARRY_OK && bye == WIRE_BYE_DONE;
        return TARRY_OK;
    default: /* parameters are not computed with */
        return TARRY_OK;
    }
}
