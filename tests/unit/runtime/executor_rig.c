/* SPDX-License-Identifier: Apache-2.0 */
#include "executor_rig.h"

#include "protocol/wire/codec.h"
#include "runtime/clock.h"
#include "test.h"

void rig_init(executor_rig *its)
{
    pthread_mutex_init(&its->lock, NULL);
    assert_int_equal(clock_init_condition(&its->change), 0);
}

void rig_end(executor_rig *its)
{
    executor_close(&its->executor);
    executor_destroy(&its->executor);
    snapshots_destroy(&its->pool);
    tarry_plan_free(its->plan);
    pthread_cond_destroy(&its->change);
    pthread_mutex_destroy(&its->lock);
}

void rig_post(executor_rig *its, const tarry_message *message, bool more)
{
    pthread_mutex_lock(&its->lock);
    its->more[its->count % RIG_POSTS] = more;
    its->posts[its->count++ % RIG_POSTS] = *message;
    pthread_cond_broadcast(&its->change);
    pthread_mutex_unlock(&its->lock);
}

void rig_count(executor_rig *its, size_t *counter)
{
    pthread_mutex_lock(&its->lock);
    (*counter)++;
    pthread_cond_broadcast(&its->change);
    pthread_mutex_unlock(&its->lock);
}

void rig_set(executor_rig *its, bool *what, bool value)
{
    pthread_mutex_lock(&its->lock);
    *what = value;
    pthread_cond_broadcast(&its->change);
    pthread_mutex_unlock(&its->lock);
}

size_t rig_get(executor_rig *its, const size_t *counter)
{
    pthread_mutex_lock(&its->lock);
    size_t value = *counter;
    pthread_mutex_unlock(&its->lock);
    return value;
}

void rig_await(executor_rig *its, const size_t *counter, size_t least)
{
    struct timespec until = clock_timespec(clock_now_ns() + UINT64_C(60000000000));
    int expired = 0;
    pthread_mutex_lock(&its->lock);
    while (*counter < least && expired == 0)
        expired = pthread_cond_timedwait(&its->change, &its->lock, &until);
    pthread_mutex_unlock(&its->lock);
    assert_int_equal(expired, 0);
}

tarry_message rig_next_post(executor_rig *its)
{
    rig_await(its, &its->count, its->read + 1);
    pthread_mutex_lock(&its->lock);
    tarry_message message = its->posts[its->read++ % RIG_POSTS];
    pthread_mutex_unlock(&its->lock);
    return message;
}

void rig_say(executor_rig *its, const tarry_message *message)
{
    uint8_t frame[512];
    const codec_shape *shape = &its->executor.slate->shape;
    size_t size = codec_size(shape, message);
    assert_in_range(size, 1, sizeof(frame));
    codec_encode(shape, message, frame);
    assert_ok(executor_deliver(&its->executor, frame, size));
}
