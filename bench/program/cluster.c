/* SPDX-License-Identifier: Apache-2.0 */
#include "program/cluster.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/output/interrupt.h"
#include "cli/text/complain.h"
#include "pki/authority.h"

struct bench_cluster {
    char directory[PATH_MAX], server[PATH_MAX], worker[PATH_MAX];
    credential *accepts, *connects;
    interrupt *signals;
    pthread_mutex_t files; /* held while they are made */
};

/* There is nothing to finish but the files that are being made, and keys are not to be left. */
static void stop(void *user)
{
    bench_cluster *cluster = user;
    pthread_mutex_lock(&cluster->files); /* for good */
    if (cluster->directory[0] != '\0')
        authority_remove(cluster->directory);
    _exit(complain(EXIT_FAILED, "network: interrupted"));
}

static int make_folder(bench_cluster *cluster, tarry_diagnostic *diagnostic)
{
    const char *below = getenv("TMPDIR");
    char path[PATH_MAX];
    int error = private_path(path, below != NULL && below[0] != '\0' ? below : "/tmp",
                             "tarry-bench-XXXXXX", diagnostic);
    if (error != TARRY_OK)
        return error;
    if (mkdtemp(path) == NULL)
        return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: %s", path, strerror(errno));
    memcpy(cluster->directory, path, sizeof(path));
    return TARRY_OK;
}

static int make_files(bench_cluster *cluster, tarry_diagnostic *diagnostic)
{
    int error = make_folder(cluster, diagnostic);
    if (error == TARRY_OK)
        error = private_path(cluster->server, cluster->directory, "server", diagnostic);
    if (error == TARRY_OK)
        error = private_path(cluster->worker, cluster->directory, "worker", diagnostic);
    if (error == TARRY_OK)
        error = authority_init(cluster->directory, 0, (authority_hosts){0}, (int64_t)time(NULL),
                               NULL, diagnostic);
    return error;
}

static int fill(bench_cluster *cluster, tarry_diagnostic *diagnostic)
{
    pthread_mutex_lock(&cluster->files);
    int error = make_files(cluster, diagnostic);
    pthread_mutex_unlock(&cluster->files);
    if (error == TARRY_OK)
        error = credential_load(cluster->server, NULL, &cluster->accepts, diagnostic);
    if (error == TARRY_OK)
        error = credential_load(cluster->worker, NULL, &cluster->connects, diagnostic);
    return error;
}

int bench_cluster_create(bench_cluster **out, tarry_diagnostic *diagnostic)
{
    bench_cluster *cluster = memory_allocate(NULL, 1, sizeof(*cluster));
    if (cluster == NULL)
        return diagnose_no_memory(diagnostic, "credentials");
    pthread_mutex_init(&cluster->files, NULL);
    int error = interrupt_begin(stop, cluster, &cluster->signals);
    error = error == TARRY_OK
                ? fill(cluster, diagnostic)
                : diagnose(diagnostic, error, "credentials: %s", tarry_error_text(error));
    if (error != TARRY_OK) {
        bench_cluster_free(cluster);
        return error;
    }
    *out = cluster;
    return TARRY_OK;
}

void bench_cluster_free(bench_cluster *cluster)
{
    if (cluster == NULL)
        return;
    interrupt_end(cluster->signals);
    credential_free(cluster->connects);
    credential_free(cluster->accepts);
    if (cluster->directory[0] != '\0')
        authority_remove(cluster->directory);
    pthread_mutex_destroy(&cluster->files);
    memory_release(NULL, cluster);
}

static tarry_tcp_security security(const bench_cluster *cluster, const char *path)
{
    return (tarry_tcp_security){.credentials = path, .insecure = cluster == NULL};
}

tarry_tcp_security bench_cluster_server(const bench_cluster *cluster)
{
    return security(cluster, cluster != NULL ? cluster->server : NULL);
}

tarry_tcp_security bench_cluster_worker(const bench_cluster *cluster)
{
    return security(cluster, cluster != NULL ? cluster->worker : NULL);
}

const credential *bench_cluster_accepts(const bench_cluster *cluster)
{
    return cluster != NULL ? cluster->accepts : NULL;
}

const credential *bench_cluster_connects(const bench_cluster *cluster)
{
    return cluster != NULL ? cluster->connects : NULL;
}
