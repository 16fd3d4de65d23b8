/* SPDX-License-Identifier: Apache-2.0 */
#include "secure/held.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "plan/exposure/exposure.h"

enum { LINE = 64, MOST_WORKERS = 1 << 24, STEPS = 20000000 };

/* Samples begin .. end - 1 of a worker. */
typedef struct range {
    uint32_t worker;
    uint64_t begin, end;
} range;

struct held {
    range *ranges; /* by worker, then place; none touch */
    size_t count;
};

int held_create(held **out)
{
    held *made = memory_allocate(NULL, 1, sizeof(*made));
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    *out = made;
    return TARRY_OK;
}

void held_free(held *self)
{
    if (self == NULL)
        return;
    memory_release(NULL, self->ranges);
    memory_release(NULL, self);
}

static int compare(const void *one, const void *other)
{
    const range *a = one, *b = other;
    if (a->worker != b->worker)
        return a->worker < b->worker ? -1 : 1;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* Sorts them, joins those that meet, and leaves out those that are empty. */
static size_t join(range *ranges, size_t count)
{
    size_t kept = 0;
    qsort(ranges, count, sizeof(*ranges), compare);
    for (size_t i = 0; i < count; i++) {
        const range next = ranges[i];
        range *last = kept > 0 ? &ranges[kept - 1] : NULL;
        if (next.begin == next.end)
            continue;
        if (last == NULL || last->worker != next.worker || last->end < next.begin)
            ranges[kept++] = next;
        else if (last->end < next.end)
            last->end = next.end;
    }
    return kept;
}

/* The first sample of original chunk `origin`; of that behind the last one: all. */
static uint64_t begin_of(const held_cut *cut, uint32_t origin)
{
    const uint64_t all = cut->samples, parts = cut->origins;
    if (cut->begins != NULL)
        return cut->begins[origin];
    return all / parts * origin + all % parts * origin / parts; /* without overflow */
}

static range samples_of(const tarry_plan *plan, const held_cut *cut, uint32_t chunk, uint32_t index)
{
    const tarry_span span = tarry_plan_span(plan, chunk, index);
    const uint64_t first = begin_of(cut, span.origin);
    uint64_t begin, end;
    tarry_span_samples(span, begin_of(cut, span.origin + 1) - first, &begin, &end);
    return (range){.begin = first + begin, .end = first + end};
}

/* Whether the spans have every sample once: as many as there are, and no gap between the first and
 * the last. */
static bool covers_once(const tarry_plan *plan, const held_cut *cut, range *room)
{
    size_t count = 0;
    uint64_t sum = 0;
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++) {
        for (uint32_t i = 0; i < tarry_plan_span_count(plan, chunk); i++) {
            room[count] = samples_of(plan, cut, chunk, i);
            if (room[count].end > cut->samples)
                return false;
            sum += room[count].end - room[count].begin;
            count++;
        }
    }
    count = join(room, count);
    return count == 1 && room[0].begin == 0 && room[0].end == cut->samples && sum == cut->samples;
}

static size_t count_spans(const tarry_plan *plan, bool copies)
{
    size_t count = 0;
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++)
        count += (size_t)tarry_plan_span_count(plan, chunk) *
                 (copies ? tarry_plan_replication(plan, chunk) : 1);
    return count;
}

static size_t put_holdings(const tarry_plan *plan, const held_cut *cut, range *out)
{
    size_t count = 0;
    for (uint32_t worker = 0; worker < tarry_plan_workers(plan); worker++) {
        for (uint32_t slot = 0; slot < tarry_plan_load(plan, worker); slot++) {
            uint32_t chunk = tarry_plan_chunk(plan, worker, slot);
            for (uint32_t i = 0; i < tarry_plan_span_count(plan, chunk); i++) {
                out[count] = samples_of(plan, cut, chunk, i);
                out[count++].worker = worker;
            }
        }
    }
    return count;
}

int held_add(held *self, const tarry_plan *plan, const held_cut *cut, tarry_diagnostic *diagnostic)
{
    if (tarry_plan_origins(plan) != cut->origins)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "the plan is of other chunks than the job");
    size_t added = count_spans(plan, true);
    range *ranges = memory_allocate(NULL, self->count + added, sizeof(*ranges));
    if (ranges == NULL)
        return diagnose_no_memory(diagnostic, "samples held");
    if (!covers_once(plan, cut, ranges)) {
        memory_release(NULL, ranges);
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "the plan's sum is not over all samples, each once");
    }
    if (self->count > 0)
        memcpy(ranges, self->ranges, self->count * sizeof(*ranges));
    added = put_holdings(plan, cut, ranges + self->count);
    memory_release(NULL, self->ranges);
    self->ranges = ranges;
    self->count = join(ranges, self->count + added);
    return TARRY_OK;
}

uint64_t held_smallest(const tarry_plan *plan, const held_cut *cut, uint32_t *chunk)
{
    uint64_t fewest = UINT64_MAX;
    for (uint32_t i = 0; i < tarry_plan_chunks(plan); i++) {
        uint64_t samples = 0;
        for (uint32_t j = 0; j < tarry_plan_span_count(plan, i); j++) {
            const range of = samples_of(plan, cut, i, j);
            samples += of.end - of.begin;
        }
        if (samples < fewest) {
            fewest = samples;
            *chunk = i;
        }
    }
    return fewest;
}

uint64_t held_largest_origin(const held_cut *cut)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < cut->origins; i++) {
        const uint64_t samples = begin_of(cut, i + 1) - begin_of(cut, i);
        most = samples > most ? samples : most;
    }
    return most;
}

int held_left(const held *self, uint64_t samples, uint32_t colluders, uint64_t *left)
{
    const uint32_t workers = self->count > 0 ? self->ranges[self->count - 1].worker + 1 : 1;
    exposure *shown;
    exposure_bound bound;
    int error = exposure_create(workers, NULL, &shown);
    if (error != TARRY_OK)
        return error;
    for (size_t i = 0; error == TARRY_OK && i < self->count; i++) {
        const range *one = &self->ranges[i];
        error = exposure_add(shown, one->worker, one->begin, one->end);
    }
    if (error == TARRY_OK)
        error = exposure_unheld(shown, colluders < workers ? colluders : workers, STEPS, &bound);
    if (error == TARRY_OK)
        *left = samples - bound.samples + bound.unheld;
    exposure_free(shown);
    return error;
}

/* ---- text ---- */

int held_write(const held *self, char **text, size_t *size)
{
    char *made = memory_allocate(NULL, self->count + 1, LINE);
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    size_t used = 0;
    for (size_t i = 0; i < self->count; i++)
        used +=
            (size_t)snprintf(made + used, LINE, "%" PRIu32 " %" PRIu64 " %" PRIu64 "\n",
                             self->ranges[i].worker, self->ranges[i].begin, self->ranges[i].end);
    *text = made;
    *size = used;
    return TARRY_OK;
}

static bool is_in_order(const range *ranges, size_t count, uint64_t samples)
{
    for (size_t i = 0; i < count; i++) {
        const range *one = &ranges[i];
        if (one->begin >= one->end || one->end > samples || one->worker >= MOST_WORKERS)
            return false;
        if (i > 0 && (one->worker < one[-1].worker ||
                      (one->worker == one[-1].worker && one->begin <= one[-1].end)))
            return false;
    }
    return true;
}

/* The line at *at, which goes past it; false if it is none. */
static bool take_line(const char *text, size_t size, size_t *at, range *out)
{
    char line[LINE];
    const char *end = memchr(text + *at, '\n', size - *at);
    size_t length = end != NULL ? (size_t)(end - (text + *at)) : LINE;
    if (length >= LINE)
        return false;
    memcpy(line, text + *at, length);
    line[length] = '\0';
    *at += length + 1;
    return sscanf(line, "%" SCNu32 " %" SCNu64 " %" SCNu64, &out->worker, &out->begin, &out->end) ==
           3;
}

static bool take_lines(const char *text, size_t size, held *out)
{
    for (size_t at = 0; at < size;) {
        if (!take_line(text, size, &at, &out->ranges[out->count]))
            return false;
        out->count++;
    }
    return true;
}

/* Only what held_write writes is one. */
static int check_text(const held *self, const char *text, size_t size)
{
    char *again;
    size_t again_size;
    int error = held_write(self, &again, &again_size);
    if (error != TARRY_OK)
        return error;
    if (again_size != size || memcmp(text, again, size) != 0)
        error = TARRY_ERROR_FORMAT;
    memory_release(NULL, again);
    return error;
}

int held_read(const char *text, size_t size, uint64_t samples, held **out)
{
    held *made;
    size_t lines = 0;
    if (held_create(&made) != TARRY_OK)
        return TARRY_ERROR_NO_MEMORY;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    made->ranges = memory_allocate(NULL, lines + 1, sizeof(*made->ranges));
    int error = made->ranges != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
    if (error == TARRY_OK &&
        (!take_lines(text, size, made) || !is_in_order(made->ranges, made->count, samples)))
        error = TARRY_ERROR_FORMAT;
    if (error == TARRY_OK)
        error = check_text(made, text, size);
    if (error == TARRY_OK)
        *out = made;
    else
        held_free(made);
    return error;
}
