/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/past_report.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/quantile.h"

#define MOST_COUNT 1000000
#define MOST_DIMENSION 100000000000

/* An object of the file, and where it stands in it: "plan." */
typedef struct place {
    const char *path;
    const char *prefix;
    const json_t *object;
    tarry_diagnostic *diagnostic;
} place;

static int wrong(const place *at, const char *key, const char *what)
{
    return diagnose(at->diagnostic, TARRY_ERROR_FORMAT, "%s: '%s%s' %s", at->path, at->prefix, key,
                    what);
}

static int absent(const place *at, const char *key, const json_t *value, const char *what)
{
    return wrong(at, key, value == NULL ? "is missing" : what);
}

static int take_whole(const place *at, const char *key, uint64_t most, uint64_t *out)
{
    const json_t *value = json_object_get(at->object, key);
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 1 || (uint64_t)number > most)
        return absent(at, key, value, "is not a whole number within its range");
    *out = (uint64_t)number;
    return TARRY_OK;
}

static int take_count(const place *at, const char *key, uint32_t *out)
{
    uint64_t number = 0;
    int error = take_whole(at, key, MOST_COUNT, &number);
    if (error == TARRY_OK)
        *out = (uint32_t)number;
    return error;
}

/* A number that is not negative; `otherwise` for null. */
static int take_number(const place *at, const char *key, double otherwise, double *out)
{
    const json_t *value = json_object_get(at->object, key);
    double number = json_is_null(value) ? otherwise : json_number_value(value);
    if ((!json_is_number(value) && !json_is_null(value)) || !(number >= 0))
        return absent(at, key, value, "is not a number of at least 0");
    *out = number;
    return TARRY_OK;
}

static int take_text(const place *at, const char *key, char **out)
{
    const json_t *value = json_object_get(at->object, key);
    if (!json_is_string(value))
        return absent(at, key, value, "is not a text");
    size_t size = strlen(json_string_value(value)) + 1;
    *out = memory_allocate(NULL, size, 1);
    if (*out == NULL)
        return diagnose_no_memory(at->diagnostic, at->path);
    memcpy(*out, json_string_value(value), size);
    return TARRY_OK;
}

static int take_object(const place *at, const char *key, const char *prefix, place *out)
{
    const json_t *value = json_object_get(at->object, key);
    if (!json_is_object(value))
        return absent(at, key, value, "is not an object");
    *out = (place){at->path, prefix, value, at->diagnostic};
    return TARRY_OK;
}

static int take_list(const place *at, const char *key, const json_t **out)
{
    const json_t *value = json_object_get(at->object, key);
    if (!json_is_array(value))
        return absent(at, key, value, "is not a list");
    *out = value;
    return TARRY_OK;
}

static int read_worker(const place *at, double *seconds)
{
    double chunks = 0, total = 0;
    int error = take_number(at, "chunks", -1, &chunks);
    if (error == TARRY_OK)
        error = take_number(at, "seconds", -1, &total);
    const json_t *present = json_object_get(at->object, "present");
    if (error == TARRY_OK && !json_is_boolean(present))
        error = absent(at, "present", present, "is neither true nor false");
    if (error == TARRY_OK)
        *seconds = chunks > 0 && json_is_true(present) ? total / chunks : INFINITY;
    return error;
}

static int read_workers(const place *at, past_report *out)
{
    const json_t *list = NULL;
    int error = take_list(at, "workers", &list);
    if (error == TARRY_OK && json_array_size(list) != out->workers)
        error = wrong(at, "workers", "has not as many entries as 'plan.workers' says");
    if (error != TARRY_OK)
        return error;
    out->seconds = memory_allocate(NULL, out->workers, sizeof(*out->seconds));
    if (out->seconds == NULL)
        return diagnose_no_memory(at->diagnostic, at->path);
    double least = INFINITY;
    for (uint32_t i = 0; i < out->workers && error == TARRY_OK; i++) {
        char prefix[32];
        snprintf(prefix, sizeof(prefix), "workers[%u].", i);
        const place entry = {at->path, prefix, json_array_get(list, i), at->diagnostic};
        error = read_worker(&entry, &out->seconds[i]);
        least = fmin(least, out->seconds[i]);
    }
    if (error == TARRY_OK && isinf(least))
        error = wrong(at, "workers", "has none that was there at the end and finished anything");
    return error;
}

/* How fast coded parts came in, the median over the rounds that tell. */
static int read_rounds(const place *at, past_report *out)
{
    const json_t *list = NULL;
    int error = take_list(at, "rounds", &list);
    if (error != TARRY_OK)
        return error;
    size_t count = json_array_size(list), known = 0;
    double *rates = memory_allocate(NULL, count + 1, sizeof(*rates));
    if (rates == NULL)
        return diagnose_no_memory(at->diagnostic, at->path);
    for (size_t i = 0; i < count && error == TARRY_OK; i++) {
        char prefix[32];
        double seconds = 0, signal = 0, bytes = 0;
        snprintf(prefix, sizeof(prefix), "rounds[%zu].", i);
        const place entry = {at->path, prefix, json_array_get(list, i), at->diagnostic};
        error = take_number(&entry, "seconds", 0, &seconds);
        if (error == TARRY_OK)
            error = take_number(&entry, "signal_seconds", 0, &signal);
        if (error == TARRY_OK)
            error = take_number(&entry, "upload_bytes", 0, &bytes);
        if (error == TARRY_OK && signal > 0 && seconds > signal && bytes > 0)
            rates[known++] = bytes / (seconds - signal);
    }
    if (error == TARRY_OK)
        out->server_bandwidth = quantile_of(rates, known, 0.5);
    memory_release(NULL, rates);
    return error;
}

static int read_train(const place *at, past_report *out)
{
    place plan = {0};
    uint32_t units = 0;
    int error = take_object(at, "plan", "plan.", &plan);
    if (error == TARRY_OK)
        error = take_count(&plan, "workers", &out->workers);
    if (error == TARRY_OK)
        error = take_count(&plan, "chunks", &units);
    if (error == TARRY_OK)
        error = take_count(&plan, "pieces", &out->pieces);
    if (error == TARRY_OK && units % out->pieces != 0)
        error = wrong(&plan, "chunks", "is not a multiple of 'plan.pieces'");
    if (error == TARRY_OK)
        error = take_whole(at, "dimension", MOST_DIMENSION, &out->dimension);
    if (error == TARRY_OK)
        error = read_workers(at, out);
    if (error == TARRY_OK)
        error = read_rounds(at, out);
    if (error == TARRY_OK)
        out->chunks = units / out->pieces;
    return error;
}

static int read_simulate(const place *at, past_report *out)
{
    place config = {0};
    int error = take_object(at, "config", "config.", &config);
    if (error == TARRY_OK)
        error = take_count(&config, "workers", &out->workers);
    if (error == TARRY_OK)
        error = take_count(&config, "chunks", &out->chunks);
    if (error == TARRY_OK)
        error = take_whole(&config, "dimension", MOST_DIMENSION, &out->dimension);
    if (error == TARRY_OK)
        error = take_number(&config, "chunk-time", -1, &out->chunk_seconds);
    if (error == TARRY_OK)
        error = take_number(&config, "overhead", -1, &out->overhead);
    if (error == TARRY_OK)
        error = take_number(&config, "latency", -1, &out->latency);
    if (error == TARRY_OK)
        error = take_number(&config, "bandwidth", INFINITY, &out->bandwidth);
    if (error == TARRY_OK)
        error = take_number(&config, "server-bandwidth", INFINITY, &out->server_bandwidth);
    if (error == TARRY_OK)
        error = take_text(&config, "straggler", &out->straggler);
    if (error == TARRY_OK)
        error = take_text(&config, "chunk-cost", &out->chunk_cost);
    return error;
}

static int read_report(const place *at, past_report *out)
{
    if (!json_is_object(at->object))
        return diagnose(at->diagnostic, TARRY_ERROR_FORMAT, "%s: is not an object", at->path);
    const json_t *command = json_object_get(at->object, "command");
    const char *name = json_string_value(command);
    if (name != NULL && strcmp(name, "train") == 0)
        return read_train(at, out);
    if (name != NULL && strcmp(name, "simulate") == 0)
        return read_simulate(at, out);
    return absent(at, "command", command, "is neither train nor simulate");
}

int past_report_read(const char *path, past_report *out, tarry_diagnostic *diagnostic)
{
    past_report report = {
        .server_bandwidth = NAN,
        .bandwidth = NAN,
        .latency = NAN,
        .chunk_seconds = NAN,
        .overhead = NAN,
    };
    if (path == NULL) {
        *out = report;
        return TARRY_OK;
    }
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: %m", path);
    json_error_t fault;
    json_t *document = json_loadf(file, 0, &fault);
    fclose(file);
    if (document == NULL)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s:%d: %s", path, fault.line, fault.text);
    const place whole = {path, "", document, diagnostic};
    int error = read_report(&whole, &report);
    json_decref(document);
    if (error != TARRY_OK)
        past_report_free(&report);
    else
        *out = report;
    return error;
}

void past_report_free(past_report *report)
{
    memory_release(NULL, report->seconds);
    memory_release(NULL, report->straggler);
    memory_release(NULL, report->chunk_cost);
    *report = (past_report){0};
}
