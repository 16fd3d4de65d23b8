/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/cut.h"

enum { LINE = 16, BLOCK = 1024 };

static size_t smaller(size_t one, size_t other)
{
    return one < other ? one : other;
}

bool cut_make(const tarry_engine_sum *sum, uint32_t members, size_t most, cut *made)
{
    size_t part = (sum->dimension - 1) / sum->parts + 1;
    if (sum->whole > 0 && (sum->whole % LINE != 0 || sum->whole + sum->parts > part))
        return false;
    size_t rest = sum->dimension - sum->parts * sum->whole;
    size_t length = most / LINE * LINE * members;
    *made = (cut){
        .dimension = rest,
        .part_length = (rest - 1) / sum->parts + 1,
        .whole = sum->whole,
        .stride = part,
        .parts = sum->parts,
        .members = members,
        .stripe_length = length,
    };
    made->stripes = (uint32_t)((made->part_length - 1) / length + 1);
    return true;
}

/* Lines before the share at `place`: the first lines % members shares have one more. */
static size_t lines_before(size_t lines, uint32_t members, uint32_t place)
{
    return lines / members * place + smaller(lines % members, place);
}

cut_share cut_share_of(const cut *self, uint32_t stripe, uint32_t place)
{
    size_t start = stripe * self->stripe_length;
    size_t length = smaller(self->stripe_length, self->part_length - start);
    size_t lines = (length + LINE - 1) / LINE;
    size_t begin = smaller(lines_before(lines, self->members, place) * LINE, length);
    size_t end = smaller(lines_before(lines, self->members, place + 1) * LINE, length);
    return (cut_share){start + begin, end - begin};
}

size_t cut_exists(const cut *self, uint32_t part, cut_share of)
{
    size_t place = part * self->part_length + of.first;
    return place < self->dimension ? smaller(of.length, self->dimension - place) : 0;
}

size_t cut_numbers(const cut *self, cut_share of)
{
    size_t numbers = 0;
    for (uint32_t part = 0; part < self->parts; part++)
        numbers += cut_exists(self, part, of);
    return numbers;
}

size_t cut_place(const cut *self, uint32_t part, cut_share of)
{
    return part * self->stride + self->whole + of.first;
}

void cut_add(float *restrict out, const float *restrict in, float weight, size_t length)
{
    for (size_t x = 0; x < length; x++)
        out[x] += weight * in[x];
}

/* A block at a time, which stays in the first cache. */
void cut_combine(float *out, const float *const *in, const float *weights, uint32_t terms,
                 size_t length)
{
    for (size_t begin = 0; begin < length; begin += BLOCK) {
        size_t some = smaller(BLOCK, length - begin);
        for (size_t x = begin; x < begin + some; x++)
            out[x] = terms > 0 ? weights[0] * in[0][x] : 0;
        for (uint32_t t = 1; t < terms; t++)
            cut_add(out + begin, in[t] + begin, weights[t], some);
    }
}
