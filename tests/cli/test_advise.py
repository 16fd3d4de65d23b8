# SPDX-License-Identifier: Apache-2.0
"""tarry plan --advise: the search, its reports, advice from earlier runs."""

import json
import signal

from harness import TIMEOUT, TarryTest

# Half of the workers are slow, for good: one copy is not enough.
SMALL = ["--workers", "6", "--straggler", "jitter:0.1/run+slow:2,2-6", "--dimension", "1000",
         "--replication", "1,2,3", "--pieces", "1,4,16", "--trials", "6", "--keep", "all"]


class AdviceTest(TarryTest):
    def advise(self, *arguments):
        return json.loads(self.succeed("plan", "--advise", "--json", "--quiet", *arguments))

    def simulate(self, *arguments):
        """The medians of the rounds, by replication, pieces and parts."""
        self.succeed("simulate", "--quiet", "--report", "report.json", *arguments)
        return {(result["replication"], result["pieces"], result["parts"]):
                [round["seconds"] for round in result["rounds"]]
                for result in json.loads(self.read("report.json"))["results"]}

    def recommended(self, *arguments):
        best = self.advise(*arguments)["recommended"]
        return best["replication"], best["pieces"], best["parts"]


class Search(AdviceTest):
    def test_choices_are_sorted_and_judged(self):
        advice = self.advise(*SMALL)
        choices, best = advice["choices"], advice["recommended"]
        self.assertEqual(len(choices), 9)
        self.assertEqual(advice["too_large"] + advice["unpromising"], 0)
        times = [choice["seconds"] for choice in choices]
        self.assertEqual(times, sorted(times))
        self.assertLessEqual(best["seconds"], times[0] * 1.02)
        self.assertEqual(best["trials"], 6)
        for choice in choices:
            load = choice["replication"] * choice["pieces"]
            self.assertEqual(choice["memory_bytes"], (load + 1) * 4000)
            self.assertEqual(choice["upload_bytes"], 4000)
            self.assertGreaterEqual(choice["copies"], 1)
            if best["seconds"] < choice["seconds"] <= times[0] * 1.02 and choice["trials"] == 6:
                self.assertGreaterEqual(choice["memory_bytes"], best["memory_bytes"])
            better = [other for other in choices
                      if other["seconds"] < choice["seconds"]
                      and other["memory_bytes"] <= choice["memory_bytes"]
                      and other["replication"] <= choice["replication"]]
            if choice["pareto"]:
                self.assertEqual(better, [])
            if better:
                self.assertFalse(choice["pareto"])
        self.assertEqual(best["options"],
                         f"--workers 6 --chunks 6 --replication {best['replication']} "
                         f"--pieces {best['pieces']} --parts 1 --order dynamic --keep all")

    def test_the_recommended_choice_is_among_the_best_with_other_seeds(self):
        spec = "jitter:0.1/run+slow:3,2-8"
        grid = ["--replication", "1,2,3,4", "--pieces", "1,2,4,8,16"]
        best = self.recommended("--workers", "40", "--straggler", spec, *grid)
        rounds = self.simulate("--workers", "40", "--chunks", "40", "--straggler", spec,
                               "--scheme", "tarry", "--trials", "8", "--rounds", "6", "--seed",
                               "77", *grid)
        seconds = {choice: times[-1] for choice, times in rounds.items()}
        self.assertLess(seconds[best], 1.05 * min(seconds.values()))
        self.assertGreater(max(seconds.values()), 2 * min(seconds.values()))

    def test_the_predicted_time_is_that_of_simulate(self):
        choice = self.advise(*SMALL, "--replication", "2", "--pieces", "4", "--rounds", "1",
                             "--trials", "7")["recommended"]
        rounds = self.simulate(*SMALL[:4], "--chunks", "6", "--scheme", "tarry", "--replication",
                               "2", "--pieces", "4", "--trials", "7")
        self.assertEqual(rounds[2, 4, 1], [choice["seconds"]])

    def test_overhead_takes_fewer_pieces(self):
        free = self.recommended(*SMALL)
        costly = self.recommended(*SMALL, "--overhead", "0.1")
        self.assertGreater(free[1], costly[1])
        self.assertEqual(self.recommended(*SMALL, "--overhead", "10")[1], 1)

    def test_parts_pay_where_uploads_take_long(self):
        slow = ["--dimension", "1e6", "--parts", "1,2"]
        for bandwidth, parts in (("1e9", 1), ("1e5", 2)):
            advice = self.advise(*SMALL, *slow, "--bandwidth", bandwidth)
            self.assertEqual(advice["recommended"]["parts"], parts)
            self.assertEqual(advice["recommended"]["upload_bytes"], 4000000 // parts)
            if parts == 1:
                self.assertEqual({choice["parts"] for choice in advice["choices"]}, {1})
                self.assertEqual(advice["unpromising"], 6)
        self.assertEqual(self.advise(*SMALL)["config"]["parts"], "1")

    def test_memory_is_kept(self):
        advice = self.advise(*SMALL, "--memory", "20000")
        self.assertEqual(advice["too_large"], 5)
        self.assertEqual(len(advice["choices"]), 4)
        self.fail_with(1, "tarry: --memory: every choice needs more than 7.00 kB; the least is "
                          "8.00 kB", "plan", "--advise", *SMALL, "--memory", "7000")

    def test_what_is_kept(self):
        both, credited = (self.advise(*SMALL, "--keep", keep) for keep in ("both", "credited"))
        for advice in (both, credited):
            self.assertEqual(advice["recommended"]["keep"], "credited")
            self.assertEqual((advice["recommended"]["ahead"], advice["recommended"]["memory_bytes"]),
                             (3, 5 * 4000))
            self.assertIn("--keep credited", advice["recommended"]["options"])
            self.assertNotIn("--ahead", advice["recommended"]["options"])
        self.assertEqual({choice["keep"] for choice in both["choices"]}, {"all", "credited"})
        self.assertEqual(len(both["choices"]) + both["unpromising"], 18)
        self.assertEqual({choice["keep"] for choice in credited["choices"]}, {"credited"})
        # Where all is too much, a first look is had at the others.
        tight = self.advise(*SMALL, "--keep", "both", "--memory", "20000", "--pieces", "16")
        self.assertEqual([choice["keep"] for choice in tight["choices"]], ["credited"] * 3)
        # Far away more of them are ahead, and take memory; never more than there are pieces.
        far = self.advise(*SMALL, "--keep", "credited", "--latency", "0.5", "--pieces", "16", "--replication", "3")
        self.assertEqual([(choice["ahead"], choice["memory_bytes"]) for choice in far["choices"]], [(20, 22 * 4000)])
        self.assertIn("--keep credited --ahead 20", far["recommended"]["options"])

    def test_jobs_do_not_matter(self):
        one, two = (self.advise(*SMALL, "--jobs", jobs) for jobs in ("1", "2"))
        self.assertEqual(one["choices"], two["choices"])

    def test_the_table(self):
        text = self.succeed("plan", "--advise", *SMALL, "--quiet", "--all")
        self.assertRegex(text, r"^9 choices in .*: 6 workers, 6 chunks, straggler jitter")
        self.assertEqual(len([line for line in text.splitlines() if line.endswith("      0")]), 9)
        self.assertRegex(text, r"\n>[* ] +\d+ +\d+  1 all ")
        self.assertRegex(text, r"\n> recommended: replication \d, \d+ pieces?, 1 part, keep all: rounds "
                               "of ")
        options = text.splitlines()[-1].split()
        self.succeed("train", *options, "--rounds", "2", "--quiet")

    def test_lost_workers(self):
        lost = ["--workers", "6", "--straggler", "dead:1", "--pieces", "1", "--trials", "2"]
        advice = self.advise(*lost, "--replication", "1,3")
        self.assertEqual(advice["recommended"]["replication"], 3)
        self.assertEqual((advice["choices"][-1]["failed"], advice["choices"][-1]["seconds"]),
                         (1, None))
        self.fail_with(1, "tarry: --advise: no choice could end all of its rounds: too many "
                          "workers are lost; try a higher --replication",
                       "plan", "--advise", "--quiet", *lost, "--replication", "1")

    def test_a_trace(self):
        rows = [f"{step},{worker},0,{1 + 3 * (worker == 2)}\n"
                for step in range(2) for worker in range(4)]
        self.write("trace.csv", "step,worker,chunk,seconds\n" + "".join(rows))
        # One of four is four times as slow: 4 chunks take 4 / (3 + 1/4) s at best.
        for suffix in ("", "/chunk"):
            advice = self.advise("--workers", "4", "--straggler", "trace:trace.csv" + suffix,
                                 "--replication", "2,3", "--pieces", "8,16")
            least = 7 / 4 if suffix else 16 / 13
            self.assertGreaterEqual(advice["recommended"]["seconds"], 0.999 * least)
            self.assertLess(advice["recommended"]["seconds"], 1.15 * least)

    def test_ctrl_c(self):
        process = self.start("plan", "--advise", "--workers", "300", "--straggler", "exp:1")
        self.assertRegex(process.stderr.readline(), "^simulating ")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual((process.returncode, out), (1, ""))
        self.assertRegex(err.splitlines()[-1], r"^tarry: plan: interrupted after \d+ of 1 trials$")


class Reports(AdviceTest):
    def train(self):
        self.succeed("train", "--workers", "4", "--chunks", "8", "--pieces", "2", "--rounds", "8",
                     "--samples", "80", "--quiet", "--report", "train.json", "--straggler",
                     "shifted-exp:0.02,0+slow:1,4")
        return json.loads(self.read("train.json"))

    def test_speeds_of_a_training(self):
        report = self.train()
        advice = self.advise("--from", "train.json", "--replication", "2", "--pieces", "8")
        config = advice["config"]
        self.assertEqual((config["workers"], config["chunks"], config["dimension"]),
                         (4, 8, report["dimension"]))
        self.assertGreater(config["server-bandwidth"], 0)
        # Every chunk anew, at the speeds that were measured.
        speed = sum(worker["chunks"] / worker["seconds"] for worker in report["workers"]
                    if worker["chunks"] > 0)
        balanced = 8 * 2 / speed
        self.assertGreater(advice["recommended"]["seconds"], 0.98 * balanced)
        self.assertLess(advice["recommended"]["seconds"], 1.4 * balanced)
        # Half as many chunks are twice as large; and what is given counts.
        half = self.advise("--from", "train.json", "--replication", "2", "--pieces", "16",
                           "--chunks", "4", "--dimension", "10", "--server-bandwidth", "1e12")
        self.assertEqual((half["config"]["chunks"], half["config"]["dimension"],
                          half["config"]["server-bandwidth"]), (4, 10, 1e12))
        self.assertAlmostEqual(half["recommended"]["seconds"],
                               advice["recommended"]["seconds"], delta=0.1 * balanced)
        text = self.succeed("plan", "--advise", "--from", "train.json", "--trials", "2", "--quiet")
        self.assertIn(", speeds of train.json, straggler none, seed 1\n", text)

    def test_workers_that_finished_nothing_do_not_answer(self):
        report = self.train()
        report["workers"][1].update(chunks=0, seconds=0)
        report["workers"][2]["present"] = False
        self.write("train.json", json.dumps(report))
        advice = self.advise("--from", "train.json", "--replication", "1,3", "--pieces", "1")
        self.assertEqual(advice["recommended"]["replication"], 3)
        self.assertGreater(advice["choices"][-1]["failed"], 0)

    def test_settings_of_a_simulation(self):
        given = ["--workers", "5", "--chunks", "10", "--straggler", "slow:1,3", "--latency",
                 "0.01", "--bandwidth", "1e6", "--dimension", "100", "--overhead", "0.5",
                 "--chunk-time", "2", "--chunk-cost", "lognormal:0.2"]
        self.succeed("simulate", "--quiet", "--trials", "2", "--report", "simulate.json",
                     "--scheme", "uncoded", *given)
        choices = ["--replication", "2", "--pieces", "1,2"]
        self.assertEqual(self.advise("--from", "simulate.json", *choices)["choices"],
                         self.advise(*given, *choices)["choices"])

    def fail_from(self, why, report, *arguments):
        self.write("bad.json", report if isinstance(report, str) else json.dumps(report))
        self.fail_with(1, "tarry: --from: bad.json" + why, "plan", "--advise", "--from",
                       "bad.json", *arguments)

    def test_broken_reports(self):
        self.fail_with(2, "tarry: --advise: needs --straggler or --from", "plan", "--advise")
        self.fail_with(1, "tarry: --from: no.json: No such file or directory", "plan", "--advise",
                       "--from", "no.json")
        self.fail_from(":1: string or '}' expected near end of file", "{")
        self.fail_from(": is not an object", "[]")
        self.fail_from(": 'command' is neither train nor simulate", {})
        self.fail_from(": 'command' is neither train nor simulate", {"command": "plan"})
        self.fail_from(": 'config.workers' is missing or wrong", {"command": "simulate"})
        self.fail_from(": 'plan.workers' is missing or wrong", {"command": "train", "plan": 3})
        good = self.train()
        for keys, value, why in (
            (["plan", "workers"], None, "'plan.workers' is missing or wrong"),
            (["plan", "workers"], 0, "'workers', 'chunks' or 'dimension' is out of range"),
            (["plan", "chunks"], 17, "'plan.chunks' is not a multiple of 'plan.pieces'"),
            (["plan", "pieces"], 0, "'plan.chunks' is not a multiple of 'plan.pieces'"),
            (["dimension"], "x", "'dimension' is missing or wrong"),
            (["workers"], None, "'workers' has not as many entries as 'plan.workers' says"),
            (["workers"], [], "'workers' has not as many entries as 'plan.workers' says"),
            (["workers", 3, "seconds"], None, "'workers[3].seconds' is missing or wrong"),
            (["workers", 3, "seconds"], -1, "'workers' has a number below 0"),
            (["workers", 0, "present"], 1, "'workers[0].present' is missing or wrong"),
            (["rounds"], {}, "'rounds' is not a list"),
            (["rounds", 1, "upload_bytes"], None, "'rounds[1].upload_bytes' is missing or wrong"),
        ):
            with self.subTest(why=why):
                report = json.loads(json.dumps(good))
                inner = report
                for key in keys[:-1]:
                    inner = inner[key]
                if value is None:
                    del inner[keys[-1]]
                else:
                    inner[keys[-1]] = value
                self.fail_from(": " + why, report)
        for worker in good["workers"]:
            worker["present"] = False
        self.fail_from(": 'workers' has none that was there at the end and finished anything", good)

    def test_too_much_overhead(self):
        self.train()
        self.fail_like(2, r"tarry: --overhead: 5 s is more than the 0\.0\d+ s that worker 0 took "
                          "for a piece in train.json",
                       "plan", "--advise", "--from", "train.json", "--overhead", "5")
