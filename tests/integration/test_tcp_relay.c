/* SPDX-License-Identifier: Apache-2.0 */
/* A relay between a parent and children that say what a test tells them, over blocking sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol/wire/wire_trunk.h"
#include "runtime/tcp/net/address.h"
#include "runtime/tcp/relay/relay.h"
#include "script.h"

enum { NUMBERS = 40000, STRIPE = 1000, PATIENCE_SECONDS = 60, PATH = 100 };

static const uint64_t SILENCE_NS = UINT64_C(60000000000);

typedef struct stage {
    char folder[PATH], up[PATH], down[PATH];
    int listener;
    script parent; /* what the relay says to it */
    tcp_relay *relay;
    pthread_t thread;
    int result;
    tarry_diagnostic why;
    wire_welcome welcome;
} stage;

static void *run_relay(void *argument)
{
    stage *its = argument;
    its->result = tcp_relay_run(its->relay, &its->why);
    return NULL;
}

static void listen_up(stage *its)
{
    address found[ADDRESS_MOST];
    uint32_t count;
    assert_int_equal(address_resolve(its->up, true, found, &count, NULL), TARRY_OK);
    its->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(its->listener, (struct sockaddr *)&found[0].socket, found[0].size), 0);
    assert_int_equal(listen(its->listener, 4), 0);
}

static void begin(stage *its)
{
    *its = (stage){
        .parent.fd = -1,
        .welcome =
            {
                .version = WIRE_VERSION,
                .worker = WIRE_ANY_WORKER,
                .workers = 8,
                .job = {1},
                .parameters = NUMBERS,
                .dimension = NUMBERS,
                .stripe_length = STRIPE,
                .conditioning_limit = 1e4,
                .silence_ns = SILENCE_NS,
            },
    };
    snprintf(its->folder, sizeof(its->folder), "/tmp/tarry-relay-XXXXXX");
    assert_non_null(mkdtemp(its->folder));
    snprintf(its->up, sizeof(its->up), "unix:%.40s/up", its->folder);
    snprintf(its->down, sizeof(its->down), "unix:%.40s/down", its->folder);
    listen_up(its);
    const char *listen = its->down;
    const tcp_relay_settings settings = {
        .connect = its->up,
        .listen = &listen,
        .listen_count = 1,
        .advertise = "relay.example:7078",
        .patience_ns = PATIENCE_SECONDS * UINT64_C(1000000000),
    };
    assert_int_equal(tcp_relay_create(&settings, NULL, &its->relay, &its->why), TARRY_OK);
    assert_int_equal(pthread_create(&its->thread, NULL, run_relay, its), 0);
}

/* The relay ends with this result; by its parent's word, or because it is asked to. */
static void end(stage *its, int result)
{
    assert_int_equal(pthread_join(its->thread, NULL), 0);
    assert_int_equal(its->result, result);
    tcp_relay_free(its->relay);
    script_close(&its->parent);
    close(its->listener);
    unlink(its->up + strlen("unix:"));
    assert_int_equal(access(its->down + strlen("unix:"), F_OK), -1);
    rmdir(its->folder);
}

static void stop(stage *its)
{
    tcp_relay_leave(its->relay);
    end(its, TARRY_OK);
}

/* The relay's HELLO, and WELCOME. */
static void welcome(stage *its)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    const struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
    wire_hello hello;
    wire_advertise words;
    script_close(&its->parent);
    its->parent = (script){.fd = accept4(its->listener, NULL, NULL, SOCK_CLOEXEC)};
    assert_true(its->parent.fd >= 0);
    setsockopt(its->parent.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    assert_true(script_read(&its->parent));
    assert_int_equal(wire_hello_decode(&its->parent.head, its->parent.body, &hello), TARRY_OK);
    assert_int_equal(hello.role, WIRE_ROLE_RELAY);
    script_send(&its->parent, frame, wire_welcome_encode(&its->welcome, frame));
    assert_true(script_read(&its->parent));
    assert_int_equal(wire_advertise_decode(&its->parent.head, its->parent.body, &words), TARRY_OK);
    assert_string_equal(words.address, "relay.example:7078");
}

/* The next frame in a lane, which is of this kind: its lane. */
static uint32_t await_lane(stage *its, wire_kind kind, wire_head *inner, const uint8_t **body)
{
    uint32_t lane;
    script_await(&its->parent, WIRE_LANE);
    assert_int_equal(wire_lane_decode(&its->parent.head, its->parent.body, &lane, inner, body),
                     TARRY_OK);
    assert_int_equal(inner->kind, kind);
    return lane;
}

static void say_in_lane(stage *its, uint32_t lane, const uint8_t *frame, size_t size)
{
    uint8_t head[WIRE_HEAD_BYTES + WIRE_LANE_HEAD_BYTES];
    wire_lane_head(lane, size, head);
    script_send(&its->parent, head, sizeof(head));
    script_send(&its->parent, frame, size);
}

/* A child that has said HELLO, and was let in: its lane. */
static uint32_t admit(stage *its, script *child, uint8_t instance)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_lane_open open;
    wire_head inner;
    const uint8_t *body;
    wire_hello hello;
    script_open(child, its->down, instance);
    script_say_hello(child, WIRE_ROLE_WORKER, WIRE_ANY_WORKER);
    script_await(&its->parent, WIRE_LANE_OPEN);
    assert_int_equal(wire_lane_open_decode(&its->parent.head, its->parent.body, &open), TARRY_OK);
    assert_true(open.trusted);
    assert_int_equal(open.size, 0);
    assert_memory_equal(open.from, "unix (user ", 11);
    assert_int_equal(await_lane(its, WIRE_HELLO, &inner, &body), open.lane);
    assert_int_equal(wire_hello_decode(&inner, body, &hello), TARRY_OK);
    assert_int_equal(hello.instance[0], instance);
    wire_welcome words = its->welcome;
    words.worker = instance % 8;
    say_in_lane(its, open.lane, frame, wire_welcome_encode(&words, frame));
    script_await(child, WIRE_WELCOME);
    assert_int_equal(wire_welcome_decode(&child->head, child->body, &words), TARRY_OK);
    assert_int_equal(words.worker, instance % 8);
    return open.lane;
}

static wire_lane_end await_end(stage *its)
{
    wire_lane_end last;
    script_await(&its->parent, WIRE_LANE_END);
    assert_int_equal(wire_lane_end_decode(&its->parent.head, its->parent.body, &last), TARRY_OK);
    return last;
}

static void end_lane(stage *its, uint32_t lane)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    const wire_lane_end words = {.lane = lane, .reason = WIRE_LANE_CLOSED};
    script_send(&its->parent, frame, wire_lane_end_encode(&words, frame));
}

/* ---- stories ---- */

static void a_child_is_a_lane_until_both_have_said_its_end(void **state)
{
    (void)state;
    stage its;
    script one, two, three;
    begin(&its);
    welcome(&its);
    uint32_t first = admit(&its, &one, 1), second = admit(&its, &two, 2);
    assert_int_not_equal(first, second);
    script_close(&one);
    wire_lane_end last = await_end(&its);
    assert_int_equal(last.lane, first);
    assert_int_equal(last.reason, WIRE_LANE_CLOSED);
    /* What was on its way to it is dropped, and its number is not another one's. */
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    say_in_lane(&its, first, frame, wire_bye_encode(WIRE_BYE_DONE, frame));
    for (uint8_t i = 0; i < 100; i++) {
        uint32_t lane = admit(&its, &three, (uint8_t)(3 + i));
        assert_int_not_equal(lane, first);
        script_close(&three);
        assert_int_equal(await_end(&its).lane, lane);
        end_lane(&its, lane);
    }
    /* The parent's last words go out before the end. */
    say_in_lane(&its, second, frame, wire_bye_encode(WIRE_BYE_RESTART, frame));
    end_lane(&its, second);
    script_await(&two, WIRE_BYE);
    assert_false(script_read(&two));
    assert_int_equal(await_end(&its).lane, second);
    script_close(&two);
    stop(&its);
}

static tarry_message report(uint32_t slot)
{
    return (tarry_message){
        .type = TARRY_MESSAGE_REPORT,
        .round = 7,
        .epoch = 3,
        .sequence = 9,
        .slot = slot,
        .next = slot + 1,
    };
}

/* Three reports that come together go on together, and what follows them does not overtake them. */
static void reports_go_up_together_and_in_order(void **state)
{
    (void)state;
    stage its;
    script child;
    begin(&its);
    welcome(&its);
    uint32_t lane = admit(&its, &child, 1);
    uint8_t frames[4 * (WIRE_HEAD_BYTES + CODEC_MOST_WORKER_BYTES)];
    size_t size = 0;
    for (uint32_t slot = 0; slot < 3; slot++) {
        const tarry_message message = report(slot);
        size_t length = codec_size(&(codec_shape){0}, &message);
        wire_message_head(length, 0, frames + size);
        codec_encode(&(codec_shape){0}, &message, frames + size + WIRE_HEAD_BYTES);
        size += WIRE_HEAD_BYTES + length;
    }
    size += wire_bye_encode(WIRE_BYE_LEAVING, frames + size);
    script_send(&child, frames, size);
    wire_batch batch;
    assert_true(script_read(&its.parent));
    assert_int_equal(its.parent.head.kind, WIRE_BATCH);
    assert_int_equal(wire_batch_decode(&its.parent.head, its.parent.body, &batch), TARRY_OK);
    assert_true(batch.lanes);
    assert_int_equal(batch.count, 3);
    assert_int_equal(batch.round, 7);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t from;
        tarry_message got;
        wire_batch_get(&batch, i, &from, &got);
        assert_int_equal(from, lane);
        assert_int_equal(got.slot, i);
        assert_int_equal(got.next, i + 1);
        assert_int_equal(got.epoch, 3);
        assert_int_equal(got.sequence, 9);
    }
    wire_head inner;
    const uint8_t *body;
    assert_int_equal(await_lane(&its, WIRE_BYE, &inner, &body), lane);
    assert_int_equal(await_end(&its).reason, WIRE_LANE_CLOSED);
    script_close(&child);
    stop(&its);
}

static void announce_round(stage *its, uint32_t lane, uint64_t round)
{
    uint8_t frame[WIRE_HEAD_BYTES + CODEC_HEADER_BYTES];
    const tarry_message message = {.type = TARRY_MESSAGE_ROUND, .round = round, .epoch = 1};
    wire_message_head(CODEC_HEADER_BYTES, 0, frame);
    codec_encode(&(codec_shape){0}, &message, frame + WIRE_HEAD_BYTES);
    say_in_lane(its, lane, frame, sizeof(frame));
}

static void send_parameters(stage *its, uint64_t round, uint64_t first, uint64_t count)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    static float numbers[NUMBERS];
    for (uint64_t i = 0; i < count; i++)
        numbers[i] = (float)(round * 1000000 + first + i);
    const wire_parameters some = {.round = round, .first = first, .count = count};
    script_send(&its->parent, frame, wire_parameters_encode(&some, frame));
    script_send(&its->parent, numbers, count * sizeof(float));
}

static void await_parameters(script *child, uint64_t round, uint64_t from, uint64_t to)
{
    while (from < to) {
        wire_parameters some;
        script_await(child, WIRE_PARAMETERS);
        assert_int_equal(wire_parameters_decode(&child->head, child->body, &some), TARRY_OK);
        assert_int_equal(some.round, round);
        assert_int_equal(some.first, from);
        const float *numbers =
            (const float *)(child->body + (child->head.length - some.count * sizeof(float)));
        for (uint64_t i = 0; i < some.count; i++)
            assert_true(numbers[i] == (float)(round * 1000000 + from + i));
        from += some.count;
    }
    assert_int_equal(from, to);
}

/* They go on as they come, to each behind its ROUND, and to one that comes late from the beginning.
 */
static void parameters_come_once_for_all(void **state)
{
    (void)state;
    stage its;
    script one, two;
    begin(&its);
    welcome(&its);
    uint32_t first = admit(&its, &one, 1);
    for (uint64_t round = 1; round <= 3; round++) {
        announce_round(&its, first, round);
        send_parameters(&its, round, 0, NUMBERS / 2);
        await_parameters(&one, round, 0, NUMBERS / 2);
        send_parameters(&its, round, NUMBERS / 2, NUMBERS / 2);
        await_parameters(&one, round, NUMBERS / 2, NUMBERS);
    }
    uint32_t second = admit(&its, &two, 2);
    announce_round(&its, second, 3);
    await_parameters(&two, 3, 0, NUMBERS);
    /* One that is told of the next round reads nothing of the one before. */
    announce_round(&its, second, 4);
    send_parameters(&its, 4, 0, NUMBERS);
    await_parameters(&two, 4, 0, NUMBERS);
    script_close(&one);
    script_close(&two);
    stop(&its);
}

static void announce_blob(stage *its, uint32_t lane, wire_blob_kind kind, uint64_t total,
                          uint8_t digest)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    const wire_lane_blob blob = {.lane = lane, .kind = kind, .total = total, .digest = {digest}};
    script_send(&its->parent, frame, wire_lane_blob_encode(&blob, frame));
}

static void await_fetch(stage *its, wire_blob_kind kind)
{
    wire_fetch fetch;
    script_await(&its->parent, WIRE_FETCH);
    assert_int_equal(wire_fetch_decode(&its->parent.head, its->parent.body, &fetch), TARRY_OK);
    assert_int_equal(fetch.kind, kind);
}

static void send_blob(stage *its, wire_blob_kind kind, const char *text, uint64_t first,
                      uint64_t count)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    const wire_blob blob = {.kind = kind, .total = strlen(text), .first = first, .count = count};
    script_send(&its->parent, frame, wire_blob_encode(&blob, frame));
    script_send(&its->parent, text + first, count);
}

static void await_blob(script *child, wire_blob_kind kind, const char *text)
{
    wire_blob blob;
    script_await(child, WIRE_BLOB);
    assert_int_equal(wire_blob_decode(&child->head, child->body, &blob), TARRY_OK);
    assert_int_equal(blob.kind, kind);
    assert_int_equal(blob.total, strlen(text));
    assert_int_equal(blob.count, strlen(text));
    assert_memory_equal(child->body + (child->head.length - blob.count), text, blob.count);
}

static void what_is_large_is_fetched_once(void **state)
{
    (void)state;
    stage its;
    script one, two, three;
    begin(&its);
    welcome(&its);
    uint32_t first = admit(&its, &one, 1), second = admit(&its, &two, 2);
    announce_blob(&its, first, WIRE_BLOB_PLAN, 8, 1);
    announce_blob(&its, second, WIRE_BLOB_PLAN, 8, 1);
    announce_blob(&its, first, WIRE_BLOB_JOB, 3, 0);
    await_fetch(&its, WIRE_BLOB_PLAN);
    await_fetch(&its, WIRE_BLOB_JOB);
    send_blob(&its, WIRE_BLOB_JOB, "job", 0, 3);
    send_blob(&its, WIRE_BLOB_PLAN, "the plan", 0, 4);
    send_blob(&its, WIRE_BLOB_PLAN, "the plan", 4, 4);
    await_blob(&one, WIRE_BLOB_PLAN, "the plan");
    await_blob(&one, WIRE_BLOB_JOB, "job");
    await_blob(&two, WIRE_BLOB_PLAN, "the plan");
    /* Those who come later get it without a FETCH: the next frame that goes up is of another plan,
     * which takes the place of one that never came whole. */
    uint32_t third = admit(&its, &three, 3);
    announce_blob(&its, third, WIRE_BLOB_PLAN, 8, 1);
    await_blob(&three, WIRE_BLOB_PLAN, "the plan");
    announce_blob(&its, third, WIRE_BLOB_PLAN, 9, 2);
    assert_true(script_read(&its.parent));
    assert_int_equal(its.parent.head.kind, WIRE_FETCH);
    send_blob(&its, WIRE_BLOB_PLAN, "plan two.", 0, 4);
    announce_blob(&its, third, WIRE_BLOB_PLAN, 10, 3);
    await_fetch(&its, WIRE_BLOB_PLAN);
    send_blob(&its, WIRE_BLOB_PLAN, "plan three", 0, 10);
    await_blob(&three, WIRE_BLOB_PLAN, "plan three");
    script_close(&one);
    script_close(&two);
    script_close(&three);
    stop(&its);
}

static void send_part(script *child, uint32_t stripe)
{
    static float numbers[STRIPE];
    const tarry_message message = {
        .type = TARRY_MESSAGE_PART, .round = 1, .epoch = 1, .parts = 1, .stripe = stripe};
    numbers[0] = (float)stripe;
    assert_true(script_message(child, &message, numbers, STRIPE));
}

static void await_part(stage *its, uint32_t lane, uint32_t stripe)
{
    wire_lane_part part;
    script_await(&its->parent, WIRE_LANE_PART);
    assert_int_equal(wire_lane_part_decode(&its->parent.head, its->parent.body, &part), TARRY_OK);
    assert_int_equal(part.lane, lane);
    assert_int_equal(part.bytes, STRIPE * sizeof(float));
    float first;
    memcpy(&first, its->parent.body + (its->parent.head.length - STRIPE * sizeof(float)),
           sizeof(first));
    assert_true(first == (float)stripe);
}

/* Four go up, the next one waits for a word of the parent's; another child's do not wait. */
static void coded_parts_keep_to_the_window(void **state)
{
    (void)state;
    stage its;
    script one, two;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    begin(&its);
    welcome(&its);
    uint32_t first = admit(&its, &one, 1), second = admit(&its, &two, 2);
    for (uint32_t stripe = 0; stripe < WIRE_LANE_WINDOW; stripe++) {
        send_part(&one, stripe);
        await_part(&its, first, stripe);
    }
    send_part(&one, 4);
    send_part(&two, 0);
    await_part(&its, second, 0);
    const wire_taken taken = {.lane = first, .count = 1};
    script_send(&its.parent, frame, wire_taken_encode(&taken, frame));
    await_part(&its, first, 4);
    script_close(&one);
    script_close(&two);
    stop(&its);
}

enum { LEVELS = 3, GATHERED_STRIPES = 14 };

/* Three parts: the gradient's 40,000 numbers are 13,334 per part, in stripes of 1,000, of which the
 * last has 334, and 332 in the last part. */
static size_t stripe_numbers(uint32_t stripe)
{
    return stripe < GATHERED_STRIPES - 1 ? STRIPE : 334;
}

static float weight_of(uint32_t contributor, uint32_t part)
{
    return (float)(1 + contributor) / (float)(2 + part);
}

static float number_of(uint32_t contributor, uint32_t stripe, size_t at)
{
    return (float)(contributor + 1) * 0.37F + (float)stripe * 3 - (float)(at % 11);
}

static void announce_group(stage *its, uint32_t attempt, const uint32_t *lanes, uint32_t count)
{
    uint8_t frame[256];
    wire_gather words = {
        .round = 1, .attempt = attempt, .group = 5, .parts = LEVELS, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        float weights[LEVELS];
        for (uint32_t part = 0; part < LEVELS; part++)
            weights[part] = weight_of(i, part);
        wire_gather_put(&words, frame, i, lanes[i], 1, weights);
    }
    script_send(&its->parent, frame, wire_gather_encode(&words, frame));
}

static void send_share(script *child, uint32_t attempt, uint32_t contributor, uint32_t stripe)
{
    float numbers[STRIPE];
    const tarry_message message = {
        .type = TARRY_MESSAGE_PART,
        .round = 1,
        .attempt = attempt,
        .epoch = 1,
        .parts = LEVELS,
        .stripe = stripe,
    };
    for (size_t i = 0; i < stripe_numbers(stripe); i++)
        numbers[i] = number_of(contributor, stripe, i);
    assert_true(script_message(child, &message, numbers, stripe_numbers(stripe)));
}

/* The blocks of a stripe, each the sum of all contributors' in their order. */
static void await_sum(stage *its, uint32_t contributors, uint32_t stripe)
{
    for (uint32_t part = 0; part < LEVELS; part++) {
        wire_gathered words;
        script_await(&its->parent, WIRE_GATHERED);
        assert_int_equal(wire_gathered_decode(&its->parent.head, its->parent.body, &words),
                         TARRY_OK);
        assert_int_equal(words.group, 5);
        assert_int_equal(words.stripe, stripe);
        assert_int_equal(words.part, part);
        size_t missing = part == LEVELS - 1 && stripe == GATHERED_STRIPES - 1 ? 2 : 0;
        assert_int_equal(words.count, stripe_numbers(stripe) - missing);
        const uint8_t *numbers =
            its->parent.body + (its->parent.head.length - words.count * sizeof(float));
        for (size_t i = 0; i < words.count; i++) {
            float got;
            double sum = 0;
            memcpy(&got, numbers + i * sizeof(float), sizeof(got));
            for (uint32_t c = 0; c < contributors; c++)
                sum += (double)weight_of(c, part) * (double)number_of(c, stripe, i);
            assert_true(fabs((double)got - sum) < 1e-4);
        }
    }
}

static void take_sum(stage *its)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    const wire_taken taken = {.lane = WIRE_NO_LANE, .count = 1};
    script_send(&its->parent, frame, wire_taken_encode(&taken, frame));
}

/* The second contributor is ahead of the first by as much as the relay holds; sums go up as the
 * first one comes, as far as the parent takes them. */
static void coded_parts_of_a_group_are_added_up(void **state)
{
    (void)state;
    stage its;
    script one, two, other;
    begin(&its);
    welcome(&its);
    const uint32_t lanes[] = {admit(&its, &one, 1), admit(&its, &two, 2)};
    uint32_t outside = admit(&its, &other, 3);
    announce_group(&its, 1, lanes, 2);
    for (uint32_t stripe = 0; stripe < 3; stripe++)
        send_share(&two, 1, 1, stripe);
    send_part(&other, 0); /* of none: it goes up as it is */
    await_part(&its, outside, 0);
    for (uint32_t stripe = 0; stripe < GATHERED_STRIPES; stripe++) {
        send_share(&one, 1, 0, stripe);
        if (stripe >= 3)
            send_share(&two, 1, 1, stripe);
        if (stripe < WIRE_LANE_WINDOW)
            await_sum(&its, 2, stripe);
        if (stripe >= WIRE_LANE_WINDOW) {
            take_sum(&its);
            await_sum(&its, 2, stripe);
        }
    }
    script_close(&one);
    script_close(&two);
    script_close(&other);
    stop(&its);
}

/* What was begun of the attempt before is dropped, and its parts are passed on: the parent knows
 * what they are worth. */
static void a_new_attempt_has_new_groups(void **state)
{
    (void)state;
    stage its;
    script one, two;
    wire_lane_part part;
    begin(&its);
    welcome(&its);
    const uint32_t lanes[] = {admit(&its, &one, 1), admit(&its, &two, 2)};
    announce_group(&its, 1, lanes, 2);
    send_share(&one, 1, 0, 0);
    send_share(&two, 1, 1, 1);
    announce_blob(&its, lanes[0], WIRE_BLOB_JOB, 3, 0); /* the relay has got here */
    await_fetch(&its, WIRE_BLOB_JOB);
    announce_group(&its, 2, lanes, 1);
    send_blob(&its, WIRE_BLOB_JOB, "job", 0, 3);
    await_blob(&one, WIRE_BLOB_JOB, "job");
    send_share(&two, 1, 1, 2);
    script_await(&its.parent, WIRE_LANE_PART);
    assert_int_equal(wire_lane_part_decode(&its.parent.head, its.parent.body, &part), TARRY_OK);
    assert_int_equal(part.lane, lanes[1]);
    send_share(&one, 2, 0, 0);
    await_sum(&its, 1, 0);
    script_close(&one);
    script_close(&two);
    stop(&its);
}

/* The rest of its group can't be summed; what others send for it goes nowhere. */
static void a_contributor_that_goes_takes_its_group_along(void **state)
{
    (void)state;
    stage its;
    script one, two;
    begin(&its);
    welcome(&its);
    const uint32_t lanes[] = {admit(&its, &one, 1), admit(&its, &two, 2)};
    announce_group(&its, 1, lanes, 2);
    send_share(&two, 1, 1, 0);
    script_close(&one);
    assert_int_equal(await_end(&its).lane, lanes[0]);
    for (uint32_t stripe = 1; stripe < GATHERED_STRIPES; stripe++)
        send_share(&two, 1, 1, stripe);
    announce_group(&its, 2, lanes + 1, 1);
    const tarry_message message = report(3);
    script_message(&two, &message, NULL, 0);
    assert_true(script_read(&its.parent)); /* nothing came of the parts */
    assert_int_equal(its.parent.head.kind, WIRE_BATCH);
    send_share(&two, 2, 0, 0);
    await_sum(&its, 1, 0);
    script_close(&two);
    stop(&its);
}

/* A part that was coming in for a group when another attempt took its place goes nowhere. */
static void a_part_of_a_group_that_is_no_more_goes_nowhere(void **state)
{
    (void)state;
    stage its;
    script one;
    begin(&its);
    welcome(&its);
    const uint32_t lanes[] = {admit(&its, &one, 1)};
    announce_group(&its, 1, lanes, 1);
    announce_blob(&its, lanes[0], WIRE_BLOB_JOB, 3, 0); /* the relay has got here */
    await_fetch(&its, WIRE_BLOB_JOB);
    const tarry_message part = {
        .type = TARRY_MESSAGE_PART, .round = 1, .attempt = 1, .epoch = 1, .parts = LEVELS};
    uint8_t frame[WIRE_HEAD_BYTES + CODEC_HEADER_BYTES];
    float numbers[STRIPE] = {0};
    wire_message_head(CODEC_HEADER_BYTES, STRIPE * sizeof(float), frame);
    codec_encode(&(codec_shape){0}, &part, frame + WIRE_HEAD_BYTES);
    script_send(&one, frame, sizeof(frame));
    script_send(&one, numbers, sizeof(numbers) / 2);
    usleep(50000); /* the relay has begun to read it */
    announce_group(&its, 2, lanes, 1);
    send_blob(&its, WIRE_BLOB_JOB, "job", 0, 3);
    await_blob(&one, WIRE_BLOB_JOB, "job"); /* and has heard of the attempt */
    script_send(&one, numbers, sizeof(numbers) / 2);
    const tarry_message message = report(3);
    script_message(&one, &message, NULL, 0);
    assert_true(script_read(&its.parent));
    assert_int_equal(its.parent.head.kind, WIRE_BATCH);
    send_share(&one, 2, 0, 0);
    await_sum(&its, 1, 0);
    script_close(&one);
    stop(&its);
}

static void children_that_are_heard_are_told_of(void **state)
{
    (void)state;
    stage its;
    script one, two;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    begin(&its);
    its.welcome.silence_ns = UINT64_C(4000000000);
    welcome(&its);
    uint32_t first = admit(&its, &one, 1), second = admit(&its, &two, 2);
    wire_heard heard;
    script_await(&its.parent, WIRE_HEARD); /* of their HELLOs */
    script_send(&two, frame, wire_heartbeat_encode(frame));
    script_send(&its.parent, frame, wire_heartbeat_encode(frame));
    script_await(&its.parent, WIRE_HEARD);
    assert_int_equal(wire_heard_decode(&its.parent.head, its.parent.body, &heard), TARRY_OK);
    for (uint32_t lane = heard.first; lane < heard.first + 8 * heard.size; lane++)
        assert_int_equal(heard.bits[(lane - heard.first) / 8] >> lane % 8 & 1, lane == second);
    assert_true(first != second && second >= heard.first);
    script_await(&one, WIRE_HEARTBEAT); /* the relay's own */
    script_close(&one);
    script_close(&two);
    stop(&its);
}

/* Children are told to go elsewhere at once, and let in again once there is a parent. */
static void a_parent_that_is_lost_costs_the_children_their_connection(void **state)
{
    (void)state;
    stage its;
    script child;
    wire_bye bye;
    begin(&its);
    script_open(&child, its.down, 1);
    script_say_hello(&child, WIRE_ROLE_WORKER, WIRE_ANY_WORKER);
    assert_int_equal(script_reason(&child), WIRE_REFUSED_CLOSING);
    script_close(&child);
    welcome(&its);
    admit(&its, &child, 1);
    close(its.parent.fd);
    its.parent.fd = -1;
    script_await(&child, WIRE_BYE);
    assert_int_equal(wire_bye_decode(&child.head, child.body, &bye), TARRY_OK);
    assert_int_equal(bye, WIRE_BYE_RESTART);
    assert_false(script_read(&child));
    script_close(&child);
    welcome(&its);
    admit(&its, &child, 2);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    script_send(&its.parent, frame, wire_bye_encode(WIRE_BYE_DONE, frame));
    script_await(&child, WIRE_BYE);
    assert_int_equal(wire_bye_decode(&child.head, child.body, &bye), TARRY_OK);
    assert_int_equal(bye, WIRE_BYE_DONE);
    script_close(&child);
    end(&its, TARRY_OK);
}

/* Of a child alone; and of the parent, which loses the relay. */
static void who_breaks_the_rules_is_left(void **state)
{
    (void)state;
    stage its;
    script one, two;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    begin(&its);
    welcome(&its);
    uint32_t first = admit(&its, &one, 1);
    admit(&its, &two, 2);
    script_send(&one, frame, wire_taken_encode(&(wire_taken){.lane = 0, .count = 1}, frame));
    assert_int_equal(script_reason(&one), WIRE_REFUSED_FORMAT);
    wire_lane_end last = await_end(&its);
    assert_int_equal(last.lane, first);
    assert_int_equal(last.reason, WIRE_LANE_NOT_FRAMES);
    script_close(&one);
    script_open(&one, its.down, 3);
    script_say_hello(&one, WIRE_ROLE_VIEWER, WIRE_ANY_WORKER);
    assert_int_equal(script_reason(&one), WIRE_REFUSED_IDENTITY);
    script_close(&one);
    say_in_lane(&its, 9999, frame, wire_bye_encode(WIRE_BYE_DONE, frame));
    script_await(&two, WIRE_BYE);
    script_close(&two);
    welcome(&its);
    stop(&its);
}

static void a_refusal_that_lasts_ends_it(void **state)
{
    (void)state;
    stage its;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    const wire_refused words = {.reason = WIRE_REFUSED_IDENTITY, .text = "no relay's"};
    begin(&its);
    its.parent = (script){.fd = accept4(its.listener, NULL, NULL, SOCK_CLOEXEC)};
    assert_true(script_read(&its.parent));
    script_send(&its.parent, frame, wire_refused_encode(&words, frame));
    end(&its, TARRY_ERROR_STATE);
    assert_non_null(strstr(its.why.text, "refused: no relay's"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_is_a_lane_until_both_have_said_its_end),
        cmocka_unit_test(reports_go_up_together_and_in_order),
        cmocka_unit_test(parameters_come_once_for_all),
        cmocka_unit_test(what_is_large_is_fetched_once),
        cmocka_unit_test(coded_parts_keep_to_the_window),
        cmocka_unit_test(coded_parts_of_a_group_are_added_up),
        cmocka_unit_test(a_new_attempt_has_new_groups),
        cmocka_unit_test(a_contributor_that_goes_takes_its_group_along),
        cmocka_unit_test(a_part_of_a_group_that_is_no_more_goes_nowhere),
        cmocka_unit_test(children_that_are_heard_are_told_of),
        cmocka_unit_test(a_parent_that_is_lost_costs_the_children_their_connection),
        cmocka_unit_test(who_breaks_the_rules_is_left),
        cmocka_unit_test(a_refusal_that_lasts_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
