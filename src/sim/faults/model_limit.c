/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "sim/faults/model.h"

#define EVERYONE UINT32_MAX

/* Whether a worker that counts has an open chunk. */
static bool is_anyone_busy(const server_model *it)
{
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        const model_member *member = &it->members[worker];
        if (member->present && !member->excluded &&
            (it->holds[worker] & ~member->done & ~member->failed) != 0)
            return true;
    }
    return false;
}

bool model_must_raise(const server_model *it)
{
    if (it->settings.stop != TARRY_STOP_EXACT || it->phase == MODEL_IDLE ||
        (it->settings.reproducible && is_anyone_busy(it)))
        return false;
    bool any = false;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        uint32_t copies = model_credited(it, chunk, EVERYONE);
        if (it->rank[it->least][copies] == it->least)
            continue;
        if (copies != model_possible(it, chunk) || it->raised_rank[it->least][copies] < it->least)
            return false;
        any = true;
    }
    return any;
}

uint32_t model_raised_pick(server_model *it)
{
    uint32_t missing = 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        missing += it->parts - it->raised_rank[it->parts][model_credited(it, chunk, EVERYONE)];
    if (it->complete != 0 && missing == 0)
        return it->parts;
    it->complete = 0;
    it->result.conditioning = 0;
    return it->least;
}

bool model_raises(const server_model *it, uint32_t parts)
{
    if (it->settings.stop == TARRY_STOP_ERROR &&
        model_error(it, parts, EVERYONE) <= it->settings.error_limit)
        return false;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        uint32_t copies = model_credited(it, chunk, EVERYONE);
        if (it->raised_rank[parts][copies] > it->rank[parts][copies])
            return true;
    }
    return false;
}

double model_limit(const server_model *it)
{
    return it->raised ? TARRY_CONDITIONING_MOST : 0;
}

/* Solves G x = b for a symmetric positive definite G, by elimination without pivots. */
static void solve(double g[MAX_PARTS][MAX_PARTS], double x[MAX_PARTS], uint32_t n)
{
    for (uint32_t p = 0; p < n; p++)
        for (uint32_t q = p + 1; q < n; q++) {
            double factor = g[q][p] / g[p][p];
            for (uint32_t k = p; k < n; k++)
                g[q][k] -= factor * g[p][k];
            x[q] -= factor * x[p];
        }
    for (uint32_t p = n; p-- > 0;) {
        for (uint32_t q = p + 1; q < n; q++)
            x[p] -= g[p][q] * x[q];
        x[p] /= g[p][p];
    }
}

bool model_row(const server_model *it, uint32_t chunk, uint32_t worker, double row[MAX_PARTS])
{
    uint32_t parts = it->parts, set = it->psi[chunk];
    uint32_t rank = it->raised ? it->raised_rank[parts][set] : it->rank[parts][set];
    if (rank < parts)
        return false;
    double gram[MAX_PARTS][MAX_PARTS] = {{0}};
    for (uint32_t p = 0; p < parts; p++) {
        row[p] = tarry_plan_decode_weight(it->plan, parts, p, worker);
        for (uint32_t q = 0; q < parts; q++)
            for (uint32_t other = 0; other < it->workers; other++)
                if (set >> other & 1)
                    gram[p][q] += tarry_plan_decode_weight(it->plan, parts, p, other) *
                                  tarry_plan_decode_weight(it->plan, parts, q, other);
    }
    solve(gram, row, parts);
    return true;
}
