/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's connections to others, behind the wire. The bytes choose a group and its sums, and
 * then what comes over a few connections: frames as a member would send them next, others, and
 * bytes that are no frames; and sums, transfers and groups begun and given up in between. The
 * worker does not crash, writes to no sum and reads none that it has let go of (they are freed at
 * once), holds no more strangers than it may, and gives a sum only when every number of it has
 * come.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "coding/vector_digest.h"
#include "fuzz_input.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/tcp/mesh/mesh_state.h"

enum {
    VISITORS = 6,
    MEMBERS_MOST = 6,
    PARTS_MOST = 3,
    DIMENSION_MOST = 100,
    STATE_BYTES = 300,
    EXACT = 3,  /* numbers that are so in every form */
    TURNS = 12, /* of the loop after each step: what came over loopback is dealt with */
    MOST_BYTES = WIRE_HEAD_BYTES + WIRE_BLOCK_HEAD_BYTES + 4 * DIMENSION_MOST,
};

static const float UNWRITTEN = 1e30F;

typedef struct run {
    mesh *mesh;
    int visitors[VISITORS]; /* -1: none; each plays the member with its place */
    uint32_t count, place;
    uint64_t step;
    float *sum, *part, *into, *held;
    size_t dimension, held_dimension;
    uint32_t parts;
    tarry_compress up, down;
    float weights[PARTS_MOST * MEMBERS_MOST];
    int sums, others;
} run;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*body)(void *),
                          void *argument);
int __wrap_pthread_join(pthread_t thread, void **result);
void __wrap_mesh_do(mesh *self, void (*carry)(mesh *self, void *argument), void *argument);

/* The loop's turns are taken in this thread. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*body)(void *),
                          void *argument)
{
    (void)how, (void)body, (void)argument;
    *thread = pthread_self();
    return 0;
}

static mesh *the_mesh; /* that ends */

int __wrap_pthread_join(pthread_t thread, void **result)
{
    (void)thread, (void)result;
    uv_run(&the_mesh->loop, UV_RUN_DEFAULT);
    return 0;
}

void __wrap_mesh_do(mesh *self, void (*carry)(mesh *self, void *argument), void *argument)
{
    carry(self, argument);
}

static void turn(const run *its)
{
    for (int i = 0; i < TURNS; i++)
        uv_run(&its->mesh->loop, UV_RUN_NOWAIT);
    require(its->mesh->strangers <= 64 + its->mesh->member_count);
}

/* ---- the group ---- */

static void instance_of(uint32_t place, uint8_t instance[WIRE_ID_BYTES])
{
    memset(instance, 0, WIRE_ID_BYTES);
    instance[0] = (uint8_t)(1 + place);
}

static void form(run *its)
{
    uint8_t bytes[MEMBERS_MOST][TARRY_ENGINE_ADDRESS_MOST];
    tarry_engine_member members[MEMBERS_MOST];
    tarry_engine *engine = mesh_engine(its->mesh);
    tarry_diagnostic why;
    for (uint32_t i = 0; i < its->count; i++) {
        mesh_address address = its->mesh->own;
        if (i != its->place)
            instance_of(i, address.instance);
        members[i].worker = i;
        members[i].address = bytes[i];
        mesh_address_encode(&address, bytes[i], &members[i].address_size);
    }
    const tarry_engine_group group = {
        .epoch = 1,
        .count = its->count,
        .place = its->place,
        .members = members,
    };
    require(engine->methods->form(engine, &group, &why) == TARRY_OK);
}

static void begin(run *its, input *in)
{
    const mesh_settings settings = {.listen = "127.0.0.1:0"};
    memset(its, 0, sizeof(*its));
    require(mesh_create(&settings, &its->mesh, NULL) == TARRY_OK);
    memset(its->mesh->own.instance, 0, WIRE_ID_BYTES); /* all others connect to it */
    for (int i = 0; i < VISITORS; i++)
        its->visitors[i] = -1;
    its->count = 1 + take(in) % MEMBERS_MOST;
    its->place = take(in) % its->count;
    for (size_t i = 0; i < PARTS_MOST * MEMBERS_MOST; i++)
        its->weights[i] = 1;
    form(its);
}

/* ---- sums ---- */

static void forget_sum(run *its)
{
    free(its->sum);
    free(its->part);
    its->sum = its->part = NULL;
}

static void look_at_sum(run *its)
{
    tarry_engine *engine = mesh_engine(its->mesh);
    tarry_engine_progress progress;
    engine->methods->wait(engine, 0, &progress);
    if (its->sum == NULL || progress.state == TARRY_ENGINE_RUNNING)
        return;
    for (size_t i = 0; progress.state == TARRY_ENGINE_DONE && i < its->dimension; i++)
        require(its->sum[i] != UNWRITTEN);
    forget_sum(its);
}

/* Others than float32 for some of the sums that may have them. */
static void choose_forms(run *its, uint8_t how)
{
    bool may = its->parts == 1;
    its->up = may ? (tarry_compress)(how / 4 % 4 % (TARRY_COMPRESS_INT8 + 1)) : TARRY_COMPRESS_NONE;
    its->down =
        may ? (tarry_compress)(how / 16 % 4 % (TARRY_COMPRESS_INT8 + 1)) : TARRY_COMPRESS_NONE;
}

static void start(run *its, input *in)
{
    tarry_engine *engine = mesh_engine(its->mesh);
    uint8_t how = take(in);
    if (its->sum != NULL) {
        engine->methods->abandon(engine);
        forget_sum(its);
    }
    its->dimension = 1 + take(in) % DIMENSION_MOST;
    its->parts = 1 + how % PARTS_MOST;
    choose_forms(its, how);
    size_t length = (its->dimension + its->parts - 1) / its->parts;
    its->sum = calloc(its->dimension, sizeof(float));
    its->part = calloc(length, sizeof(float));
    require(its->sum != NULL && its->part != NULL);
    for (size_t i = 0; i < its->dimension; i++)
        its->sum[i] = UNWRITTEN;
    const tarry_engine_sum asked = {
        .name = {.step = ++its->step},
        .dimension = its->dimension,
        .parts = its->parts,
        .part = (how & 0x80) != 0 ? NULL : its->part,
        .weights = its->weights,
        .sum = its->sum,
        .compress = its->up,
        .compress_down = its->down,
        .compress_exact = EXACT,
    };
    require(engine->methods->start(engine, &asked) == TARRY_OK);
}

/* ---- what visitors say ---- */

static void hang_up(run *its, uint32_t who)
{
    const struct linger hard = {.l_onoff = 1};
    if (its->visitors[who] < 0)
        return;
    setsockopt(its->visitors[who], SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close(its->visitors[who]);
    its->visitors[who] = -1;
}

static void call(run *its, uint32_t who)
{
    const address *place = &its->mesh->own.places[0];
    hang_up(its, who);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    require(fd >= 0);
    require(connect(fd, (const struct sockaddr *)&place->socket, place->size) == 0 ||
            errno == EINPROGRESS);
    its->visitors[who] = fd;
}

static void say(run *its, uint32_t who, uint8_t *frame, size_t size, input *in)
{
    uint8_t wrong = take(in);
    if (wrong >= 0xe0)
        frame[take(in) % size] = take(in);
    if (wrong >= 0xf8)
        size -= take(in) % size;
    if (its->visitors[who] < 0 ||
        send(its->visitors[who], frame, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        hang_up(its, who);
}

static void greet(run *its, uint32_t who, input *in)
{
    uint8_t frame[MOST_BYTES];
    wire_greeting greeting = {.oldest = WIRE_VERSION, .newest = WIRE_VERSION};
    instance_of(who, greeting.instance);
    say(its, who, frame, wire_encode(WIRE_GREETING, &greeting, frame), in);
}

static void say_begun(run *its, uint32_t who, input *in)
{
    uint8_t frame[MOST_BYTES], how = take(in);
    const wire_begun begun = {
        .name = {.step = its->step + (how & 1)},
        .epoch = 1,
        .dimension = its->dimension + (how >= 0xf0),
        .parts = its->parts > 0 ? its->parts : 1,
        .empty = (how & 2) != 0,
        .up = how == 0x41 ? TARRY_COMPRESS_BF16 : its->mesh->sum.forms.of.up.kind,
        .down = its->mesh->sum.forms.of.down.kind,
    };
    if (begun.dimension > 0)
        say(its, who, frame, wire_encode(WIRE_BEGUN, &begun, frame), in);
}

/* The next one as a member would send it, of one of what it sends. */
static void say_block(run *its, uint32_t who, input *in)
{
    static const wire_block_kind kinds[] = {
        [MESH_CODED] = WIRE_BLOCK_PART,
        [MESH_SUM] = WIRE_BLOCK_SUM,
    };
    uint8_t frame[MOST_BYTES], how = take(in);
    const mesh_sum *sum = &its->mesh->sum;
    if (who >= its->count || who == its->place || !sum->runs)
        return;
    const mesh_intake *intake = &sum->intake[who];
    const mesh_flow *flow = how % 2 == 0 ? &intake->coded : &intake->sum;
    if (mesh_flow_is_over(sum, flow))
        return;
    size_t first, count = mesh_flow_next(sum, flow, &first);
    const compress_form form = mesh_form_of(sum, kinds[flow->kind], (share){first, count});
    const wire_block block = {
        .name = {.step = its->step},
        .kind = kinds[flow->kind],
        .part = flow->part,
        .first = first + (how >= 0xf8),
        .count = count,
        .form = how >= 0xf0 && how < 0xf8 ? TARRY_COMPRESS_BF16 : form.kind,
        .bytes = compress_bytes(form, count),
    };
    size_t size = wire_encode(WIRE_BLOCK, &block, frame);
    memset(frame + size, (how & 0x20) != 0 ? 0x80 : 0, block.bytes);
    say(its, who, frame, size + block.bytes, in);
}

static tarry_sum_id any_sum(input *in)
{
    return (tarry_sum_id){.step = take(in) % 4, .digest = take(in) % 2};
}

/* An answer to what is asked for, or a question. */
static void say_pass(run *its, uint32_t who, input *in)
{
    static const uint8_t zeros[8 * 256];
    uint8_t frame[MOST_BYTES] = {0};
    wire_pass message = {.type = (wire_pass_type)(take(in) % WIRE_PASSES)};
    exchange *own = mesh_exchange(its->mesh);
    exchange_progress now;
    own->methods->wait(own, 0, &now);
    message.ticket =
        message.type <= WIRE_PASS_DONE ? take(in) % 8U : its->mesh->request.asked.ticket;
    message.until = message.type == WIRE_PASS_COMES && its->into != NULL
                        ? its->dimension * sizeof(float)
                        : 8U * take(in);
    if (message.type <= WIRE_PASS_ASK_STATE || message.type == WIRE_PASS_COMES)
        message.sum = any_sum(in);
    if (message.type == WIRE_PASS_COMES)
        message.first =
            vector_digest_bytes(zeros, message.until <= sizeof(zeros) ? message.until : 0);
    if (message.type == WIRE_PASS_PIECE) {
        message.first = now.got;
        message.count = 1 + take(in) % 200;
    }
    size_t size = wire_encode(WIRE_PASS, &message, frame);
    say(its, who, frame, size + message.count, in);
}

/* ---- transfers ---- */

static void forget_fetch(run *its)
{
    exchange *own = mesh_exchange(its->mesh);
    exchange_progress now;
    own->methods->wait(own, 0, &now);
    if (now.state == EXCHANGE_DONE && now.bytes != NULL && now.size % 2 == 0)
        memory_release(NULL, own->methods->take(own));
    own->methods->abandon(own);
    free(its->into);
    its->into = NULL;
}

static void fetch(run *its, uint32_t from, input *in)
{
    exchange *own = mesh_exchange(its->mesh);
    const tarry_sum_id wanted = any_sum(in);
    forget_fetch(its);
    if (take(in) % 2 == 0 || its->dimension == 0) {
        own->methods->load(own, from, &wanted);
        return;
    }
    its->into = calloc(its->dimension, sizeof(float));
    require(its->into != NULL);
    const exchange_numbers into = exchange_numbers_at(its->into, its->dimension);
    own->methods->fetch(own, from, &wanted, &into);
}

static void hold(run *its, input *in)
{
    exchange *own = mesh_exchange(its->mesh);
    const tarry_sum_id sum = any_sum(in);
    own->methods->hold(own, NULL, NULL);
    free(its->held);
    its->held = calloc(DIMENSION_MOST, sizeof(float));
    require(its->held != NULL);
    const exchange_numbers numbers = exchange_numbers_at(its->held, DIMENSION_MOST);
    own->methods->hold(own, &sum, &numbers);
}

static void on_wanted(void *user)
{
    (void)user;
}

static void offer(run *its, input *in)
{
    exchange *own = mesh_exchange(its->mesh);
    const tarry_sum_id after = any_sum(in);
    own->methods->serve(own, on_wanted, NULL);
    bool none = take(in) % 4 == 0;
    own->methods->offer(own, &after, none ? NULL : memory_allocate(NULL, STATE_BYTES, 1),
                        none ? 0 : STATE_BYTES);
}

static void step(run *its, input *in)
{
    uint8_t what = take(in);
    uint32_t who = take(in) % VISITORS;
    uint8_t any[MOST_BYTES];
    switch (what % 16) {
    case 0:
        call(its, who);
        greet(its, who, in);
        break;
    case 1:
        hang_up(its, who);
        break;
    case 2:
        start(its, in);
        break;
    case 3:
        say_begun(its, who, in);
        break;
    case 4:
    case 5:
    case 6:
        say_block(its, who, in);
        break;
    case 7:
    case 8:
    case 9:
        say_pass(its, who, in);
        break;
    case 10:
        fetch(its, who, in);
        break;
    case 11:
        hold(its, in);
        break;
    case 12:
        offer(its, in);
        break;
    case 13:
        form(its);
        break;
    case 14:
        call(its, who);
        break;
    default:
        for (size_t i = 0; i < 16; i++)
            any[i] = take(in);
        say(its, who, any, 16, in);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run its;
    input in = {data, size};
    begin(&its, &in);
    while (in.left > 0) {
        step(&its, &in);
        turn(&its);
        look_at_sum(&its);
    }
    tarry_engine *engine = mesh_engine(its.mesh);
    exchange *own = mesh_exchange(its.mesh);
    engine->methods->abandon(engine);
    forget_sum(&its);
    forget_fetch(&its);
    own->methods->hold(own, NULL, NULL);
    free(its.held);
    turn(&its);
    for (uint32_t i = 0; i < VISITORS; i++)
        hang_up(&its, i);
    the_mesh = its.mesh;
    mesh_free(its.mesh);
    return 0;
}
