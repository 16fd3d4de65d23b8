/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/worker/tcp_worker.h"
#include "seed.h"

#include "base/random.h"
#include "test.h"

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)

static tarry_message report_of(uint64_t round, uint32_t slot)
{
    return (tarry_message){
        .type = TARRY_MESSAGE_REPORT,
        .round = round,
        .epoch = 3,
        .slot = slot,
        .next = slot + 1,
        .sequence = (uint16_t)(slot + 1),
    };
}

static void assert_same(const tarry_message *one, const tarry_message *other)
{
    assert_int_equal(one->type, other->type);
    assert_int_equal(one->round, other->round);
    assert_int_equal(one->term, other->term);
    assert_int_equal(one->epoch, other->epoch);
    assert_int_equal(one->slot, other->slot);
    assert_int_equal(one->next, other->next);
    assert_int_equal(one->sequence, other->sequence);
    assert_int_equal(one->failed, other->failed);
}

/* What the server reads of a frame of reports. Gives back how many. */
static uint32_t read_frame(const uint8_t *frame, size_t size, tarry_message *reports)
{
    const codec_shape no_sets = {0};
    wire_head head;
    assert_ok(wire_head_decode(frame, &head));
    assert_int_equal(WIRE_HEAD_BYTES + head.length, size);
    const uint8_t *body = frame + WIRE_HEAD_BYTES;
    if (head.kind == WIRE_MESSAGE) {
        assert_ok(codec_decode(&no_sets, body, head.length, NULL, reports));
        return 1;
    }
    wire_batch batch;
    assert_int_equal(head.kind, WIRE_BATCH);
    assert_ok(wire_batch_decode(&head, body, &batch));
    assert_true(batch.count > 1);
    for (uint32_t i = 0; i < batch.count; i++)
        wire_batch_get(&batch, i, &reports[i]);
    return batch.count;
}

/* Frames of `count` pieces that take as long each; the last one is the last of its share. */
static uint32_t count_frames(uint32_t count, uint64_t piece_ns)
{
    report_batch batch = {0};
    tarry_message said[REPORT_BATCH_MOST];
    uint32_t frames = 0, read = 0;
    for (uint32_t slot = 0; slot < count; slot++) {
        tarry_message report = report_of(1, slot);
        assert_true(report_batch_fits(&batch, &report));
        if (report_batch_put(&batch, &report, slot + 1 < count, (slot + 1) * piece_ns))
            continue;
        uint32_t got = read_frame(batch.frame, report_batch_close(&batch), said);
        for (uint32_t i = 0; i < got; i++, read++) {
            const tarry_message wanted = report_of(1, read);
            assert_same(&said[i], &wanted);
        }
        frames++;
    }
    assert_int_equal(report_batch_close(&batch), 0);
    assert_int_equal(read, count);
    return frames;
}

TEST(reports_of_long_pieces_go_at_once)
{
    assert_int_equal(count_frames(100, 10 * NS_PER_MS), 100);
    assert_int_equal(count_frames(100, NS_PER_MS), 100);
    assert_int_equal(count_frames(100, REPORT_BATCH_NS / 4), 100);
}

TEST(reports_of_short_pieces_share_frames)
{
    assert_true(count_frames(1000, 20 * NS_PER_US) < 80);
    assert_true(count_frames(100000, 20 * NS_PER_US) < 100000 / 40);
    assert_int_equal(count_frames(7, 20 * NS_PER_US), 7); /* a round that is over at once */
}

/* Pieces of any length, but for none so long that the caller's timer would have to look: each
 * report goes out within a fraction of the round so far, and of the longest wait. */
TEST(no_report_waits_long)
{
    random_stream random =
        random_stream_make(test_seed("no_report_waits_long", 1), RANDOM_TEST, 0, 0);
    for (uint32_t run = 0; run < 2000; run++) {
        report_batch batch = {0};
        uint64_t now = 1 + random_below(&random, 1000000), began = 0, since[REPORT_BATCH_MOST];
        uint64_t piece = 1 + random_below(&random, 300000);
        uint32_t waiting = 0;
        for (uint32_t slot = 0; slot < 200; slot++) {
            tarry_message report = report_of(run, slot);
            now += piece;
            began = slot == 0 ? now : began;
            since[waiting++] = now;
            if (report_batch_put(&batch, &report, true, now))
                continue;
            for (uint32_t i = 0; i < waiting; i++) {
                assert_true(now - since[i] <= REPORT_BATCH_NS);
                assert_true((now - since[i]) * REPORT_BATCH_FRACTION <= now - began);
            }
            assert_true(report_batch_close(&batch) > 0);
            waiting = 0;
        }
    }
}

static bool waits(uint64_t round, bool failed, bool more)
{
    report_batch batch = {0};
    bool waited = false;
    for (uint32_t slot = 0; slot < 100; slot++) {
        tarry_message report = report_of(slot < 99 ? 1 : round, slot);
        report.failed = slot == 99 && failed;
        if (!report_batch_fits(&batch, &report))
            report_batch_close(&batch);
        waited = report_batch_put(&batch, &report, slot < 99 || more, slot * NS_PER_US + 1);
        if (!waited)
            report_batch_close(&batch);
    }
    return waited;
}

TEST(the_first_the_last_and_the_failed_go_at_once)
{
    assert_true(waits(1, false, true));
    assert_false(waits(2, false, true));
    assert_false(waits(1, true, true));
    assert_false(waits(1, false, false));
}

TEST(others_stand_in_another_frame)
{
    report_batch batch = {0};
    tarry_message said[REPORT_BATCH_MOST];
    tarry_message report = report_of(1, 0), round = report_of(2, 0), term = report_of(1, 1),
                  alive = report_of(1, 1);
    report.term = 4;
    term.term = 5;
    alive.type = TARRY_MESSAGE_ALIVE;
    assert_true(report_batch_fits(&batch, &report));
    assert_false(report_batch_fits(&batch, &alive));
    report_batch_put(&batch, &report, true, 1);
    assert_false(report_batch_fits(&batch, &round));
    assert_false(report_batch_fits(&batch, &term));
    report.slot = 1;
    report.failed = true;
    assert_true(report_batch_fits(&batch, &report));
    report_batch_put(&batch, &report, true, 2);
    assert_int_equal(read_frame(batch.frame, report_batch_close(&batch), said), 2);
    assert_same(&said[1], &report);
    assert_true(report_batch_fits(&batch, &round));
    report_batch_put(&batch, &term, true, 3);
    report_batch_clear(&batch);
    assert_int_equal(report_batch_close(&batch), 0);
}

TEST(a_full_frame_goes_out)
{
    report_batch batch = {0};
    tarry_message said[REPORT_BATCH_MOST], report = report_of(1, 0);
    report_batch_put(&batch, &report, true, 1);
    report_batch_close(&batch);
    for (uint32_t slot = 1; slot <= REPORT_BATCH_MOST; slot++) {
        report = report_of(1, slot);
        assert_int_equal(report_batch_put(&batch, &report, true, 100 * NS_PER_MS + slot),
                         slot > 1 && slot < REPORT_BATCH_MOST);
    }
    report = report_of(1, 0);
    assert_false(report_batch_fits(&batch, &report));
    size_t size = report_batch_close(&batch);
    assert_true(size == sizeof(batch.frame));
    assert_int_equal(read_frame(batch.frame, size, said), REPORT_BATCH_MOST);
}
