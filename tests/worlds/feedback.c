/* SPDX-License-Identifier: Apache-2.0 */
/* Residuals of workers, and the telescoping identity. */
#include <string.h>

#include "base/bitset.h"
#include "worlds/cluster.h"
#include "worlds/invariants.h"

enum { STEP = 64, MOST_MEANT = 1000, MATRIX = 4 };

/* POWERSGD. */
static void share_factors(cluster *it)
{
    static const tarry_matrix matrix = {2, 2};
    it->feedback.shared = true;
    it->settings.compress = TARRY_COMPRESS_POWERSGD;
    it->settings.compress_rank = 1;
    it->settings.compress_matrix_count = 1;
    it->settings.compress_matrices = &matrix;
}

void feedback_draw(cluster *it)
{
    const tarry_server_settings *settings = &it->settings;
    bool may = tarry_plan_parts(it->plan) == 1 && !it->everywhere && !it->secure.on &&
               settings->fill != TARRY_FILL_SCALE;
    /* From a stream of its own: other worlds stay what they are. */
    it->feedback.on = draws_chance(&it->draws, DRAW_SETUP, 3, 0.5) && may;
    const bool bits = draws_chance(&it->draws, DRAW_SETUP, 5, 0.5);
    const bool thin = draws_chance(&it->draws, DRAW_SETUP, 8, 0.5) &&
                      settings->stripe_length >= MATRIX && settings->dimension >= MATRIX;
    if (it->feedback.on)
        it->settings.compress = bits ? TARRY_COMPRESS_SIGN : TARRY_COMPRESS_INT4;
    if (it->feedback.on && thin)
        share_factors(it);
}

/*
 * What a round's factor, which a worker has with the parameters, does to what is sent: a server
 * reads a part by its own, and of another one another number. One that is restarted draws factors
 * anew.
 */
static int64_t factor_of(const cluster *it, uint32_t parameters, uint64_t round)
{
    uint64_t drawn = (round + 1) * UINT64_C(0x9e3779b97f4a7c15) + parameters;
    return it->feedback.shared ? (int64_t)(drawn * UINT64_C(0xff51afd7ed558ccd) >> 40) : 0;
}

/* Whether the worker goes by what the server of now has said. */
static bool is_of_this_life(const cluster *it, uint32_t worker)
{
    return it->nodes[worker].present.parameters == it->parameters;
}

void feedback_encode(cluster *it, uint32_t worker, uint64_t round, uint32_t stripe, coded *part)
{
    feedback_books *books = &it->feedback;
    feedback_stripe *own = &it->nodes[worker].stripes[stripe];
    const uint64_t shared = round - (round > 0 && cluster_planted(it, PLANT_OLD_FACTOR));
    if (!books->on)
        return;
    int64_t due = books->owed[worker][stripe] - books->thrown[worker][stripe];
    if (is_of_this_life(it, worker) && own->residual != due)
        invariant_broken(it, "telescoping_identity",
                         "worker %u adds %lld to stripe %u, and owes %lld", worker,
                         (long long)own->residual, stripe, (long long)due);
    uint64_t drawn = ++books->parts * UINT64_C(0x9e3779b97f4a7c15) >> 40;
    int64_t meant = (int64_t)(drawn % (2 * MOST_MEANT)) - MOST_MEANT;
    int64_t all = meant + own->residual, below = ((all % STEP) + STEP) % STEP;
    part->rounded = (feedback_part){
        .number = books->parts,
        .meant = meant,
        .sent = all - below + (int64_t)(drawn >> 12 & 1) * STEP,
    };
    own->left = all - part->rounded.sent;
    part->rounded.thin =
        part->rounded.sent - factor_of(it, it->nodes[worker].present.parameters, shared);
    own->number = books->parts;
    own->stands = false;
}

static void throw_away(cluster *it, uint32_t worker, uint32_t stripe)
{
    feedback_books *books = &it->feedback;
    books->thrown[worker][stripe] = books->owed[worker][stripe];
    it->nodes[worker].stripes[stripe] = (feedback_stripe){0};
}

/* Whether the worker could not know, by the round that it had before this one. */
static bool may_be_void(const cluster_node *node)
{
    const cluster_record *before = &node->records[(node->record_count - 1) % MAX_RECORDS];
    return before->parameters != node->present.parameters ||
           before->round + 1 < node->present.round;
}

void feedback_settle(cluster *it, uint32_t worker, const tarry_effect *effect)
{
    cluster_node *node = &it->nodes[worker];
    for (uint32_t stripe = 0; stripe < it->stripes; stripe++) {
        feedback_stripe *own = &node->stripes[stripe];
        bool stood = bitset_test(effect->stood, stripe), out = bitset_test(effect->voids, stripe);
        if (stood && cluster_planted(it, PLANT_VOID_TOLD)) {
            stood = false;
            out = true;
        }
        it->counts.residuals += stood;
        if (stood)
            *own = (feedback_stripe){.residual = own->left};
        if (!out || cluster_planted(it, PLANT_KEEP_UNKNOWN))
            continue;
        if (!may_be_void(node))
            invariant_broken(it, "what_is_told_is_not_void", "worker %u, stripe %u", worker,
                             stripe);
        it->counts.voids++;
        throw_away(it, worker, stripe);
    }
}

void feedback_forget(cluster *it, uint32_t worker)
{
    for (uint32_t stripe = 0; it->feedback.on && stripe < it->stripes; stripe++)
        throw_away(it, worker, stripe);
}

void feedback_restart(cluster *it)
{
    feedback_books *books = &it->feedback;
    *books = (feedback_books){.on = books->on, .shared = books->shared, .parts = books->parts};
}

void feedback_add(cluster *it, uint32_t worker, uint32_t stripe, const coded *part)
{
    feedback_part *standing = &it->feedback.standing[worker][stripe];
    *standing = part->rounded;
    if (standing->number != 0)
        standing->sent = standing->thin + factor_of(it, it->parameters, it->model.round);
}

void feedback_clear(cluster *it, uint32_t stripe)
{
    for (uint32_t worker = 0; worker < it->workers; worker++)
        it->feedback.standing[worker][stripe] = (feedback_part){0};
}

/* What the worker will add to its next part of the stripe, once it has heard what stands. */
static int64_t residual_of(const cluster *it, uint32_t worker, uint32_t stripe)
{
    const feedback_stripe *own = &it->nodes[worker].stripes[stripe];
    return !is_of_this_life(it, worker) ? 0 : own->stands ? own->left : own->residual;
}

static void book(cluster *it, uint32_t worker, uint32_t stripe)
{
    feedback_books *books = &it->feedback;
    const feedback_part *part = &books->standing[worker][stripe];
    feedback_stripe *own = &it->nodes[worker].stripes[stripe];
    if (part->number == 0)
        return;
    books->owed[worker][stripe] += part->meant - part->sent;
    books->meant[stripe] += part->meant;
    books->sent[stripe] += part->sent;
    if (own->number == part->number)
        own->stands = true;
    else if (own->number == 0) /* its process is no more */
        books->thrown[worker][stripe] = books->owed[worker][stripe];
}

void feedback_round_over(cluster *it)
{
    feedback_books *books = &it->feedback;
    for (uint32_t stripe = 0; books->on && stripe < it->model.stripes; stripe++) {
        for (uint32_t worker = 0; worker < it->workers; worker++)
            book(it, worker, stripe);
        int64_t left = books->meant[stripe] - books->sent[stripe];
        for (uint32_t worker = 0; worker < it->workers; worker++)
            left -= residual_of(it, worker, stripe) + books->thrown[worker][stripe];
        if (left != 0)
            invariant_broken(it, "telescoping_identity",
                             "stripe %u: what was sent and what is kept is off by %lld", stripe,
                             (long long)left);
        feedback_clear(it, stripe);
    }
}
