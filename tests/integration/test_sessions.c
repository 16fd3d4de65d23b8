/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker, a viewer and a member of a mesh behave alike: each connects to a peer on loopback that
 * does what the case says, and all have the same words for it.
 */
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <tarry/tcp.h>

#include "key_folder.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh.h"
#include "runtime/tcp/mesh/mesh_address.h"
#include "runtime/tcp/net/address.h"
#include "runtime/tcp/viewer/viewer.h"
#include "script.h"
#include "test.h"

enum { PATH = 160, WORDS = 512, PEER = 1 };

#define SILENCE_NS UINT64_C(4000000000)
#define PATIENCE_NS UINT64_C(60000000000)

typedef struct side side;

/* Who connects. */
typedef struct kind {
    const char *name;
    const char *folder, *peer_folder; /* of credentials */
    bool resolves;                    /* it is given a name */
    bool is_dismissed; /* a refusal for good ends it; members hear from their server who is one */
    void (*start)(side *its);
    void (*stop)(side *its);
    void (*welcome)(side *its);
} kind;

struct side {
    const kind *kind;
    char folder[PATH], peer_folder[PATH]; /* of credentials */
    char connect[ADDRESS_TEXT];
    /* the peer, in the test's thread */
    int listener;
    credential *credential;
    script line;
    bool may_be_late; /* it is what the case is about */
    /* what the side says, under the lock */
    pthread_mutex_t lock;
    pthread_cond_t told;
    char words[WORDS];
    unsigned retries; /* it said that it tries again */
    bool ended;
    /* the side itself */
    tarry_tcp_worker *worker;
    uv_loop_t loop;
    uv_async_t stopping;
    viewer *viewer;
    mesh *mesh;
    pthread_t thread;
};

static const char LATE[] = "no answer in time";

/* The first words count: later ones are about attempts that the case does not play. So are those of
 * a side that the peer, on a busy machine, has not come to yet. */
static void note(side *its, const char *words, bool ended)
{
    if (!its->may_be_late && strstr(words, LATE) != NULL)
        return;
    pthread_mutex_lock(&its->lock);
    if (its->words[0] == '\0')
        snprintf(its->words, WORDS, "%s", words);
    its->retries += !ended;
    its->ended = its->ended || ended;
    pthread_cond_broadcast(&its->told);
    pthread_mutex_unlock(&its->lock);
}

/* ---- a worker ---- */

static int begin_nothing(void *user, tarry_tcp_worker *worker, const tarry_tcp_job *job,
                         uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    (void)user, (void)worker, (void)job, (void)data, (void)diagnostic;
    return TARRY_ERROR_STATE;
}

static int compute_nothing(void *user, const tarry_task *task)
{
    (void)user, (void)task;
    return TARRY_ERROR_STATE;
}

static void on_notice(void *user, const tarry_tcp_notice *notice)
{
    if (notice->type == TARRY_TCP_WAITING)
        note(user, notice->text, false);
}

static void *run_worker(void *argument)
{
    side *its = argument;
    tarry_diagnostic why = {""};
    if (tarry_tcp_worker_run(its->worker, &why) != TARRY_OK)
        note(its, why.text, true);
    return NULL;
}

static void worker_start(side *its)
{
    tarry_tcp_worker_settings settings;
    tarry_diagnostic why;
    tarry_tcp_worker_settings_init(&settings);
    settings.connect = its->connect;
    settings.security.credentials = its->folder;
    settings.begin = begin_nothing;
    settings.compute = compute_nothing;
    settings.observe = on_notice;
    settings.observe_user = its;
    assert_ok_or(why, tarry_tcp_worker_create(&settings, NULL, &its->worker, &why));
    assert_int_equal(pthread_create(&its->thread, NULL, run_worker, its), 0);
}

static void worker_stop(side *its)
{
    tarry_tcp_worker_leave(its->worker, 0);
    pthread_join(its->thread, NULL);
    tarry_tcp_worker_free(its->worker);
}

/* ---- a viewer ---- */

static int on_status(void *user, const char *text, size_t length, tarry_diagnostic *why)
{
    (void)user, (void)text, (void)length;
    return TARRY_OK;
}

static void on_lost(void *user, const char *why, uint64_t wait_ns)
{
    (void)wait_ns;
    note(user, why, false);
}

static void on_ended(void *user, bool over, const char *why)
{
    assert_false(over);
    note(user, why, true);
}

static void on_stopping(uv_async_t *handle)
{
    side *its = handle->data;
    viewer_close(its->viewer);
    uv_close((uv_handle_t *)handle, NULL);
}

static void *run_loop(void *argument)
{
    side *its = argument;
    uv_run(&its->loop, UV_RUN_DEFAULT);
    return NULL;
}

static void viewer_start(side *its)
{
    const viewer_handlers handlers = {
        .user = its, .told = on_status, .lost = on_lost, .ended = on_ended};
    const tarry_tcp_security security = {.credentials = its->folder};
    tarry_diagnostic why;
    assert_int_equal(uv_loop_init(&its->loop), 0);
    assert_int_equal(uv_async_init(&its->loop, &its->stopping, on_stopping), 0);
    its->stopping.data = its;
    assert_ok_or(
        why, viewer_open(&its->loop, its->connect, &security, &handlers, NULL, &its->viewer, &why));
    assert_int_equal(pthread_create(&its->thread, NULL, run_loop, its), 0);
}

static void viewer_stop(side *its)
{
    uv_async_send(&its->stopping);
    pthread_join(its->thread, NULL);
    assert_int_equal(uv_loop_close(&its->loop), 0);
}

static void send_frame(side *its, const uint8_t *frame, size_t size)
{
    assert_true(script_send(&its->line, frame, size));
}

static void server_welcome(side *its)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_WELCOME_BYTES];
    wire_welcome welcome = {
        .version = WIRE_VERSION,
        .worker = its->worker != NULL ? 0 : WIRE_ANY_WORKER,
        .plan_bytes = its->worker != NULL ? 100 : 0, /* that never come: it waits for them */
    };
    tarry_server_settings_init(&welcome.terms.server);
    welcome.terms.workers = 1;
    welcome.terms.parameters = 1;
    welcome.terms.server.dimension = 1;
    welcome.terms.server.stripe_length = 1;
    welcome.terms.server.silence_ns = SILENCE_NS;
    assert_int_equal(its->line.head.kind, WIRE_HELLO);
    send_frame(its, frame, wire_welcome_encode(&welcome, frame));
}

/* ---- a member of a mesh ---- */

static void on_unreached(void *user, uint32_t worker, const char *why)
{
    assert_int_equal(worker, PEER);
    note(user, why, false);
}

static void member_start(side *its)
{
    const mesh_settings settings = {
        .listen = "127.0.0.1:0",
        .credentials = its->folder,
        .silence_ns = SILENCE_NS,
        .dials = true,
        .unreached = on_unreached,
        .user = its,
    };
    tarry_diagnostic why;
    uint32_t count;
    uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST];
    size_t size;
    mesh_address peer = {.instance = {PEER}};
    assert_ok_or(why, mesh_create(&settings, &its->mesh, &why));
    address found[ADDRESS_MOST];
    assert_ok(address_resolve(its->connect, false, found, &count, NULL));
    peer.places[peer.count++] = found[0];
    credential_own_fingerprint(its->credential, peer.fingerprint);
    mesh_address_encode(&peer, bytes, &size);
    assert_ok(mesh_admit(its->mesh, PEER, bytes, size, peer.fingerprint));
}

static void member_stop(side *its)
{
    mesh_free(its->mesh);
}

static void member_welcome(side *its)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_greeting read,
        greeting = {.oldest = WIRE_VERSION, .newest = WIRE_VERSION, .instance = {PEER}};
    assert_ok(wire_decode(&its->line.head, its->line.body, &read));
    memcpy(greeting.wanted, read.instance, WIRE_ID_BYTES);
    send_frame(its, frame, wire_encode(WIRE_GREETING, &greeting, frame));
}

static const kind kinds[] = {
    {"worker", "worker-0", "server", true, true, worker_start, worker_stop, server_welcome},
    {"viewer", "viewer", "server", true, true, viewer_start, viewer_stop, server_welcome},
    {"member", "worker-0", "worker-1", false, false, member_start, member_stop, member_welcome},
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* ---- the peer ---- */

static void peer_listen(side *its)
{
    address at[ADDRESS_MOST];
    uint32_t count;
    assert_ok(address_resolve("127.0.0.1:0", true, at, &count, NULL));
    its->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(its->listener, (struct sockaddr *)&at[0].socket, at[0].size), 0);
    assert_int_equal(listen(its->listener, 4), 0);
    assert_ok(address_of(its->listener, &at[0], NULL));
    address_text(&at[0], its->connect);
}

/* False: one side does not let the other in. */
static bool peer_handshake(side *its)
{
    return script_accept(&its->line, its->mesh != NULL
                                         ? credential_open_between(its->credential, true)
                                         : credential_open(its->credential));
}

/* Up to the side's first words, over a connection that it has not given up yet. */
static void peer_hear(side *its)
{
    do
        script_take(&its->line, its->listener);
    while (!peer_handshake(its) || !script_read(&its->line));
}

static void await_heartbeat(side *its)
{
    do
        if (!script_read(&its->line))
            fail_msg("%s: the connection ended", its->kind->name);
    while (its->line.head.kind != WIRE_HEARTBEAT);
}

/* Until the side is up, and says that it lives. */
static void peer_greet(side *its)
{
    peer_hear(its);
    its->kind->welcome(its);
    await_heartbeat(its);
}

static void peer_refuse(side *its, wire_reason reason, const char *text)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_refused words = {.reason = reason};
    snprintf(words.text, sizeof(words.text), "%s", text);
    peer_hear(its);
    send_frame(its, frame, wire_encode(WIRE_REFUSED, &words, frame));
}

/* ---- the cases ---- */

static void say_nobody(side *its)
{
    close(its->listener);
    its->listener = -1;
}

static void say_unresolved(side *its)
{
    snprintf(its->connect, sizeof(its->connect), "[::1::]:7");
}

static void say_refused(side *its)
{
    peer_refuse(its, WIRE_REFUSED_IDENTITY, "not you");
}

static void say_refused_for_now(side *its)
{
    peer_refuse(its, WIRE_REFUSED_CLOSING, "not now");
}

/* The list came after the handshake. */
static void say_revoked(side *its)
{
    peer_refuse(its, WIRE_REFUSED_REVOKED, "the credential is revoked");
}

/* Plays this with each connection until the side has said something. */
static void play_until_told(side *its, void (*once)(side *its))
{
    for (bool told = false; !told;) {
        struct pollfd next = {.fd = its->listener, .events = POLLIN};
        if (poll(&next, 1, 50) == 1)
            once(its);
        pthread_mutex_lock(&its->lock);
        told = its->words[0] != '\0';
        pthread_mutex_unlock(&its->lock);
    }
}

static void fail_one_handshake(side *its)
{
    uint8_t byte;
    script_take(&its->line, its->listener);
    if (peer_handshake(its))
        assert_true(SSL_read(its->line.ssl, &byte, 1) <= 0);
}

static void fail_handshake(side *its)
{
    play_until_told(its, fail_one_handshake);
}

static void say_garbage(side *its)
{
    static const uint8_t garbage[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    peer_hear(its);
    send_frame(its, garbage, sizeof(garbage));
}

/* A member has nothing to say of a connection until it is to be used. */
static void say_nothing_more(side *its)
{
    exchange_progress progress = {.state = EXCHANGE_IDLE};
    peer_greet(its);
    if (its->mesh == NULL)
        return;
    exchange *taker = mesh_exchange(its->mesh);
    const tarry_sum_id none = {0};
    assert_ok(taker->methods->load(taker, PEER, &none));
    taker->methods->wait(taker, TARRY_NEVER, &progress);
    assert_int_equal(progress.state, EXCHANGE_FAILED);
    note(its, progress.why, false);
}

static void half_a_handshake(side *its)
{
    static const uint8_t half[] = {22, 3, 3, 0, 90, 2, 0, 0, 86};
    script_take(&its->line, its->listener);
    send(its->line.fd, half, sizeof(half), MSG_NOSIGNAL);
}

static void cut_one_handshake(side *its)
{
    half_a_handshake(its);
    shutdown(its->line.fd, SHUT_WR);
}

static void cut_handshake(side *its)
{
    play_until_told(its, cut_one_handshake);
}

static void restart(side *its)
{
    for (int life = 0; life < 3; life++)
        peer_greet(its);
    pthread_mutex_lock(&its->lock);
    its->words[0] = '\0';
    pthread_mutex_unlock(&its->lock);
    note(its, "up again", false);
}

typedef struct story {
    const char *name;
    void (*before)(side *its); /* the side starts; NULL: nothing */
    void (*play)(side *its);   /* NULL: nothing */
    const char *words;         /* that the side says, among others */
    bool other;                /* the peer is of another cluster */
    bool revoked;              /* on the peer's list */
    bool dismissed;            /* whoever can be is */
    bool by_name;              /* for those that are given one */
    bool late;                 /* no answer in time is what it is about */
} story;

#define REVOKED "is revoked; tarry keys add makes another one, where the authority is"

static const story stories[] = {
    {.name = "no such address", .before = say_unresolved, .words = "", .by_name = true},
    {.name = "nobody there", .before = say_nobody, .words = "Connection refused"},
    {.name = "refused", .play = say_refused, .words = "refused: not you", .dismissed = true},
    {.name = "refused for now", .play = say_refused_for_now, .words = "refused: not now"},
    {.name = "wrong certificate", .play = fail_handshake, .words = "certificate", .other = true},
    {.name = "revoked",
     .play = fail_handshake,
     .words = REVOKED,
     .revoked = true,
     .dismissed = true},
    {.name = "revoked meanwhile", .play = say_revoked, .words = REVOKED, .dismissed = true},
    {.name = "not of this protocol",
     .play = say_garbage,
     .words = "what answers does not speak this protocol"},
    {.name = "silent peer", .play = say_nothing_more, .words = "nothing came for "},
    {.name = "half a handshake", .play = half_a_handshake, .words = LATE, .late = true},
    {.name = "half a handshake, and the end", .play = cut_handshake, .words = "by the peer"},
    {.name = "restarted peer", .play = restart, .words = "up again"},
};

static void make_clusters(key_folder *its, const kind *of, bool revoked)
{
    key_folder_make(its, 2, time(NULL));
    key_folder_make_other(its, 2, time(NULL));
    if (!revoked)
        return;
    char from[PATH], to[PATH];
    key_folder_revoke(its, of->folder, time(NULL));
    snprintf(from, sizeof(from), "%s/revoked.pem", its->home);
    snprintf(to, sizeof(to), "%s/%s/revoked.pem", its->home, of->peer_folder);
    unlink(to);
    assert_int_equal(link(from, to), 0);
}

static void side_begin(side *its, const kind *of, const story *told, const key_folder *in)
{
    *its = (side){.kind = of, .line.fd = -1, .may_be_late = told->late};
    pthread_mutex_init(&its->lock, NULL);
    clock_init_condition(&its->told);
    snprintf(its->folder, sizeof(its->folder), "%s/%s", in->home, of->folder);
    snprintf(its->peer_folder, sizeof(its->peer_folder), "%s/%s",
             told->other ? in->other : in->home, of->peer_folder);
    assert_ok(credential_load(its->peer_folder, NULL, &its->credential, NULL));
    peer_listen(its);
    if (told->before != NULL)
        told->before(its);
    of->start(its);
}

/* Waits until it has said so, and whether it tries again. */
static void side_check(side *its, const story *told)
{
    bool ends = told->dismissed && its->kind->is_dismissed;
    const struct timespec until = clock_timespec(clock_from_now(PATIENCE_NS));
    int late = 0;
    pthread_mutex_lock(&its->lock);
    while (!its->ended && its->retries == 0 && late == 0)
        late = pthread_cond_timedwait(&its->told, &its->lock, &until);
    if (late != 0 || strstr(its->words, told->words) == NULL || its->ended != ends ||
        its->words[0] == '\0')
        fail_msg("%s, %s: '%s', which is %s", its->kind->name, told->name, its->words,
                 its->ended ? "the end" : "tried again");
    pthread_mutex_unlock(&its->lock);
}

static void side_end(side *its)
{
    its->kind->stop(its);
    script_close(&its->line);
    if (its->listener >= 0)
        close(its->listener);
    credential_free(its->credential);
    pthread_cond_destroy(&its->told);
    pthread_mutex_destroy(&its->lock);
}

/* All kinds at once, as some cases take their time. */
static void tell(const story *told)
{
    key_folder in[KINDS];
    side *sides = checked_calloc(KINDS, sizeof(*sides));
    for (int i = 0; i < KINDS; i++) {
        if (told->by_name && !kinds[i].resolves)
            continue;
        make_clusters(&in[i], &kinds[i], told->revoked);
        side_begin(&sides[i], &kinds[i], told, &in[i]);
    }
    for (int i = 0; i < KINDS; i++)
        if (sides[i].kind != NULL && told->play != NULL)
            told->play(&sides[i]);
    for (int i = 0; i < KINDS; i++) {
        if (sides[i].kind == NULL)
            continue;
        side_check(&sides[i], told);
        side_end(&sides[i]);
        key_folder_remove(&in[i]);
    }
    free(sides);
}

TEST(all_kinds_behave_alike)
{
    signal(SIGPIPE, SIG_IGN); /* a side may give up while the peer still writes */
    for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++)
        tell(&stories[i]);
}
