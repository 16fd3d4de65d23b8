# SPDX-License-Identifier: Apache-2.0
"""tarry plan: its text, its JSON, and designs from files."""

import json
import re

from harness import TarryTest

CYCLIC = """\
workers               4
chunks                4
design                cyclic, seed 1
chunks per worker     least 2, mean 2, most 2
workers per chunk     least 2, mean 2, most 2
parts                 1
Q_1                   6 chunks at worst (no order below 6)
conditioning          perfect with one part
deaths survived       any 1
random deaths         1.4 on average, median 1, p5 1, p95 2, over 1000 sequences
memory per worker     12.0 kB, 48.0 kB in all
upload per worker     4.00 kB per round, 16.0 kB in all
digest                DIGEST
"""

SMALL = ["--workers", "4", "--chunks", "4", "--pieces", "1", "--replication", "2", "--dimension", "1000",
         "--design", "cyclic", "--order", "as-is"]


class Plan(TarryTest):
    def test_golden_text(self):
        text = self.succeed("plan", *SMALL)
        self.assertEqual(re.sub(r"\b[0-9a-f]{64}\b", "DIGEST", text), CYCLIC)

    def test_data_that_colluders_never_hold(self):
        line = "never held            exactly 50 % of the data is held by none of 1 worker, whoever it is\n"
        self.assertNotIn("never held", self.succeed("plan", *SMALL))
        self.assertIn(line, self.succeed("plan", *SMALL, "--secure-colluders", "1"))
        self.assertIn("# " + line, self.succeed("plan", *SMALL, "--secure-colluders", "1", "--show"))
        for colluders, chunks in ((1, 2), (2, 0), (9, 0)):
            plan = json.loads(self.succeed("plan", *SMALL, "--json", "--secure-colluders", str(colluders)))
            self.assertEqual(plan["secure"], {"colluders": colluders, "never_held_chunks": chunks, "never_held_share": chunks / 4,
                                              "exact": True})
        many = json.loads(self.succeed("plan", "--workers", "200", "--chunks", "200", "--pieces", "1", "--replication", "8",
                                       "--json", "--secure-colluders", "20"))["secure"]
        self.assertFalse(many["exact"])  # 20 workers hold 8 chunks each, and some hold the same
        self.assertEqual(many["never_held_chunks"], 40)
        self.assertNotIn("secure", json.loads(self.succeed("plan", *SMALL, "--json")))

    def test_json(self):
        plan = json.loads(self.succeed("plan", *SMALL, "--parts", "2", "--json", "--show"))
        for key in ("command", "version", "workers", "chunks", "parts", "replication", "loads",
                    "q", "q_bound", "conditioning", "memory_bytes", "upload_bytes", "digest",
                    "seed", "design", "order", "q_by_copies", "assignment", "dimension"):
            self.assertIn(key, plan)
        self.assertEqual(plan["loads"], [2, 2, 2, 2])
        self.assertEqual(plan["upload_bytes"], 2000)
        self.assertEqual(plan["upload_bytes_total"], 4 * 2000)
        self.assertEqual(plan["memory_bytes"], 2 * 4000 + 2000)
        self.assertEqual(plan["memory_bytes_total"], 4 * (2 * 4000 + 2000))
        self.assertEqual([entry["copies"] for entry in plan["q_by_copies"]], [1, 2])
        self.assertEqual(plan["q"], plan["q_by_copies"][1]["q"])
        self.assertGreaterEqual(plan["q"], plan["q_bound"])
        self.assertTrue(plan["conditioning"]["complete"])
        self.assertEqual(plan["conditioning"]["subsets"], 4)
        self.assertGreaterEqual(plan["conditioning"]["worst"], plan["conditioning"]["median"])
        copies = sorted(chunk for chunks in plan["assignment"] for chunk in chunks)
        self.assertEqual(copies, [0, 0, 1, 1, 2, 2, 3, 3])

    def test_deaths_survived(self):
        plan = json.loads(self.succeed("plan", *SMALL, "--json"))
        self.assertEqual(plan["deaths_survived"], 1)
        random = plan["random_deaths_survived"]
        self.assertEqual(set(random), {"sequences", "mean", "p5", "median", "p95", "curve"})
        # Of the six pairs of workers the two that don't share a chunk may die.
        self.assertEqual([point["deaths"] for point in random["curve"]], [0, 1, 2])
        self.assertEqual([point["share"] for point in random["curve"][:2]], [1, 1])
        self.assertAlmostEqual(random["curve"][2]["share"], 1 / 3, delta=0.08)
        self.assertAlmostEqual(random["mean"], 1 + random["curve"][2]["share"], delta=1e-9)
        many = json.loads(self.succeed("plan", "--workers", "300", "--chunks", "300", "--parts", "2",
                                       "--replication", "5", "--json"))
        self.assertEqual(many["deaths_survived"], 3)
        curve = many["random_deaths_survived"]["curve"]
        self.assertLessEqual(len(curve), 32)
        self.assertEqual(sorted((point["share"] for point in curve), reverse=True),
                         [point["share"] for point in curve])

    def test_pieces(self):
        self.assertIn("chunks                12: 4 cut into 3 pieces each\n",
                      self.succeed("plan", *SMALL, "--pieces", "3"))
        plan = json.loads(self.succeed("plan", *SMALL, "--pieces", "3", "--json", "--show"))
        self.assertEqual((plan["chunks"], plan["pieces"]), (12, 3))
        self.assertEqual(plan["loads"], [6] * 4)
        self.assertEqual(plan["memory_bytes"], 7 * 4000)
        copies = sorted(chunk for chunks in plan["assignment"] for chunk in chunks)
        self.assertEqual(copies, sorted(2 * list(range(12))))
        self.write("pieces.txt", "\n".join(" ".join(map(str, worker))
                                           for worker in plan["assignment"]))
        again = json.loads(self.succeed("plan", *SMALL, "--chunks", "12", "--design",
                                        "file:pieces.txt", "--json"))
        self.assertEqual((again["digest"], again["pieces"]), (plan["digest"], 1))

    def test_memory_of_what_is_kept(self):
        size = ("plan", "--workers", "4", "--chunks", "64", "--replication", "2", "--dimension",
                "1000", "--json")
        kept = {keep: json.loads(self.succeed(*size, "--keep", keep)) for keep in ("all", "credited")}
        self.assertEqual(kept["all"]["memory_bytes"], (32 + 1) * 4000)
        self.assertEqual([(plan["keep"], plan["ahead"]) for plan in kept.values()],
                         [("all", None), ("credited", 3)])
        # The sum, the gradient that is computed, and those ahead: never more than there are chunks.
        for ahead, vectors in (("auto", 5), ("0", 2), ("1", 3), ("30", 32), ("31", 33), ("1000", 33)):
            plan = json.loads(self.succeed(*size, "--keep", "credited", "--ahead", ahead))
            self.assertEqual(plan["memory_bytes"], vectors * 4000)
            self.assertEqual(plan["memory_bytes_total"], 4 * vectors * 4000)
        self.fail_with(2, "tarry: --ahead: '-1' is not a whole number", *size, "--ahead", "-1")
        self.fail_with(2, "tarry: --keep: credited cannot be combined with --parts 2", *size, "--keep", "credited",
                       "--parts", "2")

    def test_racks(self):
        job = ["--workers", "12", "--chunks", "12", "--dimension", "1000"]
        text = self.succeed("plan", *job, "--racks", "4")
        self.assertIn("racks                 3, of 4 workers; at most 1 copy of a chunk in one\n", text)
        self.assertIn("any single rack       may die: each chunk keeps 2 copies, and needs 1\n", text)
        text = self.succeed("plan", *job, "--racks", "7", "--parts", "2")
        self.assertIn("racks                 2, of 5 to 7 workers; at most 2 copies of a chunk in one, "
                      "as there are fewer racks than copies\n", text)
        self.assertIn("any single rack       may not die: each chunk keeps 1 copy, and needs 2\n", text)
        self.assertNotIn("rack", self.succeed("plan", *job))
        self.write("racks", "a b\n")
        self.fail_with(1, "tarry: plan: racks:1: more than the name of one rack", "plan", *job, "--racks", "racks")
        self.fail_with(2, "tarry: --racks: 13 is more than --workers 12", "plan", *job, "--racks", "13")
        names = ["left", "right", "-"] * 4
        self.write("racks", "# names\n" + "\n".join(names) + "\n")
        racks = json.loads(self.succeed("plan", *job, "--racks", "racks", "--json"))["racks"]
        self.assertEqual(racks, {"count": 6, "rack": [0, 1, 2, 0, 1, 3, 0, 1, 4, 0, 1, 5], "copies_together": 1,
                                 "copies_left": 2, "any_may_die": True})
        self.assertIsNone(json.loads(self.succeed("plan", *job, "--json"))["racks"])

    def test_equal_seeds_equal_plans(self):
        def digest(seed):
            return json.loads(self.succeed("plan", "--json", "--workers", "20", "--chunks", "30",
                                           "--seed", seed))["digest"]
        self.assertEqual(digest("5"), digest("5"))
        self.assertNotEqual(digest("5"), digest("6"))

    def test_workers_without_chunks_are_shown(self):
        shown = self.succeed("plan", "--workers", "6", "--chunks", "2", "--replication", "1", "--show", "--pieces", "1")
        self.assertEqual(sorted(line for line in shown.splitlines() if not line.startswith("#")), ["-"] * 4 + ["0", "1"])
        self.write("design.txt", shown)
        self.succeed("plan", "--workers", "6", "--chunks", "2", "--replication", "1", "--design", "file:design.txt")

    def test_what_it_shows_is_a_design(self):
        shown = self.succeed("plan", "--show", "--pieces", "1")
        self.write("design.txt", shown)
        again = self.succeed("plan", "--show", "--design", "file:design.txt", "--order", "as-is")
        assignment = [line for line in shown.splitlines() if not line.startswith("#")]
        self.assertEqual(len(assignment), 8)
        self.assertEqual([line for line in again.splitlines() if not line.startswith("#")],
                         assignment)
        self.assertEqual(shown.splitlines()[10], again.splitlines()[10])

    def test_the_known_optimum(self):
        plan = json.loads(self.succeed("plan", "--workers", "200", "--chunks", "200",
                                       "--replication", "8", "--pieces", "1", "--json"))
        self.assertEqual((plan["q"], plan["q_bound"]), (1565, 1565))

    def test_broken_design_files(self):
        self.fail_like(1, "tarry: plan: no.txt: No such file or directory",
                       "plan", "--design", "file:no.txt")
        self.write("bad.txt", "0 1\n0 x\n")
        self.fail_like(1, r"tarry: plan: bad.txt:2: .*", "plan", "--workers", "2", "--chunks", "2",
                       "--design", "file:bad.txt")
