# SPDX-License-Identifier: Apache-2.0
"""tarry train --local-steps: the same parameters as a serial oracle of FedAvg and of DiLoCo's outer optimizer, whoever
computes which chunk and whoever dies."""

import json
import math
import random
import re
import struct
import time

from harness import TIMEOUT, TarryTest

SAMPLES, FEATURES, CHUNKS, L2 = 203, 4, 8, 1e-3
RUN = ["--data", "data.svm", "--model", "least-squares", "--l2", str(L2), "--chunks", str(CHUNKS), "--pieces", "1",
       "--workers", "4", "--replication", "2", "--quiet"]


def gradient(rows, w):
    """Of the mean of the halved squared errors and the l2 term, in double."""
    total = [L2 * each for each in w]
    for x, y in rows:
        apart = sum(a * b for a, b in zip(x, w, strict=True)) - y
        total = [t + apart * a / len(rows) for t, a in zip(total, x, strict=True)]
    return total


class Steps:
    """Descent, momentum and Nesterov's (Sutskever et al. 2013), one step at a time."""

    def __init__(self, kind, rate, decay):
        self.kind, self.rate, self.decay = kind, rate, decay
        self.velocity = [0.0] * FEATURES

    def step(self, w, g):
        if self.kind == "gd":
            return [a - self.rate * b for a, b in zip(w, g, strict=True)]
        self.velocity = [self.decay * v + b for v, b in zip(self.velocity, g, strict=True)]
        along = self.velocity if self.kind == "momentum" else [b + self.decay * v
                                                               for b, v in zip(g, self.velocity, strict=True)]
        return [a - self.rate * b for a, b in zip(w, along, strict=True)]


def oracle(rows, rounds, steps, inner, outer):
    """The parameters after so many rounds; inner and outer: what Steps takes. FedAvg's mean is over y, not x - y."""
    w = [0.0] * FEATURES
    outside = Steps(*outer)
    for _ in range(rounds):
        mean = [0.0] * FEATURES
        for i in range(CHUNKS):
            own = rows[i * len(rows) // CHUNKS:(i + 1) * len(rows) // CHUNKS]
            inside, y = Steps(*inner), w
            for _ in range(steps):
                y = inside.step(y, gradient(own, y))
            mean = [m + len(own) / len(rows) * b for m, b in zip(mean, y, strict=True)]
        w = outside.step(w, [a - b for a, b in zip(w, mean, strict=True)])
    return w


class LocalSteps(TarryTest):
    def setUp(self):
        super().setUp()
        draw = random.Random(16)
        self.rows = []
        for i in range(SAMPLES):  # chunks that differ: the samples' order means something
            x = [draw.gauss(0, 1) for _ in range(FEATURES)]
            y = sum(x) + 3 * i / SAMPLES + draw.gauss(0, 0.1)
            self.rows.append(([round(a, 6) for a in x], round(y, 6)))
        self.write("data.svm", "".join(" ".join([str(y), *(f"{i}:{a}" for i, a in enumerate(x, 1))]) + "\n"
                                       for x, y in self.rows))

    def saved(self):
        bytes_ = self.read("w.npy", "rb")
        return list(struct.unpack(f"<{FEATURES}f", bytes_[-4 * FEATURES:]))

    def train(self, *options):
        self.succeed("train", *RUN, *options, "--save", "w.npy", "--report", "report.json")
        return self.saved()

    def assert_near(self, found, expected, relative=1e-5):
        apart = math.dist(found, expected) / math.hypot(*expected)
        self.assertLess(apart, relative, f"{found} and {expected}")

    def test_fedavg_and_diloco_are_those_of_a_serial_oracle(self):
        for flags, inner, outer in (
                ("--local-steps 5:0.1 --outer gd", ("gd", 0.1, 0), ("gd", 1, 0)),
                ("--local-steps 7:0.05", ("gd", 0.05, 0), ("nesterov", 0.7, 0.9)),
                ("--local-steps 5 --rate 0.1 --outer momentum:0.2:0.5", ("gd", 0.1, 0), ("momentum", 0.2, 0.5)),
                ("--local-steps 3:0.02 --optimizer nesterov --outer gd:0.5", ("nesterov", 0.02, 0.9), ("gd", 0.5, 0))):
            steps = int(re.search(r"local-steps (\d+)", flags).group(1))
            expected = oracle(self.rows, 12, steps, inner, outer)
            for how in ("", "--sum everywhere", "--parts 2", "--keep credited", "--straggler dead:1"):
                with self.subTest(flags=flags, how=how):
                    self.assert_near(self.train(*flags.split(), *how.split(), "--rounds", "12", "--verify"), expected)
                    worst = json.loads(self.read("report.json"))["final"]
                    self.assertLess(worst["verified_error"], 1e-5)
                    self.assertLess(worst["model_rounding"], 1e-5)

    def test_one_step_on_the_whole_chunk_is_descent(self):
        descent = self.train("--rate", "0.2", "--rounds", "20")
        self.assert_near(self.train("--local-steps", "1:0.2", "--outer", "gd", "--rounds", "20"), descent, 1e-6)

    def test_all_copies_are_the_same_to_the_bit(self):
        for how in "", "--batch 64", "--batch 64 --optimizer adam --rate 0.01":
            with self.subTest(how=how):
                flags = ["--local-steps", "5", *how.split(), "--reproducible", "--rounds", "6"]
                flags += [] if "--rate" in how else ["--rate", "0.1"]
                one = self.train(*flags)
                self.assertEqual(self.train(*flags, "--processes"), one)
                self.assert_near(self.train(*flags, "--straggler", "dead:1"), one, 1e-6)  # added in another order
                self.assertNotEqual(self.train(*flags, *(["--seed", "3"] if how else ["--l2", "0.1"])), one)

    def test_a_run_goes_on_from_its_checkpoint_to_the_bit(self):
        for how in "", "--sum everywhere":
            with self.subTest(how=how):
                flags = ["--local-steps", "4:0.05", "--batch", "64", "--reproducible", *how.split()]
                whole = self.train(*flags, "--rounds", "9")
                name = f"run{len(how)}.ck"
                self.train(*flags, "--rounds", "4", "--checkpoint", name)
                self.assertEqual(self.train(*flags, "--rounds", "9", "--checkpoint", name, "--resume"), whole)
                self.fail_with(2, f"tarry: --resume: {name} is of a run with --local-steps 4:0.05, not 3:0.05", "train",
                               *RUN, *flags, "--local-steps", "3:0.05", "--checkpoint", name, "--resume")

    def test_a_killed_worker_costs_no_step_and_no_bias(self):
        """A process that is killed in the middle of an outer round: the others take its local steps again, and all."""
        expected = oracle(self.rows, 8, 5, ("gd", 0.1, 0), ("nesterov", 0.7, 0.9))
        for how in "", "--sum everywhere", "--parts 2 --replication 3":
            with self.subTest(how=how):
                lost = 0
                for again in range(5):  # where the machine held this process up, the run may be over before the kill
                    rounds = self.train_with_a_kill(f"log{len(how)}-{again}", how)
                    self.assertEqual([(each["round"], each["exact"]) for each in rounds], [(i, True) for i in range(8)])
                    self.assert_near(self.saved(), expected)
                    lost = max(each["workers_lost"] for each in rounds)
                    if lost > 0:
                        break
                self.assertGreater(lost, 0)

    def train_with_a_kill(self, log, how):
        """The rounds of its report."""
        server = self.start("serve", "--listen", "unix:socket", *RUN, "--local-steps", "5:0.1", "--rounds", "8", *how.split(),
                            "--ship-data", "--save", "w.npy", "--report", "report.json", "--log", log)
        started = [server]
        try:
            self.wait_for(log, lambda e: e["event"] == "listening")
            workers = [self.start("work", "--connect", "unix:socket", "--worker", str(i), "--straggler", "shifted-exp:0.1,0")
                       for i in range(4)]  # per chunk: a round takes 0.2 s
            started += workers
            self.wait_for(log, lambda e: e["event"] == "round" and e["round"] == 2)
            workers[1].kill()
            self.assertEqual(server.communicate(timeout=TIMEOUT)[1], "")
        finally:
            for process in started:
                process.kill()
                process.communicate()
        self.assertEqual(server.returncode, 0)
        return json.loads(self.read("report.json"))["rounds"]

    def wait_for(self, log, condition):
        """An event of the log that it holds for."""
        end = time.monotonic() + TIMEOUT
        while not (log in self.files() and
                   any(condition(json.loads(line)) for line in self.read(log).splitlines(True) if line.endswith("\n"))):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_what_does_not_go_together(self):
        for flags, said in (
                ("--outer gd", "tarry: --outer: has no meaning without --local-steps"),
                ("--local-steps 5:0.1 --rate 0.2", "tarry: --rate: the rate is in --local-steps 5:0.1, too"),
                ("--local-steps 5 --adapt 5", "tarry: --adapt: plans that follow cut chunks, and local steps on a part of "
                 "a chunk are no part of those on the whole")):
            with self.subTest(flags=flags):
                self.fail_with(2, said, "train", *RUN, *flags.split())
        for flags in ("--local-steps 0", "--local-steps 5:", "--local-steps 5:0", "--local-steps 5:1:1",
                      "--local-steps 5 --outer adam", "--local-steps 5 --outer gd:1:0.9", "--local-steps 5 --outer gd:",
                      "--local-steps 5 --outer momentum:1:1", "--local-steps 5 --outer nesterov:1:0.5:3"):
            with self.subTest(flags=flags):
                self.fail_like(2, r"tarry: --(local-steps|outer): '.*", "train", *RUN, *flags.split())
