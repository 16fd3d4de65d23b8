# SPDX-License-Identifier: Apache-2.0
"""tarry simulate: schemes, sweeps, trials that are paired, errors over deadlines, and reports."""

import json
import os
import re
import signal
import statistics
import subprocess

from harness import TIMEOUT, TarryTest

SMALL = ["--workers", "12", "--chunks", "12", "--replication", "3", "--trials", "20"]

ALL = "uncoded,ignore-stragglers,dropcompute,queue,ring,direct,cyclic,fractional,coco-ef,multi-message,partial,tarry"

TABLE = """\
5 trials in TIME: 4 workers, 4 chunks, straggler none, seed 1

scheme    r  l   median     mean       sd      p95 /balanced /matched /uncoded  copies failed    error
uncoded   1  1   1.00 s   1.00 s      0 s   1.00 s         1        1        1    1.00      0        0
cyclic    2  1   2.00 s   2.00 s      0 s   2.00 s         2        2        2    2.00      0        0
partial   2  1   1.00 s   1.00 s      0 s   1.00 s         1        1        1    1.00      0        0
"""


class SimulateTest(TarryTest):
    def simulate(self, *arguments):
        """The report's results."""
        self.succeed("simulate", "--quiet", "--report", "report.json", *arguments)
        return json.loads(self.read("report.json"))["results"]


class Schemes(SimulateTest):
    def test_golden_table(self):
        text = self.succeed("simulate", "--workers", "4", "--chunks", "4", "--replication", "2",
                            "--straggler", "none", "--trials", "5")
        self.assertEqual(re.sub(r"(?<= trials in ).*(?=: 4 workers)", "TIME", text), TABLE)

    def test_what_each_scheme_is(self):
        results = self.simulate(*SMALL, "--scheme", ALL, "--deadline", "1,2")
        settings = {result["scheme"]: result["settings"] for result in results}
        self.assertEqual(list(settings), ALL.split(","))
        self.assertEqual([result["replication"] for result in results], [1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3])
        self.assertEqual([result["stored"] for result in results], [1, 1, 1, 12, 1, 1, 3, 3, 3, 3, 3, 3])
        self.assertEqual([result["pieces"] for result in results], [1, 1, 16, 16, 1, 1, 1, 1, 1, 1, 1, 8])
        stops = [settings[name]["stop"] for name in settings]
        self.assertEqual(stops, ["exact", "workers:11", "deadline:auto", "exact", "exact", "exact", "workers:10",
                                 "workers:10", "workers:11", "exact", "exact", "exact"])
        self.assertEqual(settings["partial"], {"design": "random", "order": "optimal",
                                               "credit": "chunk", "keep": "all", "ahead": None,
                                               "stop": "exact",
                                               "fill": "none", "compress": "none", "compress_down": "none",
                                               "upload": "coded",
                                               "sum": "server", "adapt": 0,
                                               "racks": None})
        self.assertEqual(settings["tarry"], settings["partial"] | {"order": "dynamic", "keep": "credited", "ahead": 3})
        self.assertEqual(settings["cyclic"]["credit"], "whole")
        self.assertEqual([name for name in settings if settings[name]["upload"] == "whole"],
                         ["uncoded", "ignore-stragglers", "dropcompute", "queue", "ring", "direct", "cyclic", "fractional"])
        self.assertEqual({name: settings[name]["sum"] for name in settings if settings[name]["sum"] != "server"},
                         {"ring": "ring", "direct": "everywhere"})
        self.assertEqual(settings["multi-message"]["upload"], "each")
        self.assertEqual({name: settings[name]["compress"] for name in settings if settings[name]["compress"] != "none"},
                         {"coco-ef": "sign"})

    def test_uploads_at_once(self):
        """Without links when a worker uploads does not matter; with them a signal costs two latencies."""
        schemes = [scheme + upload for scheme in ("uncoded", "cyclic", "fractional", "ignore-stragglers")
                   for upload in ("", ":upload=coded")]
        free = self.simulate(*SMALL, "--scheme", ",".join(schemes))
        links = self.simulate(*SMALL, "--scheme", ",".join(schemes), "--latency", "0.25")
        for once, asked in zip(free[::2], free[1::2]):
            self.assertEqual(once["seconds"], asked["seconds"])
        for once, asked, without in zip(links[::2], links[1::2], free[::2]):
            for (early, late, none) in zip(once["seconds"], asked["seconds"], without["seconds"]):
                self.assertAlmostEqual(early, none + 0.5, 6)
                self.assertAlmostEqual(late, none + 1, 6)
        asked = self.simulate(*SMALL, "--scheme", "uncoded:stop=deadline:1")[0]
        self.assertEqual(asked["settings"]["upload"], "coded")

    def test_micro_batches_of_dropcompute(self):
        """One worker in 20 slow and 10 % jitter: where whole chunks lose a third, 16 micro-batches lose a fifteenth."""
        whole, small, best, endless, uncoded = self.simulate(
            "--straggler", "jitter:0.1+slow:10,2-10", "--trials", "20", "--scheme",
            "dropcompute:deadline=1.05,pieces=1,dropcompute:deadline=1.05,dropcompute,dropcompute:deadline=1e6,uncoded")
        self.assertAlmostEqual(whole["expected_error"], 0.34, 2)
        self.assertAlmostEqual(small["expected_error"], 0.068, 2)
        self.assertLess(best["time"]["mean"], 1.05)
        self.assertEqual(max(small["seconds"]), 1.05)
        self.assertEqual(small["settings"]["stop"], "deadline:1.05")
        self.assertEqual((endless["exact"], uncoded["exact"]), (1, 1))
        for a, b in zip(endless["seconds"], uncoded["seconds"]):
            self.assertAlmostEqual(a, b, 6)

    def test_a_shared_queue_and_a_ring(self):
        queue, alone, ring, uncoded = self.simulate(
            *SMALL, "--scheme", "queue,queue:name=alone,backup=no,ring,uncoded", "--pieces", "8",
            "--straggler", "slow:2,20+jitter:0.1")
        self.assertEqual(ring["seconds"], uncoded["seconds"])
        self.assertEqual((queue["pieces"], alone["pieces"], ring["pieces"]), (8, 8, 1))
        self.assertLess(queue["ratio_to_balanced"], 1.3)
        self.assertLess(queue["time"]["median"], alone["time"]["median"])
        self.assertIsNone(queue["ratio_to_matched"])
        links = ["--workers", "4", "--chunks", "4", "--trials", "1", "--straggler", "none", "--dimension", "1000",
                 "--bandwidth", "1e6", "--latency", "0.001"]
        ring = self.simulate(*links, "--scheme", "ring")[0]
        self.assertAlmostEqual(ring["seconds"][0], 1 + 6 * (0.001 + 0.001), 6)
        direct = self.simulate(*links, "--scheme", "direct")[0]
        self.assertAlmostEqual(direct["seconds"][0], 1 + 2 * 0.001 + 6 * 0.001, 6)
        # A report and a signal, held and logged: the machines' sums take four latencies more.
        rounds = self.simulate(*links, "--scheme", "uncoded:sum=everywhere,uncoded:sum=ring")
        for result, took in zip(rounds, (2 * 0.001 + 6 * 0.001, 6 * 0.002)):
            self.assertAlmostEqual(result["seconds"][0], 1 + 4 * 0.001 + took, 6)
            self.assertEqual(result["settings"]["upload"], "coded")
        tarry = self.simulate(*SMALL, "--scheme", "tarry,tarry:sum=everywhere,tarry:parts=2,sum=everywhere", "--straggler",
                              "jitter:0.1+slow:2,5+dead:1", "--silence", "9", "--dimension", "100", "--trials", "3")
        for result in tarry:
            self.assertEqual((result["failed"], result["exact"]), (0, 1))
        dead = self.simulate(*SMALL, "--scheme", "queue,ring,dropcompute", "--straggler", "exp:1+dead:1", "--silence", "9")
        self.assertEqual([result["failed"] for result in dead], [0, 20, 0])

    def test_messages_that_wait(self):
        """Sums are exact however late messages are, and their times spread over rounds."""
        schemes = "tarry,tarry:sum=everywhere,tarry:sum=ring"
        links = [*SMALL, "--trials", "2", "--rounds", "4", "--silence", "30", "--latency", "0.001", "--bandwidth", "1e5"]
        late = self.simulate(*links, "--scheme", schemes, "--link-jitter", "0.05,2", "--straggler", "slow:2,5+fail:0.02",
                             "--dimension", "100")
        for result in late:
            self.assertEqual((result["failed"], result["exact"]), (0, 1), result["scheme"])
            times = result["sum_times"]
            self.assertEqual(times["rounds"], 6)
            self.assertLess(0.004, times["p50"])
            self.assertLess(times["p50"], times["p99"])
            self.assertLessEqual(times["p99"], times["most"])
        still = self.simulate(*links, "--scheme", "tarry:sum=everywhere", "--straggler", "none")[0]["sum_times"]
        self.assertAlmostEqual(still["p50"], still["most"], 9)
        self.simulate(*SMALL, "--trials", "2", "--scheme", ALL, "--link-jitter", "0.01,1")
        text = self.succeed("simulate", *links, "--quiet", "--scheme", "tarry", "--link-jitter", "0.01,1")
        self.assertEqual(text, "")
        text = self.succeed("simulate", *links, "--scheme", "tarry", "--link-jitter", "0.01,1")
        self.assertIn("from the signal to the last sum", text)

    def test_folding_what_is_credited(self):
        every, folded = self.simulate(*SMALL, "--scheme", "partial,partial:keep=credited",
                                      "--straggler", "exp:1", "--dimension", "64")
        self.assertEqual(folded["settings"]["keep"], "credited")
        # The same chunks in the same order: only one copy of each counts.
        self.assertEqual(every["seconds"], folded["seconds"])
        self.assertLess(folded["control_bytes"], 2 * every["control_bytes"])
        own = self.simulate(*SMALL, "--scheme", "cyclic,own", "--keep", "credited")
        self.assertEqual([result["settings"]["keep"] for result in own], ["all", "credited"])
        self.fail_with(2, "tarry: --scheme: own:parts=2: keep: credited cannot be combined with parts 2",
                       "simulate", *SMALL, "--scheme", "own:parts=2", "--keep", "credited")
        for upload in ("each", "whole"):
            self.fail_like(2, "tarry: --scheme: own: .*upload.*", "simulate", *SMALL, "--scheme", "own", "--keep", "credited",
                           "--credit", "chunk", "--upload", upload)

    def test_parameters_in_another_form(self):
        """The first round's as they are, and what has changed after that."""
        links = ["--workers", "8", "--chunks", "8", "--replication", "2", "--trials", "1", "--rounds", "3", "--straggler", "none",
                 "--dimension", "1e6", "--bandwidth", "1e6", "--silence", "100"]
        plain, half, byte, both = self.simulate(*links, "--scheme", "partial,partial:compress-down=bf16,partial:compress-down=int8,"
                                                "partial:compress=int8,compress-down=int8")
        self.assertEqual([result["settings"]["compress_down"] for result in (plain, half, byte, both)],
                         ["none", "bf16", "int8", "int8"])
        first, *later = ([row["seconds"] for row in result["rounds"]] for result in (plain, half, byte, both))
        for times in later[:2]:
            self.assertAlmostEqual(times[0], first[0], delta=1e-6)
        for times, saved in zip(later, (2, 4 - 260 / 256, 2 * (4 - 260 / 256))):
            self.assertAlmostEqual(first[2] - times[2], saved, delta=0.01)
        self.fail_like(2, ".*compress-down.*", "simulate", *SMALL, "--scheme", "queue:compress-down=int8")

    def test_parts_in_another_form(self):
        """Links carry the bytes of the form."""
        links = ["--workers", "8", "--chunks", "8", "--replication", "2", "--trials", "1", "--straggler", "none",
                 "--dimension", "1e6", "--bandwidth", "1e6", "--parameter-bytes", "0", "--silence", "100"]
        plain, half, byte = self.simulate(*links, "--scheme", "partial:compress=none,partial:compress=bf16,partial:compress=int8")
        self.assertEqual([result["settings"]["compress"] for result in (plain, half, byte)], ["none", "bf16", "int8"])
        self.assertAlmostEqual(plain["time"]["mean"] - half["time"]["mean"], 2, delta=0.01)
        self.assertAlmostEqual(plain["time"]["mean"] - byte["time"]["mean"], 4 - 260 / 256, delta=0.01)
        self.assertGreater(plain["upload_bytes"] / byte["upload_bytes"], 3.9)
        uncoded = self.simulate(*links, "--scheme", "uncoded", "--compress", "int8")[0]
        self.assertAlmostEqual(uncoded["upload_bytes"], 8 * 1e6 * 260 / 256, delta=100)
        fed = self.simulate(*links, "--scheme", "partial:compress=int4,partial:compress=topk:0.01,partial:compress=sign")
        self.assertEqual([result["settings"]["compress"] for result in fed], ["int4", "topk:0.01", "sign"])
        self.assertGreater(plain["upload_bytes"] / fed[0]["upload_bytes"], 7.7)
        self.assertGreater(plain["upload_bytes"] / fed[1]["upload_bytes"], 66)
        self.assertAlmostEqual(plain["upload_bytes"] / fed[2]["upload_bytes"], 256 / 9, delta=0.01)
        self.fail_like(2, "tarry: --scheme: .*compress=int4 goes with upload=coded", "simulate", *SMALL, "--scheme",
                       "uncoded:compress=int4,upload=whole")
        self.fail_like(2, "tarry: --scheme: .*compress=int8 goes with another upload than each", "simulate", *SMALL, "--scheme",
                       "own:compress=int8,upload=each,credit=chunk")
        self.fail_like(2, ".*compress.*", "simulate", *SMALL, "--scheme", "own:compress=int8,parts=2")

    def test_sums_among_workers_in_another_form(self):
        """The way to owners is shorter, of 7/8 d numbers of 4 bytes at 1e6 bytes a second; not in a ring."""
        links = ["--workers", "8", "--chunks", "8", "--replication", "2", "--trials", "1", "--straggler", "none",
                 "--dimension", "1e6", "--bandwidth", "1e6", "--parameter-bytes", "0", "--silence", "100"]
        plain, half, byte = self.simulate(
            *links, "--scheme", "partial:sum=everywhere,partial:sum=everywhere,compress=bf16,partial:sum=everywhere,compress=int8")
        self.assertAlmostEqual(plain["time"]["mean"] - half["time"]["mean"], 1.75, delta=0.01)
        self.assertAlmostEqual(plain["time"]["mean"] - byte["time"]["mean"], 3.5 - 7 / 8 * 260 / 256, delta=0.01)
        forms = ["compress=int8", "compress-down=int8", "compress=int8,compress-down=int8"]
        for form in forms[:2]:
            self.fail_like(2, f"tarry: --scheme: .*{form} goes with sum=server or everywhere.*", "simulate", *SMALL, "--scheme",
                           f"partial:sum=ring,{form}")

    def test_sums_come_back_in_another_form(self):
        """The same of the way back, and of both."""
        links = ["--workers", "8", "--chunks", "8", "--replication", "2", "--trials", "1", "--straggler", "none",
                 "--dimension", "1e6", "--bandwidth", "1e6", "--parameter-bytes", "0", "--silence", "100"]
        everywhere = "partial:sum=everywhere"
        plain, half, byte, both = self.simulate(
            *links, "--scheme", ",".join((everywhere, everywhere + ",compress-down=bf16", everywhere + ",compress-down=int8",
                                          everywhere + ",compress=int8,compress-down=int8")))
        self.assertEqual([result["settings"]["compress_down"] for result in (plain, half, both)], ["none", "bf16", "int8"])
        saved = 4 - 260 / 256  # bytes of each of 7/8 of the numbers
        for result, less in ((half, 2), (byte, saved), (both, 2 * saved)):
            self.assertAlmostEqual(plain["time"]["mean"] - result["time"]["mean"], 7 / 8 * less, delta=0.01)
        self.fail_like(2, "tarry: --scheme: .*compress-down.*parts.*several parts.*", "simulate", *SMALL, "--scheme",
                       everywhere + ",parts=2,compress-down=int8")

    def test_running_ahead_of_answers(self):
        schemes = "tarry:name=all,keep=all,tarry:name=auto,tarry:name=two,keep=credited,ahead=1"
        for latency, ahead in (("0", 3), ("0.0625", 3), ("0.5", 20), ("1", 40)):
            every, auto, two = self.simulate(
                "--workers", "8", "--chunks", "8", "--replication", "3", "--pieces", "16", "--trials", "3",
                "--straggler", "jitter:0.1+slow:2,3", "--latency", latency, "--silence", "1000",
                "--scheme", schemes)
            self.assertEqual([result["settings"]["ahead"] for result in (every, auto, two)], [None, ahead, 1])
            self.assertLess(auto["time"]["median"], 1.05 * every["time"]["median"])
            if ahead > 3:  # what answers take that are waited for
                self.assertGreater(two["time"]["median"], 2 * every["time"]["median"])

    def test_a_scheme_written_out(self):
        results = self.simulate(
            *SMALL, "--scheme", "cyclic,own:design=cyclic,order=as-is,credit=whole,stop=workers:10,"
            "own:name=by flags,partial", "--design", "cyclic", "--order", "as-is", "--credit",
            "whole", "--stop", "original")
        self.assertEqual([result["scheme"] for result in results],
                         ["cyclic", "own:design=cyclic,order=as-is,credit=whole,stop=workers:10",
                          "by flags", "partial"])
        self.assertEqual(results[0]["seconds"], results[1]["seconds"])
        self.assertEqual(results[0]["seconds"], results[2]["seconds"])
        self.assertEqual(results[3]["settings"]["credit"], "chunk")
        self.assertLess(results[3]["time"]["median"], results[0]["time"]["median"])

    def test_sweeps(self):
        results = self.simulate(*SMALL, "--scheme", "uncoded,partial,partial:parts=1,3,order=random",
                                "--replication", "2,4", "--parts", "1,2,3,4")
        rows = [(result["scheme"], result["replication"], result["parts"]) for result in results]
        self.assertEqual(
            rows, [("uncoded", 1, 1)]
            + [("partial", r, l) for r in (2, 4) for l in range(1, r + 1)]
            + [("partial:parts=1,3,order=random", 2, 1)]
            + [("partial:parts=1,3,order=random", 4, l) for l in (1, 3)])

    def test_pieces(self):
        arguments = ("simulate", *SMALL, "--straggler", "slow:3,2", "--pieces", "1,4", "--scheme",
                     "uncoded,partial,uncoded:pieces=8", "--report", "report.json")
        table = self.succeed(*arguments)
        self.assertRegex(table, r"(?m)^scheme             r  l   P ")
        self.assertRegex(table, r"(?m)^partial            3  1   4 ")
        uncoded, whole, partial, pieces = json.loads(self.read("report.json"))["results"]
        self.assertEqual([result["pieces"] for result in (uncoded, whole, partial, pieces)],
                         [1, 1, 4, 8])
        self.assertEqual(set(uncoded["seconds"]), {2})
        self.assertEqual(set(pieces["seconds"]), {2})
        self.assertEqual(pieces["copies"], 1)
        for result in (whole, partial, pieces):
            self.assertEqual(result["balanced"], uncoded["balanced"])
        self.assertLess(partial["matched"]["median"], whole["matched"]["median"])

    def test_pieces_in_many_rounds(self):
        results = self.simulate(*SMALL, "--rounds", "3", "--chunk-cost", "lognormal:0.5", "--scheme",
                                "uncoded:pieces=8,uncoded")
        for result in results:
            self.assertEqual([round["copies"] for round in result["rounds"]], [1, 1, 1])

    def test_pieces_have_the_costs_of_their_chunks(self):
        self.write("plan.txt", "0 1\n2 3\n4 5\n")
        whole, pieces = self.simulate(
            "--workers", "3", "--chunks", "6", "--trials", "5", "--straggler", "none", "--scheme",
            "partial", "--design", "file:plan.txt", "--order", "as-is", "--chunk-cost",
            "lognormal:0.5", "--pieces", "1,5")
        for one, other in zip(whole["seconds"], pieces["seconds"]):
            self.assertAlmostEqual(one, other, delta=1e-6)

    def test_a_file_says_the_replication(self):
        self.write("plan.txt", "0 1\n1 2\n2 0 1\n")
        results = self.simulate("--workers", "3", "--chunks", "3", "--trials", "5", "--scheme",
                                "partial,cyclic:design=file:plan.txt", "--design", "file:plan.txt",
                                "--replication", "1,2,3", "--parts", "1,2")
        self.assertEqual([(result["replication"], result["parts"]) for result in results],
                         [(2, 1), (2, 2)] * 2)
        self.assertEqual([result["settings"]["stop"] for result in results],
                         ["exact", "exact", "workers:2", "workers:3"])

    def test_time_out_of_reach_is_a_result(self):
        done = self.run_tarry("simulate", *SMALL, "--straggler", "exp:1+dead:4", "--scheme",
                              "uncoded,cyclic,own:stop=error:1", "--report", "report.json")
        self.assertEqual(done.returncode, 0)
        self.assertIn("cyclic (r = 3, l = 1): 20 of 20 trials could not end; in the first, 4 of 12 "
                      "workers were lost, and 10 must finish", done.out)
        # The copies that are stored, as in the table.
        self.assertIn("queue (r = 12, l = 1): 20 of 20 trials could not end; in the first, 12 of 12 workers were lost",
                      self.succeed("simulate", *SMALL, "--straggler", "exp:1+fail:1", "--scheme", "queue"))
        uncoded, cyclic, any_error = json.loads(self.read("report.json"))["results"]
        for result in (uncoded, cyclic):
            self.assertEqual((result["trials"], result["failed"]), (20, 20))
            self.assertIsNone(result["time"]["mean"])
            self.assertEqual(result["seconds"], [None] * 20)
        self.assertEqual((any_error["failed"], any_error["failure"]), (0, None))

    def test_time_to_ignore_some(self):
        ignoring, waiting = self.simulate("--workers", "40", "--chunks", "40", "--trials", "20",
                                          "--scheme", "ignore-stragglers,uncoded")
        self.assertAlmostEqual(ignoring["expected_error"], 0.05)
        self.assertEqual(ignoring["exact"], 0)
        self.assertLess(ignoring["time"]["mean"], waiting["time"]["mean"])

    def test_ill_conditioned_copies_are_not_enough(self):
        # Any 10 of 20 workers are left; of some of these sets 1/sigma_min is over 1000.
        arguments = ["--workers", "20", "--chunks", "1", "--replication", "20", "--scheme",
                     "own:parts=10", "--straggler", "dead:10", "--trials", "200"]
        result, = self.simulate(*arguments)
        self.assertEqual((result["failed"], result["exact"]), (4, 196 / 200))

    def test_links_add_their_time(self):
        """One chunk of 1 s each: parameters, report, signal and part, or parameters and gradient."""
        links = ["--workers", "1", "--chunks", "1", "--replication", "1", "--straggler", "none",
                 "--trials", "1", "--scheme", "partial,multi-message", "--latency", "0.25"]
        coded, each = self.simulate(*links)
        self.assertEqual((coded["time"]["mean"], each["time"]["mean"]), (2, 1.5))
        coded, each = self.simulate(*links, "--dimension", "1e9", "--bandwidth", "2e9",
                                    "--parameter-bytes", "1e9", "--silence", "10")
        self.assertAlmostEqual(coded["time"]["mean"], 2 + 2 + 0.5, 5)
        self.assertAlmostEqual(each["time"]["mean"], 1.5 + 2 + 0.5, 5)

    def test_missing_chunks_can_be_filled(self):
        results = self.simulate(
            *SMALL, "--rounds", "3", "--trials", "50", "--scheme",
            ",".join(f"own:stop=deadline:0.6,fill={fill}" for fill in ("none", "scale", "stale")))
        none, scale, stale = results
        self.assertEqual([result["settings"]["fill"] for result in results],
                         ["none", "scale", "stale"])
        self.assertEqual(stale["expected_error"], none["expected_error"])
        self.assertGreater(scale["expected_error"], none["expected_error"])
        for result in none, scale:
            self.assertEqual((result["chunks_filled"], result["filled_share"]), (0, 0))
        self.assertAlmostEqual(stale["filled_share"], stale["chunks_filled"] / 12)
        self.assertGreater(stale["filled_share"], 0.05)


class Trials(SimulateTest):
    def test_schemes_are_paired_and_jobs_do_not_matter(self):
        options = [*SMALL, "--scheme", "partial:name=a,partial:name=b", "--straggler",
                   "exp:1+jitter:0.2/chunk+slow:2,3", "--deadline", "0.5,1,2"]
        first = self.simulate(*options, "--jobs", "1")
        self.assertEqual(first[0]["seconds"], first[1]["seconds"])
        self.assertEqual(len(set(first[0]["seconds"])), 20)
        for jobs in ("2", "7"):
            self.assertEqual(self.simulate(*options, "--jobs", jobs), first)
        self.assertNotEqual(self.simulate(*options, "--seed", "2"), first)
        half = self.simulate(*options, "--trials", "10")
        self.assertEqual(half[0]["seconds"], first[0]["seconds"][:10])

    def test_statistics(self):
        result = self.simulate(*SMALL, "--scheme", "partial")[0]
        seconds, time = result["seconds"], result["time"]
        self.assertAlmostEqual(time["mean"], statistics.mean(seconds))
        self.assertAlmostEqual(time["sd"], statistics.stdev(seconds))
        self.assertAlmostEqual(time["median"], statistics.median(seconds))
        cuts = statistics.quantiles(seconds, n=20, method="inclusive")
        self.assertAlmostEqual(time["p95"], cuts[18])
        self.assertGreaterEqual(result["ratio_to_matched"], 1)
        self.assertGreaterEqual(result["ratio_to_balanced"], result["ratio_to_matched"])
        self.assertAlmostEqual(result["work_ratio"], result["copies"])

    def test_plans_may_be_drawn_anew(self):
        fixed = self.simulate(*SMALL, "--scheme", "partial,uncoded")
        drawn = self.simulate(*SMALL, "--scheme", "partial,uncoded", "--plan-per-trial")
        self.assertNotEqual(fixed[0]["seconds"], drawn[0]["seconds"])
        self.assertEqual(fixed[1]["seconds"], drawn[1]["seconds"])

    def test_trial_t_replays_step_t_of_a_trace(self):
        self.write("trace.csv", "step,worker,chunk,seconds\n" + "".join(
            f"{step},{worker},0,{step + 1}\n" for step in range(3) for worker in range(2)))
        result = self.simulate("--workers", "2", "--chunks", "2", "--scheme", "uncoded",
                               "--straggler", "trace:trace.csv", "--trials", "5")[0]
        self.assertEqual(result["seconds"], [1, 2, 3, 1, 2])

    def test_chunk_costs_and_times(self):
        uneven = self.simulate(*SMALL, "--straggler", "none", "--chunk-cost", "lognormal:0.5",
                               "--scheme", "uncoded")[0]
        self.assertGreater(uneven["time"]["sd"], 0)
        long = self.simulate(*SMALL, "--straggler", "none", "--chunk-time", "7", "--scheme",
                             "uncoded")[0]
        self.assertEqual(long["time"]["mean"], 7)

    def test_overhead_of_each_piece(self):
        for pieces in (1, 4):
            result = self.simulate(*SMALL, "--scheme", "own", "--replication", "1", "--pieces",
                                   str(pieces), "--straggler", "none", "--chunk-time", "2",
                                   "--overhead", "0.25")[0]
            self.assertAlmostEqual(result["time"]["median"], 2 + 0.25 * pieces)
            self.assertAlmostEqual(result["ratio_to_matched"], 1)

    def test_no_worse_than_a_core_allows(self):
        """The uncoded scheme waits for the last of m exponential times: H_m on average."""
        result = self.simulate("--workers", "50", "--chunks", "50", "--scheme", "uncoded",
                               "--trials", "1000")[0]
        expected = sum(1 / k for k in range(1, 51))
        self.assertAlmostEqual(result["time"]["mean"] / expected, 1, delta=0.02)


class Rounds(SimulateTest):
    def rounds(self, *arguments, key="seconds"):
        """One figure of each round, of a single scheme."""
        return [figures[key] for figures in self.simulate(*arguments)[0]["rounds"]]

    def test_one_round_is_the_result(self):
        for result in self.simulate(*SMALL, "--scheme", "partial,cyclic", "--straggler", "exp:1"):
            figures, = result["rounds"]
            self.assertEqual(figures.pop("seconds"), result["time"]["median"])
            self.assertEqual(figures, {key: result[key] for key in figures})
            self.assertEqual(sorted(figures), ["cards", "control_bytes", "control_messages", "copies", "merged", "moved",
                                               "moved_share", "ratio_to_balanced", "ratio_to_matched",
                                               "ratio_to_uncoded", "root_control_bytes", "root_messages", "split",
                                               "sum_seconds"])
            self.assertGreaterEqual(result["control_messages"], 3 * 12)
            self.assertGreaterEqual(result["control_bytes"], 24 * result["control_messages"])

    def test_results_are_those_of_the_last_round(self):
        result = self.simulate(*SMALL, "--scheme", "partial", "--rounds", "3")[0]
        last = result["rounds"][-1]
        self.assertEqual(len(result["rounds"]), 3)
        self.assertEqual(last.pop("seconds"), result["time"]["median"])
        self.assertEqual(last, {key: result[key] for key in last})
        text = self.succeed("simulate", *SMALL, "--rounds", "3")
        self.assertRegex(text, r"^20 trials of 3 rounds \(the last one shown\) in .*: 12 workers, ")

    def test_against_uncoded(self):
        """The ratio is paired, over the same links, and does not depend on what is compared besides."""
        links = ("--latency", "0.01", "--bandwidth", "1e8", "--server-bandwidth", "1e9", "--dimension", "1e6",
                 "--parameter-bytes", "4e6", "--overhead", "0.02", "--chunk-cost", "lognormal:0.3", "--rounds", "3")
        uncoded, partial, tarry = self.simulate(*SMALL, *links, "--scheme", "uncoded,partial,tarry:pieces=4")
        self.assertEqual(uncoded["ratio_to_uncoded"], 1)
        alone = self.simulate(*SMALL, *links, "--scheme", "tarry:pieces=4")[0]
        self.assertEqual(alone["ratio_to_uncoded"], tarry["ratio_to_uncoded"])
        # The flags are for schemes that leave open what they say.
        own = self.simulate(*SMALL, *links, "--scheme", "own", "--upload", "each", "--stop", "error:0.5")[0]
        for result in partial, tarry, own:
            ratio = statistics.median(slow / base for slow, base in zip(result["seconds"], uncoded["seconds"]))
            self.assertAlmostEqual(result["ratio_to_uncoded"], ratio, delta=1e-12)
            self.assertEqual(result["uncoded_failed"], 0)

    def test_uncoded_that_cannot_end(self):
        result = self.simulate(*SMALL, "--straggler", "exp:1+dead:1", "--scheme", "partial")[0]
        self.assertEqual((result["ratio_to_uncoded"], result["uncoded_failed"]), (None, 20))
        text = self.succeed("simulate", *SMALL, "--straggler", "exp:1+dead:1", "--scheme", "partial")
        self.assertIn("\n/uncoded: without a code 20 of 20 trials could not end", text)
        some = self.simulate(*SMALL, "--straggler", "exp:1+fail:0.05", "--scheme", "uncoded,partial")
        ended = [(one, base) for one, base in zip(some[1]["seconds"], some[0]["seconds"]) if base is not None]
        self.assertEqual(some[1]["uncoded_failed"], 20 - len(ended))
        self.assertTrue(0 < len(ended) < 20)
        self.assertAlmostEqual(some[1]["ratio_to_uncoded"], statistics.median(one / base for one, base in ended),
                               delta=1e-12)

    def test_speeds_that_last(self):
        options = [*SMALL, "--trials", "1", "--scheme", "partial", "--rounds", "5", "--straggler"]
        for spec in ("exp:1/run", "jitter:0.1/run+slow:3,2-10", "weibull:1,0.5/run"):
            self.assertEqual(len(set(self.rounds(*options, spec))), 1, spec)
            self.assertEqual(len(set(self.rounds(*options, spec, key="ratio_to_balanced"))), 1)
        self.assertEqual(len(set(self.rounds(*options, "exp:1"))), 5)
        trials = self.simulate(*SMALL, "--scheme", "partial", "--straggler", "exp:1/run")[0]
        self.assertEqual(len(set(trials["seconds"])), 20)

    def test_rounds_go_on_from_trial_to_trial(self):
        self.write("trace.csv", "step,worker,chunk,seconds\n" + "".join(
            f"{step},{worker},0,{step + 1}\n" for step in range(5) for worker in range(2)))
        result = self.simulate("--workers", "2", "--chunks", "2", "--scheme", "uncoded",
                               "--straggler", "trace:trace.csv", "--trials", "3", "--rounds",
                               "2")[0]
        self.assertEqual(result["seconds"], [2, 4, 1])
        self.assertEqual([figures["seconds"] for figures in result["rounds"]], [3, 2])

    def test_costs_are_drawn_anew_in_each_round(self):
        self.write("trace.csv", "step,worker,chunk,seconds\n"
                   "0,0,0,1\n0,1,0,1\n1,0,0,1\n1,1,0,3\n2,0,0,0\n2,1,0,9\n")
        rounds = self.simulate("--workers", "2", "--chunks", "2", "--scheme", "uncoded",
                               "--straggler", "none", "--chunk-cost", "trace:trace.csv",
                               "--trials", "1", "--rounds", "3")[0]["rounds"]
        self.assertEqual([figures["seconds"] for figures in rounds], [1, 1.5, 2])
        self.assertEqual([figures["ratio_to_matched"] for figures in rounds], [1, 1, 1])
        first, again = self.simulate(*SMALL, "--scheme", "partial:name=a,partial:name=b",
                                     "--chunk-cost", "lognormal:0.5", "--rounds", "3")
        self.assertEqual(first["rounds"], again["rounds"])

    def test_adapt(self):
        options = ["--workers", "20", "--chunks", "40", "--pieces", "1", "--replication", "2", "--trials", "10",
                   "--rounds", "15"]
        slow = [*options, "--design", "cyclic", "--straggler", "slow:5,8+jitter:0.1/run"]
        stays, adapts, few = self.simulate(*slow, "--scheme", "tarry,tarry:adapt=1,0.05,tarry:adapt=4,0")
        self.assertEqual([result["settings"]["adapt"] for result in (stays, adapts, few)], [0, 1, 4])
        self.assertEqual((stays["moved"], few["moved"]), (0, 0))
        self.assertEqual(adapts["rounds"][0]["moved"], 0)
        self.assertLess(max(round["moved"] for round in adapts["rounds"]), 0.05 * 80 + 1)
        self.assertAlmostEqual(adapts["moved"], sum(round["moved"] for round in adapts["rounds"]))
        self.assertLess(adapts["ratio_to_balanced"], 0.9 * stays["ratio_to_balanced"])
        uneven = [*options, "--design", "fractional", "--straggler", "jitter:0.05", "--chunk-cost", "lognormal:1.5/run"]
        stays, adapts = self.simulate(*uneven, "--scheme", "tarry,tarry:adapt=1")
        self.assertGreater(adapts["split"], 1)
        self.assertGreater(adapts["merged"], 0)
        self.assertLess(adapts["ratio_to_balanced"], 0.9 * stays["ratio_to_balanced"])
        self.assertEqual(self.simulate(*uneven, "--scheme", "partial", "--adapt", "1")[0]["settings"]["adapt"], 0)
        self.assertIn("changes to the plan", self.succeed("simulate", *uneven, "--scheme", "tarry", "--adapt", "2"))

    def test_racks(self):
        """Of racks of 4 that die, one at a time, none takes all copies of a chunk that were spread over them."""
        options = ["--workers", "16", "--chunks", "16", "--replication", "2", "--pieces", "4", "--trials", "40",
                   "--straggler", "rack:4,inf,0.1"]
        known, unknown = self.simulate(*options, "--scheme", "tarry:racks=4,tarry")
        self.assertEqual([result["settings"]["racks"] for result in (known, unknown)], ["4", None])
        self.assertLess(known["failed"], unknown["failed"])
        self.write("names", "a\n" * 15)
        self.fail_with(1, "tarry: --scheme: partial:racks=names: names:16: the file ends after 15 of the 16 workers",
                       "simulate", *options, "--scheme", "partial:racks=names")

    def test_a_trial_fails_with_one_of_its_rounds(self):
        options = [*SMALL, "--scheme", "uncoded", "--straggler", "exp:1+fail:0.01"]
        single = self.simulate(*options)[0]
        result = self.simulate(*options, "--rounds", "6")[0]
        self.assertGreater(result["failed"], single["failed"])
        self.assertLess(result["failed"], 20)
        self.assertEqual(result["seconds"].count(None), result["failed"])
        self.assertRegex(result["failure"], r"^1 of 12 workers were lost, and some chunk had fewer")
        for figures in result["rounds"]:
            self.assertEqual(figures["copies"], 1)
            self.assertGreater(figures["seconds"], 0)
        none = self.simulate(*SMALL, "--scheme", "uncoded", "--straggler", "dead:1", "--rounds",
                             "2")[0]
        self.assertEqual((none["failed"], [figures["seconds"] for figures in none["rounds"]]),
                         (20, [None, None]))

    def test_jobs_do_not_matter(self):
        options = [*SMALL, "--scheme", "partial,multi-message", "--rounds", "4", "--straggler",
                   "exp:1+jitter:0.2/run+fail:0.02+rejoin:1", "--chunk-cost", "lognormal:0.2"]
        first = self.simulate(*options, "--jobs", "1")
        self.assertEqual(self.simulate(*options, "--jobs", "3"), first)

    def test_ctrl_c_between_rounds(self):
        process = self.start("simulate", "--trials", "1", "--rounds", "100000", "--workers", "1000",
                             "--chunks", "1000", "--scheme", "partial")
        self.assertRegex(process.stderr.readline(), "^simulating ")
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual((process.returncode, out), (1, ""))
        self.assertIn("tarry: simulate: interrupted after 0 of 1 trials\n", err)


class Deadlines(SimulateTest):
    """The curve out of one round is what rounds that end at each deadline give."""

    DEADLINES = ["0.2", "0.7", "1.5", "3"]

    def check(self, scheme, *arguments):
        curve = self.simulate(*SMALL, "--scheme", scheme, "--deadline", ",".join(self.DEADLINES),
                              *arguments)[0]["error"]
        self.assertEqual([point["deadline"] for point in curve], [float(t) for t in self.DEADLINES])
        for point, deadline in zip(curve, self.DEADLINES):
            separator = "," if ":" in scheme else ":"
            ended = self.simulate(*SMALL, "--scheme", f"{scheme}{separator}stop=deadline:{deadline}",
                                  *arguments)[0]
            self.assertEqual(ended["failed"], 0)
            self.assertAlmostEqual(point["mean"], ended["expected_error"], 12)
            self.assertEqual(len(point["trials"]), ended["trials"])
            self.assertAlmostEqual(statistics.fmean(point["trials"]), point["mean"], 12)
        means = [point["mean"] for point in curve]
        self.assertEqual(means, sorted(means, reverse=True))
        self.assertGreater(means[0], means[-1])

    def test_by_chunk(self):
        self.check("partial")

    def test_whole_workers(self):
        self.check("own:credit=whole")

    def test_parts(self):
        self.check("partial:parts=2", "--latency", "0.05")

    def test_each_gradient_sent(self):
        self.check("multi-message", "--latency", "0.05", "--dimension", "1000", "--bandwidth", "1e5")

    def test_workers_that_die_in_the_round(self):
        self.check("partial", "--straggler", "exp:1+fail:0.1")

    def test_a_range(self):
        result = self.simulate(*SMALL, "--scheme", "dropcompute", "--deadline", "0.5:2:4")[0]
        self.assertEqual([point["deadline"] for point in result["error"]], [0.5, 1, 1.5, 2])
        ended = self.simulate(*SMALL, "--scheme", "dropcompute:deadline=2")[0]
        self.assertEqual(ended["settings"]["stop"], "deadline:2")
        self.assertLessEqual(max(ended["seconds"]), 2)
        self.assertAlmostEqual(result["error"][-1]["mean"], ended["expected_error"], 12)
        queue = self.simulate(*SMALL, "--scheme", "queue", "--deadline", "0.5:4:4")[0]
        self.assertEqual(queue["error"][-1]["mean"], 0)
        self.assertGreater(queue["error"][0]["mean"], queue["error"][1]["mean"])

    def test_the_table_shows_some(self):
        text = self.succeed("simulate", *SMALL, "--deadline", "0.1:5:50")
        self.assertIn("mean relative squared error of a sum that ends at (8 of 50 deadlines)\n", text)
        head = text.split("deadlines)\n")[1].splitlines()[0]
        self.assertRegex(head, r"^ +r  l   100 ms .* 5\.00 s$")


class Outputs(SimulateTest):
    def test_report_of_the_run(self):
        self.succeed("simulate", *SMALL, "--seed", "5", "--report", "report.json")
        report = json.loads(self.read("report.json"))
        self.assertEqual((report["command"], report["seed"], report["trials"]), ("simulate", 5, 20))
        self.assertEqual((report["interrupted"], report["error"]), (False, None))
        self.assertEqual(report["config"]["straggler"], "exp:1")
        self.assertEqual(report["config"]["replication"], "3")
        self.assertIsNone(report["config"]["bandwidth"])

    def test_a_name_that_is_not_utf8(self):
        name = self.write(b"plan\xff.txt", "0\n1\n")
        result = self.simulate("--workers", "2", "--chunks", "2", "--trials", "1", "--scheme",
                               b"partial:design=file:" + name)[0]
        self.assertEqual(result["settings"]["design"], "file:plan?.txt")

    def test_ctrl_c(self):
        process = self.start("simulate", "--trials", "1000000", "--report", "report.json")
        self.assertRegex(process.stderr.readline(), "^simulating ")
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 1)
        match = re.search(r"^tarry: simulate: interrupted after (\d+) of 1000000 trials$", err,
                          re.MULTILINE)
        report = json.loads(self.read("report.json"))
        self.assertIs(report["interrupted"], True)
        self.assertEqual(report["trials"], int(match[1]))
        for result in report["results"]:
            self.assertEqual(len(result["seconds"]), report["trials"])
        self.assertEqual(sorted(os.listdir(self.folder)), ["report.json"])
        self.assertTrue(out.startswith(f"{match[1]} trials in "))


class Usage(SimulateTest):
    CASES = [
        ("--scheme parial", "--scheme: parial: 'parial' is not one of uncoded, ignore-stragglers, "
         "dropcompute, queue, ring, direct, cyclic, fractional, coco-ef, multi-message, partial, tarry, own"),
        ("--scheme partial:", "--scheme: partial:: '' is not KEY=VALUE"),
        ("--scheme partial:part=2",
         "--scheme: partial:part=2: part: unknown key (did you mean parts?)"),
        ("--scheme partial:parts=x", "--scheme: partial:parts=x: parts: 'x' is not a whole number"),
        ("--scheme partial:order=", "--scheme: partial:order=: order: the value is empty"),
        ("--scheme own:order=dynamic,credit=whole",
         "--scheme: own:order=dynamic,credit=whole: order: dynamic cannot be combined with credit whole"),
        ("--scheme own:order=dynamic,stop=workers:3",
         "--scheme: own:order=dynamic,stop=workers:3: order: dynamic cannot be combined with "
         "stop workers:3"),
        ("--scheme partial,", "--scheme: : '' is not one of uncoded, ignore-stragglers, dropcompute, "
         "queue, ring, direct, cyclic, fractional, coco-ef, multi-message, partial, tarry, own"),
        ("--scheme own:stop=deadline",
         "--scheme: own:stop=deadline: needs --deadline, or a setting deadline=SECONDS"),
        ("--scheme dropcompute:deadline=x", "--scheme: dropcompute:deadline=x: deadline: 'x' is not a number"),
        ("--scheme queue:replication=3",
         "--scheme: queue:replication=3: replication: no setting of this scheme"),
        ("--scheme queue:backup=2", "--scheme: queue:backup=2: backup: '2' is not one of yes, no"),
        ("--scheme partial:backup=no", "--scheme: partial:backup=no: backup: no setting of this scheme"),
        ("--scheme own:sum=ring,upload=each", "--scheme: own:sum=ring,upload=each: upload=each goes with sum=server"),
        ("--scheme tarry:sum=ring,keep=credited,parts=2",
         "--scheme: tarry:sum=ring,keep=credited,parts=2: keep: credited cannot be combined with parts 2"),
        ("--scheme queue:sum=ring", "--scheme: queue:sum=ring: sum: no setting of this scheme"),
        ("--link-jitter 3", "--link-jitter: '3' is not SECONDS,SD"),
        ("--link-jitter 3,-1", "--link-jitter: -1 is not in the range 0 to 1e+06"),
        ("--scheme ring:deadline=3", "--scheme: ring:deadline=3: deadline: no setting of this scheme"),
        ("--scheme own:upload=whole",
         "--scheme: own:upload=whole: upload=whole goes with credit=whole, or with one copy and stop=exact"),
        ("--scheme own:stop=workers:300",
         "--scheme: own:stop=workers:300: stop: workers:300 is more than workers 200"),
        ("--scheme partial:parts=some",
         "--scheme: partial:parts=some: parts: 'some' is not a whole number"),
        ("--scheme own:upload=each,parts=2",
         "--scheme: own:upload=each,parts=2: upload=each goes with one part only"),
        ("--scheme partial --replication 4,8 --parts 9", "--scheme: partial: no replication is at most the 200 workers "
         "and at least the parts"),
        ("--scheme partial --replication 8 --parts 9", "--parts: 9 is more than --replication 8"),
        ("--scheme ignore-stragglers --ignore 200",
         "--scheme: ignore-stragglers: ignore: 200 leaves none of 200 workers"),
        ("--replication 0", "--replication: 0 is not in the range 1 to 1000000"),
        ("--deadline 2,1", "--deadline: 1 is not above 2, before it"),
        ("--deadline 1:2", "--deadline: a range is FROM:TO:STEPS"),
        ("--deadline 2:1:5", "--deadline: 1 is not in the range 2 (excluded) to 1e+09"),
        ("--rounds 0", "--rounds: 0 is not in the range 1 to 100000"),
        ("--rounds 2 --deadline 1", "--deadline: goes with a single round of each trial only, not "
         "with --rounds; a scheme may have a deadline of its own"),
        ("--straggler slow:2,3-2",
         "--straggler: straggler term 'slow:2,3-2': HIGH must be at least LOW"),
        ("--straggler dead:201 ", "--straggler: straggler .*"),
        ("--chunk-cost lognormal", "--chunk-cost: .*"),
    ]

    def test_wrong_usage(self):
        for arguments, line in self.CASES:
            with self.subTest(arguments):
                done = self.run_tarry("simulate", *arguments.split())
                self.assertEqual((done.returncode, done.out), (2, ""))
                self.assertTrue(done.err == f"tarry: {line}\n"
                                or re.fullmatch(f"tarry: {line}\n", done.err), done.err)

    def test_missing_files(self):
        self.fail_like(1, "tarry: --straggler: .*no.csv.*", "simulate", "--straggler", "trace:no.csv")
        self.fail_like(1, "tarry: --chunk-cost: .*no.csv.*", "simulate", "--chunk-cost",
                       "trace:no.csv")
        self.fail_like(1, "tarry: no/report.json: .*", "simulate", "--report", "no/report.json")
        self.fail_like(1, "tarry: --scheme: partial: no.txt: .*", "simulate", "--scheme", "partial",
                       "--design", "file:no.txt")
        self.write("bad.txt", "0 1\n0 x\n")
        self.fail_like(1, "tarry: --scheme: partial: bad.txt:2: .*", "simulate", "--workers", "2",
                       "--scheme", "partial", "--chunks", "2", "--design", "file:bad.txt")
