# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, SIGTERM and SIGHUP: results of the rounds done are written; a second signal ends at once."""

import fcntl
import json
import os
import signal
import subprocess
import time

from harness import TARRY, TIMEOUT, TarryTest

SLOW = ["train", "--samples", "400", "--features", "5", "--rounds", "100000", "--straggler",
        "shifted-exp:0.01,0.01"]
EACH_ROUND = ["--checkpoint", "ck", "--checkpoint-every", "1"]


class Signals(TarryTest):
    def wait_for_rounds(self, process):
        """Until the first line of progress, which stands at the start of the rounds."""
        self.assertRegex(process.stderr.readline(), "^training ")
        time.sleep(0.3)

    def wait_for_checkpoint(self, process):
        """Until a round is over, of a run that writes one before its first and after each."""
        end = time.monotonic() + TIMEOUT
        while "ck.previous" not in self.files() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        self.assertIn("ck.previous", self.files())

    def interrupt(self, number):
        process = self.start(*SLOW, "--report", "report.json", "--save", "w.npy", *EACH_ROUND)
        self.wait_for_checkpoint(process)
        process.send_signal(number)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 1)
        line = err.splitlines()[-1]
        self.assertRegex(line, r"^tarry: train: interrupted after \d+ of 100000 rounds$")
        report = json.loads(self.read("report.json"))
        self.assertIs(report["interrupted"], True)
        self.assertEqual("tarry: train: " + report["error"], line)
        self.assertEqual(line.split()[4], str(len(report["rounds"])))
        self.assertGreater(len(report["rounds"]), 0)
        self.assertEqual(report["final"]["loss"], report["rounds"][-1]["loss"])
        self.assertEqual(self.files(), ["ck", "ck.history", "ck.previous", "report.json", "w.npy"])
        self.assertRegex(out, r"^\d+ rounds in ")

    def unread(self, *options):
        """A run whose report is longer than a pipe that nobody reads, and that pipe."""
        name = os.path.join(self.folder, "report.json")
        os.mkfifo(name)
        pipe = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, pipe)
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)
        return self.start(*SLOW, "--report", "report.json", *options), pipe

    def test_ctrl_c(self):
        self.interrupt(signal.SIGINT)

    def test_terminate(self):
        self.interrupt(signal.SIGTERM)

    def test_a_terminal_that_closes(self):
        self.interrupt(signal.SIGHUP)

    def test_an_ignored_signal_stays_ignored(self):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            process = self.start(*SLOW)
        finally:
            signal.signal(signal.SIGHUP, before)
        self.wait_for_rounds(process)
        process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 1)

    def test_who_read_the_messages_is_gone(self):
        """As where 'tarry train 2>&1 | tee log' is interrupted: tee ends by the same Ctrl-C."""
        process = self.start(*SLOW, "--report", "report.json", *EACH_ROUND)
        self.wait_for_checkpoint(process)
        process.stderr.close()
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(TIMEOUT), 1)
        report = json.loads(self.read("report.json"))
        self.assertIs(report["interrupted"], True)
        process.stdout.close()
        self.succeed(*SLOW, "--rounds", str(len(report["rounds"]) + 1), "--checkpoint", "ck", "--resume", "--quiet")

    def test_files_that_may_not_be_so_large(self):
        """Its checkpoint and report fail, as they would on a full disk, and the parameters are written."""
        run = subprocess.run(["sh", "-c", 'ulimit -f 8 && exec "$@"', "sh", TARRY, "train", "--samples", "100",
                              "--features", "5", "--rounds", "50", "--checkpoint", "ck", "--checkpoint-every", "1",
                              "--report", "report.json", "--save", "w.npy"],
                             cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(run.returncode, 1, run.stderr)
        errors = [line for line in run.stderr.splitlines() if line.startswith("tarry: ")]
        self.assertEqual(errors, ["tarry: --checkpoint: ck.history: cannot be written: File too large; the training goes on",
                                  "tarry: --checkpoint: ck.history: cannot be written: File too large",
                                  "tarry: report.json: cannot be written: File too large"])
        self.assertEqual(self.files(), ["ck", "ck.history", "ck.previous", "w.npy"])

    def test_in_the_middle_of_a_long_round(self):
        process = self.start("train", "--samples", "400", "--straggler", "shifted-exp:1000,1",
                             "--report", "report.json")
        self.wait_for_rounds(process)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 1)
        self.assertLess(time.monotonic() - start, 60)
        self.assertEqual(json.loads(self.read("report.json"))["rounds"], [])

    def test_in_the_middle_of_a_long_evaluation(self):
        """The loss of all samples takes minutes here, and nobody waits for it."""
        process = self.start("train", "--model", "mlp", "--hidden", "4000,4000", "--samples", "200000", "--features", "20",
                             "--batch", "64", "--workers", "2", "--chunks", "2", "--checkpoint", "ck", "--report", "report.json")
        self.wait_for_rounds(process)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=TIMEOUT)[1]
        self.assertEqual(process.returncode, 1, errors)
        self.assertRegex(errors, r"tarry: train: interrupted after \d+ of 100 rounds\n")
        self.assertLess(time.monotonic() - start, 60)
        self.assertTrue(json.loads(self.read("report.json"))["interrupted"])

    def test_a_second_signal_ends_at_once(self):
        process, _ = self.unread("--save", "w.npy")
        self.wait_for_rounds(process)
        process.send_signal(signal.SIGINT)
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertLess(time.monotonic() - start, 15)
        self.assertEqual(self.files(), ["report.json"])

    def test_what_comes_at_once_is_one_signal(self):
        process, pipe = self.unread()
        self.wait_for_rounds(process)
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):  # it sees two when it goes on
            process.send_signal(number)
        time.sleep(1)
        self.assertIsNone(process.poll())
        os.set_blocking(pipe, True)
        report = b"".join(iter(lambda: os.read(pipe, 4096), b""))
        err = process.communicate(timeout=TIMEOUT)[1]
        self.assertEqual(process.returncode, 1)
        self.assertIn("tarry: train: interrupted after ", err)
        self.assertTrue(json.loads(report)["interrupted"])

    def test_a_killed_run_leaves_nothing(self):
        process = self.start(*SLOW, "--report", "report.json")
        self.wait_for_rounds(process)
        process.kill()
        process.communicate(timeout=TIMEOUT)
        self.assertEqual(self.files(), [])


class Unread(TarryTest):
    """Writes that the system answers with a signal: to a pipe that nobody reads, and to a file at its largest size."""

    TRAIN = ["train", "--samples", "100", "--rounds", "3"]
    # Nobody is there, and nobody comes.
    SERVE = ["serve", "--listen", "unix:socket", "--samples", "100", "--wait", "0", "--patience", "0", "--quiet"]
    WORK = ["work", "--connect", "unix:none", "--patience", "0.2", "--quiet"]

    def run_unread(self, stream, *arguments):
        """Runs with a pipe for this stream whose reader is gone; gives back the status and what the other one got."""
        read, write = os.pipe()
        os.close(read)
        try:
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: write}
            done = subprocess.run([TARRY, *arguments], cwd=self.folder, env=self.environment(), text=True,
                                  stdin=subprocess.DEVNULL, timeout=TIMEOUT, **streams)
        finally:
            os.close(write)
        return done.returncode, done.stderr if stream == "stdout" else done.stdout

    def test_what_trains_ends_with_a_failure(self):
        status, err = self.run_unread("stdout", *self.TRAIN, "--report", "report.json")
        self.assertEqual(status, 1)
        self.assertEqual(err.splitlines()[-1], "tarry: standard output: Broken pipe")
        self.assertEqual(json.loads(self.read("report.json"))["final"]["rounds"], 3)

    def test_the_last_event_of_a_log(self):
        for command in (self.SERVE, self.WORK):
            self.assertEqual(self.run_unread("stderr", *command, "--log", "-"), (1, ""), command)

    def test_the_last_event_of_a_log_that_may_not_grow(self):
        for command in (self.SERVE, self.WORK):
            run = subprocess.run(["sh", "-c", 'ulimit -f 0 && exec "$@"', "sh", TARRY, *command, "--log", "log"],
                                 cwd=self.folder, env=self.environment(), capture_output=True, text=True,
                                 timeout=TIMEOUT)
            self.assertEqual(run.returncode, 1, run.stderr)
            errors = [line for line in run.stderr.splitlines() if line.startswith("tarry: ")]
            self.assertEqual(errors[-1], "tarry: --log: log could not be written to its end")

    def test_what_only_prints_ends_without_a_word(self):
        """As other tools do: tarry plan --show | head."""
        for command in (["plan"], ["simulate", "--trials", "2"], ["train", "--help"], ["--help"]):
            status, err = self.run_unread("stdout", *command)
            self.assertEqual(status, -signal.SIGPIPE, command)
            self.assertNotIn("tarry: ", err, command)
