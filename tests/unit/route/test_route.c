/* SPDX-License-Identifier: Apache-2.0 */
/* The routes of all groups up to 40 and all their shapes, walked number by number: the sum reaches
 * everybody, each coded part is in it once, and both sides of each edge know of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <stdint.h>
#include <string.h>

#include "shapes.h"

enum { MEMBERS_MOST = 40, SEATS_ROOM = 64, PIECES_OF_ROW = 2 };

enum { LENGTHS = 5, LENGTHS_OF_MANY = 3, MANY = 20 };
static const size_t lengths[LENGTHS] = {1, 17, 150, 300, 700};

static bool has(route_span span, size_t number)
{
    return number >= span.first && number - span.first < span.length;
}

/* The slice and the piece of the seat's own slice that the number is in. Exactly one of each. */
typedef struct role {
    bool own;
    uint32_t slice, piece;
    uint32_t above; /* the owner, or the parent; ROUTE_NOBODY */
} role;

static role role_of(const route *of, uint32_t seat, size_t length, size_t number)
{
    role found = {.above = ROUTE_NOBODY};
    uint32_t slices = 0, pieces = 0;
    for (uint32_t i = 0; i < route_slices(of, seat); i++) {
        route_slice slice = route_slice_at(of, seat, i);
        if (!has(route_find(&slice.where, length), number))
            continue;
        slices++;
        found.slice = i;
        found.own = slice.owner == seat;
        found.above = slice.owner;
        for (uint32_t k = 0; found.own && k < route_pieces(of, seat, i); k++) {
            route_piece piece = route_piece_at(of, seat, i, k);
            if (!has(route_find(&piece.where, length), number))
                continue;
            pieces++;
            found.piece = k;
            found.above = piece.parent;
        }
    }
    assert_int_equal(slices, 1);
    assert_int_equal(pieces, found.own);
    return found;
}

static bool holds(const uint32_t *seats, uint32_t count, uint32_t seat)
{
    for (uint32_t i = 0; i < count; i++)
        if (seats[i] == seat)
            return true;
    return false;
}

/* Adds up from the seat downwards, as a set of seats; each is met once. */
static uint64_t gather(const route *of, uint32_t seat, size_t length, size_t number)
{
    uint32_t below[SEATS_ROOM];
    role at = role_of(of, seat, length, number);
    assert_true(at.own);
    uint64_t members = 0;
    uint32_t leaves = route_leaves(of, seat, at.slice, below);
    assert_true(leaves <= route_leaves_most(of));
    assert_true(holds(below, leaves, seat));
    for (uint32_t i = 0; i < leaves; i++) {
        assert_true(i == 0 || below[i] > below[i - 1]);
        role its = role_of(of, below[i], length, number);
        assert_true(below[i] == seat || (!its.own && its.above == seat));
        assert_int_equal(members >> below[i] & 1, 0);
        members |= UINT64_C(1) << below[i];
    }
    uint32_t inners = route_inners(of, seat, at.slice, at.piece, below);
    assert_true(inners <= route_inners_most(of));
    for (uint32_t i = 0; i < inners; i++) {
        role its = role_of(of, below[i], length, number);
        assert_true(its.own && its.above == seat);
        uint64_t more = gather(of, below[i], length, number);
        assert_int_equal(members & more, 0);
        members |= more;
    }
    return members;
}

static void check_number(const route *of, size_t length, size_t number)
{
    uint32_t root = ROUTE_NOBODY;
    for (uint32_t seat = 0; seat < of->count; seat++) {
        role at = role_of(of, seat, length, number);
        if (at.above != ROUTE_NOBODY)
            continue;
        assert_int_equal(root, ROUTE_NOBODY);
        root = seat;
    }
    assert_int_not_equal(root, ROUTE_NOBODY);
    assert_int_equal(gather(of, root, length, number), (UINT64_C(1) << of->count) - 1);
}

static void every_number_of_all_is_added_up_once_at_one_member(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= MEMBERS_MOST; count++) {
        route of;
        for (uint32_t shape = 0; shape_at(count, shape, &of) || shape < 2; shape++)
            for (size_t k = 0; k < (count > MANY ? LENGTHS_OF_MANY : LENGTHS); k++)
                for (size_t line = 0; line < lengths[k]; line += ROUTE_LINE)
                    check_number(&of, lengths[k], line); /* spans are of whole lines */
    }
}

/* Both sides of a pair go through their common pieces in the same order, and cut them alike. */
static void check_pair(const route *of, uint32_t child, uint32_t parent, size_t length)
{
    route_span sent[SEATS_ROOM], wanted[SEATS_ROOM];
    uint32_t sends = 0, wants = 0;
    for (uint32_t i = 0; i < route_slices(of, child); i++)
        for (uint32_t k = 0;
             route_slice_at(of, child, i).owner == child && k < route_pieces(of, child, i); k++) {
            route_piece piece = route_piece_at(of, child, i, k);
            if (piece.parent == parent)
                sent[sends++] = route_find(&piece.where, length);
        }
    for (uint32_t i = 0; i < route_slices(of, parent); i++)
        for (uint32_t k = 0;
             route_slice_at(of, parent, i).owner == parent && k < route_pieces(of, parent, i);
             k++) {
            uint32_t inners[SEATS_ROOM];
            uint32_t count = route_inners(of, parent, i, k, inners);
            route_piece piece = route_piece_at(of, parent, i, k);
            if (holds(inners, count, child))
                wanted[wants++] = route_find(&piece.where, length);
        }
    assert_int_equal(sends, wants);
    assert_true(sends <= PIECES_OF_ROW);
    for (uint32_t i = 0; i < sends; i++) {
        assert_true(sent[i].length == wanted[i].length);
        assert_true(sent[i].length == 0 || sent[i].first == wanted[i].first);
    }
}

static void both_sides_cut_what_they_exchange_alike(void **state)
{
    (void)state;
    for (uint32_t count = 2; count <= MEMBERS_MOST; count++) {
        route of;
        for (uint32_t shape = 0; shape_at(count, shape, &of) || shape < 2; shape++)
            for (uint32_t child = 0; child < count; child++)
                for (uint32_t parent = 0; parent < count; parent++)
                    for (size_t k = 2; parent != child && k < LENGTHS_OF_MANY + (count <= MANY);
                         k++)
                        check_pair(&of, child, parent, lengths[k]);
    }
}

static void a_grid_needs_no_more_connections_than_its_rows_and_columns(void **state)
{
    (void)state;
    for (uint32_t count = 4; count <= MEMBERS_MOST; count++) {
        route of;
        for (uint32_t shape = 2; shape_at(count, shape, &of); shape++)
            for (uint32_t seat = 0; seat < count; seat++) {
                uint64_t met = 0;
                uint32_t below[SEATS_ROOM],
                    slice = seat - route_row_first(&of, route_row_of(&of, seat));
                for (uint32_t i = 0; i < route_slices(&of, seat); i++)
                    met |= UINT64_C(1) << route_slice_at(&of, seat, i).owner;
                for (uint32_t k = 0; k < route_pieces(&of, seat, slice); k++) {
                    route_piece piece = route_piece_at(&of, seat, slice, k);
                    if (piece.parent != ROUTE_NOBODY)
                        met |= UINT64_C(1) << piece.parent;
                    for (uint32_t i = route_inners(&of, seat, slice, k, below); i > 0; i--)
                        met |= UINT64_C(1) << below[i - 1];
                }
                bool even = count % of.shape.rows == 0;
                uint32_t most = route_slices(&of, seat) - 1 + (of.shape.rows - 1) * (even ? 1 : 2);
                assert_true((uint32_t)__builtin_popcountll(met) - 1 <= most);
            }
    }
}

static void only_legal_shapes_are_legal(void **state)
{
    (void)state;
    assert_true(route_is_legal((tarry_shape){TARRY_SHAPE_DIRECT, 0}, 1));
    assert_true(route_is_legal((tarry_shape){TARRY_SHAPE_TREE, 0}, 1));
    assert_false(route_is_legal((tarry_shape){TARRY_SHAPE_DIRECT, 1}, 4));
    assert_false(route_is_legal((tarry_shape){TARRY_SHAPE_TREE, 2}, 4));
    assert_false(route_is_legal((tarry_shape){TARRY_SHAPE_DIRECT, 0}, 0));
    assert_false(route_is_legal((tarry_shape){TARRY_SHAPE_AUTO, 0}, 4));
    assert_false(route_is_legal((tarry_shape){TARRY_SHAPE_GRID, 1}, 4));
    assert_true(route_is_legal((tarry_shape){TARRY_SHAPE_GRID, 2}, 4));
    assert_false(route_is_legal((tarry_shape){TARRY_SHAPE_GRID, 3}, 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_all_is_added_up_once_at_one_member),
        cmocka_unit_test(both_sides_cut_what_they_exchange_alike),
        cmocka_unit_test(a_grid_needs_no_more_connections_than_its_rows_and_columns),
        cmocka_unit_test(only_legal_shapes_are_legal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
