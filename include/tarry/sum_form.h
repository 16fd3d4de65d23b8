/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of a sum in fewer bytes, for engines (engine.h; docs/compression.md). Each number of a
 * coded part is rounded once on its way to the member that sums it, and each of the sum once on its
 * way back to all. What a member sums itself of its own part is on no way, and is not rounded; of
 * the sum all have what was sent, who sent it, too. A member that is alone sends nothing, and
 * rounds nothing.
 *
 * All are functions of what they are given: of the sum its dimension, its name's step and its
 * forms. So an attempt that is made again, or a run that is resumed, rounds in the same way.
 * Numbers have the places that they have in the sum, which has one part where it has a form.
 */
#ifndef TARRY_SUM_FORM_H
#define TARRY_SUM_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/api.h>
#include <tarry/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether numbers are on the way to those who sum them, or back. */
typedef enum tarry_way { TARRY_WAY_UP, TARRY_WAY_DOWN } tarry_way;

/* Whether numbers can be in the sum's forms. Errors: ARGUMENT (a form with feedback, or one of
 * several parts). */
TARRY_API int tarry_sum_form_check(const tarry_engine_sum *sum);
/* Whether they travel that way in another form than float32. */
TARRY_API bool tarry_sum_form_rounds(const tarry_engine_sum *sum, tarry_way way);
/* The bytes of numbers first .. first + count - 1 on that way. */
TARRY_API size_t tarry_sum_form_bytes(const tarry_engine_sum *sum, tarry_way way, size_t first,
                                      size_t count);
/* Writes numbers from `first` on, a multiple of 16, as `worker` sends them: so many bytes. */
TARRY_API void tarry_sum_form_encode(const tarry_engine_sum *sum, tarry_way way, uint32_t worker,
                                     size_t first, size_t count, const float *numbers, void *bytes);
/* The numbers that they are. Any bytes are numbers. */
TARRY_API void tarry_sum_form_decode(const tarry_engine_sum *sum, tarry_way way, size_t first,
                                     size_t count, const void *bytes, float *numbers);

#ifdef __cplusplus
}
#endif

#endif
