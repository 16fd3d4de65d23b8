/* SPDX-License-Identifier: Apache-2.0 */
#include "learn/optimizer.h"
#include "seed.h"
#include "test.h"

TEST(chunks_partition_the_rows)
{
    for (size_t rows = 1; rows < 40; rows++)
        for (uint32_t chunks = 1; chunks < 50; chunks++) {
            batch_settings settings = {.rows = rows, .chunks = chunks};
            size_t next = 0;
            for (uint32_t chunk = 0; chunk < chunks; chunk++) {
                size_t first, count;
                batch_chunk(&settings, chunk, &first, &count);
                assert_int_equal(first, chunk * rows / chunks);
                assert_int_equal(first, next);
                assert_int_equal(batch_count(&settings, chunk), count);
                next += count;
            }
            assert_int_equal(next, rows);
        }
}

TEST(chunks_of_very_many_rows_do_not_overflow)
{
    batch_settings settings = {.rows = SIZE_MAX, .chunks = UINT32_MAX};
    size_t first, count;
    batch_chunk(&settings, UINT32_MAX - 1, &first, &count);
    assert_true(first + count == SIZE_MAX);
    assert_true(count == SIZE_MAX / UINT32_MAX);
}

TEST(shares_of_a_batch_differ_by_at_most_one)
{
    for (size_t batch = 1; batch < 40; batch++)
        for (uint32_t chunks = 1; chunks < 20; chunks++) {
            batch_settings settings = {.rows = 100, .chunks = chunks, .batch = batch};
            size_t sum = 0;
            for (uint32_t chunk = 0; chunk < chunks; chunk++) {
                size_t count = batch_count(&settings, chunk);
                assert_in_range(count, batch / chunks, (batch + chunks - 1) / chunks);
                sum += count;
            }
            assert_int_equal(sum, batch);
        }
}

TEST(a_chunk_without_rows_draws_nothing)
{
    batch_settings settings = {.rows = 2, .chunks = 4, .batch = 100};
    assert_int_equal(batch_count(&settings, 0), 0);
    assert_int_equal(batch_count(&settings, 1), 25);
    size_t none;
    batch_draw(&settings, 0, 0, &none);
}

enum { DRAWN = 25 };

static void draw(uint64_t seed, uint64_t round, uint32_t chunk, size_t rows[DRAWN])
{
    batch_settings settings = {.rows = 4000, .chunks = 4, .batch = 4 * DRAWN, .seed = seed};
    assert_int_equal(batch_count(&settings, chunk), DRAWN);
    batch_draw(&settings, round, chunk, rows);
    for (size_t i = 0; i < DRAWN; i++)
        assert_in_range(rows[i], 1000 * (size_t)chunk, 1000 * (size_t)chunk + 999);
}

/* Two draws of 25 out of 1000 agree in every place with probability 1e-75. */
TEST(draws_depend_on_seed_round_and_chunk_alone)
{
    size_t base[DRAWN], other[DRAWN];
    draw(1, 2, 3, base);
    draw(1, 2, 3, other);
    assert_memory_equal(base, other, sizeof(base));
    draw(2, 2, 3, other);
    assert_memory_not_equal(base, other, sizeof(base));
    draw(1, 3, 3, other);
    assert_memory_not_equal(base, other, sizeof(base));
    draw(1, 2, 2, other);
    for (size_t i = 0; i < DRAWN; i++)
        other[i] += 1000;
    assert_memory_not_equal(base, other, sizeof(base));
}

/* Chi-square over 20 rows has mean 19 and deviation 6.2; 60 is exceeded with probability 4e-6. */
TEST(every_row_is_drawn_equally_often)
{
    enum { ROWS = 20, ROUNDS = 1000, EACH = 10 };
    batch_settings settings = {
        .rows = 3 * ROWS, .chunks = 3, .batch = 3 * EACH, .seed = test_seed("uniform", 5)};
    double hits[ROWS] = {0};
    for (uint64_t round = 0; round < ROUNDS; round++) {
        size_t rows[EACH];
        batch_draw(&settings, round, 1, rows);
        for (size_t i = 0; i < EACH; i++)
            hits[rows[i] - ROWS]++;
    }
    double expected = (double)ROUNDS * EACH / ROWS, chi_square = 0;
    for (size_t i = 0; i < ROWS; i++)
        chi_square += (hits[i] - expected) * (hits[i] - expected) / expected;
    assert_true(chi_square < 60);
}
