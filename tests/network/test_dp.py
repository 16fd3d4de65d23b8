# SPDX-License-Identifier: Apache-2.0
"""
Differential privacy over the network: workers are told over TLS which samples are drawn, and nobody else; sums are those of
threads, whoever computes them; and a server that was killed draws anew, and has counted every release.
"""

import json
import os
import struct
import time
import unittest

from cluster import WAIT, NetworkTest
from peer import Peer, context

WORKERS = 3
DP = "clip:1,noise:1.5,sample:0.04"
JOB = ["--workers", str(WORKERS), "--chunks", "6", "--pieces", "2", "--replication", "2", "--samples", "2000", "--features",
       "5", "--seed", "3"]
ENDLESS = ["--rounds", "100000"]
SLEEP = ["--straggler", "shifted-exp:0.002,0.001"]  # per piece
KILLS = 3
LEDGER_HEAD, LEDGER_ENTRY = 40, 16  # bytes


class Dp(NetworkTest):
    lives = 0  # of servers, before the one that runs now

    def bytes_of(self, cluster, name):
        with open(os.path.join(cluster.folder, name), "rb") as file:
            return file.read()

    def releases(self, cluster):
        return (os.path.getsize(os.path.join(cluster.folder, "run.ck.privacy")) - LEDGER_HEAD) // LEDGER_ENTRY

    def assert_as_threads(self, cluster, job):
        """But for the order in which chunks are added, which may move a number with noise by a step of its grid."""
        self.tarry("train", *job, "--save", "t.npy", "--quiet", folder=cluster.folder)
        found = [struct.unpack("<5f", self.bytes_of(cluster, name)[-20:]) for name in ("w.npy", "t.npy")]
        for one, other in zip(*found):
            self.assertAlmostEqual(one, other, delta=1e-3)
        self.assertGreater(max(map(abs, found[1])), 0.1)

    def told(self, cluster, address, worker):
        """The job, as a worker with credentials is told of it."""
        with Peer(address, context(cluster.credentials(f"worker-{worker}")[1])) as peer:
            peer.join(worker)
        return json.loads(peer.job)

    def await_rounds(self, cluster, count):
        """So many of the server that runs now, which writes behind the log of those before it."""
        begins, end = self.lives, time.monotonic() + WAIT
        while time.monotonic() < end:
            log = cluster.server.log()
            begun = [at for at, line in enumerate(log) if line["event"] == "begin"]
            rounds = [line["round"] for line in log[begun[begins]:] if line["event"] == "round"] if len(begun) > begins else []
            if len(rounds) >= count:
                return rounds[-1]
            time.sleep(0.01)
        self.fail(f"no {count} rounds within {WAIT} s\n{cluster.server.told()}")

    def go_on(self, cluster, address, *options):
        """The server was killed, and another one goes on from its checkpoint."""
        cluster.server.kill()
        self.lives += 1
        return cluster.serve(*options, "--resume", listen=f"{address[0]}:{address[1]}")

    def test_workers_alone_are_told_the_key_and_another_by_each_server(self):
        job = [*JOB, *ENDLESS, "--dp", DP, "--wait", "1", "--checkpoint", "run.ck", "--checkpoint-every", "1"]
        cluster = self.cluster(job, keys=self.keys(WORKERS))
        address, found = cluster.serve(), []
        for worker in range(WORKERS - 1):
            cluster.work(worker, address, *SLEEP)
        for life in range(2):
            if life > 0:
                self.go_on(cluster, address)
            self.await_rounds(cluster, 10)
            told = self.told(cluster, address, WORKERS - 1)
            self.assertEqual((told["clip"], told["sample"]), (1, 0.04))
            found.append(told["draws"])
        self.assertEqual(cluster.server.end(), 1)
        self.assertLessEqual({"report.json", "run.ck", "run.ck.privacy", "server.jsonl", "server.err", "worker-0.jsonl"},
                             set(os.listdir(cluster.folder)))
        for key in found:
            self.assertEqual(len(bytes.fromhex(key)), 32)
            for name in os.listdir(cluster.folder):
                written = self.bytes_of(cluster, name)
                self.assertNotIn(key.encode(), written, name)
                self.assertNotIn(bytes.fromhex(key), written, name)
        self.assertNotEqual(*found)
        without = self.cluster([*JOB, *ENDLESS, "--wait", "1"], keys=self.keys(WORKERS))
        self.assertNotIn("draws", self.told(without, without.serve(), 0))

    def train_with_a_kill(self, job, *how):
        """A cluster that has ended, and its report; whoever is killed comes back, unless the run is over before."""
        cluster = self.cluster(job, keys=self.keys(WORKERS))
        address = cluster.serve("--save", "w.npy", "--wait", "1", *how)
        for worker in range(WORKERS):
            cluster.work(worker, address, *SLEEP)
        self.await_rounds(cluster, 20)
        cluster.workers["worker-0"].kill()
        cluster.work(0, address, *SLEEP)
        report = cluster.finish(WAIT)
        cluster.workers["worker-0"].kill()
        return cluster, report

    def test_sums_are_those_of_threads_whoever_computes_them(self):
        for how in [], ["--ship-data"]:
            with self.subTest(how=how):
                job = [*JOB, "--rounds", "300", "--dp", DP + ",seed:4"]
                for _ in range(5):  # where the machine held this process up, the run may be over before the kill
                    cluster, report = self.train_with_a_kill(job, *how)
                    if (again := report["network"]["events"]["restarted"]) > 0:
                        break
                self.assertEqual(again, 1)
                self.assertTrue(all(each["exact"] for each in report["rounds"]))
                self.assertEqual(report["privacy"]["releases"], 300)
                self.assertEqual(report["config"]["dp"], DP + ",seed:4")
                for of in (*report["rounds"], report["final"], report["initial"]):
                    for key in ("loss", "accuracy", "seconds", "signal_seconds", "round_seconds"):
                        self.assertIsNone(of.get(key), key)
                for worker in report["workers"]:
                    self.assertEqual((worker["seconds"], worker["pace"]), (None, None))
                self.assert_as_threads(cluster, job)

    def test_a_server_that_is_killed_goes_on_and_workers_draw_by_its_new_key(self):
        job = [*JOB, "--dp", DP, "--checkpoint", "run.ck", "--checkpoint-every", "1"]
        cluster = self.cluster(job, keys=self.keys(WORKERS))
        address = cluster.serve(*ENDLESS)
        for worker in range(WORKERS):
            cluster.work(worker, address, *SLEEP)
        for life in range(KILLS):
            self.await_rounds(cluster, 10)
            cluster.server.kill()
            done = cluster.server.log("round")[-1]["round"] + 1
            self.go_on(cluster, address, *(ENDLESS if life + 1 < KILLS else ["--rounds", str(done + 20)]))
        report = cluster.finish(WAIT)
        self.assertEqual(report["privacy"]["releases"], self.releases(cluster))
        self.assertGreaterEqual(report["privacy"]["releases"], len(report["rounds"]))
        self.assertLessEqual(report["privacy"]["releases"], len(report["rounds"]) + 2 * KILLS)
        for worker in cluster.workers.values():
            self.assertEqual(worker.wait(), 0, worker.told())
            self.assertEqual(len(worker.log("job")), KILLS + 1, worker.told())

    def test_the_budget_ends_the_run_for_all(self):
        """Nobody waits for a server that would go on from the checkpoint."""
        job = [*JOB, *ENDLESS, "--dp", DP + ",budget:0.7", "--checkpoint", "run.ck"]
        cluster = self.cluster(job, keys=self.keys(WORKERS))
        address = cluster.serve()
        for worker in range(WORKERS):
            cluster.work(worker, address, *SLEEP)
        report = cluster.finish(WAIT)
        self.assertTrue(report["privacy"]["spent"])
        self.assertGreater(report["privacy"]["releases"], 0)
        for process in cluster.workers.values():
            self.assertEqual(process.wait(), 0, process.told())
            self.assertEqual(process.log("waiting"), [])


if __name__ == "__main__":
    unittest.main()
