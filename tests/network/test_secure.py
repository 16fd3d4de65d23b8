# SPDX-License-Identifier: Apache-2.0
"""
What a dishonest server tries against workers of secure sums, over real processes: none of it shows a sum of fewer
chunks than all. The same is tried against naive workers (private_model.py), where it succeeds. Plans and jobs are in
test_secure_plans.py.
"""

import os
import shutil
import struct
import subprocess
import unittest

import frames
import private_attacks
import private_model
from attacked import BITS, CHUNKS, ENDLESS, HOLDERS, JOB, ROUNDS, STRUCK, VICTIM, WORKERS, Attack, AttackedTest
from attacked import OtherKey, OtherRules
from cluster import WAIT
from dishonest import CHUNKS_AT, DOWN, Signal, is_signal, learns
from frames import Kind

OPENSSL = shutil.which("openssl")


class Naive(unittest.TestCase):
    """The attacks against a model of workers that are naive about something, and against one of those that are not."""

    def test_each_attack_needs_all_that_its_worker_is_naive_about(self):
        for attack, naive in private_attacks.ATTACKS.items():
            with self.subTest(attack.__name__):
                self.assertTrue(self.learnt(attack, private_model.World(naive)))
                for kept in naive:
                    world = private_model.World([one for one in naive if one != kept])
                    self.assertFalse(self.learnt(attack, world), kept)

    def learnt(self, attack, world):
        """Whether what the attacker says that it has found is so: the sum over these samples, which are too few."""
        found = attack(world)
        if found is None:
            return False
        self.assertIn(len(found.samples), range(1, private_model.LEAST))
        return found.number == private_model.sum_of(found.parameters, found.samples, found.coordinate) != 0

    def test_workers_that_are_naive_about_nothing_send_parts_that_tell_nothing(self):
        for attack in private_attacks.ATTACKS:
            with self.subTest(attack.__name__):
                world = private_model.World()
                self.assertFalse(self.learnt(attack, world))
                self.assertEqual(learns(world.parts[:8], private_model.CHUNKS, private_model.BITS), [])

    def test_honest_attempts_show_the_sum_of_all(self):
        world = private_model.World()
        found = world.sum(world.begin(), private_model.Asked())
        everything = [private_model.sum_of(7, range(private_model.SAMPLES), coordinate) % private_model.MODULUS
                      for coordinate in range(private_model.DIMENSION)]
        self.assertEqual(found, [*everything, private_model.CHUNKS, 0, 0, 0])
        self.assertEqual(learns(world.parts, private_model.CHUNKS, private_model.BITS), [])

    def test_each_rule_is_needed_by_some_attack(self):
        rules = {value for name, value in vars(private_model).items() if name.isupper() and isinstance(value, str)}
        self.assertEqual(rules, set().union(*private_attacks.ATTACKS.values()))


class Private(AttackedTest):
    # ---- without an attack ----

    def test_an_honest_server_learns_the_sum_of_all(self):
        self.begin(Attack())
        self.assertEqual(self.end(), 0, self.training.told())
        for mine, other in zip(self.numbers(self.training.folder), self.honest_parameters()):
            self.assertAlmostEqual(mine, other, delta=1e-5)
        self.assert_nothing_learnt()
        whole = 0
        for round in range(ROUNDS):
            parts = self.attack.parts_of_round(round)
            whole += sum(words[CHUNKS_AT] for words in parts) % 2**BITS == CHUNKS
        self.assertGreaterEqual(whole, ROUNDS // 2)  # where no attempt had to be made again
        self.assertEqual(self.attack.again, 0)

    def test_a_worker_s_second_life(self):
        """It is killed in the middle, comes again with another key, and all is summed once."""
        self.begin(Attack(), job=[*JOB, "--patience", "60"])
        self.training.server.await_log("round")
        self.training.workers[f"worker-{VICTIM}"].kill()
        self.work(VICTIM, name="second")
        self.assertEqual(self.end(), 0, self.training.told())
        for mine, other in zip(self.numbers(self.training.folder), self.honest_parameters()):
            self.assertAlmostEqual(mine, other, delta=1e-5)
        self.assert_nothing_learnt()

    def test_two_processes_with_the_same_credentials(self):
        self.begin(Attack(), job=ENDLESS)
        self.training.server.await_log("round")
        second = self.work(VICTIM, name="second")
        self.assertEqual(second.wait(WAIT), 1)
        self.assertIn("another worker is using these credentials", second.errors())
        self.training.server.end()

    # ---- attempts ----

    def test_one_worker_is_told_of_other_holders(self):
        """Its masks are of another kappa, and nothing cancels."""
        class OtherHolders(Attack):
            def change(self, worker, way, frame, body):
                if way != DOWN or not is_signal(frame, body) or frame.round < STRUCK:
                    return None
                signal = Signal(body, WORKERS, CHUNKS)
                return [signal.bytes()] if self.other_sum(signal, worker) else None

        self.begin(OtherHolders(), job=ENDLESS)
        self.assert_fails()

    def test_one_worker_is_to_leave_out_a_chunk(self):
        """A chunk that is in its sum already, whoever has such a one first."""
        class LeaveOut(Attack):
            victim = None

            def change(self, worker, way, frame, body):
                if way != DOWN or not is_signal(frame, body) or frame.round < STRUCK:
                    return None
                signal = Signal(body, WORKERS, CHUNKS)
                mine = [chunk for chunk, holder in enumerate(signal.holders) if holder == worker]
                if self.victim not in (None, worker) or not mine:
                    return None
                signal.holders[mine[0]] = next(holder for holder in HOLDERS[mine[0]] if holder != worker)
                self.victim = worker
                self.struck.set()
                return [signal.bytes()]

        self.begin(LeaveOut())
        self.assertTrue(self.attack.struck.wait(WAIT))
        self.assert_refused(self.attack.victim, "work:")
        self.end()  # the others may go on without it
        self.assert_nothing_learnt()

    def test_all_but_one_are_told_of_a_smaller_group(self):
        class SmallerGroup(Attack):
            def change(self, worker, way, frame, body):
                if way != DOWN or not is_signal(frame, body) or frame.round < STRUCK:
                    return None
                signal = Signal(body, WORKERS, CHUNKS)
                group = [one for one in range(WORKERS) if signal.lives[one]]
                if worker == group[0] or len(group) < 2:
                    return None
                signal.lives[group[0]] = 0
                self.struck.set()
                return [signal.bytes()]

        self.begin(SmallerGroup(), job=ENDLESS)
        self.assert_fails()

    def test_one_bit_of_the_parameters(self):
        class OneBit(Attack):
            def change(self, worker, way, frame, body):
                if way != DOWN or worker != VICTIM or frame.kind != Kind.PARAMETERS:
                    return None
                if struct.unpack_from("<Q", body)[0] < STRUCK:
                    return None
                self.struck.set()
                return [frames.frame(Kind.PARAMETERS, body[:-4] + bytes([body[-4] ^ 1]) + body[-3:])]

        self.begin(OneBit(), job=ENDLESS)
        self.assert_fails()

    def test_the_same_attempt_of_another_sum(self):
        """The signal comes again with other holders, as if the attempt were to be repeated."""
        class Again(Attack):
            def change(self, worker, way, frame, body):
                if way != DOWN or not is_signal(frame, body) or frame.round < STRUCK:
                    return None
                signal, first = Signal(body, WORKERS, CHUNKS), frames.frame(Kind.MESSAGE, body)
                return [first, signal.bytes()] if self.other_sum(signal, worker) else None

        self.begin(Again())
        self.end()
        self.assertTrue(self.attack.struck.is_set())
        self.assertEqual(self.attack.again, 0)
        self.assert_nothing_learnt()

    def test_a_round_is_replayed(self):
        """Round, parameters and signal of before, behind those of a later round."""
        class Replay(Attack):
            def __init__(self):
                super().__init__()
                self.kept = []

            def change(self, worker, way, frame, body):
                if way != DOWN or worker != VICTIM:
                    return None
                said = frames.frame(frame.kind, body)
                of = frame.round if frame.kind == Kind.MESSAGE else None
                if frame.kind == Kind.PARAMETERS:
                    of = struct.unpack_from("<Q", body)[0]
                if of == STRUCK:
                    self.kept.append(said)
                if of == STRUCK + 2 and is_signal(frame, body):
                    self.struck.set()
                    return [said, *self.kept]
                return None

        self.begin(Replay())
        self.end()
        self.assertTrue(self.attack.struck.is_set())
        self.assertEqual(self.attack.again, 0)
        self.assert_nothing_learnt()

    # ---- rules ----

    def test_weaker_rules(self):
        for what, words, weaken in [
            ("fewer colluders", "--secure-colluders", lambda terms: terms.update(secure_colluders=0)),
            ("fewer samples", "--secure-least", lambda terms: terms.update(secure_least=1)),
            ("another roster", "another list of workers", lambda terms: terms.update(secure_roster=bytes(32))),
            ("a grid on which sums wrap", "can wrap", lambda terms: terms.update(secure_fraction=70)),
        ]:
            with self.subTest(what):
                self.begin(OtherRules(weaken))
                self.assert_refused(VICTIM, words)
                self.assert_silent(VICTIM)
                self.training.close()

    def test_one_worker_is_told_of_another_grid(self):
        """A coarser one, which its owner allows for plans of more chunks. It is its first job, which it has nothing to hold
        against."""
        self.begin(OtherRules(lambda terms: terms.update(secure_fraction=terms["secure_fraction"] - 1)), job=ENDLESS)
        self.assert_masks_do_not_cancel()

    def test_no_rules(self):
        none = {"secure": 0, "secure_fraction": 0, "secure_bound": 0.0, "secure_colluders": 0, "secure_least": 0,
                "secure_roster": frames.ZEROS}
        self.begin(OtherRules(lambda terms: terms.update(none), range(WORKERS)))
        self.assert_all_refuse("its sums are not secure, as the worker wants them")

    # ---- keys ----

    def refuse_key(self, make, *words):
        """The key of worker 0 comes to the victim as make(body) says, and ends it."""
        self.begin(OtherKey(make))
        self.assert_refused(VICTIM, "the key of worker", *words)
        self.assert_silent(VICTIM)
        self.training.close()

    def test_a_forged_key(self):
        self.refuse_key(lambda body: body[:24] + bytes(range(32)) + body[56:])

    def test_a_key_in_another_s_place(self):
        self.refuse_key(lambda body: struct.pack("<I", 2) + body[4:])

    def test_another_instance_s_key(self):
        self.refuse_key(lambda body: body[:8] + bytes(16) + body[24:])

    def test_a_key_of_an_earlier_job(self):
        """Good in its job, and signed by the right worker."""
        first = Attack()
        self.begin(first)
        self.assertEqual(self.end(), 0, self.training.told())
        old, keys = first.keys[0], self.secret_keys
        for worker in range(WORKERS):
            shutil.rmtree(os.path.join(keys, f"worker-{worker}", "secure"))
        self.begin(OtherKey(lambda body: old[:4] + body[4:8] + old[8:]), keys=keys)
        self.assert_refused(VICTIM, "the key of worker 0")
        self.assert_silent(VICTIM)

    @unittest.skipIf(OPENSSL is None, "the openssl command is not there")
    def test_a_key_of_a_certificate_that_is_not_on_the_roster(self):
        """The authority has made it for that very worker, and it is good otherwise."""
        keys = self.secret_keys_of(WORKERS)
        os.rename(os.path.join(keys, "worker-0"), os.path.join(keys, "kept"))
        self.tarry("keys", "add", keys, "worker-0", folder=keys)
        other = os.path.join(keys, "other")
        os.rename(os.path.join(keys, "worker-0"), other)
        os.rename(os.path.join(keys, "kept"), os.path.join(keys, "worker-0"))

        def claim(body):
            worker, instance, numerics = body[:4], body[8:24], body[56:64]
            key = bytes(range(32))
            said = b"tarry: a key for secure sums, v1" + self.attack.job + worker + instance + numerics + key
            signature = subprocess.run([OPENSSL, "dgst", "-sha256", "-sign", os.path.join(other, "key.pem")], input=said,
                                       capture_output=True, check=True).stdout
            der = subprocess.run([OPENSSL, "x509", "-in", os.path.join(other, "cert.pem"), "-outform", "DER"],
                                 capture_output=True, check=True).stdout
            return (body[:24] + key + numerics + struct.pack("<HH", len(der), len(signature)) + der + signature)

        self.begin(OtherKey(claim), keys=keys)
        self.assert_refused(VICTIM, "the key of worker 0: its certificate is not in the list of workers")
        self.assert_silent(VICTIM)


if __name__ == "__main__":
    unittest.main()
