#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the model of gossip averaging (bench/gossip_model.py) to what is known of it.

    gossip.py SOURCE_ROOT TARRY     one line per fault, exit status 1 if there is any; skipped (77) without NumPy

Random numbers are of the seed TARRY_TEST_SEED (1).
"""

import os
import pathlib
import sys

try:
    import numpy as np
except ImportError:
    print("skipped: no NumPy")
    sys.exit(77)

SEED = int(os.environ.get("TARRY_TEST_SEED", "1"))
WORKERS = 16
GRAPHS = ("ring", "torus", "regular", "one-peer", "complete")


def check(good, what):
    if not good:
        yield f"{what} (seed {SEED})"


def matrices():
    """Rows and columns add up to 1, nothing is negative, and undirected graphs are symmetric and connected."""
    for graph in GRAPHS:
        for weights in model.mixing(graph, WORKERS, [SEED])[:, 0]:
            yield from check(np.allclose(weights.sum(axis=0), 1) and np.allclose(weights.sum(axis=1), 1) and weights.min() >= -1e-15,
                             f"{graph}: not doubly stochastic")
            yield from check(graph == "one-peer" or np.allclose(weights, weights.T), f"{graph}: not symmetric")
    near = model.neighbours("ring", WORKERS)
    for worker in range(2, WORKERS - 1):  # degrees that differ
        near[0].add(worker)
        near[worker].add(0)
    weights = model.metropolis(near)
    yield from check(np.allclose(weights.sum(axis=0), 1) and np.allclose(weights, weights.T) and weights.min() >= -1e-15,
                     "degrees that differ: not doubly stochastic")
    for graph, degree in (("ring", 2), ("torus", 4), ("regular", 4)):
        near = model.neighbours(graph, WORKERS, np.random.RandomState(SEED))
        yield from check(all(len(its) == degree for its in near) and model.is_connected(near), f"{graph}: its neighbours")


def rates():
    """Gossip alone: models come together by the second largest eigenvalue's size in each step, and their mean stays."""
    for graph in ("ring", "torus", "regular"):
        weights = model.mixing(graph, WORKERS, [SEED])[0]
        second = sorted(abs(np.linalg.eigvalsh(weights[0])))[-2]
        models = np.random.RandomState(SEED).standard_normal((1, WORKERS, 1, 5))
        mean = models.mean(axis=1)
        apart = []
        for _ in range(200 if graph == "ring" else 20):
            models = model.mixed(weights, models)
            apart.append(np.linalg.norm(models - models.mean(axis=1, keepdims=True)))
        yield from check(np.allclose(models.mean(axis=1), mean), f"{graph}: the mean moves")
        yield from check(all(after <= before * (second + 1e-9) for before, after in zip(apart, apart[1:])),
                         f"{graph}: slower than its spectral gap")
        if graph == "ring":  # 1/3 + 2/3 cos(2 pi / n): each of three has a third
            yield from check(np.isclose(second, (1 + 2 * np.cos(2 * np.pi / WORKERS)) / 3), "ring: its second eigenvalue")
            yield from check(abs(apart[-1] / apart[-2] - second) < 1e-3, "ring: faster than its spectral gap")
    models = np.random.RandomState(SEED).standard_normal((1, WORKERS, 1, 5))
    mean = models.mean(axis=1, keepdims=True)
    for weights in model.mixing("one-peer", WORKERS, [SEED]):
        models = model.mixed(weights, models)
    yield from check(np.allclose(models, mean), "one-peer: no mean after log2 of the workers' steps")


def optimum():
    """No gradient is left at the optimum, and losses in single precision are those in double."""
    for is_sorted in (False, True):
        problem = model.Problem([SEED], WORKERS, is_sorted)
        left = model.gradients(problem.features.reshape(-1, model.FEATURES), problem.signs.reshape(-1), problem.optimum[None])
        yield from check(np.abs(left).max() < 1e-12, "a gradient at the optimum")
        near = problem.optimum + np.random.RandomState(SEED).standard_normal((20, model.FEATURES)) / 10
        gaps = [(problem.loss(each) - problem.least) / (problem.first - problem.least) for each in near]
        yield from check(min(gaps) > 0 and np.allclose(problem.gaps(near), gaps, rtol=0, atol=1e-6), "gaps")


def synchronous_sgd():
    """D-PSGD on the complete graph takes the steps of SGD on all batches together."""
    problem = model.Problem([SEED, SEED + 1], WORKERS, True)
    steps, rate = 30, 2.0
    watch = model.Watch(problem, [[True], [False]], -np.inf)
    found = model.synchronous(problem, model.mixing("complete", WORKERS, problem.seeds), False, [rate], steps, watch)
    batches = problem.batches(steps)
    for place in range(2):
        parameters = np.zeros(model.FEATURES)
        for step in range(steps):
            total = np.zeros(model.FEATURES)
            for worker in range(WORKERS):
                shard = problem.places[place, worker]
                for sample in batches[step, place, worker]:
                    vector, sign = problem.features[shard, sample], problem.signs[shard, sample]
                    total -= sign * vector / (1 + np.exp(sign * (vector @ parameters)))
            parameters = parameters - rate * (total / (WORKERS * model.BATCH) + model.L2 * parameters)
        yield from check(np.allclose(found[place, :, 0], parameters, rtol=0, atol=1e-12), "the complete graph is not synchronous SGD")


def pairs():
    """AD-PSGD: gradients end in the order of their times, peers are neighbours, and events do what a serial loop does."""
    problem = model.Problem([SEED], WORKERS, False)
    seconds = np.random.RandomState(SEED).exponential(size=(50, WORKERS))
    who, when = model.schedule(seconds, 20 * WORKERS)
    ends = sorted((time, worker) for worker in range(WORKERS) for time in np.cumsum(np.tile(seconds, (2, 1))[:, worker]))
    yield from check(np.allclose([time for time, _ in ends][:len(when)], when) and [worker for _, worker in ends][:len(who)] == list(who),
                     "AD-PSGD: who ends when")
    near = model.neighbours("bipartite", WORKERS)
    peers = model.draw_peers(who, near, SEED)
    yield from check(all((one + other) % 2 == 1 for one, other in zip(who, peers)), "AD-PSGD: a peer of the same half")
    watch = model.Watch(problem, [[True], [False]], -np.inf)
    rate = 0.5
    found = model.asynchronous(problem, who[None], peers[None], [rate], watch)[0, :, 0]
    models = [np.zeros(model.FEATURES) for _ in range(WORKERS)]
    begun, taken, batches = list(models), [0] * WORKERS, problem.batches(50)
    for worker, peer in zip(who, peers):
        shard, batch = problem.places[0, worker], batches[taken[worker], 0, worker]
        taken[worker] += 1
        move = rate * model.gradients(problem.features[shard, batch], problem.signs[shard, batch], begun[worker][None])[0]
        models[peer] = (models[worker] + models[peer]) / 2
        models[worker] = begun[worker] = models[peer] - move
    yield from check(np.allclose(found, models, rtol=0, atol=1e-12), "AD-PSGD: not what one event after the other gives")


def times():
    """Steps end by the slowest on the complete graph; otherwise by what each worker waits for, found one by one."""
    seconds = np.random.RandomState(SEED).exponential(size=(20, WORKERS))
    complete = model.mixing("complete", WORKERS, [SEED])[:, 0]
    yield from check(np.allclose(model.ends(seconds, complete, False)[0][1:], np.cumsum(seconds.max(axis=1))),
                     "the complete graph does not wait for all")
    for graph in ("ring", "one-peer"):
        weights = model.mixing(graph, WORKERS, [SEED])[:, 0]
        for overlap in (False, True):
            begun = [[0.0] * WORKERS]
            for step, row in enumerate(seconds):
                awaited = [[other for other in range(WORKERS) if weights[step % len(weights)][worker, other] > 0]
                           for worker in range(WORKERS)]
                begun.append([max([begun[-1][worker] + row[worker]]
                                  + [begun[-1][other] + (0 if overlap else row[other]) for other in awaited[worker]])
                              for worker in range(WORKERS)])
            last, average = model.ends(seconds, weights, overlap)
            yield from check(np.allclose(last, [max(row) for row in begun]) and np.allclose(average, np.mean(begun, axis=1)),
                             f"{graph}, overlap {overlap}: when steps end")


def exact_sums(tarry):
    """Rounds that tarry simulate gives for seconds: a sum that waits takes the slowest worker's, Tarry the balanced time or more."""
    seconds = 1 + np.random.RandomState(SEED).exponential(size=(5, WORKERS))
    waiting, own = gossip.exact_ends(runner.Runner(tarry, None), seconds)
    least = np.concatenate([[0], np.cumsum(WORKERS / (1 / seconds).sum(axis=1))])
    yield from check(np.allclose(waiting[1:], np.cumsum(seconds.max(axis=1)), rtol=1e-6), "what waiting for all takes")
    yield from check((own >= least * (1 - 1e-6)).all() and (own <= least * 1.3).all(), "what Tarry takes")


def main(tarry):
    found = [fault for faults in (matrices(), rates(), optimum(), synchronous_sgd(), pairs(), times(), exact_sums(tarry))
             for fault in faults]
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "bench"))
    import gossip
    import gossip_model as model
    import runner

    sys.exit(main(sys.argv[2]))
