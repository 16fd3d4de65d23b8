/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server sees with one colluder, by enumeration. Real members agree on real keys; only the
 * stream of masks is replaced: each mask key stands for a variable of two bits, and all values of
 * the variables are gone through. Numbers and masks are multiples of 2^30 in words of 32 bits,
 * which is the ring of two bits.
 *
 * Four workers hold four chunks of one number, worker j the chunks j and j + 1. In two attempts of
 * a round the chunks are taken from different holders. For inputs that agree on the colluder's
 * chunks and on the sum of the others, all views must be equally frequent.
 */

#include "base/bytes.h"
#include "privacy/secure/secure_member.h"
#include "test.h"

enum {
    WORKERS = 4,
    ATTEMPTS = 2,
    VALUES = 4, /* of a number, a mask or a word */
    MOST_MASKS = 12,
    VIEWS = 1 << 2 * WORKERS * ATTEMPTS,
    SHIFT = 30,
};

typedef enum flaw {
    FLAW_NONE,
    FLAW_REUSED, /* the second attempt has the first one's masks */
    FLAW_LONE,   /* an honest member shares masks with the colluder alone */
    FLAW_EVEN,   /* one of a mask's two bits is 0 */
    FLAW_BIASED, /* a mask is never 3 */
    FLAWS,
} flaw;

/* Which worker each chunk is taken from in the attempt; 4 workers, or 3. */
typedef struct story {
    uint32_t holders[ATTEMPTS][WORKERS];
} story;

static const story stories[] = {
    {{{0, 1, 2, 3}, {3, 0, 1, 2}}}, /* each from its other holder */
    {{{0, 1, 2, 3}, {0, 1, 2, 2}}}, /* worker 3 died */
    {{{0, 1, 2, 3}, {0, 1, 1, 3}}}, /* worker 2 died */
    {{{3, 0, 1, 3}, {0, 0, 2, 2}}}, /* two each, twice */
};

/* ---- the stream of masks, replaced ---- */

typedef struct mask {
    uint8_t key[MASK_KEY_BYTES];
    uint32_t attempt, adds, subtracts; /* the members that apply it */
    uint32_t value;
} mask;

static mask masks[MOST_MASKS];
static size_t mask_count;
static uint32_t now_attempt, now_member;

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

static mask *find_mask(const uint8_t key[MASK_KEY_BYTES])
{
    size_t i = 0;
    while (i < mask_count && memcmp(masks[i].key, key, MASK_KEY_BYTES) != 0)
        i++;
    assert_true(i < MOST_MASKS);
    if (i == mask_count) {
        mask_count++;
        masks[i] = (mask){.attempt = now_attempt, .adds = WORKERS, .subtracts = WORKERS};
        memcpy(masks[i].key, key, MASK_KEY_BYTES);
    }
    return &masks[i];
}

int mask_apply(mask_cipher *cipher, const mask_stream *streams, size_t stream_count, const ring *of,
               uint64_t first, const void *from, void *words, size_t count)
{
    (void)cipher;
    assert_ptr_equal(from, words);
    assert_int_equal(first, 0);
    assert_int_equal(count, 1);
    assert_int_equal(of->bits, 32);
    for (size_t i = 0; i < stream_count; i++) {
        mask *with = find_mask(streams[i].key);
        /* A mask belongs to one attempt, and to two members of it. */
        assert_int_equal(with->attempt, now_attempt);
        uint32_t *who = streams[i].subtract ? &with->subtracts : &with->adds;
        assert_true(*who == WORKERS || *who == now_member);
        *who = now_member;
        const uint32_t value = with->value << SHIFT;
        bytes_put(words, bytes_get(words, 4) + (streams[i].subtract ? 0 - value : value), 4);
    }
    return TARRY_OK;
}

/* ---- the members ---- */

typedef struct scene {
    const story *of;
    agreement *pairs[WORKERS];
    secure_member *members[ATTEMPTS][WORKERS]; /* each begun; the same keys in both attempts */
    uint32_t lives[ATTEMPTS][WORKERS];
} scene;

static void begin_attempt(scene *at, uint32_t attempt)
{
    kappa_context context = {.round = 3,
                             .attempt = attempt + 1,
                             .ring = {.bits = 32, .fraction = 0, .bound = 1},
                             .colluders = 1,
                             .workers = WORKERS,
                             .lives = at->lives[attempt],
                             .chunks = WORKERS,
                             .holders = at->of->holders[attempt]};
    for (uint32_t i = 0; i < WORKERS; i++)
        at->lives[attempt][at->of->holders[attempt][i]] = 1;
    for (uint32_t j = 0; j < WORKERS; j++) {
        uint8_t kappa[KAPPA_BYTES];
        assert_ok(secure_member_create(j, WORKERS, at->pairs[j], NULL, &at->members[attempt][j]));
        for (uint32_t k = 0; k < WORKERS; k++)
            assert_ok(secure_member_hear(at->members[attempt][j], k, 1,
                                         agreement_public_key(at->pairs[k])));
        if (at->lives[attempt][j] != 0)
            assert_ok(secure_member_begin(at->members[attempt][j], &context, kappa));
    }
}

/* A view: the words of all members in both attempts, two bits each. */
static uint32_t view_of(const scene *at, const uint32_t *numbers)
{
    uint32_t view = 0;
    for (uint32_t a = 0; a < ATTEMPTS; a++) {
        now_attempt = a;
        for (uint32_t j = 0; j < WORKERS; j++) {
            uint32_t plain = 0;
            uint8_t word[4];
            for (uint32_t i = 0; i < WORKERS; i++)
                plain += at->of->holders[a][i] == j ? numbers[i] : 0;
            bytes_put(word, plain << SHIFT, 4);
            now_member = j;
            if (at->lives[a][j] != 0)
                assert_ok(secure_member_mask_numbers(at->members[a][j], 0, word, word, 1));
            view = view << 2 | (uint32_t)(bytes_get(word, 4) >> SHIFT);
        }
    }
    return view;
}

static void scene_begin(scene *at, const story *of)
{
    *at = (scene){.of = of};
    mask_count = 0;
    for (uint32_t j = 0; j < WORKERS; j++) {
        const uint8_t seed[32] = {(uint8_t)(j + 1)};
        at->pairs[j] = agreement_of_seed(seed);
        assert_non_null(at->pairs[j]);
    }
    const uint32_t zeros[WORKERS] = {0};
    for (uint32_t a = 0; a < ATTEMPTS; a++)
        begin_attempt(at, a);
    view_of(at, zeros);
    size_t pairs = 0;
    for (uint32_t a = 0; a < ATTEMPTS; a++) {
        size_t members = 0;
        for (uint32_t j = 0; j < WORKERS; j++)
            members += at->lives[a][j] != 0;
        pairs += members * (members - 1) / 2;
    }
    assert_int_equal(mask_count, pairs);
    for (size_t i = 0; i < mask_count; i++)
        assert_true(masks[i].subtracts < masks[i].adds && masks[i].adds < WORKERS);
}

static void scene_end(scene *at)
{
    for (uint32_t j = 0; j < WORKERS; j++) {
        for (uint32_t a = 0; a < ATTEMPTS; a++)
            secure_member_free(at->members[a][j]);
        agreement_free(at->pairs[j]);
    }
}

/* ---- the views' frequencies ---- */

static bool same_pair(const mask *one, const mask *other)
{
    return one->adds == other->adds && one->subtracts == other->subtracts;
}

/* Sets the masks that the colluder does not know from the digits of `draw`; false past the last
 * draw. Those that it knows keep a value each: a view is judged given them. */
static bool set_masks(uint32_t colluder, flaw broken, uint32_t draw)
{
    const uint32_t lone = (colluder + 2) % WORKERS;
    for (size_t i = 0; i < mask_count; i++) {
        mask *of = &masks[i];
        if (of->adds == colluder || of->subtracts == colluder) {
            of->value = (uint32_t)(i * 3 + 1) % VALUES;
            continue;
        }
        of->value = draw % VALUES;
        draw /= VALUES;
        if (broken == FLAW_EVEN)
            of->value &= 2;
        if (broken == FLAW_BIASED && of->value == 3)
            of->value = 0;
        if (broken == FLAW_LONE && (of->adds == lone || of->subtracts == lone))
            of->value = 0;
        for (size_t k = 0; broken == FLAW_REUSED && k < i; k++) {
            if (same_pair(of, &masks[k]))
                of->value = masks[k].value;
        }
    }
    return draw == 0;
}

/* How often each view comes, over all masks. */
static void count_views(const scene *at, uint32_t colluder, flaw broken, const uint32_t *numbers,
                        uint32_t *counts)
{
    memset(counts, 0, VIEWS * sizeof(*counts));
    for (uint32_t draw = 0; set_masks(colluder, broken, draw); draw++)
        counts[view_of(at, numbers)]++;
}

/* Whether some inputs that must look alike do not. */
static bool views_differ(const story *of, uint32_t colluder, flaw broken)
{
    static uint32_t first[VIEWS], counts[VIEWS];
    scene at;
    scene_begin(&at, of);
    const uint32_t other = (colluder + 2) % WORKERS, last = (colluder + 3) % WORKERS;
    bool differ = false;
    for (uint32_t sum = 0; sum < VALUES; sum++) {
        for (uint32_t value = 0; value < VALUES; value++) {
            uint32_t numbers[WORKERS];
            numbers[colluder] = sum ^ 1;
            numbers[(colluder + 1) % WORKERS] = 3 - sum;
            numbers[other] = value;
            numbers[last] = (sum - value) % VALUES;
            count_views(&at, colluder, broken, numbers, value == 0 ? first : counts);
            differ = differ || (value > 0 && memcmp(first, counts, sizeof(counts)) != 0);
        }
    }
    scene_end(&at);
    return differ;
}

TEST(views_tell_the_sum_of_the_others_and_nothing_else)
{
    for (size_t s = 0; s < sizeof(stories) / sizeof(*stories); s++)
        for (uint32_t colluder = 0; colluder < WORKERS; colluder++)
            assert_false(views_differ(&stories[s], colluder, FLAW_NONE));
}

/* So the test above can fail. */
TEST(views_by_broken_masks_differ)
{
    for (int broken = FLAW_NONE + 1; broken < FLAWS; broken++) {
        bool found = false;
        for (uint32_t colluder = 0; colluder < WORKERS && !found; colluder++)
            found = views_differ(&stories[0], colluder, (flaw)broken);
        if (!found)
            fail_msg("flaw %d shows in no view", broken);
    }
}

/* Two inputs of different sums do look different: the views are no constant. */
TEST(views_tell_the_sum)
{
    static uint32_t one[VIEWS], two[VIEWS];
    scene at;
    scene_begin(&at, &stories[0]);
    const uint32_t numbers[2][WORKERS] = {{0, 0, 1, 1}, {0, 0, 1, 2}};
    count_views(&at, 0, FLAW_NONE, numbers[0], one);
    count_views(&at, 0, FLAW_NONE, numbers[1], two);
    for (size_t i = 0; i < VIEWS; i++)
        assert_true(one[i] == 0 || two[i] == 0);
    scene_end(&at);
}
