/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/composed.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include <tarry/error.h>

#include "base/memory.h"
#include "privacy/complex_number.h"
#include "privacy/fourier.h"

enum { COARSE_CELLS = 4096, FINE_OF_SPREAD = 2000, ATTEMPTS = 4 };

#define LEFT_OUT 1e-10 /* of delta, that the tails of all steps may add to it */
#define FAR_LOG 45.0   /* -log of the tilted mass outside of the window */
#define TILT_MOST 1e7

/* What the steps' sum looks like about the losses that decide. */
typedef struct outline {
    double least, most; /* losses of one step */
    double tilt;
    double value;                /* of one step's cumulant generating function there */
    double centre;               /* of the tilted sum */
    double below, above;         /* of the centre, beyond which next to nothing is */
    double one_spread;           /* of one step's tilted loss */
    double far_below, far_above; /* in spreads of the sum: what gave `below` and `above` */
    double beyond;               /* P's mass of losses above centre + above, at most */
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
 * by Chernoff's bound with one other tilt. */
static double chernoff_reach(const loss_grid *grid, uint64_t steps, const outline *shape,
                             double more, double sign)
{
    double there = loss_cumulants_at(grid, shape->tilt + sign * more).value;
    double grown = (double)steps * (there - shape->value) - sign * more * shape->centre;
    return (grown + FAR_LOG) / more;
}

/* The tilt that gives the least reach. */
static double choose_far(const loss_grid *grid, uint64_t steps, const outline *shape, double spread,
                         double sign)
{
    double least = INFINITY, best = 1;
    for (double times = 1; times <= 64; times *= 2) {
        double reach = chernoff_reach(grid, steps, shape, times / spread, sign);
        if (reach < least) {
            least = reach;
            best = times;
        }
    }
    return best / spread;
}

/* Where the sum of steps on this grid lies. A coarser grid's figures will not do: with many steps
 * they are off by more than the sum's spread. */
static void place_window(const loss_grid *grid, uint64_t steps, outline *shape)
{
    loss_cumulants at = loss_cumulants_at(grid, shape->tilt);
    shape->value = at.value;
    shape->centre = (double)steps * at.mean;
    shape->one_spread = fmax(sqrt(at.variance), grid->step / 8);
    const double spread = shape->one_spread * sqrt((double)steps);
    if (shape->far_above == 0) {
        shape->far_above = choose_far(grid, steps, shape, spread, 1);
        shape->far_below = choose_far(grid, steps, shape, spread, -1);
    }
    shape->above = chernoff_reach(grid, steps, shape, shape->far_above, 1);
    shape->below = chernoff_reach(grid, steps, shape, shape->far_below, -1);
    shape->beyond =
        exp((double)steps * at.value - shape->tilt * (shape->centre + shape->above) - FAR_LOG);
}

static bool is_known(const outline *shape)
{
    return isfinite(shape->centre) && isfinite(shape->below) && isfinite(shape->above) &&
           isfinite(shape->one_spread) && !isnan(shape->beyond) && shape->below + shape->above > 0;
}

static int draw_outline(const loss_mechanism *mechanism, uint64_t steps, const composed_aim *aim,
                        const tarry_allocator *allocator, outline *shape)
{
    double tail = LEFT_OUT * (aim->delta > 0 ? aim->delta : 1e-20) / (double)steps;
    *shape = (outline){0};
    loss_range(mechanism, tail, &shape->least, &shape->most);
    loss_grid coarse;
    int error = loss_grid_make(mechanism, (shape->most - shape->least) / COARSE_CELLS, shape->least,
                               shape->most, allocator, &coarse);
    if (error != TARRY_OK)
        return error;
    shape->tilt = choose_tilt(&coarse, steps, aim);
    place_window(&coarse, steps, shape);
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
    double most = 0, sum = 0;
    for (size_t i = 0; i < composed->count; i++) {
        most = fmax(most, creal(cells[i]));
        sum += creal(cells[i]);
    }
    if (!isfinite(sum))
        composed->infinite = INFINITY;
    double rounding = most * DBL_EPSILON * log2((double)composed->count) * ((double)steps + 1);
    for (size_t i = 0; i < composed->count; i++)
        composed->weight[i] =
            fmax(creal(cells[place_of(composed->first + (int64_t)i, composed->count)]), 0) +
            rounding;
}

static int compose(const loss_grid *one, uint64_t steps, const outline *shape,
                   const tarry_allocator *allocator, composed_loss *composed)
{
    composed->scale = (double)steps * shape->value;
    double complex *cells = memory_allocate(allocator, composed->count, sizeof(*cells));
    double complex *roots = memory_allocate(allocator, composed->count / 2, sizeof(*roots));
    composed->weight = memory_allocate(allocator, composed->count, sizeof(*composed->weight));
    int error = cells != NULL && roots != NULL && composed->weight != NULL ? TARRY_OK
                                                                           : TARRY_ERROR_NO_MEMORY;
    if (error == TARRY_OK) {
        fourier_roots(roots, composed->count);
        sum_steps(one, steps, composed->tilt, shape->value, cells, composed->count, roots);
        read_window(cells, steps, composed);
    } else {
        composed_loss_free(composed, allocator);
    }
    memory_release(allocator, cells);
    memory_release(allocator, roots);
    return error;
}

/* A grid on which the window has at most aim->cells cells, and its window. If none is found `one`
 * has no masses. */
static int make_fine(const loss_mechanism *mechanism, uint64_t steps, const composed_aim *aim,
                     const tarry_allocator *allocator, outline *shape, loss_grid *one)
{
    const double room = (double)(aim->cells - 8);
    *one = (loss_grid){0};
    for (int i = 0; i < ATTEMPTS && is_known(shape); i++) {
        double step =
            fmax((shape->below + shape->above) / room, shape->one_spread / FINE_OF_SPREAD);
        step = fmax(step * (i > 0 ? 1.1 : 1), (shape->most - shape->least) / room);
        int error = loss_grid_make(mechanism, step, shape->least, shape->most, allocator, one);
        if (error != TARRY_OK)
            return error;
        place_window(one, steps, shape);
        if (is_known(shape) && (shape->below + shape->above) / step <= room)
            return TARRY_OK;
        loss_grid_free(one, allocator);
    }
    return TARRY_OK;
}

int composed_loss_make(const loss_mechanism *mechanism, uint64_t steps, const composed_aim *aim,
                       const tarry_allocator *allocator, composed_loss *composed)
{
    outline shape;
    loss_grid one;
    int error = draw_outline(mechanism, steps, aim, allocator, &shape);
    if (error == TARRY_OK)
        error = make_fine(mechanism, steps, aim, allocator, &shape, &one);
    if (error != TARRY_OK)
        return error;
    if (one.mass == NULL) {
        *composed = (composed_loss){.infinite = INFINITY};
        return TARRY_OK;
    }
    size_t count = 16;
    while ((double)count < (shape.below + shape.above) / one.step + 8)
        count *= 2;
    *composed = (composed_loss){
        .step = one.step,
        .first = (int64_t)floor((shape.centre + shape.above) / one.step) + 4 - (int64_t)count,
        .count = count,
        .tilt = shape.tilt,
        .infinite = one.infinite < 1 ? -expm1((double)steps * log1p(-one.infinite)) + shape.beyond
                                     : INFINITY,
    };
    error = compose(&one, steps, &shape, allocator, composed);
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
    double kept; /* mass - divided, of which a subtraction would leave little if losses are tiny */
} upper;

static upper upper_begin(const composed_loss *composed)
{
    return (upper){.at = composed->count - 1};
}

static void upper_down(const composed_loss *composed, upper *sums)
{
    double weight = composed->weight[sums->at];
    const double down = exp(-composed->tilt * composed->step);
    sums->kept =
        (sums->kept * exp(-composed->step) - (sums->mass + weight) * expm1(-composed->step)) * down;
    sums->mass = (sums->mass + weight) * down;
    sums->divided = (sums->divided + weight) * exp(-(composed->tilt + 1) * composed->step);
    sums->at--;
}

/* log P's mass that stands for 1 in the sums of a cell. */
static double unit_of(const composed_loss *composed, size_t at)
{
    return composed->scale - composed->tilt * loss_at(composed, at);
}

/* log of the finite losses' part of delta, at `over` above the cell's own loss. */
static double log_finite(const composed_loss *composed, const upper *sums, double over)
{
    double lost = 0;
    if (over > 0 && sums->divided > 0)
        lost =
            over < 1 ? expm1(over) * sums->divided : exp(over + log(sums->divided)) - sums->divided;
    return sums->kept > lost ? unit_of(composed, sums->at) + log(sums->kept - lost) : -INFINITY;
}

double composed_delta(const composed_loss *composed, double epsilon)
{
    if (!(composed->infinite < 1))
        return 1;
    upper sums = upper_begin(composed);
    while (sums.at > 0 && loss_at(composed, sums.at) > epsilon)
        upper_down(composed, &sums);
    double over =
        epsilon - loss_at(composed, sums.at); /* below 0: the window does not reach as far down */
    double delta = composed->infinite + exp(log_finite(composed, &sums, over));
    return over >= 0 && delta < 1 ? delta : 1;
}

double composed_epsilon(const composed_loss *composed, double delta)
{
    double left = delta - composed->infinite; /* for what is finite */
    if (!(left > 0))
        return INFINITY;
    upper sums = upper_begin(composed);
    while (!(log_finite(composed, &sums, 0) > log(left))) {
        if (sums.at == 0 || loss_at(composed, sums.at) <= 0)
            return fmax(loss_at(composed, sums.at), 0);
        upper_down(composed, &sums);
    }
    /* From here to the next cell delta is linear in e^epsilon: solve for what is left. */
    double enough = exp(log(left) - unit_of(composed, sums.at));
    double more = log1p((sums.kept - enough) / sums.divided);
    double epsilon = loss_at(composed, sums.at) + (more < composed->step ? more : composed->step);
    return fmax(epsilon, 0);
}
