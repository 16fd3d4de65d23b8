/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text/shape.h"

#include <inttypes.h>
#include <stdio.h>

void shape_text(tarry_shape shape, char text[SHAPE_TEXT_SIZE])
{
    text[0] = '\0';
    if (shape.kind == TARRY_SHAPE_DIRECT)
        snprintf(text, SHAPE_TEXT_SIZE, "direct");
    else if (shape.kind == TARRY_SHAPE_TREE)
        snprintf(text, SHAPE_TEXT_SIZE, "tree");
    else if (shape.kind == TARRY_SHAPE_GRID)
        snprintf(text, SHAPE_TEXT_SIZE, "grid of %" PRIu32 " rows", shape.rows);
}
