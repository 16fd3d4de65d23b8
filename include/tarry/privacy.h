/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How private a training is: the accountant of differential privacy for sums to which Gaussian
 * noise is added, over batches into which each example is drawn by itself (Poisson sampling). A
 * training that draws its batches in another way, or shows other figures of its data, is not
 * covered. docs/privacy.md says what epsilon and delta mean here.
 */
#ifndef TARRY_PRIVACY_H
#define TARRY_PRIVACY_H

#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarry_privacy_settings {
    size_t size;   /* of this structure: its init sets it */
    double noise;  /* standard deviation of the noise over the sensitivity: what one example changes
                      of a step's sum at most; > 0 */
    double sample; /* the probability with which each example is in a step's batch, 0..1 */
    uint64_t steps; /* sums that are shown; at most 2^40 */
} tarry_privacy_settings;

/* Noise 1, all examples in each of no steps. */
#define tarry_privacy_settings_init(settings)                                                      \
    tarry_privacy_settings_init_sized((settings), sizeof(*(settings)))
TARRY_API void tarry_privacy_settings_init_sized(tarry_privacy_settings *settings, size_t size);

typedef enum tarry_accountant {
    TARRY_ACCOUNTANT_BEST, /* the lesser of the others' */
    TARRY_ACCOUNTANT_RDP,  /* Renyi divergences (Mironov et al., arXiv 1908.10530; conversion of
                              Canonne et al., arXiv 2004.00010) */
    TARRY_ACCOUNTANT_PLD,  /* the distribution of the privacy loss on a grid (Doroshenko et al.,
                              arXiv 2207.04380), some 1e-4 above the least epsilon; loose from 1e9
                              steps on, and without a bound from about 1e10 */
} tarry_accountant;

/*
 * An epsilon such that the steps together are (epsilon, delta)-differentially private, where one
 * example more or less (or: replaced by nothing) is to be hidden; 0 < delta < 1. It is an upper
 * bound. INFINITY: the accountant has none. Errors: ARGUMENT, NO_MEMORY.
 */
TARRY_API int tarry_privacy_epsilon(const tarry_privacy_settings *settings, double delta,
                                    tarry_accountant accountant, const tarry_allocator *allocator,
                                    double *epsilon, tarry_diagnostic *diagnostic);

/* The other way round: a delta for epsilon >= 0. */
TARRY_API int tarry_privacy_delta(const tarry_privacy_settings *settings, double epsilon,
                                  tarry_accountant accountant, const tarry_allocator *allocator,
                                  double *delta, tarry_diagnostic *diagnostic);

/*
 * The least noise, to 1 part in 10,000, with which the settings' steps and sample are (epsilon,
 * delta)-private by that accountant: its epsilon for *noise is at most the one that is asked for.
 * settings->noise is not looked at; epsilon > 0; no noise below 0.001 is found. Errors: ARGUMENT
 * (also where no noise up to 1e6 is enough), NO_MEMORY.
 */
TARRY_API int tarry_privacy_noise(const tarry_privacy_settings *settings, double epsilon,
                                  double delta, tarry_accountant accountant,
                                  const tarry_allocator *allocator, double *noise,
                                  tarry_diagnostic *diagnostic);

#ifdef __cplusplus
}
#endif

#endif
