# SPDX-License-Identifier: Apache-2.0
"""
Parameters that come down as changes of a view, over real processes: workers and the server are killed, and workers miss
rounds. A worker whose view is not the server's, to the bit, would end its connection and say so; and the run is that
of one process.
"""

import signal
import unittest

from cluster import WAIT, NetworkTest

WORKERS = 5
FEATURES = 40_000  # three pieces
JOB = ["--workers", str(WORKERS), "--chunks", str(WORKERS), "--pieces", "1", "--order", "optimal", "--replication", "3",
       "--samples", "60", "--holdout", "0", "--features", str(FEATURES), "--rate", "0.01", "--seed", "3", "--reproducible"]
BOTH = ["--compress", "int8", "--compress-down", "int8"]
SLEEP = ["--straggler", "shifted-exp:0.05,0.002"]


class Down(NetworkTest):
    def begin(self, job, *serve, keys=None):
        cluster = self.cluster(job, keys=keys)
        address = cluster.serve(*serve)
        for worker in range(WORKERS):
            cluster.work(worker, address, *SLEEP)
        return cluster, address

    def assert_no_other_views(self, cluster):
        for name, worker in cluster.workers.items():
            self.assertNotIn("not the server's", worker.told(), name)
            self.assertNotIn("of a view", worker.told(), name)

    def test_a_quarter_of_the_bytes_and_the_same_rounds(self):
        """Over TLS; what workers receive beside parameters is little here."""
        rounds = 24
        received = {}
        for form in ("none", "bf16", "int8"):
            job = [*JOB, "--rounds", str(rounds), "--compress-down", form]
            cluster, _ = self.begin(job, keys=self.keys(WORKERS))
            report = cluster.finish(WAIT)
            self.assert_same_losses(report, self.trained(job), 1e-4)
            self.assert_no_other_views(cluster)
            received[form] = sum(worker["sent_bytes"] for worker in report["network"]["workers"])
        whole = WORKERS * FEATURES * 4  # which the first round takes in any form
        for form, share in (("bf16", 1.99), ("int8", 3.9)):
            print(f"{form}: {(received['none'] - whole) / (received[form] - whole):.3f} times fewer bytes")
            self.assertGreater((received["none"] - whole) / (received[form] - whole), share * 0.97)

    def test_kills_and_a_resume(self):
        """The same run as one that nothing befell, but for the order of sums; in every round that view."""
        job = [*JOB, *BOTH, "--rounds", "40", "--verify", "--checkpoint", "run.ck", "--checkpoint-every", "3"]
        cluster, address = self.begin(job)
        cluster.server.await_log("round", round=8)
        for worker in (1, 3):
            cluster.workers[f"worker-{worker}"].kill()
            cluster.work(worker, address, *SLEEP)
        cluster.await_everyone()
        cluster.server.kill()
        cluster.serve("--resume", listen=f"{address[0]}:{address[1]}")
        cluster.await_everyone()
        cluster.workers["worker-2"].kill()
        cluster.work(2, address, *SLEEP)
        report = cluster.finish(WAIT)
        self.assertEqual(len(report["rounds"]), 40)
        self.assertTrue(all(each["exact"] and each["verified_error"] < 2e-2 for each in report["rounds"]))
        self.assert_no_other_views(cluster)
        self.assertAlmostEqual(report["final"]["loss"] / self.trained([*JOB, *BOTH, "--rounds", "40"])["final"]["loss"], 1,
                               delta=1e-3)

    def test_who_misses_rounds_is_brought_up(self):
        """A stopped worker's connection stands, and what was to come down meanwhile is taken back."""
        job = [*JOB[:-1], *BOTH, "--features", "400000", "--rounds", "100000", "--stop", "deadline:0.3", "--fill", "scale",
               "--silence", "60", "--verify"]
        cluster, _ = self.begin(job)
        cluster.server.await_log("round", round=3)
        for number in (signal.SIGSTOP, signal.SIGCONT, signal.SIGSTOP, signal.SIGCONT):
            cluster.workers["worker-1"].signal(number)
            seen = cluster.server.log("round")[-1]["round"]
            cluster.server.await_log("round", round=seen + 4)
        cluster.await_everyone()
        cluster.stop(1)
        self.assert_no_other_views(cluster)
        self.assertEqual(len(cluster.workers["worker-1"].log("connected")), 1)


if __name__ == "__main__":
    unittest.main()
