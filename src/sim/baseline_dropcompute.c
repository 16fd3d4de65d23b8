/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "plan/plan.h"
#include "protocol/wire/codec.h"
#include "sim/baseline_state.h"

/* Rounds whose times the search for the deadline goes by, and deadlines that it tries. */
enum { CALIBRATION = 20, CANDIDATES = 2000 };

/* A sum on its way. */
typedef struct upload {
    uint64_t first_ns, left_ns, bytes;
    uint32_t worker;
} upload;

static int compare_uploads(const void *left, const void *right)
{
    const upload *a = left, *b = right;
    if (a->first_ns != b->first_ns)
        return a->first_ns > b->first_ns ? 1 : -1;
    return (a->worker > b->worker) - (a->worker < b->worker);
}

static upload send_sum(baseline *model, uint32_t worker, uint64_t now, bool empty)
{
    upload sum = {.worker = worker,
                  .bytes = empty ? CODEC_HEADER_BYTES : baseline_gradient_bytes(model)};
    sum.left_ns = star_up(&model->network, worker, now, sum.bytes, &sum.first_ns);
    return sum;
}

/* All pass the server's card; gives back when the last one is there. */
static uint64_t receive(baseline *model, upload *sums, uint32_t count)
{
    uint64_t end_ns = model->now;
    qsort(sums, count, sizeof(*sums), compare_uploads);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t there =
            star_receive(&model->network, sums[i].first_ns, sums[i].bytes, sums[i].left_ns);
        model->result.control_messages++;
        model->result.control_bytes += CODEC_HEADER_BYTES;
        model->result.upload_bytes += sums[i].bytes - CODEC_HEADER_BYTES;
        end_ns = network_later(end_ns, there);
    }
    return end_ns;
}

/* A worker sends what it has when its compute time is over, or it is done; the round ends when the
 * sums of all are there, and those that died are noticed. */
uint64_t baseline_dropcompute_round(baseline *model, int *error)
{
    const uint32_t workers = model->plan->workers;
    if (model->settings.way != TARRY_SIM_STAR)
        return baseline_all_reduce_round(model, model->deadline_ns, error);
    upload *sums = memory_allocate(&model->allocator, workers, sizeof(*sums));
    if (sums == NULL) {
        *error = TARRY_ERROR_NO_MEMORY;
        return model->now;
    }
    uint64_t noticed_ns = model->now;
    uint32_t count = 0;
    for (uint32_t worker = 0; worker < workers; worker++) {
        baseline_worker *node = &model->workers[worker];
        if (!node->there && model->round > 0) /* known to be lost */
            continue;
        uint64_t begin_ns = baseline_send_parameters(model, worker, model->now);
        if (!node->there) {
            noticed_ns = network_later(
                noticed_ns, network_after(model->now, model->settings.server.silence_ns));
            continue;
        }
        uint64_t stop_ns = baseline_compute(model, worker, begin_ns, model->deadline_ns);
        upload sum = {.left_ns = TARRY_NEVER};
        if (node->silent_ns == TARRY_NEVER || node->finished == node->pieces)
            sum = send_sum(model, worker, stop_ns, node->finished == 0);
        if (sum.left_ns > node->silent_ns) { /* it died before the last byte had left */
            baseline_die(model, worker, node->silent_ns);
            noticed_ns = network_later(noticed_ns, baseline_noticed_ns(model, worker));
            continue;
        }
        model->result.copies_coded += node->finished;
        sums[count++] = sum;
    }
    uint64_t end_ns = receive(model, sums, count);
    memory_release(&model->allocator, sums);
    return network_later(end_ns, noticed_ns);
}

static uint64_t star_alone(const baseline *model, network *links)
{
    const uint64_t gradient = baseline_gradient_bytes(model);
    uint64_t end_ns = 0, bytes = CODEC_HEADER_BYTES + model->settings.parameter_bytes;
    for (uint32_t worker = 0; worker < model->plan->workers; worker++) {
        uint64_t first_ns, there = star_down(links, worker, 0, bytes);
        uint64_t left_ns = star_up(links, worker, there, gradient, &first_ns);
        end_ns = network_later(end_ns, star_receive(links, first_ns, gradient, left_ns));
    }
    return end_ns;
}

/* What a round takes in which nobody computes. Errors: NO_MEMORY. */
static int find_communication(baseline *model, uint64_t *time_ns)
{
    network links;
    int error = network_init(&links, &model->settings, model->plan->workers, &model->allocator);
    if (error == TARRY_OK && model->settings.way == TARRY_SIM_STAR)
        *time_ns = star_alone(model, &links);
    else if (error == TARRY_OK)
        *time_ns = baseline_all_reduce_alone(model, &links, &error);
    network_destroy(&links);
    return error;
}

/* Draws of one recorded round: when each worker finishes its pieces, one after the other. */
static uint32_t record(baseline *model, uint32_t index, double *finished_ns, double *longest_ns)
{
    /* Rounds far from those that are simulated, whose draws are others. */
    const uint64_t round = model->round;
    uint32_t count = 0;
    model->round = round ^ ((uint64_t)1 << 31 | index);
    *longest_ns = 0;
    for (uint32_t worker = 0; worker < model->plan->workers; worker++) {
        double now = 0;
        for (uint32_t i = 0; i < model->workers[worker].pieces; i++) {
            uint64_t time =
                baseline_piece_ns(model, worker, i, baseline_own_piece(model, worker, i));
            if (time == TARRY_NEVER)
                break;
            now += (double)time;
            finished_ns[count++] = now;
        }
        *longest_ns = fmax(*longest_ns, now);
    }
    model->round = round;
    return count;
}

static int compare_times(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* From the first moment at which a worker has finished a piece to when all have, at equal ratios,
 * as tails may be long. */
static double candidate_ns(double least_ns, double most_ns, uint32_t index)
{
    return least_ns * pow(most_ns / least_ns, (double)index / (CANDIDATES - 1));
}

/* Adds S_i of the recorded round to each candidate's. finished_ns is sorted. */
static void add_speedups(double *speedup, uint64_t *finished, double least_ns, double most_ns,
                         const double *finished_ns, uint32_t count, double longest_ns,
                         double links_ns, uint32_t pieces)
{
    uint32_t done = 0;
    for (uint32_t i = 0; i < CANDIDATES; i++) {
        double tau = candidate_ns(least_ns, most_ns, i);
        while (done < count && finished_ns[done] <= tau)
            done++;
        finished[i] += done;
        double time = fmin(tau, longest_ns) + links_ns;
        speedup[i] += time > 0 ? (longest_ns + links_ns) / time * done / pieces : 0;
    }
}

int baseline_best_deadline(baseline *model, uint64_t *deadline_ns)
{
    const uint32_t pieces = model->plan->chunks;
    double *finished_ns =
        memory_allocate(&model->allocator, (size_t)pieces * CALIBRATION, sizeof(*finished_ns));
    double speedup[CANDIDATES] = {0}, longest_ns[CALIBRATION], least_ns = INFINITY, most_ns = 0;
    uint32_t count[CALIBRATION], best = CANDIDATES - 1;
    uint64_t finished[CANDIDATES] = {0};
    uint64_t links_ns = 0;
    int error = finished_ns == NULL ? TARRY_ERROR_NO_MEMORY : find_communication(model, &links_ns);
    if (error != TARRY_OK) {
        memory_release(&model->allocator, finished_ns);
        return error;
    }
    for (uint32_t i = 0; i < CALIBRATION; i++) {
        double *own = finished_ns + (size_t)i * pieces;
        count[i] = record(model, i, own, &longest_ns[i]);
        qsort(own, count[i], sizeof(*own), compare_times);
        most_ns = fmax(most_ns, longest_ns[i]);
        least_ns = count[i] > 0 ? fmin(least_ns, own[0]) : least_ns;
    }
    least_ns = fmax(least_ns, 1);
    most_ns = fmax(most_ns, least_ns);
    for (uint32_t i = 0; i < CALIBRATION; i++)
        add_speedups(speedup, finished, least_ns, most_ns, finished_ns + (size_t)i * pieces,
                     count[i], longest_ns[i], (double)links_ns, pieces);
    for (uint32_t i = CANDIDATES - 1; i-- > 0;)
        if (speedup[i] > speedup[best] && finished[i] >= (uint64_t)pieces * CALIBRATION / 2)
            best = i;
    memory_release(&model->allocator, finished_ns);
    /* Not a nanosecond less than what rounding took. */
    double found = ceil(candidate_ns(least_ns, most_ns, best) + 1);
    *deadline_ns = found < 0x1p64 ? (uint64_t)found : TARRY_NEVER;
    return TARRY_OK;
}
