/* SPDX-License-Identifier: Apache-2.0 */
/* libuv's functions that the server uses; their order within a turn is libuv's. */
#include <string.h>

#include "fuzz_input.h"
#include "fuzz_machine.h"

enum { HANDLES = 128 };
enum { ACTIVE = 1, CLOSING = 2, CALLED = 4 }; /* flags of a handle */

#define NS_PER_MS UINT64_C(1000000)

/* Handles of one type, in the order in which they were made; those of a type that nothing is to be
 * done for are not looked at. */
typedef struct handle_list {
    uv_handle_t *all[HANDLES];
    size_t count, active;
} handle_list;

static handle_list lists[UV_HANDLE_TYPE_MAX];
static size_t closing;
static uint64_t timers_started;

static bool is_active(const uv_handle_t *handle)
{
    return (handle->flags & ACTIVE) != 0;
}

static int add(uv_loop_t *loop, uv_handle_t *handle, uv_handle_type type)
{
    handle_list *list = &lists[type];
    require(list->count < HANDLES);
    handle->loop = loop;
    handle->type = type;
    handle->flags = 0;
    list->all[list->count++] = handle;
    return 0;
}

static int activate(uv_handle_t *handle)
{
    require((handle->flags & CLOSING) == 0);
    lists[handle->type].active += !is_active(handle);
    handle->flags |= ACTIVE;
    return 0;
}

static int deactivate(uv_handle_t *handle)
{
    lists[handle->type].active -= is_active(handle);
    handle->flags &= ~(unsigned)ACTIVE;
    return 0;
}

/* ---- handles ---- */

int uv_is_active(const uv_handle_t *handle)
{
    return is_active(handle);
}

void uv_close(uv_handle_t *handle, uv_close_cb close_cb)
{
    require((handle->flags & CLOSING) == 0);
    deactivate(handle);
    handle->flags = CLOSING;
    handle->close_cb = close_cb;
    closing++;
}

int uv_async_init(uv_loop_t *loop, uv_async_t *async, uv_async_cb async_cb)
{
    async->async_cb = async_cb;
    async->pending = 0;
    add(loop, (uv_handle_t *)async, UV_ASYNC);
    return activate((uv_handle_t *)async);
}

int uv_async_send(uv_async_t *async)
{
    async->pending = 1;
    return 0;
}

int uv_prepare_init(uv_loop_t *loop, uv_prepare_t *prepare)
{
    return add(loop, (uv_handle_t *)prepare, UV_PREPARE);
}

int uv_prepare_start(uv_prepare_t *prepare, uv_prepare_cb cb)
{
    prepare->prepare_cb = cb;
    return activate((uv_handle_t *)prepare);
}

int uv_idle_init(uv_loop_t *loop, uv_idle_t *idle)
{
    return add(loop, (uv_handle_t *)idle, UV_IDLE);
}

int uv_idle_start(uv_idle_t *idle, uv_idle_cb cb)
{
    idle->idle_cb = cb;
    return activate((uv_handle_t *)idle);
}

int uv_idle_stop(uv_idle_t *idle)
{
    return deactivate((uv_handle_t *)idle);
}

int uv_poll_init(uv_loop_t *loop, uv_poll_t *handle, int fd)
{
    handle->io_watcher.fd = fd;
    return add(loop, (uv_handle_t *)handle, UV_POLL);
}

int uv_poll_init_socket(uv_loop_t *loop, uv_poll_t *handle, uv_os_sock_t socket)
{
    return uv_poll_init(loop, handle, socket);
}

int uv_poll_start(uv_poll_t *handle, int events, uv_poll_cb cb)
{
    handle->io_watcher.pevents = (unsigned)events;
    handle->poll_cb = cb;
    return activate((uv_handle_t *)handle);
}

int uv_poll_stop(uv_poll_t *handle)
{
    return deactivate((uv_handle_t *)handle);
}

/* ---- timers ---- */

int uv_timer_init(uv_loop_t *loop, uv_timer_t *handle)
{
    return add(loop, (uv_handle_t *)handle, UV_TIMER);
}

int uv_timer_start(uv_timer_t *handle, uv_timer_cb cb, uint64_t timeout, uint64_t repeat)
{
    handle->timer_cb = cb;
    handle->timeout = handle->loop->time + timeout;
    handle->repeat = repeat;
    handle->start_id = timers_started++;
    return activate((uv_handle_t *)handle);
}

int uv_timer_stop(uv_timer_t *handle)
{
    return deactivate((uv_handle_t *)handle);
}

/* Of those that are due at the same time, the one that was started first. */
static uv_timer_t *next_timer(void)
{
    uv_timer_t *next = NULL;
    const handle_list *timers = &lists[UV_TIMER];
    for (size_t i = 0; i < timers->count; i++) {
        uv_timer_t *timer = (uv_timer_t *)timers->all[i];
        if (is_active(timers->all[i]) &&
            (next == NULL || timer->timeout < next->timeout ||
             (timer->timeout == next->timeout && timer->start_id < next->start_id)))
            next = timer;
    }
    return next;
}

uint64_t machine_next_timer(void)
{
    const uv_timer_t *next = next_timer();
    return next != NULL ? next->timeout * NS_PER_MS : UINT64_MAX;
}

void uv_update_time(uv_loop_t *loop)
{
    loop->time = machine_now() / NS_PER_MS;
}

/* ---- a turn ---- */

static void run_timers(const uv_loop_t *loop)
{
    for (uv_timer_t *timer; (timer = next_timer()) != NULL && timer->timeout <= loop->time;) {
        uv_timer_stop(timer);
        if (timer->repeat > 0)
            uv_timer_start(timer, timer->timer_cb, timer->repeat, timer->repeat);
        timer->timer_cb(timer);
    }
}

/* Those that are started meanwhile wait for the next turn. */
static void run_idle(void)
{
    const handle_list *idle = &lists[UV_IDLE];
    if (idle->active == 0)
        return;
    for (size_t i = 0; i < idle->count; i++)
        if (is_active(idle->all[i]))
            idle->all[i]->flags |= CALLED;
    for (size_t i = 0; i < idle->count; i++) {
        uv_handle_t *handle = idle->all[i];
        bool called = is_active(handle) && (handle->flags & CALLED) != 0;
        handle->flags &= ~(unsigned)CALLED;
        if (called)
            ((uv_idle_t *)handle)->idle_cb((uv_idle_t *)handle);
    }
}

static void run_prepared(void)
{
    const handle_list *prepared = &lists[UV_PREPARE];
    for (size_t i = 0; i < prepared->count; i++)
        if (is_active(prepared->all[i]))
            ((uv_prepare_t *)prepared->all[i])->prepare_cb((uv_prepare_t *)prepared->all[i]);
}

static int find_events(const uv_poll_t *poll)
{
    return machine_socket_events(poll->io_watcher.fd) & (int)poll->io_watcher.pevents;
}

static bool is_ready(const uv_handle_t *handle)
{
    const uv_poll_t *poll = (const uv_poll_t *)handle;
    return is_active(handle) &&
           (find_events(poll) != 0 || machine_socket_is_broken(poll->io_watcher.fd));
}

/* An error ends the watching, as in libuv. */
static void run_poll(uv_poll_t *poll)
{
    if (!machine_socket_is_broken(poll->io_watcher.fd)) {
        poll->poll_cb(poll, 0, find_events(poll));
        return;
    }
    uv_poll_stop(poll);
    poll->poll_cb(poll, UV_EBADF, 0);
}

static bool is_woken(const uv_handle_t *handle)
{
    return is_active(handle) && ((const uv_async_t *)handle)->pending != 0;
}

static bool run_woken(void)
{
    const handle_list *asyncs = &lists[UV_ASYNC];
    bool any = false;
    for (size_t i = 0; i < asyncs->count; i++) {
        uv_async_t *async = (uv_async_t *)asyncs->all[i];
        if (!is_woken(asyncs->all[i]))
            continue;
        async->pending = 0;
        async->async_cb(async);
        any = true;
    }
    return any;
}

static bool run_polls(void)
{
    const handle_list *polls = &lists[UV_POLL];
    bool any = false;
    for (size_t i = 0; i < polls->count; i++) {
        if (!is_ready(polls->all[i]))
            continue;
        run_poll((uv_poll_t *)polls->all[i]);
        any = true;
    }
    return any;
}

static void bury_some(handle_list *list)
{
    for (size_t i = 0; i < list->count;) {
        uv_handle_t *handle = list->all[i];
        if ((handle->flags & CLOSING) == 0) {
            i++;
            continue;
        }
        list->count--;
        memmove(&list->all[i], &list->all[i + 1], (list->count - i) * sizeof(list->all[0]));
        closing--;
        if (handle->close_cb != NULL)
            handle->close_cb(handle);
    }
}

static bool bury(void)
{
    if (closing == 0)
        return false;
    for (size_t type = 0; type < UV_HANDLE_TYPE_MAX; type++)
        bury_some(&lists[type]);
    return true;
}

bool machine_turn(uv_loop_t *loop)
{
    uv_update_time(loop);
    run_timers(loop);
    run_idle();
    run_prepared();
    machine_run_thread();
    bool any = run_woken();
    any |= run_polls();
    any |= bury();
    return any;
}

static bool any_is(bool is(const uv_handle_t *), uv_handle_type type)
{
    for (size_t i = 0; i < lists[type].count; i++)
        if (is(lists[type].all[i]))
            return true;
    return false;
}

bool machine_is_due(uv_loop_t *loop)
{
    uv_update_time(loop);
    const uv_timer_t *timer = next_timer();
    return (timer != NULL && timer->timeout <= loop->time) || lists[UV_IDLE].active > 0 ||
           closing > 0 || machine_thread_is_due() || any_is(is_woken, UV_ASYNC) ||
           any_is(is_ready, UV_POLL);
}

/* ---- the loop ---- */

static bool is_empty(void)
{
    size_t count = 0;
    for (size_t type = 0; type < UV_HANDLE_TYPE_MAX; type++)
        count += lists[type].count;
    return count == 0;
}

int uv_loop_init(uv_loop_t *loop)
{
    require(is_empty());
    timers_started = 0;
    uv_update_time(loop);
    return 0;
}

int uv_loop_close(uv_loop_t *loop)
{
    (void)loop;
    return is_empty() ? 0 : UV_EBUSY;
}

static bool is_alive(void)
{
    size_t active = 0;
    for (size_t type = 0; type < UV_HANDLE_TYPE_MAX; type++)
        active += lists[type].active;
    return active + closing > 0;
}

/* Until nothing is left of it; where there is nothing to do but to wait, the time is over at once.
 */
int uv_run(uv_loop_t *loop, uv_run_mode mode)
{
    require(mode == UV_RUN_DEFAULT);
    while (is_alive())
        if (!machine_turn(loop) && !machine_is_due(loop)) {
            require(next_timer() != NULL);
            machine_set_time(machine_next_timer());
        }
    return 0;
}
