/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text/terminal.h"

#include <errno.h>
#include <langinfo.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { ROWS = 24, COLUMNS = 80 };

/* Second screen, no cursor, no wrapping; and back. Every terminal of our days knows these. */
static const char enter_code[] = "\x1b[?1049h\x1b[?25l\x1b[?7l";
static const char leave_code[] = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

bool terminal_is_there(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDOUT_FILENO) == 1 && kind != NULL && strcmp(kind, "dumb") != 0;
}

bool terminal_wants_colour(void)
{
    const char *without = getenv("NO_COLOR");
    return terminal_is_there() && (without == NULL || without[0] == '\0');
}

bool terminal_is_utf8(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

bool terminal_size(unsigned *rows, unsigned *columns)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        return false;
    *rows = size.ws_row > 0 ? size.ws_row : ROWS;
    *columns = size.ws_col > 0 ? size.ws_col : COLUMNS;
    return true;
}

unsigned terminal_error_columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void terminal_begin(terminal *self)
{
    self->has_keys = isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &self->before) == 0;
}

void terminal_enter(const terminal *self)
{
    if (self->has_keys) {
        struct termios now = self->before;
        now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        now.c_cc[VMIN] = 1;
        now.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSANOW, &now);
    }
    terminal_write(enter_code, strlen(enter_code));
}

void terminal_leave(const terminal *self)
{
    terminal_write(leave_code, strlen(leave_code));
    if (self->has_keys)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &self->before);
}

bool terminal_write(const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t written = write(STDOUT_FILENO, bytes, size);
        if (written >= 0) {
            bytes += written;
            size -= (size_t)written;
        } else if (errno == EAGAIN) {
            /* Somebody else who shares the terminal made it so. */
            struct pollfd wait = {.fd = STDOUT_FILENO, .events = POLLOUT};
            poll(&wait, 1, -1);
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}
