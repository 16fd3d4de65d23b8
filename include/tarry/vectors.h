/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners of vectors. A worker names vectors by *places*, which are numbers from 0 on, and an owner
 * does what is done with all of a vector: it adds vectors up, digests a sum, copies numbers. Where
 * the numbers are is the owner's business. The library's own owner holds them in host memory; one
 * that keeps them on a graphics processor, beside the model, need not have them in host memory at
 * all.
 *
 * A worker has TARRY_PLACE_SUM for the sum if workers make it (TARRY_SUM_EVERYWHERE), and one place
 * each for its running sum, the gradient in progress and those that wait for the server's answer.
 * Tasks name the place of their gradient (tarry_task.place), and sums those of part and sum
 * (tarry_engine_sum). The numbers of a sum, and of the part that it is made of, do not change while
 * an engine works on it.
 */
#ifndef TARRY_VECTORS_H
#define TARRY_VECTORS_H

#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the numbers of vectors are. All members of a run have the same. */
typedef enum tarry_element {
    TARRY_ELEMENT_FLOAT32,
    TARRY_ELEMENT_FLOAT64,
} tarry_element;

#define TARRY_PLACE_SUM 0
#define TARRY_NO_PLACE UINT32_MAX

typedef struct tarry_vectors tarry_vectors;

/*
 * The functions of an owner. Threads of the worker call them, several at a time: but none while
 * another one writes to a place that it reads or writes. What a call has written is there for every
 * call that begins after it has returned, whatever its thread; a device may carry it out later.
 * Every error but those of `reserve` ends the worker.
 */
typedef struct tarry_vectors_methods {
    const char *name; /* "host" */
    /*
     * Makes room for the places 0 .. places - 1, of `dimension` numbers each, >= 1. Places that are
     * there with the same dimension and element stay as they are, with what `host` gave, even while
     * they are in use; what new ones hold is of any kind. Fewer places than there are: nothing
     * happens. Another dimension or element: all is made anew, and no other call is in progress.
     * Memory may be taken when a place is first written to: workers take low places first. Errors:
     * NO_MEMORY, ARGUMENT (an element that it does not have), others; what was there is there then.
     */
    int (*reserve)(tarry_vectors *vectors, uint32_t places, size_t dimension,
                   tarry_element element);
    /*
     * into = base + coefficients[0] * places[0] + .. + coefficients[count - 1] * places[count - 1],
     * number by number and in this order, in one pass over the memory. Each term is rounded to the
     * element type when it is added; whether its product is rounded before is the owner's choice
     * (a coefficient of 1 leaves none). base: `into`, any other place, or TARRY_NO_PLACE: zeros.
     * `into` is none of the places; these may repeat. count 0: `into` becomes `base`, or zeros.
     */
    int (*combine)(tarry_vectors *vectors, uint32_t into, uint32_t base, const uint32_t *places,
                   const float *coefficients, uint32_t count);
    /* The digest of all of a place as the sum of `step` (docs/wire.md, "The digest of a vector"):
     * for the same numbers the same with every owner. */
    int (*digest)(tarry_vectors *vectors, uint32_t place, uint64_t step, uint64_t *digest);
    /* Copies numbers first .. first + count - 1 of a place from or to host memory. */
    int (*read)(tarry_vectors *vectors, uint32_t place, size_t first, size_t count, void *numbers);
    int (*write)(tarry_vectors *vectors, uint32_t place, size_t first, size_t count,
                 const void *numbers);
    /* Where all numbers of a place are in host memory, until the owner is freed or the dimension
     * changes; aligned for the element. NULL, as a method: they are not in host memory. */
    void *(*host)(tarry_vectors *vectors, uint32_t place);
    void (*free)(tarry_vectors *vectors);
} tarry_vectors_methods;

/* What every owner begins with. */
struct tarry_vectors {
    const tarry_vectors_methods *methods;
};

/*
 * The library's own owner: host memory of the allocator, which lies at cache lines. Memory that was
 * not written to takes none where the allocator gives it so. All float32 arithmetic is that of the
 * library's kernels. Its `free` releases it. Errors: NO_MEMORY.
 */
TARRY_API int tarry_host_vectors_create(const tarry_allocator *allocator, tarry_vectors **vectors);

#ifdef __cplusplus
}
#endif

#endif
