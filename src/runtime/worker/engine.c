/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/engine.h"

#include "base/memory.h"
#include "runtime/clock.h"
#include "runtime/worker/engine_step.h"

enum { INBOX_FRAMES = 16 };

/* One event from the talking thread, with all that follows from it. */
static void talk_step(engine *own, const tarry_event *event)
{
    pthread_mutex_lock(&own->lock);
    engine_step(own, event);
    pthread_mutex_unlock(&own->lock);
}

static void take_frames(engine *own, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mailbox_frame frame = mailbox_frame_at(&own->inbox, i);
        tarry_message message;
        int error =
            codec_decode(&own->desk->shape, frame.bytes, frame.size, own->desk->words, &message);
        if (error != TARRY_OK) {
            own->settings.uplink.give_up(own->settings.uplink.user);
            continue;
        }
        talk_step(own, &(tarry_event){.type = TARRY_EVENT_MESSAGE, .message = &message});
    }
}

static uint64_t hand_back_ns(engine *own)
{
    pthread_mutex_lock(&own->lock);
    bool waits = own->leaving && own->task.ticket != 0;
    uint64_t until = waits ? own->grace_until_ns : TARRY_NEVER;
    pthread_mutex_unlock(&own->lock);
    return until;
}

/* With the lock held. The caller gets back what the engine had. */
static void exchange_desks(engine *own)
{
    desk *before = own->desk;
    own->desk = own->next;
    own->next = before;
    own->task.ticket = 0;
    own->encoded = false;
    own->turning = false;
    own->in_round = false;
    pthread_cond_broadcast(&own->change);
}

/* With the lock held. */
static void exchange_parts(engine *own)
{
    float *before = own->desk->lent ? NULL : own->desk->part;
    own->desk->part = own->next_part;
    own->desk->lent = true;
    own->next_part = before;
    own->turning = false;
}

/* With the lock held. */
static void exchange(engine *own)
{
    if (own->next != NULL)
        exchange_desks(own);
    else
        exchange_parts(own);
}

/* What is in the inbox was meant for the desk before. */
static void turn(engine *own)
{
    const engine_uplink *uplink = &own->settings.uplink;
    take_frames(own, mailbox_take(&own->inbox, 0));
    uplink->claim(uplink->user, 0, own->settings.cut.part_length);
    pthread_mutex_lock(&own->lock);
    exchange(own);
    pthread_mutex_unlock(&own->lock);
    uplink->changed(uplink->user);
}

static void *talk(void *argument)
{
    engine *own = argument;
    while (!mailbox_closed(&own->inbox)) {
        /* Between two stripes the worker looks for news, but doesn't wait for it. */
        take_frames(own, mailbox_take(&own->inbox, own->encoded ? 0 : hand_back_ns(own)));
        pthread_mutex_lock(&own->lock);
        engine_answer(own);
        pthread_mutex_unlock(&own->lock);
        if (own->encoded) {
            own->encoded = false;
            talk_step(own, &own->encoded_event);
        }
        if (!engine_has_turned(own))
            turn(own);
        own->answering = own->encoded;
    }
    return NULL;
}

static int init_locks(engine *own)
{
    if (clock_init_condition(&own->change) != 0)
        return TARRY_ERROR_SYSTEM;
    if (pthread_mutex_init(&own->lock, NULL) != 0) {
        pthread_cond_destroy(&own->change);
        return TARRY_ERROR_SYSTEM;
    }
    return TARRY_OK;
}

int engine_init(engine *own, const engine_settings *settings, desk *first,
                const tarry_allocator *allocator)
{
    *own = (engine){.settings = *settings};
    int error = init_locks(own);
    if (error != TARRY_OK)
        return error;
    error = mailbox_init(&own->inbox, codec_max_size(&first->shape), INBOX_FRAMES, allocator);
    if (error != TARRY_OK) {
        pthread_mutex_destroy(&own->lock);
        pthread_cond_destroy(&own->change);
        return error;
    }
    own->desk = first;
    own->made = true;
    return TARRY_OK;
}

int engine_start(engine *own)
{
    if (pthread_create(&own->talk_thread, NULL, talk, own) != 0)
        return TARRY_ERROR_SYSTEM;
    own->talking = true;
    if (own->settings.compute == NULL)
        return TARRY_OK;
    if (pthread_create(&own->compute_thread, NULL, engine_compute, own) != 0)
        return TARRY_ERROR_SYSTEM;
    own->computing = true;
    return TARRY_OK;
}

int engine_deliver(engine *own, const void *frame, size_t size)
{
    return mailbox_put_growing(&own->inbox, 0, frame, size) ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

/* With the lock held, of which it lets go. */
static void begin_exchange(engine *own)
{
    own->turning = true;
    if (!own->talking)
        exchange(own);
    pthread_mutex_unlock(&own->lock);
    mailbox_wake(&own->inbox);
}

void engine_turn(engine *own, desk *next)
{
    pthread_mutex_lock(&own->lock);
    own->next = next;
    begin_exchange(own);
}

void engine_move(engine *own, float *part)
{
    pthread_mutex_lock(&own->lock);
    own->next_part = part;
    begin_exchange(own);
}

bool engine_has_turned(engine *own)
{
    pthread_mutex_lock(&own->lock);
    bool turned = !own->turning;
    pthread_mutex_unlock(&own->lock);
    return turned;
}

void engine_leave(engine *own, uint64_t grace_until_ns)
{
    pthread_mutex_lock(&own->lock);
    own->leaving = true;
    own->grace_until_ns = grace_until_ns;
    pthread_mutex_unlock(&own->lock);
    mailbox_wake(&own->inbox);
}

bool engine_idle(engine *own)
{
    pthread_mutex_lock(&own->lock);
    bool idle = !own->in_round;
    pthread_mutex_unlock(&own->lock);
    return idle;
}

bool engine_answering(engine *own)
{
    return own->answering;
}

static bool has_vector(const desk *seat, const float *vector)
{
    bool has = false;
    for (size_t i = 0; seat->place != NULL && i < seat->places; i++)
        has = has || seat->place[i] == vector;
    if (seat->keep == TARRY_KEEP_ALL)
        for (size_t i = 0; i < (size_t)seat->banks * seat->load; i++)
            has = has || seat->gradient[i] == vector;
    return vector != NULL && has;
}

void engine_tidy(engine *own, const tarry_allocator *allocator)
{
    pthread_mutex_lock(&own->lock);
    const float *written = own->call.out ? own->call.task.gradient : NULL;
    pthread_mutex_unlock(&own->lock);
    /* What is written to now can be left, but not written to anew. */
    if (own->left != NULL && !has_vector(own->left, written)) {
        desk_free(own->left, allocator);
        own->left = NULL;
    }
    vector_release(allocator, own->next_part);
    own->next_part = NULL;
    if (own->next == NULL)
        return;
    if (has_vector(own->next, written)) {
        desk_clear(own->next, written, allocator);
        own->left = own->next;
    } else {
        desk_free(own->next, allocator);
    }
    own->next = NULL;
}

void engine_abandon(engine *own)
{
    if (!own->made)
        return;
    pthread_mutex_lock(&own->lock);
    snapshots_release(own->settings.snapshots, own->call.held);
    own->call.held = NULL;
    own->call.out = false;
    pthread_cond_broadcast(&own->change);
    pthread_mutex_unlock(&own->lock);
}

void engine_close(engine *own)
{
    if (!own->made)
        return;
    pthread_mutex_lock(&own->lock);
    own->closing = true;
    pthread_cond_broadcast(&own->change);
    pthread_mutex_unlock(&own->lock);
    mailbox_close(&own->inbox);
}

void engine_destroy(engine *own, const tarry_allocator *allocator)
{
    if (!own->made)
        return;
    if (own->talking)
        pthread_join(own->talk_thread, NULL);
    if (own->computing)
        pthread_join(own->compute_thread, NULL);
    pthread_mutex_lock(&own->lock);
    while (own->callers > 0 || own->call.out)
        pthread_cond_wait(&own->change, &own->lock);
    pthread_mutex_unlock(&own->lock);
    desk_free(own->desk, allocator);
    desk_free(own->next, allocator);
    desk_free(own->left, allocator);
    vector_release(allocator, own->next_part);
    mailbox_destroy(&own->inbox);
    pthread_mutex_destroy(&own->lock);
    pthread_cond_destroy(&own->change);
}
