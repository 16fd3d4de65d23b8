/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server sees that tells one worker another length of stripes, by enumeration. Real members
 * agree on real keys for what each was told; only the stream of masks is replaced: each word of a
 * stream stands for a variable of one bit, and all values of the variables are gone through.
 *
 * Two workers have a vector of two numbers, each number one bit, and one chunk each. The first cuts
 * it into stripes of one number, the second one has a single stripe. The view is all words of both,
 * as they were sent.
 */

#include "privacy/secure/secure_member.h"
#include "test.h"

enum { WORKERS = 2, NUMBERS = 2, MOST_WORDS = NUMBERS * (1 + MASKED_COUNTS) };
enum { MOST_BITS = MOST_WORDS + NUMBERS + MASKED_COUNTS, INPUTS = 1 << WORKERS * NUMBERS };

/* How a worker cuts its vector, what it was told of that, and whether masks are naive. */
typedef struct story {
    uint32_t stripe[WORKERS];
    bool knows;  /* kappa depends on the length of stripes */
    bool places; /* planted: a word has the mask of its place in the part */
} story;

/* A word of a part: the number that it is, or NUMBERS: it is a count, which the server knows; and
 * the variable that masks it. */
typedef struct word {
    uint32_t number;
    size_t variable;
} word;

typedef struct scene {
    word words[WORKERS][MOST_WORDS];
    size_t count[WORKERS];
    size_t variables;
} scene;

/* ---- the stream of masks, replaced ---- */

static struct {
    uint8_t key[MASK_KEY_BYTES];
    uint64_t place;
} variables[MOST_BITS];
static size_t variable_count;
static size_t masked[1 + MASKED_COUNTS]; /* by the last call: a variable per word */

/* Of masks.h: the test has its own in place of the library's. */
mask_cipher *mask_cipher_create(void)
{
    return malloc(1);
}

void mask_cipher_free(mask_cipher *cipher)
{
    free(cipher);
}

void mask_cipher_forget(mask_cipher *cipher)
{
    (void)cipher;
}

int mask_apply(mask_cipher *cipher, const mask_stream *streams, size_t stream_count, const ring *of,
               uint64_t first, const void *from, void *words, size_t count)
{
    (void)cipher, (void)of, (void)from, (void)words;
    assert_int_equal(stream_count, WORKERS - 1);
    assert_true(count <= sizeof(masked) / sizeof(masked[0]));
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < variable_count &&
               (variables[at].place != first + i ||
                memcmp(variables[at].key, streams[0].key, MASK_KEY_BYTES) != 0))
            at++;
        assert_true(at < MOST_BITS);
        if (at == variable_count) {
            variable_count++;
            variables[at].place = first + i;
            memcpy(variables[at].key, streams[0].key, MASK_KEY_BYTES);
        }
        masked[i] = at;
    }
    return TARRY_OK;
}

/* ---- the members ---- */

static secure_member *begin(uint32_t id, agreement *const *pairs, const story *of)
{
    static const uint32_t lives[WORKERS] = {1, 1}, holders[WORKERS] = {0, 1};
    kappa_context context = {.round = 3,
                             .attempt = 1,
                             .ring = {.bits = 32, .fraction = 0, .bound = 1},
                             .workers = WORKERS,
                             .lives = lives,
                             .chunks = WORKERS,
                             .holders = holders};
    uint8_t kappa[KAPPA_BYTES];
    secure_member *made;
    context.terms[0] = of->knows ? (uint8_t)of->stripe[id] : 0;
    assert_ok(secure_member_create(id, WORKERS, pairs[id], NULL, &made));
    for (uint32_t k = 0; k < WORKERS; k++)
        assert_ok(secure_member_hear(made, k, 1, agreement_public_key(pairs[k])));
    assert_ok(secure_member_begin(made, &context, kappa));
    return made;
}

static void add(scene *at, uint32_t id, uint32_t number, size_t variable)
{
    at->words[id][at->count[id]++] = (word){number, variable};
}

/* All words of a worker's part, stripe by stripe. */
static void send_part(scene *at, uint32_t id, secure_member *member, const story *of)
{
    uint8_t ignored[4 * MASKED_COUNTS] = {0};
    for (uint32_t first = 0; first < NUMBERS; first += of->stripe[id]) {
        for (uint32_t i = first; i < first + of->stripe[id] && i < NUMBERS; i++) {
            const uint64_t place = of->places ? at->count[id] : i;
            assert_ok(secure_member_mask_numbers(member, place, ignored, ignored, 1));
            add(at, id, i, masked[0]);
        }
        int error = of->places ? secure_member_mask_numbers(member, at->count[id], ignored, ignored,
                                                            MASKED_COUNTS)
                               : secure_member_mask_counts(member, first, ignored);
        assert_ok(error);
        for (size_t i = 0; i < MASKED_COUNTS; i++)
            add(at, id, NUMBERS, masked[i]);
    }
}

static void scene_make(scene *at, const story *of)
{
    agreement *pairs[WORKERS];
    *at = (scene){.variables = 0};
    variable_count = 0;
    for (uint32_t j = 0; j < WORKERS; j++) {
        const uint8_t seed[32] = {(uint8_t)(j + 1)};
        pairs[j] = agreement_of_seed(seed);
        assert_non_null(pairs[j]);
    }
    for (uint32_t j = 0; j < WORKERS; j++) {
        secure_member *member = begin(j, pairs, of);
        send_part(at, j, member, of);
        secure_member_free(member);
    }
    for (uint32_t j = 0; j < WORKERS; j++)
        agreement_free(pairs[j]);
    at->variables = variable_count;
}

/* ---- the views' frequencies ---- */

/* Words of one bit: a mask that is added is one that is subtracted. */
static uint32_t view_of(const scene *at, uint32_t input, uint32_t drawn)
{
    uint32_t view = 0;
    for (uint32_t j = 0; j < WORKERS; j++)
        for (size_t i = 0; i < at->count[j]; i++) {
            const word *of = &at->words[j][i];
            const uint32_t plain = of->number < NUMBERS ? input >> (j * NUMBERS + of->number) : 1;
            view = view << 1 | ((plain ^ drawn >> of->variable) & 1);
        }
    return view;
}

static void count_views(const scene *at, uint32_t input, uint32_t *counts)
{
    memset(counts, 0, (1 << MOST_BITS) * sizeof(*counts));
    for (uint32_t drawn = 0; drawn < UINT32_C(1) << at->variables; drawn++)
        counts[view_of(at, input, drawn)]++;
}

/* The sum of both vectors, number by number. */
static uint32_t sum_of(uint32_t input)
{
    return (input ^ input >> NUMBERS) & ((1 << NUMBERS) - 1);
}

typedef enum shown { SHOWS_NOTHING, SHOWS_THE_SUM, SHOWS_MORE } shown;

/* What the views tell of the inputs. */
static shown look(const story *of)
{
    static uint32_t counts[INPUTS][1 << MOST_BITS];
    scene at;
    shown most = SHOWS_NOTHING;
    scene_make(&at, of);
    for (uint32_t input = 0; input < INPUTS; input++)
        count_views(&at, input, counts[input]);
    for (uint32_t one = 0; one < INPUTS; one++)
        for (uint32_t two = 0; two < one; two++) {
            bool differ = memcmp(counts[one], counts[two], sizeof(counts[one])) != 0;
            shown now = sum_of(one) == sum_of(two) ? SHOWS_MORE : SHOWS_THE_SUM;
            if (differ && now > most)
                most = now;
        }
    return most;
}

TEST(the_same_cut_shows_the_sum)
{
    assert_int_equal(look(&(story){.stripe = {2, 2}, .knows = true}), SHOWS_THE_SUM);
}

TEST(another_cut_for_one_shows_nothing)
{
    assert_int_equal(look(&(story){.stripe = {1, 2}, .knows = true}), SHOWS_NOTHING);
    assert_int_equal(look(&(story){.stripe = {2, 1}, .knows = true}), SHOWS_NOTHING);
}

/* Either of the two things that stand against it is enough for that. */
TEST(a_kappa_without_the_length_of_stripes_shows_the_sum)
{
    assert_int_equal(look(&(story){.stripe = {1, 2}}), SHOWS_THE_SUM);
    assert_int_equal(look(&(story){.stripe = {1, 2}, .knows = true, .places = true}),
                     SHOWS_NOTHING);
}

/* So the tests above can fail. */
TEST(without_both_more_is_shown)
{
    assert_int_equal(look(&(story){.stripe = {1, 2}, .places = true}), SHOWS_MORE);
    assert_int_equal(look(&(story){.stripe = {2, 1}, .places = true}), SHOWS_MORE);
}
