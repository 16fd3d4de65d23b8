/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sets S of workers can recover: singular values of R_S, and the rows that solve with it. Both
 * come from R_S R_S^T, in the plainest way; long double, since that squares 1/sigma_min, which a
 * raised limit lets be 1e6.
 */
#include <math.h>

#include "sim/faults/model/model.h"

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
static void add_gram(const server_model *it, uint32_t parts, uint32_t set,
                     long double gram[MAX_PARTS][MAX_PARTS])
{
    for (uint32_t p = 0; p < parts; p++)
        for (uint32_t q = 0; q < parts; q++)
            for (uint32_t worker = 0; worker < it->workers; worker++)
                if (set & bit(worker))
                    gram[p][q] +=
                        (long double)tarry_plan_decode_weight(it->plan, parts, p, worker) *
                        tarry_plan_decode_weight(it->plan, parts, q, worker);
}

/* Squares of the singular values of R_S, on the diagonal: the eigenvalues of R_S R_S^T. */
static void find_squares(const server_model *it, uint32_t parts, uint32_t set,
                         long double squares[MAX_PARTS][MAX_PARTS])
{
    add_gram(it, parts, set, squares);
    diagonalize(squares, parts);
}

/* Singular values of at least 1/limit, and those of at least that of a raised limit. */
static bool find_rank(server_model *it, uint32_t parts, uint32_t set)
{
    long double squares[MAX_PARTS][MAX_PARTS] = {{0}};
    find_squares(it, parts, set, squares);
    bool beyond_doubt = true;
    double limit = 1 / it->settings.conditioning_limit, raised = 1 / TARRY_CONDITIONING_MOST;
    uint32_t found = 0, more = 0;
    for (uint32_t p = 0; p < parts; p++) {
        double sigma = squares[p][p] > 0 ? (double)sqrtl(squares[p][p]) : 0;
        found += sigma >= limit;
        more += sigma >= (raised < limit ? raised : limit);
        beyond_doubt =
            beyond_doubt && fabs(sigma - limit) > 1e-6 && fabs(sigma - raised) > 1e-3 * raised;
    }
    it->rank[parts][set] = (uint8_t)found;
    it->raised_rank[parts][set] = (uint8_t)more;
    return beyond_doubt;
}

double model_conditioning(const server_model *it)
{
    double worst = 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        long double squares[MAX_PARTS][MAX_PARTS] = {{0}};
        find_squares(it, it->parts, it->psi[chunk], squares);
        for (uint32_t p = 0; p < it->parts; p++) {
            double inverse = squares[p][p] > 0 ? (double)(1 / sqrtl(squares[p][p])) : INFINITY;
            if (inverse <= TARRY_CONDITIONING_MOST && inverse > worst)
                worst = inverse;
        }
    }
    return worst;
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
            for (uint32_t parts = it->least; parts <= it->most; parts++)
                if (it->rank[parts][set] == 0)
                    beyond_doubt = find_rank(it, parts, set) && beyond_doubt;
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
    uint32_t rank = it->raised ? it->raised_rank[parts][set] : it->rank[parts][set];
    if (rank < parts)
        return false;
    long double gram[MAX_PARTS][MAX_PARTS] = {{0}}, x[MAX_PARTS];
    add_gram(it, parts, set, gram);
    for (uint32_t p = 0; p < parts; p++)
        x[p] = tarry_plan_decode_weight(it->plan, parts, p, worker);
    solve(gram, x, parts);
    for (uint32_t p = 0; p < parts; p++)
        row[p] = (double)x[p];
    return true;
}
