/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job/gradients.h"
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
enum { MODELS = sizeof(models) / sizeof(*models) };

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
