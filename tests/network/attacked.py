# SPDX-License-Identifier: Apache-2.0
"""
Secure sums of a server and four workers, as processes, with a dishonest server between them: what its attacks and their
tests have in common.
"""

import collections
import os
import random
import struct
import threading

import frames
from cluster import WAIT, NetworkTest
from dishonest import DOWN, UP, Dishonest, Signal, is_signal, learns, parts_of
from frames import Kind, Type

WORKERS, CHUNKS, ROWS, FEATURES, BITS = 4, 4, 200, 5, 64
ROUNDS = 60
STRUCK = 5  # the round in which an attack begins, which then goes on
# A chunk takes all workers about as long, so that each has some in nearly every round.
SLEEP = ["--straggler", "shifted-exp:0.001,0.0002/chunk"]
SHAPE = ["--workers", str(WORKERS), "--chunks", str(CHUNKS), "--pieces", "1", "--replication", "2", "--design", "cyclic",
         "--rounds", str(ROUNDS)]
JOB = [*SHAPE, "--secure", "--secure-bits", str(BITS), "--secure-least", "50", "--wait", "60", "--patience", "1",
       "--save", "parameters.npy"]
ENDLESS = [*JOB, "--rounds", "100000"]  # until whoever is told something else has a part in a sum
# Of each chunk, by the cyclic design of replication 2: worker j holds chunks j and j + 1.
HOLDERS = [{chunk, (chunk - 1) % WORKERS} for chunk in range(CHUNKS)]
VICTIM = 1


def samples(rows):
    draw = random.Random(3)
    lines = []
    for _ in range(rows):
        row = [draw.gauss(0, 1) for _ in range(FEATURES)]
        numbers = (f"{i}:{value:.4f}" for i, value in enumerate(row, 1))
        lines.append(" ".join([f"{1 if sum(row) > 0 else -1}", *numbers]) + "\n")
    return "".join(lines)


def samples_as_numbers(rows):
    """Of each sample its features, and behind them its label."""
    found = []
    for line in samples(rows).splitlines():
        label, *features = line.split()
        found.append([*(float(feature.partition(":")[2]) for feature in features), float(label)])
    return found


class Attack:
    """Looks at all frames, keeps the parts of the rounds that it has to do with, and changes what it wants to."""

    def __init__(self):
        self.parts = {}  # (round, attempt, worker): words of stripe 0, as they were sent first
        self.again = 0  # parts that came another time, with other words
        self.struck = threading.Event()
        self.keys = {}  # worker: its KEY, as it came up
        self.told = {}  # (round, attempt): whom something else than the others

    def __call__(self, worker, way, frame, body):
        if way == UP and frame.is_message(Type.PART) and frame.index == 0:
            words = parts_of(body, BITS)
            self.again += self.parts.setdefault((frame.round, frame.attempt, worker), words) != words
        if way == DOWN and is_signal(frame, body):
            for chunk, holder in enumerate(Signal(body, WORKERS, CHUNKS).holders):
                assert holder in HOLDERS[chunk], (chunk, holder)
        if way == UP and frame.kind == Kind.KEY:
            self.keys[worker] = body
        return self.change(worker, way, frame, body)

    def change(self, worker, way, frame, body):
        return None

    def other_sum(self, signal, worker):
        """Says in the signal that another worker's copy of a chunk is summed, of which the receiver has none: as good a sum
        as the true one. False: there is no such chunk this time, or another worker is told so in this attempt."""
        held = collections.Counter(signal.holders)
        if self.told.get((signal.round, signal.attempt), worker) != worker or not signal.lives[worker]:
            return False
        for chunk, now in enumerate(signal.holders):
            other = next(holder for holder in HOLDERS[chunk] if holder != now)
            if worker in (now, other) or not signal.lives[other]:
                continue
            signal.holders[chunk] = other
            if held[now] == 1:
                signal.lives[now] = 0
            self.told[signal.round, signal.attempt] = worker
            self.struck.set()
            return True
        return False

    def parts_of_round(self, round):
        return [words for (of, _, _), words in sorted(self.parts.items()) if of == round]


class OtherRules(Attack):
    """Some workers are told of other terms in WELCOME, rules of secure sums among them: what `change_terms` makes of the true ones."""

    def __init__(self, change_terms, victims=(VICTIM,)):
        super().__init__()
        self._change_terms, self._victims = change_terms, victims

    def change(self, worker, way, frame, body):
        if way != DOWN or worker not in self._victims or frame.kind != Kind.WELCOME:
            return None
        terms = frames.terms(body)
        self._change_terms(terms)
        self.struck.set()
        return [frames.frame(Kind.WELCOME, frames.with_terms(body, terms))]


class OtherKey(Attack):
    """The key of worker 0 comes to the victim as make(body) says; `job` has the bytes of the job's id by then."""

    def __init__(self, make):
        super().__init__()
        self._make, self.job = make, None

    def change(self, worker, way, frame, body):
        if way == DOWN and frame.kind == Kind.WELCOME:
            self.job = body[8:24]
        if way != DOWN or worker != VICTIM or frame.kind != Kind.KEY or struct.unpack_from("<I", body)[0] != 0:
            return None
        self.struck.set()
        return [frames.frame(Kind.KEY, self._make(body))]


class AttackedTest(NetworkTest):
    def begin(self, attack, job=JOB, keys=None, rows=ROWS, samples_of=None, owners=()):
        """A server, the dishonest one before it, and workers. owners: options of all workers."""
        self.owners = owners
        self.secret_keys = keys or self.secret_keys_of(WORKERS)
        self.attack = attack
        self.training = self.cluster([*job, "--secure-data", f"rows:{rows},features:{FEATURES},sparse"],
                                     keys=self.secret_keys)
        with open(os.path.join(self.training.folder, "data.svm"), "w") as file:
            file.write(samples(samples_of or rows))
        self.address = self.training.serve()
        self.liar = self.enterContext(Dishonest(self.address, self.secret_keys, attack))
        for worker in range(WORKERS):
            self.work(worker)

    def secret_keys_of(self, workers):
        keys = self.keys(workers)
        self.tarry("keys", "roster", keys, folder=os.path.dirname(keys))
        return keys

    def work(self, worker, *options, name=None):
        return self.training.work(worker, self.liar.address, "--secure", "--secure-least", "50",
                                  "--secure-bits", str(BITS), "--data", "data.svm", "--patience", "1", *SLEEP,
                                  *self.owners, *options, name=name)

    def end(self):
        """Until the server has ended, well or not; gives back its status."""
        status = self.training.server.wait(WAIT)
        for worker in self.training.workers.values():
            worker.wait(WAIT)
        self.assertEqual(self.liar.failed, [])
        return status

    def assert_nothing_learnt(self):
        """In as many rounds as a whole job has, the last ones of those that there were."""
        for round in sorted({round for round, _, _ in self.attack.parts})[-ROUNDS:]:
            parts = self.attack.parts_of_round(round)
            self.assertEqual(learns(parts[:8], CHUNKS, BITS), [], f"round {round}")

    def assert_fails(self):
        """The attack was made, the run has failed, and nothing was learnt."""
        self.assertNotEqual(self.end(), 0, self.training.told())
        self.assertTrue(self.attack.struck.is_set())
        self.assert_nothing_learnt()

    def assert_masks_do_not_cancel(self):
        """That is why it fails: the victim had a part in a sum."""
        self.assert_fails()
        self.assertIn("masks do not cancel", self.training.server.errors())
        self.assertIn(VICTIM, {sender for _, _, sender in self.attack.parts})

    def assert_all_refuse(self, *words):
        """No worker has sent anything."""
        for worker in range(WORKERS):
            self.assert_refused(worker, *words)
        self.assertEqual(self.attack.parts, {})

    def assert_refused(self, worker, *words):
        """That worker has ended, and says why."""
        process = self.training.workers[f"worker-{worker}"]
        self.assertEqual(process.wait(WAIT), 1, process.told())
        for word in words:
            self.assertIn(word, process.errors())

    def assert_silent(self, worker):
        """It has sent no part, and what the others sent without it tells nothing."""
        self.assertNotIn(worker, {sender for _, _, sender in self.attack.parts})
        self.assert_nothing_learnt()

    def honest_parameters(self):
        folder = self.folder()
        with open(os.path.join(folder, "data.svm"), "w") as file:
            file.write(samples(ROWS))
        self.tarry("train", "--data", "data.svm", *SHAPE, "--save", "parameters.npy", "--quiet", folder=folder)
        return self.numbers(folder)

    def numbers(self, folder):
        with open(os.path.join(folder, "parameters.npy"), "rb") as file:
            return struct.unpack(f"<{FEATURES}f", file.read()[-4 * FEATURES:])
