/* SPDX-License-Identifier: Apache-2.0 */
/* Where the network server listens. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server_bench.h"
#include "test.h"

BENCH(plain_text_stays_on_this_machine)
{
    bench_init(its);
    static const char *const anywhere[] = {"0.0.0.0:0"};
    its->settings.listen = anywhere;
    its->settings.listen_count = 1;
    its->plan = bench_plan(1);
    tarry_diagnostic diagnostic = {{0}};
    assert_int_equal(
        tarry_tcp_server_create(its->plan, &its->settings, NULL, &its->server, &diagnostic),
        TARRY_ERROR_ARGUMENT);
    assert_non_null(strstr(diagnostic.text, "plain text"));
    its->settings.security.force = true;
    assert_ok(tarry_tcp_server_create(its->plan, &its->settings, NULL, &its->server, &diagnostic));
}

/* From here on no IPv6, as with a kernel that has none. False: that can't be arranged. */
static bool lose_ipv6(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof(rules) / sizeof(rules[0]), .filter = rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void try_to_listen(const char *text, int wanted)
{
    bench its;
    bench_init(&its);
    its.settings.security.force = true;
    its.settings.listen = &text;
    its.settings.listen_count = 1;
    its.plan = bench_plan(1);
    tarry_diagnostic why = {{0}};
    int error = tarry_tcp_server_create(its.plan, &its.settings, NULL, &its.server, &why);
    if (error != wanted)
        print_error("%s: %d, %s\n", text, error, why.text);
    _exit(error == wanted ? 0 : 1);
}

TEST(listens_where_it_can)
{
    static const struct {
        const char *text;
        int wanted;
    } tries[] = {{":0", TARRY_OK}, {"[::]:0", TARRY_ERROR_SYSTEM}};
    for (size_t i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            if (!lose_ipv6())
                _exit(77);
            try_to_listen(tries[i].text, tries[i].wanted);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            skip();
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

TEST(listens_on_a_unix_socket)
{
    bench its;
    char folder[] = "/tmp/tarry-test-XXXXXX", text[64];
    assert_non_null(mkdtemp(folder));
    snprintf(text, sizeof(text), "unix:%s/socket", folder);
    const char *const listen[] = {text};
    bench_init(&its);
    its.settings.security.insecure = false; /* whoever connects is known to be a member */
    its.settings.listen = listen;
    its.settings.listen_count = 1;
    bench_begin(&its, 1);
    assert_string_equal(its.address, text);
    crew_hire(&its, WORKERS);
    crew_start(&its);
    bench_good_round(&its, 1);
    bench_end(&its);
    assert_int_not_equal(access(text + strlen("unix:"), F_OK), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* OpenSSL's own writes to connections that the server closed. */
static int ignore_broken_pipes(void **state)
{
    signal(SIGPIPE, SIG_IGN);
    return 0;
}

TEST_GROUP(ignore_broken_pipes, NULL)
