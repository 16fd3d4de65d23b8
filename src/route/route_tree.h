/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two binary trees over the same seats (P. Sanders, J. Speck, J. L. Träff: Two-tree algorithms for
 * full bandwidth broadcast, reduction and scan. Parallel Computing 35 (2009)), laid by the bits of
 * the seats' numbers: in the first one the odd seats have no children. The second is its mirror
 * image where the seats are even in number, else the same one seat further on.
 */
#ifndef ROUTE_ROUTE_TREE_H
#define ROUTE_ROUTE_TREE_H

#include <stdint.h>

enum { ROUTE_TREES = 2, ROUTE_CHILDREN = 2 };

/* ROUTE_NOBODY: it is the root. */
uint32_t route_tree_parent(uint32_t count, uint32_t tree, uint32_t seat);
/* How many there are, in children[0..1]. */
uint32_t route_tree_children(uint32_t count, uint32_t tree, uint32_t seat,
                             uint32_t children[ROUTE_CHILDREN]);
/* Edges from the root to the seat that is furthest from it. */
uint32_t route_tree_depth(uint32_t count);

#endif
