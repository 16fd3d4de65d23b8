# SPDX-License-Identifier: Apache-2.0
"""tarry-worlds: what it prints, how it repeats, and how it tells of an error that is there."""

import re

from harness import TarryTest


def without_rate(text):
    return re.sub(r"\d+ rounds/s", "RATE rounds/s", text)


class Worlds(TarryTest):
    def test_figures_do_not_depend_on_jobs(self):
        few = ["--runs", "500", "--seed", "7"]
        texts = [without_rate(self.succeed(*few, "--jobs", jobs)) for jobs in ("1", "2", "3")]
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(texts[0], texts[2])
        self.assertRegex(texts[0], r"\A1\d\d\d rounds in 500 worlds, \d+ steps, \d+ faults: RATE rounds/s\n")
        self.assertTrue(texts[0].endswith("every invariant holds\n"))

    def test_quiet(self):
        self.assertEqual(self.succeed("--runs", "5", "--quiet"), "")

    def test_a_trace_repeats(self):
        both = self.succeed("--trace", "--first", "20", "--runs", "2")
        second = self.succeed("--trace", "--first", "21", "--runs", "1")
        self.assertTrue(both.startswith("world 20\n"))
        self.assertEqual(both[both.index("world 21\n"):], second)
        other = self.succeed("--trace", "--first", "21", "--runs", "1", "--seed", "2")
        self.assertNotEqual(other, second)
        for expected in ("joins", "SIGNAL", "PART", "round over"):
            self.assertIn(expected, second)

    def test_wrong_usage(self):
        for arguments in (["--runs", "0"], ["--runs", "x"], ["--jobs", "0"], ["--straggler", "exp:1"], ["argument"],
                          ["--first", "4294967295", "--runs", "2"], ["--plant", "nothing"], ["--sum", "nowhere"],
                          ["--secure", "--sum", "everywhere"]):
            self.assertEqual(self.run_tarry(*arguments).returncode, 2, arguments)

    def test_secure(self):
        text = self.succeed("--secure", "--runs", "100", "--seed", "7")
        exact, = re.search(r"(\d+) rounds exact", text).groups()
        sums, again, lives = map(int, re.search(
            r"(\d+) sums were secure, (\d+) of them of repeated attempts; workers had second lives, with keys of their own, "
            r"(\d+) times\n", text).groups())
        torn, = re.search(r"\n(\d+) of these sums were found to be torn: one worker was told other terms\n", text).groups()
        self.assertTrue(sums == int(exact) and 0 < again < sums and lives > 10 and 0 < int(torn) < sums, text)
        self.assertTrue(text.endswith("every invariant holds\n"))
        trace = self.succeed("--secure", "--trace", "--first", "3", "--runs", "1")
        self.assertRegex(trace, r"secure sums of (32|64) bits")

    def test_an_error_is_found_and_shrunk(self):
        for error, invariant in (("sum-twice", "no_chunk_counted_twice"), ("sum-stale", "no_stale_message_summed"),
                                 ("wait-for-the-lost", "rounds_end_in_time")):
            found = [self.run_tarry("--plant", error, "--runs", "3000", "--quiet", "--jobs", jobs) for jobs in "12"]
            self.assertEqual(found[0].returncode, 1)
            self.assertEqual(found[0].out, found[1].out)
            self.assertEqual(found[0].err, found[1].err)
            told = re.fullmatch(r"tarry-worlds: (\w+): .* \(repeat: (--seed 1 --first \d+ --runs 1)\)\n",
                                found[0].err)
            self.assertEqual(told[1], invariant)
            left, every, runs = re.match(r"(\d+) of (\d+) faults are enough \(found in (\d+) runs\); with these:\n",
                                         found[0].out).groups()
            self.assertLessEqual(int(left), min(8, int(every)))
            self.assertGreater(int(runs), 1)
            again = self.run_tarry("--plant", error, *told[2].split(), "--quiet")
            self.assertEqual((again.out, again.err), (found[0].out, found[0].err))

    def test_nothing_planted_nothing_found(self):
        self.assertEqual(self.run_tarry("--plant", "none", "--runs", "200").returncode, 0)

    def test_help(self):
        self.assertTrue(self.succeed("--help").startswith("Usage: tarry-worlds [OPTION...]\n"))
