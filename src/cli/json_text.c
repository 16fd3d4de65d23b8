/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/json_text.h"

#include <string.h>

#include "base/memory.h"

json_t *json_text(const char *text)
{
    if (text == NULL)
        return json_null();
    json_t *string = json_string(text);
    if (string != NULL)
        return string;
    size_t length = strlen(text);
    char *ascii = memory_allocate(NULL, length + 1, 1);
    if (ascii == NULL)
        return NULL;
    for (size_t i = 0; i < length; i++)
        ascii[i] = (unsigned char)text[i] < 0x80 ? text[i] : '?';
    string = json_string(ascii);
    memory_release(NULL, ascii);
    return string;
}
