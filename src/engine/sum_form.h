/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forms of numbers in a sum (compress/compress.h): each number of a coded part is rounded once
 * on its way to the member that sums it, and each of the sum once on its way back. What is a
 * member's own is not on the way to it; the sum is, at all members, what is sent of it.
 */
#ifndef ENGINE_SUM_FORM_H
#define ENGINE_SUM_FORM_H

#include <tarry/sum_form.h>

#include "compress/compress.h"

typedef struct sum_forms {
    compress_form up, down; /* of coded parts, and of the sum: of a whole part */
    uint64_t seed, step;
    uint32_t worker; /* that rounds */
    size_t whole;    /* numbers that stand before the first one */
} sum_forms;

/* Those of a sum of `count` members, by one of them; one alone sends nothing. `rest` is what is
 * left of it (share_rest). Errors: ARGUMENT (a form with feedback, or one of several parts). */
int sum_forms_of(const tarry_engine_sum *rest, uint32_t count, uint32_t worker, sum_forms *forms);

/* The form of numbers first .. first + count - 1 of a part of `length`. */
compress_form sum_form_of(const sum_forms *forms, tarry_way way, size_t length, size_t first,
                          size_t count);
static inline bool sum_form_rounds(const sum_forms *forms, tarry_way way)
{
    return (way == TARRY_WAY_UP ? &forms->up : &forms->down)->kind != TARRY_COMPRESS_NONE;
}

/* Writes numbers from `first` on, of a part of `length`, as they are sent: by the seed, the step,
 * the worker and the place, so that an attempt that is made again, or a run that is resumed, rounds
 * in the same way. */
void sum_form_encode(const sum_forms *forms, tarry_way way, size_t length, size_t first,
                     size_t count, const float *numbers, uint8_t *bytes);
/* The numbers as they come. */
void sum_form_decode(compress_form form, const uint8_t *bytes, size_t count, float *numbers);

#endif
