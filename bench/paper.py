#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Repeats the experiments of the paper (arXiv 2405.19509) and compares them with its authors' results, in a Markdown table.

Usage: bench/paper.py TARRY [DATA] [--quick]

TARRY is the binary (an optimised build). NumPy is needed, too. If networkx is there, the graphs that it makes
are compared with those of bench/graphs. docs/paper.md says what is measured, and which numbers are the authors'. With --quick there are fewer
trials, and an exact time may be off by chance. The exit status is 1 if a limit is missed.
"""

import argparse
import dataclasses
import functools
import importlib
import math
import os
import pathlib
import random
import statistics
import sys

import forms
import markdown
import runner

SEED = 1
DEGREE = 8
VERTICES = {"G1": 200, "G2": 300}
GRAPHS = pathlib.Path(__file__).resolve().parent / "graphs"
PARTS = (1, 2, 3)
DEADLINES = range(3, 25, 3)
FAILED = DEGREE - 1  # workers that never answer in sums with an error; in exact ones DEGREE - l

# What the authors' notebook stores, for l = 1, 2, 3. Those of the cyclic design are approximate: see READING.
TIMES = {
    ("G1", "original"): (6.606, 9.539, 12.651),
    ("G1", "partial, optimal order"): (2.856, 4.433, 6.390),
    ("G1", "partial, random order"): (3.437, 5.198, 7.361),
    ("cyclic", "original"): (6.0, 8.7, 11.5),
    ("cyclic", "partial, optimal order"): (2.8, 4.25, 6.1),
}
NORMS = {  # by deadline
    ("G1", "partial", 1): {3: 0.1109, 6: 3.5e-15},
    ("G1", "partial", 2): {3: 1.4772, 6: 0.0314},
    ("G1", "partial", 3): {3: 4.3428, 6: 0.5376},
    ("G1", "original", 1): dict(zip(DEADLINES, (5.88, 3.45, 2.23, 1.51, 1.07, 0.784, 0.594, 0.471))),
    ("G2", "partial", 1): {3: 0.1697},
    ("G2", "partial", 2): {3: 1.7637},
    ("G2", "partial", 3): {3: 5.1593},
    ("G2", "original", 1): {3: 7.19},
}
THEIR_TIMES, THEIR_NORMS = 2000, 1000  # trials
READING = 0.05  # half a unit of the last digit of the times of the cyclic design
CLOSE = 0.02  # of a time, and of a norm of 1 or more
ERRORS = 4  # standard errors of the difference, of both sides' trials


@dataclasses.dataclass(frozen=True)
class Trials:
    times: int
    orders: int  # random ones, among which the trials of times are shared out
    norms: int
    original: int
    dynamic: int


FULL = Trials(times=8000, orders=10, norms=3000, original=500, dynamic=100)
QUICK = Trials(times=150, orders=3, norms=150, original=20, dynamic=5)


@dataclasses.dataclass(frozen=True)
class Row:
    """A figure of the paper, or one that we add."""

    what: str
    parts: int
    theirs: float | None
    ours: float
    error: float  # standard error of `ours`
    difference: float  # standard error of theirs - ours; 0 without theirs
    other: str  # the same in continuous time, or as a relative squared error
    strict: bool = False  # its limit is in percent

    @property
    def apart(self):
        """In standard errors of the difference."""
        return abs(self.ours - self.theirs) / self.difference if self.difference > 0 else 0.0

    def holds(self, trials):
        if self.theirs is None:
            return True
        near = abs(self.ours / self.theirs - 1) <= CLOSE
        by_chance = self.apart <= ERRORS
        if not self.strict or trials is QUICK:
            return by_chance
        return near if self.what.startswith("time") else near and by_chance


# ---- assignments: worker i holds the chunks that are neighbours of vertex i ----


def stored_edges(name):
    """Pairs of vertices, the smaller one first."""
    return [tuple(map(int, line.split())) for line in (GRAPHS / f"{name.lower()}.txt").read_text().splitlines()]


def needed(module):
    """That module; raises runner.Missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise runner.Missing(str(error)) from None


def edges_by_networkx():
    """{name: edges}, generated; raises runner.Missing."""
    networkx = needed("networkx")
    needed("numpy").random.seed(SEED)
    made = {}
    for name, vertices in VERTICES.items():
        graph = networkx.random_regular_expander_graph(vertices, DEGREE, max_tries=1000)
        made[name] = sorted(tuple(sorted(edge)) for edge in graph.edges)
    return made


def neighbours(name):
    """The chunks of each worker, ascending."""
    lists = [[] for _ in range(VERTICES[name])]
    for one, other in stored_edges(name):
        lists[one].append(other)
        lists[other].append(one)
    return [sorted(row) for row in lists]


def design_file(tarry, name, order=None):
    """The option for this graph; `order` is the number of a random order, or None for an ascending one."""
    lists = neighbours(name)
    if order is not None:
        draws = random.Random(1000 * SEED + order)
        for row in lists:
            draws.shuffle(row)
    path = os.path.join(tarry.folder.name, f"{name}.txt" if order is None else f"{name}-{order}.txt")
    with open(path, "w") as file:
        file.writelines(" ".join(map(str, row)) + "\n" for row in lists)
    return f"file:{path}"


# ---- times of exact sums ----


def seconds(tarry, workers, design, order, scheme, parts, trials, pieces=1, seed=SEED):
    """Of the trials that could end, and the mean of the bound that a perfectly balanced cluster would reach."""
    result, = tarry.results("--workers", workers, "--chunks", workers, *design, "--order", order, "--pieces", pieces,
                            "--scheme", scheme, "--parts", parts, "--straggler", f"exp:1+dead:{DEGREE - parts}",
                            "--trials", trials, "--seed", seed)
    return [time for time in result["seconds"] if time is not None], result["balanced"]["mean"]


def error_of(values):
    """The standard error of their mean."""
    return statistics.stdev(values) / math.sqrt(len(values))


def whole(times):
    """The first whole second at which the sum is exact."""
    return [math.ceil(time) for time in times]


def time_row(what, parts, theirs, times):
    unit = whole(times)
    difference = statistics.stdev(unit) * math.sqrt(1 / len(unit) + 1 / THEIR_TIMES)
    if "cyclic" in what:
        difference = math.hypot(difference, READING)
    return Row(f"time, {what}", parts, theirs, statistics.fmean(unit), error_of(unit), difference,
               f"{statistics.fmean(times):.3f} s", strict=True)


def times(tarry, trials):
    settings = {
        ("G1", "original"): (design_file(tarry, "G1"), "as-is", "own:credit=whole"),
        ("G1", "partial, optimal order"): (design_file(tarry, "G1"), "optimal", "partial"),
        ("cyclic", "original"): ("cyclic", "as-is", "own:credit=whole"),
        # Each chunk is first at one worker, second at another, and so on, in the order of the design itself.
        ("cyclic", "partial, optimal order"): ("cyclic", "as-is", "partial"),
    }
    for parts in PARTS:
        for (graph, what), (design, order, scheme) in settings.items():
            known = ["--design", design, "--replication", DEGREE]
            found, _ = seconds(tarry, 200, known, order, scheme, parts, trials.times)
            yield time_row(f"{graph}, {what}", parts, TIMES[graph, what][parts - 1], found)
        yield random_order(tarry, parts, trials)


def random_order(tarry, parts, trials):
    """The mean over several orders. The authors have one order, so the spread between orders counts as its error."""
    means, found = [], []
    for order in range(trials.orders):
        of_order, _ = seconds(tarry, 200, ["--design", design_file(tarry, "G1", order)], "as-is", "partial", parts,
                              trials.times // trials.orders, seed=SEED + order)
        means.append(statistics.fmean(whole(of_order)))
        found += of_order
    row = time_row("G1, partial, random order", parts, TIMES["G1", "partial, random order"][parts - 1], found)
    spread = statistics.stdev(means)
    return dataclasses.replace(row, error=spread / math.sqrt(len(means)),
                               difference=spread * math.sqrt(1 + 1 / len(means)), strict=False)


def beside(tarry, trials):
    """What the paper does not have: dynamic orders, and equal work for all."""
    for parts in PARTS:
        for replication in (3, 8):
            if parts >= replication:  # each worker that fails takes the last copy of a part with it
                continue
            found, balanced = seconds(tarry, 200, ["--replication", replication], "dynamic", "tarry", parts,
                                      trials.dynamic, pieces=16)
            lost = trials.dynamic - len(found)
            if len(found) < 2:
                continue
            note = f" ({lost} of {trials.dynamic} trials could not end)" if lost else ""
            yield time_row(f"Tarry, dynamic order, r = {replication}, 16 pieces{note}", parts, None, found)
        yield Row("time, perfectly balanced", parts, None, math.nan, math.nan, 0.0, f"{balanced:.3f} s")


# ---- norms of errors at deadlines ----


def norm_row(graph, scheme, parts, deadline, squares, size):
    """squares: of the norm, by trial."""
    norms = [math.sqrt(square) for square in squares]
    mean, deviation = statistics.fmean(norms), statistics.stdev(norms)
    theirs = NORMS.get((graph, scheme, parts), {}).get(deadline)
    difference = deviation * math.sqrt(1 / len(norms) + 1 / THEIR_NORMS)
    return Row(f"norm at T = {deadline}, {graph}, {scheme}", parts, theirs, mean, deviation / math.sqrt(len(norms)),
               difference, forms.short(statistics.fmean(squares) / size, 3), strict=theirs is not None and theirs >= 1)


def partial_norms(tarry, graph, parts, trials):
    """{deadline: row}, of partial stragglers."""
    workers = VERTICES[graph]
    result, = tarry.results("--workers", workers, "--chunks", workers, "--design", design_file(tarry, graph), "--order",
                            "optimal", "--pieces", 1, "--scheme", "partial", "--parts", parts, "--straggler",
                            f"exp:1+dead:{FAILED}", "--trials", trials.norms, "--seed", SEED, "--deadline",
                            ",".join(map(str, DEADLINES)))
    size = parts * workers
    return {int(point["deadline"]): norm_row(graph, "partial", parts, int(point["deadline"]),
                                             [size * error for error in point["trials"]], size)
            for point in result["error"]}


def residual(rows):
    """The least squared norm of x' rows - 1, over all x."""
    numpy = needed("numpy")
    target = numpy.ones(rows.shape[1])
    if len(rows) == 0:
        return float(len(target))
    solution = numpy.linalg.lstsq(rows.T, target, rcond=None)[0]
    return float(numpy.square(rows.T @ solution - target).sum())


@functools.cache
def original_norms(graph, trials):
    """{deadline: row}, of the original protocol: a worker that has finished all its chunks has sent their sum, and the
    server combines these sums by least squares. Raises runner.Missing."""
    numpy = needed("numpy")
    workers = VERTICES[graph]
    assigned = numpy.zeros((workers, workers))
    for worker, chunks in enumerate(neighbours(graph)):
        assigned[worker, chunks] = 1
    draws = numpy.random.default_rng([SEED, workers])
    squares = {deadline: [] for deadline in DEADLINES}
    for _ in range(trials.original):
        ends = DEGREE * draws.exponential(size=workers)
        ends[draws.choice(workers, FAILED, replace=False)] = numpy.inf
        for deadline in DEADLINES:
            squares[deadline].append(residual(assigned[ends <= deadline]))
    return {deadline: norm_row(graph, "original", 1, deadline, squares[deadline], workers) for deadline in DEADLINES}


def all_norms(tarry, trials):
    """{(graph, scheme, parts): {deadline: row}}"""
    curves = {(graph, "partial", parts): partial_norms(tarry, graph, parts, trials)
              for graph in VERTICES for parts in PARTS}
    return {**curves, **{(graph, "original", 1): original_norms(graph, trials) for graph in VERTICES}}


def norms(tarry, trials):
    """Those that the authors have."""
    for curve in all_norms(tarry, trials).values():
        yield from (row for row in curve.values() if row.theirs is not None)


# ---- the table ----

HEADER = ["", "l", "the authors", "Tarry", "difference", "in standard errors", "seconds; relative squared error"]


def their_figure(row):
    return f"about {row.theirs:g}" if "cyclic" in row.what else figure(row.theirs)


def figure(value):
    return "" if math.isnan(value) else forms.digits(value, 4) if value >= 0.01 else forms.short(value)


def cells(row):
    ours = "" if math.isnan(row.ours) else f"{figure(row.ours)} ± {forms.short(row.error)}"
    if row.theirs is None:
        return [row.what, str(row.parts), "", ours, "", "", row.other]
    difference = forms.percent(row.ours / row.theirs - 1) if row.theirs > 1e-9 else ""
    return [row.what, str(row.parts), their_figure(row), ours, difference, f"{row.apart:.1f}", row.other]


def rows(tarry, trials):
    yield from times(tarry, trials)
    yield from beside(tarry, trials)
    yield from norms(tarry, trials)


def graphs_as_stored():
    """A sentence on each graph. Releases of networkx may draw other graphs, so a difference is not a missed limit."""
    try:
        made = edges_by_networkx()
    except runner.Missing as missing:
        yield f"the graphs were not generated for comparison: {missing}"
        return
    for name in VERTICES:
        same = made[name] == stored_edges(name)
        yield f"{name} is {'as' if same else 'NOT as'} networkx makes it (release {needed('networkx').__version__})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tarry", metavar="TARRY")
    parser.add_argument("data", metavar="DATA", nargs="?", default="../shared/data", help="not needed: graphs are stored")
    parser.add_argument("--quick", action="store_true", help="fewer trials: below a minute on two cores")
    options = parser.parse_args()
    tarry, trials = runner.Runner(options.tarry, options.data), QUICK if options.quick else FULL
    missed = 0
    try:
        needed("numpy")
        print("\n".join(markdown.table([*HEADER, "holds"], [])))
        for row in rows(tarry, trials):
            holds = row.holds(trials)
            missed += not holds
            print(markdown.line_of([*cells(row), "" if row.theirs is None else "yes" if holds else "**no**"]), flush=True)
        print()
        for sentence in graphs_as_stored():
            print(sentence)
    except (runner.Failed, runner.Missing) as problem:
        sys.exit(f"paper.py: {problem}")
    print(f"seed {SEED}; {trials}; {missed} of the limits missed; {runner.processor_seconds():.0f} s of processor time")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
