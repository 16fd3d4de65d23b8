/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conditioning limit of one encode signal. A chunk can be complete, all its copies in and of
 * full rank, and yet not count as recovered, since 1/sigma_min is over the limit. Once nothing
 * better can come for a signal, its limit is raised: the sum is one with a larger rounding error,
 * of which a bound is worked out, rather than none, or one with a part of the chunk missing.
 */
#include <float.h>
#include <math.h>

#include "protocol/server/server_state.h"

void server_review_limit(tarry_server *server, uint32_t chunk)
{
    uint32_t parts = plan_least_parts(server->plan);
    bool ill = coverage_rank(server->credited, parts, chunk) < parts &&
               coverage_if_raised(server->credited, parts)->ranks[chunk] == parts &&
               coverage_copies(server->credited, chunk) == server->possible[chunk];
    if (ill == bitset_test(server->ill, chunk))
        return;
    bitset_put(server->ill, chunk, ill);
    server->ill_count += ill ? 1 : UINT32_MAX;
}

bool server_must_raise(const tarry_server *server)
{
    if (server->settings.stop != TARRY_STOP_EXACT || server->ill_count == 0 ||
        (server->settings.reproducible && server->busy > 0))
        return false;
    uint32_t recovered = coverage_recovered(server->credited, plan_least_parts(server->plan));
    return recovered + server->ill_count == server->plan->chunks;
}

uint32_t server_raised_parts(tarry_server *server)
{
    if (!server_must_raise(server))
        return 0;
    uint32_t parts = server->cut.parts;
    if (server->complete_count > 0 &&
        coverage_if_raised(server->credited, parts)->recovered == server->plan->chunks)
        return parts;
    server_give_up_stripes(server);
    return plan_least_parts(server->plan);
}

/* Whether the limit is raised for a signal with `parts`: the rule is not met without, or goes by
 * other things than ranks, and there is something to gain. */
static bool raises(const tarry_server *server, uint32_t parts)
{
    const coverage *credited = server->credited;
    if (server->settings.stop == TARRY_STOP_ERROR &&
        coverage_expected_error(credited, parts) <= server->settings.error_limit)
        return false;
    return coverage_if_raised(credited, parts)->rank_sum > coverage_with(credited, parts)->rank_sum;
}

/*
 * A worker adds up to load x parts products of rounded coefficients, the server up to `workers`
 * products of rounded weights: no term is rounded more often than the sum of both and two for each,
 * and once more where the gradient counts more often than once.
 * With |c_j| <= sum_i |U_i[j,:]| |g_i| and | |R_S| |U_i| | <= ||R_S||_F ||U_i||_F that bounds the
 * error of the estimate by this times sum_i amplification_i |g_i|; docs/conditioning.md.
 */
static double rounding_of(const tarry_server *server)
{
    double terms = (double)server->plan->max_load * server->cut.parts + server->plan->workers + 4 +
                   (server->settings.sample_chunks > 0);
    double each = terms * (FLT_EPSILON / 2);
    return each < 1 ? server->attempt_scale * each / (1 - each) : INFINITY;
}

int server_limit_attempt(tarry_server *server)
{
    uint32_t parts = server->cut.parts;
    double inverse = 0, amplification = 0;
    server->attempt_raised = raises(server, parts);
    server_fill_attempt(server);
    for (uint32_t chunk = 0; server->attempt_raised && chunk < server->plan->chunks; chunk++) {
        coefficients_worth worth;
        int error = coverage_judge(server_fill_source(server, chunk), parts, chunk, &worth);
        if (error != TARRY_OK)
            return error;
        inverse = fmax(inverse, worth.inverse);
        amplification =
            fmax(amplification, worth.amplification * (double)server_weight(server, chunk));
    }
    server->attempt_conditioning = inverse;
    server->attempt_bound = server->attempt_raised ? rounding_of(server) * amplification : 0;
    return TARRY_OK;
}

double server_signal_limit(const tarry_server *server)
{
    return server->attempt_raised ? TARRY_CONDITIONING_MOST : 0;
}
