# SPDX-License-Identifier: Apache-2.0
"""tarry top on a terminal and without one, before a server that tells what the test wants."""

import json
import os
import signal
import time

import run_server
import schema
from harness import TARRY, TarryTest
from run_server import DONE, RESTART, RunServer, document, frame, status, text, worker
from screen import Terminal

WORKERS = [
    worker(),
    worker("resting", done=4, pace=2e-3, rack="r7"),
    worker("late", done=1, came=2),
    worker("gone", done=0, heard=190, pace=None),
    worker("absent", done=0, came=0, heard=None, pace=None, received=0),
]
PICTURE = """\
round 1,234 of 5,000  24.7 %  12.3 rounds/s  5 min 05 s left
this round 43.2 ms   attempts 1   median 81.0 ms   exact rounds 1,230
loss 0.4123
5 workers: 1 gone, 1 late, 1 computing, 1 resting, 1 absent

 WORKER  STATE                    DONE      PACE  CAME  RECEIVED
      3  gone 3 min 10 s           0/4         -     1   12.3 MB
      2  late                      1/4   1.23 ms     2   12.3 MB
      4  absent                    0/4         -     0       0 B
      0  computing                 2/4   1.23 ms     1   12.3 MB
      1  resting                   4/4   2.00 ms     1   12.3 MB  r7""".split("\n")


class Top(TarryTest):
    def serve(self, *arguments, **settings):
        server = RunServer(*arguments, **settings)
        self.addCleanup(server.close)
        return server

    def on_terminal(self, server, *arguments, **settings):
        terminal = Terminal([TARRY, "top", "--connect", server.address, "--insecure", *arguments], **settings)
        self.addCleanup(terminal.close)
        return terminal


class Live(Top):
    def test_the_picture(self):
        server = self.serve(status(WORKERS))
        terminal = self.on_terminal(server)
        terminal.wait_for_text("resting")
        terminal.settle()
        self.assertEqual(terminal.screen.text(), ["tarry top  " + server.address, *PICTURE, ""])
        self.assertEqual(terminal.screen.styles, set())
        hello = server.hellos[0]
        self.assertEqual((hello[:14], hello[18]), (frame(1, b"\0" * 81)[:8] + b"TARRY\0", 1))

    def test_it_lives(self):
        server = self.serve(status(WORKERS))
        terminal = self.on_terminal(server)
        terminal.wait_for_text("round 1,234 ")
        server.send(status(WORKERS[:2], round=1235, note="loss 0.3"))
        terminal.wait_for(lambda lines: lines[3:5] == ["loss 0.3", "2 workers: 1 computing, 1 resting"])
        lines = terminal.wait_for(lambda lines: lines[9:] == [""])
        self.assertTrue(any("round 1,235 " in line for line in lines))

    def test_sizes(self):
        server = self.serve(status([worker(done=j % 5) for j in range(1000)]))
        terminal = self.on_terminal(server)
        lines = terminal.wait_for_text("and 985 more: 985 computing")
        self.assertEqual(len(lines), 24)
        for rows, columns in ((10, 80), (50, 120), (4, 20), (1, 1), (24, 80)):
            with self.subTest(rows=rows, columns=columns):
                terminal.resize(rows, columns)
                server.send(status([worker(done=j % 5) for j in range(1000)]))
                shown = rows - 9
                more = f"and {1000 - shown} more" if shown > 0 else ""
                # What stood below goes last.
                lines = terminal.wait_for(
                    lambda lines, rows=rows, more=more: len(lines) <= max(rows, 2) and more in "\n".join(lines))
                self.assertLess(max(map(len, lines)), max(columns, 2))

    def test_more_workers_than_are_listed(self):
        listed = [worker(done=j % 5) for j in range(37000)]
        terminal = self.on_terminal(self.serve(status(listed, others={"computing": 63000, "gone": 1})))
        lines = terminal.wait_for_text("and 99986 more: 1 gone, 99985 computing")
        self.assertEqual(lines[4], "100001 workers: 1 gone, 100000 computing")

    def test_signals_do_what_they_do(self):
        for act, number in ((lambda terminal: terminal.press(b"\x03"), signal.SIGINT),
                            (lambda terminal: terminal.process.send_signal(signal.SIGTERM), signal.SIGTERM)):
            terminal = self.on_terminal(self.serve(status(WORKERS)))
            terminal.wait_for_text("resting")
            act(terminal)
            self.assertEqual(terminal.end(), -number)
            self.assertTrue(terminal.is_restored())

    def test_a_server_that_comes_back(self):
        server = self.serve(status(WORKERS))
        terminal = self.on_terminal(server)
        terminal.wait_for_text("round 1,234 ")
        server.send(frame(run_server.BYE, bytes([RESTART])))
        lines = terminal.wait_for_text("no connection: the server has stopped, to be resumed; tries again")
        self.assertIn(PICTURE[0], lines)
        server.close()
        terminal.wait_for_text("no connection: Connection refused; tries again")
        again = self.serve(status(WORKERS, round=1200), port=server.port)
        terminal.wait_for_text("round 1,200 ")
        terminal.wait_for(lambda lines: not any("no connection" in line for line in lines))
        again.cut()
        terminal.wait_for_text("no connection: ")
        again.wait(2)
        terminal.wait_for(lambda lines: not any("no connection" in line for line in lines))

    def test_started_before_the_server(self):
        server = self.serve()
        server.close()
        terminal = self.on_terminal(server)
        lines = terminal.wait_for_text("no connection: Connection refused")
        self.assertEqual(lines[1], "no word from the server yet")
        self.serve(status(WORKERS), port=server.port)
        terminal.wait_for_text("round 1,234 ")

    def test_the_end_of_the_run(self):
        server = self.serve(status(WORKERS) + frame(run_server.BYE, bytes([DONE])))
        terminal = self.on_terminal(server)
        self.assertEqual(terminal.end(), 0)
        self.assertTrue(terminal.is_restored())
        lines = terminal.screen.text()
        self.assertEqual(lines[1], PICTURE[0].removesuffix("  5 min 05 s left"))
        self.assertIn(server.address + ": the run is over", lines)

    def test_refused(self):
        server = self.serve(answer=frame(run_server.REFUSED, b"\x03\0" + text(b"you are\x1b[2J nobody")))
        terminal = self.on_terminal(server)
        self.assertEqual(terminal.end(), 1)
        self.assertEqual(terminal.screen.text()[0], f"tarry: top: {server.address}: refused: you are?[2J nobody")

    def test_what_a_server_writes_moves_nothing(self):
        server = self.serve(status(WORKERS, note="\x1b[2J\x9b1m \u202e \u00e9t\u00e9 \u4f60\r"))
        terminal = self.on_terminal(server)
        lines = terminal.wait_for_text("RECEIVED")
        self.assertEqual(lines[3], "?[2J?1m ? ?t? ??")


class Once(Top):
    def test_plain_text(self):
        server = self.serve(status(WORKERS))
        for arguments in ((), ("--once",)):
            out = self.succeed("top", "--connect", server.address, "--insecure", *arguments)
            lines = out.split("\n")
            self.assertEqual(lines[0], "tarry top  " + server.address)
            self.assertEqual(lines[1], PICTURE[0])
            self.assertEqual([line[:27].rstrip() for line in lines[7:]],
                             ["      0  computing", "      1  resting", "      2  late",
                              "      3  gone 3 min 10 s", "      4  absent", ""])
            self.assertTrue(out.isprintable() or set(out) - {"\n"} <= set(map(chr, range(32, 127))))

    def test_once_on_a_terminal(self):
        server = self.serve(status(WORKERS))
        for settings in ({"columns": 100}, {"TERM": "dumb"}):
            terminal = Terminal([TARRY, "top", "--connect", server.address, "--insecure",
                                 *(["--once"] if "columns" in settings else [])], **settings)
            self.addCleanup(terminal.close)
            self.assertEqual(terminal.end(), 0)
            self.assertTrue(terminal.is_restored())
            self.assertRegex(terminal.screen.text()[1], "^round 1,234 of 5,000  ")

    def test_failures(self):
        server = self.serve(answer=frame(run_server.REFUSED, b"\x0a\0" + text(b"the run ends")))
        self.fail_with(1, f"tarry: top: {server.address}: refused: the run ends", "top", "--connect", server.address,
                       "--insecure", "--once")
        closed = self.serve()
        closed.close()
        self.fail_with(1, f"tarry: top: {closed.address}: Connection refused", "top", "--connect", closed.address,
                       "--insecure")
        self.fail_like(1, "tarry: top: nowhere/ca.pem: .*", "top", "--connect", closed.address, "--credentials",
                       "nowhere")
        self.fail_like(1, "tarry: top: 192.0.2.1:1: plain text .*", "top", "--connect", "192.0.2.1:1", "--insecure")

    def test_usage(self):
        for line, arguments in (
            ("tarry: top: say where the server is (--connect ADDRESS)", ()),
            ("tarry: --connect: node0: an address is HOST:PORT or unix:PATH", ("--connect", "node0")),
            ("tarry: top: needs --credentials (see tarry keys --help), or --insecure on this machine alone",
             ("--connect", "node0:1")),
            ("tarry: --insecure: cannot be combined with --credentials",
             ("--connect", "node0:1", "--insecure", "--credentials", "x")),
            ("tarry: --force: has no meaning without --insecure",
             ("--connect", "node0:1", "--credentials", "x", "--force")),
        ):
            self.fail_with(2, line, "top", *arguments)


class Documents(Top):
    def begin(self, *arguments):
        process = self.start(*arguments)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_once(self):
        told = document(WORKERS, note="\u00e9\x1b[2J")
        server = self.serve(status(WORKERS, note=told["run"]["note"]))
        out = self.succeed("top", "--connect", server.address, "--insecure", "--json", "--once")
        self.assertEqual(out, json.dumps(told) + "\n")
        schema.check(told)

    def test_one_per_line_until_the_end(self):
        server = self.serve(status(WORKERS))
        process = self.begin("top", "--connect", server.address, "--insecure", "--json")
        self.assertEqual(json.loads(process.stdout.readline()), document(WORKERS))
        server.send(status(WORKERS[:1], round=1235))
        self.assertEqual(json.loads(process.stdout.readline()), document(WORKERS[:1], round=1235))
        server.cut()
        self.assertEqual(json.loads(process.stdout.readline()), document(WORKERS))
        self.assertRegex(process.stderr.readline(), "^tarry: top: 127.0.0.1:[0-9]+: .*\n$")
        server.send(frame(run_server.BYE, bytes([DONE])))
        self.assertEqual(process.wait(60), 0)
        self.assertEqual(process.stdout.read() + process.stderr.read(), "")

    def test_a_server_that_is_not_there_is_complained_of_once(self):
        server = self.serve()
        server.close()
        process = self.begin("top", "--connect", server.address, "--insecure", "--json")
        self.assertEqual(process.stderr.readline(), f"tarry: top: {server.address}: Connection refused\n")
        time.sleep(1)
        again = self.serve(status(WORKERS), port=server.port)
        self.assertEqual(json.loads(process.stdout.readline()), document(WORKERS))
        again.send(frame(run_server.BYE, bytes([DONE])))
        self.assertEqual(process.wait(60), 0)
        self.assertEqual(process.stdout.read() + process.stderr.read(), "")

    def test_what_is_no_status_is_not_handed_on(self):
        another, several = {**document(WORKERS), "version": 2}, json.dumps(document(WORKERS), indent=1)
        for body, why in ((b"{}", "this is not a status of version 1"), (b"{1", "this is not a status of version 1"),
                          (json.dumps(another).encode(), "this is not a status of version 1"),
                          (several.encode(), "what came is not of this protocol")):
            server = self.serve(frame(run_server.STATUS, body))
            self.fail_with(1, f"tarry: top: {server.address}: {why}", "top", "--connect", server.address,
                           "--insecure", "--json", "--once")

    def test_of_a_run(self):
        """What servers write keeps to docs/status.schema.json, from the first word to the last."""
        for sums in ("server", "everywhere"):
            with self.subTest(sum=sums):
                address = "unix:" + sums
                server = self.begin("serve", "--listen", address, "--workers", "3", "--chunks", "3", "--replication", "2",
                                    "--rounds", "1000000", "--samples", "30", "--features", "4", "--sum", sums)
                for _ in range(3):
                    self.begin("work", "--connect", address)
                top = self.begin("top", "--connect", address, "--json")
                told = []
                while len(told) < 4 or told[-1]["run"]["rounds_done"] == 0:
                    told.append(json.loads(top.stdout.readline()))
                server.send_signal(signal.SIGINT)
                told += map(json.loads, top.stdout)
                for one in told:
                    schema.check(one)
                    self.assertEqual(one["run"]["running"], one["run"]["round_seconds"] is not None)
                self.assertGreater(told[-1]["run"]["rounds_done"], told[0]["run"]["rounds_done"])
                self.assertEqual([one["worker"] for one in told[0]["workers"]], [0, 1, 2])
                self.assertEqual(told[-1]["sum"] is not None, sums == "everywhere")
