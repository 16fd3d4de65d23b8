/* SPDX-License-Identifier: Apache-2.0 */
/* What transport.h promises, of the transport in memory. */
#include "failing_allocator.h"
#include "test.h"
#include "worlds/memory_transport.h"

enum { WORKERS = 2, ROOM = 4 };

typedef struct network {
    uint64_t clock, order;
    memory_network *memory;
    transport *coordinator, *workers[WORKERS];
} network;

static memory_rules rules_of(network *it)
{
    return (memory_rules){.clock = &it->clock,
                          .order = &it->order,
                          .workers = WORKERS,
                          .most_head = 16,
                          .most_body = 16,
                          .most_events = ROOM};
}

static void begin(network *it, const memory_rules *rules)
{
    assert_ok(memory_network_create(rules, NULL, &it->memory));
    it->coordinator = memory_network_end(it->memory, TRANSPORT_COORDINATOR);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        it->workers[worker] = memory_network_end(it->memory, worker);
}

static void say(transport *from, uint32_t to, const char *head, const char *body)
{
    size_t length = body != NULL ? strlen(body) : 0;
    transport_send(from, to, &(transport_frame){(const uint8_t *)head, strlen(head), body, length});
}

static void expect(transport *at, transport_event_type type, uint32_t peer, transport_event *event)
{
    transport_poll(at, transport_now(at), event);
    assert_int_equal(event->type, type);
    assert_int_equal(event->peer, peer);
}

static void expect_frame(transport *at, uint32_t peer, const char *head, const char *body)
{
    transport_event event;
    expect(at, TRANSPORT_FRAME, peer, &event);
    assert_int_equal(event.frame.head_size, strlen(head));
    assert_memory_equal(event.frame.head, head, strlen(head));
    assert_int_equal(event.frame.body_size, body != NULL ? strlen(body) : 0);
    if (body != NULL)
        assert_memory_equal(event.frame.body, body, strlen(body));
    else
        assert_null(event.frame.body);
}

static void expect_quiet(transport *at)
{
    transport_event event;
    expect(at, TRANSPORT_QUIET, 0, &event);
}

TEST(frames_arrive_in_order_at_their_end)
{
    network it = {.clock = 7};
    const memory_rules rules = rules_of(&it);
    begin(&it, &rules);
    assert_int_equal(transport_now(it.workers[0]), 7);
    memory_network_connect(it.memory, 0);
    memory_network_connect(it.memory, 1);
    say(it.coordinator, 1, "one", NULL);
    say(it.coordinator, 1, "two", "numbers");
    say(it.workers[0], TRANSPORT_COORDINATOR, "up", NULL);
    expect_quiet(it.workers[0]);
    expect_frame(it.workers[1], TRANSPORT_COORDINATOR, "one", NULL);
    expect_frame(it.coordinator, 0, "up", NULL);
    expect_frame(it.workers[1], TRANSPORT_COORDINATOR, "two", "numbers");
    expect_quiet(it.workers[1]);
    memory_network_free(it.memory);
}

/* What was polled last stays while its end sends as much as there is room for. */
TEST(a_frame_stays_until_the_next_poll)
{
    network it = {0};
    const memory_rules rules = rules_of(&it);
    begin(&it, &rules);
    memory_network_connect(it.memory, 0);
    for (int round = 0; round < 5; round++) {
        transport_event event;
        say(it.workers[0], TRANSPORT_COORDINATOR, "question", "body");
        expect(it.coordinator, TRANSPORT_FRAME, 0, &event);
        for (int i = 0; i + 1 < ROOM; i++)
            say(it.coordinator, 0, "answers!", "late");
        assert_memory_equal(event.frame.head, "question", 8);
        assert_memory_equal(event.frame.body, "body", 4);
        for (int i = 0; i + 1 < ROOM; i++)
            expect_frame(it.workers[0], TRANSPORT_COORDINATOR, "answers!", "late");
    }
    memory_network_free(it.memory);
}

TEST(a_closed_connection_carries_nothing)
{
    network it = {0};
    transport_event event;
    const memory_rules rules = rules_of(&it);
    begin(&it, &rules);
    say(it.coordinator, 0, "nobody", NULL);
    memory_network_connect(it.memory, 0);
    expect_quiet(it.workers[0]);
    transport_close(it.workers[0], TRANSPORT_COORDINATOR);
    transport_close(it.workers[0], TRANSPORT_COORDINATOR);
    say(it.workers[0], TRANSPORT_COORDINATOR, "late", NULL);
    say(it.coordinator, 0, "late", NULL);
    assert_false(memory_network_connected(it.memory, 0));
    expect(it.coordinator, TRANSPORT_GONE, 0, &event);
    assert_int_equal(event.connection, 1);
    expect_quiet(it.coordinator);
    expect_quiet(it.workers[0]);
    memory_network_connect(it.memory, 0);
    transport_close(it.coordinator, 0);
    expect(it.workers[0], TRANSPORT_GONE, TRANSPORT_COORDINATOR, &event);
    assert_int_equal(event.connection, 2);
    memory_network_free(it.memory);
}

TEST(an_end_is_woken)
{
    network it = {0};
    transport_event event;
    const memory_rules rules = rules_of(&it);
    begin(&it, &rules);
    transport_wake(it.coordinator);
    expect_quiet(it.workers[0]);
    transport_poll(it.coordinator, TARRY_NEVER, &event);
    assert_int_equal(event.type, TRANSPORT_WOKEN);
    expect_quiet(it.coordinator);
    memory_network_free(it.memory);
}

/* Twice, the second time before the first; and never for the last one. */
static void carry(void *user, uint32_t from, uint32_t to, const transport_frame *frame)
{
    network *it = user;
    memory_network_deliver(it->memory, it->clock + 9, from, to, frame);
    memory_network_deliver(it->memory, it->clock + 4, from, to, frame);
    memory_network_hear(it->memory, it->clock + 2, from, to);
}

static uint64_t notice(void *user, uint32_t from, uint32_t to)
{
    (void)from;
    return to == TRANSPORT_COORDINATOR ? ((network *)user)->clock + 3 : TARRY_NEVER;
}

TEST(the_owner_says_when)
{
    network it = {.clock = 10};
    transport_event event;
    memory_rules rules = rules_of(&it);
    rules.user = &it;
    rules.carry = carry;
    rules.notice = notice;
    begin(&it, &rules);
    memory_network_connect(it.memory, 1);
    say(it.workers[1], TRANSPORT_COORDINATOR, "twice", NULL);
    transport_close(it.workers[1], TRANSPORT_COORDINATOR);
    static const transport_event_type types[] = {TRANSPORT_HEARD, TRANSPORT_GONE, TRANSPORT_FRAME,
                                                 TRANSPORT_FRAME};
    static const uint64_t times[] = {12, 13, 14, 19};
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        assert_int_equal(memory_network_next(it.memory)->time, times[i]);
        it.clock = times[i] - 1;
        expect_quiet(it.coordinator);
        it.clock = times[i];
        expect(it.coordinator, types[i], 1, &event);
    }
    assert_null(memory_network_next(it.memory));
    memory_network_connect(it.memory, 1);
    transport_close(it.coordinator, 1);
    assert_null(memory_network_look(it.memory, 0));
    memory_network_reset(it.memory, WORKERS);
    assert_int_equal(memory_network_connection(it.memory, 1), 0);
    memory_network_free(it.memory);
}

static int create(void *user, const tarry_allocator *allocator)
{
    memory_network *made;
    network it = {0};
    (void)user;
    const memory_rules rules = rules_of(&it);
    int error = memory_network_create(&rules, allocator, &made);
    if (error == TARRY_OK)
        memory_network_free(made);
    return error;
}

TEST(each_allocation_can_fail)
{
    assert_int_equal(fail_each_allocation(create, NULL), 3);
}
