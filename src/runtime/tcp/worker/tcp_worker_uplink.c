/* SPDX-License-Identifier: Apache-2.0 */
/* From the executor's threads to the loop's: messages are copied, numbers are not. */
#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "protocol/wire/codec.h"
#include "runtime/clock.h"
#include "runtime/tcp/worker/tcp_worker.h"

enum { LEAST_ROOM = 1024 };

/* What workers send has no sets, for which a shape would be needed. */
static const codec_shape NO_SETS;

int tcp_worker_init_uplink(tarry_tcp_worker *worker)
{
    worker_uplink *up = &worker->uplink;
    up->has_lock = pthread_mutex_init(&up->lock, NULL) == 0;
    up->has_released = pthread_cond_init(&up->released, NULL) == 0;
    return up->has_lock && up->has_released ? TARRY_OK : TARRY_ERROR_SYSTEM;
}

void tcp_worker_destroy_uplink(tarry_tcp_worker *worker)
{
    worker_uplink *up = &worker->uplink;
    assert(up->loads == NULL);
    while (up->spare != NULL) {
        worker_load *load = up->spare;
        up->spare = load->next;
        memory_release(&worker->allocator, load);
    }
    memory_release(&worker->allocator, up->bytes);
    if (up->has_released)
        pthread_cond_destroy(&up->released);
    if (up->has_lock)
        pthread_mutex_destroy(&up->lock);
}

static void wake(tarry_tcp_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    tcp_worker_wake(worker);
    pthread_mutex_unlock(&worker->lock);
}

/* ---- the executor's side; `up->lock` is never held together with another one ---- */

static bool reserve(tarry_tcp_worker *worker, size_t size)
{
    worker_uplink *up = &worker->uplink;
    if (up->size + size <= up->room)
        return true;
    size_t room = memory_room(up->room, up->size + size, LEAST_ROOM);
    uint8_t *grown = memory_grow(&worker->allocator, up->bytes, up->size, room, 1);
    if (grown == NULL)
        return false;
    up->bytes = grown;
    up->room = room;
    return true;
}

/* With the lock held: a frame without numbers. */
static void put(tarry_tcp_worker *worker, const uint8_t *frame, size_t size)
{
    worker_uplink *up = &worker->uplink;
    if (reserve(worker, size)) {
        memcpy(up->bytes + up->size, frame, size);
        up->size += size;
    } else {
        up->lost = true;
    }
}

/* With the lock held: what is said from now on comes behind the reports that wait. */
static void put_reports(tarry_tcp_worker *worker)
{
    report_batch *reports = &worker->uplink.reports;
    size_t size = report_batch_close(reports);
    if (size > 0)
        put(worker, reports->frame, size);
}

/* With the lock held: at once, without a change of thread, where nothing else waits. Whether it is
 * sent. */
static bool send_aside(worker_uplink *up, const uint8_t *frame, size_t size)
{
    if (up->aside == NULL || up->size > 0 || up->lost)
        return false;
    size_t sent = channel_send_aside(up->aside, frame, size);
    up->lost = sent > 0 && sent < size; /* no frame makes sense behind a piece of one */
    return sent == size;
}

void tcp_worker_beat_aside(tarry_tcp_worker *worker)
{
    worker_link *link = &worker->link;
    uint64_t now = clock_now_ns();
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    if (link->stage != WORKER_READY ||
        now - link->sent_ns < link->welcome.silence_ns / WORKER_HEARTBEAT_FRACTION)
        return;
    size_t size = wire_heartbeat_encode(frame);
    size_t sent = channel_send_aside(link->channel, frame, size);
    if (sent == size)
        link->sent_ns = now;
    if (sent == 0 || sent == size)
        return;
    pthread_mutex_lock(&worker->lock);
    worker->uplink.lost = true; /* no frame makes sense behind a piece of one */
    pthread_mutex_unlock(&worker->lock);
}

/* With the lock held. Gives back whether the loop has to be told. */
static bool put_report(tarry_tcp_worker *worker, const tarry_message *report, bool more)
{
    worker_uplink *up = &worker->uplink;
    report_batch *reports = &up->reports;
    bool first = up->size == 0;
    if (!report_batch_fits(reports, report))
        put_reports(worker);
    if (report_batch_put(reports, report, more, clock_now_ns()))
        return !up->ticking || (first && up->size > 0);
    size_t size = report_batch_close(reports);
    if (send_aside(up, reports->frame, size))
        return false;
    put(worker, reports->frame, size);
    return first;
}

/* With the lock held. Gives back whether the loop has to be told. */
static bool put_message(tarry_tcp_worker *worker, const tarry_message *message)
{
    worker_uplink *up = &worker->uplink;
    uint8_t frame[WIRE_HEAD_BYTES + CODEC_MOST_WORKER_BYTES];
    size_t size = codec_size(&NO_SETS, message);
    assert(size <= CODEC_MOST_WORKER_BYTES);
    wire_message_head(size, 0, frame);
    codec_encode(&NO_SETS, message, frame + WIRE_HEAD_BYTES);
    bool first = up->size == 0;
    put_reports(worker);
    if (send_aside(up, frame, WIRE_HEAD_BYTES + size))
        return false;
    put(worker, frame, WIRE_HEAD_BYTES + size);
    return first;
}

static void post(void *user, const tarry_message *message, bool more)
{
    tarry_tcp_worker *worker = user;
    worker_uplink *up = &worker->uplink;
    bool news = false;
    pthread_mutex_lock(&up->lock);
    if (up->open && message->type == TARRY_MESSAGE_REPORT)
        news = put_report(worker, message, more);
    else if (up->open)
        news = put_message(worker, message);
    pthread_mutex_unlock(&up->lock);
    if (news)
        wake(worker);
}

/* With the lock held. */
static worker_load *take_load(tarry_tcp_worker *worker)
{
    worker_uplink *up = &worker->uplink;
    worker_load *load = up->spare;
    if (load == NULL)
        return memory_allocate(&worker->allocator, 1, sizeof(*load));
    up->spare = load->next;
    return load;
}

/* With the lock held. */
static bool put_load(tarry_tcp_worker *worker, const tarry_message *message,
                     const executor_stripe *stripe)
{
    worker_uplink *up = &worker->uplink;
    worker_load *load = up->open ? take_load(worker) : NULL;
    up->lost = up->lost || (up->open && load == NULL);
    if (load == NULL)
        return up->open;
    put_reports(worker);
    if (++up->tags == 0)
        up->tags = 1;
    *load = (worker_load){
        .tag = up->tags,
        .stripe = *stripe,
    };
    wire_message_head(CODEC_HEADER_BYTES, stripe->size, load->prefix);
    codec_encode(&NO_SETS, message, load->prefix + WIRE_HEAD_BYTES);
    worker_load **at = &up->loads;
    while (*at != NULL)
        at = &(*at)->next;
    *at = load;
    return true;
}

/* Which of both ways it goes and that it does is one step: the connection may be another one. */
static void post_part(void *user, const tarry_message *message, const executor_stripe *stripe)
{
    tarry_tcp_worker *worker = user;
    worker_uplink *up = &worker->uplink;
    pthread_mutex_lock(&up->lock);
    bool news = up->near ? put_message(worker, message) : put_load(worker, message, stripe);
    pthread_mutex_unlock(&up->lock);
    if (news)
        wake(worker);
}

static bool is_claimed(const worker_uplink *up, const worker_load *load)
{
    const executor_stripe *its = &load->stripe;
    return up->claiming && its->first < up->claim_end && up->claim_first < its->first + its->count;
}

/* With the lock held. */
static bool has_claimed(const worker_uplink *up)
{
    for (const worker_load *load = up->loads; load != NULL; load = load->next)
        if (is_claimed(up, load))
            return true;
    return false;
}

static void claim(void *user, size_t first, size_t count)
{
    tarry_tcp_worker *worker = user;
    worker_uplink *up = &worker->uplink;
    pthread_mutex_lock(&up->lock);
    up->claiming = true;
    up->claim_first = first;
    up->claim_end = first + count;
    if (has_claimed(up)) {
        pthread_mutex_unlock(&up->lock);
        wake(worker);
        pthread_mutex_lock(&up->lock);
    }
    while (has_claimed(up))
        pthread_cond_wait(&up->released, &up->lock);
    up->claiming = false;
    pthread_mutex_unlock(&up->lock);
}

static void give_up(void *user)
{
    tarry_tcp_worker *worker = user;
    worker_uplink *up = &worker->uplink;
    pthread_mutex_lock(&up->lock);
    up->lost = up->open;
    pthread_mutex_unlock(&up->lock);
    wake(worker);
}

static void broken(void *user, int error)
{
    tarry_tcp_worker *worker = user;
    tcp_worker_end(worker, error, "what it steps: %s", tarry_error_text(error));
    give_up(worker);
}

/* From now on nothing is sent, whatever else is on its way to that. */
static void refused(void *user, int error, const char *why)
{
    tarry_tcp_worker *worker = user;
    worker_uplink *up = &worker->uplink;
    tcp_worker_end(worker, error, "secure sums: %s", why);
    pthread_mutex_lock(&up->lock);
    up->lost = up->open;
    pthread_mutex_unlock(&up->lock);
    wake(worker);
}

/* It has turned to another plan, or is done with its last round. */
static void changed(void *user)
{
    tarry_tcp_worker *worker = user;
    pthread_mutex_lock(&worker->lock);
    pthread_cond_broadcast(&worker->changed);
    tcp_worker_wake(worker);
    pthread_mutex_unlock(&worker->lock);
}

static void voided(void *user, uint32_t stripes)
{
    tarry_tcp_worker *worker = user;
    pthread_mutex_lock(&worker->lock);
    worker->work.voided_residuals += stripes;
    pthread_mutex_unlock(&worker->lock);
}

executor_uplink tcp_worker_uplink(tarry_tcp_worker *worker)
{
    return (executor_uplink){
        .post = post,
        .post_part = post_part,
        .claim = claim,
        .give_up = give_up,
        .changed = changed,
        .user = worker,
        .given = tcp_worker_given,
        .broken = broken,
        .voided = voided,
        .refused = refused,
    };
}

/* ---- the loop's side ---- */

/* With the lock held: nobody reads its numbers. */
static void forget(worker_uplink *up, worker_load *load)
{
    worker_load **at = &up->loads;
    while (*at != load)
        at = &(*at)->next;
    *at = load->next;
    load->next = up->spare;
    up->spare = load;
    pthread_cond_signal(&up->released);
}

void tcp_worker_load_released(void *user, void *owner)
{
    tarry_tcp_worker *worker = user;
    worker_uplink *up = &worker->uplink;
    worker->link.machine_ns = clock_now_ns();
    pthread_mutex_lock(&up->lock);
    forget(up, owner);
    pthread_mutex_unlock(&up->lock);
}

/* With the lock held. What the channel has not is forgotten. */
static void forget_waiting(worker_uplink *up, bool claimed)
{
    for (worker_load *load = up->loads, *next; load != NULL; load = next) {
        next = load->next;
        if (!load->handed_on && (!claimed || is_claimed(up, load)))
            forget(up, load);
    }
}

void tcp_worker_open_uplink(tarry_tcp_worker *worker, bool open)
{
    worker_uplink *up = &worker->uplink;
    pthread_mutex_lock(&up->lock);
    up->open = open;
    up->near = open && worker->link.near;
    up->aside = open && worker->link.welcome.everywhere ? worker->link.channel : NULL;
    up->lost = false;
    up->size = 0;
    report_batch_clear(&up->reports);
    forget_waiting(up, false);
    pthread_mutex_unlock(&up->lock);
}

bool tcp_worker_hold_reports(tarry_tcp_worker *worker)
{
    worker_uplink *up = &worker->uplink;
    pthread_mutex_lock(&up->lock);
    bool begins = !up->ticking && up->reports.held.count > 0;
    up->ticking = up->ticking || begins;
    pthread_mutex_unlock(&up->lock);
    return begins;
}

bool tcp_worker_take_reports(tarry_tcp_worker *worker)
{
    worker_uplink *up = &worker->uplink;
    pthread_mutex_lock(&up->lock);
    up->ticking = up->reports.held.count > 0;
    bool any = up->ticking;
    put_reports(worker);
    pthread_mutex_unlock(&up->lock);
    return any;
}

bool tcp_worker_is_drained(tarry_tcp_worker *worker)
{
    worker_uplink *up = &worker->uplink;
    pthread_mutex_lock(&up->lock);
    bool drained = up->loads == NULL;
    pthread_mutex_unlock(&up->lock);
    return drained;
}

/* The first load that the channel has and that is claimed, or any; 0: there is none. */
static uint32_t find_handed_on(worker_uplink *up, bool claimed, uint32_t after)
{
    uint32_t tag = 0;
    pthread_mutex_lock(&up->lock);
    bool behind = after == 0;
    for (const worker_load *load = up->loads; load != NULL && tag == 0; load = load->next) {
        if (behind && load->handed_on && (!claimed || is_claimed(up, load)))
            tag = load->tag;
        behind = behind || load->tag == after;
    }
    pthread_mutex_unlock(&up->lock);
    return tag;
}

static worker_fault let_go(tarry_tcp_worker *worker)
{
    worker_uplink *up = &worker->uplink;
    pthread_mutex_lock(&up->lock);
    forget_waiting(up, true);
    bool claiming = up->claiming;
    pthread_mutex_unlock(&up->lock);
    if (!claiming)
        return NULL;
    for (uint32_t tag; (tag = find_handed_on(up, true, 0)) != 0;) {
        if (!channel_drop(worker->link.channel, tag))
            continue;
        if (!channel_detach(worker->link.channel, tag))
            return "out of memory";
    }
    return NULL;
}

void tcp_worker_drop_parts(tarry_tcp_worker *worker)
{
    worker_uplink *up = &worker->uplink;
    pthread_mutex_lock(&up->lock);
    forget_waiting(up, false);
    pthread_mutex_unlock(&up->lock);
    /* The one that is on its way stays. */
    uint32_t kept = 0;
    for (uint32_t tag; (tag = find_handed_on(up, false, kept)) != 0;)
        if (channel_drop(worker->link.channel, tag))
            kept = tag;
}

/* The next load that the channel is to get. */
static worker_load *next_load(worker_uplink *up)
{
    pthread_mutex_lock(&up->lock);
    worker_load *load = up->loads;
    while (load != NULL && load->handed_on)
        load = load->next;
    if (load != NULL)
        load->handed_on = true;
    pthread_mutex_unlock(&up->lock);
    return load;
}

static bool send_loads(tarry_tcp_worker *worker)
{
    for (worker_load *load; (load = next_load(&worker->uplink)) != NULL;) {
        const channel_load wanted = {
            .bytes = load->stripe.bytes,
            .size = load->stripe.size,
            .tag = load->tag,
            .released = tcp_worker_load_released,
            .owner = load,
        };
        if (channel_send_load(worker->link.channel, load->prefix, sizeof(load->prefix), &wanted))
            continue;
        tcp_worker_load_released(worker, load);
        return false;
    }
    return true;
}

static bool send_messages(tarry_tcp_worker *worker)
{
    worker_uplink *up = &worker->uplink;
    pthread_mutex_lock(&up->lock);
    bool good = up->size == 0 || channel_send(worker->link.channel, up->bytes, up->size);
    if (up->size > 0)
        worker->link.machine_ns = clock_now_ns();
    up->size = 0;
    pthread_mutex_unlock(&up->lock);
    return good;
}

worker_fault tcp_worker_flush(tarry_tcp_worker *worker)
{
    worker_uplink *up = &worker->uplink;
    worker_fault fault = let_go(worker);
    pthread_mutex_lock(&up->lock);
    bool open = up->open, lost = up->lost;
    pthread_mutex_unlock(&up->lock);
    if (fault != NULL || !open)
        return fault;
    if (lost)
        return "can't go on in this round";
    if (send_messages(worker))
        send_loads(worker);
    return NULL;
}
