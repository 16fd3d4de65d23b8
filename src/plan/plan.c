/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/digest.h"
#include "base/memory.h"
#include "base/sized.h"
#include "plan/decode/decode.h"
#include "plan/design/design.h"
#include "plan/order/order.h"
#include "plan/rack/rack.h"

void tarry_plan_settings_init_sized(tarry_plan_settings *settings, size_t size)
{
    if (!sized_begin(settings, size, sizeof(*settings)))
        return;
    *settings = (tarry_plan_settings){
        .size = size,
        .workers = 8,
        .chunks = 8,
        .pieces = 1,
        .replication = 3,
        .parts = 1,
        .design = TARRY_DESIGN_RANDOM,
        .order = TARRY_ORDER_OPTIMAL,
        .seed = 1,
    };
}

static int check_replication(const tarry_plan_settings *settings, tarry_diagnostic *diagnostic)
{
    uint32_t replication = settings->replication;
    if (replication < 1)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "replication must be at least 1");
    if (replication > settings->workers)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "replication %u is more than the %u workers", replication,
                        settings->workers);
    if (settings->parts > replication)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "%u parts are more than the replication %u", settings->parts, replication);
    uint64_t units = (uint64_t)settings->chunks * settings->pieces;
    if (units * replication > PLAN_MAX_EDGES)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "%llu %s with replication %u are more than %u copies",
                        (unsigned long long)units, settings->pieces > 1 ? "pieces" : "chunks",
                        replication, PLAN_MAX_EDGES);
    return TARRY_OK;
}

static int check_settings(const tarry_plan_settings *settings, tarry_diagnostic *diagnostic)
{
    if (settings->workers < 1 || settings->workers == UINT32_MAX)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "workers must be 1 to 2^32 - 2");
    if (settings->chunks < 1 || settings->chunks == UINT32_MAX)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "chunks must be 1 to 2^32 - 2");
    if (settings->pieces < 1)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "pieces must be at least 1");
    if ((uint64_t)settings->chunks * settings->pieces >= UINT32_MAX)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "%u chunks of %u pieces are more than 2^32 - 2 pieces", settings->chunks,
                        settings->pieces);
    if (settings->parts < 1)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "parts must be at least 1");
    if (settings->parts > TARRY_MOST_PARTS)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "parts must be at most %d",
                        TARRY_MOST_PARTS);
    if (settings->parts > settings->workers)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "%u parts are more than the %u workers",
                        settings->parts, settings->workers);

    if (settings->rack_size > 0 && settings->rack_file != NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "racks are either of a size or named in a file");
    if (settings->rack_size > settings->workers)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "racks of %u workers are more than the %u workers", settings->rack_size,
                        settings->workers);

    switch (settings->order) {
    case TARRY_ORDER_OPTIMAL:
    case TARRY_ORDER_RANDOM:
    case TARRY_ORDER_AS_IS:
        break;
    default:
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "order %d does not exist",
                        (int)settings->order);
    }
    switch (settings->design) {
    case TARRY_DESIGN_CYCLIC:
    case TARRY_DESIGN_FRACTIONAL:
    case TARRY_DESIGN_RANDOM:
        return check_replication(settings, diagnostic);
    case TARRY_DESIGN_FILE:
        if (settings->file == NULL)
            return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                            "a design from a file needs the file's name");
        return TARRY_OK;
    }
    return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "design %d does not exist",
                    (int)settings->design);
}

/* Sets chunk_offset and what is known of the replications. */
static int count_holders(tarry_plan *plan)
{
    const tarry_allocator *allocator = &plan->allocator;
    uint32_t edges = plan_edges(plan);
    plan->chunk_offset =
        memory_allocate(allocator, (size_t)plan->chunks + 1, sizeof(*plan->chunk_offset));
    if (plan->chunk_offset == NULL)
        return TARRY_ERROR_NO_MEMORY;
    uint32_t *replication = plan->chunk_offset + 1;
    for (uint32_t slot = 0; slot < edges; slot++)
        replication[plan->slot_chunk[slot]]++;
    plan->min_replication = UINT32_MAX;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        if (replication[chunk] > plan->max_replication)
            plan->max_replication = replication[chunk];
        if (replication[chunk] < plan->min_replication)
            plan->min_replication = replication[chunk];
    }
    plan->replication_count = memory_allocate(allocator, (size_t)plan->max_replication + 1,
                                              sizeof(*plan->replication_count));
    if (plan->replication_count == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        plan->replication_count[replication[chunk]]++;
        plan->chunk_offset[chunk + 1] += plan->chunk_offset[chunk];
    }
    return TARRY_OK;
}

/* Sets the view by chunk from the view by worker. */
static int index_holders(tarry_plan *plan)
{
    const tarry_allocator *allocator = &plan->allocator;
    uint32_t edges = plan_edges(plan);
    plan->slot_holder = memory_allocate(allocator, edges, sizeof(*plan->slot_holder));
    plan->holder_worker = memory_allocate(allocator, edges, sizeof(*plan->holder_worker));
    plan->holder_position = memory_allocate(allocator, edges, sizeof(*plan->holder_position));
    uint32_t *found = memory_allocate(allocator, plan->chunks, sizeof(*found));
    int error = TARRY_ERROR_NO_MEMORY;
    if (plan->slot_holder == NULL || plan->holder_worker == NULL || plan->holder_position == NULL ||
        found == NULL)
        goto release;

    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        uint32_t first = plan->worker_offset[worker];
        uint32_t load = plan->worker_offset[worker + 1] - first;
        if (load > plan->max_load)
            plan->max_load = load;
        size_t psi_bits = 0;
        for (uint32_t position = 0; position < load; position++) {
            uint32_t chunk = plan->slot_chunk[first + position];
            uint32_t holder = found[chunk]++;
            plan->slot_holder[first + position] = holder;
            plan->holder_worker[plan->chunk_offset[chunk] + holder] = worker;
            plan->holder_position[plan->chunk_offset[chunk] + holder] = position;
            psi_bits += plan->chunk_offset[chunk + 1] - plan->chunk_offset[chunk];
        }
        if (psi_bits > plan->max_psi_bits)
            plan->max_psi_bits = psi_bits;
    }
    error = TARRY_OK;

release:
    memory_release(allocator, found);
    return error;
}

/* No memory is the only way in which a digest fails. */
int plan_take_digest(tarry_plan *plan)
{
    digest *state = digest_begin();
    if (state == NULL)
        return TARRY_ERROR_NO_MEMORY;
    const uint32_t sizes[] = {plan->workers, plan->chunks, plan->parts};
    int failed = digest_add_u32(state, sizes, 3);
    failed |= digest_add_u32(state, plan->worker_offset, (size_t)plan->workers + 1);
    failed |= digest_add_u32(state, plan->slot_chunk, plan_edges(plan));
    failed |= digest_add_f64(state, plan->decode, (size_t)plan->parts * plan->workers);
    if (plan->span != NULL) {
        failed |= digest_add_u32(state, &plan->origins, 1);
        failed |= digest_add_u32(state, plan->span_offset, (size_t)plan->chunks + 1);
        for (uint32_t i = 0; i < plan->span_offset[plan->chunks]; i++) {
            const tarry_span *span = &plan->span[i];
            const uint32_t numbers[] = {span->origin, span->first, span->count, span->of};
            failed |= digest_add_u32(state, numbers, 4);
        }
    }
    if (plan->rack != NULL)
        failed |= digest_add_u32(state, plan->rack, plan->workers);
    failed |= digest_end(state, plan->digest);
    return failed == 0 ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

/* Whether the colouring has put every chunk once at every position. */
static bool is_regular(const tarry_plan *plan)
{
    return plan->workers == plan->chunks && plan->min_replication == plan->max_load &&
           plan->max_replication == plan->max_load;
}

int plan_arrange(tarry_plan *plan, tarry_order order)
{
    int error = order_arrange(plan, order, plan->seed);
    if (error == TARRY_OK)
        error = count_holders(plan);
    if (error == TARRY_OK)
        error = index_holders(plan);
    if (error == TARRY_OK)
        error = rack_measure(plan);
    if (error == TARRY_OK && order == TARRY_ORDER_OPTIMAL && !is_regular(plan))
        error = improve_order(plan, plan->seed);
    return error;
}

/* All that follows the assignment. */
static int complete(tarry_plan *plan)
{
    plan->origins = plan->chunks;
    int error = plan_arrange(plan, plan->order);
    if (error == TARRY_OK)
        error = decode_make(plan, plan->seed, NULL);
    if (error == TARRY_OK)
        error = plan_take_digest(plan);
    return error;
}

int tarry_plan_create(const tarry_plan_settings *settings, const tarry_allocator *allocator,
                      tarry_plan **out, tarry_diagnostic *diagnostic)
{
    int error = sized_check(settings->size, sizeof(*settings), "plan", diagnostic);
    if (error == TARRY_OK)
        error = check_settings(settings, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_plan *plan = memory_allocate(allocator, 1, sizeof(*plan));
    if (plan == NULL)
        return diagnose_no_memory(diagnostic, "plan");
    plan->allocator = memory_allocator(allocator);
    plan->workers = settings->workers;
    plan->chunks = settings->chunks;
    plan->pieces = settings->pieces;
    plan->parts = settings->parts;
    plan->order = settings->order;
    plan->seed = settings->seed;

    error = rack_assign(plan, settings, diagnostic);
    if (error == TARRY_ERROR_NO_MEMORY)
        diagnose_no_memory(diagnostic, "plan");
    if (error == TARRY_OK)
        error = design_assign(plan, settings, diagnostic);
    if (error != TARRY_OK)
        goto free_plan;
    error = complete(plan);
    if (error != TARRY_OK) {
        diagnose_no_memory(diagnostic, "plan");
        goto free_plan;
    }
    *out = plan;
    return TARRY_OK;

free_plan:
    tarry_plan_free(plan);
    return error;
}

void tarry_plan_free(tarry_plan *plan)
{
    if (plan == NULL)
        return;
    const tarry_allocator allocator = plan->allocator;
    memory_release(&allocator, plan->worker_offset);
    memory_release(&allocator, plan->slot_chunk);
    memory_release(&allocator, plan->slot_holder);
    memory_release(&allocator, plan->chunk_offset);
    memory_release(&allocator, plan->holder_worker);
    memory_release(&allocator, plan->holder_position);
    memory_release(&allocator, plan->replication_count);
    memory_release(&allocator, plan->decode);
    memory_release(&allocator, plan->span_offset);
    memory_release(&allocator, plan->span);
    memory_release(&allocator, plan->weight);
    memory_release(&allocator, plan->rack);
    memory_release(&allocator, plan);
}

uint32_t tarry_plan_workers(const tarry_plan *plan)
{
    return plan->workers;
}

uint32_t tarry_plan_chunks(const tarry_plan *plan)
{
    return plan->chunks;
}

uint32_t tarry_plan_pieces(const tarry_plan *plan)
{
    return plan->pieces;
}

uint32_t tarry_plan_parts(const tarry_plan *plan)
{
    return plan->parts;
}

uint32_t tarry_plan_load(const tarry_plan *plan, uint32_t worker)
{
    return plan->worker_offset[worker + 1] - plan->worker_offset[worker];
}

uint32_t tarry_plan_chunk(const tarry_plan *plan, uint32_t worker, uint32_t position)
{
    return plan->slot_chunk[plan->worker_offset[worker] + position];
}

uint32_t tarry_plan_replication(const tarry_plan *plan, uint32_t chunk)
{
    return plan->chunk_offset[chunk + 1] - plan->chunk_offset[chunk];
}

uint32_t tarry_plan_holder(const tarry_plan *plan, uint32_t chunk, uint32_t index)
{
    return plan->holder_worker[plan->chunk_offset[chunk] + index];
}

double tarry_plan_decode_weight(const tarry_plan *plan, uint32_t part, uint32_t worker)
{
    return plan->decode[(size_t)part * plan->workers + worker];
}

tarry_conditioning tarry_plan_conditioning(const tarry_plan *plan)
{
    return plan->conditioning;
}

void tarry_plan_digest(const tarry_plan *plan, uint8_t out[TARRY_DIGEST_SIZE])
{
    memcpy(out, plan->digest, TARRY_DIGEST_SIZE);
}

/* ---- spans ---- */

static_assert(PLAN_ORIGIN_WEIGHT == SPAN_MOST_UNITS, "the finest span weighs 1");

uint32_t tarry_plan_origins(const tarry_plan *plan)
{
    return plan->origins;
}

bool tarry_plan_is_original(const tarry_plan *plan)
{
    return plan->span == NULL;
}

uint32_t tarry_plan_span_count(const tarry_plan *plan, uint32_t chunk)
{
    return plan->span == NULL ? 1 : plan->span_offset[chunk + 1] - plan->span_offset[chunk];
}

tarry_span tarry_plan_span(const tarry_plan *plan, uint32_t chunk, uint32_t index)
{
    return plan->span == NULL ? (tarry_span){.origin = chunk, .count = 1, .of = 1}
                              : plan->span[plan->span_offset[chunk] + index];
}

void tarry_span_samples(tarry_span span, uint64_t samples, uint64_t *begin, uint64_t *end)
{
    *begin = span.first * samples / span.of;
    *end = ((uint64_t)span.first + span.count) * samples / span.of;
}

const tarry_span *span_list(const tarry_plan *plan, uint32_t chunk, tarry_span *whole,
                            uint32_t *count)
{
    *count = tarry_plan_span_count(plan, chunk);
    if (plan->span != NULL)
        return plan->span + plan->span_offset[chunk];
    *whole = tarry_plan_span(plan, chunk, 0);
    return whole;
}

double span_begin(tarry_span span)
{
    return (double)span.first / span.of;
}

double span_end(tarry_span span)
{
    return ((double)span.first + span.count) / span.of;
}

double span_size(const tarry_span *spans, uint32_t count)
{
    double size = 0;
    for (uint32_t i = 0; i < count; i++)
        size += (double)spans[i].count / spans[i].of;
    return size;
}

int span_weigh(tarry_plan *plan)
{
    plan->weight = memory_allocate(&plan->allocator, plan->chunks, sizeof(*plan->weight));
    if (plan->weight == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
        for (uint32_t i = plan->span_offset[chunk]; i < plan->span_offset[chunk + 1]; i++)
            plan->weight[chunk] += PLAN_ORIGIN_WEIGHT / plan->span[i].of * plan->span[i].count;
    return TARRY_OK;
}

/* ---- carry ---- */

/* A span of a chunk, and the cost of an original chunk at its density. */
typedef struct stretch {
    tarry_span span;
    double density;
} stretch;

static int compare_stretches(const void *a, const void *b)
{
    const stretch *x = a, *y = b;
    if (x->span.origin != y->span.origin)
        return x->span.origin < y->span.origin ? -1 : 1;
    double begin = span_begin(x->span), other = span_begin(y->span);
    return (begin > other) - (begin < other);
}

static uint32_t count_spans(const tarry_plan *plan)
{
    return plan->span == NULL ? plan->chunks : plan->span_offset[plan->chunks];
}

/* All spans of the plan, in the sequence of the data. */
static void list_stretches(const tarry_plan *plan, const double *cost, stretch *list)
{
    uint32_t listed = 0;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        uint32_t count;
        tarry_span whole;
        const tarry_span *spans = span_list(plan, chunk, &whole, &count);
        double density = cost[chunk] / span_size(spans, count);
        for (uint32_t i = 0; i < count; i++)
            list[listed++] = (stretch){spans[i], density};
    }
    qsort(list, listed, sizeof(*list), compare_stretches);
}

/* The stretch in which a span begins: the last that doesn't begin behind it. */
static uint32_t find_stretch(const stretch *list, uint32_t count, tarry_span span)
{
    const stretch wanted = {.span = span};
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (compare_stretches(&list[middle], &wanted) <= 0)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static double cost_of_span(const stretch *list, uint32_t count, tarry_span span)
{
    double cost = 0, place = span_begin(span), end = span_end(span);
    for (uint32_t i = find_stretch(list, count, span); place < end; i++) {
        assert(i < count && list[i].span.origin == span.origin);
        double stop = span_end(list[i].span) < end ? span_end(list[i].span) : end;
        cost += list[i].density * (stop - place);
        place = stop;
    }
    return cost;
}

int tarry_plan_carry_cost(const tarry_plan *from, const double *cost, const tarry_plan *to,
                          const tarry_allocator *allocator, double *carried)
{
    assert(from->origins == to->origins);
    uint32_t count = count_spans(from);
    stretch *list = memory_allocate(allocator, count, sizeof(*list));
    if (list == NULL)
        return TARRY_ERROR_NO_MEMORY;
    list_stretches(from, cost, list);
    for (uint32_t chunk = 0; chunk < to->chunks; chunk++) {
        uint32_t spans;
        tarry_span whole;
        const tarry_span *first = span_list(to, chunk, &whole, &spans);
        carried[chunk] = 0;
        for (uint32_t i = 0; i < spans; i++)
            carried[chunk] += cost_of_span(list, count, first[i]);
    }
    memory_release(allocator, list);
    return TARRY_OK;
}
