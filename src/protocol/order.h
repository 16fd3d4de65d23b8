/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker computes next: the rule by which every worker goes, and by which the server knows
 * what each will do.
 */
#ifndef PROTOCOL_ORDER_H
#define PROTOCOL_ORDER_H

#include "base/bitset.h"

/* Sets of one bit per position of a worker's order. */
typedef struct order_sets {
    uint32_t load;
    const uint64_t *done, *failed; /* finished, and impossible */
    const uint64_t *first;         /* to be computed before the others */
    const uint64_t *barred;        /* no copy is wanted */
} order_sets;

/*
 * The first position that is neither finished nor impossible nor barred, of those in `first` as
 * long as there is one, else of all; load if there is none.
 */
static inline uint32_t order_next(const order_sets *of)
{
    uint32_t any = of->load;
    for (uint32_t word = 0; word < bitset_words(of->load); word++) {
        uint64_t open = ~(of->done[word] | of->failed[word] | of->barred[word]);
        uint64_t preferred = open & of->first[word];
        if (preferred != 0) {
            uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(preferred);
            if (slot < of->load)
                return slot;
        }
        if (open != 0 && any == of->load)
            any = word * 64 + (uint32_t)__builtin_ctzll(open);
    }
    return any < of->load ? any : of->load;
}

#endif
