# SPDX-License-Identifier: Apache-2.0
"""Exit status 2 and one clear line for whatever is wrong on the command line; --help everywhere."""

import subprocess

from harness import TARRY, TarryTest


class Commands(TarryTest):
    def test_help_names_every_command(self):
        text = self.succeed("--help")
        for command in ("train", "plan", "simulate", "keys"):
            self.assertIn(f"tarry {command} ", text)

    def test_help_fits_80_columns(self):
        for command in ([], ["train"], ["plan"], ["plan", "--advise"], ["simulate"], ["keys"], ["keys", "init"]):
            for line in self.succeed(*command, "--help").split("\n"):
                self.assertLessEqual(len(line), 80)
                self.assertEqual(line, line.rstrip())

    def test_help_and_version_of_each_command(self):
        for command in ("train", "plan", "simulate"):
            with self.subTest(command=command):
                self.assertIn("--workers=M", self.succeed(command, "--help"))
                self.assertTrue(
                    self.succeed(command, "--help").startswith(f"Usage: tarry {command} ")
                )
                self.assertRegex(self.succeed(command, "--version"), r"^tarry \d+\.\d+\.\d+\n$")
        self.assertRegex(self.succeed("--version"), r"^tarry \d+\.\d+\.\d+\n$")

    def test_unknown_command(self):
        self.fail_with(2, "tarry: no command given (see tarry --help)")
        self.fail_with(2, "tarry: trian: unknown command (did you mean train?)", "trian")
        self.fail_with(2, "tarry: frobnicate: unknown command (see tarry --help)", "frobnicate")
        self.fail_with(2, "tarry: --frob: unknown option (see tarry --help)", "--frob")

    def test_a_full_disk_is_noticed(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([TARRY, "plan"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "tarry: standard output: No space left on device\n")


class Flags(TarryTest):
    """(arguments of train, the line after 'tarry: ')"""

    CASES = [
        ("--wrkers 3", "--wrkers: unknown option (did you mean --workers?)"),
        ("--wrkers=3", "--wrkers: unknown option (did you mean --workers?)"),
        ("--frobnicate", "--frobnicate: unknown option (see tarry train --help)"),
        ("--workers", "--workers: needs a value (M)"),
        ("--verify=yes", "--verify: takes no value"),
        ("--re 3", "--re: more than one option begins like this"),
        ("-w 3", "-w: unknown option"),
        ("file.txt", "train: unexpected argument 'file.txt'"),
        ("--workers 3x", "--workers: '3x' is not a whole number"),
        ("--workers -3", "--workers: '-3' is not a whole number"),
        ("--workers 2.5", "--workers: '2.5' is not a whole number"),
        ("--workers 0", "--workers: 0 is not in the range 1 to 1000000"),
        ("--workers 1e30", "--workers: 1e30 is not in the range 1 to 1000000"),
        (
            "--seed 9223372036854775808",
            "--seed: 9223372036854775808 is not in the range 0 to 9223372036854775807",
        ),
        ("--rate nan", "--rate: 'nan' is not finite"),
        ("--rate 0x1p3", "--rate: '0x1p3' is not a number"),
        ("--rate 1e", "--rate: '1e' is not a number"),
        ("--rate 0", "--rate: 0 is not in the range 0 (excluded) to 1e+09"),
        ("--l2 -1", "--l2: -1 is not in the range 0 to 1e+09"),
        ("--holdout 1", "--holdout: 1 is not in the range 0 to 0.99"),
        ("--keep some", "--keep: 'some' is not one of all, credited, auto"),
        ("--keep credited --ahead some", "--ahead: 'some' is not a whole number"),
        ("--keep credited --parts 2", "--keep: credited cannot be combined with --parts 2"),
        ("--keep credited --credit whole", "--keep: credited cannot be combined with --credit whole"),
        (
            "--keep credited --reproducible",
            "--keep: credited cannot be combined with --reproducible",
        ),
        (
            "--model resnet",
            "--model: 'resnet' is not one of least-squares, logistic, softmax, perceptron",
        ),
        ("--optimizer sgd", "--optimizer: 'sgd' is not one of gd, momentum, nesterov, adam"),
        (
            "--design ring",
            "--design: 'ring' is not one of cyclic, fractional, random, file:PATH",
        ),
        ("--order optimal --chunk-cost equal", "--chunk-cost: equal cannot be combined with --order optimal"),
        ("--order dynamic --chunk-cost heavy",
         "--chunk-cost: chunk cost 'heavy' is not one of uniform, lognormal:SD[/run], trace:FILE"),
        ("--order dynamic --credit whole", "--order: dynamic cannot be combined with --credit whole"),
        ("--order dynamic --stop workers:3",
         "--order: dynamic cannot be combined with --stop workers:3"),
        ("--order dynamic --reproducible", "--order: dynamic cannot be combined with --reproducible"),
        ("--parts some", "--parts: 'some' is not a whole number"),
        ("--parts 0", "--parts: 0 is not in the range 1 to 1000000"),
        ("--order best", "--order: 'best' is not one of optimal, random, as-is, dynamic"),
        (
            "--stop soon",
            "--stop: 'soon' is not one of exact, deadline:SECONDS, error:EPS, workers:K",
        ),
        ("--stop deadline:0", "--stop: 0 is not in the range 0 (excluded) to 1e+09"),
        ("--stop error:2", "--stop: 2 is not in the range 0 to 1"),
        ("--stop workers:x", "--stop: 'x' is not a whole number"),
        ("--hidden 64,x", "--hidden: 'x' is not a whole number"),
        ("--hidden 64,,32", "--hidden: '' is not a whole number"),
        ("--hidden 1,1,1,1,1,1,1,1,1", "--hidden: more than 8 layers"),
        ("--workers 8 --replication 9", "--replication: 9 is more than --workers 8"),
        ("--replication 3 --parts 4", "--parts: 4 is more than --replication 3"),
        ("--workers 8 --stop workers:9", "--stop: workers:9 is more than --workers 8"),
        (
            "--reproducible --stop deadline:1",
            "--reproducible: cannot be combined with --stop deadline:1",
        ),
        ("--chunks 8 --batch 7", "--batch: 7 is less than one sample for each of 8 chunks (--chunks)"),
        ("--chunks 8 --pieces 2 --batch 15", "--batch: 15 is less than one sample for each of 16 pieces (--pieces)"),
        ("--samples 20 --holdout 0.5 --chunks 8 --pieces 2",
         "--pieces: 16 in all are more than the 10 samples to train on"),
        ("--pieces 0", "--pieces: 0 is not in the range 1 to 1000000"),
        ("--samples 8 --holdout 0.5 --chunks 8", "--chunks: 8 is more than the 4 samples to train on"),
        ("--digest-steps 3", "--digest-steps: has no meaning without --sum everywhere"),
        ("--attempt-limit 3 --sum server", "--attempt-limit: has no meaning without --sum everywhere"),
        ("--silence 0", "--silence: 0 is not in the range 0.1 to 1e+09"),
        ("--labels x", "--labels: has no meaning without --data"),
        ("--test x", "--test: has no meaning without --data"),
        (
            "--data x --samples 10",
            "--samples: describes synthetic data, but --data is given",
        ),
        ("--data x --test-labels y", "--test-labels: has no meaning without --test"),
        ("--data x --test y --holdout 0.1", "--holdout: cannot be combined with --test"),
        ("--stop exact --fill stale", "--fill: stale cannot be combined with --stop exact"),
        ("--fill old", "--fill: 'old' is not one of none, scale, stale"),
        ("--model logistic --hidden 64", "--hidden: has no meaning with --model logistic"),
        ("--model logistic --classes 3", "--classes: has no meaning with --model logistic"),
        ("--report out --save out", "--save: out is the file of --report too"),
    ]

    def test_each_wrong_use_has_its_line(self):
        for arguments, line in self.CASES:
            with self.subTest(arguments=arguments):
                self.fail_with(2, "tarry: " + line, "train", *arguments.split(" "))
        self.assertEqual(self.files(), [])

    def test_an_empty_value(self):
        self.fail_with(2, "tarry: --report: the value is empty", "train", "--report", "")
        self.fail_with(2, "tarry: --workers: '' is not a whole number", "train", "--workers=")

    def test_straggler_terms(self):
        self.fail_like(2, "tarry: --straggler: .*snail.*", "train", "--straggler", "snail:3")
        self.fail_like(2, "tarry: --straggler: .*", "train", "--straggler", "dead:9")
        self.fail_with(2, "tarry: --straggler: term 'fail' is for tarry simulate", "train", "--straggler", "fail:.1")
        self.fail_with(2, "tarry: --straggler: term 'rack:K,inf' is for tarry simulate",
                       "train", "--straggler", "exp:1+rack:2,inf")
        self.fail_like(1, "tarry: --straggler: .*no.csv.*", "train", "--straggler", "trace:no.csv")

    def test_control_characters_do_not_break_the_line(self):
        self.fail_with(2, "tarry: --workers: '3?4' is not a whole number", "train", "--workers", "3\n4")
