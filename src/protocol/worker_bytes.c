/* SPDX-License-Identifier: Apache-2.0 */
#include <tarry/settings.h>

#include <math.h>

#include "compress/factors.h"
#include "compress/view.h"
#include "protocol/form.h"

/* Vectors of a whole gradient that a worker has. */
static uint64_t worker_gradients(uint64_t load, const tarry_server_settings *server)
{
    if (server->keep == TARRY_KEEP_CREDITED)
        return server->ahead < load ? server->ahead + UINT64_C(1) : load;
    return server->fill == TARRY_FILL_STALE ? 2 * load : load;
}

/* Where workers make the sum each has that, too. */
static uint64_t worker_sums(const tarry_server_settings *server)
{
    return server->sum == TARRY_SUM_EVERYWHERE;
}

/* Numbers of its coded part. */
static uint64_t worker_part(uint32_t least_parts, uint64_t dimension)
{
    return (dimension + least_parts - 1) / least_parts;
}

/* The same of POWERSGD. */
static uint64_t lowrank_packed(const tarry_server_settings *server, size_t numbers)
{
    tarry_server_settings chosen = *server;
    chosen.stripe_length = form_stripe_length(server);
    const layout cut = layout_make(numbers, 1, chosen.stripe_length);
    return cut.stripes * form_packed_bytes(form_of(&chosen), &cut) + 2 * numbers * sizeof(float);
}

/* Bytes of the part in the form in which it is sent, where that is another, stripe by stripe; and
 * what rounding lost of it, twice: before and after the round in progress. Secure sums: its masked
 * stripes. */
static uint64_t worker_packed(const tarry_server_settings *server, uint64_t numbers)
{
    if (server->compress == TARRY_COMPRESS_NONE && server->secure == 0)
        return 0;
    if (server->compress == TARRY_COMPRESS_POWERSGD)
        return lowrank_packed(server, (size_t)numbers);
    bool cut = server->stripe_length > 0 && server->stripe_length < numbers; /* 0: it is chosen */
    uint64_t stripe = cut ? server->stripe_length : numbers;
    if (server->secure != 0)
        return (numbers + stripe - 1) / stripe * form_secure_bytes(server->secure, (size_t)stripe);
    uint64_t kept = compress_feeds_back(server->compress) ? 2 * numbers * sizeof(float) : 0;
    compress_form form = form_of(server);
    uint64_t exact = form.exact * sizeof(float);
    form.exact = 0;
    uint64_t usual = compress_bytes(form, (size_t)stripe), most = usual;
    if (dense_rounds_any(dense_rounds_of(server)))
        most = compress_bytes(form_if_dense(form), (size_t)stripe);
    return (numbers + stripe - 1) / stripe * (most > usual ? most : usual) + exact + kept;
}

/* What the server takes for factors; and for a copy of the parameters that a factor follows, where
 * there is no view of them. */
static uint64_t lowrank_server(const tarry_server_settings *server, uint64_t dimension, bool copies)
{
    tarry_server_settings chosen = *server;
    chosen.stripe_length = form_stripe_length(server);
    const compress_lowrank low = lowrank_of(&chosen);
    const uint64_t factor = lowrank_factor_numbers(&low) * sizeof(float);
    return factors_bytes(&low) + factor + (copies ? dimension * sizeof(float) : 0);
}

/* Of a number of its coded part: an integer where sums are secure. */
static uint64_t part_number_bytes(const tarry_server_settings *server)
{
    return server->secure == 0 ? sizeof(float) : server->secure / 8;
}

uint64_t tarry_worker_bytes(uint64_t load, uint32_t least_parts,
                            const tarry_server_settings *server, uint64_t dimension)
{
    uint64_t vectors = worker_gradients(load, server) + worker_sums(server);
    uint64_t part = worker_part(least_parts, dimension);
    return vectors * dimension * sizeof(float) + part * part_number_bytes(server) +
           worker_packed(server, part);
}

tarry_memory tarry_memory_of(const tarry_plan *plan, const tarry_server_settings *server,
                             uint64_t dimension)
{
    tarry_memory memory = {.least = UINT64_MAX};
    for (uint32_t worker = 0; worker < tarry_plan_workers(plan); worker++) {
        uint64_t bytes = tarry_worker_bytes(tarry_plan_load(plan, worker),
                                            tarry_plan_least_parts(plan), server, dimension);
        memory.total += bytes;
        memory.least = bytes < memory.least ? bytes : memory.least;
        memory.most = bytes > memory.most ? bytes : memory.most;
    }
    if (form_of_view(server) != TARRY_COMPRESS_NONE)
        memory.server = view_bytes(form_of_view(server), dimension);
    if (server->compress == TARRY_COMPRESS_POWERSGD)
        memory.server += lowrank_server(server, dimension, memory.server == 0);
    return memory;
}

/* The most that all workers can run ahead within so many bytes, but the usual number at least. */
static uint32_t furthest_ahead(const tarry_settings *settings, uint64_t dimension, double bytes)
{
    double packed = (double)worker_packed(&settings->server, dimension);
    if (settings->server.secure != 0) /* more than a float32 each */
        packed += (double)dimension *
                  ((double)part_number_bytes(&settings->server) - (double)sizeof(float));
    double each = (bytes / settings->plan.workers - packed) / ((double)dimension * sizeof(float));
    double others = 2 + (double)worker_sums(&settings->server);
    return (uint32_t)fmin(fmax(floor(each) - others, TARRY_USUAL_AHEAD), UINT32_MAX - 1);
}

void tarry_settings_keep(tarry_settings *settings, uint64_t copies, uint64_t dimension,
                         double bytes, bool ahead_given)
{
    if (!settings->keep_auto)
        return;
    const tarry_plan_settings *plan = &settings->plan;
    tarry_server_settings *server = &settings->server;
    tarry_conflict conflict;
    settings->keep_auto = false;
    tarry_settings credited = *settings;
    credited.server.keep = TARRY_KEEP_CREDITED;
    server->keep = TARRY_KEEP_ALL;
    uint64_t part = worker_part(plan->adaptive_parts ? 1 : plan->parts, dimension);
    uint64_t vectors = worker_gradients(copies, server) + plan->workers * worker_sums(server);
    double parts =
        plan->workers * ((double)part * sizeof(float) + (double)worker_packed(server, part));
    double all = (double)vectors * (double)dimension * sizeof(float) + parts;
    bool fits = all <= bytes && server->secure == 0;
    if (fits || tarry_settings_check(&credited, &conflict) != TARRY_OK)
        return;
    server->keep = TARRY_KEEP_CREDITED;
    if (!ahead_given)
        server->ahead = furthest_ahead(settings, dimension, bytes);
}
