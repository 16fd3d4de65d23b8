/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/server/server_state.h"

/* The chunks that the worker computes before all others: those missing that it has not finished. */
static const uint64_t *compose_first(tarry_server *server, uint32_t worker)
{
    const tarry_plan *plan = server->plan;
    uint64_t *slots = server->bits + server->bits_offset[worker] +
                      bitset_words(server->shapes[worker].psi_bits) +
                      bitset_words(server->shapes[worker].slots);
    uint32_t first = plan->worker_offset[worker], load = server_load(server, worker);
    uint32_t least = plan_least_parts(plan);
    for (uint32_t slot = 0; slot < load; slot++)
        bitset_put(slots, slot,
                   coverage_rank(server->credited, least, plan->slot_chunk[first + slot]) < least &&
                       !bitset_test(server->done, first + slot) &&
                       !bitset_test(server->failed, first + slot));
    return slots;
}

void server_news_due(tarry_server *server, uint32_t worker)
{
    server_member *member = &server->members[worker];
    if (member->news_due)
        return;
    member->news_due = true;
    server->news[server->news_count++] = worker;
}

/* Marked by their recall terms. */
static const uint64_t *compose_recalled(tarry_server *server, uint32_t worker)
{
    const server_member *member = &server->members[worker];
    uint32_t first = server->plan->worker_offset[worker], load = server_load(server, worker);
    uint64_t *slots = server->bits + server->bits_offset[worker] +
                      bitset_words(server->shapes[worker].psi_bits) + 2 * bitset_words(load);
    for (uint32_t slot = 0; slot < load; slot++)
        bitset_put(slots, slot, server->recall_term[first + slot] == member->term);
    return slots;
}

tarry_message *server_news(tarry_server *server, uint32_t worker)
{
    server_member *member = &server->members[worker];
    tarry_message *news = &server_send(server, worker, TARRY_MESSAGE_NEWS)->message;
    if (member->recalled) {
        member->term++;
        member->reordered = true;
        news->recalled = compose_recalled(server, worker);
    }
    if (member->fate != TARRY_FATE_OPEN) {
        news->fate = member->fate;
        news->slot = member->fate_slot;
    }
    news->term = member->term;
    if (server->steering == NULL && member->reordered)
        news->first = compose_first(server, worker);
    member->news_due = member->recalled = false;
    member->fate = TARRY_FATE_OPEN;
    return news;
}

/*
 * News of something else than the order. What a dynamic order says stands, so that workers go by
 * the same orders as those that keep all; but copies that were dropped and are wanted after all are
 * in no order.
 */
static void send_news(tarry_server *server, uint32_t worker)
{
    tarry_message *news = server_news(server, worker);
    if (server->steering != NULL && news->recalled != NULL)
        steering_add(server, worker, news);
}

void server_send_news(tarry_server *server)
{
    for (uint32_t i = 0; i < server->news_count; i++) {
        server_member *member = &server->members[server->news[i]];
        if (member->news_due && member_able(member))
            send_news(server, server->news[i]);
        member->news_due = member->recalled = false;
        member->fate = TARRY_FATE_OPEN;
    }
    server->news_count = 0;
}

void server_send_resume(tarry_server *server, uint64_t now, uint32_t worker)
{
    server_member *member = &server->members[worker];
    member->reordered = true;
    tarry_message *resume = &server_send(server, worker, TARRY_MESSAGE_RESUME)->message;
    resume->first = compose_first(server, worker);
    resume->term = member->term;
    steering_address(server, now, worker, resume);
}
