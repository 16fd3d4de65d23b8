# SPDX-License-Identifier: Apache-2.0
"""
Workers of secure sums as a few lines of Python, which can be told to be naive: to leave out one of the things that real
ones insist on. So an attack can be seen to succeed where nothing stands against it, and to fail where all does.

A sample's gradient is two whole numbers; masks come of SHA-256 in the place of AES, and keys of a seed in the place of
X25519. What a worker remembers from one life to the next is a dictionary in the place of its folder.
"""

import hashlib
from dataclasses import dataclass

BITS = 64
MODULUS = 2**BITS
WORKERS, CHUNKS, SAMPLES, DIMENSION = 4, 8, 24, 2
EACH = SAMPLES // CHUNKS
# Behind the numbers of a stripe: how many chunks, how many of their numbers were clamped, and two zeros.
COUNTS, CHUNKS_AT, CLAMPED_AT = 4, -4, -3
COLLUDERS, LEAST = 1, 12
BOUND, CHUNK_SAMPLES = 10**6, 2  # that its owner allows

# What a worker may be naive about: each is one rule left out.
HOLDERS = "masks don't depend on whose copies are summed"
PARAMETERS = "masks don't depend on the parameters"
PLAN = "masks don't depend on the plan"
GRID = "masks don't depend on the grid"
STRIPES = "masks don't depend on the length of stripes"
PLACES = "masks belong to a word's place in its part"
GROUP = "it sends a part to whichever group is named"
OWN = "it sums whichever of its chunks are asked for"
AGAIN = "an attempt may come again"
FORGETS = "which attempts it took part in is forgotten with its life"
SAME_KEY = "its key is the same in each life"
KEYS = "keys need no signature"
SIGNER = "a key that any worker has signed may be another one's"
KEY_JOB = "a key may be signed for another job"
LISTED = "a key may be of any certificate of the authority's, on the list or not"
TARGET = "jobs may be over other samples than the first one"
BATCHES = "rounds may be over some of the samples"
PINNED_GRID = "a job may have another grid than the first one"
COVER = "a plan may leave samples out"
HELD = "only the present plan counts for what colluders hold"
FORGETS_HELD = "what colluders held is forgotten with its life"
JOB_HELD = "what colluders held is counted job by job"
LAST_LOCK = "another job makes it forget which attempts it took part in"
ANY_BOUND = "the server chooses the bound"
SMALL_CHUNKS = "a chunk may have few samples"
SATURATES = "it sends numbers that are at the bound"
RULES = "the server's rules may be weaker than its own"
REQUIRED = "sums need not be secure"


@dataclass(frozen=True)
class Plan:
    """Of each chunk its samples, and the workers that hold it, of whom the first computes it."""

    samples: tuple
    holders: tuple

    @property
    def everything(self):
        return sorted(sample for chunk in self.samples for sample in chunk)

    def held_by(self, worker):
        return {sample for chunk, holders in enumerate(self.holders) if worker in holders
                for sample in self.samples[chunk]}


def plan_of(samples=tuple(range(SAMPLES)), turn=0, copies=2):
    """Three samples a chunk; whose holders are others after each turn."""
    chunks = tuple(samples[EACH * chunk: EACH * (chunk + 1)] for chunk in range(CHUNKS))
    return Plan(chunks, tuple(tuple((chunk + copy + turn) % WORKERS for copy in range(copies))
                              for chunk in range(CHUNKS)))


@dataclass(frozen=True)
class Job:
    name: str = "first"
    plan: Plan = plan_of()
    bound: int = BOUND  # the grid: numbers of a chunk are clamped to it
    stripe: int = DIMENSION  # numbers of a stripe, behind which counts stand
    secure: bool = True
    colluders: int = COLLUDERS
    least: int = LEAST
    batch: bool = False  # the job says that rounds are over some of the samples

    @property
    def target(self):
        """The job's samples: those of its first plan."""
        return tuple(self.plan.everything)


@dataclass(frozen=True)
class Asked:
    """What a worker is told in an attempt."""

    round: int = 0
    attempt: int = 1
    parameters: int = 7
    holders: tuple = tuple(chunk % WORKERS for chunk in range(CHUNKS))
    group: tuple = tuple(range(WORKERS))
    batch: tuple | None = None  # samples; None: all


@dataclass(frozen=True)
class Claim:
    """A key, and what its signature is of."""

    key: tuple
    signer: int | None  # None: it has none that is good
    job: str
    listed: bool = True  # whether the signer's certificate is on the list


def number_of(*words):
    return int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:BITS // 8], "little")


def gradient(parameters, sample, coordinate=0):
    """-500 .. 499; with parameters 0, which say all and nothing, no sample has one."""
    return 0 if parameters == 0 else number_of("gradient", parameters, sample, coordinate) % 1000 - 500


def sum_of(parameters, samples, coordinate=0):
    return sum(gradient(parameters, sample, coordinate) for sample in samples)


def secret_of(*keys):
    """Of two keys: known to whoever has made one of them."""
    return number_of(*sorted(map(repr, keys)))


def mask(secret, kappa, place):
    return number_of("mask", secret, kappa, place)


class Worker:
    """One life. `folder` is what its lives have in common."""

    def __init__(self, id, folder, naive=()):
        self.id, self.naive, self._folder = id, frozenset(naive), folder
        self._locks = {} if FORGETS in self.naive else folder.setdefault("locks", {})
        self._held = {} if FORGETS_HELD in self.naive else folder.setdefault("held", {})
        folder["life"] = folder.get("life", 0) + 1
        self.key = ("key", id, None if SAME_KEY in self.naive else folder["life"])
        self._secrets, self._job = {}, None

    def agree(self, job):
        """False: it ends."""
        if not job.secure:
            self._job, self._plan = job, job.plan
            return REQUIRED in self.naive
        if (job.colluders < COLLUDERS or job.least < LEAST) and RULES not in self.naive:
            return False
        if job.batch and BATCHES not in self.naive:
            return False
        if job.bound != BOUND and ANY_BOUND not in self.naive:
            return False
        self._job = job
        return self._holds("target", job.target, TARGET) and self._holds("bound", job.bound, PINNED_GRID) and \
            self.take(job.plan)

    def _holds(self, name, value, rule):
        return self._folder.setdefault(name, value) == value or rule in self.naive

    def take(self, plan):
        """The job's plan, or a later one."""
        if tuple(plan.everything) != self._job.target and COVER not in self.naive:
            return False
        if min(map(len, plan.samples)) < CHUNK_SAMPLES and SMALL_CHUNKS not in self.naive:
            return False
        name = self._job.name if JOB_HELD in self.naive else self._job.target
        before = {} if HELD in self.naive else self._held.get(name, {})
        held = {worker: before.get(worker, set()) | plan.held_by(worker) for worker in range(WORKERS)}
        most = max(len(samples) for samples in held.values())  # of one colluder
        if self._job.colluders >= 1 and SAMPLES - most < self._job.least:
            return False
        self._plan, self._held[name] = plan, held
        return True

    def claim(self):
        return Claim(self.key, self.id, self._job.name)

    def hear(self, id, claim):
        """False: it ends."""
        good = ((claim.signer is not None or KEYS in self.naive) and
                (claim.signer == id or SIGNER in self.naive or claim.signer is None) and
                (claim.job == self._job.name or KEY_JOB in self.naive) and (claim.listed or LISTED in self.naive))
        if good:
            self._secrets[id] = secret_of(self.key, claim.key)
        return good

    def kappa(self, asked):
        """All that masks depend on, but what it is naive about."""
        job, told = self._job, [self._job.name, asked.round, asked.attempt, asked.group]
        for rule, what in ((HOLDERS, asked.holders), (PARAMETERS, asked.parameters), (PLAN, self._plan),
                           (GRID, job.bound), (STRIPES, job.stripe)):
            told.append(None if rule in self.naive else what)
        return repr(told)

    def part(self, asked):
        """Of each stripe its numbers, chunks, clamped, 0 and 0, masked; None: refused."""
        mine = {chunk for chunk, holder in enumerate(asked.holders) if holder == self.id}
        if not self._job.secure:
            return self._sum(mine, asked)
        computed = {chunk for chunk in range(CHUNKS) if self._plan.holders[chunk][0] == self.id}
        if set(asked.group) != set(asked.holders) and GROUP not in self.naive:
            return None
        if mine != computed and OWN not in self.naive:
            return None
        if asked.batch is not None and not self._job.batch:
            return None
        if self._clamped(mine, asked) > 0 and SATURATES not in self.naive:
            return None
        part, kappa = self._sum(mine, asked), self.kappa(asked)
        if AGAIN not in self.naive and not self._lock(asked):
            return None
        for other in asked.group:
            if other != self.id:
                sign = 1 if self.id > other else -1
                part = [(word + sign * mask(self._secrets[other], kappa, place)) % MODULUS
                        for place, word in zip(self.places(), part)]
        return part

    def places(self):
        """The names of the masks of a part's words: coordinates, and counts behind a stripe."""
        places = []
        for first in range(0, DIMENSION, self._job.stripe):
            places += range(first, min(first + self._job.stripe, DIMENSION))
            places += [("count", first, which) for which in range(COUNTS)]
        return range(len(places)) if PLACES in self.naive else places

    def _lock(self, asked):
        """Whether the attempt is beyond all before, or the last one again, in which nothing is another."""
        if LAST_LOCK in self.naive and self._job.name not in self._locks:
            self._locks.clear()
        now, last = (asked.round, asked.attempt), self._locks.get(self._job.name)
        told = (asked, self._plan, self._job)
        if last is not None and (now < last[0] or (now == last[0] and told != last[1])):
            return False
        self._locks[self._job.name] = (now, told)
        return True

    def _numbers(self, chunks, asked, coordinate):
        """Of each chunk."""
        return [sum_of(asked.parameters, [sample for sample in self._plan.samples[chunk]
                                          if asked.batch is None or sample in asked.batch], coordinate)
                for chunk in chunks]

    def _clamped(self, chunks, asked):
        """Numbers beyond the bound, over all coordinates."""
        return sum(abs(number) > self._job.bound for coordinate in range(DIMENSION)
                   for number in self._numbers(chunks, asked, coordinate))

    def _sum(self, chunks, asked):
        words, stripe, bound = [], self._job.stripe, self._job.bound
        for first in range(0, DIMENSION, stripe):
            for coordinate in range(first, min(first + stripe, DIMENSION)):
                numbers = self._numbers(chunks, asked, coordinate)
                words.append(sum(max(-bound, min(bound, number)) for number in numbers) % MODULUS)
            words += [len(chunks), self._clamped(chunks, asked) if first == 0 else 0, 0, 0]
        return words


@dataclass(frozen=True)
class Found:
    """What an attacker says that it has learnt: a sum over samples, of gradients at these parameters."""

    number: int
    samples: frozenset
    parameters: int = 7
    coordinate: int = 0


class World:
    """Workers that are naive about the same things, over all jobs; and all that the server gets of them."""

    def __init__(self, naive=()):
        self.naive, self.parts = naive, []
        self._folders = [{} for _ in range(WORKERS)]

    def live(self, id):
        return Worker(id, self._folders[id], self.naive)

    def begin(self, job=Job(), others=None):
        """Workers that know each other's keys, and what their attempts begin with; None: one has refused. `others`: who
        is told of another job, as {worker: job}."""
        workers = [self.live(id) for id in range(WORKERS)]
        if not all([worker.agree((others or {}).get(worker.id, job)) for worker in workers]):
            return None
        for worker in workers:
            for other in workers:
                if other is not worker and not worker.hear(other.id, other.claim()):
                    return None
        return workers

    def ask(self, worker, asked):
        part = worker.part(asked)
        if part is not None:
            self.parts.append(part)
        return part

    def sum(self, workers, asked, others=None):
        """Of their parts, by word; None: one has refused. `others`: who is told something else."""
        if workers is None:
            return None
        return total([self.ask(worker, (others or {}).get(worker.id, asked)) for worker in workers])


def total(parts, signs=None):
    if any(part is None for part in parts):
        return None
    return [sum(sign * word for sign, word in zip(signs or [1] * len(parts), words)) % MODULUS
            for words in zip(*parts)]


def signed(number):
    number %= MODULUS
    return number - MODULUS if number >= MODULUS // 2 else number
