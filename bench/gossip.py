#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gossip averaging and exact sums, in simulated time, as Markdown tables: the time to a loss, and how far workers are apart.

Usage: bench/gossip.py TARRY [--quick] [--data CASE]

TARRY is the binary, with libtarry.so in the same build: its stragglers say what each worker's gradient takes in each round. Exact
sums (an all-reduce that waits for all, and Tarry with a dynamic order) are simulated by tarry simulate on the same seconds.
Gossip is simulated here (bench/gossip_model.py, which needs NumPy): D-PSGD, SGP and AD-PSGD on logistic regression. Each
method has the rate with which the slowest of other seeds is the fastest, and D-PSGD and SGP mix before gradients are there or after
the step, whichever is faster. Communication takes no time. The tables are those of docs/gossip.md.
"""

import argparse
import collections
import ctypes
import functools
import os
import sys

import markdown
import runner

try:
    import gossip_model as model
    import numpy as np
except ImportError:
    model = None

WORKERS = 32
TARGET = 0.01
PIECES = 16
REPLICATION = 3
CASES = {"alike": False, "sorted": True}  # whether shards are sorted by label
REGIMES = (
    ("10 % jitter", "jitter:0.1"),
    ("2 of 32 are 10 times slower", "jitter:0.1+slow:2,10"),
    ("9 % are 10 times slower, for 5 rounds", "jitter:0.1+markov:0.02,0.2,10"),
    ("exponential", "exp:1"),
)
Size = collections.namedtuple("Size", "seeds tuning rates steps regimes")
FULL = Size(range(1, 11), range(101, 109), [2 ** (power / 2) for power in range(-2, 9)], 600, REGIMES)
QUICK = Size(range(1, 4), range(101, 103), [2 ** power for power in range(0, 4)], 300, REGIMES[1:3])

WAITING, TARRY = "all-reduce that waits for all", "Tarry, dynamic order"
GOSSIP = (  # title, graph, whether workers wait
    ("D-PSGD, ring", "ring", True),
    ("D-PSGD, torus", "torus", True),
    ("D-PSGD, random 4-regular", "regular", True),
    ("SGP, one peer", "one-peer", True),
    ("AD-PSGD, any peer", "bipartite", False),
)
HEADER = ["stragglers", "method", "rate", "steps", "consensus error", "mean model", "over Tarry", "worst worker", "over Tarry's"]


class Stragglers:
    """What workers take, as libtarry draws it."""

    def __init__(self, tarry):
        try:
            self.library = ctypes.CDLL(os.path.abspath(tarry.program("src/libtarry.so", "library")))
        except OSError as error:
            raise runner.Missing(str(error)) from None
        time = self.library.tarry_straggler_time_ns
        time.restype = ctypes.c_uint64
        time.argtypes = [ctypes.c_void_p, ctypes.c_uint64, *[ctypes.c_uint32] * 4, ctypes.c_uint64]
        self.library.tarry_straggler_adds.restype = ctypes.c_bool
        self.library.tarry_straggler_adds.argtypes = self.library.tarry_straggler_free.argtypes = [ctypes.c_void_p]
        self.library.tarry_straggler_create.argtypes = [ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint64,
                                                        *[ctypes.c_void_p] * 3]

    @functools.lru_cache(None)
    def seconds(self, spec, seed, rounds):
        """Of a chunk, which takes 1 s by itself (round, worker)."""
        made = ctypes.c_void_p()
        if self.library.tarry_straggler_create(spec.encode(), WORKERS, seed, None, ctypes.byref(made), None) != 0:
            raise runner.Failed(f"straggler {spec}")
        base = 0 if self.library.tarry_straggler_adds(made) else 10 ** 9
        drawn = np.array([[self.library.tarry_straggler_time_ns(made, place, worker, 0, worker, 1, base)
                           for worker in range(WORKERS)] for place in range(rounds)]) / 1e9
        self.library.tarry_straggler_free(made)
        return drawn


def balanced(seconds):
    """The mean over rounds of the time in which all workers together do one round's work."""
    return (seconds.shape[1] / (1 / seconds).sum(axis=1)).mean()


def exact_ends(tarry, seconds):
    """When the rounds of exact sums end, on these seconds (round, worker): (waiting for all, Tarry), which begin with 0."""
    path = os.path.join(tarry.folder.name, "gossip.csv")
    with open(path, "w") as file:
        print("step,worker,chunk,seconds", file=file)
        for step, row in enumerate(seconds):
            for worker, taken in enumerate(row):
                for place in range(REPLICATION):
                    print(f"{step},{worker},{place},{taken:.9f}", file=file)
    rounds, workers = seconds.shape
    rows = tarry.report("--workers", workers, "--chunks", workers, "--trials", 1, "--rounds", rounds, "--straggler",
                        f"trace:{path}", "--scheme", f"uncoded,tarry:replication={REPLICATION},pieces={PIECES}",
                        command="simulate")["results"]
    waiting, own = ([each["seconds"] for each in row["rounds"]] for row in rows)
    if not np.allclose(waiting, seconds.max(axis=1), rtol=1e-6):  # traces are kept as floats
        raise runner.Failed("what uncoded rounds take in the simulation is not the slowest worker's time")
    return [np.concatenate([[0], np.cumsum(each)]) for each in (waiting, own)]


class Outcome:
    """Of one measure over seeds: steps and times to the target, None if no rate reached it in tuning."""

    def __init__(self, rate, steps, times, consensus):
        self.rate, self.steps, self.times, self.consensus = rate, steps, times, consensus

    def time(self, unit):
        found = np.isfinite(self.times)
        if not found.all():
            return f"{found.sum()} of {len(found)} seeds"
        return spread(self.times / unit)

    def ratio(self, other):
        return spread(self.times / other.times, 2) if np.isfinite(self.times).all() else "-"


def spread(values, places=1):
    """Mean and standard error."""
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.{places}f} ± {error:.{places}f}"


class Case:
    """All methods on one kind of shards."""

    def __init__(self, tarry, size, stragglers, sorted_shards):
        self.tarry, self.size, self.stragglers = tarry, size, stragglers
        self.tuning, self.test = (model.Problem(list(seeds), WORKERS, sorted_shards) for seeds in (size.tuning, size.seeds))
        self.ahead = 0  # by which share the average worker was ahead of the last one, at most

    def seconds(self, spec, problem):
        return [self.stragglers.seconds(spec, seed, self.size.steps) for seed in problem.seeds]

    def raced(self, train, measures):
        """Of a function of (problem, rates, watch): (rate, steps of the tuning seeds, of the test's, consensus) by measure, None
        where no rate reaches the target with all tuning seeds."""
        rates = self.size.rates
        watch = model.Watch(self.tuning, [[measure in measures] * len(rates) for measure in (0, 1)], TARGET, race=True, each=4)
        train(self.tuning, rates, watch)
        best = {}
        for measure in measures:
            slowest = watch.steps[measure].max(axis=0)
            if np.isfinite(slowest.min()):
                best[measure] = int(slowest.argmin())
        if not best:
            return {}
        test = model.Watch(self.test, [[each == measure for each in best] for measure in (0, 1)], TARGET)
        train(self.test, [rates[place] for place in best.values()], test)
        return {measure: (rates[place], watch.steps[measure, :, place], test.steps[measure, :, column],
                          test.consensus[measure, :, column]) for column, (measure, place) in enumerate(best.items())}

    @functools.lru_cache(None)
    def of_graph(self, graph, overlap):
        def train(problem, rates, watch):
            weights = model.mixing(graph, WORKERS, problem.seeds)
            model.synchronous(problem, weights, overlap, rates, self.size.steps, watch)

        return self.raced(train, [model.MEAN] if graph == "complete" else [model.MEAN, model.WORST])

    @functools.lru_cache(None)
    def ends(self, spec, problem, graph, overlap):
        """When steps of a synchronous method end, by seed: of the last worker, of the average one."""
        weights = model.mixing(graph, WORKERS, problem.seeds)
        return [model.ends(seconds, weights[:, place], overlap)
                for place, seconds in enumerate(self.seconds(spec, problem))]

    def waiting(self, spec, graph, measure):
        """D-PSGD and SGP, by the order that is faster with the tuning seeds."""
        best = None
        for overlap in (True, False):
            found = self.of_graph(graph, overlap).get(measure)
            if found is not None:
                ends = self.ends(spec, self.tuning, graph, overlap)
                time = np.mean([last[int(step)] for step, (last, _) in zip(found[1], ends)])
                if best is None or time < best[0]:
                    best = time, overlap, found
        if best is None:
            return None
        _, overlap, (rate, _, steps, consensus) = best
        times = np.full(len(steps), np.inf)
        for place, (last, average) in enumerate(self.ends(spec, self.test, graph, overlap)):
            if np.isfinite(steps[place]):
                times[place] = last[int(steps[place])]
                self.ahead = max(self.ahead, 1 - average[int(steps[place])] / times[place])
        return Outcome(f"{rate:.3g}{', overlapped' * overlap}", steps, times, consensus)

    def pairs(self, spec, graph):
        """AD-PSGD, by measure."""
        near = model.neighbours(graph, WORKERS)
        whens = {}

        def train(problem, rates, watch):
            plans = [model.schedule(seconds, self.size.steps * WORKERS) for seconds in self.seconds(spec, problem)]
            peers = [model.draw_peers(who, near, seed) for (who, _), seed in zip(plans, problem.seeds)]
            whens[problem] = [when for _, when in plans]
            model.asynchronous(problem, np.array([who for who, _ in plans]), np.array(peers), rates, watch)

        outcomes = {}
        for measure, (rate, _, steps, consensus) in self.raced(train, [model.MEAN, model.WORST]).items():
            times = np.array([when[int(step) * WORKERS - 1] if np.isfinite(step) else np.inf
                              for step, when in zip(steps, whens[self.test])])
            outcomes[measure] = Outcome(f"{rate:.3g}", steps, times, consensus)
        return outcomes

    def exact(self, spec):
        """The two exact sums: (waiting for all, Tarry)."""
        rate, _, steps, consensus = self.of_graph("complete", False)[model.MEAN]
        rounds = int(steps.max())
        ends = [exact_ends(self.tarry, seconds[:rounds]) for seconds in self.seconds(spec, self.test)]
        return [Outcome(f"{rate:.3g}", steps, np.array([both[which][int(step)] for step, both in zip(steps, ends)]), consensus)
                for which in (0, 1)]

    def rows(self):
        for name, spec in self.size.regimes:
            unit = np.mean([balanced(seconds) for seconds in self.seconds(spec, self.test)])
            waiting, own = self.exact(spec)
            for title, outcome in ((TARRY, own), (WAITING, waiting)):
                yield row(name, title, outcome, outcome, own, unit)
                name = ""
            for title, graph, waits in GOSSIP:
                found = ({measure: self.waiting(spec, graph, measure) for measure in (model.MEAN, model.WORST)}
                         if waits else self.pairs(spec, graph))
                yield row(name, title, found.get(model.MEAN), found.get(model.WORST), own, unit)


def row(name, title, mean, worst, own, unit):
    """Rate, steps and consensus error are those of the mean model."""
    cells = [name, title]
    cells += [mean.rate, f"{mean.steps.mean():.0f}" if np.isfinite(mean.steps).all() else "-",
              f"{np.nanmean(mean.consensus):.2f}"] if mean else ["-"] * 3
    for outcome in (mean, worst):
        cells += [outcome.time(unit), outcome.ratio(own)] if outcome else ["never", "-"]
    return cells


def table(tarry, case, size=FULL):
    """The header and rows for one kind of shards, and by which share the average worker of D-PSGD and SGP was ahead at most."""
    if model is None:
        raise runner.Missing("no NumPy")
    found = Case(tarry, size, Stragglers(tarry), CASES[case])
    rows = list(found.rows())
    return HEADER, rows, found.ahead


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tarry", metavar="TARRY")
    parser.add_argument("--quick", action="store_true", help="fewer seeds, rates and stragglers: a look, and not the page's figures")
    parser.add_argument("--data", choices=CASES, help="this kind of shards alone")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    tarry = runner.Runner(options.tarry, None)
    try:
        for case in [options.data] if options.data else CASES:
            header, rows, ahead = table(tarry, case, size)
            print(f"Shards: {case}. {WORKERS} workers, loss within {TARGET:.0%} of the optimum, in balanced rounds.\n")
            print("\n".join(markdown.table(header, rows)))
            print(f"\nmean ± standard error over {len(size.seeds)} seeds ({size.seeds[0]} to {size.seeds[-1]}), tuned with seeds "
                  f"{size.tuning[0]} to {size.tuning[-1]}; never: within {size.steps} steps at no rate; the average worker of D-PSGD and "
                  f"SGP was at most {ahead:.1%} ahead of the last\n", flush=True)
    except (runner.Failed, runner.Missing) as failed:
        sys.exit(str(failed))


if __name__ == "__main__":
    main()
