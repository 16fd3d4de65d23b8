/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/accountant.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>

#include <tarry/error.h>
#include <tarry/privacy.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sized.h"
#include "privacy/complex_number.h"

enum { CELLS = 1 << 19 };

#define STEPS_MOST (UINT64_C(1) << 40)
#define NOISE_LEAST 1e-3
#define NOISE_MOST 1e6
#define NOISE_PRECISION 5e-5

void tarry_privacy_settings_init_sized(tarry_privacy_settings *settings, size_t size)
{
    if (!sized_begin(settings, size, sizeof(*settings)))
        return;
    settings->noise = 1;
    settings->sample = 1;
}

/* What is asked of an accountant: epsilon where delta > 0, else delta. */
typedef struct question {
    tarry_privacy_settings settings;
    tarry_accountant accountant;
    double delta, epsilon;
    const tarry_allocator *allocator;
} question;

static int check(const tarry_privacy_settings *settings, tarry_diagnostic *diagnostic)
{
    int error = sized_check(settings->size, sizeof(*settings), "privacy", diagnostic);
    if (error != TARRY_OK)
        return error;
    if (!(settings->noise >= NOISE_LEAST && settings->noise <= NOISE_MOST))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "noise %g: 0.001 to 1e6 is wanted",
                        settings->noise);
    if (!(settings->sample >= 0 && settings->sample <= 1))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "sample %g: 0 to 1 is wanted",
                        settings->sample);
    if (settings->steps > STEPS_MOST)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "steps: at most 2^40 are wanted");
    return TARRY_OK;
}

static int check_delta(double delta, tarry_diagnostic *diagnostic)
{
    return delta > 0 && delta < 1
               ? TARRY_OK
               : diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                          "delta %g: more than 0 and less than 1 is wanted", delta);
}

static double by_rdp(const question *asked)
{
    const tarry_privacy_settings *settings = &asked->settings;
    return asked->delta > 0
               ? rdp_epsilon(settings->noise, settings->sample, settings->steps, asked->delta)
               : rdp_delta(settings->noise, settings->sample, settings->steps, asked->epsilon);
}

/* The worst answer in place of NaN, which comparisons would pass over. */
static double or_unbounded(const question *asked, double found)
{
    return !isnan(found) ? found : asked->delta > 0 ? INFINITY : 1;
}

/* The worse of an example's removal and its addition, which are the same where all are in each
 * batch. */
static int by_pld(const question *asked, double *answer)
{
    const tarry_privacy_settings *settings = &asked->settings;
    const composed_aim aim = {asked->delta, asked->epsilon, CELLS};
    double worst = 0;
    for (loss_direction direction = LOSS_REMOVED; direction <= LOSS_ADDED; direction++) {
        if (direction == LOSS_ADDED && settings->sample == 1)
            break;
        const loss_mechanism one = {settings->noise, settings->sample, direction};
        composed_loss all;
        int error = composed_loss_make(&one, settings->steps, &aim, asked->allocator, &all);
        if (error != TARRY_OK)
            return error;
        const double found = asked->delta > 0 ? composed_epsilon(&all, asked->delta)
                                              : composed_delta(&all, asked->epsilon);
        composed_loss_free(&all, asked->allocator);
        worst = fmax(worst, or_unbounded(asked, found));
    }
    *answer = worst;
    return TARRY_OK;
}

static int answer_of(const question *asked, double *answer)
{
    double renyi = INFINITY, grid = INFINITY;
    int error = TARRY_OK;
    if (asked->settings.steps == 0 || asked->settings.sample == 0) {
        *answer = 0;
        return TARRY_OK;
    }
    if (asked->accountant != TARRY_ACCOUNTANT_PLD)
        renyi = or_unbounded(asked, by_rdp(asked));
    if (asked->accountant != TARRY_ACCOUNTANT_RDP)
        error = by_pld(asked, &grid);
    if (error == TARRY_OK)
        *answer = fmin(renyi, grid);
    return error;
}

int tarry_privacy_epsilon(const tarry_privacy_settings *settings, double delta,
                          tarry_accountant accountant, const tarry_allocator *allocator,
                          double *epsilon, tarry_diagnostic *diagnostic)
{
    int error = check(settings, diagnostic);
    if (error == TARRY_OK)
        error = check_delta(delta, diagnostic);
    if (error != TARRY_OK)
        return error;
    const question asked = {*settings, accountant, delta, 0, allocator};
    error = answer_of(&asked, epsilon);
    return error == TARRY_OK ? error : diagnose_no_memory(diagnostic, "privacy");
}

int tarry_privacy_delta(const tarry_privacy_settings *settings, double epsilon,
                        tarry_accountant accountant, const tarry_allocator *allocator,
                        double *delta, tarry_diagnostic *diagnostic)
{
    int error = check(settings, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (!(epsilon >= 0))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "epsilon %g: 0 or more is wanted",
                        epsilon);
    const question asked = {*settings, accountant, 0, epsilon, allocator};
    error = answer_of(&asked, delta);
    return error == TARRY_OK ? error : diagnose_no_memory(diagnostic, "privacy");
}

/* Noise between two bounds: what epsilon is at them, where it is known, else NAN. */
typedef struct bracket {
    double low, high;       /* low is not enough, high is */
    double at_low, at_high; /* epsilon there */
} bracket;

/* Over logarithms epsilon is nearly straight: where the line between both ends meets it. Where that
 * is not known, the middle. */
static double guess_of(const bracket *within, double epsilon)
{
    double share =
        (log(within->at_low) - log(epsilon)) / (log(within->at_low) - log(within->at_high));
    if (!(share > 0 && share < 1))
        share = 0.5;
    return within->low * pow(within->high / within->low, share);
}

/* Asks at one noise more, and moves the end of the bracket that it belongs to. */
static int look(question *asked, double epsilon, double noise, bracket *within, bool *enough)
{
    double found;
    asked->settings.noise = noise;
    int error = answer_of(asked, &found);
    if (error != TARRY_OK)
        return error;
    *enough = found <= epsilon;
    *(*enough ? &within->high : &within->low) = noise;
    *(*enough ? &within->at_high : &within->at_low) = found;
    return TARRY_OK;
}

/* Each second guess is pushed beyond the line, to the side that did not move, so that both ends
 * come near. */
static int narrow(question *asked, double epsilon, bracket *within)
{
    double push = 1;
    for (int i = 0; within->high / within->low > 1 + NOISE_PRECISION; i++) {
        double noise = guess_of(within, epsilon) * push;
        bool enough;
        if (i % 4 == 3 || !(noise > within->low && noise < within->high))
            noise = sqrt(within->low * within->high);
        int error = look(asked, epsilon, noise, within, &enough);
        if (error != TARRY_OK)
            return error;
        push = enough ? 1 - NOISE_PRECISION / 3 : 1 + NOISE_PRECISION / 3;
    }
    return TARRY_OK;
}

/* From a noise that may be enough, or not: outwards by a tenth, and more each time, until there is
 * one that is enough and one that is not. At the largest noise the answer is known to be enough,
 * and nothing is below the least. */
static int bracket_around(question *asked, double epsilon, double noise, bracket *within)
{
    bool enough;
    *within = (bracket){NOISE_LEAST, NOISE_MOST, NAN, NAN};
    int error = look(asked, epsilon, noise, within, &enough);
    const bool first = enough;
    for (double factor = first ? 0.9 : 1.1; error == TARRY_OK && enough == first;
         factor *= factor) {
        noise = fmin(fmax(noise * factor, NOISE_LEAST), NOISE_MOST);
        error = look(asked, epsilon, noise, within, &enough);
        if (noise == NOISE_LEAST || noise == NOISE_MOST)
            break;
    }
    return error;
}

/* By Renyi divergences, which take no time; then by the losses around that. The result was asked
 * about: its epsilon is at most the one that is wanted. */
static int search(question *asked, double epsilon, double *noise)
{
    tarry_accountant accountant = asked->accountant;
    bracket within = {NOISE_LEAST, NOISE_MOST, NAN, NAN};
    asked->accountant = TARRY_ACCOUNTANT_RDP;
    int error = narrow(asked, epsilon, &within);
    asked->accountant = accountant;
    if (accountant != TARRY_ACCOUNTANT_RDP && error == TARRY_OK) {
        error = bracket_around(asked, epsilon, within.high, &within);
        if (error == TARRY_OK)
            error = narrow(asked, epsilon, &within);
    }
    *noise = within.high;
    return error;
}

int tarry_privacy_noise(const tarry_privacy_settings *settings, double epsilon, double delta,
                        tarry_accountant accountant, const tarry_allocator *allocator,
                        double *noise, tarry_diagnostic *diagnostic)
{
    question asked = {*settings, accountant, delta, 0, allocator};
    asked.settings.noise = NOISE_MOST;
    double found = 0;
    int error = check(&asked.settings, diagnostic);
    if (error == TARRY_OK)
        error = check_delta(delta, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (!(epsilon > 0))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "epsilon %g: more than 0 is wanted",
                        epsilon);
    error = answer_of(&asked, &found);
    if (error == TARRY_OK && found > epsilon)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "no noise up to 1e6 gives epsilon %g with delta %g", epsilon, delta);
    if (error == TARRY_OK)
        error = search(&asked, epsilon, &found);
    if (error != TARRY_OK)
        return diagnose_no_memory(diagnostic, "privacy");
    *noise = found;
    return TARRY_OK;
}

/* ---- composed ---- */

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

/* Cooley and Tukey's transform. The libraries that do it in double are not there to link (KissFFT
 * is packaged for float), or their licence is not ours to take on (FFTW). */

void fourier_roots(double complex *roots, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        double angle = -2 * M_PI * (double)i / (double)count;
        roots[i] = CMPLX(cos(angle), sin(angle));
    }
}

static void reverse_bits(double complex *numbers, size_t count)
{
    for (size_t i = 1, j = 0; i < count; i++) {
        size_t bit = count >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            double complex kept = numbers[i];
            numbers[i] = numbers[j];
            numbers[j] = kept;
        }
    }
}

void fourier_transform(double complex *numbers, size_t count, const double complex *roots,
                       bool inverse)
{
    reverse_bits(numbers, count);
    for (size_t half = 1; half < count; half *= 2) {
        size_t stride = count / (2 * half);
        for (size_t begin = 0; begin < count; begin += 2 * half) {
            for (size_t k = 0; k < half; k++) {
                double complex root = inverse ? conj(roots[k * stride]) : roots[k * stride];
                double complex odd = complex_product(numbers[begin + half + k], root);
                double complex even = numbers[begin + k];
                numbers[begin + k] = even + odd;
                numbers[begin + half + k] = even - odd;
            }
        }
    }
    for (size_t i = 0; inverse && i < count; i++)
        numbers[i] /= (double)count;
}

/* ---- loss ---- */

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

/* ---- normal ---- */

/* exp(sign x^2) with the rounding of x^2 put back: that of a large square would be a large relative
 * error. */
static double exp_square(double x, double sign)
{
    double square = x * x;
    double rounded = fma(x, x, -square);
    return exp(sign * square) * (1 + sign * rounded);
}

double normal_density(double x)
{
    return exp_square(x * M_SQRT1_2, -1) * (M_SQRT1_2 * M_2_SQRTPI / 2);
}

double normal_tail(double x)
{
    return erfc(x * M_SQRT1_2) / 2;
}

/* exp(x^2) erfc(x). Beyond 25 erfc is near underflow; six terms of its asymptotic series are exact
 * to the last place there (Abramowitz and Stegun, 7.1.23). */
static double scaled_erfc(double x)
{
    if (x < 25)
        return exp_square(x, 1) * erfc(x);
    double term = 1 / (2 * x * x), sum = 1;
    for (int i = 5; i >= 1; i--)
        sum = 1 - (2 * i - 1) * term * sum;
    return sum * M_2_SQRTPI / (2 * x);
}

double normal_mills(double x)
{
    return scaled_erfc(x * M_SQRT1_2) / (M_2_SQRTPI * M_SQRT1_2);
}

double normal_log_tail(double x)
{
    if (x < 5)
        return log(normal_tail(x));
    return log(normal_mills(x)) - x * x / 2 - log(2 * M_PI) / 2;
}

/* ---- rdp ---- */

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
