/* SPDX-License-Identifier: Apache-2.0 */
/* What every owner of vectors has to do (tarry/vectors.h), and one to try it on. */
#ifndef TEST_VECTORS_CASE_H
#define TEST_VECTORS_CASE_H

#include <tarry/vectors.h>

/* Holds the owner to double loops and to the definition of the digest, in vectors of many lengths.
 * Its vectors are another owner's then. */
void vectors_conform(tarry_vectors *vectors, tarry_element element);

/* An owner whose vectors are in no host memory: its numbers lie in another order, negated. float32
 * and float64. Its `free` releases it. Errors: NO_MEMORY. */
int far_vectors_create(const tarry_allocator *allocator, tarry_vectors **vectors);

#endif
