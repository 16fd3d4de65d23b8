# SPDX-License-Identifier: Apache-2.0
"""
A dishonest server welcomes some workers with other terms than the others: above all with stripes of another length, so that
their words lie beside other coordinates. Masks of such workers never cancel, wherever their words are put.
"""

import itertools
import math
import struct
import time
import unittest

import frames
from attacked import (BITS, CHUNKS, ENDLESS, FEATURES, ROWS, VICTIM, WORKERS, Attack, AttackedTest, samples_as_numbers)
from cluster import WAIT
from dishonest import DOWN, UP, Signal, is_signal, parts_of
from frames import Kind, Type

MODULUS = 2**BITS
CLOSE = 1e-5  # what is read is a true sum; one of 1e5 sums is by chance, as numbers go up to thousands


def signed(word):
    word %= MODULUS
    return word - MODULUS if word >= MODULUS // 2 else word


class OtherTerms(Attack):
    """`change` changes the WELCOME of the victims, whose parts have so many stripes then; of these they are asked for `asked`.
    Parts that are cut in another way don't reach the server, which would have no place for them."""

    def __init__(self, change, victims=(VICTIM,), stripes=1, asked=None):
        super().__init__()
        self._change_terms, self.victims, self.stripes = change, victims, stripes
        self.asked = tuple(range(stripes)) if asked is None else asked
        self.words = {}  # (round, attempt): {worker: {stripe: words}}
        self.signals, self.parameters, self.fraction = {}, {}, None

    def change(self, worker, way, frame, body):
        if way == DOWN and frame.kind == Kind.WELCOME:
            self.fraction = frames.terms(body)["secure_fraction"]
        if way == DOWN and frame.kind == Kind.PARAMETERS and worker not in self.victims:
            self.parameters[struct.unpack_from("<Q", body)[0]] = struct.unpack(f"<{FEATURES}f", body[16:16 + 4 * FEATURES])
        if way == DOWN and frame.kind == Kind.WELCOME and worker in self.victims:
            terms = frames.terms(body)
            self._change_terms(terms)
            self.struck.set()
            return [frames.frame(Kind.WELCOME, frames.with_terms(body, terms))]
        if way == DOWN and is_signal(frame, body):
            signal = Signal(body, WORKERS, CHUNKS)
            self.signals[signal.round, signal.attempt] = signal
            if worker in self.victims and self.stripes > 1:
                return [frames.frame(Kind.MESSAGE, body[:-1] + bytes([sum(1 << stripe for stripe in self.asked)]))]
        if way == UP and frame.is_message(Type.PART):
            attempt = self.words.setdefault((frame.round, frame.attempt), {})
            attempt.setdefault(worker, {})[frame.index] = parts_of(body, BITS)
            if worker in self.victims and self.stripes > 1:
                return []
        return None

    def whole(self):
        """Attempts of which all has come that was asked for, with a part of a victim and one of another worker."""
        found = []
        for name, attempt in list(self.words.items()):
            group = {worker for worker in range(WORKERS) if self.signals[name].lives[worker]}
            wanted = {worker: len(self.asked) if worker in self.victims else 1 for worker in group}
            if {worker: len(stripes) for worker, stripes in attempt.items()} == wanted and \
                    group & set(self.victims) and group - set(self.victims):
                found.append(name)
        return found


def gradient(parameters, chunks):
    """Of the logistic loss over these chunks, by coordinate."""
    rows = samples_as_numbers(ROWS)
    size, total = ROWS // CHUNKS, [0.0] * FEATURES
    for chunk in chunks:
        for row in rows[size * chunk:size * (chunk + 1)]:
            slope = -row[-1] / (1 + math.exp(row[-1] * sum(map(float.__mul__, parameters, row))))
            total = [sum_ + slope * value for sum_, value in zip(total, row)]
    return total


def concatenated(attempt, workers):
    """The sum of these workers' words, as they follow each other in all stripes."""
    parts = [[word for _, words in sorted(attempt[worker].items()) for word in words]
             for worker in workers if worker in attempt]
    return [sum(column) % MODULUS for column in zip(*parts)]


def cancelled(attack, name):
    """Pairs of a place among the victims' words and one among the others' at which masks have cancelled: the sum of both
    words is what the victims have for some coordinate, or nothing but a count, plus such a number of the others."""
    attempt, signal = attack.words[name], attack.signals[name]
    parameters, unit = attack.parameters[name[0]], 2.0**-attack.fraction
    theirs = [chunk for chunk, holder in enumerate(signal.holders) if holder in attack.victims]
    one = [0.0, *gradient(parameters, theirs)]
    other = [0.0, *gradient(parameters, [chunk for chunk in range(CHUNKS) if chunk not in theirs])]
    sums = [a + b for a, b in itertools.product(one, other)]
    victims = concatenated(attempt, attack.victims)
    others = concatenated(attempt, [worker for worker in range(WORKERS) if worker not in attack.victims])
    return [(at, beside) for at, beside in itertools.product(range(len(victims)), range(len(others)))
            if any(abs(signed(victims[at] + others[beside]) * unit - value) < CLOSE for value in sums)]


def put(name, value):
    return lambda terms: terms.update({name: value})


def add(name, value):
    return lambda terms: terms.update({name: terms[name] + value})


class Terms(AttackedTest):
    def begin_with(self, attack):
        self.begin(attack, job=ENDLESS)
        end = time.monotonic() + WAIT
        while not attack.whole() and not self.ended(attack):
            self.assertLess(time.monotonic(), end, self.training.told())
            time.sleep(0.01)
        self.assertTrue(attack.struck.is_set())

    def ended(self, attack):
        """Workers of the victims that have ended."""
        return [worker for worker in attack.victims
                if self.training.workers[f"worker-{worker}"]._process.poll() is not None]

    def test_where_all_are_told_the_same_masks_cancel(self):
        """So the attack could be seen to succeed."""
        attack = OtherTerms(lambda terms: None)
        self.begin_with(attack)
        self.assertTrue(attack.whole(), self.training.told())
        # Each coordinate, and the four words behind them, beside itself, and zeros beside each other.
        self.assertLessEqual({(at, at) for at in range(FEATURES + 4)}, set(cancelled(attack, attack.whole()[0])))

    def test_stripes_of_another_length(self):
        one_each = put("stripe_length", 1)
        for what, attack in [
            ("one number each", OtherTerms(one_each, stripes=FEATURES)),
            ("one number each, and one of them wanted", OtherTerms(one_each, stripes=FEATURES, asked=(2,))),
            ("two each, for two workers", OtherTerms(put("stripe_length", 2), victims=(1, 2), stripes=3)),
            ("all but one number in the first", OtherTerms(put("stripe_length", FEATURES - 1), victims=(3,), stripes=2)),
            ("longer, and one stripe as before", OtherTerms(add("stripe_length", 1))),
        ]:
            with self.subTest(what):
                self.begin_with(attack)
                # Where the server takes the victims' parts, its check fails, and it may have ended with all workers by now.
                self.assertTrue(attack.whole(), self.training.told())
                for name in attack.whole():
                    self.assertEqual(cancelled(attack, name), [], name)
                self.training.close()

    def test_other_terms(self):
        for what, change in [
            ("running ahead", add("ahead", 1)),
            ("the conditioning limit", add("conditioning_limit", 1)),
            ("the silence", add("silence_ns", 1)),
        ]:
            with self.subTest(what):
                attack = OtherTerms(change)
                self.begin_with(attack)
                self.assertEqual(cancelled(attack, attack.whole()[0]), [])
                self.assertNotEqual(self.training.server.wait(WAIT), 0, self.training.told())
                self.assertIn("masks do not cancel: the check of stripe 0 failed", self.training.server.errors())
                self.training.close()

    def test_terms_that_do_not_go_with_the_job(self):
        for what, change in [
            ("a longer gradient", add("dimension", 1)),
            ("a shorter one", add("dimension", -1)),
            ("more parameters", add("parameters", 1)),
        ]:
            with self.subTest(what):
                attack = OtherTerms(change)
                self.begin_with(attack)
                self.assertEqual(attack.whole(), [])
                self.assert_refused(VICTIM, "work:")
                self.training.close()


del AttackedTest

if __name__ == "__main__":
    unittest.main()
