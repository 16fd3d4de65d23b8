/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sum/summation.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "coding/layout.h"
#include "protocol/form.h"
#include "runtime/masked_words.h"

/* One stripe of the sum. */
typedef struct place {
    stripe_queue waiting;
    uint32_t count; /* of these */
    uint32_t next;  /* in the queue of places that are ready */
    bool fresh;     /* cleared, and nothing added since */
    bool running;   /* a thread is at it */
    bool ready;     /* in that queue */
    uint32_t added; /* masked parts since it was cleared */
    bool whole;     /* all of them: its words are numbers */
} place;

typedef struct summation_runner {
    summation *owner;
    pthread_t thread;
    const float **z;      /* one per worker */
    uint32_t *sender;     /* the same */
    tarry_compress *kind; /* the same: of the form of z */
    float *weights;       /* parts of the plan x workers */
} summation_runner;

struct summation {
    tarry_allocator allocator;
    summation_settings settings;
    summation_runner
        *threads; /* where there are none, what the runtime's own takes their place with */
    uint32_t started;

    pthread_mutex_t lock; /* over all that follows */
    pthread_cond_t work;  /* threads wait for it */
    pthread_cond_t idle;  /* summation_settle does */
    bool has_lock, has_work, has_idle;
    bool ending;
    bool open; /* a round is in progress */
    const tarry_plan *plan;
    float *estimate;
    layout cut;
    place *places;
    uint32_t first, last; /* ready ones; first == cut.stripes: none */
    uint32_t running;     /* threads that write the estimate */
    stripe_queue summed, dropped;
    /* Masked parts. */
    uint32_t expected; /* of the attempt */
    uint8_t *words;    /* of 64 bits, d of them; narrower ones lie in the estimate */
    uint8_t *counts;   /* MASKED_COUNTS words per stripe */
    summation_tear tear;
    uint64_t clamped;
};

static void push_ready(summation *self, uint32_t index)
{
    place *at = &self->places[index];
    if (at->ready || at->running || at->count == 0)
        return;
    at->ready = true;
    at->next = self->cut.stripes;
    if (self->first == self->cut.stripes)
        self->first = index;
    else
        self->places[self->last].next = index;
    self->last = index;
}

/* With the lock held: takes all that waits for the first ready place. Gives back how many that are.
 */
static uint32_t take_job(summation_runner *runner, uint32_t *index, stripe_queue *items)
{
    summation *self = runner->owner;
    *index = self->first;
    place *at = &self->places[*index];
    self->first = at->next;
    at->ready = false;
    uint32_t count = 0;
    for (stripe *item = at->waiting.first; item != NULL; item = item->next) {
        runner->z[count] = item->numbers;
        runner->kind[count] = item->form;
        runner->sender[count++] = item->worker;
    }
    assert(count <= at->count);
    *items = at->waiting;
    at->waiting.first = NULL;
    at->count = 0;
    return count;
}

/* Those who run jobs: the threads, or the runtime's own in their place. */
static uint32_t count_runners(const summation *self)
{
    return self->settings.threads > 0 ? self->settings.threads : 1;
}

/* With the lock held. Whoever was told of the first will find the others, too; of what the
 * runtime's thread sums itself nobody is told. */
static void give_back(summation *self, stripe_queue *queue, stripe_queue *items)
{
    bool told = self->settings.threads > 0 && self->summed.first != NULL;
    bool first = !told && self->dropped.first == NULL;
    stripe_queue_append(queue, items);
    if (first && queue->first != NULL)
        self->settings.finished(self->settings.user);
}

static bool may_run(const summation *self)
{
    return self->first != self->cut.stripes;
}

static void zero_stripe(const layout *cut, uint32_t index, float *estimate)
{
    for (uint32_t part = 0; part < cut->parts; part++) {
        size_t present = layout_present(cut, part, index);
        if (present > 0)
            memset(estimate + part * cut->part_length + layout_stripe_start(cut, index), 0,
                   present * sizeof(float));
    }
}

/* As transfer_decode, of one part whose stripes came in another form: piece by piece, so that the
 * sum stays in the cache. */
static void unpack_stripes(const summation_runner *runner, const layout *cut, uint32_t index,
                           uint32_t count, bool add)
{
    summation *self = runner->owner;
    const compress_form own = self->settings.form;
    const size_t length = layout_stripe_length(cut, index), most = compress_piece(own);
    const size_t piece = most < length ? most : length;
    float *estimate = self->estimate + layout_stripe_start(cut, index);
    assert(cut->parts == 1);
    if (!add)
        zero_stripe(cut, index, self->estimate);
    for (size_t first = 0; first < length; first += piece) {
        const size_t some = length - first < piece ? length - first : piece;
        for (uint32_t i = 0; i < count; i++) {
            const compress_form form = form_as(own, runner->kind[i]);
            compress_decode_add_some(form_of_stripe(form, cut, index), (const void *)runner->z[i],
                                     length, first, some, runner->weights[i], estimate + first);
        }
    }
}

/* Adds the first `count` stripes of runner->z, each times `scale`, to every part of the estimate,
 * or overwrites what is there. */
static void add_stripes(summation_runner *runner, const layout *cut, uint32_t index, uint32_t count,
                        double scale, bool add)
{
    summation *self = runner->owner;
    const double *decode = self->plan->decode;
    for (uint32_t part = 0; part < cut->parts; part++)
        for (uint32_t i = 0; i < count; i++)
            runner->weights[part * count + i] =
                (float)(scale * decode[(size_t)part * self->plan->workers + runner->sender[i]]);
    if (self->settings.form.kind == TARRY_COMPRESS_NONE)
        transfer_decode(self->settings.kernels, cut, index, runner->z, runner->weights, count, add,
                        self->estimate);
    else
        unpack_stripes(runner, cut, index, count, add);
}

/* ---- masked parts ---- */

static bool is_masked(const summation *self)
{
    return self->settings.grid.bits != 0;
}

/* Where the words of a stripe are summed. */
static void *words_of(const summation *self, const layout *cut, uint32_t index)
{
    const size_t start = layout_stripe_start(cut, index);
    return self->words != NULL ? (void *)(self->words + ring_bytes(&self->settings.grid, start))
                               : (void *)(self->estimate + start);
}

static uint8_t *counts_of(const summation *self, uint32_t index)
{
    return self->counts + index * ring_bytes(&self->settings.grid, MASKED_COUNTS);
}

/* True if all parts of the stripe are there, their masks have cancelled, and they count every chunk
 * of the plan once. */
static bool is_good(const summation *self, uint32_t index, masked_counts *counts)
{
    return masked_counts_get(&self->settings.grid, counts_of(self, index), counts) &&
           counts->chunks == self->plan->chunks;
}

/* Adds the first `count` stripes of runner->z, or overwrites what is there; `last`: these are the
 * last of all, and the words become numbers if the masks are gone. If masks are left the words are
 * wiped. */
static void add_masked(const summation_runner *runner, const layout *cut, uint32_t index,
                       uint32_t count, bool add, bool last)
{
    const summation *self = runner->owner;
    const ring *grid = &self->settings.grid;
    const size_t length = layout_stripe_length(cut, index), bytes = ring_bytes(grid, length);
    void *words = words_of(self, cut, index);
    uint8_t *counts = counts_of(self, index);
    masked_counts counted;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *part = (const uint8_t *)runner->z[i];
        if (!add && i == 0) {
            memcpy(words, part, bytes);
            memcpy(counts, part + bytes, ring_bytes(grid, MASKED_COUNTS));
            continue;
        }
        ring_sum(grid, part, length, words);
        ring_sum(grid, part + bytes, MASKED_COUNTS, counts);
    }
    if (!last)
        return;
    if (is_good(self, index, &counted))
        ring_read(grid, words, length, self->estimate + layout_stripe_start(cut, index));
    else
        memset(words, 0, bytes);
}

/* With the lock held: so many more are in the stripe. */
static void note_masked(summation *self, uint32_t index, uint32_t count, bool last)
{
    place *at = &self->places[index];
    if (at->fresh)
        return; /* cleared meanwhile: these count for nothing */
    at->added += count;
    at->whole = last;
    masked_counts counts;
    if (last && !is_good(self, index, &counts) && !self->tear.torn) {
        const bool masked =
            !masked_counts_get(&self->settings.grid, counts_of(self, index), &counts);
        self->tear = (summation_tear){
            .torn = true, .stripe = index, .masked = masked, .chunks = masked ? 0 : counts.chunks};
    }
}

void summation_expect(summation *self, uint32_t parts)
{
    pthread_mutex_lock(&self->lock);
    self->expected = parts;
    pthread_mutex_unlock(&self->lock);
}

summation_tear summation_torn(summation *self)
{
    pthread_mutex_lock(&self->lock);
    summation_tear tear = self->tear;
    pthread_mutex_unlock(&self->lock);
    return tear;
}

uint64_t summation_clamped(const summation *self)
{
    return self->clamped;
}

/* With the lock held: the round ended well. */
static void settle_masked(summation *self)
{
    const ring *grid = &self->settings.grid;
    self->clamped = 0;
    for (uint32_t index = 0; index < self->cut.stripes; index++) {
        if (!self->places[index].whole && !self->tear.torn)
            self->tear = (summation_tear){.torn = true, .stripe = index};
        masked_counts counts;
        masked_counts_get(grid, counts_of(self, index), &counts);
        self->clamped += counts.clamped;
    }
}

static int allocate_masked(summation *self)
{
    const ring *grid = &self->settings.grid;
    const tarry_allocator *allocator = &self->allocator;
    if (!is_masked(self))
        return TARRY_OK;
    self->counts = memory_allocate(allocator, self->cut.stripes, ring_bytes(grid, MASKED_COUNTS));
    if (grid->bits > 32)
        self->words = memory_allocate(allocator, self->cut.part_length, ring_bytes(grid, 1));
    return self->counts == NULL || (grid->bits > 32 && self->words == NULL) ? TARRY_ERROR_NO_MEMORY
                                                                            : TARRY_OK;
}

/* ---- threads ---- */

/* With the lock held, which it lets go of while it sums. */
static void run_job(summation_runner *runner)
{
    summation *self = runner->owner;
    uint32_t index;
    stripe_queue items = {0};
    uint32_t count = take_job(runner, &index, &items);
    if (count == 0)
        return; /* cleared away since */
    place *at = &self->places[index];
    bool add = !at->fresh;
    layout cut = self->cut;
    double scale = items.first->scale;
    const bool masked = is_masked(self);
    if (masked && at->fresh)
        at->added = 0;
    const bool last = masked && at->added + count == self->expected;
    at->fresh = false;
    at->running = true;
    self->running++;
    pthread_mutex_unlock(&self->lock);

    if (masked)
        add_masked(runner, &cut, index, count, add, last);
    else
        add_stripes(runner, &cut, index, count, scale, add);

    pthread_mutex_lock(&self->lock);
    at->running = false;
    if (masked)
        note_masked(self, index, count, last);
    push_ready(self, index);
    if (--self->running == 0)
        pthread_cond_broadcast(&self->idle);
    if (self->settings.threads > 0)
        give_back(self, &self->summed, &items);
    else
        stripe_queue_append(&self->summed, &items);
}

static void *run_thread(void *argument)
{
    summation_runner *runner = argument;
    summation *self = runner->owner;
    pthread_mutex_lock(&self->lock);
    while (!self->ending)
        if (may_run(self))
            run_job(runner);
        else
            pthread_cond_wait(&self->work, &self->lock);
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

static int prepare_runner(summation *self, summation_runner *runner)
{
    const tarry_allocator *allocator = &self->allocator;
    size_t workers = self->plan->workers;
    runner->owner = self;
    runner->z = memory_allocate(allocator, workers, sizeof(*runner->z));
    runner->sender = memory_allocate(allocator, workers, sizeof(*runner->sender));
    runner->kind = memory_allocate(allocator, workers, sizeof(*runner->kind));
    runner->weights = memory_allocate(allocator, workers * self->plan->parts, sizeof(float));
    return runner->z == NULL || runner->sender == NULL || runner->kind == NULL ||
                   runner->weights == NULL
               ? TARRY_ERROR_NO_MEMORY
               : TARRY_OK;
}

static int start_thread(summation *self, summation_runner *runner)
{
    if (pthread_create(&runner->thread, NULL, run_thread, runner) != 0)
        return TARRY_ERROR_SYSTEM;
    self->started++;
    return TARRY_OK;
}

static int start(summation *self)
{
    const tarry_allocator *allocator = &self->allocator;
    self->has_lock = pthread_mutex_init(&self->lock, NULL) == 0;
    self->has_work = pthread_cond_init(&self->work, NULL) == 0;
    self->has_idle = pthread_cond_init(&self->idle, NULL) == 0;
    if (!self->has_lock || !self->has_work || !self->has_idle)
        return TARRY_ERROR_SYSTEM;
    self->places = memory_allocate(allocator, self->cut.stripes, sizeof(*self->places));
    self->threads = memory_allocate(allocator, count_runners(self), sizeof(*self->threads));
    if (self->places == NULL || self->threads == NULL)
        return TARRY_ERROR_NO_MEMORY;
    int error = allocate_masked(self);
    for (uint32_t i = 0; i < count_runners(self) && error == TARRY_OK; i++)
        error = prepare_runner(self, &self->threads[i]);
    for (uint32_t i = 0; i < self->settings.threads && error == TARRY_OK; i++)
        error = start_thread(self, &self->threads[i]);
    return error;
}

int summation_create(const tarry_plan *plan, const summation_settings *settings,
                     const tarry_allocator *allocator, summation **out)
{
    summation *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    made->allocator = memory_allocator(allocator);
    made->settings = *settings;
    made->plan = plan;
    made->cut = layout_make(settings->dimension, plan->parts, settings->stripe_length);
    made->first = made->cut.stripes;
    int error = start(made);
    if (error != TARRY_OK) {
        summation_free(made);
        return error;
    }
    *out = made;
    return TARRY_OK;
}

void summation_free(summation *self)
{
    if (self == NULL)
        return;
    tarry_allocator allocator = self->allocator;
    assert(self->summed.first == NULL && self->dropped.first == NULL);
    if (self->started > 0) {
        pthread_mutex_lock(&self->lock);
        self->ending = true;
        pthread_cond_broadcast(&self->work);
        pthread_mutex_unlock(&self->lock);
    }
    for (uint32_t i = 0; i < self->started; i++)
        pthread_join(self->threads[i].thread, NULL);
    for (uint32_t i = 0; self->threads != NULL && i < count_runners(self); i++) {
        memory_release(&allocator, self->threads[i].weights);
        memory_release(&allocator, self->threads[i].kind);
        memory_release(&allocator, self->threads[i].sender);
        memory_release(&allocator, self->threads[i].z);
    }
    memory_release(&allocator, self->counts);
    memory_release(&allocator, self->words);
    memory_release(&allocator, self->threads);
    memory_release(&allocator, self->places);
    if (self->has_idle)
        pthread_cond_destroy(&self->idle);
    if (self->has_work)
        pthread_cond_destroy(&self->work);
    if (self->has_lock)
        pthread_mutex_destroy(&self->lock);
    memory_release(&allocator, self);
}

void summation_replan(summation *self, const tarry_plan *plan)
{
    pthread_mutex_lock(&self->lock);
    assert(!self->open && self->running == 0);
    self->plan = plan;
    pthread_mutex_unlock(&self->lock);
}

/* With the lock held. The place stays among the ready: it is found empty there. Whoever owns the
 * stripes has to hear of it: a worker whose stripes these were is not read until they are back. */
static void drop_waiting(summation *self, place *at)
{
    give_back(self, &self->dropped, &at->waiting);
    at->count = 0;
}

static void drop_all(summation *self)
{
    for (uint32_t index = 0; index < self->cut.stripes; index++)
        drop_waiting(self, &self->places[index]);
}

void summation_begin(summation *self, float *estimate)
{
    pthread_mutex_lock(&self->lock);
    assert(!self->open && self->running == 0);
    self->estimate = estimate;
    self->open = true;
    self->tear = (summation_tear){0};
    for (uint32_t index = 0; index < self->cut.stripes; index++)
        self->places[index].fresh = self->places[index].whole = false;
    pthread_mutex_unlock(&self->lock);
}

void summation_form(summation *self, compress_form form)
{
    pthread_mutex_lock(&self->lock);
    self->settings.form = form;
    pthread_mutex_unlock(&self->lock);
}

void summation_clear(summation *self, uint32_t index)
{
    pthread_mutex_lock(&self->lock);
    assert(index < self->cut.stripes);
    drop_waiting(self, &self->places[index]);
    self->places[index].fresh = true;
    self->places[index].whole = false;
    pthread_mutex_unlock(&self->lock);
}

void summation_forget(summation *self)
{
    pthread_mutex_lock(&self->lock);
    drop_all(self);
    pthread_mutex_unlock(&self->lock);
}

void summation_add(summation *self, stripe_queue *items)
{
    if (items->first == NULL)
        return;
    pthread_mutex_lock(&self->lock);
    assert(self->open);
    uint32_t places = 0;
    for (stripe *item; (item = stripe_queue_pop(items)) != NULL;) {
        assert(item->index < self->cut.stripes);
        place *at = &self->places[item->index];
        assert(at->count < self->plan->workers);
        stripe_queue_push(&at->waiting, item);
        at->count++;
        if (!at->ready && !at->running)
            places++;
        push_ready(self, item->index);
    }
    while (self->settings.threads == 0 && may_run(self))
        run_job(&self->threads[0]);
    pthread_mutex_unlock(&self->lock);
    /* With the lock held, who is woken would only wait for that. */
    if (places > 1)
        pthread_cond_broadcast(&self->work);
    else if (places == 1)
        pthread_cond_signal(&self->work);
}

void summation_take(summation *self, stripe_queue *summed, stripe_queue *dropped)
{
    pthread_mutex_lock(&self->lock);
    stripe_queue_append(summed, &self->summed);
    stripe_queue_append(dropped, &self->dropped);
    pthread_mutex_unlock(&self->lock);
}

void summation_settle(summation *self, bool zero)
{
    pthread_mutex_lock(&self->lock);
    drop_all(self);
    while (self->running > 0)
        pthread_cond_wait(&self->idle, &self->lock);
    for (uint32_t index = 0; index < self->cut.stripes; index++)
        if (zero && self->places[index].fresh)
            zero_stripe(&self->cut, index, self->estimate);
    if (zero && is_masked(self))
        settle_masked(self);
    self->open = false;
    pthread_mutex_unlock(&self->lock);
}
