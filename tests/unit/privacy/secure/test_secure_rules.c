/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/secure/secure_member.h"
#include "test.h"

/* Three workers, three chunks: worker j holds the chunks j and j + 1. */
enum { WORKERS = 3, CHUNKS = 3 };
static const uint32_t chunk_offset[] = {0, 2, 4, 6}, holder_worker[] = {0, 2, 0, 1, 1, 2};
static const uint32_t worker_offset[] = {0, 2, 4, 6}, slot_chunk[] = {0, 1, 1, 2, 2, 0};

typedef struct scene {
    uint32_t holders[CHUNKS], lives[WORKERS];
    bool has[CHUNKS];
    secure_signal signal;
} scene;

static bool has(const void *user, uint32_t chunk)
{
    return ((const bool *)user)[chunk];
}

/* What worker 0 gets: its two chunks are taken from it, and the third one from worker 2. */
static void set(scene *at)
{
    *at = (scene){.holders = {0, 0, 2}, .lives = {4, 0, 9}, .has = {true, true, false}};
    at->signal = (secure_signal){.workers = WORKERS,
                                 .chunks = CHUNKS,
                                 .holders = at->holders,
                                 .lives = at->lives,
                                 .chunk_offset = chunk_offset,
                                 .holder_worker = holder_worker,
                                 .worker_offset = worker_offset,
                                 .slot_chunk = slot_chunk,
                                 .id = 0,
                                 .epoch = 4,
                                 .has = has,
                                 .user = at->has};
}

TEST(a_good_signal_breaks_no_rule)
{
    scene at;
    set(&at);
    assert_int_equal(secure_rules_check(&at.signal), SECURE_RULE_NONE);
    /* Who is left out has nothing to say. */
    at.signal.id = 1;
    assert_int_equal(secure_rules_check(&at.signal), SECURE_RULE_NONE);
}

TEST(each_rule_is_told)
{
    scene at;
    set(&at);
    at.holders[1] = 2; /* 2 does not hold it */
    assert_int_equal(secure_rules_check(&at.signal), SECURE_RULE_HOLDER);
    at.holders[1] = WORKERS;
    assert_int_equal(secure_rules_check(&at.signal), SECURE_RULE_HOLDER);
    at.holders[1] = UINT32_MAX;
    assert_int_equal(secure_rules_check(&at.signal), SECURE_RULE_HOLDER);
    set(&at);
    at.holders[1] = 1;
    assert_int_equal(secure_rules_check(&at.signal), SECURE_RULE_AWAY);
    set(&at);
    at.lives[1] = 1;
    assert_int_equal(secure_rules_check(&at.signal), SECURE_RULE_IDLE);
    set(&at);
    at.lives[0] = 3;
    assert_int_equal(secure_rules_check(&at.signal), SECURE_RULE_LIFE);
    set(&at);
    at.has[1] = false;
    assert_int_equal(secure_rules_check(&at.signal), SECURE_RULE_MISSING);
    set(&at);
    at.holders[0] = 2;
    assert_int_equal(secure_rules_check(&at.signal), SECURE_RULE_LEFT_OUT);
}
