# SPDX-License-Identifier: Apache-2.0
"""
A long run in which every second, on average, a random worker is killed and started again, or paused for a while; it
ends with the loss of an undisturbed one. `--seconds S` chooses about how long, `--rounds N` how many rounds, `--seed S`
what happens.
"""

import argparse
import os
import random
import signal
import sys
import time
import unittest

from cluster import LONG_FORM, SILENCE, WAIT, NetworkTest, median

WORKERS = 6
ROUND_SECONDS = 0.1  # about what a round takes among all that
SECONDS = 60 if LONG_FORM else 15
JOB = ["--workers", str(WORKERS), "--chunks", str(2 * WORKERS), "--pieces", "1", "--order", "optimal",
       "--replication", "3", "--samples", "600", "--features",
       "2000", "--holdout", "0", "--rate", "0.01", "--verify", "--evaluate", "10", "--seed", "2"]
SLEEP = ["--straggler", "shifted-exp:0.015,0.005"]
KILLED_FOR, PAUSED_FOR = (0.1, 1.0), (0.2, 4.0)  # seconds


class Trouble:
    """What is done to whom, and what is due to be undone."""

    def __init__(self, cluster, start, seed):
        self.cluster, self.start = cluster, start
        self.draw = random.Random(seed)
        self.due = []  # (when, worker, what ends it)
        self.next = time.monotonic() + self.draw.expovariate(1)
        self.kills = self.pauses = 0

    def step(self):
        now = time.monotonic()
        for item in [item for item in self.due if item[0] <= now]:
            self.due.remove(item)
            item[2]()
        if now >= self.next:
            self.next += self.draw.expovariate(1)
            self.strike(now)

    def strike(self, now):
        well = [worker for worker in range(WORKERS) if worker not in [item[1] for item in self.due]]
        if not well:
            return
        worker = self.draw.choice(well)
        process = self.cluster.workers[f"worker-{worker}"]
        if self.draw.random() < 0.5:
            process.kill()
            self.kills += 1
            self.due.append((now + self.draw.uniform(*KILLED_FOR), worker, lambda: self.start(worker)))
        else:
            process.signal(signal.SIGSTOP)
            self.pauses += 1
            self.due.append((now + self.draw.uniform(*PAUSED_FOR), worker, lambda: process.signal(signal.SIGCONT)))


class Soak(NetworkTest):
    silence = SILENCE
    rounds, seed = int(SECONDS / ROUND_SECONDS), int(os.environ.get("TARRY_TEST_SEED", "1"))

    def test_soak(self):
        job = [*JOB, "--rounds", str(self.rounds)]
        expected = self.trained(job)
        cluster = self.cluster(job, keys=self.keys(WORKERS))
        address = cluster.serve()

        def start(worker):
            cluster.work(worker, address, *SLEEP)

        for worker in range(WORKERS):
            start(worker)
        trouble = Trouble(cluster, start, self.seed)
        begun = moved = time.monotonic()
        done = 0
        while cluster.server.running:
            trouble.step()
            time.sleep(0.01)
            if done < len(cluster.server.log("round")):
                done, moved = len(cluster.server.log("round")), time.monotonic()
            if time.monotonic() - moved > WAIT:
                self.fail(f"seed {self.seed}: the run hangs\n{cluster.told()}")
        took = time.monotonic() - begun
        self.check(cluster, expected, trouble, took)

    def check(self, cluster, expected, trouble, took):
        report = cluster.finish(seconds=1)
        said = [line["reason"] for line in cluster.server.log("left_out")]
        exact = sum(round["exact"] for round in report["rounds"])
        print(f"seed {self.seed}: {len(report['rounds'])} rounds in {took:.0f} s, {exact} exact, median "
              f"{median(cluster.round_seconds()) * 1e3:.0f} ms; {trouble.kills} kills, {trouble.pauses} pauses; left out: "
              + ", ".join(f"{reason} {said.count(reason)}" for reason in sorted(set(said)))
              + f"; loss {report['final']['loss']:.9f}, undisturbed {expected['final']['loss']:.9f}")
        self.assertEqual(len(report["rounds"]), self.rounds)
        self.assert_exact_or_said(report)
        self.assertAlmostEqual(report["final"]["loss"], expected["final"]["loss"], delta=1e-5)
        self.assertGreater(trouble.kills + trouble.pauses, 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seed", type=int, default=Soak.seed)
    chosen = parser.parse_args()
    Soak.seed = chosen.seed
    if chosen.seconds is not None:
        Soak.rounds = int(chosen.seconds / ROUND_SECONDS)
    if chosen.rounds is not None:
        Soak.rounds = chosen.rounds
    unittest.main(argv=sys.argv[:1])
