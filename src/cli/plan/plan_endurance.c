/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/plan_endurance.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/quantile.h"
#include "cli/text/numbers.h"
#include "cli/text/report_json.h"

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

int plan_endurance_measure(const tarry_plan *plan, uint64_t seed, plan_endurance *out)
{
    int error = tarry_plan_endures_random(plan, seed, PLAN_ENDURANCE_SEQUENCES, NULL, out->sorted);
    if (error != TARRY_OK)
        return error;
    double values[PLAN_ENDURANCE_SEQUENCES], sum = 0;
    qsort(out->sorted, PLAN_ENDURANCE_SEQUENCES, sizeof(*out->sorted), compare);
    for (size_t i = 0; i < PLAN_ENDURANCE_SEQUENCES; i++)
        sum += values[i] = out->sorted[i];
    out->any = tarry_plan_endures(plan);
    out->mean = sum / PLAN_ENDURANCE_SEQUENCES;
    out->p5 = quantile_of(values, PLAN_ENDURANCE_SEQUENCES, 0.05);
    out->median = quantile_of(values, PLAN_ENDURANCE_SEQUENCES, 0.5);
    out->p95 = quantile_of(values, PLAN_ENDURANCE_SEQUENCES, 0.95);
    return TARRY_OK;
}

void plan_endurance_print(const plan_endurance *endurance, const char *start)
{
    printf("%s%-21s any %u\n", start, "deaths survived", endurance->any);
    printf("%s%-21s %.1f on average, median %.4g, p5 %.4g, p95 %.4g, over %d sequences\n", start,
           "random deaths", endurance->mean, endurance->median, endurance->p5, endurance->p95,
           PLAN_ENDURANCE_SEQUENCES);
}

/* The share of sequences in which `deaths` are survived. */
static double share_of(const plan_endurance *endurance, uint32_t deaths)
{
    size_t fewer = 0;
    while (fewer < PLAN_ENDURANCE_SEQUENCES && endurance->sorted[fewer] < deaths)
        fewer++;
    return 1 - (double)fewer / PLAN_ENDURANCE_SEQUENCES;
}

/* From none to the most that any sequence survives, at equal distances. */
static json_t *curve_json(const plan_endurance *endurance)
{
    uint32_t most = endurance->sorted[PLAN_ENDURANCE_SEQUENCES - 1];
    uint32_t step = most / PLAN_ENDURANCE_POINTS + 1;
    json_t *list = json_array();
    for (uint32_t deaths = 0; list != NULL && deaths <= most; deaths += step)
        list = json_append(list, json_pack("{s:I, s:f}", "deaths", (json_int_t)deaths, "share",
                                           share_of(endurance, deaths)));
    return list;
}

json_t *plan_endurance_json(const plan_endurance *endurance)
{
    return json_pack("{s:I, s:{s:I, s:f, s:f, s:f, s:f, s:o}}", "deaths_survived",
                     (json_int_t)endurance->any, "random_deaths_survived", "sequences",
                     (json_int_t)PLAN_ENDURANCE_SEQUENCES, "mean", endurance->mean, "p5",
                     endurance->p5, "median", endurance->median, "p95", endurance->p95, "curve",
                     curve_json(endurance));
}
