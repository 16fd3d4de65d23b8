/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control connections. One thread runs the loop with all sessions; callers' threads put messages
 * into the queues of a connection, take some out of them, and wait. The lock is over the queues and
 * over what says how far a connection is; sessions are the loop's.
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uv.h>

#include <tarry/control.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sized.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/clock.h"
#include "runtime/tcp/net/address.h"
#include "runtime/tcp/net/channel.h"
#include "runtime/tcp/net/session.h"
#include "runtime/tcp/trust/credential.h"

#define GREETING_NS UINT64_C(10000000000)  /* to connect and say HELLO */
#define MOST_PAUSE_NS UINT64_C(1000000000) /* between two attempts to connect */
#define QUIET_NS UINT64_C(1000000000)      /* of these, before somebody hears of it */
#define LINES_NS UINT64_C(1000000000)      /* between two lines on those that are turned away */
#define FAREWELL_NS UINT64_C(3000000000)   /* for what waits when a connection is ended */

enum {
    ACCEPTED_PER_TURN = 64,
    MOST_NEWCOMERS = 128, /* that have not said HELLO: then the oldest makes room */
    MOST_SMALL = 4096,    /* bytes of heartbeats and last words */
    MOST_WAITING = 4 << 20,
    TICK_MS = 250,
};

_Static_assert((int)WIRE_SAY_BYTES == (int)TARRY_CONTROL_MESSAGE_MOST, "a message is a frame");
_Static_assert(sizeof(((tarry_control_arrival *)NULL)->where) >= ADDRESS_TEXT, "any address fits");
_Static_assert(sizeof(((tarry_control_arrival *)NULL)->name) >= CREDENTIAL_NAME_SIZE, "any name");

typedef struct control_link control_link;

typedef struct control_message {
    struct control_message *next;
    control_link *link;
    uint32_t kind;
    size_t size;
    uint8_t bytes[];
} control_message;

typedef struct control_queue {
    control_message *first, **last;
    size_t bytes; /* of what goes out: until the channel has let go of it */
} control_queue;

/* One connection. It is freed when its owner has ended it and the loop has let go of it. */
struct control_link {
    control_link *next; /* under the lock, and changed by the loop alone */
    tarry_control *all;
    tarry_control_arrival arrival; /* complete once it is up */

    /* the loop's */
    session *session; /* NULL: it is closed */
    bool freed;       /* the loop has let go of the session */
    uint64_t ended_ns;
    control_message *coming;

    /* under the lock */
    pthread_cond_t changed; /* for `take`, */
    pthread_cond_t room;    /* and for `say` */
    bool waiting;           /* the channel does, until there is room for a message */
    uint32_t callers;       /* that wait for it, or are about to */
    bool up, told;          /* HELLOs were exchanged; `accept` has given it out */
    bool over;              /* nothing more comes or goes: `error` and `why` */
    bool ending;            /* by its owner */
    int error;
    tarry_diagnostic why;
    control_queue in, out;
};

struct tarry_control {
    tarry_allocator allocator;
    tarry_control_settings settings;
    char *connect; /* the copy of the setting; NULL: it listens */
    credential *credential;
    uint8_t *shared; /* CHANNEL_SHARED_BYTES */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has_lock, has_changed;
    control_link *links, **last_link;                         /* the oldest first */
    uint64_t peers;                                           /* numbers that were given out */
    char line[sizeof(((tarry_control_arrival *)NULL)->text)]; /* for `accept`; "": none */
    bool deaf;                                                /* nothing is listened on any more: */
    bool stopping;                                            /* all is to end */

    /* the loop's */
    uv_loop_t loop;
    int wake_fd; /* an eventfd: uv_async_send would make the loop spin while the caller is held up
                  */
    uv_poll_t wake;
    uv_timer_t tick;
    uv_poll_t polls[ADDRESS_MOST];
    int listeners[ADDRESS_MOST];
    uint32_t listener_count;
    bool closed; /* the handles are */
    bool paused; /* no descriptor was left for who comes */
    char address[ADDRESS_TEXT];
    pthread_t thread;
    bool has_loop, has_thread;
    backoff wait;
    uint64_t began_ns;
    uint64_t line_ns;
    uint32_t unsaid;
    tarry_diagnostic list_failure;
};

/* Makes the loop look. Any thread. */
static void control_wake(const tarry_control *self)
{
    const uint64_t one = 1;
    ssize_t written = write(self->wake_fd, &one, sizeof(one));
    (void)written; /* it is full: the loop will look */
}

/* ---- queues ---- */

/* What a message counts for: many short ones take memory, too. */
static size_t weight_of(const control_message *message)
{
    return sizeof(*message) + message->size;
}

static void queue_add(control_queue *queue, control_message *message)
{
    message->next = NULL;
    *(queue->first == NULL ? &queue->first : queue->last) = message;
    queue->last = &message->next;
}

static control_message *queue_take(control_queue *queue)
{
    control_message *message = queue->first;
    if (message != NULL)
        queue->first = message->next;
    return message;
}

static void queue_clear(control_queue *queue, const tarry_allocator *allocator)
{
    for (control_message *message; (message = queue_take(queue)) != NULL;)
        memory_release(allocator, message);
}

static bool has_room(const tarry_control *self, const control_queue *queue, size_t size)
{
    return queue->bytes == 0 || queue->bytes + size <= self->settings.most_waiting;
}

/* ---- what people hear of those that are turned away ---- */

/* False: there were too many lately, and this one is only counted. */
__attribute__((format(printf, 2, 3))) static bool control_tell(tarry_control *self,
                                                               const char *format, ...)
{
    uint64_t now = clock_now_ns();
    char line[sizeof(self->line)];
    self->unsaid++;
    pthread_mutex_lock(&self->lock);
    bool said = self->line[0] == '\0' && (self->line_ns == 0 || now - self->line_ns >= LINES_NS);
    if (said) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(line, sizeof(line), format, arguments);
        va_end(arguments);
        if (self->unsaid > 1)
            snprintf(self->line, sizeof(self->line), "%.200s (%u more like that)", line,
                     self->unsaid - 1);
        else
            memcpy(self->line, line, sizeof(line));
        self->line_ns = now;
        self->unsaid = 0;
        pthread_cond_broadcast(&self->changed);
    }
    pthread_mutex_unlock(&self->lock);
    return said;
}

/* ---- the end of a connection ---- */

static void link_destroy(const tarry_control *self, control_link *link)
{
    pthread_cond_destroy(&link->changed);
    pthread_cond_destroy(&link->room);
    memory_release(&self->allocator, link);
}

/* With the lock held. */
static void link_notify(control_link *link)
{
    pthread_cond_broadcast(&link->changed);
    pthread_cond_broadcast(&link->room);
}

/* Frees the connection if nobody knows it any more. */
static void link_free_if_done(control_link *link)
{
    tarry_control *self = link->all;
    pthread_mutex_lock(&self->lock);
    bool done = link->ending && link->freed && link->callers == 0;
    control_link **at = &self->links;
    while (done && *at != link)
        at = &(*at)->next;
    if (done) {
        *at = link->next;
        if (link->next == NULL)
            self->last_link = at;
    }
    pthread_mutex_unlock(&self->lock);
    if (!done)
        return;
    queue_clear(&link->in, &self->allocator);
    queue_clear(&link->out, &self->allocator);
    memory_release(&self->allocator, link->coming);
    link_destroy(self, link);
}

static void on_freed(void *user)
{
    control_link *link = user;
    link->freed = true;
    link_free_if_done(link);
}

/* Its owner hears that it is over; one that has no owner yet is forgotten. */
static void link_over(control_link *link, int error, const char *why)
{
    tarry_control *self = link->all;
    pthread_mutex_lock(&self->lock);
    if (!link->over) {
        link->over = true;
        link->error = error;
        snprintf(link->why.text, sizeof(link->why.text), "%s", why);
        link->ending |= !link->up && self->connect == NULL;
    }
    link_notify(link);
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

static void link_close(control_link *link, wire_bye bye)
{
    session *ends = link->session;
    link->session = NULL;
    session_close(ends, bye);
}

/* One that is not let in, or does what makes no sense. */
static void link_refuse(control_link *link, wire_reason reason, const char *text)
{
    session *ends = link->session;
    control_tell(link->all, "%s is turned away: %s", link->arrival.where, text);
    link_over(link, TARRY_ERROR_SYSTEM, text);
    link->session = NULL;
    session_refuse(ends, reason, text);
}

/* ---- handlers of a session ---- */

static void send_hello(const control_link *link)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    const wire_hello hello = {
        .oldest = WIRE_VERSION,
        .newest = WIRE_VERSION,
        .role = WIRE_ROLE_CONTROL,
        .worker = WIRE_ANY_WORKER,
    };
    channel_send(session_channel(link->session), frame, wire_encode(WIRE_HELLO, &hello, frame));
}

/* Who the other side is, as its certificate says; false: it is turned away. */
static bool link_identify(control_link *link)
{
    credential_identity who;
    char text[WIRE_TEXT_BYTES];
    const channel *its = session_channel(link->session);
    snprintf(link->arrival.where, sizeof(link->arrival.where), "%s", channel_peer(its));
    if (channel_ssl(its) == NULL)
        return true;
    bool known = credential_peer(channel_ssl(its), &who) == TARRY_OK;
    if (known)
        identity_name(who, link->arrival.name);
    if (known && (link->all->connect != NULL || who.role == CREDENTIAL_WORKER))
        return true;
    snprintf(text, sizeof(text), "the credential of %s, and workers come here",
             known ? link->arrival.name : "nobody");
    link_refuse(link, WIRE_REFUSED_IDENTITY, text);
    return false;
}

static void on_greet(void *user)
{
    control_link *link = user;
    if (link_identify(link) && link->all->connect != NULL)
        send_hello(link);
}

/* Both have said HELLO. */
static void link_up(control_link *link)
{
    tarry_control *self = link->all;
    session_up(link->session, TARRY_NEVER); /* TCP notices the end of the other machine */
    channel_allow(session_channel(link->session), wire_most_length(WIRE_SAY));
    pthread_mutex_lock(&self->lock);
    link->up = true;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

static bool on_hello(control_link *link, const wire_hello *hello)
{
    char text[WIRE_TEXT_BYTES];
    bool speaks = hello->oldest <= WIRE_VERSION && hello->newest >= WIRE_VERSION;
    if (link->all->connect != NULL) {
        if (!speaks || hello->role != WIRE_ROLE_CONTROL)
            return session_misfit(link->session);
        link_up(link);
        return true;
    }
    if (speaks && hello->role == WIRE_ROLE_CONTROL) {
        send_hello(link);
        link_up(link);
        return true;
    }
    snprintf(text, sizeof(text), "it speaks versions %u to %u, and version %u is wanted",
             (unsigned)hello->oldest, (unsigned)hello->newest, (unsigned)WIRE_VERSION);
    link_refuse(link, speaks ? WIRE_REFUSED_IDENTITY : WIRE_REFUSED_VERSION,
                speaks ? "only control connections come here" : text);
    return false;
}

static bool link_misfit(control_link *link)
{
    if (link->all->connect != NULL)
        return session_misfit(link->session);
    link_refuse(link, WIRE_REFUSED_FORMAT, "a frame that makes no sense here");
    return false;
}

static bool on_frame(void *user, const wire_head *head, const uint8_t *body)
{
    control_link *link = user;
    wire_hello hello;
    if (head->kind == WIRE_HELLO && !link->up && wire_decode(head, body, &hello) == TARRY_OK)
        return on_hello(link, &hello);
    return link_misfit(link);
}

static channel_verdict on_begin(void *user, const wire_head *head, const uint8_t *fixed,
                                size_t bytes, void **place)
{
    control_link *link = user;
    tarry_control *self = link->all;
    wire_say say;
    if (head->kind != WIRE_SAY || !link->up || wire_decode(head, fixed, &say) != TARRY_OK) {
        link_misfit(link);
        return CHANNEL_END;
    }
    pthread_mutex_lock(&self->lock);
    link->waiting = !has_room(self, &link->in, sizeof(control_message) + bytes);
    pthread_mutex_unlock(&self->lock);
    if (link->waiting)
        return CHANNEL_WAIT;
    control_message *coming = memory_allocate(&self->allocator, 1, sizeof(control_message) + bytes);
    if (coming == NULL) {
        session_lose(link->session, "out of memory");
        return CHANNEL_END;
    }
    coming->kind = say.kind;
    coming->size = bytes;
    link->coming = coming;
    *place = coming->bytes;
    return CHANNEL_TAKE;
}

static bool on_complete(void *user, const wire_head *head, const uint8_t *fixed)
{
    control_link *link = user;
    tarry_control *self = link->all;
    (void)head, (void)fixed;
    pthread_mutex_lock(&self->lock);
    queue_add(&link->in, link->coming);
    link->in.bytes += weight_of(link->coming);
    link->coming = NULL;
    pthread_mutex_unlock(&self->lock);
    pthread_cond_broadcast(&link->changed); /* who takes it does not meet a lock that is held */
    return true;
}

/* What another attempt to connect does not mend: as a connection says it. */
static bool is_for_good(const char *why)
{
    static const char *const parts[] = {"peer's certificate: ", "the certificate of ",
                                        "TLS: ", "another user's socket",
                                        "does it want credentials?"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strstr(why, parts[i]) != NULL)
            return true;
    return false;
}

static bool on_waits(void *user, const char *why, uint64_t *wait_ns)
{
    control_link *link = user;
    tarry_control *self = link->all;
    uint64_t now = clock_now_ns(), patience = self->settings.patience_ns;
    char text[TARRY_DIAGNOSTIC_SIZE];
    if (*wait_ns > MOST_PAUSE_NS)
        *wait_ns = MOST_PAUSE_NS;
    snprintf(text, sizeof(text), "%s: %.300s", self->connect, why);
    bool late = patience != TARRY_NEVER && now + *wait_ns - self->began_ns > patience;
    if (link->up || late || is_for_good(why)) {
        bool refused = !link->up && strstr(why, "TLS: ") != NULL;
        link_over(link, refused ? TARRY_ERROR_STATE : TARRY_ERROR_SYSTEM, text);
        return false;
    }
    if (self->line_ns == 0 && now - self->began_ns > QUIET_NS)
        control_tell(self, "%s", text);
    return true;
}

static void on_ended(void *user, int error, const char *why)
{
    control_link *link = user;
    if (!link->up && link->all->connect == NULL)
        control_tell(link->all, "%s is turned away: %s", link->arrival.where, why);
    link_over(link, error == TARRY_OK || link->up ? TARRY_ERROR_SYSTEM : error, why);
    link_close(link, 0);
}

/* ---- what goes out ---- */

static void on_released(void *user, void *owner)
{
    control_message *message = owner;
    tarry_control *self = message->link->all;
    (void)user;
    pthread_mutex_lock(&self->lock);
    message->link->out.bytes -= weight_of(message);
    bool drained = message->link->ending && message->link->out.bytes == 0;
    pthread_cond_broadcast(&message->link->room);
    pthread_mutex_unlock(&self->lock);
    memory_release(&self->allocator, message);
    if (drained)
        control_wake(self);
}

static void link_send(control_link *link)
{
    tarry_control *self = link->all;
    for (;;) {
        pthread_mutex_lock(&self->lock);
        control_message *message = queue_take(&link->out);
        pthread_mutex_unlock(&self->lock);
        if (message == NULL)
            return;
        uint8_t prefix[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
        const channel_load load = {
            .bytes = message->bytes,
            .size = message->size,
            .released = on_released,
            .owner = message,
        };
        const wire_say say = {.kind = message->kind, .count = message->size};
        channel *its = link->session != NULL ? session_channel(link->session) : NULL;
        size_t size = wire_encode(WIRE_SAY, &say, prefix);
        if (its == NULL || !channel_send_load(its, prefix, size, &load))
            on_released(NULL, message);
    }
}

/* What callers have asked for. The link may be gone afterwards. */
static void link_look(control_link *link)
{
    tarry_control *self = link->all;
    if (link->up || link->over)
        link_send(link);
    pthread_mutex_lock(&self->lock);
    bool resume =
        link->waiting && link->session != NULL && has_room(self, &link->in, WIRE_SAY_BYTES);
    link->waiting = link->waiting && !resume;
    bool ending = link->ending, idle = link->over || !link->up || link->out.bytes == 0;
    pthread_mutex_unlock(&self->lock);
    if (resume)
        channel_resume(session_channel(link->session));
    if (!ending)
        return;
    uint64_t now = clock_now_ns();
    if (link->ended_ns == 0)
        link->ended_ns = now;
    if (link->session != NULL && (idle || now - link->ended_ns > FAREWELL_NS))
        link_close(link, WIRE_BYE_LEAVING);
    link_free_if_done(link);
}

/* ---- who comes ---- */

static control_link *link_open(tarry_control *self, int fd)
{
    const session_settings settings = {
        .connect = self->connect,
        .insecure = self->settings.security.insecure,
        .force = self->settings.security.force,
        .credential = self->credential,
        .channel =
            {
                .most_waiting = MOST_SMALL,
                .most_length = WIRE_SMALL_BYTES,
                .shared = self->shared,
            },
        .probed = true,
        .greeting_ns = GREETING_NS,
        .wait = self->connect != NULL ? &self->wait : NULL,
        .allocator = &self->allocator,
    };
    control_link *link = memory_allocate(&self->allocator, 1, sizeof(*link));
    if (link == NULL || clock_init_condition(&link->changed) != 0 ||
        clock_init_condition(&link->room) != 0) {
        memory_release(&self->allocator, link);
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    const session_handlers handlers = {
        .user = link,
        .greet = on_greet,
        .frame = on_frame,
        .begin = on_begin,
        .complete = on_complete,
        .waits = on_waits,
        .ended = on_ended,
        .freed = on_freed,
    };
    link->all = self;
    link->arrival.peer = ++self->peers;
    int error = fd < 0 ? session_connect(&self->loop, &settings, &handlers, &link->session)
                       : session_accept(&self->loop, fd, &settings, &handlers, &link->session);
    if (error != TARRY_OK) {
        link_destroy(self, link);
        return NULL;
    }
    if (fd >= 0)
        snprintf(link->arrival.where, sizeof(link->arrival.where), "%s",
                 channel_peer(session_channel(link->session)));
    pthread_mutex_lock(&self->lock);
    *self->last_link = link;
    self->last_link = &link->next;
    pthread_mutex_unlock(&self->lock);
    return link;
}

/* Whoever says nothing keeps nobody out: the oldest goes. */
static void make_room(tarry_control *self)
{
    control_link *oldest = NULL;
    uint32_t count = 0;
    for (control_link *link = self->links; link != NULL; link = link->next)
        if (!link->up && !link->over) {
            oldest = oldest == NULL ? link : oldest;
            count++;
        }
    if (count < MOST_NEWCOMERS)
        return;
    link_over(oldest, TARRY_ERROR_SYSTEM, "there is no room");
    link_close(oldest, 0);
}

/* Those that come from now on are held to the newest list, and so are those that are there. */
static void refresh_revoked(tarry_control *self)
{
    bool changed = false;
    tarry_diagnostic why = {.text = ""};
    if (self->credential == NULL || self->connect != NULL)
        return;
    if (credential_refresh_revoked(self->credential, &changed, &why) != TARRY_OK) {
        if (strcmp(self->list_failure.text, why.text) != 0 &&
            control_tell(self, "%.180s; what was read before is in force", why.text))
            self->list_failure = why;
        return;
    }
    self->list_failure.text[0] = '\0';
    for (control_link *link = self->links; changed && link != NULL; link = link->next) {
        X509 *certificate = link->session != NULL && link->up
                                ? channel_certificate(session_channel(link->session))
                                : NULL;
        if (certificate != NULL && credential_is_revoked(self->credential, certificate))
            link_refuse(link, WIRE_REFUSED_REVOKED, wire_reason_text(WIRE_REFUSED_REVOKED));
    }
}

static void on_come(uv_poll_t *poll, int status, int events)
{
    tarry_control *self = poll->data;
    int listener = self->listeners[poll - self->polls];
    (void)events;
    refresh_revoked(self);
    for (int i = 0; status == 0 && i < ACCEPTED_PER_TURN; i++) {
        address from = {.size = sizeof(from.socket)};
        int fd = accept4(listener, (struct sockaddr *)&from.socket, &from.size,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
            self->paused = true; /* until the next tick */
            uv_poll_stop(poll);
        }
        if (fd < 0)
            return;
        if (address_is_unix(&from) && !address_is_own_user(fd)) {
            control_tell(self, "another user is turned away");
            close(fd);
            continue;
        }
        make_room(self);
        link_open(self, fd);
    }
}

/* ---- the loop ---- */

static void start_listening(tarry_control *self)
{
    for (uint32_t i = 0; i < self->listener_count; i++)
        uv_poll_start(&self->polls[i], UV_READABLE, on_come);
}

static void on_listener_closed(uv_handle_t *handle)
{
    const uv_poll_t *poll = (const uv_poll_t *)handle;
    const tarry_control *self = poll->data;
    close(self->listeners[poll - self->polls]);
}

static void stop_listening(tarry_control *self)
{
    if (address_text_is_file(self->address) && self->listener_count > 0)
        unlink(self->address + strlen("unix:"));
    for (uint32_t i = 0; i < self->listener_count; i++)
        uv_close((uv_handle_t *)&self->polls[i], on_listener_closed);
    self->listener_count = 0;
}

static void control_look(tarry_control *self)
{
    pthread_mutex_lock(&self->lock);
    bool deaf = self->deaf, stopping = self->stopping;
    for (control_link *link = self->links; stopping && link != NULL; link = link->next)
        link->ending = true;
    pthread_mutex_unlock(&self->lock);
    if (deaf || stopping)
        stop_listening(self);
    for (control_link *link = self->links, *next; link != NULL; link = next) {
        next = link->next;
        link_look(link);
    }
    if (!stopping || self->links != NULL || self->closed)
        return;
    self->closed = true;
    uv_close((uv_handle_t *)&self->wake, NULL);
    uv_close((uv_handle_t *)&self->tick, NULL);
}

static void on_wake(uv_poll_t *handle, int status, int events)
{
    tarry_control *self = handle->data;
    uint64_t count;
    ssize_t got = read(self->wake_fd, &count, sizeof(count));
    (void)got, (void)status, (void)events;
    control_look(self);
}

static void on_tick(uv_timer_t *handle)
{
    tarry_control *self = handle->data;
    refresh_revoked(self);
    if (self->paused)
        start_listening(self);
    self->paused = false;
    control_look(self);
}

static void *run_loop(void *argument)
{
    tarry_control *self = argument;
    uv_run(&self->loop, UV_RUN_DEFAULT);
    return NULL;
}

static int start_loop(tarry_control *self)
{
    if (uv_loop_init(&self->loop) != 0)
        return TARRY_ERROR_SYSTEM;
    self->has_loop = true;
    if (uv_poll_init(&self->loop, &self->wake, self->wake_fd) != 0) {
        self->closed = true;
        return TARRY_ERROR_SYSTEM;
    }
    uv_timer_init(&self->loop, &self->tick);
    self->wake.data = self->tick.data = self;
    for (uint32_t i = 0; i < self->listener_count; i++) {
        uv_poll_init(&self->loop, &self->polls[i], self->listeners[i]);
        self->polls[i].data = self;
    }
    uv_poll_start(&self->wake, UV_READABLE, on_wake);
    start_listening(self);
    uv_timer_start(&self->tick, on_tick, TICK_MS, TICK_MS);
    if (self->connect != NULL && link_open(self, -1) == NULL)
        return TARRY_ERROR_NO_MEMORY;
    self->has_thread = pthread_create(&self->thread, NULL, run_loop, self) == 0;
    return self->has_thread ? TARRY_OK : TARRY_ERROR_SYSTEM;
}

/* ---- beginning and end ---- */

void tarry_control_settings_init_sized(tarry_control_settings *settings, size_t size)
{
    if (!sized_begin(settings, size, sizeof(*settings)))
        return;
    settings->patience_ns = UINT64_C(60000000000);
    settings->most_waiting = MOST_WAITING;
}

/* Errors: ARGUMENT, FORMAT, SYSTEM. */
static int control_listen(tarry_control *self, tarry_diagnostic *diagnostic)
{
    const tarry_tcp_security *security = &self->settings.security;
    const char *text = self->settings.listen;
    address found[ADDRESS_MOST], bound;
    uint32_t count;
    int error = address_resolve(text, true, found, &count, diagnostic);
    for (uint32_t i = 0; error == TARRY_OK && i < count; i++) {
        error = address_check_listen(&found[i], text, security->insecure, security->force,
                                     self->credential != NULL, diagnostic);
        if (error != TARRY_OK)
            return error;
        if (self->listener_count > 0)
            address_take_port(&found[i], &bound);
        int fd = -1;
        error = address_listen(&found[i], &fd, diagnostic);
        bool lacks = error != TARRY_OK && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL);
        if (lacks && (i + 1 < count || self->listener_count > 0)) {
            error = TARRY_OK; /* this machine has no such kind of addresses */
            continue;
        }
        if (error != TARRY_OK)
            break;
        self->listeners[self->listener_count++] = fd;
        error = address_of(fd, &bound, diagnostic);
        if (self->listener_count == 1 && error == TARRY_OK)
            address_text(address_is_unix(&found[i]) ? &found[i] : &bound, self->address);
    }
    return error;
}

static int control_begin(tarry_control *self, tarry_diagnostic *diagnostic)
{
    const tarry_control_settings *settings = &self->settings;
    const char *at = settings->listen != NULL ? settings->listen : settings->connect;
    int error = address_check(at, settings->listen != NULL, diagnostic);
    if (error == TARRY_OK && settings->security.credentials != NULL && !address_text_is_file(at))
        error = credential_load(settings->security.credentials, &self->allocator, &self->credential,
                                diagnostic);
    bool is_server =
        self->credential != NULL && credential_own(self->credential).role == CREDENTIAL_SERVER;
    if (error == TARRY_OK && self->credential != NULL && is_server != (settings->listen != NULL))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: %s the credentials of a server",
                        settings->security.credentials, is_server ? "these are" : "not");
    if (error == TARRY_OK && settings->listen != NULL)
        return control_listen(self, diagnostic);
    if (error == TARRY_OK) {
        self->connect = memory_text(&self->allocator, at, strlen(at), "");
        error = self->connect != NULL ? TARRY_OK : diagnose_no_memory(diagnostic, "control");
    }
    return error;
}

static int check_settings(const tarry_control_settings *settings, tarry_diagnostic *diagnostic)
{
    int error = sized_check(settings->size, sizeof(*settings), "control connections", diagnostic);
    const char *fault = NULL;
    if (error != TARRY_OK)
        return error;
    if ((settings->listen == NULL) == (settings->connect == NULL))
        fault = "one of listen and connect must be set";
    else if (settings->security.insecure && settings->security.credentials != NULL)
        fault = "credentials are of no use in plain text";
    return fault == NULL
               ? TARRY_OK
               : diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "control connections: %s", fault);
}

int tarry_control_create(const tarry_control_settings *settings, const tarry_allocator *allocator,
                         tarry_control **out, tarry_diagnostic *diagnostic)
{
    int error = check_settings(settings, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_control *self = memory_allocate(allocator, 1, sizeof(*self));
    if (self == NULL)
        return diagnose_no_memory(diagnostic, "control connections");
    self->allocator = memory_allocator(allocator);
    self->settings = *settings;
    self->last_link = &self->links;
    self->began_ns = clock_now_ns();
    backoff_init(&self->wait, self->began_ns, WIRE_ANY_WORKER, 1);
    self->shared = memory_allocate(&self->allocator, CHANNEL_SHARED_BYTES, 1);
    self->has_lock = pthread_mutex_init(&self->lock, NULL) == 0;
    self->has_changed = clock_init_condition(&self->changed) == 0;
    self->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->shared == NULL)
        error = diagnose_no_memory(diagnostic, "control connections");
    else if (!self->has_lock || !self->has_changed || self->wake_fd < 0)
        error = diagnose(diagnostic, TARRY_ERROR_SYSTEM, "control connections: no lock");
    else
        error = control_begin(self, diagnostic);
    if (error == TARRY_OK && (error = start_loop(self)) != TARRY_OK)
        diagnose(diagnostic, error, "control connections: %s", tarry_error_text(error));
    if (error != TARRY_OK) {
        tarry_control_free(self);
        return error;
    }
    self->settings.listen = self->settings.connect = NULL; /* the caller's */
    *out = self;
    return TARRY_OK;
}

void tarry_control_free(tarry_control *self)
{
    if (self == NULL)
        return;
    if (self->has_loop && !self->closed) {
        pthread_mutex_lock(&self->lock);
        self->stopping = true;
        pthread_mutex_unlock(&self->lock);
        control_wake(self);
    }
    if (self->has_thread)
        pthread_join(self->thread, NULL);
    else if (self->has_loop)
        uv_run(&self->loop, UV_RUN_DEFAULT);
    if (self->has_loop)
        uv_loop_close(&self->loop);
    for (uint32_t i = 0; i < self->listener_count; i++) /* the loop never had them */
        close(self->listeners[i]);
    if (self->wake_fd >= 0)
        close(self->wake_fd);
    credential_free(self->credential);
    if (self->has_changed)
        pthread_cond_destroy(&self->changed);
    if (self->has_lock)
        pthread_mutex_destroy(&self->lock);
    tarry_allocator allocator = self->allocator;
    memory_release(&allocator, self->shared);
    memory_release(&allocator, self->connect);
    memory_release(&allocator, self);
}

const char *tarry_control_address(const tarry_control *self)
{
    return self->address;
}

/* ---- callers ---- */

/* With the lock held. False: it is that late. */
static bool control_wait(tarry_control *self, pthread_cond_t *changed, uint64_t until_ns)
{
    return until_ns != 0 && clock_wait(changed, &self->lock, until_ns);
}

static uint64_t until_of(uint64_t wait_ns)
{
    return wait_ns == 0 ? 0 : clock_from_now(wait_ns);
}

/* With the lock held. NULL: there is none, or its owner has ended it. */
static control_link *link_of(const tarry_control *self, uint64_t peer)
{
    for (control_link *link = self->links; link != NULL; link = link->next)
        if (link->arrival.peer == peer)
            return link->ending ? NULL : link;
    return NULL;
}

/* Takes the lock. What link_enter gives back stays until link_leave. */
static control_link *link_enter(tarry_control *self, uint64_t peer)
{
    pthread_mutex_lock(&self->lock);
    control_link *link = link_of(self, peer);
    if (link != NULL)
        link->callers++;
    return link;
}

/* Gives the lock back; wake: the loop has something to do. */
static void link_leave(tarry_control *self, control_link *link, bool wake)
{
    if (link != NULL && --link->callers == 0 && link->ending)
        wake = true;
    pthread_mutex_unlock(&self->lock);
    if (wake)
        control_wake(self);
}

static int report_late(tarry_diagnostic *diagnostic)
{
    if (diagnostic != NULL)
        diagnostic->text[0] = '\0';
    return TARRY_ERROR_STATE;
}

static int report_over(const control_link *link, tarry_diagnostic *diagnostic)
{
    if (link == NULL || link->ending)
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "the connection was ended here");
    return diagnose(diagnostic, link->error, "%s", link->why.text);
}

/* With the lock held. TARRY_OK, or LINK_AGAIN: nothing came yet. */
static int accept_now(tarry_control *self, tarry_control_arrival *arrival,
                      tarry_diagnostic *diagnostic)
{
    control_link *link = self->links;
    while (link != NULL && (!link->up || link->told || link->ending))
        link = link->next;
    if (link != NULL) {
        link->told = true;
        *arrival = link->arrival;
        return TARRY_OK;
    }
    if (self->line[0] != '\0') {
        *arrival = (tarry_control_arrival){0};
        memcpy(arrival->text, self->line, sizeof(self->line));
        self->line[0] = '\0';
        return TARRY_OK;
    }
    if (self->connect != NULL && self->links != NULL && self->links->over)
        return report_over(self->links, diagnostic);
    return self->deaf ? diagnose(diagnostic, TARRY_ERROR_SYSTEM, "nothing is listened on")
                      : LINK_AGAIN;
}

int tarry_control_accept(tarry_control *self, uint64_t wait_ns, tarry_control_arrival *arrival,
                         tarry_diagnostic *diagnostic)
{
    uint64_t until = until_of(wait_ns);
    pthread_mutex_lock(&self->lock);
    int error = accept_now(self, arrival, diagnostic);
    while (error == LINK_AGAIN && control_wait(self, &self->changed, until))
        error = accept_now(self, arrival, diagnostic);
    pthread_mutex_unlock(&self->lock);
    return error == LINK_AGAIN ? report_late(diagnostic) : error;
}

int tarry_control_say(tarry_control *self, uint64_t peer, uint32_t kind, const void *bytes,
                      size_t size, uint64_t wait_ns, tarry_diagnostic *diagnostic)
{
    if (size < 1 || size > TARRY_CONTROL_MESSAGE_MOST)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "a message has 1 to %d bytes, and this one %zu", TARRY_CONTROL_MESSAGE_MOST,
                        size);
    control_message *message = memory_allocate(&self->allocator, 1, sizeof(*message) + size);
    if (message == NULL)
        return diagnose_no_memory(diagnostic, "message");
    message->kind = kind;
    message->size = size;
    memcpy(message->bytes, bytes, size);
    uint64_t until = until_of(wait_ns);
    int error = TARRY_OK;
    control_link *link = link_enter(self, peer);
    while (link != NULL && !link->over && !link->ending && error == TARRY_OK &&
           !has_room(self, &link->out, weight_of(message)))
        if (!control_wait(self, &link->room, until))
            error = report_late(diagnostic);
    if (error == TARRY_OK && (link == NULL || link->over || link->ending))
        error = report_over(link, diagnostic);
    if (error == TARRY_OK) {
        message->link = link;
        queue_add(&link->out, message);
        link->out.bytes += weight_of(message);
    }
    link_leave(self, link, error == TARRY_OK);
    if (error != TARRY_OK)
        memory_release(&self->allocator, message);
    return error;
}

int tarry_control_take(tarry_control *self, uint64_t peer, uint64_t wait_ns,
                       tarry_control_message *out, tarry_diagnostic *diagnostic)
{
    uint64_t until = until_of(wait_ns);
    int error = TARRY_OK;
    bool resume = false;
    control_link *link = link_enter(self, peer);
    while (link != NULL && link->in.first == NULL && !link->over && !link->ending &&
           error == TARRY_OK)
        if (!control_wait(self, &link->changed, until))
            error = report_late(diagnostic);
    control_message *message = link != NULL && !link->ending ? queue_take(&link->in) : NULL;
    if (message != NULL) {
        error = TARRY_OK;
        link->in.bytes -= weight_of(message);
        resume = link->waiting;
        *out = (tarry_control_message){message->kind, message->size, message->bytes};
    } else if (link == NULL || link->over || link->ending) {
        error = report_over(link, diagnostic);
    }
    link_leave(self, link, resume);
    return error;
}

void tarry_control_release(tarry_control *self, tarry_control_message *message)
{
    if (message->bytes != NULL)
        memory_release(&self->allocator,
                       (uint8_t *)message->bytes - offsetof(control_message, bytes));
    message->bytes = NULL;
}

bool tarry_control_is_open(tarry_control *self, uint64_t peer)
{
    pthread_mutex_lock(&self->lock);
    const control_link *link = link_of(self, peer);
    bool open = link != NULL && !link->over;
    pthread_mutex_unlock(&self->lock);
    return open;
}

void tarry_control_end(tarry_control *self, uint64_t peer)
{
    pthread_mutex_lock(&self->lock);
    control_link *link = link_of(self, peer);
    if (link != NULL) {
        link->ending = true;
        link_notify(link);
    }
    self->deaf |= peer == 0;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
    control_wake(self);
}
