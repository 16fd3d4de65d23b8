# SPDX-License-Identifier: Apache-2.0
"""
Plans and jobs that a dishonest server makes up, over real processes: that leave samples out, that differ from worker to
worker, by which a colluder collects chunks, or over other samples than before; and lives that are told of what was.
private_attacks.py has the same against naive workers.
"""

import os
import struct
import threading
import time
import unittest

import frames
from attacked import BITS, CHUNKS, ENDLESS, FEATURES, JOB, ROWS, STRUCK, VICTIM, WORKERS, Attack, AttackedTest, samples
from cluster import WAIT, NetworkTest
from dishonest import DOWN, UP, Dishonest, Signal, is_signal, learns
from frames import JOB_BLOB, PLAN_BLOB, Kind
from plan_bytes import PlanBytes

WELCOME_PLAN, WELCOME_PLAN_BYTES, WELCOME_JOB_BYTES = 24, 56, 64


def is_blob(frame, body, kind):
    return frame.kind == Kind.BLOB and body[0] == kind


def blob(kind, data):
    return frames.frame(Kind.BLOB, struct.pack("<B3xIQQ", kind, 0, len(data), 0) + data)


class OtherPlan(Attack):
    """Some workers are told of another plan: what `change_plan` makes of the true one. The server does not
    hear of it."""

    def __init__(self, change_plan, victims=range(WORKERS)):
        super().__init__()
        self._change_plan, self._victims, self._welcomes, self._digests = change_plan, victims, {}, {}

    def change(self, worker, way, frame, body):
        if worker not in self._victims:
            return None
        if way == DOWN and frame.kind == Kind.WELCOME:
            self._welcomes[worker] = bytearray(body)
            return []
        if way == DOWN and is_blob(frame, body, PLAN_BLOB):
            welcome, plan = self._welcomes[worker], PlanBytes(body[frames.BLOB_BYTES:])
            self._digests[worker] = plan.digest()
            self._change_plan(plan)
            data = plan.bytes()
            welcome[WELCOME_PLAN:WELCOME_PLAN + 32] = plan.digest()
            struct.pack_into("<Q", welcome, WELCOME_PLAN_BYTES, len(data))
            self.struck.set()
            return [frames.frame(Kind.WELCOME, bytes(welcome)), blob(PLAN_BLOB, data)]
        if way == UP and frame.kind == Kind.READY:
            return [frames.frame(Kind.READY, self._digests[worker] + body[32:])]
        return None


def leave_half_a_chunk_out(plan):
    plan.spans = [[(chunk, 0, 1, 2 if chunk == 0 else 1)] for chunk in range(CHUNKS)]


def have_half_a_chunk_twice(plan):
    """As many samples as there are: half of chunk 0 twice, and the other half not at all."""
    plan.spans = [[(0, 0, 1, 2), (0, 0, 1, 2)], *([(chunk, 0, 1, 1)] for chunk in range(1, CHUNKS))]


def leave_a_chunk_out(plan):
    plan.chunks = plan.origins = CHUNKS - 1
    plan.slots = [[worker % plan.chunks, (worker + 1) % plan.chunks] for worker in range(WORKERS)]


def turn(plan, by):
    """Each worker holds what was another one's."""
    plan.slots = [[(chunk + by) % CHUNKS for chunk in slots] for slots in plan.slots]


class Plans(AttackedTest):
    def test_plans_that_leave_samples_out(self):
        for change, words in [
            (leave_half_a_chunk_out, "the server's plan: plan:"),
            (have_half_a_chunk_twice, "the server's plan: plan:"),
            (leave_a_chunk_out, "the server's job does not go with its plan"),
        ]:
            with self.subTest(change.__name__):
                self.begin(OtherPlan(change))
                self.assert_all_refuse(words)
                self.assertTrue(self.attack.struck.is_set())
                self.training.close()

    def test_one_worker_is_told_of_another_plan(self):
        """Another worker's chunks are said to come in another order, which changes nothing but the plan's digest."""
        self.begin(OtherPlan(lambda plan: plan.slots[2].reverse(), [VICTIM]), job=ENDLESS)
        self.assert_masks_do_not_cancel()

    # ---- plans by which a colluder collects chunks ----

    def test_plans_one_after_the_other_let_a_colluder_collect_chunks(self):
        """Each of them leaves half of the samples; after three of them one worker has held all."""
        self.begin(Collecting([1, 2]), job=ENDLESS)
        self.assert_refused(VICTIM, "1 colluders may hold all but 0 of 200 samples, and 50 are to be left")
        self.assertEqual(len(self.attack.agreed), 2)
        self.assert_silent(VICTIM)

    def test_a_worker_that_is_killed_remembers_what_colluders_have_held(self):
        self.begin(Collecting([1]), job=ENDLESS)
        self.attack.await_agreed(2)
        self.training.workers[f"worker-{VICTIM}"].kill()
        self.attack.begin_with(2)
        second = self.work(VICTIM, name="second")
        self.assertEqual(second.wait(WAIT), 1, second.told())
        self.assertIn("1 colluders may hold all but 0 of 200 samples", second.errors())
        self.assert_silent(VICTIM)

    def test_a_job_in_between_makes_nothing_forgotten(self):
        """The victim has accepted two plans. Its next life is told of a job over other samples, which it refuses, and the
        life after of a third plan of the first job."""
        self.begin(Collecting([1]), job=ENDLESS)
        self.attack.await_agreed(2)
        self.training.workers[f"worker-{VICTIM}"].kill()
        between = self.cluster([*JOB, "--secure-data", f"rows:{ROWS - 1},features:{FEATURES},sparse"], keys=self.secret_keys)
        with open(os.path.join(between.folder, "data.svm"), "w") as file:
            file.write(samples(ROWS - 1))
        other = between.work(VICTIM, between.serve(), "--secure", "--secure-least", "50", "--secure-bits",
                             str(BITS), "--data", "data.svm")
        self.assertEqual(other.wait(WAIT), 1, other.told())
        self.assertIn("secure/target says", other.errors())
        between.close()
        self.attack.begin_with(2)
        third = self.work(VICTIM, name="third")
        self.assertEqual(third.wait(WAIT), 1, third.told())
        self.assertIn("1 colluders may hold all but 0 of 200 samples", third.errors())
        self.assert_silent(VICTIM)


class Collecting(OtherPlan):
    """The victim is told of a plan, and then of others, each turned by so much. The server does not hear that it is
    ready."""

    def __init__(self, turns):
        super().__init__(lambda plan: turn(plan, self._first), [VICTIM])
        self._first, self._turns, self._true = 0, list(turns), None
        self.agreed, self._said, self._changed = [], 1, threading.Condition()  # digests of plans; plans told of

    def change_later(self, plan, turned):
        turn(plan, turned)

    def begin_with(self, turned):
        """In the next life."""
        self._first = turned

    def await_agreed(self, count):
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.agreed) >= count, WAIT)

    def change(self, worker, way, frame, body):
        if worker == VICTIM and way == UP and frame.kind == Kind.READY:
            with self._changed:
                self.agreed.append(body[:32])
                self._changed.notify_all()
            return []
        if worker == VICTIM and way == DOWN and is_blob(frame, body, PLAN_BLOB):
            self._true = body[frames.BLOB_BYTES:]
        if worker == VICTIM and way == DOWN and frame.kind == Kind.HEARTBEAT and len(self.agreed) == self._said and \
                self._turns:
            plan = PlanBytes(self._true)
            self._said += 1
            self.change_later(plan, self._turns.pop(0))
            return [frames.frame(Kind.HEARTBEAT), blob(PLAN_BLOB, plan.bytes())]
        return super().change(worker, way, frame, body)


class OtherJob(Attack):
    """All workers are told of another job: `old` in its text is `new`."""

    def __init__(self, old, new):
        super().__init__()
        self._old, self._new = old, new

    def change(self, worker, way, frame, body):
        if way == DOWN and frame.kind == Kind.WELCOME:
            welcome = bytearray(body)
            size, = struct.unpack_from("<Q", body, WELCOME_JOB_BYTES)
            struct.pack_into("<Q", welcome, WELCOME_JOB_BYTES, size + len(self._new) - len(self._old))
            return [frames.frame(Kind.WELCOME, bytes(welcome))]
        if way == DOWN and is_blob(frame, body, JOB_BLOB):
            text = body[frames.BLOB_BYTES:]
            assert text.count(self._old) == 1
            self.struck.set()
            return [blob(JOB_BLOB, text.replace(self._old, self._new))]
        return None


class Jobs(AttackedTest):
    def test_a_job_of_batches(self):
        """Sums over batches that overlap are equations, which can be solved."""
        self.begin(OtherJob(b'"batch":"0"', b'"batch":"100"'))
        self.assert_all_refuse("sums over batches can be solved for samples")
        self.assertTrue(self.attack.struck.is_set())

    def test_a_second_job_with_a_sample_less(self):
        """Its sum, less that of the first one, would be that sample's gradient."""
        self.begin(Attack())
        self.assertEqual(self.end(), 0, self.training.told())
        self.begin(Attack(), keys=self.secret_keys, rows=ROWS - 1)
        self.assert_all_refuse("secure/target says")

    def test_a_job_of_fewer_samples_than_the_workers_have(self):
        """Nothing is agreed on, whoever asks first."""
        self.begin(Attack(), rows=ROWS - 1, samples_of=ROWS)
        for worker in range(WORKERS):
            self.assert_refused(worker, f"{ROWS} samples of {FEATURES} features, where the server has {ROWS - 1} of")
            self.assertFalse(os.path.exists(os.path.join(self.secret_keys, f"worker-{worker}", "secure", "target")))
        self.assertEqual(self.attack.parts, {})

    def test_a_job_of_another_grid(self):
        self.begin(Attack())
        self.assertEqual(self.end(), 0, self.training.told())
        self.begin(Attack(), keys=self.secret_keys, job=[*JOB, "--secure-bound", "250"],
                   owners=["--secure-bound", "250"])
        self.assert_all_refuse("secure/grid says")

    def test_a_job_of_many_copies(self):
        """Each worker would hold three of four samples."""
        self.begin(Attack(), job=[*JOB, "--replication", "3", "--secure-least", "10"])
        self.assert_all_refuse("--secure-least")


class Drawn(NetworkTest):
    def test_a_worker_without_the_key_of_draws_computes_nothing(self):
        """The job is said to be one with differential privacy."""
        keys = self.keys(1)
        cluster = self.cluster(["--workers", "1", "--chunks", "1", "--replication", "1"], keys=keys)
        liar = OtherJob(b'"data":', b'"clip":1.0,"sample":0.5,"data":')
        with Dishonest(cluster.serve(), keys, liar) as dishonest:
            worker = cluster.work(0, dishonest.address)
            self.assertEqual(worker.wait(WAIT), 1, worker.told())
        self.assertIn("the server trains with differential privacy, and this worker has no key of its draws",
                      worker.errors())
        self.assertEqual((liar.parts, dishonest.failed), ({}, []))


class OldRound(Attack):
    """From when the victim has come again it is told of rounds from one that its first life has been in, and that this
    life is the first one; the server hears of its own rounds and of the second life."""

    FIRST, LIFE, ROUND = 1, 4, 8  # life; places of epoch and round in a message

    def __init__(self):
        super().__init__()
        self.back = None  # the first round that the next life is told of
        self.sent = 0  # parts of the second life
        self._lives = False  # whether the next life is there
        self._shift, self._epoch = None, None

    def change(self, worker, way, frame, body):
        if worker != VICTIM or self.back is None:
            return None
        self._lives |= frame.kind == Kind.WELCOME
        if not self._lives:
            return None
        told = bytearray(body)
        if way == DOWN and is_signal(frame, body):
            signal = Signal(body, WORKERS, CHUNKS)
            signal.lives[VICTIM] = min(signal.lives[VICTIM], self.FIRST)
            told = bytearray(signal.bytes()[frames.HEAD_BYTES:])
        if way == DOWN and frame.kind == Kind.MESSAGE:
            self._epoch = frame.epoch
            self._shift = frame.round - self.back if self._shift is None else self._shift
            struct.pack_into("<I", told, self.LIFE, self.FIRST)
            struct.pack_into("<Q", told, self.ROUND, frame.round - self._shift)
            self.struck.set()
        elif way == DOWN and frame.kind == Kind.PARAMETERS:
            struct.pack_into("<Q", told, 0, struct.unpack_from("<Q", body)[0] - self._shift)
        elif way == UP and frame.kind == Kind.MESSAGE:
            self.sent += frame.is_message(frames.Type.PART)
            struct.pack_into("<I", told, self.LIFE, self._epoch)
            struct.pack_into("<Q", told, self.ROUND, frame.round + self._shift)
        elif way == UP and frame.kind == Kind.BATCH:
            struct.pack_into("<Q", told, 0, struct.unpack_from("<Q", body)[0] + self._shift)
            for at in range(16, len(body), 16):
                struct.pack_into("<I", told, at, self._epoch)
        else:
            return None
        return [frames.frame(frame.kind, bytes(told))]


class Lives(AttackedTest):
    def test_a_second_life_is_told_of_rounds_of_the_first(self):
        """It has no part in them. The other worker that has one of its chunks is killed, too: it has to be heard."""
        self.begin(OldRound(), job=[*JOB, "--rounds", "100000", "--patience", "60"])
        end = time.monotonic() + WAIT
        while max((round for round, _, sender in list(self.attack.parts) if sender == VICTIM), default=0) < STRUCK:
            self.assertLess(time.monotonic(), end, self.training.told())
            time.sleep(0.01)
        for worker in (VICTIM, VICTIM - 1):
            self.training.workers[f"worker-{worker}"].kill()
        self.attack.back = STRUCK - 1
        second = self.work(VICTIM, name="second")
        self.assertEqual(second.wait(WAIT), 1, self.training.told())
        self.assertIn("secure/lock", second.errors())
        self.assertTrue(self.attack.struck.is_set())
        self.assertEqual(self.attack.sent, 0)
        self.training.server.kill()

    def test_a_server_that_begins_again(self):
        """It is killed, and goes on from its last checkpoint: rounds come again, of which parts of both times tell
        nothing."""
        self.begin(Attack(), job=[*JOB, "--checkpoint", "run.ck", "--checkpoint-every", "40", "--rounds", "100000"])
        self.training.server.await_log("round", round=60)
        self.training.server.kill()
        parts = dict(self.attack.parts)
        self.attack.parts.clear()
        rounds = max(round for round, _, _ in parts) + 10
        self.training.serve("--resume", "--rounds", str(rounds), listen=f"{self.address[0]}:{self.address[1]}")
        self.assertEqual(self.end(), 0, self.training.told())
        again = 0
        for round in range(rounds):
            both = [words for found in (parts, self.attack.parts)
                    for (of, _, _), words in sorted(found.items()) if of == round]
            again += round in {of for of, _, _ in parts} and round in {of for of, _, _ in self.attack.parts}
            self.assertEqual(learns(both[:8], CHUNKS, BITS), [], f"round {round}")
        self.assertGreater(again, 0)


if __name__ == "__main__":
    unittest.main()
