#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the assignment of a finite plane or of a difference family, as `--design file:PATH` reads it.

    designs.py projective --workers 57 --chunks 57 --replication 8 > plane.txt
    tarry plan --workers 57 --chunks 57 --design file:plane.txt

projective   Chunks are the points and workers the lines of PG(2, q), one plane or several side by side: q^2+q+1 workers
             and as many chunks per plane, replication q+1. Two chunks of a plane share exactly one worker.
affine       The same of AG(2, q): q^2+q workers, q^2 chunks, replication q+1. Each run of q workers holds the plane's
             chunks once (a parallel class). With more chunks than workers it is the dual: q^2 workers, q^2+q chunks,
             replication q.
difference   Chunk i is on the workers i + D modulo M, for a set D of R residues. With N = c M each run of M chunks has a
             set of its own; with M = c N each run of N workers has one, of R / c residues, rounded up or down, modulo N.
             A bounded search that the seed starts finds sets whose differences repeat least. If none repeats, no two
             chunks share two workers.

q is a prime power. Sources: P. Dembowski, Finite geometries, 1968; R. Lidl, H. Niederreiter, Finite fields, chapter 3.1;
C. J. Colbourn, J. H. Dinitz, Handbook of combinatorial designs, chapter VI.16 (difference families).
"""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterator

MOST_WORKERS = 1_000_000  # and chunks
MOST_COPIES = 1 << 30  # that a plan may have
MOST_ORDER = 1021  # the planes of the next prime power have more copies


class SizeError(Exception):
    """The design has no such size."""


# ---- finite fields ----


def least_divisor(number: int) -> int:
    divisor = 2
    while divisor * divisor <= number:
        if number % divisor == 0:
            return divisor
        divisor += 1
    return number


def is_prime_power(number: int) -> bool:
    if number < 2:
        return False
    prime = least_divisor(number)
    while number % prime == 0:
        number //= prime
    return number == 1


class Field:
    """GF(q). An element is a polynomial over GF(p), and its coefficients are the digits of a number to base p.

    Multiplication goes by the powers of x. x^n equals the first polynomial of lower degree that makes x a generator.
    """

    def __init__(self, order: int) -> None:
        self.order = order
        self.prime = least_divisor(order)
        remainder = 1
        while (powers := self._powers(remainder)) is None:
            remainder += 1
        self.power = powers
        self.log = {element: exponent for exponent, element in enumerate(powers)}

    def _powers(self, remainder: int) -> list[int] | None:
        """1, x, x^2, ..., if they are all elements except 0 when x^n is `remainder`."""
        powers, top_place = [1], self.order // self.prime
        while len(powers) < self.order:
            element = powers[-1] % top_place * self.prime
            for _ in range(powers[-1] // top_place):
                element = self.add(element, remainder)
            if element == 1 and len(powers) == self.order - 1:
                return powers
            if element in (0, 1):
                return None
            powers.append(element)
        return None

    def _combine(self, a: int, b: int, sign: int) -> int:
        if self.order == self.prime:
            return (a + sign * b) % self.prime
        result, place = 0, 1
        while place < self.order:
            result += (a + sign * b) % self.prime * place  # higher digits are multiples of the prime
            a, b, place = a // self.prime, b // self.prime, place * self.prime
        return result

    def add(self, a: int, b: int) -> int:
        return self._combine(a, b, 1)

    def subtract(self, a: int, b: int) -> int:
        return self._combine(a, b, -1)

    def multiply(self, a: int, b: int) -> int:
        if a == 0 or b == 0:
            return 0
        return self.power[(self.log[a] + self.log[b]) % (self.order - 1)]


# ---- planes ----


def line_points(field: Field, line: int) -> list[int]:
    """The points of an affine line. Point x q + y is (x, y). Line s q + t is y = s x + t; lines q q + t are x = t."""
    slope, shift = divmod(line, field.order)
    if slope == field.order:
        return [shift * field.order + y for y in range(field.order)]
    return [x * field.order + field.add(field.multiply(slope, x), shift) for x in range(field.order)]


def point_lines(field: Field, point: int) -> list[int]:
    """The lines through an affine point, by slope."""
    x, y = divmod(point, field.order)
    sloped = [s * field.order + field.subtract(y, field.multiply(s, x)) for s in range(field.order)]
    return [*sloped, field.order * field.order + x]


@dataclasses.dataclass(frozen=True)
class Size:
    workers: int
    chunks: int
    replication: int
    order: int
    planes: int = 1


Family = Callable[[int], Size]


def projective_size(q: int) -> Size:
    return Size(q * q + q + 1, q * q + q + 1, q + 1, q)


def affine_size(q: int) -> Size:
    return Size(q * q + q, q * q, q + 1, q)


def dual_size(q: int) -> Size:
    return Size(q * q, q * q + q, q, q)


def plane_orders(replication: int) -> Iterator[int]:
    """The orders of planes that may have this replication."""
    return (q for q in range(replication - 1, min(replication, MOST_ORDER) + 1) if is_prime_power(q))


def fitting(family: Family, workers: int, chunks: int, replication: int) -> Size | None:
    for order in plane_orders(replication):
        one = family(order)
        planes = workers // one.workers
        size = dataclasses.replace(one, workers=planes * one.workers, chunks=planes * one.chunks, planes=planes)
        if (size.workers, size.chunks, size.replication) == (workers, chunks, replication):
            return size
    return None


def nearest_single(family: Family, workers: int) -> Size:
    sizes = (family(order) for order in range(2, MOST_ORDER + 1) if is_prime_power(order))
    return min(sizes, key=lambda size: abs(size.workers - workers))


def nearest(family: Family, workers: int, replication: int) -> Size:
    """With the replication that was asked for if a plane has it, else of one plane."""
    for order in plane_orders(replication):
        one = family(order)
        if one.replication == replication:
            planes = max(1, (workers + (one.workers - 1) // 2) // one.workers)
            return dataclasses.replace(one, workers=planes * one.workers, chunks=planes * one.chunks, planes=planes)
    return nearest_single(family, workers)


def asked(workers: int, chunks: int, replication: int) -> str:
    return f"{workers} workers, {chunks} chunks and replication {replication}"


def projective(workers: int, chunks: int, replication: int) -> Iterator[list[int]]:
    size = fitting(projective_size, workers, chunks, replication)
    if size is None:
        near, single = nearest(projective_size, workers, replication), nearest_single(projective_size, workers)
        other = f", or {single.workers} with replication {single.replication} (1 of order {single.order})"
        raise SizeError(
            "projective planes have q^2+q+1 workers, as many chunks and replication q+1 for a prime power q, not "
            f"{asked(workers, chunks, replication)}; nearest are {near.workers} workers and chunks with replication "
            f"{near.replication} ({near.planes} of order {near.order}){other if near.workers != single.workers else ''}"
        )
    field, q = Field(size.order), size.order
    # The affine plane and the line at infinity: point q q + s is the one that all lines of slope s have in common.
    lines = [[*line_points(field, line), q * q + line // q] for line in range(q * q + q)]
    lines.append([q * q + slope for slope in range(q + 1)])
    for plane in range(size.planes):
        for line in lines:
            yield [plane * len(lines) + point for point in line]


def affine(workers: int, chunks: int, replication: int) -> Iterator[list[int]]:
    family, holds = (dual_size, point_lines) if chunks > workers else (affine_size, line_points)
    size = fitting(family, workers, chunks, replication)
    if size is None:
        near, dual = nearest(affine_size, workers, replication), nearest(dual_size, workers, replication)
        raise SizeError(
            "affine planes have q^2+q workers, q^2 chunks and replication q+1, or q^2 workers, q^2+q chunks and "
            f"replication q, for a prime power q, not {asked(workers, chunks, replication)}; nearest are "
            f"{near.workers} workers, {near.chunks} chunks, replication {near.replication} ({near.planes} of order "
            f"{near.order}) and {dual.workers} workers, {dual.chunks} chunks, replication {dual.replication} "
            f"({dual.planes} of order {dual.order})"
        )
    field, one = Field(size.order), family(size.order)
    lists = [holds(field, worker) for worker in range(one.workers)]
    for plane in range(size.planes):
        for chunks_held in lists:
            yield [plane * one.chunks + chunk for chunk in chunks_held]


# ---- random numbers ----


class Random:
    """A stream of Philox4x32-10, the numbers that Tarry draws for a design.

    J. K. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011.
    """

    DESIGN = 1  # what the stream is for

    def __init__(self, seed: int, stream: int, start: int) -> None:
        self.key = (seed & 0xFFFFFFFF, seed >> 32)
        self.counter = [0, self.DESIGN, stream, start]
        self.words: list[int] = []

    def _refill(self) -> None:
        a, b, c, d = self.counter
        key, other_key = self.key
        for _ in range(10):
            first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
            a, c = (second >> 32) ^ b ^ key, (first >> 32) ^ d ^ other_key
            b, d = second & 0xFFFFFFFF, first & 0xFFFFFFFF
            key, other_key = (key + 0x9E3779B9) & 0xFFFFFFFF, (other_key + 0xBB67AE85) & 0xFFFFFFFF
        self.words = [d, c, b, a]
        self.counter[0] += 1

    def below(self, bound: int) -> int:
        """Uniform in 0..bound-1 (D. Lemire, Fast random integer generation in an interval, 2019)."""
        while True:
            if not self.words:
                self._refill()
            product = self.words.pop() * bound
            low = product & 0xFFFFFFFF
            if low >= bound or low >= (1 << 32) % bound:
                return product >> 32


# ---- difference families ----


class Search:
    """Looks for base sets in the residues modulo `modulus` whose differences repeat least.

    The cost is the sum, over the residues, of the squares of how often each is a difference. A difference and its
    negative occur equally often, so only one of them is counted.
    """

    MOST_UPDATES = 1 << 26  # of counts, those of negatives included
    MOST_STARTS = 16

    def __init__(self, modulus: int, sets: int, elements: int) -> None:
        self.modulus = modulus
        self.bounds = [elements * index // sets for index in range(sets + 1)]
        self.sets: list[list[int]] = []
        self.occurrence: list[int] = []
        self.cost = 0
        self.updates = 0

    def count(self, value: int, others: list[int], change: int) -> None:
        """Adds (change 1) or removes (-1) the differences of `value` and each of `others`."""
        occurrence, modulus, cost = self.occurrence, self.modulus, 0
        for other in others:
            difference = value - other if value > other else other - value
            if difference + difference > modulus:
                difference = modulus - difference
            count = occurrence[difference]
            if difference + difference == modulus:  # it is its own negative, and counts twice
                occurrence[difference] = count + 2 * change
                cost += 4 * change * count + 4
            else:
                occurrence[difference] = count + change
                cost += 4 * change * count + 2
        self.cost += cost

    def least_cost(self) -> int:
        """No family of these sizes costs less: its differences spread evenly over the residues except 0."""
        residues = self.modulus - 1
        if residues == 0:
            return 0
        sizes = [past - first for first, past in zip(self.bounds, self.bounds[1:])]
        each, more = divmod(sum(size * (size - 1) for size in sizes), residues)
        return (residues - more) * each**2 + more * (each + 1) ** 2

    def draw(self, random: Random) -> None:
        """Draws all sets, by R. W. Floyd's way of sampling without replacement."""
        self.sets, self.cost = [], 0
        self.occurrence = [0] * (self.modulus // 2 + 1)
        for first, past in zip(self.bounds, self.bounds[1:]):
            elements: list[int] = []
            self.sets.append(elements)
            for at in range(first, past):
                top = self.modulus - (past - at)
                value = random.below(top + 1)
                if value in elements:
                    value = top
                self.count(value, elements, 1)
                self.updates += 2 * (at - first)
                elements.append(value)

    def exchange(self, random: Random) -> None:
        """Replaces a random element by a random residue unless that costs more."""
        elements = self.sets[random.below(len(self.sets))]
        self.updates += 1
        if not elements:
            return
        at, value = random.below(len(elements)), random.below(self.modulus)
        if value in elements:
            return
        old, cost = elements[at], self.cost
        others = elements[:at] + elements[at + 1 :]
        self.count(old, others, -1)
        self.count(value, others, 1)
        self.updates += 4 * len(elements)
        if self.cost > cost:
            self.count(value, others, -1)
            self.count(old, others, 1)
            self.updates += 4 * len(elements)
        else:
            elements[at] = value

    def run(self, seed: int) -> list[list[int]]:
        """The best sets of several starts, each in ascending order."""
        least, best, found = self.least_cost(), -1, []
        patience = 32 * self.bounds[-1] * self.modulus
        for start in range(self.MOST_STARTS):
            if best == least or (start > 0 and self.updates >= self.MOST_UPDATES):
                break
            random = Random(seed, 2, start)
            self.draw(random)
            idle = 0
            while idle < patience and self.cost > least and self.updates < self.MOST_UPDATES:
                cost = self.cost
                self.exchange(random)
                idle = idle + 1 if self.cost == cost else 1
            if best < 0 or self.cost < best:
                best, found = self.cost, [sorted(elements) for elements in self.sets]
        return found


def difference(workers: int, chunks: int, replication: int, seed: int) -> Iterator[list[int]]:
    if workers % chunks != 0 and chunks % workers != 0:
        fewer = next(n for n in range(chunks, 0, -1) if workers % n == 0 or n % workers == 0)
        more = next(n for n in range(chunks, chunks + workers) if workers % n == 0 or n % workers == 0)
        raise SizeError(
            "a difference design needs as many chunks as workers, or one a multiple of the other, not "
            f"{workers} workers and {chunks} chunks: nearest are {fewer} and {more} chunks"
        )
    modulus = min(workers, chunks)
    runs = max(workers, chunks) // modulus
    if chunks >= workers:
        sets = Search(modulus, runs, runs * replication).run(seed)
        for worker in range(workers):
            yield [run * modulus + (worker - d) % modulus for run in range(runs) for d in sets[run]]
    else:
        sets = Search(modulus, runs, replication).run(seed)
        for worker in range(workers):
            yield [(worker - d) % modulus for d in sets[worker // modulus]]


# ---- the command ----


def whole(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from {least} to {most}")
        return int(text)

    return number


def lists(options: argparse.Namespace) -> Iterator[list[int]]:
    workers, chunks, replication = options.workers, options.chunks, options.replication
    if replication > workers:
        raise SizeError(f"replication {replication} is more than the {workers} workers")
    if chunks * replication > MOST_COPIES:
        raise SizeError(f"{chunks} chunks with replication {replication} are more than {MOST_COPIES} copies")
    if options.design == "difference":
        return difference(workers, chunks, replication, options.seed)
    return (projective if options.design == "projective" else affine)(workers, chunks, replication)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    count = whole(1, MOST_WORKERS)
    parser.add_argument("design", choices=("projective", "affine", "difference"))
    parser.add_argument("--workers", type=count, metavar="M", required=True)
    parser.add_argument("--chunks", type=count, metavar="N", help="default: as many as workers")
    parser.add_argument("--replication", type=count, metavar="R", required=True, help="workers that hold each chunk")
    parser.add_argument("--seed", type=whole(0, 2**63 - 1), metavar="S", default=1, help="of difference (default 1)")
    options = parser.parse_args()
    options.chunks = options.chunks or options.workers
    try:
        for line, chunks in enumerate(lists(options)):
            if line == 0:
                seed = f", seed {options.seed}" if options.design == "difference" else ""
                print(f"# {options.design}: {asked(options.workers, options.chunks, options.replication)}{seed}")
            print(" ".join(map(str, chunks)) or "-")
        sys.stdout.flush()
    except SizeError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    except BrokenPipeError:
        sys.stdout = None
    except OSError as error:
        parser.exit(1, f"{parser.prog}: {error.strerror}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
