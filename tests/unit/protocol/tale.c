/* SPDX-License-Identifier: Apache-2.0 */
#include "tale.h"

#include "creation.h"
#include "edge_plan.h"
#include "test.h"

/* Every worker holds all chunks; worker 0 in their order, the others in the opposite one. */
void all_hold_all(tale *it, uint32_t workers, uint32_t chunks, uint32_t parts)
{
    edge edges[MOST_WORKERS * 8];
    size_t count = 0;
    *it = (tale){.told.epoch = 1};
    for (uint32_t worker = 0; worker < workers; worker++)
        for (uint32_t i = 0; i < chunks; i++)
            edges[count++] = (edge){worker, worker == 0 ? i : chunks - 1 - i};
    it->told.plan = edge_plan_make(workers, chunks, parts, edges, count, NULL);
    assert_non_null(it->told.plan);
    tarry_server_settings_init(&it->told.settings);
    it->told.settings.dimension = 10;
    it->told.settings.stripe_length = 16;
    it->told.settings.silence_ns = 800 * STORY_MS;
    it->told.settings.pick = TARRY_PICK_SHARE;
}

void tale_make_server(tale *it)
{
    it->told.server = server_make(it->told.plan, &it->told.settings);
}

/* All join and the first round starts, at 0 ms; its messages are for the test to expect. */
void tale_begin(tale *it)
{
    tale_make_server(it);
    for (uint32_t worker = 0; worker < it->told.plan->workers; worker++)
        joins(&it->told, worker);
    happens(&it->told, &(tarry_event){.type = TARRY_EVENT_START});
    books_agree(it->told.server);
}

tarry_message word_of(tale *it, uint32_t worker, tarry_message_type type, uint32_t next)
{
    if (++it->sequence[worker] == 0)
        it->sequence[worker] = 1;
    return (tarry_message){
        .type = type,
        .round = it->told.round,
        .epoch = it->told.epoch,
        .next = next,
        .sequence = it->sequence[worker],
    };
}

/* It has finished a chunk and turned to another one. */
void finishes(tale *it, uint32_t worker, uint32_t slot, uint32_t next)
{
    tarry_message report = word_of(it, worker, TARRY_MESSAGE_REPORT, next);
    report.slot = slot;
    says(&it->told, worker, &report);
    books_agree(it->told.server);
}

void fails_at(tale *it, uint32_t worker, uint32_t slot, uint32_t next)
{
    tarry_message report = word_of(it, worker, TARRY_MESSAGE_REPORT, next);
    report.slot = slot;
    report.failed = true;
    says(&it->told, worker, &report);
    books_agree(it->told.server);
}

void is_at(tale *it, uint32_t worker, uint32_t slot)
{
    tarry_message alive = word_of(it, worker, TARRY_MESSAGE_ALIVE, slot);
    says(&it->told, worker, &alive);
    books_agree(it->told.server);
}

void assert_set(const uint64_t *set, const char *text)
{
    for (size_t slot = 0; text[slot] != '\0'; slot++)
        assert_int_equal(set != NULL && bitset_test(set, slot), text[slot] == '1');
}

void expect_order(tale *it, uint32_t worker, tarry_message_type type, const char *first,
                  const char *barred)
{
    const tarry_message *message = expect_send(&it->told, worker, type);
    assert_set(message->first, first);
    assert_set(message->barred, barred);
}

uint32_t at_which(const tale *it, uint32_t worker)
{
    return it->told.server->steering->workers[worker].current;
}

/* Two workers and four chunks: 0 and 2 are the share of worker 0, 3 and 1 that of worker 1. */
void two_share_four(tale *it)
{
    all_hold_all(it, 2, 4, 1);
    tale_begin(it);
    expect_order(it, 0, TARRY_MESSAGE_ROUND, "1010", "0000");
    expect_order(it, 1, TARRY_MESSAGE_ROUND, "1010", "0001"); /* chunk 0 is begun by then */
    expect_nothing(&it->told);
}

void tale_end(tale *it)
{
    story_end(&it->told);
}

void expect_anything(tale *it)
{
    it->told.expected = it->told.effects->count;
}

void has_begun(tale *it)
{
    tale_begin(it);
    expect_anything(it);
}

void has_finished(tale *it, uint32_t worker, uint32_t slot, uint32_t next)
{
    finishes(it, worker, slot, next);
    expect_anything(it);
}

void has_failed_at(tale *it, uint32_t worker, uint32_t slot, uint32_t next)
{
    fails_at(it, worker, slot, next);
    expect_anything(it);
}

void has_been_at(tale *it, uint32_t worker, uint32_t slot)
{
    is_at(it, worker, slot);
    expect_anything(it);
}
