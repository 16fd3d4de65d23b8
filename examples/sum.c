/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums the user's own function over 12 chunks on 8 workers, two of them ten times slower and one
 * dead. Every chunk stands on 3 workers, so that the sum is exact all the same.
 *     cc sum.c -o sum $(pkg-config --cflags --libs tarry)
 */
#include <math.h>
#include <stdio.h>
#include <tarry/tarry.h>

enum { CHUNKS = 12, DIMENSION = 1000, TOTAL = CHUNKS * (CHUNKS + 1) / 2 };

/* A chunk's contribution; in real use, the gradient over its samples. */
static int compute(void *user, const tarry_task *task)
{
    (void)user;
    for (int i = 0; i < DIMENSION; i++)
        task->gradient[i] = task->parameters[i] * (float)(task->chunk + 1);
    return 0;
}

int main(void)
{
    float parameters[DIMENSION], sum[DIMENSION];
    tarry_plan *plan = NULL;
    tarry_straggler *straggler = NULL;
    tarry_runtime *local = NULL;
    tarry_round_result result;
    tarry_diagnostic diagnostic = {""};
    tarry_plan_settings design;
    tarry_local_settings settings;
    tarry_plan_settings_init(&design); /* 8 workers, every chunk on 3 of them */
    design.chunks = CHUNKS;
    tarry_local_settings_init(&settings);
    settings.parameters = settings.dimension = DIMENSION;
    settings.compute = compute;
    int error = tarry_plan_create(&design, NULL, &plan, &diagnostic);
    if (error == TARRY_OK)
        error = tarry_straggler_create("shifted-exp:0.01,0+slow:2,10+dead:1", design.workers, 1,
                                       NULL, &straggler, &diagnostic);
    settings.straggler = straggler;
    if (error == TARRY_OK)
        error = tarry_local_create(plan, &settings, NULL, &local, &diagnostic);
    int wrong = 0;
    for (int round = 0; round < 5 && error == TARRY_OK; round++) {
        for (int i = 0; i < DIMENSION; i++)
            parameters[i] = (float)(i + round + 1);
        error = tarry_runtime_round(local, parameters, sum, &result, &diagnostic);
        for (int i = 0; i < DIMENSION && error == TARRY_OK; i++)
            wrong += !(fabsf(sum[i] / (parameters[i] * TOTAL) - 1) < 1e-5f);
    }
    if (error != TARRY_OK)
        fprintf(stderr, "sum: %s\n", diagnostic.text);
    else
        printf("%d numbers wrong; %u workers used in the last sum\n", wrong, result.workers_heard);
    tarry_runtime_free(local, true);
    tarry_straggler_free(straggler);
    tarry_plan_free(plan);
    return error == TARRY_OK && wrong == 0 ? 0 : 1;
}
