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

/* Sums over the rounds. */
typedef struct totals {
    size_t exact;
    double moved, split, merged;
    double seconds, copies, needed, attempts, control_bytes, control_messages, upload_bytes,
        expected_error;
} totals;

static totals add_up(const history *past)
{
    totals sum = {0};
    for (size_t i = 0; i < past->count; i++) {
        const tarry_round_result *result = &past->rounds[i].result;
        sum.exact += result->exact ? 1 : 0;
        sum.seconds += past->rounds[i].seconds;
        sum.copies += history_copies_per_chunk(result);
        sum.needed += result->parts;
        sum.moved += past->rounds[i].changes.moved;
        sum.split += past->rounds[i].changes.split;
        sum.merged += past->rounds[i].changes.merged;
        sum.attempts += result->attempts;
        sum.control_bytes += (double)result->control_bytes;
        sum.control_messages += (double)result->control_messages;
        sum.upload_bytes += (double)result->upload_bytes;
        sum.expected_error += result->expected_error;
    }
    return sum;
}

static void print_times(double *seconds, size_t count)
{
    char median[NUMBER_TEXT_SIZE], late[NUMBER_TEXT_SIZE];
    seconds_text(quantile_of(seconds, count, 0.5), median);
    seconds_text(quantile_of(seconds, count, 0.95), late);
    print_row("round time", "median %s, p95 %s", median, late);
}

static void print_costs(const history *past, const totals *sum)
{
    double rounds = (double)past->count;
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
static void print_rounding(const history *past)
{
    double conditioning, bound;
    size_t rounds = history_raised_rounds(past, &conditioning, &bound);
    if (rounds > 0)
        print_row("rounding error",
                  "at most %.2g of the chunks' sizes, in %zu rounds of 1/sigma_min "
                  "up to %.3g",
                  bound, rounds, conditioning);
}

static void print_privacy(const history_privacy *privacy)
{
    print_row("privacy", "epsilon %.5g with delta %.3g, %" PRIu64 " sums released%s",
              privacy->epsilon, privacy->delta, privacy->releases,
              privacy->spent ? ": one more would exceed the budget" : "");
    if (!privacy->secret)
        print_row("", "NOT PRIVATE: the draws and the noise are those of a seed");
}

static void print_scores(const history *past)
{
    if (past->privacy.counted)
        print_privacy(&past->privacy);
    else if (isnan(past->train_end.loss) && isnan(history_train(past, 0).loss))
        ; /* nobody here has the samples */
    else if (isfinite(past->train_end.loss))
        print_row("loss", "%.6g -> %.6g", history_train(past, 0).loss, past->train_end.loss);
    else
        print_row("loss", "%.6g -> not finite", history_train(past, 0).loss);
    if (isfinite(past->test_end.loss)) {
        if (isfinite(past->test_end.accuracy))
            print_row("test", "loss %.6g, accuracy %.2f %%", past->test_end.loss,
                      past->test_end.accuracy * 100);
        else
            print_row("test", "loss %.6g", past->test_end.loss);
    }
    verified_round worst = history_worst(past);
    if (!isnan(worst.error)) {
        print_row("worst verified error", "%.2g (squared: %.2g)", worst.error, worst.squared_error);
        print_row("float32 of the model", "%.2g", worst.model_rounding);
    }
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

int train_table_print(const history *past)
{
    totals sum = add_up(past);
    if (past->count > 0) {
        double *seconds = memory_allocate(NULL, past->count, sizeof(*seconds));
        if (seconds == NULL)
            return TARRY_ERROR_NO_MEMORY;
        for (size_t i = 0; i < past->count; i++)
            seconds[i] = past->rounds[i].seconds;
        char all[NUMBER_TEXT_SIZE];
        seconds_text(sum.seconds, all);
        printf("%zu rounds%s%s: %zu exact, %zu approximate\n", past->count,
               past->privacy.counted ? "" : " in ", past->privacy.counted ? "" : all, sum.exact,
               past->count - sum.exact);
        if (!past->privacy.counted)
            print_times(seconds, past->count);
        memory_release(NULL, seconds);
        print_costs(past, &sum);
        if (sum.exact < past->count)
            print_row("expected error", "%.3g (mean of the rounds)",
                      sum.expected_error / (double)past->count);
        print_rounding(past);
        print_scores(past);
    }
    /* How long a worker took tells of how many samples it drew. */
    return past->privacy.counted ? TARRY_OK : print_workers(past);
}
