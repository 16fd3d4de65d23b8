/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/options.h"
#include "test.h"

static const char *const names[] = {"workers", "chunks", "parts", "plot", "l2"};

static const char *nearest(const char *word)
{
    return suggest(word, names, sizeof(names) / sizeof(names[0]));
}

TEST(the_nearest_name)
{
    assert_string_equal(nearest("workers"), "workers");
    assert_string_equal(nearest("wrkers"), "workers");  /* a letter left out */
    assert_string_equal(nearest("wokrers"), "workers"); /* two swapped */
    assert_string_equal(nearest("chunnks"), "chunks");  /* one too many */
    assert_string_equal(nearest("ports"), "parts");     /* one replaced */
    assert_string_equal(nearest("l1"), "l2");
}

TEST(nothing_near)
{
    assert_null(nearest("frobnicate"));
    assert_null(nearest("wxyzers"));
    assert_null(nearest(""));
    assert_null(nearest("a-word-that-is-longer-than-any-option-of-any-command-could-ever-be-long"));
    assert_null(suggest("workers", NULL, 0));
}
