/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/train_plot.h"

#include <inttypes.h>
#include <math.h>

#include "cli/output/gnuplot.h"

/* Colours that stay apart for colour-blind readers (Okabe and Ito 2008). */
#define BLUE "#0072B2"
#define ORANGE "#D55E00"
#define GREEN "#009E73"
#define GREY "#666666"

/* What the panel of losses is drawn for. */
typedef struct losses {
    double least, most; /* of the finite ones */
} losses;

static void look_at(losses *seen, double loss)
{
    if (!isfinite(loss))
        return;
    seen->least = fmin(seen->least, loss);
    seen->most = fmax(seen->most, loss);
}

static int write_rounds(FILE *script, const history *past, losses *seen, tarry_diagnostic *why)
{
    double clock = 0;
    int error = TARRY_OK;
    *seen = (losses){.least = INFINITY, .most = 0};
    fputs("$rounds << EOD\n", script);
    if (past->first == 0) {
        fputs("0 0", script);
        gnuplot_number(script, history_train_begin(past).loss);
        gnuplot_number(script, history_test_begin(past).loss);
        fputs(" NaN NaN\n", script);
    }
    for (size_t i = past->first; i < past->count && error == TARRY_OK; i++) {
        history_round round;
        objective_score train = {NAN, NAN}, test = {NAN, NAN};
        error = history_round_at(past, i, &round, why);
        if (error == TARRY_OK && round.lost)
            continue;
        if (error == TARRY_OK)
            error = history_scores_after(past, i, &train, &test, why);
        look_at(seen, train.loss);
        clock += round.seconds;
        fprintf(script, "%zu %.9g", i + 1, clock);
        gnuplot_number(script, train.loss);
        gnuplot_number(script, test.loss);
        gnuplot_number(script, round.seconds * 1e3);
        gnuplot_number(script, (double)round.result.copies_computed / past->chunks);
        fputc('\n', script);
    }
    fputs("EOD\n", script);
    return error;
}

static void write_workers(FILE *script, const history *past)
{
    fputs("$workers << EOD\n", script);
    for (uint32_t i = 0; i < past->workers; i++) {
        const tarry_worker_state *worker = &past->worker[i];
        double seconds = worker->chunks > 0 ? worker->seconds / (double)worker->chunks : NAN;
        fprintf(script, "%u %" PRIu64, i, worker->chunks);
        gnuplot_number(script, seconds * 1e3);
        gnuplot_number(script, worker->present && worker->chunks > 0 ? NAN : 0);
        fputc('\n', script);
    }
    fputs("EOD\n", script);
}

/* Whether the loss falls so far that only a logarithmic axis shows its end. */
static bool spans_decades(const history *past, const losses *seen)
{
    const double most = fmax(seen->most, history_train_begin(past).loss);
    return seen->least > 0 && most > 30 * seen->least;
}

static void write_loss_panel(FILE *script, const history *past, const losses *seen)
{
    fputs("set label 1 'Loss over time' at graph 0, graph 1.07 left font ',14'\n"
          "set xlabel 'time of the rounds so far (s)'\n"
          "set ylabel 'loss'\n",
          script);
    if (spans_decades(past, seen))
        fputs("set logscale y\n", script);
    fputs("set datafile missing 'NaN'\n"
          "plot $rounds using 2:3 with lines lw 2.5 lc rgb '" BLUE "' title 'train'",
          script);
    if (isfinite(past->test_end.loss))
        fputs(", $rounds using 2:4 with lines lw 2 dt 2 lc rgb '" ORANGE "' title 'test'", script);
    fputs("\nunset logscale y\n", script);
}

static void write_round_panel(FILE *script, const history *past)
{
    fprintf(script,
            "set label 1 'Time and copies of each round' at graph 0, graph 1.07 left font ',14'\n"
            "set xlabel 'round'\n"
            "set ylabel 'round time (ms)'\n"
            "set y2label 'copies computed per chunk'\n"
            "set ytics nomirror\nset y2tics\n"
            "set yrange [0:*]\nset y2range [0:*]\nset xrange [0:%zu]\n"
            "plot $rounds using 1:5 with %s lw 1.5 lc rgb '" BLUE
            "' title 'round time (ms, left)', "
            "$rounds using 1:6 axes x1y2 with points pt 7 ps 0.5 lc rgb '" ORANGE
            "' title 'copies per chunk (right)'\n",
            past->count + 1, past->count > 1 ? "lines" : "points");
}

static void write_worker_panel(FILE *script, const history *past)
{
    bool lost = false;
    for (uint32_t i = 0; i < past->workers; i++)
        lost = lost || !past->worker[i].present || past->worker[i].chunks == 0;
    fprintf(script,
            "set label 1 'Who was slow' at graph 0, graph 1.07 left font ',14'\n"
            "set xlabel 'worker'\n"
            "set ylabel 'chunks finished'\n"
            "set y2label 'time per chunk (ms)'\n"
            "set style fill solid 0.55 noborder\nset boxwidth 0.7\n"
            "set xrange [-0.7:%.1f]\n%s"
            "plot $workers using 1:2 with boxes lc rgb '" GREEN "' title 'chunks (left)', "
            "$workers using 1:3 axes x1y2 with points pt 7 ps 1.1 lc rgb '" ORANGE
            "' title 'ms per chunk (right)'",
            past->workers - 0.3, past->workers <= 32 ? "set xtics 1\n" : "");
    if (lost)
        fputs(", $workers using 1:4 with points pt 2 ps 1.6 lw 2.5 lc rgb '" GREY
              "' title 'lost or silent'",
              script);
    fputc('\n', script);
}

int train_plot_script(FILE *script, const char *title, bool png, const history *past,
                      tarry_diagnostic *diagnostic)
{
    losses seen;
    int error = write_rounds(script, past, &seen, diagnostic);
    write_workers(script, past);
    fputs(
        png ? "set terminal pngcairo noenhanced size 1100,1250 font 'sans,12'\n"
            : "set terminal svg noenhanced size 900,1050 font 'sans-serif,12' background 'white'\n",
        script);
    fputs("set multiplot layout 3,1 margins 0.09,0.91,0.06,0.91 spacing 0,0.105 title ", script);
    gnuplot_quote(script, title);
    fputs("\nset grid lc rgb '#dddddd' lt 1\n"
          "set border lc rgb '#444444'\n"
          "set tics out nomirror\n"
          "set key at graph 1, graph 1.02 right bottom horizontal samplen 2\n",
          script);
    write_loss_panel(script, past, &seen);
    write_round_panel(script, past);
    write_worker_panel(script, past);
    fputs("unset multiplot\n", script);
    return error;
}
