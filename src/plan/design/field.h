/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finite fields GF(q), q = p^n. The element 0 <= e < q stands for the polynomial over GF(p) whose
 * coefficients are e's digits to the base p, lowest first; so 0 and 1 are the field's zero and one.
 * Products are those modulo a primitive polynomial of degree n, the first one in ascending order of
 * its coefficients as such a number (R. Lidl, H. Niederreiter, Finite fields, chapter 3.1).
 */
#ifndef PLAN_FIELD_H
#define PLAN_FIELD_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/allocator.h>

typedef struct field field;

/* Whether q is a power p^n of a prime, n >= 1; 0 and 1 are none. */
bool field_exists(uint32_t order);

/*
 * field_exists(order), order <= 2^15. The caller owns *out. Takes 8 bytes per element, and about
 * order^2 steps at most. Errors: NO_MEMORY.
 */
int field_create(uint32_t order, const tarry_allocator *allocator, field **out);
void field_free(field *state); /* NULL is allowed */

uint32_t field_order(const field *state);
/* The operands are 0..order-1. */
uint32_t field_add(const field *state, uint32_t a, uint32_t b);
uint32_t field_subtract(const field *state, uint32_t a, uint32_t b);
uint32_t field_multiply(const field *state, uint32_t a, uint32_t b);

#endif
