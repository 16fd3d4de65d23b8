/* SPDX-License-Identifier: Apache-2.0 */
/* libuv's functions that the server uses; their order within a turn is libuv's. */
#include <string.h>

#include "fuzz_input.h"
#include "fuzz_machine.h"

enum { HANDLES = 128 };
enum { ACTIVE = 1, CLOSING = 2, CALLED = 4 }; /* flags of a handle */

#define NS_PER_MS UINT64_C(1000000)

/* All that there are, in the order in which they were made. */
static uv_handle_t *handles[HANDLES];
static size_t handle_count;
static uint64_t timers_started;

static bool is_active(const uv_handle_t *handle, uv_handle_type type)
{
    return handle->type == type && (handle->flags & ACTIVE) != 0;
}

static int add(uv_loop_t *loop, uv_handle_t *handle, uv_handle_type type, unsigned flags)
{
    require(handle_count < HANDLES);
    handle->loop = loop;
    handle->type = type;
    handle->flags = flags;
    handles[handle_count++] = handle;
    return 0;
}

static int activate(uv_handle_t *handle)
{
    require((handle->flags & CLOSING) == 0);
    handle->flags |= ACTIVE;
    return 0;
}

static int deactivate(uv_handle_t *handle)
{
    handle->flags &= ~(unsigned)ACTIVE;
    return 0;
}

/* ---- handles ---- */

int uv_is_active(const uv_handle_t *handle)
{
    return (handle->flags & ACTIVE) != 0;
}

void uv_close(uv_handle_t *handle, uv_close_cb close_cb)
{
    require((handle->flags & CLOSING) == 0);
    handle->flags = CLOSING;
    handle->close_cb = close_cb;
}

int uv_async_init(uv_loop_t *loop, uv_async_t *async, uv_async_cb async_cb)
{
    async->async_cb = async_cb;
    async->pending = 0;
    return add(loop, (uv_handle_t *)async, UV_ASYNC, ACTIVE);
}

int uv_async_send(uv_async_t *async)
{
    async->pending = 1;
    return 0;
}

int uv_prepare_init(uv_loop_t *loop, uv_prepare_t *prepare)
{
    return add(loop, (uv_handle_t *)prepare, UV_PREPARE, 0);
}

int uv_prepare_start(uv_prepare_t *prepare, uv_prepare_cb cb)
{
    prepare->prepare_cb = cb;
    return activate((uv_handle_t *)prepare);
}

int uv_idle_init(uv_loop_t *loop, uv_idle_t *idle)
{
    return add(loop, (uv_handle_t *)idle, UV_IDLE, 0);
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
    return add(loop, (uv_handle_t *)handle, UV_POLL, 0);
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
    return add(loop, (uv_handle_t *)handle, UV_TIMER, 0);
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
    for (size_t i = 0; i < handle_count; i++) {
        uv_timer_t *timer = (uv_timer_t *)handles[i];
        if (is_active(handles[i], UV_TIMER) &&
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

static bool run_timers(const uv_loop_t *loop)
{
    bool any = false;
    for (uv_timer_t *timer; (timer = next_timer()) != NULL && timer->timeout <= loop->time;) {
        uv_timer_stop(timer);
        if (timer->repeat > 0)
            uv_timer_start(timer, timer->timer_cb, timer->repeat, timer->repeat);
        timer->timer_cb(timer);
        any = true;
    }
    return any;
}

/* Those that are started meanwhile wait for the next turn. */
static bool run_idle(void)
{
    bool any = false;
    for (size_t i = 0; i < handle_count; i++)
        if (is_active(handles[i], UV_IDLE))
            handles[i]->flags |= CALLED;
    for (size_t i = 0; i < handle_count; i++) {
        uv_handle_t *handle = handles[i];
        bool called = is_active(handle, UV_IDLE) && (handle->flags & CALLED) != 0;
        handle->flags &= ~(unsigned)CALLED;
        if (called)
            ((uv_idle_t *)handle)->idle_cb((uv_idle_t *)handle);
        any |= called;
    }
    return any;
}

static void run_prepared(void)
{
    for (size_t i = 0; i < handle_count; i++)
        if (is_active(handles[i], UV_PREPARE))
            ((uv_prepare_t *)handles[i])->prepare_cb((uv_prepare_t *)handles[i]);
}

static int find_events(const uv_poll_t *poll)
{
    return machine_socket_events(poll->io_watcher.fd) & (int)poll->io_watcher.pevents;
}

static bool is_ready(const uv_handle_t *handle)
{
    const uv_poll_t *poll = (const uv_poll_t *)handle;
    return is_active(handle, UV_POLL) &&
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
    return is_active(handle, UV_ASYNC) && ((const uv_async_t *)handle)->pending != 0;
}

static bool run_polls(void)
{
    bool any = false;
    for (size_t i = 0; i < handle_count; i++) {
        uv_handle_t *handle = handles[i];
        if (is_ready(handle)) {
            run_poll((uv_poll_t *)handle);
        } else if (is_woken(handle)) {
            ((uv_async_t *)handle)->pending = 0;
            ((uv_async_t *)handle)->async_cb((uv_async_t *)handle);
        } else {
            continue;
        }
        any = true;
    }
    return any;
}

static bool bury(void)
{
    bool any = false;
    for (size_t i = 0; i < handle_count;) {
        uv_handle_t *handle = handles[i];
        if ((handle->flags & CLOSING) == 0) {
            i++;
            continue;
        }
        handle_count--;
        memmove(&handles[i], &handles[i + 1], (handle_count - i) * sizeof(handles[0]));
        if (handle->close_cb != NULL)
            handle->close_cb(handle);
        any = true;
    }
    return any;
}

bool machine_turn(uv_loop_t *loop)
{
    uv_update_time(loop);
    bool any = run_timers(loop);
    any |= run_idle();
    run_prepared();
    machine_run_thread();
    any |= run_polls();
    any |= bury();
    return any;
}

bool machine_is_due(uv_loop_t *loop)
{
    uv_update_time(loop);
    const uv_timer_t *timer = next_timer();
    bool due = timer != NULL && timer->timeout <= loop->time;
    for (size_t i = 0; i < handle_count && !due; i++)
        due = is_active(handles[i], UV_IDLE) || is_ready(handles[i]) || is_woken(handles[i]) ||
              (handles[i]->flags & CLOSING) != 0;
    return due;
}

/* ---- the loop ---- */

int uv_loop_init(uv_loop_t *loop)
{
    require(handle_count == 0);
    timers_started = 0;
    uv_update_time(loop);
    return 0;
}

int uv_loop_close(uv_loop_t *loop)
{
    (void)loop;
    return handle_count > 0 ? UV_EBUSY : 0;
}

static bool is_alive(void)
{
    for (size_t i = 0; i < handle_count; i++)
        if ((handles[i]->flags & (ACTIVE | CLOSING)) != 0)
            return true;
    return false;
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
