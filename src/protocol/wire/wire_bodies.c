/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/compress.h"
#include "protocol/wire/wire_layout.h"
#include "protocol/wire/wire_text.h"

enum {
    FLAG_KEEPS_STALE = 1 << 0,
    FLAG_SHIPS = 1 << 1,
    FLAG_EVERYWHERE = 1 << 2,
    FLAGS = FLAG_KEEPS_STALE | FLAG_SHIPS | FLAG_EVERYWHERE,
    NUMBER_BYTES = 4,
};

/* "TARRY" and its terminator. */
static const char magic[6] = "TARRY";

/* ---- the beginning and the end of a connection ---- */

size_t wire_hello_encode(const wire_hello *hello, uint8_t *frame)
{
    uint8_t *at = wire_put_bytes(frame + WIRE_HEAD_BYTES, magic, sizeof(magic));
    at = bytes_put(at, hello->oldest, 2);
    at = bytes_put(at, hello->newest, 2);
    at = bytes_put(at, hello->role, 1);
    at = bytes_put(at, hello->ranking, 1);
    at = bytes_put(at, hello->worker, 4);
    at = wire_put_bytes(at, hello->instance, WIRE_ID_BYTES);
    at = wire_put_bytes(at, hello->job, WIRE_ID_BYTES);
    at = wire_put_bytes(at, hello->plan, WIRE_DIGEST_BYTES);
    at = wire_put_bytes(at, hello->host, WIRE_ID_BYTES);
    at = wire_put_text(at, hello->rack);
    return wire_close(WIRE_HELLO, frame, at, 0);
}

int wire_hello_decode(const wire_head *head, const uint8_t *body, wire_hello *hello)
{
    wire_reader from = wire_reader_make(body, head->length);
    const uint8_t *word = wire_take(&from, sizeof(magic));
    wire_require(&from, word != NULL && memcmp(word, magic, sizeof(magic)) == 0);
    wire_hello read = {.oldest = (uint16_t)wire_get_between(&from, 2, 1, UINT16_MAX)};
    read.newest = (uint16_t)wire_get_between(&from, 2, read.oldest, UINT16_MAX);
    /* What follows in a HELLO that does not speak this version is nobody's business here: it is
     * to hear that, and not that it is damaged. */
    bool foreign = read.oldest > WIRE_VERSION || read.newest < WIRE_VERSION;
    if (!foreign) {
        read.role = (wire_role)wire_get_between(&from, 1, 0, WIRE_ROLES - 1);
        read.ranking = (uint8_t)wire_get(&from, 1);
        read.worker = (uint32_t)wire_get(&from, 4);
        wire_get_bytes(&from, read.instance, WIRE_ID_BYTES);
        wire_get_bytes(&from, read.job, WIRE_ID_BYTES);
        wire_get_bytes(&from, read.plan, WIRE_DIGEST_BYTES);
        wire_get_bytes(&from, read.host, WIRE_ID_BYTES);
        wire_get_rack(&from, read.rack);
    }
    bool may_be_longer = foreign || read.newest > WIRE_VERSION;
    if (from.damaged || (from.left > 0 && !may_be_longer))
        return TARRY_ERROR_FORMAT;
    *hello = read;
    return TARRY_OK;
}

size_t wire_welcome_encode(const wire_welcome *welcome, uint8_t *frame)
{
    unsigned flags = (welcome->keeps_stale ? FLAG_KEEPS_STALE : 0U) |
                     (welcome->ships ? FLAG_SHIPS : 0U) |
                     (welcome->everywhere ? FLAG_EVERYWHERE : 0U);
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, welcome->version, 2);
    at = bytes_put(at, welcome->keep, 1);
    at = bytes_put(at, flags, 1);
    at = bytes_put(at, welcome->worker, 4);
    at = wire_put_bytes(at, welcome->job, WIRE_ID_BYTES);
    at = wire_put_bytes(at, welcome->plan, WIRE_DIGEST_BYTES);
    at = bytes_put(at, welcome->workers, 4);
    at = bytes_put(at, welcome->ahead, 4);
    at = bytes_put(at, welcome->parameters, 8);
    at = bytes_put(at, welcome->dimension, 8);
    at = bytes_put(at, welcome->stripe_length, 8);
    at = bytes_put_f64(at, welcome->conditioning_limit);
    at = bytes_put(at, welcome->silence_ns, 8);
    at = bytes_put(at, welcome->plan_bytes, 8);
    at = bytes_put(at, welcome->job_bytes, 8);
    at = bytes_put(at, welcome->compress, 1);
    at = bytes_put(at, welcome->compress_down, 1);
    at = bytes_put(at, welcome->compress_first, 2);
    const bool lowrank = welcome->compress == TARRY_COMPRESS_POWERSGD;
    at = bytes_put(at, lowrank ? welcome->compress_rank : welcome->compress_share, 4);
    at = bytes_put(at, welcome->compress_exact, 4);
    at = bytes_put(at, welcome->compress_seed, 8);
    at = bytes_put(at, welcome->compress_from, 8);
    at = bytes_put(at, welcome->compress_matrix_count, 4);
    for (uint32_t i = 0; i < welcome->compress_matrix_count; i++) {
        at = bytes_put(at, welcome->compress_matrices[i].rows, 4);
        at = bytes_put(at, welcome->compress_matrices[i].columns, 4);
    }
    at = wire_put_text(at, welcome->near);
    return wire_close(WIRE_WELCOME, frame, at, 0);
}

size_t wire_welcome_encode_shared(const wire_welcome *welcome, uint8_t *frame)
{
    wire_welcome shared = *welcome;
    shared.worker = 0;
    memset(shared.plan, 0, sizeof(shared.plan));
    shared.plan_bytes = shared.job_bytes = 0;
    shared.near[0] = '\0';
    return wire_welcome_encode(&shared, frame);
}

static double get_f64(wire_reader *from)
{
    const uint8_t *taken = wire_take(from, 8);
    return taken == NULL ? 0 : bytes_get_f64(taken);
}

static void get_matrices(wire_reader *from, bool lowrank, wire_welcome *welcome)
{
    welcome->compress_matrix_count =
        (uint32_t)wire_get_between(from, 4, 0, lowrank ? TARRY_COMPRESS_MATRICES_MOST : 0);
    for (uint32_t i = 0; i < welcome->compress_matrix_count && !from->damaged; i++) {
        welcome->compress_matrices[i].rows = (uint32_t)wire_get_between(from, 4, 1, UINT32_MAX);
        welcome->compress_matrices[i].columns = (uint32_t)wire_get_between(from, 4, 1, UINT32_MAX);
    }
}

int wire_welcome_decode(const wire_head *head, const uint8_t *body, wire_welcome *welcome)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_welcome read = {.version =
                             (uint16_t)wire_get_between(&from, 2, WIRE_VERSION, WIRE_VERSION)};
    read.keep = (uint8_t)wire_get_between(&from, 1, TARRY_KEEP_ALL, TARRY_KEEP_CREDITED);
    uint64_t flags = wire_get_between(&from, 1, 0, FLAGS);
    read.keeps_stale = (flags & FLAG_KEEPS_STALE) != 0;
    read.ships = (flags & FLAG_SHIPS) != 0;
    read.everywhere = (flags & FLAG_EVERYWHERE) != 0;
    read.worker = (uint32_t)wire_get(&from, 4);
    wire_get_bytes(&from, read.job, WIRE_ID_BYTES);
    wire_get_bytes(&from, read.plan, WIRE_DIGEST_BYTES);
    read.workers = (uint32_t)wire_get_between(&from, 4, 1, WIRE_ANY_WORKER);
    read.ahead =
        (uint32_t)wire_get_between(&from, 4, 0, read.keep == TARRY_KEEP_CREDITED ? UINT32_MAX : 0);
    read.parameters = wire_get_between(&from, 8, 0, WIRE_VECTOR_MOST);
    read.dimension = wire_get_between(&from, 8, 1, WIRE_VECTOR_MOST);
    read.stripe_length = wire_get_between(&from, 8, 1, WIRE_NUMBERS_MOST);
    read.conditioning_limit = get_f64(&from);
    wire_require(&from, read.conditioning_limit > 1); /* a NaN is not */
    read.silence_ns = wire_get_between(&from, 8, 1, TARRY_NEVER);
    read.plan_bytes = wire_get_between(&from, 8, 0, WIRE_BLOB_MOST);
    read.job_bytes = wire_get_between(&from, 8, 0, WIRE_BLOB_MOST);
    read.compress = (tarry_compress)wire_get_between(&from, 1, TARRY_COMPRESS_NONE,
                                                     read.everywhere ? TARRY_COMPRESS_INT8
                                                                     : TARRY_COMPRESSES - 1);
    read.compress_down =
        (tarry_compress)wire_get_between(&from, 1, TARRY_COMPRESS_NONE, TARRY_COMPRESS_INT8);
    bool shared = read.compress == TARRY_COMPRESS_TOPK;
    read.compress_first = (uint16_t)wire_get_between(&from, 2, 0, shared ? UINT16_MAX : 0);
    const bool lowrank = read.compress == TARRY_COMPRESS_POWERSGD;
    const uint64_t most = shared    ? TARRY_COMPRESS_SHARE_MOST
                          : lowrank ? TARRY_COMPRESS_RANK_MOST
                                    : 0;
    const uint32_t share = (uint32_t)wire_get_between(&from, 4, most > 0 ? 1 : 0, most);
    read.compress_share = shared ? share : 0;
    read.compress_rank = lowrank ? share : 0;
    bool rounds = wire_workers_round(&read);
    read.compress_exact = (uint32_t)wire_get_between(&from, 4, 0, rounds ? UINT32_MAX : 0);
    read.compress_seed = wire_get_between(&from, 8, 0, rounds ? UINT64_MAX : 0);
    read.compress_from = wire_get_between(&from, 8, 0, shared ? UINT64_MAX : 0);
    get_matrices(&from, lowrank, &read);
    wire_get_name(&from, read.near);
    wire_require(&from, read.worker < read.workers || read.worker == WIRE_ANY_WORKER);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *welcome = read;
    return TARRY_OK;
}

size_t wire_refused_encode(const wire_refused *refused, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, refused->reason, 2);
    at = wire_put_text(at, refused->text);
    return wire_close(WIRE_REFUSED, frame, at, 0);
}

int wire_refused_decode(const wire_head *head, const uint8_t *body, wire_refused *refused)
{
    wire_reader from = wire_reader_make(body, head->length);
    uint64_t reason = wire_get_between(&from, 2, WIRE_REFUSED_VERSION, WIRE_REASONS - 1);
    wire_refused read = {.reason = (wire_reason)reason};
    wire_get_words(&from, read.text);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *refused = read;
    return TARRY_OK;
}

size_t wire_heartbeat_encode(uint8_t *frame)
{
    return wire_close(WIRE_HEARTBEAT, frame, frame + WIRE_HEAD_BYTES, 0);
}

size_t wire_bye_encode(wire_bye bye, uint8_t *frame)
{
    return wire_close(WIRE_BYE, frame, bytes_put(frame + WIRE_HEAD_BYTES, bye, 1), 0);
}

int wire_bye_decode(const wire_head *head, const uint8_t *body, wire_bye *bye)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_bye read = (wire_bye)wire_get_between(&from, 1, WIRE_BYE_LEAVING, WIRE_BYES - 1);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *bye = read;
    return TARRY_OK;
}

/* ---- what is large ---- */

size_t wire_parameters_encode(const wire_parameters *parameters, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, parameters->round, 8);
    at = bytes_put(at, parameters->first, 8);
    return wire_close(WIRE_PARAMETERS, frame, at, (size_t)parameters->count * NUMBER_BYTES);
}

int wire_parameters_decode(const wire_head *head, const uint8_t *body, wire_parameters *parameters)
{
    if (head->length <= LAYOUT_PARAMETERS || (head->length - LAYOUT_PARAMETERS) % NUMBER_BYTES != 0)
        return TARRY_ERROR_FORMAT;
    wire_reader from = wire_reader_make(body, LAYOUT_PARAMETERS);
    wire_parameters read = {.count = (head->length - LAYOUT_PARAMETERS) / NUMBER_BYTES};
    read.round = wire_get(&from, 8);
    read.first = wire_get_between(&from, 8, 0, WIRE_VECTOR_MOST - read.count);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *parameters = read;
    return TARRY_OK;
}

size_t wire_view_encode(const view_piece *piece, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, piece->round, 8);
    at = bytes_put(at, piece->stamp, 8);
    at = bytes_put(at, piece->base, 8);
    at = bytes_put(at, piece->digest, 8);
    at = bytes_put(at, piece->first, 8);
    at = bytes_put(at, piece->count, 4);
    at = bytes_put(at, piece->form, 4);
    return wire_close(WIRE_VIEW, frame, at, view_piece_bytes(piece));
}

int wire_view_decode(const wire_head *head, const uint8_t *body, view_piece *piece)
{
    if (head->length <= LAYOUT_VIEW)
        return TARRY_ERROR_FORMAT;
    wire_reader from = wire_reader_make(body, LAYOUT_VIEW);
    view_piece read = {.round = wire_get_between(&from, 8, 0, UINT64_MAX - 1)};
    read.stamp = wire_get_between(&from, 8, 1, read.round + 1);
    read.base = wire_get_between(&from, 8, 0, read.stamp - 1);
    read.digest = wire_get(&from, 8);
    read.first = wire_get_between(&from, 8, 0, WIRE_VECTOR_MOST);
    read.count = (uint32_t)wire_get_between(&from, 4, 1, WIRE_VIEW_NUMBERS);
    read.form = (tarry_compress)wire_get_between(
        &from, 4, read.base == 0 ? TARRY_COMPRESS_NONE : TARRY_COMPRESS_BF16,
        read.base == 0 ? TARRY_COMPRESS_NONE : TARRY_COMPRESS_INT8);
    wire_require(&from, head->length == LAYOUT_VIEW + view_piece_bytes(&read));
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *piece = read;
    return TARRY_OK;
}

/* A kind of blob, and its index: 0 but for DATA. */
static wire_blob_kind get_blob(wire_reader *from, uint32_t *index)
{
    wire_blob_kind kind = (wire_blob_kind)wire_get_between(from, 1, WIRE_BLOB_PLAN, WIRE_BLOBS - 1);
    wire_get_zeros(from, 3);
    *index = (uint32_t)wire_get(from, 4);
    wire_require(from, *index == 0 || kind == WIRE_BLOB_DATA);
    return kind;
}

static uint8_t *put_blob(uint8_t *at, wire_blob_kind kind, uint32_t index)
{
    return bytes_put(bytes_put(at, kind, 4), index, 4);
}

size_t wire_blob_encode(const wire_blob *blob, uint8_t *frame)
{
    uint8_t *at = put_blob(frame + WIRE_HEAD_BYTES, blob->kind, blob->index);
    at = bytes_put(at, blob->total, 8);
    at = bytes_put(at, blob->first, 8);
    return wire_close(WIRE_BLOB, frame, at, (size_t)blob->count);
}

int wire_blob_decode(const wire_head *head, const uint8_t *body, wire_blob *blob)
{
    if (head->length < LAYOUT_BLOB)
        return TARRY_ERROR_FORMAT;
    wire_reader from = wire_reader_make(body, LAYOUT_BLOB);
    wire_blob read = {.count = head->length - LAYOUT_BLOB};
    read.kind = get_blob(&from, &read.index);
    read.total = wire_get_between(&from, 8, read.count, WIRE_BLOB_MOST);
    read.first = wire_get(&from, 8);
    /* A frame without a byte is all of a blob that has none. */
    bool within = read.total >= read.count && read.first <= read.total - read.count;
    if (!wire_ended(&from) || !within || (read.count == 0 && read.total != 0))
        return TARRY_ERROR_FORMAT;
    *blob = read;
    return TARRY_OK;
}

size_t wire_fetch_encode(const wire_fetch *fetch, uint8_t *frame)
{
    uint8_t *at = put_blob(frame + WIRE_HEAD_BYTES, fetch->kind, fetch->index);
    return wire_close(WIRE_FETCH, frame, at, 0);
}

int wire_fetch_decode(const wire_head *head, const uint8_t *body, wire_fetch *fetch)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_fetch read;
    read.kind = get_blob(&from, &read.index);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *fetch = read;
    return TARRY_OK;
}

size_t wire_ready_encode(const wire_ready *ready, uint8_t *frame)
{
    uint8_t *at = wire_put_bytes(frame + WIRE_HEAD_BYTES, ready->plan, WIRE_DIGEST_BYTES);
    at = wire_put_bytes(at, ready->data, WIRE_DIGEST_BYTES);
    at = bytes_put(at, ready->numerics, 8);
    at = wire_put_bytes(at, ready->address, ready->size);
    return wire_close(WIRE_READY, frame, at, 0);
}

int wire_ready_decode(const wire_head *head, const uint8_t *body, wire_ready *ready)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_ready read = {.size = 0};
    wire_get_bytes(&from, read.plan, WIRE_DIGEST_BYTES);
    wire_get_bytes(&from, read.data, WIRE_DIGEST_BYTES);
    read.numerics = wire_get(&from, 8);
    read.size =
        (uint16_t)from.left; /* at most WIRE_ENGINE_BYTES, as the head's length was checked */
    wire_get_bytes(&from, read.address, read.size);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *ready = read;
    return TARRY_OK;
}

/* ---- memory that is shared ---- */

size_t wire_share_encode(const wire_share *share, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, share->kind, 8);
    at = bytes_put(at, share->bytes, 8);
    at = wire_put_text(at, share->name);
    return wire_close(WIRE_SHARE, frame, at, 0);
}

int wire_share_decode(const wire_head *head, const uint8_t *body, wire_share *share)
{
    wire_reader from = wire_reader_make(body, head->length);
    uint64_t kind = wire_get_between(&from, 8, WIRE_SHARE_PART, WIRE_SHARES - 1);
    wire_share read = {.kind = (wire_share_kind)kind};
    read.bytes = wire_get_between(&from, 8, 1, WIRE_BLOB_MOST);
    wire_get_name(&from, read.name);
    wire_require(&from, read.name[0] != 0);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *share = read;
    return TARRY_OK;
}

size_t wire_shared_encode(const wire_shared *shared, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, shared->kind, 1);
    return wire_close(WIRE_SHARED, frame, bytes_put(at, shared->opened, 1), 0);
}

int wire_shared_decode(const wire_head *head, const uint8_t *body, wire_shared *shared)
{
    wire_reader from = wire_reader_make(body, head->length);
    uint64_t kind = wire_get_between(&from, 1, WIRE_SHARE_PART, WIRE_SHARES - 1);
    wire_shared read = {.kind = (wire_share_kind)kind, .opened = wire_get_bool(&from)};
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *shared = read;
    return TARRY_OK;
}
