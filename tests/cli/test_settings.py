# SPDX-License-Identifier: Apache-2.0
"""Every pair of settings in the four commands that have them: those that don't go together end the same way, at once,
with both named; all others are accepted, and a default yields to whatever is given."""

import itertools
import json
import os
import subprocess

from harness import TARRY, TIMEOUT, TarryTest

# A setting, by a name of its own, and its flags. What a flag of a number needs to be in the range of others is there too.
VALUES = {
    "static": "--order optimal",
    "dynamic": "--order dynamic",
    "one part": "--parts 1",
    "two parts": "--parts 2",
    "four parts": "--parts 4",
    "from a file": "--design file:plan.txt",
    "one copy": "--replication 1",
    "five copies": "--replication 5",
    "three workers": "--workers 3",
    "racks of five": "--racks 5",
    "whole": "--credit whole",
    "by chunk": "--credit chunk",
    "all": "--keep all",
    "credited": "--keep credited",
    "kept auto": "--keep auto",
    "exact": "--stop exact",
    "deadline": "--stop deadline:5",
    "error": "--stop error:0.5",
    "four finish": "--stop workers:4",
    "everywhere": "--sum everywhere",
    "scale": "--fill scale",
    "stale": "--fill stale",
    "nothing filled": "--fill none",
    "int8": "--compress int8",
    "bf16": "--compress bf16",
    "int4": "--compress int4",
    "topk": "--compress topk:0.01",
    "down": "--compress-down int8",
    "sign": "--compress sign",
    "powersgd": "--compress powersgd:2",
    "adapts": "--adapt 2",
    "equal": "--chunk-cost equal",
    "reproducible": "--reproducible",
    "six pieces": "--pieces 6",
    "ahead": "--ahead 1",
}

# What can't go together: the setting that is named first, and the other one.
IMPOSSIBLE = {
    **{("dynamic", other): "cannot be combined with" for other in ("whole", "four finish", "reproducible")},
    **{("credited", other): "cannot be combined with"
       for other in ("two parts", "four parts", "whole", "reproducible", "stale")},
    **{(learned, other): "cannot be combined with"
       for learned in ("adapts", "equal") for other in ("static", "whole", "four finish", "reproducible")},
    **{(form, other): "cannot be combined with"
       for form in ("int8", "bf16", "int4", "topk", "sign", "powersgd") for other in ("two parts", "four parts")},
    **{(form, other): "cannot be combined with" for form in ("int4", "topk", "sign", "powersgd") for other in ("scale", "everywhere")},
    ("reproducible", "deadline"): "cannot be combined with",
    **{(fill, "exact"): "cannot be combined with" for fill in ("scale", "stale")},
    **{(many, "three workers"): "is more than" for many in ("four parts", "five copies", "racks of five", "four finish")},
    **{(parts, "one copy"): "is more than" for parts in ("two parts", "four parts")},
}

# What only three of can't.
IMPOSSIBLE_THREE = [{"down", "everywhere", parts} for parts in ("two parts", "four parts")]

COMMANDS = ("train", "serve", "simulate", "plan")
FULL = bool(os.environ.get("TARRY_TEST_FULL"))  # each pair by each command; else the commands take turns
# In simulations the costs of chunks are those of the world, and everything is reproducible.
NOT_SIMULATED = {"equal", "reproducible", "everywhere"}
SIMULATED = ["--scheme", "own", "--trials", "1", "--chunks", "8", "--dimension", "64", "--quiet"]
# With a matrix for each form.
SMALL = ["--samples", "200", "--features", "8", "--model", "perceptron", "--hidden", "8"]
RUNS = {
    "train": [*SMALL, "--rounds", "1", "--quiet"],
    # Ends where everything was checked and the address turns out to be of nobody here.
    "serve": [*SMALL, "--rounds", "1", "--quiet", "--insecure", "--listen", "unix:no-folder/socket"],
    "simulate": SIMULATED,
    "plan": [],
}


def line_of(first, second):
    flag, _, value = VALUES[first].partition(" ")
    words = IMPOSSIBLE[first, second]
    return f"tarry: {flag}: {value}{' ' if value else ''}{words} {VALUES[second]}\n"


def flag_of(name):
    return VALUES[name].split()[0]


def may_meet(one, other):
    # What a file says of copies is not known here.
    by_file = {one, other} & {"from a file"} and {one, other} & {"four parts", "three workers", "five copies"}
    return not by_file and flag_of(one) != flag_of(other) and not {(one, other), (other, one)} & IMPOSSIBLE.keys()


def crowds(names):
    """Sets of settings that go together, such that every two which do are in one of them."""
    left = {pair for pair in itertools.combinations(names, 2) if may_meet(*pair)}
    while left:
        crowd = list(min(left))
        for name in sorted(names, key=lambda name: -sum(name in pair for pair in left)):
            grown = {*crowd, name}
            if (name not in crowd and all(may_meet(name, other) for other in crowd)
                    and not any(three <= grown for three in IMPOSSIBLE_THREE)):
                crowd.append(name)
        left -= {pair for pair in left if set(pair) <= set(crowd)}
        yield crowd


class Pairs(TarryTest):
    def setUp(self):
        super().setUp()
        self.write("plan.txt", "0 1 2\n3 4 5\n6 7 0\n1 2 3\n4 5 6\n7 0 1\n2 3 4\n5 6 7\n")

    def run_with(self, command, *settings, scheme=None):
        arguments = [*RUNS[command], *" ".join(VALUES[name] for name in settings).split()]
        if command == "simulate" and "three workers" not in settings:
            arguments += ["--workers", "8"]
        if scheme is not None:
            arguments = ["--trials", "1", "--workers", "8", "--chunks", "8", "--quiet", "--scheme", scheme]
        return subprocess.run([TARRY, command, *arguments], capture_output=True, text=True, timeout=TIMEOUT,
                              cwd=self.folder)

    def has(self, command, pair):
        return command != "simulate" or not NOT_SIMULATED & set(pair)

    def test_what_does_not_go_together_is_refused_with_the_same_words(self):
        for number, pair in enumerate(IMPOSSIBLE):
            commands = [command for command in COMMANDS if self.has(command, pair)]
            for command in commands if FULL else [commands[number % len(commands)]]:
                with self.subTest(command=command, pair=pair):
                    done = self.run_with(command, *(pair if command != "plan" else pair[::-1]))
                    self.assertEqual((done.returncode, done.stderr, done.stdout), (2, line_of(*pair), ""))

    def test_the_same_as_keys_of_a_scheme(self):
        for pair in IMPOSSIBLE:
            if not self.has("simulate", pair) or "three workers" in pair:
                continue
            for base in ("own",) if "static" in pair or "exact" in pair else ("own", "tarry"):
                keys = [VALUES[name].removeprefix("--").replace(" ", "=") for name in pair]
                scheme = f"{base}:" + ",".join(keys)
                with self.subTest(scheme=scheme):
                    done = self.run_with("simulate", scheme=scheme)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertEqual(done.stderr.count("\n"), 1)
                    told = done.stderr.partition(scheme)[2]
                    if base == "own":
                        for key in keys:
                            self.assertIn(key.replace("=", ": ", 1) if key == keys[0] else key.replace("=", " "), told)
                    self.assertTrue("cannot be combined with" in told or "is more than" in told, told)

    def test_all_others_are_accepted(self):
        for command in ("plan", "simulate", "train") if FULL else ("plan", "train"):
            names = [name for name in VALUES if self.has(command, (name,))]
            for crowd in crowds(names):
                with self.subTest(command=command, crowd=crowd):
                    done = self.run_with(command, *crowd)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_what_is_no_setting_goes_with_all(self):
        """As docs/pairs.md says; with workers as threads, and as processes."""
        others = ["--verify", "--holdout", "0.2", "--straggler", "slow:2,2", "--evaluate", "2", "--optimizer", "adam"]
        for number, crowd in enumerate(crowds([name for name in VALUES if name != "three workers"])):
            flags = [*RUNS["train"], *" ".join(VALUES[name] for name in crowd).split(), *others]
            for run in (["--checkpoint", f"c{number}"], ["--checkpoint", f"c{number}", "--resume", "--rounds", "2"],
                        ["--processes", "--batch", "100"]):
                with self.subTest(crowd=crowd, run=run):
                    done = subprocess.run([TARRY, "train", *flags, *run], capture_output=True, text=True, timeout=TIMEOUT,
                                          cwd=self.folder)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_default_yields(self):
        """Alone, no setting is refused by any command."""
        for name in VALUES:
            for command in COMMANDS:
                if not self.has(command, (name,)):
                    continue
                with self.subTest(command=command, setting=name):
                    done = self.run_with(command, name)
                    if command == "serve":
                        self.assertIn("no-folder", done.stderr)
                    else:
                        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_what_the_defaults_are(self):
        report = json.loads(self.succeed("plan", "--json"))
        self.assertEqual((report["order"], report["pieces"], report["keep"]), ("dynamic", 8, "credited"))
        self.succeed("train", *RUNS["train"], "--report", "r.json")
        config = json.loads(self.read("r.json"))["config"]
        self.assertEqual((config["order"], config["pieces"], config["keep"]), ("dynamic", 8, "auto"))
        self.succeed("simulate", *SIMULATED, "--scheme", "tarry", "--workers", "8", "--report", "s.json")
        result, = json.loads(self.read("s.json"))["results"]
        self.assertEqual((result["settings"]["order"], result["pieces"]), ("dynamic", 8))
        for given, order in (("--reproducible", "optimal"), ("--credit whole", "optimal"), ("--stop error:0.5", "dynamic")):
            self.assertEqual(json.loads(self.succeed("plan", "--json", *given.split()))["order"], order)
        few = json.loads(self.succeed("plan", "--json", "--workers", "2", "--chunks", "64"))
        self.assertEqual((few["replication"], few["pieces"]), (2, 1))
        self.assertEqual(json.loads(self.succeed("plan", "--json", "--replication", "9"))["workers"], 9)
        self.assertIn(": 201 workers,", self.succeed("simulate", "--scheme", "own", "--trials", "1", "--chunks", "2",
                                                     "--replication", "201"))

    def test_pieces_and_chunks_yield_to_few_samples(self):
        def sizes(*options):
            self.succeed("train", "--features", "2", "--rounds", "2", "--quiet", "--report", "few.json", *options)
            plan = json.loads(self.read("few.json"))["plan"]
            return plan["chunks"] // plan["pieces"], plan["pieces"]
        self.assertEqual(sizes("--samples", "60", "--holdout", "0.5"), (8, 3))
        self.assertEqual(sizes("--samples", "8", "--holdout", "0.5"), (4, 1))
        self.assertEqual(sizes("--samples", "200", "--batch", "20"), (8, 2))
        self.assertEqual(sizes("--samples", "200", "--batch", "5"), (5, 1))
        self.assertEqual(sizes("--samples", "200", "--batch", "20", "--pieces", "10"), (2, 10))

    def test_running_sums_are_kept_wherever_they_can_be(self):
        for options, keep in (("", "credited"), ("--parts 2", "all"), ("--reproducible", "all"),
                              ("--credit whole", "all"), ("--keep all", "all"), ("--stop error:0.5 --fill stale", "all"),
                              ("--order optimal", "credited"), ("--sum everywhere", "credited")):
            with self.subTest(options=options):
                self.assertEqual(json.loads(self.succeed("plan", "--json", *options.split()))["keep"], keep)

    def test_memory_limits_how_far_ahead_workers_run(self):
        for dimension, ahead in (("10", 8), ("1e11", 3)):
            self.assertEqual(json.loads(self.succeed("plan", "--json", "--dimension", dimension))["ahead"], ahead)
