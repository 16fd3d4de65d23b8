# SPDX-License-Identifier: Apache-2.0
"""examples/designs.py: its assignments are those that Tarry made itself up to commit 4556c931, and tarry reads them."""

import collections
import hashlib
import itertools
import json
import os
import pathlib
import subprocess
import sys

from harness import TIMEOUT, TarryTest

SCRIPT = str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "designs.py")

# Design, workers, chunks, replication, seed. Then, as 4556c931 made them, the beginnings of the SHA-256 of the lists, line by
# line, and of the digest of the plan with the optimal order.
GOLDEN = (
    ("projective", 7, 7, 3, 1, "bccccedd4f02bac4", "ab0e29f0ca11590b"),
    ("projective", 57, 57, 8, 1, "e3ea85b3bd7368cb", "5eb31bed944f2697"),
    ("projective", 42, 42, 5, 1, "66cffb3af4e3c444", "c3e324b57eb8b573"),
    ("projective", 91, 91, 10, 1, "8eef7cc2bc15cf90", "0885a8440fcdec56"),
    ("affine", 20, 16, 5, 1, "0b1b1a06244ff5a4", "95665350b2260946"),
    ("affine", 16, 20, 4, 1, "8511c8057e2d985b", "b9f30bfa79acd4ed"),
    ("affine", 192, 216, 8, 1, "bb19c11febc474a7", "6202bd924a870382"),
    ("affine", 224, 196, 8, 1, "852c4fb1d50068b1", "a7ceca978f9cfa4e"),
    ("difference", 1, 1, 1, 1, "9a271f2a916b0b6e", "8ae716c7e45851f6"),
    ("difference", 5, 1, 3, 1, "4ba37aee8cbf4b18", "073a0227b59ea327"),
    ("difference", 13, 13, 4, 1, "7b71ffb1c87a88c3", "fdebfaf5d4405333"),
    ("difference", 40, 40, 5, 12345, "3ecac3b40c700fcb", "e8c17f680f10045b"),
    ("difference", 40, 40, 7, 1, "0b4410ee61914e27", "d419556d5faf1fa9"),
    ("difference", 20, 60, 4, 12345, "1cd52ca7bdc5ffec", "12c995301dabb4fd"),
    ("difference", 60, 20, 5, 2**63 - 1, "7dc6752a929ddebc", "06a8795498a8b2f9"),
    ("difference", 12, 4, 7, 1, "9b76a1fe529767ab", "c389aad2bc9e850d"),
    ("difference", 200, 200, 8, 1, "b021eef405fdd953", "770d8f77c3b4bac1"),
)
# Its search ends at the bound of its work.
LONG = (("difference", 200, 200, 13, 1, "ad1fdc4cad6f3cfd", "92146fcf059a5be4"),)


def run(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT)


def shared(lists):
    """How often how many of the lists have two numbers in common, of all pairs of numbers."""
    pairs = collections.Counter(itertools.chain.from_iterable(itertools.combinations(sorted(each), 2) for each in lists))
    numbers = len({number for each in lists for number in each})
    counts = collections.Counter(pairs.values())
    counts[0] = numbers * (numbers - 1) // 2 - len(pairs)
    return +counts


def dual(lists):
    """The workers of each chunk."""
    holders = collections.defaultdict(list)
    for worker, chunks in enumerate(lists):
        for chunk in chunks:
            holders[chunk].append(worker)
    return list(holders.values())


class Designs(TarryTest):
    def lists(self, design, workers, chunks, replication, seed=1):
        done = run(design, "--workers", workers, "--chunks", chunks, "--replication", replication, "--seed", seed)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        head, *lines = done.stdout.splitlines()
        self.assertRegex(head, rf"^# {design}: {workers} workers, {chunks} chunks and replication {replication}")
        self.assertEqual(len(lines), workers)
        self.write("design.txt", done.stdout)
        return lines

    def plan(self, workers, chunks, *options):
        return json.loads(self.succeed("plan", "--workers", str(workers), "--chunks", str(chunks), "--design",
                                       "file:design.txt", "--json", *options))

    def test_it_writes_what_tarry_made(self):
        for design, workers, chunks, replication, seed, lists, digest in (
                *GOLDEN, *(LONG if os.environ.get("TARRY_TEST_LONG") else ())):
            with self.subTest(design=design, workers=workers, chunks=chunks):
                lines = self.lists(design, workers, chunks, replication, seed)
                self.assertEqual(hashlib.sha256("".join(line + "\n" for line in lines).encode()).hexdigest()[:16], lists)
                plan = self.plan(workers, chunks, "--order", "optimal", "--seed", str(seed))
                self.assertEqual(plan["digest"][:16], digest)
                self.assertEqual((plan["replication"], plan["replication_most"]), (replication, replication))
                self.assertEqual(sum(plan["loads"]), chunks * replication)
                if design != "difference" or workers == chunks:
                    self.assertEqual(plan["q"], plan["q_bound"])

    def test_the_lines_of_the_fano_plane(self):
        self.assertEqual(self.lists("projective", 7, 7, 3), ["0 2 4", "1 3 4", "0 3 5", "1 2 5", "0 1 6", "2 3 6", "4 5 6"])

    def numbers(self, *size):
        return [[int(chunk) for chunk in line.split() if chunk != "-"] for line in self.lists(*size)]

    def test_the_axioms_of_planes(self):
        """Two points lie on one line. Two lines of a projective plane meet in one point, and so do two of an affine plane
        that are not of the same q parallel ones. Nothing joins two planes."""
        for order, planes in ((2, 1), (3, 1), (4, 1), (5, 1), (7, 1), (8, 1), (9, 1), (11, 1), (13, 1), (2, 5), (4, 3)):
            points, lines = order**2, order**2 + order
            within = {size: planes * size * (size - 1) // 2 for size in (points, lines, lines + 1)}
            across = {size: planes * (planes - 1) // 2 * size**2 for size in (points, lines, lines + 1)}
            size, parallel = lines + 1, planes * (order + 1) * order * (order - 1) // 2
            with self.subTest(order=order, planes=planes):
                plane = self.numbers("projective", planes * size, planes * size, order + 1)
                for each in plane, dual(plane):
                    self.assertEqual(shared(each), +collections.Counter({1: within[size], 0: across[size]}))
                plane = self.numbers("affine", planes * lines, planes * points, order + 1)
                for affine in plane, dual(self.numbers("affine", planes * points, planes * lines, order)):
                    self.assertEqual(shared(affine), +collections.Counter({1: within[points], 0: across[points]}))
                    self.assertEqual(shared(dual(affine)), +collections.Counter(
                        {1: within[lines] - parallel, 0: across[lines] + parallel}))
                for first in range(0, len(plane), order):
                    held = sorted(itertools.chain.from_iterable(plane[first:first + order]))
                    start = first // lines * points
                    self.assertEqual(held, list(range(start, start + points)))

    def test_no_two_chunks_share_two_workers_if_differences_have_room(self):
        for size in (200, 200, 8), (201, 201, 8), (200, 400, 8), (400, 200, 16), (100, 100, 8), (50, 250, 3), (13, 13, 4):
            with self.subTest(size=size):
                self.assertEqual(max(shared(self.numbers("difference", *size))), 1)
        lists = self.numbers("difference", 60, 60, 6, 3)
        for worker, chunks in enumerate(lists):
            self.assertEqual([(chunk - worker) % 60 for chunk in chunks], lists[0])

    def test_plans_of_them_can_be_decoded(self):
        for design, workers, chunks, replication in (("projective", 21, 21, 5), ("affine", 20, 16, 5), ("affine", 16, 20, 4),
                                                     ("difference", 60, 60, 6)):
            self.lists(design, workers, chunks, replication)
            for parts in 2, 3, 4:
                with self.subTest(design=design, parts=parts):
                    conditioning = self.plan(workers, chunks, "--parts", str(parts))["conditioning"]
                    self.assertTrue(conditioning["complete"])
                    self.assertLess(conditioning["worst"], 200)

    def refused(self, message, *arguments):
        done = run(*arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr.splitlines()[-1], f"designs.py: {message}")

    def test_sizes_that_do_not_exist(self):
        for message, design, workers, chunks, replication in (
            ("projective planes have q^2+q+1 workers, as many chunks and replication q+1 for a prime power q, not 200 workers, "
             "200 chunks and replication 8; nearest are 228 workers and chunks with replication 8 (4 of order 7), or 183 with "
             "replication 14 (1 of order 13)", "projective", 200, 200, 8),
            ("projective planes have q^2+q+1 workers, as many chunks and replication q+1 for a prime power q, not 43 workers, "
             "43 chunks and replication 7; nearest are 31 workers and chunks with replication 6 (1 of order 5)",
             "projective", 43, 43, 7),
            ("affine planes have q^2+q workers, q^2 chunks and replication q+1, or q^2 workers, q^2+q chunks and replication q, "
             "for a prime power q, not 8 workers, 8 chunks and replication 3; nearest are 6 workers, 4 chunks, replication 3 "
             "(1 of order 2) and 9 workers, 12 chunks, replication 3 (1 of order 3)", "affine", 8, 8, 3),
            ("a difference design needs as many chunks as workers, or one a multiple of the other, not 200 workers and 45 "
             "chunks: nearest are 40 and 50 chunks", "difference", 200, 45, 8),
            ("replication 9 is more than the 8 workers", "difference", 8, 8, 9),
            ("1000000 chunks with replication 2000 are more than 1073741824 copies", "difference", 1000000, 1000000, 2000),
        ):
            with self.subTest(design=design, workers=workers):
                self.refused(message, design, "--workers", workers, "--chunks", chunks, "--replication", replication)

    def test_wrong_arguments(self):
        self.refused("error: argument --workers: 'x' is not a whole number from 1 to 1000000", "affine", "--workers", "x",
                     "--replication", 3)
        self.refused("error: argument --seed: '-1' is not a whole number from 0 to 9223372036854775807", "affine",
                     "--workers", 6, "--replication", 3, "--seed=-1")
        self.refused("error: the following arguments are required: --replication", "affine", "--workers", 6)
        self.assertIn("error: argument design: invalid choice: 'ring'", run("ring").stderr)
        self.assertIn("tarry plan", run("--help").stdout)
