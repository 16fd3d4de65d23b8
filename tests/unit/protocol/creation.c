/* SPDX-License-Identifier: Apache-2.0 */
#include "creation.h"
#include "test.h"

tarry_server *server_make(const tarry_plan *plan, const tarry_server_settings *settings)
{
    tarry_server *server;
    assert_ok(tarry_server_create(plan, settings, NULL, &server, NULL));
    return server;
}

int create_server(void *user, const tarry_allocator *allocator)
{
    const server_creation *its = user;
    OWNED(tarry_server) server = NULL;
    int error = tarry_server_create(its->plan, &its->settings, allocator, &server, NULL);
    assert_int_equal(server != NULL, error == TARRY_OK);
    return error;
}

int create_worker(void *user, const tarry_allocator *allocator)
{
    const worker_creation *its = user;
    tarry_worker *worker = NULL;
    int error = tarry_worker_create(its->plan, &its->settings, allocator, &worker, NULL);
    assert_int_equal(worker != NULL, error == TARRY_OK);
    tarry_worker_free(worker);
    return error;
}

void assert_refused(const tarry_plan *plan, const tarry_server_settings *settings, const char *why)
{
    tarry_server *server = NULL;
    tarry_diagnostic diagnostic;
    assert_int_equal(tarry_server_create(plan, settings, NULL, &server, &diagnostic),
                     TARRY_ERROR_ARGUMENT);
    assert_null(server);
    if (strstr(diagnostic.text, why) == NULL)
        fail_msg("'%s' is not in '%s'", why, diagnostic.text);
}
