#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a learned scheduler could gain over Tarry's dynamic order: two tables of docs/dynamic.md.

Usage: bench/learned.py TARRY [--quick] [--jobs N]

For each of ten regimes, an evolution strategy trains the policy of bench/schedules.py, which makes the decisions of Tarry's
steering by what the steering knows. The policy, the steering and the clairvoyant bound then meet the same rounds, which no
training has seen. TARRY is the binary (an optimised build); NumPy is needed. --quick is a small form, for a look.
"""

import argparse
import concurrent.futures
import json
import math
import os
import sys
import time
import types

import markdown
import runner

try:
    import numpy
    import schedules
except ImportError:
    numpy = None

REPLICATION = 3
ROUNDS = 3  # of an episode; workers stay, and so does what a scheduler remembers
SEED = 1
FULL = types.SimpleNamespace(workers=24, pieces=16, pairs=8, instances=6, generations=14, episodes=40)
QUICK = types.SimpleNamespace(workers=16, pieces=8, pairs=6, instances=4, generations=5, episodes=12)
# What one deviation of the search is, by the names of schedules.NAMES.
SCALE = {"past": 2, "prior": 1, "overdue": 0.25, "doubt": 0.25, "take": 0.25, "duplicate": 0.25, "give": 0.25, "alone": 1}
TRAIN, JUDGE, TEST = 1, 2, 3  # what an episode is for: seeds never meet


# ---- regimes ----

def exponential(draw, *shape):
    return draw.exponential(size=shape)


def jitter(draw, deviation, *shape):
    return numpy.maximum(0, 1 + deviation * draw.normal(size=shape))


def slow_for_good(draw, workers, _):
    factor = numpy.ones(workers)
    factor[draw.permutation(workers)[:workers // 8]] = 10
    return (factor * jitter(draw, 0.1, workers))[None, :, None]


def markov(draw, workers, _):
    slow, rounds = draw.uniform(size=workers) < 0.25, []
    for _ in range(ROUNDS):
        rounds.append(numpy.where(slow, 5, 1))
        lot = draw.uniform(size=workers)
        slow = numpy.where(slow, lot >= 0.3, lot < 0.1)
    return numpy.array(rounds)[:, :, None] * jitter(draw, 0.1, ROUNDS, workers, 1)


def racks(draw, workers, _):
    hit = numpy.where(draw.uniform(size=(ROUNDS, workers // 8)) < 0.25, 5, 1)
    return numpy.repeat(hit, 8, axis=1)[:, :, None] * jitter(draw, 0.1, ROUNDS, workers, 1)


# By SPEC: seconds of a worker's chunk by round, worker and piece; an axis of length 1 holds for all.
REGIMES = {
    "jitter:0.1": lambda draw, m, load: jitter(draw, 0.1, ROUNDS, m, 1),
    "jitter:0.1/run+slow:M/8,10": slow_for_good,
    "shifted-exp:1,1": lambda draw, m, load: 1 + exponential(draw, ROUNDS, m, 1),
    "exp:1": lambda draw, m, load: exponential(draw, ROUNDS, m, 1),
    "exp:1/run": lambda draw, m, load: exponential(draw, 1, m, 1),
    "pareto:1,1.5": lambda draw, m, load: numpy.exp(exponential(draw, ROUNDS, m, 1) / 1.5),
    "weibull:1,0.5": lambda draw, m, load: exponential(draw, ROUNDS, m, 1) ** 2,
    "markov:0.1,0.3,5+jitter:0.1": markov,
    "rack:8,5,0.25+jitter:0.1": racks,
    "shifted-exp:1,1/run+exp:0.3/chunk": lambda draw, m, load: 1 + exponential(draw, 1, m, 1)
                                                               + 0.3 * exponential(draw, ROUNDS, m, load),
}


def episode(regime, size, purpose, number):
    """Seconds of each piece by round, worker and place in the worker's order, as a trace holds them: float32."""
    draw = numpy.random.RandomState([SEED, list(REGIMES).index(regime), purpose, number])
    load = size.pieces * REPLICATION
    seconds = REGIMES[regime](draw, size.workers, load) / size.pieces
    return numpy.broadcast_to(seconds, (ROUNDS, size.workers, load)).astype(numpy.float32)


def episodes(regime, size, purpose, first, count):
    """Nanoseconds by episode, round, worker and place."""
    seconds = [episode(regime, size, purpose, first + number) for number in range(count)]
    return numpy.rint(numpy.array(seconds, dtype=float) * 1e9)


# ---- the policy ----

def play(plan, policies, times):
    """Each policy in each episode: ns by policy, episode and round."""
    policies, count = numpy.asarray(policies), len(times)
    worlds = schedules.Worlds(plan, numpy.repeat(policies, count, axis=0))
    taken = [worlds.play(numpy.tile(times[:, number], (len(policies), 1, 1))) for number in range(times.shape[1])]
    return numpy.stack(taken, axis=1).reshape(len(policies), count, -1)


def policy(at):
    """The policy at a place of the search, in deviations from Tarry's."""
    return schedules.STEERING + at * numpy.array([SCALE[name] for name in schedules.NAMES])


def train(plan, regime, size):
    """An evolution strategy with mirrored samples and centred ranks, which estimates the gradient of the mean log time."""
    draw = numpy.random.RandomState([SEED, list(REGIMES).index(regime)])  # whose numbers are the same in any release
    at, past = numpy.zeros(len(SCALE)), []
    for generation in range(size.generations):
        deviation = 1 - generation / (2 * size.generations)
        # Multiples of 2^-8: sums of these are exact, so that no library's order of summing changes what is learned.
        steps = numpy.rint(draw.normal(size=(size.pairs, len(SCALE))) * deviation * 256) / 256
        times = episodes(regime, size, TRAIN, generation * size.instances, size.instances)
        tried = [policy(at + sign * step) for sign in (1, -1) for step in steps]
        cost = numpy.log(play(plan, tried, times)).mean(axis=(1, 2))
        rank = numpy.argsort(numpy.argsort(-numpy.round(cost, 12), kind="stable"), kind="stable")
        worth = rank[:size.pairs] - rank[size.pairs:]  # of each step and against its mirrored one
        at = numpy.rint((at + (worth[:, None] * steps).sum(axis=0) / (size.pairs * size.pairs)) * 256) / 256
        past.append(at)
    return past


def choose(plan, regime, size, past):
    """Of Tarry's policy, the last one and the mean of the last half, the one that is best in episodes of their own."""
    late = numpy.array(past[len(past) // 2:])
    tried = [schedules.STEERING, policy(past[-1]), policy(numpy.rint(late.mean(axis=0) * 256) / 256)]
    times = episodes(regime, size, JUDGE, 0, size.episodes)
    return tried[numpy.log(play(plan, tried, times)).mean(axis=(1, 2)).argmin()]


def learn(assignment, regime, size):
    """The learned policy; the ns of Tarry's policy and of the learned one in the episodes of the test."""
    plan = schedules.Plan(assignment, size.workers * size.pieces)
    learned = choose(plan, regime, size, train(plan, regime, size))
    times = episodes(regime, size, TEST, 0, size.episodes)
    return learned, play(plan, [schedules.STEERING, learned], times)


# ---- Tarry ----

def shape(size):
    """Pieces are chunks of the plan here, so that a trace has seconds for each."""
    return ["--workers", size.workers, "--chunks", size.workers * size.pieces, "--pieces", 1, "--replication", REPLICATION]


def assignment_of(tarry, size):
    shown = tarry.ended_well("plan", *shape(size), "--order", "optimal", "--json", "--show")
    return json.loads(shown.stdout)["assignment"]


def write_trace(path, seconds):
    with open(path, "w") as file:
        print("step,worker,chunk,seconds", file=file)
        for step, workers in enumerate(seconds.tolist()):
            for worker, held in enumerate(workers):
                file.writelines(f"{step},{worker},{place},{time:.9g}\n" for place, time in enumerate(held))


def simulated(tarry, regime, size, scheme="tarry:costs=equal"):
    """Rounds of Tarry in the episodes of the test: ns, clairvoyant and balanced ns by episode and round."""
    rows = []
    for number in range(size.episodes):
        path = os.path.join(tarry.folder.name, "episode.csv")
        write_trace(path, episode(regime, size, TEST, number))
        report = tarry.report(*shape(size), "--trials", 1, "--rounds", ROUNDS, "--scheme", scheme, "--straggler",
                              f"trace:{path}", command="simulate")
        rounds = report["results"][0]["rounds"]
        rows.append([[row["seconds"] * 1e9 / row.get(ratio, 1) for row in rounds]
                     for ratio in ("", "ratio_to_matched", "ratio_to_balanced")])
    return numpy.array(rows).transpose(1, 0, 2)


# ---- the table ----

def of_episodes(values):
    """Mean over episodes and its standard error; rounds of an episode are not independent."""
    by_episode = values.mean(axis=1)
    return by_episode.mean(), by_episode.std(ddof=1) / math.sqrt(len(by_episode))


def with_error(values):
    mean, error = of_episodes(values)
    return f"{mean:.3f} ± {error:.3f}"


class Case:
    """One regime: ns by episode and round, of Tarry and of what this simulator makes of policies."""

    def __init__(self, regime, tarry, learned):
        self.regime = regime
        self.steering, self.bound, self.balanced = tarry
        self.policy, (self.model, self.learned) = learned

    def left(self):
        """Share of the steering's time that the clairvoyant saves."""
        return 1 - self.bound / self.steering

    def gained(self):
        """Share of the time of Tarry's policy that the learned one saves, in the same simulator."""
        return 1 - self.learned / self.model


def cases(tarry, size=None):
    size = size or FULL
    if numpy is None:
        raise runner.Missing("no NumPy")
    assignment = assignment_of(tarry, size)
    regimes = list(REGIMES)
    with concurrent.futures.ProcessPoolExecutor(int(tarry.jobs or os.cpu_count())) as pool:
        learned = [pool.submit(learn, assignment, regime, size) for regime in regimes]
        for regime, result in zip(regimes, learned):
            yield Case(regime, simulated(tarry, regime, size), result.result())


HEADER = ["regime", "balanced / clairvoyant", "steering / clairvoyant, round 1", "rounds 2, 3",
          "learned / clairvoyant, round 1", "rounds 2, 3", "left to gain, %", "learned gains, %", "steering here / in Tarry"]


def percent(values):
    mean, error = of_episodes(100 * values)
    return f"{round(mean, 1) + 0.0:.1f} ± {error:.1f}"  # not -0.0


def row_of(case):
    first, later = slice(0, 1), slice(1, None)
    return [f"`{case.regime}`", with_error(case.balanced / case.bound),
            *(with_error((ns / case.bound)[:, rounds]) for ns in (case.steering, case.learned) for rounds in (first, later)),
            percent(case.left()), percent(case.gained()), with_error(case.model / case.steering)]


def table(tarry, size=None):
    return HEADER, [row_of(case) for case in cases(tarry, size)]


# Tarry's policy with rules changed that learned policies share. Nothing is trained here.
RULES = {
    "memory of 1/20 piece": {"past": -4.32},
    "no memory": {"past": -30},
    "alone first": {"alone": 1},
    "memory of 1/20 piece, alone first": {"past": -4.32, "alone": 1},
}
RULES_HEADER = ["gains, %", *RULES]


def rules_table(tarry, size=None):
    """What each rule gains over Tarry's policy, in the same episodes as table()."""
    size = size or FULL
    if numpy is None:
        raise runner.Missing("no NumPy")
    plan, rows = schedules.Plan(assignment_of(tarry, size), size.workers * size.pieces), []
    policies = [schedules.changed(**values) for values in ({}, *RULES.values())]
    for regime in REGIMES:
        model, *others = play(plan, policies, episodes(regime, size, TEST, 0, size.episodes))
        rows.append([f"`{regime}`", *(percent(1 - taken / model) for taken in others)])
    return RULES_HEADER, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tarry", metavar="TARRY")
    parser.add_argument("--quick", action="store_true", help="fewer workers, pieces, episodes and generations")
    parser.add_argument("--jobs", metavar="N", help="regimes at the same time (default: the machine's cores)")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    tarry = runner.Runner(options.tarry, "", jobs=options.jobs)
    print("\n".join(markdown.table(HEADER, [])))
    try:
        for case in cases(tarry, size):
            print(markdown.line_of(row_of(case)), flush=True)
            named = ", ".join(f"{name} {value:.2f}" for name, value in zip(schedules.NAMES, case.policy))
            print(f"{case.regime}: {named}", file=sys.stderr)
        print()
        print("\n".join(markdown.table(*rules_table(tarry, size))))
    except (runner.Failed, runner.Missing) as failed:
        sys.exit(str(failed))
    rounds = size.generations * size.pairs * 2 * size.instances * ROUNDS
    spent = runner.processor_seconds() + time.process_time()
    print(f"seed {SEED}, {rounds:,} rounds of training for each regime, {spent:.0f} s of processor time", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
