/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cli/job/gradients.h"
#include "cli/runner/runner.h"
#include "edge_plan.h"
#include "test.h"

static const objective_settings models[] = {
    {.model = MODEL_LEAST_SQUARES, .features = 300},
    {.model = MODEL_LOGISTIC, .features = 7, .classes = 2, .intercept = true},
    {.model = MODEL_SOFTMAX, .features = 40, .classes = 3},
    {.model = MODEL_PERCEPTRON,
     .features = 50,
     .classes = 4,
     .hidden = {20, 10},
     .hidden_layers = 2},
    {.model = MODEL_SOFTMAX, .features = 1 << 20, .classes = 2}, /* one sample of its kind */
};
enum { MODELS = sizeof(models) / sizeof(*models), WORKERS = 4 };

TEST(a_fingerprint_is_of_the_model_and_the_same_again)
{
    uint64_t found[2 * MODELS];
    for (size_t i = 0; i < 2 * MODELS; i++) {
        uint64_t again;
        bool sparse = i % 2 == 1;
        assert_ok(numerics_fingerprint(&models[i / 2], sparse, &found[i]));
        assert_ok(numerics_fingerprint(&models[i / 2], sparse, &again));
        assert_true(found[i] == again && again != 0);
        for (size_t k = 0; k < i; k++)
            assert_true(found[k] != found[i]);
    }
}

TEST(the_rounding_is_that_of_float32)
{
    for (size_t i = 0; i < 2 * MODELS; i++) {
        double rounding;
        assert_ok(numerics_rounding(&models[i / 2], i % 2 == 1, &rounding));
        assert_true(rounding > 0 && rounding < 1e-5);
    }
}

/* Chunk i is held by workers i and i + 1 mod 4. */
static tarry_plan *make_plan(void)
{
    tarry_plan_settings settings =
        plan_settings(WORKERS, WORKERS, 2, TARRY_DESIGN_CYCLIC, TARRY_ORDER_OPTIMAL, 1);
    settings.parts = 2;
    return plan_make(&settings);
}

TEST(kinds_meet_where_they_share_a_chunk)
{
    OWNED(tarry_plan) plan = make_plan();
    const struct {
        uint64_t numerics[WORKERS];
        uint32_t kinds;
        bool meet;
    } cases[] = {
        {{0, 0, 0, 0}, 0, false}, {{5, 5, 5, 5}, 1, false}, {{5, 0, 5, 0}, 1, false},
        {{5, 0, 6, 0}, 2, false}, /* workers 0 and 2 have none in common */
        {{5, 5, 6, 5}, 2, true},  {{5, 6, 7, 0}, 3, true},  {{0, 0, 7, 8}, 2, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint32_t one = 9, other = 9;
        assert_int_equal(mixture_kinds(cases[i].numerics, WORKERS), cases[i].kinds);
        assert_int_equal(mixture_meets(plan, cases[i].numerics, &one, &other), cases[i].meet);
        if (!cases[i].meet)
            continue;
        assert_true(cases[i].numerics[one] != cases[i].numerics[other]);
        assert_true(cases[i].numerics[one] != 0 && cases[i].numerics[other] != 0);
        assert_true((one + 1) % WORKERS == other || (other + 1) % WORKERS == one);
    }
}

/* All errors of copies of two holders that point the worst way, through the decode matrix and its
 * inverse by hand: within the bound, and for two parts not far below it. */
TEST(the_bound_holds_what_two_copies_can_do)
{
    OWNED(tarry_plan) plan = make_plan();
    const double apart = 1e-6;
    double worst = 0, bound = mixture_bound(plan, 2, apart / 2, INFINITY);
    for (uint32_t chunk = 0; chunk < WORKERS; chunk++) {
        double r[2][2], lengths = 0;
        for (uint32_t i = 0; i < 2; i++)
            for (uint32_t part = 0; part < 2; part++)
                r[part][i] =
                    tarry_plan_decode_weight(plan, part, tarry_plan_holder(plan, chunk, i));
        double determinant = r[0][0] * r[1][1] - r[0][1] * r[1][0];
        const double inverse[2][2] = {{r[1][1] / determinant, -r[0][1] / determinant},
                                      {-r[1][0] / determinant, r[0][0] / determinant}};
        /* Copy i is off by `apart` along its row of the inverse: that is its worst. */
        for (uint32_t i = 0; i < 2; i++)
            lengths += hypot(r[0][i], r[1][i]) * hypot(inverse[i][0], inverse[i][1]) * apart;
        worst = fmax(worst, lengths);
    }
    assert_true(worst <= bound && worst > bound / 10);
    assert_true(mixture_bound(plan, 2, apart / 2, 1) <= bound);
}
