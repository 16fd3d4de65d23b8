# SPDX-License-Identifier: Apache-2.0
"""tarry train --dp: what is told of a run and what is not, what it refuses, and that its ledger has every release,
whenever the process is killed."""

import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import time

from harness import TIMEOUT, TarryTest

DP = "clip:1,noise:1.5,sample:0.04"
SMALL = ["--samples", "2000", "--features", "5", "--workers", "3", "--chunks", "3", "--pieces", "2", "--quiet"]
KILLS = 20
HEAD, ENTRY = 40, 16  # bytes of a ledger


def parent_of(process):
    """The id of a process's parent; None: it is gone."""
    try:
        with open(f"/proc/{process}/stat", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return None


class Dp(TarryTest):
    def train(self, dp, *options):
        self.succeed("train", *SMALL, "--dp", dp, *options, "--report", "r.json")
        return json.loads(self.read("r.json"))

    def accountant(self, rounds, noise="1.5", sample="0.04"):
        self.succeed("privacy", "--noise", noise, "--sample", sample, "--rounds", str(rounds), "--report", "p.json")
        return json.loads(self.read("p.json"))["epsilon"]

    def releases(self, name):
        size = os.path.getsize(os.path.join(self.folder, name))
        return (size - HEAD) // ENTRY

    def test_a_report_has_epsilon_and_nothing_without_noise(self):
        report = self.train(DP + ",budget:3", "--rounds", "30")
        self.assertEqual(report["privacy"], {
            "clip": 1, "noise": 1.5, "sample": 0.04, "delta": 1e-5, "budget": 3, "releases": 30,
            "epsilon": self.accountant(30), "spent": False, "secret": True})
        self.assertEqual(report["config"]["dp"], DP + ",budget:3")
        for of in (*report["rounds"], report["final"], report["initial"]):
            for key in ("loss", "accuracy", "seconds", "signal_seconds", "round_seconds", "verified_error"):
                self.assertIsNone(of.get(key), key)
        for worker in report["workers"]:
            self.assertEqual((worker["seconds"], worker["pace"]), (None, None))
        self.assertGreater(report["final"]["test_accuracy"], 0.6)
        self.assertIsNone(json.loads(self.read("r.json"))["error"])

    def test_what_is_printed_has_epsilon_and_no_times(self):
        done = self.run_tarry("train", *SMALL[:-1], "--dp", DP, "--rounds", "20")
        self.assertEqual(done.returncode, 0, done.err)
        epsilon = format(self.accountant(20), ".5g")
        self.assertIn(f"\n  privacy               epsilon {epsilon} with delta 1e-05, 20 sums released\n", done.out)
        self.assertTrue(done.out.startswith("20 rounds: 20 exact, 0 approximate\n"), done.out)
        for word in ("time", "loss  "):
            self.assertNotIn(word, done.out)
        self.assertIn("round 20/20", done.err)
        self.assertIn("  epsilon <= 0.", done.err)
        self.assertNotIn("loss", done.err)

    def test_runs_without_it_have_none_of_it(self):
        self.succeed("train", *SMALL, "--rounds", "2", "--report", "r.json")
        self.assertIsNone(json.loads(self.read("r.json"))["privacy"])

    def test_a_seed_is_told(self):
        report = self.train(DP + ",seed:4", "--rounds", "3")
        self.assertFalse(report["privacy"]["secret"])
        out = self.succeed("train", *SMALL[:-1], "--dp", DP + ",seed:4", "--rounds", "3")
        self.assertIn("NOT PRIVATE: the draws and the noise are those of a seed", out)

    def test_draws_and_noise_are_the_systems_unless_there_is_a_seed(self):
        def saved(dp):
            self.train(dp, "--rounds", "1", "--save", "w.npy", "--order", "optimal")
            return self.read("w.npy", "rb")

        self.assertNotEqual(saved(DP), saved(DP))
        self.assertEqual(saved(DP + ",seed:4"), saved(DP + ",seed:4"))
        self.assertNotEqual(saved(DP + ",seed:4"), saved(DP + ",seed:5"))

    def test_the_budget_ends_the_run_before_it_is_exceeded(self):
        report = self.train(DP + ",budget:0.5", "--rounds", "500", "--save", "w.npy", "--checkpoint", "b.ck")
        of = report["privacy"]
        self.assertTrue(of["spent"])
        self.assertLessEqual(of["epsilon"], 0.5)
        self.assertGreater(self.accountant(of["releases"] + 1), 0.5)
        self.assertEqual(len(report["rounds"]), of["releases"])
        self.assertIsNone(report["error"])
        self.assertIn("w.npy", self.files())
        again = self.train(DP + ",budget:0.5", "--rounds", "500", "--checkpoint", "b.ck", "--resume")
        self.assertEqual(again["privacy"], of)  # nothing is left
        one = format(self.accountant(1), ".4g")
        self.fail_with(2, f"tarry: --dp: budget:0.1 is less than the epsilon of one round, {one}", "train", *SMALL,
                       "--dp", DP + ",budget:0.1")

    def test_what_breaks_the_argument_is_refused(self):
        for flags, why in (
            ("--sum everywhere", "--dp: cannot be combined with --sum everywhere"),
            ("--compress int8", "--dp: cannot be combined with --compress int8"),
            ("--compress bf16", "--dp: cannot be combined with --compress bf16"),
            ("--parts 2", "--dp: cannot be combined with --parts 2"),
            ("--stop deadline:1", "--dp: cannot be combined with --stop deadline:1"),
            ("--stop error:0.5", "--dp: cannot be combined with --stop error:0.5"),
            ("--stop workers:2", "--dp: cannot be combined with --stop workers:2"),
            ("--fill scale", "--dp: cannot be combined with --fill scale"),
            ("--reproducible", "--dp: cannot be combined with --reproducible"),
            ("--verify", "--dp: cannot be combined with --verify: errors are told of sums without noise"),
            ("--batch 100", "--dp: cannot be combined with --batch: sample:Q says how many samples a round has"),
            ("--local-steps 2", "--dp: cannot be combined with --local-steps: a chunk's change is bounded by no "
                                "example"),
            ("--engine mpi", "--dp: cannot be combined with --engine: other ranks would have to be told which samples "
                             "are drawn"),
        ):
            with self.subTest(flags=flags):
                self.fail_with(2, "tarry: " + why, "train", *SMALL, "--dp", DP, *flags.split())
        self.fail_with(2, "tarry: --dp: cannot be combined with --insecure: workers are told over the network which samples "
                          "are drawn", "serve", *SMALL, "--dp", DP, "--insecure")
        self.fail_with(2, "tarry: --dp: delta:0.01 is not below one in the 1600 samples: say a smaller one", "train",
                       *SMALL, "--dp", DP + ",delta:0.01")
        self.fail_with(2, "tarry: --dp: 'clip:1' has no noise", "train", *SMALL, "--dp", "clip:1")

    def test_deaths_and_stragglers_change_nothing(self):
        report = self.train(DP, "--rounds", "10", "--straggler", "dead:1+exp:0.001")
        self.assertTrue(all(each["exact"] for each in report["rounds"]))
        self.assertEqual(report["privacy"]["releases"], 10)
        done = self.run_tarry("train", *SMALL, "--dp", DP, "--straggler", "dead:3", "--report", "r.json")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(json.loads(self.read("r.json"))["privacy"]["releases"], 0)

    # ---- workers that are processes ----

    def test_processes_draw_the_same_samples_and_tell_as_little(self):
        dp = DP + ",seed:4"
        self.train(dp, "--rounds", "20", "--save", "threads.npy")
        report = self.train(dp, "--rounds", "20", "--save", "processes.npy", "--processes")
        found = [struct.unpack("<5f", self.read(f"{name}.npy", "rb")[-20:]) for name in ("threads", "processes")]
        for one, other in zip(*found):
            self.assertAlmostEqual(one, other, delta=1e-3)  # noise lies on a grid
        self.assertGreater(max(map(abs, found[0])), 0.1)
        self.assertEqual(report["privacy"]["releases"], 20)
        self.assertEqual(report["privacy"]["epsilon"], self.accountant(20))
        for of in (*report["rounds"], report["final"], report["initial"]):
            for key in ("loss", "accuracy", "seconds", "signal_seconds", "round_seconds"):
                self.assertIsNone(of.get(key), key)
        for worker in report["workers"]:
            self.assertEqual((worker["seconds"], worker["pace"]), (None, None))

    def test_no_secret_of_theirs_is_where_others_look(self):
        """The key comes by an inherited descriptor: it is on no command line, and in no environment and file."""
        before = self.files()
        process = self.start("train", *SMALL, "--dp", DP, "--rounds", "1000000", "--processes", "--checkpoint", "a.ck")
        try:
            worker = self.child_of(process)
            with open(f"/proc/{worker}/cmdline", "rb") as file:
                self.assertIn(b"--dp-key\0/dev/stdin\0", file.read())
            self.assertEqual(os.readlink(f"/proc/{worker}/fd/0"), "/memfd:tarry-draws (deleted)")
            with open(f"/proc/{worker}/fd/0", "rb") as file:
                key = file.read()
            self.assertEqual(len(key), 32)
            for name in ("cmdline", "environ"):
                with open(f"/proc/{worker}/{name}", "rb") as file:
                    said = file.read()
                self.assertNotIn(key, said)
                self.assertNotIn(key.hex().encode(), said)
            for name in set(self.files()) - set(before):
                self.assertNotIn(key, self.read(name, "rb"))
        finally:
            process.kill()
            process.communicate()

    def test_a_process_that_is_killed_costs_no_release(self):
        process = self.start("train", *SMALL, "--dp", DP, "--rounds", "400", "--processes", "--checkpoint", "a.ck",
                             "--report", "r.json", "--straggler", "shifted-exp:0.002,0.001")
        os.kill(self.child_of(process), signal.SIGKILL)
        self.assertEqual((process.communicate(timeout=TIMEOUT)[1], process.returncode), ("", 0))
        report = json.loads(self.read("r.json"))
        self.assertEqual(report["network"]["events"]["restarted"], 1)
        self.assertEqual((report["privacy"]["releases"], self.releases("a.ck.privacy")), (400, 400))

    def child_of(self, process):
        """A worker that is there and has begun, since the ledger has a release."""
        deadline = time.monotonic() + 60
        ledger = os.path.join(self.folder, "a.ck.privacy")
        while time.monotonic() < deadline and not (os.path.exists(ledger) and self.releases("a.ck.privacy") > 0):
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        found = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if parent_of(pid) == process.pid]
        self.assertEqual(len(found), 3)
        return found[0]

    def test_a_worker_with_a_key_takes_part_in_nothing_else(self):
        self.write("key", bytes(range(32)))
        self.write("short", bytes(31))
        self.fail_with(1, "tarry: work: --dp-key: short: a key has 32 bytes", "work", "--insecure", "--dp-key", "short")
        self.fail_with(1, "tarry: work: --dp-key: none: No such file or directory", "work", "--insecure", "--dp-key",
                       "none")
        self.fail_with(2, "tarry: --dp-key: cannot be combined with --secure", "work", "--secure", "--credentials", "x",
                       "--dp-key", "key")
        server = self.start("serve", "--insecure", "--listen", "unix:s", *SMALL[:-1], "--wait", "60")
        try:
            self.fail_with(1, "tarry: work: --dp-key: the server's job says nothing of differential privacy", "work",
                           "--insecure", "--connect", "unix:s", "--dp-key", "key", "--quiet", "--patience", "60")
        finally:
            server.kill()
            server.communicate()

    def test_workers_of_a_server_are_told_the_key(self):
        """Over a Unix socket, to which nobody but this user can connect; one that brings a key has another."""
        self.write("key", bytes(range(32)))
        server = self.start("serve", "--listen", "unix:s", *SMALL[:-1], "--wait", "60", "--dp", DP, "--rounds", "20",
                            "--report", "r.json")
        try:
            self.fail_with(1, "tarry: work: --dp-key: the server tells its workers the key of its draws", "work",
                           "--insecure", "--connect", "unix:s", "--dp-key", "key", "--quiet", "--patience", "60")
            workers = [self.start("work", "--connect", "unix:s", "--quiet") for _ in range(3)]
            for process in *workers, server:
                said = process.communicate(timeout=TIMEOUT)
                self.assertEqual(process.returncode, 0, said)
        finally:
            server.kill()
            server.communicate()
        self.assertEqual(json.loads(self.read("r.json"))["privacy"]["epsilon"], self.accountant(20))

    def test_a_run_goes_on_with_its_ledger_and_not_without(self):
        self.train(DP, "--rounds", "5", "--checkpoint", "a.ck")
        self.assertEqual(self.releases("a.ck.privacy"), 5)
        self.assertEqual(self.train(DP, "--rounds", "8", "--checkpoint", "a.ck", "--resume")["privacy"]["releases"], 8)
        self.fail_with(2, f"tarry: --resume: a.ck is of a run with --dp {DP}, not {DP},budget:9", "train", *SMALL,
                       "--dp", DP + ",budget:9", "--rounds", "9", "--checkpoint", "a.ck", "--resume")
        self.fail_with(2, f"tarry: --resume: a.ck is of a run with --dp {DP}, not without it", "train", *SMALL,
                       "--rounds", "9", "--checkpoint", "a.ck", "--resume")
        os.rename(os.path.join(self.folder, "a.ck.privacy"), os.path.join(self.folder, "kept"))
        again = ["train", *SMALL, "--dp", DP, "--rounds", "9", "--checkpoint", "a.ck"]
        self.fail_like(1, r"tarry: --checkpoint: .*a\.ck\.privacy: No such file or directory", *again, "--resume")
        os.rename(os.path.join(self.folder, "kept"), os.path.join(self.folder, "a.ck.privacy"))
        for name in ("a.ck", "a.ck.previous"):
            os.remove(os.path.join(self.folder, name))
        self.fail_like(1, r"tarry: --checkpoint: .*a\.ck\.privacy: an earlier run has released sums of its data: .*",
                       *again)

    def test_a_run_does_not_go_on_with_a_ledger_that_was_cut_off(self):
        """Wherever: whole entries or a part of one, from the end to the very first release."""
        self.train(DP, "--rounds", "12", "--checkpoint", "a.ck")
        whole = self.read("a.ck.privacy", "rb")
        options = [*SMALL, "--dp", DP, "--rounds", "14", "--checkpoint", "a.ck", "--resume"]
        for cut in (1, 7, ENTRY, ENTRY + 7, 6 * ENTRY, 12 * ENTRY):
            left = (len(whole) - HEAD - cut) // ENTRY
            self.write("a.ck.privacy", whole[:-cut])
            for command in (["train"], ["serve", "--listen", "unix:s", "--wait", "60"]):
                with self.subTest(cut=cut, command=command[0]):
                    self.fail_like(1, rf"tarry: --resume: .*a\.ck\.privacy: the ledger counts {left} releases, but the "
                                      r"checkpoint was written after 12 rounds and 12 releases\. Restore the ledger .*",
                                   *command, *options)
                    self.assertEqual(self.read("a.ck.privacy", "rb"), whole[:-cut])
        self.write("a.ck.privacy", whole)
        self.assertEqual(self.train(DP, *options[len(SMALL) + 2:])["privacy"]["releases"], 14)

    def test_releases_of_rounds_that_were_repeated_are_not_lost(self):
        """Back to an earlier checkpoint there are more releases than rounds: one for each round is not enough."""
        run = ("--checkpoint", "a.ck", "--rounds")
        self.train(DP, *run, "8")
        kept = {name: self.read(name, "rb") for name in ("a.ck", "a.ck.history")}
        self.train(DP, *run, "12", "--resume")
        for name, content in kept.items():
            self.write(name, content)
        self.assertEqual(self.train(DP, *run, "10", "--resume")["privacy"]["releases"], 14)
        self.write("a.ck.privacy", self.read("a.ck.privacy", "rb")[:HEAD + 12 * ENTRY])
        self.fail_like(1, r"tarry: --resume: .*: the ledger counts 12 releases, but the checkpoint was written after "
                          r"10 rounds and 14 releases\. .*", "train", *SMALL, "--dp", DP, *run, "12", "--resume")

    def test_the_ledger_of_another_run_is_refused(self):
        for name, rounds in (("a.ck", "4"), ("b.ck", "9")):
            self.train(DP, "--rounds", rounds, "--checkpoint", name)
        self.write("a.ck.privacy", self.read("b.ck.privacy", "rb"))
        self.fail_like(1, r"tarry: --resume: .*a\.ck\.privacy: the ledger, with 9 releases, is of another run than the "
                          r"checkpoint, .* 4 rounds and 4 releases\. .*", "train", *SMALL, "--dp", DP, "--rounds", "12",
                       "--checkpoint", "a.ck", "--resume")

    def test_files_that_are_created_are_in_their_folder_after_a_crash(self):
        """Before the first release is counted the folder is synced, as strace sees it."""
        strace = shutil.which("strace")
        if strace is None:
            self.skipTest("strace is not installed")
        self.write("trace", "")
        ran = subprocess.run([strace, "-f", "-y", "-o", "trace", "-e", "trace=openat,fsync,fdatasync", self.program,
                              "train",
                              *SMALL, "--dp", DP, "--rounds", "2", "--checkpoint", "a.ck"], cwd=self.folder,
                             env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0"},  # which can't be traced
                             capture_output=True, text=True, timeout=TIMEOUT, check=False)
        if ran.returncode != 0 and "ptrace" in ran.stderr:
            self.skipTest("processes can't be traced here")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        lines = self.read("trace").splitlines()
        created = next(i for i, line in enumerate(lines) if "a.ck.privacy" in line and "O_CREAT" in line)
        folder = next(i for i, line in enumerate(lines)
                      if i > created and re.search(rf"fsync\(\d+<{re.escape(os.path.realpath(self.folder))}>\)", line))
        counted = next(i for i, line in enumerate(lines) if "fdatasync" in line and "a.ck.privacy" in line)
        self.assertLess(folder, counted)

    def test_the_ledger_has_every_release_whenever_the_run_is_killed(self):
        draw = random.Random(17)
        run = ["train", *SMALL, "--dp", DP, "--rounds", "100000", "--checkpoint", "k.ck", "--checkpoint-every", "1"]
        before = 0
        for kill in range(1, KILLS + 1):
            process = self.start(*run, *(["--resume"] if kill > 1 else []))
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and process.poll() is None and not (
                    os.path.exists(os.path.join(self.folder, "k.ck")) and self.releases("k.ck.privacy") > before):
                time.sleep(0.002)
            time.sleep(draw.random() * 0.05)
            process.send_signal(signal.SIGKILL)
            self.assertEqual((process.wait(), process.communicate()[1]), (-signal.SIGKILL, ""))
            counted = self.releases("k.ck.privacy")
            done = self.read("k.ck.history").count("\n")
            self.assertGreater(counted, before)
            self.assertGreaterEqual(counted, done)
            self.assertLessEqual(counted, done + 2 * kill)  # a round that was released, and one not yet in a checkpoint
            before = counted
        last = json.loads(self.read_after_resume(run, done + 5))
        self.assertGreaterEqual(last["privacy"]["releases"], before + 1)
        self.assertEqual(last["privacy"]["releases"], self.releases("k.ck.privacy"))
        self.assertAlmostEqual(last["privacy"]["epsilon"], self.accountant(last["privacy"]["releases"]))

    def read_after_resume(self, run, rounds):
        flags = list(run)
        flags[flags.index("--rounds") + 1] = str(rounds)
        self.succeed(*flags, "--resume", "--report", "r.json")
        return self.read("r.json")
