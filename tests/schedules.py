#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the simulator of bench/schedules.py to small cases whose outcome is known, and to `tarry simulate`.

    schedules.py SOURCE_ROOT TARRY   one line per fault, exit status 1 if there is any; 77 without NumPy
"""

import itertools
import os
import pathlib
import sys
import types

SEED = int(os.environ.get("TARRY_TEST_SEED", "1"))


def best(plan, seconds):
    """The least time of any choice of a holder for each piece, by trying all; every worker takes its time for each."""
    return min(max(chosen.count(worker) * seconds[worker] for worker in range(plan.workers))
               for chosen in itertools.product(*plan.holders.tolist()))


def played(plan, seconds, rounds, policy=None):
    """Times of rounds. Each worker takes `seconds` for each piece, or its row of them by place."""
    worlds = schedules.Worlds(plan, [schedules.STEERING if policy is None else policy])
    times = numpy.broadcast_to(numpy.array(seconds, dtype=float).reshape(plan.workers, -1), (1, plan.workers, plan.load))
    return [worlds.play(times)[0] for _ in range(rounds)], worlds


def known_speeds():
    """Once the speeds are known, a round takes the least time that there is. All workers finish a piece in the first round:
    of one that does not, Tarry knows only that it is slow."""
    ring = schedules.Plan([[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 0, 1]], 6)
    pair = schedules.Plan([[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]], 6)
    draw = numpy.random.RandomState(SEED)
    cases = [(ring, [1000, 1000, 1000]), (ring, [1000, 1500, 1900]), (pair, [1000, 2000]), (pair, [1000, 50000])]
    cases += [(plan, draw.randint(1000, 1900, plan.workers).tolist()) for plan in (ring, pair) for _ in range(10)]
    for plan, seconds in cases:
        times, worlds = played(plan, seconds, 4)
        wanted = best(plan, seconds)
        if times[-1] > 1.005 * wanted or min(times) < wanted:
            yield f"seed {SEED}: workers that take {seconds}: {times}, where {wanted} is the least"
        if worlds.reports[0] != plan.pieces:
            yield f"workers that take {seconds}: {worlds.reports[0]} reports of {plan.pieces} pieces"


def duplicates():
    """A piece that takes its worker too long is computed once more elsewhere, unless the policy forbids it."""
    plan = schedules.Plan([[0, 1, 2], [2, 1, 0]], 3)
    times = [[1000, 1000, 1000], [1000, 90000, 1000]]
    found, _ = played(plan, times, 1)
    if not 3000 <= found[0] < 9000:
        yield f"a piece that takes 90 times as long holds the round for {found[0]}"
    alone, _ = played(plan, times, 1, schedules.changed(duplicate=1e6))
    if alone[0] != 90000:
        yield f"without duplicates the round takes {alone[0]}, not 90000"


def forgetting():
    """A policy that forgets has every round like the first; Tarry's has not."""
    plan = schedules.Plan([[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0]], 6)
    forgets, _ = played(plan, [1000, 4400], 3, schedules.changed(past=-30))
    learns, _ = played(plan, [1000, 4400], 3)
    if len(set(forgets)) != 1 or learns[0] != forgets[0] or learns[2] > forgets[2]:
        yield f"rounds of one that forgets take {forgets}, of one that does not {learns}"


def static_order():
    """A round in the plan's order, by hand."""
    plan = schedules.Plan([[0, 1, 2], [2, 0, 1]], 3)
    found = plan.static_ns(numpy.array([[[5., 5., 5.], [1., 2., 30.]]]))
    if found[0] != 10:
        yield f"the static order takes {found[0]}, not 10"


def beside_tarry(tarry):
    """The static order to the nanosecond, the steering within 3 %, on the same draws."""
    size = types.SimpleNamespace(workers=8, pieces=8, episodes=8)
    assignment = learned.assignment_of(tarry, size)
    plan = schedules.Plan(assignment, size.workers * size.pieces)
    for regime in "shifted-exp:1,1", "markov:0.1,0.3,5+jitter:0.1":
        times = learned.episodes(regime, size, learned.TEST, 0, size.episodes)
        twice = learned.play(plan, [schedules.STEERING] * 2, times)
        case = learned.Case(regime, learned.simulated(tarry, regime, size), (None, twice))
        static = learned.simulated(tarry, regime, size, "partial:order=optimal")[0]
        off = abs(static - [plan.static_ns(rounds) for rounds in times]).max()
        if off > 1:
            yield f"{regime}: a static order is off by {off} ns"
        if not numpy.array_equal(case.model, case.learned):
            yield f"{regime}: the same policy has two outcomes"
        if (case.model < case.bound - 1).any() or (case.steering < case.bound - 1).any():
            yield f"{regime}: a round is quicker than the clairvoyant's"
        ratio = (case.model / case.steering).mean()
        if abs(ratio - 1) > 0.03:
            yield f"{regime}: the steering takes {ratio:.3f} times as long here"


def main(_, path):
    tarry = runner.Runner(path, "", jobs=1)
    found = [*known_speeds(), *duplicates(), *forgetting(), *static_order(), *beside_tarry(tarry)]
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "bench"))
    try:
        import numpy
    except ImportError:
        print("no NumPy")
        sys.exit(77)
    import learned
    import runner
    import schedules

    sys.exit(main(*sys.argv[1:]))
