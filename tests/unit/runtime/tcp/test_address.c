/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/tcp/net/address.h"
#include "test.h"

TEST(test_forms)
{
    static const char *const good[] = {"host:1", "127.0.0.1:65535", "[::1]:7411",
                                       ":0",     "unix:/run/t",     "unix:t"};
    static const char *const bad[] = {"",           "host",       "host:",       "host:x",
                                      "host:65536", "host:-1",    "::1:80",      "[]:80",
                                      "unix:",      "unix:/a\tb", "unix:@a\x7f", "host:1 ",
                                      "h:0000001",  "host:+80",   "host:80/"};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        assert_ok(address_check(good[i], true, NULL));
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(address_check(bad[i], true, NULL), TARRY_ERROR_FORMAT);
    assert_ok(address_check("host:1", false, NULL));
    assert_int_equal(address_check(":1", false, NULL), TARRY_ERROR_FORMAT);
    char text[256] = "unix:/";
    memset(text + 6, 'x', 107);
    assert_int_equal(address_check(text, true, NULL), TARRY_ERROR_FORMAT);
    text[5 + 107] = '\0';
    assert_ok(address_check(text, true, NULL));
}

static void expect_text(const char *given, const char *text, bool loopback)
{
    address found[ADDRESS_MOST];
    uint32_t count;
    char shown[ADDRESS_TEXT];
    assert_ok(address_resolve(given, true, found, &count, NULL));
    assert_int_equal(count, 1);
    address_text(&found[0], shown);
    assert_string_equal(shown, text);
    assert_int_equal(address_is_loopback(&found[0]), loopback);
    assert_int_equal(address_is_unix(&found[0]), strncmp(given, "unix:", 5) == 0);
}

TEST(test_texts)
{
    expect_text("127.8.9.1:70", "127.8.9.1:70", true);
    expect_text("192.0.2.1:70", "192.0.2.1:70", false);
    expect_text("[::1]:70", "[::1]:70", true);
    expect_text("[2001:db8::1]:70", "[2001:db8::1]:70", false);
    expect_text("[::ffff:127.0.0.1]:7", "[::ffff:127.0.0.1]:7", true);
    expect_text("unix:/a/b", "unix:/a/b", true);
    expect_text("unix:@a/b", "unix:@a/b", true);
    address found[ADDRESS_MOST];
    uint32_t count;
    tarry_diagnostic diagnostic;
    assert_int_equal(address_resolve(":70", false, found, &count, &diagnostic), TARRY_ERROR_FORMAT);
    assert_int_equal(address_resolve("no.such.host.invalid:70", false, found, &count, &diagnostic),
                     TARRY_ERROR_SYSTEM);
    assert_non_null(strstr(diagnostic.text, "no.such.host.invalid"));
}

TEST(test_tcp)
{
    address found[ADDRESS_MOST];
    address bound;
    uint32_t count;
    int listening;
    int again;
    int fd;
    tarry_diagnostic diagnostic;
    assert_ok(address_resolve("127.0.0.1:0", true, found, &count, NULL));
    assert_ok(address_listen(&found[0], &listening, NULL));
    assert_ok(address_of(listening, &bound, NULL));
    assert_int_equal(address_listen(&bound, &again, &diagnostic), TARRY_ERROR_SYSTEM);
    assert_non_null(strstr(diagnostic.text, "in use"));
    assert_ok(address_connect(&bound, &fd, NULL));
    close(fd);
    close(listening);
}

/* A socket file is replaced when nobody listens on it, and only then; what is no socket stays. */
TEST(test_unix)
{
    char folder[] = "/tmp/tarry-address-XXXXXX";
    char text[64];
    address found[ADDRESS_MOST];
    uint32_t count;
    int first;
    int second;
    struct stat file;
    assert_non_null(mkdtemp(folder));
    snprintf(text, sizeof(text), "unix:%s/s", folder);
    assert_ok(address_resolve(text, true, found, &count, NULL));
    assert_int_equal(address_connect(&found[0], &first, NULL), TARRY_ERROR_SYSTEM);
    assert_ok(address_listen(&found[0], &first, NULL));
    assert_int_equal(stat(text + 5, &file), 0);
    assert_int_equal(file.st_mode & 0777, 0600);
    assert_int_equal(address_listen(&found[0], &second, NULL), TARRY_ERROR_SYSTEM);
    assert_ok(address_connect(&found[0], &second, NULL));
    close(second);
    close(first);
    assert_ok(address_listen(&found[0], &first, NULL));
    close(first);
    assert_int_equal(unlink(text + 5), 0);
    FILE *plain = fopen(text + 5, "w");
    assert_non_null(plain);
    fclose(plain);
    assert_int_equal(address_listen(&found[0], &first, NULL), TARRY_ERROR_SYSTEM);
    assert_int_equal(unlink(text + 5), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* A name is free again as soon as nobody listens on it. */
TEST(test_names_without_files)
{
    char text[64];
    address found[ADDRESS_MOST];
    uint32_t count;
    int first;
    int second;
    snprintf(text, sizeof(text), "unix:@tarry-address-%d", (int)getpid());
    assert_ok(address_resolve(text, true, found, &count, NULL));
    assert_true(address_is_unix(&found[0]) && address_is_loopback(&found[0]));
    assert_int_equal(address_connect(&found[0], &first, NULL), TARRY_ERROR_SYSTEM);
    for (int i = 0; i < 2; i++) {
        assert_ok(address_listen(&found[0], &first, NULL));
        assert_int_equal(address_listen(&found[0], &second, NULL), TARRY_ERROR_SYSTEM);
        assert_ok(address_connect(&found[0], &second, NULL));
        close(second);
        close(first);
    }
    assert_int_not_equal(access(text + strlen("unix:"), F_OK), 0);
}
