/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/runner/runner.h"
#include "test.h"

#define NONE UINT32_MAX
#define SECOND UINT64_C(1000000000)

static void expect(refusals *self, uint64_t now, uint32_t worker, const char *peer, const char *why,
                   const char *expected)
{
    char line[REFUSALS_LINE];
    const bool said = refusals_line(self, now, worker, peer, why, line);
    assert_int_equal(said, expected != NULL);
    if (said)
        assert_string_equal(line, expected);
}

TEST(one_address_and_reason_is_printed_once)
{
    refusals self = {.lines = 0};
    expect(&self, SECOND, NONE, "10.0.0.1:5000", "no key", "refused 10.0.0.1: no key");
    expect(&self, SECOND, NONE, "10.0.0.1:5001", "no key", NULL);
    expect(&self, SECOND, 3, "10.0.0.1:5002", "revoked",
           "refused worker 3 from 10.0.0.1: revoked (1 more refusals were not printed)");
    expect(&self, SECOND, NONE, "[::1]:5001", "no key", "refused [::1]: no key");
    expect(&self, SECOND, NONE, "unix:/run/a:b", "no key", "refused unix:/run/a:b: no key");
    expect(&self, SECOND, NONE, "", "7 more were turned away",
           "refused connections: 7 more were turned away");
    expect(&self, SECOND + REFUSALS_NS, NONE, "10.0.0.1:9", "no key", "refused 10.0.0.1: no key");
}

TEST(a_crowd_gets_few_lines)
{
    refusals self = {.lines = 0};
    char line[REFUSALS_LINE], peer[64];
    uint32_t said = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        snprintf(peer, sizeof(peer), "10.0.%u.%u:1", i / 256, i % 256);
        said += refusals_line(&self, SECOND + i, NONE, peer, "no key", line);
    }
    assert_int_equal(said, REFUSALS_LINES);
    expect(&self, SECOND + REFUSALS_NS, NONE, "10.9.9.9:1", "no key",
           "refused 10.9.9.9: no key (9992 more refusals were not printed)");
}

TEST(long_texts_are_cut)
{
    refusals self = {.lines = 0};
    char line[REFUSALS_LINE], text[2000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_true(refusals_line(&self, SECOND, NONE, text, text, line));
    assert_false(refusals_line(&self, SECOND, NONE, text, text, line));
}
