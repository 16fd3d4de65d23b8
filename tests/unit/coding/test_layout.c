/* SPDX-License-Identifier: Apache-2.0 */
#include "coding/layout.h"
#include "test.h"

TEST(a_gradient_is_cut_into_parts_and_stripes)
{
    layout cut = layout_make(10, 3, 3); /* parts 4, 4, 2; stripes 3, 1 */
    assert_int_equal(cut.part_length, 4);
    assert_int_equal(cut.stripes, 2);
    assert_int_equal(layout_stripe_start(&cut, 1), 3);
    assert_int_equal(layout_stripe_length(&cut, 0), 3);
    assert_int_equal(layout_stripe_length(&cut, 1), 1);
    assert_int_equal(layout_present(&cut, 1, 1), 1);
    assert_int_equal(layout_present(&cut, 2, 0), 2);
    assert_int_equal(layout_present(&cut, 2, 1), 0);
}

TEST(several_parts_can_be_short_or_empty)
{
    layout cut = layout_make(5, 4, 65536); /* parts 2, 2, 1, 0 */
    assert_int_equal(cut.part_length, 2);
    assert_int_equal(cut.stripes, 1);
    assert_int_equal(layout_present(&cut, 2, 0), 1);
    assert_int_equal(layout_present(&cut, 3, 0), 0);
}

/* Every coordinate of a gradient stands in exactly one place of one stripe of one part. */
TEST(every_coordinate_has_one_place)
{
    for (size_t dimension = 1; dimension <= 40; dimension++) {
        for (uint32_t parts = 1; parts <= 7; parts++) {
            for (size_t stripe_length = 1; stripe_length <= 9; stripe_length++) {
                layout cut = layout_make(dimension, parts, stripe_length);
                unsigned seen[40] = {0};
                size_t part_length = 0;
                for (uint32_t stripe = 0; stripe < cut.stripes; stripe++) {
                    size_t start = layout_stripe_start(&cut, stripe);
                    assert_int_equal(start, part_length);
                    size_t length = layout_stripe_length(&cut, stripe);
                    assert_in_range(length, 1, stripe_length);
                    part_length += length;
                    for (uint32_t part = 0; part < parts; part++) {
                        size_t present = layout_present(&cut, part, stripe);
                        assert_true(present <= length);
                        for (size_t x = 0; x < present; x++) {
                            size_t place = part * cut.part_length + start + x;
                            assert_true(place < dimension);
                            seen[place]++;
                        }
                    }
                }
                assert_int_equal(part_length, cut.part_length);
                for (size_t x = 0; x < dimension; x++)
                    assert_int_equal(seen[x], 1);
            }
        }
    }
}

TEST(the_largest_stripe_does_not_overflow)
{
    layout cut = layout_make(7, 2, SIZE_MAX);
    assert_int_equal(cut.stripes, 1);
    assert_int_equal(layout_stripe_length(&cut, 0), 4);
    assert_int_equal(layout_present(&cut, 1, 0), 3);
}
