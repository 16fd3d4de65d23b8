/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_JSON_TEXT_H
#define CLI_JSON_TEXT_H

#include <jansson.h>

/*
 * `text` as a JSON string, null for NULL. JSON takes UTF-8 alone, names of files can be any bytes:
 * where text is not UTF-8, '?' stands for each byte beyond ASCII. NULL if there is no memory.
 */
json_t *json_text(const char *text);

#endif
