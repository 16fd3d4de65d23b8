# SPDX-License-Identifier: Apache-2.0
"""
Relays between a server and its workers, as real processes over TLS: the training is that without them, whatever becomes of
a relay, and whoever is behind another one computes nothing again for it.
"""

import re
import signal
import time
import unittest

from cluster import WAIT, NetworkTest

WORKERS, RELAYS = 6, 3
JOB = ["--workers", str(WORKERS), "--chunks", "12", "--replication", "2", "--samples", "300", "--features", "6",
       "--seed", "3", "--order", "optimal"]
ENDLESS = ["--rounds", "100000"]
IN_HAND = 2  # pieces of a worker whose connection ends: the one that it computes, and one on its way
SLEEP = ["--straggler", "shifted-exp:0.004,0.004"]  # per piece


class Relays(NetworkTest):
    def begin(self, job, straggler=(), serve=()):
        """A server, and two workers behind each of the relays; the server tells them of the other relays."""
        cluster = self.cluster(job, keys=self.keys(WORKERS, RELAYS))
        address = cluster.serve(*serve)
        relays = [cluster.relay(number, address) for number in range(RELAYS)]
        for worker in range(WORKERS):
            cluster.work(worker, relays[worker % RELAYS][1], *straggler)
        return cluster, [relay for relay, _ in relays], [where for _, where in relays]

    def assert_nobody_computed_again(self, cluster, but=()):
        for worker in cluster.workers.values():
            self.assertEqual(worker.wait(), 0, worker.told())
            again = worker.log("end")[0]["computed_again"]
            self.assertLessEqual(again, IN_HAND if worker in but else 0, worker.told())

    def test_the_same_bits_as_without_relays(self):
        job = [*JOB, "--rounds", "12", "--verify", "--reproducible"]
        cluster, relays, _ = self.begin(job)
        report = cluster.finish(WAIT)
        self.assert_exact_or_said(report)
        without = self.cluster(job, keys=self.keys(WORKERS))
        address = without.serve()
        for worker in range(WORKERS):
            without.work(worker, address)
        self.assertEqual([each["loss"] for each in report["rounds"]],
                         [each["loss"] for each in without.finish(WAIT)["rounds"]])
        for relay in relays:
            self.assertEqual(relay.wait(), 0, relay.told())
            end = relay.log("end")[0]
            self.assertGreaterEqual(end["arrivals"], WORKERS // RELAYS)  # and second connections
            self.assertGreaterEqual(end["reports"], 12)
        self.assert_nobody_computed_again(cluster)

    def test_coded_parts_are_added_up_on_the_way(self):
        job = [*JOB, "--rounds", "12", "--verify"]
        cluster, relays, _ = self.begin(job)
        report = cluster.finish(WAIT)
        self.assert_exact_or_said(report)
        self.assert_same_losses(report, self.trained(job))
        for relay in relays:
            self.assertEqual(relay.wait(), 0, relay.told())
        self.assertGreater(sum(relay.log("end")[0]["sums"] for relay in relays), 0)

    def test_parts_in_another_form_are_passed_on(self):
        """As they are, and the root alone adds them up."""
        for form in ("int8", "int4", "sign", "powersgd:2"):
            model = ["--model", "mlp", "--hidden", "16", "--features", "30"] if form.startswith("powersgd") else []
            job = [*JOB, *model, "--rounds", "8", "--reproducible", "--compress", form]
            cluster, relays, _ = self.begin(job)
            report = cluster.finish(WAIT)
            self.assert_same_losses(report, self.trained(job))
            for relay in relays:
                self.assertEqual(relay.wait(), 0, relay.told())
                self.assertEqual(relay.log("end")[0]["sums"], 0)

    def test_changes_of_the_view_are_passed_on(self):
        """As they come; who comes to a relay later gets the view from it."""
        job = [*JOB, "--features", "40000", "--reproducible", "--compress-down", "int8"]
        cluster, _, places = self.begin([*job, *ENDLESS], SLEEP)
        cluster.server.await_log("round", round=4)
        cluster.workers["worker-1"].kill()
        cluster.work(1, places[1 % RELAYS], *SLEEP)
        cluster.await_everyone()
        report = cluster.stop(3)
        # Others may have come back as well, if the machine held them up.
        self.assertGreaterEqual(report["network"]["workers"][1]["arrivals"], 2)
        trained = self.trained([*job, "--rounds", str(len(report["rounds"]))])
        self.assertAlmostEqual(report["final"]["loss"] / trained["final"]["loss"], 1, delta=1e-4)
        for worker in cluster.workers.values():
            self.assertNotIn("view", worker.told())

    def test_who_leaves_sends_what_rounding_lost(self):
        """As float32, longer than all other parts: the relay passes that on, too."""
        job = [*JOB, "--features", "20000", *ENDLESS, "--compress", "topk:0.001"]
        cluster, relays, _ = self.begin(job, SLEEP)
        cluster.server.await_log("round", round=3)
        for worker in range(3):
            cluster.workers[f"worker-{worker}"].signal(signal.SIGTERM)
        for worker in range(3):
            leaving = cluster.workers[f"worker-{worker}"]
            self.assertEqual(leaving.wait(), 0, leaving.told())
            self.assertEqual(leaving.log("end")[0]["voided_residuals"], 0)
        self.assertEqual(cluster.server.log("refused"), [])
        cluster.server.end()

    def lose(self, end, *serve):
        """A relay is lost in the middle of the run, by its process and its number."""
        cluster, relays, places = self.begin([*JOB, *ENDLESS, "--verify"], SLEEP, serve)
        cluster.server.await_log("round", round=10)
        moved = [cluster.workers[f"worker-{worker}"] for worker in range(1, WORKERS, RELAYS)]
        end(relays[1])
        for worker in moved:
            deadline = time.monotonic() + WAIT
            while len(worker.log("connected")) < 2 and time.monotonic() < deadline:
                time.sleep(0.02)
            first, second = worker.log("connected")
            others = [f"{host}:{port}" for host, port in (places[0], places[2])]
            self.assertEqual(first["peer"], f"{places[1][0]}:{places[1][1]}")
            self.assertIn(second["peer"], others)
        cluster.await_everyone()
        report = cluster.stop(3)
        self.assert_exact_or_said(report)
        self.assertTrue(all(each["exact"] for each in report["rounds"]))
        self.assertEqual(cluster.server.log("left_out"), [])
        self.assert_same_losses(report, self.trained([*JOB, "--rounds", str(len(report["rounds"]))]))
        self.assert_nobody_computed_again(cluster, moved)

    def test_a_relay_is_killed(self):
        self.lose(lambda relay: relay.kill())

    def test_a_relay_is_killed_that_passed_data_on(self):
        """Workers have no data: what the server sent one of them is there still, behind another relay."""
        self.lose(lambda relay: relay.kill(), "--ship-data")

    def test_a_relay_is_killed_where_everyone_gets_the_sum(self):
        """Votes and parameters go among workers; those who lose their relay are behind, or vote again."""
        cluster, relays, _ = self.begin([*JOB, *ENDLESS, "--sum", "everywhere"], SLEEP)
        cluster.server.await_log("round", round=5)
        relays[1].kill()
        for worker in range(1, WORKERS, RELAYS):
            deadline = time.monotonic() + WAIT
            while len(cluster.workers[f"worker-{worker}"].log("connected")) < 2 and time.monotonic() < deadline:
                time.sleep(0.02)
        cluster.await_everyone()
        report = cluster.stop(3)
        self.assertEqual(cluster.server.log("left_out"), [])
        self.assert_same_losses(report, self.trained([*JOB, "--rounds", str(len(report["rounds"]))]), places=1e-4)

    def test_a_relay_is_told_to_end(self):
        def end(relay):
            self.assertEqual(relay.end(), 0, relay.told())

        self.lose(end)

    def test_a_relay_without_a_server_sends_workers_elsewhere(self):
        cluster = self.cluster(["--workers", "2", "--chunks", "4", "--samples", "100", "--rounds", "5"],
                               keys=self.keys(2, relays=2))
        address = cluster.serve()
        lost = cluster._start("relay-0", ["relay", "--connect", "127.0.0.1:1", "--listen", "127.0.0.1:0",
                                          *cluster.credentials("relay-0")], "relay-0")
        nowhere = lost.await_log("listening")["peer"]
        _, (host, port) = cluster.relay(1, address)
        for worker in range(2):
            name = f"worker-{worker}"
            cluster.workers[name] = cluster._start(
                name, ["work", "--connect", f"{nowhere},{host}:{port}", *cluster.credentials(name), "--no-share"], name)
        cluster.finish(WAIT)
        self.assertIn("this relay has no connection to its server", lost.log("refused")[0]["text"])

    def test_a_worker_s_credential_is_no_relay_s(self):
        keys = self.keys(1)
        cluster = self.cluster(["--workers", "1", "--chunks", "1", "--samples", "50"], keys=keys)
        address = cluster.serve()
        wrong = cluster._start("wrong", ["relay", "--connect", f"{address[0]}:{address[1]}", "--listen", "127.0.0.1:0",
                                         *cluster.credentials("worker-0")], "wrong")
        self.assertEqual(wrong.wait(), 1)
        self.assertRegex(wrong.errors(), re.escape("not the credentials of a relay"))
        cluster.server.signal(signal.SIGTERM)


if __name__ == "__main__":
    unittest.main()
