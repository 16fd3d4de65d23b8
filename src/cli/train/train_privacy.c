/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/train_privacy.h"

#include <inttypes.h>

#include "base/diagnostic.h"
#include "cli/options/options.h"
#include "cli/text/complain.h"

int train_privacy_create(const tarry_dp_terms *terms, size_t samples, ledger_file *ledger,
                         tarry_dp **out)
{
    tarry_diagnostic why = {""};
    int error = dp_create(terms, samples, ledger, out, &why);
    if (error == TARRY_OK)
        return OPTIONS_PROCEED;
    return complain(error == TARRY_ERROR_ARGUMENT ? EXIT_USAGE : EXIT_FAILED, "--dp: %s", why.text);
}

int train_privacy_release(tarry_dp *privacy, const tarry_round_result *result, float *sum,
                          size_t dimension, tarry_diagnostic *diagnostic)
{
    if (!result->exact)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "the sum of round %" PRIu64 " is not exact, and is not released",
                        result->round);
    return dp_release(privacy, result->round, sum, dimension, diagnostic);
}

int train_privacy_account(const tarry_dp *privacy, history_privacy *account,
                          tarry_diagnostic *diagnostic)
{
    double epsilon;
    int error = tarry_dp_epsilon(privacy, &epsilon, diagnostic);
    if (error != TARRY_OK)
        return error;
    account->counted = true;
    account->secret = !dp_terms(privacy)->seeded;
    account->releases = tarry_dp_releases(privacy);
    account->epsilon = epsilon;
    account->delta = dp_terms(privacy)->delta;
    return TARRY_OK;
}
