# SPDX-License-Identifier: Apache-2.0
"""
Everyone gets the sum, with real processes over TLS: the training is that of the sum at the server, whatever becomes of
workers, and the server leaves a checkpoint when it is told to end.
"""

import json
import os
import pathlib
import re
import time
import unittest

import frames
from cluster import LONG, LONG_FORM, WAIT, NetworkTest
from peer import Peer, context

DATA = os.environ.get("TARRY_TEST_DATA", "")
EVERYWHERE = ["--sum", "everywhere"]
WORKERS = 5
JOB = ["--workers", str(WORKERS), "--chunks", "6", "--samples", "300", "--features", "6", "--optimizer", "adam",
       "--seed", "3"]
ENDLESS = ["--rounds", "100000"]
SLEEP = ["--straggler", "shifted-exp:0.002,0.003"]  # per piece
BOTH = ["--compress", "int8", "--compress-down", "int8"]
REAL = {
    "a9a": ["--data", os.path.join(DATA, "a9a.t"), "--model", "logistic", "--parts", "2", "--rounds", "25"],
    "digits": ["--data", os.path.join(DATA, "t10k-images-idx3-ubyte.gz"), "--labels",
               os.path.join(DATA, "t10k-labels-idx1-ubyte.gz"), "--model", "softmax", "--rounds", "15"],
}


class Everywhere(NetworkTest):
    def begin(self, job, workers=range(WORKERS), straggler=()):
        cluster = self.cluster([*job, *EVERYWHERE], keys=self.keys(WORKERS))
        address = cluster.serve()
        for worker in workers:
            cluster.work(worker, address, *straggler)
        return cluster, address

    def assert_workers_end(self, cluster):
        for worker in cluster.workers.values():
            self.assertEqual(worker.wait(), 0, worker.told())

    def await_voters(self, cluster, least):
        """Until a round that began after this call has a sum of so many; on a busy machine some may be behind in others."""
        begun = len(cluster.server.log("round"))
        end = time.monotonic() + WAIT
        while not any(line["sum"]["voters"] >= least for line in cluster.server.log("round")[begun + 1 :]):
            self.assertTrue(time.monotonic() < end and cluster.server.running, cluster.told())
            time.sleep(0.02)

    def test_the_same_losses_over_tls(self):
        job = [*JOB, "--rounds", "12", "--verify", "--parts", "2"]
        cluster, address = self.begin(job, range(1, WORKERS))
        cluster.work(0, address, "--listen", ":0")  # on all of its addresses
        report = cluster.finish(WAIT)
        self.assert_same_losses(report, self.trained(job))
        self.assert_exact_or_said(report)
        self.assertEqual(max(each["sum"]["voters"] for each in report["rounds"]), WORKERS)
        self.assert_workers_end(cluster)
        self.assertEqual([each["sum"]["step"] for each in report["rounds"]], list(range(1, 13)))

    def test_numbers_in_fewer_bytes_over_tls(self):
        """Sums are off by what rounding costs, and all workers have the same; on either way, and on both."""
        job = [*JOB, "--rounds", "10", "--verify", "--chunks", "8"]
        plain = self.trained(job)
        for forms in ["--compress", "bf16"], ["--compress", "int8"], ["--compress-down", "int8"], BOTH:
            with self.subTest(forms=forms):
                cluster, _ = self.begin([*job, *forms])
                report = cluster.finish(WAIT)
                self.assert_workers_end(cluster)
                self.assertAlmostEqual(report["final"]["loss"] / plain["final"]["loss"], 1, delta=0.05)
                for each in report["rounds"]:
                    self.assertTrue(each["exact"])
                    self.assertTrue(1e-5 < each["verified_error"] < 5e-2, each["verified_error"])

    @unittest.skipUnless(LONG_FORM, "the long form")
    def test_seventy_members(self):
        """Some are killed, and the sums of the others stay exact."""
        many = 70
        job = ["--workers", str(many), "--chunks", str(many), "--replication", "4", "--samples", "700", "--features", "5000",
               "--seed", "3", *EVERYWHERE, "--verify", "--wait", "60"]
        cluster = self.cluster([*job, *ENDLESS])
        address = cluster.serve()
        for worker in range(many):
            cluster.work(worker, address, *SLEEP)
        self.await_voters(cluster, many)
        for worker in 11, 12:
            cluster.workers[f"worker-{worker}"].kill()
            cluster.server.await_log("left_out", worker=worker)
        report = cluster.stop(3)
        self.assert_exact_or_said(report)
        self.assertEqual(report["rounds"][-1]["sum"]["voters"], many - 2)

    def test_a_worker_is_killed_and_another_comes_late(self):
        cluster, address = self.begin([*JOB, *ENDLESS, "--verify", "--wait", "1"], range(WORKERS - 1), SLEEP)
        server = cluster.server
        server.await_log("round", round=8)
        cluster.workers["worker-1"].kill()
        server.await_log("left_out", worker=1)
        cluster.work(1, address, *SLEEP)
        cluster.work(WORKERS - 1, address, *SLEEP)
        for worker in 1, WORKERS - 1:
            server.await_log("load", worker=worker)
        self.await_voters(cluster, WORKERS)
        report = cluster.stop(3)
        self.assert_exact_or_said(report)
        self.assert_same_losses(report, self.trained([*JOB, "--rounds", str(len(report["rounds"]))]))
        self.assert_workers_end(cluster)

    def test_sums_in_fewer_bytes_outlive_a_worker(self):
        """Attempts are made again, pieces stand, and who comes loads: of what was rounded all have the same bits, or rounds
        would fail, and parameters differ."""
        job = [*JOB, *BOTH, "--features", "20000", "--rate", "0.001", "--digest-steps", "1", "--verify"]
        cluster, address = self.begin([*job, *ENDLESS, "--wait", "1"], range(WORKERS), SLEEP)
        server = cluster.server
        server.await_log("round", round=6)
        server.await_log("joined", worker=1)
        cluster.workers["worker-1"].kill()
        server.await_log("left_out", worker=1)
        cluster.work(1, address, *SLEEP)
        server.await_log("load", worker=1)
        self.await_voters(cluster, WORKERS)
        report = cluster.stop(3)
        self.assertTrue(all(each["exact"] and each["verified_error"] < 5e-2 for each in report["rounds"]))
        self.assertNotIn("differs", [line["reason"] for line in server.log("left_out")])
        wanted = self.trained([*JOB, "--features", "20000", "--rate", "0.001", "--rounds", str(len(report["rounds"]))])
        self.assertAlmostEqual(report["final"]["loss"] / wanted["final"]["loss"], 1, delta=0.1)
        self.assert_workers_end(cluster)

    def test_a_server_that_is_told_to_end_leaves_a_checkpoint(self):
        cluster, _ = self.begin([*JOB, *ENDLESS, "--checkpoint", "c", "--checkpoint-every", "100000"], straggler=SLEEP)
        cluster.server.await_log("round", round=5)
        report = cluster.stop(1)
        self.assertEqual(cluster.server.errors().count("tarry: "), 1, cluster.server.errors())  # that of the interruption
        self.assert_same_losses(report, self.trained([*JOB, "--rounds", str(len(report["rounds"]))]))
        self.assertIn("c.sums", os.listdir(cluster.folder))

    def test_a_server_goes_on_from_its_checkpoint_to_the_bit(self):
        """Where it was told to end, workers are where it is. Where it was killed they are ahead, and it follows them: no step
        is made again. If they were killed, too, it goes back to the checkpoint. None of it changes a bit."""
        job = [*JOB, "--reproducible", "--checkpoint", "c", "--checkpoint-every", "6", "--save", "w.npy"]
        for fault in "told", "killed", "killed with all workers":
            with self.subTest(fault=fault):
                cluster, address = self.begin([*job, *ENDLESS], straggler=SLEEP)
                cluster.server.await_log("round", round=7)
                if fault == "told":
                    cluster.stop(1)
                else:
                    cluster.server.kill()
                done = len(cluster.server.log("round"))
                if fault.endswith("workers"):
                    for number in range(WORKERS):
                        cluster.workers[f"worker-{number}"].kill()
                cluster.serve("--resume", "--rounds", str(done + 5), listen=f"{address[0]}:{address[1]}")
                if fault.endswith("workers"):
                    for number in range(WORKERS):
                        cluster.work(number, address, *SLEEP)
                report = cluster.finish(WAIT)
                self.assert_workers_end(cluster)
                steps = [each["sum"]["step"] for each in report["rounds"]]
                if fault == "killed":
                    # The log of sums may be a step ahead of the log of events, and so may the checkpoint.
                    ahead, lost = report["covers"]["resumed_after"], report["covers"]["lost"]
                    self.assertIn(ahead, (done, done + 1))
                    self.assertEqual(steps, [*range(1, ahead - lost + 1), *range(ahead + 1, done + 6)])
                    self.assertEqual((ahead - lost) % 6, 0)
                    if lost > 0:
                        self.assertIn(f"continues after step {ahead}, which workers have", cluster.server.errors())
                else:
                    self.assertEqual(steps, list(range(1, done + 6)))
                    self.assertEqual(report["covers"]["lost"], 0)
                if fault.endswith("workers"):
                    self.assertRegex(cluster.server.errors(), r"no worker has the state after step \d+: continues from the "
                                                              r"checkpoint, after step (6|12)\n")
                folder = self.folder()
                self.tarry("train", *JOB, "--reproducible", "--rounds", str(done + 5), "--save", "w.npy", "--quiet",
                           folder=folder)
                found, wanted = [(pathlib.Path(at) / "w.npy").read_bytes() for at in (cluster.folder, folder)]
                self.assertEqual(found, wanted)

    def test_a_worker_of_an_older_version_is_told_so(self):
        cluster, address = self.begin([*JOB, *ENDLESS, "--verify", "--wait", "1"], range(WORKERS - 1), SLEEP)
        older = frames.VERSION - 1
        tls = context(cluster.credentials(f"worker-{WORKERS - 1}")[1])
        with Peer(address, tls) as worker:
            worker.send(frames.hello(WORKERS - 1, oldest=older, newest=older))
            reason, text = worker.end()
        self.assertEqual(frames.Reason(reason), frames.Reason.VERSION)
        said = (f"no version of the protocol that both speak: the server has {frames.VERSION}, the other side {older} to "
                f"{older}")
        self.assertEqual(text, said)
        cluster.server.await_log("refused", text=said)
        cluster.server.await_log("round", round=3)  # all others go on
        self.assert_exact_or_said(cluster.stop(1))

    def test_workers_that_do_not_reach_each_other_say_so(self):
        """Of two, one connects to the other, and neither can be connected to; the rest go on."""
        cluster, address = self.begin([*JOB, *ENDLESS, "--wait", str(WAIT)], range(2, WORKERS), SLEEP)
        pair = [cluster.work(worker, address, "--advertise", "127.0.0.1:1", *SLEEP) for worker in (0, 1)]

        def said():
            return [line["text"] for worker in pair for line in worker.log("others")]
        end = time.monotonic() + WAIT
        while not any(re.search("^worker [01] is not reached: .*refused", text) for text in said()):
            self.assertTrue(time.monotonic() < end and cluster.server.running, cluster.told())
            time.sleep(0.02)
        cluster.server.await_log("round", round=3)
        failed = cluster.server.await_log("sum_failed")
        self.assertGreaterEqual(failed["sum"]["attempt"], 1, failed)
        self.await_voters(cluster, 3)
        cluster.stop(1)

    @unittest.skipUnless(LONG_FORM, "the long form")
    @unittest.skipUnless(os.path.isdir(DATA), "there is no data")
    def test_real_data(self):
        for name, job in REAL.items():
            with self.subTest(data=name):
                expected = self.trained(["--workers", str(WORKERS), "--chunks", "10", *job])
                folder = self.folder()
                self.tarry("train", "--workers", str(WORKERS), "--chunks", "10", *job, *EVERYWHERE, "--processes", "--quiet",
                           "--report", "report.json", folder=folder)
                with open(os.path.join(folder, "report.json")) as file:
                    self.assert_same_losses(json.load(file), expected)
                cluster, _ = self.begin(["--workers", str(WORKERS), "--chunks", "10", *job, "--ship-data"])
                self.assert_same_losses(cluster.finish(LONG), expected)


if __name__ == "__main__":
    unittest.main()
