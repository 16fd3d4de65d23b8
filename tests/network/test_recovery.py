# SPDX-License-Identifier: Apache-2.0
"""
How long a round takes in which a worker is killed: from the kill to the round's end at most twice the median round, in
every phase. The machine's noise is no fault of the server's: the best of some kills counts.
"""

import contextlib
import os
import random
import signal
import time
import unittest

from cluster import NetworkTest, median, seconds_of
from phases import PHASES, strike
from proxy import Proxy

SEED = int(os.environ.get("TARRY_TEST_SEED", "1"))
WORKERS, FEATURES, STRIPES = 5, 70_000, 2
KILLS = 3
APART = 12  # rounds from one kill to the next
LIMIT = 2.0  # medians
JOB = ["--workers", str(WORKERS), "--chunks", str(WORKERS), "--replication", "3", "--samples", "50", "--holdout", "0",
       "--features", str(FEATURES), "--rate", "0.01", "--seed", "3", "--evaluate", "1000", "--rounds",
       str(APART * (KILLS + 1))]
SLEEP = ["--straggler", "shifted-exp:0.045,0.002"]


class Recovery(NetworkTest):
    def measure(self, phase):
        """(seconds from a kill to its round's end, median round) for each kill of one run."""
        draw = random.Random(f"{SEED} {phase}")
        kills = []
        with contextlib.ExitStack() as stack:
            cluster = self.cluster(JOB)
            stack.callback(cluster.close)
            address = cluster.serve()
            links = [stack.enter_context(Proxy(address, framed=True)) for _ in range(WORKERS)]

            def kill(victim, round):
                kills.append((round, time.time()))
                cluster.workers[f"worker-{victim}"].signal(signal.SIGKILL)
                links[victim].reset()
                links[victim].later(0.1, lambda: cluster.work(victim, links[victim].address, *SLEEP))

            for number in range(KILLS):
                victim = draw.randrange(WORKERS)
                strike(links, victim, APART * (number + 1) - 3, phase, STRIPES,
                       lambda round, victim=victim: kill(victim, round))
            for worker, link in enumerate(links):
                cluster.work(worker, link.address, *SLEEP)
            cluster.finish(60)
            usual = median(cluster.round_seconds())
            ends = {line["round"]: seconds_of(line["time"]) for line in cluster.server.log("round")}
        self.assertEqual(len(kills), KILLS)
        return [(ends[round] - killed, usual) for round, killed in kills]

    def test_a_kill_costs_at_most_a_round(self):
        print(f"seed {SEED}")
        for phase in PHASES:
            with self.subTest(phase):
                measured = self.measure(phase)
                print(f"{phase}: " + ", ".join(f"{took * 1e3:.0f} ms" for took, _ in measured) +
                      f" to the round's end; median round {measured[0][1] * 1e3:.0f} ms")
                best, usual = min(measured)
                self.assertLess(best, LIMIT * usual)


if __name__ == "__main__":
    unittest.main()
