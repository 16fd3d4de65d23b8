# SPDX-License-Identifier: Apache-2.0
"""
A dishonest server isolates a few samples in one round: all other chunks are at the bound, so that their part of the sum
is known but for a sign. That takes a bound at which they saturate, a chunk of few samples, or both.
"""

import unittest

from attacked import CHUNKS, ENDLESS, FEATURES, JOB, ROWS, VICTIM, Attack, AttackedTest, samples_as_numbers
from cluster import WAIT
from test_secure_plans import Collecting, OtherPlan

CHUNK_ROWS = ROWS // CHUNKS
DEFAULT_BOUND = 4 * CHUNK_ROWS


def alone(count, of):
    """Chunk 0 is a share of the first quarter of the samples, and chunk 1 has the rest of it."""
    def change(plan):
        plan.spans = [[(0, 0, count, of)], [(0, count, of - count, of), (1, 0, 1, 1)], [(2, 0, 1, 1)], [(3, 0, 1, 1)]]
    return change


one_sample = alone(1, 32)


def largest_coordinates():
    """Of all chunks' gradients at parameters of zero, by size, the largest first."""
    rows = samples_as_numbers(ROWS)
    sums = [-sum(row[-1] * row[at] for row in rows[chunk * CHUNK_ROWS:(chunk + 1) * CHUNK_ROWS]) / 2
            for chunk in range(CHUNKS) for at in range(FEATURES)]
    return sorted(map(abs, sums), reverse=True)


class Saturation(AttackedTest):
    # ---- the bound ----

    def test_a_bound_of_the_server_s_choice(self):
        for bound in ("2", "0.001", "1e9", str(DEFAULT_BOUND * (1 + 2**-50))):
            with self.subTest(bound):
                self.begin(OtherPlan(one_sample), job=[*JOB, "--secure-bound", bound])
                self.assert_all_refuse("and this worker's owner allows", f"{DEFAULT_BOUND} (--secure-bound;")
                self.training.close()

    def test_a_bound_at_which_all_saturates_though_its_owners_allow_it(self):
        """They did not know better: each worker that is asked for a part sends none, and the run fails."""
        bound = ["--secure-bound", "2"]
        self.begin(Attack(), job=[*JOB, *bound], owners=bound)
        self.assertEqual(self.training.server.wait(WAIT), 1, self.training.told())
        self.assertIn("workers of secure sums end before they send", self.training.server.errors())
        refused = [worker for worker in self.training.workers.values()
                   if "of this worker's numbers are beyond the bound of 2" in worker.errors()]
        self.assertGreater(len(refused), 0, self.training.told())
        for worker in refused:
            self.assertIn("(--secure-bound)", worker.errors())
        self.assertEqual(self.attack.parts, {})

    def test_a_bound_at_which_the_largest_coordinate_saturates(self):
        """A worker with that chunk in its sum sends nothing, so that no attempt is whole. A bound just above it clamps
        nothing."""
        first, second = largest_coordinates()[:2]
        self.assertGreater(first, second)
        bound = ["--secure-bound", repr((first + second) / 2)]
        self.begin(Attack(), job=[*JOB, *bound, "--rounds", "1"], owners=bound)
        self.assertEqual(self.training.server.wait(WAIT), 1, self.training.told())
        refused = [name for name, worker in self.training.workers.items()
                   if "numbers are beyond the bound" in worker.errors()]
        self.assertGreater(len(refused), 0, self.training.told())
        self.assert_nothing_learnt()
        self.training.close()
        bound = ["--secure-bound", repr(first * 1.001)]
        self.begin(Attack(), job=[*JOB, *bound, "--rounds", "1"], owners=bound)
        self.assertEqual(self.end(), 0, self.training.told())

    def test_a_number_of_bits_of_the_server_s_choice(self):
        self.begin(Attack(), job=[*JOB, "--secure-bits", "32"])
        self.assert_all_refuse("32 bits, and this worker's owner allows 64 (--secure-bits)")

    # ---- chunks ----

    def test_a_chunk_of_few_samples(self):
        for change, count in [(one_sample, 1), (alone(5, 8), 31)]:
            with self.subTest(count):
                self.begin(OtherPlan(change))
                self.assert_all_refuse(f"chunk 0 of the server's plan has {count} samples, and this worker's owner wants "
                                       "32 in each at least (--secure-chunk-samples)")
                self.training.close()

    def test_a_chunk_of_as_many_samples_as_its_owner_wants(self):
        for change, owners in [(alone(21, 32), []), (alone(5, 8), ["--secure-chunk-samples", "31"])]:
            with self.subTest(owners):
                self.begin(OtherPlan(change), owners=owners, job=[*JOB, "--rounds", "1"])
                self.assertEqual(self.end(), 0, self.training.told())
                self.training.close()

    def test_a_later_plan_with_a_chunk_of_one_sample(self):
        class Isolating(Collecting):
            def change_later(self, plan, _):
                one_sample(plan)

        self.begin(Isolating([0]), job=ENDLESS)
        self.assert_refused(VICTIM, "chunk 0 of the server's plan has 1 samples")
        self.assertEqual(len(self.attack.agreed), 1)
        self.assert_silent(VICTIM)


del AttackedTest

if __name__ == "__main__":
    unittest.main()
