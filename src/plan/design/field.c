/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/design/field.h"

#include <assert.h>

#include <tarry/error.h>

#include "base/memory.h"

#define MOST_ORDER (UINT32_C(1) << 15)

struct field {
    tarry_allocator allocator;
    uint32_t order;  /* q */
    uint32_t prime;  /* p */
    uint32_t *power; /* order - 1: the powers of the generator x */
    uint32_t *log;   /* order: the exponents that belong to them; 0 has none */
};

static uint32_t least_divisor(uint32_t number)
{
    for (uint32_t divisor = 2; (uint64_t)divisor * divisor <= number; divisor++)
        if (number % divisor == 0)
            return divisor;
    return number;
}

bool field_exists(uint32_t order)
{
    if (order < 2)
        return false;
    uint32_t prime = least_divisor(order);
    while (order % prime == 0)
        order /= prime;
    return order == 1;
}

uint32_t field_order(const field *state)
{
    return state->order;
}

uint32_t field_add(const field *state, uint32_t a, uint32_t b)
{
    uint32_t sum = 0;
    for (uint32_t place = 1; place < state->order; place *= state->prime) {
        sum += (a + b) % state->prime * place;
        a /= state->prime;
        b /= state->prime;
    }
    return sum;
}

uint32_t field_subtract(const field *state, uint32_t a, uint32_t b)
{
    uint32_t difference = 0;
    for (uint32_t place = 1; place < state->order; place *= state->prime) {
        difference += (a % state->prime + state->prime - b % state->prime) % state->prime * place;
        a /= state->prime;
        b /= state->prime;
    }
    return difference;
}

uint32_t field_multiply(const field *state, uint32_t a, uint32_t b)
{
    if (a == 0 || b == 0)
        return 0;
    return state->power[(state->log[a] + state->log[b]) % (state->order - 1)];
}

/* x times `element`, where x^n equals `remainder`. */
static uint32_t times_x(const field *state, uint32_t element, uint32_t remainder)
{
    uint32_t top_place = state->order / state->prime;
    uint32_t product = element % top_place * state->prime;
    for (uint32_t top = element / top_place; top > 0; top--)
        product = field_add(state, product, remainder);
    return product;
}

/*
 * Fills the powers of x, given x^n; false if they come back to 1 too early, or not at all. If they
 * are q - 1 different ones, then every polynomial but 0 is a power of x and has an inverse, so that
 * this is the field. With n = 1, x is the number `remainder` itself.
 */
static bool fill_powers(field *state, uint32_t remainder)
{
    uint32_t element = 1;
    for (uint32_t exponent = 0; exponent < state->order - 1; exponent++) {
        if (element == 0 || (exponent > 0 && element == 1))
            return false;
        state->power[exponent] = element;
        state->log[element] = exponent;
        element = times_x(state, element, remainder);
    }
    return element == 1;
}

int field_create(uint32_t order, const tarry_allocator *allocator, field **out)
{
    assert(field_exists(order) && order <= MOST_ORDER);
    field *state = memory_allocate(allocator, 1, sizeof(*state));
    if (state == NULL)
        return TARRY_ERROR_NO_MEMORY;
    state->allocator = memory_allocator(allocator);
    state->order = order;
    state->prime = least_divisor(order);
    state->power = memory_allocate(allocator, order - 1, sizeof(*state->power));
    state->log = memory_allocate(allocator, order, sizeof(*state->log));
    if (state->power == NULL || state->log == NULL) {
        field_free(state);
        return TARRY_ERROR_NO_MEMORY;
    }
    uint32_t remainder = 1;
    while (!fill_powers(state, remainder))
        remainder++;
    *out = state;
    return TARRY_OK;
}

void field_free(field *state)
{
    if (state == NULL)
        return;
    const tarry_allocator allocator = state->allocator;
    memory_release(&allocator, state->power);
    memory_release(&allocator, state->log);
    memory_release(&allocator, state);
}
