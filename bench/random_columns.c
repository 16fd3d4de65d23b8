/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How badly random columns do in the place of a designed decode matrix: the worst 1/sigma_min over
 * the sets of l workers that share a chunk, with columns from the unit sphere.
 *
 *     random_columns random|cyclic|fractional WORKERS COPIES PARTS
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "plan/decode/decode.h"

enum { SEED = 1 };

static void die(const char *what)
{
    fprintf(stderr, "random_columns: %s\n", what);
    exit(1);
}

static uint32_t number(const char *text)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*end != '\0' || value < 1 || value > UINT16_MAX)
        die("a number is out of range");
    return (uint32_t)value;
}

static tarry_design design_named(const char *name)
{
    static const char *const names[] = {[TARRY_DESIGN_CYCLIC] = "cyclic",
                                        [TARRY_DESIGN_FRACTIONAL] = "fractional",
                                        [TARRY_DESIGN_RANDOM] = "random"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i] != NULL && strcmp(names[i], name) == 0)
            return (tarry_design)i;
    die("no such design");
    return TARRY_DESIGN_RANDOM;
}

/* Normal numbers, scaled to length 1, are uniform on the sphere. */
static void draw_column(random_stream *stream, double *decode, uint32_t parts, uint32_t workers)
{
    double square = 0;
    for (uint32_t part = 0; part < parts; part++) {
        decode[part * workers] = random_normal(stream);
        square += decode[part * workers] * decode[part * workers];
    }
    for (uint32_t part = 0; part < parts; part++)
        decode[part * workers] /= sqrt(square);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        die("DESIGN WORKERS COPIES PARTS are wanted");
    uint32_t workers = number(argv[2]), parts = number(argv[4]);
    tarry_plan_settings settings;
    tarry_plan_settings_init(&settings);
    settings.design = design_named(argv[1]);
    settings.workers = settings.chunks = workers;
    settings.replication = number(argv[3]);
    settings.order = TARRY_ORDER_AS_IS;
    settings.seed = SEED;
    if (parts < 2 || parts > settings.replication)
        die("parts are 2 up to the copies");
    tarry_plan *plan = NULL;
    double *decode = calloc((size_t)parts * workers, sizeof(*decode));
    if (decode == NULL || tarry_plan_create(&settings, NULL, &plan, NULL) != TARRY_OK)
        die("no such plan");
    random_stream stream = random_stream_make(SEED, RANDOM_BENCH, workers, parts);
    for (uint32_t worker = 0; worker < workers; worker++)
        draw_column(&stream, decode + worker, parts, workers);
    tarry_conditioning found;
    if (conditioning_measure(plan, parts, decode, SEED, &found) != TARRY_OK)
        die("out of memory");
    printf("%.17g\n", found.worst);
    tarry_plan_free(plan);
    free(decode);
    return 0;
}
