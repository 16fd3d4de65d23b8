/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/server/tcp_server.h"

#include <openssl/rand.h>
#include <string.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sized.h"
#include "runtime/clock.h"

enum {
    DECODE_THREADS = 4, /* at most, unless it is said */
};

void tarry_tcp_server_settings_init_sized(tarry_tcp_server_settings *settings, size_t size)
{
    if (!sized_begin(settings, size, sizeof(*settings)))
        return;
    *settings = (tarry_tcp_server_settings){
        .size = size,
        .share = true,
        .most_peer_bytes = (size_t)4 << 20,
        .most_connections = 65536,
    };
    tarry_server_settings_init(&settings->server);
    settings->server.stripe_length = 0;
}

static int check_settings(const tarry_tcp_server_settings *settings, tarry_diagnostic *diagnostic)
{
    const char *fault = NULL;
    if (settings->parameters == 0 || settings->dimension == 0)
        fault = "parameters and dimension must be set";
    else if (settings->listen_count == 0)
        fault = "there is no address to listen on";
    else if (settings->server.stripe_length > WIRE_NUMBERS_MOST)
        fault = "a stripe is longer than a frame can be";
    else if (settings->security.insecure && settings->security.credentials != NULL)
        fault = "credentials are of no use in plain text";
    return fault == NULL ? TARRY_OK
                         : diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "network server: %s", fault);
}

/* One core is the loop's, and another that of the kernel, or of workers on this machine. Where none
 * is left for a thread, the loop's own sums what it has just received, while that is still in the
 * core's cache. */
static uint32_t choose_threads(uint32_t wanted)
{
    if (wanted > 0)
        return wanted;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores <= 2 ? 0 : cores - 2 > DECODE_THREADS ? DECODE_THREADS : (uint32_t)cores - 2;
}

static int copy_job(tarry_tcp_server *server)
{
    const tarry_tcp_server_settings *settings = &server->settings;
    static const uint8_t none[WIRE_ID_BYTES];
    server->job = memory_allocate(&server->allocator, settings->job_size, 1);
    server->read_buffer = memory_allocate(&server->allocator, CHANNEL_SHARED_BYTES, 1);
    if (server->job == NULL || server->read_buffer == NULL)
        return TARRY_ERROR_NO_MEMORY;
    if (settings->job_size > 0)
        memcpy(server->job, settings->job, settings->job_size);
    memcpy(server->job_id, settings->job_id, WIRE_ID_BYTES);
    if (settings->share)
        share_host(server->host_id);
    if (memcmp(server->job_id, none, WIRE_ID_BYTES) != 0)
        return TARRY_OK;
    return RAND_bytes(server->job_id, WIRE_ID_BYTES) == 1 ? TARRY_OK : TARRY_ERROR_SYSTEM;
}

static int make_host(tarry_tcp_server *server, const tarry_plan *plan, tarry_diagnostic *diagnostic)
{
    const tarry_tcp_server_settings *settings = &server->settings;
    host_settings wanted = {
        .name = "network server",
        .server = settings->server,
        .checkpoint = settings->checkpoint,
        .checkpoint_size = settings->checkpoint_size,
        .log = settings->log,
        .grid = tcp_server_grid(&settings->secure),
        .parameters = settings->parameters,
        .seen = settings->view,
        .head_bytes = WIRE_HEAD_BYTES,
        .most_message_bytes = WIRE_MESSAGE_BYTES,
        .decode_threads = settings->decode_threads,
        .transport = tcp_server_transport(server),
    };
    wanted.server.dimension = settings->dimension;
    server->base.awaits_checkpoint = settings->checkpoint != NULL;
    return host_create(plan, &wanted, &server->allocator, &server->base.host, diagnostic);
}

static int make_members(tarry_tcp_server *server)
{
    const tarry_allocator *allocator = &server->allocator;
    uint32_t workers = server->base.host->plan->workers;
    server->members = memory_allocate(allocator, workers, sizeof(*server->members));
    int error = server->members == NULL ? TARRY_ERROR_NO_MEMORY
                                        : roster_init(&server->roster, workers, allocator);
    return error == TARRY_OK ? tcp_server_meet_init(server) : error;
}

static int init_lock(tarry_tcp_server *server)
{
    server->has_lock = pthread_mutex_init(&server->lock, NULL) == 0;
    server->has_changed = clock_init_condition(&server->changed) == 0;
    return server->has_lock && server->has_changed ? TARRY_OK : TARRY_ERROR_SYSTEM;
}

static void init_peers(tarry_tcp_server *server)
{
    peers *all = &server->peers;
    all->allocator = server->allocator;
    all->loop = &server->loop;
    all->credential = server->credential;
    all->read_buffer = server->read_buffer;
    all->most_waiting = server->settings.most_peer_bytes;
    all->silence_ns = server->settings.server.silence_ns;
    all->events = tcp_server_peer_events(server);
}

/* Errors of which nothing else was said. */
static int create_quietly(tarry_tcp_server *server)
{
    int error = init_lock(server);
    if (error == TARRY_OK)
        error = copy_job(server);
    if (error == TARRY_OK)
        error = make_members(server);
    init_peers(server);
    if (error == TARRY_OK)
        error = tcp_server_init_loop(server);
    if (error == TARRY_OK)
        tcp_server_open_mesh(server);
    if (error == TARRY_OK)
        error = tcp_server_open_listeners(server);
    if (error == TARRY_OK)
        error = tcp_server_start_loop(server);
    return error;
}

static int create(tarry_tcp_server *server, const tarry_plan *plan, tarry_diagnostic *diagnostic)
{
    const tarry_tcp_security *security = &server->settings.security;
    int error = make_host(server, plan, diagnostic);
    if (error == TARRY_OK)
        error = tcp_server_encode_plan(server, plan, &server->plan_bytes, &server->plan_size,
                                       diagnostic);
    if (error == TARRY_OK && security->credentials != NULL)
        error = credential_load(security->credentials, &server->allocator, &server->credential,
                                diagnostic);
    if (error == TARRY_OK && server->credential != NULL &&
        credential_own(server->credential).role != CREDENTIAL_SERVER)
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: not the credentials of a server",
                         security->credentials);
    if (error == TARRY_OK)
        error = tcp_server_open_roster(server, diagnostic);
    if (error == TARRY_OK)
        error = tcp_server_listen(server, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = create_quietly(server);
    return error == TARRY_OK
               ? TARRY_OK
               : diagnose(diagnostic, error, "network server: %s", tarry_error_text(error));
}

static void release(tarry_runtime *runtime, bool finished)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    tarry_allocator allocator = server->allocator;
    tcp_server_stop_loop(server, finished);
    tcp_server_close_mesh(server);
    host_free(server->base.host);
    share_close(&server->shm_parameters.memory);
    listeners_close(&server->listeners);
    tcp_server_meet_free(server);
    roster_destroy(&server->roster, &allocator);
    roster_file_free(server->roster_file);
    credential_free(server->credential);
    if (server->has_changed)
        pthread_cond_destroy(&server->changed);
    if (server->has_lock)
        pthread_mutex_destroy(&server->lock);
    memory_release(&allocator, server->worker_status);
    memory_release(&allocator, server->status);
    memory_release(&allocator, server->members);
    memory_release(&allocator, server->plan_bytes);
    memory_release(&allocator, server->read_buffer);
    memory_release(&allocator, server->job);
    memory_release(&allocator, server);
}

static void ask(tarry_runtime *runtime, runtime_request *request, void *argument)
{
    tcp_server_ask(tcp_server_of(runtime), request, argument);
}

static const char *own_address(const tarry_runtime *runtime, uint32_t index)
{
    const tarry_tcp_server *server = (const tarry_tcp_server *)runtime;
    return index < server->address_count ? server->listeners.items[index].text : NULL;
}

static const uint8_t *job_id(const tarry_runtime *runtime)
{
    return ((const tarry_tcp_server *)runtime)->job_id;
}

static const runtime_methods methods = {
    .ask = ask,
    .open = tcp_server_open,
    .wait = tcp_server_wait,
    .round = tcp_server_round,
    .replan = tcp_server_replan,
    .reach = tcp_server_reach,
    .leave = tcp_server_leave,
    .vectors = tcp_server_vectors,
    .interrupt = tcp_server_interrupt,
    .describe = tcp_server_describe,
    .address = own_address,
    .job_id = job_id,
    .note = tcp_server_note,
    .free = release,
};

int tarry_tcp_server_create(const tarry_plan *plan, const tarry_tcp_server_settings *settings,
                            const tarry_allocator *allocator, tarry_runtime **server,
                            tarry_diagnostic *diagnostic)
{
    int error = sized_check(settings->size, sizeof(*settings), "network server", diagnostic);
    if (error == TARRY_OK)
        error = check_settings(settings, diagnostic);
    if (error == TARRY_OK)
        error = tcp_server_check_secure(settings, plan->chunks, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_tcp_server *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "network server");
    made->base.methods = &methods;
    made->allocator = memory_allocator(allocator);
    made->settings = *settings;
    newcomers_init(&made->peers.newcomers, plan->workers, settings->most_newcomers,
                   settings->most_connections);
    made->attended_ns = clock_now_ns();
    made->settings.decode_threads = choose_threads(settings->decode_threads);
    error = create(made, plan, diagnostic);
    if (error != TARRY_OK) {
        release(&made->base, true);
        return error;
    }
    /* What was the caller's for the time of this call. */
    made->settings.listen = NULL;
    made->settings.checkpoint = NULL;
    made->settings.job = NULL;
    *server = &made->base;
    return TARRY_OK;
}
