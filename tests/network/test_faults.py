# SPDX-License-Identifier: Apache-2.0
"""
Every fault in every phase of a round, with real processes: no run hangs, every round that ends is exact or says that it
is not, the server says whom it did without and why, and the training ends where an undisturbed one does. The short form
has each fault in one phase and each phase with some faults; the seed says which.
"""

import concurrent.futures
import contextlib
import itertools
import os
import random
import signal
import threading
import time
import unittest

import faults
from cluster import LONG_FORM, SILENCE, WAIT, NetworkTest, Stalls, median
from phases import AFTER_PART, PHASES, strike
from proxy import Proxy

SEED = int(os.environ.get("TARRY_TEST_SEED", "1"))
AT_A_TIME = 3
CASE_SECONDS = 300  # a sanitized program on a busy machine takes most of it
MORE_ROUNDS = 5  # after all are back
ENDLESS = 100_000
FREEZES, AFTER_FREEZE = 4 if LONG_FORM else 2, 2  # times, rounds
WORKERS, FEATURES, STRIPES = 5, 70_000, 2  # a part is 280,000 bytes, in stripes of at most 262,144
JOB = ["--workers", str(WORKERS), "--chunks", str(WORKERS), "--pieces", "1", "--order", "optimal",
       "--replication", "3", "--samples", "50", "--holdout", "0",
       "--features", str(FEATURES), "--rate", "0.01", "--seed", "3", "--verify"]
SLEEP = ["--straggler", "shifted-exp:0.04,0.003"]  # per chunk, of which each worker computes one
LONG_SLEEP = ["--straggler", "shifted-exp:0.6,0.01"]  # more than a tick of the clock that looks for the silent

KINDS = [faults.Killed, faults.Restarted, faults.Paused, faults.CutOff, faults.Reset, faults.Slowed, faults.Doubled,
         faults.ServerKilled]


def pairs():
    """The faults and the phases in which they strike: the pairs that were asked for."""
    named = [getattr(faults, name) for name in os.environ.get("TARRY_TEST_FAULTS", "").split()]
    every = enumerate(itertools.product(named or KINDS, PHASES))
    if named or LONG_FORM:
        return list(every)
    return [(number, pair) for number, pair in every
            if (KINDS.index(pair[0]) + PHASES.index(pair[1]) + SEED) % len(PHASES) == 0]


class Case:
    """One run in which one fault strikes one worker in one phase."""

    def __init__(self, test, fault, phase, number):
        self.test, self.phase = test, phase
        draw = random.Random(f"{SEED} {number}")
        self.victim, self.first = draw.randrange(WORKERS), draw.randrange(4, 9)
        self.fault = fault(self)
        self.name = f"{fault.__name__} of {self.victim} {phase}, from round {self.first} on, seed {SEED}"
        self.cluster = test.cluster([*JOB, "--rounds", str(fault.rounds or ENDLESS), *fault.options])

    @property
    def link(self):
        return self.links[self.victim]

    @property
    def worker(self):
        return self.cluster.workers[f"worker-{self.victim}"]

    def start_victim(self, name=None):
        self.cluster.work(self.victim, self.link.address, *SLEEP, name=name)

    def run(self):
        with contextlib.ExitStack() as stack:
            stack.callback(self.cluster.close)
            self.stalls = stack.enter_context(Stalls())
            address = self.cluster.serve()
            self.links = [stack.enter_context(Proxy(address, framed=True)) for _ in range(WORKERS)]
            strike(self.links, self.victim, self.first, self.phase, STRIPES, self.fault.strike)
            for worker, link in enumerate(self.links):
                self.cluster.work(worker, link.address, *SLEEP)
            try:
                self.go_on(address)
                self.check(self.cluster.finish(CASE_SECONDS) if self.fault.rounds else self.stop())
            except AssertionError as error:
                raise AssertionError(f"{self.name}: {error}\n{self.cluster.told()}") from None
        return self

    def go_on(self, address):
        if isinstance(self.fault, faults.ServerKilled):
            self.test.assertTrue(self.fault.finished.wait(CASE_SECONDS), "the fault never struck")
            self.cluster.server.wait()
            self.cluster.serve("--resume", listen=f"{address[0]}:{address[1]}")

    def stop(self):
        """Once the fault is over and all are back."""
        fault, server = self.fault, self.cluster.server
        self.test.assertTrue(fault.finished.wait(CASE_SECONDS), "the fault never struck, or is not over")
        if isinstance(fault, faults.Doubled):
            server.await_log("refused")
        end = time.monotonic() + WAIT
        while fault.needs_reason and not self.reasons() & fault.reasons and server.running and time.monotonic() < end:
            time.sleep(0.02)
        self.cluster.await_everyone()
        return self.cluster.stop(MORE_ROUNDS)

    def check(self, report):
        test, fault = self.test, self.fault
        test.assertIsNotNone(fault.round, "the fault never struck")
        if fault.rounds:
            test.assertEqual(len(report["rounds"]), fault.rounds)
        test.assert_exact_or_said(report)
        test.assert_same_losses(report, test.expected(len(report["rounds"])), 1e-5)
        reasons = self.reasons()
        test.assertLessEqual(reasons, fault.reasons | {"late"} | self.excused())
        if fault.needs_reason:
            test.assertTrue(reasons & fault.reasons, "the server never said that it does without the victim")
        if isinstance(fault, faults.Killed):
            test.assertGreaterEqual(self.cluster.server.log("round")[-1]["workers_lost"], 1, "at the end")

    def excused(self):
        """A machine that stands still for long, each process for itself, makes even the well silent."""
        return {"silent", "gone"} if self.stalls.longest() > SILENCE / 8 else set()

    def reasons(self):
        """Why the server has done without the victim since the fault."""
        said = self.cluster.server.log("left_out", worker=self.victim)
        return {line["reason"] for line in said if line["round"] >= self.fault.round}

    def figures(self):
        times = self.cluster.round_seconds()
        reasons = [line["reason"] for line in self.cluster.server.log("left_out", worker=self.victim)]
        return (f"{type(self.fault).__name__:12} {self.phase:30} {len(times)} rounds, median {median(times) * 1e3:.0f} ms, "
                f"longest {max(times) * 1e3:.0f} ms; left out: {', '.join(reasons) or 'never'}; the machine "
                f"stood still for {self.stalls.longest() * 1e3:.0f} ms")


class Faults(NetworkTest):
    silence = SILENCE

    @classmethod
    def setUpClass(cls):
        cls.undisturbed, cls.training = {"rounds": []}, threading.Lock()

    def expected(self, rounds):
        """The first rounds of an undisturbed run of the same job, by threads of one process."""
        with self.training:
            if len(self.undisturbed["rounds"]) < rounds:
                type(self).undisturbed = self.trained([*JOB, "--rounds", str(2 * rounds)])
            return {"rounds": self.undisturbed["rounds"][:rounds]}

    def test_every_fault_in_every_phase(self):
        print(f"seed {SEED}")
        cases = [Case(self, kind, phase, number) for number, (kind, phase) in pairs()]
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            for case, future in [(case, pool.submit(case.run)) for case in cases]:
                with self.subTest(case.name):
                    future.result()
                    print(case.figures())
        print(f"{len(cases)} cases in {time.monotonic() - start:.1f} s")

    def test_the_whole_machine_stands_still(self):
        """For longer than the limit, as a suspended one does: nobody is to blame, and nobody is left out for it."""
        cluster = self.cluster([*JOB, "--rounds", str(ENDLESS)])
        address = cluster.serve()
        for worker in range(WORKERS):
            cluster.work(worker, address, *LONG_SLEEP)
        with Stalls() as stalls:
            for _ in range(FREEZES):
                cluster.await_everyone()
                for process in cluster.everyone:
                    process.signal(signal.SIGSTOP)
                time.sleep(1.2 * SILENCE)
                for process in cluster.everyone:
                    process.signal(signal.SIGCONT)
                done = cluster.server.log("round")[-1]["round"]
                cluster.server.await_log("round", round=done + AFTER_FREEZE)
        report = cluster.stop(AFTER_FREEZE)
        self.assert_exact_or_said(report)
        self.assert_same_losses(report, self.expected(len(report["rounds"])), 1e-5)
        if stalls.longest() < SILENCE / 8:  # else each process may have stood still by itself
            self.assertLessEqual({line["reason"] for line in cluster.server.log("left_out")}, {"late"})
            self.assertEqual(len(cluster.server.log("joined")), WORKERS)


if __name__ == "__main__":
    unittest.main()
