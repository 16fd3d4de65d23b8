/* SPDX-License-Identifier: Apache-2.0 */
/* Keys, sums and masks of a world whose sums are secure, and the sum that the server reads. */
#include "worlds/secure.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/digest.h"
#include "worlds/cluster.h"
#include "worlds/invariants.h"

enum { STREAM = 6, TERMS_STREAM = 9, MOST_AHEAD = 4 };

static const double SHARE = 0.3;        /* of the worlds that can be */
static const double MISLED_SHARE = 0.3; /* of these: one worker is told other terms */

/* From a stream of its own: other worlds stay what they are. */
static uint32_t between(cluster *it, uint32_t least, uint32_t most)
{
    return draws_between(&it->draws, DRAW_SETUP, STREAM, least, most);
}

static bool chance(cluster *it, double probability)
{
    return draws_chance(&it->draws, DRAW_SETUP, STREAM, probability);
}

/* What goes with secure sums, in place of what was drawn. */
static void settle_settings(cluster *it)
{
    tarry_server_settings *settings = &it->settings;
    settings->secure = chance(it, 0.5) ? 32 : 64;
    if (settings->keep != TARRY_KEEP_CREDITED)
        settings->ahead = between(it, 0, MOST_AHEAD);
    settings->keep = TARRY_KEEP_CREDITED;
    settings->credit = TARRY_CREDIT_CHUNK;
    settings->stop = TARRY_STOP_EXACT;
    settings->fill = TARRY_FILL_NONE;
    settings->reproducible = false;
    it->secure.reproducible = chance(it, 0.2);
    if (chance(it, 0.8))
        settings->pick = (tarry_pick)between(it, TARRY_PICK_PLAN, TARRY_PICK_SHARE);
}

/* ---- terms ---- */

static uint32_t between_terms(cluster *it, uint32_t least, uint32_t most)
{
    return draws_between(&it->draws, DRAW_SETUP, TERMS_STREAM, least, most);
}

/* Planted: masks don't depend on the length of stripes. */
static void digest_terms(cluster *it, secure_terms *terms)
{
    run_terms seen = terms->told;
    if (cluster_planted(it, PLANT_FORGET_STRIPE))
        seen.server.stripe_length = 1;
    if (terms_digest(&seen, terms->digest) != TARRY_OK)
        invariant_broken(it, "masks_are_made", "%s", tarry_error_text(TARRY_ERROR_NO_MEMORY));
}

/* Longer stripes, so that no number of the misled worker's part has another one's place. */
static void draw_other_terms(cluster *it)
{
    tarry_server_settings *other = &it->secure.other_terms.told.server;
    switch (between_terms(it, 0, 7)) {
    case 0:
        other->silence_ns++;
        break;
    case 1:
        other->ahead++;
        break;
    case 2:
        other->dimension++;
        break;
    case 3:
        other->conditioning_limit += 1;
        break;
    default:
        other->stripe_length += between_terms(it, 1, SECURE_NUMBERS);
    }
}

static void draw_terms(cluster *it)
{
    const tarry_server_settings *settings = &it->settings;
    secure_world *world = &it->secure;
    run_terms_set(&world->terms.told, settings);
    world->terms.told.workers = it->workers;
    world->terms.told.parameters = settings->dimension;
    world->other_terms = world->terms;
    world->misled = MAX_WORKERS;
    if (draws_chance(&it->draws, DRAW_SETUP, TERMS_STREAM, MISLED_SHARE)) {
        world->misled = between_terms(it, 0, it->workers - 1);
        draw_other_terms(it);
        cluster_note(it, "worker %u is welcomed with other terms, and stripes of %u numbers",
                     world->misled, (unsigned)world->other_terms.told.server.stripe_length);
    }
    digest_terms(it, &world->terms);
    digest_terms(it, &world->other_terms);
}

static const secure_terms *terms_of(const cluster *it, uint32_t worker)
{
    const secure_world *world = &it->secure;
    return worker == world->misled ? &world->other_terms : &world->terms;
}

void secure_draw(cluster *it)
{
    secure_world *world = &it->secure;
    bool may = tarry_plan_parts(it->plan) == 1 && !it->everywhere;
    world->on = (chance(it, SHARE) || it->job.secure) && may;
    if (!world->on)
        return;
    settle_settings(it);
    it->reorder_down = false; /* keys and signals come over one connection */
    const int exponent = (int)between(it, 0, 20) - 10; /* one after the other, whoever compiles */
    const int larger = cluster_planted(it, PLANT_NO_BOUND) ? 2 * DBL_MAX_EXP : 0;
    double bound = ldexp(1 + 0.25 * between(it, 0, 3), exponent + larger);
    bool fits = ring_choose(it->settings.secure, bound, MAX_CHUNKS, &world->ring);
    if (!fits)
        invariant_broken(it, "sums_fit_into_the_ring", "%u bits, bound %g", it->settings.secure,
                         bound);
    cluster_note(it, "secure sums of %u bits: bound %g, 2^-%d, pick %d, ahead %u%s",
                 it->settings.secure, bound, world->ring.fraction, it->settings.pick,
                 it->settings.ahead, world->reproducible ? ", reproducible" : "");
    draw_terms(it);
}

/* ---- gradients ---- */

static uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 31) * UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ value >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return value ^ value >> 32;
}

/* Of the chunk in the round, the same for whoever computes it: some out of range, some no numbers,
 * some in the middle between two whole ones. */
float secure_number(const cluster *it, const cluster_record *of, uint32_t chunk, uint32_t index)
{
    uint64_t drawn = mix(it->job.seed + mix(it->job.run + mix(of->round)));
    drawn = mix(drawn + mix(of->parameters + mix(of->plan)));
    drawn = mix(drawn + mix(chunk * UINT64_C(1000) + index));
    double bound = it->secure.ring.bound, unit = ldexp(1, -it->secure.ring.fraction);
    switch (drawn % 24) {
    case 0:
        return NAN;
    case 1:
        return drawn & 0x100 ? INFINITY : -INFINITY;
    case 2:
        return (float)(drawn & 0x100 ? 3 * bound : -3 * bound);
    case 3:
        return (float)(drawn & 0x100 ? bound : -bound);
    case 4:
    case 5:
        return (float)(((double)(int8_t)(drawn >> 8) + 0.5) * unit);
    default:
        return (float)((double)(int32_t)(drawn >> 32) * 0x1p-31 * bound);
    }
}

static void numbers_of(const cluster *it, const cluster_record *of, uint32_t chunk, uint32_t stripe,
                       float numbers[SECURE_NUMBERS])
{
    for (uint32_t i = 0; i < it->model.stripe_size[stripe]; i++)
        numbers[i] = secure_number(it, of, chunk, stripe * SECURE_NUMBERS + i);
}

void secure_fold(cluster *it, uint32_t worker, uint32_t chunk, bool begins)
{
    secure_node *node = &it->secure.nodes[worker];
    if (!it->secure.on)
        return;
    if (begins) {
        memset(node->sum, 0, sizeof(node->sum));
        memset(node->clamped, 0, sizeof(node->clamped));
        node->chunks = 0;
    }
    node->chunks++;
    for (uint32_t stripe = 0; stripe < it->stripes; stripe++) {
        float numbers[SECURE_NUMBERS];
        numbers_of(it, &it->nodes[worker].present, chunk, stripe, numbers);
        const uint32_t counts = cluster_planted(it, PLANT_COUNT_STRIPES) ? stripe : 0;
        node->clamped[counts] += ring_add(&it->secure.ring, numbers,
                                          (size_t)it->model.stripe_size[stripe], node->sum[stripe]);
    }
}

/* ---- keys ---- */

static void forget(secure_node *node)
{
    secure_member_free(node->member);
    agreement_free(node->pair);
    node->member = NULL;
    node->pair = NULL;
}

void secure_end(cluster *it)
{
    for (uint32_t worker = 0; worker < it->workers; worker++)
        forget(&it->secure.nodes[worker]);
}

/* A planted error: a process has the key pair of the one before it. */
static uint64_t life_of(const cluster *it, uint32_t worker)
{
    return cluster_planted(it, PLANT_KEEP_KAPPA) ? 0 : it->nodes[worker].life;
}

static int make_keys(cluster *it, uint32_t worker)
{
    secure_node *node = &it->secure.nodes[worker];
    uint64_t seed[AGREEMENT_KEY_BYTES / 8], life = life_of(it, worker);
    uint8_t bytes[AGREEMENT_KEY_BYTES];
    for (size_t i = 0; i < sizeof(seed) / sizeof(seed[0]); i++)
        seed[i] = mix(it->job.seed + mix(it->job.run + mix(worker + mix(life + mix(i)))));
    memcpy(bytes, seed, sizeof(bytes));
    it->counts.second_lives += node->pair != NULL;
    forget(node);
    node->life = it->nodes[worker].life;
    node->has_before = false;
    node->pair = agreement_of_seed(bytes);
    if (node->pair == NULL)
        return TARRY_ERROR_NO_MEMORY;
    return secure_member_create(worker, it->workers, node->pair, &it->allocator, &node->member);
}

int secure_connect(cluster *it, uint32_t worker)
{
    const secure_node *node = &it->secure.nodes[worker];
    if (!it->secure.on || (node->pair != NULL && node->life == it->nodes[worker].life))
        return TARRY_OK;
    return make_keys(it, worker);
}

/* The server says in which epoch the process counts that is connected, or was last. */
void secure_arrive(cluster *it, uint32_t worker, uint32_t epoch)
{
    secure_node *node = &it->secure.nodes[worker];
    const secure_arrival *last =
        &node->arrivals[(node->arrival_count + SECURE_ARRIVALS - 1) % SECURE_ARRIVALS];
    if (!it->secure.on || node->pair == NULL || last->epoch == epoch)
        return;
    secure_arrival *arrival = &node->arrivals[node->arrival_count++ % SECURE_ARRIVALS];
    arrival->epoch = epoch;
    memcpy(arrival->key, agreement_public_key(node->pair), AGREEMENT_KEY_BYTES);
}

static const uint8_t *key_of(const cluster *it, uint32_t worker, uint32_t epoch)
{
    const secure_node *node = &it->secure.nodes[worker];
    for (uint32_t i = 0; i < SECURE_ARRIVALS; i++)
        if (node->arrivals[i].epoch == epoch && epoch != 0)
            return node->arrivals[i].key;
    return NULL;
}

/* Whether it names an earlier process in the worker's own place. */
static bool is_of_another(const secure_node *node, const uint8_t *key)
{
    return key != NULL && memcmp(key, agreement_public_key(node->pair), AGREEMENT_KEY_BYTES) != 0;
}

/* The keys come before the signal, over the same connection. */
void secure_hear(cluster *it, uint32_t worker, const tarry_message *message)
{
    const secure_node *node = &it->secure.nodes[worker];
    if (!it->secure.on || message->type != TARRY_MESSAGE_SIGNAL || node->member == NULL)
        return;
    for (uint32_t other = 0; message->lives != NULL && other < it->workers; other++) {
        uint32_t epoch = message->lives[other];
        const uint8_t *key = key_of(it, other, epoch);
        const bool unheard = cluster_planted(it, PLANT_NO_KEY) && other != worker;
        if (epoch == 0 || unheard || (other == worker && is_of_another(node, key)))
            continue;
        if (cluster_planted(it, PLANT_OTHER_KEY) && message->attempt > 1)
            key = agreement_public_key(node->pair);
        int error = key == NULL ? TARRY_ERROR_ARGUMENT
                                : secure_member_hear(node->member, other, epoch, key);
        if (error != TARRY_OK)
            invariant_broken(it, "every_life_has_one_key", "worker %u of %u in epoch %u: %s",
                             worker, other, epoch, tarry_error_text(error));
    }
}

/* ---- masks ---- */

static void name(uint8_t out[32], const char *what, uint64_t number)
{
    memset(out, 0, 32);
    for (size_t i = 0; i < 8 && what[i] != '\0'; i++)
        out[i] = (uint8_t)what[i];
    for (size_t i = 0; i < 8; i++)
        out[24 + i] = (uint8_t)(number >> 8 * i);
}

static kappa_context context_of(const cluster *it, uint32_t worker, const tarry_effect *effect)
{
    const cluster_record *of = &it->nodes[worker].present;
    kappa_context context = {
        .round = effect->round,
        .attempt = effect->attempt,
        .ring = it->secure.ring,
        .colluders = 1,
        .workers = it->workers,
        .lives = effect->message.lives,
        .chunks = tarry_plan_chunks(cluster_plan_of(it, worker)),
        .holders = effect->message.holders,
    };
    name(context.job, "job", it->job.seed);
    name(context.target, "target", 0);
    memcpy(context.terms, terms_of(it, worker)->digest, sizeof(context.terms));
    name(context.plan, "plan", of->plan);
    name(context.parameters, "x", of->round << 16 | of->parameters);
    return context;
}

/* Whether a later life of somebody in the group is known already: its attempt is broken. */
static bool is_over(const cluster *it, const tarry_effect *effect)
{
    for (uint32_t other = 0; other < it->workers; other++) {
        uint32_t life = effect->message.lives[other];
        if (life != 0 && life != it->model.members[other].epoch)
            return true;
    }
    return false;
}

/* A planted error: masks don't know of attempts, holders and lives. */
static int begin_again(cluster *it, uint32_t worker, kappa_context *context,
                       uint8_t kappa[KAPPA_BYTES])
{
    static const uint32_t none[MAX_CHUNKS];
    secure_node *node = &it->secure.nodes[worker];
    uint32_t lives[MAX_WORKERS];
    secure_member_free(node->member);
    int error =
        secure_member_create(worker, it->workers, node->pair, &it->allocator, &node->member);
    for (uint32_t other = 0; other < it->workers && error == TARRY_OK; other++) {
        const uint8_t *key = key_of(it, other, context->lives[other]);
        lives[other] = key != NULL;
        if (key != NULL)
            error = secure_member_hear(node->member, other, 1, key);
    }
    context->lives = lives;
    context->holders = none;
    context->attempt = 1;
    return error == TARRY_OK ? secure_member_begin(node->member, context, kappa) : error;
}

/* The same: what the signal before named is what it masks for. */
static void stay_behind(cluster *it, uint32_t worker, kappa_context *context)
{
    secure_node *node = &it->secure.nodes[worker];
    uint32_t now[MAX_CHUNKS] = {0};
    memcpy(now, context->holders, context->chunks * sizeof(*now));
    if (cluster_planted(it, PLANT_STALE_GROUP) && node->has_before && worker == 0)
        context->holders = node->holders_before;
    else
        memcpy(node->holders_before, now, sizeof(now));
    node->has_before = true;
}

static int begin(cluster *it, uint32_t worker, const tarry_effect *effect,
                 uint8_t kappa[KAPPA_BYTES])
{
    kappa_context context = context_of(it, worker, effect);
    if (cluster_planted(it, PLANT_KEEP_KAPPA))
        return begin_again(it, worker, &context, kappa);
    stay_behind(it, worker, &context);
    return secure_member_begin(it->secure.nodes[worker].member, &context, kappa);
}

/* The stripe as it is before the masks. */
static void fill_in(const cluster *it, uint32_t worker, uint32_t stripe, uint64_t *words)
{
    const secure_node *node = &it->secure.nodes[worker];
    const ring *of = &it->secure.ring;
    size_t numbers = (size_t)it->model.stripe_size[stripe];
    memset(words, 0, SECURE_WORDS * sizeof(*words));
    memcpy(words, node->sum[stripe], ring_bytes(of, numbers));
    const masked_counts counts = {.chunks = node->chunks, .clamped = node->clamped[stripe]};
    masked_counts_put(of, &counts, (uint8_t *)words + ring_bytes(of, numbers));
}

static void mask(cluster *it, uint32_t worker, const tarry_effect *effect, secure_part *part)
{
    uint8_t kappa[KAPPA_BYTES];
    int error = begin(it, worker, effect, kappa);
    part->none = error != TARRY_OK;
    if (part->none) {
        if (error != TARRY_ERROR_FORMAT || !is_over(it, effect))
            invariant_broken(it, "masks_are_made", "worker %u: %s", worker,
                             tarry_error_text(error));
        return;
    }
    secure_member *member = it->secure.nodes[worker].member;
    const size_t numbers = (size_t)it->model.stripe_size[effect->stripe];
    const uint64_t first = effect->stripe * terms_of(it, worker)->told.server.stripe_length;
    invariants_of_masks(it, worker, effect->stripe, kappa, part->words);
    error = secure_member_mask_numbers(member, first, part->words, part->words, numbers);
    if (error == TARRY_OK)
        error = secure_member_mask_counts(
            member, first, (uint8_t *)part->words + ring_bytes(&it->secure.ring, numbers));
    if (error != TARRY_OK)
        invariant_broken(it, "masks_are_made", "worker %u: %s", worker, tarry_error_text(error));
}

void secure_encode(cluster *it, uint32_t worker, const tarry_effect *effect, secure_part *part)
{
    if (!it->secure.on)
        return;
    fill_in(it, worker, effect->stripe, part->words);
    mask(it, worker, effect, part);
    if (cluster_planted(it, PLANT_MASK_AGAIN)) {
        fill_in(it, worker, effect->stripe, part->words);
        ring_count(&it->secure.ring, part->words, 0, 1);
        mask(it, worker, effect, part);
    }
}

/* ---- the server's sum ---- */

void secure_clear(cluster *it, uint32_t stripe)
{
    memset(it->secure.sum[stripe], 0, sizeof(it->secure.sum[stripe]));
    it->secure.senders[stripe] = 0;
}

void secure_add(cluster *it, uint32_t worker, uint32_t stripe, const secure_part *part)
{
    if (!it->secure.on)
        return;
    it->secure.senders[stripe] |= bit(worker);
    ring_sum(&it->secure.ring, part->words, (size_t)it->model.stripe_size[stripe] + MASKED_COUNTS,
             it->secure.sum[stripe]);
}

void secure_round_over(cluster *it)
{
    if (!it->secure.on)
        return;
    it->counts.secure++;
    it->counts.repeated += it->model.attempt > 1;
    invariants_of_secure_sum(it);
}
