/* SPDX-License-Identifier: Apache-2.0 */
/* A host for a plan, and for the next one. */
#include "base/diagnostic.h"
#include "base/memory.h"
#include "coding/kernel.h"
#include "plan/plan.h"
#include "protocol/form.h"
#include "protocol/server/server_skip.h"
#include "runtime/host/host.h"
#include "runtime/masked_words.h"

/* What belongs to one plan. */
typedef struct planned {
    tarry_server *machine;
    codec_shape *shapes;
    uint8_t *frame;
} planned;

static void discard(const host *self, planned *made)
{
    memory_release(&self->allocator, made->frame);
    memory_release(&self->allocator, made->shapes);
    tarry_server_free(made->machine);
}

static int shape_messages(const host *self, const tarry_plan *plan, planned *made,
                          tarry_diagnostic *diagnostic)
{
    const host_settings *settings = &self->settings;
    const tarry_allocator *allocator = &self->allocator;
    bool samples = settings->server.sample_chunks > 0;
    made->shapes = memory_allocate(allocator, plan->workers, sizeof(*made->shapes));
    if (made->shapes == NULL)
        return diagnose_no_memory(diagnostic, settings->name);
    size_t most = 0;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        made->shapes[worker] = codec_shape_of(plan, worker, self->cut.stripes);
        if (settings->server.secure != 0)
            codec_shape_secure(&made->shapes[worker], plan);
        size_t size = samples ? codec_max_size(&made->shapes[worker])
                              : codec_plain_max_size(&made->shapes[worker]);
        most = size > most ? size : most;
    }
    if (settings->most_message_bytes > 0 && most > settings->most_message_bytes)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "%s: messages of %zu bytes to a worker, and at most %zu can be sent; fewer "
                        "chunks per worker or longer stripes make them shorter",
                        settings->name, most, settings->most_message_bytes);
    made->frame = memory_allocate(allocator, settings->head_bytes + most, 1);
    return made->frame != NULL ? TARRY_OK : diagnose_no_memory(diagnostic, settings->name);
}

static int make_planned(const host *self, const tarry_plan *plan, planned *made,
                        tarry_diagnostic *diagnostic)
{
    int error = tarry_server_create(plan, &self->settings.server, &self->allocator, &made->machine,
                                    diagnostic);
    return error == TARRY_OK ? shape_messages(self, plan, made, diagnostic) : error;
}

/* Exchanges what the host has for what was made. */
static void take(host *self, const tarry_plan *plan, planned *made)
{
    const planned before = {self->machine, self->shapes, self->frame};
    self->plan = plan;
    self->machine = made->machine;
    self->shapes = made->shapes;
    self->frame = made->frame;
    *made = before;
}

static int restore(host *self, tarry_diagnostic *diagnostic)
{
    const host_settings *settings = &self->settings;
    if (settings->checkpoint == NULL)
        return TARRY_OK;
    int error = tarry_server_restore(self->machine, settings->checkpoint, settings->checkpoint_size,
                                     diagnostic);
    if (error == TARRY_OK)
        self->round.number = tarry_server_round(self->machine);
    return error;
}

/* The log may be ahead of the checkpoint, or a checkpoint be of a server that was ahead of it. */
static int take_log(host *self)
{
    const host_settings *settings = &self->settings;
    const uint64_t step = tarry_server_last_sum(self->machine).step;
    int error = tarry_server_log(self->machine, settings->log.last, settings->log.term);
    if (error != TARRY_OK || settings->checkpoint == NULL)
        return error;
    server_skip_rounds(self->machine, step);
    self->round.number = tarry_server_round(self->machine);
    return TARRY_OK;
}

static int make_sums(host *self, tarry_diagnostic *diagnostic)
{
    const host_settings *settings = &self->settings;
    const layout *cut = &self->cut;
    size_t longest = layout_stripe_length(cut, 0);
    size_t bytes = settings->grid.bits != 0 ? masked_stripe_bytes(&settings->grid, cut, 0)
                                            : form_most_bytes(form_of(&settings->server), cut);
    size_t room = (bytes + sizeof(float) - 1) / sizeof(float);
    stripes_init(&self->pool, room > longest ? room : longest, &self->allocator);
    self->members = memory_allocate(&self->allocator, self->plan->workers, sizeof(*self->members));
    const summation_settings wanted = {
        .dimension = cut->dimension,
        .stripe_length = cut->stripe_length,
        .form = form_of(&settings->server),
        .grid = settings->grid,
        .threads = settings->decode_threads,
        .kernels = kernel_best(),
        .finished = settings->transport.summed,
        .user = settings->transport.user,
    };
    int error = self->members == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
    if (error == TARRY_OK && settings->server.sum == TARRY_SUM_SERVER)
        error = summation_create(self->plan, &wanted, &self->allocator, &self->sums);
    return error == TARRY_OK
               ? TARRY_OK
               : diagnose(diagnostic, error, "%s: %s", settings->name, tarry_error_text(error));
}

/* After the machine was restored. */
static int make_view(host *self, tarry_diagnostic *diagnostic)
{
    const host_settings *settings = &self->settings;
    const tarry_view *from = &settings->seen;
    const uint64_t next = tarry_server_round(self->machine);
    const tarry_compress form = form_of_view(&settings->server);
    if (form == TARRY_COMPRESS_NONE)
        return TARRY_OK;
    int error = view_create(form, self->numbers, &self->allocator, &self->seen);
    if (error != TARRY_OK)
        return diagnose_no_memory(diagnostic, settings->name);
    /* A round of a later number was broken off since the checkpoint: its view is the next one's. */
    if (from->numbers != NULL)
        view_set(self->seen, from->round < next ? from->round : next,
                 host_join_factor(self, next, from->numbers));
    return TARRY_OK;
}

/* POWERSGD. Of a factor nothing is in checkpoints. */
static int make_factors(host *self, tarry_diagnostic *diagnostic)
{
    const host_settings *settings = &self->settings;
    const compress_form form = form_of_parts(&settings->server);
    self->numbers = settings->parameters + form_factor_numbers(form);
    if (form.kind != TARRY_COMPRESS_POWERSGD)
        return TARRY_OK;
    int error =
        factors_create(&form.low, settings->server.compress_seed, &self->allocator, &self->shared);
    self->joined = vector_allocate(&self->allocator, self->numbers);
    return error == TARRY_OK && self->joined != NULL
               ? TARRY_OK
               : diagnose_no_memory(diagnostic, settings->name);
}

int host_create(const tarry_plan *plan, const host_settings *settings,
                const tarry_allocator *allocator, host **made, tarry_diagnostic *diagnostic)
{
    if (settings->server.secure != settings->grid.bits)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "%s: sums can be secure over a network alone", settings->name);
    host *self = memory_allocate(allocator, 1, sizeof(*self));
    if (self == NULL)
        return diagnose_no_memory(diagnostic, settings->name);
    tarry_server_settings *server = &self->settings.server;
    self->allocator = memory_allocator(allocator);
    self->settings = *settings;
    self->plan = plan;
    self->cut = layout_make(server->dimension, plan_least_parts(plan), form_stripe_length(server));
    server->stripe_length = self->cut.stripe_length;
    planned first = {0};
    int error = make_planned(self, plan, &first, diagnostic);
    take(self, plan, &first);
    if (error == TARRY_OK)
        error = restore(self, diagnostic);
    if (error == TARRY_OK && settings->log.term > 0)
        error = take_log(self);
    if (error == TARRY_OK)
        error = make_sums(self, diagnostic);
    if (error == TARRY_OK)
        error = make_factors(self, diagnostic);
    if (error == TARRY_OK)
        error = make_view(self, diagnostic);
    if (error == TARRY_OK)
        self->committed = tarry_server_last_sum(self->machine);
    if (error != TARRY_OK) {
        host_free(self);
        return error;
    }
    self->settings.checkpoint = NULL; /* the caller's */
    self->settings.seen = (tarry_view){0};
    *made = self;
    return TARRY_OK;
}

void host_free(host *self)
{
    if (self == NULL)
        return;
    tarry_allocator allocator = self->allocator;
    planned last = {self->machine, self->shapes, self->frame};
    if (self->sums != NULL)
        host_collect(self);
    summation_free(self->sums);
    view_free(self->seen);
    factors_free(self->shared);
    vector_release(&allocator, self->joined);
    stripes_destroy(&self->pool);
    memory_release(&allocator, self->members);
    discard(self, &last);
    memory_release(&allocator, self);
}

int host_check_plan(const host *self, const tarry_plan *next, tarry_diagnostic *diagnostic)
{
    const tarry_plan *plan = self->plan;
    const char *fault = NULL;
    if (next->workers != plan->workers)
        fault = "the next plan is of another number of workers";
    else if (next->origins != plan->origins || next->pieces != plan->pieces)
        fault = "the next plan is of other data";
    else if (next->parts != plan->parts || next->adaptive != plan->adaptive)
        fault = "the next plan is of another number of parts";
    else if (self->settings.grid.bits != 0 && !ring_fits(&self->settings.grid, next->chunks))
        fault = "sums of the next plan's chunks can wrap";
    return fault == NULL
               ? TARRY_OK
               : diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "%s: %s", self->settings.name, fault);
}

int host_replan(host *self, const tarry_plan *next, tarry_diagnostic *diagnostic)
{
    planned made = {0};
    int error = host_check_plan(self, next, diagnostic);
    if (error == TARRY_OK)
        error = make_planned(self, next, &made, diagnostic);
    if (error == TARRY_OK)
        error = tarry_server_adopt(made.machine, self->machine, diagnostic);
    if (error == TARRY_OK) {
        take(self, next, &made);
        if (self->sums != NULL)
            summation_replan(self->sums, next);
    }
    discard(self, &made);
    return error;
}
