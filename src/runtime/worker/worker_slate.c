/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/worker_slate.h"

#include <assert.h>

#include "base/memory.h"
#include "coding/transfer.h"
#include "protocol/form.h"
#include "runtime/masked_words.h"

static int allocate_places(worker_slate *self, const layout *cut, const tarry_allocator *allocator)
{
    self->place = memory_allocate(allocator, self->places, sizeof(*self->place));
    self->spare = memory_allocate(allocator, self->places, sizeof(*self->spare));
    self->folds = memory_allocate(allocator, self->places, sizeof(*self->folds));
    self->weights = memory_allocate(allocator, self->places, sizeof(*self->weights));
    if (self->place == NULL || self->spare == NULL || self->folds == NULL || self->weights == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t i = 0; i < self->places; i++) {
        self->place[i] = vector_allocate(allocator, cut->dimension);
        if (self->place[i] == NULL)
            return TARRY_ERROR_NO_MEMORY;
        self->spare[self->spare_count++] = self->place[i];
    }
    return TARRY_OK;
}

void *worker_slate_stripe(const worker_slate *self, const layout *cut, uint32_t stripe)
{
    return self->packed != NULL ? (void *)(self->packed + stripe * self->packed_stride)
                                : (void *)(self->part + layout_stripe_start(cut, stripe));
}

float *worker_slate_take_place(worker_slate *self, uint32_t slot)
{
    assert(self->spare_count > 0 && self->gradient[slot] == NULL);
    self->gradient[slot] = self->spare[--self->spare_count];
    return self->gradient[slot];
}

void worker_slate_begin_part(worker_slate *self, uint32_t slot)
{
    float *part = self->part;
    for (uint32_t i = 0; i < self->places; i++)
        if (self->place[i] == self->gradient[slot])
            self->place[i] = part;
    self->part = self->gradient[slot];
    self->gradient[slot] = part;
}

void worker_slate_free_place(worker_slate *self, uint32_t slot)
{
    if (self->gradient[slot] != NULL)
        self->spare[self->spare_count++] = self->gradient[slot];
    self->gradient[slot] = NULL;
}

/* A masked part: its stripes as they are sent, from a cache line on each. */
static int allocate_masked(worker_slate *self, const layout *cut, const ring *grid,
                           const tarry_allocator *allocator)
{
    enum { LINE_BYTES = 64 };
    const size_t bytes = masked_stripe_bytes(grid, cut, 0);
    self->packed_stride = (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    self->packed = memory_allocate(allocator, cut->stripes, self->packed_stride);
    return self->packed != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

static int allocate_packed(worker_slate *self, const layout *cut,
                           const worker_slate_settings *settings, const tarry_allocator *allocator)
{
    const compress_form form = settings->form;
    if (self->secret.grid.bits != 0)
        return allocate_masked(self, cut, &self->secret.grid, allocator);
    if (form.kind == TARRY_COMPRESS_NONE)
        return TARRY_OK;
    self->packed_stride = form_packed_most(form, settings->dense, cut);
    self->packed = memory_allocate(allocator, cut->stripes, self->packed_stride);
    if (self->packed == NULL)
        return TARRY_ERROR_NO_MEMORY;
    return compress_feeds_back(form.kind)
               ? residuals_create(cut->part_length, cut->stripe_length, allocator, &self->residuals)
               : TARRY_OK;
}

static int allocate_vectors(worker_slate *self, const layout *cut, uint32_t parts,
                            const tarry_allocator *allocator)
{
    size_t vectors = (size_t)self->banks * self->load;
    self->words = memory_allocate(allocator, codec_words(&self->shape), sizeof(uint64_t));
    self->gradient = memory_allocate(allocator, vectors, sizeof(*self->gradient));
    self->finished = memory_allocate(allocator, vectors, sizeof(uint64_t));
    self->inputs = memory_allocate(allocator, self->load, sizeof(*self->inputs));
    self->scratch = memory_allocate(allocator, transfer_encode_scratch(self->load, parts), 1);
    if (self->words == NULL || self->gradient == NULL || self->finished == NULL ||
        self->inputs == NULL || self->part == NULL || self->scratch == NULL)
        return TARRY_ERROR_NO_MEMORY;
    if (self->keep == TARRY_KEEP_CREDITED)
        return allocate_places(self, cut, allocator);
    for (size_t i = 0; i < vectors; i++) {
        self->gradient[i] = vector_allocate(allocator, cut->dimension);
        if (self->gradient[i] == NULL)
            return TARRY_ERROR_NO_MEMORY;
    }
    return TARRY_OK;
}

/* Their own copies: a computation may outlast the plan. */
static int copy_spans(worker_slate *self, const tarry_plan *plan, uint32_t id,
                      const tarry_allocator *allocator)
{
    self->span_offset = memory_allocate(allocator, (size_t)self->load + 1, sizeof(uint32_t));
    if (self->span_offset == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t slot = 0; slot < self->load; slot++)
        self->span_offset[slot + 1] =
            self->span_offset[slot] + tarry_plan_span_count(plan, tarry_plan_chunk(plan, id, slot));
    self->span = memory_allocate(allocator, self->span_offset[self->load], sizeof(*self->span));
    if (self->span == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t slot = 0; slot < self->load; slot++) {
        uint32_t first = self->span_offset[slot], chunk = tarry_plan_chunk(plan, id, slot);
        for (uint32_t i = first; i < self->span_offset[slot + 1]; i++)
            self->span[i] = tarry_plan_span(plan, chunk, i - first);
    }
    return TARRY_OK;
}

/* In floats. */
static size_t part_room(const worker_slate_settings *settings)
{
    const size_t length = settings->cut.part_length;
    return settings->grid.bits == 0 ? length : ring_bytes(&settings->grid, length) / sizeof(float);
}

int worker_slate_create(const tarry_plan *plan, uint32_t worker,
                        const worker_slate_settings *settings, const tarry_allocator *allocator,
                        worker_slate **made)
{
    const layout *cut = &settings->cut;
    worker_slate *self = memory_allocate(allocator, 1, sizeof(*self));
    if (self == NULL)
        return TARRY_ERROR_NO_MEMORY;
    self->plan = plan;
    self->load = tarry_plan_load(plan, worker);
    self->banks = settings->keeps_stale ? 2 : 1;
    self->shape = codec_shape_of(plan, worker, cut->stripes);
    if (settings->grid.bits != 0)
        codec_shape_secure(&self->shape, plan);
    self->keep = settings->keep;
    self->places = settings->ahead < self->load ? settings->ahead + 1 : self->load;
    self->lent = settings->part != NULL;
    self->part = self->lent ? settings->part : vector_allocate(allocator, part_room(settings));
    self->coded = self->part;
    const tarry_worker_settings machine = {
        .worker = worker,
        .keeps_stale = settings->keeps_stale,
        .dimension = cut->dimension,
        .stripe_length = cut->stripe_length,
        .conditioning_limit = settings->conditioning_limit,
        .keep = settings->keep,
        .ahead = settings->ahead,
        .sum = settings->sum,
        .feedback = compress_feeds_back(settings->form.kind),
        .last = settings->last,
        .secure = settings->grid.bits,
    };
    secure_sum_init(&self->secret, &settings->grid);
    int error = allocate_vectors(self, cut, tarry_plan_parts(plan), allocator);
    if (error == TARRY_OK)
        error = allocate_packed(self, cut, settings, allocator);
    if (error == TARRY_OK)
        error = copy_spans(self, plan, worker, allocator);
    if (error == TARRY_OK)
        error = tarry_worker_create(plan, &machine, allocator, &self->machine, NULL);
    if (error != TARRY_OK) {
        worker_slate_free(self, allocator);
        return error;
    }
    *made = self;
    return TARRY_OK;
}

static void release_vector(float **vector, const float *kept, const tarry_allocator *allocator)
{
    if (*vector == kept)
        return;
    vector_release(allocator, *vector);
    *vector = NULL;
}

void worker_slate_clear(worker_slate *self, const float *kept, const tarry_allocator *allocator)
{
    tarry_worker_free(self->machine);
    self->machine = NULL;
    for (size_t i = 0; self->place != NULL && i < self->places; i++)
        release_vector(&self->place[i], kept, allocator);
    if (self->gradient != NULL && self->keep == TARRY_KEEP_ALL)
        for (size_t i = 0; i < (size_t)self->banks * self->load; i++)
            release_vector(&self->gradient[i], kept, allocator);
    if (!self->lent)
        vector_release(allocator, self->part);
    self->part = NULL;
    memory_release(allocator, self->packed);
    residuals_free(self->residuals);
    self->residuals = NULL;
    memory_release(allocator, self->scratch);
    self->packed = NULL;
    memory_release(allocator, self->inputs);
    memory_release(allocator, self->words);
    self->scratch = NULL;
    self->inputs = NULL;
    self->words = NULL;
}

void worker_slate_free(worker_slate *self, const tarry_allocator *allocator)
{
    if (self == NULL)
        return;
    worker_slate_clear(self, NULL, allocator);
    memory_release(allocator, self->folds);
    memory_release(allocator, self->weights);
    memory_release(allocator, self->spare);
    memory_release(allocator, self->place);
    memory_release(allocator, self->finished);
    memory_release(allocator, self->gradient);
    memory_release(allocator, self->span);
    memory_release(allocator, self->span_offset);
    memory_release(allocator, self);
}
