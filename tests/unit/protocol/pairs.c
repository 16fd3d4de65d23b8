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

typedef struct feature {
    const char *flag; /* as a user writes it */
    tarry_setting setting;
    void (*choose)(tarry_settings *settings);
} feature;

static void order_static(tarry_settings *settings)
{
    settings->server.pick = TARRY_PICK_PLAN;
}

static void order_dynamic(tarry_settings *settings)
{
    settings->server.pick = TARRY_PICK_SHARE;
}

static void design_file(tarry_settings *settings)
{
    settings->plan.design = TARRY_DESIGN_FILE;
    settings->plan.file = "plan.txt";
}

static void racks(tarry_settings *settings)
{
    settings->plan.rack_size = 2;
}

static void pieces(tarry_settings *settings)
{
    settings->plan.pieces = 16;
}

static void two_parts(tarry_settings *settings)
{
    settings->plan.parts = 2;
}

static void whole(tarry_settings *settings)
{
    settings->server.credit = TARRY_CREDIT_WHOLE;
}

static void credited(tarry_settings *settings)
{
    settings->server.keep = TARRY_KEEP_CREDITED;
    settings->keep_auto = false;
}

static void all_kept(tarry_settings *settings)
{
    settings->server.keep = TARRY_KEEP_ALL;
    settings->keep_auto = false;
}

static void stop_exact(tarry_settings *settings)
{
    settings->server.stop = TARRY_STOP_EXACT;
}

static void stop_deadline(tarry_settings *settings)
{
    settings->server.stop = TARRY_STOP_DEADLINE;
    settings->server.deadline_ns = 1;
}

static void stop_error(tarry_settings *settings)
{
    settings->server.stop = TARRY_STOP_ERROR;
    settings->server.error_limit = 0.5;
}

static void stop_workers(tarry_settings *settings)
{
    settings->server.stop = TARRY_STOP_WORKERS;
    settings->server.workers_needed = 4;
}

static void fill_scale(tarry_settings *settings)
{
    settings->server.fill = TARRY_FILL_SCALE;
}

static void fill_stale(tarry_settings *settings)
{
    settings->server.fill = TARRY_FILL_STALE;
}

static void reproducible(tarry_settings *settings)
{
    settings->server.reproducible = true;
}

static void costs_told(tarry_settings *settings)
{
    settings->costs_told = true;
}

static void adapts(tarry_settings *settings)
{
    settings->adapts = true;
}

static void compresses(tarry_settings *settings)
{
    settings->server.compress = TARRY_COMPRESS_INT8;
}

static void noised(tarry_settings *settings)
{
    settings->noised = true;
}

static void compresses_down(tarry_settings *settings)
{
    settings->server.compress_down = TARRY_COMPRESS_INT8;
}

static void samples(tarry_settings *settings)
{
    settings->server.sample_chunks = 4;
}

static void feeds_back(tarry_settings *settings)
{
    settings->server.compress = TARRY_COMPRESS_INT4;
}

static void sum_everywhere(tarry_settings *settings)
{
    settings->server.sum = TARRY_SUM_EVERYWHERE;
}

static void secure(tarry_settings *settings)
{
    settings->server.secure = 32;
}

static const feature features[] = {
    {"--sum everywhere", TARRY_SETTING_SUM, sum_everywhere},
    {"--order dynamic", TARRY_SETTING_ORDER, order_dynamic},
    {"--order optimal", TARRY_SETTING_ORDER, order_static},
    {"--pieces 16", TARRY_SETTING_PIECES, pieces},
    {"--design file:PATH", TARRY_SETTING_DESIGN, design_file},
    {"--racks 2", TARRY_SETTING_RACKS, racks},
    {"--parts 2", TARRY_SETTING_PARTS, two_parts},
    {"--credit whole", TARRY_SETTING_CREDIT, whole},
    {"--keep credited", TARRY_SETTING_KEEP, credited},
    {"--keep all", TARRY_SETTING_KEEP, all_kept},
    {"--stop exact", TARRY_SETTING_STOP, stop_exact},
    {"--stop deadline:5", TARRY_SETTING_STOP, stop_deadline},
    {"--stop error:0.5", TARRY_SETTING_STOP, stop_error},
    {"--stop workers:4", TARRY_SETTING_STOP, stop_workers},
    {"--fill scale", TARRY_SETTING_FILL, fill_scale},
    {"--fill stale", TARRY_SETTING_FILL, fill_stale},
    {"--reproducible", TARRY_SETTING_REPRODUCIBLE, reproducible},
    {"--chunk-cost equal", TARRY_SETTING_COSTS, costs_told},
    {"--adapt 2", TARRY_SETTING_ADAPT, adapts},
    {"--compress int8", TARRY_SETTING_COMPRESS, compresses},
    {"--compress-down int8", TARRY_SETTING_COMPRESS_DOWN, compresses_down},
    {"--compress int4", TARRY_SETTING_COMPRESS, feeds_back},
    {"--sample-chunks 4", TARRY_SETTING_SAMPLE, samples},
    {"--dp ...", TARRY_SETTING_DP, noised},
    {"--secure", TARRY_SETTING_SECURE, secure},
};

enum { FEATURES = sizeof(features) / sizeof(features[0]) };

/* Why two features don't go together; NULL if they do. */
static const char *reason_of(const feature *one, const feature *other)
{
    tarry_settings settings;
    tarry_conflict conflict;
    tarry_settings_init(&settings);
    settings.plan.workers = settings.plan.chunks = 8;
    settings.plan.replication = 3;
    one->choose(&settings);
    other->choose(&settings);
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
