# SPDX-License-Identifier: Apache-2.0
"""
A server and workers in network namespaces of their own, over TLS and links of every quality, train what threads of one
process train: the same losses in all rounds.
"""

import os
import threading
import unittest

from cluster import SILENCE, NetworkTest, median
from namespaces import Namespaces, skip_unless_available
from proxy import Proxy

WORKERS = 6
MACHINES = 4  # the server's and three of workers
ROUNDS = 30
SECONDS = 300
DELAY = 0.02
MEGABIT = 125_000  # bytes per second


def data():
    """a9a where it lies beside the checkout; else samples are made up."""
    file = os.path.join(os.environ.get("TARRY_TEST_DATA", ""), "a9a.t")
    if os.path.exists(file):
        return ["--data", os.path.abspath(file)]
    print("a9a.t is not there: samples are made up")
    return []


JOB = ["--workers", str(WORKERS), "--chunks", str(WORKERS), "--pieces", "1", "--order", "optimal",
       "--replication", "3", "--rounds", str(ROUNDS)]


class Machines(NetworkTest):
    def setUp(self):
        self.data = data()
        self.job = [*JOB, *(self.data or ["--samples", "2000", "--features", "123"])]
        self.machines = self.enterContext(Namespaces(MACHINES))
        self.links = []

    def place(self, worker):
        return 1 + worker % (MACHINES - 1)

    def serve(self, place, *options):
        """A server on the first machine, and where workers will be; gives back its address."""
        around = {f"worker-{worker}": lambda arguments, at=place(worker): self.machines.command(at, arguments)
                  for worker in range(WORKERS)}
        around["server"] = lambda arguments: self.machines.command(0, arguments)
        self.training = self.cluster([*self.job, *options], keys=self.keys(WORKERS), around=around)
        return self.training.serve(listen=f"{self.machines.address(0)}:0")

    def start(self, *options, **shape):
        """A cluster whose links go through proxies on the server's machine."""
        address, here = self.serve(self.place, *options), self.machines.address(0)
        for worker in range(WORKERS):
            link = self.enterContext(Proxy(address, inside=self.machines.inside(0), host=here, **shape))
            self.links.append(link)
            self.training.work(worker, link.address, *self.data)
        return self.training

    def check(self, *options):
        return self.check_report(self.training.finish(SECONDS), *options)

    def check_report(self, report, *options):
        self.assert_same_losses(report, self.trained([*self.job, *options, "--rounds", str(len(report["rounds"]))]))
        self.assertTrue(all(round["exact"] for round in report["rounds"]))
        print(f"{self.id().rpartition('.')[2]}: median round {median(self.training.round_seconds()) * 1e3:.0f} ms")
        return report

    def test_bare_links(self):
        self.start()
        self.check()

    def test_late_narrow_and_stalled_links(self):
        self.start("--parts", "2", delay=DELAY)
        self.links[1].rate = MEGABIT
        stalls = [threading.Timer(0.5 + worker * 0.4, self.links[worker].stall, (0.3,)) for worker in range(WORKERS)]
        for stall in stalls:
            stall.start()
        self.check("--parts", "2")
        for stall in stalls:
            stall.cancel()
        self.assertGreater(median(self.training.round_seconds()), 4 * DELAY)  # there and back: the round, and the signal

    def test_netem(self):
        if not all(self.machines.netem(place, "delay", "20ms", "2ms", "loss", "0.1%") for place in range(MACHINES)):
            self.skipTest("this kernel has no netem")
        self.start()
        self.check()

    def test_workers_that_may_share_memory_sum_with_those_elsewhere(self):
        """Two workers are on the server's machine; sums are made among all, wherever they are."""
        how = ["--sum", "everywhere", "--wait", "60"]
        address = self.serve(lambda worker: worker // 2, *how)
        for worker in range(WORKERS):
            self.training.work(worker, address, *self.data, share=True)
        report = self.check(*how[:2])
        # Whom the machine holds up is not waited for; who is not connected never has a part.
        self.assertEqual(max(each["sum"]["voters"] for each in report["rounds"]), WORKERS)
        last = self.training.server.log("round")[-1]["time"]  # who ends then refuses others, who learn of it later
        for worker in self.training.workers.values():
            self.assertEqual(worker.wait(), 0, worker.told())
            self.assertEqual([line for line in worker.log("others") if "refused" in line["text"] and line["time"] < last], [])

    def test_a_cable_is_pulled(self):
        """A machine with two workers is cut off and comes back; what it held, others hold too."""
        self.start("--rounds", "100000", "--silence", str(SILENCE), delay=DELAY)
        server, cut = self.training.server, [worker for worker in range(WORKERS) if self.place(worker) == 1]
        server.await_log("round", round=5)
        self.machines.down(1)
        for worker in cut:
            server.await_log("left_out", worker=worker)
        told = [line for line in server.log("left_out") if line["reason"] != "late"]
        self.machines.up(1)
        self.training.await_everyone()
        self.check_report(self.training.stop(rounds=10))
        self.assertLessEqual({line["worker"] for line in told}, set(cut))


if __name__ == "__main__":
    skip_unless_available()
    unittest.main()
