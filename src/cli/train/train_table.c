/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/train_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/quantile.h"
#include "cli/text/numbers.h"

#define ALL_WORKERS 16  /* up to so many, all workers are shown in their order */
#define FEW_WORKERS 8   /* of more, the slowest ones */
#define SLOW_FACTOR 1.5 /* "slow" is a worker that takes so many medians per chunk */

static void print_row(const char *name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void print_row(const char *name, const char *format, ...)
{
    va_list arguments;
    printf("  %-22s", name);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
}

static int print_times(const history *past)
{
    char median[NUMBER_TEXT_SIZE], late[NUMBER_TEXT_SIZE];
    sketch *times;
    if (history_times(past, &times) != TARRY_OK)
        return TARRY_ERROR_NO_MEMORY;
    seconds_text(sketch_quantile(times, 0.5), median);
    seconds_text(sketch_quantile(times, 0.95), late);
    sketch_free(times);
    print_row("round time", "median %s, p95 %s", median, late);
    return TARRY_OK;
}

static void print_costs(const history_totals *sum)
{
    double rounds = (double)sum->rounds;
    char control[NUMBER_TEXT_SIZE], upload[NUMBER_TEXT_SIZE];
    bytes_text(sum->control_bytes / rounds, control);
    bytes_text(sum->upload_bytes / rounds, upload);
    print_row("copies per chunk", "%.2f computed, %.0f needed", sum->copies / rounds,
              sum->needed / rounds);
    if (sum->moved + sum->split + sum->merged > 0)
        print_row("changes to the plan", "%.0f copies moved, %.0f chunks split, %.0f merged",
                  sum->moved, sum->split, sum->merged);
    print_row("attempts per round", "%.2f", sum->attempts / rounds);
    print_row("control per round", "%s in %.0f messages", control, sum->control_messages / rounds);
    print_row("upload per round", "%s", upload);
}

/* Where conditioning limits were raised. */
static void print_rounding(const history_totals *sum)
{
    if (sum->raised > 0)
        print_row("rounding error",
                  "at most %.2g of the chunks' sizes, in %zu rounds of 1/sigma_min "
                  "up to %.3g",
                  sum->error_bound, sum->raised, sum->conditioning);
}

static void print_local_steps(const history *past)
{
    if (past->shortened > 0)
        print_row("local steps",
                  "the outer step was shortened in %zu rounds, as late chunks took few steps; "
                  "a longer --local-seconds gives them more",
                  past->shortened);
}

static void print_privacy(const history_privacy *privacy)
{
    print_row("privacy", "epsilon %.5g with delta %.3g, %" PRIu64 " sums released%s",
              privacy->epsilon, privacy->delta, privacy->releases,
              privacy->spent ? ": one more would exceed the budget" : "");
    if (!privacy->secret)
        print_row("", "NOT PRIVATE: the draws and the noise are those of a seed");
}

static void print_saturation(const history_totals *sum)
{
    if (sum->saturated > 0)
        print_row("beyond --secure-bound",
                  "%.3g %% of numbers in the worst round, %.3g %% on average",
                  100 * sum->saturation_most, 100 * sum->saturation_sum / (double)sum->saturated);
}

static void print_loss(const history *past)
{
    const double begin = history_train_begin(past).loss, end = past->train_end.loss;
    if (isnan(end) && isnan(begin))
        ; /* nobody here has the samples */
    else if (past->first > 0 && isfinite(end))
        print_row("loss", "%.6g at the end", end);
    else if (past->first > 0)
        print_row("loss", "not finite");
    else if (isfinite(end))
        print_row("loss", "%.6g -> %.6g", begin, end);
    else
        print_row("loss", "%.6g -> not finite", begin);
}

static void print_scores(const history *past, const verified_round *worst)
{
    if (past->privacy.counted)
        print_privacy(&past->privacy);
    else
        print_loss(past);
    if (isfinite(past->test_end.loss)) {
        if (isfinite(past->test_end.accuracy))
            print_row("test", "loss %.6g, accuracy %.2f %%", past->test_end.loss,
                      past->test_end.accuracy * 100);
        else
            print_row("test", "loss %.6g", past->test_end.loss);
    }
    if (!isnan(worst->error)) {
        print_row("worst verified error", "%.2g (squared: %.2g)", worst->error,
                  worst->squared_error);
        print_row("float32 of the model", "%.2g", worst->model_rounding);
    }
}

/* Which rounds the rows count, if this process did not do them all. */
static void print_cover(const history *past)
{
    if (past->first > 0)
        print_row("rounds counted", "%zu to %zu: the record of the rounds before them was damaged",
                  past->first, past->count);
    else if (past->resumed)
        print_row("rounds counted", "0 to %zu: the first %zu were done before --resume",
                  past->count, past->resumed_after);
    const size_t lost = history_total(past).lost;
    if (lost > 0)
        print_row("", "without %zu that the server did before it was killed", lost);
}

/* Of another process, as far as its reports told. */
static double per_chunk(const tarry_worker_state *worker)
{
    double seconds = history_seconds(worker);
    if (worker->chunks > 0 && !isnan(seconds))
        return seconds / (double)worker->chunks;
    return worker->pace > 0 ? worker->pace : INFINITY;
}

typedef struct ranked_worker {
    uint32_t index;
    bool present;
    double per_chunk;
} ranked_worker;

/* Lost ones first, then by seconds per chunk, slowest first. */
static int compare_slowness(const void *a, const void *b)
{
    const ranked_worker *x = a, *y = b;
    if (x->present != y->present)
        return x->present ? 1 : -1;
    if (x->per_chunk != y->per_chunk)
        return x->per_chunk < y->per_chunk ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

static void print_worker(const history *past, uint32_t index, double median)
{
    const tarry_worker_state *worker = &past->worker[index];
    double seconds = per_chunk(worker);
    char time[NUMBER_TEXT_SIZE];
    seconds_text(seconds, time);
    const char *remark = !worker->present                                      ? "lost"
                         : worker->chunks == 0                                 ? "finished nothing"
                         : isfinite(seconds) && seconds > SLOW_FACTOR * median ? "slow"
                                                                               : "";
    printf("  %6u %10" PRIu64 " %12s%s%s\n", index, worker->chunks, time,
           *remark != '\0' ? "  " : "", remark);
}

static int print_workers(const history *past)
{
    double *times = memory_allocate(NULL, past->workers, sizeof(*times));
    ranked_worker *ranked = memory_allocate(NULL, past->workers, sizeof(*ranked));
    int error = times == NULL || ranked == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
    size_t timed = 0;
    for (uint32_t i = 0; error == TARRY_OK && i < past->workers; i++) {
        ranked[i] = (ranked_worker){i, past->worker[i].present, per_chunk(&past->worker[i])};
        if (isfinite(ranked[i].per_chunk))
            times[timed++] = ranked[i].per_chunk;
    }
    if (error == TARRY_OK) {
        double median = quantile_of(times, timed, 0.5);
        uint32_t shown = past->workers;
        if (past->workers > ALL_WORKERS) {
            qsort(ranked, past->workers, sizeof(*ranked), compare_slowness);
            shown = FEW_WORKERS;
            printf("\n  the slowest %u of %u workers:", shown, past->workers);
        }
        printf("\n  worker     chunks   time/chunk\n");
        for (uint32_t i = 0; i < shown; i++)
            print_worker(past, ranked[i].index, median);
    }
    memory_release(NULL, ranked);
    memory_release(NULL, times);
    return error;
}

static int print_rounds(const history *past)
{
    const history_totals sum = history_total(past);
    char all[NUMBER_TEXT_SIZE];
    seconds_text(sum.seconds, all);
    printf("%zu rounds%s%s: %zu exact, %zu approximate\n", sum.rounds,
           past->privacy.counted ? "" : " in ", past->privacy.counted ? "" : all, sum.exact,
           sum.rounds - sum.exact);
    print_cover(past);
    if (!past->privacy.counted && print_times(past) != TARRY_OK)
        return TARRY_ERROR_NO_MEMORY;
    print_costs(&sum);
    if (sum.exact < sum.rounds)
        print_row("expected error", "%.3g (mean of the rounds)",
                  sum.expected_error / (double)sum.rounds);
    print_rounding(&sum);
    print_local_steps(past);
    print_saturation(&sum);
    print_scores(past, &sum.worst);
    return TARRY_OK;
}

int train_table_print(const history *past)
{
    int error = history_total(past).rounds > 0 ? print_rounds(past) : TARRY_OK;
    /* How long a worker took tells of how many samples it drew. */
    return error != TARRY_OK || past->privacy.counted ? error : print_workers(past);
}
