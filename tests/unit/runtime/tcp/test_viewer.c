/* SPDX-License-Identifier: Apache-2.0 */
/* A viewer and the server that it looks at, on one loop. test_sessions.c has how it connects. */
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "failing_allocator.h"
#include "key_folder.h"
#include "pki/authority.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/tcp/net/address.h"
#include "runtime/tcp/net/channel.h"
#include "runtime/tcp/net/session.h"
#include "runtime/tcp/viewer/viewer.h"
#include "test.h"

enum { LIMIT_MS = 100000, WORKERS = 3, PATH = 200, WORDS = 300 };

#define SILENCE_NS UINT64_C(800000000)

typedef struct world world;

/* What the server does with a HELLO; `count` is 1 for the first. */
typedef void answer(world *w, unsigned count);

struct world {
    uv_loop_t loop;
    uv_timer_t limit;
    failing_allocator memory;
    char folder[32];
    /* the server */
    int listening; /* -1: nobody does */
    uv_poll_t accepting;
    char address[ADDRESS_TEXT];
    credential *credential; /* NULL: plain */
    channel *channel;
    answer *answer;
    unsigned hellos;
    wire_role role;
    uint8_t shared[CHANNEL_SHARED_BYTES];
    /* the viewer */
    viewer *viewer;
    unsigned most_told, most_lost; /* closes itself after so many; 0: never */
    unsigned told, lost, ended;
    bool over;
    char text[64];     /* the last status */
    char words[WORDS]; /* why it was lost, the last time, or ended */
    uint64_t wait_ns;
};

/* ---- the server ---- */

static void send_frame(world *w, const uint8_t *frame, size_t size)
{
    assert_true(channel_send(w->channel, frame, size));
}

static void send_welcome(world *w)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_welcome welcome = {
        .version = WIRE_VERSION, .worker = WIRE_ANY_WORKER, .terms = {.workers = WORKERS}};
    tarry_server_settings_init(&welcome.terms.server);
    welcome.terms.server.dimension = 1;
    welcome.terms.server.silence_ns = SILENCE_NS;
    send_frame(w, frame, wire_welcome_encode(&welcome, frame));
}

static void send_text(world *w, const char *text)
{
    uint8_t frame[WIRE_HEAD_BYTES + 64];
    const size_t size = strlen(text);
    wire_head_encode(WIRE_STATUS, (uint32_t)size, frame);
    memcpy(frame + WIRE_HEAD_BYTES, text, size);
    send_frame(w, frame, WIRE_HEAD_BYTES + size);
}

static void send_status(world *w, unsigned round)
{
    char text[32];
    snprintf(text, sizeof(text), "{\"round\":%u}", round);
    send_text(w, text);
}

static void send_refused(world *w, wire_reason reason)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    const wire_refused refused = {.reason = reason, .text = "not now"};
    send_frame(w, frame, wire_encode(WIRE_REFUSED, &refused, frame));
}

static void send_bye(world *w, wire_bye bye)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    send_frame(w, frame, wire_encode(WIRE_BYE, &bye, frame));
}

static bool on_frame(void *user, const wire_head *head, const uint8_t *body)
{
    world *w = user;
    wire_hello hello;
    if (head->kind == WIRE_HEARTBEAT)
        return true;
    assert_int_equal(head->kind, WIRE_HELLO);
    assert_ok(wire_decode(head, body, &hello));
    w->role = hello.role;
    w->answer(w, ++w->hellos);
    return w->channel != NULL;
}

static channel_verdict on_begin(void *user, const wire_head *head, const uint8_t *fixed,
                                size_t bytes, void **place)
{
    (void)user, (void)head, (void)fixed, (void)bytes, (void)place;
    fail_msg("a viewer sends nothing large");
    return CHANNEL_END;
}

static bool on_complete(void *user, const wire_head *head, const uint8_t *fixed)
{
    (void)user, (void)head, (void)fixed;
    return false;
}

static void on_opened(void *user)
{
    (void)user;
}

static void on_channel_ended(void *user, channel_end how)
{
    world *w = user;
    (void)how;
    channel_close(w->channel);
    w->channel = NULL;
}

static void on_accepting(uv_poll_t *poll, int status, int events)
{
    world *w = poll->data;
    (void)events;
    assert_int_equal(status, 0);
    int fd = accept4(w->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    const channel_settings settings = {
        .most_waiting = 1 << 16, .most_length = WIRE_SMALL_BYTES, .shared = w->shared};
    const channel_handlers handlers = {
        .user = w,
        .opened = on_opened,
        .heard = on_opened,
        .frame = on_frame,
        .begin = on_begin,
        .complete = on_complete,
        .ended = on_channel_ended,
    };
    channel_close(w->channel);
    SSL *ssl = w->credential != NULL ? credential_open(w->credential) : NULL;
    assert_ok(channel_open(&w->loop, fd, ssl, false, &settings, &handlers, NULL, &w->channel));
}

static void stop_server(world *w)
{
    channel_close(w->channel);
    w->channel = NULL;
    if (w->listening < 0)
        return;
    uv_close((uv_handle_t *)&w->accepting, NULL);
    close(w->listening);
    w->listening = -1;
}

/* ---- the viewer ---- */

static void close_viewer(world *w)
{
    viewer_close(w->viewer);
    w->viewer = NULL;
    stop_server(w);
}

/* Takes what looks like an object. */
static int on_told(void *user, const char *text, size_t length, tarry_diagnostic *why)
{
    world *w = user;
    assert_non_null(w->viewer);
    if (text[0] != '{' || length >= sizeof(w->text))
        return diagnose(why, TARRY_ERROR_FORMAT, "this is no object");
    memcpy(w->text, text, length);
    w->text[length] = '\0';
    if (++w->told == w->most_told)
        close_viewer(w);
    return TARRY_OK;
}

static void on_lost(void *user, const char *why, uint64_t wait_ns)
{
    world *w = user;
    assert_non_null(w->viewer);
    snprintf(w->words, WORDS, "%s", why);
    w->wait_ns = wait_ns;
    if (++w->lost == w->most_lost)
        close_viewer(w);
}

static void on_ended(void *user, bool over, const char *why)
{
    world *w = user;
    assert_non_null(w->viewer);
    assert_int_equal(w->ended++, 0);
    w->over = over;
    snprintf(w->words, WORDS, "%s", why);
    close_viewer(w);
}

/* ---- the world ---- */

static void on_limit(uv_timer_t *timer)
{
    (void)timer;
    fprintf(stderr, "a test hangs\n");
    abort();
}

static world *world_make(void)
{
    world *w = checked_calloc(1, sizeof(*w));
    assert_int_equal(uv_loop_init(&w->loop), 0);
    uv_timer_init(&w->loop, &w->limit);
    uv_timer_start(&w->limit, on_limit, LIMIT_MS, 0);
    uv_unref((uv_handle_t *)&w->limit);
    failing_allocator_init(&w->memory, SIZE_MAX);
    strcpy(w->folder, "/tmp/tarry-viewer-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    w->listening = -1;
    return w;
}

static void world_free(world *w)
{
    uv_close((uv_handle_t *)&w->limit, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    assert_int_equal(w->memory.live, 0);
    credential_free(w->credential);
    authority_remove(w->folder);
    free(w);
}

OWNED_BY(world, world_free)

static void serve(world *w, const char *text, answer *how)
{
    address found[ADDRESS_MOST];
    uint32_t count;
    assert_ok(address_resolve(text, true, found, &count, NULL));
    assert_ok(address_listen(&found[0], &w->listening, NULL));
    assert_ok(address_of(w->listening, &found[0], NULL));
    address_text(&found[0], w->address);
    uv_poll_init(&w->loop, &w->accepting, w->listening);
    w->accepting.data = w;
    uv_poll_start(&w->accepting, UV_READABLE, on_accepting);
    w->answer = how;
}

static const tarry_tcp_security plain = {.insecure = true};

/* Looks at `connect` until the viewer has ended or was closed. */
static void look(world *w, const char *connect, const tarry_tcp_security *security)
{
    tarry_diagnostic why = {""};
    const viewer_handlers handlers = {
        .user = w,
        .told = on_told,
        .lost = on_lost,
        .ended = on_ended,
    };
    assert_ok_or(why, viewer_open(&w->loop, connect, security, &handlers, &w->memory.allocator,
                                  &w->viewer, &why));
    uv_run(&w->loop, UV_RUN_DEFAULT);
}

/* ---- a run that is looked at ---- */

static void tell_twice(world *w, unsigned count)
{
    (void)count;
    send_welcome(w);
    send_status(w, 7);
    send_status(w, 8);
    send_bye(w, WIRE_BYE_DONE);
}

static void check_told(const world *w)
{
    assert_int_equal(w->role, WIRE_ROLE_VIEWER);
    assert_int_equal(w->told, 2);
    assert_int_equal(w->lost, 0);
    assert_true(w->ended == 1 && w->over);
    assert_string_equal(w->text, "{\"round\":8}");
}

TEST(over_tcp_and_unix)
{
    for (int local = 0; local < 2; local++) {
        OWNED(world) w = world_make();
        char path[PATH];
        snprintf(path, sizeof(path), "unix:%s/s", w->folder);
        const tarry_tcp_security none = {.insecure = false};
        serve(w, local ? path : "127.0.0.1:0", tell_twice);
        look(w, w->address, local ? &none : &plain);
        check_told(w);
    }
}

TEST(with_credentials)
{
    OWNED(world) w = world_make();
    OWNED(key_folder) keys;
    key_folder_make(&keys, 1, time(NULL));
    const char *own = key_folder_member(&keys, 0, "viewer"),
               *server = key_folder_member(&keys, 1, "server");
    w->credential = key_load(keys.home, "server");
    serve(w, "127.0.0.1:0", tell_twice);
    look(w, w->address, &(tarry_tcp_security){.credentials = own});
    check_told(w);
    const tarry_tcp_security other = {.credentials = server};
    const viewer_handlers handlers = {.user = w};
    tarry_diagnostic why = {""};
    viewer *out = NULL;
    assert_int_equal(viewer_open(&w->loop, w->address, &other, &handlers, NULL, &out, &why),
                     TARRY_ERROR_ARGUMENT);
    assert_non_null(strstr(why.text, "of server, no viewer's"));
    assert_null(out);
}

/* ---- losses ---- */

static void cut_then_tell(world *w, unsigned count)
{
    send_welcome(w);
    send_status(w, count);
    if (count < 3)
        send_bye(w, WIRE_BYE_RESTART);
    else
        send_bye(w, WIRE_BYE_DONE);
}

TEST(it_comes_back)
{
    OWNED(world) w = world_make();
    serve(w, "127.0.0.1:0", cut_then_tell);
    look(w, w->address, &plain);
    assert_int_equal(w->told, 3);
    assert_int_equal(w->lost, 2);
    assert_true(w->over);
    assert_string_equal(w->text, "{\"round\":3}");
    /* Each time after a first pause, as it was told something in between. */
    assert_true(w->wait_ns <= BACKOFF_LEAST_NS);
}

static void close_at_once(world *w, unsigned count)
{
    (void)count;
    channel_close(w->channel);
    w->channel = NULL;
}

static void refuse_for_now(world *w, unsigned count)
{
    if (count == 1)
        send_refused(w, WIRE_REFUSED_CLOSING);
    else
        tell_twice(w, count);
}

static void send_a_message(world *w, unsigned count)
{
    (void)count;
    uint8_t frame[WIRE_HEAD_BYTES + 24] = {0};
    wire_head_encode(WIRE_MESSAGE, 24, frame);
    send_frame(w, frame, sizeof(frame));
}

static void send_parameters(world *w, unsigned count)
{
    (void)count;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    const wire_parameters some = {.round = 1, .count = 1};
    const float number = 0;
    size_t size = wire_encode(WIRE_PARAMETERS, &some, frame);
    memcpy(frame + size, &number, sizeof(number));
    send_frame(w, frame, size + sizeof(number));
}

static void send_status_first(world *w, unsigned count)
{
    (void)count;
    send_status(w, 1);
}

static void send_two_lines(world *w, unsigned count)
{
    (void)count;
    send_welcome(w);
    send_text(w, "{\"round\":1}\n{}");
}

static void send_no_utf8(world *w, unsigned count)
{
    (void)count;
    send_welcome(w);
    send_text(w, "{\"note\":\"\xff\"}");
}

static void send_no_object(world *w, unsigned count)
{
    (void)count;
    send_welcome(w);
    send_text(w, "[]");
}

TEST(what_is_lost)
{
    static const struct {
        answer *how;
        const char *why;
    } cases[] = {
        {close_at_once, "closed by the peer (does it want credentials?)"},
        {refuse_for_now, "refused: not now"},
        {send_a_message, "what answers does not speak this protocol"},
        {send_parameters, "what answers does not speak this protocol"},
        {send_status_first, "what answers does not speak this protocol"},
        {send_two_lines, "what came is not of this protocol"},
        {send_no_utf8, "what came is not of this protocol"},
        {send_no_object, "this is no object"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        OWNED(world) w = world_make();
        serve(w, "127.0.0.1:0", cases[i].how);
        w->most_lost = 1;
        look(w, w->address, &plain);
        assert_string_equal(w->words, cases[i].why);
        assert_int_equal(w->told + w->ended, 0);
    }
}

TEST(refusals)
{
    OWNED(world) w = world_make();
    serve(w, "127.0.0.1:0", refuse_for_now);
    look(w, w->address, &plain);
    assert_int_equal(w->told, 2);
    assert_true(w->over);
}

static void say_no_more(world *w, unsigned count)
{
    (void)count;
    send_welcome(w);
    send_status(w, 1);
}

/* Looks at the first state until the server would be silent, with its next words there. */
static int be_held_up(void *user, const char *text, size_t length, tarry_diagnostic *why)
{
    world *w = user;
    int error = on_told(user, text, length, why);
    if (error != TARRY_OK || w->told > 1)
        return error;
    send_status(w, 8);
    send_bye(w, WIRE_BYE_DONE);
    usleep(3200000);
    return TARRY_OK;
}

TEST(a_viewer_that_is_held_up)
{
    OWNED(world) w = world_make();
    const viewer_handlers handlers = {
        .user = w, .told = be_held_up, .lost = on_lost, .ended = on_ended};
    serve(w, "127.0.0.1:0", say_no_more);
    w->most_lost = 1;
    assert_ok(viewer_open(&w->loop, w->address, &plain, &handlers, &w->memory.allocator, &w->viewer,
                          NULL));
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_string_equal(w->words, "the run is over");
    assert_string_equal(w->text, "{\"round\":8}");
    assert_true(w->ended == 1 && w->over);
}

/* ---- what is wrong from the start ---- */

TEST(plain_text_stays_here)
{
    OWNED(world) w = world_make();
    look(w, "192.0.2.1:1", &plain);
    assert_true(w->ended == 1 && !w->over);
    assert_non_null(strstr(w->words, "plain text is for loopback addresses"));
}

TEST(no_such_host)
{
    OWNED(world) w = world_make();
    w->most_lost = 1;
    look(w, "[::1::]:7", &plain);
    assert_true(w->words[0] != '\0' && w->words[0] != '['); /* the caller knows the name */
}

TEST(wrong_settings)
{
    OWNED(world) w = world_make();
    const viewer_handlers handlers = {.user = w};
    const tarry_tcp_security none = {.insecure = false}, nowhere = {.credentials = "/nowhere"};
    viewer *out = NULL;
    assert_int_equal(viewer_open(&w->loop, "here", &plain, &handlers, NULL, &out, NULL),
                     TARRY_ERROR_FORMAT);
    assert_int_equal(viewer_open(&w->loop, "127.0.0.1:1", &none, &handlers, NULL, &out, NULL),
                     TARRY_ERROR_ARGUMENT);
    assert_int_equal(viewer_open(&w->loop, "127.0.0.1:1", &nowhere, &handlers, NULL, &out, NULL),
                     TARRY_ERROR_FILE);
    assert_null(out);
    viewer_close(NULL);
}

/* Wherever memory ends, it says so, once or each time, and gives back what it has. */
TEST(no_memory)
{
    for (size_t at = 0;; at++) {
        world *w = world_make();
        const viewer_handlers handlers = {
            .user = w, .told = on_told, .lost = on_lost, .ended = on_ended};
        failing_allocator_init(&w->memory, at);
        serve(w, "127.0.0.1:0", tell_twice);
        w->most_lost = 1;
        int error = viewer_open(&w->loop, w->address, &plain, &handlers, &w->memory.allocator,
                                &w->viewer, NULL);
        if (error != TARRY_OK) {
            assert_int_equal(error, TARRY_ERROR_NO_MEMORY);
            stop_server(w);
        }
        uv_run(&w->loop, UV_RUN_DEFAULT);
        bool whole = w->over;
        if (error == TARRY_OK && !whole)
            assert_non_null(strstr(w->words, "memory"));
        world_free(w);
        if (whole) {
            assert_true(at >= 4);
            return;
        }
    }
}

/* It may be closed at any time: while it resolves, connects, pauses. */
TEST(closed_at_once)
{
    world *w = world_make();
    const viewer_handlers handlers = {
        .user = w, .told = on_told, .lost = on_lost, .ended = on_ended};
    serve(w, "127.0.0.1:0", tell_twice);
    assert_ok(viewer_open(&w->loop, w->address, &plain, &handlers, &w->memory.allocator, &w->viewer,
                          NULL));
    close_viewer(w);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(w->told + w->lost + w->ended, 0);
    world_free(w);

    w = world_make();
    w->most_told = 1;
    serve(w, "127.0.0.1:0", tell_twice);
    look(w, w->address, &plain);
    assert_int_equal(w->told, 1);
    assert_int_equal(w->lost + w->ended, 0);
    world_free(w);
}
