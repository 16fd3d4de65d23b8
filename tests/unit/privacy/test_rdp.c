/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "privacy/accountant.h"
#include "test.h"

/* The moment by its definition: the mean of (P/Q)^alpha under Q, by Simpson's rule. */
static double slow(double noise, double sample, double alpha)
{
    enum { CELLS = 40000 };
    double far = 12 * noise + alpha + 12, width = 2 * far / CELLS, sum = 0;
    for (int i = 0; i <= CELLS; i++) {
        double x = -far + i * width;
        double ratio = log1p(sample * expm1((2 * x - 1) / (2 * noise * noise)));
        double value = exp(alpha * ratio - x * x / (2 * noise * noise));
        sum += value * (i == 0 || i == CELLS ? 1 : i % 2 == 1 ? 4 : 2);
    }
    return log(sum * width / 3 / (noise * sqrt(2 * M_PI))) / (alpha - 1);
}

TEST(divergences_are_those_of_their_definition)
{
    const double noises[] = {0.7, 1.1, 3}, samples[] = {1e-3, 0.04, 0.5, 0.9};
    const double orders[] = {1.1, 1.5, 2, 3.3, 7, 10.9, 24};
    for (size_t n = 0; n < 3; n++)
        for (size_t q = 0; q < 4; q++)
            for (size_t a = 0; a < 7; a++) {
                double wanted = slow(noises[n], samples[q], orders[a]);
                double found = rdp_of_order(noises[n], samples[q], orders[a]);
                if (!(fabs(found - wanted) < 1e-7 * wanted + 1e-11))
                    fail_msg("%g %g %g: %.12g, and %.12g is wanted", noises[n], samples[q],
                             orders[a], found, wanted);
            }
}

TEST(without_sampling_it_is_the_gaussian_mechanism)
{
    assert_relative(rdp_of_order(2, 1, 3), 3.0 / 8, 1e-15);
    assert_true(rdp_of_order(2, 0, 3) == 0);
    assert_relative(rdp_of_order(2, 1 - 1e-12, 8), 1, 1e-9);
}

/* With orders 1 + k/10 in an implementation of others. */
TEST(epsilon_is_that_of_others)
{
    assert_relative(rdp_epsilon(1.5, 0.04, 2250, 1e-5), 7.32911117, 1e-9);
}

TEST(delta_and_epsilon_are_inverse)
{
    for (double delta = 1e-15; delta < 1e-2; delta *= 10) {
        double epsilon = rdp_epsilon(1.3, 0.01, 5000, delta);
        assert_relative(rdp_delta(1.3, 0.01, 5000, epsilon), delta, 1e-9);
    }
}

TEST(what_is_far_out_has_an_answer)
{
    assert_true(rdp_epsilon(1e-3, 1, 1, 1e-5) > 1e5);
    assert_true(rdp_epsilon(1e6, 1e-9, 1, 1e-15) < 1);
    assert_true(rdp_epsilon(50, 0.001, 1, 0.9) == 0);
    assert_true(isfinite(rdp_epsilon(1, 0.01, UINT64_C(1) << 40, 1e-300)));
}
