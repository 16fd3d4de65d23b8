/* SPDX-License-Identifier: Apache-2.0 */
#include "route/route_cost.h"

#include <assert.h>
#include <math.h>

#include "route/route_tree.h"

enum { NUMBER_BYTES = 4 };
static const double ns_per_s = 1e9;

route_links route_links_usual(void)
{
    return (route_links){.latency_ns = 25e3, .bytes_per_second = 1.25e9, .message_ns = 3e3};
}

size_t route_stripe_length(const route *of)
{
    size_t slices = of->shape.kind == TARRY_SHAPE_TREE ? ROUTE_TREES : route_columns_least(of);
    return slices * ROUTE_BLOCK_NUMBERS;
}

uint32_t route_hops(const route *of)
{
    if (of->count == 1)
        return 0;
    if (of->shape.kind == TARRY_SHAPE_TREE)
        return 2 * route_tree_depth(of->count);
    return of->shape.kind == TARRY_SHAPE_GRID ? 4 : 2;
}

/* ---- bytes ---- */

/* Numbers that one of a row of `columns` sends, of d in l parts. */
static double sent_by(double columns, double rows, double d, double l)
{
    double in_row = (1 + 1 / l) * d * (columns - 1) / columns;
    return in_row + 2 * d / columns * (rows - 1) / rows;
}

double route_bytes(const route *of, double dimension, uint32_t parts)
{
    double l = parts, d = dimension;
    if (of->count == 1)
        return 0;
    if (of->shape.kind == TARRY_SHAPE_TREE)
        return NUMBER_BYTES * d * (3 + 1 / l) / 2;
    double rows = of->shape.kind == TARRY_SHAPE_GRID ? of->shape.rows : 1;
    return NUMBER_BYTES * fmax(sent_by(route_columns(of), rows, d, l),
                               sent_by(route_columns_least(of), rows, d, l));
}

/* ---- messages ---- */

static double whole_above(double number)
{
    return fmax(1, ceil(number));
}

/* Messages that pass through the one who has `lines` lines of each part to share with so many
 * others, who may have none: `up` to it from each and `down` to each of its own, and the other way
 * of theirs. */
static double exchanged(double members, double lines, double up, double down)
{
    double owners = fmin(members, lines);
    return (up + down) * (members - 1 + owners - 1);
}

static double messages_of_a_stripe(const route *of, double lines, double l)
{
    double columns = route_columns(of);
    if (of->shape.kind == TARRY_SHAPE_TREE) /* children, parent; up, down; own leaf's way */
        return (2 + 1) * (l + l) + 1 + l;
    double in_row = exchanged(columns, lines, 1, l);
    if (of->shape.kind != TARRY_SHAPE_GRID)
        return in_row;
    return in_row + exchanged(of->shape.rows, whole_above(lines / columns), l, l);
}

double route_time_ns(const route *of, double dimension, uint32_t parts, const route_links *links)
{
    double l = parts, part_length = whole_above(dimension / l);
    double stripe_length = fmin((double)route_stripe_length(of), part_length);
    double stripes = whole_above(part_length / (double)route_stripe_length(of));
    double byte_ns = ns_per_s / links->bytes_per_second;
    double messages =
        stripes * messages_of_a_stripe(of, whole_above(stripe_length / ROUTE_LINE), l);
    double filling = 0;
    if (of->count == 1)
        return 0;
    if (of->shape.kind == TARRY_SHAPE_TREE) {
        /* Two children one after the other, level by level, up and down; its own is counted. */
        double levels = 2.0 * route_tree_depth(of->count) - 2;
        double block_bytes = stripe_length / ROUTE_TREES * NUMBER_BYTES * l;
        filling = levels * 2 * (block_bytes * byte_ns + l * links->message_ns);
    }
    return route_hops(of) * links->latency_ns + messages * links->message_ns +
           route_bytes(of, dimension, parts) * byte_ns + filling;
}

/* ---- the choice ---- */

typedef struct choice {
    uint32_t count, parts;
    double dimension;
    const route_links *links;
    tarry_shape best;
    double best_ns;
} choice;

static double time_of(const choice *from, tarry_shape shape)
{
    const route of = {shape, from->count};
    return route_time_ns(&of, from->dimension, from->parts, from->links);
}

static void weigh(choice *from, tarry_shape shape)
{
    if (!route_is_legal(shape, from->count))
        return;
    double ns = time_of(from, shape);
    if (ns < from->best_ns) {
        from->best = shape;
        from->best_ns = ns;
    }
}

tarry_shape route_choose(tarry_shape_kind kind, uint32_t count, double dimension, uint32_t parts,
                         const route_links *links, tarry_shape present)
{
    choice from = {
        .count = count,
        .parts = parts,
        .dimension = dimension,
        .links = links,
        .best = {TARRY_SHAPE_DIRECT, 0},
        .best_ns = INFINITY,
    };
    assert(count > 0 && parts > 0 && links->bytes_per_second > 0);
    if (kind == TARRY_SHAPE_AUTO || kind == TARRY_SHAPE_DIRECT)
        weigh(&from, (tarry_shape){TARRY_SHAPE_DIRECT, 0});
    if (kind == TARRY_SHAPE_AUTO || kind == TARRY_SHAPE_TREE)
        weigh(&from, (tarry_shape){TARRY_SHAPE_TREE, 0});
    if (kind == TARRY_SHAPE_AUTO || kind == TARRY_SHAPE_GRID)
        for (uint32_t rows = 2; rows <= count / 2; rows++)
            weigh(&from, (tarry_shape){TARRY_SHAPE_GRID, rows});
    bool stays = (kind == TARRY_SHAPE_AUTO || kind == present.kind) &&
                 route_is_legal(present, count) &&
                 ROUTE_STAYS * time_of(&from, present) <= from.best_ns;
    return stays ? present : from.best;
}
