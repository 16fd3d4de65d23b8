/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/rdp.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "privacy/normal.h"

enum {
    TERMS_MOST = 100000,
    FINE_ORDERS = 99,    /* 1.1, 1.2, .. 10.9 */
    WHOLE_ORDERS = 52,   /* 12, 13, .. 63 */
    GROWING_ORDERS = 24, /* from 64, each a quarter larger */
};

static_assert(FINE_ORDERS + WHOLE_ORDERS + GROWING_ORDERS == RDP_ORDERS, "each order once");

#define NEGLIGIBLE (-30.0) /* the logarithm of a term compared with a sum of at least 1 */
#define ROUNDINGS 8        /* of a term's logarithm */
#define SMALL 1e-4         /* share of a moment's logarithm that its error may be */

/* log(exp(a) + exp(b)) */
static double log_add(double a, double b)
{
    double most = fmax(a, b), least = fmin(a, b);
    return isinf(least) ? most : most + log1p(exp(least - most));
}

/* log(exp(a) - exp(b)), for a > b. */
static double log_subtract(double a, double b)
{
    return isinf(b) ? a : a + log1p(-exp(b - a));
}

/* lgamma itself writes to a global. */
static double log_factorial(double n)
{
    int sign;
    return lgamma_r(n + 1, &sign);
}

/* log(exp(y) - 1), for y > 0. */
static double log_expm1(double y)
{
    return y < 1 ? log(expm1(y)) : y + log1p(-exp(-y));
}

/* log(1 + exp(y)). */
static double log_1p_exp(double y)
{
    return y < 0 ? log1p(exp(y)) : y + log1p(exp(-y));
}

/*
 * Section 3.3, equation (30): a sum of positive terms. The binomial weights without their last
 * factors add up to 1. So each of these factors less 1 is added to 1: the moment may be above 1 by
 * less than a double's last bit, which many steps make large. The first two are 0.
 */
static double log_moment_whole(double noise, double sample, uint64_t alpha)
{
    double sum = -INFINITY;
    for (uint64_t k = 2; k <= alpha; k++) {
        double rest = (double)(alpha - k), drawn = (double)k;
        double choices = log_factorial((double)alpha) - log_factorial(drawn) - log_factorial(rest);
        double term = choices + drawn * log(sample) + rest * log1p(-sample) +
                      log_expm1((drawn * drawn - drawn) / (2 * noise * noise));
        sum = log_add(sum, term);
    }
    return log_1p_exp(sum);
}

/* The logarithm of the moment is convex in alpha, and 0 at 1: an upper bound out of its neighbours.
 */
static double log_moment_between(double noise, double sample, double alpha)
{
    const uint64_t low = (uint64_t)alpha;
    const double share = alpha - (double)low;
    return (1 - share) * log_moment_whole(noise, sample, low) +
           share * log_moment_whole(noise, sample, low + 1);
}

/* A series of which the terms beyond alpha alternate: their positive and negative sums are kept
 * apart. */
typedef struct signed_sum {
    double positive, negative, error; /* logarithms; `error` bounds what rounding changes */
} signed_sum;

/* `size`: of the largest number that the term's logarithm was added up from. */
static void put(signed_sum *sum, bool positive, double term, double size)
{
    double *part = positive ? &sum->positive : &sum->negative;
    *part = log_add(*part, term);
    sum->error = log_add(sum->error, term + log(ROUNDINGS * DBL_EPSILON * (1 + size)));
}

/* The logarithm of the sum with the bound of its error added, if that is a small share; else NaN.
 */
static double log_of(const signed_sum *sum)
{
    if (!(sum->positive > sum->negative))
        return NAN;
    const double found = log_subtract(sum->positive, sum->negative);
    const double error = exp(sum->error - found);
    return error < SMALL * found ? found + error : NAN;
}

/* Equation (31): the integral in two halves, each of which is a series of its own. NaN if rounding
 * leaves nothing of the sum, or the series does not end. */
static double log_moment_series(double noise, double sample, double alpha)
{
    signed_sum sum = {-INFINITY, -INFINITY, -INFINITY};
    double middle = noise * noise * (log1p(-sample) - log(sample)) + 0.5;
    double choices = 0; /* log |binomial(alpha, i)| */
    bool positive = true;
    for (int i = 0; i < TERMS_MOST; i++) {
        double drawn = i, rest = alpha - i;
        double left_size = (drawn * drawn - drawn) / (2 * noise * noise);
        double right_size = (rest * rest - rest) / (2 * noise * noise);
        double left = choices + drawn * log(sample) + rest * log1p(-sample) + left_size +
                      normal_log_tail((drawn - middle) / noise);
        double right = choices + rest * log(sample) + drawn * log1p(-sample) + right_size +
                       normal_log_tail((middle - rest) / noise);
        put(&sum, positive, left, fmax(left_size, fabs(left)));
        put(&sum, positive, right, fmax(right_size, fabs(right)));
        if (i > alpha && fmax(left, right) < NEGLIGIBLE) {
            /* What is left of series that alternate is less than their last terms. */
            put(&sum, true, log_add(left, right), 0);
            return log_of(&sum);
        }
        choices += log(fabs(alpha - drawn)) - log(drawn + 1);
        positive = positive == (alpha - drawn > 0);
    }
    return NAN;
}

static double log_moment_fractional(double noise, double sample, double alpha)
{
    const double between = log_moment_between(noise, sample, alpha);
    const double series = log_moment_series(noise, sample, alpha);
    return isnan(series) ? between : fmin(series, between);
}

double rdp_of_order(double noise, double sample, double alpha)
{
    if (sample <= 0)
        return 0;
    if (sample >= 1)
        return alpha / (2 * noise * noise);
    double moment = alpha == floor(alpha) ? log_moment_whole(noise, sample, (uint64_t)alpha)
                                          : log_moment_fractional(noise, sample, alpha);
    return isnan(moment) ? INFINITY : fmax(moment, 0) / (alpha - 1);
}

static double order(int index)
{
    if (index < FINE_ORDERS)
        return 1 + (index + 1) / 10.0;
    if (index < FINE_ORDERS + WHOLE_ORDERS)
        return 12 + (index - FINE_ORDERS);
    return floor(64 * pow(1.25, index - FINE_ORDERS - WHOLE_ORDERS));
}

void rdp_curve_begin(rdp_curve *curve, double noise, double sample)
{
    *curve = (rdp_curve){.noise = noise, .sample = sample};
    for (int index = 0; index < RDP_ORDERS; index++)
        curve->divergence[index] = NAN;
}

double rdp_curve_epsilon(rdp_curve *curve, uint64_t steps, double delta)
{
    double best = INFINITY;
    for (int index = 0; index < RDP_ORDERS; index++) {
        double alpha = order(index);
        if (isnan(curve->divergence[index]))
            curve->divergence[index] = rdp_of_order(curve->noise, curve->sample, alpha);
        double renyi = (double)steps * curve->divergence[index];
        double epsilon = renyi + log1p(-1 / alpha) - (log(delta) + log(alpha)) / (alpha - 1);
        if (epsilon < best)
            best = epsilon;
        else if (renyi > best)
            break; /* the divergence grows with the order, and the rest does not fall below 0 by as
                      much */
    }
    return fmax(best, 0);
}

double rdp_epsilon(double noise, double sample, uint64_t steps, double delta)
{
    rdp_curve curve;
    rdp_curve_begin(&curve, noise, sample);
    return rdp_curve_epsilon(&curve, steps, delta);
}

double rdp_delta(double noise, double sample, uint64_t steps, double epsilon)
{
    double best = 0;
    for (int index = 0; index < RDP_ORDERS; index++) {
        double alpha = order(index);
        double renyi = (double)steps * rdp_of_order(noise, sample, alpha);
        best = fmin(best, (alpha - 1) * (renyi - epsilon + log1p(-1 / alpha)) - log(alpha));
    }
    return exp(best);
}
