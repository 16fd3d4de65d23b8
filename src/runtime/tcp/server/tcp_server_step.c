/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/server/tcp_server.h"

#include <string.h>

#include "runtime/clock.h"
#include "runtime/tcp/net/notice.h"

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
    notice_tell(server->settings.observe, server->settings.observe_user, notice);
}

static void count_present(tarry_tcp_server *server, bool more)
{
    pthread_mutex_lock(&server->lock);
    server->present = server->base.host->present;
    server->joins += more;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

static void on_left_out(void *user, const tarry_effect *effect)
{
    tarry_tcp_server *server = user;
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
        count_present(server, false);
        if (who != NULL)
            peer_defer(who, PEER_DROP);
        break;
    case TARRY_ABSENT_LATE:
    case TARRY_ABSENT_FAILED:
    case TARRY_ABSENT_DIFFERS:
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
    if (result->sum.step > 0)
        server->last_sum = (wire_sum_status){
            .step = result->sum.step,
            .term = result->sum.term,
            .attempt = result->sum.attempt,
            .voters = result->voters,
            .fetches = result->fetches,
            .tries = result->attempts,
            .shape = result->shape,
            .links = result->links,
        };
}

void tcp_server_count_ready(tarry_tcp_server *server)
{
    const host *its = server->base.host;
    uint32_t ready =
        tcp_server_is_everywhere(server) ? tarry_server_count_ready(its->machine) : its->present;
    if (ready == server->ready) /* which this thread alone writes */
        return;
    tcp_server_end_loans(server);
    pthread_mutex_lock(&server->lock);
    server->ready = ready;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

/* The caller's thread goes on, and finds who is ready then. */
static void on_done(void *user)
{
    tarry_tcp_server *server = user;
    const tarry_round_result *result = &server->base.host->round.result;
    tcp_server_drop_parameters(server);
    tcp_server_count_ready(server);
    for (uint32_t worker = 0; worker < server->base.host->plan->workers; worker++)
        if (server->base.host->members[worker].joined)
            server->members[worker].state = WIRE_WORKER_RESTING;
    remember_round(server, result);
    tcp_server_notify(server, &(tarry_tcp_notice){
                                  .type = TARRY_TCP_ROUND,
                                  .round = result->round,
                                  .worker = TARRY_TCP_NO_WORKER,
                                  .result = result,
                              });
    pthread_mutex_lock(&server->lock);
    server->round_over = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

static void on_signalled(void *user, uint64_t round, uint32_t attempt)
{
    tcp_server_notify(user, &(tarry_tcp_notice){
                                .type = TARRY_TCP_SIGNAL,
                                .round = round,
                                .worker = TARRY_TCP_NO_WORKER,
                                .attempt = attempt,
                            });
}

static void on_summed(void *user)
{
    tcp_server_changed(user);
}

static uint64_t now_of(void *user)
{
    return tcp_server_now(user);
}

host_transport tcp_server_transport(tarry_tcp_server *server)
{
    return (host_transport){
        .user = server,
        .send = tcp_server_send,
        .released = tcp_server_release_stripe,
        .left_out = on_left_out,
        .signalled = on_signalled,
        .done = on_done,
        .summed = on_summed,
        .now = now_of,
    };
}

void tcp_server_begin_round(tarry_tcp_server *server, float *sum)
{
    server->shm_parameters.published = false;
    host_begin(server->base.host, sum);
}

void tcp_server_join(tarry_tcp_server *server, peer *who)
{
    tcp_member *member = &server->members[who->worker];
    tarry_arrival arrival = member->arrivals == 0 ? TARRY_ARRIVAL_FIRST
                            : member->restarted   ? TARRY_ARRIVAL_RESTARTED
                                                  : TARRY_ARRIVAL_AGAIN;
    member->arrivals++;
    member->restarted = false;
    member->state = WIRE_WORKER_RESTING;
    member->steps_on = 0;
    tcp_server_notify(server, &(tarry_tcp_notice){
                                  .type = TARRY_TCP_JOINED,
                                  .round = server->base.host->round.number,
                                  .worker = who->worker,
                                  .peer = channel_peer(who->channel),
                                  .arrival = arrival,
                                  .rack = member->rack,
                                  .numerics = member->numerics,
                              });
    host *core = server->base.host;
    tcp_server_tell_keys(server, who);
    bool rejected = host_join(core, who->worker) != NULL;
    if (!rejected)
        tcp_server_spread_key(server, who, tarry_server_epoch(core->machine, who->worker));
    count_present(server, !rejected);
    if (!rejected)
        return;
    who->refusal = WIRE_REFUSED_ARRIVALS;
    peer_defer(who, PEER_REFUSE);
}

void tcp_server_lose(tarry_tcp_server *server, uint32_t worker, const peer *who)
{
    if (server->closing)
        return; /* the machine steps no more */
    server->leaving = who;
    host_lose(server->base.host, worker);
    server->leaving = NULL;
    tcp_server_lend_no_more(server, worker);
    count_present(server, false);
}
