/* SPDX-License-Identifier: Apache-2.0 */
/* Traces: CSV files of measured times, one line per (step, worker, chunk), in any order. */
#include "straggler/straggler.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/number.h"

/* A cell as its line gives it; the lines come before the size of the box is known. */
typedef struct cell {
    uint32_t index[3]; /* step, worker, chunk */
    float seconds;
} cell;

typedef struct reader {
    const char *path;
    FILE *file;
    const tarry_allocator *allocator;
    tarry_diagnostic *diagnostic;
    cell *cells;
    size_t count, room;
} reader;

/* Keeps the product of three sizes far from overflow. */
enum { MAX_INDEX = (1 << 20) - 1 };
static const char HEADER[] = "step,worker,chunk,seconds";

/* Reads a line without its end; *end says that there was none. */
static int read_line(reader *in, char *line, int size, size_t number, bool *end)
{
    *end = fgets(line, size, in->file) == NULL;
    if (*end) {
        if (ferror(in->file))
            return diagnose_file(in->diagnostic, in->path, errno);
        return TARRY_OK;
    }
    size_t length = strlen(line);
    if (length > 0 && line[length - 1] == '\n')
        line[--length] = '\0';
    else if (!feof(in->file))
        return diagnose(in->diagnostic, TARRY_ERROR_FORMAT, "%s:%zu: line too long", in->path,
                        number);
    if (length > 0 && line[length - 1] == '\r')
        line[length - 1] = '\0';
    return TARRY_OK;
}

static int parse_cell(reader *in, const char *line, size_t number, cell *out)
{
    static const char *const names[] = {"step", "worker", "chunk", "seconds"};
    for (unsigned field = 0; field < 4; field++) {
        size_t length = strcspn(line, ",");
        double value;
        if (!number_read(line, length, &value) || value < 0)
            return diagnose(in->diagnostic, TARRY_ERROR_FORMAT,
                            "%s:%zu: %s '%.*s' is not a number of 0 or more", in->path, number,
                            names[field], (int)length, line);
        if (field < 3) {
            if (value != floor(value) || value > MAX_INDEX)
                return diagnose(in->diagnostic, TARRY_ERROR_FORMAT,
                                "%s:%zu: %s '%.*s' is not a whole number up to %d", in->path,
                                number, names[field], (int)length, line, MAX_INDEX);
            out->index[field] = (uint32_t)value;
        } else {
            out->seconds = (float)fmin(value, FLT_MAX);
        }
        line += length;
        if ((*line == ',') != (field < 3))
            return diagnose(in->diagnostic, TARRY_ERROR_FORMAT, "%s:%zu: expected 4 fields: %s",
                            in->path, number, HEADER);
        line += field < 3;
    }
    return TARRY_OK;
}

static int keep_cell(reader *in, const cell *next)
{
    if (in->count == in->room) {
        size_t room = memory_room(in->room, in->count + 1, 256);
        cell *cells = memory_grow(in->allocator, in->cells, in->count, room, sizeof(*cells));
        if (cells == NULL)
            return diagnose_no_memory(in->diagnostic, in->path);
        in->cells = cells;
        in->room = room;
    }
    in->cells[in->count++] = *next;
    return TARRY_OK;
}

static int read_cells(reader *in)
{
    char line[256];
    bool end;
    int error = read_line(in, line, sizeof(line), 1, &end);
    if (error != TARRY_OK)
        return error;
    if (end || strcmp(line, HEADER) != 0)
        return diagnose(in->diagnostic, TARRY_ERROR_FORMAT, "%s:1: the header must be '%s'",
                        in->path, HEADER);
    for (size_t number = 2;; number++) {
        cell next;
        error = read_line(in, line, sizeof(line), number, &end);
        if (error != TARRY_OK)
            return error;
        if (end)
            break;
        error = parse_cell(in, line, number, &next);
        if (error == TARRY_OK)
            error = keep_cell(in, &next);
        if (error != TARRY_OK)
            return error;
    }
    if (in->count == 0)
        return diagnose(in->diagnostic, TARRY_ERROR_FORMAT, "%s: no lines after the header",
                        in->path);
    return TARRY_OK;
}

/*
 * Puts the cells in their places. A box of more cells than there are lines has a gap among its
 * first count + 1 cells, so that no more than these are ever looked at, however large an index is.
 */
static int fill_box(reader *in, trace *data)
{
    uint64_t box = (uint64_t)data->steps * data->workers * data->chunks;
    size_t size = box > in->count ? in->count + 1 : (size_t)box;
    data->seconds = memory_allocate(in->allocator, size, sizeof(*data->seconds));
    if (data->seconds == NULL)
        return diagnose_no_memory(in->diagnostic, in->path);
    for (size_t i = 0; i < size; i++)
        data->seconds[i] = NAN;
    for (size_t i = 0; i < in->count; i++) {
        const cell *from = &in->cells[i];
        uint64_t place =
            ((uint64_t)from->index[0] * data->workers + from->index[1]) * data->chunks +
            from->index[2];
        if (place >= size)
            continue;
        if (!isnan(data->seconds[place]))
            return diagnose(in->diagnostic, TARRY_ERROR_FORMAT,
                            "%s:%zu: step %u, worker %u, chunk %u stands twice", in->path, i + 2,
                            from->index[0], from->index[1], from->index[2]);
        data->seconds[place] = from->seconds;
    }
    for (size_t place = 0; place < size; place++)
        if (isnan(data->seconds[place]))
            return diagnose(in->diagnostic, TARRY_ERROR_FORMAT,
                            "%s: step %zu, worker %zu, chunk %zu is missing", in->path,
                            place / data->chunks / data->workers,
                            place / data->chunks % data->workers, place % data->chunks);
    return TARRY_OK;
}

int trace_read(const char *path, const tarry_allocator *allocator, trace **out,
               tarry_diagnostic *diagnostic)
{
    reader in = {.path = path, .allocator = allocator, .diagnostic = diagnostic};
    int error;
    trace *data = memory_allocate(allocator, 1, sizeof(*data));
    if (data == NULL)
        return diagnose_no_memory(diagnostic, path);
    in.file = fopen(path, "re");
    if (in.file == NULL) {
        error = diagnose_file(diagnostic, path, errno);
        goto free_data;
    }
    error = read_cells(&in);
    if (error != TARRY_OK)
        goto close_file;
    for (size_t i = 0; i < in.count; i++) {
        uint32_t *const sizes[] = {&data->steps, &data->workers, &data->chunks};
        for (unsigned field = 0; field < 3; field++)
            if (in.cells[i].index[field] >= *sizes[field])
                *sizes[field] = in.cells[i].index[field] + 1;
    }
    error = fill_box(&in, data);
    if (error == TARRY_OK)
        *out = data;

close_file:
    memory_release(allocator, in.cells);
    fclose(in.file);
free_data:
    if (error != TARRY_OK)
        trace_free(data, allocator);
    return error;
}

void trace_free(trace *data, const tarry_allocator *allocator)
{
    if (data == NULL)
        return;
    memory_release(allocator, data->seconds);
    memory_release(allocator, data);
}

double trace_seconds(const trace *data, uint64_t step, uint32_t worker, uint32_t chunk)
{
    size_t row = (size_t)(step % data->steps) * data->workers + worker % data->workers;
    return (double)data->seconds[row * data->chunks + chunk % data->chunks];
}

double trace_pair_seconds(const trace *data, uint64_t step, uint32_t pair)
{
    size_t pairs = (size_t)data->workers * data->chunks;
    return (double)data->seconds[(size_t)(step % data->steps) * pairs + pair % pairs];
}
