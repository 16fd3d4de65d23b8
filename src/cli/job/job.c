/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job/job.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tarry/tcp.h>

#include "base/diagnostic.h"
#include "base/hex.h"
#include "base/memory.h"
#include "base/number.h"
#include "cli/text/numbers.h"
#include "learn/dataset.h"

enum { VERSION = 2, NUMBER_SIZE = 24, HASH_SIZE = 32 };

_Static_assert((int)JOB_DIGEST_SIZE == HASH_SIZE && (int)KEYSTREAM_KEY_BYTES == HASH_SIZE,
               "digests and keys are read alike");

static const uint64_t most_rows = UINT64_C(1) << 48;
static const double most_clip = 1e12; /* of --dp */

static const char *const models[] = {
    [MODEL_LEAST_SQUARES] = "least-squares",
    [MODEL_LOGISTIC] = "logistic",
    [MODEL_SOFTMAX] = "softmax",
    [MODEL_PERCEPTRON] = "perceptron",
};

static const char *const optimizers[] = {
    [OPTIMIZER_GD] = "gd",
    [OPTIMIZER_MOMENTUM] = "momentum",
    [OPTIMIZER_NESTEROV] = "nesterov",
    [OPTIMIZER_ADAM] = "adam",
};

/* Whole numbers go as text: JSON's readers take no more than 53 or 63 bits of them. */
static json_t *whole(uint64_t number)
{
    char text[NUMBER_SIZE];
    snprintf(text, sizeof(text), "%" PRIu64, number);
    return json_string(text);
}

static json_t *hexadecimal(const uint8_t bytes[HASH_SIZE])
{
    char text[2 * HASH_SIZE + 1];
    hex_put(text, bytes, HASH_SIZE);
    return json_string(text);
}

static json_t *widths(const objective_settings *model)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list != NULL && i < model->hidden_layers; i++)
        list = json_append(list, json_integer(model->hidden[i]));
    return list;
}

static json_t *optimizer_object(const optimizer_settings *settings)
{
    return json_pack("{s:s, s:f, s:f}", "name", optimizers[settings->kind], "rate", settings->rate,
                     "decay", settings->decay);
}

/* What only some jobs have: what workers step with, alone or on everyone's sum, and that sums are
 * private; NULL is passed on. */
static json_t *add_steps(json_t *job, const job_spec *spec)
{
    int failed = 0;
    if (job == NULL)
        return job;
    if (spec->secure)
        failed = json_object_set_new(job, "secure", json_true());
    if (spec->clip > 0)
        failed |= json_object_set_new(job, "clip", json_real(spec->clip)) |
                  json_object_set_new(job, "sample", json_real(spec->sample));
    if (spec->tells_draws)
        failed |= json_object_set_new(job, "draws", hexadecimal(spec->draws));
    if (spec->everywhere)
        failed |= json_object_set_new(job, "optimizer", optimizer_object(&spec->optimizer));
    if (spec->local.steps > 0)
        failed |=
            json_object_set_new(job, "local_steps", json_integer((json_int_t)spec->local.steps)) |
            json_object_set_new(job, "inner", optimizer_object(&spec->local.inner));
    if (failed == 0)
        return job;
    json_decref(job);
    return NULL;
}

int job_encode(const job_spec *spec, char **text)
{
    const objective_settings *model = &spec->model;
    json_t *job = json_pack(
        "{s:i, s:s, s:I, s:I, s:b, s:o, s:b, s:f, s:o, s:I, s:o, s:o, s:f, s:o, s:o}", "version",
        VERSION, "model", models[model->model], "features", (json_int_t)model->features, "classes",
        (json_int_t)model->classes, "sparse", spec->sparse, "hidden", widths(model), "intercept",
        model->intercept, "l2", model->l2, "rows", whole(spec->batch.rows), "chunks",
        (json_int_t)spec->batch.chunks, "batch", whole(spec->batch.batch), "seed",
        whole(spec->batch.seed), "holdout", spec->holdout, "made_samples",
        whole(spec->made_samples), "data", hexadecimal(spec->data));
    job = add_steps(job, spec);
    char *dumped = job != NULL ? json_dumps(job, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(job);
    if (dumped == NULL)
        return TARRY_ERROR_NO_MEMORY;
    *text = dumped;
    return TARRY_OK;
}

/* ---- reading ---- */

/* Values are read one after the other; the first that is wrong is told of. */
typedef struct reader {
    const json_t *job;
    const char *wrong; /* the name; NULL: all were right so far */
} reader;

static const json_t *look_up(reader *from, const char *name)
{
    return from->wrong == NULL ? json_object_get(from->job, name) : NULL;
}

static void reject(reader *from, const char *name)
{
    if (from->wrong == NULL)
        from->wrong = name;
}

static uint64_t read_whole(reader *from, const char *name, uint64_t least, uint64_t most)
{
    const json_t *value = look_up(from, name);
    uint64_t number = 0;
    if (!json_is_string(value) ||
        parse_whole(json_string_value(value), least, most, &number, NULL) != TARRY_OK)
        reject(from, name);
    return number;
}

static uint32_t read_count(reader *from, const char *name, uint32_t least)
{
    const json_t *value = look_up(from, name);
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < least || number > UINT32_MAX)
        reject(from, name);
    return (uint32_t)number;
}

static double read_real(reader *from, const char *name, double most)
{
    const json_t *value = look_up(from, name);
    double number = json_real_value(value);
    if (!json_is_real(value) || !(number >= 0 && number <= most))
        reject(from, name);
    return number;
}

static bool read_flag(reader *from, const char *name)
{
    const json_t *value = look_up(from, name);
    if (!json_is_boolean(value))
        reject(from, name);
    return json_is_true(value);
}

static const char *read_text(reader *from, const char *name)
{
    const json_t *value = look_up(from, name);
    if (!json_is_string(value))
        reject(from, name);
    return json_is_string(value) ? json_string_value(value) : "";
}

/* The place of the text among those of a list. */
static size_t read_choice(reader *from, const char *name, const char *const choices[], size_t count)
{
    const char *text = read_text(from, name);
    for (size_t i = 0; i < count; i++)
        if (strcmp(text, choices[i]) == 0)
            return i;
    reject(from, name);
    return 0;
}

#define CHOICES(list) (list), sizeof(list) / sizeof((list)[0])

static void read_optimizer(reader *from, const char *name, optimizer_settings *out)
{
    reader within = {.job = look_up(from, name)};
    *out = (optimizer_settings){
        .kind = (optimizer_kind)read_choice(&within, "name", CHOICES(optimizers)),
        .rate = read_real(&within, "rate", 1e9),
        .decay = read_real(&within, "decay", 1),
    };
    if (within.wrong != NULL || out->rate == 0 || out->decay == 1)
        reject(from, name);
}

static void read_steps(reader *from, job_spec *spec)
{
    spec->secure = look_up(from, "secure") != NULL && read_flag(from, "secure");
    spec->everywhere = look_up(from, "optimizer") != NULL;
    if (spec->everywhere)
        read_optimizer(from, "optimizer", &spec->optimizer);
    if (look_up(from, "local_steps") != NULL) {
        spec->local.steps = read_count(from, "local_steps", 1);
        read_optimizer(from, "inner", &spec->local.inner);
    }
}

static void read_hidden(reader *from, objective_settings *model)
{
    const json_t *list = look_up(from, "hidden");
    size_t layers = json_array_size(list);
    if (!json_is_array(list) || layers > OBJECTIVE_MAX_HIDDEN ||
        (layers > 0) != (model->model == MODEL_PERCEPTRON))
        return reject(from, "hidden");
    for (size_t i = 0; i < layers; i++) {
        const json_t *width = json_array_get(list, i);
        json_int_t number = json_integer_value(width);
        if (!json_is_integer(width) || number < 1 || number > UINT32_MAX)
            return reject(from, "hidden");
        model->hidden[i] = (uint32_t)number;
    }
    model->hidden_layers = (uint32_t)layers;
}

static void read_hexadecimal(reader *from, const char *name, uint8_t bytes[HASH_SIZE])
{
    const char *text = read_text(from, name);
    size_t length = strlen(text);
    if (length != 2 * HASH_SIZE || hex_get(text, length, bytes, HASH_SIZE) != HASH_SIZE)
        reject(from, name);
}

/* What a sample adds is bounded in a sum over chunks alone. */
static void read_privacy(reader *from, job_spec *spec)
{
    spec->tells_draws = look_up(from, "draws") != NULL;
    if (look_up(from, "clip") == NULL) {
        if (spec->tells_draws)
            reject(from, "draws");
        return;
    }
    spec->clip = read_real(from, "clip", most_clip);
    spec->sample = read_real(from, "sample", 1);
    if (spec->clip == 0 || spec->batch.batch != 0 || spec->local.steps != 0 || spec->everywhere ||
        spec->secure)
        reject(from, "clip");
    if (spec->sample == 0)
        reject(from, "sample");
    if (spec->tells_draws)
        read_hexadecimal(from, "draws", spec->draws);
}

static void read_all(reader *from, job_spec *spec)
{
    objective_settings *model = &spec->model;
    model->model = (model_kind)read_choice(from, "model", CHOICES(models));
    bool classes = objective_labels(model->model) == LABEL_CLASS;
    model->features = read_count(from, "features", 1);
    model->classes = read_count(from, "classes", classes ? 2 : 0);
    spec->sparse = read_flag(from, "sparse");
    read_hidden(from, model);
    model->intercept = read_flag(from, "intercept");
    model->l2 = read_real(from, "l2", 1e9);
    spec->batch.rows = read_whole(from, "rows", 1, most_rows);
    spec->batch.chunks = read_count(from, "chunks", 1);
    spec->batch.batch = read_whole(from, "batch", 0, most_rows);
    spec->batch.seed = read_whole(from, "seed", 0, UINT64_MAX);
    spec->holdout = read_real(from, "holdout", 0.99);
    spec->made_samples = read_whole(from, "made_samples", 0, most_rows);
    read_hexadecimal(from, "data", spec->data);
    read_steps(from, spec);
    read_privacy(from, spec);
}

int job_decode(const void *text, size_t size, job_spec *out, tarry_diagnostic *diagnostic)
{
    json_error_t unused;
    json_t *job = json_loadb(text, size, JSON_REJECT_DUPLICATES, &unused);
    const json_t *version = json_object_get(job, "version");
    int error = TARRY_OK;
    job_spec spec = {0};
    reader from = {.job = job};
    if (!json_is_integer(version))
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT, "the server's job: this is none");
    else if (json_integer_value(version) != VERSION)
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT,
                         "the server's job: version %lld is not known; this worker knows %d",
                         (long long)json_integer_value(version), VERSION);
    if (error == TARRY_OK) {
        read_all(&from, &spec);
        if (from.wrong != NULL)
            error = diagnose(diagnostic, TARRY_ERROR_FORMAT,
                             "the server's job: %s: missing, or out of range", from.wrong);
    }
    json_decref(job);
    if (error == TARRY_OK)
        *out = spec;
    return error;
}

/* ---- replicas ---- */

/* The state as bytes, all in the machine's own order: this head, then the vectors, `dimension`
 * float32 each: the parameters, and what the optimizer has of velocity and square. */
typedef struct state_head {
    uint64_t order; /* ORDER, which reads as another number where the order is another one */
    uint64_t steps, dimension, optimizer;
    double decayed, square_decayed;
} state_head;

#define ORDER UINT64_C(0x0102030405060708)

enum { MOST_REGIONS = 4 }; /* the head, and three vectors */

typedef struct region {
    uint8_t *bytes;
    uint64_t size;
} region;

typedef struct holding {
    job_replicas *all;
    uint64_t steps;  /* guarded by the lock of all; who takes them may read it without */
    state_head head; /* of the state that is saved, or comes in */
    float *parameters;
    float *gradient; /* of the objective */
    optimizer *optimizer;
} holding;

struct job_replicas {
    job_replicas_settings of;
    size_t dimension;
    uint32_t count;
    pthread_mutex_t lock;
    pthread_cond_t stepped;
    holding *items;
    tarry_replica *list;
};

/* What the holding has is now the state after so many steps. */
static void publish(holding *own, uint64_t steps)
{
    job_replicas *all = own->all;
    pthread_mutex_lock(&all->lock);
    own->steps = steps;
    pthread_cond_broadcast(&all->stepped);
    pthread_mutex_unlock(&all->lock);
}

static int step(void *user, uint64_t number, const float *sum)
{
    holding *own = user;
    const job_replicas_settings *of = &own->all->of;
    local_mean(&of->local, of->model, own->parameters, sum, of->samples, own->gradient);
    optimizer_step(own->optimizer, own->gradient, own->parameters);
    publish(own, number);
    return TARRY_OK;
}

static int give_parameters(void *user, float *parameters)
{
    const holding *own = user;
    memcpy(parameters, own->parameters, own->all->dimension * sizeof(float));
    return TARRY_OK;
}

/* ---- the state as bytes ---- */

static size_t regions_of(state_head *head, float *parameters, const optimizer_state *state,
                         size_t dimension, region regions[MOST_REGIONS])
{
    float *const vectors[] = {parameters, state->velocity, state->square};
    size_t count = 0;
    regions[count++] = (region){(uint8_t *)head, sizeof(*head)};
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
        if (vectors[i] != NULL)
            regions[count++] = (region){(uint8_t *)vectors[i], dimension * sizeof(float)};
    return count;
}

static size_t own_regions(holding *own, region regions[MOST_REGIONS])
{
    return regions_of(&own->head, own->parameters, optimizer_state_of(own->optimizer),
                      own->all->dimension, regions);
}

static uint64_t regions_size(const region *regions, size_t count)
{
    uint64_t size = 0;
    while (count > 0)
        size += regions[--count].size;
    return size;
}

static uint64_t state_size(void *user)
{
    region regions[MOST_REGIONS];
    size_t count = own_regions(user, regions);
    return regions_size(regions, count);
}

static state_head head_of(const holding *own)
{
    const optimizer_state *state = optimizer_state_of(own->optimizer);
    return (state_head){
        .order = ORDER,
        .steps = own->steps,
        .dimension = own->all->dimension,
        .optimizer = own->all->of.optimizer.kind,
        .decayed = state->decayed,
        .square_decayed = state->square_decayed,
    };
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static int save(void *user, uint64_t first, void *bytes, size_t size)
{
    holding *own = user;
    region regions[MOST_REGIONS];
    uint8_t *to = bytes;
    own->head = head_of(own);
    size_t count = own_regions(own, regions);
    for (size_t i = 0; i < count; first -= regions[i++].size) {
        if (first >= regions[i].size)
            continue;
        size_t length = smaller(regions[i].size - first, size);
        memcpy(to, regions[i].bytes + first, length);
        to += length;
        size -= length;
        first = regions[i].size;
    }
    return size == 0 ? TARRY_OK : TARRY_ERROR_ARGUMENT;
}

/* Whether it is that of a state for these replicas. */
static bool fits(const job_replicas *all, const state_head *head)
{
    return head->order == ORDER && head->dimension == all->dimension &&
           head->optimizer == all->of.optimizer.kind;
}

static int load(void *user, uint64_t total, uint64_t first, const void *bytes, size_t size)
{
    holding *own = user;
    region regions[MOST_REGIONS];
    const uint8_t *from = bytes;
    uint64_t end = first + size;
    if (total != state_size(own))
        return TARRY_ERROR_FORMAT;
    size_t count = own_regions(own, regions);
    for (size_t i = 0; i < count && size > 0; first -= regions[i++].size) {
        if (first >= regions[i].size)
            continue;
        size_t length = smaller(regions[i].size - first, size);
        memcpy(regions[i].bytes + first, from, length);
        if (i == 0 && first + length == regions[i].size && !fits(own->all, &own->head))
            return TARRY_ERROR_FORMAT;
        from += length;
        size -= length;
        first = regions[i].size;
    }
    if (end < total)
        return TARRY_OK;
    optimizer_state *state = optimizer_state_of(own->optimizer);
    state->decayed = own->head.decayed;
    state->square_decayed = own->head.square_decayed;
    publish(own, own->head.steps);
    return TARRY_OK;
}

/* ---- all of them ---- */

/* Of optimizers of the same kind. */
static void copy_state(optimizer_state *to, const optimizer_state *from, size_t dimension)
{
    if (from->velocity != NULL)
        memcpy(to->velocity, from->velocity, dimension * sizeof(float));
    if (from->square != NULL)
        memcpy(to->square, from->square, dimension * sizeof(float));
    to->decayed = from->decayed;
    to->square_decayed = from->square_decayed;
}

static int create_holding(job_replicas *self, holding *own)
{
    const job_replicas_settings *of = &self->of;
    own->all = self;
    own->parameters = vector_allocate(NULL, self->dimension);
    own->gradient = vector_allocate(NULL, self->dimension);
    if (own->parameters == NULL || own->gradient == NULL)
        return TARRY_ERROR_NO_MEMORY;
    int error = optimizer_create(&of->optimizer, self->dimension, NULL, &own->optimizer);
    if (error != TARRY_OK)
        return error;
    if (of->parameters == NULL) {
        objective_initial(of->model, of->seed, own->parameters);
        return TARRY_OK;
    }
    own->steps = of->steps;
    memcpy(own->parameters, of->parameters, self->dimension * sizeof(float));
    copy_state(optimizer_state_of(own->optimizer), of->state, self->dimension);
    return TARRY_OK;
}

uint64_t job_replicas_bytes(optimizer_kind kind, size_t dimension)
{
    enum { OWN = 2 }; /* parameters and gradient */
    return (uint64_t)(OWN + optimizer_vectors(kind)) * dimension * sizeof(float);
}

int job_replicas_create(const job_replicas_settings *settings, uint32_t count, job_replicas **out)
{
    job_replicas *self = memory_allocate(NULL, 1, sizeof(*self));
    if (self == NULL)
        return TARRY_ERROR_NO_MEMORY;
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->stepped, NULL);
    self->of = *settings;
    self->count = count;
    self->dimension = objective_dimension(settings->model);
    self->items = memory_allocate(NULL, count, sizeof(*self->items));
    self->list = memory_allocate(NULL, count, sizeof(*self->list));
    int error = self->items == NULL || self->list == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
    for (uint32_t i = 0; i < count && error == TARRY_OK; i++) {
        error = create_holding(self, &self->items[i]);
        self->list[i] = (tarry_replica){
            .user = &self->items[i],
            .step = step,
            .parameters = give_parameters,
            .state_size = state_size,
            .save = save,
            .load = load,
        };
    }
    if (error == TARRY_OK)
        *out = self;
    else
        job_replicas_free(self);
    return error;
}

void job_replicas_free(job_replicas *self)
{
    if (self == NULL)
        return;
    for (uint32_t i = 0; self->items != NULL && i < self->count; i++) {
        holding *own = &self->items[i];
        optimizer_free(own->optimizer);
        vector_release(NULL, own->gradient);
        vector_release(NULL, own->parameters);
    }
    memory_release(NULL, self->list);
    memory_release(NULL, self->items);
    pthread_cond_destroy(&self->stepped);
    pthread_mutex_destroy(&self->lock);
    memory_release(NULL, self);
}

const tarry_replica *job_replicas_list(const job_replicas *self)
{
    return self->list;
}

/* The first that has taken so many steps; NULL: none yet. With the lock held. */
static const holding *find_stepped(const job_replicas *self, uint64_t steps)
{
    for (uint32_t i = 0; i < self->count; i++)
        if (self->items[i].steps == steps)
            return &self->items[i];
    return NULL;
}

int job_replicas_copy(job_replicas *self, uint8_t **bytes, uint64_t *size)
{
    holding *own = &self->items[0];
    *size = state_size(own);
    *bytes = memory_allocate(NULL, (size_t)*size, 1);
    return *bytes == NULL ? TARRY_ERROR_NO_MEMORY : save(own, 0, *bytes, (size_t)*size);
}

void job_replicas_look(job_replicas *self, uint64_t steps, float *parameters,
                       optimizer_state *state)
{
    const holding *own;
    pthread_mutex_lock(&self->lock);
    while ((own = find_stepped(self, steps)) == NULL)
        pthread_cond_wait(&self->stepped, &self->lock);
    pthread_mutex_unlock(&self->lock);
    memcpy(parameters, own->parameters, self->dimension * sizeof(float));
    copy_state(state, optimizer_state_of(own->optimizer), self->dimension);
}

int job_replicas_read(const job_replicas *self, uint64_t steps, const void *bytes, uint64_t size,
                      float *parameters, optimizer_state *state)
{
    const uint8_t *from = bytes;
    state_head head;
    region regions[MOST_REGIONS];
    size_t count = regions_of(&head, parameters, state, self->dimension, regions);
    if (size != regions_size(regions, count))
        return TARRY_ERROR_FORMAT;
    memcpy(&head, from, sizeof(head));
    if (!fits(self, &head) || head.steps != steps)
        return TARRY_ERROR_FORMAT;
    for (size_t i = 0; i < count; from += regions[i++].size)
        memcpy(regions[i].bytes, from, regions[i].size);
    state->decayed = head.decayed;
    state->square_decayed = head.square_decayed;
    return TARRY_OK;
}

/* ---- draws key ---- */

enum { ABOVE = STDERR_FILENO + 1 };

static int fill(int file, const uint8_t key[KEYSTREAM_KEY_BYTES])
{
    if (file < 0 || write(file, key, KEYSTREAM_KEY_BYTES) != KEYSTREAM_KEY_BYTES ||
        fcntl(file, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
        return -1;
    return fcntl(file, F_DUPFD_CLOEXEC, ABOVE);
}

int draws_key_share(const uint8_t key[KEYSTREAM_KEY_BYTES], int *descriptor,
                    tarry_diagnostic *diagnostic)
{
    int file = memfd_create("tarry-draws", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int shared = fill(file, key), failed = errno;
    if (file >= 0)
        close(file);
    if (shared < 0)
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "the key of draws: %s", strerror(failed));
    *descriptor = shared;
    return TARRY_OK;
}

int draws_key_read(const char *path, uint8_t key[KEYSTREAM_KEY_BYTES], tarry_diagnostic *diagnostic)
{
    uint8_t bytes[KEYSTREAM_KEY_BYTES + 1];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = file >= 0 ? read(file, bytes, sizeof(bytes)) : -1;
    int failed = errno;
    if (file >= 0)
        close(file);
    if (size < 0)
        return diagnose_file(diagnostic, path, failed);
    if (size != KEYSTREAM_KEY_BYTES)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: a key has %d bytes", path,
                        KEYSTREAM_KEY_BYTES);
    memcpy(key, bytes, KEYSTREAM_KEY_BYTES);
    explicit_bzero(bytes, sizeof(bytes));
    return TARRY_OK;
}
