# SPDX-License-Identifier: Apache-2.0
"""--sum everywhere with workers as threads and as processes: the same training as with the sum at the server, but the
workers step."""

import json
import os

from harness import TarryTest

RUN = ["train", "--samples", "300", "--features", "6", "--rounds", "6", "--workers", "5", "--chunks", "6", "--quiet"]
EVERYWHERE = ["--sum", "everywhere"]
# Each with what else a training may have.
VARIANTS = {
    "plain": "",
    "adam": "--optimizer adam",
    "momentum, a batch": "--optimizer momentum --batch 60",
    "two parts": "--parts 2 --optimizer nesterov",
    "a running sum": "--keep credited",
    "a static order": "--order optimal --model least-squares --rate 0.05",
    "softmax": "--model softmax --classes 3",
    "another seed": "--seed 7",
}


class Everywhere(TarryTest):
    def train(self, *options):
        """The report of a training, and the parameters that it saved."""
        self.succeed(*RUN, *options, "--report", "report.json", "--save", "w.npy")
        return json.loads(self.read("report.json")), self.read("w.npy", "rb")

    def test_the_losses_are_those_of_the_server(self):
        for name, flags in VARIANTS.items():
            with self.subTest(variant=name):
                server, _ = self.train(*flags.split())
                everywhere, _ = self.train(*flags.split(), *EVERYWHERE)
                for one, other in zip(server["rounds"], everywhere["rounds"], strict=True):
                    self.assertAlmostEqual(one["loss"], other["loss"], delta=1e-6)
                self.assertAlmostEqual(server["final"]["loss"], everywhere["final"]["loss"], delta=1e-6)

    def test_rounds_tell_of_the_sum(self):
        report, _ = self.train(*EVERYWHERE)
        for number, each in enumerate(report["rounds"], 1):
            told = each["sum"]
            self.assertEqual((told["step"], told["term"]), (number, 1))
            self.assertIn(told["voters"], range(2, 6))  # who is asked when is left to time
            self.assertEqual(len(told["digest"]), 16)
            self.assertTrue(each["exact"])
            self.assertEqual(each["upload_bytes"], 0)
        report, _ = self.train()
        self.assertEqual({str(each["sum"]) for each in report["rounds"]}, {"None"})

    def test_many_threads_share_memory(self):
        """Two mappings for each pair of 200 workers would be more than a process may have (vm.max_map_count)."""
        report, _ = self.train(*EVERYWHERE, "--workers", "200", "--chunks", "200", "--rounds", "2")
        self.assertEqual([each["exact"] for each in report["rounds"]], [True, True])

    def test_sums_are_verified(self):
        report, _ = self.train(*EVERYWHERE, "--verify", "--parts", "2")
        for each in report["rounds"]:
            self.assertLess(each["verified_error"], 1e-4)

    def test_the_plan_changes_between_rounds(self):
        flags = ("--workers 6 --chunks 12 --replication 2 --design fractional --adapt 1,0.2 --rounds 12 --verify "
                 "--straggler slow:2,8+shifted-exp:0.002,0").split()
        report, _ = self.train(*flags, *EVERYWHERE)
        self.assertGreater(sum(each[what] for each in report["rounds"] for what in ("moved", "split", "merged")), 0)
        for each in report["rounds"]:
            self.assertLess(each["verified_error"], 1e-4)

    def test_the_plan_changes_while_processes_have_the_state(self):
        """A server of another plan knows nobody who has the state before a round has begun, so it is asked for earlier."""
        report, _ = self.train(*EVERYWHERE, "--processes", "--workers", "4", "--samples", "2000", "--features", "100",
                               "--rounds", "9", "--adapt", "3", "--evaluate", "1")
        self.assertEqual(len(report["rounds"]), 9)
        for each in report["rounds"]:
            self.assertIsNotNone(each["loss"])
        self.assertLess(report["final"]["loss"], 0.5)

    def test_a_reproducible_run_repeats_to_the_bit(self):
        flags = ["--reproducible", "--optimizer", "adam", *EVERYWHERE]
        self.assertEqual(self.train(*flags)[1], self.train(*flags)[1])

    def test_slow_and_dead_workers(self):
        for straggler in "slow:2,10", "dead:1", "dead:1+slow:1,5":
            with self.subTest(straggler=straggler):
                report, _ = self.train(*EVERYWHERE, "--verify", "--straggler", straggler)
                for each in report["rounds"]:
                    self.assertTrue(each["exact"])
                    self.assertLess(each["verified_error"], 1e-4)

    def test_a_run_goes_on_from_its_checkpoint_to_the_bit(self):
        flags = ["--reproducible", "--optimizer", "adam", *EVERYWHERE]
        _, whole = self.train(*flags)
        for where in [], ["--processes"]:
            with self.subTest(where=where):
                file = f"c{len(where)}"
                self.succeed(*RUN, *flags, *where, "--rounds", "3", "--checkpoint", file, "--checkpoint-every", "1")
                self.assertIn(f"{file}.sums", self.files())
                report, resumed = self.train(*flags, *where, "--checkpoint", file, "--resume")
                self.assertEqual(resumed, whole)
                self.assertEqual([each["sum"]["term"] for each in report["rounds"]], [1, 1, 1, 2, 2, 2])
                self.assertEqual([each["sum"]["step"] for each in report["rounds"]], [1, 2, 3, 4, 5, 6])

    def test_a_log_that_is_not_the_checkpoints_is_refused(self):
        flags = [*EVERYWHERE, "--checkpoint", "c"]
        self.succeed(*RUN, *flags)
        self.write("c.sums", self.read("c.sums", "rb")[:16 + 32 * 3])
        self.fail_like(1, "tarry: --checkpoint: .*c.sums: it has not all steps of the checkpoint", *RUN, *flags, "--resume",
                       "--rounds", "8")

    def test_a_checkpoint_is_of_one_way(self):
        self.succeed(*RUN, "--checkpoint", "c")
        self.fail_with(2, "tarry: --resume: c is of a run with --sum server, not everywhere", *RUN, *EVERYWHERE,
                       "--checkpoint", "c", "--resume")

    def test_processes_train_the_same(self):
        for flags in "--optimizer adam --parts 2", "--optimizer momentum --batch 60 --evaluate 3":
            with self.subTest(flags=flags):
                server, _ = self.train(*flags.split())
                found, _ = self.train(*flags.split(), *EVERYWHERE, "--processes", "--verify", "--checkpoint", "c")
                for one, other in zip(server["rounds"], found["rounds"], strict=True):
                    if one["loss"] is not None:
                        self.assertAlmostEqual(one["loss"], other["loss"], delta=1e-6)
                    self.assertLess(other["verified_error"], 1e-4)
                self.assertAlmostEqual(server["final"]["loss"], found["final"]["loss"], delta=1e-6)
                for name in self.files():
                    if name.startswith("c"):
                        os.remove(os.path.join(self.folder, name))

    def test_processes_repeat_what_threads_do_to_the_bit(self):
        flags = ["--reproducible", "--optimizer", "adam", *EVERYWHERE]
        self.assertEqual(self.train(*flags)[1], self.train(*flags, "--processes")[1])

    def test_numbers_in_fewer_bytes(self):
        """Rounded on their way, by chances that have a seed: the same by threads and processes, and over a resume."""
        flags = ["--features", "3000", "--reproducible", "--verify", *EVERYWHERE]
        plain, _ = self.train(*flags)
        for form in "bf16", "int8":
            with self.subTest(form=form):
                report, parameters = self.train(*flags, "--compress", form)
                for before, after in zip(plain["rounds"], report["rounds"], strict=True):
                    self.assertTrue(after["exact"])
                    self.assertLess(before["verified_error"], 1e-5)
                    self.assertTrue(1e-4 < after["verified_error"] < 3e-2, after["verified_error"])
                self.assertAlmostEqual(plain["final"]["loss"] / report["final"]["loss"], 1, delta=1e-3)
                self.assertEqual(self.train(*flags, "--compress", form, "--processes")[1], parameters)
                self.assertNotEqual(self.train(*flags, "--compress", form, "--seed", "5")[1], parameters)
                more = [*flags, "--compress", form, "--checkpoint", f"c-{form}"]
                self.succeed(*RUN, *more, "--rounds", "3", "--checkpoint-every", "1")
                self.assertEqual(self.train(*more, "--resume")[1], parameters)

    def test_sums_that_come_back_in_fewer_bytes(self):
        """All have the sum as it was sent, who summed it included: one digest, or the rounds would fail. Likewise repeated."""
        flags = ["--features", "3000", "--reproducible", "--verify", *EVERYWHERE]
        plain, _ = self.train(*flags)
        for forms, most in ((["bf16"], 5e-3), (["int8"], 2e-2), (["int8", "int8"], 3e-2)):
            with self.subTest(forms=forms):
                form = ["--compress-down", forms[0], *(["--compress", *forms[1:]] if forms[1:] else [])]
                report, parameters = self.train(*flags, *form)
                self.assertEqual(report["config"]["compress-down"], forms[0])
                for after in report["rounds"]:
                    self.assertTrue(after["exact"])
                    self.assertTrue(1e-4 < after["verified_error"] < most, after["verified_error"])
                self.assertAlmostEqual(plain["final"]["loss"] / report["final"]["loss"], 1, delta=1e-3)
                self.assertEqual(self.train(*flags, *form, "--processes")[1], parameters)
                if forms[0] == "int8":
                    self.assertNotEqual(self.train(*flags, *form, "--seed", "5")[1], parameters)
                more = [*flags, *form, "--checkpoint", "d-" + "-".join(forms)]
                self.succeed(*RUN, *more, "--rounds", "3", "--checkpoint-every", "1")
                self.assertEqual(self.train(*more, "--resume")[1], parameters)
        self.fail_with(2, "tarry: --compress-down: int8 cannot be combined with --parts 2: among workers a sum of several parts "
                          "comes back as float32", *RUN, *EVERYWHERE, "--compress-down", "int8", "--parts", "2")

    def test_the_scores_are_all_that_the_server_looks_at(self):
        """Between them no state comes to it; the last step's is there in the end."""
        often, parameters = self.train("--reproducible", *EVERYWHERE, "--processes")
        once, same = self.train("--reproducible", *EVERYWHERE, "--processes", "--evaluate", "100")
        self.assertEqual(same, parameters)
        self.assertEqual(once["final"]["loss"], often["final"]["loss"])
        self.assertEqual([each["loss"] is None for each in once["rounds"]], 5 * [True] + [False])
