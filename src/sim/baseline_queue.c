/* SPDX-License-Identifier: Apache-2.0 */
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
#include "base/memory.h"
#include "plan/plan.h"
#include "protocol/wire/codec.h"
#include "sim/baseline_state.h"
#include "sim/queue.h"

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

static int send_sum(shared *all, uint32_t worker)
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
    return own->last && own->full ? send_sum(all, worker) : TARRY_OK;
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

uint64_t baseline_queue_round(baseline *model, int *error)
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
