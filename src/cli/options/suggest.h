/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

#include <stddef.h>

/*
 * The one of names[0..count-1] that `word` was most likely meant to be: the least edit distance
 * (insertions, deletions, substitutions and swaps of neighbours cost 1), at most a third of the
 * word's length, or at least 1; NULL if none is that near.
 */
const char *suggest(const char *word, const char *const *names, size_t count);

#endif
