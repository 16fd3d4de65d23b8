/* SPDX-License-Identifier: Apache-2.0 */
/* A viewer looks at a network server that stops, is resumed at its address, and comes to its end.
 */
#include <stdio.h>
#include <time.h>

#include "key_folder.h"
#include "protocol/wire/status.h"
#include "runtime/tcp/viewer/viewer.h"
#include "test.h"

enum { WORKERS = 5, LIMIT_MS = 100000, PATH = 128 };

static const char short_note[] = "loss 0.5";

typedef struct story {
    key_folder keys;
    char address[PATH]; /* where both servers listen, one after the other */
    bool secure;
    uv_loop_t loop;
    uv_timer_t limit;
    tarry_plan *plan;
    tarry_runtime *server;
    viewer *viewer;
    unsigned servers, told, lost;
    char long_note[STATUS_NOTE_BYTES + 1];
    bool noted; /* the server has been given the long one */
    bool over;
} story;

static void start_server(story *its)
{
    const char *listen[] = {its->address};
    tarry_tcp_server_settings settings;
    tarry_tcp_server_settings_init(&settings);
    settings.listen = listen;
    settings.listen_count = 1;
    settings.parameters = 10;
    settings.dimension = 10;
    if (its->secure)
        settings.security.credentials = key_folder_member(&its->keys, 0, "server");
    else
        settings.security.insecure = true;
    tarry_diagnostic why;
    assert_ok_or(why, tarry_tcp_server_create(its->plan, &settings, NULL, &its->server, &why));
    snprintf(its->address, sizeof(its->address), "%s", tarry_runtime_address(its->server, 0));
    its->servers++;
    tarry_runtime_note(its->server, 7, 100, short_note);
    assert_ok(tarry_runtime_open(its->server, NULL)); /* opens the door */
}

static void stop_server(story *its, bool finished)
{
    tarry_runtime_free(its->server, finished);
    its->server = NULL;
    its->noted = false;
}

static bool has(const char *text, const char *what)
{
    return strstr(text, what) != NULL;
}

static int on_told(void *user, const char *document, size_t length, tarry_diagnostic *why)
{
    story *its = user;
    char text[4096], note[300];
    assert_true(length < sizeof(text));
    memcpy(text, document, length);
    text[length] = '\0';
    its->told++;
    assert_true(has(text, "\"rounds_done\":7,\"rounds\":100,"));
    for (uint32_t j = 0; j < WORKERS; j++) {
        char worker[200];
        snprintf(worker, sizeof(worker),
                 "{\"worker\":%u,\"state\":\"absent\",\"heard_seconds\":null,\"arrivals\":0,"
                 "\"chunks_held\":%u,",
                 j, tarry_plan_load(its->plan, j));
        assert_true(has(text, worker));
    }
    if (its->server == NULL)
        return TARRY_OK;
    snprintf(note, sizeof(note), "\"note\":\"%s\"", short_note);
    bool is_short = has(text, note);
    snprintf(note, sizeof(note), "\"note\":\"%s\"", its->long_note);
    if (!its->noted) {
        assert_true(is_short);
        tarry_runtime_note(its->server, 7, 100, its->long_note);
        its->noted = true;
    } else if (!is_short) {
        assert_true(has(text, note));
        stop_server(its, its->servers == 2);
    }
    return TARRY_OK;
}

static void on_lost(void *user, const char *why, uint64_t wait_ns)
{
    story *its = user;
    assert_string_equal(why, "the server has stopped, to be resumed");
    assert_true(wait_ns > 0);
    assert_int_equal(its->lost++, 0);
    start_server(its);
}

static void on_ended(void *user, bool over, const char *why)
{
    story *its = user;
    assert_string_equal(why, "the run is over");
    its->over = over;
    viewer_close(its->viewer);
}

static void on_limit(uv_timer_t *timer)
{
    (void)timer;
    fprintf(stderr, "the test hangs\n");
    abort();
}

static void begin(story *its)
{
    memset(its->long_note, 'x', STATUS_NOTE_BYTES);
    tarry_plan_settings settings;
    tarry_plan_settings_init(&settings);
    settings.workers = WORKERS;
    settings.chunks = WORKERS;
    settings.replication = 2;
    assert_ok(tarry_plan_create(&settings, NULL, &its->plan, NULL));
    key_folder_make(&its->keys, 1, time(NULL));
    assert_int_equal(uv_loop_init(&its->loop), 0);
    uv_timer_init(&its->loop, &its->limit);
    uv_timer_start(&its->limit, on_limit, LIMIT_MS, 0);
    uv_unref((uv_handle_t *)&its->limit);
}

static void end(story *its)
{
    uv_close((uv_handle_t *)&its->limit, NULL);
    uv_run(&its->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&its->loop), 0);
    tarry_plan_free(its->plan);
    key_folder_remove(&its->keys);
}

#define STORY(name) TEST_OF(name, story, its, end)

static void tell(story *its)
{
    const tarry_tcp_security security = {
        .credentials = its->secure ? key_folder_member(&its->keys, 1, "viewer") : NULL,
        .insecure = !its->secure,
    };
    const viewer_handlers handlers = {
        .user = its,
        .told = on_told,
        .lost = on_lost,
        .ended = on_ended,
    };
    tarry_diagnostic why;
    start_server(its);
    assert_ok_or(
        why, viewer_open(&its->loop, its->address, &security, &handlers, NULL, &its->viewer, &why));
    uv_run(&its->loop, UV_RUN_DEFAULT);
    assert_true(its->told >= 4);
    assert_int_equal(its->lost, 1);
    assert_true(its->over);
    assert_null(its->server);
}

STORY(over_tls)
{
    *its = (story){.secure = true, .address = "127.0.0.1:0"};
    begin(its);
    tell(its);
}

STORY(over_a_unix_socket)
{
    *its = (story){.secure = false};
    begin(its);
    snprintf(its->address, PATH, "unix:%s/socket", its->keys.root);
    tell(its);
}
