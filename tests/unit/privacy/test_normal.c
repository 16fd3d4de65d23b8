/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "privacy/accountant.h"
#include "test.h"

/* Those at 10 and more are of an arithmetic of 50 digits. */
TEST(tails_are_those_of_tables)
{
    assert_relative(normal_tail(0), 0.5, 1e-16);
    assert_relative(normal_tail(1.959963984540054), 0.025, 1e-14);
    assert_relative(normal_mills(10), 0.099028596471731921395337188595, 1e-15);
    assert_relative(normal_mills(40), 0.024984404205720571147, 1e-15);
    assert_relative(normal_mills(1e6), 1e-6, 2e-12);
    assert_relative(normal_log_tail(40), -804.60844201375378817, 1e-15);
    assert_relative(normal_log_tail(-40), 0, 1e-300);
    assert_relative(normal_density(38), 1.0972210520075929580e-314, 1e-9);
}

/* The derivative of Mills' ratio is x times it, less 1: no table is as dense as that. */
TEST(the_ratio_goes_on_smoothly)
{
    for (double x = -5; x < 60; x += 0.013) {
        double ratio = normal_mills(x), curved = 1 + fabs(x * x * x);
        double slope = (normal_mills(x + 1e-5) - normal_mills(x - 1e-5)) / 2e-5;
        assert_true(fabs(slope - (x * ratio - 1)) <= 1e-9 * curved * ratio + 1e-10);
    }
}

TEST(density_times_ratio_is_the_tail)
{
    for (double x = -8; x < 37; x += 0.01)
        assert_relative(normal_density(x) * normal_mills(x), normal_tail(x), 4e-15);
}
