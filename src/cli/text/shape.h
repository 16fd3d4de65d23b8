/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SHAPE_H
#define CLI_SHAPE_H

#include <tarry/shape.h>

#define SHAPE_TEXT_SIZE 32

/* "direct", "tree", "grid of 3 rows"; nothing of one that was not chosen. */
void shape_text(tarry_shape shape, char text[SHAPE_TEXT_SIZE]);

#endif
