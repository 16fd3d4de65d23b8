/* SPDX-License-Identifier: Apache-2.0 */
/* Views of the parameters: the server's, their way down, and what workers compute with. */
#include "worlds/seen.h"

#include <assert.h>
#include <string.h>

#include "worlds/cluster.h"
#include "worlds/invariants.h"

int seen_draw(cluster *it)
{
    seen_world *world = &it->seen;
    /* From a stream of its own: other worlds stay what they are. What a connection carries keeps
     * its order. */
    bool wanted = draws_chance(&it->draws, DRAW_SEEN, 0, 0.5);
    bool wide = draws_chance(&it->draws, DRAW_SEEN, 0, 0.3);
    world->on = wanted && !it->everywhere && !it->reorder_down && !it->secure.on;
    if (!world->on)
        return TARRY_OK;
    it->settings.compress_down = wide ? TARRY_COMPRESS_BF16 : TARRY_COMPRESS_INT8;
    return view_create(it->settings.compress_down, SEEN_NUMBERS, &it->allocator, &world->source);
}

void seen_end(cluster *it)
{
    view_free(it->seen.source);
    it->seen.source = NULL;
}

/* The parameters of a round are the same in each life of the server. */
static void draw_parameters(const cluster *it, uint64_t round, float *x)
{
    for (size_t i = 0; i < SEEN_NUMBERS; i++) {
        uint64_t drawn = ((it->job.seed + i) * UINT64_C(0x9e3779b97f4a7c15) + round) *
                         UINT64_C(0xff51afd7ed558ccd);
        x[i] = (float)(int32_t)(drawn >> 40) * 0x1p-12F * (float)(1 + round % 3);
    }
}

void seen_begin_round(cluster *it)
{
    seen_world *world = &it->seen;
    const uint64_t round = it->model.round;
    float x[SEEN_NUMBERS];
    if (!world->on)
        return;
    draw_parameters(it, round, x);
    if (view_stamp(world->source) == 0)
        view_set(world->source, round, x);
    else if (view_stamp(world->source) <= round)
        view_move(world->source, round, x, it->job.seed);
    uint64_t *before = &world->of[round % SEEN_ROUNDS];
    if (*before != 0 && *before != view_digest(world->source))
        invariant_broken(it, "views_outlive_the_server", "round %llu has another one than before",
                         (unsigned long long)round);
    *before = view_digest(world->source);
}

/* ---- the way down ---- */

static void renew(seen_node *own, uint32_t connection)
{
    own->connection = connection;
    own->reader = (view_reader){0};
    own->intake = (view_intake){0};
}

void seen_send(cluster *it, uint32_t worker, uint64_t round, seen_parcel *parcel)
{
    seen_world *world = &it->seen;
    seen_node *own = &it->nodes[worker].seen;
    view_reader *reader = &own->reader;
    parcel->count = 0;
    parcel->cut = false;
    if (!world->on)
        return;
    if (own->connection != memory_network_connection(it->network, worker))
        renew(own, memory_network_connection(it->network, worker));
    if (reader->active && reader->round == round)
        return; /* it is on its way, or there */
    view_reader_end(reader, false);
    view_reader_begin(reader, round);
    const uint8_t *bytes;
    size_t size = 0;
    while (view_reader_next(reader, world->source, &parcel->pieces[parcel->count], &bytes)) {
        const view_piece *piece = &parcel->pieces[parcel->count++];
        assert(parcel->count <= SEEN_PIECES && size + view_piece_bytes(piece) <= SEEN_BYTES);
        memcpy(parcel->bytes + size, bytes, view_piece_bytes(piece));
        size += view_piece_bytes(piece);
        it->counts.wholes += piece->base == 0;
        it->counts.changes += piece->base != 0;
    }
    it->counts.brought_up += parcel->count > 1;
}

/* What is on its way to the worker over its present connection; NULL: nothing is. */
static seen_parcel *find_parcel(cluster *it, uint32_t worker)
{
    memory_event *event;
    for (size_t i = 0; (event = memory_network_look(it->network, i)) != NULL; i++) {
        cargo *with = memory_event_body(event);
        if (event->type == TRANSPORT_FRAME && event->to == worker &&
            event->connection == memory_network_connection(it->network, worker) &&
            event->body_size > offsetof(cargo, parcel) && !with->parcel.cut &&
            with->parcel.pieces[0].round == it->nodes[worker].seen.reader.round)
            return &with->parcel;
    }
    return NULL;
}

void seen_end_round(cluster *it)
{
    for (uint32_t worker = 0; it->seen.on && worker < it->workers; worker++) {
        seen_node *own = &it->nodes[worker].seen;
        seen_parcel *parcel = own->reader.active ? find_parcel(it, worker) : NULL;
        bool cut = parcel != NULL && draws_chance(&it->draws, DRAW_SEEN, worker, 0.7);
        if (cut) {
            parcel->cut = true;
            own->cut = own->reader.round + 1;
        }
        it->counts.cuts += cut;
        view_reader_end(&own->reader, cut && !cluster_planted(it, PLANT_FORGET_CUT));
    }
}

/* Of a piece that is cut off in the middle nothing is left, but what came before is. */
static void take_piece(cluster *it, uint32_t worker, const view_piece *piece, uint8_t *bytes)
{
    seen_node *own = &it->nodes[worker].seen;
    bool complete = false;
    if (cluster_planted(it, PLANT_BEND_VIEW) && worker == 0 && piece->base != 0)
        bytes[9] ^= 1;
    int error = view_intake_begin(&own->intake, piece, it->settings.compress_down, SEEN_NUMBERS);
    if (error != TARRY_OK) {
        invariant_broken(it, "views_follow_each_other", "worker %u has %llu, and gets %llu on %llu",
                         worker, (unsigned long long)own->intake.has,
                         (unsigned long long)piece->stamp, (unsigned long long)piece->base);
        return;
    }
    error = view_intake_add(&own->intake, bytes, SEEN_NUMBERS, own->numbers[own->current],
                            own->numbers[!own->current], own->digests, &complete);
    if (error != TARRY_OK)
        invariant_broken(it, "views_are_equal", "worker %u: not the one that was sent", worker);
    if (!complete)
        return;
    own->stamp = piece->stamp;
    if (!cluster_planted(it, PLANT_KEEP_VIEW) || worker != 0)
        own->current = !own->current;
}

/* A ROUND is behind its view in the stream: without that it does not come, and no copy of it, from
 * a connection that is gone, or where the view was cut off. */
static bool is_behind_its_view(const seen_node *own, const transport_frame *sent, bool gone)
{
    tarry_message_type type;
    uint64_t round;
    return codec_peek(sent->head, sent->head_size, &type, &round) != TARRY_OK ||
           type != TARRY_MESSAGE_ROUND || own->stamp == round + 1 ||
           (!gone && own->cut != round + 1);
}

bool seen_receive(cluster *it, uint32_t worker, const transport_event *sent)
{
    const seen_node *own = &it->nodes[worker].seen;
    const cargo *with = sent->frame.body;
    const seen_parcel *parcel = &with->parcel;
    if (!it->seen.on)
        return true;
    if (!cluster_is_present(it, worker, sent->connection))
        return is_behind_its_view(own, &sent->frame, true);
    if (sent->frame.body_size == offsetof(cargo, parcel))
        return is_behind_its_view(own, &sent->frame, false);
    uint32_t whole = parcel->count - parcel->cut; /* pieces that come */
    uint8_t bytes[SEEN_BYTES];
    size_t at = 0;
    memcpy(bytes, parcel->bytes, sizeof(bytes));
    for (uint32_t i = 0; i < whole && it->broken == NULL; i++) {
        take_piece(it, worker, &parcel->pieces[i], bytes + at);
        at += view_piece_bytes(&parcel->pieces[i]);
    }
    return !parcel->cut;
}

void seen_forget(cluster *it, uint32_t worker)
{
    it->nodes[worker].seen = (seen_node){0};
}

/* ---- what has to hold ---- */

void seen_check(cluster *it, uint32_t worker, uint64_t round)
{
    const seen_node *own = &it->nodes[worker].seen;
    uint64_t expected = it->seen.of[round % SEEN_ROUNDS];
    if (!it->seen.on)
        return;
    if (own->stamp != round + 1)
        invariant_broken(it, "views_are_equal", "worker %u sums round %llu by the view of %llu",
                         worker, (unsigned long long)round, (unsigned long long)own->stamp - 1);
    else if (view_digest_of(own->stamp, own->numbers[own->current], SEEN_NUMBERS) != expected)
        invariant_broken(it, "views_are_equal", "worker %u has another view of round %llu", worker,
                         (unsigned long long)round);
}

/* ---- the server's checkpoint ---- */

void seen_save(cluster *it)
{
    seen_world *world = &it->seen;
    if (!world->on)
        return;
    world->saved_stamp = view_stamp(world->source);
    memcpy(world->saved, view_numbers(world->source), sizeof(world->saved));
}

int seen_restart(cluster *it)
{
    seen_world *world = &it->seen;
    if (!world->on)
        return TARRY_OK;
    seen_end(it);
    int error =
        view_create(it->settings.compress_down, SEEN_NUMBERS, &it->allocator, &world->source);
    if (error == TARRY_OK && world->saved_stamp > 0 && !cluster_planted(it, PLANT_FORGET_VIEW))
        view_set(world->source, world->saved_stamp - 1, world->saved);
    return error;
}
