/* SPDX-License-Identifier: Apache-2.0 */
#include "failing_allocator.h"
#include "runtime/tcp/server/tcp_server_step.h"
#include "test.h"

enum { WORKERS = 3, QUIET = 100 };

static const uint8_t processes[5][WIRE_ID_BYTES] = {{1}, {2}, {3}, {4}, {5}};

static wire_reason find(const roster *its, uint32_t allowed, uint32_t wanted, uint32_t process,
                        uint64_t now, uint32_t *worker)
{
    roster_claim claim = {allowed, wanted, processes[process]};
    return roster_find(its, &claim, now, QUIET, worker);
}

static roster_arrival sit_as(roster *its, uint32_t allowed, uint32_t worker, uint32_t process,
                             uint64_t now)
{
    roster_claim claim = {allowed, worker, processes[process]};
    return roster_sit(its, worker, (void *)(processes + process), &claim, now);
}

static roster_arrival sit(roster *its, uint32_t worker, uint32_t process, uint64_t now)
{
    return sit_as(its, WIRE_ANY_WORKER, worker, process, now);
}

/* It gets that worker's seat. */
static void gets(const roster *its, uint32_t allowed, uint32_t wanted, uint32_t process,
                 uint64_t now, uint32_t expected)
{
    uint32_t worker;
    assert_int_equal(find(its, allowed, wanted, process, now, &worker), 0);
    assert_int_equal(worker, expected);
}

static void begin(roster *its)
{
    assert_ok(roster_init(its, WORKERS, NULL));
}

static void end(roster *its)
{
    roster_destroy(its, NULL);
}

#define ROSTER(name) TEST_WITH(name, roster, its, begin, end)

ROSTER(credentials_say_who_may_be_whom)
{
    uint32_t worker = 77;
    assert_int_equal(find(its, 1, 2, 0, 0, &worker), WIRE_REFUSED_IDENTITY);
    assert_int_equal(find(its, WIRE_ANY_WORKER, 3, 0, 0, &worker), WIRE_REFUSED_RANGE);
    assert_int_equal(find(its, 3, WIRE_ANY_WORKER, 0, 0, &worker), WIRE_REFUSED_RANGE);
    assert_int_equal(worker, 77);
    gets(its, 1, WIRE_ANY_WORKER, 0, 0, 1);
    gets(its, 2, 2, 0, 0, 2);
}

ROSTER(a_seat_is_held_while_its_holder_is_heard)
{
    uint32_t worker;
    assert_int_equal(sit(its, 1, 0, 1000), ROSTER_FIRST);
    assert_int_equal(find(its, WIRE_ANY_WORKER, 1, 1, 1000 + QUIET, &worker), WIRE_REFUSED_TAKEN);
    assert_int_equal(find(its, WIRE_ANY_WORKER, 1, 1, 1001 + QUIET, &worker), 0);
    its->seats[1].heard_ns = 1050;
    assert_int_equal(find(its, WIRE_ANY_WORKER, 1, 1, 1001 + QUIET, &worker), WIRE_REFUSED_TAKEN);
    gets(its, WIRE_ANY_WORKER, 1, 0, 1001 + QUIET, 1);
    roster_leave(its, 1);
    assert_int_equal(find(its, WIRE_ANY_WORKER, 1, 1, 1001, &worker), 0);
    assert_int_equal(sit(its, 1, 0, 1100), ROSTER_AGAIN);
    roster_leave(its, 1);
    assert_int_equal(sit(its, 1, 1, 1200), ROSTER_RESTARTED);
    assert_int_equal(its->seats[1].arrivals, 3);
}

ROSTER(whoever_comes_back_finds_its_own_seat)
{
    uint32_t worker;
    for (uint32_t process = 0; process < 2; process++) {
        gets(its, WIRE_ANY_WORKER, WIRE_ANY_WORKER, process, 5, process);
        sit(its, process, process, 5);
    }
    roster_leave(its, 0);
    gets(its, WIRE_ANY_WORKER, WIRE_ANY_WORKER, 2, 5,
         2); /* not that of the one that may come back */
    sit(its, 2, 2, 5);
    gets(its, WIRE_ANY_WORKER, WIRE_ANY_WORKER, 1, 5, 1); /* its own, though it is still held */
    gets(its, WIRE_ANY_WORKER, WIRE_ANY_WORKER, 3, 5, 0);
    sit(its, 0, 3, 5);
    assert_int_equal(find(its, WIRE_ANY_WORKER, WIRE_ANY_WORKER, 4, 5, &worker), WIRE_REFUSED_FULL);
}

/* One whose holder is away for a moment is the last that is given to another. */
ROSTER(the_seat_longest_free_goes_first)
{
    for (uint32_t process = 0; process < WORKERS; process++)
        sit(its, process, process, 5);
    its->seats[0].heard_ns = 30;
    its->seats[1].heard_ns = 10;
    its->seats[2].heard_ns = 20;
    for (uint32_t process = 0; process < WORKERS; process++)
        roster_leave(its, process);
    const uint32_t order[WORKERS] = {1, 2, 0};
    for (uint32_t i = 0; i < WORKERS; i++) {
        gets(its, WIRE_ANY_WORKER, WIRE_ANY_WORKER, 3, 40, order[i]);
        sit(its, order[i], 4, 40);
        its->seats[order[i]].instance[1] = (uint8_t)(i + 1); /* three others */
    }
}

ROSTER(bound_credentials_go_before_others)
{
    uint32_t worker;
    sit(its, 1, 0, 1000);
    gets(its, 1, WIRE_ANY_WORKER, 1, 1000, 1); /* though it is held */
    roster_leave(its, 1);
    assert_int_equal(sit_as(its, 1, 1, 1, 1000), ROSTER_RESTARTED);

    /* Silent or not, with its process's own number or not: it is the other's. */
    for (uint32_t process = 0; process < 2; process++)
        assert_int_equal(find(its, WIRE_ANY_WORKER, 1, process, 2000 + QUIET, &worker),
                         WIRE_REFUSED_TAKEN);
    assert_int_equal(find(its, 1, 1, 2, 1000, &worker), WIRE_REFUSED_TAKEN);
    assert_int_equal(find(its, 1, 1, 2, 2000 + QUIET, &worker), 0); /* started again elsewhere */
    assert_int_equal(find(its, 1, 1, 1, 1000, &worker), 0);
    assert_int_equal(find(its, 0, 1, 1, 1000, &worker), WIRE_REFUSED_IDENTITY);
}

ROSTER(the_seats_of_bound_workers_are_given_last)
{
    uint32_t worker;
    sit_as(its, 0, 0, 0, 1000);
    sit(its, 1, 1, 2000);
    sit(its, 2, 2, 3000);
    roster_leave(its, 0);
    roster_leave(its, 1);
    gets(its, WIRE_ANY_WORKER, WIRE_ANY_WORKER, 3, 4000, 1);
    sit(its, 1, 3, 4000);
    /* As none else is left, until its own worker is back. */
    gets(its, WIRE_ANY_WORKER, WIRE_ANY_WORKER, 0, 4000, 0);
    sit(its, 0, 4, 4000);
    assert_int_equal(find(its, WIRE_ANY_WORKER, WIRE_ANY_WORKER, 0, 4000, &worker),
                     WIRE_REFUSED_FULL);
    gets(its, 0, WIRE_ANY_WORKER, 0, 4000, 0);
}

static int make(void *user, const tarry_allocator *allocator)
{
    roster its;
    int error = roster_init(&its, WORKERS, allocator);
    if (error == TARRY_OK)
        roster_destroy(&its, allocator);
    return error;
}

TEST(does_without_memory)
{
    assert_int_equal(fail_each_allocation(make, NULL), 1);
}
