/* SPDX-License-Identifier: Apache-2.0 */
#include "base/processor.h"
#include "test.h"

static const char plain[] = "plain", wide[] = "wide", fused[] = "fused", widest[] = "widest";

static const processor_variant all[] = {
    {plain, PROCESSOR_ANY},
    {wide, PROCESSOR_AVX2},
    {fused, PROCESSOR_AVX2 | PROCESSOR_FMA},
    {widest, PROCESSOR_AVX512F | PROCESSOR_AVX512BW},
};

/* Which of them run with the features, in order; the last is the best. */
static void check(unsigned features, const char *const *wanted, size_t count)
{
    const processor_variants of = {all, sizeof(all) / sizeof(*all)};
    for (size_t i = 0; i < count; i++)
        assert_ptr_equal(processor_variant_at(of, features, i), wanted[i]);
    assert_null(processor_variant_at(of, features, count));
    assert_null(processor_variant_at(of, features, SIZE_MAX));
    assert_ptr_equal(processor_variant_best(of, features), wanted[count - 1]);
}

TEST(a_variant_runs_where_there_is_all_that_it_needs)
{
    check(PROCESSOR_ANY, (const char *[]){plain}, 1);
    check(PROCESSOR_FMA | PROCESSOR_AVX512F | PROCESSOR_AVX512DQ, (const char *[]){plain}, 1);
    check(PROCESSOR_AVX2, (const char *[]){plain, wide}, 2);
    check(PROCESSOR_AVX2 | PROCESSOR_FMA, (const char *[]){plain, wide, fused}, 3);
    check(PROCESSOR_AVX2 | PROCESSOR_AVX512F | PROCESSOR_AVX512BW,
          (const char *[]){plain, wide, widest}, 3);
    check(~0U, (const char *[]){plain, wide, fused, widest}, 4);
}

TEST(a_processor_with_a_wide_form_has_what_that_stands_on)
{
    const unsigned found = processor_features();
    assert_int_equal(found, processor_features());
    if ((found & (PROCESSOR_AVX512BW | PROCESSOR_AVX512DQ)) != 0)
        assert_true((found & PROCESSOR_AVX512F) != 0);
    if ((found & PROCESSOR_AVX512F) != 0)
        assert_true((found & PROCESSOR_AVX2) != 0);
}
