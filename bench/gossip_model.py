# SPDX-License-Identifier: Apache-2.0
"""Decentralised SGD in simulated time: the problem, the graphs, what workers do, and when. Needs NumPy.

All arrays begin with an axis of seeds, which are computed side by side; models have the axes seed, worker, rate, parameter.

D-PSGD: X. Lian et al., Can decentralized algorithms outperform centralized algorithms?, NeurIPS 2017, algorithm 1.
SGP: M. Assran et al., Stochastic gradient push for distributed deep learning, ICML 2019; one peer per step.
AD-PSGD: X. Lian et al., Asynchronous decentralized parallel stochastic gradient descent, ICML 2018, algorithm 1.
"""

import heapq

import numpy as np

FEATURES = 20  # the last one is always 1
DATA_SEED = 1
SAMPLES = 64  # of a worker
BATCH = 32  # samples of a worker's gradient
L2 = 1e-3
SMALLEST = 0.2  # standard deviation of the last feature but one; that of the first is 1
STEEPNESS = 3  # standard deviation of the margins that labels are drawn by
MEAN, WORST = 0, 1


class Problem:
    """Logistic regression with an l2 term on one set of data; seeds draw batches and which worker has which shard.

    `sorted_shards`: shards are cut from the samples sorted by label, so that nearly all have one label.
    """

    def __init__(self, seeds, workers, sorted_shards):
        self.seeds, self.workers = seeds, workers
        draw = np.random.RandomState(DATA_SEED)
        count = workers * SAMPLES
        alike = draw.standard_normal((count, FEATURES - 1))
        direction = draw.standard_normal(FEATURES - 1)
        margins = alike @ direction * (STEEPNESS / np.linalg.norm(direction))
        signs = np.where(draw.random_sample(count) < 1 / (1 + np.exp(-margins)), 1.0, -1.0)
        features = np.column_stack([alike * np.geomspace(1, SMALLEST, FEATURES - 1), np.ones(count)])
        if sorted_shards:
            order = np.argsort(signs, kind="stable")
            features, signs = features[order], signs[order]
        self.features = features.reshape(workers, SAMPLES, FEATURES)
        self.signs = signs.reshape(workers, SAMPLES)
        self.places = np.array([np.random.RandomState(seed).permutation(workers) for seed in seeds])
        self.signed = features * signs[:, None]  # all that the loss takes
        self.single = self.signed.astype(np.float32)
        self.optimum = self.newton()
        self.least, self.first = self.loss(self.optimum), self.loss(np.zeros(FEATURES))

    def loss(self, parameters):
        """Over all samples."""
        return np.logaddexp(0, -self.signed @ parameters).mean() + L2 / 2 * (parameters ** 2).sum()

    def gaps(self, models):
        """Loss over the least one, as a share of what it was at the start, of models (..., parameter); to 1e-6."""
        flat = models.reshape(-1, FEATURES)
        margins = flat.astype(np.float32) @ self.single.T
        np.clip(margins, -80, 80, out=margins)
        losses = np.log(1 + np.exp(-margins)).mean(axis=1, dtype=np.float64) + L2 / 2 * (flat ** 2).sum(axis=1)
        return ((losses - self.least) / (self.first - self.least)).reshape(models.shape[:-1])

    def newton(self):
        parameters = np.zeros(FEATURES)
        for _ in range(30):
            chance = 1 / (1 + np.exp(self.signed @ parameters))
            gradient = L2 * parameters - chance @ self.signed / len(self.signed)
            hessian = (self.signed.T * (chance * (1 - chance))) @ self.signed / len(self.signed) + L2 * np.eye(FEATURES)
            parameters = parameters - np.linalg.solve(hessian, gradient)
        return parameters

    def batches(self, steps):
        """Which samples each worker takes in each step: (step, seed, worker, sample)."""
        drawn = [np.random.RandomState(seed + 1_000_000).randint(SAMPLES, size=(steps, self.workers, BATCH))
                 for seed in self.seeds]
        return np.stack(drawn, axis=1)


def gradients(features, signs, models):
    """Of the samples (..., sample, parameter) and their signs, at models (..., rate, parameter)."""
    margins = features @ np.swapaxes(models, -1, -2) * signs[..., None]
    slopes = signs[..., None] / (1 + np.exp(np.clip(margins, -500, 500)))
    return L2 * models - np.swapaxes(slopes, -1, -2) @ features / signs.shape[-1]


def neighbours(graph, workers, draw=None):
    """The edges of an undirected graph: a list of sets."""
    near = [set() for _ in range(workers)]

    def join(one, other):
        near[one].add(other)
        near[other].add(one)

    if graph == "ring":
        for worker in range(workers):
            join(worker, (worker + 1) % workers)
    elif graph == "torus":
        wide = next(width for width in range(int(workers ** 0.5), 0, -1) if workers % width == 0)
        for worker in range(workers):
            row, column = divmod(worker, wide)
            join(worker, row * wide + (column + 1) % wide)
            join(worker, (worker + wide) % workers)
    elif graph == "regular":
        near = regular(workers, 4, draw)
    elif graph == "complete":
        near = [set(range(workers)) - {worker} for worker in range(workers)]
    elif graph == "bipartite":  # each with all of the other half: no two pairs wait for each other
        near = [set(range((worker + 1) % 2, workers, 2)) for worker in range(workers)]
    else:
        raise ValueError(graph)
    return near


def regular(workers, degree, draw):
    """A random regular graph: pairs of stubs, drawn until they make a simple and connected one."""
    while True:
        stubs = draw.permutation(np.repeat(np.arange(workers), degree)).reshape(-1, 2)
        near = [set() for _ in range(workers)]
        for one, other in stubs:
            near[one].add(int(other))
            near[other].add(int(one))
        simple = all(len(its) == degree and worker not in its for worker, its in enumerate(near))
        if simple and is_connected(near):
            return near


def is_connected(near):
    seen, open_ones = {0}, [0]
    while open_ones:
        found = near[open_ones.pop()] - seen
        seen |= found
        open_ones += found
    return len(seen) == len(near)


def metropolis(near):
    """Metropolis-Hastings weights: 1 / (1 + the larger degree) of each edge, and the rest of a row on its diagonal."""
    weights = np.zeros((len(near), len(near)))
    for worker, its in enumerate(near):
        for other in its:
            weights[worker, other] = 1 / (1 + max(len(its), len(near[other])))
    return weights + np.diag(1 - weights.sum(axis=1))


def one_peer(workers):
    """The matrices of the one-peer exponential graph, by step: half of oneself, half of who is 2^k before. Workers: 2^n."""
    halves = [(np.eye(workers) + np.roll(np.eye(workers), 2 ** hop, axis=0)) / 2 for hop in range(workers.bit_length() - 1)]
    if 2 ** len(halves) != workers:
        raise ValueError(f"workers must be a power of 2, not {workers}")
    return halves


def mixing(graph, workers, seeds):
    """Mixing matrices (step of a period, seed, worker, worker)."""
    if graph == "one-peer":
        return np.stack([np.stack([weights] * len(seeds)) for weights in one_peer(workers)])
    if graph == "complete":
        return np.full((1, len(seeds), workers, workers), 1 / workers)
    return np.stack([metropolis(neighbours(graph, workers, np.random.RandomState(seed + 2_000_000))) for seed in seeds])[None]


def mixed(weights, models):
    """The weighted means that workers make of models (seed, worker, rate, parameter)."""
    return (weights @ models.reshape(*models.shape[:2], -1)).reshape(models.shape)


class Watch:
    """Sees when models come within `target` of the optimum: the mean of the workers' (MEAN), and the worst worker's (WORST).

    `steps` and `consensus` are arrays (measure, seed, rate): the step that reached the target, infinity if none did; and how far
    the workers were apart then: their root mean square distance from their mean, over the mean's distance from the start. `wanted` says
    which measures are looked at for which rates (measure, rate); with `race` only as long as a rate may still be the best one, whose
    slowest seed takes the fewest steps. `each`: steps between two looks at the workers one by one.
    """

    def __init__(self, problem, wanted, target, *, race=False, each=2):
        self.problem, self.target, self.race, self.each = problem, target, race, each
        self.left = np.array(wanted, dtype=bool)
        self.steps = np.full((2, len(problem.seeds), self.left.shape[1]), np.inf)
        self.consensus = np.full(self.steps.shape, np.nan)
        self.columns = np.arange(self.left.shape[1])  # of the models that are given

    def look(self, step, models):
        """Which rates of these models are still to be looked at, as a mask."""
        mean = models.mean(axis=1)
        self.note(MEAN, step, models, mean, self.problem.gaps(mean))
        if step % self.each == 0:
            # No worst worker is within the target before the mean is: the loss is convex.
            some = self.left[WORST, self.columns] & np.isfinite(self.steps[MEAN][:, self.columns]).any(axis=0)
            if some.any():
                each = models[:, :, some]
                gaps = np.full(mean.shape[:2], np.inf)
                gaps[:, some] = self.problem.gaps(each.reshape(len(each), -1, each.shape[-1])).reshape(each.shape[:3]).max(axis=1)
                self.note(WORST, step, models, mean, gaps)
        for measure in MEAN, WORST:
            reached = np.isfinite(self.steps[measure])
            self.left[measure] &= ~reached.all(axis=0)
            if self.race:
                slowest = np.where(reached, self.steps[measure], step).max(axis=0)
                self.left[measure] &= slowest < np.where(reached.all(axis=0), slowest, np.inf).min()
        keep = self.left[:, self.columns].any(axis=0)
        self.columns = self.columns[keep]
        return keep

    def note(self, measure, step, models, mean, gaps):
        reached = ~np.isfinite(self.steps[measure][:, self.columns]) & (gaps <= self.target)
        if reached.any():
            apart = np.sqrt(((models - mean[:, None]) ** 2).sum(axis=3).mean(axis=1)) / np.linalg.norm(mean, axis=2)
            seeds, places = np.nonzero(reached)
            self.steps[measure, seeds, self.columns[places]] = step
            self.consensus[measure, seeds, self.columns[places]] = apart[reached]


def synchronous(problem, weights, overlap, rates, steps, watch):
    """D-PSGD or SGP: a gradient and a mixture in each step. `overlap`: models are mixed while gradients are computed at those
    before (Lian et al.), otherwise those that have stepped (Assran et al.). Gives the models at the end."""
    models = np.zeros((len(problem.seeds), problem.workers, len(rates), FEATURES))
    batches = problem.batches(steps)
    shards = problem.places[..., None]
    rates = np.asarray(rates)[:, None]
    for step in range(steps):
        place = shards, batches[step]
        moves = rates * gradients(problem.features[place], problem.signs[place], models)
        now = weights[step % len(weights)]
        models = mixed(now, models) - moves if overlap else mixed(now, models - moves)
        keep = watch.look(step + 1, models)
        if not keep.all():
            models, rates = models[:, :, keep], rates[keep]
            if not len(rates):
                break
    return models


def asynchronous(problem, events, peers, rates, watch):
    """AD-PSGD: who ends a gradient averages with a peer, both take the average, and then it steps along the gradient, which is of the
    model that it had when it began. `events` and `peers` are workers (seed, event); a step is as many events as there are workers.
    Gives the models at the end."""
    seeds = np.arange(len(problem.seeds))
    models = np.zeros((len(seeds), problem.workers, len(rates), FEATURES))
    begun = models.copy()
    rates = np.asarray(rates)[:, None]
    taken = np.zeros((len(seeds), problem.workers), dtype=int)
    batches = problem.batches(int(max(np.bincount(row).max() for row in events)))
    for event in range(events.shape[1]):
        worker, peer = events[:, event], peers[:, event]
        place = problem.places[seeds, worker][:, None], batches[taken[seeds, worker], seeds, worker]
        taken[seeds, worker] += 1
        moves = rates * gradients(problem.features[place], problem.signs[place], begun[seeds, worker])
        average = (models[seeds, worker] + models[seeds, peer]) / 2
        models[seeds, peer] = average
        models[seeds, worker] = begun[seeds, worker] = average - moves
        if (event + 1) % problem.workers == 0:
            keep = watch.look((event + 1) // problem.workers, models)
            if not keep.all():
                models, begun, rates = models[:, :, keep], begun[:, :, keep], rates[keep]
                if not len(rates):
                    break
    return models


def ends(seconds, weights, overlap):
    """When the last worker ends each step (step 0: the start) of a synchronous method, whose workers' gradients take `seconds`
    (step, worker); and the same of the average worker. A worker waits for those alone whose models it mixes."""
    near = [matrix > 0 for matrix in weights]
    now = np.zeros(seconds.shape[1])
    last, average = [0.0], [0.0]
    for step, taken in enumerate(seconds):
        done = now + taken
        awaited = np.where(near[step % len(near)], now if overlap else done, 0).max(axis=1)
        now = np.maximum(done, awaited)
        last.append(now.max())
        average.append(now.mean())
    return np.array(last), np.array(average)


def schedule(seconds, count):
    """Whose gradient ends as the first, second ... of `count`, and when, of workers that wait for nobody: (worker, time)."""
    steps, workers = seconds.shape
    queue = [(seconds[0, worker], worker, 0) for worker in range(workers)]
    heapq.heapify(queue)
    who, when = np.empty(count, dtype=int), np.empty(count)
    for event in range(count):
        time, worker, step = queue[0]
        who[event], when[event] = worker, time
        heapq.heapreplace(queue, (time + seconds[(step + 1) % steps, worker], worker, step + 1))
    return who, when


def draw_peers(who, near, seed):
    """A neighbour of each."""
    draw = np.random.RandomState(seed + 3_000_000)
    lists = [sorted(its) for its in near]
    return np.array([lists[worker][int(chance * len(lists[worker]))]
                     for worker, chance in zip(who, draw.random_sample(len(who)))])
