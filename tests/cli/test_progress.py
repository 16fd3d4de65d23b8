# SPDX-License-Identifier: Apache-2.0
"""The progress line on a terminal: redrawn in place, cut to the terminal's width, gone at the end."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading

from harness import TARRY, TIMEOUT, TarryTest

RUN = ["train", "--samples", "400", "--features", "5", "--rounds", "40", "--straggler",
       "shifted-exp:0.01,0"]
LEFT = r"(\S+ (s|ms|us)|\d+ min \d\d s|\d+ h \d\d min)"


class Terminal(TarryTest):
    def run_on_terminal(self, columns, *arguments):
        """stderr as it goes to a terminal of so many columns, with the exit status."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        pieces = []

        def drain():
            try:
                while piece := os.read(master, 4096):
                    pieces.append(piece)
            except OSError:  # the other side is closed
                pass

        process = subprocess.Popen([TARRY, *arguments], cwd=self.folder, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=slave)
        os.close(slave)
        reader = threading.Thread(target=drain)
        reader.start()
        try:
            status = process.wait(timeout=TIMEOUT)
        finally:
            process.kill()
            reader.join()
            os.close(master)
        return status, b"".join(pieces).decode()

    def test_one_line_redrawn(self):
        status, text = self.run_on_terminal(100, *RUN)
        self.assertEqual(status, 0)
        self.assertNotIn("\n", text)
        lines = text.split("\r")
        self.assertEqual((lines[0], lines[-1]), ("", "\x1b[K"))
        self.assertGreaterEqual(len(lines), 4)
        pattern = (r"round \d+/40  \S+/s  " + LEFT + r" left  loss 0\.\d+  "
                   r"\d\.\d\d copies/chunk  \d/8 heard\x1b\[K")
        for line in lines[1:-1]:
            self.assertTrue(re.fullmatch(pattern, line), line)
        self.assertIn("round 40/40 ", lines[-2])

    def test_trials(self):
        status, text = self.run_on_terminal(100, "simulate", "--workers", "100", "--chunks", "100", "--trials",
                                            "200")
        self.assertEqual(status, 0)
        self.assertRegex(text, r"\rrun \d+/600  \S+/s  " + LEFT + r" left\x1b\[K\r")
        self.assertTrue(text.endswith("\r\x1b[K"))

    def test_a_narrow_terminal(self):
        status, text = self.run_on_terminal(30, *RUN)
        self.assertEqual(status, 0)
        for line in text.split("\r")[1:-1]:
            self.assertEqual(len(line.removesuffix("\x1b[K")), 29)

    def test_an_error_follows_a_cleared_line(self):
        status, text = self.run_on_terminal(100, *RUN, "--model", "least-squares", "--rate", "1e9")
        self.assertEqual(status, 1)
        self.assertRegex(text, r"\r\x1b\[Ktarry: train: the loss is not finite [^\r\n]*\r\n$")

    def test_quiet(self):
        self.assertEqual(self.run_on_terminal(100, *RUN, "--quiet"), (0, ""))
