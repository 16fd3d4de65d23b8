/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/composed.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include <tarry/error.h>

#include "base/memory.h"
#include "privacy/complex_number.h"
#include "privacy/fourier.h"

enum { COARSE_CELLS = 4096, FINE_OF_SPREAD = 2000 };

#define LEFT_OUT 1e-10 /* of delta, that the tails of all steps may add to it */
#define FAR_LOG 45.0   /* -log of the tilted mass outside of the window */
#define TILT_MOST 1e7

/* What the steps' sum looks like about the losses that decide. */
typedef struct outline {
    double least, most; /* losses of one step */
    double tilt;
    double centre, spread; /* of the tilted sum */
    double below, above;   /* of the centre, beyond which next to nothing is */
    double one_spread;     /* of one step's tilted loss */
    double beyond;         /* P's mass of losses above centre + above, at most */
} outline;

/* log delta that goes with a tilt, by Chernoff, or the epsilon; both are monotone in it. */
static bool is_enough(const loss_grid *grid, uint64_t steps, const composed_aim *aim, double tilt)
{
    loss_cumulants at = loss_cumulants_at(grid, tilt);
    if (aim->delta > 0)
        return (double)steps * (at.value - tilt * at.mean) <= log(aim->delta);
    return (double)steps * at.mean >= aim->epsilon;
}

static double choose_tilt(const loss_grid *grid, uint64_t steps, const composed_aim *aim)
{
    double low = 0, high = 1e-3;
    while (high < TILT_MOST && !is_enough(grid, steps, aim, high)) {
        low = high;
        high *= 2;
    }
    for (int i = 0; i < 12; i++) {
        double middle = (low + high) / 2;
        if (is_enough(grid, steps, aim, middle))
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* How far from the centre the tilted sum has all but e^-FAR_LOG of its mass, on the side of `sign`,
 * by Chernoff. */
static double reach_of(const loss_grid *grid, uint64_t steps, const outline *shape, double sign)
{
    double least = INFINITY, value = loss_cumulants_at(grid, shape->tilt).value;
    for (double times = 1; times <= 64; times *= 2) {
        double more = times / shape->spread;
        double there = loss_cumulants_at(grid, shape->tilt + sign * more).value;
        double grown = (double)steps * (there - value) - sign * more * shape->centre;
        least = fmin(least, (grown + FAR_LOG) / more);
    }
    return least;
}

static int draw_outline(const loss_mechanism *mechanism, uint64_t steps, const composed_aim *aim,
                        const tarry_allocator *allocator, outline *shape)
{
    double tail = LEFT_OUT * (aim->delta > 0 ? aim->delta : 1e-20) / (double)steps;
    loss_range(mechanism, tail, &shape->least, &shape->most);
    loss_grid coarse;
    int error = loss_grid_make(mechanism, (shape->most - shape->least) / COARSE_CELLS, shape->least,
                               shape->most, allocator, &coarse);
    if (error != TARRY_OK)
        return error;
    shape->tilt = choose_tilt(&coarse, steps, aim);
    loss_cumulants at = loss_cumulants_at(&coarse, shape->tilt);
    shape->centre = (double)steps * at.mean;
    shape->one_spread = fmax(sqrt(at.variance), coarse.step / 8);
    shape->spread = shape->one_spread * sqrt((double)steps);
    shape->above = reach_of(&coarse, steps, shape, 1);
    shape->below = reach_of(&coarse, steps, shape, -1);
    shape->beyond =
        exp((double)steps * at.value - shape->tilt * (shape->centre + shape->above) - FAR_LOG);
    loss_grid_free(&coarse, allocator);
    return TARRY_OK;
}

/* z^n, for |z| <= 1. */
static double complex power(double complex z, uint64_t n)
{
    double complex result = 1;
    for (; n > 0; n >>= 1) {
        if (n & 1)
            result = complex_product(result, z);
        z = complex_product(z, z);
    }
    return result;
}

static size_t place_of(int64_t index, size_t count)
{
    int64_t rest = index % (int64_t)count;
    return (size_t)(rest < 0 ? rest + (int64_t)count : rest);
}

/* The tilted masses of one step, folded round the circle of `count` cells, become those of the sum
 * of all. */
static void sum_steps(const loss_grid *one, uint64_t steps, double tilt, double value,
                      double complex *cells, size_t count, const double complex *roots)
{
    for (size_t i = 0; i < one->count; i++) {
        int64_t index = one->first + (int64_t)i;
        if (one->mass[i] > 0)
            cells[place_of(index, count)] +=
                exp(log(one->mass[i]) + tilt * (double)index * one->step - value);
    }
    fourier_transform(cells, count, roots, false);
    for (size_t i = 0; i < count; i++)
        cells[i] = power(cells[i], steps);
    fourier_transform(cells, count, roots, true);
}

/* Takes the window out of the circle. Rounding is made up for by adding its bound to each cell. */
static void read_window(const double complex *cells, uint64_t steps, composed_loss *composed)
{
    double most = 0;
    for (size_t i = 0; i < composed->count; i++)
        most = fmax(most, creal(cells[i]));
    double rounding = most * DBL_EPSILON * log2((double)composed->count) * ((double)steps + 1);
    for (size_t i = 0; i < composed->count; i++)
        composed->weight[i] =
            fmax(creal(cells[place_of(composed->first + (int64_t)i, composed->count)]), 0) +
            rounding;
}

static int compose(const loss_grid *one, uint64_t steps, const tarry_allocator *allocator,
                   composed_loss *composed)
{
    double value = loss_cumulants_at(one, composed->tilt).value;
    composed->scale = (double)steps * value;
    double complex *cells = memory_allocate(allocator, composed->count, sizeof(*cells));
    double complex *roots = memory_allocate(allocator, composed->count / 2, sizeof(*roots));
    composed->weight = memory_allocate(allocator, composed->count, sizeof(*composed->weight));
    int error = cells != NULL && roots != NULL && composed->weight != NULL ? TARRY_OK
                                                                           : TARRY_ERROR_NO_MEMORY;
    if (error == TARRY_OK) {
        fourier_roots(roots, composed->count);
        sum_steps(one, steps, composed->tilt, value, cells, composed->count, roots);
        read_window(cells, steps, composed);
    } else {
        composed_loss_free(composed, allocator);
    }
    memory_release(allocator, cells);
    memory_release(allocator, roots);
    return error;
}

int composed_loss_make(const loss_mechanism *mechanism, uint64_t steps, const composed_aim *aim,
                       const tarry_allocator *allocator, composed_loss *composed)
{
    outline shape;
    loss_grid one;
    int error = draw_outline(mechanism, steps, aim, allocator, &shape);
    if (error != TARRY_OK)
        return error;
    double room = (double)(aim->cells - 8);
    double step = fmax((shape.below + shape.above) / room, shape.one_spread / FINE_OF_SPREAD);
    step = fmax(step, (shape.most - shape.least) / room);
    size_t count = 16;
    while ((double)count < (shape.below + shape.above) / step + 8)
        count *= 2;
    error = loss_grid_make(mechanism, step, shape.least, shape.most, allocator, &one);
    if (error != TARRY_OK)
        return error;
    *composed = (composed_loss){
        .step = step,
        .first = (int64_t)floor((shape.centre + shape.above) / step) + 4 - (int64_t)count,
        .count = count,
        .tilt = shape.tilt,
        .infinite = -expm1((double)steps * log1p(-one.infinite)) + shape.beyond,
    };
    error = compose(&one, steps, allocator, composed);
    loss_grid_free(&one, allocator);
    return error;
}

void composed_loss_free(composed_loss *composed, const tarry_allocator *allocator)
{
    memory_release(allocator, composed->weight);
    composed->weight = NULL;
}

static double loss_at(const composed_loss *composed, size_t index)
{
    return (double)(composed->first + (int64_t)index) * composed->step;
}

/* Of the losses above cell `at`, relative to its own: their mass, and their mass times e^-(loss -
 * own). */
typedef struct upper {
    size_t at;
    double mass, divided;
} upper;

static upper upper_begin(const composed_loss *composed)
{
    return (upper){.at = composed->count - 1};
}

static void upper_down(const composed_loss *composed, upper *sums)
{
    double weight = composed->weight[sums->at];
    sums->mass = (sums->mass + weight) * exp(-composed->tilt * composed->step);
    sums->divided = (sums->divided + weight) * exp(-(composed->tilt + 1) * composed->step);
    sums->at--;
}

/* log P's mass that stands for 1 in the sums of a cell. */
static double unit_of(const composed_loss *composed, size_t at)
{
    return composed->scale - composed->tilt * loss_at(composed, at);
}

double composed_delta(const composed_loss *composed, double epsilon)
{
    upper sums = upper_begin(composed);
    while (sums.at > 0 && loss_at(composed, sums.at) > epsilon)
        upper_down(composed, &sums);
    double over =
        epsilon - loss_at(composed, sums.at); /* below 0: the window does not reach as far down */
    if (over < 0)
        return 1;
    double finite = exp(unit_of(composed, sums.at)) * (sums.mass - exp(over) * sums.divided);
    return fmin(1, composed->infinite + fmax(finite, 0));
}

double composed_epsilon(const composed_loss *composed, double delta)
{
    double left = delta - composed->infinite; /* for what is finite */
    if (left <= 0)
        return INFINITY;
    upper sums = upper_begin(composed);
    for (; sums.at > 0 && loss_at(composed, sums.at) > 0; upper_down(composed, &sums)) {
        double unit = exp(unit_of(composed, sums.at));
        if (unit * (sums.mass - sums.divided) > left)
            break;
    }
    /* delta is straight over e^epsilon from here to the next cell. */
    double here = loss_at(composed, sums.at);
    double ratio = (sums.mass - left / exp(unit_of(composed, sums.at))) / sums.divided;
    if (sums.at == 0 || !(ratio > 0))
        return fmax(here, 0);
    return fmax(here + fmin(log(ratio), composed->step), 0);
}
