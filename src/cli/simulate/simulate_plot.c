/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate/simulate_plot.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/output/gnuplot.h"

#define LABEL_SIZE 128

/* In pixels. */
#define WIDTH 1100
#define TITLE_HEIGHT 100
#define ROW_HEIGHT 34
#define AXIS_HEIGHT 105 /* below a panel: tics, label, and the next one's title */
#define CURVE_HEIGHT 420
#define KEY_ROW_HEIGHT 20
#define MARGIN 30
#define LETTER_WIDTH 8.6

/* Colours that stay apart for colour-blind readers (Okabe and Ito 2008), the first for what is
 * measured. */
#define BLUE "#0072B2"
#define ORANGE "#D55E00"
#define GREEN "#009E73"
static const char *const colours[] = {"#000000", BLUE,      ORANGE,    GREEN,    "#CC79A7",
                                      "#E69F00", "#56B4E9", "#8C6BB1", "#999933"};

#define COLOUR_COUNT (sizeof(colours) / sizeof(colours[0]))
#define DASH_COUNT 5

/* Schemes differ by colour, and the variants of one by their dashes. */
static void style_of(const simulate_variants *variants, size_t index, size_t *colour, size_t *dash)
{
    *colour = *dash = 0;
    for (size_t i = 1; i <= index; i++) {
        bool same = strcmp(variants->items[i].scheme, variants->items[i - 1].scheme) == 0;
        *dash = same ? *dash + 1 : 0;
        *colour += same ? 0 : 1;
    }
    *colour %= COLOUR_COUNT;
    *dash %= DASH_COUNT;
}

static void label_of(const simulate_variant *variant, char label[LABEL_SIZE])
{
    const tarry_plan_settings *plan = &variant->run.settings.plan;
    if (plan->pieces > 1)
        snprintf(label, LABEL_SIZE, "%.60s  r=%u l=%s%u P=%u", variant->scheme, plan->replication,
                 plan->adaptive_parts ? "1-" : "", plan->parts, plan->pieces);
    else if (plan->replication > 1)
        snprintf(label, LABEL_SIZE, "%.60s  r=%u l=%s%u", variant->scheme, plan->replication,
                 plan->adaptive_parts ? "1-" : "", plan->parts);
    else
        snprintf(label, LABEL_SIZE, "%.60s", variant->scheme);
}

/* Where the panels are, as shares of the picture. */
typedef struct frame {
    double width, height; /* pixels */
    double labels;        /* width of the longest */
    double times_top, times_bottom;
    double curves_top, curves_bottom;
} frame;

static frame make_frame(const simulate_trials *trials)
{
    size_t count = trials->variants->count, longest = 0;
    for (size_t i = 0; i < count; i++) {
        char label[LABEL_SIZE];
        label_of(&trials->variants->items[i], label);
        longest = strlen(label) > longest ? strlen(label) : longest;
    }
    double times = (double)count * ROW_HEIGHT;
    double curves = fmax(CURVE_HEIGHT, (double)count * KEY_ROW_HEIGHT);
    double above = TITLE_HEIGHT + times + AXIS_HEIGHT;
    double height = above;
    if (trials->options->deadlines.count > 0)
        height += curves + AXIS_HEIGHT * 0.6;
    else
        height -= AXIS_HEIGHT * 0.4;
    return (frame){
        .width = WIDTH,
        .height = height,
        .labels = fmin(WIDTH / 2.0, LETTER_WIDTH * (double)longest),
        .times_top = 1 - TITLE_HEIGHT / height,
        .times_bottom = 1 - (TITLE_HEIGHT + times) / height,
        .curves_top = 1 - above / height,
        .curves_bottom = 1 - (above + curves) / height,
    };
}

static void write_times(FILE *script, const simulate_trials *trials,
                        const simulate_summary *summaries)
{
    size_t count = trials->variants->count;
    fputs("$times << EOD\n", script);
    for (size_t i = 0; i < count; i++) {
        const spread *seconds = &summaries[i].seconds;
        fprintf(script, "%zu", count - i);
        const double numbers[] = {seconds->p5,
                                  seconds->p25,
                                  seconds->all.median,
                                  seconds->p75,
                                  seconds->all.p95,
                                  summaries[i].balanced.all.median,
                                  summaries[i].matched.all.median};
        for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++)
            gnuplot_number(script, numbers[k]);
        fputc('\n', script);
    }
    fputs("EOD\n", script);
}

static void write_errors(FILE *script, const simulate_trials *trials,
                         const simulate_summary *summaries)
{
    const real_list *deadlines = &trials->options->deadlines;
    fputs("$errors << EOD\n", script);
    for (size_t i = 0; i < deadlines->count; i++) {
        gnuplot_number(script, deadlines->values[i]);
        for (size_t k = 0; k < trials->variants->count; k++) {
            double error = summaries[k].errors[i].all.mean;
            gnuplot_number(script, error > 0 ? error : NAN);
        }
        fputc('\n', script);
    }
    fputs("EOD\n", script);
}

/* Whether times differ so much that only a logarithmic axis shows the short ones. */
static bool spans_decades(const simulate_trials *trials, const simulate_summary *summaries)
{
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < trials->variants->count; i++) {
        least = fmin(least, fmin(summaries[i].balanced.all.median, summaries[i].seconds.p5));
        most = fmax(most, summaries[i].seconds.all.p95);
    }
    return least > 0 && most > 30 * least;
}

static void write_times_panel(FILE *script, const frame *place, const simulate_trials *trials,
                              const simulate_summary *summaries)
{
    size_t count = trials->variants->count;
    fprintf(script,
            "set lmargin at screen %.4f\nset rmargin at screen %.4f\n"
            "set tmargin at screen %.4f\nset bmargin at screen %.4f\n"
            "set label 1 'Completion time' at graph 0, graph 1 offset 0,0.8 left font ',14'\n"
            "set xlabel 'seconds'\n"
            "set yrange [0.4:%.1f]\n"
            "set key at screen %.4f, screen %.4f right bottom horizontal samplen 1.5\n"
            "set style fill solid 0.45 border rgb '" BLUE "'\n",
            (place->labels + MARGIN) / place->width, 1 - MARGIN / place->width, place->times_top,
            place->times_bottom, (double)count + 0.6, 1 - MARGIN / place->width,
            place->times_top + 4 / place->height);
    fputs("set ytics (", script);
    for (size_t i = 0; i < count; i++) {
        char label[LABEL_SIZE];
        label_of(&trials->variants->items[i], label);
        fputs(i > 0 ? ", " : "", script);
        gnuplot_quote(script, label);
        fprintf(script, " %zu", count - i);
    }
    fputs(")\n", script);
    fputs(spans_decades(trials, summaries) ? "set logscale x\n" : "set xrange [0:*]\n", script);
    size_t failed = 0;
    for (size_t i = 0; i < count; i++) {
        if (summaries[i].seconds.all.count > 0)
            continue;
        fprintf(
            script,
            "set label %zu 'no trial could end' at graph 0.985, first %zu right tc rgb '#666666'\n",
            3 + failed++, count - i);
    }
    /* Bounds there may be none either: an axis needs a range then. */
    if (failed == count)
        fputs("set xrange [0:1]\n", script);
    fputs("plot $times using 2:1:($6-$2):(0) with vectors nohead lw 1.5 lc rgb '" BLUE "' "
          "title '5 to 95 %', "
          "$times using 4:1:3:5:($1-0.28):($1+0.28) with boxxyerror lc rgb '" BLUE "' "
          "title '25 to 75 %', "
          "$times using 4:($1-0.28):(0):(0.56) with vectors nohead lw 3 lc rgb '#000000' "
          "title 'median', "
          "$times using 7:($1-0.42):(0):(0.84) with vectors nohead lw 2.5 lc rgb '" GREEN "' "
          "title 'balanced bound', "
          "$times using 8:($1-0.42):(0):(0.84) with vectors nohead lw 2.5 dt (6,3) "
          "lc rgb '" ORANGE "' title 'matched bound'",
          script);
    fputs("\nunset logscale x\nset xrange [*:*]\nunset label\n", script);
}

static void write_error_panel(FILE *script, const frame *place, const simulate_trials *trials)
{
    double right = 1 - (place->labels + 70) / place->width;
    fprintf(script,
            "set lmargin at screen %.4f\nset rmargin at screen %.4f\n"
            "set tmargin at screen %.4f\nset bmargin at screen %.4f\n"
            "set label 1 'Error of a sum that ends at a deadline' at graph 0, graph 1 "
            "offset 0,0.8 left font ',14'\n"
            "set xlabel 'deadline (seconds)'\n"
            "set ylabel 'relative squared error, mean of the trials' offset 1,0\n"
            "set ytics autofreq\nset yrange [*:1.2]\nset logscale y\nset format y '%%g'\n"
            "set key at screen %.4f, screen %.4f left top vertical Left reverse samplen 3 "
            "maxrows 200\n",
            80 / place->width, right, place->curves_top, place->curves_bottom,
            right + 10 / place->width, place->curves_top);
    for (size_t i = 0; i < trials->variants->count; i++) {
        size_t colour, dash;
        char label[LABEL_SIZE];
        label_of(&trials->variants->items[i], label);
        style_of(trials->variants, i, &colour, &dash);
        fprintf(script, "%s $errors using 1:%zu with lines lw 2.2 dt %zu lc rgb '%s' title ",
                i == 0 ? "plot" : ",", i + 2, dash + 1, colours[colour]);
        gnuplot_quote(script, label);
    }
    fputc('\n', script);
}

void simulate_plot_script(FILE *script, bool png, const simulate_trials *trials,
                          const simulate_summary *summaries)
{
    const simulate_options *options = trials->options;
    frame place = make_frame(trials);
    write_times(script, trials, summaries);
    if (options->deadlines.count > 0)
        write_errors(script, trials, summaries);
    fprintf(script, "set terminal %s noenhanced size %.0f,%.0f %s\n", png ? "pngcairo" : "svg",
            place.width, place.height,
            png ? "font 'sans,12'" : "font 'sans-serif,12' background 'white'");
    char title[512];
    snprintf(title, sizeof(title),
             "tarry simulate: %u workers, %u chunks, straggler %.200s\n%zu trials%s, seed %" PRIu64,
             options->workers, options->chunks, options->straggler, trials->done_count,
             options->rounds > 1 ? ", the last round of each" : "", options->seed);
    fputs("set multiplot\nset label 2 ", script);
    gnuplot_quote(script, title);
    fprintf(script,
            " at screen 0.5, screen %.4f center font ',13'\n"
            "set grid lc rgb '#dddddd' lt 1\n"
            "set border lc rgb '#444444'\n"
            "set tics out nomirror\n"
            "set datafile missing 'NaN'\n",
            1 - 22.0 / place.height);
    write_times_panel(script, &place, trials, summaries);
    if (options->deadlines.count > 0)
        write_error_panel(script, &place, trials);
    fputs("unset multiplot\n", script);
}
