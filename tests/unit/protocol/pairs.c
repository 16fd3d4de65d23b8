/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the table of docs/pairs.md: of every two features, whether they go together, and the
 * reason where they don't. The settings' one check is asked (tarry/settings.h); tests/pairs.py
 * holds the page to it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarry/settings.h>

/* As a user writes it; and the server's setting by name, unless it is the plan's or a run's. */
typedef struct feature {
    const char *flag;
    tarry_setting setting;
    const char *name, *value;
} feature;

static const feature features[] = {
    {"--sum everywhere", TARRY_SETTING_SUM, "sum", "everywhere"},
    {"--order dynamic", TARRY_SETTING_ORDER, "pick", "share"},
    {"--order optimal", TARRY_SETTING_ORDER, "pick", "plan"},
    {"--pieces 16", TARRY_SETTING_PIECES, NULL, NULL},
    {"--design file:PATH", TARRY_SETTING_DESIGN, NULL, NULL},
    {"--racks 2", TARRY_SETTING_RACKS, NULL, NULL},
    {"--parts 2", TARRY_SETTING_PARTS, NULL, NULL},
    {"--credit whole", TARRY_SETTING_CREDIT, "credit", "whole"},
    {"--keep credited", TARRY_SETTING_KEEP, "keep", "credited"},
    {"--keep all", TARRY_SETTING_KEEP, "keep", "all"},
    {"--stop exact", TARRY_SETTING_STOP, "stop", "exact"},
    {"--stop deadline:5", TARRY_SETTING_STOP, "stop", "deadline"},
    {"--stop error:0.5", TARRY_SETTING_STOP, "stop", "error"},
    {"--stop workers:4", TARRY_SETTING_STOP, "stop", "workers"},
    {"--fill scale", TARRY_SETTING_FILL, "fill", "scale"},
    {"--fill stale", TARRY_SETTING_FILL, "fill", "stale"},
    {"--reproducible", TARRY_SETTING_REPRODUCIBLE, "reproducible", "true"},
    {"--chunk-cost equal", TARRY_SETTING_COSTS, NULL, NULL},
    {"--adapt 2", TARRY_SETTING_ADAPT, NULL, NULL},
    {"--compress int8", TARRY_SETTING_COMPRESS, "compress", "int8"},
    {"--compress-down int8", TARRY_SETTING_COMPRESS_DOWN, "compress_down", "int8"},
    {"--compress int4", TARRY_SETTING_COMPRESS, "compress", "int4"},
    {"--sample-chunks 4", TARRY_SETTING_SAMPLE, "sample_chunks", "4"},
    {"--dp ...", TARRY_SETTING_DP, NULL, NULL},
    {"--secure", TARRY_SETTING_SECURE, "secure", "32"},
};

static void choose(const feature *of, tarry_settings *settings)
{
    tarry_diagnostic why;
    if (of->name != NULL &&
        tarry_server_settings_set(&settings->server, of->name, of->value, &why) != TARRY_OK) {
        fprintf(stderr, "pairs: %s: %s\n", of->flag, why.text);
        exit(EXIT_FAILURE);
    }
    switch (of->setting) {
    case TARRY_SETTING_PIECES:
        settings->plan.pieces = 16;
        break;
    case TARRY_SETTING_DESIGN:
        settings->plan.design = TARRY_DESIGN_FILE;
        settings->plan.file = "plan.txt";
        break;
    case TARRY_SETTING_RACKS:
        settings->plan.rack_size = 2;
        break;
    case TARRY_SETTING_PARTS:
        settings->plan.parts = 2;
        break;
    case TARRY_SETTING_KEEP:
        settings->keep_auto = false;
        break;
    case TARRY_SETTING_COSTS:
        settings->costs_told = true;
        break;
    case TARRY_SETTING_ADAPT:
        settings->adapts = true;
        break;
    case TARRY_SETTING_DP:
        settings->noised = true;
        break;
    default:
        break;
    }
}

enum { FEATURES = sizeof(features) / sizeof(features[0]) };

/* Why two features don't go together; NULL if they do. */
static const char *reason_of(const feature *one, const feature *other)
{
    tarry_settings settings;
    tarry_conflict conflict;
    tarry_settings_init(&settings);
    settings.plan.workers = settings.plan.chunks = 8;
    settings.plan.replication = 3;
    settings.server.deadline_ns = 1;
    settings.server.error_limit = 0.5;
    settings.server.workers_needed = 4;
    choose(one, &settings);
    choose(other, &settings);
    uint32_t given = TARRY_SETTING_BIT(one->setting) | TARRY_SETTING_BIT(other->setting);
    if (tarry_settings_settle(&settings, given, &conflict) == TARRY_OK)
        return NULL;
    uint32_t named = TARRY_SETTING_BIT(conflict.first) | TARRY_SETTING_BIT(conflict.second);
    if (named != given) {
        fprintf(stderr, "pairs: %s, %s: refused for others\n", one->flag, other->flag);
        exit(EXIT_FAILURE);
    }
    return conflict.reason;
}

/* The sign of a reason: a letter, or two once these are used up. */
typedef struct sign {
    char text[3];
} sign;

enum { LETTERS = 52, MOST_REASONS = 2 * LETTERS };

static char letter(size_t i)
{
    return (char)(i < 26 ? 'a' + (int)i : 'A' + (int)i - 26);
}

static sign sign_at(size_t i)
{
    return i < LETTERS ? (sign){{letter(i)}} : (sign){{'a', letter(i - LETTERS)}};
}

/* The sign of a reason, in the order in which they come up; they are counted in *count. */
static sign sign_of(const char *reasons[MOST_REASONS], size_t *count, const char *reason)
{
    for (size_t i = 0; i < *count; i++)
        if (strcmp(reasons[i], reason) == 0)
            return sign_at(i);
    if (*count == MOST_REASONS) {
        fprintf(stderr, "pairs: more reasons than signs\n");
        exit(EXIT_FAILURE);
    }
    reasons[*count] = reason;
    return sign_at((*count)++);
}

int main(void)
{
    const char *reasons[MOST_REASONS];
    size_t count = 0;
    printf("| | feature |");
    for (size_t i = 1; i < FEATURES; i++)
        printf(" %zu |", i);
    printf("\n| --- | --- |");
    for (size_t i = 1; i < FEATURES; i++)
        printf(" --- |");
    for (size_t i = 0; i < FEATURES; i++) {
        printf("\n| %zu | `%s` |", i + 1, features[i].flag);
        for (size_t other = 0; other < i; other++) {
            bool same = features[i].setting == features[other].setting;
            const char *reason = same ? NULL : reason_of(&features[other], &features[i]);
            sign of = same             ? (sign){"="}
                      : reason == NULL ? (sign){"+"}
                                       : sign_of(reasons, &count, reason);
            printf(" %s |", of.text);
        }
        for (size_t other = i + 1; other < FEATURES; other++)
            printf(" |");
    }
    printf("\n\n");
    for (size_t i = 0; i < count; i++)
        printf("- %s: %s.\n", sign_at(i).text, reasons[i]);
    return EXIT_SUCCESS;
}
