/* SPDX-License-Identifier: Apache-2.0 */
/* Which settings go together: what is refused is what servers refuse, and what is settled they
 * take. The server is asked itself, and the numbers of a plan are by making it. */
#include <math.h>

#include <tarry/settings.h>

#include "test.h"

/* All that a digit of a number may choose. */
typedef struct choice {
    tarry_setting setting;
    int values;
} choice;

static const choice choices[] = {
    {TARRY_SETTING_ORDER, 2},        {TARRY_SETTING_PARTS, 2},  {TARRY_SETTING_CREDIT, 2},
    {TARRY_SETTING_KEEP, 3},         {TARRY_SETTING_STOP, 4},   {TARRY_SETTING_FILL, 3},
    {TARRY_SETTING_REPRODUCIBLE, 2}, {TARRY_SETTING_SECURE, 2},
};

enum {
    CHOICES = sizeof(choices) / sizeof(choices[0]),
    COMBINATIONS = 2 * 2 * 2 * 3 * 4 * 3 * 2 * 2
};

static void choose(tarry_settings *settings, tarry_setting setting, int value)
{
    switch (setting) {
    case TARRY_SETTING_ORDER:
        settings->server.pick = value == 0 ? TARRY_PICK_PLAN : TARRY_PICK_SHARE;
        break;
    case TARRY_SETTING_PARTS:
        settings->plan.parts = (uint32_t)value + 1;
        break;
    case TARRY_SETTING_CREDIT:
        settings->server.credit = (tarry_credit)value;
        break;
    case TARRY_SETTING_KEEP:
        settings->keep_auto = value == 2;
        settings->server.keep = value == 1 ? TARRY_KEEP_CREDITED : TARRY_KEEP_ALL;
        break;
    case TARRY_SETTING_STOP:
        settings->server.stop = (tarry_stop)value;
        break;
    case TARRY_SETTING_FILL:
        settings->server.fill = (tarry_fill)value;
        break;
    case TARRY_SETTING_SECURE:
        settings->server.secure = value == 1 ? 64 : 0;
        break;
    default:
        settings->server.reproducible = value == 1;
        break;
    }
}

/* The settings of a number, all or (`given`) those of some digits, the others by default. */
static tarry_settings make(int number, uint32_t given)
{
    tarry_settings settings;
    tarry_settings_init(&settings);
    settings.plan.workers = settings.plan.chunks = 4;
    settings.plan.pieces = 1;
    settings.server.dimension = 8;
    settings.server.deadline_ns = settings.server.workers_needed = 1;
    for (int i = 0; i < CHOICES; i++, number /= choices[i - 1].values)
        if ((given & TARRY_SETTING_BIT(choices[i].setting)) != 0)
            choose(&settings, choices[i].setting, number % choices[i].values);
    return settings;
}

static bool server_takes(const tarry_settings *settings)
{
    tarry_plan_settings of_plan = settings->plan;
    tarry_plan *plan;
    tarry_server *server = NULL;
    assert_ok(tarry_plan_create(&of_plan, NULL, &plan, NULL));
    tarry_settings kept = *settings;
    tarry_settings_keep(&kept, 8, INFINITY, false);
    int error = tarry_server_create(plan, &kept.server, NULL, &server, NULL);
    tarry_server_free(server);
    tarry_plan_free(plan);
    assert_true(error == TARRY_OK || error == TARRY_ERROR_ARGUMENT);
    return error == TARRY_OK;
}

TEST(all_that_is_given_is_judged_as_servers_do)
{
    size_t taken = 0;
    for (int number = 0; number < COMBINATIONS; number++) {
        tarry_settings settings = make(number, UINT32_MAX), settled = settings;
        tarry_conflict conflict = {0};
        bool takes = server_takes(&settings);
        bool idle =
            settings.server.fill != TARRY_FILL_NONE && settings.server.stop == TARRY_STOP_EXACT;
        taken += takes;
        assert_int_equal(tarry_settings_check(&settings, &conflict) == TARRY_OK, takes);
        int error = tarry_settings_settle(&settled, UINT32_MAX, &conflict);
        assert_int_equal(error == TARRY_OK, takes && !idle);
        if (error == TARRY_OK)
            continue;
        assert_memory_equal(&settled, &settings, sizeof(settings));
        assert_int_not_equal(conflict.first, conflict.second);
        assert_true(strlen(conflict.reason) > 10);
    }
    assert_in_range(taken, 50, COMBINATIONS / 2);
}

/* Whether all digits but those of the given settings are 0. */
static bool is_of(int number, uint32_t given)
{
    for (int i = 0; i < CHOICES; number /= choices[i++].values)
        if (number % choices[i].values != 0 && (given & TARRY_SETTING_BIT(choices[i].setting)) == 0)
            return false;
    return true;
}

TEST(pairs_are_refused_where_both_are_given)
{
    for (int number = 0; number < COMBINATIONS; number++)
        for (int one = 0; one < CHOICES; one++)
            for (int other = one; other < CHOICES; other++) {
                uint32_t given = TARRY_SETTING_BIT(choices[one].setting) |
                                 TARRY_SETTING_BIT(choices[other].setting);
                if (!is_of(number, given))
                    continue;
                tarry_settings settings = make(number, given);
                tarry_conflict conflict;
                if (tarry_settings_settle(&settings, given, &conflict) == TARRY_OK)
                    assert_true(server_takes(&settings));
                else
                    assert_int_equal(TARRY_SETTING_BIT(conflict.first) |
                                         TARRY_SETTING_BIT(conflict.second),
                                     given);
            }
}

TEST(numbers_yield_to_those_that_are_given)
{
    for (uint32_t number = 0; number < 6 * 6 * 6; number++) {
        const uint32_t workers = number % 6 * 2, copies = number / 6 % 6, parts = number / 36;
        tarry_settings settings;
        tarry_conflict conflict;
        tarry_settings_init(&settings);
        uint32_t given = 0;
        if (workers > 0)
            given |= TARRY_SETTING_BIT(TARRY_SETTING_WORKERS);
        if (copies > 0)
            given |= TARRY_SETTING_BIT(TARRY_SETTING_REPLICATION);
        if (parts > 0)
            given |= TARRY_SETTING_BIT(TARRY_SETTING_PARTS);
        settings.plan.workers = workers > 0 ? workers : settings.plan.workers;
        settings.plan.replication = copies > 0 ? copies : settings.plan.replication;
        settings.plan.parts = parts > 0 ? parts : settings.plan.parts;
        bool possible = (workers == 0 || (copies <= workers && parts <= workers)) &&
                        (copies == 0 || parts <= copies);
        int error = tarry_settings_settle(&settings, given, &conflict);
        assert_int_equal(error == TARRY_OK, possible);
        if (!possible) {
            assert_true(conflict.exceeds);
            continue;
        }
        OWNED(tarry_plan) plan = NULL;
        assert_true(workers == 0 || settings.plan.workers == workers);
        assert_true(copies == 0 || settings.plan.replication == copies);
        assert_true(parts == 0 || settings.plan.parts == parts);
        assert_ok(tarry_plan_create(&settings.plan, NULL, &plan, NULL));
    }
}

TEST(pieces_are_as_many_as_workers_can_share)
{
    const struct {
        uint32_t workers, chunks, pieces;
    } cases[] = {{8, 8, 8}, {8, 1, 64}, {8, 64, 1}, {8, 60, 2}, {4, 100, 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tarry_settings settings;
        tarry_conflict conflict;
        tarry_settings_init(&settings);
        settings.plan.workers = cases[i].workers;
        settings.plan.chunks = cases[i].chunks;
        assert_ok(tarry_settings_settle(&settings, 0, &conflict));
        assert_int_equal(settings.plan.pieces, cases[i].pieces);
    }
}

TEST(every_setting_has_a_name)
{
    for (int one = 0; one < TARRY_SETTING_COUNT; one++)
        for (int other = 0; other < one; other++)
            assert_string_not_equal(tarry_setting_name((tarry_setting)one),
                                    tarry_setting_name((tarry_setting)other));
}

/* Of 1,000 numbers, in stripes of 300 or in one: a byte each, and 4 for each block of 256 that is
 * begun in a stripe; the last stripe has room as the others. */
TEST(a_form_takes_a_worker_another_part)
{
    tarry_server_settings server;
    tarry_server_settings_init(&server);
    uint64_t plain = tarry_worker_bytes(3, 1, &server, 1000);
    assert_int_equal(plain, (3 + 1) * 1000 * 4);
    server.compress = TARRY_COMPRESS_INT8;
    server.stripe_length = 300;
    assert_int_equal(tarry_worker_bytes(3, 1, &server, 1000) - plain, 4 * (300 + 2 * 4));
    server.stripe_length = 0; /* chosen later */
    assert_int_equal(tarry_worker_bytes(3, 1, &server, 1000) - plain, 1000 + 4 * 4);
    server.compress = TARRY_COMPRESS_BF16;
    assert_int_equal(tarry_worker_bytes(3, 1, &server, 1000) - plain, 2000);
    /* With feedback what rounding lost lies there twice. */
    server.compress = TARRY_COMPRESS_INT4;
    assert_int_equal(tarry_worker_bytes(3, 1, &server, 1000) - plain, 500 + 4 * 4 + 2 * 4000);
    server.compress = TARRY_COMPRESS_TOPK;
    server.compress_share = 10000;
    /* Ten places, 6 bits each and a row of 10 + 15, and ten numbers. */
    assert_int_equal(tarry_worker_bytes(3, 1, &server, 1000) - plain, 8 + 4 + 9 + 2 * 4000);
}

/* Integers in its place, and what of them is sent: two more per stripe. */
TEST(a_secure_part_is_there_twice)
{
    tarry_server_settings server;
    tarry_server_settings_init(&server);
    server.stripe_length = 300;
    server.secure = 32;
    assert_int_equal(tarry_worker_bytes(3, 1, &server, 1000), 4 * (4 * 1000 + 4 * 304));
    server.secure = 64;
    assert_int_equal(tarry_worker_bytes(3, 1, &server, 1000), 4 * 3 * 1000 + 8 * (1000 + 4 * 304));
}

/* Of which two are refused because of a third: with the sum at the server they go together. */
TEST(several_parts_come_back_as_they_are)
{
    tarry_settings settings;
    tarry_conflict conflict;
    tarry_settings_init(&settings);
    settings.plan.workers = settings.plan.chunks = 8;
    settings.plan.replication = 3;
    settings.server.compress_down = TARRY_COMPRESS_INT8;
    for (uint32_t parts = 1; parts <= 2; parts++) {
        settings.plan.parts = parts;
        settings.server.sum = TARRY_SUM_SERVER;
        assert_ok(tarry_settings_check(&settings, &conflict));
        settings.server.sum = TARRY_SUM_EVERYWHERE;
        assert_int_equal(tarry_settings_check(&settings, &conflict),
                         parts == 1 ? TARRY_OK : TARRY_ERROR_ARGUMENT);
    }
    assert_int_equal(conflict.first, TARRY_SETTING_COMPRESS_DOWN);
    assert_int_equal(conflict.second, TARRY_SETTING_PARTS);
}

/* A view is the server's, which has none where workers make the sum. */
TEST(a_view_takes_the_server_memory)
{
    tarry_plan_settings wanted;
    tarry_server_settings server;
    OWNED(tarry_plan) plan = NULL;
    tarry_plan_settings_init(&wanted);
    tarry_server_settings_init(&server);
    assert_ok(tarry_plan_create(&wanted, NULL, &plan, NULL));
    assert_int_equal(tarry_memory_of(plan, &server, 1000).server, 0);
    server.compress_down = TARRY_COMPRESS_INT8;
    assert_true(tarry_memory_of(plan, &server, 1000).server >= 4000);
    server.sum = TARRY_SUM_EVERYWHERE;
    assert_int_equal(tarry_memory_of(plan, &server, 1000).server, 0);
}
