# SPDX-License-Identifier: Apache-2.0
"""docs/dynamic.md: what bench/dynamic.py claims, as the page has it, and the page's figures."""

import os

import baselines
import dynamic
import forms
import gnuplot
import latency
import learned
import loss
import regimes
import registry

page = registry.Page("dynamic")


@page.table("past", by_hand=["as 3 chunks"])
def weight_of_the_past(tarry):
    """Time over balance in the last round, r = 3; another weight takes another build."""
    rows = []
    for spec in ("jitter:0.1/run+slow:10,2-10+jitter:0.3/chunk", "shifted-exp:1,1/run+jitter:0.2",
                 "shifted-exp:1,1/run+exp:0.3/chunk", "markov:0.02,0.1,5+jitter:0.1"):
        result = tarry.results("--trials", 4, "--rounds", dynamic.ROUNDS, "--replication", 3, "--pieces", dynamic.PIECES,
                               "--scheme", "tarry", "--straggler", spec)[0]
        rows.append([spec, "", f"{result['rounds'][-1]['ratio_to_balanced']:.3f}"])
    return ["", "as 3 chunks", "as 1 chunk"], rows


@page.table("balance")
def balance(tarry):
    """The limits stand beside what is held against them."""
    rows, matched = [], []
    for name, cases in dynamic.balance(tarry):
        cells, copies, ratios = [], [], []
        for case in cases:
            cells += [f"{ratio:.3f} (<= {case.limits[at]:.2f})" if case.limits else f"{ratio:.3f}"
                      for at, ratio in enumerate((case.first, case.learned))]
            copies.append(case.copies)
            ratios += case.matched
        matched.append([f"{name}: time / matched", *(f"{ratio:.3f}" for ratio in ratios), ""])
        rows.append([name, *cells, f"{max(copies):.2f} (<= 1.02)"])
    return ["time / balanced", "r = 3, first", "learned", "r = 8, first", "learned", "copies"], rows + matched


STRAGGLERS = {latency.SPECS[1][0]: "10 % jitter, two 3 times slower"}


@page.table("latency")
def latencies(tarry):
    """The first round and the last."""
    rows = [[STRAGGLERS.get(name, name), latency.fraction(late),
             *(", ".join(f"{figure:.2f}" for figure in figures) for figures in zip(*rounds))]
            for name, late, rounds in latency.dynamic_order(tarry, latency.WORKERS[-1])]
    return ["stragglers", "latency", "time / balanced", "copies", "time / uncoded"], rows


@page.table("recorded")
def recorded(tarry):
    """Other schemes in their best form, and dynamic orders beside their limits."""
    cases, rows = list(dynamic.recorded(tarry)), []
    for trace, deadline, (uncoded, _, drop, queue, *_, pieces, _) in reversed(list(baselines.recorded(tarry))):
        rows += [[trace, "uncoded, and a ring", f"{uncoded['ratio_to_balanced']:.3f}", ""],
                 [trace, f"DropCompute at {deadline} s, {drop['pieces']} micro-batches, error {drop['expected_error']:.3f}",
                  f"{drop['ratio_to_balanced']:.3f}", ""],
                 [trace, f"shared queue, {queue['stored']} copies stored, P = {queue['pieces']}",
                  f"{queue['ratio_to_balanced']:.3f}", ""]]
        rows += [[trace, case.what, f"{case.ratio:.3f}", f"<= {case.limit}"] if case.limit else
                 [trace, case.what, f"{case.ratio:.3f}", ""]
                 for case in cases if case.trace == trace and case.what != "uncoded"]
        if trace == "slow_worker":
            rows.append([trace, f"r = 3, P = {pieces['pieces']}", f"{pieces['ratio_to_balanced']:.3f}", ""])
    return ["trace", "", "time / balanced", "limit"], rows


@page.table("queues")
def queues(tarry):
    """Bold is where Tarry loses."""
    rows = []
    for name, results in baselines.queues(tarry):
        ratios = [baselines.median_ratio(results[0], results[i]) for i in (1, 3)]
        pairs = [f"**{ratio:.3f}**" if ratio >= regimes.LOSES else f"{ratio:.3f}" for ratio in ratios]
        rows.append([name, *(f"{result['ratio_to_balanced']:.3f}" for result in results[:4]), *pairs])
    return ["", "Tarry, 3 copies, P = 16", "queue, 200 copies, P = 16", "without backups", "with backups, P = 64",
            "Tarry / queue", "with P = 64"], rows


@page.table("loss")
def seconds_to_a_loss(tarry):
    return loss.HEADER, loss.table(tarry, loss.STRAGGLER, loss.ROUNDS)[1]


@page.table("learned")
def learned_scheduler(tarry):
    return learned.table(tarry)


@page.table("learned-rules")
def learned_rules(tarry):
    return learned.rules_table(tarry)


@page.table("traffic")
def traffic(tarry):
    rows = []
    for case in dynamic.traffic(tarry):
        rows.append([forms.thousands(case.workers), *map(forms.thousands, (case.messages, case.bytes)),
                     f"{forms.thousands(case.added_messages)} messages", f"{forms.thousands(case.added_bytes)} bytes",
                     f"{case.added_messages / case.workers:.1f}, {case.added_bytes / case.workers:.0f} bytes",
                     f"{case.ratio:.3f}"])
    return ["m = N", "messages", "bytes", "of these for the dynamic order", "", "per worker", "time / balanced"], rows


@page.table("alike")
def alike(tarry):
    rows = [[f"simulated, r = {row['replication']}, P = {row['pieces']}", f"{ratio:.4g}", "<= 1.03"]
            for row, ratio in dynamic.alike(tarry)]
    return ["", "time / uncoded", "limit"], rows


@page.table("links")
def links(tarry):
    columns = baselines.links(tarry).values()
    names = {"ring": "ring all-reduce (of these {:.2f} for links)", "uncoded": "uncoded, uploading at once",
             "queue": "shared queue, P = {pieces}, {stored} copies stored", "tarry": "Tarry, P = {pieces}",
             "cyclic": "cyclic, r = {stored}"}
    rows = []
    for results in zip(*columns):
        name = names.get(results[0]["scheme"].split(":")[0])
        if name:
            times = [result["time"]["median"] for result in results]
            rows.append([times, [name.format(times[0] - 1, **results[0]), *(f"{time:.2f}" for time in times)]])
    return ["seconds of a round", "with the server's card", "links alone"], [row for _, row in sorted(rows)]


@page.table("alike-local", clock=True)
def alike_local(tarry):
    sleeping, computing = dynamic.alike_local(tarry)
    return ["", "time / uncoded", "limit"], [["local, sleeping, m = 16", f"{sleeping:.3f}", "<= 1.03"],
                                             ["local, computing, m = 2, on two cores", f"{computing:.3f}", ""]]


@page.table("local", clock=True)
def local(tarry):
    rows = [[case.name, f"{case.exact} of {case.rounds}", f"{case.error:.1e}", f"{case.ratio:.3f}", f"{case.simulated:.3f}",
             f"{abs(case.ratio - case.simulated):.3f}", "<= 0.05"] for case in dynamic.local(tarry)]
    return ["", "exact rounds", "worst verified_error", "time / balanced", "simulator", "difference", "limit"], rows


# The figures.

FIRST = {name: spec for name, spec, _, _ in dynamic.SPECS}
LASTING = {**{name: lasting for name, _, lasting, _ in dynamic.SPECS}, "markov:0.02,0.1,5": "markov:0.02,0.1,5+jitter:0.1"}
SCHEMES = {"uncoded": "uncoded", "original, r = 8": "cyclic:replication=8", "static, r = 3": "partial:replication=3",
           "static, r = 8": "partial:replication=8", "dynamic, r = 3": "tarry:replication=3,pieces=16",
           "dynamic, r = 8": "tarry:replication=8,pieces=16"}


@page.drawing("dynamic-rounds.svg")
def draw_rounds(tarry, folder):
    """Time over balance in each round, with speeds that last."""
    lines, curves = [], []
    for i, (name, spec) in enumerate(LASTING.items()):
        result = tarry.results("--trials", 20, "--rounds", 20, "--replication", 3, "--pieces", 16, "--scheme", "tarry",
                               "--straggler", spec)[0]
        lines += gnuplot.block(f"d{i}", ((n + 1, row["ratio_to_balanced"]) for n, row in enumerate(result["rounds"])))
        curves.append(f"$d{i} with linespoints pt 7 ps 0.5 lw 1.5 title '{name}'")
    lines += ["set xlabel 'round'", "set ylabel 'time / balanced, median of 20 trials'", "set yrange [1:*]",
              "set key bottom right", "plot " + ", ".join(curves)]
    gnuplot.draw(os.path.join(folder, "dynamic-rounds.svg"), "640,400", lines)


@page.drawing("dynamic-schemes.svg")
def draw_schemes(tarry, folder):
    """Times and copies of the schemes, on the same draws."""
    rows = [(name, [tarry.results("--trials", 50, "--scheme", scheme, "--straggler", spec)[0] for scheme in SCHEMES.values()])
            for name, spec in FIRST.items()]
    lines = []
    for key in "ratio_to_balanced", "copies":
        lines += gnuplot.block(key, ((f'"{name.split(":")[0]}"', *(result[key] for result in results))
                                     for name, results in rows))
    lines += ["set multiplot layout 1,2", "set style data histograms", "set style histogram clustered gap 1",
              "set style fill solid 0.8 noborder", "set boxwidth 0.9", "set xtics noenhanced"]
    for key, title, extra in (("ratio_to_balanced", "time / balanced", "set logscale y; set key off; set yrange [0.5:100]"),
                              ("copies", "copies computed per chunk or piece",
                               "unset logscale y; set key outside right; set yrange [0:9]")):
        lines += [f"set title '{title}'", extra]
        lines.append("plot " + ", ".join(f"${key} using {i + 2}:xtic(1) title '{label}'" for i, label in enumerate(SCHEMES)))
    gnuplot.draw(os.path.join(folder, "dynamic-schemes.svg"), "1200,400", lines + ["unset multiplot"])


@page.drawing("dynamic-pieces.svg")
def draw_pieces(tarry, folder):
    """Time over balance by pieces, in the first round."""
    lines, curves = [], []
    for i, replication in enumerate((2, 3, 8)):
        results = tarry.results("--trials", 50, "--replication", replication, "--pieces", "1,2,4,8,16,32,64",
                                "--scheme", "tarry", "--straggler", FIRST["mild"])
        lines += gnuplot.block(f"d{i}", ((row["pieces"], row["ratio_to_balanced"], row["ratio_to_matched"])
                                         for row in results))
        curves.append(f"$d{i} using 1:2 with linespoints pt 7 ps 0.5 lw 1.5 lc {i + 1} title 'r = {replication}'")
        curves.append(f"$d{i} using 1:($2/$3) with lines dt 2 lc {i + 1} title 'r = {replication}, matched'")
    lines += ["set logscale x 2", "set xlabel 'pieces per chunk'", "set ylabel 'time / balanced'", "set yrange [1:*]",
              "plot " + ", ".join(curves)]
    gnuplot.draw(os.path.join(folder, "dynamic-pieces.svg"), "640,400", lines)
