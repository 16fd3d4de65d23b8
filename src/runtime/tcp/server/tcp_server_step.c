/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/server/tcp_server.h"

#include <string.h>

#include "runtime/clock.h"
#include "runtime/coverage_text.h"

/* To wake a decode thread takes about as long as it takes to sum a stripe. */
enum { STRIPES_AT_ONCE = 8 };

uint64_t tcp_server_read_clock(tarry_tcp_server *server)
{
    server->now_ns = clock_now_ns();
    return server->now_ns;
}

void tcp_server_notify(tarry_tcp_server *server, tarry_tcp_notice *notice)
{
    if (server->settings.observe == NULL)
        return;
    notice->now_ns = tcp_server_now(server);
    if (notice->peer == NULL)
        notice->peer = "";
    if (notice->text == NULL)
        notice->text = "";
    if (notice->rack == NULL)
        notice->rack = "";
    server->settings.observe(server->settings.observe_user, notice);
}

static void count_present(tarry_tcp_server *server, bool more)
{
    pthread_mutex_lock(&server->lock);
    if (more)
        server->present++;
    else
        server->present--;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

/* The machine has given the worker up: by itself, or because it was told that it is gone. */
static void leave(tarry_tcp_server *server, uint32_t worker)
{
    tcp_member *member = &server->members[worker];
    if (!member->joined)
        return;
    member->joined = false;
    member->signal.open = false;
    count_present(server, false);
}

static void leave_out(tarry_tcp_server *server, const tarry_effect *effect)
{
    tcp_member *member = &server->members[effect->worker];
    peer *who = tcp_server_peer(server, effect->worker);
    const peer *left = who != NULL ? who : server->leaving;
    tarry_absence reason = effect->reason;
    switch (reason) {
    case TARRY_ABSENT_GONE:
        if (member->state == WIRE_WORKER_LEFT)
            return; /* it said so itself */
        if (member->state == WIRE_WORKER_SILENT)
            reason = TARRY_ABSENT_SILENT; /* found out between two rounds */
        else
            member->state = WIRE_WORKER_GONE;
        break;
    case TARRY_ABSENT_SILENT:
        member->state = WIRE_WORKER_SILENT;
        leave(server, effect->worker);
        if (who != NULL)
            peer_later(who, PEER_DROP);
        break;
    case TARRY_ABSENT_LATE:
    case TARRY_ABSENT_FAILED:
        member->state = WIRE_WORKER_LATE;
        break;
    }
    member->gone += reason == TARRY_ABSENT_GONE;
    member->silent += reason == TARRY_ABSENT_SILENT;
    member->late += reason == TARRY_ABSENT_LATE;
    member->failed += reason == TARRY_ABSENT_FAILED;
    tcp_server_notify(server, &(tarry_tcp_notice){
                                  .type = TARRY_TCP_LEFT_OUT,
                                  .round = effect->round,
                                  .worker = effect->worker,
                                  .absence = reason,
                                  .waited_ns = effect->waited_ns,
                                  .limit_ns = effect->limit_ns,
                                  .peer = left != NULL ? channel_peer(left->channel) : NULL,
                                  .text = left != NULL && reason == TARRY_ABSENT_GONE
                                              ? channel_failure(left->channel)
                                              : NULL,
                              });
}

static void remember_round(tarry_tcp_server *server, const tarry_round_result *result)
{
    if (result->error == TARRY_OK)
        server->durations[server->rounds++ % TCP_REMEMBERED_ROUNDS] =
            result->end_ns - result->start_ns;
    server->exact_rounds += result->error == TARRY_OK && result->exact;
}

/* Nothing of the round is sent, summed or read any more once the caller's thread goes on. */
static void finish_round(tarry_tcp_server *server, const tarry_round_result *result)
{
    tcp_round *round = &server->round;
    round->result = *result;
    round->error = server->failure != TARRY_OK ? server->failure : result->error;
    if (round->error == TARRY_ERROR_COVERAGE)
        coverage_describe(server->machine, server->plan, &server->settings.server, result,
                          &round->diagnostic);
    for (stripe *item; (item = stripe_queue_pop(&server->combining)) != NULL;)
        tcp_server_give_stripe(server, item);
    server->combining_count = 0;
    tcp_server_unpark_all(server);
    tcp_server_drop_parameters(server);
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        tcp_member *member = &server->members[worker];
        member->signal.open = false;
        if (member->joined)
            member->state = WIRE_WORKER_RESTING;
    }
    remember_round(server, result);
    tcp_server_notify(server, &(tarry_tcp_notice){
                                  .type = TARRY_TCP_ROUND,
                                  .round = result->round,
                                  .worker = TARRY_TCP_NO_WORKER,
                                  .result = result,
                              });
    server->failure = TARRY_OK;
    round->running = false;
    pthread_mutex_lock(&server->lock);
    server->round_over = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

static void send_message(tarry_tcp_server *server, const tarry_effect *effect)
{
    const tarry_message *message = &effect->message;
    if (message->type == TARRY_MESSAGE_RESUME) {
        tcp_server_sum(server);
        decoding_forget(server->sums);
        tcp_server_unpark_all(server);
    }
    if (message->type == TARRY_MESSAGE_SIGNAL && message->attempt != server->signalled) {
        server->signalled = message->attempt;
        tcp_server_unpark_all(server); /* of attempts before, also of stripes that are no more */
        tcp_server_notify(server, &(tarry_tcp_notice){
                                      .type = TARRY_TCP_SIGNAL,
                                      .round = message->round,
                                      .worker = TARRY_TCP_NO_WORKER,
                                      .attempt = message->attempt,
                                  });
    }
    tcp_server_send(server, effect->worker, message);
}

static void carry_out(tarry_tcp_server *server, const tarry_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        switch (effect->type) {
        case TARRY_EFFECT_SEND:
            send_message(server, effect);
            break;
        case TARRY_EFFECT_CLEAR:
            tcp_server_sum(server);
            decoding_clear(server->sums, effect->parts, effect->stripe);
            tcp_server_unpark(server, effect->stripe);
            break;
        case TARRY_EFFECT_COMBINE:
            tcp_server_combine(server, effect);
            break;
        case TARRY_EFFECT_DONE:
            finish_round(server, effect->result);
            break;
        case TARRY_EFFECT_REJECT:
            server->rejected = true;
            server->reject = effect->reject;
            break;
        case TARRY_EFFECT_LEFT_OUT:
            leave_out(server, effect);
            break;
        case TARRY_EFFECT_COMPUTE:
        case TARRY_EFFECT_CANCEL:
        case TARRY_EFFECT_ENCODE:
        case TARRY_EFFECT_FOLD:
        case TARRY_EFFECT_DROP:
            break;
        }
    }
    /* Never in the middle of a step: with `reproducible` its stripes are summed in one pass. */
    if (server->combining_count >= STRIPES_AT_ONCE)
        tcp_server_sum(server);
}

void tcp_server_step(tarry_tcp_server *server, const tarry_event *event)
{
    const tarry_effects *effects;
    server->rejected = false;
    int error = tarry_server_step(server->machine, tcp_server_now(server), event, &effects);
    if (error != TARRY_OK)
        tcp_server_fail_round(server, error);
    else if (effects->count > 0)
        carry_out(server, effects);
}

void tcp_server_begin_round(tarry_tcp_server *server)
{
    tcp_round *round = &server->round;
    round->running = true;
    server->board.published = false;
    round->error = TARRY_OK;
    round->diagnostic.text[0] = '\0';
    server->failure = TARRY_OK;
    server->signalled = 0;
    round->start_ns = tcp_server_now(server);
    decoding_begin(server->sums, round->sum);
    tcp_server_step(server, &(tarry_event){.type = TARRY_EVENT_START});
}

void tcp_server_fail_round(tarry_tcp_server *server, int error)
{
    if (server->round.running && server->failure == TARRY_OK)
        server->failure = error;
}

/* A machine that can't even be told to end the round has none. */
void tcp_server_abort_failed(tarry_tcp_server *server)
{
    if (!server->round.running || server->failure == TARRY_OK)
        return;
    const tarry_effects *effects;
    int error = tarry_server_step(server->machine, tcp_server_now(server),
                                  &(tarry_event){.type = TARRY_EVENT_ABORT}, &effects);
    if (error == TARRY_OK)
        carry_out(server, effects);
    else
        finish_round(server, &(tarry_round_result){.error = error});
}

void tcp_server_join(tarry_tcp_server *server, peer *who)
{
    tcp_member *member = &server->members[who->worker];
    const char *how = member->arrivals == 0 ? "first" : member->restarted ? "restarted" : "again";
    member->arrivals++;
    member->restarted = false;
    member->joined = true;
    member->state = WIRE_WORKER_RESTING;
    count_present(server, true);
    tcp_server_notify(server, &(tarry_tcp_notice){
                                  .type = TARRY_TCP_JOINED,
                                  .round = server->round.number,
                                  .worker = who->worker,
                                  .peer = channel_peer(who->channel),
                                  .text = how,
                                  .rack = member->rack,
                              });
    tcp_server_step(server, &(tarry_event){.type = TARRY_EVENT_JOINED, .worker = who->worker});
    if (!server->rejected)
        return;
    leave(server, who->worker);
    who->refusal = WIRE_REFUSED_ARRIVALS;
    peer_later(who, PEER_REFUSE);
}

void tcp_server_lose(tarry_tcp_server *server, const peer *who)
{
    if (!server->members[who->worker].joined)
        return;
    leave(server, who->worker);
    if (server->closing)
        return;
    server->leaving = who;
    tcp_server_step(server, &(tarry_event){.type = TARRY_EVENT_LOST, .worker = who->worker});
    server->leaving = NULL;
}
