# SPDX-License-Identifier: Apache-2.0
"""tarry-bench: every kernel and round is measured, and wrong usage is one clear line."""

import json
import os
import signal
import subprocess
import time

import harness
from test_manual import options_of_help, options_of_page


class BenchTest(harness.TarryTest):
    program = os.path.abspath(os.environ["TARRY_BENCH"])

    def test_every_kernel_is_measured(self):
        unknown = self.run_tarry("kernels", "--kernel", "mmx")
        self.assertEqual(unknown.returncode, 2)
        kernels = unknown.err.split(":")[-1].split()
        self.assertIn("reference", kernels)
        for kernel in kernels:
            report = json.loads(self.succeed("kernels", "--json", "--dimension", "1e3", "--inputs", "1,17",
                                             "--parts", "3", "--repeat", "2" if kernel == kernels[0] else "1",
                                             "--kernel", kernel))
            self.assertEqual(report["ran"], kernel)
            self.assertEqual(report["config"]["parts"], 3)
            self.assertEqual([row["inputs"] for row in report["results"]], [1, 17])
            for row in report["results"]:
                for figure in ("read", "sgemv", "stored", "encode", "decode"):
                    self.assertGreater(row[figure], 0)

    def test_kernels_table_has_a_line_per_number_of_inputs(self):
        text = self.succeed("kernels", "--dimension", "100", "--inputs", "3,5", "--repeat", "1")
        self.assertIn("d = 100, 1 part, at pages, one thread, best of 1", text)
        packed = self.succeed("kernels", "--dimension", "100", "--inputs", "3", "--repeat", "1", "--packed")
        self.assertIn("d = 100, 1 part, packed", packed)
        self.assertEqual([line.split()[0] for line in text.splitlines()[2:]], ["3", "5"])

    def test_every_form_is_measured(self):
        unknown = self.run_tarry("forms", "--kernel", "mmx")
        self.assertEqual(unknown.returncode, 2)
        kernels = unknown.err.split(":")[-1].split()
        self.assertEqual(kernels[0], "reference")
        for kernel in (kernels[0], kernels[-1]):
            report = json.loads(self.succeed("forms", "--json", "--dimension", "1e5", "--parts", "3", "--repeat", "1",
                                             "--kernel", kernel))
            self.assertEqual(report["ran"], kernel)
            self.assertGreater(report["read"], 0)
            self.assertEqual([row["form"] for row in report["results"]],
                             ["float32", "bf16", "int8", "int4", "topk:0.01", "sign", "powersgd:4, P", "powersgd:4, Q"])
            for row in report["results"]:
                for figure in ("encode", "add", "sum"):
                    self.assertGreater(row[figure], 0)
            self.assertEqual([round(row["bytes"], 3) for row in report["results"]], [4, 2, 1.016, 0.516, 0.016, 0.141, 0.062, 0.062])
        text = self.succeed("forms", "--dimension", "100", "--repeat", "1")
        self.assertEqual([line.split()[0] for line in text.splitlines()[3:]],
                         ["float32", "bf16", "int8", "int4", "topk:0.01", "sign", "powersgd:4,", "powersgd:4,"])

    def test_masks_are_measured(self):
        report = json.loads(self.succeed("masks", "--json", "--dimension", "1e4", "--neighbours", "2", "--repeat", "1"))
        for figure in ("read", "aes", "sha256", "pair_us", "secret_us", "key_us"):
            self.assertGreater(report[figure], 0)
        self.assertEqual([row["bits"] for row in report["results"]], [32, 64])
        for row in report["results"]:
            for figure in ("mask", "member", "add", "reference", "sum", "read"):
                self.assertGreater(row[figure], 0)
        lines = self.succeed("masks", "--dimension", "100", "--repeat", "1").splitlines()
        self.assertEqual([line.split()[0] for line in lines[4:]], ["32", "64"])

    def test_rounds_are_measured(self):
        options = ("round", "--dimension", "1000", "--rounds", "5", "--stripe", "64")
        report = json.loads(self.succeed(*options, "--json"))
        self.assertEqual([(row["parts"], row["stop"]) for row in report["results"]],
                         [(1, "exact"), (1, "workers"), (2, "exact"), (2, "workers")])
        for row in report["results"]:
            if row["stop"] == "workers":
                self.assertEqual(row["copies"], 24)
                part = 1000 / row["parts"]
                self.assertEqual(row["needed_bytes"], 4 * (24 * 1000 + 2 * 8 * part))
            self.assertLess(row["signal_seconds"], row["seconds"])
        self.assertEqual(len(self.succeed(*options).splitlines()), 6)

    def test_the_network_is_measured(self):
        options = ("network", "--dimension", "3000", "--stripe", "1000", "--workers", "2", "--rounds", "2",
                   "--reports", "1000", "--idle", "3")
        report = json.loads(self.succeed(*options, "--json", "--report", "report.json"))
        self.assertEqual(json.loads(self.read("report.json")), report)
        self.assertEqual([(row["what"], row["link"]) for row in report["results"]],
                         [("idle", "plain"), ("idle", "tls"), ("parts", "plain"), ("parts", "tls"),
                          ("reports", "plain"), ("batched_reports", "plain")])
        for row in report["results"]:
            if row["what"] == "idle":
                self.assertIn("bytes", row)
            else:
                for figure in ("bare", "tarry", "ratio"):
                    self.assertGreater(row[figure], 0)
        text = self.succeed(*options, "--only", "parts")
        self.assertEqual(len(text.splitlines()), 4)
        self.assertIn("coded parts, TLS", text)

    def test_interrupted_it_leaves_no_keys(self):
        for only in ("idle", "parts"):
            process = subprocess.Popen([self.program, "network", "--only", only, "--rounds", "1000"],
                                       cwd=self.folder, env=dict(os.environ, TMPDIR=self.folder),
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            end = time.monotonic() + harness.TIMEOUT
            while not self.files() and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=harness.TIMEOUT)
            self.assertEqual((process.returncode, out, err), (1, "", "tarry-bench: network: interrupted\n"))
            self.assertEqual(self.files(), [])

    def test_many_workers_are_measured(self):
        options = ("connections", "--workers", "300", "--reports", "3000", "--rounds", "2")
        for batch in ("1", "10"):
            report = json.loads(self.succeed(*options, "--json", "--batch", batch))
            self.assertEqual(report["config"]["workers"], 300)
            self.assertEqual(report["results"]["reports"], 3000)
            for figure in ("reports_per_second", "report_cpu_seconds", "signal_seconds"):
                self.assertGreater(report["results"][figure], 0)
        self.assertEqual(len(self.succeed(*options).splitlines()), 6)
        self.fail_with(2, "tarry-bench: connections: fewer reports than workers", *options, "--reports", "299")

    def test_sums_among_processes_are_measured(self):
        options = ("allreduce", "--members", "3", "--dimension", "1001", "--parts", "2", "--times", "3")
        for way in ("shared", "tcp", "tls"):
            report = json.loads(self.succeed(*options, "--json", "--over", way))
            self.assertEqual(report["config"]["over"], way)
            self.assertEqual(len(report["seconds"]), 3)
            self.assertGreater(min(report["seconds"]), 0)
            self.assertEqual(sorted(report["seconds"])[1], report["median_seconds"])
            self.assertEqual(report["needed_numbers"], 1.5 * 1001 * 2 / 3)
            self.assertTrue(1 <= report["moved_numbers"] / report["needed_numbers"] <= 1.5)
        self.assertEqual(len(self.succeed(*options, "--late", "0.01").splitlines()), 3)

    def test_a_state_over_a_long_link_is_measured(self):
        options = ("join", "--state", "3000001", "--round-trip", "0.02", "--rate", "1e8", "--dimension", "1001",
                   "--times", "3", "--compute", "0.01")
        report = json.loads(self.succeed(*options, "--json"))
        self.assertGreater(report["load_seconds"], 3000001 * 8 / 1e8 + 0.02)
        self.assertEqual(round(report["of_the_link"] * report["load_seconds"], 6), round(3000001 * 8 / 1e8, 6))
        self.assertGreater(report["sum_seconds_alone"], 0)
        self.assertGreater(report["sums_beside"], 0)
        self.assertEqual(len(self.succeed(*options).splitlines()), 3)

    def test_steps_of_workers_that_get_the_sum_are_measured(self):
        options = ("step", "--workers", "3", "--chunks", "3", "--pieces", "2", "--replication", "2",
                   "--dimension", "1001", "--times", "2", "--seconds", "0.02")
        for flags in (("--over", "tls"), ("--over", "shared", "--slow", "3"), ("--stop", "2", "--silence", "1")):
            report = json.loads(self.succeed(*options, "--json", *flags))
            self.assertTrue(report["right"])
            self.assertEqual(len(report["seconds"]), 2)
            self.assertEqual(len(report["added_seconds"]), 2)
            self.assertEqual(sum(report["seconds"]) / 2, report["median_seconds"])
        self.assertEqual(len(self.succeed(*options).splitlines()), 3)

    def test_what_befalls_a_worker_is_measured(self):
        options = ("step", "--workers", "3", "--chunks", "3", "--pieces", "1", "--replication", "2", "--times", "4",
                   "--dimension", "100001", "--seconds", "0.02", "--silence", "60", "--json")
        killed = json.loads(self.succeed(*options, "--kill", "2", "--keep-all"))
        self.assertGreaterEqual(killed["upset"]["computed"], 3)
        self.assertTrue(killed["right"])
        self.assertGreaterEqual(killed["upset"]["attempts"], 1)
        self.assertGreaterEqual(killed["upset"]["known_seconds"], 0)
        if killed["upset"]["again_seconds"] > 0:  # on a busy machine it may be killed after the sum
            self.assertGreater(killed["upset"]["repaired_seconds"], killed["upset"]["again_seconds"])
        joined = json.loads(self.succeed(*options, "--join", "1", "--times", "50", "--vectors", "2"))
        self.assertTrue(joined["right"])
        self.assertGreater(joined["upset"]["alone_seconds"], 0)
        if joined["upset"]["first"] > 0:  # on a busy machine it may come too late
            self.assertGreater(joined["upset"]["joined_seconds"], joined["upset"]["loaded_seconds"])
        self.fail_with(2, "tarry-bench: step: --stop, --kill and --join exclude each other", *options, "--kill", "1",
                       "--join", "1")
        self.fail_with(2, "tarry-bench: step: there are 4 steps, and no step 5", *options, "--stop", "5")

    def test_the_simulator_is_measured(self):
        options = ("simulate", "--workers", "30", "--reports", "2000", "--parts", "2")
        report = json.loads(self.succeed(*options, "--json"))
        self.assertEqual(report["config"]["replication"], 8)
        row, = report["results"]
        self.assertEqual(row["workers"], 30)
        self.assertTrue(2000 <= row["reports"] < 2000 + 30 * 8)
        self.assertTrue(row["reports"] / (30 * 8) <= row["rounds"] <= row["reports"] / (30 * 2))
        self.assertGreater(row["events"], 2 * row["reports"])
        self.assertLessEqual(row["longest_round_seconds"], row["seconds"])
        self.assertLess(row["virtual_round_seconds"], 100)
        self.assertGreater(row["memory_bytes"], 1e6)
        self.assertEqual(len(self.succeed(*options).splitlines()), 3)
        every = json.loads(self.succeed("simulate", "--json", "--reports", "1"))
        self.assertEqual([row["workers"] for row in every["results"]], [200, 10000])

    def test_help_fits_80_columns(self):
        for command in ([], ["kernels"], ["forms"], ["masks"], ["round"], ["network"], ["connections"], ["allreduce"], ["join"],
                        ["step"], ["simulate"]):
            for line in self.succeed(*command, "--help").split("\n"):
                self.assertLessEqual(len(line), 80)
                self.assertEqual(line, line.rstrip())

    def test_version(self):
        self.assertRegex(self.succeed("--version"), r"^tarry-bench \d+\.\d+\.\d+\n$")
        self.assertRegex(self.succeed("kernels", "--version"), r"^tarry-bench \d+\.\d+\.\d+\n$")

    def test_the_manual_has_the_options(self):
        described = options_of_page("tarry-bench.1")
        for command in ("kernels", "forms", "masks", "round", "network", "connections", "allreduce", "join", "step",
                        "simulate"):
            self.assertEqual(options_of_help(self.succeed(command, "--help")) - described, set())

    def test_help(self):
        self.assertIn("tarry-bench kernels", self.succeed("--help"))
        self.assertIn("--inputs=LIST", self.succeed("kernels", "--help"))
        self.assertIn("--stripe=LENGTH", self.succeed("round", "--help"))
        self.assertIn("--reports=COUNT", self.succeed("simulate", "--help"))
        self.assertIn("--idle=COUNT", self.succeed("network", "--help"))

    def test_wrong_usage(self):
        self.fail_with(2, "tarry-bench: say what to measure (see tarry-bench --help)")
        self.fail_with(2, "tarry-bench: 'kernel' can't be measured (did you mean kernels?)", "kernel")
        for arguments in (("--dimension", "0"), ("--dimension", "1.5"), ("--parts", "nan"), ("--repeat", "3x"),
                          ("--inputs", "2,,3"), ("--inputs", "2,"), ("--inputs", "0"), ("--fast",), ("more",)):
            self.fail_like(2, "tarry-bench: .*: .*", "kernels", *arguments)
        self.fail_with(1, "tarry-bench: simulate: round 0: the stop rule can't be met by the workers that are left",
                       "simulate", "--workers", "2", "--replication", "1", "--straggler", "dead:1")
        self.fail_like(2, "tarry-bench: simulate: .*exp.*", "simulate", "--straggler", "exp:x")
        self.fail_with(2, "tarry-bench: round: replication 9 is more than the 8 workers", "round",
                       "--replication", "9")

    def test_too_much_memory(self):
        self.fail_with(1, "tarry-bench: kernels: out of memory", "kernels", "--dimension", "2e9", "--inputs",
                       "1024")
