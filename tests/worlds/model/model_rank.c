/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sets S of workers can recover: singular values of R_S, and the rows that solve with it. Both
 * come from R_S R_S^T, in the plainest way; long double, since that squares 1/sigma_min.
 */
#include <math.h>

#include "worlds/model/model.h"

/* Eigenvalues of a symmetric matrix of size n by Jacobi's rotations; they end on the diagonal. */
static void diagonalize(long double a[MAX_PARTS][MAX_PARTS], uint32_t n)
{
    const long double negligible =
        1e-18L; /* of values near 1, whose eigenvalues this moves by less */
    for (int sweep = 0; sweep < 30; sweep++) {
        for (uint32_t p = 0; p < n; p++) {
            for (uint32_t q = p + 1; q < n; q++) {
                if (fabsl(a[p][q]) < negligible)
                    continue;
                long double angle = 0.5L * atan2l(2 * a[p][q], a[p][p] - a[q][q]);
                long double c = cosl(angle), s = sinl(angle);
                for (uint32_t k = 0; k < n; k++) {
                    long double x = a[k][p], y = a[k][q];
                    a[k][p] = c * x + s * y;
                    a[k][q] = c * y - s * x;
                }
                for (uint32_t k = 0; k < n; k++) {
                    long double x = a[p][k], y = a[q][k];
                    a[p][k] = c * x + s * y;
                    a[q][k] = c * y - s * x;
                }
            }
        }
    }
}

/* Adds R_S R_S^T. */
static void add_gram(const server_model *it, uint32_t set, long double gram[MAX_PARTS][MAX_PARTS])
{
    for (uint32_t p = 0; p < it->parts; p++)
        for (uint32_t q = 0; q < it->parts; q++)
            for (uint32_t worker = 0; worker < it->workers; worker++)
                if (set & bit(worker))
                    gram[p][q] += (long double)tarry_plan_decode_weight(it->plan, p, worker) *
                                  tarry_plan_decode_weight(it->plan, q, worker);
}

/* Singular values of at least 1/limit: the square roots of the eigenvalues of R_S R_S^T. */
static bool find_rank(server_model *it, uint32_t set)
{
    long double squares[MAX_PARTS][MAX_PARTS] = {{0}};
    add_gram(it, set, squares);
    diagonalize(squares, it->parts);
    bool beyond_doubt = true;
    double limit = 1 / it->settings.conditioning_limit;
    uint32_t found = 0;
    for (uint32_t p = 0; p < it->parts; p++) {
        double sigma = squares[p][p] > 0 ? (double)sqrtl(squares[p][p]) : 0;
        found += sigma >= limit;
        beyond_doubt = beyond_doubt && fabs(sigma - limit) > 1e-6;
    }
    it->rank[set] = (uint8_t)found;
    return beyond_doubt;
}

/* Such sets are the non-empty subsets of its holders. */
bool model_find_ranks(server_model *it)
{
    bool beyond_doubt = true;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        uint32_t holders = 0;
        for (uint32_t worker = 0; worker < it->workers; worker++)
            if (it->holds[worker] & bit(chunk))
                holders |= bit(worker);
        for (uint32_t set = holders; set != 0; set = (set - 1) & holders)
            if (it->rank[set] == 0)
                beyond_doubt = find_rank(it, set) && beyond_doubt;
    }
    return beyond_doubt;
}

/* Solves G x = b for a symmetric positive definite G, by elimination without pivots. */
static void solve(long double g[MAX_PARTS][MAX_PARTS], long double x[MAX_PARTS], uint32_t n)
{
    for (uint32_t p = 0; p < n; p++)
        for (uint32_t q = p + 1; q < n; q++) {
            long double factor = g[q][p] / g[p][p];
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
    if (it->rank[set] < parts)
        return false;
    long double gram[MAX_PARTS][MAX_PARTS] = {{0}}, x[MAX_PARTS];
    add_gram(it, set, gram);
    for (uint32_t p = 0; p < parts; p++)
        x[p] = tarry_plan_decode_weight(it->plan, p, worker);
    solve(gram, x, parts);
    for (uint32_t p = 0; p < parts; p++)
        row[p] = (double)x[p];
    return true;
}
