/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/baseline.h"

#include <math.h>
#include <stdlib.h>

#include <tarry/sim.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "plan/plan.h"
#include "protocol/wire/codec.h"
#include "sim/cost.h"
#include "sim/links/network.h"
#include "sim/queue.h"
#include "sim/world.h"

typedef struct baseline_worker {
    uint64_t back_ns; /* it is there from then on; TARRY_NEVER: not any more */
    uint32_t pieces;  /* that are its own */

    /* the round in progress */
    bool there;
    uint32_t dies_at;   /* pieces that it finishes before; UINT32_MAX: it lives */
    uint32_t finished;  /* pieces */
    uint64_t silent_ns; /* when it died; TARRY_NEVER: it lives */
} baseline_worker;

struct baseline {
    tarry_allocator allocator;
    const tarry_plan *plan;
    baseline_settings own;
    tarry_sim_settings settings;
    network network;
    uint64_t now;
    uint64_t round;       /* that runs, or the next one */
    uint64_t deadline_ns; /* 0: to be found */
    baseline_worker *workers;
    uint64_t *known_ns; /* by piece */
    tarry_round_result result;
};

/* ---- what the schemes share ---- */

/* How long `worker` takes for `piece`, the position-th that it computes in the round. */
static uint64_t baseline_piece_ns(const baseline *model, uint32_t worker, uint32_t position,
                                  uint32_t piece)
{
    return chunk_time_ns(model->plan, &model->settings, model->settings.first_round + model->round,
                         worker, position, piece);
}

/* The worker's own piece at `position` (0..pieces-1), all of one chunk after the other. */
static uint32_t baseline_own_piece(const baseline *model, uint32_t worker, uint32_t position)
{
    const tarry_plan *plan = model->plan;
    uint32_t whole = position / plan->pieces, slot = plan->worker_offset[worker];
    for (;; slot++)
        if (plan->slot_chunk[slot] % plan->pieces == 0 && whole-- == 0)
            return plan->slot_chunk[slot] + position % plan->pieces;
}

/* The worker falls silent at `now`: what it finished and had not sent is not known any more (pieces
 * of its own alone). */
static void baseline_die(baseline *model, uint32_t worker, uint64_t now)
{
    baseline_worker *node = &model->workers[worker];
    node->silent_ns = now;
    for (uint32_t i = 0; i < node->finished; i++)
        model->known_ns[baseline_own_piece(model, worker, i)] = TARRY_NEVER;
}

/*
 * Computes the worker's own pieces from begin_ns on, for `most_ns` at most: marks those finished as
 * known one latency after their end, and its death if it dies. Gives back when it stops: finished,
 * at the limit, or dead.
 */
static uint64_t baseline_compute(baseline *model, uint32_t worker, uint64_t begin_ns,
                                 uint64_t most_ns)
{
    baseline_worker *node = &model->workers[worker];
    uint64_t end_ns = network_after(begin_ns, most_ns), now = begin_ns;
    for (; node->finished < node->pieces; node->finished++) {
        uint32_t piece = baseline_own_piece(model, worker, node->finished);
        uint64_t time = baseline_piece_ns(model, worker, node->finished, piece);
        bool dies = node->finished == node->dies_at;
        uint64_t next = network_after(now, dies ? time / 2 : time);
        if (next > end_ns)
            return end_ns;
        if (next == TARRY_NEVER || dies) {
            now = next == TARRY_NEVER ? now : next;
            baseline_die(model, worker, now);
            return now;
        }
        now = next;
        model->known_ns[piece] =
            network_after(now, model->network.latency_ns) - model->result.start_ns;
    }
    if (node->dies_at == node->finished)
        node->silent_ns = now;
    return now;
}

/* When the server takes a dead worker for lost. */
static uint64_t baseline_noticed_ns(const baseline *model, uint32_t worker)
{
    return network_after(model->workers[worker].silent_ns, model->settings.server.silence_ns);
}

/* The bytes of a gradient with its header. */
static uint64_t baseline_gradient_bytes(const baseline *model)
{
    return CODEC_HEADER_BYTES + model->settings.dimension * sizeof(float);
}

/* The header and the parameters go to `worker` at `now`: when they are there. */
static uint64_t baseline_send_parameters(baseline *model, uint32_t worker, uint64_t now)
{
    model->result.control_messages++;
    model->result.control_bytes += CODEC_HEADER_BYTES;
    return star_down(&model->network, worker, now,
                     CODEC_HEADER_BYTES + model->settings.parameter_bytes);
}

/* ---- all-reduce ---- */

/* The sum of what all have, made over the links of the settings' way: when the last one has it. */
static uint64_t sum_up(baseline *model, network *links, const uint64_t *ready_ns, uint64_t *done_ns,
                       uint64_t *moved, int *error)
{
    const group_sum sum = {
        .count = model->plan->workers, .dimension = model->settings.dimension, .parts = 1};
    uint64_t end_ns = 0;
    *error = group_sum_run(links, model->settings.way, &sum, ready_ns, done_ns, moved);
    for (uint32_t worker = 0; *error == TARRY_OK && worker < sum.count; worker++)
        end_ns = network_later(end_ns, done_ns[worker]);
    return end_ns;
}

/* Computes everybody's own; ready_ns[j]: when worker j has finished. Gives back when the last of
 * those that are lost is noticed; then the sum is never made. */
static uint64_t compute_all(baseline *model, uint64_t most_ns, uint64_t *ready_ns)
{
    uint64_t noticed_ns = model->now;
    for (uint32_t worker = 0; worker < model->plan->workers; worker++) {
        baseline_worker *node = &model->workers[worker];
        if (!node->there)
            node->silent_ns = model->now;
        else
            ready_ns[worker] = baseline_compute(model, worker, model->now, most_ns);
        model->result.copies_coded += node->finished;
        if (node->silent_ns == TARRY_NEVER)
            continue;
        model->result.error = TARRY_ERROR_COVERAGE;
        noticed_ns = network_later(noticed_ns, baseline_noticed_ns(model, worker));
    }
    return noticed_ns;
}

/* Each worker computes its own for `most_ns` at most; then the sum is made among all. With a worker
 * lost it never is: all are told once that is noticed. */
static uint64_t baseline_all_reduce_round(baseline *model, uint64_t most_ns, int *error)
{
    const uint32_t workers = model->plan->workers;
    uint64_t *ready_ns = memory_allocate(&model->allocator, workers, 2 * sizeof(*ready_ns));
    if (ready_ns == NULL) {
        *error = TARRY_ERROR_NO_MEMORY;
        return model->now;
    }
    uint64_t end_ns = compute_all(model, most_ns, ready_ns);
    if (model->result.error == TARRY_OK)
        end_ns = sum_up(model, &model->network, ready_ns, ready_ns + workers,
                        &model->result.upload_bytes, error);
    else
        model->result.copies_coded = 0;
    memory_release(&model->allocator, ready_ns);
    for (uint32_t piece = 0; piece < model->plan->chunks; piece++)
        if (model->known_ns[piece] != TARRY_NEVER)
            model->known_ns[piece] =
                model->result.error == TARRY_OK ? end_ns - model->now : TARRY_NEVER;
    return end_ns;
}

/* How long the sum alone takes over `links`, which are free. */
static uint64_t baseline_all_reduce_alone(baseline *model, network *links, int *error)
{
    const uint32_t workers = model->plan->workers;
    uint64_t *times = memory_allocate(&model->allocator, workers, 2 * sizeof(*times)), moved;
    *error = times == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
    uint64_t end_ns =
        times != NULL ? sum_up(model, links, times, times + workers, &moved, error) : 0;
    memory_release(&model->allocator, times);
    return end_ns;
}

/* ---- dropcompute ---- */

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

static upload send_own_sum(baseline *model, uint32_t worker, uint64_t now, bool empty)
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
static uint64_t baseline_dropcompute_round(baseline *model, int *error)
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
            sum = send_own_sum(model, worker, stop_ns, node->finished == 0);
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

static int baseline_best_deadline(baseline *model, uint64_t *deadline_ns)
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

/*
 * A shared queue in its best form. The server gives every worker a piece with the parameters; a
 * worker asks for the next one a round trip before it is done with the one before (it knows how
 * long its pieces take), so that latency is hidden wherever a piece takes longer than that. When
 * nothing is left, a worker sends the sum of what it has computed as soon as it is done with it.
 *
 * With backups the server then gives it a piece that another worker is still at; its gradient
 * travels by itself. The server knows in advance how long each piece takes on each worker. Of the
 * pieces that the idle worker would finish earlier, by more than its gradient takes on the server's
 * card, it gets the one that would end last. A third worker replaces the slower of two. When one
 * copy is finished, the other worker is told to drop the piece; if both have finished it, the
 * server leaves the second one out. So every worker's sum counts, and the round ends when every
 * piece is in a sum that has arrived.
 *
 * What a worker that dies has not sent to the last byte is lost. Its pieces are given to others
 * once that is noticed.
 *
 * Control messages take the latency alone, as if they had the right of way over parameters and
 * sums.
 *
 * Messages, as sim/queue.h has them: from a worker REPORT (the piece `slot` is finished, or with
 * NO_PIECE: it asks for one) and PART (the sum with number `attempt`); to a worker NEWS (the piece
 * `slot` is its next one, or with NO_PIECE: there is none; `failed`: it is to drop that piece).
 */

#define NO_PIECE UINT32_MAX
#define NOBODY UINT32_MAX

/* One of the two copies that there may be of a piece. */
typedef struct copy {
    uint32_t worker;  /* NOBODY: there is none */
    uint32_t upload;  /* 1 + the number of the worker's sum that has it; 0: not in any */
    uint64_t ends_ns; /* when the worker will have finished it, unless it dies */
    bool finished;
} copy;

typedef struct piece_state {
    copy copies[2];
    bool known;   /* the server has heard that a copy is finished */
    bool arrived; /* in a sum */
} piece_state;

typedef struct hand {
    uint32_t at;   /* the piece that it computes; NO_PIECE: none */
    uint32_t next; /* that it has been given besides */
    uint32_t done; /* the position of its next piece */
    uint32_t sums; /* sent so far */
    uint32_t busy; /* the event that ends its piece */
    bool asked;    /* for another one besides the one that it computes */
    bool full;     /* something is in the sum that has not been sent */
    bool last;     /* it has heard that nothing is left */

    /* to the server's knowledge */
    uint64_t ends_ns; /* when it will be done with what it computes, or have the parameters */
    uint32_t given;   /* pieces that it has not finished */
    bool told;        /* that nothing is left */
    bool lost;
} hand;

typedef struct shared {
    baseline *model;
    queue events;
    piece_state *pieces;
    hand *hands;
    uint32_t *back; /* pieces of the lost, put back */
    uint32_t back_count;
    uint32_t next; /* the first piece that was never given */
    uint32_t arrived;
    uint32_t left; /* workers not known to be lost */
    uint64_t now;
} shared;

static bool is_there(const shared *all, uint32_t worker)
{
    const baseline_worker *node = &all->model->workers[worker];
    return node->there && node->silent_ns == TARRY_NEVER;
}

static int schedule(shared *all, uint64_t time, const sim_event *event, uint32_t *id)
{
    if (id != NULL)
        *id = QUEUE_NONE;
    return time != TARRY_NEVER ? queue_push(&all->events, time, event, id) : TARRY_OK;
}

/* ---- messages ---- */

/* Control messages take the latency alone: they pass by parameters and sums. */
static int send_control(shared *all, uint32_t worker, sim_event_kind way, tarry_message message)
{
    baseline *model = all->model;
    const sim_event event = {.kind = way, .node = worker, .left_ns = all->now, .message = message};
    model->result.control_messages++;
    model->result.control_bytes += CODEC_HEADER_BYTES;
    return schedule(all, network_after(all->now, model->network.latency_ns), &event, NULL);
}

static int report(shared *all, uint32_t worker, uint32_t piece)
{
    return send_control(all, worker, SIM_TO_SERVER,
                        (tarry_message){.type = TARRY_MESSAGE_REPORT, .slot = piece});
}

static int tell(shared *all, uint32_t worker, uint32_t piece, bool drop)
{
    return send_control(all, worker, SIM_TO_WORKER,
                        (tarry_message){.type = TARRY_MESSAGE_NEWS, .slot = piece, .failed = drop});
}

/* The worker's first word of the round. */
static int tell_with_parameters(shared *all, uint32_t worker, uint32_t piece, uint64_t there_ns)
{
    const sim_event event = {.kind = SIM_TO_WORKER,
                             .node = worker,
                             .message = {.type = TARRY_MESSAGE_NEWS, .slot = piece}};
    return schedule(all, there_ns, &event, NULL);
}

/* ---- the worker ---- */

static copy *copy_of(shared *all, uint32_t worker, uint32_t piece)
{
    copy *copies = all->pieces[piece].copies;
    return copies[0].worker == worker ? &copies[0] : copies[1].worker == worker ? &copies[1] : NULL;
}

static int begin(shared *all, uint32_t worker, uint32_t piece)
{
    baseline *model = all->model;
    baseline_worker *node = &model->workers[worker];
    hand *own = &all->hands[worker];
    uint64_t time = baseline_piece_ns(model, worker, own->done, piece);
    uint64_t trip = 2 * model->network.latency_ns;
    sim_event ends = {.kind = SIM_COMPUTED, .node = worker, .message = {.slot = piece}};
    sim_event asks = {.kind = SIM_ASKS, .node = worker, .message = {.slot = piece}};
    copy *mine = copy_of(all, worker, piece);
    own->at = piece;
    own->ends_ns = network_after(all->now, time);
    if (mine != NULL) /* otherwise it is still to hear that it shall drop it */
        mine->ends_ns = own->ends_ns;
    if (own->done == node->dies_at || time == TARRY_NEVER) {
        ends.kind = SIM_DIES;
        time = time == TARRY_NEVER ? 0 : time / 2;
    }
    own->asked = own->last;
    int error = own->asked ? TARRY_OK
                           : schedule(all, network_after(all->now, time > trip ? time - trip : 0),
                                      &asks, NULL);
    return error == TARRY_OK ? schedule(all, network_after(all->now, time), &ends, &own->busy)
                             : error;
}

static int send_collected(shared *all, uint32_t worker)
{
    baseline *model = all->model;
    hand *own = &all->hands[worker];
    own->sums++;
    sim_event sum = {.kind = SIM_AT_CARD,
                     .node = worker,
                     .bytes = baseline_gradient_bytes(model),
                     .message = {.type = TARRY_MESSAGE_PART, .attempt = own->sums}};
    for (uint32_t piece = 0; piece < model->plan->chunks; piece++) {
        copy *mine = copy_of(all, worker, piece);
        if (mine != NULL && mine->finished && mine->upload == 0)
            mine->upload = own->sums;
    }
    own->full = false;
    uint64_t first_ns;
    sum.left_ns = star_up(&model->network, worker, all->now, sum.bytes, &first_ns);
    model->result.control_messages++;
    model->result.control_bytes += CODEC_HEADER_BYTES;
    return schedule(all, first_ns, &sum, NULL);
}

/* With nothing at hand: the next piece, or the sum if there is none. */
static int go_on(shared *all, uint32_t worker)
{
    hand *own = &all->hands[worker];
    uint32_t piece = own->next;
    own->at = own->next = NO_PIECE;
    if (piece != NO_PIECE)
        return begin(all, worker, piece);
    return own->last && own->full ? send_collected(all, worker) : TARRY_OK;
}

/* Once for each piece that it begins. */
static int ask(shared *all, uint32_t worker, uint32_t piece)
{
    hand *own = &all->hands[worker];
    if (own->asked || own->at != piece)
        return TARRY_OK;
    own->asked = true;
    return report(all, worker, NO_PIECE);
}

static int take_news(shared *all, uint32_t worker, const tarry_message *message)
{
    hand *own = &all->hands[worker];
    if (message->failed) {
        if (own->next == message->slot)
            own->next = NO_PIECE;
        if (own->at != message->slot)
            return TARRY_OK;
        if (own->busy != QUEUE_NONE)
            queue_remove(&all->events, own->busy);
        own->busy = QUEUE_NONE;
        int error = ask(all, worker, message->slot);
        return error == TARRY_OK ? go_on(all, worker) : error;
    }
    if (message->slot == NO_PIECE)
        own->last = true;
    else
        own->next = message->slot;
    return own->at == NO_PIECE ? go_on(all, worker) : TARRY_OK;
}

static int take_computed(shared *all, uint32_t worker, uint32_t piece)
{
    baseline_worker *node = &all->model->workers[worker];
    hand *own = &all->hands[worker];
    copy *mine = copy_of(all, worker, piece);
    own->busy = QUEUE_NONE;
    own->done++;
    node->finished++;
    if (mine != NULL) /* otherwise another one was first, and it is still to hear of that */
        own->full = mine->finished = true;
    int error = report(all, worker, piece);
    return error == TARRY_OK ? go_on(all, worker) : error;
}

static int die(shared *all, uint32_t worker)
{
    baseline *model = all->model;
    baseline_worker *node = &model->workers[worker];
    sim_event noticed = {.kind = SIM_NOTICED, .node = worker};
    node->silent_ns = all->now;
    return schedule(all, baseline_noticed_ns(model, worker), &noticed, NULL);
}

/* ---- the server ---- */

/* When the worker would finish `piece`, given to it now. */
static uint64_t expect_end(const shared *all, uint32_t worker, uint32_t piece)
{
    const hand *own = &all->hands[worker];
    uint64_t heard_ns = network_after(all->now, all->model->network.latency_ns);
    return network_after(network_later(heard_ns, own->ends_ns),
                         baseline_piece_ns(all->model, worker, own->done + own->given, piece));
}

/* When it will be finished; TARRY_NEVER if there is no copy, or its report is overdue: the worker
 * must be dead then. */
static uint64_t copy_ends_ns(const shared *all, const copy *its)
{
    bool overdue = network_after(its->ends_ns, all->model->network.latency_ns) < all->now;
    return overdue || its->worker == NOBODY ? TARRY_NEVER : its->ends_ns;
}

/* A free place for a copy or, if there is none, that of the slower one. */
static copy *place_of(const shared *all, uint32_t piece)
{
    copy *copies = all->pieces[piece].copies;
    for (int i = 0; i < 2; i++)
        if (copies[i].worker == NOBODY)
            return &copies[i];
    return &copies[copy_ends_ns(all, &copies[0]) > copy_ends_ns(all, &copies[1]) ? 0 : 1];
}

/* When the first of its copies should be finished. */
static uint64_t piece_ends_ns(const shared *all, uint32_t piece)
{
    const copy *copies = all->pieces[piece].copies;
    uint64_t ends = copy_ends_ns(all, &copies[0]), other = copy_ends_ns(all, &copies[1]);
    return ends < other ? ends : other;
}

/* The piece for an idle worker to compute once more, NO_PIECE if there is none; the comment at the
 * top has the rule. */
static uint32_t find_backup(const shared *all, uint32_t worker)
{
    uint64_t upload_ns =
        network_time(&all->model->network.server.in, baseline_gradient_bytes(all->model));
    uint64_t last = 0;
    uint32_t found = NO_PIECE;
    for (uint32_t piece = 0; piece < all->next; piece++) {
        const piece_state *state = &all->pieces[piece];
        if (state->known || state->arrived)
            continue;
        uint64_t ends = piece_ends_ns(all, piece);
        if (ends > last && network_after(expect_end(all, worker, piece), upload_ns) < ends) {
            found = piece;
            last = ends;
        }
    }
    return found;
}

static bool is_free(const hand *of)
{
    return of->told && of->given == 0 && !of->lost;
}

/* The server gives up on the worker's copy. */
static int withdraw(shared *all, copy *its, uint32_t piece)
{
    uint32_t worker = its->worker;
    hand *of = &all->hands[worker];
    its->worker = NOBODY;
    of->given--;
    if (of->at == piece)
        of->ends_ns = all->now;
    return tell(all, worker, piece, true);
}

/* A piece that nobody has; NO_PIECE if there is none. */
static uint32_t next_piece(shared *all)
{
    if (all->back_count > 0)
        return all->back[--all->back_count];
    return all->next < all->model->plan->chunks ? all->next++ : NO_PIECE;
}

/* The slower one of two others gives up its copy. */
static int give(shared *all, uint32_t worker, uint32_t piece)
{
    copy *place = place_of(all, piece);
    int error = place->worker != NOBODY ? withdraw(all, place, piece) : TARRY_OK;
    *place = (copy){.worker = worker, .ends_ns = expect_end(all, worker, piece)};
    all->hands[worker].given++;
    return error;
}

/* To one who waits for nothing but a backup, or a piece that was put back. */
static int employ(shared *all, uint32_t worker)
{
    if (worker == NOBODY || !is_free(&all->hands[worker]))
        return TARRY_OK;
    uint32_t piece = next_piece(all);
    if (piece == NO_PIECE && all->model->own.backups)
        piece = find_backup(all, worker);
    if (piece == NO_PIECE)
        return TARRY_OK;
    int error = give(all, worker, piece);
    return error == TARRY_OK ? tell(all, worker, piece, false) : error;
}

static int employ_all(shared *all)
{
    int error = TARRY_OK;
    for (uint32_t worker = 0; worker < all->model->plan->workers && error == TARRY_OK; worker++)
        error = employ(all, worker);
    return error;
}

static int take_finished(shared *all, uint32_t worker, uint32_t piece)
{
    piece_state *state = &all->pieces[piece];
    copy *its = copy_of(all, worker, piece);
    int error = TARRY_OK;
    if (its == NULL) /* dropped since */
        return error;
    if (!state->known)
        all->model->known_ns[piece] = all->now - all->model->now;
    state->known = true;
    all->hands[worker].given--;
    copy *other = &state->copies[its == &state->copies[0] ? 1 : 0];
    uint32_t slower = other->worker;
    if (slower != NOBODY && !other->finished)
        error = withdraw(all, other, piece);
    error = error == TARRY_OK ? employ(all, worker) : error;
    return error == TARRY_OK ? employ(all, slower) : error;
}

/* Another piece, or the word that there is none. */
static int answer(shared *all, uint32_t worker, bool first)
{
    hand *of = &all->hands[worker];
    if (first)
        of->ends_ns = baseline_send_parameters(all->model, worker, all->now);
    uint32_t piece = next_piece(all);
    int error = piece != NO_PIECE ? give(all, worker, piece) : TARRY_OK;
    if (error == TARRY_OK)
        error = first ? tell_with_parameters(all, worker, piece, of->ends_ns)
                      : tell(all, worker, piece, false);
    if (error != TARRY_OK || piece != NO_PIECE)
        return error;
    of->told = true;
    return employ(all, worker);
}

static void take_sum(shared *all, uint32_t worker, uint32_t number)
{
    baseline *model = all->model;
    model->result.upload_bytes += model->settings.dimension * sizeof(float);
    for (uint32_t piece = 0; piece < model->plan->chunks; piece++) {
        const copy *its = copy_of(all, worker, piece);
        if (its == NULL || its->upload != number || all->pieces[piece].arrived)
            continue;
        all->pieces[piece].arrived = true;
        all->arrived++;
    }
}

static int take_message(shared *all, const sim_event *event)
{
    const baseline_worker *node = &all->model->workers[event->node];
    if (event->left_ns > node->silent_ns || all->hands[event->node].lost)
        return TARRY_OK; /* cut off, or put back already */
    if (event->message.type == TARRY_MESSAGE_PART) {
        take_sum(all, event->node, event->message.attempt);
        return TARRY_OK;
    }
    return event->message.slot != NO_PIECE ? take_finished(all, event->node, event->message.slot)
                                           : answer(all, event->node, false);
}

/* What it has not sent is put back, unless another copy is in progress or finished. */
static int lose(shared *all, uint32_t worker)
{
    all->hands[worker].lost = true;
    all->left--;
    for (uint32_t piece = 0; piece < all->next; piece++) {
        piece_state *state = &all->pieces[piece];
        copy *its = copy_of(all, worker, piece);
        if (its == NULL || state->arrived)
            continue;
        its->worker = NOBODY;
        copy other = state->copies[its == &state->copies[0] ? 1 : 0];
        if (other.worker != NOBODY)
            continue;
        state->known = false;
        all->model->known_ns[piece] = TARRY_NEVER;
        all->back[all->back_count++] = piece;
    }
    return employ_all(all);
}

static int carry_out(shared *all, const sim_event *event)
{
    uint32_t worker = event->node;
    baseline *model = all->model;
    sim_event onward = *event;
    switch (event->kind) {
    case SIM_AT_CARD:
        onward.kind = SIM_TO_SERVER;
        return schedule(all, star_receive(&model->network, all->now, event->bytes, event->left_ns),
                        &onward, NULL);
    case SIM_TO_SERVER:
        return take_message(all, event);
    case SIM_NOTICED:
        return lose(all, worker);
    default:
        break;
    }
    if (!is_there(all, worker))
        return TARRY_OK;
    switch (event->kind) {
    case SIM_TO_WORKER:
        return take_news(all, worker, &event->message);
    case SIM_ASKS:
        return ask(all, worker, event->message.slot);
    case SIM_COMPUTED:
        return take_computed(all, worker, event->message.slot);
    default:
        return die(all, worker);
    }
}

static int give_first_pieces(shared *all)
{
    baseline *model = all->model;
    int error = TARRY_OK;
    for (uint32_t worker = 0; worker < model->plan->workers && error == TARRY_OK; worker++) {
        all->hands[worker] = (hand){.at = NO_PIECE, .next = NO_PIECE, .busy = QUEUE_NONE};
        bool there = model->workers[worker].there;
        if (!there && model->round > 0) { /* known to be lost */
            all->hands[worker].lost = true;
            continue;
        }
        all->left++;
        error = answer(all, worker, true);
        if (error == TARRY_OK && !there)
            error = die(all, worker);
    }
    return error;
}

static int run(shared *all)
{
    int error = give_first_pieces(all);
    while (error == TARRY_OK && all->arrived < all->model->plan->chunks && all->left > 0 &&
           queue_next(&all->events) != TARRY_NEVER) {
        all->now = queue_next(&all->events);
        sim_event event = queue_pop(&all->events);
        error = carry_out(all, &event);
    }
    return error;
}

static uint64_t baseline_queue_round(baseline *model, int *error)
{
    const tarry_plan *plan = model->plan;
    const tarry_allocator *allocator = &model->allocator;
    shared all = {.model = model, .now = model->now};
    *error = queue_init(&all.events, 4 * plan->workers, allocator);
    all.pieces = memory_allocate(allocator, plan->chunks, sizeof(*all.pieces));
    all.hands = memory_allocate(allocator, plan->workers, sizeof(*all.hands));
    all.back = memory_allocate(allocator, plan->chunks, sizeof(*all.back));
    if (all.pieces == NULL || all.hands == NULL || all.back == NULL)
        *error = TARRY_ERROR_NO_MEMORY;
    for (uint32_t piece = 0; *error == TARRY_OK && piece < plan->chunks; piece++)
        all.pieces[piece].copies[0].worker = all.pieces[piece].copies[1].worker = NOBODY;
    if (*error == TARRY_OK)
        *error = run(&all);
    model->result.copies_coded = all.arrived;
    if (all.arrived < plan->chunks)
        model->result.error = TARRY_ERROR_COVERAGE;
    memory_release(allocator, all.back);
    memory_release(allocator, all.hands);
    memory_release(allocator, all.pieces);
    queue_destroy(&all.events);
    return all.now;
}

/* ---- baseline ---- */

static void count_own_pieces(baseline *model)
{
    const tarry_plan *plan = model->plan;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        baseline_worker *node = &model->workers[worker];
        node->back_ns = tarry_straggler_dead(model->settings.straggler, worker) ? TARRY_NEVER : 0;
        for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
             slot++)
            if (plan->slot_chunk[slot] % plan->pieces == 0)
                node->pieces += plan->pieces;
    }
}

int baseline_create(const tarry_plan *plan, const baseline_settings *own,
                    const tarry_sim_settings *settings, const tarry_allocator *allocator,
                    baseline **out, tarry_diagnostic *diagnostic)
{
    int error = settings_check(plan, settings, diagnostic);
    if (error == TARRY_OK && plan_edges(plan) != plan->chunks)
        error = diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "baseline: one copy of each chunk only");
    bool star = settings->way == TARRY_SIM_STAR;
    if (error == TARRY_OK &&
        ((own->kind == BASELINE_QUEUE && !star) || (own->kind == BASELINE_ALL_REDUCE && star)))
        error = diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "baseline: %s",
                         star ? "an all-reduce is not made at the server"
                              : "a queue's sums go to the server");
    if (error == TARRY_OK && star && settings->card_shared)
        error = diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                         "baseline: only own schemes' parameters share the server's card");
    if (error != TARRY_OK)
        return error;
    baseline *model = memory_allocate(allocator, 1, sizeof(*model));
    if (model == NULL)
        return diagnose_no_memory(diagnostic, "baseline");
    model->allocator = memory_allocator(allocator);
    model->plan = plan;
    model->own = *own;
    model->settings = *settings;
    model->deadline_ns = own->deadline_ns;
    model->workers = memory_allocate(allocator, plan->workers, sizeof(*model->workers));
    model->known_ns = memory_allocate(allocator, plan->chunks, sizeof(*model->known_ns));
    error = network_init(&model->network, settings, plan->workers, allocator);
    if (error != TARRY_OK || model->workers == NULL || model->known_ns == NULL) {
        baseline_free(model);
        return diagnose_no_memory(diagnostic, "baseline");
    }
    count_own_pieces(model);
    *out = model;
    return TARRY_OK;
}

void baseline_free(baseline *model)
{
    if (model == NULL)
        return;
    tarry_allocator allocator = model->allocator;
    network_destroy(&model->network);
    memory_release(&allocator, model->known_ns);
    memory_release(&allocator, model->workers);
    memory_release(&allocator, model);
}

int baseline_costs(baseline *model, const double *chunk_cost, tarry_diagnostic *diagnostic)
{
    int error = settings_check_costs(model->plan, chunk_cost, diagnostic);
    if (error == TARRY_OK)
        model->settings.chunk_cost = chunk_cost;
    return error;
}

const uint64_t *baseline_known_ns(const baseline *model)
{
    return model->known_ns;
}

uint64_t baseline_deadline_ns(const baseline *model)
{
    return model->deadline_ns;
}

/* ---- a round of any scheme ---- */

/* Who is there, and what the round has in store for them. */
static void begin_round(baseline *model)
{
    const tarry_straggler *straggler = model->settings.straggler;
    model->result = (tarry_round_result){
        .round = model->round,
        .parts = 1,
        .copies_needed = model->plan->chunks,
        .start_ns = model->now,
        .signal_ns = TARRY_NEVER,
    };
    for (uint32_t piece = 0; piece < model->plan->chunks; piece++)
        model->known_ns[piece] = TARRY_NEVER;
    for (uint32_t worker = 0; worker < model->plan->workers; worker++) {
        baseline_worker *node = &model->workers[worker];
        node->there = node->back_ns <= model->now;
        node->finished = 0;
        node->silent_ns = TARRY_NEVER;
        if (!node->there ||
            !tarry_straggler_fails(straggler, model->settings.first_round + model->round, worker,
                                   node->pieces, &node->dies_at))
            node->dies_at = UINT32_MAX;
    }
}

static void end_round(baseline *model, uint64_t end_ns)
{
    tarry_round_result *result = &model->result;
    model->now = result->end_ns = end_ns;
    for (uint32_t worker = 0; worker < model->plan->workers; worker++) {
        baseline_worker *node = &model->workers[worker];
        bool silent = node->silent_ns <= end_ns;
        if (node->there && silent)
            node->back_ns = network_after(node->silent_ns,
                                          tarry_straggler_rejoin_ns(model->settings.straggler));
        result->workers_lost += !node->there || silent;
        result->workers_heard += node->there && node->finished > 0;
        result->copies_computed += node->finished;
    }
    result->exact = result->error == TARRY_OK && result->copies_coded == model->plan->chunks;
    result->expected_error = 1 - (double)result->copies_coded / (double)model->plan->chunks;
}

int baseline_round(baseline *model, tarry_round_result *result)
{
    int error = TARRY_OK;
    uint64_t end_ns = 0;
    if (model->own.kind == BASELINE_DROPCOMPUTE && model->deadline_ns == 0)
        error = baseline_best_deadline(model, &model->deadline_ns);
    if (error != TARRY_OK)
        return error;
    begin_round(model);
    switch (model->own.kind) {
    case BASELINE_DROPCOMPUTE:
        end_ns = baseline_dropcompute_round(model, &error);
        break;
    case BASELINE_QUEUE:
        end_ns = baseline_queue_round(model, &error);
        break;
    case BASELINE_ALL_REDUCE:
    case BASELINE_NONE:
        end_ns = baseline_all_reduce_round(model, TARRY_NEVER, &error);
        break;
    }
    if (error != TARRY_OK)
        return error;
    end_round(model, end_ns);
    model->round++;
    *result = model->result;
    return TARRY_OK;
}
