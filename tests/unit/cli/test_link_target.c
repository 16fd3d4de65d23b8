/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/output/output.h"
#include "test.h"

static char top[] = "/tmp/tarry-test-XXXXXX";

static int begin(void **state)
{
    if (mkdtemp(top) == NULL || chdir(top) != 0 || mkdir("real", 0700) != 0)
        return -1;
    int made = open("real/there", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    return made < 0 ? -1 : close(made);
}

static int end(void **state)
{
    return unlink("real/there") == 0 && rmdir("real") == 0 && chdir("/") == 0 ? rmdir(top) : -1;
}

static void leads_to(const char *path, const char *expected)
{
    char *target = link_target(path);
    assert_non_null(target);
    assert_string_equal(target, expected);
    memory_release(NULL, target);
}

/* Makes the link for as long as it takes to see where it leads to. */
static void link_leads_to(const char *to, const char *link, const char *expected)
{
    assert_int_equal(symlink(to, link), 0);
    leads_to(link, expected);
    assert_int_equal(unlink(link), 0);
}

TEST(what_is_no_link_is_itself)
{
    leads_to("missing", "missing");
    leads_to("no/such/folder", "no/such/folder");
    leads_to("/missing-from-the-root", "/missing-from-the-root");
}

TEST(links_to_what_is_there)
{
    char expected[64];
    snprintf(expected, sizeof(expected), "%s/real/there", top);
    link_leads_to("real/there", "link", expected);
    link_leads_to("there", "real/link", expected);
}

TEST(links_to_what_is_not)
{
    link_leads_to("real/missing", "link", "real/missing");
    link_leads_to("missing", "real/link", "real/missing");
    link_leads_to("../missing", "real/link", "real/../missing");
    link_leads_to("/missing-from-the-root", "real/link", "/missing-from-the-root");
    link_leads_to("no/such/folder", "link", "no/such/folder");
}

TEST(links_to_links)
{
    assert_int_equal(symlink("second", "real/first"), 0);
    assert_int_equal(symlink("../third", "real/second"), 0);
    assert_int_equal(symlink("real/missing", "third"), 0);
    leads_to("real/first", "real/../real/missing");
    assert_int_equal(unlink("third"), 0);
    assert_int_equal(symlink("real", "folder"), 0);
    assert_int_equal(symlink("missing", "third"), 0);
    leads_to("folder/first", "folder/../missing");
    assert_int_equal(unlink("third"), 0);
    assert_int_equal(unlink("folder"), 0);
    assert_int_equal(unlink("real/second"), 0);
    assert_int_equal(unlink("real/first"), 0);
}

TEST(loops)
{
    link_leads_to("link", "link", "link");
}

TEST_GROUP(begin, end)
