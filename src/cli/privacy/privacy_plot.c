/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/privacy/privacy_plot.h"

#include <inttypes.h>

#include "cli/output/gnuplot.h"

/* Colours that stay apart for colour-blind readers (Okabe and Ito 2008). */
#define BLUE "#0072B2"
#define ORANGE "#D55E00"

int privacy_curve_make(const privacy_options *options, double noise, privacy_curve *curve,
                       tarry_diagnostic *diagnostic)
{
    tarry_privacy_settings settings = privacy_settings_of(options);
    settings.noise = noise;
    int error = TARRY_OK;
    for (int i = 0; i < PRIVACY_POINTS && error == TARRY_OK; i++) {
        /* Closer together at first, where the curve bends; the last one is the options' own. */
        double share = (double)(i + 1) / PRIVACY_POINTS;
        settings.steps = (uint64_t)((double)(options->rounds - 1) * share * share) + 1;
        curve->rounds[i] = settings.steps;
        error = tarry_privacy_epsilon(&settings, options->delta, TARRY_ACCOUNTANT_PLD, NULL,
                                      &curve->pld[i], diagnostic);
        if (error == TARRY_OK)
            error = tarry_privacy_epsilon(&settings, options->delta, TARRY_ACCOUNTANT_RDP, NULL,
                                          &curve->rdp[i], diagnostic);
    }
    return error;
}

void privacy_plot_script(FILE *script, const privacy_options *options, double noise,
                         const privacy_curve *curve)
{
    fputs("$curve << EOD\n0 0 0\n", script);
    for (int i = 0; i < PRIVACY_POINTS; i++) {
        fprintf(script, "%" PRIu64, curve->rounds[i]);
        gnuplot_number(script, curve->pld[i]);
        gnuplot_number(script, curve->rdp[i]);
        fputc('\n', script);
    }
    fputs("EOD\n", script);
    fputs(gnuplot_is_png(options->plot)
              ? "set terminal pngcairo noenhanced size 1000,620 font 'sans,12'\n"
              : "set terminal svg noenhanced size 820,510 font 'sans-serif,12' background "
                "'white'\n",
          script);
    fprintf(script,
            "set title 'Noise %.4g, each example sampled with probability %.4g, delta %.3g'\n"
            "set grid lc rgb '#dddddd' lt 1\nset border lc rgb '#444444'\nset tics out nomirror\n"
            "set xlabel 'rounds'\nset ylabel 'epsilon'\nset xrange [0:*]\nset yrange [0:*]\n"
            "set key left top\n"
            "plot $curve using 1:3 with lines lw 2 dt 2 lc rgb '" ORANGE
            "' title 'by Renyi divergences', "
            "$curve using 1:2 with lines lw 2.5 lc rgb '" BLUE
            "' title 'by the distribution of the privacy loss'\n",
            noise, options->sample, options->delta);
}
