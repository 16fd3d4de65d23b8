/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network server behind the wire. The bytes choose its settings, and then what comes over a few
 * connections, frame by frame, whole, in pieces, with bytes changed on the way, or bytes that are
 * no frames; and rounds, other plans and time in between. The server does not crash, its books of
 * who is there agree whenever its loop has come to rest, and it does come to rest, it has noticed
 * then who is gone, all that it says can be read, what it holds for a peer is bounded, and a round
 * can always be ended.
 */
#include <limits.h>
#include <string.h>

#include "base/memory.h"
#include "coding/coefficients.h"
#include "compress/compress.h"
#include "fuzz_arena.h"
#include "fuzz_machine.h"
#include "fuzz_peer.h"
#include "runtime/tcp/net/channel_state.h"

#define NS_PER_MS UINT64_C(1000000)
#define SILENCE_NS (800 * NS_PER_MS)

int __wrap_tcp_server_listen(tarry_tcp_server *server, tarry_diagnostic *diagnostic);
int __wrap_tcp_server_start_loop(tarry_tcp_server *server);

/* ---- the server ---- */

static int ship(void *user, uint32_t origin, const void **bytes, size_t *size)
{
    static const uint8_t samples[300];
    (void)user;
    *bytes = samples;
    *size = origin == 0 ? 0 : sizeof(samples);
    return origin == 2;
}

static void observe(void *user, const tarry_tcp_notice *notice)
{
    (void)user;
    require(strlen(notice->peer) < 200 && strlen(notice->text) < 400);
}

/* The loop's turns are taken in this thread. */
int __wrap_tcp_server_start_loop(tarry_tcp_server *server)
{
    (void)server;
    return TARRY_OK;
}

/* Connections come by peer_open; this is where workers on the same machine are sent to. */
int __wrap_tcp_server_listen(tarry_tcp_server *server, tarry_diagnostic *diagnostic)
{
    (void)diagnostic;
    server->listeners[0] = (listener){
        .server = server,
        .fd = INT_MAX,
        .local = true,
        .text = "unix:@tarry-fuzz",
    };
    server->listener_count = server->address_count = 1;
    return TARRY_OK;
}

static const tarry_plan *choose_plan(const run *its, uint8_t seed)
{
    const uint8_t bytes[] = {its->choice[0], its->choice[1], its->choice[2], its->choice[3], seed};
    return take_plan(&(input){.data = bytes, .left = sizeof(bytes)});
}

static bool begin(run *its, input *in)
{
    static const char *const listen = "unix:@tarry-fuzz";
    static uint8_t rooms[VISITORS][ROOM];
    for (size_t i = 0; i < sizeof(its->choice); i++)
        its->choice[i] = take(in);
    its->plan = choose_plan(its, take(in));
    uint8_t rules = take(in), sizes = take(in);
    size_t stripes = 1 + sizes % MOST_STRIPES;
    tarry_tcp_server_settings settings;
    tarry_tcp_server_settings_init(&settings);
    settings.listen = &listen;
    settings.listen_count = 1;
    settings.security.insecure = true;
    settings.parameters = PARAMETERS;
    settings.dimension = STRIPE * stripes * tarry_plan_parts(its->plan) - sizes / 16 % 4;
    settings.server.stripe_length = STRIPE;
    settings.server.silence_ns = SILENCE_NS;
    settings.server.reproducible = (rules & 1) != 0;
    settings.server.keep = (tarry_keep)(rules >> 1 & 1);
    settings.server.pick = (rules >> 2 & 3) != 0 ? TARRY_PICK_SHARE : TARRY_PICK_PLAN;
    settings.server.fill = (tarry_fill)((rules >> 4 & 3) % 3);
    settings.server.stop = (rules & 0x40) != 0 ? TARRY_STOP_DEADLINE : TARRY_STOP_EXACT;
    settings.server.deadline_ns = (1 + sizes / 64) * 100 * NS_PER_MS;
    if (its->plan->parts == 1)
        settings.server.compress = (tarry_compress)(sizes / 16 % TARRY_COMPRESSES);
    settings.server.compress_share = SHARE;
    static const tarry_matrix matrix = {2, 2};
    if (settings.server.compress == TARRY_COMPRESS_POWERSGD) {
        settings.server.compress_rank = 1;
        settings.server.compress_matrix_count = 1;
        settings.server.compress_matrices = &matrix;
    }
    settings.server.compress_exact = EXACT;
    settings.server.compress_down = (tarry_compress)(sizes % 4 % 3);
    settings.ship = (rules & 0x80) != 0 ? ship : NULL;
    if ((rules >> 4 & 3) == 3)
        fuzz_secure_settings(its, sizes, &settings);
    settings.job = "a job";
    settings.job_size = sizes % 5;
    settings.job_id[0] = 1;
    settings.decode_threads = 1;
    settings.most_peer_bytes = 2048;
    settings.observe = observe;
    for (size_t i = 0; i < VISITORS; i++)
        its->visitors[i] = (visitor){.fd = -1, .in = rooms[i]};
    tarry_runtime *made;
    if (tarry_tcp_server_create(its->plan, &settings, arena_begin(), &made, NULL) != TARRY_OK)
        return false;
    its->server = tcp_server_of(made);
    require(its->server->base.host->numbers <= PARAMETERS + FACTOR);
    return true;
}

/* What a round does once its round is over. */
static void settle_round(tarry_tcp_server *server)
{
    if (!server->round_over)
        return;
    require(!server->base.host->round.running);
    server->round_over = false;
    host_finish(server->base.host, &(tarry_round_result){0}, NULL);
}

/* Who is there, told in several ways. */
static void check(const tarry_tcp_server *server)
{
    uint32_t connections = 0, viewers = 0, joined = 0, buffers = 0, unread = 0;
    for (const peer *its = server->peers.first; its != NULL; its = its->after) {
        connections++;
        viewers += its->state == PEER_VIEWER;
        require(its->state != PEER_OVER && its->tasks == 0);
        require(its->worker == WIRE_ANY_WORKER || tcp_server_peer(server, its->worker) == its);
        if (its->state == PEER_READY || its->state == PEER_TURNING)
            require(server->base.host->members[its->worker].joined);
        unread += its->channel->in.waiting;
        require(its->channel->in.kept_capacity <= 4 * CHANNEL_SHARED_BYTES);
        require(its->held_room <= 2 * server->settings.most_peer_bytes);
    }
    for (uint32_t worker = 0; worker < server->base.host->plan->workers; worker++) {
        const tcp_member *member = &server->members[worker];
        const peer *who = tcp_server_peer(server, worker);
        const bool present = server->base.host->members[worker].joined;
        joined += present;
        buffers += member->buffers;
        require(member->buffers <= TCP_STRIPES_PER_WORKER);
        if (present)
            require(who != NULL && (who->state == PEER_READY || who->state == PEER_TURNING));
    }
    require(machine_count_left() <= unread);
    require(connections == server->peers.count && viewers == server->viewers);
    require(joined == server->present);
    require(buffers == server->base.host->pool.used);
}

static void read_all(run *its, visitor *who);

/* Until there is nothing to do but to wait. */
static void settle(run *its)
{
    tarry_tcp_server *server = its->server;
    int turns = 0;
    bool more;
    do {
        more = machine_turn(&server->loop);
        settle_round(server);
        for (size_t i = 0; i < VISITORS; i++)
            read_all(its, &its->visitors[i]);
        require(turns++ < MOST_TURNS);
    } while (more || machine_is_due(&server->loop));
}

/* ---- what the server says ---- */

static void leave(visitor *who, bool broken)
{
    if (who->fd >= 0)
        machine_leave(who->fd, broken);
    *who = (visitor){.fd = -1, .in = who->in};
}

static void hear_message(const run *its, visitor *who, const uint8_t *body, size_t size)
{
    require(who->worker < its->plan->workers);
    tarry_message message;
    uint64_t words[MOST_WORDS];
    /* Of the plan in force, or of that before if it was sent before that changed. */
    require(codec_decode(&its->server->base.host->shapes[who->worker], body, size, words,
                         &message) == TARRY_OK ||
            codec_decode(&its->shape_before[who->worker], body, size, words, &message) == TARRY_OK);
    require(message.type <= TARRY_MESSAGE_FINISH);
    who->round = message.round;
    who->epoch = message.epoch;
    if (message.type == TARRY_MESSAGE_ROUND)
        who->sequence = 0;
    if (message.type == TARRY_MESSAGE_SIGNAL) {
        who->attempt = message.attempt;
        fuzz_secure_hear_signal(its, who, &message);
    }
    if (message.type == TARRY_MESSAGE_SIGNAL || message.type == TARRY_MESSAGE_RESUME ||
        message.type == TARRY_MESSAGE_NEWS)
        who->term = message.term;
}

static void hear_blob(const run *its, visitor *who, const wire_head *head, const uint8_t *body)
{
    wire_blob blob;
    require(wire_decode(head, body, &blob) == TARRY_OK);
    if (blob.kind == WIRE_BLOB_PLAN)
        memcpy(who->plan, its->plan->digest, sizeof(who->plan));
}

/* What comes can be added to what came over this connection, and is what the server has, or had. */
static void hear_view(const run *its, visitor *who, const wire_head *head, const uint8_t *body)
{
    const view *from = its->server->base.host->seen;
    const size_t numbers = its->server->base.host->numbers;
    view_piece piece;
    bool complete;
    uint64_t digests[1];
    require(from != NULL && wire_decode(head, body, &piece) == TARRY_OK);
    require(view_intake_begin(&who->seen, &piece, view_form(from), numbers) == TARRY_OK);
    require(view_intake_add(&who->seen, body + wire_fixed_length(head, body[0]), numbers,
                            who->numbers[who->current], who->numbers[!who->current], digests,
                            &complete) == TARRY_OK);
    who->current ^= complete;
    require(!complete || who->seen.has <= view_stamp(from));
}

void fuzz_peer_hear(run *its, visitor *who, const wire_head *head, const uint8_t *body)
{
    wire_welcome welcome;
    wire_refused refused;
    wire_parameters parameters;
    wire_bye bye;
    if (fuzz_secure_hear(its, who, head, body))
        return;
    switch (head->kind) {
    case WIRE_WELCOME:
        require(wire_welcome_decode(head, body, &welcome, NULL) == TARRY_OK);
        who->worker = welcome.worker;
        memcpy(who->plan, welcome.plan, sizeof(who->plan));
        break;
    case WIRE_REFUSED:
        require(wire_decode(head, body, &refused) == TARRY_OK);
        break;
    case WIRE_BYE:
        require(wire_decode(head, body, &bye) == TARRY_OK);
        break;
    case WIRE_MESSAGE:
        hear_message(its, who, body, head->length);
        break;
    case WIRE_VIEW:
        hear_view(its, who, head, body);
        break;
    case WIRE_PARAMETERS:
        require(its->server->base.host->seen == NULL);
        require(wire_decode(head, body, &parameters) == TARRY_OK);
        require(parameters.first + parameters.count <= its->server->base.host->numbers);
        break;
    case WIRE_BLOB:
        hear_blob(its, who, head, body);
        break;
    case WIRE_STATUS:
        require(record_is_line((const char *)body, head->length) && body[0] == '{' &&
                body[head->length - 1] == '}');
        break;
    default:
        require(head->kind == WIRE_HEARTBEAT);
    }
}

static void read_all(run *its, visitor *who)
{
    if (who->fd < 0 || who->deaf)
        return;
    bool over;
    size_t got = machine_receive(who->fd, who->in + who->in_size, ROOM - who->in_size, &over);
    if (got == 0 && !over)
        return;
    who->in_size += got;
    size_t at = 0;
    while (who->in_size - at >= WIRE_HEAD_BYTES) {
        wire_head head;
        require(wire_head_decode(who->in + at, &head) == TARRY_OK);
        if (who->in_size - at - WIRE_HEAD_BYTES < head.length)
            break;
        fuzz_peer_hear(its, who, &head, who->in + at + WIRE_HEAD_BYTES);
        at += WIRE_HEAD_BYTES + head.length;
    }
    memmove(who->in, who->in + at, who->in_size - at);
    who->in_size -= at;
    require(who->in_size < ROOM);
    if (over)
        leave(who, false);
}

/* ---- what it is told ---- */

static void come(run *its, visitor *who, bool is_unix)
{
    leave(who, false);
    int fd = machine_connect(is_unix);
    if (fd < 0)
        return;
    who->fd = fd;
    who->worker = WIRE_ANY_WORKER;
    who->seen = (view_intake){0};
    require(peer_open(&its->server->peers, fd, is_unix) == TARRY_OK);
}

/* One way or another. */
static void withdraw(visitor *who, uint8_t how)
{
    if (who->fd < 0)
        return;
    switch (how % 4) {
    case 0:
    case 1:
        leave(who, how % 4 == 1);
        break;
    case 2:
        machine_end_sending(who->fd);
        break;
    default:
        who->deaf = !who->deaf;
    }
}

static size_t draw_hello(const run *its, input *in, visitor *sender, uint8_t *frame)
{
    uint8_t who = take(in), how = take(in);
    wire_hello hello = {
        .oldest = (uint16_t)(WIRE_VERSION + (how >= 0xf8) - (who >= 0xf8)),
        .newest = (uint16_t)(WIRE_VERSION + (how >= 0xf0) - (who >= 0xf8)),
        .role = (how & 7) == 7 ? WIRE_ROLE_VIEWER : WIRE_ROLE_WORKER,
        .ranking = COEFFICIENTS_VERSION - (who >= 0xf0),
        .worker = (who & 7) > FUZZ_MOST_WORKERS ? WIRE_ANY_WORKER : who & 7,
        .instance = {(uint8_t)(1 + who / 8 % 4)},
    };
    memcpy(sender->instance, hello.instance, sizeof(sender->instance));
    if ((how & 8) != 0)
        memcpy(hello.job, its->server->job_id, sizeof(hello.job));
    if ((how & 64) != 0)
        memset(hello.rack, 'a' + who % 3, 1 + who % TARRY_RACK_BYTES);
    if ((how & 16) != 0)
        memcpy(hello.plan, its->plan->digest, sizeof(hello.plan));
    return wire_encode(WIRE_HELLO, &hello, frame);
}

/* Several that follow each other. */
static size_t draw_batch(const tarry_message *first, uint8_t how, uint8_t *frame)
{
    wire_batch batch = {.round = first->round, .term = first->term, .count = how / 16 % 8};
    tarry_message report = *first;
    for (uint32_t i = 0; i < batch.count; i++, report.slot++, report.sequence++)
        wire_batch_put(frame, i, &report);
    return wire_batch_encode(&batch, frame);
}

static size_t draw_message(input *in, uint8_t kind, visitor *who, uint8_t *frame)
{
    uint8_t places = take(in), off = kind >= 0xf0 ? take(in) : 0;
    const codec_shape none = {0};
    tarry_message message = {
        .type = (places & 0xf0) == 0xf0 ? TARRY_MESSAGE_ALIVE : TARRY_MESSAGE_REPORT,
        .round = who->round + (off & 1),
        .epoch = who->epoch + (off >> 1 & 1),
        .term = who->term - (off >> 2 & 1),
        .sequence = ++who->sequence,
        .slot = places % (FUZZ_MOST_CHUNKS + 1),
        .next = places / 8 % (FUZZ_MOST_CHUNKS + 2),
        .failed = kind >= 0xe8,
    };
    if ((off & 8) != 0)
        return draw_batch(&message, off, frame);
    size_t size = codec_size(&none, &message);
    wire_message_head(size, 0, frame);
    codec_encode(&none, &message, frame + WIRE_HEAD_BYTES);
    return WIRE_HEAD_BYTES + size;
}

compress_form fuzz_peer_form(const run *its, uint64_t round, uint32_t other)
{
    const compress_form due = form_of_round(&its->server->settings.server, round);
    const tarry_compress kind = (tarry_compress)((due.kind + other) % TARRY_COMPRESSES);
    return kind == due.kind ? due : form_of_kind(kind, SHARE, EXACT);
}

size_t fuzz_peer_numbers(const run *its, uint32_t stripe)
{
    layout cut = layout_make(its->server->base.host->cut.dimension, its->plan->parts, STRIPE);
    if (stripe >= cut.stripes)
        return STRIPE;
    size_t numbers = layout_stripe_length(&cut, stripe);
    return numbers > 0 ? numbers : STRIPE;
}

size_t fuzz_peer_bytes(const run *its, compress_form form, uint32_t stripe, size_t numbers)
{
    size_t dimension = its->server->base.host->cut.dimension, first = (size_t)stripe * STRIPE;
    bool within = first + numbers <= dimension;
    return compress_bytes(within ? compress_within(form, dimension, first, numbers) : form,
                          numbers);
}

tarry_message fuzz_peer_part(const visitor *who, uint8_t place, uint8_t off)
{
    return (tarry_message){
        .type = TARRY_MESSAGE_PART,
        .round = who->round + (off & 1),
        .epoch = who->epoch + (off >> 1 & 1),
        .attempt = who->attempt - (off >> 2 & 1),
        .stripe = place % (MOST_STRIPES + 1),
    };
}

static size_t draw_part(const run *its, input *in, uint8_t kind, const visitor *who, uint8_t *frame)
{
    uint8_t place = take(in), off = kind >= 0xf0 ? take(in) : 0;
    const codec_shape none = {0};
    const compress_form form = fuzz_peer_form(its, who->round + (off & 1), off >> 6);
    tarry_message message = fuzz_peer_part(who, place, off);
    message.form = form.kind;
    size_t numbers = fuzz_peer_numbers(its, message.stripe);
    numbers = (off >> 5 & 1) != 0 ? 0 : numbers + (off >> 4 & 1);
    size_t bytes = fuzz_peer_bytes(its, form, message.stripe, numbers);
    wire_message_head(CODEC_HEADER_BYTES, bytes, frame);
    codec_encode(&none, &message, frame + WIRE_HEAD_BYTES);
    memset(frame + WIRE_HEAD_BYTES + CODEC_HEADER_BYTES, place, bytes);
    return WIRE_HEAD_BYTES + CODEC_HEADER_BYTES + bytes;
}

static size_t draw_bytes(input *in, uint8_t *frame)
{
    size_t size = take(in) % 64;
    for (size_t i = 0; i < size; i++)
        frame[i] = take(in);
    return size;
}

size_t fuzz_peer_draw(const run *its, input *in, uint8_t kind, visitor *who, uint8_t *frame)
{
    wire_ready ready = {0};
    switch (kind % 16) {
    case 0:
        return draw_hello(its, in, who, frame);
    case 1:
        memcpy(ready.plan, who->plan, sizeof(ready.plan));
        ready.numerics = kind / 16; /* 0: it can't tell */
        return wire_encode(WIRE_READY, &ready, frame);
    case 2:
        return wire_encode(WIRE_FETCH, &(wire_fetch){.kind = WIRE_BLOB_DATA, .index = take(in) % 4},
                           frame);
    case 3:
        return kind >= 0xc0 ? wire_encode(WIRE_BYE, &(wire_bye){WIRE_BYE_LEAVING}, frame)
                            : wire_encode(WIRE_HEARTBEAT, NULL, frame);
    case 4:
        if (kind < 0x40)
            return draw_bytes(in, frame);
        return fuzz_is_secure(its) ? fuzz_secure_draw_key(who, in, kind, frame)
                                   : wire_encode(WIRE_HEARTBEAT, NULL, frame);
    case 5:
    case 6:
    case 7:
    case 8:
    case 9:
        return fuzz_is_secure(its) ? fuzz_secure_draw_part(its, in, kind, who, frame)
                                   : draw_part(its, in, kind, who, frame);
    default:
        return draw_message(in, kind, who, frame);
    }
}

/* What does not fit is lost; the server would be behind with reading then. */
static void transmit(const visitor *who, const uint8_t *bytes, size_t size)
{
    if (size > 0)
        machine_send(who->fd, bytes, size);
}

static void say(run *its, input *in, visitor *who)
{
    uint8_t kind = take(in), how = take(in);
    uint8_t frame[MOST_FRAME];
    transmit(who, who->unsent, who->unsent_size);
    who->unsent_size = 0;
    size_t size = fuzz_peer_draw(its, in, kind, who, frame);
    for (uint8_t i = 0; how >= 0xe0 && size > 0 && i <= how % 4; i++) {
        size_t place = take(in) % size;
        frame[place] ^= take(in);
    }
    size_t now = (how & 0x1c) == 0x1c ? take(in) % (size + 1) : size;
    transmit(who, frame, now);
    memcpy(who->unsent, frame + now, size - now);
    who->unsent_size = size - now;
}

/* ---- rounds, plans and time ---- */

static void begin_round(run *its)
{
    tarry_tcp_server *server = its->server;
    if (server->base.host->round.running)
        return;
    its->parameters[server->base.host->round.number % PARAMETERS] += 1;
    server->parameters = host_see(server->base.host, its->parameters);
    host_begin(server->base.host, its->sum);
    settle_round(server);
}

static void replan(run *its, uint8_t seed)
{
    tarry_tcp_server *server = its->server;
    if (server->base.host->round.running)
        return;
    /* All that was sent with the plan before this one is heard. */
    for (size_t i = 0; i < VISITORS; i++)
        its->visitors[i].deaf = false;
    settle(its);
    codec_shape shapes[FUZZ_MOST_WORKERS];
    memcpy(shapes, server->base.host->shapes, its->plan->workers * sizeof(*shapes));
    tcp_replan wanted = {.next = choose_plan(its, seed)};
    tcp_server_turn_to(&server->base, &wanted);
    if (wanted.error != TARRY_OK)
        return;
    memcpy(its->shape_before, shapes, sizeof(shapes));
    its->plan = wanted.next;
}

/* From timer to timer, or all at once, as if the server had been held up. */
static void wait(run *its, uint8_t ticks)
{
    uint64_t tick_ns = its->server->tick_ms * NS_PER_MS;
    uint64_t end = machine_now() + (ticks >= 0xf0 ? ticks : ticks % 64) * tick_ns;
    while (ticks < 0xf0 && machine_next_timer() <= end) {
        machine_set_time(machine_next_timer());
        settle(its);
    }
    machine_set_time(end);
}

static void act(run *its, input *in)
{
    uint8_t what = take(in);
    visitor *who = &its->visitors[what / 16 % VISITORS];
    switch (what % 16) {
    case 0:
    case 1:
        come(its, who, what % 16 == 0);
        break;
    case 2:
        withdraw(who, what / 64);
        break;
    case 3:
        begin_round(its);
        break;
    case 4:
        replan(its, take(in));
        break;
    case 5:
        wait(its, take(in));
        break;
    case 6:
        if ((what & 0x40) != 0)
            machine_rest((what & 0x80) != 0);
        else
            host_fail(its->server->base.host, TARRY_ERROR_INTERRUPTED);
        break;
    default:
        if (who->fd >= 0)
            say(its, in, who);
        if ((what & 0x80) != 0)
            return; /* more comes in the same turn */
        break;
    }
    settle(its);
    check(its->server);
}

/* As a caller would: the round that is in progress first. */
static void end(run *its, bool finished)
{
    tarry_tcp_server *server = its->server;
    machine_rest(false);
    host_fail(server->base.host, TARRY_ERROR_INTERRUPTED);
    settle(its);
    check(server);
    require(!server->base.host->round.running);
    server->closing = true;
    while (server->peers.first != NULL)
        peer_end(server->peers.first, finished ? WIRE_BYE_DONE : 0);
    settle(its);
    tarry_runtime_free(&server->base, finished);
    for (size_t i = 0; i < VISITORS; i++)
        leave(&its->visitors[i], false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.data = data, .left = size};
    run its = {0};
    machine_begin();
    if (begin(&its, &in)) {
        while (in.left > 0)
            act(&its, &in);
        end(&its, (its.choice[0] & 1) != 0);
    }
    arena_end();
    machine_end();
    return 0;
}
