/* SPDX-License-Identifier: Apache-2.0 */
#include "release/dp.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarry/dp.h>
#include <tarry/privacy.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/digest.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/sized.h"
#include "file/whole_file.h"
#include "privacy/accountant.h"
#include "privacy/keystream.h"

static_assert(TARRY_DP_KEY_BYTES == KEYSTREAM_KEY_BYTES, "keys are those of the keystream");

#define MOST_RELEASES (UINT64_C(1) << 40)
#define LEAST_DEVIATION 1e-30 /* of noise: far from where float32 has no more digits */

struct tarry_dp {
    tarry_dp_terms terms;
    ledger_file *ledger; /* NULL: none */
    bool owns_ledger;
    uint64_t releases;
    uint64_t allowed; /* by the budget, as far as `settled` */
    bool settled;
    sampler draws;
    uint8_t noise_key[KEYSTREAM_KEY_BYTES];
    rdp_curve curve;
};

static int make_keys(tarry_dp *self, tarry_diagnostic *why)
{
    privacy_keys keys;
    int error = TARRY_OK;
    if (self->terms.seeded && privacy_keys_of_seed(self->terms.seed, &keys) != 0)
        error = diagnose_no_memory(why, "keys");
    else if (!self->terms.seeded && getrandom(&keys, sizeof(keys), 0) != (ssize_t)sizeof(keys))
        error =
            diagnose(why, TARRY_ERROR_SYSTEM, "random numbers of the system: %s", strerror(errno));
    self->draws.rate = self->terms.sample;
    memcpy(self->draws.key, keys.draws, sizeof(keys.draws));
    memcpy(self->noise_key, keys.noise, sizeof(keys.noise));
    explicit_bzero(&keys, sizeof(keys));
    return error;
}

static int epsilon_by(const tarry_dp *self, tarry_accountant accountant, uint64_t releases,
                      double *epsilon, tarry_diagnostic *diagnostic)
{
    tarry_privacy_settings settings;
    tarry_privacy_settings_init(&settings);
    settings.noise = self->terms.noise;
    settings.sample = self->terms.sample;
    settings.steps = releases;
    return tarry_privacy_epsilon(&settings, self->terms.delta, accountant, NULL, epsilon,
                                 diagnostic);
}

static int epsilon_after(const tarry_dp *self, uint64_t releases, double *epsilon,
                         tarry_diagnostic *diagnostic)
{
    return epsilon_by(self, TARRY_ACCOUNTANT_BEST, releases, epsilon, diagnostic);
}

static int check_terms(const tarry_dp_terms *terms, uint64_t samples, tarry_diagnostic *diagnostic)
{
    int error = sized_check(terms->size, sizeof(*terms), "dp", diagnostic);
    if (error != TARRY_OK)
        return error;
    if (!(terms->clip > 0 && isfinite(terms->clip)) || !(terms->delta > 0 && terms->delta < 1) ||
        !(terms->sample > 0))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "clip %g, sample %g, delta %g: more than 0 is wanted, and less than 1 of "
                        "delta",
                        terms->clip, terms->sample, terms->delta);
    if (terms->clip * terms->noise < LEAST_DEVIATION)
        return diagnose(
            diagnostic, TARRY_ERROR_ARGUMENT,
            "clip %g times noise %g is below %g, and float32 has no room for such noise: "
            "use a larger clip",
            terms->clip, terms->noise, LEAST_DEVIATION);
    if (terms->delta >= 1 / (double)samples)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "delta:%g is not below one in the %llu samples: say a smaller one",
                        terms->delta, (unsigned long long)samples);
    return TARRY_OK;
}

static int check_budget(const tarry_dp *self, tarry_diagnostic *diagnostic)
{
    double least;
    /* Without one noise and sample are looked at, and no time is taken. */
    const tarry_accountant accountant =
        isinf(self->terms.budget) ? TARRY_ACCOUNTANT_RDP : TARRY_ACCOUNTANT_BEST;
    int error = epsilon_by(self, accountant, 1, &least, diagnostic);
    if (error == TARRY_OK && least > self->terms.budget)
        error = diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                         "budget:%g is less than the epsilon of one round, %.4g",
                         self->terms.budget, least);
    return error;
}

int dp_create(const tarry_dp_terms *terms, uint64_t samples, ledger_file *ledger, tarry_dp **out,
              tarry_diagnostic *diagnostic)
{
    int error = check_terms(terms, samples, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_dp *self = memory_allocate(NULL, 1, sizeof(*self));
    if (self == NULL)
        return diagnose_no_memory(diagnostic, "dp");
    self->terms = *terms;
    self->ledger = ledger;
    self->releases = self->allowed = ledger != NULL ? ledger_file_releases(ledger) : 0;
    rdp_curve_begin(&self->curve, terms->noise, terms->sample);
    error = make_keys(self, diagnostic);
    if (error == TARRY_OK)
        error = check_budget(self, diagnostic);
    if (error == TARRY_OK)
        *out = self;
    else
        tarry_dp_free(self);
    return error;
}

int tarry_dp_create(const tarry_dp_terms *terms, uint64_t samples, const char *path, bool goes_on,
                    tarry_dp **out, tarry_diagnostic *diagnostic)
{
    const ledger_terms counted = {terms->clip, terms->noise, terms->sample};
    ledger_file *ledger = NULL;
    tarry_dp *self;
    int error = check_terms(terms, samples, diagnostic);
    if (error == TARRY_OK && path != NULL)
        error = ledger_file_open(path, goes_on, &counted, &ledger, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = dp_create(terms, samples, ledger, &self, diagnostic);
    if (error != TARRY_OK) {
        ledger_file_close(ledger);
        return error;
    }
    self->owns_ledger = true;
    *out = self;
    return TARRY_OK;
}

void tarry_dp_free(tarry_dp *self)
{
    if (self == NULL)
        return;
    if (self->owns_ledger)
        ledger_file_close(self->ledger);
    explicit_bzero(self, sizeof(*self));
    memory_release(NULL, self);
}

const tarry_dp_terms *dp_terms(const tarry_dp *self)
{
    return &self->terms;
}

const sampler *dp_draws(const tarry_dp *self)
{
    return &self->draws;
}

uint64_t tarry_dp_releases(const tarry_dp *self)
{
    return self->releases;
}

void tarry_dp_mark_get(const tarry_dp *self, tarry_dp_mark *mark)
{
    *mark = self->ledger != NULL ? ledger_file_mark(self->ledger) : (tarry_dp_mark){0};
}

int tarry_dp_mark_check(const tarry_dp *self, const tarry_dp_mark *mark, uint64_t rounds,
                        tarry_diagnostic *diagnostic)
{
    if (self->ledger == NULL)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "the checkpoint needs a ledger to compare with, and none was given");
    return ledger_file_covers(self->ledger, mark, rounds, diagnostic);
}

static int is_allowed(const tarry_dp *self, uint64_t releases, bool *allowed,
                      tarry_diagnostic *diagnostic)
{
    double epsilon;
    int error = epsilon_after(self, releases, &epsilon, diagnostic);
    *allowed = error == TARRY_OK && epsilon <= self->terms.budget;
    return error;
}

/* Finds how many releases the budget allows, where the quick bound does not tell: in steps that
 * grow until they are too many, and by halves then. */
static int settle(tarry_dp *self, tarry_diagnostic *diagnostic)
{
    uint64_t low = self->releases, step = 1; /* low is allowed */
    bool grows = true;
    while (step > 0 && low < MOST_RELEASES) {
        bool allowed;
        int error = is_allowed(self, low + step, &allowed, diagnostic);
        if (error != TARRY_OK)
            return error;
        grows = grows && allowed;
        if (allowed)
            low += step;
        step = grows ? 2 * step : step / 2;
    }
    self->allowed = low;
    self->settled = true;
    return TARRY_OK;
}

int tarry_dp_spent(tarry_dp *self, bool *spent, tarry_diagnostic *diagnostic)
{
    const tarry_dp_terms *terms = &self->terms;
    const uint64_t next = self->releases + 1;
    bool allowed = next <= self->allowed || isinf(terms->budget) ||
                   rdp_curve_epsilon(&self->curve, next, terms->delta) <= terms->budget;
    if (!allowed && !self->settled) {
        int error = settle(self, diagnostic);
        if (error != TARRY_OK)
            return error;
        allowed = next <= self->allowed;
    }
    *spent = !allowed;
    return TARRY_OK;
}

/* The place of the first number that is not finite, or `count`. */
static size_t find_not_finite(const float *numbers, size_t count)
{
    size_t at = 0;
    while (at < count && isfinite(numbers[at]))
        at++;
    return at;
}

/* What the caller has may have no noise, or not all of it. */
static int withhold(float *sum, size_t count, int error)
{
    memset(sum, 0, count * sizeof(*sum));
    return error;
}

int dp_release(tarry_dp *self, uint64_t round, float *sum, size_t count,
               tarry_diagnostic *diagnostic)
{
    int error = self->ledger != NULL ? ledger_file_add(self->ledger, diagnostic) : TARRY_OK;
    if (error != TARRY_OK)
        return error;
    self->releases++;
    /* Counted all the same: whoever sees the error learns something of the sum. */
    const size_t wrong = find_not_finite(sum, count);
    if (wrong < count)
        return withhold(sum, count,
                        diagnose(diagnostic, TARRY_ERROR_NUMERICAL,
                                 "the sum of round %llu is not finite: number %zu is %g. It is not "
                                 "released, but counts as a release. Some worker computes numbers "
                                 "that are not finite: check its data, model and machine",
                                 (unsigned long long)round, wrong, (double)sum[wrong]));
    if (noise_add(self->noise_key, self->releases, self->terms.noise * self->terms.clip, sum,
                  count) != 0)
        return withhold(sum, count, diagnose_no_memory(diagnostic, "noise"));
    return TARRY_OK;
}

int tarry_dp_release(tarry_dp *self, float *sum, size_t count, tarry_diagnostic *diagnostic)
{
    return dp_release(self, self->releases + 1, sum, count, diagnostic);
}

double tarry_dp_bound(tarry_dp *self)
{
    return rdp_curve_epsilon(&self->curve, self->releases, self->terms.delta);
}

int tarry_dp_epsilon(const tarry_dp *self, double *epsilon, tarry_diagnostic *diagnostic)
{
    return epsilon_after(self, self->releases, epsilon, diagnostic);
}

int tarry_dp_piece_key(const tarry_dp *self, uint64_t piece, uint8_t key[TARRY_DP_KEY_BYTES],
                       tarry_diagnostic *diagnostic)
{
    static const char label[] = "tarry privacy: draws of a piece ";
    uint8_t text[sizeof(label) + KEYSTREAM_KEY_BYTES + 8];
    memcpy(text, label, sizeof(label));
    memcpy(text + sizeof(label), self->draws.key, KEYSTREAM_KEY_BYTES);
    bytes_put(text + sizeof(label) + KEYSTREAM_KEY_BYTES, piece, 8);
    const int error = digest_of_bytes(text, sizeof(text), key);
    explicit_bzero(text, sizeof(text));
    return error == 0 ? TARRY_OK : diagnose_no_memory(diagnostic, "keys");
}

int tarry_dp_draw(const uint8_t key[TARRY_DP_KEY_BYTES], double sample, uint64_t round,
                  uint64_t first, size_t count, size_t *samples, size_t *drawn,
                  tarry_diagnostic *diagnostic)
{
    sampler of = {.rate = sample};
    if (!(sample >= 0 && sample <= 1))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "sample %g: 0 to 1 is wanted", sample);
    memcpy(of.key, key, sizeof(of.key));
    const int error = sampler_draw(&of, round, first, count, samples, drawn);
    explicit_bzero(&of, sizeof(of));
    return error == 0 ? TARRY_OK : diagnose_no_memory(diagnostic, "draws");
}

/* ---- terms ---- */

/* Far from where squares of float32 would be infinite. */
#define MOST_CLIP 1e12
#define MOST_NOISE 1e6
#define MOST_EPSILON 1e6
#define USUAL_DELTA 1e-5

enum { WORD_SIZE = 40 };

typedef enum term { CLIP, NOISE, SAMPLE, DELTA, BUDGET, SEED, TERMS } term;

static const struct {
    const char *name;
    double most;
    bool needed, whole;
} known[TERMS] = {
    [CLIP] = {"clip", MOST_CLIP, true, false},
    [NOISE] = {"noise", MOST_NOISE, true, false},
    [SAMPLE] = {"sample", 1, true, false},
    [DELTA] = {"delta", 0.999999, false, false},
    [BUDGET] = {"budget", MOST_EPSILON, false, false},
    [SEED] = {"seed", 0, false, true},
};

/* The next of the words between commas; false if it is too long. */
static bool take_word(const char **from, char word[WORD_SIZE])
{
    size_t length = strcspn(*from, ",");
    if (length >= WORD_SIZE)
        return false;
    memcpy(word, *from, length);
    word[length] = '\0';
    *from += length + ((*from)[length] == ',');
    return true;
}

/* "name:", or TERMS for none of them. */
static term term_of(const char *word)
{
    for (int i = 0; i < TERMS; i++) {
        size_t length = strlen(known[i].name);
        if (strncmp(word, known[i].name, length) == 0 && word[length] == ':')
            return (term)i;
    }
    return TERMS;
}

static int read_term(const char *text, term which, double reals[TERMS], uint64_t *seed,
                     tarry_diagnostic *diagnostic)
{
    tarry_diagnostic why;
    int error = known[which].whole
                    ? parse_whole(text, 0, INT64_MAX, seed, &why)
                    : parse_real(text, 0, known[which].most, true, &reals[which], &why);
    if (error != TARRY_OK)
        return diagnose(diagnostic, error, "%s: %s", known[which].name, why.text);
    return TARRY_OK;
}

void tarry_dp_terms_init_sized(tarry_dp_terms *terms, size_t size)
{
    if (!sized_begin(terms, size, sizeof(*terms)))
        return;
    terms->clip = terms->noise = terms->sample = 1;
    terms->delta = USUAL_DELTA;
    terms->budget = INFINITY;
}

int tarry_dp_terms_read(const char *text, tarry_dp_terms *terms, tarry_diagnostic *diagnostic)
{
    int error = sized_check(terms->size, sizeof(*terms), "dp", diagnostic);
    if (error != TARRY_OK)
        return error;
    double reals[TERMS] = {[DELTA] = USUAL_DELTA, [BUDGET] = INFINITY};
    bool given[TERMS] = {false};
    uint64_t seed = 0;
    char word[WORD_SIZE];
    for (const char *from = text; *from != '\0';) {
        const bool taken = take_word(&from, word);
        const term which = taken ? term_of(word) : TERMS;
        if (which == TERMS || given[which])
            return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                            "'%s' is not clip:C,noise:SIGMA,sample:Q[,delta:D][,budget:EPS]"
                            "[,seed:N]",
                            text);
        error = read_term(word + strlen(known[which].name) + 1, which, reals, &seed, diagnostic);
        if (error != TARRY_OK)
            return error;
        given[which] = true;
    }
    for (int i = 0; i < TERMS; i++)
        if (known[i].needed && !given[i])
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' has no %s", text, known[i].name);
    *terms = (tarry_dp_terms){
        .size = sizeof(*terms),
        .clip = reals[CLIP],
        .noise = reals[NOISE],
        .sample = reals[SAMPLE],
        .delta = reals[DELTA],
        .budget = reals[BUDGET],
        .seeded = given[SEED],
        .seed = seed,
    };
    return TARRY_OK;
}

/* ---- ledger file ---- */

enum { VERSION = 2, NAME_BYTES = 8, NUMBER_BYTES = 8, SEAL_BYTES = 8 };
enum { RUN_AT = NAME_BYTES + 4, TERMS_AT = RUN_AT + 4 };

static const char NAME[NAME_BYTES + 1] = "tarrypri";

struct ledger_file {
    int descriptor;
    ledger_content content;
    bool unknown; /* a sync failed: what is on disk is not known */
    char path[];
};

static void put_head(const ledger_terms *terms, uint32_t run, uint8_t head[LEDGER_HEAD_BYTES])
{
    memcpy(head, NAME, NAME_BYTES);
    uint8_t *at = bytes_put(bytes_put(head + NAME_BYTES, VERSION, 4), run, 4);
    bytes_put_f64(bytes_put_f64(bytes_put_f64(at, terms->clip), terms->noise), terms->sample);
}

static int seal_of(const uint8_t *bytes, size_t size, uint64_t *seal)
{
    uint8_t whole[32];
    if (digest_of_bytes(bytes, size, whole) != 0)
        return TARRY_ERROR_NO_MEMORY;
    *seal = bytes_get(whole, SEAL_BYTES);
    return TARRY_OK;
}

/* The entry of a release, after one with that seal; *seal becomes its own. */
static int put_entry(uint64_t number, uint64_t *seal, uint8_t bytes[LEDGER_ENTRY_BYTES])
{
    uint8_t sealed[SEAL_BYTES + NUMBER_BYTES];
    bytes_put(bytes_put(sealed, *seal, SEAL_BYTES), number, NUMBER_BYTES);
    if (seal_of(sealed, sizeof(sealed), seal) != TARRY_OK)
        return TARRY_ERROR_NO_MEMORY;
    bytes_put(bytes_put(bytes, number, NUMBER_BYTES), *seal, SEAL_BYTES);
    return TARRY_OK;
}

static size_t size_of(uint64_t releases)
{
    return LEDGER_HEAD_BYTES + (size_t)releases * LEDGER_ENTRY_BYTES;
}

/* True if the bytes are the beginning of that entry, and zeros after it. */
static bool is_torn(const uint8_t *bytes, size_t size, const uint8_t entry[LEDGER_ENTRY_BYTES])
{
    size_t same = 0;
    while (same < size && bytes[same] == entry[same])
        same++;
    while (same < size && bytes[same] == 0)
        same++;
    return same == size;
}

static int check_head(const uint8_t *bytes, size_t size, const ledger_terms *terms,
                      tarry_diagnostic *diagnostic)
{
    uint8_t head[LEDGER_HEAD_BYTES];
    put_head(terms, 0, head);
    if (size < sizeof(head) || memcmp(bytes, head, RUN_AT) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "this is no ledger of a run's releases, or one of another version of "
                        "Tarry");
    if (memcmp(bytes + TERMS_AT, head + TERMS_AT, sizeof(head) - TERMS_AT) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "its releases are of another clip, noise or sample");
    return TARRY_OK;
}

int ledger_file_read(const uint8_t *bytes, size_t size, const ledger_terms *terms,
                     ledger_content *content, tarry_diagnostic *diagnostic)
{
    uint8_t entry[LEDGER_ENTRY_BYTES];
    int error = check_head(bytes, size, terms, diagnostic);
    if (error != TARRY_OK)
        return error;
    ledger_content found = {0};
    if (seal_of(bytes, LEDGER_HEAD_BYTES, &found.seal) != TARRY_OK)
        return diagnose_no_memory(diagnostic, "ledger");
    while (size > size_of(found.whole) && !found.torn) {
        const size_t left = size - size_of(found.whole);
        const uint8_t *at = bytes + size_of(found.whole);
        uint64_t seal = found.seal;
        if (put_entry(found.whole + 1, &seal, entry) != TARRY_OK)
            return diagnose_no_memory(diagnostic, "ledger");
        if (left >= sizeof(entry) && memcmp(at, entry, sizeof(entry)) == 0) {
            found.whole++;
            found.seal = seal;
        } else if (left <= sizeof(entry) && is_torn(at, left, entry)) {
            found.torn = true;
        } else {
            return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                            "damaged after %" PRIu64 " releases: how many there were is not known. "
                            "Restore the ledger from a copy that is not damaged",
                            found.whole);
        }
    }
    *content = found;
    return TARRY_OK;
}

static int say_system(const ledger_file *file, tarry_diagnostic *diagnostic)
{
    return diagnose_file(diagnostic, file->path, errno);
}

/* The file and its folder: the name of a new file is on disk once its folder is synced. */
static int sync_all(ledger_file *file, tarry_diagnostic *diagnostic)
{
    if (fsync(file->descriptor) == 0 && whole_file_sync_folder(file->path))
        return TARRY_OK;
    return say_system(file, diagnostic);
}

/* True if a new ledger may take the file's place: it is empty, or the head of a ledger whose
 * creation did not end. */
static bool is_begun(const ledger_file *file)
{
    static const uint8_t lost[NAME_BYTES];
    uint8_t found[NAME_BYTES];
    const ssize_t size = pread(file->descriptor, found, sizeof(found), 0);
    return size >= 0 &&
           (memcmp(found, NAME, (size_t)size) == 0 || memcmp(found, lost, (size_t)size) == 0);
}

static int ledger_begin(ledger_file *file, const ledger_terms *terms, tarry_diagnostic *diagnostic)
{
    struct stat status;
    uint8_t head[LEDGER_HEAD_BYTES];
    uint32_t run;
    if (fstat(file->descriptor, &status) != 0)
        return say_system(file, diagnostic);
    if (!is_begun(file))
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "%s: this file is in the way: it is not a ledger, and is not overwritten",
                        file->path);
    if (status.st_size > LEDGER_HEAD_BYTES)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "%s: an earlier run has released sums of its data: --resume goes on from "
                        "it, and a new run is added up with it by hand",
                        file->path);
    if (getrandom(&run, sizeof(run), 0) != (ssize_t)sizeof(run))
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "random numbers of the system: %s",
                        strerror(errno));
    put_head(terms, run, head);
    if (seal_of(head, sizeof(head), &file->content.seal) != TARRY_OK)
        return diagnose_no_memory(diagnostic, file->path);
    if (ftruncate(file->descriptor, 0) != 0 ||
        !whole_file_write_at(file->descriptor, head, sizeof(head), 0))
        return say_system(file, diagnostic);
    return sync_all(file, diagnostic);
}

static int ledger_go_on(ledger_file *file, const ledger_terms *terms, tarry_diagnostic *diagnostic)
{
    uint8_t *bytes;
    size_t size;
    tarry_diagnostic why;
    int error = whole_file_read(file->path, &bytes, &size, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = ledger_file_read(bytes, size, terms, &file->content, &why);
    memory_release(NULL, bytes);
    if (error != TARRY_OK)
        return diagnose(diagnostic, error, "%s: %s", file->path, why.text);
    return sync_all(file, diagnostic); /* the process before may have ended first */
}

int ledger_file_open(const char *path, bool goes_on, const ledger_terms *terms, ledger_file **out,
                     tarry_diagnostic *diagnostic)
{
    struct stat status;
    const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (goes_on ? 0 : O_CREAT);
    ledger_file *file = memory_allocate(NULL, sizeof(*file) + strlen(path) + 1, 1);
    if (file == NULL)
        return diagnose_no_memory(diagnostic, path);
    strcpy(file->path, path);
    file->descriptor = open(path, flags, 0600);
    int error;
    if (file->descriptor < 0 || fstat(file->descriptor, &status) != 0)
        error = say_system(file, diagnostic);
    else if (!S_ISREG(status.st_mode))
        error = diagnose(diagnostic, TARRY_ERROR_FILE, "%s: this is no file", path);
    else if (flock(file->descriptor, LOCK_EX | LOCK_NB) != 0)
        error = diagnose(diagnostic, TARRY_ERROR_STATE, "%s: another run counts there", path);
    else
        error =
            goes_on ? ledger_go_on(file, terms, diagnostic) : ledger_begin(file, terms, diagnostic);
    if (error == TARRY_OK)
        *out = file;
    else
        ledger_file_close(file);
    return error;
}

void ledger_file_close(ledger_file *file)
{
    if (file == NULL)
        return;
    if (file->descriptor >= 0)
        close(file->descriptor);
    memory_release(NULL, file);
}

uint64_t ledger_file_releases(const ledger_file *file)
{
    return file->content.whole + file->content.torn;
}

tarry_dp_mark ledger_file_mark(const ledger_file *file)
{
    return (tarry_dp_mark){file->content.whole, file->content.seal};
}

/* The seal of a release that the ledger has; 0: of none. */
static int read_seal(const ledger_file *file, uint64_t release, uint64_t *seal,
                     tarry_diagnostic *diagnostic)
{
    uint8_t head[LEDGER_HEAD_BYTES], stored[SEAL_BYTES];
    const bool is_head = release == 0;
    uint8_t *bytes = is_head ? head : stored;
    const size_t size = is_head ? sizeof(head) : sizeof(stored);
    const size_t at = is_head ? 0 : size_of(release) - SEAL_BYTES;
    errno = EIO;
    if (pread(file->descriptor, bytes, size, (off_t)at) != (ssize_t)size)
        return say_system(file, diagnostic);
    if (!is_head)
        *seal = bytes_get(stored, SEAL_BYTES);
    else if (seal_of(head, sizeof(head), seal) != TARRY_OK)
        return diagnose_no_memory(diagnostic, file->path);
    return TARRY_OK;
}

int ledger_file_covers(const ledger_file *file, const tarry_dp_mark *mark, uint64_t rounds,
                       tarry_diagnostic *diagnostic)
{
    const uint64_t least = mark->releases > rounds ? mark->releases : rounds;
    uint64_t seal = mark->seal;
    if (file->content.whole < least)
        return diagnose(
            diagnostic, TARRY_ERROR_FORMAT,
            "%s: the ledger counts %" PRIu64 " releases, but the checkpoint was written "
            "after %" PRIu64 " rounds and %" PRIu64 " releases. Restore the ledger that "
            "belongs to the checkpoint: without it the run cannot resume, because its "
            "epsilon is not known",
            file->path, file->content.whole, rounds, least);
    int error = mark->seal != 0 ? read_seal(file, mark->releases, &seal, diagnostic) : TARRY_OK;
    if (error == TARRY_OK && seal != mark->seal)
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT,
                         "%s: the ledger, with %" PRIu64 " releases, is of another run than the "
                         "checkpoint, which was written after %" PRIu64 " rounds and %" PRIu64
                         " releases. Restore the ledger that belongs to the checkpoint",
                         file->path, file->content.whole, rounds, least);
    return error;
}

int ledger_file_add(ledger_file *file, tarry_diagnostic *diagnostic)
{
    const uint64_t whole = file->content.whole, next = ledger_file_releases(file) + 1;
    uint8_t entries[2 * LEDGER_ENTRY_BYTES], *end = entries; /* a torn one is written again */
    ledger_content after = {.whole = next, .seal = file->content.seal};
    if (file->unknown)
        return diagnose(diagnostic, TARRY_ERROR_FILE,
                        "%s: an earlier release could not be synced: resume the run to count again",
                        file->path);
    for (uint64_t number = whole + 1; number <= next; number++, end += LEDGER_ENTRY_BYTES)
        if (put_entry(number, &after.seal, end) != TARRY_OK)
            return diagnose_no_memory(diagnostic, file->path);
    if (!whole_file_write_at(file->descriptor, entries, (size_t)(end - entries), size_of(whole)))
        return say_system(file, diagnostic);
    /* The pages of a sync that failed may be marked clean, so a second sync proves nothing. */
    file->unknown = fdatasync(file->descriptor) != 0;
    if (file->unknown)
        return say_system(file, diagnostic);
    file->content = after;
    return TARRY_OK;
}
