/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text is refused as a setting's value, or read: what is then written is JSON, and setting each
 * value of it again changes nothing. The input is pairs of a name and a value, each ended by a line
 * feed.
 */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include <tarry/settings.h>

#include "fuzz_input.h"

enum { MOST_TEXT = 4096 };

/* The next line; empty where none is left. */
static const char *take_line(input *in, char text[256])
{
    size_t length = 0;
    while (in->left > 0) {
        const char byte = (char)take(in);
        if (byte == '\n')
            break;
        if (length < 255)
            text[length++] = byte;
    }
    text[length] = '\0';
    return text;
}

static void write_settings(const tarry_server_settings *settings, char text[MOST_TEXT])
{
    const size_t length = tarry_server_settings_write(settings, NULL, text, MOST_TEXT);
    require(length < MOST_TEXT && strlen(text) == length);
    json_error_t why;
    json_t *read = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &why);
    require(json_is_object(read));
    json_decref(read);
}

/* The text of a value as tarry_server_settings_set takes it. False: the setting does not count. */
static bool find_value(const char *json, const char *name, char value[64])
{
    char key[64];
    snprintf(key, sizeof(key), "\"%s\": ", name);
    const char *at = strstr(json, key);
    if (at == NULL)
        return false;
    at += strlen(key);
    at += *at == '"' ? 1 : 0;
    const size_t length = strcspn(at, "\",}");
    require(length < 64);
    memcpy(value, at, length);
    value[length] = '\0';
    if (strcmp(value, "null") == 0)
        strcpy(value, "inf");
    return true;
}

static void set_again(tarry_server_settings *settings)
{
    char before[MOST_TEXT], after[MOST_TEXT], value[64];
    write_settings(settings, before);
    const char *name;
    for (size_t i = 0; (name = tarry_server_setting_name(i, NULL)) != NULL; i++)
        if (strcmp(name, "compress_matrices") != 0 && find_value(before, name, value))
            require(tarry_server_settings_set(settings, name, value, NULL) == TARRY_OK);
    write_settings(settings, after);
    require(strcmp(before, after) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    char name[256], value[256];
    tarry_diagnostic why;
    tarry_server_settings settings, before;
    tarry_server_settings_init(&settings);
    while (in.left > 0) {
        take_line(&in, name);
        take_line(&in, value);
        before = settings;
        if (tarry_server_settings_set(&settings, name, value, &why) != TARRY_OK) {
            require(memcmp(&settings, &before, sizeof(settings)) == 0);
            for (const char *at = why.text; *at != '\0'; at++)
                require(*at >= ' ' && *at < 0x7f);
        }
    }
    set_again(&settings);
    return 0;
}
