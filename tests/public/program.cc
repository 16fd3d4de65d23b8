/* SPDX-License-Identifier: Apache-2.0 */
/* A C++ program that uses every header: sums chunk numbers over threads, and says what it runs
 * with. */
#include <tarry/tarry.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

namespace
{
constexpr std::size_t DIMENSION = 1000;

int compute(void *, const tarry_task *task)
{
    for (std::size_t i = 0; i < task->dimension; i++)
        task->gradient[i] = task->parameters[0] * static_cast<float>(task->chunk + 1);
    return 0;
}

int fail(const tarry_diagnostic &why)
{
    std::fprintf(stderr, "%s\n", why.text);
    return 1;
}
} // namespace

int main()
{
    char version[64];
    std::snprintf(version, sizeof(version), "%d.%d.%d", TARRY_VERSION_MAJOR, TARRY_VERSION_MINOR,
                  TARRY_VERSION_PATCH);
    if (std::strcmp(version, tarry_version()) != 0)
        return 1;

    tarry_diagnostic why = {};
    tarry_plan_settings wanted;
    tarry_plan_settings_init(&wanted);
    tarry_plan *plan;
    if (tarry_plan_create(&wanted, nullptr, &plan, &why) != TARRY_OK)
        return fail(why);
    tarry_local_settings settings;
    tarry_local_settings_init(&settings);
    settings.parameters = 1;
    settings.dimension = DIMENSION;
    settings.compute = compute;
    tarry_runtime *local;
    if (tarry_local_create(plan, &settings, nullptr, &local, &why) != TARRY_OK)
        return fail(why);
    const float parameters[] = {2};
    std::vector<float> sum(DIMENSION);
    tarry_round_result result;
    if (tarry_runtime_round(local, parameters, sum.data(), &result, &why) != TARRY_OK)
        return fail(why);
    tarry_runtime_free(local, true);
    tarry_plan_free(plan);
    double error = std::fabs(sum[DIMENSION - 1] - 72.0); /* 2 (1 + 2 + ... + 8) */
    std::printf("%s: error %g\n", version, error);
    return result.exact && error < 1e-3 ? 0 : 1;
}
