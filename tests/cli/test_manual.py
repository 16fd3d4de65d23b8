# SPDX-License-Identifier: Apache-2.0
"""The manual pages and docs/reports.md say what the binary does: every option, every key, nothing else."""

import json
import pathlib
import re

from harness import TarryTest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def options_of_help(text):
    return set(re.findall(r"^ +--([a-z0-9-]+)", text, re.MULTILINE))


def options_of_page(name):
    items = re.findall(r"^\.It (.*)$|^(\.Fl Fl .*)$", (ROOT / "man" / name).read_text(), re.MULTILINE)
    text = "\n".join(part for item in items for part in item)
    return set(re.findall(r"Fl Fl ([a-z0-9-]+)", text))


class Manual(TarryTest):
    def test_pages_and_help_have_the_same_options(self):
        for command, page in (
            (("train",), "tarry-train.1"),
            (("serve",), "tarry-serve.1"),
            (("work",), "tarry-work.1"),
            (("privacy",), "tarry-privacy.1"),
            (("plan",), "tarry-plan.1"),
            (("plan", "--advise"), "tarry-plan-advise.1"),
            (("simulate",), "tarry-simulate.1"),
            (("keys", "init"), "tarry-keys.1"),
            (("keys", "add"), "tarry-keys.1"),
            (("top",), "tarry-top.1"),
        ):
            with self.subTest(command=command):
                known = options_of_help(self.succeed(*command, "--help"))
                described = options_of_page(page)
                self.assertEqual(known - described, set())
                if command[0] != "keys":
                    self.assertEqual(described - known, set())

    def keys(self, value):
        if isinstance(value, dict):
            for key, inner in value.items():
                yield key
                if key not in ("config", "settings"):  # the options, and the names of server.h
                    yield from self.keys(inner)
        elif isinstance(value, list):
            for inner in value[:1]:
                yield from self.keys(inner)

    def test_every_key_of_the_reports_is_described(self):
        described = set(re.findall(r"`([a-z0-9_]+)`", (ROOT / "docs" / "reports.md").read_text()))
        self.succeed("train", "--samples", "100", "--rounds", "2", "--verify", "--report", "r.json")
        self.succeed("train", "--samples", "100", "--rounds", "2", "--processes", "--report", "n.json", "--quiet")
        plan = json.loads(self.succeed("plan", "--json", "--show"))
        self.succeed("simulate", "--trials", "2", "--deadline", "1", "--report", "s.json")
        self.succeed("privacy", "--noise", "1", "--sample", "1", "--rounds", "2", "--report", "p.json")
        advice = json.loads(self.succeed("plan", "--advise", "--json", "--from", "r.json", "--trials",
                                         "1"))
        for report in (advice, json.loads(self.read("p.json")), json.loads(self.read("r.json")), json.loads(self.read("n.json")), plan, json.loads(self.read("s.json"))):
            self.assertEqual(set(self.keys(report)) - described, set())
