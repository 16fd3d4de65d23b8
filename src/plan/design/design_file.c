/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/design/design.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"

enum { FIRST_CAPACITY = 1024 };

typedef struct reader {
    tarry_plan *plan;
    FILE *stream;
    const char *name;
    tarry_diagnostic *diagnostic;
    uint32_t line;       /* the present line, from 1 */
    uint32_t worker;     /* whom the present line is about */
    uint32_t edges;      /* read so far into plan->slot_chunk */
    size_t capacity;     /* of plan->slot_chunk */
    uint32_t *last_line; /* chunks: the last line that lists the chunk, 0 if none does */
    uint32_t *holders;   /* chunks: how many lines list the chunk */
} reader;

static int next_character(reader *in)
{
    return getc_unlocked(in->stream);
}

static int out_of_memory(reader *in)
{
    return diagnose_no_memory(in->diagnostic, in->name);
}

/* Doubles the room of plan->slot_chunk. */
static int grow(reader *in)
{
    const tarry_allocator *allocator = &in->plan->allocator;
    size_t capacity = memory_room(in->capacity, (size_t)in->edges + 1, FIRST_CAPACITY);
    uint32_t *slots =
        memory_grow(allocator, in->plan->slot_chunk, in->edges, capacity, sizeof(*slots));
    if (slots == NULL)
        return out_of_memory(in);
    in->plan->slot_chunk = slots;
    in->capacity = capacity;
    return TARRY_OK;
}

static int add_chunk(reader *in, uint64_t chunk)
{
    if (chunk >= in->plan->chunks)
        return diagnose(in->diagnostic, TARRY_ERROR_FORMAT,
                        "%s:%u: chunk %llu is not among the chunks 0 to %u", in->name, in->line,
                        (unsigned long long)chunk, in->plan->chunks - 1);
    if (in->last_line[chunk] == in->line)
        return diagnose(in->diagnostic, TARRY_ERROR_FORMAT, "%s:%u: chunk %u is listed twice",
                        in->name, in->line, (uint32_t)chunk);
    uint32_t most = PLAN_MAX_EDGES / in->plan->pieces;
    if (in->edges == most)
        return diagnose(in->diagnostic, TARRY_ERROR_FORMAT,
                        "%s:%u: the file lists more than %u copies", in->name, in->line, most);
    if (in->edges == in->capacity) {
        int error = grow(in);
        if (error != TARRY_OK)
            return error;
    }
    in->last_line[chunk] = in->line;
    in->holders[chunk]++;
    in->plan->slot_chunk[in->edges++] = (uint32_t)chunk;
    return TARRY_OK;
}

static bool is_digit(int character)
{
    return character >= '0' && character <= '9';
}

static bool is_space(int character)
{
    return character == ' ' || character == '\t' || character == '\r' || character == ',';
}

static bool ends_line(int character)
{
    return character == '\n' || character == EOF;
}

/* Reads the number that begins with *character, and leaves there what follows it. */
static uint64_t read_number(reader *in, int *character)
{
    uint64_t number = 0;
    for (; is_digit(*character); *character = next_character(in))
        if (number <= UINT32_MAX) /* beyond, it is too large in any case */
            number = number * 10 + (uint64_t)(*character - '0');
    return number;
}

/* Reads a line of chunks from `character` on. */
static int read_worker(reader *in, int *character)
{
    tarry_plan *plan = in->plan;
    if (in->worker == plan->workers)
        return diagnose(in->diagnostic, TARRY_ERROR_FORMAT, "%s:%u: the plan has only %u workers",
                        in->name, in->line, plan->workers);
    bool idle = *character == '-'; /* the sign of a worker without chunks */
    if (idle)
        *character = next_character(in);
    while (!ends_line(*character) && *character != '#') {
        if (is_digit(*character) && !idle) {
            int error = add_chunk(in, read_number(in, character));
            if (error != TARRY_OK)
                return error;
            if (is_space(*character) || ends_line(*character) || *character == '#')
                continue;
        } else if (is_space(*character)) {
            *character = next_character(in);
            continue;
        }
        if (*character > ' ' && *character <= '~')
            return diagnose(in->diagnostic, TARRY_ERROR_FORMAT,
                            "%s:%u: '%c' where a chunk's number should be", in->name, in->line,
                            *character);
        return diagnose(in->diagnostic, TARRY_ERROR_FORMAT,
                        "%s:%u: byte 0x%02x where a chunk's number should be", in->name, in->line,
                        (unsigned)*character);
    }
    plan->worker_offset[++in->worker] = in->edges;
    return TARRY_OK;
}

static int read_lines(reader *in)
{
    int character;
    do {
        in->line++;
        character = next_character(in);
        while (is_space(character))
            character = next_character(in);
        if (!ends_line(character) && character != '#') {
            int error = read_worker(in, &character);
            if (error != TARRY_OK)
                return error;
        }
        while (!ends_line(character))
            character = next_character(in);
    } while (character != EOF);
    if (ferror(in->stream))
        return diagnose_file(in->diagnostic, in->name, errno);
    return TARRY_OK;
}

static int check_completeness(const reader *in)
{
    const tarry_plan *plan = in->plan;
    if (in->worker < plan->workers)
        return diagnose(in->diagnostic, TARRY_ERROR_FORMAT,
                        "%s:%u: the file ends after %u of the %u workers", in->name, in->line,
                        in->worker, plan->workers);
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        if (in->holders[chunk] == 0)
            return diagnose(in->diagnostic, TARRY_ERROR_FORMAT, "%s: no worker holds chunk %u",
                            in->name, chunk);
        if (in->holders[chunk] < plan->parts)
            return diagnose(in->diagnostic, TARRY_ERROR_FORMAT,
                            "%s: chunk %u has a replication of %u, less than the %u parts",
                            in->name, chunk, in->holders[chunk], plan->parts);
    }
    return TARRY_OK;
}

int design_file(tarry_plan *plan, const char *name, tarry_diagnostic *diagnostic)
{
    const tarry_allocator *allocator = &plan->allocator;
    reader in = {.plan = plan, .name = name, .diagnostic = diagnostic};
    in.stream = fopen(name, "r");
    if (in.stream == NULL)
        return diagnose_file(diagnostic, name, errno);
    in.last_line = memory_allocate(allocator, plan->chunks, sizeof(*in.last_line));
    in.holders = memory_allocate(allocator, plan->chunks, sizeof(*in.holders));
    int error = in.last_line != NULL && in.holders != NULL ? TARRY_OK : out_of_memory(&in);
    if (error == TARRY_OK)
        error = read_lines(&in);
    if (error == TARRY_OK)
        error = check_completeness(&in);
    memory_release(allocator, in.holders);
    memory_release(allocator, in.last_line);
    fclose(in.stream);
    return error;
}
