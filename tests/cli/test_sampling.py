# SPDX-License-Identifier: Apache-2.0
"""--sample-chunks: rounds that compute a sample of the chunks."""

import json

from harness import TarryTest

SMALL = ["train", "--samples", "400", "--features", "5", "--chunks", "16", "--pieces", "1", "--rounds", "12"]


class Sampling(TarryTest):
    def report(self, *arguments):
        self.succeed(*SMALL, "--report", "report.json", *arguments)
        return json.loads(self.read("report.json"))

    def test_each_round_computes_its_sample(self):
        for more in ([], ["--keep", "credited"], ["--parts", "2"], ["--processes"],
                     ["--sum", "everywhere"], ["--order", "optimal"], ["--compress", "int8"],
                     ["--pieces", "2"]):
            report = self.report("--sample-chunks", "6", "--rounds", "40", "--verify", *more)
            pieces = 2 if "--pieces" in more else 1
            sampled = [round["chunks_sampled"] for round in report["rounds"]]
            self.assertTrue(all(round["exact"] for round in report["rounds"]))
            self.assertTrue(4 * pieces < sum(sampled) / 40 < 8 * pieces, sampled)
            self.assertGreater(len(set(sampled)), 3)
            self.assertLess(report["final"]["loss"], report["initial"]["loss"])
            self.assertAlmostEqual(report["rounds"][0]["sampling_error"], 16 / 6 - 1)
            if more == ["--keep", "credited"]:
                for round in report["rounds"]:
                    self.assertLessEqual(round["copies_computed"], 2 * round["chunks_sampled"] + 8)

    def test_the_sum_is_off_by_what_the_draw_costs(self):
        """In the mean, as the chunks' gradients have no direction in common at the optimum."""
        report = self.report("--sample-chunks", "8", "--rounds", "60", "--verify")
        off = [round["verified_squared_error"] for round in report["rounds"]]
        self.assertTrue(all(error > 1e-6 for error in off))
        every = self.report("--sample-chunks", "16:uniform", "--verify", "--reproducible", "--save", "all.npy")
        self.assertTrue(all(round["verified_error"] < 1e-5 for round in every["rounds"]))
        self.assertEqual({round["chunks_sampled"] for round in every["rounds"]}, {16})
        self.report("--reproducible", "--save", "plain.npy")
        self.assertEqual(self.read("all.npy", "rb"), self.read("plain.npy", "rb"))

    def test_a_draw_can_be_repeated_and_resumed(self):
        options = [*SMALL, "--sample-chunks", "5", "--reproducible", "--quiet", "--save"]
        self.succeed(*options, "first.npy")
        self.succeed(*options, "threads.npy", "--straggler", "exp:0.002")
        self.succeed(*options, "processes.npy", "--processes")
        self.succeed(*options, "half.npy", "--checkpoint", "run.ck", "--rounds", "7")
        self.succeed(*options, "resumed.npy", "--checkpoint", "run.ck", "--resume")
        for other in "threads", "processes", "resumed":
            self.assertEqual(self.read("first.npy", "rb"), self.read(other + ".npy", "rb"), other)
        self.succeed(*options, "other.npy", "--seed", "2")
        self.assertNotEqual(self.read("first.npy", "rb"), self.read("other.npy", "rb"))

    def test_the_error_rule_goes_by_what_is_sampled(self):
        report = self.report("--sample-chunks", "8", "--stop", "error:0.3", "--replication", "2", "--straggler",
                             "exp:0.002/chunk")
        for round in report["rounds"]:
            if round["chunks_sampled"] == 0:
                self.assertEqual(round["expected_error"], 0)
                continue
            missing = round["expected_error"] * round["chunks_sampled"]
            self.assertLessEqual(round["expected_error"], 0.3)
            self.assertAlmostEqual(missing, int(missing + 0.5))
        self.assertTrue(any(round["expected_error"] > 0 for round in report["rounds"]))
        self.assertLess(report["final"]["loss"], report["initial"]["loss"])

    def test_what_does_not_go_together(self):
        self.fail_with(2, "tarry: --sample-chunks: 17 is more than --chunks 16", *SMALL, "--sample-chunks", "17")
        self.fail_with(2, "tarry: --sample-chunks: 3 cannot be combined with --stop workers:2", *SMALL,
                       "--sample-chunks", "3", "--stop", "workers:2")
        for value in ("x", "3:", "3:both", "-1", "3:uniform:", "99999999999999999999999999"):
            self.fail_like(2, "tarry: --sample-chunks: .*", *SMALL, "--sample-chunks", value)

    def test_in_simulations(self):
        options = ["simulate", "--workers", "8", "--chunks", "16", "--rounds", "20", "--trials", "5", "--straggler",
                   "shifted-exp:0.2,1", "--report", "report.json", "--scheme", "partial,partial:sample-chunks=4"]
        self.succeed(*options)
        plain, sampled = json.loads(self.read("report.json"))["results"]
        self.assertLess(sampled["time"]["mean"], plain["time"]["mean"])
        self.fail_like(2, ".*sample-chunks=4 goes with upload=coded.*", "simulate", "--scheme",
                       "partial:sample-chunks=4,upload=each")
