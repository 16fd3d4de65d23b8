# SPDX-License-Identifier: Apache-2.0
"""tarry train: its report, parameters and closing table, and the ways it can end early."""

import json
import os
import re
import shutil
import struct
import subprocess
import unittest

from harness import TARRY, TarryTest

SMALL = ["train", "--samples", "400", "--features", "5", "--pieces", "1", "--rounds", "12"]

ROUND_KEYS = {"round", "seconds", "loss", "exact", "expected_error", "verified_error", "parts",
              "attempts", "copies_computed", "copies_needed", "workers_heard", "upload_bytes",
              "control_bytes", "test_loss", "test_accuracy", "verified_squared_error", "model_rounding",
              "workers_lost", "control_messages", "signal_seconds", "chunks_filled",
              "filled_share", "moved", "moved_data", "split", "merged", "chunks",
              "sum", "chunks_sampled", "sampling_error",
              "saturation"}


class Report(TarryTest):
    def report(self, *arguments):
        self.succeed(*SMALL, "--report", "report.json", *arguments)
        return json.loads(self.read("report.json"))

    def test_adapt(self):
        options = ["--workers", "6", "--chunks", "12", "--replication", "2", "--order", "dynamic", "--verify",
                   "--design", "fractional", "--rounds", "20", "--straggler", "slow:2,8+shifted-exp:0.002,0"]
        stays = self.report(*options)
        self.assertIsNone(stays["final_plan"])
        self.assertEqual({(r["moved"], r["split"], r["merged"], r["chunks"]) for r in stays["rounds"]}, {(0, 0, 0, 12)})
        for extra in ((), ("--batch", "60"), ("--keep", "credited"), ("--parts", "2")):
            report = self.report(*options, *extra, "--adapt", "1,0.2")
            rounds = report["rounds"]
            for before, after in zip(rounds, rounds[1:]):
                self.assertLess(after["verified_error"], 1e-5)
                if after["split"] == after["merged"] == 0:
                    self.assertEqual(before["chunks"], after["chunks"])
            self.assertGreater(sum(round["moved"] for round in rounds), 0)
            self.assertEqual(rounds[0]["moved"], 0)
            self.assertEqual(report["final_plan"]["chunks"], rounds[-1]["chunks"])
            self.assertNotEqual(report["final_plan"]["digest"], report["plan"]["digest"])
            if extra == ():
                self.assertAlmostEqual(report["final"]["loss"], stays["final"]["loss"], places=6)
        self.assertIn("changes to the plan", self.succeed(*SMALL, *options, "--adapt", "1,0.2"))

    def test_the_settings_that_were_used_are_told(self):
        options = ["--workers", "4", "--chunks", "8", "--rounds", "1"]
        used = self.report(*options)["settings"]
        report = self.report(*options, "--stop", "workers:3", "--silence", "1.5")
        self.assertEqual(used["dimension"], report["dimension"])
        self.assertEqual((used["stop"], used["pick"], used["compress"], used["secure"]), ("exact", "share", "none", 0))
        self.assertEqual((used["keep"], used["ahead"], used["reports_per_frame"]), ("credited", 8, 128))
        self.assertEqual(used["stripe_length"], 65536)
        for idle in ("deadline_ns", "workers_needed", "compress_seed", "voters_grace_ns", "secure_bound"):
            self.assertNotIn(idle, used)
        changed = report["settings"]
        self.assertEqual((changed["stop"], changed["workers_needed"], changed["pick"]), ("workers", 3, "plan"))
        self.assertEqual(changed["silence_ns"], 1_500_000_000)
        everywhere = self.report(*options, "--processes", "--sum", "everywhere", "--keep", "credited", "--compress", "int8")
        changed = everywhere["settings"]
        self.assertEqual((changed["sum"], changed["keep"], changed["compress"]), ("everywhere", "credited", "int8"))
        self.assertEqual(changed["digest_steps"], 16)
        self.assertEqual({"ahead", "compress_seed", "attempt_limit_ns"} - set(changed), set())
        changed = self.report(*options, "--compress", "powersgd:2", "--model", "perceptron")["settings"]
        self.assertEqual(changed["compress_rank"], 2)
        self.assertGreaterEqual(changed["stripe_length"], changed["dimension"])
        self.assertEqual({len(shape) for shape in changed["compress_matrices"]}, {2})

    def test_small_chunks_are_not_split_without_end(self):
        """The first one of a round takes the longest, whatever is in it."""
        report = self.report("--workers", "4", "--chunks", "6", "--pieces", "3", "--replication", "2", "--parts", "2",
                             "--design", "fractional", "--order", "dynamic", "--model", "perceptron", "--hidden",
                             "8", "--rounds", "150", "--adapt", "1,0.2")
        self.assertLess(max(round["chunks"] for round in report["rounds"]), 4 * 18)

    def test_adapt_needs_what_it_learns_from(self):
        self.fail_with(2, "tarry: --adapt: 1 cannot be combined with --order optimal", *SMALL, "--order", "optimal",
                       "--adapt", "1")
        for value in ("x", "1,2", "1,", "-1", "1,0.1,2"):
            self.fail_like(2, "tarry: --adapt: .*", *SMALL, "--order", "dynamic", "--adapt", value)

    def test_schema(self):
        report = self.report("--verify", "--parts", "2")
        self.assertEqual(report["command"], "train")
        self.assertRegex(report["version"], r"^\d+\.\d+\.\d+$")
        self.assertEqual(report["seed"], 1)
        self.assertEqual(report["dimension"], 5)
        self.assertEqual((report["interrupted"], report["error"]), (False, None))
        self.assertEqual(report["data"], {"file": None, "samples": 320, "test_samples": 80,
                                          "features": 5, "classes": 2, "sparse": False})
        plan = report["plan"]
        self.assertEqual((plan["workers"], plan["chunks"], plan["parts"], plan["replication"]),
                         (8, 8, 2, 3))
        self.assertEqual(plan["loads"], [3] * 8)
        self.assertIsInstance(plan["q"], int)
        self.assertIsInstance(plan["q_bound"], int)
        self.assertRegex(plan["digest"], "^[0-9a-f]{64}$")
        self.assertEqual([round["round"] for round in report["rounds"]], list(range(12)))
        for round in report["rounds"]:
            self.assertEqual(set(round), ROUND_KEYS)
            self.assertIs(round["exact"], True)
            self.assertEqual((round["parts"], round["copies_needed"]), (2, 16))
            self.assertGreaterEqual(round["copies_computed"], 16)
            self.assertGreater(round["seconds"], 0)
            self.assertLess(round["verified_error"], 1e-4)
            self.assertLess(round["verified_squared_error"], 1e-8)
        self.assertEqual(len(report["workers"]), 8)
        self.assertEqual(set(report["workers"][0]), {"worker", "chunks", "seconds", "pace", "present"})
        for worker in report["workers"]:  # whose chunks all came late has a pace, and no chunks
            self.assertTrue(worker["pace"] is not None or worker["chunks"] == 0)
        final = report["final"]
        self.assertEqual(final["loss"], report["rounds"][-1]["loss"])
        self.assertLess(final["loss"], report["initial"]["loss"])
        self.assertEqual(final["test_loss"], report["rounds"][-1]["test_loss"])
        self.assertTrue(0 <= final["test_accuracy"] <= 1)
        self.assertGreater(final["seconds"], 0)

    def test_config_holds_every_setting(self):
        config = self.report("--optimizer", "adam", "--stop", "deadline:5")["config"]
        self.assertEqual((config["optimizer"], config["rate"]), ("adam", 0.01))
        self.assertEqual((config["stop"], config["design"]), ("deadline:5", "random"))
        self.assertEqual((config["samples"], config["holdout"]), (400, 0.2))
        text = self.succeed("train", "--help")
        flags = set(re.findall(r"--([a-z0-9-]+)(?:[=\s]|$)", text))
        names = {flag for flag in flags if re.search(rf"^ +--{flag}\b", text, re.MULTILINE)}
        self.assertEqual(set(config), names - {"help", "version", "config"})

    def test_unknown_numbers_are_null(self):
        report = self.report("--model", "least-squares", "--rate", "0.1", "--evaluate", "5")
        losses = [round["loss"] for round in report["rounds"]]
        evaluated = [index for index, loss in enumerate(losses) if loss is not None]
        self.assertEqual(evaluated, [4, 9, 11])
        self.assertIsNone(report["rounds"][0]["verified_error"])
        self.assertIsNone(report["final"]["test_accuracy"])
        self.assertEqual(report["final"]["loss"], losses[11])

    def test_losses_that_gradients_tell_are_those_of_a_pass(self):
        """Other processes tell no losses, so that the data is passed through for them."""
        options = ["--model", "perceptron", "--hidden", "6", "--reproducible", "--pieces", "2", "--rounds", "4"]
        told, passed = self.report(*options), self.report(*options, "--processes")
        for before, after in zip([told["initial"], told["final"], *told["rounds"]],
                                 [passed["initial"], passed["final"], *passed["rounds"]]):
            for key in ("loss", "test_loss", "test_accuracy"):
                self.assertAlmostEqual(before[key], after[key], delta=1e-5)
        self.assertEqual(told["initial"]["accuracy"], passed["initial"]["accuracy"])

    def test_plain_and_coded_runs_agree(self):
        plain = self.report("--replication", "1", "--workers", "1", "--chunks", "1")
        coded = self.report("--parts", "2", "--credit", "whole", "--straggler",
                            "slow:2,3+exp:0.001")
        self.assertAlmostEqual(plain["final"]["loss"], coded["final"]["loss"], delta=1e-6)

    def test_pieces(self):
        whole = self.report()
        pieces = self.report("--pieces", "5", "--verify", "--straggler", "slow:2,3+exp:0.001")
        self.assertEqual((pieces["plan"]["chunks"], pieces["plan"]["pieces"]), (40, 5))
        self.assertEqual(sum(pieces["plan"]["loads"]), 3 * 40)
        for round in pieces["rounds"]:
            self.assertEqual(round["copies_needed"], 40)
            self.assertLess(round["verified_error"], 1e-5)
        self.assertAlmostEqual(whole["final"]["loss"], pieces["final"]["loss"], delta=1e-6)
        batches = self.report("--pieces", "2", "--batch", "64", "--verify", "--parts", "2")
        self.assertTrue(all(round["exact"] for round in batches["rounds"]))
        self.assertLess(batches["final"]["verified_error"], 1e-4)

    def test_keeping_what_is_credited(self):
        every = self.report("--keep", "all")
        folded = self.report("--keep", "credited", "--verify", "--straggler", "exp:0.001/chunk")
        self.assertEqual((every["plan"]["keep"], folded["plan"]["keep"]), ("all", "credited"))
        workers, dimension = len(folded["workers"]), folded["dimension"]
        loads = [3] * workers
        self.assertEqual((every["plan"]["ahead"], folded["plan"]["ahead"]), (None, 3))
        self.assertEqual(folded["plan"]["memory_bytes_total"], sum(1 + load for load in loads) * dimension * 4)
        waits = self.report("--keep", "credited", "--ahead", "0", "--verify")
        self.assertEqual((waits["plan"]["ahead"], waits["plan"]["memory_bytes_total"]),
                         (0, 2 * workers * dimension * 4))
        self.assertLess(waits["final"]["verified_error"], 1e-5)
        self.assertAlmostEqual(every["final"]["loss"], folded["final"]["loss"], delta=1e-6)
        self.assertLess(folded["final"]["verified_error"], 1e-5)
        chosen = self.report()
        self.assertEqual((chosen["config"]["keep"], chosen["plan"]["keep"]), ("auto", "credited"))
        self.assertEqual(self.report("--parts", "2")["plan"]["keep"], "all")

    def test_parts_in_another_form(self):
        """Shorter uploads, what rounding costs in --verify, and the same run again with the same seed."""
        options = ["--features", "3000", "--rounds", "10", "--verify", "--reproducible"]
        plain, half, byte, again, other = (
            self.report(*options, "--compress", form, *seed)
            for form, *seed in (["none"], ["bf16"], ["int8"], ["int8"], ["int8", "--seed", "2"]))
        for report, least, most in ((half, 1.99, 2.01), (byte, 3.9, 4)):
            for before, after in zip(plain["rounds"], report["rounds"]):
                self.assertTrue(least < before["upload_bytes"] / after["upload_bytes"] < most)
                self.assertTrue(after["exact"])
                self.assertTrue(1e-4 < after["verified_error"] < 2e-2, after["verified_error"])
            self.assertAlmostEqual(plain["final"]["loss"] / report["final"]["loss"], 1, delta=1e-3)
        self.assertEqual(byte["config"]["compress"], "int8")
        self.assertEqual(byte["rounds"][9]["loss"], again["rounds"][9]["loss"])
        self.assertNotEqual(byte["rounds"][9]["verified_error"], other["rounds"][9]["verified_error"])
        self.assertGreater(byte["plan"]["memory_bytes_total"], plain["plan"]["memory_bytes_total"])
        for more in (["--keep", "credited"], ["--stop", "error:0.3", "--fill", "stale"]):
            report = self.report("--features", "3000", "--rounds", "5", "--compress", "int8", "--verify", *more)
            self.assertLess(report["final"]["loss"], report["initial"]["loss"])

    def test_parts_with_feedback(self):
        """What rounding lost of a part is in the next one: losses come near, though each sum is far off."""
        options = ["--features", "3000", "--rounds", "40", "--reproducible", "--verify"]
        plain, half, few, bits, again = (self.report(*options, "--compress", form)
                                         for form in ("none", "int4", "topk:0.05", "sign", "topk:0.05"))
        for report, least, most, off in ((half, 7.7, 7.8, 0.05), (few, 60.5, 61.2, 0.2), (bits, 28, 28.5, 0.2)):
            for before, after in zip(plain["rounds"], report["rounds"]):
                self.assertTrue(least < before["upload_bytes"] / after["upload_bytes"] < most)
                self.assertTrue(after["verified_error"] > off)
            gained = [one["initial"]["loss"] - one["final"]["loss"] for one in (report, plain)]
            self.assertAlmostEqual(gained[0] / gained[1], 1, delta=0.05)
        self.assertEqual([report["config"]["compress"] for report in (half, few, bits)], ["int4", "topk:0.05", "sign"])
        self.assertEqual(few["rounds"][39]["loss"], again["rounds"][39]["loss"])
        self.assertGreater(half["plan"]["memory_bytes_total"], plain["plan"]["memory_bytes_total"])
        for more in (["--keep", "credited"], ["--stop", "error:0.3", "--fill", "stale"], ["--adapt", "3"],
                     ["--straggler", "exp:0.002"]):
            report = self.report("--features", "3000", "--rounds", "10", "--compress", "topk:0.05", *more)
            self.assertLess(report["final"]["loss"], report["initial"]["loss"])
        self.fail_like(2, ".*compress.*0\\.6.*", *SMALL, "--compress", "topk:0.6")
        self.fail_like(2, ".*'topk' is not one of none, bf16, int8, int4, sign, topk:F, powersgd:R.*", *SMALL, "--compress", "topk")

    def test_thin_products(self):
        """powersgd:R sends of each matrix its product with a thin one: over threads and processes the same."""
        model = ["--model", "mlp", "--hidden", "32", "--features", "64"]
        options = [*model, "--rounds", "60", "--reproducible", "--verify", "--save", "w.npy"]
        plain, thin, wide = (self.report(*options, "--compress", form) for form in ("none", "powersgd:2", "powersgd:6"))
        whole = self.read("w.npy", "rb")
        for number, (before, after) in enumerate(zip(plain["rounds"], thin["rounds"])):
            sent = 32 * 2 + 10 * 2 if number % 2 == 0 else 64 * 2 + 32 * 2
            self.assertAlmostEqual(before["upload_bytes"] / after["upload_bytes"], (64 * 32 + 32 * 10 + 42) / (sent + 42))
            self.assertGreater(after["verified_error"], 0.1)
        gained = [one["initial"]["loss"] - one["final"]["loss"] for one in (thin, wide, plain)]
        self.assertGreater(gained[0] / gained[2], 0.8)
        self.assertGreater(gained[1] / gained[2], 0.95)
        self.assertEqual(thin["config"]["compress"], "powersgd:2")
        self.succeed(*SMALL, *options, "--compress", "powersgd:6", "--processes", "--quiet")
        self.assertEqual(self.read("w.npy", "rb"), whole)
        for more in (["--compress-down", "int8"], ["--keep", "credited"], ["--adapt", "3"],
                     ["--straggler", "exp:0.002"], ["--stop", "error:0.3", "--fill", "stale"], ["--local-steps", "2"]):
            report = self.report(*model, "--rounds", "10", "--compress", "powersgd:4", *more)
            self.assertLess(report["final"]["loss"], report["initial"]["loss"])
        for form in ("powersgd", "powersgd:0", "powersgd:65", "powersgd:2:3"):
            self.fail_like(2, ".*compress.*", *SMALL, "--compress", form)
        self.fail_like(1, "tarry: .*powersgd:2: the model has no matrix.*", *SMALL, "--compress", "powersgd:2")

    def test_parameters_in_another_form(self):
        """Workers compute with a view that follows the parameters: over threads and processes the same, and after a resume."""
        options = ["--features", "3000", "--rounds", "12", "--verify", "--reproducible", "--save", "w.npy"]
        plain, half, byte = (self.report(*options, "--compress-down", form) for form in ("none", "bf16", "int8"))
        whole = self.read("w.npy", "rb")
        for report in (half, byte):
            for row in report["rounds"]:
                self.assertTrue(row["exact"])
                self.assertLess(row["verified_error"], 1e-5)  # of the gradients at the view
            self.assertNotEqual(report["rounds"][11]["loss"], plain["rounds"][11]["loss"])
            self.assertAlmostEqual(plain["final"]["loss"] / report["final"]["loss"], 1, delta=1e-3)
        self.assertEqual(byte["config"]["compress-down"], "int8")
        self.assertEqual(plain["plan"]["memory_bytes_server"], 0)
        self.assertGreater(byte["plan"]["memory_bytes_server"], 4 * 3000)
        self.succeed(*SMALL, *options, "--compress-down", "int8", "--processes", "--quiet")
        self.assertEqual(self.read("w.npy", "rb"), whole)
        for rounds, more in (("5", []), ("12", ["--resume"])):
            self.succeed(*SMALL, *options, "--compress-down", "int8", "--rounds", rounds, "--checkpoint", "run.ck", "--quiet", *more)
        self.assertEqual(self.read("w.npy", "rb"), whole)
        for more in (["--parts", "2"], ["--keep", "credited"], ["--adapt", "3"], ["--compress", "int4"]):
            report = self.report("--features", "3000", "--rounds", "8", "--compress-down", "int8", "--verify", *more)
            self.assertLess(report["final"]["loss"], report["initial"]["loss"])
        self.fail_like(2, ".*compress-down.*int4.*", *SMALL, "--compress-down", "int4")

    def test_reproducible_runs_repeat_to_the_bit(self):
        for name in ("first", "second"):
            self.succeed(*SMALL, "--reproducible", "--batch", "64", "--save", name + ".npy",
                         "--straggler", "exp:0.001", "--quiet")
        self.assertEqual(self.read("first.npy", "rb"), self.read("second.npy", "rb"))
        self.succeed(*SMALL, "--batch", "64", "--save", "other.npy", "--seed", "2")
        self.assertNotEqual(self.read("first.npy", "rb"), self.read("other.npy", "rb"))

    def test_the_seed_decides_the_plan(self):
        digests = [self.report("--seed", seed)["plan"]["digest"] for seed in ("1", "1", "2")]
        self.assertEqual(digests[0], digests[1])
        self.assertNotEqual(digests[0], digests[2])


class Outputs(TarryTest):
    def test_parameters_as_npy(self):
        self.succeed(*SMALL, "--intercept", "--save", "w.npy")
        content = self.read("w.npy", "rb")
        self.assertEqual(content[:8], b"\x93NUMPY\x01\x00")
        (header,) = struct.unpack("<H", content[8:10])
        self.assertEqual((10 + header) % 64, 0)
        self.assertEqual(eval(content[10 : 10 + header]),
                         {"descr": "<f4", "fortran_order": False, "shape": (6,)})
        values = struct.unpack("<6f", content[10 + header :])
        self.assertTrue(all(abs(value) < 10 for value in values))
        self.assertTrue(any(value != 0 for value in values))

    def test_nothing_held_out(self):
        self.succeed(*SMALL, "--holdout", "0", "--report", "report.json")
        report = json.loads(self.read("report.json"))
        self.assertEqual((report["data"]["samples"], report["data"]["test_samples"]), (400, 0))
        self.assertIsNone(report["final"]["test_loss"])

    def test_a_name_that_is_not_utf8(self):
        name = self.write(b"data\xff.svm", b"+1 1:1\n-1 2:1\n" * 8)
        self.succeed("train", "--data", name, "--rounds", "2", "--report", "report.json")
        self.assertEqual(json.loads(self.read("report.json"))["data"]["file"], "data?.svm")

    def test_closing_table(self):
        text = self.succeed(*SMALL, "--order", "optimal", "--verify", "--straggler", "slow:1,8+exp:0.002+dead:1")
        self.assertRegex(text, r"^12 rounds in .*: 12 exact, 0 approximate\n")
        for row in ("round time  .* p95", r"copies per chunk +\d\.\d\d computed, 1 needed",
                    r"attempts per round +\d\.\d\d", "control per round", "upload per round",
                    r"loss +0\.693147 -> 0\.\d+", r"test +loss 0\.\d+, accuracy \d+\.\d\d %",
                    "worst verified error"):
            self.assertRegex(text, r"\n  " + row)
        self.assertEqual(len(re.findall(r"^ +\d+ +\d+ ", text, re.MULTILINE)), 8)
        self.assertRegex(text, r"\n +\d +0 +-  (finished nothing|lost)\n")

    def test_of_many_workers_the_slowest_are_shown(self):
        text = self.succeed(*SMALL, "--workers", "20", "--chunks", "20")
        self.assertIn("the slowest 8 of 20 workers:", text)
        self.assertEqual(len(re.findall(r"^ +\d+ +\d+ ", text, re.MULTILINE)), 8)

    def test_progress_lines(self):
        done = self.run_tarry(*SMALL)
        lines = done.err.splitlines()
        self.assertRegex(lines[0], "^training logistic on 320 samples of 5 features")
        self.assertRegex(lines[-1], r"^round 12/12  .*/s  0 s left  loss 0\.\d+  .* copies/chunk  \d/8 heard$")
        self.assertLessEqual(len(lines), 12)

    def test_quiet(self):
        done = self.run_tarry(*SMALL, "--quiet")
        self.assertEqual((done.returncode, done.out, done.err), (0, "", ""))

    def test_ranks_without_their_program(self):
        """As where it was built without MPI."""
        lonely = os.path.join(self.folder, "tarry")
        shutil.copy(TARRY, lonely)
        done = subprocess.run([lonely, "train", "--engine", "mpi"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, f"tarry: --engine: {lonely}-mpi is not there: this Tarry was built without MPI, or "
                                      "its package tarry-mpi is not installed\n")

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_a_read_only_report_is_kept(self):
        self.write("report.json", "old")
        os.chmod(os.path.join(self.folder, "report.json"), 0o444)
        self.fail_with(1, "tarry: report.json: cannot be written: Permission denied", *SMALL,
                       "--report", "report.json")
        self.assertEqual(self.read("report.json"), "old")

    def test_outputs_that_cannot_be_written_are_found_first(self):
        for flag, name in (("--report", "no/r.json"), ("--save", "no/w")):
            self.fail_with(1, f"tarry: {name}: cannot be written: No such file or directory",
                           *SMALL, flag, name, "--rounds", "1000000")
        os.mkdir(os.path.join(self.folder, "folder"))
        self.fail_with(1, "tarry: folder: cannot be written: Is a directory", *SMALL, "--report",
                       "folder")
        self.fail_with(1, "tarry: new/: cannot be written: Is a directory", *SMALL, "--report",
                       "new/")
        self.assertEqual(self.files(), ["folder"])

    def test_a_link_stays_a_link_and_a_device_a_device(self):
        self.write("target.json", "old")
        os.symlink("target.json", os.path.join(self.folder, "link.json"))
        self.succeed(*SMALL, "--report", "link.json")
        self.assertTrue(os.path.islink(os.path.join(self.folder, "link.json")))
        self.assertEqual(json.loads(self.read("target.json"))["command"], "train")
        self.succeed(*SMALL, "--report", "/dev/null")
        self.assertFalse(os.path.isfile("/dev/null"))
        self.assertEqual(self.files(), ["link.json", "target.json"])

    def test_a_link_to_what_is_not_there_yet_stays_a_link(self):
        os.mkdir(os.path.join(self.folder, "real"))
        os.symlink("real/second.json", os.path.join(self.folder, "report.json"))
        os.symlink("report.json", os.path.join(self.folder, "real", "second.json"))
        os.symlink(os.path.join(self.folder, "real", "w.npy"), os.path.join(self.folder, "w.npy"))
        self.succeed(*SMALL, "--report", "report.json", "--save", "w.npy")
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, "real"))),
                         ["report.json", "second.json", "w.npy"])
        for link in ("report.json", "w.npy", "real/second.json"):
            self.assertTrue(os.path.islink(os.path.join(self.folder, link)), link)
        self.assertEqual(json.loads(self.read("real/report.json"))["command"], "train")
        os.symlink("no/such", os.path.join(self.folder, "nowhere"))
        self.fail_with(1, "tarry: nowhere: cannot be written: No such file or directory", *SMALL,
                       "--report", "nowhere")

    def test_closed_descriptors_do_not_become_outputs(self):
        script = f'exec "{TARRY}" "$@" <&- >&- 2>&-'
        done = subprocess.run(["sh", "-c", script, "sh", *SMALL, "--report", "report.json"],
                              cwd=self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(json.loads(self.read("report.json"))["final"]["rounds"], 12)

    def test_a_full_device(self):
        done = self.run_tarry(*SMALL, "--report", "/dev/full", "--quiet")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.err,
                         "tarry: /dev/full: cannot be written: No space left on device\n")

    def test_no_output_of_a_command_misses_a_full_disk(self):
        simulate = ["simulate", "--workers", "5", "--chunks", "5", "--trials", "2", "--straggler", "exp:1"]
        privacy = ["privacy", "--noise", "1", "--sample", "0.01", "--rounds", "100"]
        for ending in ("json", "npy"):
            os.symlink("/dev/full", os.path.join(self.folder, f"full.{ending}"))
        outputs = [([*SMALL, "--quiet"], "--save", "npy")]
        outputs += [(command, "--report", "json") for command in ([*SMALL, "--quiet"], [*simulate, "--quiet"], privacy)]
        for command, option, ending in outputs:
            with self.subTest(command=command, option=option, ending=ending):
                done = self.run_tarry(*command, option, f"full.{ending}")
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.err, r"^tarry: .*: No space left on device\n$")


class EarlyEnds(TarryTest):
    def test_a_loss_that_rises_is_said_and_fails_if_asked_to(self):
        rising = [*SMALL, "--model", "least-squares", "--rate", "2", "--rounds", "5"]
        line = r"tarry: train: the loss rose from \S+ to \S+: try a smaller --rate than 2\n$"
        done = self.run_tarry(*rising)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.err, line)
        self.assertEqual(self.run_tarry(*rising, "--quiet").err, "")
        done = self.run_tarry(*rising, "--quiet", "--fail-on-divergence")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.err, "^" + line)
        self.assertEqual(self.succeed(*SMALL, "--quiet", "--fail-on-divergence"), "")

    def test_a_loss_that_grows_without_bound(self):
        done = self.run_tarry(*SMALL, "--model", "least-squares", "--rate", "1e9", "--report",
                              "report.json", "--save", "w.npy", "--quiet")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.err, r"^tarry: train: the loss is not finite after round \d+: "
                                   r"try a smaller --rate than 1e\+09\n$")
        report = json.loads(self.read("report.json"))
        self.assertIn("not finite", report["error"])
        self.assertIsNone(report["final"]["loss"])
        self.assertEqual(self.files(), ["report.json"])

    def test_more_dead_workers_than_the_plan_can_lose(self):
        dead = [*SMALL, "--replication", "2", "--straggler", "dead:6", "--quiet"]
        done = self.run_tarry(*dead, "--report", "report.json")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.err, r"^tarry: train: .*chunks? \d+.*; --stop deadline:SECONDS or .*\n$")
        report = json.loads(self.read("report.json"))
        self.assertEqual(report["rounds"], [])
        self.assertIs(report["interrupted"], False)
        self.assertRegex(report["error"], r"chunks? \d+")
        self.assertEqual(self.files(), ["report.json"])

    def test_no_rule_goes_on_without_any_worker(self):
        for stop in "exact", "deadline:0.05":
            self.fail_like(1, r"tarry: train: round \d+: all 8 workers are lost", *SMALL, "--straggler", "dead:8",
                           "--rounds", "1000", "--stop", stop, "--quiet")

    def test_other_stop_rules_go_on(self):
        dead = [*SMALL, "--replication", "2", "--straggler", "dead:6", "--report", "report.json"]
        self.succeed(*dead, "--stop", "deadline:0.05", "--rounds", "4")
        for round in json.loads(self.read("report.json"))["rounds"]:
            self.assertIs(round["exact"], False)
            self.assertGreater(round["expected_error"], 0)

    def test_missing_chunks_can_be_filled(self):
        early = [*SMALL, "--replication", "1", "--rounds", "30", "--straggler", "exp:0.04/chunk",
                 "--stop", "error:0.25", "--verify", "--report", "report.json", "--fill"]
        rounds = {}
        for fill in "none", "scale", "stale":
            self.succeed(*early, fill)
            report = json.loads(self.read("report.json"))
            self.assertEqual(report["config"]["fill"], fill)
            rounds[fill] = [round for round in report["rounds"] if not round["exact"]]
            self.assertGreater(len(rounds[fill]), 20)
        for round in rounds["none"] + rounds["scale"]:
            self.assertEqual((round["chunks_filled"], round["filled_share"]), (0, 0))
        for round in rounds["none"] + rounds["stale"]:
            self.assertLessEqual(round["expected_error"], 0.25)
        for round in rounds["scale"]:
            recovered = 8 / (1 + round["expected_error"])  # (1 - k) / k
            self.assertAlmostEqual(recovered, int(recovered + 0.5))
        filled = [round for round in rounds["stale"] if round["chunks_filled"] > 0]
        self.assertGreater(len(filled), 10)
        for round in filled:
            self.assertAlmostEqual(round["filled_share"], round["chunks_filled"] / 8)

        # Chunks' gradients have much in common, and change little from one round to the next.
        error = {fill: sum(round["verified_squared_error"] for round in rounds[fill]) /
                 len(rounds[fill]) for fill in rounds}
        self.assertLess(error["scale"], error["none"])
        self.assertLess(error["stale"], error["none"])
