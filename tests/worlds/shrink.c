/* SPDX-License-Identifier: Apache-2.0 */
#include "worlds/shrink.h"

#include <string.h>

/* Runs the world with the faults of `allowed` only; *shows says whether the same invariant breaks.
 */
static int attempt(cluster *world, const cluster_job *job, shrinking *it, const fault_list *allowed,
                   const char *broken, bool *shows)
{
    cluster_job with = *job;
    with.allowed = allowed;
    with.trace = NULL;
    it->runs++;
    int error = cluster_run(world, &with);
    *shows = error == TARRY_OK && world->broken != NULL && strcmp(world->broken, broken) == 0;
    return error;
}

/* All that are left but those from first to past - 1. */
static void leave_out(shrinking *it, size_t first, size_t past)
{
    it->trial.count = 0;
    for (size_t i = 0; i < it->left.count; i++)
        if (i < first || i >= past)
            it->trial.items[it->trial.count++] = it->left.items[i];
}

int shrink_faults(cluster *world, const cluster_job *job, shrinking *it)
{
    const char *broken = world->broken;
    it->left = world->draws.struck;
    it->runs = 0;
    bool shows;
    int error = attempt(world, job, it, &it->left, broken, &shows);
    if (error == TARRY_OK && !shows)
        error = TARRY_ERROR_STATE;
    size_t piece = (it->left.count + 1) / 2;
    while (error == TARRY_OK && piece > 0 && it->left.count > 0) {
        bool smaller = false;
        for (size_t first = 0; error == TARRY_OK && first < it->left.count;) {
            size_t past = first + piece < it->left.count ? first + piece : it->left.count;
            leave_out(it, first, past);
            error = attempt(world, job, it, &it->trial, broken, &shows);
            if (shows) {
                it->left = it->trial;
                smaller = true;
            } else {
                first = past;
            }
        }
        if (!smaller || piece > 1)
            piece = piece > 1 ? (piece + 1) / 2 : 0;
    }
    if (error == TARRY_OK)
        error = attempt(world, job, it, &it->left, broken, &shows);
    return error;
}
