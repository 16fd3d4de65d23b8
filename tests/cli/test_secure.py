# SPDX-License-Identifier: Apache-2.0
"""tarry train, serve and work with --secure: sums are those of a run without it, what makes no sense is refused before
anything starts, and what a worker has agreed to lies beside its credentials."""

import json
import os
import tempfile

from harness import TarryTest

SMALL = ["--samples", "400", "--features", "6", "--workers", "4", "--chunks", "4", "--pieces", "2", "--replication", "2",
         "--rounds", "8"]
SERVE = ["serve", "--secure", "--credentials", "keys/server", "--listen", "127.0.0.1:0", "--workers", "4",
         "--replication", "2", "--rounds", "1"]
SHAPE = ["--secure-data", "rows:2000,features:3"]


class Secure(TarryTest):
    def test_worker_processes_make_the_sums_of_threads(self):
        self.succeed("train", *SMALL, "--quiet", "--report", "open.json")
        for bits in ("32", "64"):
            with tempfile.TemporaryDirectory(dir=self.folder) as place:
                os.environ["TMPDIR"] = place
                self.addCleanup(os.environ.pop, "TMPDIR", None)
                done = self.run_tarry("train", *SMALL, "--processes", "--secure", "--secure-bits", bits, "--report", "r.json")
                self.assertEqual(os.listdir(place), [])  # credentials go with the run
            self.assertEqual(done.returncode, 0, done.err)
            self.assertIn("which protect nobody here", done.err)
            report, other = (json.loads(self.read(name)) for name in ("r.json", "open.json"))
            for mine, plain in zip(report["rounds"], other["rounds"], strict=True):
                self.assertTrue(mine["exact"])
                self.assertAlmostEqual(mine["loss"], plain["loss"], delta=1e-5)
            self.assertAlmostEqual(report["final"]["test_loss"], other["final"]["test_loss"], delta=1e-5)

    def test_a_bound_that_clamps_fails(self):
        """The largest number of the first round is about 41."""
        done = self.run_tarry("train", *SMALL, "--quiet", "--processes", "--secure", "--secure-bound", "0.001")
        self.assertEqual(done.returncode, 1, done.err)
        self.assertRegex(done.err, r"work: secure sums: in round 0, .* % of this worker's numbers are beyond the bound of "
                                   r"0\.001 or not finite, and at most 0\.1 % may be: nothing was sent\. Raise the bound at "
                                   r"the server and at all workers \(--secure-bound\)")
        self.assertRegex(done.err.splitlines()[-1], "^tarry: train: round 0: .*workers of secure sums end before they send")

    def test_how_many_numbers_were_beyond_the_bound_is_told(self):
        done = self.run_tarry("train", *SMALL, "--processes", "--secure", "--report", "r.json")
        self.assertEqual(done.returncode, 0, done.err)
        self.assertIn("beyond --secure-bound 0 % of numbers in the worst round, 0 % on average", done.out)
        report = json.loads(self.read("r.json"))
        self.assertEqual((report["final"]["saturation"], report["rounds"][3]["saturation"]), (0, 0))
        self.succeed("train", *SMALL, "--quiet", "--report", "open.json")
        report = json.loads(self.read("open.json"))
        self.assertEqual((report["final"]["saturation"], report["rounds"][3]["saturation"]), (None, None))

    def test_what_can_t_be_is_refused_at_once(self):
        train = ["train", *SMALL, "--secure", "--processes"]
        for status, words, arguments in [
            (2, "--secure: needs --processes: .*", ["train", *SMALL, "--secure"]),
            (2, "--secure-bits: has no meaning without --secure", ["train", *SMALL, "--secure-bits", "64"]),
            (2, "--secure-colluders: has no meaning without --secure", ["work", "--secure-colluders", "2"]),
            (2, "--secure: needs --credentials: .*", ["work", "--secure"]),
            (2, "--secure: cannot be combined with --batch: .*", [*train, "--batch", "100"]),
            (2, "--secure: cannot be combined with --local-steps: .*", [*train, "--local-steps", "2"]),
            (2, ".*cannot be combined with --(secure|parts).*", [*train, "--parts", "2"]),
            (2, ".*cannot be combined with --(secure|stop).*", [*train, "--stop", "deadline:1"]),
            (2, ".*cannot be combined with --(secure|compress).*", [*train, "--compress", "int8"]),
            (2, ".*cannot be combined with --(secure|keep).*", [*train, "--keep", "all"]),
            (2, "--secure-bits: '48' is not one of 32, 64", [*train, "--secure-bits", "48"]),
            (2, "--secure-chunk-samples: 0 is not in the range .*", [*train, "--secure-chunk-samples", "0"]),
            (2, "--secure-bound: has no meaning without --secure", ["work", "--secure-bound", "2"]),
            (1, r"train: --secure: chunk 0 has 40 samples, and workers want 41 in each at least \(--secure-chunk-samples.*",
             [*train, "--secure-chunk-samples", "41"]),
            (1, r"train: --secure: 1 colluders may hold all but \d+ of 320 samples, and 300 are to be left \(--secure-least\).*",
             [*train, "--secure-least", "300"]),
        ]:
            with self.subTest(arguments):
                done = self.run_tarry(*arguments)
                self.assertEqual((done.returncode, done.out), (status, ""), done.err)
                self.assertRegex(done.err.splitlines()[-1], "^tarry: " + words + "$")

    def test_a_server_that_has_no_samples(self):
        self.succeed("keys", "init", "keys", "--workers", "4")
        for status, words, arguments in [
            (2, "--secure: cannot be combined with --ship-data: .*", [*SERVE, *SHAPE, "--ship-data"]),
            (2, "--secure: cannot be combined with --data: .*", [*SERVE, "--data", "x.csv"]),
            (2, "--secure: cannot be combined with --verify: the server has no samples", [*SERVE, *SHAPE, "--verify"]),
            (2, "--secure-data: cannot be combined with --samples", [*SERVE, *SHAPE, "--samples", "9"]),
            (2, "--secure-data: --model softmax needs classes:C", [*SERVE, *SHAPE, "--model", "softmax"]),
            (2, "--secure-data: --model logistic needs no classes", [*SERVE, "--secure-data", "rows:9,features:3,classes:2"]),
            (2, "--secure-data: has no meaning without --secure", [*[one for one in SERVE if one != "--secure"], *SHAPE]),
            (1, ".*keys/server/roster.txt: is missing; tarry keys roster makes it.*", [*SERVE, *SHAPE]),
        ]:
            with self.subTest(arguments):
                done = self.run_tarry(*arguments)
                self.assertEqual((done.returncode, done.out), (status, ""), done.err)
                self.assertRegex(done.err.splitlines()[-1], "^tarry: " + words + "$")
        for shape in ("rows:9", "features:3", "rows:9,features:3,rows:9", "rows:9,features:3,dense", "x"):
            self.fail_with(2, f"tarry: --secure-data: '{shape}' is not rows:N,features:F[,classes:C][,sparse]", *SERVE,
                           "--secure-data", shape)
        self.fail_like(2, "tarry: --secure-data: 0 is not in the range 1 to 4294967296", *SERVE, "--secure-data",
                       "rows:0,features:3")

    def test_a_worker_needs_an_id_and_the_roster(self):
        self.succeed("keys", "init", "keys", "--workers", "2")
        work = ["work", "--secure", "--connect", "127.0.0.1:1", "--patience", "0"]
        self.fail_like(1, "tarry: work: keys/worker-0/roster.txt: is missing; tarry keys roster makes it.*", *work,
                       "--credentials", "keys/worker-0")
        self.succeed("keys", "roster", "keys")
        self.fail_like(1, "tarry: work: keys/worker.*credentials that name their worker", *work, "--credentials", "keys/worker")
        self.write("keys/worker-0/roster.txt", self.read("keys/roster.txt").replace("number 1", "number 2"))
        self.fail_with(1, "tarry: work: keys/worker-0/roster.txt: not signed by the authority in ca.pem", *work,
                       "--credentials", "keys/worker-0")
