/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of something large, in any order and of any sizes: what is taken is what a plain account
 * of them says, the bytes are where they belong, and no more memory is held than what came asks
 * for.
 */
#include <string.h>

#include "fuzz_input.h"
#include "runtime/tcp/net/channel_in.h"

enum { LEAST_HELD = 4096, MOST_PIECE = 1 << 10 };

/* What is there, by the pieces alone. */
typedef struct account {
    bool begun;
    uint64_t size, total;
} account;

static uint8_t byte_at(uint64_t place)
{
    return (uint8_t)(place * 167 + (place >> 8));
}

static uint64_t take_number(input *in)
{
    uint64_t number = 0;
    for (int i = 0; i < 8; i++)
        number |= (uint64_t)take(in) << 8 * i;
    return number;
}

/* One that is near what follows, or any. */
static uint64_t draw(input *in, uint64_t near)
{
    uint8_t how = take(in);
    if (how < 0xa0)
        return near;
    if (how < 0xf0)
        return near + how % 4 - 2;
    return take_number(in);
}

static bool follows(account *its, uint64_t first, uint64_t count, uint64_t total)
{
    if (first == 0)
        *its = (account){.begun = true, .total = total};
    return its->begun && total == its->total && total <= ASSEMBLY_MOST_BYTES &&
           first == its->size && count <= total - first;
}

static void take_piece(input *in, assembly *own, account *its)
{
    uint8_t how = take(in);
    uint64_t first = (how & 0xf0) == 0 ? 0 : draw(in, its->size);
    uint64_t total = first == 0 ? take_number(in) >> how % 64 : draw(in, its->total);
    uint64_t count = take(in);
    count = draw(in, (count << take(in) % 9) % (MOST_PIECE + 1));
    count += count == 0;
    bool right = follows(its, first, count, total);
    /* One that is taken may be as long as the whole: it is not tried, for the time it takes. */
    if (right && count > MOST_PIECE)
        count = MOST_PIECE;
    uint8_t *place = assembly_reserve(own, first, count, total, NULL);
    require((place != NULL) == right);
    if (!right)
        return;
    for (uint64_t i = 0; i < count; i++)
        place[i] = byte_at(first + i);
    its->size += count;
    require(assembly_add(own, count) == (its->size == its->total));
    require(own->size == its->size);
    require(own->room <= LEAST_HELD || own->room <= 2 * its->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.data = data, .left = size};
    assembly own = {0};
    account its = {0};
    while (in.left > 0)
        take_piece(&in, &own, &its);
    for (uint64_t i = 0; i < own.size; i++)
        require(own.bytes[i] == byte_at(i));
    assembly_clear(&own, NULL);
    return 0;
}
