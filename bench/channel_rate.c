/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast frames come through channels on loopback, beside bare calls of the system and of OpenSSL
 * for the same bytes over as many connections, in the same run: one thread sends, one receives.
 *
 *     channel_rate [CONNECTIONS [MEGABYTES]]
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "runtime/tcp/net/channel.h"

enum {
    MOST = 64,
    LOAD_BYTES = 256 << 10,
    REPORT_BYTES = 32, /* body of a small frame */
    REPORT_FRAME = WIRE_HEAD_BYTES + REPORT_BYTES,
    BATCH = 64,
    PART_FIXED = 24,
    SENT_AT_ONCE = 1 << 16,
};

typedef struct bench {
    int connections;
    size_t loads;   /* per connection */
    size_t reports; /* per connection */
    size_t batch;   /* reports per call of the bare sender */
    bool tls, small;
    SSL_CTX *server, *client;
    int in[MOST], out[MOST];
    SSL *ssl_in[MOST], *ssl_out[MOST];
    uint8_t *bytes; /* a load, or reports */
} bench;

static void die(const char *what)
{
    fprintf(stderr, "channel_rate: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void make_contexts(bench *b)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_sign(certificate, key, EVP_sha256());
    b->server = SSL_CTX_new(TLS_server_method());
    b->client = SSL_CTX_new(TLS_client_method());
    if (SSL_CTX_use_certificate(b->server, certificate) != 1 ||
        SSL_CTX_use_PrivateKey(b->server, key) != 1)
        die("certificate");
    SSL_CTX_set_num_tickets(b->server, 0);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

static void connect_all(bench *b)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(name);
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listening, (struct sockaddr *)&name, size) != 0 || listen(listening, MOST) != 0 ||
        getsockname(listening, (struct sockaddr *)&name, &size) != 0)
        die("listen");
    for (int i = 0; i < b->connections; i++) {
        int on = 1;
        b->out[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(b->out[i], (struct sockaddr *)&name, size) != 0)
            die("connect");
        b->in[i] = accept(listening, NULL, NULL);
        setsockopt(b->out[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        b->ssl_in[i] = b->tls ? SSL_new(b->server) : NULL;
        b->ssl_out[i] = b->tls ? SSL_new(b->client) : NULL;
        if (b->tls) {
            SSL_set_accept_state(b->ssl_in[i]);
            SSL_set_connect_state(b->ssl_out[i]);
        }
    }
    close(listening);
}

/* ---- bare calls ---- */

static void *bare_sender(void *argument)
{
    bench *b = argument;
    size_t piece = b->small ? b->batch * REPORT_FRAME : LOAD_BYTES;
    size_t pieces = b->small ? b->reports / b->batch : b->loads;
    for (int i = 0; b->tls && i < b->connections; i++) {
        SSL_set_fd(b->ssl_out[i], b->out[i]);
        if (SSL_do_handshake(b->ssl_out[i]) != 1)
            die("handshake");
    }
    for (size_t k = 0; k < pieces; k++)
        for (int i = 0; i < b->connections; i++)
            for (size_t at = 0; at < piece;) {
                ssize_t sent = b->tls ? SSL_write(b->ssl_out[i], b->bytes + at, (int)(piece - at))
                                      : write(b->out[i], b->bytes + at, piece - at);
                if (sent <= 0)
                    die("write");
                at += (size_t)sent;
            }
    return NULL;
}

/* One epoll loop that reads 256 KiB (plain) or a record (TLS) a call, for up to as much a turn as a
 * channel may. */
static void bare_receiver(bench *b)
{
    int epoll = epoll_create1(0);
    /* A server has other memory for each connection, too. */
    uint8_t *buffers = malloc((size_t)b->connections * LOAD_BYTES);
    size_t all = (size_t)b->connections *
                 (b->small ? b->reports * REPORT_FRAME : b->loads * (size_t)LOAD_BYTES);
    for (int i = 0; i < b->connections; i++) {
        if (b->tls) {
            SSL_set_fd(b->ssl_in[i], b->in[i]);
            if (SSL_do_handshake(b->ssl_in[i]) != 1)
                die("handshake");
        }
        struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = (uint32_t)i}};
        epoll_ctl(epoll, EPOLL_CTL_ADD, b->in[i], &event);
    }
    while (all > 0) {
        struct epoll_event events[MOST];
        int count = epoll_wait(epoll, events, MOST, -1);
        for (int e = 0; e < count; e++) {
            uint32_t i = events[e].data.u32;
            uint8_t *buffer = buffers + (size_t)i * LOAD_BYTES;
            do {
                ssize_t got = b->tls ? SSL_read(b->ssl_in[i], buffer, LOAD_BYTES)
                                     : read(b->in[i], buffer, LOAD_BYTES);
                if (got <= 0)
                    die("read");
                all -= (size_t)got;
            } while (b->tls && SSL_pending(b->ssl_in[i]) > 0);
        }
    }
    free(buffers);
    close(epoll);
}

static double run_bare(bench *b)
{
    connect_all(b);
    pthread_t thread;
    double began = now();
    pthread_create(&thread, NULL, bare_sender, b);
    bare_receiver(b);
    double seconds = now() - began;
    pthread_join(thread, NULL);
    for (int i = 0; i < b->connections; i++) {
        SSL_free(b->ssl_in[i]);
        SSL_free(b->ssl_out[i]);
        close(b->in[i]);
        close(b->out[i]);
    }
    return seconds;
}

/* ---- channels ---- */

typedef struct side side;

typedef struct end {
    side *side;
    channel *channel;
    uint8_t *place;
    size_t done; /* frames received; reports or loads queued */
    bool closed;
} end;

struct side {
    bench *bench;
    bool sends;
    uv_loop_t loop;
    uint8_t shared[CHANNEL_SHARED_BYTES];
    end ends[MOST];
};

static size_t frames_of(const bench *b)
{
    return b->small ? b->reports : b->loads;
}

static void finish(end *e)
{
    if (!e->closed)
        channel_close(e->channel);
    e->closed = true;
}

static void send_more(void *user)
{
    end *e = user;
    bench *b = e->side->bench;
    uint8_t prefix[WIRE_HEAD_BYTES + PART_FIXED] = {0};
    if (!e->side->sends)
        return;
    size_t queued = 0;
    for (; e->done < frames_of(b) && queued < SENT_AT_ONCE; e->done++) {
        if (b->small) {
            channel_send(e->channel, b->bytes, REPORT_FRAME);
            queued += REPORT_FRAME;
        } else if (channel_loads(e->channel) < 4) {
            wire_head_encode(WIRE_PARAMETERS, PART_FIXED + LOAD_BYTES, prefix);
            bytes_put(prefix + WIRE_HEAD_BYTES + 16, LOAD_BYTES / 4, 8);
            const channel_load load = {
                .bytes = b->bytes, .size = LOAD_BYTES, .released = NULL, .owner = e};
            channel_send_load(e->channel, prefix, sizeof(prefix), &load);
        } else {
            break;
        }
    }
}

static bool on_frame(void *user, const wire_head *head, const uint8_t *body)
{
    (void)head;
    (void)body;
    end *e = user;
    return ++e->done < frames_of(e->side->bench) || (finish(e), false);
}

static channel_verdict on_begin(void *user, const wire_head *head, const uint8_t *fixed,
                                size_t bytes, void **place)
{
    (void)head;
    (void)fixed;
    (void)bytes;
    *place = ((end *)user)->place;
    return CHANNEL_TAKE;
}

static bool on_complete(void *user, const wire_head *head, const uint8_t *fixed)
{
    return on_frame(user, head, fixed);
}

static void on_ended(void *user, channel_end how)
{
    end *e = user;
    if (how != CHANNEL_PEER_CLOSED && !e->side->sends)
        fprintf(stderr, "channel_rate: ended: %s\n", channel_failure(e->channel));
    finish(e);
}

static void *run_side(void *argument)
{
    side *s = argument;
    bench *b = s->bench;
    uv_loop_init(&s->loop);
    const channel_settings settings = {
        .most_waiting = 1 << 20, .most_length = UINT32_MAX, .shared = s->shared};
    for (int i = 0; i < b->connections; i++) {
        end *e = &s->ends[i];
        *e = (end){.side = s, .place = malloc(LOAD_BYTES)};
        const channel_handlers handlers = {
            .user = e,
            .opened = send_more,
            .frame = on_frame,
            .begin = on_begin,
            .complete = on_complete,
            .drained = send_more,
            .ended = on_ended,
        };
        if (channel_open(&s->loop, s->sends ? b->out[i] : b->in[i],
                         s->sends ? b->ssl_out[i] : b->ssl_in[i], false, &settings, &handlers, NULL,
                         &e->channel) != TARRY_OK)
            die("channel");
    }
    uv_run(&s->loop, UV_RUN_DEFAULT);
    for (int i = 0; i < b->connections; i++)
        free(s->ends[i].place);
    uv_loop_close(&s->loop);
    return NULL;
}

static double run_channels(bench *b)
{
    static side sides[2];
    connect_all(b);
    sides[0] = (side){.bench = b, .sends = true};
    sides[1] = (side){.bench = b, .sends = false};
    pthread_t thread;
    double began = now();
    pthread_create(&thread, NULL, run_side, &sides[0]);
    run_side(&sides[1]);
    double seconds = now() - began;
    pthread_join(thread, NULL);
    return seconds;
}

static void compare(bench *b, const char *what)
{
    double best_bare = 0;
    double best = 0;
    double amount = (double)b->connections * (double)frames_of(b);
    for (int i = 0; i < 3; i++) {
        double bare = amount / run_bare(b);
        double ours = amount / run_channels(b);
        best_bare = bare > best_bare ? bare : best_bare;
        best = ours > best ? ours : best;
    }
    double unit = b->small ? 1e-6 : LOAD_BYTES * 1e-9;
    printf("%-28s bare %7.3f  channels %7.3f %s  ratio %.2f\n", what, best_bare * unit, best * unit,
           b->small ? "M/s " : "GB/s", best / best_bare);
}

int main(int count, char **arguments)
{
    static bench b = {.connections = 8};
    size_t megabytes = count > 2 ? strtoul(arguments[2], NULL, 10) : 1024;
    b.connections = count > 1 ? atoi(arguments[1]) : 8;
    if (b.connections < 1 || b.connections > MOST || megabytes < 1)
        return 2;
    b.loads = megabytes * (1 << 20) / LOAD_BYTES / (size_t)b.connections;
    b.reports = (size_t)BATCH * 8192;
    b.bytes = calloc(1, LOAD_BYTES);
    if (b.bytes == NULL)
        return 1;
    make_contexts(&b);
    compare(&b, "loads of 256 KiB, plain");
    b.tls = true;
    compare(&b, "loads of 256 KiB, TLS");
    b.tls = false;
    b.small = true;
    b.batch = BATCH;
    for (size_t i = 0; i < BATCH; i++)
        wire_head_encode(WIRE_MESSAGE, REPORT_BYTES, b.bytes + i * REPORT_FRAME);
    compare(&b, "reports, batches of 64");
    SSL_CTX_free(b.server);
    SSL_CTX_free(b.client);
    free(b.bytes);
    return 0;
}
