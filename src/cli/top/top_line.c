/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/top_line.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

static const char *const codes[TOP_STYLES] = {
    [TOP_PLAIN] = "\x1b[0m",  [TOP_BOLD] = "\x1b[1m",  [TOP_DIM] = "\x1b[2m",
    [TOP_GREEN] = "\x1b[32m", [TOP_CYAN] = "\x1b[36m", [TOP_YELLOW] = "\x1b[33m",
    [TOP_RED] = "\x1b[31m",
};

enum { CODE_BYTES = 8 }; /* of the longest of them, with room to spare */

void top_line_begin(top_line *line, unsigned most, bool colour)
{
    line->text[0] = '\0';
    line->size = 0;
    line->columns = 0;
    line->most = most < TOP_LINE_COLUMNS ? most : TOP_LINE_COLUMNS;
    line->colour = colour;
    line->styled = false;
}

/* The room for the last change of style, which top_line_end makes, is never used up. */
static bool put(top_line *line, const char *bytes, size_t size, size_t reserved)
{
    if (line->size + size + reserved >= sizeof(line->text))
        return false;
    memcpy(line->text + line->size, bytes, size);
    line->size += size;
    line->text[line->size] = '\0';
    return true;
}

void top_line_style(top_line *line, top_style style)
{
    if (!line->colour)
        return;
    if (line->styled)
        line->styled = !put(line, codes[TOP_PLAIN], strlen(codes[TOP_PLAIN]), CODE_BYTES);
    if (style != TOP_PLAIN)
        line->styled = put(line, codes[style], strlen(codes[style]), CODE_BYTES) || line->styled;
}

static void put_character(top_line *line, const char *bytes, size_t size, unsigned columns)
{
    if (line->columns + columns <= line->most && put(line, bytes, size, CODE_BYTES))
        line->columns += columns;
    else
        line->most = line->columns; /* nothing narrower goes in its place */
}

void top_line_add(top_line *line, const char *text)
{
    mbstate_t state;
    memset(&state, 0, sizeof(state));
    size_t left = strlen(text);
    while (left > 0) {
        wchar_t character;
        size_t size = mbrtowc(&character, text, left, &state);
        bool sound = size > 0 && size <= left; /* neither of the two error values */
        int columns = sound && iswprint((wint_t)character) ? wcwidth(character) : -1;
        if (!sound) {
            memset(&state, 0, sizeof(state));
            size = 1;
        }
        if (columns >= 1)
            put_character(line, text, size, (unsigned)columns);
        else
            put_character(line, "?", 1, 1);
        text += size;
        left -= size;
    }
}

void top_line_print(top_line *line, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    top_line_add(line, text);
}

void top_line_pad(top_line *line, unsigned column, unsigned least)
{
    for (unsigned i = 0; line->columns < line->most && (i < least || line->columns < column); i++)
        put_character(line, " ", 1, 1);
}

void top_line_bar(top_line *line, unsigned width, double part, double whole, bool blocks)
{
    static const char full_block[] = "\u2588", empty_block[] = "\u2591";
    double share = whole > 0 ? part / whole : 0;
    unsigned full = share >= 1 ? width : (unsigned)(share * width);
    for (unsigned i = 0; i < width; i++) {
        bool done = i < full;
        if (blocks)
            put_character(line, done ? full_block : empty_block, sizeof(full_block) - 1, 1);
        else
            put_character(line, done ? "#" : ".", 1, 1);
    }
}

void top_line_end(top_line *line)
{
    if (line->styled) {
        put(line, codes[TOP_PLAIN], strlen(codes[TOP_PLAIN]), 0);
        line->styled = false;
        return;
    }
    while (line->size > 0 && line->text[line->size - 1] == ' ')
        line->size--;
    line->text[line->size] = '\0';
}
