/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include <tarry/event.h>

#include "failing_allocator.h"
#include "runtime/clock.h"
#include "runtime/worker/mailbox.h"
#include "test.h"

enum { SENDERS = 4, FRAMES = 5000, MAX_SIZE = 13 };

typedef struct sender {
    mailbox *box;
    uint32_t id;
    _Atomic uint32_t sent;
    bool refused;
} sender;

/* Frame i has 4 + i % 10 bytes: its number, then bytes that depend on it. */
static size_t make_frame(uint32_t id, uint32_t i, uint8_t *bytes)
{
    size_t size = 4 + i % 10;
    memcpy(bytes, &i, 4);
    for (size_t at = 4; at < size; at++)
        bytes[at] = (uint8_t)(id + i + at);
    return size;
}

static void *send_all(void *argument)
{
    sender *self = argument;
    for (uint32_t i = 0; i < FRAMES; i++) {
        uint8_t bytes[MAX_SIZE];
        size_t size = make_frame(self->id, i, bytes);
        if (!mailbox_put(self->box, self->id, bytes, size)) {
            self->refused = true;
            break;
        }
        atomic_fetch_add(&self->sent, 1);
    }
    return NULL;
}

static void start(pthread_t *thread, sender *self)
{
    assert_int_equal(pthread_create(thread, NULL, send_all, self), 0);
}

/* Checks what was taken: of each sender the next frames in its order. */
static void check_batch(const mailbox *box, size_t count, uint32_t *next)
{
    for (size_t i = 0; i < count; i++) {
        mailbox_frame frame = mailbox_frame_at(box, i);
        assert_true(frame.sender < SENDERS);
        uint8_t bytes[MAX_SIZE];
        size_t size = make_frame(frame.sender, next[frame.sender]++, bytes);
        assert_int_equal(frame.size, size);
        assert_memory_equal(frame.bytes, bytes, size);
    }
}

#define MAILBOX(name) TEST_OF(name, mailbox, box, mailbox_destroy)

/* Nothing is lost or reordered. */
MAILBOX(frames_of_many_senders_arrive_in_their_order)
{
    assert_ok(mailbox_init(box, MAX_SIZE, 3, NULL));
    sender senders[SENDERS];
    pthread_t threads[SENDERS];
    for (uint32_t id = 0; id < SENDERS; id++) {
        senders[id] = (sender){.box = box, .id = id};
        start(&threads[id], &senders[id]);
    }
    uint32_t next[SENDERS] = {0};
    size_t total = 0;
    while (total < (size_t)SENDERS * FRAMES) {
        size_t count = mailbox_take(box, TARRY_NEVER);
        assert_true(count > 0);
        check_batch(box, count, next);
        total += count;
    }
    for (uint32_t id = 0; id < SENDERS; id++) {
        pthread_join(threads[id], NULL);
        assert_int_equal(next[id], FRAMES);
        assert_false(senders[id].refused);
    }
    assert_int_equal(mailbox_take(box, 0), 0);
}

/* Frames of any size, small ones before and behind, arrive whole; without memory for it one is
 * refused, and the others stay. */
TEST(larger_frames_fit)
{
    mailbox box;
    failing_allocator memory;
    failing_allocator_init(&memory, SIZE_MAX);
    assert_ok(mailbox_init(&box, 8, 2, &memory.allocator));
    const size_t sizes[] = {3, 100, 8, 5000, 0, 101};
    uint8_t bytes[5010];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    for (int turn = 0; turn < 3; turn++) {
        for (size_t i = 0; i < 6; i++)
            assert_true(mailbox_put(&box, (uint32_t)i, bytes + i, sizes[i]));
        assert_int_equal(mailbox_take(&box, 0), 6);
        for (size_t i = 0; i < 6; i++) {
            mailbox_frame frame = mailbox_frame_at(&box, i);
            assert_int_equal(frame.sender, i);
            assert_int_equal(frame.size, sizes[i]);
            assert_memory_equal(frame.bytes, bytes + i, sizes[i]);
        }
    }
    assert_true(mailbox_put(&box, 1, bytes, 9));
    memory.fail_at = 0;
    assert_false(mailbox_put(&box, 2, bytes, sizeof(bytes)));
    assert_int_equal(mailbox_take(&box, 0), 1);
    assert_int_equal(mailbox_frame_at(&box, 0).size, 9);
    mailbox_destroy(&box);
    assert_int_equal(memory.live, 0);
}

TEST(a_full_mailbox_grows)
{
    mailbox box;
    failing_allocator memory;
    failing_allocator_init(&memory, SIZE_MAX);
    assert_ok(mailbox_init(&box, MAX_SIZE, 1, &memory.allocator));
    sender self = {.box = &box, .id = 3};
    send_all(&self);
    assert_int_equal(atomic_load(&self.sent), FRAMES);
    uint32_t next[SENDERS] = {0};
    assert_int_equal(mailbox_take(&box, 0), FRAMES);
    check_batch(&box, FRAMES, next);

    /* Without memory it says so, and keeps what it has: the other batch still has room for one. */
    memory.fail_at = 0;
    atomic_store(&self.sent, 0);
    send_all(&self);
    assert_int_equal(atomic_load(&self.sent), 1);
    assert_true(self.refused);
    next[3] = 0;
    assert_int_equal(mailbox_take(&box, 0), 1);
    check_batch(&box, 1, next);
    mailbox_destroy(&box);
    assert_int_equal(memory.live, 0);
}

MAILBOX(a_wait_ends_at_its_time)
{
    assert_ok(mailbox_init(box, MAX_SIZE, 1, NULL));
    uint64_t until = clock_now_ns() + 20000000;
    assert_int_equal(mailbox_take(box, until), 0);
    assert_true(clock_now_ns() >= until);
    assert_int_equal(mailbox_take(box, 1), 0); /* long ago */
    assert_int_equal(mailbox_take(box, 0), 0);
    assert_true(mailbox_put(box, 9, NULL, 0));
    assert_int_equal(mailbox_take(box, 0), 1);
    mailbox_frame frame = mailbox_frame_at(box, 0);
    assert_int_equal(frame.sender, 9);
    assert_int_equal(frame.size, 0);
}

static void *wake_soon(void *box)
{
    usleep(10000);
    mailbox_wake(box);
    return NULL;
}

MAILBOX(waking_ends_one_wait)
{
    assert_ok(mailbox_init(box, MAX_SIZE, 1, NULL));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wake_soon, box), 0);
    assert_int_equal(mailbox_take(box, TARRY_NEVER), 0);
    pthread_join(thread, NULL);
    mailbox_wake(box); /* nobody waits: the next wait ends at once, the one after does not */
    assert_int_equal(mailbox_take(box, TARRY_NEVER), 0);
    uint64_t until = clock_now_ns() + 5000000;
    assert_int_equal(mailbox_take(box, until), 0);
    assert_true(clock_now_ns() >= until);
    assert_false(mailbox_closed(box));
}

static void *fill_and_close_soon(void *box)
{
    usleep(10000);
    assert_true(mailbox_put(box, 0, NULL, 0));
    assert_true(mailbox_put(box, 1, NULL, 0));
    usleep(10000);
    assert_true(mailbox_put(box, 2, NULL, 0)); /* can still be taken afterwards */
    mailbox_close(box);
    return NULL;
}

MAILBOX(closing_ends_all_waits_for_good)
{
    assert_ok(mailbox_init(box, MAX_SIZE, 2, NULL));
    pthread_t thread;
    size_t count = 0;
    assert_int_equal(pthread_create(&thread, NULL, fill_and_close_soon, box), 0);
    for (size_t taken = 1; taken > 0; count += taken)
        taken = mailbox_take(box, TARRY_NEVER); /* it ends by the close */
    pthread_join(thread, NULL);
    assert_true(mailbox_closed(box));
    assert_int_equal(count, 3);
    assert_int_equal(mailbox_take(box, TARRY_NEVER), 0);
    assert_false(mailbox_put(box, 0, NULL, 0));
}

static int create(void *user, const tarry_allocator *allocator)
{
    mailbox box;
    int error = mailbox_init(&box, 24, 10, allocator);
    if (error == TARRY_OK)
        mailbox_destroy(&box);
    return error;
}

TEST(each_allocation_may_fail)
{
    assert_int_equal(fail_each_allocation(create, NULL), 2);
}
