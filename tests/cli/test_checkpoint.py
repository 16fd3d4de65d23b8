# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: a run that was killed, interrupted or ended goes on as if nothing had happened."""

import array
import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import time

from harness import TARRY, TIMEOUT, TarryTest

SMALL = ["train", "--samples", "400", "--features", "5", "--batch", "64", "--optimizer", "adam"]
KEEP = ["--checkpoint", "run.ck"]


class Checkpoint(TarryTest):
    def train(self, *arguments):
        self.succeed(*SMALL, "--report", "report.json", "--save", "w.npy", *arguments)
        return json.loads(self.read("report.json")), self.read("w.npy", "rb")

    def wait_for(self, process, name):
        """Until the file was there; while checkpoints change places it may be gone again at once."""
        end = time.monotonic() + TIMEOUT
        while not (there := name in self.files()) and process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        self.assertTrue(there or name in self.files(), self.files())

    def wait_for_rounds(self, process, count):
        """Until so many more rounds are done, each of which makes a new checkpoint."""
        seen = {None}
        end = time.monotonic() + TIMEOUT
        while len(seen) < count + 2 and process.poll() is None and time.monotonic() < end:
            try:
                seen.add(os.stat(os.path.join(self.folder, "run.ck")).st_mtime_ns)
            except FileNotFoundError:
                pass
            time.sleep(0.001)
        self.assertGreaterEqual(len(seen), count + 2)

    def end(self, process, number):
        process.send_signal(number)
        return process.communicate(timeout=TIMEOUT)

    def assert_same(self, expected, found):
        """But for times, what two reports say of a run."""
        for key in ("loss", "test_loss", "test_accuracy", "copies_computed", "exact", "round"):
            self.assertEqual([r[key] for r in expected["rounds"]], [r[key] for r in found["rounds"]], key)
        self.assertEqual(expected["initial"], found["initial"])
        self.assertEqual(expected["final"]["loss"], found["final"]["loss"])

    def test_a_run_in_two_parts_is_the_same_to_the_bit(self):
        for options in ([], ["--optimizer", "gd"], ["--optimizer", "momentum", "--parts", "2"]):
            options = ["--reproducible", *options]
            expected, parameters = self.train(*options, "--rounds", "25")
            self.train(*options, *KEEP, "--rounds", "13")
            found, again = self.train(*options, *KEEP, "--rounds", "25", "--resume")
            self.assert_same(expected, found)
            self.assertEqual(parameters, again)
            self.assertEqual(sum(w["chunks"] for w in expected["workers"]),
                             sum(w["chunks"] for w in found["workers"]))
            self.assertEqual(self.files(), ["report.json", "run.ck", "run.ck.history", "run.ck.previous", "w.npy"])
            self.assertEqual(os.stat(os.path.join(self.folder, "run.ck")).st_mode & 0o777, 0o600)
            os.remove(os.path.join(self.folder, "run.ck"))
            os.remove(os.path.join(self.folder, "run.ck.previous"))

    def test_killed_again_and_again(self):
        slow = ["--reproducible", "--checkpoint-every", "1", "--straggler", "shifted-exp:0.001,0.001"]
        resume = []
        for delay in (0.05, 0.1, 0.15, 0.08):
            process = self.start(*SMALL, *slow, *KEEP, *resume, "--rounds", "1000000")
            self.wait_for_rounds(process, 2)
            time.sleep(delay)
            self.end(process, signal.SIGKILL)
            self.assertEqual(process.returncode, -signal.SIGKILL)
            resume = ["--resume"]
        few = self.run_tarry(*SMALL, *slow, *KEEP, "--resume", "--rounds", "1").err
        rounds = str(int(re.search("fewer than the ([0-9]+) done", few)[1]) + 10)
        expected, parameters = self.train(*slow, "--rounds", rounds)
        found, again = self.train(*slow, "--rounds", rounds, *KEEP, "--resume")
        self.assert_same(expected, found)
        self.assertEqual(parameters, again)

    def test_interrupted(self):
        slow = ["--reproducible", "--checkpoint-every", "1000000", "--straggler", "shifted-exp:0.005,0"]
        for number, resume in ((signal.SIGINT, []), (signal.SIGTERM, ["--resume"])):
            process = self.start(*SMALL, *slow, *KEEP, *resume, "--rounds", "1000000")
            self.assertRegex(process.stderr.readline(), "^training ")
            time.sleep(0.5)  # for some rounds, if the machine has the time
            _, err = self.end(process, number)
            self.assertEqual(process.returncode, 1)
            self.assertRegex(err.splitlines()[-1], r"^tarry: train: interrupted after \d+ of 1000000 rounds$")
        rounds = str(int(err.splitlines()[-1].split()[4]) + 10)
        expected, parameters = self.train(*slow, "--rounds", rounds)
        found, again = self.train(*slow, "--rounds", rounds, *KEEP, "--resume")
        self.assert_same(expected, found)
        self.assertEqual(parameters, again)

    def test_a_changed_plan_is_taken_up_again(self):
        options = ["--workers", "6", "--chunks", "12", "--replication", "2", "--order", "dynamic", "--design",
                   "fractional", "--straggler", "slow:2,8+shifted-exp:0.002,0", "--adapt", "1,0.2", "--verify"]
        first, _ = self.train(*options, *KEEP, "--rounds", "15")
        self.assertNotEqual(first["final_plan"]["digest"], first["plan"]["digest"])
        same, _ = self.train(*options, *KEEP, "--rounds", "15", "--resume")
        self.assertEqual(same["final_plan"]["digest"], first["final_plan"]["digest"])
        more, _ = self.train(*options, *KEEP, "--rounds", "20", "--resume")
        self.assertEqual(more["plan"]["digest"], first["plan"]["digest"])
        self.assertEqual(more["rounds"][15]["chunks"], first["final_plan"]["chunks"])
        self.assertLess(max(round["verified_error"] for round in more["rounds"]), 1e-5)

    def test_a_damaged_file(self):
        self.train(*KEEP, "--rounds", "25")
        good = self.read("run.ck", "rb")
        for bad in (good[:-1], good[:300] + bytes([good[300] ^ 1]) + good[301:], b"", b"x" * 1000):
            shutil.copy(os.path.join(self.folder, "run.ck.previous"), os.path.join(self.folder, "before"))
            self.write("run.ck", bad)
            done = self.run_tarry(*SMALL, *KEEP, "--rounds", "25", "--resume", "--quiet")
            self.assertEqual(done.returncode, 0, done.err)
            self.assertRegex(done.err, r"^tarry: --resume: .*run\.ck: .*; goes on from run\.ck\.previous, "
                                       r"after 20 rounds\n$")
            # A damaged one does not take the good one's place.
            self.assertTrue(os.path.exists(os.path.join(self.folder, "run.ck.previous")))
            os.replace(os.path.join(self.folder, "before"), os.path.join(self.folder, "run.ck.previous"))
        self.write("run.ck", b"no")
        self.write("run.ck.previous", b"nor this")
        self.fail_like(1, "tarry: --resume: .*run.ck: this is no checkpoint of a training run",
                       *SMALL, *KEEP, "--resume")

    def spoil_history(self, change):
        """The history's bytes after a change to them."""
        data = change(bytearray(self.read("run.ck.history", "rb")))
        with open(os.path.join(self.folder, "run.ck.history"), "wb") as file:
            file.write(data)

    def rounds_kept(self):
        return [json.loads(line)["round"] for line in self.read("run.ck.history").splitlines()]

    def test_a_history_is_lines_of_json(self):
        """It has what the report has, to the bit, while the training lasts and beyond --resume."""
        self.train(*KEEP, "--rounds", "13", "--verify")
        report, _ = self.train(*KEEP, "--rounds", "25", "--verify", "--resume")
        lines = [json.loads(line) for line in self.read("run.ck.history").splitlines()]
        self.assertEqual(len(lines), 25)
        after = [*lines[1:], {f"{key}_before": report["final"][key] for key in ("loss", "test_loss", "test_accuracy")}]
        for line, following, told in zip(lines, after, report["rounds"]):
            self.assertEqual(list(line), list(lines[0]))
            for key in ("loss", "test_loss", "test_accuracy"):
                self.assertEqual(told[key], following[f"{key}_before"], key)
            for key in line.keys() & told.keys() - {"conditioning", "error_bound"}:
                self.assertEqual(told[key], line[key], key)
        self.assertEqual(lines[0]["loss_before"], report["initial"]["loss"])
        self.assertIsNone(lines[0]["saturation"])

    def test_a_round_is_in_the_history_as_soon_as_it_is_over(self):
        process = self.start(*SMALL, *KEEP, "--checkpoint-every", "1000000", "--rounds", "1000000")
        end = time.monotonic() + TIMEOUT
        lines = 0
        while lines < 50 and process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
            lines = self.read("run.ck.history").count("\n") if "run.ck.history" in self.files() else 0
        self.end(process, signal.SIGKILL)
        *whole, last = self.read("run.ck.history").split("\n")
        self.assertGreaterEqual(len(whole), 50)
        self.assertEqual([json.loads(line)["round"] for line in whole], list(range(len(whole))))
        self.assertLess(len(last), len(whole[-1]) + 10)
        report, _ = self.train(*KEEP, "--checkpoint-every", "1000000", "--rounds", "5", "--resume")
        self.assertEqual([one["round"] for one in report["rounds"]], self.rounds_kept())

    def test_a_history_is_cut_back_to_the_checkpoint(self):
        """What was written after the checkpoint that is left, be it whole rounds or a torn one, counts for nothing."""
        options = ["--reproducible", "--checkpoint-every", "5"]
        expected, parameters = self.train(*options, "--rounds", "25")
        self.train(*options, *KEEP, "--rounds", "10")
        first = self.read("run.ck", "rb")
        for torn in (b"", b'{"round":21,"lo'):
            self.train(*options, *KEEP, "--rounds", "21", "--resume")
            self.assertEqual(self.rounds_kept(), list(range(21)))
            self.write("run.ck", first)
            self.spoil_history(lambda data: data + torn)
            found, again = self.train(*options, *KEEP, "--rounds", "25", "--resume")
            self.assert_same(expected, found)
            self.assertEqual(parameters, again)
            self.assertEqual(self.rounds_kept(), list(range(25)))
            self.write("run.ck", first)

    def test_a_checkpoint_grows_by_no_round(self):
        sizes = set()
        for rounds in ("10", "200"):
            self.train(*KEEP, "--rounds", rounds, *(["--resume"] if sizes else []))
            sizes.add(os.path.getsize(os.path.join(self.folder, "run.ck")))
        self.assertEqual(len(sizes), 1)

    def test_a_history_without_the_checkpoint_s_rounds(self):
        """FILE.previous is taken as long as its rounds are there."""
        self.train(*KEEP, "--rounds", "15")
        for change, why in ((lambda data: data[:-1], ": it does not have all rounds of the checkpoint"),
                            (lambda data: data.replace(b'{"round":12,', b'{"round":x,'),
                             ":13: this line is not a JSON object"),
                            (lambda data: data.replace(b'{"round":14,', b'{"number":14,'),
                             ":15: 'round' is missing or wrong")):
            with self.subTest(why):
                self.spoil_history(change)
                done = self.run_tarry(*SMALL, *KEEP, "--rounds", "15", "--resume", "--quiet")
                self.assertEqual(done.returncode, 0, done.err)
                self.assertRegex(done.err, rf"^tarry: --resume: .*/run.ck.history{why}; goes on from .*, after 10 rounds\n$")
                self.assertEqual(self.rounds_kept(), list(range(15)))

    def test_a_history_that_is_lost(self):
        """The training goes on from the newest checkpoint, the record begins again, and nothing is thrown away."""
        expected, parameters = self.train("--reproducible", "--rounds", "20")
        begin = {"resumed_after": None, "rounds": 0, "lost": 0, "workers": 0, "network": 0,
                 "saturation": 0}
        self.assertEqual(expected["covers"], begin)
        digit = lambda data: data.replace(b'"workers_heard":8', b'"workers_heard":7', 1)
        beyond = lambda data: b"x" + data[1:]
        binary = lambda data: b"tarrylog\3\n"
        self.train("--reproducible", *KEEP, "--rounds", "15")
        for number, (change, why) in enumerate(((digit, ": it is damaged, or of another run than the checkpoint"),
                                                (beyond, ":1: this line is not a JSON object"),
                                                (binary, ":1: this line is not a JSON object"))):
            with self.subTest(why):
                rounds = 16 + number
                self.spoil_history(change)
                damaged = self.read("run.ck.history", "rb")
                done = self.run_tarry(*SMALL, "--reproducible", *KEEP, "--rounds", str(rounds), "--resume", "--report",
                                      "report.json", "--quiet")
                aside = "run.ck.history.damaged" + (f"-{number + 1}" if number > 0 else "")
                self.assertEqual(done.returncode, 0, done.err)
                self.assertRegex(done.err, rf"^tarry: --resume: .*/run.ck.history{why}; the training goes on after "
                                           rf"{rounds - 1} rounds, but the figures of these rounds are lost: the report "
                                           rf"and the closing table begin with round {rounds - 1}; the damaged file is "
                                           rf"kept as .*/{aside}\n$")
                self.assertEqual(self.read(aside, "rb"), damaged)
                report = json.loads(self.read("report.json"))
                self.assertEqual([one["round"] for one in report["rounds"]], [rounds - 1])
                self.assertEqual((report["initial"]["loss"], report["final"]["rounds"]), (None, rounds))
                self.assertEqual(report["covers"]["rounds"], rounds - 1)
        os.remove(os.path.join(self.folder, "run.ck.history"))
        done = self.run_tarry(*SMALL, "--reproducible", *KEEP, "--rounds", "19", "--resume")
        self.assertRegex(done.err, r"tarry: --resume: .*/run.ck.history: cannot be read: No such file or directory; the "
                                   r"training goes on after 18 rounds, [^;]* begin with round 18\n")
        self.assertRegex(done.out, r"\n  rounds counted +18 to 19: the record of the rounds before them was damaged\n")
        report, again = self.train("--reproducible", *KEEP, "--rounds", "20", "--resume")
        self.assertEqual(again, parameters)
        self.assertEqual([one["round"] for one in report["rounds"]], [18, 19])
        self.assertEqual(report["covers"], {"resumed_after": 19, "rounds": 18, "lost": 0, "workers": 0, "network": 19,
                                            "saturation": 18})
        self.assertEqual(sum(one["chunks"] for one in report["workers"]), sum(one["chunks"] for one in expected["workers"]))

    def test_a_history_that_is_left_alone(self):
        """Another run's is written over, since its checkpoints are gone; a file that is none is not."""
        self.train(*KEEP, "--rounds", "30")
        for name in ("run.ck", "run.ck.previous"):
            os.remove(os.path.join(self.folder, name))
        self.train(*KEEP, "--rounds", "3")
        report, _ = self.train(*KEEP, "--rounds", "5", "--resume")
        self.assertEqual(len(report["rounds"]), 5)
        for name in ("run.ck", "run.ck.previous"):
            os.remove(os.path.join(self.folder, name))
        self.write("run.ck.history", "a text of mine")
        self.fail_like(1, r"tarry: --checkpoint: .*run\.ck\.history: this is in the way: it should be the history of a "
                          "run, or not be there", *SMALL, *KEEP)
        self.assertEqual(self.read("run.ck.history"), "a text of mine")

    def test_a_checkpoint_of_the_old_form(self):
        self.train(*KEEP, "--rounds", "2")
        old = bytearray(self.read("run.ck", "rb"))
        old[8:12] = (2).to_bytes(4, "little")
        self.write("run.ck", bytes(old))
        self.write("run.ck.previous", bytes(old))
        self.fail_like(1, "tarry: --resume: .*run.ck: it is of another version of Tarry", *SMALL, *KEEP, "--resume")

    def test_other_options_and_data(self):
        self.train(*KEEP, "--rounds", "5")
        resume = [*SMALL, *KEEP, "--resume"]
        self.fail_with(2, "tarry: --resume: run.ck is of a run with --optimizer adam, not gd",
                       *resume, "--optimizer", "gd")
        self.fail_with(2, "tarry: --resume: run.ck is of a run with --rate 0.01, not 0.02", *resume, "--rate", "0.02")
        self.fail_with(2, "tarry: --resume: run.ck is of a run with --workers 8, not 9", *resume, "--workers", "9")
        self.fail_with(2, "tarry: --rounds: 4 are fewer than the 5 done in run.ck", *resume, "--rounds", "4")
        rows = [f"{1 if i % 3 else -1} 1:{i % 7} 2:{i % 5}\n" for i in range(40)]
        self.write("a.txt", "".join(rows))
        self.write("b.txt", "".join(rows[:-1] + ["1 1:2.5\n"]))
        shutil.copy(os.path.join(self.folder, "a.txt"), os.path.join(self.folder, "c.txt"))
        data = ["train", "--checkpoint", "data.ck", "--rounds", "5", "--data"]
        self.succeed(*data, "a.txt")
        self.fail_with(1, "tarry: --resume: data.ck is of a run on other data", *data, "b.txt", "--resume")
        self.succeed(*data, "c.txt", "--resume")

    def test_nothing_to_resume_and_something_to_lose(self):
        self.fail_with(1, "tarry: --resume: run.ck: there is no checkpoint", *SMALL, *KEEP, "--resume")
        self.fail_with(2, "tarry: --resume: needs --checkpoint, to go on from", *SMALL, "--resume")
        self.train(*KEEP, "--rounds", "2")
        self.fail_with(1, "tarry: --checkpoint: run.ck: there is one already; --resume goes on from it",
                       *SMALL, *KEEP)
        self.fail_with(2, "tarry: --report: run.ck is the file of --checkpoint too", *SMALL, *KEEP, "--report", "run.ck")

    def test_what_can_t_be_written(self):
        self.fail_like(1, "tarry: --checkpoint: .*no/run.ck.history: cannot be written: No such file or directory",
                       *SMALL, "--checkpoint", "no/run.ck")
        self.fail_with(1, "tarry: --checkpoint: /dev/null: this is no file", *SMALL, "--checkpoint", "/dev/null")

    def test_a_full_disk_does_not_end_the_training(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (25000, 25000))
        process = subprocess.Popen([TARRY, *SMALL, *KEEP, "--rounds", "60", "--quiet"], cwd=self.folder,
                                   stderr=subprocess.PIPE, text=True, preexec_fn=limit, env=self.environment())
        _, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 1)
        lines = err.splitlines()
        self.assertRegex(lines[0], r"^tarry: --checkpoint: .*run\.ck\.history: cannot be written: File too large; "
                                   r"the training goes on$")
        self.assertRegex(lines[1], r"^tarry: --checkpoint: .*run\.ck\.history: cannot be written: File too large$")
        self.assertEqual((len(lines), self.files()), (2, ["run.ck", "run.ck.history", "run.ck.previous"]))
        report, _ = self.train(*KEEP, "--rounds", "60", "--resume")
        self.assertEqual(len(report["rounds"]), 60)

    def test_a_training_that_diverges_leaves_what_is_finite(self):
        wild = ["train", "--workers", "2", "--chunks", "2", "--replication", "1", "--model", "least-squares",
                "--rate", "1e8", "--evaluate", "100", "--checkpoint-every", "1", *KEEP]
        done = self.run_tarry(*wild, "--rounds", "100", "--quiet")
        self.assertEqual(done.returncode, 1)
        lines = done.err.splitlines()
        self.assertEqual(lines[0], "tarry: --checkpoint: run.ck is left as it is: parameters are not finite; "
                                   "the training goes on")
        self.assertRegex(lines[1], "^tarry: train: the loss is not finite after round 100: ")
        self.assertEqual(len(lines), 2, done.err)
        for kept in (self.read("run.ck", "rb"), self.read("run.ck.previous", "rb")):
            self.write("run.ck", kept)
            few = self.run_tarry(*wild, "--resume", "--rounds", "1").err
            rounds = re.search("fewer than the ([0-9]+) done", few)[1]
            self.succeed(*wild, "--resume", "--rounds", rounds, "--save", "w.npy")
            parameters = array.array("f", self.read("w.npy", "rb")[128:])
            self.assertTrue(parameters and all(map(math.isfinite, parameters)), parameters)

    def test_one_process_at_a_time(self):
        slow = [*SMALL, "--workers", "2", "--chunks", "2", "--replication", "1", "--checkpoint-every", "1"]
        taken = "another process goes on with this run, or writes its checkpoints here"
        os.symlink("run.ck", os.path.join(self.folder, "link"))
        for how in (["--straggler", "shifted-exp:0.01,0"], ["--processes"]):
            process = self.start(*slow, *how, *KEEP, "--rounds", "1000000")
            self.wait_for(process, "run.ck.previous")
            for more in ([], ["--resume"]):
                self.fail_with(1, f"tarry: --checkpoint: run.ck: {taken}", *slow, *how, *KEEP, *more)
            self.fail_with(1, f"tarry: --checkpoint: link: {taken}", *slow, *how, "--checkpoint", "link", "--resume")
            self.end(process, signal.SIGKILL)
            self.assertEqual(self.read("run.ck.lock"), "")
            # The lock went with the process; one that is turned away leaves none behind.
            process = self.start(*slow, *how, *KEEP, "--rounds", "1000000", "--resume")
            self.assertRegex(process.stderr.readline(), "^training ")
            self.end(process, signal.SIGTERM)
            self.assertNotIn("run.ck.lock", self.files())
            self.fail_like(2, "tarry: .*", *slow, *how, *KEEP, "--rate", "0.5", "--resume")
            self.assertNotIn("run.ck.lock", self.files())
            os.remove(os.path.join(self.folder, "run.ck"))
            os.remove(os.path.join(self.folder, "run.ck.previous"))

    def test_what_is_no_lock_is_left_alone(self):
        self.write("run.ck.lock", "a text of mine")
        self.fail_like(1, r"tarry: --checkpoint: .*run\.ck\.lock: this is in the way: it should be an empty file, "
                          "or not be there", *SMALL, *KEEP)
        self.assertEqual(self.read("run.ck.lock"), "a text of mine")
        self.write("run.ck.lock", "")
        self.train(*KEEP, "--rounds", "1")
        self.assertNotIn("run.ck.lock", self.files())

    def test_a_link_to_what_is_not_there_yet_stays_a_link(self):
        os.mkdir(os.path.join(self.folder, "real"))
        os.symlink("real/ck", os.path.join(self.folder, "run.ck"))
        self.train(*KEEP, "--rounds", "15")
        self.assertTrue(os.path.islink(os.path.join(self.folder, "run.ck")))
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, "real"))), ["ck", "ck.history", "ck.previous"])
        os.remove(os.path.join(self.folder, "real", "ck"))
        self.fail_with(1, "tarry: --checkpoint: run.ck: there is one already; --resume goes on from it", *SMALL, *KEEP)
        done = self.run_tarry(*SMALL, *KEEP, "--rounds", "15", "--resume", "--quiet")
        self.assertEqual(done.returncode, 0, done.err)
        self.assertRegex(done.err, r"^tarry: --resume: .*/ck: cannot be read: No such file or directory; "
                                   r"goes on from .*, after 10 rounds\n$")
