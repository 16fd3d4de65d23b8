/* SPDX-License-Identifier: Apache-2.0 */
/* Who may talk to whom: members by certificate and instance, and what strangers can do. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "key_folder.h"
#include "mesh_group.h"
#include "pki/authority.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh_address.h"
#include "seed.h"
#include "test.h"

enum { THREE = 3, LENGTH = 200000 };

typedef struct cluster {
    key_folder keys;
    const char *credentials[THREE];
} cluster;

static void cluster_make(cluster *its)
{
    static const char *const names[THREE] = {"worker-0", "worker-1", "server"};
    key_folder_make(&its->keys, 2, time(NULL));
    for (uint32_t i = 0; i < THREE; i++)
        its->credentials[i] = key_folder_member(&its->keys, i, names[i]);
}

static void cluster_free(cluster *its)
{
    key_folder_remove(&its->keys);
}

#define CLUSTER(name) TEST_OF(name, cluster, its, cluster_free)

CLUSTER(sums_pass_through_tls)
{
    OWNED(mesh_group) group;
    cluster_make(its);
    mesh_group_make(&group, THREE, its->credentials);
    for (uint32_t parts = 1; parts <= 2; parts++) {
        OWNED(sum_case) of = sum_case_make(LENGTH, parts, THREE, false, test_seed(__func__, 1));
        mesh_group_form(&group);
        mesh_group_sum(&group, of);
    }
}

/* A viewer has no certificate for that, and says so. */
CLUSTER(viewers_are_no_members)
{
    mesh *made;
    tarry_diagnostic why;
    cluster_make(its);
    const mesh_settings settings = {
        .listen = "127.0.0.1:0",
        .credentials = key_folder_member(&its->keys, THREE, "viewer"),
    };
    assert_int_equal(mesh_create(&settings, &made, &why), TARRY_ERROR_FORMAT);
    assert_non_null(strstr(why.text, "viewer/cert.pem: is a viewer's"));
}

/* What the server saw and what the address says have to be one. */
CLUSTER(an_address_is_its_certificates)
{
    OWNED(mesh_group) group;
    uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST];
    size_t size;
    mesh_address read;
    cluster_make(its);
    mesh_group_make(&group, 2, its->credentials);
    mesh_own_address(group.members[1], bytes, &size);
    assert_ok(mesh_address_decode(bytes, size, &read));
    assert_ok(mesh_admit(group.members[0], 1, bytes, size, read.fingerprint));
    read.fingerprint[0] ^= 1;
    assert_int_equal(mesh_admit(group.members[0], 1, bytes, size, read.fingerprint),
                     TARRY_ERROR_FORMAT);
    for (size_t less = 0; less < size; less++)
        assert_int_equal(mesh_address_decode(bytes, less, &read), TARRY_ERROR_FORMAT);
}

/* A member of the cluster, though not of the group: another certificate at a member's address. */
CLUSTER(another_certificate_is_not_taken)
{
    OWNED(mesh_group) group;
    uint8_t own[TARRY_ENGINE_ADDRESS_MOST], other[TARRY_ENGINE_ADDRESS_MOST];
    size_t own_size, other_size;
    mesh_address read;
    float part[1] = {1}, sum[1], weights[2] = {1, 1};
    cluster_make(its);
    mesh_group_make(&group, 2, its->credentials);
    mesh_own_address(group.members[0], own, &own_size);
    mesh_own_address(group.members[1], other, &other_size);
    assert_ok(mesh_address_decode(other, other_size, &read));
    read.fingerprint[3] ^= 1;
    mesh_address_encode(&read, other, &other_size);
    const tarry_engine_member members[] = {{0, own, own_size}, {1, other, other_size}};
    const tarry_engine_group formed = {.epoch = 1, .count = 2, .place = 0, .members = members};
    tarry_engine *engine = mesh_engine(group.members[0]);
    assert_ok(engine->methods->form(engine, &formed, NULL));
    const tarry_engine_sum asked = {.name = {.step = 1},
                                    .dimension = 1,
                                    .parts = 1,
                                    .part = part,
                                    .weights = weights,
                                    .sum = sum};
    assert_ok(engine->methods->start(engine, &asked));
    tarry_engine_progress progress;
    engine->methods->wait(engine, clock_from_now(UINT64_C(300000000)), &progress);
    assert_int_not_equal(progress.state, TARRY_ENGINE_DONE);
}

static int call(const mesh *at)
{
    uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST];
    size_t size;
    mesh_address read;
    mesh_own_address(at, bytes, &size);
    assert_ok(mesh_address_decode(bytes, size, &read));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(
        connect(fd, (const struct sockaddr *)&read.places[0].socket, read.places[0].size), 0);
    return fd;
}

/* Whether the other side ends the connection within some seconds, whatever it says before. */
static bool is_cut(int fd)
{
    const struct timeval patience = {.tv_sec = 20};
    char byte;
    ssize_t got;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    do
        got = recv(fd, &byte, 1, 0);
    while (got > 0);
    return got == 0 || errno == ECONNRESET;
}

/* Many connect and say nothing, others what makes no sense: the sum comes all the same. */
TEST(strangers_keep_nobody_out)
{
    enum { CROWD = 150 };
    int crowd[CROWD];
    static const uint8_t greeting_to_nobody[56] = {48,  0,   0,   0,   15, 0, 0, 0, 'T',
                                                   'A', 'R', 'R', 'Y', 0,  3, 0, 3};
    static const uint8_t begun[48] = {40, 0, 0, 0, 16};
    OWNED(sum_case) of = sum_case_make(1000, 1, THREE, false, test_seed(__func__, 1));
    OWNED(mesh_group) group;
    mesh_group_make(&group, THREE, NULL);
    for (int i = 0; i < CROWD; i++)
        crowd[i] = call(group.members[0]);
    for (int i = 0; i < THREE; i++) {
        int fd = call(group.members[i]);
        if (i == 0)
            assert_int_equal(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
        else if (i == 1)
            assert_int_equal(send(fd, greeting_to_nobody, 56, 0), 56);
        else
            assert_int_equal(send(fd, begun, 48, 0), 48);
        assert_true(is_cut(fd));
        close(fd);
    }
    assert_true(is_cut(crowd[0])); /* the oldest one made room */
    mesh_group_form(&group);
    mesh_group_sum(&group, of);
    for (int i = 0; i < CROWD; i++)
        close(crowd[i]);
}

TEST(addresses_are_said_and_checked)
{
    mesh *made;
    tarry_diagnostic why;
    uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST];
    size_t size;
    mesh_address read;
    mesh_settings settings = {.listen = "127.0.0.1:0", .advertise = "192.0.2.7:0"};
    assert_ok(mesh_create(&settings, &made, &why));
    mesh_own_address(made, bytes, &size);
    assert_ok(mesh_address_decode(bytes, size, &read));
    const struct sockaddr_in *place = (const struct sockaddr_in *)&read.places[0].socket;
    assert_int_equal(ntohl(place->sin_addr.s_addr), 0xc0000207);
    assert_int_not_equal(place->sin_port, 0);
    mesh_free(made);
    settings = (mesh_settings){.listen = "0.0.0.0:0"};
    assert_int_equal(mesh_create(&settings, &made, &why), TARRY_ERROR_FORMAT);
    assert_string_equal(why.text, "0.0.0.0:0: others can't reach that; say where they can");
    settings.listen = "unix:/tmp/x";
    assert_int_equal(mesh_create(&settings, &made, &why), TARRY_ERROR_FORMAT);
}
