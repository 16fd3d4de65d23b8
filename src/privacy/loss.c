/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/loss.h"

#include <math.h>

#include <tarry/error.h>

#include "base/memory.h"
#include "privacy/normal.h"

#define FAR 3.0 /* a normal's argument from which differences of its function need Mills' ratio */
#define FAR_BELOW 37.0 /* below minus this Mills' ratio is too large for a double */
#define LOG_LARGE 1.0  /* of e^epsilon, from which logarithms are taken apart */

/*
 * Where the output's loss is epsilon, with the example removed: e^epsilon = 1 - q + q e^((2 x - 1)
 * / (2 s^2)). -INFINITY: no output has a loss as low.
 */
static double output_of(const loss_mechanism *mechanism, double epsilon)
{
    double q = mechanism->sample, ratio;
    if (q == 1)
        ratio = epsilon;
    else if (epsilon > LOG_LARGE)
        ratio = epsilon + log1p((q - 1) * exp(-epsilon)) - log(q);
    else if (expm1(epsilon) <= -q)
        return -INFINITY;
    else
        ratio = log1p(expm1(epsilon) / q);
    return mechanism->noise * mechanism->noise * ratio + 0.5;
}

/*
 * Above the output x = output_of(epsilon) the mixture has this much more than e^epsilon times what
 * the normal has: q P[N(1) > x] - (e^epsilon - 1 + q) P[N(0) > x], where the two densities times
 * their weights are equal at x. The second term is q times the density at (x - 1) / s times Mills'
 * ratio at x / s: a product of e^epsilon and a tail would be infinity times zero for little noise.
 */
static double excess_above(const loss_mechanism *mechanism, double x)
{
    double s = mechanism->noise, q = mechanism->sample;
    double from_one = (x - 1) / s, from_zero = x / s;
    if (isinf(x))
        return x > 0 ? 0 : q;
    if (from_zero < -FAR_BELOW) /* the normal's tail is 1, and the exponent below 0 */
        return q * normal_tail(from_one) - q * exp((2 * x - 1) / (2 * s * s));
    if (from_one < -FAR)
        return q * normal_tail(from_one) - q * normal_density(from_one) * normal_mills(from_zero);
    return q * normal_density(from_one) * (normal_mills(from_one) - normal_mills(from_zero));
}

/* The same below x, the other way round: (e^epsilon - 1 + q) P[N(0) < x] - q P[N(1) < x]; for
 * epsilon <= 0: then the exponent is at most 0. */
static double excess_below(const loss_mechanism *mechanism, double x)
{
    double s = mechanism->noise, q = mechanism->sample;
    double from_one = (x - 1) / s, from_zero = x / s;
    if (isinf(x))
        return 0;
    if (from_zero > FAR)
        return q * exp((2 * x - 1) / (2 * s * s)) * normal_tail(-from_zero) -
               q * normal_tail(-from_one);
    return q * normal_density(from_one) * (normal_mills(-from_zero) - normal_mills(-from_one));
}

/* If the example is added both curves are mirrored ones of its removal: P and Q have changed
 * places. Each curve is computed on its own side of 0, and the other follows without cancellation.
 */
double loss_delta(const loss_mechanism *mechanism, double epsilon)
{
    if (epsilon < 0)
        return loss_lower(mechanism, epsilon) - expm1(epsilon);
    if (mechanism->direction == LOSS_REMOVED)
        return excess_above(mechanism, output_of(mechanism, epsilon));
    const double below = excess_below(mechanism, output_of(mechanism, -epsilon));
    return below > 0 ? exp(epsilon + log(below)) : 0;
}

double loss_lower(const loss_mechanism *mechanism, double epsilon)
{
    if (epsilon > 0)
        return loss_delta(mechanism, epsilon) + expm1(epsilon);
    if (mechanism->direction == LOSS_REMOVED)
        return excess_below(mechanism, output_of(mechanism, epsilon));
    return exp(epsilon) * excess_above(mechanism, output_of(mechanism, -epsilon));
}

/* The first of least * 2^k at which the curve is at most `tail`, halved back as far as that stays
 * so. */
static double reach(const loss_mechanism *mechanism, double tail, double sign,
                    double (*curve)(const loss_mechanism *, double))
{
    double low = 0, high = 1e-6;
    while (!(curve(mechanism, sign * high) <= tail) && high < 1e9)
        high *= 2;
    for (int i = 0; i < 20; i++) {
        double middle = (low + high) / 2;
        if (curve(mechanism, sign * middle) <= tail)
            high = middle;
        else
            low = middle;
    }
    return sign * high;
}

void loss_range(const loss_mechanism *mechanism, double tail, double *least, double *most)
{
    *least = reach(mechanism, tail, -1, loss_lower);
    *most = reach(mechanism, tail, 1, loss_delta);
}

/*
 * With d_i for the curve at epsilon_i = i h the slope of the chord from i to i + 1 over e^epsilon
 * is (d_(i+1) - d_i) / (e^h - 1) / e^epsilon_i. Q's mass at i is by how much the slope grows there,
 * P's is e^epsilon_i times that. A straight line adds nothing, so that below 0 the curve less 1 -
 * e^epsilon is taken, which is small there.
 */
static void connect_dots(const loss_mechanism *mechanism, loss_grid *grid)
{
    double up = expm1(grid->step), down = -expm1(-grid->step);
    double (*curve)(const loss_mechanism *, double) = loss_lower;
    double before = 0, here = 0, after = 0;
    for (size_t i = 0; i < grid->count; i++) {
        int64_t at = grid->first + (int64_t)i;
        if (i > 0 && at != 0) {
            before = here;
            here = after;
        } else { /* the first, and where the other curve begins */
            curve = at < 0 ? loss_lower : loss_delta;
            before = curve(mechanism, (double)(at - 1) * grid->step);
            here = curve(mechanism, (double)at * grid->step);
        }
        after = curve(mechanism, (double)(at + 1) * grid->step);
        double mass = (after - here) / up + (before - here) / down;
        if (i == 0) /* all that is lower: its line goes to delta = 1 at e^epsilon = 0 */
            mass = (after - here) / up - here;
        if (i + 1 == grid->count) { /* all that is higher is infinite */
            mass = (before - here) / down;
            grid->infinite = isnan(here) ? INFINITY : fmax(grid->infinite, here);
        }
        if (isnan(mass)) /* nothing is known then: no epsilon is large enough */
            grid->infinite = INFINITY;
        grid->mass[i] = fmax(mass, 0);
    }
}

int loss_grid_make(const loss_mechanism *mechanism, double step, double least, double most,
                   const tarry_allocator *allocator, loss_grid *grid)
{
    int64_t first = (int64_t)floor(least / step), last = (int64_t)ceil(most / step);
    *grid = (loss_grid){.step = step, .first = first, .count = (size_t)(last - first + 1)};
    grid->mass = memory_allocate(allocator, grid->count, sizeof(*grid->mass));
    if (grid->mass == NULL)
        return TARRY_ERROR_NO_MEMORY;
    connect_dots(mechanism, grid);
    return TARRY_OK;
}

void loss_grid_free(loss_grid *grid, const tarry_allocator *allocator)
{
    memory_release(allocator, grid->mass);
    grid->mass = NULL;
}

loss_cumulants loss_cumulants_at(const loss_grid *grid, double t)
{
    double most = -INFINITY;
    for (size_t i = 0; i < grid->count; i++)
        if (grid->mass[i] > 0)
            most = fmax(most,
                        log(grid->mass[i]) + t * (double)(grid->first + (int64_t)i) * grid->step);
    double sum = 0, first = 0, second = 0;
    for (size_t i = 0; i < grid->count; i++) {
        double loss = (double)(grid->first + (int64_t)i) * grid->step;
        double weight = grid->mass[i] > 0 ? exp(log(grid->mass[i]) + t * loss - most) : 0;
        sum += weight;
        first += weight * loss;
        second += weight * loss * loss;
    }
    double mean = first / sum;
    return (loss_cumulants){most + log(sum), mean, fmax(second / sum - mean * mean, 0)};
}
