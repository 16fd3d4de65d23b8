/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/executor.h"

#include "base/memory.h"
#include "runtime/clock.h"
#include "runtime/worker/executor_step.h"

/* An empty frame says that the server is gone. */
enum { INBOX_FRAMES = 16, NO_SERVER = 1 };

/* One event from the talking thread, with all that follows from it. */
static void talk_step(executor *self, const tarry_event *event)
{
    pthread_mutex_lock(&self->lock);
    executor_step(self, event);
    pthread_mutex_unlock(&self->lock);
}

/* The last of the frames that says that the server is gone; what stands before it is outdated. */
static size_t find_cut(executor *self, size_t count)
{
    for (size_t i = count; i > 0; i--)
        if (mailbox_frame_at(&self->inbox, i - 1).sender == NO_SERVER)
            return i;
    return 0;
}

static void take_frames(executor *self, size_t count)
{
    size_t first = find_cut(self, count);
    if (first > 0)
        collective_cut(self->settings.collective);
    for (size_t i = first; i < count; i++) {
        mailbox_frame frame = mailbox_frame_at(&self->inbox, i);
        tarry_message message;
        int error = codec_decode(&self->slate->shape, frame.bytes, frame.size, self->slate->words,
                                 &message);
        if (error != TARRY_OK) {
            self->settings.uplink.give_up(self->settings.uplink.user);
            continue;
        }
        talk_step(self, &(tarry_event){.type = TARRY_EVENT_MESSAGE, .message = &message});
    }
}

static uint64_t hand_back_ns(executor *self)
{
    pthread_mutex_lock(&self->lock);
    bool waits = self->leaving && self->task.ticket != 0;
    uint64_t until = waits ? self->grace_until_ns : TARRY_NEVER;
    pthread_mutex_unlock(&self->lock);
    return until;
}

/* The replica's owner has stepped. */
static void conclude_owed(executor *self)
{
    const executor_uplink *uplink = &self->settings.uplink;
    pthread_mutex_lock(&self->lock);
    const executor_owed owed = self->owed;
    if (owed.stage == OWED_GIVEN)
        self->owed.stage = OWED_NOTHING;
    pthread_mutex_unlock(&self->lock);
    if (owed.stage != OWED_GIVEN)
        return;
    uint64_t state = 0;
    int error = owed.result;
    if (error == TARRY_OK)
        error = collective_stepped(self->settings.collective, &owed.sum, owed.digests, &state);
    if (error == TARRY_OK && self->in_round) /* whose ROUND came meanwhile */
        snapshots_label(self->settings.snapshots, self->told);
    if (error != TARRY_OK)
        uplink->broken(uplink->user, error);
    else
        talk_step(self,
                  &(tarry_event){.type = TARRY_EVENT_STEPPED, .sum = owed.sum, .state = state});
}

/* The replica has stepped. */
static void take_stepped(executor *self)
{
    bool stepped = self->stepped;
    self->stepped = false;
    if (stepped)
        talk_step(self, &self->stepped_event);
}

/* What the exchange thread is done with. */
static void take_end(executor *self)
{
    collective *among = self->settings.collective;
    tarry_event event;
    int error;
    if (among == NULL || !collective_take(among, &event, &error))
        return;
    if (error != TARRY_OK)
        self->settings.uplink.broken(self->settings.uplink.user, error);
    else
        talk_step(self, &event);
}

void executor_ended(void *user)
{
    executor *self = user;
    mailbox_wake(&self->inbox);
}

/* With the lock held. The caller gets back what the executor had. */
static void exchange_slates(executor *self)
{
    worker_slate *before = self->slate;
    if (self->settings.collective != NULL)
        tarry_worker_adopt(self->next->machine, before->machine, NULL);
    self->slate = self->next;
    self->next = before;
    self->task.ticket = 0;
    self->encoded = false;
    self->turning = false;
    self->in_round = false;
    pthread_cond_broadcast(&self->change);
}

/* With the lock held. */
static void exchange_parts(executor *self)
{
    float *before = self->slate->lent ? NULL : self->slate->part;
    self->slate->part = self->next_part;
    self->slate->coded = self->slate->part;
    self->slate->lent = true;
    self->next_part = before;
    self->turning = false;
}

/* With the lock held. */
static void take_next(executor *self)
{
    if (self->next != NULL)
        exchange_slates(self);
    else
        exchange_parts(self);
}

/* A machine hands on what it has, but no order that is in progress. */
static void end_order(executor *self)
{
    collective_abandon(self->settings.collective);
    take_stepped(self);
}

/* What is in the inbox was meant for the slate before. */
static void turn(executor *self)
{
    const executor_uplink *uplink = &self->settings.uplink;
    take_frames(self, mailbox_take(&self->inbox, 0));
    if (self->settings.collective != NULL)
        end_order(self);
    executor_claim(self, 0, self->settings.cut.part_length);
    const residuals *lost = self->next != NULL ? self->slate->residuals : NULL;
    executor_voided(self, lost != NULL ? residuals_count(lost) : 0);
    pthread_mutex_lock(&self->lock);
    take_next(self);
    pthread_mutex_unlock(&self->lock);
    uplink->changed(uplink->user);
}

static void *talk(void *argument)
{
    executor *self = argument;
    while (!mailbox_closed(&self->inbox)) {
        /* Between two stripes the worker looks for news, but doesn't wait for it. */
        bool busy = self->encoded || self->stepped;
        take_frames(self, mailbox_take(&self->inbox, busy ? 0 : hand_back_ns(self)));
        pthread_mutex_lock(&self->lock);
        executor_answer(self);
        pthread_mutex_unlock(&self->lock);
        take_stepped(self);
        if (self->encoded) {
            self->encoded = false;
            talk_step(self, &self->encoded_event);
        }
        take_end(self);
        conclude_owed(self);
        if (!executor_has_turned(self) && !executor_owes(self))
            turn(self);
        self->answering = self->encoded;
    }
    return NULL;
}

static int init_locks(executor *self)
{
    if (clock_init_condition(&self->change) != 0)
        return TARRY_ERROR_SYSTEM;
    if (pthread_mutex_init(&self->lock, NULL) != 0) {
        pthread_cond_destroy(&self->change);
        return TARRY_ERROR_SYSTEM;
    }
    return TARRY_OK;
}

int executor_init(executor *self, const executor_settings *settings, worker_slate *first,
                  const tarry_allocator *allocator)
{
    *self = (executor){.settings = *settings};
    int error = init_locks(self);
    if (error != TARRY_OK)
        return error;
    error = mailbox_init(&self->inbox, codec_max_size(&first->shape), INBOX_FRAMES, allocator);
    if (error != TARRY_OK) {
        pthread_mutex_destroy(&self->lock);
        pthread_cond_destroy(&self->change);
        return error;
    }
    self->slate = first;
    self->made = true;
    return TARRY_OK;
}

int executor_start(executor *self)
{
    if (pthread_create(&self->talk_thread, NULL, talk, self) != 0)
        return TARRY_ERROR_SYSTEM;
    self->talking = true;
    if (self->settings.collective != NULL &&
        collective_start(self->settings.collective) != TARRY_OK)
        return TARRY_ERROR_SYSTEM;
    if (self->settings.compute == NULL)
        return TARRY_OK;
    if (pthread_create(&self->compute_thread, NULL, executor_compute, self) != 0)
        return TARRY_ERROR_SYSTEM;
    self->computing = true;
    return TARRY_OK;
}

int executor_deliver(executor *self, const void *frame, size_t size)
{
    return mailbox_put_growing(&self->inbox, 0, frame, size) ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

/* Without memory they end when the next server asks. */
void executor_cut(executor *self)
{
    mailbox_put_growing(&self->inbox, NO_SERVER, NULL, 0);
}

/* With the lock held, of which it lets go. */
static void begin_exchange(executor *self)
{
    self->turning = true;
    if (!self->talking)
        take_next(self);
    pthread_mutex_unlock(&self->lock);
    mailbox_wake(&self->inbox);
}

void executor_turn(executor *self, worker_slate *next)
{
    pthread_mutex_lock(&self->lock);
    self->next = next;
    begin_exchange(self);
}

void executor_move(executor *self, float *part)
{
    pthread_mutex_lock(&self->lock);
    self->next_part = part;
    begin_exchange(self);
}

bool executor_has_turned(executor *self)
{
    pthread_mutex_lock(&self->lock);
    bool turned = !self->turning;
    pthread_mutex_unlock(&self->lock);
    return turned;
}

bool executor_owes(executor *self)
{
    pthread_mutex_lock(&self->lock);
    bool owes = self->owed.stage != OWED_NOTHING;
    pthread_mutex_unlock(&self->lock);
    return owes;
}

void executor_leave(executor *self, uint64_t grace_until_ns)
{
    pthread_mutex_lock(&self->lock);
    self->leaving = true;
    self->grace_until_ns = grace_until_ns;
    pthread_mutex_unlock(&self->lock);
    mailbox_wake(&self->inbox);
}

bool executor_idle(executor *self)
{
    pthread_mutex_lock(&self->lock);
    bool idle = !self->in_round;
    pthread_mutex_unlock(&self->lock);
    return idle;
}

bool executor_answering(executor *self)
{
    return self->answering;
}

static bool has_vector(const worker_slate *seat, const float *vector)
{
    bool has = false;
    for (size_t i = 0; seat->place != NULL && i < seat->places; i++)
        has = has || seat->place[i] == vector;
    if (seat->keep == TARRY_KEEP_ALL)
        for (size_t i = 0; i < (size_t)seat->banks * seat->load; i++)
            has = has || seat->gradient[i] == vector;
    return vector != NULL && has;
}

void executor_tidy(executor *self, const tarry_allocator *allocator)
{
    pthread_mutex_lock(&self->lock);
    const float *written = self->call.out ? self->call.task.gradient : NULL;
    pthread_mutex_unlock(&self->lock);
    /* What is written to now can be left, but not written to anew. */
    if (self->left != NULL && !has_vector(self->left, written)) {
        worker_slate_free(self->left, allocator);
        self->left = NULL;
    }
    vector_release(allocator, self->next_part);
    self->next_part = NULL;
    if (self->next == NULL)
        return;
    if (has_vector(self->next, written)) {
        worker_slate_clear(self->next, written, allocator);
        self->left = self->next;
    } else {
        worker_slate_free(self->next, allocator);
    }
    self->next = NULL;
}

void executor_abandon(executor *self)
{
    if (!self->made)
        return;
    pthread_mutex_lock(&self->lock);
    snapshots_release(self->settings.snapshots, self->call.held);
    self->call.held = NULL;
    self->call.out = false;
    self->owed.stage = OWED_NOTHING;
    pthread_cond_broadcast(&self->change);
    pthread_mutex_unlock(&self->lock);
}

void executor_close(executor *self)
{
    if (!self->made)
        return;
    pthread_mutex_lock(&self->lock);
    self->closing = true;
    pthread_cond_broadcast(&self->change);
    pthread_mutex_unlock(&self->lock);
    mailbox_close(&self->inbox);
}

void executor_join(executor *self)
{
    if (!self->made)
        return;
    if (self->talking)
        pthread_join(self->talk_thread, NULL);
    if (self->computing)
        pthread_join(self->compute_thread, NULL);
    self->talking = self->computing = false;
    if (self->settings.collective != NULL)
        collective_stop(self->settings.collective);
    pthread_mutex_lock(&self->lock);
    while (self->callers > 0 || self->call.out)
        pthread_cond_wait(&self->change, &self->lock);
    pthread_mutex_unlock(&self->lock);
}

void executor_destroy(executor *self, const tarry_allocator *allocator)
{
    if (!self->made)
        return;
    executor_join(self);
    worker_slate_free(self->slate, allocator);
    worker_slate_free(self->next, allocator);
    worker_slate_free(self->left, allocator);
    vector_release(allocator, self->next_part);
    mailbox_destroy(&self->inbox);
    pthread_mutex_destroy(&self->lock);
    pthread_cond_destroy(&self->change);
}
