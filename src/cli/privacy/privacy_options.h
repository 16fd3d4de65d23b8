/* SPDX-License-Identifier: Apache-2.0 */
/* The options of tarry privacy. */
#ifndef CLI_PRIVACY_OPTIONS_H
#define CLI_PRIVACY_OPTIONS_H

#include <tarry/privacy.h>

#include "cli/options/options.h"

typedef struct privacy_options {
    double noise;    /* NAN: not given */
    double epsilon;  /* NAN: not given */
    double sample;   /* NAN: not given */
    uint64_t rounds; /* 0: not given */
    double delta;
    int accountant;            /* a tarry_accountant */
    const char *report, *plot; /* NULL: not given */
} privacy_options;

void privacy_options_init(privacy_options *options);
void privacy_options_group(privacy_options *options, option_group *group);
/* Gives back OPTIONS_PROCEED, or the exit status after a complaint. */
int privacy_options_check(const privacy_options *options);

/* What the library is asked with; the noise is 1 where none is given. */
tarry_privacy_settings privacy_settings_of(const privacy_options *options);

#endif
