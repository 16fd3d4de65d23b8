/* SPDX-License-Identifier: Apache-2.0 */
/* A relay of fuzz_peer.c: its lanes' workers say what others do, and it makes sums. */
#include <string.h>

#include "coding/coefficients.h"
#include "compress/compress.h"
#include "fuzz_peer.h"

/* ---- what it is told ---- */

static void hear_lane(run *its, const wire_head *head, const uint8_t *body)
{
    uint32_t lane;
    wire_head inner;
    const uint8_t *inner_body;
    wire_parents parents;
    require(wire_lane_decode(head, body, &lane, &inner, &inner_body) == TARRY_OK && lane < LANES);
    if (inner.kind == WIRE_PARENTS)
        require(wire_parents_decode(&inner, inner_body, &parents) == TARRY_OK);
    else
        fuzz_peer_hear(its, &its->children[lane], &inner, inner_body);
}

bool fuzz_relay_hear(run *its, const wire_head *head, const uint8_t *body)
{
    wire_lane_end end;
    wire_lane_blob blob;
    wire_taken taken;
    wire_blob bytes;
    switch (head->kind) {
    case WIRE_LANE:
        hear_lane(its, head, body);
        return true;
    case WIRE_LANE_END:
        require(wire_lane_end_decode(head, body, &end) == TARRY_OK && end.lane < LANES);
        its->open[end.lane] = false;
        return true;
    case WIRE_LANE_BLOB:
        require(wire_lane_blob_decode(head, body, &blob) == TARRY_OK && blob.lane < LANES);
        if (blob.kind == WIRE_BLOB_PLAN)
            memcpy(its->children[blob.lane].plan, its->plan->digest, WIRE_DIGEST_BYTES);
        return true;
    case WIRE_TAKEN:
        require(wire_taken_decode(head, body, &taken) == TARRY_OK);
        return true;
    case WIRE_BLOB:
        require(wire_blob_decode(head, body, &bytes) == TARRY_OK);
        return true;
    case WIRE_GATHER:
        require(wire_gather_decode(head, body, &its->gather) == TARRY_OK);
        require(its->gather.count > its->gather.parts && its->gather.count <= LANES);
        its->gather.lanes = NULL; /* borrowed */
        return true;
    default:
        return false;
    }
}

/* ---- what it says ---- */

size_t fuzz_relay_begin(run *its, uint8_t *frame)
{
    memset(its->open, 0, sizeof(its->open));
    its->gather.count = 0;
    const wire_hello hello = {
        .oldest = WIRE_VERSION,
        .newest = WIRE_VERSION,
        .role = WIRE_ROLE_RELAY,
        .ranking = COEFFICIENTS_VERSION,
        .worker = WIRE_ANY_WORKER,
        .instance = {1},
    };
    return wire_hello_encode(&hello, frame);
}

static size_t wrap(uint32_t lane, const uint8_t *inner, size_t size, uint8_t *frame)
{
    wire_lane_head(lane, size, frame);
    memcpy(frame + WIRE_HEAD_BYTES + WIRE_LANE_HEAD_BYTES, inner, size);
    return WIRE_HEAD_BYTES + WIRE_LANE_HEAD_BYTES + size;
}

/* A worker comes, and is ready, as the plan is. */
static size_t draw_arrival(run *its, uint32_t lane, uint8_t who, uint8_t *frame)
{
    uint8_t inner[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    const wire_lane_open open = {.lane = lane, .trusted = true, .from = "child"};
    wire_hello hello = {
        .oldest = WIRE_VERSION,
        .newest = WIRE_VERSION,
        .role = WIRE_ROLE_WORKER,
        .ranking = COEFFICIENTS_VERSION,
        .worker = who % FUZZ_MOST_WORKERS,
        .instance = {(uint8_t)(1 + who / 64)},
    };
    wire_ready ready = {0};
    memcpy(hello.job, its->server->job_id, sizeof(hello.job));
    memcpy(hello.plan, its->plan->digest, sizeof(hello.plan));
    memcpy(ready.plan, its->plan->digest, sizeof(ready.plan));
    its->children[lane] = (visitor){.fd = -1, .worker = WIRE_ANY_WORKER};
    its->open[lane] = true;
    size_t size = wire_lane_open_encode(&open, frame);
    size += wrap(lane, inner, wire_hello_encode(&hello, inner), frame + size);
    return size + wrap(lane, inner, wire_ready_encode(&ready, inner), frame + size);
}

static size_t put_bytes(uint8_t *frame, size_t head, size_t bytes)
{
    memset(frame + head, 0, bytes);
    return head + bytes;
}

/* off: something of it is not what was asked for. */
static size_t draw_gathered(const run *its, input *in, uint8_t *frame)
{
    uint8_t place = take(in), off = take(in);
    const wire_gather *of = &its->gather;
    wire_gathered words = {
        .round = of->round,
        .attempt = of->attempt,
        .group = of->group + (off == 0xf0),
        .stripe = place % (MOST_STRIPES + 1),
        .part = place / 16 % (of->parts + 1),
    };
    size_t numbers = fuzz_peer_numbers(its, of->parts, words.stripe, words.part, false);
    words.count = numbers + (off == 0xf1);
    return put_bytes(frame, wire_gathered_encode(&words, frame), words.count * sizeof(float));
}

static size_t draw_lane_part(const run *its, input *in, uint32_t lane, uint8_t *frame)
{
    uint8_t place = take(in);
    const visitor *who = &its->children[lane];
    const codec_shape none = {0};
    const compress_form form = fuzz_peer_form(its, who->round, place >= 0xf8);
    const tarry_message message = {
        .type = TARRY_MESSAGE_PART,
        .round = who->round,
        .epoch = who->epoch,
        .attempt = who->attempt,
        .parts = who->parts,
        .stripe = place % (MOST_STRIPES + 1),
        .form = form.kind,
    };
    size_t numbers =
        fuzz_peer_numbers(its, message.parts, message.stripe, 0, true) + (place == 0xff);
    wire_lane_part part = {.lane = lane,
                           .bytes = fuzz_peer_bytes(its, form, message.stripe, numbers)};
    codec_encode(&none, &message, part.message);
    return put_bytes(frame, wire_lane_part_encode(&part, frame), part.bytes);
}

static size_t draw_end(run *its, input *in, uint32_t lane, uint8_t *frame)
{
    const wire_lane_end end = {
        .lane = lane,
        .reason = (wire_lane_reason)(1 + take(in) % (WIRE_LANE_REASONS - 1)),
    };
    its->open[lane] = false;
    return wire_lane_end_encode(&end, frame);
}

static size_t draw_word(input *in, uint8_t kind, uint8_t *frame)
{
    const uint8_t bits = take(in);
    switch (kind / 16 % 4) {
    case 0:
        return wire_heard_encode(&(wire_heard){.size = 1, .bits = &bits}, frame);
    case 1:
        return wire_advertise_encode(&(wire_advertise){.address = "relay:1"}, frame);
    case 2:
        return wire_fetch_encode(&(wire_fetch){.kind = WIRE_BLOB_PLAN}, frame);
    default:
        return wire_heartbeat_encode(frame);
    }
}

size_t fuzz_relay_draw(run *its, input *in, uint8_t kind, uint8_t *frame)
{
    uint8_t inner[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    uint8_t what = take(in);
    uint32_t lane = what % LANES;
    if (!its->open[lane] && what < 0xf0)
        return draw_arrival(its, lane, take(in), frame);
    switch (kind % 8) {
    case 0:
    case 1:
        return draw_gathered(its, in, frame);
    case 2:
        return draw_lane_part(its, in, lane, frame);
    case 3:
        return kind < 0x40 ? draw_end(its, in, lane, frame) : draw_word(in, kind, frame);
    default: {
        size_t size = fuzz_peer_draw(its, in, what / 4, &its->children[lane], inner);
        return size >= WIRE_HEAD_BYTES ? wrap(lane, inner, size, frame) : 0;
    }
    }
}
