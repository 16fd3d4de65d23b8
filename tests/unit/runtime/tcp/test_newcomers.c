/* SPDX-License-Identifier: Apache-2.0 */
/* How many may make room for others before those that have just come are heard. */
#include "runtime/tcp/server/peer.h"
#include "test.h"

enum { BEFORE = 1000 };

/* How many one listener may displace in a turn. */
static uint32_t most_of(uint32_t count, uint32_t listeners)
{
    newcomers all = {.count = count, .displaced = BEFORE};
    while (newcomers_may_come(&all, BEFORE, listeners))
        all.displaced++;
    return all.displaced - BEFORE;
}

TEST(test_half_of_them_stay)
{
    for (uint32_t listeners = 1; listeners <= 3; listeners++)
        for (uint32_t count = 2 * listeners; count <= 2000; count++) {
            uint32_t most = most_of(count, listeners);
            assert_true(most * listeners <= count / 2);
            assert_true((most + 1) * listeners > count / 2);
        }
}

TEST(test_each_listener_lets_one_in)
{
    for (uint32_t count = 0; count <= 8; count++)
        assert_true(most_of(count, 16) == 1);
}
